"""What the dataflows player sends is what three simulations recorded; what cannot be compared is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsewarp import ledger, systolic
from pulsewarp.systolic import SystolicTrace
from pulsewarp.widgets import _wire
from pulsewarp.widgets.dataflows import DataflowsPlayer

FLOWS = ("ws", "os", "is")
COUNTS = ("macs", "reads_a", "reads_b", "reads_partial", "writes_out", "hops", "decisions", "busy")


def three(
    m: int = 3, k: int = 4, n: int = 2, rows: int = 2, cols: int = 3, seed: int = 0
) -> list[SystolicTrace]:
    rng = np.random.default_rng(seed)
    a, b = rng.integers(-9, 9, (m, k)), rng.integers(-9, 9, (k, n))
    return [systolic.simulate(a, b, rows=rows, cols=cols, dataflow=flow) for flow in FLOWS]


@st.composite
def threes(draw: st.DrawFn) -> list[SystolicTrace]:
    m, k, n, rows, cols = (draw(st.integers(1, 5)) for _ in range(5))
    return three(m, k, n, rows, cols, seed=draw(st.integers(0, 99)))


def differences(text: str, traces: Sequence[SystolicTrace]) -> list[str]:
    """Name what crosses and is not in the traces or their ledgers; empty when all is."""
    header, columns = _wire.unpack(text)
    wrong = [] if header["order"] == list(FLOWS) else ["order"]
    if header["cycles"] != max(trace.cycles for trace in traces):
        wrong.append("cycles")
    for trace in traces:
        bill = ledger.systolic(trace)
        wanted: dict[str, Any] = {name: getattr(bill, name) for name in COUNTS}
        wanted |= {name: getattr(trace, name) for name in ("held", "right", "down", "held_index", "active")}
        wanted |= {"phase": trace.phase, "exits": trace.exits(), "result": trace.result}
        for name, values in wanted.items():
            if not np.array_equal(columns[f"{trace.dataflow}.{name}"], values):
                wrong.append(f"{trace.dataflow}.{name}")
    return wrong


@pytest.mark.exhaustive
@given(threes(), st.permutations(range(3)))
def test_every_column_is_the_traces_own_in_any_order(traces: list[SystolicTrace], order: list[int]) -> None:
    assert differences(DataflowsPlayer([traces[i] for i in order]).trace, traces) == []


@pytest.mark.parametrize("column", ["ws.busy", "os.held", "is.reads_b"])
def test_a_column_one_cycle_late_is_seen(monkeypatch: pytest.MonkeyPatch, column: str) -> None:
    """A mutant of the wire."""
    honest = _wire.pack
    monkeypatch.setattr(
        "pulsewarp.widgets.systolic.pack",
        lambda kind, header, columns, codings: honest(
            kind, header, {**columns, column: np.roll(columns[column], 1, axis=0)}, codings
        ),
    )
    traces = three()
    assert differences(DataflowsPlayer(traces).trace, traces) == [column]


@given(threes())
def test_the_first_frame_shows_all_machines_at_work_where_they_ever_are(traces: list[SystolicTrace]) -> None:
    player = DataflowsPlayer(traces)
    least = min(trace.cycles for trace in traces)
    busy = np.stack([trace.schedule.busy[:least] for trace in traces]).min(axis=0)
    assert busy[player.cursor] == busy.max()


@given(threes())
def test_chapters_are_where_a_machine_changes_or_ends(traces: list[SystolicTrace]) -> None:
    header, _ = _wire.unpack(DataflowsPlayer(traces).trace)
    cycles = [chapter["cycle"] for chapter in header["chapters"]]
    assert cycles == sorted(set(cycles)) and cycles[0] == 0
    ends = {trace.cycles for trace in traces}
    begins = {fold.start for trace in traces for fold in trace.folds}
    phases = {t for trace in traces for t in range(1, trace.cycles) if trace.phase[t] != trace.phase[t - 1]}
    assert set(cycles) <= ends | begins | phases | {0}
    assert {t for t in ends if t < max(ends)} <= set(cycles)


def test_the_python_makes_the_runs_again() -> None:
    traces = three(seed=5)
    header, _ = _wire.unpack(DataflowsPlayer(traces).trace)
    scope: dict[str, Any] = {}
    exec(header["python"].replace("widgets.DataflowsPlayer(", "again = ("), scope)
    for again, trace in zip(scope["again"], traces, strict=True):
        assert again.dataflow == trace.dataflow and again.cycles == trace.cycles
        assert np.array_equal(again.a, trace.a) and np.array_equal(again.b, trace.b)


def test_other_runs_are_shown_in_the_same_views() -> None:
    player = DataflowsPlayer(three())
    others = three(5, 2, 2)
    player.show(others)
    assert differences(player.trace, others) == []
    assert repr(player) == "DataflowsPlayer(5x2 by 2x2 on 2x3 cells: ws 10, os 21, is 14 cycles)"


def test_the_task_is_the_scenes_own_or_the_given_one() -> None:
    assert "reads B least often" in DataflowsPlayer(three()).options["task"]
    assert DataflowsPlayer(three(), task="count the hops.").options["task"] == "count the hops."


SOUND = three()
LARGE = [systolic.simulate(np.ones((2, 2)), np.ones((2, 2)), rows=9, cols=2, dataflow=flow) for flow in FLOWS]
LONG = [
    systolic.simulate(np.ones((900, 1)), np.ones((1, 9)), rows=8, cols=8, dataflow=flow) for flow in FLOWS
]
UNTRACED = [systolic.simulate([[1]], [[2]], rows=1, cols=1, dataflow=flow, trace=False) for flow in FLOWS]
OVERLAPPING = systolic.simulate(SOUND[0].a, SOUND[0].b, rows=2, cols=3, overlap=True)
BROKEN = systolic.simulate(SOUND[0].a, SOUND[0].b, rows=2, cols=3, fault=systolic.Fault("no_skew"))


@pytest.mark.parametrize(
    ("traces", "says"),
    [
        (SOUND[:2], r"are ws, os, but must be one each of ws, os and is"),
        ([SOUND[0], SOUND[0], SOUND[2]], r"are ws, ws, is, but must be"),
        ([], r"are none, but must be one each"),
        ([*SOUND[:2], three(rows=3)[2]], r"2 x 3 cells and the is trace of 3 x 3.*simulate them alike"),
        ([*SOUND[:2], three(seed=1)[2]], r"or other values.*with the same a and b"),
        ([SOUND[0], three(m=5)[1], SOUND[2]], r"3 x 4 by 4 x 2 and the os trace 5 x 4 by 4 x 2"),
        (LARGE, r"9 x 2 cells.*at most 8 x 8.*SystolicPlayer"),
        (LONG, r"cell-cycles.*at most 65536.*smaller product"),
        (UNTRACED, r"keeps no registers.*trace=True"),
        ([OVERLAPPING, *SOUND[1:]], r"ws trace has overlapping folds.*without overlap and fault"),
        ([BROKEN, *SOUND[1:]], r"ws trace has the fault 'no_skew'.*without overlap and fault"),
    ],
)
def test_what_cannot_be_compared_is_refused(traces: list[SystolicTrace], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        DataflowsPlayer(traces)


@pytest.mark.wrong_type
@pytest.mark.parametrize(
    ("traces", "says"),
    [(SOUND[0], "must hold several things"), ([SOUND[0], 1, SOUND[2]], "must be a SystolicTrace")],
)
def test_what_is_no_trace_is_refused(traces: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        DataflowsPlayer(traces)


@pytest.mark.parametrize("start", [-1, 99])
def test_a_start_outside_the_longest_run_is_refused(start: int) -> None:
    most = max(trace.cycles for trace in SOUND) - 1
    with pytest.raises(ValueError, match=rf"start is {start}.*at most {most}"):
        DataflowsPlayer(SOUND, start=start)
