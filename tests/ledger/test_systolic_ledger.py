"""The array's ledger: what it has been charged at any cycle, and in the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pulsewarp import ledger, systolic
from pulsewarp.systolic import array
from pulsewarp.systolic.cost import cost_of

SIZE = st.integers(1, 7)
DATAFLOWS = ["ws", "os", "is"]


def run(
    m: int, k: int, n: int, rows: int, cols: int, dataflow: str, overlap: bool = False
) -> systolic.SystolicTrace:
    a, b = np.ones((m, k), np.int8), np.ones((k, n), np.int8)
    return systolic.simulate(a, b, rows=rows, cols=cols, dataflow=dataflow, overlap=overlap)


def check_end(trace: systolic.SystolicTrace) -> None:
    """Hold what was charged in all to the closed form."""
    end = ledger.systolic(trace).at(-1)
    cost = cost_of(trace)
    products = trace.m * trace.n * trace.k
    assert end["macs"] == products
    assert end["reads_a"] == cost.sram_reads_a
    assert end["reads_b"] == cost.sram_reads_b
    assert end["reads_partial"] == cost.sram_reads_partial
    assert end["writes_out"] == cost.sram_writes_out
    assert end["decisions"] == cost.folds
    assert end["idle_cell_cycles"] == cost.cycles * trace.rows * trace.cols - products


def check_each_cycle(trace: systolic.SystolicTrace) -> None:
    """Hold every charge to what the registers show in its cycle."""
    charged = ledger.systolic(trace)
    np.testing.assert_array_equal(charged.busy, trace.active.sum(axis=(1, 2)))
    np.testing.assert_array_equal(charged.macs, np.cumsum(charged.busy))
    right, down, held = trace.right_index, trace.down_index, trace.held_index
    hops = (right[:, :, 1:] >= 0).sum(axis=(1, 2)) + (down[:, 1:] >= 0).sum(axis=(1, 2))
    np.testing.assert_array_equal(charged.hops, np.cumsum(hops))
    exits = np.bincount(trace.exits()[:, 0], minlength=trace.cycles)
    np.testing.assert_array_equal(charged.writes_out, np.cumsum(exits))
    held = trace.shadow_index if trace.overlap else held  # what is shifted
    before = np.concatenate([np.full((1, trace.rows, trace.cols), -1), held[:-1]])
    shifted = (held[:, 1:] >= 0) & (held[:, 1:] == before[:, :-1]) & (held[:, 1:] != before[:, 1:])
    np.testing.assert_array_equal(charged.shifts, np.cumsum(shifted.sum(axis=(1, 2))))


@given(SIZE, SIZE, SIZE, SIZE, SIZE, st.sampled_from(DATAFLOWS), st.booleans())
def test_the_ledger_is_the_closed_form_in_the_end_and_the_registers_in_each_cycle(
    m: int, k: int, n: int, rows: int, cols: int, dataflow: str, overlap: bool
) -> None:
    trace = run(m, k, n, rows, cols, dataflow, overlap)
    check_end(trace)
    check_each_cycle(trace)


Counts = NDArray[np.int32]


def one_read_less(entered: Counts) -> Counts:
    row, column = np.argwhere(entered > 0)[0]
    less = entered.copy()
    less[row, column] -= 1
    return less


def a_cycle_late(counts: Counts) -> Counts:
    return np.roll(counts, 1, axis=0)


@pytest.mark.parametrize("dataflow", DATAFLOWS)
@pytest.mark.parametrize(
    ("counts", "fault", "check"),
    [
        ("entered", one_read_less, check_end),
        ("exited", np.zeros_like, check_end),
        ("busy", np.zeros_like, check_end),
        ("exited", a_cycle_late, check_each_cycle),
        ("moved", a_cycle_late, check_each_cycle),
        ("busy", a_cycle_late, check_each_cycle),
    ],
)
def test_a_planted_fault_is_seen(
    counts: str,
    fault: Callable[[Counts], Counts],
    check: Callable[[systolic.SystolicTrace], None],
    dataflow: str,
) -> None:
    trace = run(5, 4, 3, 3, 2, dataflow)
    check(trace)
    spoilt = replace(trace.schedule, **{counts: fault(getattr(trace.schedule, counts))})
    with pytest.raises(AssertionError):
        check(replace(trace, kept_schedule=spoilt))


@given(SIZE, SIZE, SIZE, SIZE, SIZE, st.sampled_from(DATAFLOWS))
def test_a_trace_that_keeps_its_schedule_only_is_charged_alike(
    m: int, k: int, n: int, rows: int, cols: int, dataflow: str
) -> None:
    full = ledger.systolic(run(m, k, n, rows, cols, dataflow))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(array, "FULL_REGISTERS", 0)
        lean = ledger.systolic(run(m, k, n, rows, cols, dataflow))
    for field in fields(full):
        np.testing.assert_array_equal(getattr(full, field.name), getattr(lean, field.name))


def test_the_ninth_cycle_of_a_four_by_four_array() -> None:
    at = ledger.systolic(run(10, 4, 4, 4, 4, "ws")).at(9)
    assert (at["macs"], at["reads_a"], at["reads_b"]) == (48, 18, 16)
    assert (at["hops"], at["decisions"], at["idle_cell_cycles"], at["busy"]) == (60, 1, 112, 15)


def test_the_ledger_is_read_only_and_says_what_it_holds() -> None:
    charged = ledger.systolic(run(2, 2, 2, 2, 2, "ws"))
    for field in fields(charged):
        charge = getattr(charged, field.name)
        assert charge.dtype == np.int64
        assert charge.shape == (6,)
        assert not charge.flags.writeable
    assert repr(charged) == (
        "SystolicLedger(6 cycles: macs 8, reads_a 4, reads_b 4, reads_partial 0, writes_out 4, hops 8, "
        "shifts 2, decisions 1, idle_cell_cycles 16)"
    )


def test_a_trace_without_a_schedule_is_refused() -> None:
    bare = systolic.simulate([[1]], [[1]], rows=1, cols=1, trace=False)
    with pytest.raises(ValueError, match="made with trace=False and keeps no schedule"):
        ledger.systolic(bare)
