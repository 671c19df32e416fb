"""The tiling player: a product of true size on an array of true size, fold by fold."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp import _checks
from pulsewarp._text import counted
from pulsewarp.systolic import PHASES, GemmCost, gemm
from pulsewarp.widgets._player import Player, first_frame
from pulsewarp.widgets._wire import Coding, pack

#: The picture has one pixel a cell, up to this many rows and columns.
MOST_SIDE = 512
#: Each fold crosses as a line of numbers, up to this many.
MOST_FOLDS = 4096
#: Up to this many cycles the busy curve has one value a cycle; beyond, each value is the mean of several.
MOST_POINTS = 2**14
#: The busy cells of one fold cross cycle by cycle, up to this many.
MOST_STREAM = 2**20
#: Cycles cross as differences and as the steps of a slider, whole numbers up to here.
MOST_CYCLES = 2**31 - 1

_TASK = "say which share of the array's cells can do useful work in the last fold, then go there and compare."


class TilingPlayer(Player):
    """Play the cost of a product: the stationary matrix in tiles, the array fold by fold, and padding.

    Shown: when each cell works, in closed form from :class:`pulsewarp.systolic.GemmCost`, and which cells a
    tile leaves without an element. Not shown: values (there are none), memory. Nothing about time is decided
    in the browser: it looks up when folds begin and how many cells work so many cycles later, and adds.

    Synced traits, beside those of every player: ``selected`` <-> ``[row, col]`` of the cell pointed at, or
    ``[]``.

    Parameters
    ----------
    cost : GemmCost
        What `systolic.gemm` or `systolic.conv` returned, under convention "register"; with ``overlap=True``
        the folds overlap.
    start : int, optional
        Cycle shown at first, from 0. Left out: a cycle in which the front crosses the array, from which
        "play" goes back to cycle 0.
    rate : float, optional
        Cycles a second at first; left out: so many that the run takes under a minute.
    title : str, optional
        Instead of the scene's own.
    task : str, optional
        What the reader is asked to do; left out, the scene's own task.

    Raises
    ------
    TypeError
        When `cost` is none.
    ValueError
        For another convention, an array above 512 x 512 cells, more than 4,096 folds, a stream above 2**20
        steps, 2**31 cycles and more; when `start` lies outside the run.

    Examples
    --------
    >>> from pulsewarp import systolic
    >>> TilingPlayer(systolic.gemm(m=64, k=129, n=129, rows=128, cols=128))
    TilingPlayer(ws, 128x128 cells, 64x129 by 129x129, 4 folds, 1784 cycles)
    """

    _scene = "tiling.js"

    @_checks.names_keywords
    def __init__(
        self,
        cost: GemmCost,
        *,
        start: int | None = None,
        rate: float | None = None,
        title: str | None = None,
        task: str | None = None,
    ) -> None:
        self._shown = _checked(cost)
        cursor, poster = first_frame(start, telling_cycle(cost), cost.cycles)
        super().__init__(
            pack_cost(cost),
            cycles=cost.cycles,
            cursor=cursor,
            options={
                "poster": poster,
                "rate": None if rate is None else _checks.positive_number("rate", rate),
                "title": title,
            },
            task=(_TASK if cost.folds > 1 else None) if task is None else task,
            shows=cost,
        )

    def show(self, cost: GemmCost) -> None:
        """Replace the run in every view, for instance by one of sizes that the reader gave."""
        packed = pack_cost(_checked(cost))
        self._shown = cost
        self.replace(packed, cycles=cost.cycles, cursor=telling_cycle(cost), shows=cost)

    def __repr__(self) -> str:
        cost = self._shown
        folds = counted(cost.folds, "fold") + (" that overlap" if cost.overlap else "")
        return (
            f"TilingPlayer({cost.dataflow}, {cost.rows}x{cost.cols} cells, {cost.m}x{cost.k} by "
            f"{cost.k}x{cost.n}, {folds}, {cost.cycles} cycles)"
        )


def _checked(cost: GemmCost) -> GemmCost:
    _checks.instance("cost", cost, GemmCost, "make one with systolic.gemm")
    if cost.convention != "register":
        raise ValueError(
            f"The cost counts by convention {cost.convention!r}, which knows no schedule to play; "
            f"count it with convention='register'."
        )
    limits = (
        (max(cost.rows, cost.cols), MOST_SIDE, "rows or columns of cells", "show a smaller array"),
        (cost.folds, MOST_FOLDS, "folds", "use a larger array, or smaller sizes"),
        (cost.stream, MOST_STREAM, "steps in its stream", "show a part of the product"),
        (cost.cycles, MOST_CYCLES, "cycles", "show a part of the product"),
    )
    for value, limit, what, remedy in limits:
        if value > limit:
            raise ValueError(f"This run has {value} {what}, but at most {limit} can be shown; {remedy}.")
    return cost


def telling_cycle(cost: GemmCost) -> int:
    """Return a cycle in which the front crosses the array: of the first fold, or between two that overlap."""
    fold = cost.plan()[1 if cost.overlap and cost.folds > 1 else 0]
    return min(fold.start + cost.load + (cost.rows + cost.cols) // 2, cost.cycles - 1)


def pack_cost(cost: GemmCost) -> str:
    """Return the text that crosses to the browser for a cost."""
    folds, kinds = _folds(cost)
    alone = [_alone(cost, rows, cols) for rows, cols in kinds]
    span = cost.rows + cost.cols + cost.stream - 2  # cycles from a fold's first product to its last, at most
    cycles = np.arange(span)
    bin_cycles = 1  # a power of two: a round number of cycles for a value of the curve
    while cost.cycles > bin_cycles * MOST_POINTS:
        bin_cycles *= 2
    columns: dict[str, NDArray[Any]] = {
        "folds": folds,
        "profile": np.stack([one.busy(one.load + cycles) for one in alone], axis=1),
        "curve": _curve(cost, bin_cycles),
    }
    codings: dict[str, Coding] = {"folds": "delta", "profile": "delta"}
    if bin_cycles == 1:
        codings["curve"] = "delta"
    full = cost.row_tiles * cost.rows * cost.col_tiles * cost.cols
    header = {
        "dataflow": cost.dataflow,
        "flow": cost.flow.title,
        "roles": cost.flow.roles,
        "axes": {"row": cost.flow.row_axis, "col": cost.flow.col_axis, "stream": cost.flow.stream_axis},
        "rows": cost.rows,
        "cols": cost.cols,
        "m": cost.m,
        "k": cost.k,
        "n": cost.n,
        "cycles": cost.cycles,
        "overlap": cost.overlap,
        "load": cost.load,
        "interval": cost.interval,
        "stream": cost.stream,
        "cycles_per_fold": cost.cycles_per_fold,
        "tiles": [cost.row_tiles, cost.col_tiles],
        "useful_cells": cost.sizes[cost.flow.row_axis] * cost.sizes[cost.flow.col_axis],
        "padded_cells": full,
        "kinds": [
            {"rows": rows, "cols": cols, "phases": [getattr(one, phase) for phase in PHASES]}
            for (rows, cols), one in zip(kinds, alone, strict=True)
        ],
        "phases": _phases(cost),
        "bin": bin_cycles,
        "conventions": [list(row) for row in cost.conventions()],
        "python": _python(cost),
    }
    return pack("tiling", header, columns, codings)


def _folds(cost: GemmCost) -> tuple[NDArray[np.int64], list[tuple[int, int]]]:
    """Return a line for each fold and the kinds of tile there are, (rows, cols) in use, a full one first.

    A line is: the fold's own first cycle, the cycle of its first product, first row and column of its tile,
    its kind.
    """
    plan = cost.plan()
    full = (cost.rows, cost.cols)
    kinds = [full, *sorted({(fold.rows, fold.cols) for fold in plan} - {full}, reverse=True)]
    lines = [
        (fold.start, fold.start + cost.load, fold.row0, fold.col0, kinds.index((fold.rows, fold.cols)))
        for fold in plan
    ]
    return np.array(lines, np.int64), kinds


def _alone(cost: GemmCost, rows: int, cols: int) -> GemmCost:
    """Return the cost of one fold whose tile has so many rows and columns."""
    sizes = cost.sizes | {cost.flow.row_axis: rows, cost.flow.col_axis: cols}
    m, k, n = sizes["m"], sizes["k"], sizes["n"]
    return gemm(m=m, k=k, n=n, rows=cost.rows, cols=cost.cols, dataflow=cost.dataflow)


def _curve(cost: GemmCost, bin_cycles: int) -> NDArray[Any]:
    """Return how many cells work in each cycle, or on average in each span of so many cycles."""
    if bin_cycles == 1:
        return cost.busy(np.arange(cost.cycles))
    edges = np.minimum(np.arange(0, cost.cycles + bin_cycles, bin_cycles), cost.cycles)
    return (np.diff(cost.macs(edges - 1)) / np.diff(edges)).astype(np.float32)


def _phases(cost: GemmCost) -> list[int]:
    """Return the first cycle of "fill", "steady" and "drain" of the whole run, where folds overlap.

    "fill": more and more cells work. "steady": the array has filled once, and each fold follows the one
    before. "drain": the last stream has begun to end.
    """
    first, ending = cost.plan()[0], cost.load + (cost.folds - 1) * cost.interval + cost.stream
    full = cost.load + first.rows + first.cols - 2
    return [cost.load, min(full, ending), ending]


def _python(cost: GemmCost) -> str:
    """Return one line of Python that makes the run again."""
    sizes = f"m={cost.m}, k={cost.k}, n={cost.n}, rows={cost.rows}, cols={cost.cols}"
    more = ", overlap=True" if cost.overlap else ""
    call = f"systolic.gemm({sizes}, dataflow={cost.dataflow!r}{more})"
    return f"from pulsewarp import systolic, widgets; widgets.TilingPlayer({call})"
