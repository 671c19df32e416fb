"""The small experiment that settles what published numbers cannot."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from pulsewarp import chips
from pulsewarp.bench.shapes import MODELS
from pulsewarp.chips import Source
from pulsewarp.guide import machines
from pulsewarp.guide.band import Band, short
from pulsewarp.guide.costs import ChipEstimate, Comparison, list_price
from pulsewarp.guide.machines import MACHINES, Machine
from pulsewarp.guide.pilot_files import as_gcloud, as_terraform
from pulsewarp.guide.workload import Workload

# The model's typical error on sources it has not seen is about this factor: a measured difference below
# it is no reason to move.
WORTH_MOVING = 1.25
WARM_UP_STEPS, TIMED_STEPS, REPEATS = 20, 100, 3
SCALE = 8
"""How many times the chips of one host the last measured day takes."""

# Machine hours of the days that rent something: one chip a working day, one host two days and a third for the
# real input, eight times as much for half a working day.
CHIP_HOURS, HOST_HOURS, SCALED_HOURS = 8, 24, 4

_RENTED = ("any", "gcp_ok", "gcp_only", "multi_cloud")
# Where no chip was compared: what most people can rent.
_STAND_IN = {"gpu": "h100_sxm", "tpu": "tpu_v6e"}
_DTYPES = {"fp32": "float32", "fp16": "float16", "int8": "int8", "fp8": "float8_e4m3fn"}


@dataclass(frozen=True)
class Command:
    """A command to type, why, and who says that it is so.

    Attributes
    ----------
    text, why : str
        The command as a shell takes it, and what it is for.
    source : chips.Source or None
        Where its words were read; None for this package's own commands.
    unverified : str
        What no source settles; empty where they agree.
    """

    text: str
    why: str
    source: Source | None = None
    unverified: str = ""


@dataclass(frozen=True)
class Day:
    """One day of a pilot, small enough to be the last.

    Attributes
    ----------
    name, does, stop_if : str
        What it is called, what is done, and what ends the pilot here.
    commands : tuple of Command
        In order; empty where nothing is typed.
    """

    name: str
    does: str
    stop_if: str
    commands: tuple[Command, ...] = ()


@dataclass(frozen=True)
class Pilot:
    """A question, what to measure, when to stop, the days, and the files that rent the hardware.

    Attributes
    ----------
    question, metric, stop_ratio : str
        Written down before anything is measured.
    days : tuple of Day
        In order, each small enough to be the last.
    watch : tuple of str
        What to keep an eye on while it runs.
    machines : tuple of Machine
        What is rented, one for each side that is still open; empty where nothing is.
    remarks : tuple of str
        Why a machine is another one than the comparison's, or why none is rented.
    cost_usd : Band or None
        What the rented hours cost at the on-demand prices; None where a price is not known.
    """

    question: str
    metric: str
    stop_ratio: str
    days: tuple[Day, ...]
    watch: tuple[str, ...] = ()
    machines: tuple[Machine, ...] = ()
    remarks: tuple[str, ...] = ()
    cost_usd: Band | None = None

    def __repr__(self) -> str:
        rented = ", ".join(machine.host for machine in self.machines)
        return f"Pilot({self.question!r}, days={len(self.days)}, machines=[{rented}])"

    @property
    def steps(self) -> tuple[str, ...]:
        """The days as sentences."""
        return tuple(f"{day.name}: {day.does}" for day in self.days)

    @property
    def commands(self) -> tuple[Command, ...]:
        """Every command of every day, in order."""
        return tuple(command for day in self.days for command in day.commands)

    def terraform(self) -> str:
        """Return a Terraform file that rents one host of each machine, with a budget alert.

        Raises
        ------
        ValueError
            When the pilot rents nothing.
        """
        self._rents_something("Terraform file")
        return as_terraform(self.machines, self._budget_usd())

    def gcloud(self) -> str:
        """Return a shell script for gcloud: budget alert, one chip, one host, a drill, and the end.

        Raises
        ------
        ValueError
            When the pilot rents nothing.
        """
        self._rents_something("gcloud script")
        return as_gcloud(self.machines, self._budget_usd())

    def _rents_something(self, file: str) -> None:
        if not self.machines:
            why = self.remarks[0] if self.remarks else "it rents nothing."
            raise ValueError(f"This pilot has no {file}: {why}")

    def _budget_usd(self) -> int | None:
        return None if self.cost_usd is None else 100 * math.ceil(self.cost_usd.high / 100)


def plan_pilot(workload: Workload, verdict: str, comparison: Comparison) -> Pilot:
    """Plan the pilot that would settle, or confirm, a verdict.

    Where the verdict is a side, that side is rented and held to what is expected of it; where it is either,
    both are. On each it is the chip that the comparison found cheapest, or the one that the workload names.
    Where nothing can be rented, the pilot is for the hardware that is there.

    Parameters
    ----------
    workload : Workload
        What is to run.
    verdict : str
        "gpu", "tpu", "either" or "neither".
    comparison : Comparison
        The cost comparison behind it.

    Returns
    -------
    Pilot
        Question, metric, stop ratio, days, commands and files.
    """
    if verdict == "neither":
        return _without_accelerator()
    if workload.location == "edge_device":
        return _on_a_device()
    sides = ("tpu", "gpu") if verdict == "either" else (verdict,)
    chosen = {side: _chosen(workload, comparison, side) for side in sides}
    rented, remarks = _machines(workload, comparison, chosen)
    question, stop = _question(workload, sides, comparison, chosen)
    return Pilot(
        question=question,
        metric=_metric(workload, sides),
        stop_ratio=stop,
        days=_days(workload, sides, rented, bool(comparison.estimates)),
        watch=_WATCH if rented else _WATCH[:_RENTED_ONLY],
        machines=rented,
        remarks=(*remarks, *_too_small_for_it(rented, chosen)),
        cost_usd=_cost(rented, comparison),
    )


# --- what is asked ------------------------------------------------------------------------------------------


def _without_accelerator() -> Pilot:
    return Pilot(
        "Does an accelerator help at all?",
        "Seconds for a fixed piece of work on the CPU, and on one small GPU",
        "Stop if the GPU is less than twice as fast as the CPU.",
        (
            Day(
                "Time the CPU",
                f"{TIMED_STEPS} steps, and what share of them is arithmetic and what share waits.",
                "Most of the time waits for something that no accelerator makes faster.",
            ),
            Day(
                "Time one GPU",
                "The same steps on a GPU at hand or by the hour.",
                "It is less than twice as fast.",
                (Command("pulsewarp bench --sweep thin --out gpu.json", "The bare products on it."),),
            ),
            Day(
                "Ask again",
                "When the model, the batch or the number of requests has grown.",
                "Nothing has grown.",
            ),
        ),
        remarks=("The verdict is neither, so no chip is rented.",),
    )


def _on_a_device() -> Pilot:
    """Plan for a device in the field: its compiler says what runs, a meter and a clock what that costs."""
    return Pilot(
        "Does the whole model run on the device's accelerator, and fast enough?",
        "Milliseconds and joules a result, and the share of operations that fall back to the CPU",
        "Stop when an operation of the main part falls back, or quality is lost that you need.",
        (
            Day(
                "Paper day",
                "The device's list of operations against the model's; write down milliseconds, watts and "
                "quality that you need.",
                "An operation that cannot be replaced is not on the list.",
                (Command("pulsewarp advise workload.yaml --html report.html", "Before anything runs."),),
            ),
            Day(
                "Convert",
                "Quantise with a few hundred of your own inputs, compile for the device, read which "
                "operations stayed on the CPU; compare results with float32.",
                "More than a few per cent of the time would stay on the CPU, or quality falls below yours.",
            ),
            Day(
                "On the device",
                f"{WARM_UP_STEPS} results dropped, {TIMED_STEPS} timed, {REPEATS} repeats, median and range, "
                "one at a time, warm and in its case; power with a meter. The same on a small GPU module and "
                "on the CPU alone.",
                "The CPU alone is fast enough, or the case grows too hot.",
            ),
            Day(
                "Decide", "Write both measurements beside the needs of the paper day.", "Both needs are met."
            ),
        ),
        remarks=("On a device of your own nothing is rented.",),
    )


def _metric(workload: Workload, sides: tuple[str, ...]) -> str:
    serves = workload.phase == "inference"
    unit = "a million output tokens at your latency" if serves else "a billion training tokens"
    if workload.domain not in ("llm", "any"):
        unit = "a thousand results" if serves else "an epoch to the same quality"
    money = "US dollars" if workload.location in _RENTED else "Hours"
    port = ", port included" if workload.location in _RENTED and "tpu" in sides else ""
    return f"{money} for {unit}{port}, on the same model, data, precision and quality"


def _question(
    workload: Workload,
    sides: tuple[str, ...],
    comparison: Comparison,
    chosen: dict[str, ChipEstimate | None],
) -> tuple[str, str]:
    if len(sides) == 2:
        known = comparison.ratio
        ratio = "unknown today" if known is None else f"{short(known.value)} by published numbers"
        return (
            f"Is a TPU or a GPU cheaper for this work (TPU over GPU: {ratio})?",
            f"Stop at {WORTH_MOVING:g} times cheaper in {REPEATS} repeats, or when the port exceeds its "
            "budget.",
        )
    side = sides[0].upper()
    estimate = chosen[sides[0]]
    usd = None if estimate is None else estimate.usd
    unit = "US dollars a billion tokens" if estimate and estimate.training else "US dollars a million tokens"
    if usd is None:
        most = "cost more than the budget" if workload.location in _RENTED else "take longer than the time"
        return (
            f"Does this work run on a {side} as well as you need it to?",
            f"Stop when {REPEATS} repeats {most} that you write down first.",
        )
    return (
        f"Does this work run on a {side} as well as published numbers promise: {usd} {unit}?",
        f"Stop when {REPEATS} repeats cost more than {short(usd.high)} {unit}, the band's upper edge.",
    )


# --- what is rented -----------------------------------------------------------------------------------------


def _chosen(
    workload: Workload, comparison: Comparison, side: str, *, rentable: bool = False
) -> ChipEstimate | None:
    """Return the cheapest chip of a side, or the named one where no cost is known."""
    of_side = [
        e for e in comparison.estimates if e.family == side and (e.chip_id in MACHINES or not rentable)
    ]
    priced = [(usd.value, e) for e in of_side if (usd := e.usd) is not None]
    if priced:
        return min(priced, key=lambda pair: pair[0])[1]
    named = {"gpu": workload.gpu_chip, "tpu": workload.tpu_chip}[side]
    return next((e for e in of_side if e.chip_id == named), None)


def _machines(
    workload: Workload, comparison: Comparison, chosen: dict[str, ChipEstimate | None]
) -> tuple[tuple[Machine, ...], tuple[str, ...]]:
    if workload.location not in _RENTED:
        text = f"With location {workload.location!r} nothing is rented: use the hardware that is there."
        return (), (text,)
    found, remarks = [], []
    for side, estimate in chosen.items():
        named = {"gpu": workload.gpu_chip, "tpu": workload.tpu_chip}[side]
        wanted = named if estimate is None else estimate.chip_id
        machine = MACHINES.get(wanted or _STAND_IN[side])
        if wanted is None:
            remarks.append(
                f"No {side.upper()} was compared, so {chips.get(_STAND_IN[side]).name} stands in for one."
            )
        elif machine is None:
            other = _chosen(workload, comparison, side, rentable=True)
            machine = MACHINES[_STAND_IN[side] if other is None else other.chip_id]
            remarks.append(
                f"No machine type was read for {chips.get(wanted).name}, so "
                f"{chips.get(machine.chip_id).name} is rented in its place."
            )
        assert machine is not None  # every stand-in has one
        found.append(machine)
        if machine.remark:
            remarks.append(f"{chips.get(machine.chip_id).name}: {machine.remark}.")
    return tuple(found), tuple(remarks)


def _cost(rented: tuple[Machine, ...], comparison: Comparison) -> Band | None:
    """Return the rented hours at on-demand prices; flex-start and spot cost less."""
    prices = {e.chip_id: e.usd_per_chip_hour for e in comparison.estimates}
    total = Band(0.0, 0.0, 0.0)
    for machine in rented:
        price = prices.get(machine.chip_id) if prices else list_price(machine.chip_id)
        if price is None:
            return None
        part = price * pilot_chip_hours(machine)
        total = Band(total.low + part.low, total.value + part.value, total.high + part.high)
    return total if rented else None


def pilot_chip_hours(machine: Machine) -> int:
    """Count the chip-hours that a pilot rents of one machine.

    Parameters
    ----------
    machine : Machine
        One of `machines.MACHINES`.

    Returns
    -------
    int
        One chip for `CHIP_HOURS`, one host for `HOST_HOURS`, `SCALE` hosts for `SCALED_HOURS`.

    Examples
    --------
    >>> pilot_chip_hours(MACHINES["h100_sxm"])
    456
    """
    return (
        machine.smallest_chips * CHIP_HOURS
        + machine.host_chips * HOST_HOURS
        + SCALE * machine.host_chips * SCALED_HOURS
    )


# --- the days -----------------------------------------------------------------------------------------------

_RENTED_ONLY = -2  # the last two lines are for what is rented
_WATCH = (
    "Tokens or results a second for each chip, step time as median and range, results against float32.",
    "Recompilations after warm-up (none should come), memory in use, host wait, input queue depth.",
    "Goodput: the share of rented time that ends in kept steps; every restart counts against it.",
    "Checkpoints: one is written before the first hour ends, and one is read back before it is trusted.",
    "Preemption drill: stop one host in the middle of a step; the run must go on from its last checkpoint.",
    "Budget alarm: half, nine tenths and all of the budget; it warns and stops nothing, so every machine "
    "also ends by itself.",
)


def _days(
    workload: Workload, sides: tuple[str, ...], rented: tuple[Machine, ...], compared: bool
) -> tuple[Day, ...]:
    each = " of each side" if len(sides) == 2 else ""
    serves = workload.phase == "inference"
    reads = "prefill and decode" if workload.domain in ("llm", "any") else "forward passes"
    runs = reads if serves else "forward and backward"
    away = workload.location in _RENTED
    return (
        Day(
            "Paper day",
            "Gates, memory, estimates, compilation ahead of time; write down what would stop you.",
            "A gate has no way round that you would pay for.",
            (
                Command("pulsewarp advise workload.yaml --html report.html", "Before anything runs."),
                *_budget_command(rented),
            ),
        ),
        Day(
            "One chip",
            f"One chip{each}: {runs} on synthetic data; list unsupported operations and "
            "recompilations; compare with float32.",
            "An operation of the main loop has no lowering, or results leave the float32 run's.",
            (
                *(_cluster(machine) for machine in rented if machine.route == "gke"),
                *(_rent(machine, machine.smallest, "chip") for machine in rented),
                *_bench(workload, sides),
                *_give_back(
                    tuple(machine for machine in rented if machine.route == "compute"),
                    "Before the host is asked for, which takes the same name.",
                ),
            ),
        ),
        Day(
            "One host",
            f"One host{each}: {WARM_UP_STEPS} steps of warm-up dropped, {TIMED_STEPS} timed, {REPEATS} "
            "repeats, median and range; compile time apart.",
            "The cost is beyond the stop ratio and no repeat comes near it.",
            tuple(_rent(machine, machine.host, "host") for machine in rented),
        ),
        Day(
            "Real input",
            "Your own input pipeline on the same host, and the same steps timed again.",
            "The chip waits for its input more than it computes.",
        ),
        *((_scale(rented),) if away else _at_home(workload)),
        Day(
            "Feed back",
            f"Put measured speed{' and real quotes' if away else ''} into the workload, ask again, decide; "
            "keep a way back."
            if compared
            else f"Divide {'quotes' if away else 'the hours at hand'} by results an hour, for each machine; "
            "put what was learnt into the workload, ask again, decide; keep a way back.",
            "The verdict and its flips no longer move.",
            (
                *_give_back(rented, "Nothing is paid for any longer."),
                *_compare(sides),
                _feedback(workload, sides, rented if compared else ()),
            ),
        ),
    )


def _scale(rented: tuple[Machine, ...]) -> Day:
    return Day(
        "Scale",
        f"{SCALE} times the chips with one preemption injected.",
        f"{SCALE} times the chips give less than half of {SCALE} times the speed, or work is lost.",
        tuple(_preempt(machine) for machine in rented if machine.route == "compute")[:1],
    )


def _at_home(workload: Workload) -> tuple[Day, ...]:
    """All chips that are there; none where a notebook service lends one machine."""
    if workload.location in ("colab", "kaggle"):
        return ()
    return (
        Day(
            "All of it",
            "Every chip that is there, and one stop in the middle of a step.",
            "Twice the chips give much less than twice the speed, or work is lost.",
        ),
    )


def _too_small_for_it(rented: tuple[Machine, ...], chosen: dict[str, ChipEstimate | None]) -> Iterator[str]:
    """Say where one host does not hold the model, so that the first days need a part of it."""
    for machine in rented:
        estimate = chosen[chips.get(machine.chip_id).family]
        if estimate is None or estimate.chip_id != machine.chip_id or estimate.memory is None:
            continue
        if estimate.memory.chips > machine.host_chips:
            yield (
                f"One host of {estimate.name} has {machine.host_chips} chips and the model needs "
                f"{estimate.memory.chips}: until the last day run as many of its layers as fit, and count "
                "their time for all."
            )


def _rent(machine: Machine, kind: str, what: str) -> Command:
    side = chips.get(machine.chip_id).family
    text = f"bash pilot.sh {side}-{what}"
    more = f" with {machine.smallest_chips} chips" if what == "chip" and machine.smallest_chips > 1 else ""
    if machine.route == "gke":
        return Command(
            text,
            f"Adds a node pool of {kind}{more} through GKE ({machine.capacity}).",
            machines.GCLOUD_HELP,
            machine.remark,
        )
    return Command(
        text,
        f"Asks Compute Engine for one {kind}{more} ({machine.capacity}).",
        machines.TPU_CREATE if side == "tpu" else machines.FLEX_START,
        machine.remark,
    )


def _cluster(machine: Machine) -> Command:
    side = chips.get(machine.chip_id).family
    return Command(f"bash pilot.sh {side}-cluster", "Where the node pools go.", machines.GCLOUD_HELP)


def _give_back(rented: tuple[Machine, ...], why: str) -> tuple[Command, ...]:
    if not rented:
        return ()
    ends = "; ".join(f"bash pilot.sh {chips.get(machine.chip_id).family}-down" for machine in rented)
    return (Command(ends, why, machines.GCLOUD_HELP),)


def _budget_command(rented: tuple[Machine, ...]) -> tuple[Command, ...]:
    if not rented:
        return ()
    return (Command("bash pilot.sh budget", "The alert, before anything is rented.", machines.BUDGETS),)


def _preempt(machine: Machine) -> Command:
    side = chips.get(machine.chip_id).family
    return Command(
        f"bash pilot.sh {side}-preempt",
        "A simulated host maintenance, which ends the instance in the middle of a step.",
        machines.GCLOUD_HELP,
    )


def _bench(workload: Workload, sides: tuple[str, ...]) -> tuple[Command, ...]:
    """Return the bare products, in the workload's own precision and shapes where the command knows them."""
    model = workload.model
    sweep = model if model in MODELS else "thin" if workload.phase == "inference" else "square"
    dtype = _DTYPES.get(workload.precision, "bfloat16")
    return tuple(
        Command(
            f"pulsewarp bench --sweep {sweep} --dtype {dtype} --repeats {REPEATS} --out {side}.json",
            f"The bare products, run on the {side.upper()}.",
        )
        for side in sides
    )


def _compare(sides: tuple[str, ...]) -> tuple[Command, ...]:
    if len(sides) != 2:
        return ()
    return (
        Command("pulsewarp compare gpu.json tpu.json --html ratios.html", "Both files, product by product."),
    )


def _feedback(workload: Workload, sides: tuple[str, ...], rented: tuple[Machine, ...]) -> Command:
    files = " ".join(f"{side}.json" for side in sides)
    batch = ":BATCH" if workload.phase == "inference" else ""
    runs = " ".join(f"{machine.chip_id}:RATE:{machine.host_chips}{batch}" for machine in rented)
    own = f" --own-run {runs}" if runs else ""
    return Command(
        f"pulsewarp advise workload.yaml --measured {files}{own} --html report.html",
        "The same report with your own runs in place of published ones"
        + ("; RATE is your tokens a second for one chip." if own else "."),
    )
