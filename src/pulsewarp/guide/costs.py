"""What the same work costs on each chip: speed from published or own runs, money from dated prices."""

from __future__ import annotations

import bisect
import dataclasses
import functools
import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pulsewarp import chips, roofline
from pulsewarp._checks import instance, names_keywords, positive_number, several
from pulsewarp.bench.measurement import Timed
from pulsewarp.guide import measured as _measured
from pulsewarp.guide import serving as _serving
from pulsewarp.guide import slices
from pulsewarp.guide.band import Band
from pulsewarp.guide.efficiency import (
    ASSUMED_CONTEXT,
    PRECISIONS,
    TrainingEstimate,
    estimate_checked,
    missing_peak,
    training_cases,
)
from pulsewarp.guide.inputs import COST_FIELDS, values
from pulsewarp.guide.measured import Evidence, OwnRun
from pulsewarp.guide.memory import MemoryFit, fit_memory, weight_dtype
from pulsewarp.guide.models import ModelShape, shape_of
from pulsewarp.guide.serving import Serving, ServingPoint
from pulsewarp.guide.workload import MOST_AT_ONCE, Workload, checked
from pulsewarp.matmul import Matmul

# Mean node power over the sum of its GPUs' TDP in MLPerf power logs: 0.93 to 1.28, rounded outwards.
NODE_POWER_OVER_TDP = Band(0.9, 1.1, 1.3)

_ON_TOKENS = ("train", "finetune", "train_and_inference")  # phases that the published runs speak for
_NO_RENT = ("colab", "kaggle", "donated_tpu", "donated_other", "on_prem", "own_machine", "edge_device")
_TRUSTED = ("good", "medium")
_COUNTS_TRIED = 4  # slices from the smallest that holds the model on, of which the cheapest a token is taken


@dataclass(frozen=True)
class ChipEstimate:
    """What one kind of chip would do for a workload; None where something needed is not published.

    Attributes
    ----------
    chip_id, name, family : str
        From the catalogue.
    memory : MemoryFit or None
        Smallest count that holds the state.
    n_chips : int
        Chips assumed: in training as many as the workload names, or as few as hold it; in serving those that
        share one copy of the model.
    training : TrainingEstimate or None
        Speed of training.
    serving : Serving or None
        The curve of latency against throughput.
    point : ServingPoint or None
        Its point that costs least a token within the latency asked for.
    usd_per_chip_hour : Band or None
        Lowest, median and highest on-demand price, or the reader's own quote; discount taken off, host added.
    price_rows : tuple of chips.Price
        The rows behind that price; empty for the reader's own.
    usd_per_billion_tokens : Band or None
        Training: price over speed and goodput, bands multiplied.
    usd_per_million_output_tokens : Band or None
        Serving: the same for output tokens, with the reading of their prompts. Its edges keep to the latency
        asked for: where steps are slower than expected, a smaller batch or a larger slice answers in time.
    usd_at_this_batch : Band or None
        The same at the point's batch, however long its users then wait; None where no latency is asked for.
    days : Band or None
        Training of all of `tokens_b`.
    weeks_until_done : Band or None
        Those days after waiting for the chips and, on TPUs, after the port.
    kwh_per_billion_tokens, kwh_per_million_output_tokens : Band or None
        From TDP, in training and in serving; None where the vendor publishes no power.
    decode_floor_seconds : float or None
        In inference, the least time for one step that reads every active weight once, whatever the batch.
    measured : tuple of str
        What of the reader's own measurements went in.
    remarks : tuple of str
        Why there is no cost where there is none, or what its high edge stands for.
    """

    chip_id: str
    name: str
    family: str
    memory: MemoryFit | None
    n_chips: int
    training: TrainingEstimate | None
    serving: Serving | None
    point: ServingPoint | None
    usd_per_chip_hour: Band | None
    price_rows: tuple[chips.Price, ...]
    usd_per_billion_tokens: Band | None
    usd_per_million_output_tokens: Band | None
    days: Band | None
    weeks_until_done: Band | None
    kwh_per_billion_tokens: Band | None
    kwh_per_million_output_tokens: Band | None
    decode_floor_seconds: float | None
    measured: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    usd_at_this_batch: Band | None = None

    @property
    def usd(self) -> Band | None:
        """Cost a billion tokens in training, a million output tokens in serving."""
        return self.usd_per_million_output_tokens if self.training is None else self.usd_per_billion_tokens

    def __repr__(self) -> str:
        return (
            f"ChipEstimate({self.chip_id!r}, n_chips={self.n_chips}, "
            f"usd_per_chip_hour={self.usd_per_chip_hour!r}, usd={self.usd!r})"
        )


@dataclass(frozen=True)
class Comparison:
    """TPU over GPU cost, each side as cheap as its cheapest chip.

    Attributes
    ----------
    estimates : tuple of ChipEstimate
        Every chip compared.
    unit : str
        "US dollars a billion tokens" or "US dollars a million output tokens", or for the whole run where its
        tokens are known and something is paid once.
    tpu, gpu : Band or None
        Cost of a side: the lowest low, value and high of its chips; None where no chip has both.
    ratio : Band or None
        TPU over GPU.
    missing : str
        Why there is no ratio; empty when there is one.
    once : Band
        US dollars paid once to reach TPUs, port and moving data; in the high edge leaving again. 0 where the
        inputs that it needs are not given.
    running : tuple of two Bands or None
        TPU and GPU cost of all tokens without what is paid once; None where their number is not given.
    """

    estimates: tuple[ChipEstimate, ...]
    unit: str
    tpu: Band | None
    gpu: Band | None
    ratio: Band | None
    missing: str
    once: Band
    running: tuple[Band, Band] | None = None

    @property
    def ratio_at_these_batches(self) -> Band | None:
        """In serving within a latency, `ratio` at the chosen batches, however long users then wait."""
        tpu, gpu = (
            _cheapest([b for e in self.estimates if e.family == f and (b := e.usd_at_this_batch) is not None])
            for f in ("tpu", "gpu")
        )
        whole_run = self.once.high > 0 and self.running is not None
        return None if self.ratio is None or tpu is None or gpu is None or whole_run else tpu / gpu


@names_keywords
def compare(
    workload: Workload,
    prices: Iterable[chips.Price] | None = None,
    *,
    measured: Iterable[Timed | OwnRun] = (),
    gpu_price_factor: float = 1.0,
) -> Comparison:
    """Compare what training, or serving, costs on TPUs and on GPUs.

    Training: US dollars a billion tokens, from `estimate_training`. Serving: US dollars a million output
    tokens, from `serving.serve`, at the batch that is cheapest within the latency asked for (`token_ms`, or
    what the word `latency` allows; see `guide.cost_inputs`).

    Parameters
    ----------
    workload : Workload
        Needs `phase`, and `params_b` or `model`; a `domain` of "llm" or "any": the formulas are those of
        transformers.
    prices : iterable of chips.Price, optional
        Used in place of the catalogue's rows.
    measured : iterable of bench measurements or OwnRun, optional
        The reader's own, which pull the estimates of the chips that they ran on.
    gpu_price_factor : float
        Every GPU price times this: how a price line is drawn.

    Returns
    -------
    Comparison
        With `missing` set where a field or a price is not known.

    Raises
    ------
    TypeError
        When `workload` is no Workload, `prices` holds anything but prices, or `measured` anything else.
    ValueError
        When `gpu_price_factor` is not above 0.
    """
    factor = positive_number("gpu_price_factor", gpu_price_factor)
    facts = evidence_for(checked(workload), measured)
    return compare_checked(workload, price_rows(prices), facts, factor)


def evidence_for(workload: Workload, measured: Iterable[Timed | OwnRun]) -> tuple[Evidence, ...]:
    """Return what measurements say about a workload; nothing where none were made."""
    shape = _shape(workload)
    active = None if shape is None else shape.active_params_b
    return _measured.evidence(measured, workload.phase, active_params_b=active)


@functools.lru_cache(maxsize=4096)
def compare_checked(
    workload: Workload,
    rows: tuple[chips.Price, ...] | None,
    facts: tuple[Evidence, ...],
    gpu_price_factor: float = 1.0,
) -> Comparison:
    """Do what `compare` does with arguments that were checked before: the flips ask a hundred times."""
    shape = _shape(workload)
    missing = _what_is_missing(workload, shape)
    estimates: tuple[ChipEstimate, ...] = ()
    if shape is not None and workload.phase in (*_ON_TOKENS, "inference") and not _foreign(workload, shape):
        estimates = _estimates(_numbers_of(workload), rows, facts, gpu_price_factor)
        if workload.location in _NO_RENT:
            estimates = tuple(_not_rented(estimate) for estimate in estimates)
    return _compared(workload, estimates, missing)


def _not_rented(estimate: ChipEstimate) -> ChipEstimate:
    """Leave the price of renting out; the reader's own for an hour stays."""
    if not estimate.price_rows:
        return estimate
    return dataclasses.replace(
        estimate,
        usd_per_chip_hour=None,
        price_rows=(),
        usd_per_billion_tokens=None,
        usd_per_million_output_tokens=None,
        usd_at_this_batch=None,
    )


_shape = functools.lru_cache(maxsize=4096)(shape_of)


def _compared(workload: Workload, estimates: tuple[ChipEstimate, ...], missing: str) -> Comparison:
    serves = workload.phase == "inference"
    unit = "US dollars a million output tokens" if serves else "US dollars a billion tokens"
    tpu, gpu = (
        _cheapest([e.usd for e in estimates if e.family == family and e.usd is not None])
        for family in ("tpu", "gpu")
    )
    once = _paid_once(workload)
    amount, running = billions(workload), None
    if amount is not None and tpu is not None and gpu is not None:
        times = amount * 1e3 if serves else amount
        running = tpu * times, gpu * times
        if once.high > 0 or None not in (workload.port_weeks, workload.usd_per_engineer_week):
            unit = (
                f"US dollars for {'all output tokens' if serves else 'the whole run'}, port to TPU included"
            )
            tpu, gpu = running[0] + once, running[1]
    if missing or tpu is None or gpu is None:
        sides = [family for family, side in (("tpu", tpu), ("gpu", gpu)) if side is None]
        missing = missing or " and ".join(_why_no_cost(estimates, family) for family in sides)
        return Comparison(estimates, unit, None, None, None, missing, once, running)
    return Comparison(estimates, unit, tpu, gpu, tpu / gpu, "", once, running)


def _why_no_cost(estimates: tuple[ChipEstimate, ...], family: str) -> str:
    """Say what every chip of a side lacks; where they differ, that none has both speed and price."""
    whys = {e.remarks for e in estimates if e.family == family and e.usd_per_chip_hour is not None}
    if len(whys) == 1 and (why := whys.pop()):
        return f"{why[0]}, on any {family.upper()}"
    return f"no {family.upper()} has both a known speed and a known price here"


def billions(workload: Workload) -> float | None:
    """Return the billions of tokens of the whole run, or of the whole deployment, where they are given."""
    return workload.served_tokens_b if workload.phase == "inference" else workload.tokens_b


def price_rows(prices: Iterable[chips.Price] | None) -> tuple[chips.Price, ...] | None:
    """Return the prices to use in place of the catalogue's; refuse what is no price."""
    if prices is None:
        return None
    remedy = "pass rows such as chips.prices() gives, or leave prices out"
    return tuple(instance("A price", row, chips.Price, remedy) for row in several("prices", prices, remedy))


def _what_is_missing(workload: Workload, shape: ModelShape | None) -> str:
    if _foreign(workload, shape):
        domain = workload.domain if shape is None or workload.domain != "any" else shape.domain
        return (
            f"the cost formulas are those of transformers on tokens, and the domain is {domain!r}: "
            "only a measurement can compare here"
        )
    serves = workload.phase == "inference"
    if workload.phase not in (*_ON_TOKENS, "inference"):
        return "phase is not one that trains on tokens" if workload.phase != "any" else "phase is not given"
    if shape is None:
        return "neither params_b nor model is given"
    precisions = (*_serving.PRECISIONS, "mixed") if serves else PRECISIONS
    if workload.precision not in (*precisions, "any"):
        return f"no published {'serving' if serves else 'training'} runs in {workload.precision} to compare"
    if workload.location in _NO_RENT:
        return f"no rental price applies to location {workload.location!r}"
    return ""


def _foreign(workload: Workload, shape: ModelShape | None) -> bool:
    domain = workload.domain if workload.domain != "any" or shape is None else shape.domain
    return domain not in ("llm", "any")


@functools.lru_cache(maxsize=256)
def _candidates(
    gpu_chip: str | None, tpu_chip: str | None, rows: tuple[chips.Price, ...] | None
) -> tuple[chips.Chip, ...]:
    """Chips that can be had today, can be joined, and have a price or a published run."""
    named = {"gpu": gpu_chip, "tpu": tpu_chip}
    known = {price.chip_id for price in (chips.prices() if rows is None else rows)}
    known |= {case.chip for case in training_cases()}
    out = []
    for chip in chips.catalogue():
        if chip.family not in named:
            continue
        wanted = named[chip.family]
        if wanted is not None:
            if chip.id == wanted:
                out.append(chip)
            continue
        linked = chip.interconnect_unidirectional_bytes_per_second is not None
        if chip.status.startswith("available") and chip.caveat is None and linked and chip.id in known:
            out.append(chip)
    return tuple(out)


# Words that only gates read, and numbers that only the sum at the end does; they are left out, so that asking
# "and if the framework were another?" a hundred times, as the flips do, computes each number once.
_UNREAD = (
    *("framework", "custom_kernels", "shapes", "non_matrix_share", "non_matrix_kind", "budget", "team_skill"),
    *("location", "model_type", "date", "usd_per_engineer_week", "leave_weeks", "egress_tb"),
    *("usd_per_egress_gb", "served_tokens_b"),
)
_UNREAD_IN_TRAINING = ("batch", "latency", "token_ms", "output_len")
# And what only money reads: a speed is the same whatever it costs.
_ONLY_MONEY = tuple(
    {*COST_FIELDS, "usd_per_gpu_hour", "usd_per_tpu_hour", "tokens_b", "port_weeks", "gpu_chip", "tpu_chip"}
    - {"seq_len", "output_len", "token_ms"}
)


def _numbers_of(workload: Workload) -> Workload:
    """Return the workload without what no estimate reads."""
    known = dict(workload.known())
    for name in _UNREAD if workload.phase == "inference" else (*_UNREAD, *_UNREAD_IN_TRAINING):
        known.pop(name, None)
    if workload.location == "gcp_only":
        known["location"] = "gcp_only"
    return _built(tuple(known.items()))


@functools.lru_cache(maxsize=4096)
def _built(known: tuple[tuple[str, object], ...]) -> Workload:
    return Workload(**dict(known))


@functools.lru_cache(maxsize=1024)
def _estimates(
    workload: Workload,
    rows: tuple[chips.Price, ...] | None,
    facts: tuple[Evidence, ...],
    gpu_price_factor: float,
) -> tuple[ChipEstimate, ...]:
    known = workload.known()
    asked = _built(tuple((name, value) for name, value in known.items() if name not in _ONLY_MONEY))
    numbers = values(workload)
    return tuple(
        _estimate(workload, chip, rows, _speed(asked, chip.id, facts), gpu_price_factor, numbers)
        for chip in _candidates(workload.gpu_chip, workload.tpu_chip, rows)
    )


@dataclass(frozen=True)
class _Speed:
    """What one kind of chip does, before any money."""

    memory: MemoryFit | None
    n_chips: int
    training: TrainingEstimate | None = None
    serving: Serving | None = None
    point: ServingPoint | None = None
    tokens_per_second_per_chip: Band | None = None
    at_this_batch: Band | None = None
    measured: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    decode_floor_seconds: float | None = None


@functools.lru_cache(maxsize=8192)
def _speed(workload: Workload, chip_id: str, facts: tuple[Evidence, ...]) -> _Speed:
    chip = chips.get(chip_id)
    memory = fit_memory(workload, chip_id)
    shape = _shape(workload)
    assert shape is not None  # `compare` asks only where there is one
    if workload.phase == "inference":
        return _serving_speed(workload, chip, shape, memory, facts)
    n_chips = max(workload.chips or 1, memory.chips if memory is not None else 1)
    training = _training(workload, chip, shape, n_chips)
    if training is None:
        return _Speed(memory, n_chips)
    narrow = training.precision not in ("bf16", "fp16", "mixed")
    own = _measured.pulled_training(training, facts, narrow)
    used = tuple(f.text for f in facts if f.what and f.chip == chip_id) if own is not training else ()
    rate = own.tokens_per_second_per_chip
    return _Speed(memory, n_chips, own, tokens_per_second_per_chip=rate, measured=used)


def _serving_speed(
    workload: Workload,
    chip: chips.Chip,
    shape: ModelShape,
    memory: MemoryFit | None,
    facts: tuple[Evidence, ...],
) -> _Speed:
    least = memory.chips if memory is not None else 1
    floor = _decode_floor(workload, chip, shape, max(workload.chips or 1, least))
    if weight_dtype(workload) not in _serving.PRECISIONS:
        return _Speed(memory, least, decode_floor_seconds=floor)
    best: tuple[Serving, ServingPoint] | None = None
    curve: Serving | None = None
    for n_chips in _counts(workload, chip, least):
        curve = _curve(workload, shape, chip.id, n_chips)
        points = [] if curve is None else _allowed(workload, curve)
        for point in points:
            # A chip-hour costs the same in a larger slice: the most tokens a chip are the cheapest ones. The
            # smallest slice that holds the model has no room for the sequences that would share its weights.
            if curve is not None and (best is None or (point.served or 0.0) > (best[1].served or 0.0)):
                best = curve, point
    if best is None:
        why = "not published: memory, bandwidth, links or peak" if curve is None else _too_slow(workload)
        return _Speed(memory, least, serving=curve, remarks=(why,), decode_floor_seconds=floor)
    curve, point = best
    steady, used = _rate(point), []
    rate, late = _rate_in_time(workload, chip, shape, curve, point)
    for fact in facts:
        if fact.what == "serving" and fact.chip == chip.id:
            there = _curve(workload, shape, chip.id, fact.n_chips, (fact.batch or 1,))
            if there is not None:
                predicted = there.points[0].tokens_per_second_per_chip
                rate, steady = (_measured.pulled_rate(r, predicted, fact.value) for r in (rate, steady))
                used.append(fact.text)
    bounded = "token_ms" in values(workload)
    return _Speed(
        memory,
        curve.n_chips,
        serving=curve,
        point=point,
        tokens_per_second_per_chip=rate,
        at_this_batch=steady if bounded else None,
        measured=tuple(used),
        remarks=(_too_slow(workload, "if steps are as slow as their band's high edge, "),) if late else (),
        decode_floor_seconds=floor,
    )


def _too_slow(workload: Workload, slow: str = "") -> str:
    bound = values(workload).get("token_ms")
    within = "" if bound is None else f" within {bound:g} ms a token"
    then = "; the cost's high edge is then that of one sequence at a time" if slow else ""
    return f"{slow}no batch that fits answers{within} on up to {_COUNTS_TRIED} sizes of slice or node{then}"


def _counts(workload: Workload, chip: chips.Chip, least: int) -> list[int]:
    """Slices or nodes that hold the model, the smallest first; no larger than the reader's own count."""
    legal = slices.legal(chip.id)
    first = bisect.bisect_left(legal, least)
    tried = list(legal[first : first + _COUNTS_TRIED]) or [least]
    return [n for n in tried if n <= workload.chips] or tried[:1] if workload.chips else tried


def _curve(
    workload: Workload, shape: ModelShape, chip_id: str, n_chips: int, batches: tuple[int, ...] | None = None
) -> Serving | None:
    numbers = values(workload)
    context = round(numbers["seq_len"])
    if batches is None and workload.batch_size is not None:
        batches = (workload.batch_size,)
    return _serving.serve(
        shape,
        chip_id,
        n_chips,
        precision=weight_dtype(workload),
        context=context,
        output_len=min(round(numbers["output_len"]), context),
        batches=batches,
    )


def _allowed(workload: Workload, curve: Serving, slower: float = 1.0) -> list[ServingPoint]:
    """Points that fit in memory, in the batch that was named, and answer in time if steps are that slow."""
    bound = values(workload).get("token_ms", math.inf)
    most = MOST_AT_ONCE.get(workload.batch, math.inf)
    return [
        point
        for point in curve.points
        if point.fits and point.batch <= most and 1e3 * point.seconds * slower <= bound
    ]


def _rate_in_time(
    workload: Workload, chip: chips.Chip, shape: ModelShape, curve: Serving, point: ServingPoint
) -> tuple[Band, bool]:
    """Return the tokens/s a chip at `point`; where a bound on latency holds, with what it may come to.

    If steps turn out as slow as the high edge of their band, only a smaller batch or a larger slice answers
    in time; if they turn out as quick as the low edge, a larger batch does: each edge is what is served then.
    Also return whether nothing at all answers in time if steps are slow.
    """
    rate, step = _rate(point), point.step_seconds
    quick = max(p.served or 0.0 for p in _allowed(workload, curve, step.low / step.value))
    slow = 0.0
    for n_chips in _counts(workload, chip, curve.n_chips):
        larger = _curve(workload, shape, chip.id, n_chips)
        points = [] if larger is None else _allowed(workload, larger, step.high / step.value)
        slow = max([slow, *(p.served or 0.0 for p in points)])
    late = slow == 0.0
    if late:  # one sequence comes nearest to it
        slow = min(p.served or math.inf for p in curve.points)
    slow, quick = slow * rate.low / rate.value, quick * rate.high / rate.value
    return Band(min(rate.low, slow), rate.value, max(rate.high, quick)), late


def _rate(point: ServingPoint) -> Band:
    assert point.served_tokens_per_second_per_chip is not None  # `_curve` says how long an answer is
    return point.served_tokens_per_second_per_chip


def _estimate(
    workload: Workload,
    chip: chips.Chip,
    rows: tuple[chips.Price, ...] | None,
    speed: _Speed,
    gpu_price_factor: float,
    numbers: Mapping[str, float],
) -> ChipEstimate:
    price, price_rows = _price(workload, chip, rows, numbers)
    if price is not None and chip.family == "gpu":
        price = price * gpu_price_factor
    usd = steady = days = weeks = energy = None
    if speed.tokens_per_second_per_chip is not None:
        amount = 1e6 if workload.phase == "inference" else 1e9
        chip_hours = _invert(speed.tokens_per_second_per_chip) * (amount / 3600 / numbers["goodput"])
        if price is not None:
            usd = chip_hours * price
            if speed.at_this_batch is not None:
                steady = _invert(speed.at_this_batch) * (amount / 3600 / numbers["goodput"]) * price
        if workload.tokens_b is not None:
            days = chip_hours * (workload.tokens_b / speed.n_chips / 24)
            weeks = days / 7 + (
                numbers[f"{chip.family}_lead_weeks"]
                + ((workload.port_weeks or 0.0) if chip.family == "tpu" else 0.0)
            )
        if chip.tdp_watts is not None:
            energy = chip_hours * (NODE_POWER_OVER_TDP * (chip.tdp_watts / 1000 * numbers["pue"]))
    serves = workload.phase == "inference"
    return ChipEstimate(
        chip_id=chip.id,
        name=chip.name,
        family=chip.family,
        memory=speed.memory,
        n_chips=speed.n_chips,
        training=speed.training,
        serving=speed.serving,
        point=speed.point,
        usd_per_chip_hour=price,
        price_rows=price_rows,
        usd_per_billion_tokens=None if serves else usd,
        usd_per_million_output_tokens=usd if serves else None,
        days=days,
        weeks_until_done=weeks,
        kwh_per_billion_tokens=None if serves else energy,
        kwh_per_million_output_tokens=energy if serves else None,
        decode_floor_seconds=speed.decode_floor_seconds,
        measured=speed.measured,
        remarks=speed.remarks,
        usd_at_this_batch=steady,
    )


def _decode_floor(workload: Workload, chip: chips.Chip, shape: ModelShape, n_chips: int) -> float | None:
    """Weights over bandwidth: the memory side of the roofline for one row times a d x d matrix, d^2 = N_a."""
    dtype = weight_dtype(workload)
    if not chip.has_roofline or not chip.peak_flops_per_second.get(dtype):
        return None
    side = math.isqrt(round(shape.active_params_b * 1e9))
    return roofline.bound(Matmul(1, side, side, dtype), chip).memory_seconds / n_chips


def _training(
    workload: Workload, chip: chips.Chip, shape: ModelShape, n_chips: int
) -> TrainingEstimate | None:
    precision = "bf16" if workload.precision == "any" else workload.precision
    if precision not in PRECISIONS or missing_peak(chip, precision) is not None:
        return None  # estimate_checked would refuse
    context = workload.seq_len or ASSUMED_CONTEXT
    return estimate_checked(shape.params_b, shape.active_params_b, context, precision, chip.id, n_chips)


def _price(
    workload: Workload,
    chip: chips.Chip,
    rows: tuple[chips.Price, ...] | None,
    numbers: Mapping[str, float],
) -> tuple[Band | None, tuple[chips.Price, ...]]:
    """Return what one chip costs for one hour: quote or list price, discount taken off, host added."""
    quote = {"gpu": workload.usd_per_gpu_hour, "tpu": workload.usd_per_tpu_hour}[chip.family]
    listed, found = (
        (Band(quote, quote, quote), ())
        if quote is not None
        else _listed_price(chip.id, workload.location == "gcp_only", rows)
    )
    if listed is None:
        return None, ()
    off = 0.0 if quote is not None else numbers[f"{chip.family}_discount"]
    return listed * (1 - off) + numbers["host_usd_per_chip_hour"], found


def list_price(chip_id: str) -> Band | None:
    """Return a chip's lowest, median and highest on-demand price in the catalogue; None where none is."""
    return _listed_price(chip_id, False, None)[0]


@functools.lru_cache(maxsize=256)
def _listed_price(
    chip_id: str, only_google: bool, rows: tuple[chips.Price, ...] | None
) -> tuple[Band | None, tuple[chips.Price, ...]]:
    found = tuple(
        row
        for row in (chips.prices(chip_id) if rows is None else rows)
        if row.chip_id == chip_id
        and row.kind == "on-demand"
        and row.confidence in _TRUSTED
        and (not only_google or row.provider == "Google Cloud")
    )
    if not found:
        return None, ()
    usd = [row.usd_per_chip_hour for row in found]
    return Band(min(usd), statistics.median(usd), max(usd)), found


def _paid_once(workload: Workload) -> Band:
    """Return what reaching TPUs costs once: port and moving data; leaving again in the high edge."""
    numbers = values(workload)
    moved = 1e3 * numbers["egress_tb"] * numbers.get("usd_per_egress_gb", 0.0)
    week = workload.usd_per_engineer_week
    port = 0.0 if week is None else (workload.port_weeks or 0.0) * week
    leave = 0.0 if week is None else numbers.get("leave_weeks", 0.0) * week
    return Band(port + moved, port + moved, port + leave + 2 * moved)


def _cheapest(bands: list[Band]) -> Band | None:
    """Take the lowest of each edge: a buyer chooses the chip, and no dearer chip makes the choice cheaper."""
    if not bands:
        return None
    return Band(min(b.low for b in bands), min(b.value for b in bands), min(b.high for b in bands))


def _invert(band: Band) -> Band:
    return Band(1 / band.high, 1 / band.value, 1 / band.low)
