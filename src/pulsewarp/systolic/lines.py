"""The registers in memory: where values are on their way to, through and out of the array.

How a hop can be a view. Values on their way lie in memory in the order in which they go, and the registers
are a window on that line. At each clock edge the window slides by one element (for values that move down: by
one row), and with it every value is one cell further, though none was copied. So a sum that moves down stays
where it is in memory while the cells slide past and add to it; what lies before the window has yet to enter,
what lies behind it has left.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp.systolic.dataflow import Dataflow, Letter, turned
from pulsewarp.systolic.rules import Fold, Rules

VIEWS_KEPT = 4096
"""Folds of up to so many cycles keep the views of their registers, which the next fold uses again."""


class Layout:
    """Where one fold's values are at each of its cycles: everything the rules say, worked out once a run."""

    def __init__(
        self, rules: Rules, flow: Dataflow, rows: int, cols: int, stream: int, *, overlap: bool
    ) -> None:
        self.rules, self.overlap = rules, overlap
        self.flow, self.rows, self.cols, self.stream = flow, rows, cols, stream
        self.load = rules.load_cycles(flow, rows)
        self.drain = rules.drain_cycles(flow, rows)
        self.cycles = rules.fold_cycles(flow, rows, cols, stream)
        self.beat = rules.beat(rows, stream) if overlap else self.cycles

    def total(self, folds: int) -> int:
        """Return the cycles of a run of so many folds, the last of which runs to its end."""
        return (folds - 1) * self.beat + self.cycles

    def moving_offsets(self) -> list[int]:
        """Return by cycle where the cells are on the lines of moving values: one further towards the feed."""
        return [self.rules.travel(self.cycles - 1 - t) for t in range(self.cycles)]

    def held_offsets(self) -> list[int]:
        """Return the same for the held registers, which move while they are loaded or drained only."""
        shifts = self.load or self.drain
        first = 0 if self.load else self.cycles - self.drain
        return [self.rows - min(self.rules.travel(max(t + 1 - first, 0)), shifts) for t in range(self.cycles)]

    def enters_left(self, row: int) -> slice:
        """Return the cycles in which the stream of one array row enters on the left."""
        return self._entries(self.rules.skew_rows(row))

    def enters_top(self, col: int) -> slice:
        """Return the cycles in which the stream of one array column enters at the top."""
        return self._entries(self.rules.skew_cols(col))

    def _entries(self, wait: int) -> slice:
        first = self.load + wait
        # What a fault makes so late that the fold has ended never enters.
        return slice(first, min(first + self.stream, self.cycles))


class Lines:
    """One kind of content (values, indices or presence) of all registers and of what is before and behind.

    The three arrays are flat. The line of right-moving values is shared by all array rows: the last cell of a
    row is followed by the first of the next, whose content is replaced at every edge by what enters there.
    """

    def __init__(self, layout: Layout, kind: Any, fill: int) -> None:
        self.layout, self.fill = layout, fill
        self.cols, self.size = layout.cols, layout.rows * layout.cols
        self.moving, self.shifted = layout.moving_offsets(), layout.held_offsets()
        reach = max(self.moving)
        self.held = np.full(2 * self.size, fill, kind)
        self.right = np.full(self.size + reach, fill, kind)
        self.down = np.full(self.size + reach * layout.cols, fill, kind)
        self.from_left = np.full((layout.cycles, layout.rows), fill, kind)
        self.from_top = np.full((layout.cycles, layout.cols), fill, kind)
        self.views = [self._view(t) for t in range(layout.cycles)] if layout.cycles <= VIEWS_KEPT else None

    def feed(self, held: NDArray[Any], right: NDArray[Any], down: NDArray[Any]) -> None:
        """Empty every register and line up a fold: its stationary tile, and both streams with their skew."""
        layout, cols = self.layout, self.cols
        for line in (self.held, self.right, self.down, self.from_left, self.from_top):
            line.fill(self.fill)
        for r in range(right.shape[0]):
            span = layout.enters_left(r)
            self.from_left[span, r] = right[r, : span.stop - span.start]
        for c in range(down.shape[1]):
            span = layout.enters_top(c)
            self.from_top[span, c] = down[: span.stop - span.start, c]
        self.down.reshape(-1, cols)[self.moving] = self.from_top
        waiting = self.held.reshape(-1, cols)
        for cycle in range(layout.load):
            row = layout.rules.loading_row(cycle, layout.rows)
            if row < held.shape[0]:
                waiting[layout.rows - 1 - cycle, : held.shape[1]] = held[row]

    def hop(self, t: int) -> tuple[NDArray[Any], ...]:
        """Step over clock edge `t` of the fold; return the held, right-moving and down-moving registers."""
        held, right, down, left_edge, entering = self.views[t] if self.views else self._view(t)
        np.copyto(left_edge, entering)
        return held, right, down

    def _view(self, t: int) -> tuple[NDArray[Any], ...]:
        """Return where the registers are in cycle `t`, a left edge, and what enters there."""
        size, cols = self.size, self.cols
        at, held_at = self.moving[t], self.shifted[t] * cols
        right = self.right[at : at + size]
        held, down = self.held[held_at : held_at + size], self.down[at * cols : at * cols + size]
        return held, right, down, right[::cols], self.from_left[t]

    def just_behind(self, t: int) -> NDArray[Any]:
        """Return what clock edge `t` has pushed out of the held registers at the bottom."""
        end = self.shifted[t] * self.cols + self.size
        return self.held[end : end + self.cols]

    def leaving(self, fold: Fold) -> NDArray[Any]:
        """Return the sums that have left the array in a fold: (stream, cols), for "os" (rows, cols)."""
        layout, cols = self.layout, self.cols
        if not layout.flow.loads:
            return self.held.reshape(-1, cols)[layout.rows : layout.rows + fold.rows, : fold.cols]
        left = self.down.reshape(-1, cols)[self.moving]
        return np.stack([left[layout.enters_top(c), c] for c in range(fold.cols)], axis=1)


def tiles_of(flow: Dataflow, fold: Fold, content: dict[Letter, NDArray[Any]]) -> tuple[NDArray[Any], ...]:
    """Return what the held, right-moving and down-moving registers carry in a fold: views of the operands."""
    on_rows = slice(fold.row0, fold.row0 + fold.rows)
    on_cols = slice(fold.col0, fold.col0 + fold.cols)
    return (
        turned(flow.held, content[flow.held], flow.row_axis, flow.col_axis)[on_rows, on_cols],
        turned(flow.right, content[flow.right], flow.row_axis, flow.stream_axis)[on_rows],
        turned(flow.down, content[flow.down], flow.stream_axis, flow.col_axis)[:, on_cols],
    )
