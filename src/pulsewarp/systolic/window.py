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
from pulsewarp.systolic.registers import Registers
from pulsewarp.systolic.trace import SystolicTrace


def recompute(trace: SystolicTrace, t: int, rows: slice, cols: slice) -> Registers:
    """Return the registers of a window of cells at cycle `t`, from operands and schedule."""
    cells = _Cells(trace, t, rows, cols)
    looked_up = {"held": cells.held(), "right": cells.right(), "down": cells.down()}
    if trace.overlap:
        looked_up["shadow"] = cells.shadow()
    parts: dict[str, Any] = {}
    for register, (fold, index) in looked_up.items():
        letter = trace.roles["held" if register == "shadow" else register]
        value = cells.sums(fold, index) if letter == "c" else cells.looked_up(letter, index)
        parts |= {register: freeze(value), f"{register}_index": freeze(index)}
    return Registers(**parts, active=freeze(cells.active()))


class _Cells:
    """A window of cells at one cycle: for each register the fold each cell is in, and the element it has."""

    def __init__(self, trace: SystolicTrace, t: int, rows: slice, cols: slice) -> None:
        self.trace, self.t = trace, t
        self.r = np.arange(trace.rows)[rows][:, None]
        self.c = np.arange(trace.cols)[cols][None, :]
        self.stream = trace.stream
        self.row0, self.rows, self.col0, self.cols = (
            np.array([getattr(fold, name) for fold in trace.folds])
            for name in ("row0", "rows", "col0", "cols")
        )
        # Cell (0, 0) takes its first pair when the streams begin.
        self.origin = trace.start[:, 0, 0].astype(np.int64)

    def fold(self, wait: NDArray[Any], loading: bool = False) -> NDArray[np.int64]:
        """Return the number of the last fold whose stream began `wait` cycles ago or earlier, -1 for none.

        Where folds follow one another, a cell is in the fold that is under way. `loading`: the last fold
        whose tile began to be loaded so long ago.
        """
        if not self.trace.overlap:
            number = self.t // self.trace.folds[0].cycles
            return np.full(wait.shape, number, np.int64)
        begun = self.origin - (self.trace.rows if loading else 0)
        last: NDArray[np.int64] = np.searchsorted(begun, self.t - wait, side="right") - 1
        return last

    def index(
        self, letter: Letter, axis_values: dict[Axis, NDArray[Any]], there: NDArray[Any]
    ) -> NDArray[np.int32]:
        """Return flat indices from the two indices of an operand, -1 where `there` is false."""
        first, second = AXES[letter]
        flat = axis_values[first] * self.trace.sizes[second] + axis_values[second]
        shape = (self.r.size, self.c.size)
        found: NDArray[np.int32] = np.broadcast_to(np.where(there, flat, -1), shape).astype(np.int32)
        return found

    def step(self, fold: NDArray[Any]) -> NDArray[Any]:
        """Return the step of the streams that is in each cell: the edge saw it r + c cycles ago."""
        step: NDArray[Any] = self.t - self.origin[fold] - self.r - self.c
        return step

    def streams(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return fold and step of what the streams brought to each cell, and whether it is still there."""
        fold = self.fold(self.r + self.c)
        step = self.step(fold)
        return fold, step, (fold >= 0) & (step >= 0) & (step < self.stream)

    def active(self) -> NDArray[np.bool_]:
        """Return which cells multiply, by `start` and `length`."""
        fold, _, _ = self.streams()
        start, length = (part[fold, self.r, self.c] for part in (self.trace.start, self.trace.length))
        working: NDArray[np.bool_] = (
            (start >= 0) & (self.t >= start) & (self.t < start + length) & (fold >= 0)
        )
        return working

    def right(self) -> tuple[NDArray[Any], NDArray[np.int32]]:
        flow, (fold, step, there) = self.trace.flow, self.streams()
        at: dict[Axis, NDArray[Any]] = {flow.row_axis: self.row0[fold] + self.r, flow.stream_axis: step}
        return fold, self.index(flow.right, at, there & (self.r < self.rows[fold]))

    def down(self) -> tuple[NDArray[Any], NDArray[np.int32]]:
        flow, (fold, step, there) = self.trace.flow, self.streams()
        at: dict[Axis, NDArray[Any]] = {flow.col_axis: self.col0[fold] + self.c, flow.stream_axis: step}
        return fold, self.index(flow.down, at, there & (self.c < self.cols[fold]))

    def held(self) -> tuple[NDArray[Any], NDArray[np.int32]]:
        trace = self.trace
        fold, _, there = self.streams()
        if trace.overlap:
            # A tile is there until the next is taken over, a sum from its first product to its last.
            there = there if trace.dataflow == "os" else fold >= 0
            return fold, self.tile(fold, self.r, there)
        local = self.t - np.array([fold.start for fold in trace.folds])[fold]
        if trace.flow.loads:  # rows that still have to sink to their place
            row, there = self.r + np.maximum(trace.rows - 1 - local, 0), self.r <= local
        else:  # rows that have sunk since the drain began; a sum exists from its first product on
            row = self.r - np.maximum(local + 1 - (trace.folds[0].cycles - trace.rows), 0)
            there = self.t >= trace.start[fold, np.clip(row, 0, None), self.c]
        return fold, self.tile(fold, row, there)

    def shadow(self) -> tuple[NDArray[Any], NDArray[np.int32]]:
        rows = self.trace.rows
        if self.trace.flow.loads:  # rows that still have to sink, then the cell's own until it is taken over
            fold = self.fold(self.r + self.c, loading=True)
            since = self.step(fold) + rows
            row = self.r + np.maximum(rows - 1 - self.r - since, 0)
            there = since < rows
        else:  # the cell's own until the last sum of its column is finished, then those from above
            fold = self.fold(self.r + self.c + self.stream)
            since = self.step(fold) - self.stream
            row = self.r - np.maximum(since + self.r - rows + 2, 0)
            there = since >= 0
        return fold, self.tile(fold, row, there & (fold >= 0))

    def tile(self, fold: NDArray[Any], row: NDArray[Any], there: NDArray[Any]) -> NDArray[np.int32]:
        """Return the indices of a fold's stationary elements of the given rows, in their columns."""
        flow = self.trace.flow
        there = there & (row >= 0) & (row < self.rows[fold]) & (self.c < self.cols[fold])
        at: dict[Axis, NDArray[Any]] = {
            flow.row_axis: self.row0[fold] + row,
            flow.col_axis: self.col0[fold] + self.c,
        }
        return self.index(flow.held, at, there)

    def looked_up(self, letter: Letter, index: NDArray[np.int32]) -> NDArray[Any]:
        """Return the operand's values, 0 where nothing is."""
        accumulator = self.trace.result.dtype
        operand = self.trace.a if letter == "a" else self.trace.b
        values = operand.reshape(-1)[np.clip(index, 0, None)].astype(accumulator)
        return np.where(index >= 0, values, accumulator.type(0))

    def sums(self, fold: NDArray[Any], index: NDArray[np.int32]) -> NDArray[Any]:
        """Return the sums with these result indices as far as they have come, added up over k in order."""
        trace, flow = self.trace, self.trace.flow
        accumulator = trace.result.dtype
        m, n = np.divmod(np.clip(index, 0, None), trace.n)
        if flow.loads:  # row r has just added k = row0 + r; rows below the tile pass the sum on
            terms = self.row0[fold] + np.minimum(self.r, self.rows[fold] - 1) + 1
        else:  # one product a cycle since the cell's first
            row, col = np.clip(m - self.row0[fold], 0, None), np.clip(n - self.col0[fold], 0, None)
            row, col = np.where(index >= 0, row, 0), np.where(index >= 0, col, 0)
            terms = np.clip(self.t + 1 - trace.start[fold, row, col], 0, trace.k)
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
        parts.append(rows)
    macs = np.concatenate(parts)
    return macs[np.lexsort((macs[:, 2], macs[:, 1], macs[:, 0]))]


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
            if trace.overlap:  # each column sinks as soon as it is finished, one cycle before the next
                cycle = cycle - (trace.cols - 1 - col)
            final = True
            at = {flow.row_axis: fold.row0 + first, flow.col_axis: fold.col0 + col}
        rows = np.stack([cycle, col, at["m"], at["n"], np.full(col.size, final)], axis=1).astype(np.int32)
        parts.append(rows)
    exits = np.concatenate(parts)
    return exits[np.lexsort((exits[:, 1], exits[:, 0]))]
