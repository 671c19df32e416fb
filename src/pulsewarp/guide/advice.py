"""From a workload to a verdict with its reasons, and to what would change it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pulsewarp
from pulsewarp import chips
from pulsewarp._checks import names_keywords
from pulsewarp.bench.measurement import Timed
from pulsewarp.chips import Source
from pulsewarp.guide import gates as _gates
from pulsewarp.guide.band import Band, short
from pulsewarp.guide.break_even import BreakEven, PriceRange, break_even, price_line
from pulsewarp.guide.costs import ChipEstimate, Comparison, compare_checked, evidence_for, price_rows
from pulsewarp.guide.inputs import COST_FIELDS, CostInput, cost_inputs
from pulsewarp.guide.measured import Evidence, OwnRun, measured_rows
from pulsewarp.guide.pilot import Pilot, plan_pilot
from pulsewarp.guide.workload import VOCABULARY, Workload, checked

VERDICTS = ("gpu", "tpu", "either", "neither")
"""Either means: settle it by the pilot. Neither means: no accelerator of one's own."""

SEVERITY = ("neither", "conflict", "gate", "favours", "cost", "fit", "time", "energy", "unknown")
"""The kinds of reasons, in the order in which they are listed."""


@dataclass(frozen=True, repr=False)
class Reason:
    """One reason, with who says so.

    Attributes
    ----------
    kind : str
        One of `SEVERITY`.
    name : str
        The gate's or the formula's name.
    machine : str
        "gpu", "tpu" or "": the one it speaks for.
    text : str
        A sentence.
    source : chips.Source or None
        Title, address and date; None where the reason is a formula over the reader's own inputs.
    way_round, way_round_cost, contested : str
        How one gets past it, at what cost, and what speaks against the evidence.
    holds_until : str
        What would end it, where it is about today's software or offers.
    shown_in : Shown or None
        The lesson, and in it the scene, that shows the mechanism.
    """

    kind: str
    name: str
    machine: str
    text: str
    source: Source | None = None
    way_round: str = ""
    way_round_cost: str = ""
    contested: str = ""
    holds_until: str = ""
    shown_in: _gates.Shown | None = None

    def __repr__(self) -> str:
        return f"Reason({self.kind!r}, {self.name!r}, for={self.machine!r}, {self.text!r})"


@dataclass(frozen=True)
class Flip:
    """The nearest change of one input that alters the verdict, found by asking again.

    Attributes
    ----------
    field : str
        The input, or "every GPU price" where cost decides.
    now, to : str
        What it is and what it would have to be; "unknown" where it is not given.
    verdict : str
        The verdict after the change.
    because : str
        What decides then.
    """

    field: str
    now: str
    to: str
    verdict: str
    because: str


@dataclass(frozen=True, repr=False)
class Advice:
    """A verdict one can defend: reasons in order, numbers with bands, what would flip it, and a pilot.

    Attributes
    ----------
    workload : Workload
        What was asked.
    verdict : str
        "gpu", "tpu", "either" (settle it by the pilot) or "neither".
    summary : str
        The verdict and what decided it, in a sentence.
    reasons : tuple of Reason
        In the order of `SEVERITY`.
    estimates : tuple of ChipEstimate
        Memory, speed, cost and energy for each chip compared.
    cost : Comparison
        What a side costs, in which unit, or why that is not known.
    inputs : tuple of CostInput
        What the costs depend on beside speed and price, given or by default, each with its source.
    measured : tuple of Evidence
        What was made of the reader's own measurements.
    price_line : tuple of PriceRange
        The verdict over the factor on every GPU price, from 0 to infinity.
    break_even : BreakEven
        Where both sides cost the same.
    flips : tuple of Flip
        One for each input field and each verdict it can lead to.
    pilot : Pilot
        What to measure next.
    as_of : str
        Date of the newest catalogue entry used.
    version : str
        Of this package.
    """

    workload: Workload
    verdict: str
    summary: str
    reasons: tuple[Reason, ...]
    estimates: tuple[ChipEstimate, ...]
    cost: Comparison
    inputs: tuple[CostInput, ...]
    measured: tuple[Evidence, ...]
    price_line: tuple[PriceRange, ...]
    break_even: BreakEven
    flips: tuple[Flip, ...]
    pilot: Pilot
    as_of: str
    version: str

    @property
    def cost_ratio(self) -> Band | None:
        """Cost on TPUs over cost on GPUs."""
        return self.cost.ratio

    def __repr__(self) -> str:
        return f"Advice(verdict={self.verdict!r}, reasons={len(self.reasons)}, flips={len(self.flips)})"

    def __str__(self) -> str:
        from pulsewarp.guide.report import as_text  # here, because it reads this class

        return as_text(self)

    def _repr_html_(self) -> str:
        from pulsewarp.guide.report import as_html  # here, because it reads this class

        return as_html(self)

    def _repr_markdown_(self) -> str:
        from pulsewarp.guide.report import as_markdown  # here, because it reads this class

        return as_markdown(self)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain dictionaries, lists and numbers, ready for JSON."""
        from pulsewarp.guide.report import as_dict  # here, because it reads this class

        return as_dict(self)


@dataclass(frozen=True)
class _Decision:
    verdict: str
    because: str
    findings: tuple[_gates.Finding, ...]
    conflict: str
    comparison: Comparison | None


@names_keywords
def advise(
    workload: Workload,
    *,
    prices: Iterable[chips.Price] | None = None,
    measured: Iterable[Timed | OwnRun] = (),
) -> Advice:
    """Say whether a workload belongs on GPUs, on TPUs, on either or on neither, and why.

    Gates come first: what blocks both machines makes it neither, what blocks one leaves the other, and no
    saving outvotes that. Where nothing blocks, what speaks for one side decides unless cost or another
    reason contradicts it; then, and where nothing speaks, the cost ratio decides if its whole 80 % band lies
    on one side of 1, and otherwise it is "either": a pilot settles it. Not modelled: what `Workload` cannot
    say.

    Parameters
    ----------
    workload : Workload
        What is to run.
    prices : iterable of chips.Price, optional
        Used in place of the catalogue's rows.
    measured : iterable of bench measurements or OwnRun, optional
        The reader's own, which pull the estimates of the chips that they ran on and narrow their bands.

    Returns
    -------
    Advice
        With the verdict, ordered reasons, estimates, flips, a price line and a pilot.

    Raises
    ------
    TypeError
        When `workload` is not a Workload, `prices` holds anything but prices, or `measured` anything else.

    Examples
    --------
    >>> from pulsewarp import guide
    >>> advice = guide.advise(guide.Workload(phase="train", framework="pytorch", custom_kernels="triton"))
    >>> advice.verdict
    'gpu'
    >>> print(advice.reasons[0].text)
    The work depends on Triton kernels, which no TPU runs.
    """
    rows, own = price_rows(prices), measured_rows(measured)
    facts = evidence_for(checked(workload), own)
    ask = functools.partial(_decide, rows=rows, measured=own)
    decision = ask(workload)
    comparison = compare_checked(workload, rows, facts)
    flips = tuple(_flips(workload, decision, comparison, ask))
    breaks = break_even(workload, comparison)

    def at(factor: float) -> tuple[str, str]:
        there = ask(workload, gpu_price_factor=factor)
        return there.verdict, there.because

    return Advice(
        workload=workload,
        verdict=decision.verdict,
        summary=_summary(decision),
        reasons=tuple(_reasons(workload, decision, comparison, flips)),
        estimates=comparison.estimates,
        cost=comparison,
        inputs=cost_inputs(workload),
        measured=facts,
        price_line=price_line(decision.comparison, at),
        break_even=breaks,
        flips=flips,
        pilot=plan_pilot(workload, decision.verdict, comparison),
        as_of=max(chip.as_of for chip in chips.catalogue()),
        version=pulsewarp.__version__,
    )


# --- the verdict -----------------------------------------------------------------------------------------


def _decide(
    workload: Workload,
    rows: tuple[chips.Price, ...] | None,
    measured: tuple[Timed | OwnRun, ...] = (),
    *,
    gpu_price_factor: float = 1.0,
) -> _Decision:
    findings = _gates.check(workload, _gates.GATES)
    both = [f for f in findings if len(f.gate.blocks) == 2]
    blocked = {machine: [f for f in findings if f.gate.blocks == (machine,)] for machine in ("tpu", "gpu")}
    speaks = {machine: [f for f in findings if f.gate.favours == machine] for machine in ("tpu", "gpu")}
    if both:
        return _Decision("neither", both[0].text, findings, _outvoted(both[0], findings), None)
    if blocked["tpu"] and blocked["gpu"]:
        texts = " ".join(blocked[machine][0].text for machine in ("tpu", "gpu"))
        text = f"Something rules out each machine; remove one of the two before choosing. {texts}"
        return _Decision("neither", text, findings, text, None)
    for machine, other in (("tpu", "gpu"), ("gpu", "tpu")):
        if blocked[machine]:
            first = blocked[machine][0]
            return _Decision(other, first.text, findings, _outvoted(first, findings), None)
    facts = evidence_for(workload, measured) if measured else ()
    comparison = compare_checked(workload, rows, facts, gpu_price_factor)
    cheaper = _cheaper(comparison)
    sides = [machine for machine in ("gpu", "tpu") if speaks[machine]]
    if len(sides) == 1:
        side = sides[0]
        because = speaks[side][0].text
        if cheaper not in (side, None):
            text = f"{because} But the cost ratio, with its whole band, speaks for the other side."
            return _Decision("either", text, findings, text, comparison)
        return _Decision(side, because, findings, "", comparison)
    conflict = ""
    if len(sides) == 2:
        conflict = f"{speaks['gpu'][0].text} Against that: {speaks['tpu'][0].text}"
    if cheaper is not None:
        return _Decision(cheaper, _ratio_text(comparison), findings, conflict, comparison)
    because = conflict or (
        _ratio_text(comparison)
        if comparison.ratio is not None
        else f"No gate speaks, and cost is not known: {comparison.missing}."
    )
    return _Decision("either", because, findings, conflict, comparison)


def _outvoted(by: _gates.Finding, findings: tuple[_gates.Finding, ...]) -> str:
    """Say what speaks for a machine that a gate rules out; empty where nothing does."""
    said = [
        f"{finding.text} That speaks for a {machine.upper()}."
        for finding in findings
        if (machine := finding.gate.favours) in by.gate.blocks
    ]
    return " ".join([*said, f"It does not outvote what rules that out: {by.text}"]) if said else ""


def _cheaper(comparison: Comparison) -> str | None:
    ratio = comparison.ratio
    if ratio is None:
        return None
    return "gpu" if ratio.low > 1 else "tpu" if ratio.high < 1 else None


def _ratio_text(comparison: Comparison) -> str:
    ratio = comparison.ratio
    assert ratio is not None  # callers ask only where there is one
    side = _cheaper(comparison)
    tail = (
        f"the whole band speaks for {side.upper()}s"
        if side is not None
        else "the band holds 1, so published numbers cannot settle it"
    )
    return f"TPU over GPU cost is {ratio}: {tail}."


_HEADLINES = {
    "gpu": "Use GPUs.",
    "tpu": "Use TPUs.",
    "either": "Either; settle it by a pilot.",
    "neither": "Neither a TPU nor a GPU of your own.",
}


def _summary(decision: _Decision) -> str:
    return f"{_HEADLINES[decision.verdict]} {decision.because}"


# --- reasons ---------------------------------------------------------------------------------------------


def _reasons(
    workload: Workload, decision: _Decision, comparison: Comparison, flips: tuple[Flip, ...]
) -> Iterator[Reason]:
    for finding in decision.findings:
        if len(finding.gate.blocks) == 2:
            yield _gate_reason("neither", "", finding)
    if decision.conflict:
        yield Reason("conflict", "conflict", "", decision.conflict)
    for finding in decision.findings:
        if len(finding.gate.blocks) == 1:
            yield _gate_reason("gate", "gpu" if finding.gate.blocks == ("tpu",) else "tpu", finding)
    for finding in decision.findings:
        if finding.gate.favours is not None:
            yield _gate_reason("favours", finding.gate.favours, finding)
    yield from _number_reasons(workload, comparison)
    if comparison.missing and decision.verdict == "either":
        yield Reason("unknown", "cost_unknown", "", f"Cost is not compared: {comparison.missing}.")
    unknown = list(dict.fromkeys(flip.field for flip in flips if flip.now == "unknown"))
    if unknown:
        yield Reason(
            "unknown",
            "unknown_fields",
            "",
            f"Not given, and able to change the verdict: {', '.join(unknown)}.",
        )


def _number_reasons(workload: Workload, comparison: Comparison) -> Iterator[Reason]:
    if comparison.ratio is not None:
        yield _cost_reason(workload, comparison)
    yield from _memory_reason(workload, comparison)
    yield from _serving_reasons(comparison)
    yield from _energy_reason(workload, comparison)


def _cost_reason(workload: Workload, comparison: Comparison) -> Reason:
    quoted = None not in (workload.usd_per_gpu_hour, workload.usd_per_tpu_hour)
    own = [text for estimate in comparison.estimates for text in estimate.measured]
    narrower = comparison.ratio_at_these_batches
    return Reason(
        "cost",
        "cost_ratio",
        _cheaper(comparison) or "",
        f"{_ratio_text(comparison)} {comparison.unit}: TPU {comparison.tpu}, GPU {comparison.gpu}."
        + (f" At these batches, whatever the wait: {narrower}." if narrower else "")
        + (f" {' '.join(own)}" if own else ""),
        _price_source(comparison),
        way_round=""
        if quoted
        else "Give your own quotes: gpu_chip with usd_per_gpu_hour, tpu_chip with usd_per_tpu_hour.",
        contested="efficiency is fitted on published runs, which are tuned ones"
        + ("" if quoted else "; published prices of one chip differ several times over"),
        shown_in=_gates.Shown("04_measure_it", "Name the gap"),
    )


def _memory_reason(workload: Workload, comparison: Comparison) -> Iterator[Reason]:
    counts = [(e.name, e.memory) for e in comparison.estimates if e.memory is not None]
    if counts:
        smallest = ", ".join(f"{memory.chips} {name}" for name, memory in counts)
        few = [name for name, memory in counts if workload.chips and workload.chips < memory.chips]
        first = counts[0][1]
        yield Reason(
            "fit",
            "memory",
            "",
            f"{short(first.bytes_needed / 1e9)} GB ({', '.join(part.name for part in first.parts)}) need at "
            f"least: {smallest}."
            + (f" Your {workload.chips} are too few of: {', '.join(few)}." if few else ""),
            contested=" ".join(first.remarks),
            shown_in=_gates.Shown("04b_more_than_one", "Three ways to cut"),
        )


def _serving_reasons(comparison: Comparison) -> Iterator[Reason]:
    served = [(e.usd, e.point, e) for e in comparison.estimates if e.usd is not None and e.point is not None]
    for family in ("tpu", "gpu"):
        side = [row for row in served if row[2].family == family]
        if side:
            usd, point, cheapest = min(side, key=lambda row: row[0].value)
            yield Reason(
                "time",
                "serving",
                "",
                f"Cheapest {family.upper()}: {cheapest.n_chips} {cheapest.name} at batch {point.batch:,}, "
                f"{point.step_seconds * 1e3} ms a token, limited by {point.limited_by}; "
                f"{usd} US dollars a million output tokens{_within(cheapest)}",
                contested="serving factors are fitted on few published runs",
                shown_in=_gates.Shown("01_why_matmul", "A roof over every chip"),
            )
    floors = [(e.decode_floor_seconds, e) for e in comparison.estimates if e.decode_floor_seconds is not None]
    if floors:
        seconds, fastest = min(floors, key=lambda pair: pair[0])
        yield Reason(
            "time",
            "decode_floor",
            "",
            f"A decode step reads every active weight once: at least {short(1e3 * seconds)} ms on "
            f"{fastest.n_chips} {fastest.name}. Real steps also carry KV cache, overhead and collectives.",
            chips.get(fastest.chip_id).source("bandwidth_bytes_per_second"),
            shown_in=_gates.Shown("01_why_matmul", "Twist: batch 1"),
        )


def _within(estimate: ChipEstimate) -> str:
    """Say what a cost within a latency stands for, and what it is without holding to that."""
    at_this_batch = estimate.usd_at_this_batch
    if at_this_batch is None:
        return "."
    late = "".join(f" {remark[0].upper()}{remark[1:]}." for remark in estimate.remarks)
    return f" if batch and slice follow the latency, {at_this_batch} at this batch whatever the wait.{late}"


def _energy_reason(workload: Workload, comparison: Comparison) -> Iterator[Reason]:
    serves = workload.phase == "inference"
    powered = [
        (band, e)
        for e in comparison.estimates
        if (band := e.kwh_per_million_output_tokens if serves else e.kwh_per_billion_tokens) is not None
    ]
    unpowered = [
        e.name
        for e in comparison.estimates
        if (e.training or e.point) and e.kwh_per_billion_tokens is e.kwh_per_million_output_tokens is None
    ]
    if powered:
        energy, least = min(powered, key=lambda pair: pair[0].value)
        amount = "million output tokens" if serves else "billion tokens"
        cooling = "with your PUE" if workload.pue is not None else "before cooling"
        yield Reason(
            "energy",
            "energy",
            "",
            f"{least.name} needs {energy} kWh a {amount} {cooling}, by its design power"
            + (f"; for {', '.join(unpowered)} no chip power is published." if unpowered else "."),
            chips.get(least.chip_id).source("tdp_watts"),
            contested="node power was 0.93 to 1.28 times the design power of its GPUs in published logs",
            shown_in=_gates.Shown("04_measure_it", "Energy"),
        )


def _gate_reason(kind: str, machine: str, finding: _gates.Finding) -> Reason:
    gate = finding.gate
    return Reason(
        kind,
        gate.name,
        machine,
        finding.text,
        gate.source,
        gate.way_round,
        gate.way_round_cost,
        gate.contested,
        gate.holds_until,
        gate.shown_in,
    )


def _price_source(comparison: Comparison) -> Source | None:
    rows = [row for estimate in comparison.estimates for row in estimate.price_rows]
    if not rows:
        return None
    dates = sorted({row.date for row in rows if row.date != "undated"}) or ["undated"]
    providers = sorted({row.provider for row in rows})
    span = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    return Source(
        key="prices",
        title=f"{len(rows)} on-demand prices of {', '.join(providers)}",
        address="pulsewarp.chips.prices()",
        date=span,
    )


# --- flips -----------------------------------------------------------------------------------------------

# Fields in which neighbouring words are neighbours in meaning; in the others every word is equally near.
_ORDERED = ("precision", "batch", "shapes", "non_matrix_share")
_NUMBERS = (
    *("params_b", "active_params_b", "chips", "seq_len", "output_len", "batch_size", "tokens_b"),
    *("port_weeks", "usd_per_engineer_week", "usd_per_gpu_hour", "usd_per_tpu_hour"),
    *(name for name in COST_FIELDS if name not in ("seq_len", "output_len", "commitment_years")),
)
# What is the same for both sides, or paid once, matters only beside tokens over which the latter is spread.
_SPREAD = (
    *("tokens_b", "served_tokens_b", "port_weeks", "usd_per_engineer_week", "leave_weeks", "egress_tb"),
    *("usd_per_egress_gb", "goodput"),
)
_NEVER = ("gpu_lead_weeks", "tpu_lead_weeks", "pue")  # read by dates and energy, not by a verdict
# A change is looked for at these multiples and then narrowed down by halving; a verdict that changes and
# changes back between two of them is missed.
_LADDER = (1.25, 2, 5, 20, 100, 1000)
# Numbers for which a whole curve of serving is computed anew are tried at one multiple, not narrowed down.
_CURVE = ("params_b", "active_params_b", "seq_len", "output_len")
_CURVE_LADDER, _SPEED_LADDER = (4,), (2, 10, 100)
_FINE, _ROUGH = 0.01, 0.05  # how far an edge is narrowed down: prices are cheap to ask about, speeds are not
_SPEEDS = (*_CURVE, "chips", "batch_size", "token_ms")

_Ask = Callable[..., "_Decision"]


def _flips(workload: Workload, decision: _Decision, comparison: Comparison, ask: _Ask) -> Iterator[Flip]:
    for field, words in VOCABULARY.items():
        yield from _word_flips(workload, decision, ask, field, words)
    spread = comparison.once.high > 0 and comparison.running is not None
    for field in _NUMBERS:
        matters = spread or field not in _SPREAD
        if matters and field not in _NEVER and getattr(workload, field):
            yield from _number_flips(workload, decision, ask, field)
    if decision.comparison is not None and comparison.ratio is not None:
        yield from _price_flips(workload, decision, comparison.ratio, ask)


def _word_flips(
    workload: Workload, decision: _Decision, ask: _Ask, field: str, words: tuple[str, ...]
) -> Iterator[Flip]:
    now = getattr(workload, field)
    place = words.index(now)
    others = [word for word in words if word not in (now, "any")]
    if field in _ORDERED and now != "any":
        others.sort(key=lambda word: abs(words.index(word) - place))
    seen: set[str] = set()
    for word in others:
        try:
            changed = workload.change(**{field: word})
        except ValueError:
            continue  # the word contradicts another field, so it is no single change
        after = ask(changed)
        if after.verdict not in (decision.verdict, *seen):
            seen.add(after.verdict)
            yield Flip(field, "unknown" if now == "any" else now, word, after.verdict, after.because)


def _number_flips(workload: Workload, decision: _Decision, ask: _Ask, field: str) -> Iterator[Flip]:
    now = getattr(workload, field)
    whole = isinstance(now, int)
    coarse = workload.phase == "inference" and field in _CURVE
    ladder = _CURVE_LADDER if coarse else _SPEED_LADDER if field in _SPEEDS else _LADDER

    def at(value: float) -> _Decision | None:
        try:
            return ask(workload.change(**{field: round(value) if whole else value}))
        except ValueError:
            return None  # outside what the field allows, or contradicting another field

    for direction in (1, -1):
        before = float(now)
        for step in ladder:
            value = float(now) * step**direction
            after = at(value)
            if after is None:
                break
            if after.verdict != decision.verdict:
                edge, reached = value, after
                if not coarse:
                    share = _ROUGH if field in _SPEEDS else _FINE
                    edge, reached = _narrow(at, before, value, decision.verdict, after, share)
                number = f"{round(edge):,}" if whole else short(edge)
                sign = "" if coarse else "at least " if direction == 1 else "at most "
                yield Flip(field, f"{now:,}", f"{sign}{number}", reached.verdict, reached.because)
                break
            before = value


def _narrow(
    ask: Callable[[float], _Decision | None],
    inside: float,
    outside: float,
    verdict: str,
    after: _Decision,
    share: float,
) -> tuple[float, _Decision]:
    """Halve the step in which the verdict changes until it is known to that share."""
    while abs(outside - inside) > share * abs(outside):
        middle = (inside + outside) / 2
        decision = ask(middle)
        if decision is None or decision.verdict == verdict:
            inside = middle
        else:
            outside, after = middle, decision
    return outside, after


def _price_flips(workload: Workload, decision: _Decision, ratio: Band, ask: _Ask) -> Iterator[Flip]:
    """Where the band leaves 1: the ratio's own edges say by how much every GPU price would have to change."""
    for factor, sign in ((ratio.high * 1.001, "at least"), (ratio.low * 0.999, "at most")):
        after = ask(workload, gpu_price_factor=factor)
        if after.verdict != decision.verdict:
            yield Flip(
                "every GPU price",
                f"break-even at {short(ratio.value)} times today's",
                f"{sign} {short(factor)} times today's",
                after.verdict,
                after.because,
            )
