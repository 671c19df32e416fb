"""The player of three dataflows: the same product on the same array, side by side on one clock."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp import _checks
from pulsewarp.systolic import DATAFLOWS, PHASES, SystolicTrace
from pulsewarp.widgets._player import Player, first_frame
from pulsewarp.widgets.systolic import VALUES_UP_TO, one_line, operand_lines, pack_runs

#: Cell-cycles of each machine whose registers cross; more would not unpack at once.
MOST_CELL_CYCLES = 2**16

_TASK = (
    "before you play it, say which machine reads B least often and which one has a result first; then go to "
    "the end and compare."
)


class DataflowsPlayer(Player):
    """Play one product on three machines at once: weight-, output- and input-stationary, with their counters.

    Modelled nothing: the player shows three :class:`pulsewarp.systolic.SystolicTrace` and what
    :func:`pulsewarp.ledger.systolic` charges for each. A machine that has ended stays at its last cycle.

    Synced traits, beside those of every player: ``selected`` <-> ``[machine, row, col]`` of the cell pointed
    at, machines counted from 0 in the order ws, os, is; or ``[]``.

    Parameters
    ----------
    traces : iterable of SystolicTrace
        Three runs of one product on arrays of one size, up to 8 x 8 cells, one for each dataflow, in any
        order.
    start : int, optional
        Cycle shown at first, from 0. Left out: one in which the machines differ, from which "play" goes back
        to cycle 0.
    rate : float
        Cycles a second at first.
    title : str, optional
        Instead of the scene's own.
    task : str, optional
        What the reader is asked to do; left out, the scene's own task.

    Raises
    ------
    TypeError
        When `traces` does not hold traces.
    ValueError
        When they are not one product in three dataflows on arrays of one size, without overlap and fault;
        when that array or its run is too large to show every register; when `start` lies outside the longest
        run.

    Examples
    --------
    >>> from pulsewarp import systolic
    >>> a, b = [[1, 2], [3, 4], [5, 6]], [[5, 6], [7, 8]]
    >>> runs = [systolic.simulate(a, b, rows=2, cols=2, dataflow=flow) for flow in ("ws", "os", "is")]
    >>> DataflowsPlayer(runs)
    DataflowsPlayer(3x2 by 2x2 on 2x2 cells: ws 7, os 12, is 12 cycles)
    """

    _scene = "dataflows.js"

    @_checks.names_keywords
    def __init__(
        self,
        traces: Iterable[SystolicTrace],
        *,
        start: int | None = None,
        rate: float = 1,
        title: str | None = None,
        task: str | None = None,
    ) -> None:
        self._runs = _fitting(traces)
        cycles = max(run.cycles for run in self._runs)
        cursor, poster = first_frame(start, _telling_cycle(self._runs), cycles)
        super().__init__(
            _packed(self._runs),
            cycles=cycles,
            cursor=cursor,
            options={
                "poster": poster,
                "rate": _checks.positive_number("rate", rate),
                "title": title,
            },
            task=_TASK if task is None else task,
            shows={run.dataflow: run for run in self._runs},
        )

    def show(self, traces: Iterable[SystolicTrace]) -> None:
        """Replace the runs in every view, for instance by those of numbers that the reader gave."""
        runs = _fitting(traces)
        packed = _packed(runs)
        self._runs = runs
        shows = {run.dataflow: run for run in runs}
        cycles = max(run.cycles for run in runs)
        self.replace(packed, cycles=cycles, cursor=_telling_cycle(runs), shows=shows)

    def __repr__(self) -> str:
        one = self._runs[0]
        lengths = ", ".join(f"{run.dataflow} {run.cycles}" for run in self._runs)
        return (
            f"DataflowsPlayer({one.m}x{one.k} by {one.k}x{one.n} on {one.rows}x{one.cols} cells: "
            f"{lengths} cycles)"
        )


def _fitting(traces: Iterable[SystolicTrace]) -> tuple[SystolicTrace, ...]:
    """Return the three traces in the order ws, os, is; refuse those that cannot be compared or shown."""
    remedy = "simulate one product with dataflow 'ws', 'os' and 'is'"
    runs = [
        _checks.instance("a trace", run, SystolicTrace, remedy)
        for run in _checks.several("traces", traces, remedy)
    ]
    by_flow = {run.dataflow: run for run in runs}
    if len(runs) != len(DATAFLOWS) or len(by_flow) != len(DATAFLOWS):
        given = ", ".join(run.dataflow for run in runs) or "none"
        raise ValueError(f"The traces are {given}, but must be one each of ws, os and is; {remedy}.")
    ordered = tuple(by_flow[name] for name in DATAFLOWS)
    one = ordered[0]
    for run in ordered[1:]:
        if (run.rows, run.cols) != (one.rows, one.cols):
            raise ValueError(
                f"The {one.dataflow} trace is of {one.rows} x {one.cols} cells and the {run.dataflow} trace "
                f"of {run.rows} x {run.cols}, but only arrays of one size compare; simulate them alike."
            )
        if not (_same(run.a, one.a) and _same(run.b, one.b)):
            raise ValueError(
                f"The {one.dataflow} trace multiplies {one.m} x {one.k} by {one.k} x {one.n} and the "
                f"{run.dataflow} trace {run.m} x {run.k} by {run.k} x {run.n} or other values, but only one "
                f"product compares; simulate all with the same a and b."
            )
    for run in ordered:
        if run.fault is not None or run.overlap:
            kind = "has overlapping folds" if run.fault is None else f"has the fault {run.fault.kind!r}"
            raise ValueError(
                f"The {run.dataflow} trace {kind}, but three sound machines compare fold by fold; simulate "
                f"without overlap and fault."
            )
    if max(one.rows, one.cols) > VALUES_UP_TO:
        raise ValueError(
            f"The arrays have {one.rows} x {one.cols} cells, but three beside each other show at most "
            f"{VALUES_UP_TO} x {VALUES_UP_TO}; simulate on a smaller array, or show one with SystolicPlayer."
        )
    for run in ordered:
        cells = run.cycles * run.rows * run.cols
        if cells > MOST_CELL_CYCLES or not run.has_registers:
            raise ValueError(
                f"The {run.dataflow} trace has {cells} cell-cycles"
                f"{'' if run.has_registers else ' and keeps no registers'}, but three are shown with every "
                f"register of at most {MOST_CELL_CYCLES}; simulate a smaller product with trace=True."
            )
    return ordered


def _same(one: NDArray[Any], other: NDArray[Any]) -> bool:
    return one.dtype == other.dtype and np.array_equal(one, other)


def _telling_cycle(runs: tuple[SystolicTrace, ...]) -> int:
    """Return the cycle in which the least busy machine is busiest, so that all three are seen at work."""
    cycles = min(run.cycles for run in runs)
    busy = np.stack([run.schedule.busy[:cycles] for run in runs])
    return int(np.argmax(busy.min(axis=0) * len(runs) * runs[0].rows * runs[0].cols + busy.sum(axis=0)))


def _packed(runs: tuple[SystolicTrace, ...]) -> str:
    one = runs[0]
    call = f"systolic.simulate(a, b, rows={one.rows}, cols={one.cols}, dataflow=flow)"
    show = f'widgets.DataflowsPlayer([{call} for flow in ("ws", "os", "is")])'
    header = {
        "order": [run.dataflow for run in runs],
        "cycles": max(run.cycles for run in runs),
        "chapters": [{"cycle": cycle, "label": label} for cycle, label in _chapters(runs)],
        "python": one_line(operand_lines(one.a, one.b), show),
    }
    return pack_runs("dataflows", header, {run.dataflow: run for run in runs})


def _chapters(runs: tuple[SystolicTrace, ...]) -> list[tuple[int, str]]:
    """Return where machines change phase, folds or end, those that change alike under one label."""
    marks: dict[int, dict[str, list[str]]] = {}
    many = any(len(run.folds) > 2 for run in runs)
    for run in runs:
        changes = {fold.start: f"fold {fold.index + 1}" for fold in run.folds} if many else {}
        if not many:
            first = np.flatnonzero(np.diff(run.phase, prepend=-1))
            changes = {int(t): PHASES[run.phase[t]] for t in first}
        for cycle, word in changes.items():
            marks.setdefault(cycle, {}).setdefault(word, []).append(run.dataflow)
        if run.cycles < max(each.cycles for each in runs):
            marks.setdefault(run.cycles, {}).setdefault("ended", []).append(run.dataflow)
    return [
        (cycle, "; ".join(f"{', '.join(names)} {word}" for word, names in marks[cycle].items()))
        for cycle in sorted(marks)
    ]
