"""The report's faces; and a walk over one report that asks each number where it is from."""

from __future__ import annotations

import html.parser
import importlib.util
import itertools
import json
import math
import re
import statistics
from collections.abc import Callable
from pathlib import Path

import pytest

import pulsewarp
from pulsewarp import chips, guide
from pulsewarp.guide import Band, Workload, gates, inputs, machines, models, pilot, report_rows
from pulsewarp.guide.band import short
from pulsewarp.guide.costs import NODE_POWER_OVER_TDP
from pulsewarp.guide.pilot import pilot_chip_hours
from pulsewarp.guide.report import as_markdown, as_yaml
from pulsewarp.guide.report_page import as_page

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

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.advice = guide.advise(workload)
        self.compared = guide.compare(workload)
        self.ratio = self.compared.ratio
        self.estimates = {e.chip_id: e for e in self.compared.estimates}
        self.inputs = {item.name: item for item in inputs.cost_inputs(workload)}
        self.asked = functools_cache(self._allowed)

    def allow(self, trace: str) -> set[str]:
        return self.asked(trace)

    def _allowed(self, trace: str) -> set[str]:
        kind, _, name = trace.partition(" ")
        of_kind: Callable[[str], set[str]] | None = getattr(self, f"of_{kind}", None)
        assert of_kind is not None, f"no such trace: {trace!r}"
        return of_kind(name)

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
        return text_of(
            *NOTEBOOKS,
            QUOTED.get(name, ""),
            EQUAL if name == "cost_ratio" else "",
            self.ratio,
            self.compared.tpu,
            self.compared.gpu,
            *(e.name for e in known),
            *(e.memory.chips for e in known if e.memory),
            *(short(e.memory.bytes_needed / 1e9) for e in known if e.memory),
            *(n for e in known for n in self.of_estimate(f"{e.chip_id} kwh_per_billion_tokens")),
            *getattr(models.shape_of(self.workload), "remarks", ()),
        )

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

    def price(self, chip_id: str) -> Band | None:
        usd = [row.usd_per_chip_hour for row in self._rows(chip_id)]
        return Band(min(usd), statistics.median(usd), max(usd)) if usd else None

    def of_estimate(self, words: str) -> set[str]:
        chip_id, _, field = words.partition(" ")
        estimate, goodput = self.estimates[chip_id], self.inputs["goodput"].value
        run = estimate.training and guide.estimate_training(
            params_b=self.workload.params_b,
            precision="bf16",
            chip=chip_id,
            n_chips=max(self.workload.chips or 1, estimate.memory.chips if estimate.memory else 1),
        )
        speed = run.tokens_per_second_per_chip if run else None
        price, watts = self.price(chip_id), chips.get(chip_id).tdp_watts
        hours = speed and Band(*(1e9 / 3600 / goodput / s for s in (speed.high, speed.value, speed.low)))
        found: object = None
        if field == "n_chips":
            found = f"{max(self.workload.chips or 1, estimate.memory.chips if estimate.memory else 1):,}"
        elif field == "Tokens/s a chip":
            found = speed
        elif field == "cases":
            found = len(run.cases) if run else 0
        elif field == "usd_per_chip_hour":
            found = price
        elif hours is not None and field == "usd_per_billion_tokens":
            found = price and hours * price
        elif hours is not None and field == "days":
            found = hours * (self.workload.tokens_b / estimate.n_chips / 24)
        elif hours is not None and field == "kwh_per_billion_tokens":
            found = watts and hours * (NODE_POWER_OVER_TDP * (watts / 1000))
        return text_of(found)

    def of_price_line(self, name: str) -> set[str]:
        assert self.ratio is not None
        edges = [0.0, self.ratio.low, self.ratio.high, math.inf]
        low, high = edges[int(name)], edges[int(name) + 1]
        inside = [low / 1 if low else high / 2, high / 2, math.sqrt(low * high) if low else 1.0, low * 2, 1.0]
        ratios = [self.ratio / f for f in inside if 0 < f < math.inf]
        dollars = self._cheapest()[1]
        return text_of(*(short(edge * d) for edge in (low, high) for d in (1, dollars)), *ratios)

    def _cheapest(self) -> tuple[str, float]:
        usd = {
            e.chip_id: e.usd.value for e in self.estimates.values() if e.family == "gpu" and e.usd is not None
        }
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
        )

    def of_flip(self, number: str) -> set[str]:
        flip = self.advice.flips[int(number)]
        assert self.ratio is not None
        if flip.field == "every GPU price":
            factors = (self.ratio.high * 1.001, self.ratio.low * 0.999)
            ratios = [self.ratio / factor for factor in factors]
            return text_of(short(self.ratio.value), *(short(factor) for factor in factors), *ratios)
        assert flip.field in guide.VOCABULARY, f"the walk does not know how to check a flip of {flip.field}"
        changed = self.workload.change(**{flip.field: flip.to})
        words = [finding.text for finding in gates.check(changed)]
        return text_of(flip.to, flip.now, guide.compare(changed).ratio, *words)

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
                f"{m.smallest} {m.smallest_chips} {m.host} {m.remark} {chips.get(m.chip_id).name}"
                for m in rented
            ),
            *("float32 bfloat16", report_rows.MOST_HOURS),
            *(f"{m.host_chips} {e.memory.chips}" for m in rented if (e := self.estimates[m.chip_id]).memory),
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


@pytest.fixture(scope="module")
def origins() -> Origins:
    return Origins(SHOWN)


def untraced(page: str, origins: Origins) -> list[tuple[str, str]]:
    """Numbers that stand outside every trace, or are not what their trace gives."""
    return [
        (trace, number) for trace, number in numbers(page) if not trace or number not in origins.allow(trace)
    ]


def test_every_number_of_a_report_traces_to_a_source_an_input_or_a_formula(
    shown: guide.Advice, origins: Origins
) -> None:
    page = as_page(shown, made=MADE)
    assert len(numbers(page)) > 300
    assert untraced(page, origins) == []


def test_each_number_that_is_changed_turns_the_walk_red(shown: guide.Advice, origins: Origins) -> None:
    page = as_page(shown, made=MADE)
    unseen = [(trace, n) for trace, n in numbers(page) if f"{n}7" in origins.allow(trace)]
    assert unseen == []
    assert untraced(page.replace(">512<", ">5127<", 1), origins)  # the same, in the page itself
    assert untraced(page.replace("</header>", "<p>About 9 times.</p></header>"), origins) == [("", "9")]


def test_a_wrong_formula_turns_the_walk_red(
    shown: guide.Advice, origins: Origins, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = report_rows.speed
    monkeypatch.setattr(report_rows, "speed", lambda e: None if (b := found(e)) is None else b * 1.1)
    assert {trace.split()[-1] for trace, _ in untraced(as_page(shown), origins)} == {"chip"}


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
