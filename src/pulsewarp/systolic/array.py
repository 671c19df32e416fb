"""The systolic array, stepped register by register: three dataflows, one simulator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pulsewarp import _checks
from pulsewarp._arrays import freeze
from pulsewarp.matmul import accumulator_type
from pulsewarp.systolic import rules
from pulsewarp.systolic.dataflow import DATAFLOWS, Axis
from pulsewarp.systolic.faults import Fault, break_rules
from pulsewarp.systolic.lines import Layout, Lines, tiles_of
from pulsewarp.systolic.observers import FoldByFold, FoldsAtOnce, Observer, Probes, RegisterObserver
from pulsewarp.systolic.overlap import Accumulators, Outlet, ShadowLines, continues
from pulsewarp.systolic.rules import Fold
from pulsewarp.systolic.trace import SystolicTrace

FULL_REGISTERS = 2**21
"""Up to so many cell-cycles (cycles * rows * cols) a trace keeps every register of every cycle."""

MEMORY_LIMIT = 512 * 2**20
"""No run may need more bytes than this for its registers, streams and trace."""

CYCLE_LIMIT = 50_000_000
"""No run may take more cycles than this: at a few microseconds each, minutes."""


@_checks.names_keywords
def simulate(
    a: ArrayLike,
    b: ArrayLike,
    *,
    rows: int,
    cols: int,
    dataflow: str = "ws",
    overlap: bool = False,
    trace: bool = True,
    probes: Iterable[tuple[int, int, int]] = (),
    fault: Fault | None = None,
) -> SystolicTrace:
    """Multiply `a` by `b` on a systolic array of rows x cols cells, cycle by cycle, with the real values.

    Modelled: the held, right-moving and down-moving register of every cell, one hop a cycle, skewed entry,
    loading and draining, folds for products larger than the array. A fold takes the whole array's schedule
    even where it fills only part of it. It starts with empty registers when the one before has ended, or,
    with `overlap`, as soon as streams and shadow registers allow: each cell then has a second, shadow
    register, through which the next tile is loaded (for "os", finished sums drained) while the cell works.
    The partial sum of an earlier fold re-enters at the top edge, so each result is summed in order of k (a
    TPU adds partial sums in accumulators below the array: same cycles, another order of rounding).
    Not modelled: memory (operands are always there in time), rounding inside a cell other than that of the
    accumulator's type.

    Parameters
    ----------
    a : array_like, shape (m, k)
        Left operand.
    b : array_like, shape (k, n)
        Right operand.
    rows, cols : int
        Size of the array in cells.
    dataflow : {"ws", "os", "is"}
        Which operand stays in its cell: weight-stationary keeps tiles of `b`, input-stationary tiles of `a`,
        output-stationary keeps the sums.
    overlap : bool
        True for a machine with shadow registers: fold i's stream starts max(rows, T) cycles after that of
        fold i - 1, with T the length of a stream, and F folds take
        2 * rows + cols + T - 2 + (F - 1) * max(rows, T) cycles.
    trace : bool
        True keeps every register where cycles * rows * cols is at most 2**21, beyond that the schedule seen
        while stepping. False steps every register all the same and keeps the result and the counts.
    probes : iterable of (cycle, row, col)
        Cells whose three registers are noted at the given cycles, with or without a trace.
    fault : Fault, optional
        Run the machine with this rule broken: `result` is what that machine gives, and `verify()` says where
        it is wrong.

    Returns
    -------
    SystolicTrace
        Accumulators are int32 for int8 operands, int64 for other integers (both wrap around), float32 for
        floats of up to 32 bits, else float64; products are formed in that type.

    Raises
    ------
    ValueError
        For operands that are no matrices of finite numbers or do not fit each other, an unknown dataflow, a
        size below 1, a probe outside the run, a fault that would change nothing in this run, a run too long
        or too large for memory.

    Notes
    -----
    The machine is that of H. T. Kung and C. E. Leiserson, "Systolic arrays (for VLSI)", Sparse Matrix
    Proceedings 1978, and H. T. Kung, "Why systolic architectures?", Computer 15(1), 1982. The matrix unit of
    N. P. Jouppi et al., "In-datacenter performance analysis of a tensor processing unit", ISCA 2017, keeps
    weights still on 256 x 256 cells. Fold order and schedule follow SCALE-Sim (A. Samajdar et al.,
    arXiv:1811.02883), with the cycles that drain an output-stationary array counted.

    Examples
    --------
    Two rows of cells load for two cycles, then two rows of `a` pass: 2 + 2 + 2 + 2 - 2 cycles.

    >>> trace = simulate([[1, 2], [3, 4]], [[5, 6], [7, 8]], rows=2, cols=2)
    >>> trace.cycles, trace.result.tolist()
    (6, [[19, 22], [43, 50]])

    Two folds take twice as long, or 2 cycles more where the second tile is loaded while the first works:

    >>> a, b = [[1, 2, 3, 4], [5, 6, 7, 8]], [[1, 2], [3, 4], [5, 6], [7, 8]]
    >>> [simulate(a, b, rows=2, cols=2, overlap=overlap).cycles for overlap in (False, True)]
    [12, 8]
    """
    flow = DATAFLOWS[_checks.choice("dataflow", dataflow, DATAFLOWS)]
    _checks.instance("overlap", overlap, bool, "write True for shadow registers, or False")
    _checks.instance("trace", trace, bool, "write True to keep what the array did, or False")
    rows, cols = _checks.whole_number("rows", rows), _checks.whole_number("cols", cols)
    a, b = _checks.factors(a, b)
    accumulator = accumulator_type(a.dtype, b.dtype)
    sizes: dict[Axis, int] = {"m": a.shape[0], "k": a.shape[1], "n": b.shape[1]}
    machine = rules.RULES
    if fault is not None:
        _checks.instance(
            "fault", fault, Fault, "write systolic.Fault('no_skew') or another of systolic.FAULTS"
        )
        machine = break_rules(fault, flow, sizes, rows, cols)
    layout = Layout(machine, flow, rows, cols, sizes[flow.stream_axis], overlap=overlap)
    keeps_registers = _refuse_or_choose(layout, sizes, accumulator.itemsize, trace)
    folds = machine.plan_folds(flow, sizes, rows, cols, overlap=overlap)
    cycles = layout.total(len(folds))

    observers: list[Observer] = []
    notes = Probes(layout, _probe_cells(probes, cycles, rows, cols))
    if notes.cells:
        observers.append(notes)
    schedule = registers = None
    if trace:
        schedule = (FoldsAtOnce if overlap else FoldByFold)(layout, folds, cycles)
        observers.append(schedule)
        if keeps_registers:
            registers = RegisterObserver(layout, cycles, sizes, accumulator, schedule)
            observers.append(registers)
    run = _run_overlapping if overlap else _run
    result = run(layout, folds, a.astype(accumulator), b.astype(accumulator), sizes, observers)
    return SystolicTrace(
        dataflow=flow.name,
        rows=rows,
        cols=cols,
        m=sizes["m"],
        k=sizes["k"],
        n=sizes["n"],
        a=freeze(a.copy()),
        b=freeze(b.copy()),
        result=freeze(result),
        cycles=cycles,
        folds=folds,
        overlap=overlap,
        fault=fault,
        probed=tuple(notes.seen),
        kept_registers=registers.finish() if registers else None,
        kept_schedule=schedule.finish() if schedule else None,
    )


def _run(
    layout: Layout,
    folds: tuple[Fold, ...],
    a: NDArray[Any],
    b: NDArray[Any],
    sizes: dict[Axis, int],
    observers: Sequence[Observer],
) -> NDArray[Any]:
    """Step every register through every cycle of every fold and return the product."""
    flow = layout.flow
    result = np.zeros((sizes["m"], sizes["n"]), a.dtype)
    lines = Lines(layout, a.dtype, 0)
    product = np.empty(lines.size, a.dtype)
    machine = layout.rules
    sum_moves, hop, multiply, add = flow.loads, lines.hop, machine.multiply, np.add
    for fold in folds:
        tiles = tiles_of(flow, fold, {"a": a, "b": b, "c": result})
        lines.feed(*tiles)
        for observer in observers:
            observer.begin(fold)
        for t in range(layout.cycles):
            registers = held, right, down = hop(t)
            if sum_moves:
                multiply(right, held, out=product)
                add(down, product, out=down)
            else:
                multiply(right, down, out=product)
                add(held, product, out=held)
            for observer in observers:
                observer.see(fold.start + t, registers)
        earlier = tiles[2] if sum_moves else tiles[0]
        earlier[...] = machine.settle(earlier, lines.leaving(fold))
    return result


def _run_overlapping(
    layout: Layout,
    folds: tuple[Fold, ...],
    a: NDArray[Any],
    b: NDArray[Any],
    sizes: dict[Axis, int],
    observers: Sequence[Observer],
) -> NDArray[Any]:
    """Step every register, shadow registers included, through every cycle of the run; return the product."""
    flow, multiply, add = layout.flow, layout.rules.multiply, np.add
    result = np.zeros((sizes["m"], sizes["n"]), a.dtype)
    lines = ShadowLines(layout, a.dtype, 0)
    below, outlet = Accumulators(layout, a.dtype), Outlet(layout, a.dtype)
    product = np.empty(lines.size, a.dtype)
    ends = {fold.start + fold.cycles - 1: fold for fold in folds}
    starts = {fold.start: fold for fold in folds}
    for t in range(layout.total(len(folds))):
        fold = starts.get(t)
        if fold is not None:
            held, right, down = tiles_of(flow, fold, {"a": a, "b": b, "c": result})
            operands = (held, right, None) if flow.loads else (None, right, down)
            lines.feed(fold, *operands)
            below.feed(fold, flow.loads and continues(folds, fold.index))
            for observer in observers:
                observer.begin(fold)
        registers = held, right, down, *_ = lines.hop(t)
        if flow.loads:
            below.enter(t, down[: layout.cols])
            multiply(right, held, out=product)
            add(down, product, out=down)
            below.leave(t, down[-layout.cols :])
        else:
            multiply(right, down, out=product)
            add(held, product, out=held)
            outlet.leave(t, lines.just_behind())
        for observer in observers:
            observer.see(t, registers)
        fold = ends.get(t)
        if fold is not None:
            held, _, down = tiles_of(flow, fold, {"a": a, "b": b, "c": result})
            if flow.loads:
                down[...] = below.left(fold)
            else:
                held[...] = outlet.left(fold)
    return result


def _probe_cells(
    probes: Iterable[tuple[int, int, int]], cycles: int, rows: int, cols: int
) -> dict[int, list[tuple[int, int]]]:
    """Return the probed cells by cycle; refuse those outside the run."""
    cells: dict[int, list[tuple[int, int]]] = {}
    for probe in _checks.several("probes", probes, "write [(cycle, row, col), ...]"):
        if not isinstance(probe, tuple | list) or len(probe) != 3:
            raise ValueError(f"Probe {probe!r} is not (cycle, row, col); write three whole numbers.")
        t, r, c = (_checks.whole_number("a probe's number", part, least=0) for part in probe)
        if not (t < cycles and r < rows and c < cols):
            raise ValueError(
                f"Probe ({t}, {r}, {c}) lies outside the run: cycles go from 0 to {cycles - 1}, rows to "
                f"{rows - 1}, columns to {cols - 1}; leave it out."
            )
        cells.setdefault(t, []).append((r, c))
    return cells


def _refuse_or_choose(layout: Layout, sizes: dict[Axis, int], itemsize: int, trace: bool) -> bool:
    """Tell whether every register can be kept; raise when the run is too long or too large for memory."""
    flow, rows, cols = layout.flow, layout.rows, layout.cols
    m, k, n = sizes["m"], sizes["k"], sizes["n"]
    folds = -(-sizes[flow.row_axis] // rows) * -(-sizes[flow.col_axis] // cols)
    cycles = layout.total(folds)
    what = f"A product of {m} x {k} by {k} x {n} on {rows} x {cols} cells ({flow.name})"
    if cycles > CYCLE_LIMIT:
        raise ValueError(
            f"{what} takes {cycles} cycles, above the limit of {CYCLE_LIMIT} for stepping; use a larger "
            f"array or smaller matrices, or count without stepping with systolic.gemm."
        )
    keeps_registers = trace and cycles * rows * cols <= FULL_REGISTERS
    lines = (rows + 4 * cols) * layout.cycles + 5 * rows * cols
    lines += (layout.rules.travel(layout.cycles) - layout.cycles) * cols  # a faulty machine may need more
    if layout.overlap:  # shadow registers, and lines that are rewound
        lines += 4 * rows * cols + 2 * cols * (rows + cols)
    need = itemsize * (lines + m * k + k * n + m * n)
    need += 200 * folds
    if trace:  # presence bits on the same lines, counts by cycle, start and length of each cell in each fold
        need += lines * (4 if layout.overlap else 1) + 37 * cycles + 8 * folds * rows * cols
    if need > MEMORY_LIMIT:
        remedy = "use smaller matrices, or count without stepping with systolic.gemm"
        if trace:
            remedy = f"pass trace=False, {remedy}"
        raise ValueError(
            f"{what} needs {need / 2**20:.0f} MiB of registers, streams and trace, above the limit of "
            f"{MEMORY_LIMIT // 2**20} MiB; {remedy}."
        )
    return keeps_registers
