"""The rows of a report: every cell with what it traces to, the same for every face.

A trace is a word and a name: ``input chips``, ``reason cost_ratio``, ``estimate h100_sxm days``, ``flip 2``,
``price_line 0``, ``pilot``, ``source KEY``, ``formula days``. A number in a report without one is a mistake.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from pulsewarp import chips
from pulsewarp.chips import Source
from pulsewarp.guide.advice import Advice, Reason
from pulsewarp.guide.band import Band, short
from pulsewarp.guide.costs import ChipEstimate
from pulsewarp.guide.pilot import CHIP_HOURS, HOST_HOURS, SCALE, SCALED_HOURS
from pulsewarp.guide.pilot_files import MOST_HOURS

KINDS: Mapping[str, str] = MappingProxyType(
    {
        "neither": "rules out both",
        "conflict": "conflict",
        "gate": "rules out the other",
        "favours": "speaks for",
        "cost": "cost",
        "fit": "memory",
        "time": "time",
        "energy": "energy",
        "unknown": "not known",
    }
)
MACHINES: Mapping[str, str] = MappingProxyType({"gpu": "GPU", "tpu": "TPU", "": "–"})  # noqa: RUF001 - an en dash is what an empty cell shows

FORMULAS: Mapping[str, str] = MappingProxyType(
    {
        "band": "A number with two others in brackets is a value and its 80 % band. Bands are multiplied and "
        "divided edge by edge, as if everything erred together.",
        "memory": "Bytes that have to be held over the part of each memory kept for them, rounded up to the "
        "next slice or node that can be had.",
        "tokens_per_second": "Published runs, fitted by chip, precision, size, context, scale; the band is "
        "what the fit missed on sources that it had not seen.",
        "decode_step": "What one step reads over bandwidth, or its arithmetic over the peak, with overhead "
        "and collectives on top; the batch is the cheapest within the latency asked for.",
        "usd_per_chip_hour": "Lowest, median and highest on-demand price less the discount, or your quote; "
        "the host on top.",
        "usd_a_token": "Tokens over tokens a second and goodput, in hours, times the price of a chip-hour.",
        "latency": "The edges of a cost within a latency keep to it: slow steps take a smaller batch or a "
        "larger slice, quick ones a larger batch. At one batch the band is narrower, and users may wait.",
        "days": "All tokens over tokens a second of all chips and goodput; done after the wait for the "
        "chips, and on TPUs after the port.",
        "kwh_a_token": "The same chip-hours times design power, times what nodes draw over it in published "
        "logs, times PUE.",
        "decode_floor": "Active weights over the memory bandwidth of all chips: no step can be faster.",
        "cost_ratio": "The cheapest TPU's cost over the cheapest GPU's, with what is paid once added; each "
        "edge of a side is the lowest among its chips.",
        "price_line": "With every GPU price times x the ratio is divided by x, so cost turns where an edge "
        "of its band passes 1; there the guide is asked again.",
        "pilot_cost": f"On-demand price times {CHIP_HOURS} hours of the smallest machine, {HOST_HOURS} hours "
        f"of one host, and {SCALED_HOURS} hours of {SCALE} hosts, for each side.",
    }
)
"""The formulas that a report names, in words."""


def formulas(advice: Advice) -> dict[str, str]:
    """Return the formulas behind the numbers that a report of this advice shows.

    Parameters
    ----------
    advice : Advice
        What to show.

    Returns
    -------
    dict
        Name to words; empty where nothing is computed.
    """
    chips_ = advice.estimates
    used = {
        "band": bool(chips_),
        "memory": any(e.memory for e in chips_),
        "tokens_per_second": any(e.training for e in chips_),
        "decode_step": any(e.point for e in chips_),
        "usd_per_chip_hour": any(e.usd_per_chip_hour for e in chips_),
        "usd_a_token": any(e.usd for e in chips_),
        "latency": any(e.usd_at_this_batch for e in chips_),
        "days": any(e.days for e in chips_),
        "kwh_a_token": any(e.kwh_per_billion_tokens or e.kwh_per_million_output_tokens for e in chips_),
        "decode_floor": any(e.decode_floor_seconds for e in chips_),
        "cost_ratio": advice.cost.ratio is not None,
        "price_line": advice.cost.ratio is not None,
        "pilot_cost": advice.pilot.cost_usd is not None,
    }
    return {name: text for name, text in FORMULAS.items() if used[name]}


class Cell(NamedTuple):
    """A text, what its numbers trace to, and the address it leads to."""

    text: str
    trace: str = ""
    href: str = ""


@dataclass(frozen=True)
class Table:
    """A title, a head and rows of cells."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def headline(advice: Advice) -> tuple[Cell, Cell]:
    """Return the verdict in a few words, and what decided it.

    Parameters
    ----------
    advice : Advice
        What to show.

    Returns
    -------
    tuple of two Cell
        Both parts of the summary.
    """
    verdict, _, because = advice.summary.partition(". ")
    return Cell(f"{verdict}."), Cell(because, "summary")


def asked(advice: Advice) -> tuple[tuple[str, Cell], ...]:
    """Return the known fields of the workload, by name.

    Parameters
    ----------
    advice : Advice
        What to show.

    Returns
    -------
    tuple of (str, Cell)
        In the workload's order.
    """
    return tuple(
        (_label(name), Cell(_plain(value), f"input {name}"))
        for name, value in advice.workload.known().items()
    )


def reasons(advice: Advice) -> Table:
    """Return the reasons in their order.

    Parameters
    ----------
    advice : Advice
        What to show.

    Returns
    -------
    Table
        One row for each.
    """
    return Table(
        "Reasons, strongest first",
        (
            *("What it does", "For", "Why", "The way round, and its cost", "Who says so, when"),
            *("What speaks against it, and until when it holds", "Where it is shown"),
        ),
        tuple(_reason(reason) for reason in advice.reasons),
    )


def _reason(reason: Reason) -> tuple[Cell, ...]:
    trace = f"reason {reason.name}"
    return (
        Cell(KINDS[reason.kind]),
        Cell(MACHINES[reason.machine]),
        Cell(reason.text, trace),
        Cell(way_round(reason), trace),
        _source(reason),
        Cell(_against(reason), trace),
        Cell("" if reason.shown_in is None else str(reason.shown_in), trace),
    )


def way_round(reason: Reason) -> str:
    """Return how one gets past a reason, and what that costs.

    Parameters
    ----------
    reason : Reason
        One of an advice's.

    Returns
    -------
    str
        Empty where no way is known.
    """
    return f"{reason.way_round} Cost: {reason.way_round_cost}." if reason.way_round_cost else reason.way_round


def _against(reason: Reason) -> str:
    until = f"holds until {reason.holds_until}" if reason.holds_until else ""
    return ". ".join(text.rstrip(".") for text in (reason.contested, until) if text)


def _source(reason: Reason) -> Cell:
    if reason.source is not None:
        address = reason.source.address
        text = f"{reason.source.title} ({reason.source.date})"
        return Cell(text, f"source {reason.source.key}", address if address.startswith("https://") else "")
    formula = reason.kind in ("cost", "fit", "time", "energy")
    return Cell(f"your own inputs, by the formula {reason.name}" if formula else "")


# --- numbers ------------------------------------------------------------------------------------------------

# Title, field of ChipEstimate, what stands where it is not known.
_COLUMNS = (
    ("$ a chip-hour", "usd_per_chip_hour", "no price seen"),
    ("$ a billion tokens", "usd_per_billion_tokens", "unknown"),
    ("$ a million output tokens", "usd_per_million_output_tokens", "unknown"),
    ("Days in all", "days", "unknown"),
    ("Weeks until done", "weeks_until_done", "unknown"),
    ("kWh a billion tokens", "kwh_per_billion_tokens", "not published"),
    ("kWh a million output tokens", "kwh_per_million_output_tokens", "not published"),
)


def estimates(advice: Advice) -> Table:
    """Return the numbers of each chip, with their bands.

    Parameters
    ----------
    advice : Advice
        What to show.

    Returns
    -------
    Table
        Columns that no chip fills are left out.
    """
    chips_ = advice.estimates
    columns: dict[str, tuple[Cell, ...]] = {
        "Chip": tuple(Cell(e.name, f"chip {e.chip_id}") for e in chips_),
        "Chips": tuple(Cell(f"{e.n_chips:,}", f"estimate {e.chip_id} n_chips") for e in chips_),
    }
    for title, known in (
        ("Batch", [None if e.point is None else f"{e.point.batch:,}" for e in chips_]),
        ("Step, ms", [None if e.point is None else str(e.point.step_seconds * 1e3) for e in chips_]),
        ("Tokens/s a chip", [None if (band := speed(e)) is None else str(band) for e in chips_]),
    ):
        if any(text is not None for text in known):
            columns[title] = tuple(
                Cell(text or "unknown", f"estimate {e.chip_id} {title}")
                for e, text in zip(chips_, known, strict=True)
            )
    for title, field, otherwise in _COLUMNS:
        bands: list[Band | None] = [getattr(e, field) for e in chips_]
        if field == "weeks_until_done" and not _waits(advice):
            continue  # the days, in sevenths
        if any(band is not None for band in bands):
            columns[title] = tuple(
                Cell(otherwise if band is None else str(band), f"estimate {e.chip_id} {field}")
                for e, band in zip(chips_, bands, strict=True)
            )
    if any(e.training for e in chips_):
        columns["Published runs"] = tuple(
            Cell(str(len(e.training.cases) if e.training else 0), f"estimate {e.chip_id} cases")
            for e in chips_
        )
    return Table("Numbers, each with its band", tuple(columns), tuple(zip(*columns.values(), strict=True)))


def remarks(advice: Advice) -> tuple[Cell, ...]:
    """Return what the numbers of some chips lack or stand for, each once with the chips' names.

    Parameters
    ----------
    advice : Advice
        What to show.

    Returns
    -------
    tuple of Cell
        A sentence each; empty where nothing is to be said.
    """
    names: dict[str, list[str]] = {}
    for estimate in advice.estimates:
        for text in estimate.remarks:
            names.setdefault(text, []).append(estimate.name)
    return tuple(Cell(f"{', '.join(chips_)}: {text}.", "remark") for text, chips_ in names.items())


def _waits(advice: Advice) -> bool:
    """Whether a port or a wait for the chips comes before the first day."""
    leads = [item.value for item in advice.inputs if item.name.endswith("_lead_weeks")]
    return any(leads) or bool(advice.workload.port_weeks)


def speed(estimate: ChipEstimate) -> Band | None:
    """Return the tokens a second of one chip, trained or served.

    Parameters
    ----------
    estimate : ChipEstimate
        One of an advice's.

    Returns
    -------
    Band or None
        None where it is not known.
    """
    if estimate.training is not None:
        return estimate.training.tokens_per_second_per_chip
    return None if estimate.point is None else estimate.point.served_tokens_per_second_per_chip


def flips(advice: Advice) -> Table:
    """Return what would change the verdict.

    Parameters
    ----------
    advice : Advice
        What to show.

    Returns
    -------
    Table
        One row for each flip.
    """
    return Table(
        "What would change the verdict",
        ("Input", "Now", "If it were", "Verdict", "Because"),
        tuple(
            (
                Cell(flip.field),
                Cell(flip.now, f"flip {number}"),
                Cell(flip.to, f"flip {number}"),
                Cell(flip.verdict),
                Cell(flip.because, f"flip {number}"),
            )
            for number, flip in enumerate(advice.flips)
        ),
    )


def prices(advice: Advice) -> Table:
    """Return where the prices were read, one row for each source.

    Parameters
    ----------
    advice : Advice
        What to show.

    Returns
    -------
    Table
        With how many prices of each chip a source gave.
    """
    counts: dict[Source, dict[str, int]] = {}
    for estimate in advice.estimates:
        for price in estimate.price_rows:
            of_source = counts.setdefault(price.source, {})
            of_source[estimate.name] = of_source.get(estimate.name, 0) + 1
    return Table(
        "Where the prices were read",
        ("Source", "Prices of"),
        tuple(
            (
                Cell(f"{source.title} ({source.date})", f"source {source.key}", source.address),
                Cell(", ".join(f"{name}: {count}" for name, count in found.items()), "prices"),
            )
            for source, found in counts.items()
        ),
    )


# --- price line ---------------------------------------------------------------------------------------------


def price_line(advice: Advice) -> Table:
    """Return the price line as rows, in factors and in dollars of the cheapest GPU.

    Parameters
    ----------
    advice : Advice
        What to show.

    Returns
    -------
    Table
        Empty where no cost is compared.
    """
    if advice.cost.ratio is None:
        return Table("The price line", (), ())
    dollars = _dollars_today(advice)
    head = ["Every GPU price, times"]
    if dollars is not None:
        head.append("The cheapest GPU, $ a chip-hour")
    rows = []
    for number, piece in enumerate(advice.price_line):
        trace = f"price_line {number}"
        cells = [Cell(_range(piece.low, piece.high), trace)]
        if dollars is not None:
            cells.append(Cell(_range(piece.low * dollars, piece.high * dollars), trace))
        rows.append((*cells, Cell(VERDICTS[piece.verdict]), Cell(piece.because, trace)))
    return Table("The price line", (*head, "Verdict", "Because"), tuple(rows))


VERDICTS: Mapping[str, str] = MappingProxyType(
    {"gpu": "GPU", "tpu": "TPU", "either": "a pilot", "neither": "neither"}
)


def break_even(advice: Advice) -> tuple[Cell, ...]:
    """Return where both sides cost the same, in sentences.

    Parameters
    ----------
    advice : Advice
        What to show.

    Returns
    -------
    tuple of Cell
        One sentence for each number that is known, then one for each that is not, and why.
    """
    breaks, texts = advice.break_even, []
    if breaks.gpu_price_factor is not None:
        text = (
            f"Both cost the same when every GPU price is {short(breaks.gpu_price_factor.value)} times today's"
        )
        dollars = _dollars_today(advice)
        if dollars is not None and breaks.gpu_usd_per_chip_hour is not None:
            hour = short(breaks.gpu_usd_per_chip_hour.value)
            name = chips.get(breaks.gpu_chip).name
            text += f": {hour} US dollars an hour for {name}, which is {short(dollars)} today"
        texts.append(f"{text}.")
    if breaks.batch is not None:
        texts.append(f"The cheaper side changes at {breaks.batch:,} sequences at once.")
    if breaks.port_weeks is not None:
        texts.append(f"The saving on TPUs pays for {breaks.port_weeks} weeks of port.")
    return tuple(Cell(text, "break_even") for text in (*texts, *breaks.missing))


def _dollars_today(advice: Advice) -> float | None:
    for estimate in advice.estimates:
        if estimate.chip_id == advice.break_even.gpu_chip and estimate.usd_per_chip_hour is not None:
            return estimate.usd_per_chip_hour.value
    return None


def _range(low: float, high: float) -> str:
    if low == 0:
        return "any" if math.isinf(high) else f"up to {short(high)}"
    return f"from {short(low)}" if math.isinf(high) else f"{short(low)} to {short(high)}"


def inputs(advice: Advice) -> Table:
    """Return what the costs depend on beside speed and price, given or by default.

    Parameters
    ----------
    advice : Advice
        What to show.

    Returns
    -------
    Table
        Empty where no cost is compared.
    """
    if not advice.estimates:
        return Table("What the costs depend on besides", (), ())
    return Table(
        "What the costs depend on besides",
        ("Input", "Value", "Who says so", "Why"),
        tuple(
            (
                Cell(item.name),
                Cell(f"{short(item.value)} {item.unit}".strip(), f"cost_input {item.name}"),
                Cell(
                    item.origin,
                    f"cost_input {item.name}",
                    item.source.address if item.source is not None and not item.given else "",
                ),
                Cell(item.text, f"cost_input {item.name}"),
            )
            for item in advice.inputs
        ),
    )


# --- pilot --------------------------------------------------------------------------------------------------


def days(advice: Advice) -> Table:
    """Return the days of the pilot.

    Parameters
    ----------
    advice : Advice
        What to show.

    Returns
    -------
    Table
        In order.
    """
    return Table(
        "The days, in order",
        ("Day", "What is done", "It ends the pilot if"),
        tuple(
            (Cell(day.name), Cell(day.does, "pilot"), Cell(day.stop_if, "pilot")) for day in advice.pilot.days
        ),
    )


def commands(advice: Advice) -> Table:
    """Return the commands of the pilot, with what each is for and who says so.

    Parameters
    ----------
    advice : Advice
        What to show.

    Returns
    -------
    Table
        In order.
    """
    return Table(
        "What to type",
        ("Day", "Command", "What for", "Read in"),
        tuple(
            (
                Cell(day.name),
                Cell(command.text, "pilot"),
                Cell(command.why, "pilot"),
                Cell("this package's own help")
                if command.source is None
                else Cell(
                    f"{command.source.title} ({command.source.date})",
                    f"source {command.source.key}",
                    command.source.address,
                ),
            )
            for day in advice.pilot.days
            for command in day.commands
        ),
    )


def pilot_cost(advice: Advice) -> Cell:
    """Return what the pilot's machines cost, in words.

    Parameters
    ----------
    advice : Advice
        What to show.

    Returns
    -------
    Cell
        Empty where nothing is rented.
    """
    pilot = advice.pilot
    if not pilot.machines:
        return Cell("")
    names = " and ".join(f"{m.host} ({chips.get(m.chip_id).name})" for m in pilot.machines)
    if pilot.cost_usd is None:
        return Cell(f"It rents {names}; what that costs is not known, since a price is missing.", "pilot")
    return Cell(
        f"It rents {names} for about {pilot.cost_usd} US dollars at on-demand prices; each "
        f"machine ends after {MOST_HOURS} hours.",
        "pilot",
    )


def _label(name: str) -> str:
    """Write a field's name for people: those in billions end in _b."""
    words = name.replace("_", " ")
    return f"{words.removesuffix(' b')}, billions" if name.endswith("_b") else words


def _plain(value: Any) -> str:
    return f"{value:,g}" if isinstance(value, float) and abs(value) < 1e6 else str(value)
