"""The array's ledger: what it has been charged at any cycle, and in the end."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsewarp import ledger, systolic
from pulsewarp.systolic import array

SIZE = st.integers(1, 7)
DATAFLOWS = ["ws", "os", "is"]


def run(m: int, k: int, n: int, rows: int, cols: int, dataflow: str) -> systolic.SystolicTrace:
    a, b = np.ones((m, k), np.int8), np.ones((k, n), np.int8)
    return systolic.simulate(a, b, rows=rows, cols=cols, dataflow=dataflow)


@given(SIZE, SIZE, SIZE, SIZE, SIZE, st.sampled_from(DATAFLOWS))
def test_in_the_end_the_ledger_is_the_closed_form(
    m: int, k: int, n: int, rows: int, cols: int, dataflow: str
) -> None:
    end = ledger.systolic(run(m, k, n, rows, cols, dataflow)).at(-1)
    cost = systolic.gemm(m=m, k=k, n=n, rows=rows, cols=cols, dataflow=dataflow)
    assert end["macs"] == m * n * k
    assert end["reads_a"] == cost.sram_reads_a
    assert end["reads_b"] == cost.sram_reads_b
    assert end["reads_partial"] == cost.sram_reads_partial
    assert end["writes_out"] == cost.sram_writes_out
    assert end["decisions"] == cost.folds
    assert end["idle_cell_cycles"] == cost.cycles * rows * cols - m * n * k


@given(SIZE, SIZE, SIZE, SIZE, SIZE, st.sampled_from(DATAFLOWS))
def test_every_charge_was_seen_in_the_registers(
    m: int, k: int, n: int, rows: int, cols: int, dataflow: str
) -> None:
    trace = run(m, k, n, rows, cols, dataflow)
    charged = ledger.systolic(trace)
    np.testing.assert_array_equal(charged.busy, trace.active.sum(axis=(1, 2)))
    np.testing.assert_array_equal(charged.macs, np.cumsum(charged.busy))
    hops = (trace.right_index[:, :, 1:] >= 0).sum(axis=(1, 2)) + (trace.down_index[:, 1:] >= 0).sum(
        axis=(1, 2)
    )
    np.testing.assert_array_equal(charged.hops, np.cumsum(hops))
    exits = np.bincount(trace.exits()[:, 0], minlength=trace.cycles)
    np.testing.assert_array_equal(charged.writes_out, np.cumsum(exits))
    before = np.concatenate([np.full((1, rows, cols), -1), trace.held_index[:-1]])
    shifted = (trace.held_index[:, 1:] >= 0) & (trace.held_index[:, 1:] == before[:, :-1])
    shifted &= trace.held_index[:, 1:] != before[:, 1:]
    np.testing.assert_array_equal(charged.shifts, np.cumsum(shifted.sum(axis=(1, 2))))


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
