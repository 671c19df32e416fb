"""What a trace promises: names, shapes, read-only arrays, a stable repr, a sentence when asked too much."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from pulsewarp import systolic
from pulsewarp.systolic import array
from pulsewarp.systolic import trace as trace_module


@pytest.fixture(params=["ws", "os", "is"])
def trace(request: pytest.FixtureRequest) -> systolic.SystolicTrace:
    a, b = np.arange(12).reshape(3, 4), np.arange(20).reshape(4, 5)
    return systolic.simulate(a, b, rows=2, cols=3, dataflow=request.param)


def test_every_array_is_read_only_and_contiguous(trace: systolic.SystolicTrace) -> None:
    assert trace.kept_registers is not None
    kept = [getattr(trace.kept_registers, field.name) for field in fields(trace.kept_registers)]
    kept = [part for part in kept if part is not None]  # no shadow registers where folds do not overlap
    kept += [getattr(trace.schedule, field.name) for field in fields(trace.schedule)]
    for part in (*kept, trace.a, trace.b, trace.result):
        assert part.flags.c_contiguous
        with pytest.raises(ValueError, match="read-only"):
            part[...] = 0


def test_the_operands_of_a_trace_are_its_own() -> None:
    a = np.ones((2, 2))
    trace = systolic.simulate(a, a, rows=2, cols=2)
    a[...] = 7
    assert trace.a.tolist() == [[1, 1], [1, 1]]


def test_shapes_and_types(trace: systolic.SystolicTrace) -> None:
    T, R, C, F = trace.cycles, 2, 3, len(trace.folds)
    for register in systolic.REGISTERS:
        assert getattr(trace, register).shape == (T, R, C)
        assert getattr(trace, f"{register}_index").dtype == np.int32
    assert trace.active.shape == (T, R, C)
    assert trace.start.shape == trace.length.shape == (F, R, C)
    assert trace.phase.shape == (T,)
    assert trace.phase.dtype == np.int8


def test_registers_go_by_their_role(trace: systolic.SystolicTrace) -> None:
    assert trace.stationary is trace.held
    assert trace.moving is trace.right
    carries_sums = next(register for register, letter in trace.roles.items() if letter == "c")
    assert trace.partial is getattr(trace, carries_sums)


def test_an_index_names_the_element_that_the_value_is(trace: systolic.SystolicTrace) -> None:
    for register, letter in trace.roles.items():
        values, index = getattr(trace, register), getattr(trace, f"{register}_index")
        assert np.all(values[index < 0] == 0)
        if letter != "c":
            np.testing.assert_array_equal(
                values[index >= 0], getattr(trace, letter).ravel()[index[index >= 0]]
            )


def test_phases_follow_the_cells_that_work() -> None:
    trace = systolic.simulate(np.ones((10, 4)), np.ones((4, 4)), rows=4, cols=4)
    names = [systolic.PHASES[phase] for phase in trace.phase]
    assert names == ["load"] * 4 + ["fill"] * 6 + ["steady"] * 4 + ["drain"] * 6
    assert trace.schedule.busy.tolist()[9:15] == [15, 16, 16, 16, 16, 15]


def test_steady_means_that_all_used_cells_work(trace: systolic.SystolicTrace) -> None:
    for t in np.flatnonzero(trace.phase == systolic.PHASES.index("steady")):
        fold = trace.folds[t // trace.folds[0].cycles]
        assert trace.schedule.busy[t] == fold.rows * fold.cols
    for t in np.flatnonzero(trace.phase == systolic.PHASES.index("load")):
        assert trace.schedule.busy[t] == 0


def test_reprs_are_short_and_stable() -> None:
    trace = systolic.simulate([[1, 2], [3, 4]], [[5, 6], [7, 8]], rows=2, cols=2)
    assert repr(trace) == "SystolicTrace(ws, 2x2 cells, 2x2 by 2x2, 6 cycles, 1 fold, keeps every register)"
    assert repr(trace.registers(3)) == "Registers(shape=(2, 2), values=int64)"
    assert repr(trace.schedule) == "Schedule(cycles=6, folds=1)"
    assert repr(trace.folds) == "(Fold(index=0, start=0, cycles=6, row0=0, rows=2, col0=0, cols=2),)"
    bare = systolic.simulate([[1, 2], [3, 4]], [[5, 6], [7, 8]], rows=2, cols=2, trace=False)
    assert repr(bare) == "SystolicTrace(ws, 2x2 cells, 2x2 by 2x2, 6 cycles, 1 fold, keeps the result)"


def test_what_is_not_kept_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    bare = systolic.simulate([[1]], [[2]], rows=1, cols=1, trace=False)
    for ask in (lambda: bare.start, lambda: bare.phase, bare.macs, bare.exits, lambda: bare.registers(0)):
        with pytest.raises(ValueError, match=r"made with trace=False.*simulate with trace=True"):
            ask()
    monkeypatch.setattr(array, "FULL_REGISTERS", 0)
    lean = systolic.simulate([[1]], [[2]], rows=1, cols=1)
    with pytest.raises(
        ValueError, match=r"does not keep every register; ask for one cycle with registers\(t\)"
    ):
        _ = lean.held
    with pytest.raises(ValueError, match="t is 2, but must be a whole number of at least 0 and at most 1"):
        lean.registers(2)


def test_a_list_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = systolic.simulate([[1, 2]], [[3], [4]], rows=1, cols=1)
    monkeypatch.setattr(trace_module, "ROW_LIMIT", 1)
    with pytest.raises(ValueError, match="has 2 multiply-adds, above the limit of 1 for a list"):
        trace.macs()
    with pytest.raises(ValueError, match="has 2 exits, above the limit of 1 for a list"):
        trace.exits()
