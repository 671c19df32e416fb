"""Registers, products and exits looked up from the schedule of a trace, where not every register is kept.

Nothing here decides when anything happens: `start` was seen while stepping. A value that is in cell (r, c) at
cycle t was at the edge r or c cycles earlier, because a value moves one cell a cycle.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp._arrays import freeze
from pulsewarp.systolic.dataflow import AXES, Axis, Letter
from pulsewarp.systolic.registers import REGISTERS, Registers
from pulsewarp.systolic.rules import Fold
from pulsewarp.systolic.trace import SystolicTrace


def recompute(trace: SystolicTrace, t: int, rows: slice, cols: slice) -> Registers:
    """Return the registers of a window of cells at cycle `t`, from operands and schedule."""
    fold = fold_at(trace, t)
    cells = _Cells(trace, fold, t, rows, cols)
    index = {"held": cells.held(), "right": cells.right(), "down": cells.down()}
    value = {}
    for register, letter in trace.roles.items():
        value[register] = (
            cells.sums(index[register]) if letter == "c" else cells.looked_up(letter, index[register])
        )
    start = trace.start[fold.index, rows, cols]
    active = (start >= 0) & (t >= start) & (t < start + trace.length[fold.index, rows, cols])
    parts = [content[register] for content in (value, index) for register in REGISTERS]
    return Registers(*(freeze(part) for part in (*parts, active)))


def fold_at(trace: SystolicTrace, t: int) -> Fold:
    """Return the fold that cycle `t` belongs to."""
    return trace.folds[t // trace.folds[0].cycles]


class _Cells:
    """A window of cells at one cycle of one fold."""

    def __init__(self, trace: SystolicTrace, fold: Fold, t: int, rows: slice, cols: slice) -> None:
        self.trace, self.fold, self.t = trace, fold, t
        self.r = np.arange(trace.rows)[rows][:, None]
        self.c = np.arange(trace.cols)[cols][None, :]
        self.stream = trace.sizes[trace.flow.stream_axis]
        # Cell (0, 0) takes its first pair when the streams begin.
        self.origin = int(trace.start[fold.index, 0, 0])

    def index(
        self, letter: Letter, axis_values: dict[Axis, NDArray[Any]], there: NDArray[Any]
    ) -> NDArray[np.int32]:
        """Return flat indices from the two indices of an operand, -1 where `there` is false."""
        first, second = AXES[letter]
        flat = axis_values[first] * self.trace.sizes[second] + axis_values[second]
        shape = (self.r.size, self.c.size)
        return np.broadcast_to(np.where(there, flat, -1), shape).astype(np.int32)

    def step(self) -> NDArray[Any]:
        """Return the step of the streams that is in each cell: the edge saw it r + c cycles ago."""
        return self.t - self.origin - self.r - self.c

    def right(self) -> NDArray[np.int32]:
        flow, fold, step = self.trace.flow, self.fold, self.step()
        there = (step >= 0) & (step < self.stream) & (self.r < fold.rows)
        return self.index(flow.right, {flow.row_axis: fold.row0 + self.r, flow.stream_axis: step}, there)

    def down(self) -> NDArray[np.int32]:
        flow, fold, step = self.trace.flow, self.fold, self.step()
        there = (step >= 0) & (step < self.stream) & (self.c < fold.cols)
        return self.index(flow.down, {flow.col_axis: fold.col0 + self.c, flow.stream_axis: step}, there)

    def held(self) -> NDArray[np.int32]:
        flow, fold, trace = self.trace.flow, self.fold, self.trace
        local = self.t - fold.start
        if flow.loads:  # rows that still have to sink to their place
            row = self.r + max(trace.rows - 1 - local, 0)
            there = (self.r <= local) & (row < fold.rows) & (self.c < fold.cols)
        else:  # rows that have sunk since the drain began; a sum exists from its first product on
            row = self.r - max(local + 1 - (fold.cycles - trace.rows), 0)
            begun = self.t >= trace.start[fold.index][np.clip(row, 0, None), self.c]
            there = (row >= 0) & (row < fold.rows) & (self.c < fold.cols) & begun
        return self.index(
            flow.held, {flow.row_axis: fold.row0 + row, flow.col_axis: fold.col0 + self.c}, there
        )

    def looked_up(self, letter: Letter, index: NDArray[np.int32]) -> NDArray[Any]:
        """Return the operand's values, 0 where nothing is."""
        accumulator = self.trace.result.dtype
        operand = self.trace.a if letter == "a" else self.trace.b
        values = operand.reshape(-1)[np.clip(index, 0, None)].astype(accumulator)
        return np.where(index >= 0, values, accumulator.type(0))

    def sums(self, index: NDArray[np.int32]) -> NDArray[Any]:
        """Return the sums with these result indices as far as they have come, added up over k in order."""
        trace, fold, flow = self.trace, self.fold, self.trace.flow
        accumulator = trace.result.dtype
        m, n = np.divmod(np.clip(index, 0, None), trace.n)
        if flow.loads:  # row r has just added k = row0 + r; rows below the tile pass the sum on
            terms = np.broadcast_to(fold.row0 + np.minimum(self.r, fold.rows - 1) + 1, index.shape)
        else:  # one product a cycle since the cell's first
            row, col = np.clip(m - fold.row0, 0, None), np.clip(n - fold.col0, 0, None)
            terms = np.clip(self.t + 1 - trace.start[fold.index][row, col], 0, trace.k)
        terms = np.where(index >= 0, terms, 0)
        sums = np.zeros(index.shape, accumulator)
        for k in range(int(terms.max(initial=0))):
            product = trace.a[m, k].astype(accumulator) * trace.b[k, n].astype(accumulator)
            sums = np.where(k < terms, sums + product, sums)
        return sums


def scheduled_macs(trace: SystolicTrace) -> NDArray[np.int32]:
    """Return rows (cycle, row, col, m, n, k) from `start` and `length`."""
    flow = trace.flow
    parts = []
    for fold in trace.folds:
        start, length = trace.start[fold.index], trace.length[fold.index]
        row, col = np.nonzero(length)
        each = length[row, col]
        step = np.arange(each.sum()) - np.repeat(np.cumsum(each) - each, each)
        row, col = np.repeat(row, each), np.repeat(col, each)
        at: dict[Axis, NDArray[Any]] = {
            flow.row_axis: fold.row0 + row,
            flow.col_axis: fold.col0 + col,
            flow.stream_axis: step,
        }
        rows = np.stack([start[row, col] + step, row, col, at["m"], at["n"], at["k"]], axis=1).astype(
            np.int32
        )
        parts.append(rows[np.lexsort((col, row, rows[:, 0]))])
    return np.concatenate(parts)


def scheduled_exits(trace: SystolicTrace) -> NDArray[np.int32]:
    """Return rows (cycle, col, m, n, final)."""
    flow, last_row = trace.flow, trace.rows - 1
    parts = []
    for fold in trace.folds:
        along = trace.sizes[flow.stream_axis] if flow.loads else fold.rows
        first, col = (x.reshape(-1) for x in np.indices((along, fold.cols)))
        if flow.loads:
            cycle = trace.start[fold.index, 0][col] + first + last_row
            final = fold.row0 + fold.rows == trace.k
            at: dict[Axis, NDArray[Any]] = {flow.stream_axis: first, flow.col_axis: fold.col0 + col}
        else:
            cycle = fold.start + fold.cycles - 1 - first
            final = True
            at = {flow.row_axis: fold.row0 + first, flow.col_axis: fold.col0 + col}
        rows = np.stack([cycle, col, at["m"], at["n"], np.full(col.size, final)], axis=1).astype(np.int32)
        parts.append(rows[np.lexsort((col, cycle))])
    return np.concatenate(parts)
