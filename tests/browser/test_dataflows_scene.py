"""The three dataflows on a bare page: each array, each sentence and each counter is its own trace's."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scene_page import caption, cycle, resize, seek, spilt_texts

from pulsewarp import ledger, systolic
from pulsewarp.systolic import PHASES, SystolicTrace
from pulsewarp.widgets import _wire
from pulsewarp.widgets.dataflows import DataflowsPlayer

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser
FLOWS = ("ws", "os", "is")
NAMES = ("Weight-stationary", "Output-stationary", "Input-stationary")
Open = Callable[..., "Page"]


def three(m: int = 6, k: int = 4, n: int = 4, rows: int = 4, cols: int = 4) -> list[SystolicTrace]:
    rng = np.random.default_rng(7)
    a, b = rng.integers(-9, 10, (m, k)), rng.integers(-9, 10, (k, n))
    return [systolic.simulate(a, b, rows=rows, cols=cols, dataflow=flow) for flow in FLOWS]


def shifted(player: DataflowsPlayer, column: str) -> DataflowsPlayer:
    """The same player with one column of the wire a cycle late: a mutant."""
    header, columns = _wire.unpack(player.trace)
    keep = {key: value for key, value in header.items() if key not in ("form", "kind", "columns")}
    late = columns[column] + [1, 0, 0, 0, 0] if column.endswith("exits") else np.roll(columns[column], 1, 0)
    player.trace = _wire.pack("dataflows", keep, {**columns, column: late})
    return player


def sampled(traces: Sequence[SystolicTrace], step: int = 3) -> list[int]:
    """Every few cycles, and round the end of each machine."""
    last = max(trace.cycles for trace in traces) - 1
    ends = {trace.cycles - 1 for trace in traces} | {trace.cycles for trace in traces}
    return sorted({*range(0, last, step), *(t for t in ends if t <= last)})


# ----------------------------------------------------------------------------------- the picture is the trace


def wrong_cells(page: Page, traces: Sequence[SystolicTrace], t: int) -> list[tuple[Any, ...]]:
    """Name the cells whose values on screen are not the registers of their machine after cycle t."""
    shown = page.eval_on_selector_all(
        ".df-machine",
        """(machines) => machines.map((machine) => [...machine.querySelectorAll(".sy-cell")].map((cell) => ({
          state: cell.dataset.state,
          values: Object.fromEntries(["a", "b", "c"].map((letter) => [letter,
            (cell.querySelector(`text.sy-${letter}`)?.textContent ?? "").replace(/^[abc] /, "")])),
        })))""",
    )
    wrong = []
    for trace, cells in zip(traces, shown, strict=True):
        assert len(cells) == trace.rows * trace.cols
        over = t >= trace.cycles
        registers = trace.registers(min(t, trace.cycles - 1))
        for i, cell in enumerate(cells):
            r, c = divmod(i, trace.cols)
            for register, letter in trace.roles.items():
                present = not over and getattr(registers, f"{register}_index")[r, c] >= 0
                wanted = str(getattr(registers, register)[r, c]) if present else ""
                if cell["values"][letter] != wanted:
                    wrong.append((t, trace.dataflow, r, c, letter, cell["values"][letter], wanted))
            if (cell["state"] == "working") != (not over and bool(registers.active[r, c])):
                wrong.append((t, trace.dataflow, r, c, cell["state"]))
    return wrong


def test_every_array_shows_its_own_registers_and_nothing_once_it_has_ended(on_stage: Open) -> None:
    traces = three()
    page = on_stage(DataflowsPlayer(traces))
    for t in sampled(traces):
        seek(page, t)
        assert wrong_cells(page, traces, t) == []
        ended = page.eval_on_selector_all(".df-machine", "(all) => all.map((x) => 'ended' in x.dataset)")
        assert ended == [t >= trace.cycles for trace in traces]


@pytest.mark.parametrize("column", ["os.held", "is.active"])
def test_an_array_one_cycle_late_is_seen(on_stage: Open, column: str) -> None:
    traces = three()
    page = on_stage(shifted(DataflowsPlayer(traces), column))
    seek(page, 6)
    assert wrong_cells(page, traces, 6)


# ----------------------------------------------------------------------------------- words


def wrong_words(page: Page, traces: Sequence[SystolicTrace], t: int) -> list[str]:
    """Return the sentences of the frame that are not true to their trace."""
    sentences = caption(page)
    assert len(sentences) == len(traces)
    wrong = []
    for trace, name, words in zip(traces, NAMES, sentences, strict=True):
        assert words.startswith(f"{name}: ") and words.endswith("."), words
        if t >= trace.cycles:
            holds = words == f"{name}: ended in cycle {trace.cycles - 1}, after {trace.cycles} cycles."
        else:
            busy = int(trace.schedule.busy[t])
            count = re.search(r"(\d+) of \d+ cells multipl", words)
            told = re.findall(r"C\[(\d+),(\d+)\] = (-?\d+) leaves", words)
            leaving = [row for row in trace.exits().tolist() if row[0] == t]
            many = re.search(r"(\d+) sums leave", words)
            holds = (
                f": {PHASES[trace.phase[t]]}" in words
                and (int(count[1]) if count else 0) == busy
                and (len(told) or (int(many[1]) if many else 0)) == len(leaving)
            )
            if told:  # one fold over k: what leaves is the result
                (m, n, value) = map(int, told[0])
                holds = holds and [m, n] == leaving[0][2:4] and value == trace.result[m, n]
        if not holds:
            wrong.append(f"cycle {t}: {words}")
    return wrong


def test_each_sentence_is_true_to_its_machine(on_stage: Open) -> None:
    traces = three()
    page = on_stage(DataflowsPlayer(traces))
    for t in sampled(traces):
        seek(page, t)
        assert wrong_words(page, traces, t) == []


@pytest.mark.parametrize("column", ["ws.busy", "os.phase", "is.exits"])
def test_a_sentence_one_cycle_late_is_seen(on_stage: Open, column: str) -> None:
    traces = three()
    page = on_stage(shifted(DataflowsPlayer(traces), column))
    wrong: list[str] = []
    for t in range(max(trace.cycles for trace in traces)):
        if not wrong:
            seek(page, t)
            wrong = wrong_words(page, traces, t)
    assert wrong


def wrong_places(page: Page, traces: Sequence[SystolicTrace], places: Sequence[list[int]]) -> list[str]:
    """Return the sentences that do not name where the other machines form the same product."""
    at = {trace.dataflow: {tuple(row[3:]): row[:3] for row in trace.macs().tolist()} for trace in traces}
    wrong = []
    for t, i, (r, c) in places:
        seek(page, t)
        page.eval_on_selector_all(
            ".df-machine",
            """(all, [i, cell]) => {
              const box = all[i].querySelectorAll(".sy-cell")[cell].getBoundingClientRect();
              const [clientX, clientY] = [box.x + box.width / 2, box.y + box.height / 2];
              const click = new MouseEvent("click", { bubbles: true, clientX, clientY });
              all[i].querySelector(".sy-array").dispatchEvent(click);
            }""",
            [i, r * traces[i].cols + c],
        )
        words = " ".join(caption(page))
        product = next(key for key, place in at[FLOWS[i]].items() if place == [t, r, c])
        others = [
            (name, at[flow][product]) for flow, name in zip(FLOWS, NAMES, strict=True) if flow != FLOWS[i]
        ]
        told = [f"{name.lower()} cell ({row},{col}) in cycle {when}" for name, (when, row, col) in others]
        m, n, k = product
        names = (f"A[{m},{k}]", f"B[{k},{n}]", NAMES[i])
        if not all(part in words for part in (*told, *names)):
            wrong.append(words)
    return wrong


def some_places(traces: Sequence[SystolicTrace]) -> list[Any]:
    rng = np.random.default_rng(1)
    chosen = []
    for i, trace in enumerate(traces):
        for t, r, c in rng.permutation(trace.macs()[:, :3])[:3].tolist():
            chosen.append([t, i, (r, c)])
    return chosen


def test_a_cells_sentence_names_the_cells_that_form_the_same_product(on_stage: Open) -> None:
    traces = three()
    page = on_stage(DataflowsPlayer(traces))
    assert wrong_places(page, traces, some_places(traces)) == []


def test_another_machine_one_cycle_late_is_seen_in_that_sentence(on_stage: Open) -> None:
    traces = three()
    page = on_stage(shifted(DataflowsPlayer(traces), "os.active"))
    assert wrong_places(page, traces, [place for place in some_places(traces) if place[1] != 1])


# ----------------------------------------------------------------------------------- counters, hands, widths


def test_the_counters_are_the_ledgers(on_stage: Open) -> None:
    traces = three()
    page = on_stage(DataflowsPlayer(traces))
    bills = [ledger.systolic(trace) for trace in traces]
    rows = {
        "multiply-adds": "macs",
        "reads of A": "reads_a",
        "reads of B": "reads_b",
        "sums read again": "reads_partial",
        "sums written out": "writes_out",
        "hops": "hops",
        "idle cell-cycles": "idle_cell_cycles",
        "issue decisions": "decisions",
    }
    for t in sampled(traces, 5):
        seek(page, t)
        shown = {
            name: values
            for name, *values in page.eval_on_selector_all(
                ".pw-compare tbody tr",
                "(rows) => rows.map((row) => [...row.cells].map((x) => x.textContent))",
            )
        }
        for label, name in rows.items():
            wanted = [
                f"{getattr(bill, name)[min(t, bill.macs.size - 1)]:,} / {getattr(bill, name)[-1]:,}"
                for bill in bills
            ]
            assert shown[label] == wanted, (t, label)


def test_arrows_go_through_the_edge_of_one_array_into_the_next(on_stage: Open) -> None:
    page = on_stage(DataflowsPlayer(three(), start=9))
    page.focus(".pw-picture")
    page.keyboard.press("ArrowRight")  # the first one places the cursor
    page.keyboard.press("ArrowDown")
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    assert caption(page)[0].startswith("Output-stationary, cell (1,0):")
    page.keyboard.press("ArrowLeft")
    assert caption(page)[0].startswith("Weight-stationary, cell (1,3):")
    assert cycle(page) == 9
    page.keyboard.press("Escape")
    assert len(caption(page)) == 3 and caption(page)[0].startswith("Weight-stationary: ")


def test_arrays_stand_beside_each_other_and_on_a_phone_compact_below(on_stage: Open) -> None:
    page = on_stage(DataflowsPlayer(three()))
    box = """(all) => all.map((x) => { const b = x.getBoundingClientRect();
      return [Math.round(b.x), Math.round(b.y), Math.round(b.height)]; })"""
    for wide in (1280, 1000):
        resize(page, wide, 900)
        (_, *tops) = zip(*page.eval_on_selector_all(".df-machine", box), strict=True)
        assert len(set(tops[0])) == 1, wide
    resize(page, 390, 844)
    boxes = page.eval_on_selector_all(".df-machine", box)
    assert len({y for _, y, _ in boxes}) > 1 and sum(height for _, _, height in boxes) < 900
    assert page.locator(".df-machine .sy-chip").count() == 0


EIGHT = np.full((8, 8), -128, np.int8)
LARGEST = np.full((4, 4), 65504, np.float16)
FOLDED = np.full((9, 8), -128, np.int8)


@pytest.mark.parametrize(
    ("a", "b", "side"),
    [(EIGHT, EIGHT, 8), (LARGEST, -LARGEST, 4), (FOLDED, FOLDED.T[:, :4], 4)],
    ids=["8x8", "65504", "folds"],
)
def test_the_largest_values_have_room(on_stage: Open, a: Any, b: Any, side: int) -> None:
    traces = [systolic.simulate(a, b, rows=side, cols=side, dataflow=flow) for flow in FLOWS]
    page = on_stage(DataflowsPlayer(traces))
    for wide in (1280, 1000, 700, 390):
        resize(page, wide)
        for t in (traces[1].cycles // 2, traces[1].cycles - 2):
            seek(page, t)
            spilt = spilt_texts(page, ".df-machine .sy-cell")
            beyond = page.eval_on_selector_all(
                ".df-machine",
                """(all) => all.filter((x) => x.querySelector("svg").getBoundingClientRect().right
                  > x.getBoundingClientRect().right + 1 || x.scrollWidth > x.clientWidth + 1).length""",
            )
            assert (spilt, beyond) == ([], 0), (wide, t)


def test_three_curves_have_three_strokes(on_stage: Open) -> None:
    page = on_stage(DataflowsPlayer(three()))
    strokes = page.eval_on_selector_all(
        ".pw-chart g[clip-path] .pw-line",
        """(all) => all.map((x) => getComputedStyle(x))
          .map(({ strokeWidth, strokeDasharray }) => `${strokeWidth} ${strokeDasharray}`)""",
    )
    assert len(strokes) == len(set(strokes)) == 3


def test_8_by_8_with_small_values_shows_every_sum(on_stage: Open) -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(-3, 4, (8, 8))
    traces = [systolic.simulate(a, a, rows=8, cols=8, dataflow=flow) for flow in FLOWS]
    page = on_stage(DataflowsPlayer(traces, start=14))
    sums = page.eval_on_selector_all(
        ".df-machine",
        "(all) => all.map((x) => [...x.querySelectorAll('.sy-cell text.sy-c')].map((y) => y.textContent))",
    )
    for trace, shown in zip(traces, sums, strict=True):
        name = trace.partial if trace.flow.loads else trace.held
        index = trace.down_index if trace.flow.loads else trace.held_index
        wanted = [str(v) if i >= 0 else "" for v, i in zip(name[14].ravel(), index[14].ravel(), strict=True)]
        assert shown == wanted
