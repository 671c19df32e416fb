"""Shadow registers: folds overlap in time, the product is the same, and each value is where it belongs."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from systolic_products import Product, products, run

from pulsewarp import ledger, systolic
from pulsewarp.matmul import accumulator_type
from pulsewarp.systolic import array, rules, window

pytestmark = pytest.mark.exhaustive

Cell = tuple[int, Any]
SEVERAL = (
    np.array([[1, 2, 3, 4, 5], [2, 7, 1, 3, 1], [4, 1, 1, 2, 2]], np.int8),
    np.array([[1, 2, 3], [3, 1, 2], [2, 2, 1], [1, 4, 1], [2, 1, 3]], np.int8),
    2,
    2,
)
REGISTERS = (*systolic.REGISTERS, "shadow")


def several(dataflow: str, **options: Any) -> systolic.SystolicTrace:
    """Run a product that takes several folds both ways, some of them cut."""
    return run((*SEVERAL, dataflow), overlap=True, **options)


def step_naively(product: Product) -> list[dict[str, list[list[Cell]]]]:
    """Step cell by cell in plain Python, by rules that each cell could follow; (index, value) by cycle.

    A value in a shadow register is (index, value, goal): it sinks until it is in row `goal`, and there it is
    taken over when the stream that belongs to it arrives. In "os" `goal` is the cycle from which it may sink.
    """
    a, b, R, C, dataflow = product
    (M, K), N = a.shape, b.shape[1]
    number = accumulator_type(a.dtype, b.dtype).type
    A = [[(m * K + k, number(a[m, k])) for k in range(K)] for m in range(M)]
    B = [[(k * N + n, number(b[k, n])) for n in range(N)] for k in range(K)]
    out = [[(m * N + n, number(0)) for n in range(N)] for m in range(M)]
    if dataflow == "is":  # "ws" on the transposed product
        A, B, out = ([list(x) for x in zip(*part, strict=True)] for part in (B, A, out))
    sums = dataflow == "os"
    extent_r, extent_c, T = (len(A), len(B[0]), K) if sums else (len(B), len(B[0]), len(A))
    tiles = [(r0, c0) for c0 in range(0, extent_c, C) for r0 in range(0, extent_r, R)]
    beat, load = max(R, T), 0 if sums else R
    nothing = (-1, number(0))
    empty = [[nothing] * C for _ in range(R)]
    now: dict[str, Any] = {name: [list(row) for row in empty] for name in REGISTERS}
    goal: dict[tuple[int, int], int] = {}
    frames = []
    for t in range((len(tiles) - 1) * beat + 2 * R + C + T - 2):
        old, old_goal = now, goal
        now = {name: [list(row) for row in empty] for name in REGISTERS}
        goal = {}

        def sink(r: int, c: int, cell: Cell, until: int, now: Any = now, goal: Any = goal) -> None:
            assert now["shadow"][r][c] == nothing, "two values in one register"
            now["shadow"][r][c], goal[r, c] = cell, until

        taken = set()
        for i, (r0, c0) in enumerate(tiles):
            u, v, origin = min(R, extent_r - r0), min(C, extent_c - c0), i * beat + load
            for r in range(R):
                for c in range(C):
                    s = t - origin - r - c
                    if s == 0 and not sums:
                        now["held"][r][c] = old["shadow"][r][c]
                        taken.add((r, c))
                    if s == T and sums:
                        taken.add((r, c))
                        if old["held"][r][c] != nothing and r < R - 1:
                            sink(r, c, old["held"][r][c], origin + c + R - 1 + T)
            for r in range(u):
                s = t - origin - r
                if 0 <= s < T:
                    now["right"][r][0] = A[r0 + r][s] if sums else A[s][r0 + r]
            for c in range(v):
                s = t - origin - c
                if 0 <= s < T:
                    now["down"][0][c] = B[s][c0 + c] if sums else out[s][c0 + c]
                row = R - 1 - (t - i * beat - c)
                if not sums and 0 <= row < u and t - i * beat - c >= 0:
                    sink(0, c, B[r0 + row][c0 + c], row)
        for r in range(R):
            for c in range(C):
                if (r, c) not in taken:
                    now["held"][r][c] = old["held"][r][c]
                if c:
                    now["right"][r][c] = old["right"][r][c - 1]
                if r:
                    now["down"][r][c] = old["down"][r - 1][c]
                cell = old["shadow"][r][c]
                if cell == nothing:
                    continue
                until = old_goal[r, c]
                if t >= until if sums else r < until:
                    if r < R - 1:
                        sink(r + 1, c, cell, until)
                elif sums or (r, c) not in taken:
                    sink(r, c, cell, until)
        for r in range(R):
            for c in range(C):
                right, down, held = (now[name][r][c] for name in ("right", "down", "held"))
                if sums and right[0] >= 0 and down[0] >= 0:
                    m, n = right[0] // K, down[0] % N
                    now["held"][r][c] = (m * N + n, number(held[1] + right[1] * down[1]))
                elif not sums and right[0] >= 0 and held[0] >= 0:
                    now["down"][r][c] = (down[0], number(down[1] + right[1] * held[1]))
        frames.append(now)
        if not sums:
            for index, value in now["down"][R - 1]:
                if index >= 0:
                    m, n = divmod(index, N)
                    s, col = (n, m) if dataflow == "is" else (m, n)
                    out[s][col] = (index, value)
    return frames


@settings(max_examples=30)
@given(products())
@example((*SEVERAL, "ws"))
@example((*SEVERAL, "os"))
def test_every_register_is_what_a_cell_by_cell_stepper_says(product: Product) -> None:
    trace = run(product, overlap=True)
    frames = step_naively(product)
    assert len(frames) == trace.cycles
    for register in REGISTERS:
        values, index = getattr(trace, register), getattr(trace, f"{register}_index")
        expected = [[[cell[0] for cell in row] for row in frame[register]] for frame in frames]
        np.testing.assert_array_equal(index, expected, err_msg=register)
        expected = [[[cell[1] for cell in row] for row in frame[register]] for frame in frames]
        np.testing.assert_array_equal(values, expected, err_msg=register)


def caught(product: Product) -> list[str]:
    """Return which laws of the machine a run of this product breaks, each by name."""
    a, b, rows, cols, dataflow = product
    trace = run(product, overlap=True)
    cost = systolic.gemm(
        m=a.shape[0], k=a.shape[1], n=b.shape[1], rows=rows, cols=cols, dataflow=dataflow, overlap=True
    )
    beat = max(rows, trace.stream)
    wrong = [check.name for check in trace.verify().checks if not check.passed]
    if trace.result.tobytes() != run(product).result.tobytes():
        wrong.append("result of the machine without shadow registers")
    if trace.cycles != 2 * rows + cols + trace.stream - 2 + (cost.folds - 1) * beat:
        wrong.append("cycles")
    if [fold.start for fold in trace.folds] != [i * beat for i in range(cost.folds)]:
        wrong.append("starts")
    if not np.array_equal(trace.schedule.busy, cost.busy(np.arange(cost.cycles))):
        wrong.append("busy cells")
    return wrong


@settings(max_examples=60)
@given(products())
def test_the_laws_hold(product: Product) -> None:
    assert caught(product) == []


@settings(max_examples=30)
@given(products(types=("int8", "float32")), st.data())
def test_keeping_less_changes_nothing(product: Product, data: st.DataObject) -> None:
    full = run(product, overlap=True)
    cells = st.tuples(*(st.integers(0, most - 1) for most in full.active.shape))
    probes = data.draw(st.lists(cells, max_size=5, unique=True))
    bare = run(product, overlap=True, trace=False, probes=probes)
    assert bare.overlap and not bare.has_schedule
    assert bare.result.tobytes() == full.result.tobytes()
    assert (bare.cycles, bare.folds) == (full.cycles, full.folds)
    assert sorted(probe[:3] for probe in bare.probed) == sorted(probes)
    for t, r, c, *registers in bare.probed:
        assert registers == [full.held[t, r, c], full.right[t, r, c], full.down[t, r, c]]


def lean(product: Product) -> systolic.SystolicTrace:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(array, "FULL_REGISTERS", 0)
        return run(product, overlap=True)


@settings(max_examples=30)
@given(products(types=("int8", "float32")), st.data())
def test_what_is_looked_up_is_what_was_there_bit_for_bit(product: Product, data: st.DataObject) -> None:
    full, looked_up = run(product, overlap=True), lean(product)
    rows, cols = data.draw(st.slices(full.rows)), data.draw(st.slices(full.cols))
    for t in range(full.cycles):
        for cut in ((slice(None), slice(None)), (rows, cols)):
            one, other = full.registers(t, *cut), looked_up.registers(t, *cut)
            for field in fields(one):
                kept, found = getattr(one, field.name), getattr(other, field.name)
                assert kept.dtype == found.dtype
                assert kept.tobytes() == found.tobytes(), (t, field.name)
                assert not found.flags.writeable
    np.testing.assert_array_equal(full.macs(), looked_up.macs())
    np.testing.assert_array_equal(full.exits(), looked_up.exits())
    for field in fields(full.schedule):
        np.testing.assert_array_equal(
            getattr(full.schedule, field.name), getattr(looked_up.schedule, field.name)
        )
    assert looked_up.verify().passed


@pytest.mark.parametrize("dataflow", ["ws", "os", "is"])
def test_a_look_up_a_cycle_off_is_noticed(dataflow: str, monkeypatch: pytest.MonkeyPatch) -> None:
    full, looked_up = several(dataflow), lean((*SEVERAL, dataflow))

    def differ(name: str) -> list[int]:
        kept = getattr(full, name)
        return [
            t
            for t in range(full.cycles)
            if not np.array_equal(kept[t], getattr(looked_up.registers(t), name))
        ]

    names = [name for register in REGISTERS for name in (register, f"{register}_index")]
    assert [name for name in names if differ(name)] == []
    true_fold = window._Cells.fold
    monkeypatch.setattr(
        window._Cells, "fold", lambda cells, wait, loading=False: true_fold(cells, wait + 1, loading)
    )
    assert [name for name in names if differ(name)] == names


@settings(max_examples=30)
@given(products(types=("int8",)))
def test_products_exits_and_charges_are_those_of_the_machine_without_shadow_registers(
    product: Product,
) -> None:
    plain, trace = run(product), run(product, overlap=True)
    assert sorted(trace.macs()[:, 1:].tolist()) == sorted(plain.macs()[:, 1:].tolist())
    assert sorted(trace.exits()[:, 1:].tolist()) == sorted(plain.exits()[:, 1:].tolist())
    one, other = ledger.systolic(plain).at(-1), ledger.systolic(trace).at(-1)
    for charge in set(one) - {"idle_cell_cycles", "busy"}:
        assert one[charge] == other[charge], charge
    cells = trace.rows * trace.cols
    assert other["idle_cell_cycles"] == trace.cycles * cells - one["macs"]


@settings(max_examples=30)
@given(products(types=("int8",)))
def test_the_ledger_is_what_the_registers_show_in_each_cycle(product: Product) -> None:
    trace = run(product, overlap=True)
    charged = ledger.systolic(trace)
    right, down, shadow = trace.right_index, trace.down_index, trace.shadow_index
    hops = (right[:, :, 1:] >= 0).sum(axis=(1, 2)) + (down[:, 1:] >= 0).sum(axis=(1, 2))
    np.testing.assert_array_equal(charged.hops, np.cumsum(hops))
    exits = np.bincount(trace.exits()[:, 0], minlength=trace.cycles)
    np.testing.assert_array_equal(charged.writes_out, np.cumsum(exits))
    sank = (shadow[1:, 1:] >= 0) & (shadow[1:, 1:] == shadow[:-1, :-1])
    np.testing.assert_array_equal(charged.shifts[1:], np.cumsum(sank.sum(axis=(1, 2))))
    reentered = 0
    if trace.flow.loads:
        passes = -(-trace.k // trace.rows)
        reentered = trace.m * trace.n * (passes - 1)
    assert charged.reads_partial[-1] == reentered
    assert charged.decisions.tolist() == [
        sum(fold.start <= t for fold in trace.folds) for t in range(trace.cycles)
    ]


def test_a_large_trace_is_looked_up_where_it_was_probed() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(96, 80)).astype(np.float32), rng.normal(size=(80, 200)).astype(np.float32)
    for dataflow in systolic.DATAFLOWS:
        cost = systolic.gemm(m=96, k=80, n=200, rows=64, cols=60, dataflow=dataflow, overlap=True)
        probes = [
            (int(t), int(rng.integers(64)), int(rng.integers(60))) for t in rng.integers(cost.cycles, size=60)
        ]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(array, "FULL_REGISTERS", 0)
            trace = systolic.simulate(a, b, rows=64, cols=60, dataflow=dataflow, overlap=True, probes=probes)
        plain = systolic.simulate(a, b, rows=64, cols=60, dataflow=dataflow, trace=False)
        assert trace.result.tobytes() == plain.result.tobytes()
        assert trace.verify(cycle=cost.cycles // 2).passed
        for t, r, c, *seen in trace.probed:
            cell = trace.registers(t, slice(r, r + 1), slice(c, c + 1))
            assert seen == [cell.held.item(), cell.right.item(), cell.down.item()]


def test_a_register_never_holds_an_element_twice() -> None:
    for dataflow in systolic.DATAFLOWS:
        trace = several(dataflow)
        for t in range(trace.cycles):
            here = np.concatenate([trace.held_index[t].ravel(), trace.shadow_index[t].ravel()])
            found = here[here >= 0]
            assert np.unique(found).size == found.size


def test_a_tile_waits_in_the_shadow_until_the_stream_reaches_its_cell() -> None:
    trace = several("ws")
    beat, R = 3, 2
    assert [fold.start for fold in trace.folds] == [0, 3, 6, 9, 12, 15]
    for i, fold in enumerate(trace.folds):
        for r in range(fold.rows):
            for c in range(fold.cols):
                takes_over = i * beat + R + r + c
                weight = (fold.row0 + r) * trace.n + fold.col0 + c
                assert trace.shadow_index[takes_over - 1, r, c] == weight
                assert trace.held_index[takes_over, r, c] == weight
                assert trace.held_index[takes_over - 1, r, c] != weight
                assert trace.start[i, r, c] == takes_over


def test_a_finished_sum_sinks_while_the_next_is_formed() -> None:
    a, b = np.arange(1, 9).reshape(4, 2), np.arange(1, 5).reshape(2, 2)
    trace = systolic.simulate(a, b, rows=2, cols=2, dataflow="os", overlap=True)
    assert trace.held[1, 0, 0] == 7  # the first sum is complete,
    assert trace.shadow[2, 0, 0] == 7  # waits for the one below it,
    assert trace.held[2, 0, 0] == 5  # while its cell forms the first product of the next fold,
    assert trace.shadow[3, 1, 0] == 7  # sinks when that has left,
    assert trace.exits()[:2].tolist() == [[3, 0, 1, 0, 1], [4, 0, 0, 0, 1]]  # and leaves behind it


def test_without_several_folds_nothing_overlaps() -> None:
    a = np.arange(1, 10).reshape(3, 3)
    for dataflow in systolic.DATAFLOWS:
        one, other = (
            systolic.simulate(a, a, rows=3, cols=3, dataflow=dataflow, overlap=overlap)
            for overlap in (False, True)
        )
        assert one.cycles == other.cycles
        np.testing.assert_array_equal(one.macs(), other.macs())
        np.testing.assert_array_equal(one.phase, other.phase)
        for register in ("right", "down"):
            np.testing.assert_array_equal(getattr(one, register), getattr(other, register))


def test_the_phases_of_the_whole_run() -> None:
    trace = systolic.simulate(np.ones((6, 8)), np.ones((8, 8)), rows=4, cols=4, overlap=True)
    names = [systolic.PHASES[phase] for phase in trace.phase]
    assert names == ["load"] * 4 + ["fill"] * 6 + ["steady"] * 18 + ["drain"] * 6
    assert trace.schedule.busy.tolist()[9:29] == [15, *[16] * 18, 15]


def test_a_trace_without_shadow_registers_says_how_to_get_them() -> None:
    plain = systolic.simulate([[1]], [[1]], rows=1, cols=1)
    for name in ("shadow", "shadow_index"):
        with pytest.raises(ValueError, match="without shadow registers; simulate with overlap=True"):
            getattr(plain, name)
    assert plain.registers(0).shadow is None
    assert repr(several("ws")) == (
        "SystolicTrace(ws, 2x2 cells, 3x5 by 5x3, 22 cycles, 6 overlapping folds, keeps every register)"
    )


@pytest.mark.wrong_type
def test_overlap_is_true_or_false() -> None:
    with pytest.raises(TypeError, match="overlap is 'yes', but must be a bool; write True for shadow"):
        systolic.simulate([[1]], [[1]], rows=1, cols=1, overlap="yes")


# Faults: those of the shadow registers, and those of `systolic.FAULTS` on this machine.

MUTANTS: dict[str, dict[str, Any]] = {
    "taken over a cycle early": {"reach": lambda distance: distance - 1},
    "taken over a cycle late": {"reach": lambda distance: distance + 1},
    "taken over all at once": {"reach": lambda distance: 0},
    "shadow loaded a cycle late": {"skew_load": lambda col: col + 1},
    "shadow loaded a cycle early": {"skew_load": lambda col: col - 1},
    "shadow loaded without skew": {"skew_load": lambda col: 0},
    "load order reversed": {"loading_row": lambda cycle, rows: cycle},
    "a cycle between folds": {"beat": lambda rows, stream: max(rows, stream) + 1},
    "folds as close as the stream": {"beat": lambda rows, stream: stream},
    "streams without skew": {"skew_rows": lambda row: 0, "skew_cols": lambda col: 0},
    "rows late by one": {"skew_rows": lambda row: row + 1},
    "partial sum added twice": {"settle": lambda earlier, left: earlier + left},
    "hop of two": {"travel": lambda cycles: 2 * cycles},
}
LOADING = {name for name, change in MUTANTS.items() if {"skew_load", "loading_row", "settle"} & set(change)}


@pytest.mark.parametrize("dataflow", ["ws", "os", "is"])
@pytest.mark.parametrize("fault", MUTANTS)
def test_no_planted_fault_survives(fault: str, dataflow: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tall = (*SEVERAL[:2], 7 if dataflow == "os" else 4, 2, dataflow)  # more rows than steps of the stream
    for product in ((*SEVERAL, dataflow), tall):
        assert caught(product) == []
    monkeypatch.setattr(rules, "RULES", replace(rules.RULES, **MUTANTS[fault]))
    red = []
    for product in ((*SEVERAL, dataflow), tall):
        try:
            red += caught(product)
        except (ValueError, IndexError):  # the machine cannot even be run
            red.append("run")
    assert bool(red) is not (dataflow == "os" and fault in LOADING), red


@pytest.mark.parametrize("dataflow", ["ws", "os", "is"])
@pytest.mark.parametrize("kind", systolic.FAULTS)
def test_a_reader_may_break_this_machine_too(kind: str, dataflow: str) -> None:
    fault = systolic.Fault(kind, 1, 0) if kind == "stuck_cell" else systolic.Fault(kind)
    if dataflow == "os" and kind in ("load_reversed", "added_twice"):
        with pytest.raises(ValueError, match="would change nothing"):
            several(dataflow, fault=fault)
        return
    full, bare = several(dataflow, fault=fault), several(dataflow, fault=fault, trace=False)
    assert not full.verify().passed
    assert not bare.verify().passed
    np.testing.assert_array_equal(full.result, bare.result)
