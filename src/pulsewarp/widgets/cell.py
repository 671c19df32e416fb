"""The cell player: one cell with its registers and roundings, its row, the whole array, on one clock."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp import _checks, numerics
from pulsewarp.systolic import PHASES, SystolicTrace
from pulsewarp.widgets._player import Player, first_frame
from pulsewarp.widgets._wire import pack
from pulsewarp.widgets.systolic import VALUES_UP_TO, encode, one_line, operand_lines

ZOOMS = ("cell", "row", "array")
"""How near the picture stands, from the nearest."""

MOST_MACS = 2**14
"""So many multiply-adds cross with what each of their roundings took away."""

_TASKS = {
    "sometimes": "find a cycle in which this cell rounds nothing away; then zoom to the row and follow its "
    "moving operand.",
    "always": "say which rounding takes more away in this cycle, the product's or the sum's; then zoom to "
    "the row and follow the moving operand.",
    "never": "say how many multiply-adds this cell will have made in the end, then step until it has no work "
    "left.",
}
"""What the reader is asked to do, by how often the cell shown rounds something away: each can be done."""


class CellPlayer(Player):
    """Play one cell of an array: registers, multiplier, adder, and what each rounding takes away.

    Shown as recorded: every register of every cycle, and for every multiply-add the product and the sum
    before and after rounding to the accumulator's type (`numerics.multiply_add`). The same clock drives three
    zooms: the cell, its row with the operand that hops along it, the array. Nothing about time is decided in
    the browser, and nothing is rounded there.

    Synced traits, beside those of every player: ``selected`` <-> ``[row, col]`` of the cell shown, or ``[]``
    for the one chosen here.

    Parameters
    ----------
    trace : SystolicTrace
        A run of a sound machine on up to 8 x 8 cells, simulated with ``trace=True``.
    cell : (int, int), optional
        Row and column of the cell shown at first. Left out: one in the middle whose sum is rounded, if there
        is one.
    zoom : {"cell", "row", "array"}
        How near the picture stands at first.
    start : int, optional
        Cycle shown at first, from 0. Left out: one in which the cell works, from which "play" goes back to
        cycle 0.
    rate : float
        Cycles a second at first.
    title : str, optional
        Instead of the scene's own.
    task : str, optional
        What the reader is asked to do; left out, the scene's own task.

    Raises
    ------
    ValueError
        When the trace keeps no registers, has a fault or overlapping folds, when its array or its run is too
        large, when its sums are kept as float64 (what rounds there, the browser could not show), or for a
        cell, a zoom or a cycle that is not there.

    Examples
    --------
    >>> from pulsewarp import systolic
    >>> CellPlayer(systolic.simulate([[1, 2], [3, 4]], [[5, 6], [7, 8]], rows=2, cols=2), cell=(1, 0))
    CellPlayer(ws, cell (1, 0) of 2x2, 6 cycles)
    """

    _scene = "cell.js"

    @_checks.names_keywords
    def __init__(
        self,
        trace: SystolicTrace,
        *,
        cell: tuple[int, int] | None = None,
        zoom: str = "cell",
        start: int | None = None,
        rate: float = 1,
        title: str | None = None,
        task: str | None = None,
    ) -> None:
        run = _fitting(trace)
        zoom = _checks.choice("zoom", zoom, ZOOMS)
        packed, cycle, cell, rounds = _telling(run, cell)
        cursor, poster = first_frame(start, cycle, run.cycles)
        self._shown, self._cell, self._given_task = run, cell, task
        super().__init__(
            packed,
            cycles=run.cycles,
            cursor=cursor,
            options={
                "poster": poster,
                "rate": _checks.positive_number("rate", rate),
                "title": title,
                "zoom": zoom,
            },
            task=_TASKS[rounds] if task is None else task,
            shows=run,
        )

    def show(self, trace: SystolicTrace) -> None:
        """Replace the run in every view, for instance by one simulated from numbers the reader gave."""
        run = _fitting(trace)
        packed, cycle, cell, rounds = _telling(run, None)
        self._shown, self._cell = run, cell
        with self.hold_sync():
            self.replace(packed, cycles=run.cycles, cursor=cycle, shows=run)
            if self._given_task is None:
                self.options = {**self.options, "task": _TASKS[rounds]}

    def __repr__(self) -> str:
        run, (row, col) = self._shown, self._cell
        return (
            f"CellPlayer({run.dataflow}, cell ({row}, {col}) of {run.rows}x{run.cols}, {run.cycles} cycles)"
        )


def _fitting(trace: SystolicTrace) -> SystolicTrace:
    """Return the trace; refuse one whose cells cannot be shown with their roundings."""
    run = _checks.instance("trace", trace, SystolicTrace, "make one with systolic.simulate")
    if max(run.rows, run.cols) > VALUES_UP_TO:
        raise ValueError(
            f"The array has {run.rows} x {run.cols} cells, but single cells are shown of at most "
            f"{VALUES_UP_TO} x {VALUES_UP_TO}; simulate on a smaller array, or show it with SystolicPlayer."
        )
    macs = run.m * run.k * run.n
    if macs > MOST_MACS or not run.has_registers:
        raise ValueError(
            f"The trace has {macs} multiply-adds{'' if run.has_registers else ' and keeps no registers'}, "
            f"but at most {MOST_MACS} are shown with their roundings; simulate a smaller product with "
            f"trace=True."
        )
    if run.fault is not None:
        raise ValueError(
            f"This machine has the fault {run.fault.kind!r}, but a cell is shown of a sound one; simulate "
            f"without fault, or show both machines with FaultPlayer."
        )
    if run.overlap:
        raise ValueError(
            "Folds of this run overlap, so that partial sums meet below the array, but a cell is shown with "
            "the sum that passes it from fold to fold; simulate with overlap=False."
        )
    if run.result.dtype == np.float64:
        raise ValueError(
            "Sums of this run are kept as float64, and a browser has no wider type to show what was rounded "
            "away; convert a and b to float32 or bfloat16."
        )
    return run


def round_each(trace: SystolicTrace) -> dict[str, NDArray[Any]]:
    """Return what each multiply-add did, by names of `numerics.MultiplyAdd`: arrays of shape (k, m, n)."""
    accumulator = trace.result.dtype
    a, b = trace.a.astype(accumulator), trace.b.astype(accumulator)
    total: NDArray[Any] = np.zeros((trace.m, trace.n), accumulator)
    steps = []
    for k in range(trace.k):
        steps.append(numerics.multiply_add(a[:, k, None], b[None, k], total))
        total = steps[-1].total
    names = ("product", "exact_product", "product_lost", "total", "exact_total", "total_lost")
    return {name: np.stack([getattr(step, name) for step in steps]) for name in names}


def _telling(trace: SystolicTrace, cell: tuple[int, int] | None) -> tuple[str, int, tuple[int, int], str]:
    """Return the packed run, a cycle worth a first look, the cell to look at, how often that one rounds."""
    steps = round_each(trace)
    macs = trace.macs()
    lost = (steps["product_lost"] != 0) | (steps["total_lost"] != 0)
    rounded = lost[macs[:, 5], macs[:, 3], macs[:, 4]]
    if cell is not None:
        row, col = _cell(trace, cell)
        mine = np.flatnonzero((macs[:, 1] == row) & (macs[:, 2] == col))
    else:
        mine = np.arange(len(macs))
    cycle = 0
    if mine.size:
        chosen = min(mine.tolist(), key=lambda i: _distance(trace, macs[i], bool(rounded[i])))
        cycle, row, col = (int(x) for x in macs[chosen, :3])
    own = rounded[(macs[:, 1] == row) & (macs[:, 2] == col)]
    rounds = "never" if not own.any() else "always" if own.all() else "sometimes"
    by_cycle = np.bincount(macs[rounded, 0], minlength=trace.cycles)
    header, columns, codings = encode(trace)
    header |= {"cell": [row, col], "python": _python(trace, (row, col))}
    columns |= {f"each_{name}": values for name, values in steps.items()}
    columns["rounded"] = np.cumsum(by_cycle)
    packed = pack("cell", header, columns, {**codings, "rounded": "delta"})
    return packed, cycle, (row, col), rounds


def _cell(trace: SystolicTrace, cell: tuple[int, int]) -> tuple[int, int]:
    given = _checks.several("cell", cell, "write (row, col)")
    if len(given) != 2:
        raise ValueError(f"cell is {given!r}, but must be a row and a column; write (row, col).")
    row = _checks.whole_number("row of the cell", given[0], least=0, most=trace.rows - 1)
    return row, _checks.whole_number("column of the cell", given[1], least=0, most=trace.cols - 1)


def _distance(trace: SystolicTrace, mac: NDArray[np.int32], rounded: bool) -> tuple[int, ...]:
    """Order multiply-adds by how much they tell: a rounding, neighbours on all sides, a sum under way."""
    t, row, col, *_, k = (int(x) for x in mac)
    inside = 0 < row < trace.rows - 1 and 0 < col < trace.cols - 1
    steady = trace.phase[t] == PHASES.index("steady")
    away = abs(2 * row - trace.rows + 1) + abs(2 * col - trace.cols + 1)
    return (not rounded, not inside, k == 0, not steady, away, t, row, col)


def _python(trace: SystolicTrace, cell: tuple[int, int]) -> str:
    """Return one line of Python that makes the run again and shows the same cell."""
    call = f"systolic.simulate(a, b, rows={trace.rows}, cols={trace.cols}, dataflow={trace.dataflow!r})"
    return one_line(operand_lines(trace.a, trace.b), f"widgets.CellPlayer({call}, cell={cell})")
