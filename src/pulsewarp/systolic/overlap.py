"""The array with shadow registers: a second register in each cell, so that folds follow without a pause.

What stays is loaded into the shadow registers while the cells still work with what they hold. A control wave
goes with the new stream, one cell a cycle to the right and down; the cells it reaches, one anti-diagonal a
cycle, take over what waits in their shadow. In "os" it is the other way round: cells that have finished a sum
hand it to their shadow, and the columns of the shadow sink out of the array while the next stream works. (In
the bottom row a sum has nothing to wait for and leaves at once.)

In memory a shadow register is in one of two places. Values that sink lie on a line like everything that moves
(see `lines`); values that wait lie still. A register shows whichever is there; both never are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp.systolic.lines import Layout
from pulsewarp.systolic.rules import Fold


class ShadowLines:
    """One kind of content (values, indices or fold numbers) of all registers, shadow registers included.

    The window of a line slides towards its beginning, one element or row a cycle; where it arrives there, its
    content is copied to the end once.
    """

    def __init__(self, layout: Layout, kind: Any, fill: int) -> None:
        rules, rows, cols = layout.rules, layout.rows, layout.cols
        self.layout, self.fill = layout, fill
        self.cols, self.size, self.step = cols, rows * cols, rules.travel(1)
        self.held = np.full(self.size, fill, kind)
        self.waiting = np.full(self.size, fill, kind)
        self.expected = np.full(self.size, fill, kind)  # "os": the tile whose sums a cell forms
        self.lap = rows + cols  # a copy of the array's content every so many cycles costs next to nothing
        reach = self.lap * self.step
        self.right_line = np.full(self.size + reach, fill, kind)
        self.down_line = np.full(self.size + reach * cols, fill, kind)
        self.sinking_line = np.full(self.size + (reach + self.step) * cols, fill, kind)
        self.at = reach
        row_waits = np.array([rules.skew_rows(r) for r in range(rows)])
        col_waits = np.array([rules.skew_cols(c) for c in range(cols)])
        load_waits = np.array([rules.skew_load(c) for c in range(cols)])
        self.waits = {"left": row_waits, "top": col_waits, "shadow": load_waits - layout.load}
        # The timetable of what enters covers the cycles from a fold's first to the last value of its stream.
        self.horizon = layout.load + max(int(wait.max()) for wait in self.waits.values()) + layout.beat + 1
        self.table = {
            "left": np.full((self.horizon, rows), fill, kind),
            "top": np.full((self.horizon, cols), fill, kind),
            "shadow": np.full((self.horizon, cols), fill, kind),
        }
        self.waves: list[tuple[int, NDArray[Any] | None]] = []
        self.diagonals = {rules.reach(d): _diagonal(rows, cols, d) for d in range(rows + cols - 1)}

    def feed(
        self, fold: Fold, held: NDArray[Any] | None, right: NDArray[Any], down: NDArray[Any] | None
    ) -> None:
        """Line up a fold behind those under way: its stationary tile and its streams, each with its skew.

        Sums are left out (None) where they are values, which are known only later.
        """
        layout = self.layout
        origin = fold.start + layout.load
        self._book("left", origin, right.T)
        if down is not None:
            self._book("top", origin, down)
        sums = None
        if held is not None:
            tile = np.full((layout.rows, self.cols), self.fill, self.held.dtype)
            tile[: fold.rows, : fold.cols] = held
            if layout.flow.loads:
                order = [layout.rules.loading_row(cycle, layout.rows) for cycle in range(layout.load)]
                self._book("shadow", origin, tile[order])
            else:
                sums = tile.reshape(-1)
        self.waves.append((origin, sums))

    def _book(self, where: str, origin: int, stream: NDArray[Any]) -> None:
        """Write a stream, shape (cycles, lines), into the timetable of its edge."""
        lines = np.arange(stream.shape[1])
        cycles = origin + self.waits[where][lines] + np.arange(stream.shape[0])[:, None]
        self.table[where][cycles % self.horizon, lines] = stream

    def hop(self, t: int) -> tuple[NDArray[Any], ...]:
        """Step over clock edge `t`; return held, right, down, and of the shadow what sinks and what waits."""
        loads, cols, size, step = self.layout.flow.loads, self.cols, self.size, self.step
        if loads:
            for origin, _ in self.waves:
                self._arrive(t - origin)
        if self.at < step:
            self._rewind()
        self.at -= step
        at, row = self.at, t % self.horizon
        right = self.right_line[at : at + size]
        down = self.down_line[at * cols : at * cols + size]
        sinking = self.sinking_line[at * cols : at * cols + size]
        for col in range(1, min(step, cols)):  # none, but for a hop too far
            right[col::cols] = self.fill
        down[cols : step * cols] = self.fill
        sinking[: step * cols] = self.fill
        for edge, register in (("left", right[::cols]), ("top", down[:cols]), ("shadow", sinking[:cols])):
            entering = self.table[edge][row]
            register[...] = entering
            entering[...] = self.fill
        for origin, sums in self.waves:
            if loads:
                self._take_over(t - origin)
            else:
                self._hand_over(t - origin, sums)
        if self.waves and t - self.waves[0][0] > self.layout.cycles:
            del self.waves[0]
        return self.held, right, down, sinking, self.waiting

    def just_behind(self) -> NDArray[Any]:
        """Return what this cycle has pushed out of the shadow registers at the bottom."""
        end = self.at * self.cols + self.size
        return self.sinking_line[end : end + self.cols]

    def _arrive(self, x: int) -> None:
        """Let a column that has sunk to its place wait there; `x` counts from the fold's stream."""
        if 0 <= x < self.cols:
            sunk = self.sinking_line[self.at * self.cols :][: self.size][x :: self.cols]
            self.waiting[x :: self.cols] = sunk
            sunk[...] = self.fill

    def _take_over(self, x: int) -> None:
        """Let the cells that the stream reaches take over what waits in their shadow."""
        cells = self.diagonals.get(x)
        if cells is not None:
            self.held[cells] = self.waiting[cells]
            self.waiting[cells] = self.fill

    def _hand_over(self, x: int, sums: NDArray[Any] | None) -> None:
        """Let the cells that have finished a sum hand it to their shadow, and a finished column sink.

        `sums` says which sums the fold forms, where that is what the registers have.
        """
        layout, cols = self.layout, self.cols
        cells = self.diagonals.get(x - layout.stream)
        if cells is not None:
            self.waiting[cells] = self.held[cells]
            self.held[cells] = self.fill
        begins = self.diagonals.get(x)
        if begins is not None and sums is not None:
            self.expected[begins] = sums[begins]
        col = x - layout.stream - (layout.rows - 1)
        if 0 <= col < cols:
            below = self.sinking_line[(self.at + self.step) * cols :][: self.size][col::cols]
            below[...] = self.waiting[col::cols]
            self.waiting[col::cols] = self.fill

    def _rewind(self) -> None:
        """Copy the content of each line's window to the line's end."""
        at, self.at = self.at, self.lap * self.step
        for line, unit in ((self.right_line, 1), (self.down_line, self.cols), (self.sinking_line, self.cols)):
            line[self.at * unit :][: self.size] = line[at * unit :][: self.size]


class Accumulators:
    """The sums below the array ("ws", "is"): each waits from its leaving until it enters again at the top."""

    def __init__(self, layout: Layout, kind: Any) -> None:
        self.layout = layout
        self.waits = np.array([layout.rules.skew_cols(c) for c in range(layout.cols)])
        self.horizon = layout.rows + layout.cols + layout.beat + int(self.waits.max()) + 1
        self.sums = np.zeros((self.horizon, layout.cols), kind)  # row: the cycle in which a sum entered
        self.again = np.zeros((self.horizon, layout.cols), bool)

    def feed(self, fold: Fold, continues: bool) -> None:
        """Take note of when the fold's sums enter, where they continue those of the fold before."""
        if continues:
            self.again[self._entries(fold)] = True

    def enter(self, t: int, top: NDArray[Any]) -> None:
        """Let sums enter the top row: those that continue, one beat after they entered last, others as 0."""
        row, again = self.sums[t % self.horizon], self.again[t % self.horizon]
        row[...] = 0
        np.copyto(row, self.sums[(t - self.layout.beat) % self.horizon], where=again)
        again[...] = False
        top[...] = row

    def leave(self, t: int, bottom: NDArray[Any]) -> None:
        """Take the sums that have been through the bottom row in this cycle."""
        row = self.sums[(t - self.layout.rows + 1) % self.horizon]
        row[...] = self.layout.rules.settle(row, bottom)

    def left(self, fold: Fold) -> NDArray[Any]:
        """Return the sums of a fold that has ended; shape (stream, cols)."""
        sums: NDArray[Any] = self.sums[self._entries(fold)]
        return sums

    def _entries(self, fold: Fold) -> tuple[NDArray[Any], NDArray[Any]]:
        cols = np.arange(fold.cols)
        origin = fold.start + self.layout.load
        cycles = origin + self.waits[cols] + np.arange(self.layout.stream)[:, None]
        return cycles % self.horizon, np.broadcast_to(cols, cycles.shape)


class Outlet:
    """The sums that sink out of the array ("os"), by the cycle in which they leave."""

    def __init__(self, layout: Layout, kind: Any) -> None:
        self.layout = layout
        self.horizon = layout.rows + layout.cols
        self.sums = np.zeros((self.horizon, layout.cols), kind)

    def leave(self, t: int, behind: NDArray[Any]) -> None:
        """Take what has left in this cycle."""
        self.sums[t % self.horizon] = behind

    def left(self, fold: Fold) -> NDArray[Any]:
        """Return the sums of a fold that has ended; shape (rows, cols)."""
        # A sum leaves one cycle before the fold's end for each row above it and each column on its right.
        row, col = np.arange(fold.rows)[:, None], np.arange(fold.cols)
        cycles = fold.start + fold.cycles - row - (self.layout.cols - col)
        sums: NDArray[Any] = self.sums[cycles % self.horizon, np.broadcast_to(col, cycles.shape)]
        return sums


def continues(folds: tuple[Fold, ...], index: int) -> bool:
    """Tell whether a fold's sums go on with those of the fold before: the same columns, the next rows."""
    return index > 0 and folds[index].col0 == folds[index - 1].col0


def _diagonal(rows: int, cols: int, d: int) -> slice:
    """Return the flat slice of the cells with row + col == d."""
    first, last = max(0, d - cols + 1), min(rows - 1, d)
    start, step = first * cols + d - first, max(cols - 1, 1)
    return slice(start, start + (last - first) * step + 1, step)
