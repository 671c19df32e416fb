"""The rules of the array, one small function each: what enters when, how far it moves, which folds there are.

The simulator holds no other rule. They come to it as one value, `RULES`; a machine with a fault is the same
machine with one of them replaced (`faults`), and tests replace one at a time and require every check to see
it.

Sources: H. T. Kung, "Why systolic architectures?", Computer 15(1), 1982 (skewed streams through a grid of
cells, one hop a beat); A. Samajdar et al., "SCALE-Sim: Systolic CNN Accelerator Simulator", arXiv:1811.02883
(folds and the three dataflows).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pulsewarp.systolic.dataflow import Axis, Dataflow

_Scalar = TypeVar("_Scalar", bound=np.generic)


def skew(line: int) -> int:
    """Return how many cycles array row or column number `line` waits behind number 0."""
    return line


def travel(cycles: int) -> int:
    """Return how many cells a moving value covers in so many cycles."""
    return cycles


def loading_row(cycle: int, rows: int) -> int:
    """Return the row of the stationary tile that enters in one load cycle: the bottom row first."""
    return rows - 1 - cycle


def settle(earlier: NDArray[_Scalar], left: NDArray[_Scalar]) -> NDArray[_Scalar]:
    """Return what a result holds once a sum has left the array.

    The earlier partial sum re-entered at the top edge, so the sum that leaves contains it already.
    """
    return left


def load_cycles(dataflow: Dataflow, rows: int) -> int:
    """Return the cycles at the start of a fold in which the stationary tile is shifted in."""
    return rows if dataflow.loads else 0


def drain_cycles(dataflow: Dataflow, rows: int) -> int:
    """Return the cycles at the end of a fold in which results are shifted out of the held registers."""
    return 0 if dataflow.loads else rows


def beat(rows: int, stream: int) -> int:
    """Return the cycles from one fold's stream to the next one's where loading or draining overlaps with it.

    A tile takes `rows` cycles to move in, and a partial sum as many to pass the array before it enters again.
    """
    return max(rows, stream)


def reach(distance: int) -> int:
    """Return when cells so many hops from the corner take over, in cycles from the stream's first.

    The control wave goes with the new stream (for "os", one cycle behind the last products of the old one).
    """
    return distance


def plan_tiles(row_extent: int, col_extent: int, rows: int, cols: int) -> Sequence[tuple[int, int]]:
    """Return the first row and column of each tile, in order: column tiles outside, row tiles inside."""
    return [(row0, col0) for col0 in range(0, col_extent, cols) for row0 in range(0, row_extent, rows)]


@dataclass(frozen=True)
class Fold:
    """One filling of the array: the slice of the stationary matrix (for "os", of the result) that it holds.

    Parameters
    ----------
    index : int
        Position in the order of execution.
    start : int
        First cycle.
    cycles : int
        Length in cycles; the next fold starts at start + cycles, or earlier where folds overlap.
    row0, rows : int
        First index along the array's rows, and how many rows are in use.
    col0, cols : int
        First index along the array's columns, and how many columns are in use.
    """

    index: int
    start: int
    cycles: int
    row0: int
    rows: int
    col0: int
    cols: int


@dataclass(frozen=True)
class Rules:
    """All rules of one machine; each field is a function of this module, or what a fault puts in its place.

    `skew_rows` and `skew_cols` are the waits of the streams that enter on the left and at the top; `multiply`
    forms the products of all cells, writing them to `out`. `skew_load`, `beat` and `reach` are of the machine
    with shadow registers.
    """

    skew_rows: Callable[[int], int] = skew
    skew_cols: Callable[[int], int] = skew
    travel: Callable[[int], int] = travel
    loading_row: Callable[[int, int], int] = loading_row
    multiply: Callable[..., Any] = np.multiply
    settle: Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]] = settle
    load_cycles: Callable[[Dataflow, int], int] = load_cycles
    drain_cycles: Callable[[Dataflow, int], int] = drain_cycles
    plan_tiles: Callable[[int, int, int, int], Sequence[tuple[int, int]]] = plan_tiles
    skew_load: Callable[[int], int] = skew
    beat: Callable[[int, int], int] = beat
    reach: Callable[[int], int] = reach

    def fold_cycles(self, dataflow: Dataflow, rows: int, cols: int, stream: int) -> int:
        """Return the cycles of one fold: load, `stream` steps through a skewed array, drain."""
        load, drain = self.load_cycles(dataflow, rows), self.drain_cycles(dataflow, rows)
        return load + (rows + cols + stream - 2) + drain

    def plan_folds(
        self, dataflow: Dataflow, sizes: dict[Axis, int], rows: int, cols: int, *, overlap: bool = False
    ) -> tuple[Fold, ...]:
        """Return the folds in order, each with the whole array's schedule."""
        stream = sizes[dataflow.stream_axis]
        cycles = self.fold_cycles(dataflow, rows, cols, stream)
        apart = self.beat(rows, stream) if overlap else cycles
        row_extent, col_extent = sizes[dataflow.row_axis], sizes[dataflow.col_axis]
        return tuple(
            Fold(i, i * apart, cycles, row0, min(rows, row_extent - row0), col0, min(cols, col_extent - col0))
            for i, (row0, col0) in enumerate(self.plan_tiles(row_extent, col_extent, rows, cols))
        )


RULES = Rules()
"""The rules of the sound machine."""
