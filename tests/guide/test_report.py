"""The report's faces; and a walk over one report that asks each number where it is from."""

from __future__ import annotations

import dataclasses
import html.parser
import importlib.util
import itertools
import json
import math
import re
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pulsewarp
from pulsewarp import chips, guide
from pulsewarp.guide import (
    Band,
    Workload,
    gates,
    inputs,
    machines,
    measured,
    models,
    pilot,
    report_rows,
    serving,
    slices,
)
from pulsewarp.guide.band import short
from pulsewarp.guide.costs import NODE_POWER_OVER_TDP
from pulsewarp.guide.pilot import pilot_chip_hours
from pulsewarp.guide.report import as_markdown, as_yaml
from pulsewarp.guide.report import tables as tables_of
from pulsewarp.guide.report_page import as_page
from pulsewarp.matmul import BYTES

SHOWN = Workload(
    domain="llm",
    phase="train",
    params_b=70,
    framework="jax",
    location="multi_cloud",
    chips=512,
    tokens_b=2000,
    model_type="<b>dense</b> | one",
)
SERVED = Workload(phase="inference", model="llama-3.1-8b", precision="bf16", framework="vllm", output_len=512)
GATED = Workload(phase="train", framework="pytorch", custom_kernels="triton")
MADE = "2026-12-01"


@pytest.fixture(scope="module")
def shown() -> guide.Advice:
    return guide.advise(SHOWN)


# --- every number traces to a source, an input or a formula ------------------------------------------------

NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?")
NOTEBOOKS = [path.stem for path in (Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb")]
# What a sentence beside a number quotes from evidence: node power over the summed TDP in published logs.
QUOTED = {"energy": "0.93 1.28"}
SIZES_TRIED = 4  # slices or nodes from the smallest that holds the model on
EQUAL = 1  # the ratio at which both sides cost the same


class Walker(html.parser.HTMLParser):
    """Collects each number of the page's text with the trace of the element around it."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[tuple[str, str]] = []
        self.found: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "link"):
            above = self.open[-1][1] if self.open else ""
            self.open.append((tag, dict(attrs).get("data-from") or above))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1][0] not in ("style", "title"):
            self.found += [(self.open[-1][1], number) for number in NUMBER.findall(data)]


def numbers(page: str) -> list[tuple[str, str]]:
    walker = Walker()
    walker.feed(page)
    return walker.found


def text_of(*values: object) -> set[str]:
    return set(NUMBER.findall(" ".join(str(value) for value in values)))


class Origins:
    """What may stand in an element, computed anew from catalogue, prices, inputs and formulas."""

    def __init__(self, workload: Workload, own: tuple[guide.OwnRun, ...] = ()) -> None:
        self.workload, self.own = workload, own
        self.serves = workload.phase == "inference"
        self.advice = guide.advise(workload, measured=own)
        self.compared = guide.compare(workload, measured=own)
        self.ratio = self.compared.ratio
        self.estimates = {e.chip_id: e for e in self.compared.estimates}
        self.inputs = {item.name: item for item in inputs.cost_inputs(workload)}
        self.shape = models.shape_of(workload)
        self.asked = functools_cache(self._allowed)
        self.points = {chip_id: self._point(chip_id) for chip_id in self.estimates} if self.serves else {}

    def allow(self, trace: str) -> set[str]:
        return self.asked(trace)

    def _allowed(self, trace: str) -> set[str]:
        kind, _, name = trace.partition(" ")
        of_kind: Callable[[str], set[str]] | None = getattr(self, f"of_{kind}", None)
        assert of_kind is not None, f"no such trace: {trace!r}"
        return of_kind(name)

    # What is the reader's own, and dates

    def of_input(self, name: str) -> set[str]:
        value = self.workload.to_dict()[name]
        return text_of(value, f"{value:,g}" if isinstance(value, float) else "")

    def of_version(self, _: str) -> set[str]:
        return text_of(pulsewarp.__version__)

    def of_as_of(self, _: str) -> set[str]:
        return text_of(max(chip.as_of for chip in chips.catalogue()))

    def of_made(self, _: str) -> set[str]:
        return text_of(MADE)

    def of_chip(self, name: str) -> set[str]:
        return text_of(chips.get(name).name)

    def of_measured(self, _: str) -> set[str]:
        return text_of(
            *(f"{short(run.tokens_per_second_per_chip)} {run.n_chips:,}" for run in self.own),
            *(f"{run.tokens_per_second_per_chip:,.4g}" for run in self.own),
            *(f"{run.batch:,}" for run in self.own if run.batch is not None),
            *(chips.get(run.chip).name for run in self.own),
        )

    # Sentences

    def of_summary(self, _: str) -> set[str]:
        return text_of(self.ratio, EQUAL) | self._gate_words()

    def _gate_words(self) -> set[str]:
        return {n for finding in gates.check(self.workload) for n in text_of(finding.text)}

    def of_reason(self, name: str) -> set[str]:
        for finding in gates.check(self.workload):
            if finding.gate.name == name:
                gate = finding.gate
                words = (gate.way_round, gate.way_round_cost, gate.contested, gate.holds_until, gate.shown_in)
                return text_of(finding.text, *words)
        known = list(self.estimates.values())
        by_kind: dict[str, tuple[object, ...]] = {
            "cost_ratio": (EQUAL, self.ratio, self.compared.tpu, self.compared.gpu, self._narrower()),
            "memory": (
                *(e.memory.chips for e in known if e.memory),
                *(short(e.memory.bytes_needed / 1e9) for e in known if e.memory),
                *(remark for e in known if e.memory for remark in e.memory.remarks),
            ),
            "serving": tuple(self._serving_words()),
            "decode_floor": tuple(self._floor_words()),
            "energy": (QUOTED["energy"], *(self._energy(e.chip_id) for e in known)),
        }
        return text_of(*NOTEBOOKS, *(e.name for e in known), *by_kind.get(name, ())) | (
            self.of_measured("") if name == "cost_ratio" else set()
        )

    def _serving_words(self) -> Iterator[object]:
        for family in ("tpu", "gpu"):
            usd = {c: u.value for c in self.points if (u := self.usd(c)) and chips.get(c).family == family}
            if usd:
                chip_id = min(usd, key=lambda each: usd[each])
                n_chips, point = self.points[chip_id]
                yield from (n_chips, f"{point.batch:,}", point.step_seconds * 1e3, self.usd(chip_id))
                yield from (self.usd(chip_id, held=False), *self.estimates[chip_id].remarks)
        yield self.inputs.get("token_ms")

    def _floor_words(self) -> Iterator[object]:
        assert self.shape is not None
        for chip_id, e in self.estimates.items():
            chip = chips.get(chip_id)
            if chip.bandwidth_bytes_per_second:
                n_chips = max(self.workload.chips or 1, e.memory.chips if e.memory else 1)
                size = BYTES[self.precision]
                yield n_chips
                seconds = self.shape.active_params_b * 1e9 * size / chip.bandwidth_bytes_per_second / n_chips
                yield short(1e3 * seconds)

    def of_remark(self, _: str) -> set[str]:
        found = [e for e in self.estimates.values() if e.remarks]
        limits = ("token_ms",) if "token_ms" in self.inputs else ()
        return text_of(*(e.name for e in found), *(short(self.inputs[n].value) for n in limits), SIZES_TRIED)

    def of_cost_input(self, name: str) -> set[str]:
        item = self.inputs[name]
        cited = (item.source.title, item.source.date) if item.source else ()
        return text_of(short(item.value), item.unit, item.text, *cited)

    def of_source(self, key: str) -> set[str]:
        if key == "prices":
            rows = [row for chip_id in self.estimates for row in self._rows(chip_id)]
            return text_of(len(rows), *(row.date for row in rows))
        known: list[chips.Source] = [gate.source for gate in gates.GATES]
        known += [value for value in vars(machines).values() if isinstance(value, chips.Source)]
        known += [row.source for row in chips.prices()]
        known += [item.source for item in self.inputs.values() if item.source]
        for chip in chips.catalogue():
            known += chip.sources.values()
        return text_of(*(f"{s.title} {s.date}" for s in known if s.key == key))

    def _rows(self, chip_id: str) -> list[chips.Price]:
        rows = chips.prices(chip_id)
        return [row for row in rows if row.kind == "on-demand" and row.confidence in ("good", "medium")]

    def of_prices(self, _: str) -> set[str]:
        counts = [
            len([row for row in self._rows(chip_id) if row.source == source])
            for chip_id in self.estimates
            for source in {row.source for row in self._rows(chip_id)}
        ]
        return text_of(*counts, *(e.name for e in self.estimates.values()))

    # Numbers of a chip

    @property
    def precision(self) -> str:
        return "bf16" if self.workload.precision in ("any", "mixed") else self.workload.precision

    def price(self, chip_id: str) -> Band | None:
        usd = [row.usd_per_chip_hour for row in self._rows(chip_id)]
        return Band(min(usd), statistics.median(usd), max(usd)) if usd else None

    def _curves(self, chip_id: str, least: int) -> Iterator[tuple[int, guide.Serving]]:
        """Slices or nodes from `least` on, four sizes, with what they serve."""
        context, answer = (round(self.inputs[name].value) for name in ("seq_len", "output_len"))
        assert self.shape is not None
        for n in [count for count in slices.legal(chip_id) if count >= least][:4]:
            curve = serving.serve(
                self.shape, chip_id, n, precision=self.precision, context=context, output_len=answer
            )
            if curve is not None:
                yield n, curve

    def _in_time(self, curve: guide.Serving, slower: float = 1.0) -> list[guide.ServingPoint]:
        most = {"one": 1, "small": 32, "medium": 256}.get(self.workload.batch, math.inf)
        bound = self.inputs["token_ms"].value if "token_ms" in self.inputs else math.inf
        return [p for p in curve.points if p.fits and p.batch <= most and 1e3 * slower * p.seconds <= bound]

    def _point(self, chip_id: str) -> Any:
        """The slice and the batch that serve most tokens a chip in time."""
        fit = self.estimates[chip_id].memory
        found = [(n, p) for n, c in self._curves(chip_id, fit.chips if fit else 1) for p in self._in_time(c)]
        return max(found, key=lambda pair: pair[1].served, default=None)

    def rate(self, chip_id: str, held: bool = True) -> Band | None:
        """Tokens a second for one chip; in serving at the batch chosen, or `held` to the latency."""
        e = self.estimates[chip_id]
        if not self.serves:
            run = guide.estimate_training(
                params_b=self.workload.params_b, precision="bf16", chip=chip_id, n_chips=e.n_chips
            )
            band = run.tokens_per_second_per_chip
            for own in self.own:
                if own.chip == chip_id:
                    band = measured.pulled(band, own.tokens_per_second_per_chip, measured.OWN_RUN_DEVIATION)
            return band
        if self.points[chip_id] is None:
            return None
        n_chips, point = self.points[chip_id]
        band, step = point.served_tokens_per_second_per_chip, point.step_seconds
        if held:
            slow = [
                p.served
                for _, curve in self._curves(chip_id, n_chips)
                for p in self._in_time(curve, step.high / step.value)
            ] or [p.served for p in e.serving.points][:1]
            quick = [p.served for p in self._in_time(e.serving, step.low / step.value)]
            low, high = max(slow) * band.low / band.value, max(quick) * band.high / band.value
            band = Band(min(band.low, low), band.value, max(band.high, high))
        for own in self.own:
            if own.chip == chip_id and own.batch:
                there = dict(self._curves(chip_id, own.n_chips))[own.n_chips]
                at = next(p for p in there.points if p.batch == own.batch).tokens_per_second_per_chip
                pulled = measured.pulled(at, own.tokens_per_second_per_chip, measured.OWN_RUN_DEVIATION)
                value = band.value * pulled.value / at.value
                band = Band(value * pulled.low / pulled.value, value, value * pulled.high / pulled.value)
        return band

    def _hours(self, rate: Band | None) -> Band | None:
        amount = (1e6 if self.serves else 1e9) / 3600 / self.inputs["goodput"].value
        return rate and Band(*(amount / s for s in (rate.high, rate.value, rate.low)))

    def usd(self, chip_id: str, held: bool = True) -> Band | None:
        hours, price = self._hours(self.rate(chip_id, held)), self.price(chip_id)
        return hours and price and hours * price

    def _energy(self, chip_id: str) -> Band | None:
        watts, hours = chips.get(chip_id).tdp_watts, self._hours(self.rate(chip_id))
        return hours * (NODE_POWER_OVER_TDP * (watts / 1000)) if hours and watts else None

    def _narrower(self) -> Band | None:
        if not self.serves or self.ratio is None:
            return None
        sides = []
        for family in ("tpu", "gpu"):
            usd = [u for c in self.points if chips.get(c).family == family and (u := self.usd(c, held=False))]
            sides.append(Band(*(min(getattr(u, edge) for u in usd) for edge in ("low", "value", "high"))))
        return sides[0] / sides[1]

    def of_estimate(self, words: str) -> set[str]:
        chip_id, _, field = words.partition(" ")
        estimate, rate = self.estimates[chip_id], self.rate(chip_id)
        hours, found = self._hours(rate), None
        n_chips = max(self.workload.chips or 1, estimate.memory.chips if estimate.memory else 1)
        point = self.points.get(chip_id)
        if field == "n_chips":
            found = f"{point[0] if point else n_chips:,}"
        elif field == "Batch":
            found = point and f"{point[1].batch:,}"
        elif field == "Step, ms":
            found = point and point[1].step_seconds * 1e3
        elif field == "Tokens/s a chip":
            found = point[1].served_tokens_per_second_per_chip if point else rate
        elif field == "cases":
            found = len(estimate.training.cases) if estimate.training else 0
        elif field == "usd_per_chip_hour":
            found = self.price(chip_id)
        elif field == ("usd_per_million_output_tokens" if self.serves else "usd_per_billion_tokens"):
            found = self.usd(chip_id)
        elif field == "days":
            found = hours and hours * (self.workload.tokens_b / estimate.n_chips / 24)
        elif field == ("kwh_per_million_output_tokens" if self.serves else "kwh_per_billion_tokens"):
            found = self._energy(chip_id)
        return text_of(found)

    # Where the verdict turns

    def of_price_line(self, name: str) -> set[str]:
        assert self.ratio is not None
        edges = [0.0, self.ratio.low, self.ratio.high, math.inf]
        low, high = edges[int(name)], edges[int(name) + 1]
        inside = [low / 1 if low else high / 2, high / 2, math.sqrt(low * high) if low else 1.0, low * 2, 1.0]
        ratios = [self.ratio / f for f in inside if 0 < f < math.inf]
        dollars = self._cheapest()[1]
        return text_of(*(short(edge * d) for edge in (low, high) for d in (1, dollars)), *ratios)

    def _cheapest(self) -> tuple[str, float]:
        usd = {c: u.value for c, e in self.estimates.items() if e.family == "gpu" and (u := self.usd(c))}
        chip_id = min(usd, key=lambda each: usd[each])
        price = self.price(chip_id)
        assert price is not None
        return chip_id, price.value

    def of_break_even(self, _: str) -> set[str]:
        assert self.ratio is not None
        chip_id, dollars = self._cheapest()
        return text_of(
            chips.get(chip_id).name,
            short(self.ratio.value),
            short(dollars),
            short(dollars * self.ratio.value),
            *self._break_even_batches(),
        )

    def _break_even_batches(self) -> tuple[str, ...]:
        """The first and last batch at which both sides serve, and the one where the cheaper side changes."""
        sides: list[dict[int, float]] = [{}, {}]
        for chip_id, e in self.estimates.items():
            price = self.price(chip_id)
            for p in e.serving.points if e.serving and price else ():
                if p.fits and p.served and price:
                    side = sides[e.family == "gpu"]
                    side[p.batch] = min(price.value / p.served, side.get(p.batch, math.inf))
        both = sorted(set(sides[0]) & set(sides[1]))
        cheaper = [(b, sides[0][b] < sides[1][b]) for b in both]
        turns = [b for (_, before), (b, after) in itertools.pairwise(cheaper) if before != after][:1]
        return tuple(f"{b:,}" for b in turns or both[:1] + both[-1:])

    def of_flip(self, number: str) -> set[str]:
        flip = self.advice.flips[int(number)]
        assert self.ratio is not None
        if flip.field == "every GPU price":
            factors = (self.ratio.high * 1.001, self.ratio.low * 0.999)
            ratios = [self.ratio / factor for factor in factors]
            return text_of(short(self.ratio.value), *(short(factor) for factor in factors), *ratios)
        to = flip.to.removeprefix("at least ").removeprefix("at most ")
        if flip.field in guide.VOCABULARY:
            changed = self.workload.change(**{flip.field: to})
        else:
            now = getattr(self.workload, flip.field)
            assert flip.now == f"{now:,}"
            value = float(to.replace(",", ""))
            changed = self.workload.change(**{flip.field: round(value) if isinstance(now, int) else value})
        after = guide.advise(changed, measured=self.own)
        assert after.verdict == flip.verdict, flip
        words = [finding.text for finding in gates.check(changed)]
        return text_of(to, flip.now, after.cost.ratio, *words)

    def of_pilot(self, _: str) -> set[str]:
        rented = self.advice.pilot.machines
        cost = None
        for machine in rented:
            price = self.price(machine.chip_id)
            part = None if price is None else price * pilot_chip_hours(machine)
            cost = part if cost is None or part is None else cost + part
        return text_of(
            *(pilot.WARM_UP_STEPS, pilot.TIMED_STEPS, pilot.REPEATS, pilot.SCALE, pilot.WORTH_MOVING),
            *(
                f"{m.smallest} {m.smallest_chips} {m.host} {m.host_chips} {m.remark} "
                f"{chips.get(m.chip_id).name}"
                for m in rented
            ),
            *(e.memory.chips for m in rented if (e := self.estimates[m.chip_id]).memory),
            *("float32 bfloat16 float8_e4m3fn", report_rows.MOST_HOURS, self.workload.model or ""),
            *(m.chip_id for m in rented),
            *(cost, None if self.ratio is None else short(self.ratio.value)),
        )

    def of_formula(self, name: str) -> set[str]:
        hours = (pilot.CHIP_HOURS, pilot.HOST_HOURS, pilot.SCALED_HOURS, pilot.SCALE)
        return {"band": text_of(80), "price_line": text_of(EQUAL), "pilot_cost": text_of(*hours)}.get(
            name, set()
        )


def functools_cache(function: Callable[[str], set[str]]) -> Callable[[str], set[str]]:
    known: dict[str, set[str]] = {}
    return lambda trace: known[trace] if trace in known else known.setdefault(trace, function(trace))


RUNS = {
    "trained": (SHOWN, ()),
    "served": (
        Workload(
            phase="inference", model="llama-3.1-70b", precision="fp8", framework="vllm", batch="medium",
            latency="interactive", seq_len=2500, output_len=500, served_tokens_b=3.65,
        ),
        (),
    ),
    "trained and timed": (
        SHOWN.change(chips=256),
        (guide.OwnRun(chip="tpu_v6e", tokens_per_second_per_chip=1011.5, n_chips=8),),
    ),
    "served and timed": (
        Workload(phase="inference", model="llama-3.1-8b", seq_len=2048, output_len=512, latency="real_time"),
        (guide.OwnRun(chip="h100_sxm", tokens_per_second_per_chip=3511.0, n_chips=1, batch=64),),
    ),
}  # fmt: skip


@pytest.fixture(scope="module", params=RUNS)
def origins(request: pytest.FixtureRequest) -> Origins:
    return Origins(*RUNS[request.param])


def untraced(page: str, origins: Origins) -> list[tuple[str, str]]:
    """Numbers that stand outside every trace, or are not what their trace gives."""
    return [
        (trace, number) for trace, number in numbers(page) if not trace or number not in origins.allow(trace)
    ]


def test_every_number_of_a_report_traces_to_a_source_an_input_or_a_formula(origins: Origins) -> None:
    page = as_page(origins.advice, made=MADE)
    assert len(numbers(page)) > 300
    assert untraced(page, origins) == []


def test_each_number_that_is_changed_turns_the_walk_red(origins: Origins) -> None:
    page = as_page(origins.advice, made=MADE)
    unseen = [(trace, n) for trace, n in numbers(page) if f"{n}7" in origins.allow(trace)]
    assert unseen == []
    assert untraced(page.replace("</header>", "<p>About 9 times.</p></header>"), origins) == [("", "9")]


def test_a_wrong_formula_turns_the_walk_red(origins: Origins, monkeypatch: pytest.MonkeyPatch) -> None:
    found = report_rows.speed
    monkeypatch.setattr(report_rows, "speed", lambda e: None if (b := found(e)) is None else b * 1.1)
    assert {trace.split()[-1] for trace, _ in untraced(as_page(origins.advice), origins)} == {"chip"}


# Numbers of one chip, in training and in serving; those that only one of them has are None in the other.
FIELDS = (
    *("usd_per_chip_hour", "usd_per_billion_tokens", "usd_per_million_output_tokens"),
    *("days", "kwh_per_billion_tokens", "kwh_per_million_output_tokens"),
)


def test_each_number_of_a_chip_that_is_a_tenth_off_turns_the_walk_red(origins: Origins) -> None:
    for field in FIELDS:
        bands = [getattr(e, field) for e in origins.advice.estimates]
        if any(bands):
            off = tuple(
                dataclasses.replace(e, **{field: band * 1.1}) if band else e
                for e, band in zip(origins.advice.estimates, bands, strict=True)
            )
            page = as_page(dataclasses.replace(origins.advice, estimates=off))
            assert {trace.split()[-1] for trace, _ in untraced(page, origins)} >= {field}
    told = dataclasses.replace(origins.advice.reasons[0], text="TPU over GPU cost is 1.2345.")
    page = as_page(dataclasses.replace(origins.advice, reasons=(told, *origins.advice.reasons[1:])))
    assert ("reason " + told.name, "1.2345") in untraced(page, origins)


# --- and in Markdown ---------------------------------------------------------------------------------------


def cells_of(advice: guide.Advice) -> list[report_rows.Cell]:
    """Every text that a face is made of, with its trace."""
    tables = [report_rows.reasons(advice), *tables_of(advice), report_rows.prices(advice)]
    tables += [report_rows.commands(advice), report_rows.days(advice)]
    found = [cell for table in tables for row in table.rows for cell in row]
    found += [*report_rows.remarks(advice), *report_rows.break_even(advice), report_rows.pilot_cost(advice)]
    found += [*report_rows.headline(advice)]
    found += [report_rows.Cell(text, f"formula {n}") for n, text in report_rows.formulas(advice).items()]
    plan = advice.pilot
    words = (plan.question, plan.metric, plan.stop_ratio, *plan.remarks, *plan.watch)
    found += [report_rows.Cell(text, "pilot") for text in words]
    return found + [report_rows.Cell(item.text, "measured") for item in advice.measured]


def untraced_in_markdown(text: str, origins: Origins) -> list[str]:
    """Pieces of a Markdown report with a number that no traced text accounts for."""
    cells = [cell for cell in cells_of(origins.advice) if NUMBER.search(cell.text)]
    wrong = [
        f"{cell.trace}: {n}"
        for cell in cells
        for n in NUMBER.findall(cell.text)
        if not cell.trace or n not in origins.allow(cell.trace)
    ]
    exact = {cell.text for cell in cells}
    exact |= set(as_yaml(origins.advice).splitlines())
    said = {f"{name} {value}" for name, value in origins.workload.known().items()}
    long = sorted((words for words in exact | said if len(words) > 8), key=len, reverse=True)
    stamp = text_of(pulsewarp.__version__, *origins.of_as_of(""))
    for line in text.replace("\\|", "&#124;").splitlines():
        pieces = line.strip("| ").split(" | ") if line.startswith("| ") else [line]
        for piece in pieces:
            rest = re.sub(r"\[(.*)\]\(https://[^)]*\)", r"\1", piece).replace("&#124;", "|")
            rest = re.sub(r"^(\d+\. |- )", "", rest)
            if rest in exact or set(rest.removeprefix("You said: ").split(", ")) <= said | {"model_type"}:
                continue
            for words in long:
                rest = rest.replace(words, "")
            if rest.startswith("*pulsewarp"):
                wrong += [f"{rest}: {n}" for n in NUMBER.findall(rest) if n not in stamp]
            elif NUMBER.search(rest) and rest not in said:
                wrong.append(rest)
    return wrong


def test_every_number_in_markdown_stands_in_a_traced_text(origins: Origins) -> None:
    text = as_markdown(origins.advice)
    assert len(NUMBER.findall(text)) > 300
    assert untraced_in_markdown(text, origins) == []


def test_a_number_in_markdown_that_is_only_said_turns_the_walk_red(origins: Origins) -> None:
    text = as_markdown(origins.advice)
    assert untraced_in_markdown(text + "\nAbout 9 times.\n", origins) == ["About 9 times."]
    for cell in cells_of(origins.advice):
        if cell.trace.endswith("usd_per_chip_hour") and NUMBER.search(cell.text):
            assert untraced_in_markdown(text.replace(f" {cell.text} ", f" {cell.text}7 "), origins)
            break


# --- the page ----------------------------------------------------------------------------------------------


PAGES = (SHOWN, SERVED, GATED, Workload(), Workload(params_b=0.0001, batch="one"))


@pytest.mark.parametrize("workload", PAGES, ids=["trained", "served", "gated", "unknown", "neither"])
def test_every_page_is_whole_escaped_and_alone(workload: Workload) -> None:
    advice = guide.advise(workload)
    page = as_page(advice, made=MADE)
    walker = Walker()
    walker.feed(page)
    assert not walker.open  # every element closes
    assert [trace for trace, _ in walker.found if not trace] == []  # a number anywhere has a trace
    assert "<b>dense</b>" not in page
    for loads_something in ("<script", "src=", "http-equiv", "url(", "@import", '<link rel="stylesheet'):
        assert loads_something not in page
    verdict, because = report_rows.headline(advice)
    assert page.index(f"<h1>{verdict.text}</h1>") < page.index("What was asked")
    assert f"{verdict.text} {because.text}" == advice.summary
    assert page.count("<table") == page.count("<caption")
    for reason in advice.reasons:
        if reason.source is not None and reason.source.address.startswith("https://"):
            assert f'href="{reason.source.address}"'.replace("&", "&amp;") in page


def test_the_footer_reproduces_the_report(shown: guide.Advice, tmp_path: Path) -> None:
    path = tmp_path / "workload.yaml"
    path.write_text(as_yaml(shown), encoding="utf-8")
    pytest.importorskip("yaml")
    again = guide.advise(Workload.load(path))
    assert again.workload == SHOWN
    assert as_page(again, made=MADE) == as_page(shown, made=MADE)
    assert "workload.yaml" in as_markdown(shown) and as_yaml(shown) in as_markdown(shown)


# --- the other faces ---------------------------------------------------------------------------------------


def test_the_plain_data_is_json_and_complete(shown: guide.Advice) -> None:
    data = json.loads(json.dumps(shown.to_dict(), allow_nan=False))
    assert data["form"] == "pulsewarp-advice/1"
    assert data["verdict"] == shown.verdict
    assert len(data["reasons"]) == len(shown.reasons)
    assert Workload.from_dict(data["workload"]) == SHOWN
    assert [part["verdict"] for part in data["price_line"]] == [part.verdict for part in shown.price_line]
    assert data["price_line"][-1]["gpu_price_factor_to"] is None
    assert [day["name"] for day in data["pilot"]["days"]] == [day.name for day in shown.pilot.days]
    for estimate in data["estimates"]:
        if estimate["usd_per_chip_hour"] is not None:
            assert all(row["date"] and row["source"]["address"] for row in estimate["price_sources"])


def test_the_html_for_a_notebook_is_plain_accessible_and_escaped(shown: guide.Advice) -> None:
    page = shown._repr_html_()
    assert "<b>dense</b>" not in page and "&lt;b&gt;dense&lt;/b&gt;" in page
    assert page.count("<table") == page.count("<caption") == 3
    assert 'scope="col"' in page and 'scope="row"' in page
    assert '<a href="https://github.com/' in page  # a source is one click away
    for loads_something in ("<script", "src=", "<link", "http-equiv", "url("):
        assert loads_something not in page


def test_markdown_rows_have_as_many_cells_as_their_head(shown: guide.Advice) -> None:
    for block in shown._repr_markdown_().split("\n\n"):
        rows = [line for line in block.splitlines() if line.startswith("| ")]
        assert len({line.replace("\\|", "").count("|") for line in rows}) <= 1


def test_each_face_says_the_same(shown: guide.Advice) -> None:
    faces = [str(shown), as_markdown(shown), shown._repr_html_(), as_page(shown)]
    for reason, face in itertools.product(shown.reasons, faces):
        assert reason.text in face
    for flip, face in itertools.product(shown.flips, faces):
        assert flip.because in face


def test_text_and_reprs_are_stable_and_hold_no_address(shown: guide.Advice) -> None:
    assert str(shown) == str(guide.advise(SHOWN))
    for value in (shown, *shown.reasons, *shown.estimates, *shown.flips, shown.pilot, *gates.GATES):
        assert "0x" not in repr(value) and len(repr(value)) < 1000
    assert shown.summary in str(shown)


def test_the_guide_needs_no_network_and_nothing_heavy() -> None:
    assert importlib.util.find_spec("pulsewarp.guide") is not None
    for file in Path(gates.__file__).parent.glob("*.py"):
        text = file.read_text(encoding="utf-8")
        for heavy in ("import urllib", "import requests", "import socket", "import jax", "import plotly"):
            assert heavy not in text, file.name
