"""The ledger by level: as stepped and in closed form alike, and both what the registers show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsewarp import ledger, systolic
from pulsewarp.ledger import by_level
from pulsewarp.matmul import DTYPES, Matmul
from pulsewarp.systolic.cost import cost_of

pytestmark = pytest.mark.exhaustive

SIZE = st.integers(1, 7)
DATAFLOWS = ["ws", "os", "is"]


def run(
    m: int, k: int, n: int, rows: int, cols: int, dataflow: str, overlap: bool = False
) -> systolic.SystolicTrace:
    a, b = np.ones((m, k), np.int8), np.ones((k, n), np.int8)
    return systolic.simulate(a, b, rows=rows, cols=cols, dataflow=dataflow, overlap=overlap)


def check_agreement(trace: systolic.SystolicTrace) -> None:
    """Hold what was counted to what the sizes say."""
    assert ledger.levels(trace, "int8") == ledger.levels(cost_of(trace), "int8")


def check_registers(trace: systolic.SystolicTrace) -> None:
    """Count every write of a register one by one, from the elements that the registers hold in each cycle."""
    right, down = trace.right_index, trace.down_index
    books = ledger.levels(cost_of(trace), "int8")
    roles = trace.roles
    written = {"a": 0, "b": 0, "c": 0}
    for t, r, c in np.ndindex(right.shape):
        written[roles["right"]] += int(right[t, r, c] >= 0)  # what moves is written anew in each cell
        written[roles["down"]] += int(down[t, r, c] >= 0)
        written[roles["held"]] += held_writes(trace, t, r, c)
    assert {operand: books.elements("registers", operand=operand) for operand in written} == written


def held_writes(trace: systolic.SystolicTrace, t: int, r: int, c: int) -> int:
    """Return how often the register that stays, and its shadow, are written in one cell and cycle."""
    stays = trace.roles["held"] == "c"
    product = int(stays and trace.active[t, r, c])
    if trace.overlap:
        shadow = trace.shadow_index
        new = shadow[t, r, c] >= 0 and (t == 0 or shadow[t, r, c] != shadow[t - 1, r, c])
        begins = not stays and t in trace.start[:, r, c]  # the shadow's value is taken over
        return product + int(new) + int(begins)
    ends = [fold.start + fold.cycles for fold in trace.folds]
    draining = stays and any(end - trace.rows <= t < end for end in ends)
    loading = trace.phase[t] == systolic.PHASES.index("load")
    return product + int(trace.held_index[t, r, c] >= 0 and (loading or draining))


def check_edge(trace: systolic.SystolicTrace) -> None:
    """Hold what crosses the array's edge to the list of products and of exits."""
    books = ledger.levels(cost_of(trace), "int8")
    products, exits = trace.macs(), trace.exits()
    assert books.macs == len(products)
    assert books.elements("vmem", kind="write", way="leave") == len(exits)
    assert books.elements("vmem", kind="read", way="enter", operand="c") == (exits[:, 4] == 0).sum()
    # An operand enters once for each fold in which it is used.
    axis = {"m": 3, "n": 4, "k": 5}
    fold = np.column_stack(
        [
            products[:, axis[trace.flow.row_axis]] // trace.rows,
            products[:, axis[trace.flow.col_axis]] // trace.cols,
        ]
    )
    for operand, element in (("a", products[:, [3, 5]]), ("b", products[:, [5, 4]])):
        entered = len(np.unique(np.column_stack([fold, element]), axis=0))
        assert books.elements("vmem", way="enter", operand=operand) == entered


def check_bytes(trace: systolic.SystolicTrace) -> None:
    """Hold bytes to elements times their width, and the far memory to the least traffic of the product."""
    books = ledger.levels(cost_of(trace), "bf16")
    assert books.bytes("hbm") == Matmul(trace.m, trace.k, trace.n, "bf16").bytes_moved
    for row in books.traffic:
        width = 2 if row.operand != "c" or row.way == "transfer" else 4
        assert row.bytes == width * row.elements > 0
    assert books.bytes("vmem", way="transfer") == books.bytes("hbm")
    for level in ledger.LEVELS:
        assert books.bytes_per_mac[level] == books.bytes(level) / (trace.m * trace.k * trace.n)


CHECKS = [check_agreement, check_registers, check_edge, check_bytes]


@given(SIZE, SIZE, SIZE, st.integers(1, 4), st.integers(1, 4), st.sampled_from(DATAFLOWS), st.booleans())
def test_what_was_stepped_is_what_the_sizes_say_and_the_registers_show(
    m: int, k: int, n: int, rows: int, cols: int, dataflow: str, overlap: bool
) -> None:
    trace = run(m, k, n, rows, cols, dataflow, overlap)
    for check in CHECKS:
        check(trace)


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("dataflow", DATAFLOWS)
def test_a_run_too_large_to_keep_every_register_is_counted_alike(dataflow: str, overlap: bool) -> None:
    trace = run(300, 130, 150, 32, 32, dataflow, overlap)
    assert not trace.has_registers
    check_agreement(trace)


def twice(counts: Any, operand: str) -> Any:
    return replace(counts, read={**counts.read, operand: 2 * counts.read[operand]})


def without(counts: Any, way: str) -> Any:
    return replace(counts, written={**counts.written, way: {}})


def decides_in_each_cell(counts: Any) -> Any:
    return replace(counts, decisions=counts.macs)


FAULTS: dict[str, tuple[Callable[[Any], Any], Callable[[systolic.SystolicTrace], None]]] = {
    "a read twice": (lambda counts: twice(counts, "a"), check_edge),
    "b read twice": (lambda counts: twice(counts, "b"), check_edge),
    "hops dropped": (lambda counts: without(counts, "hop"), check_registers),
    "shifts dropped": (lambda counts: without(counts, "shift"), check_registers),
    "entries dropped": (lambda counts: without(counts, "enter"), check_registers),
    "half the sums stay inside": (lambda counts: replace(counts, left=counts.left // 2), check_edge),
    "a decision for each cell": (decides_in_each_cell, check_agreement),
    "idle cells forgotten": (lambda counts: replace(counts, idle_cell_cycles=0), check_agreement),
}


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("dataflow", DATAFLOWS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_count_is_seen(
    fault: str, dataflow: str, overlap: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant, check = FAULTS[fault]
    trace = run(5, 4, 6, 3, 2, dataflow, overlap)
    check(trace)
    sound = by_level._closed_form
    monkeypatch.setattr(by_level, "_closed_form", lambda cost: plant(sound(cost)))
    with pytest.raises(AssertionError):
        check(trace)
    with pytest.raises(AssertionError):  # and if one of the two counts is sound, the other one shows it
        check_agreement(trace)


@pytest.mark.parametrize(
    "fault",
    [
        lambda elements, dtype: elements,
        lambda elements, dtype: 4 * elements,
        lambda elements, dtype: 16 * elements,
        lambda elements, dtype: 2 * elements,
    ],
    ids=["elements as bytes", "a word each", "bits as bytes", "sums as wide as operands"],
)
def test_a_fault_in_the_width_is_seen(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = run(5, 4, 6, 3, 2, "ws")
    monkeypatch.setattr(by_level, "stored_bytes", fault)
    with pytest.raises(AssertionError):
        check_bytes(trace)


def test_a_product_counted_by_hand() -> None:
    """Two by two by two on 2 x 2 cells: 4 weights, 4 inputs, 4 sums of 2 products."""
    books = ledger.levels(run(2, 2, 2, 2, 2, "ws"), "int8")
    assert [
        (row.level, row.kind, row.way, row.operand, row.elements, row.bytes) for row in books.traffic
    ] == [
        ("hbm", "read", "transfer", "a", 4, 4),
        ("hbm", "read", "transfer", "b", 4, 4),
        ("hbm", "write", "transfer", "c", 4, 16),
        ("vmem", "write", "transfer", "a", 4, 4),
        ("vmem", "write", "transfer", "b", 4, 4),
        ("vmem", "read", "transfer", "c", 4, 16),
        ("vmem", "read", "enter", "a", 4, 4),
        ("vmem", "read", "enter", "b", 4, 4),
        ("vmem", "write", "leave", "c", 4, 16),
        ("registers", "write", "enter", "b", 4, 4),
        ("registers", "write", "enter", "a", 4, 4),
        ("registers", "write", "enter", "c", 4, 16),
        ("registers", "write", "hop", "a", 4, 4),
        ("registers", "write", "hop", "c", 4, 16),
        ("registers", "write", "shift", "b", 2, 2),
    ]
    assert (books.macs, books.decisions, books.idle_cell_cycles) == (8, 1, 16)


def test_a_sum_that_stays_is_written_in_its_cell_and_one_that_moves_on_its_way() -> None:
    stays, moves = (ledger.levels(run(4, 8, 4, 4, 4, flow), "bf16") for flow in ("os", "ws"))
    assert stays.elements("registers", way="accumulate", operand="c") == 128
    assert moves.elements("registers", way="accumulate") == 0
    assert moves.elements("registers", operand="c") == 128
    # Two folds over k: a sum that moves leaves after the first one and comes back, one that stays does not.
    assert moves.elements("vmem", operand="c", way="enter") == 16
    assert stays.elements("vmem", operand="c", way="enter") == 0


@given(SIZE, SIZE, SIZE, st.sampled_from(sorted(DTYPES)), st.sampled_from(DATAFLOWS))
def test_the_far_memory_moves_each_operand_once_in_every_dtype(
    m: int, k: int, n: int, dtype: str, dataflow: str
) -> None:
    books = ledger.levels(systolic.gemm(m=m, k=k, n=n, rows=3, cols=2, dataflow=dataflow), dtype)
    assert books.hbm_by == "each operand once"
    assert books.bytes("hbm") == Matmul(m, k, n, dtype).bytes_moved
    assert books.accumulator == DTYPES[dtype].accumulator


TILES = st.tuples(SIZE, SIZE, SIZE)


def pipeline(m: int, k: int, n: int, tile: tuple[int, int, int], dtype: str) -> systolic.PipelineTrace:
    return systolic.pipeline(
        m=m, k=k, n=n, tile=tile, dtype=dtype, rows=3, cols=2, clock_hz=1e9,
        bandwidth_bytes_per_second=1e9, vmem_bytes=2**20,
    )  # fmt: skip


@given(SIZE, SIZE, SIZE, TILES, st.sampled_from(["bf16", "int8", "int4"]))
def test_with_a_pipeline_the_far_memory_moves_what_the_pipeline_moved(
    m: int, k: int, n: int, tile: tuple[int, int, int], dtype: str
) -> None:
    ran = pipeline(m, k, n, tile, dtype)
    cost = systolic.gemm(m=m, k=k, n=n, rows=3, cols=2)
    books, once = ledger.levels(cost, dtype, pipeline=ran), ledger.levels(cost, dtype)
    read, written = (books.bytes("hbm", kind=kind) for kind in ("read", "write"))
    assert (read, written) == (ran.bytes_in, ran.bytes_out)
    assert books.bytes("vmem", way="transfer", kind="write") == read
    assert books.bytes("vmem", way="transfer", kind="read") == written
    assert books.elements("hbm", operand="c") == m * n  # written once
    for operand in ("a", "b"):
        assert books.elements("hbm", operand=operand) >= once.elements("hbm", operand=operand)
    assert books.select("registers") == once.select("registers")
    assert books.hbm_by == f"by tiles of {ran.tile[0]}x{ran.tile[1]}x{ran.tile[2]}"
    whole = ledger.levels(cost, dtype, pipeline=pipeline(m, k, n, (m, k, n), dtype))
    assert whole.traffic == once.traffic  # one tile is each operand once


def test_tiles_that_do_not_stay_are_fetched_again() -> None:
    cost = systolic.gemm(m=4, k=4, n=6, rows=3, cols=2)
    books = ledger.levels(cost, "int8", pipeline=pipeline(4, 4, 6, (2, 2, 2), "int8"))
    # Three tile columns of C: A passes three times, B once for each of two tile rows.
    assert [books.elements("hbm", operand=operand) for operand in "abc"] == [48, 48, 24]


def test_a_pipeline_of_another_product_is_refused() -> None:
    cost = systolic.gemm(m=4, k=4, n=6, rows=3, cols=2)
    for other in (pipeline(4, 4, 5, (2, 2, 2), "int8"), pipeline(4, 4, 6, (2, 2, 2), "bf16")):
        with pytest.raises(ValueError, match=r"The pipeline ran 4 x 4 by 4 x .*; pass the same one"):
            ledger.levels(cost, "int8", pipeline=other)


def test_a_larger_array_reads_each_operand_less_often() -> None:
    sizes = {"m": 1024, "k": 1024, "n": 1024}
    small, large = (
        ledger.levels(systolic.gemm(**sizes, rows=side, cols=side), "int8") for side in (128, 256)
    )
    assert small.elements("vmem", way="enter", operand="a") == 2 * large.elements(
        "vmem", way="enter", operand="a"
    )
    assert (small.decisions, large.decisions) == (64, 16)
    assert small.bytes("hbm") == large.bytes("hbm")


def test_other_conventions_and_unknown_words_are_refused() -> None:
    sizes = {"m": 2, "k": 2, "n": 2, "rows": 2, "cols": 2}
    with pytest.raises(ValueError, match=r"'scalesim' counts no hops .*; count with"):
        ledger.levels(systolic.gemm(**sizes, convention="scalesim"), "int8")
    books = ledger.levels(systolic.gemm(**sizes), "int8")
    with pytest.raises(ValueError, match=r"Unknown level 'vmen'.* Did you mean 'vmem'"):
        books.elements("vmen")
    with pytest.raises(ValueError, match=r"Unknown way 'hops'.* Did you mean 'hop'"):
        books.bytes("registers", way="hops")


def test_the_ledger_says_what_it_holds() -> None:
    sizes = {"m": 6, "k": 5, "n": 4, "rows": 4, "cols": 4}
    assert repr(ledger.levels(systolic.gemm(**sizes, dataflow="os"), "bf16")) == (
        "LevelLedger(os, 4x4 cells, 6x5 by 5x4 in bf16: 120 MACs, 2 decisions, 360 idle cell-cycles\n"
        "  hbm: 50 read, 24 written, 148 B, 1.23 B/MAC (each operand once)\n"
        "  vmem: 94 read, 74 written, 384 B, 3.2 B/MAC\n"
        "  registers: 70 enter, 210 hop, 44 shift, 120 accumulate, 1216 B, 10.1 B/MAC)"
    )
    lines = repr(ledger.levels(systolic.gemm(**sizes, overlap=True), "int8")).splitlines()
    assert lines[-1] == "  registers: 98 enter, 234 hop, 24 shift, 20 take over, 952 B, 7.93 B/MAC)"
    ran = pipeline(6, 5, 4, (3, 5, 4), "int8")
    lines = repr(ledger.levels(systolic.gemm(**sizes), "int8", pipeline=ran)).splitlines()
    assert lines[1] == "  hbm: 50 read, 24 written, 146 B, 1.22 B/MAC (by tiles of 3x5x4)"
