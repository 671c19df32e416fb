"""The systolic player: one product on one array, cycle by cycle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pulsewarp import _checks, ledger
from pulsewarp._text import counted
from pulsewarp.systolic import DATAFLOWS, PHASES, SystolicTrace
from pulsewarp.systolic.cost import cost_of
from pulsewarp.widgets._player import FUTURES, HidingPlayer, first_frame
from pulsewarp.widgets._wire import Coding, pack

#: Up to this many rows and columns the picture shows the values of every cell, from the trace's registers.
VALUES_UP_TO = 8
#: Registers travel up to so many cell-cycles; beyond, operands and schedule do, as for a large array.
MOST_CELL_CYCLES = 2**17
#: Exits travel one by one up to this number; beyond, only the cycle in which each result is final.
MOST_EXITS = 2**14
#: Whole numbers are exact in a browser up to here.
EXACT = 2**53

LEDGER = (
    "macs",
    "reads_a",
    "reads_b",
    "reads_partial",
    "writes_out",
    "hops",
    "decisions",
    "idle_cell_cycles",
)


class SystolicPlayer(HidingPlayer):
    """Play a systolic trace: matrices, queue, cells, results, ledger, one sentence for each frame.

    Shown as recorded: every register (arrays up to 8 x 8), or the activity of every cell with a window of
    values looked up in the operands and summed in the trace's order. Nothing about time is decided in the
    browser.

    Synced traits: ``trace`` -> browser, ``options`` -> browser, ``cursor`` <-> the cycle at which the
    playhead rests, ``selected`` <-> ``[row, col]`` of the cell pointed at, or ``[]``.

    Parameters
    ----------
    trace : SystolicTrace
        A run simulated with ``trace=True``.
    start : int, optional
        Cycle shown at first, from 0. Left out: a cycle in the middle of the first fill, from which "play"
        goes back to cycle 0.
    rate : float, optional
        Cycles a second at first; left out: one a second, faster for long runs.
    title : str, optional
        Instead of the scene's own.
    task : str, optional
        What the reader is asked to do, one sentence; left out, the scene's own task.
    future : str
        ``"hidden"`` keeps totals, phases and counts of what comes later from the reader, for a prediction;
        ``"dimmed"`` shows them.
    folds : sequence of int, optional
        Show only these folds, by number from 0, one after the other; the scene says which of how many they
        are, and counts its cycles from the first of them. For a product too large to be sent whole.

    Raises
    ------
    ValueError
        When the trace keeps no schedule, is of a broken machine, holds whole numbers beyond 2**53, or is
        larger than 5 MB on the wire; when `start` lies outside what is shown, or `folds` are none of the run.

    Examples
    --------
    >>> from pulsewarp import systolic
    >>> player = SystolicPlayer(systolic.simulate([[1, 2], [3, 4]], [[5, 6], [7, 8]], rows=2, cols=2))
    >>> player
    SystolicPlayer(ws, 2x2 cells, 6 cycles)
    """

    _scene = "systolic.js"

    @_checks.names_keywords
    def __init__(
        self,
        trace: SystolicTrace,
        *,
        start: int | None = None,
        rate: float | None = None,
        title: str | None = None,
        task: str | None = None,
        future: str = "dimmed",
        folds: Sequence[int] | None = None,
    ) -> None:
        self._shown = _checked(trace)
        part = whole(trace) if folds is None else chosen(trace, folds)
        self._first_cycle = part.first
        cursor, poster = first_frame(start, telling_cycle(trace, part), part.cycles)
        super().__init__(
            pack_trace(trace, part),
            cycles=part.cycles,
            cursor=cursor,
            options={
                "poster": poster,
                "rate": None if rate is None else _checks.positive_number("rate", rate),
                "title": title,
                "future": _checks.choice("future", future, FUTURES),
            },
            task=_own_task(trace) if task is None else task,
            shows=trace,
        )

    def show(self, trace: SystolicTrace) -> None:
        """Replace the run in every view, for instance by one simulated from numbers the reader gave."""
        packed = pack_trace(_checked(trace))
        self._shown, self._first_cycle = trace, 0
        self.replace(packed, cycles=trace.cycles, cursor=telling_cycle(trace), shows=trace)

    def __repr__(self) -> str:
        run = self._shown
        return f"SystolicPlayer({run.dataflow}, {run.rows}x{run.cols} cells, {run.cycles} cycles)"


def _own_task(trace: SystolicTrace) -> str:
    if max(trace.rows, trace.cols) > VALUES_UP_TO:
        return "say in which cycle the last cell, bottom right, begins to work; then scrub there and compare."
    return "before you step, point at the cells that will multiply in the next cycle; then step and compare."


def _checked(trace: SystolicTrace) -> SystolicTrace:
    _checks.instance("trace", trace, SystolicTrace, "make one with systolic.simulate")
    if trace.fault is not None:
        raise ValueError(
            f"This trace is of a broken machine ({trace.fault.kind}), whose frames this scene would caption "
            f"as sound; show it beside the sound one with widgets.FaultPlayer."
        )
    return trace


class Part(NamedTuple):
    """Which folds of a run are shown, and the cycles they take, counted from that of the run."""

    folds: range
    first: int
    cycles: int

    def of(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return what a column by cycle holds for the cycles shown."""
        return values[self.first : self.first + self.cycles]


def whole(trace: SystolicTrace) -> Part:
    """Return the part that is the whole run."""
    return Part(range(len(trace.folds)), 0, trace.cycles)


def chosen(trace: SystolicTrace, folds: Sequence[int]) -> Part:
    """Return the part of a run that is these folds.

    Raises
    ------
    ValueError
        When they are none of the run or do not follow each other, or folds overlap, so that none is alone.
    """
    last = len(trace.folds) - 1
    numbers = [
        _checks.whole_number("A fold", fold, least=0, most=last, remedy="Folds are counted from 0.")
        for fold in _checks.several("folds", folds, "write (0, 1) for the first two")
    ]
    if not numbers or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        raise ValueError(
            f"folds is {list(folds)}, but must name one fold or several that follow each other, such as "
            f"(0, 1)."
        )
    if trace.overlap and len(numbers) <= last:
        raise ValueError(
            f"The folds of this trace overlap, so that {counted(len(numbers), 'fold')} of {last + 1} cannot "
            f"be shown alone; show all, or simulate with overlap=False."
        )
    first, end = trace.folds[numbers[0]], trace.folds[numbers[-1]]
    return Part(range(numbers[0], numbers[-1] + 1), first.start, end.start + end.cycles - first.start)


def telling_cycle(trace: SystolicTrace, part: Part | None = None) -> int:
    """Return the cycle, counted from the first one shown, at which the diagonal front is best seen.

    Where all values are shown that is the last cycle of the first "fill"; on an array seen as a whole, the
    cycle after its middle cell began, so that the window of values stands on the front.
    """
    part = part or whole(trace)
    fold = trace.folds[part.folds[0]]
    if trace.overlap and len(trace.folds) > 1:
        # The middle of the front on which cells take the second fold over.
        second = trace.folds[1]
        return min(int(trace.start[1, 0, 0]) + (second.rows + second.cols - 2) // 2, trace.cycles - 1)
    if max(trace.rows, trace.cols) > VALUES_UP_TO:
        middle = int(trace.start[fold.index, fold.rows // 2, fold.cols // 2]) + 1 - part.first
        return min(middle, part.cycles - 1)
    filling = np.flatnonzero(part.of(trace.phase)[: fold.cycles] == PHASES.index("fill"))
    return int(filling[-1]) if filling.size else 0


def pack_trace(trace: SystolicTrace, part: Part | None = None) -> str:
    """Return the text that crosses to the browser for a trace, or for a part of it.

    Raises
    ------
    ValueError
        When the trace keeps no schedule, is not exact in the browser, or would exceed 5 MB.
    """
    encoded = encode(trace, part)
    try:
        return pack("systolic", *encoded)
    except ValueError as error:
        if len(trace.folds) == 1 or "MB" not in str(error):
            raise
        raise ValueError(f"{error} A few of its folds are shown with folds=(0, 1).") from None


def pack_runs(
    kind: str,
    header: Mapping[str, Any],
    runs: Mapping[str, SystolicTrace],
    shared: Mapping[str, NDArray[Any]] | None = None,
) -> str:
    """Return the text for several traces on one page; `part` of kit/array.js takes one out by its name.

    Columns of no single run are `shared`.

    Raises
    ------
    ValueError
        As `pack_trace`, for all of them together.
    """
    headers: dict[str, Any] = {}
    columns: dict[str, NDArray[Any]] = dict(shared or {})
    codings: dict[str, Coding] = {}
    for name, trace in runs.items():
        headers[name], own, coding = encode(trace)
        columns |= {f"{name}.{column}": values for column, values in own.items()}
        codings |= {f"{name}.{column}": form for column, form in coding.items()}
    return pack(kind, {**header, "runs": headers}, columns, codings)


def encode(
    trace: SystolicTrace, part: Part | None = None
) -> tuple[dict[str, Any], dict[str, NDArray[Any]], dict[str, Coding]]:
    """Return what `readRun` of kit/array.js reads: header, columns, and how each column is coded."""
    part = part or whole(trace)
    schedule = trace.schedule
    _refuse_inexact(trace)
    bill = ledger.systolic(trace)
    keeps = _keeps_registers(trace)
    columns: dict[str, NDArray[Any]] = {
        "a": _plain(trace, trace.a),
        "b": _plain(trace, trace.b),
        "start": _since(part, schedule.start[part.folds]).reshape(-1, trace.cols),
        "length": schedule.length[part.folds].reshape(-1, trace.cols),
        "phase": part.of(schedule.phase),
        "busy": part.of(np.asarray(bill.busy)),
        "sunk": part.of(_sunk(trace)),
        "final": _final_cycles(trace) - part.first,
        **{name: part.of(np.asarray(getattr(bill, name))) for name in LEDGER},
    }
    codings: dict[str, Coding] = {"a": "planes", "b": "planes"}
    codings |= dict.fromkeys(("start", "length", "phase", "busy", "sunk", "final"), "delta")
    for name in LEDGER:
        # A long run's sums may outgrow the differences' int32.
        if columns[name].max(initial=0) < 2**31:
            codings[name] = "delta"
    if keeps:
        for name in ("held", "right", "down", "held_index", "right_index", "down_index", "active"):
            columns[name] = part.of(getattr(trace, name))
        if trace.overlap:
            columns |= {"shadow": trace.shadow, "shadow_index": trace.shadow_index}
    listed = trace.m * trace.n * -(-trace.k // trace.rows) <= MOST_EXITS
    if listed:
        columns["result"] = trace.result
        exits = trace.exits() - np.array([part.first, 0, 0, 0, 0])
        columns["exits"] = exits[(exits[:, 0] >= 0) & (exits[:, 0] < part.cycles)]
        codings["exits"] = "delta"
    elif len(part.folds) < len(trace.folds):
        columns |= _needed(trace, part, columns["a"], columns["b"])
    header = {
        "dataflow": trace.dataflow,
        "flow": DATAFLOWS[trace.dataflow].title,
        "roles": trace.roles,
        "axes": {"row": trace.flow.row_axis, "col": trace.flow.col_axis, "stream": trace.flow.stream_axis},
        "rows": trace.rows,
        "cols": trace.cols,
        "m": trace.m,
        "k": trace.k,
        "n": trace.n,
        "cycles": part.cycles,
        "phases": PHASES,
        "overlap": trace.overlap,
        "folds": [
            [f.start - part.first, f.cycles, f.row0, f.rows, f.col0, f.cols]
            for f in (trace.folds[i] for i in part.folds)
        ],
        "whole": {
            "fold": part.folds[0],
            "folds": len(trace.folds),
            "cycle": part.first,
            "cycles": trace.cycles,
        },
        "conventions": [list(row) for row in cost_of(trace).conventions()],
        "operands": [str(trace.a.dtype), str(trace.b.dtype)],
        "accumulator": str(trace.result.dtype),
        "python": _python(trace, part),
    }
    return header, columns, codings


def _since(part: Part, start: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return cycles counted from the first one shown; -1, for never, stays."""
    return np.where(start < 0, start, start - part.first)


def _needed(trace: SystolicTrace, part: Part, a: NDArray[Any], b: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return the operands with zeros where the folds shown never look: zeros cross at next to no cost."""
    folds = [trace.folds[i] for i in part.folds]
    used = {axis: np.zeros(size, np.bool_) for axis, size in trace.sizes.items()}
    for fold in folds:
        # Sums that come from an earlier fold over k are added up again from their first product on.
        begin = 0 if trace.flow.loads else fold.row0
        used[trace.flow.row_axis][begin : fold.row0 + fold.rows] = True
        used[trace.flow.col_axis][fold.col0 : fold.col0 + fold.cols] = True
    used[trace.flow.stream_axis][:] = True
    return {
        "a": np.where(used["m"][:, None] & used["k"], a, a.dtype.type(0)),
        "b": np.where(used["k"][:, None] & used["n"], b, b.dtype.type(0)),
    }


def _keeps_registers(trace: SystolicTrace) -> bool:
    small = max(trace.rows, trace.cols) <= VALUES_UP_TO
    return small and trace.has_registers and trace.cycles * trace.rows * trace.cols <= MOST_CELL_CYCLES


def _plain(trace: SystolicTrace, operand: NDArray[Any]) -> NDArray[Any]:
    """Return an operand in a type the wire knows; the narrow types of ml_dtypes widen without loss."""
    return operand.astype(trace.result.dtype) if operand.dtype.kind == "V" else operand


def _refuse_inexact(trace: SystolicTrace) -> None:
    """Refuse whole numbers that the browser could only show rounded."""
    if trace.result.dtype.kind != "i":
        return
    largest_a, largest_b = (max(abs(int(x.min())), abs(int(x.max()))) for x in (trace.a, trace.b))
    if largest_a * largest_b * trace.k > EXACT:
        raise ValueError(
            f"Sums of this product can reach {largest_a * largest_b * trace.k}, but a browser is exact only "
            f"up to 2**53; scale the operands down, or convert them to float64."
        )


def _sunk(trace: SystolicTrace) -> NDArray[np.int64]:
    """Return, for each cycle, by how many rows the held registers are away from their place.

    While a tile is loaded: the rows it still has to sink. While results are drained: the rows they have sunk.
    Both are read from the trace, from its load cycles and its first exits.
    """
    rows_away = np.zeros(trace.cycles, np.int64)
    if trace.overlap:  # what sinks is in the shadow registers
        return rows_away
    exits = trace.exits() if not trace.flow.loads else None
    for fold in trace.folds:
        span = slice(fold.start, fold.start + fold.cycles)
        if exits is None:
            loading = trace.phase[span] == PHASES.index("load")
            rows_away[span] = np.where(loading, np.count_nonzero(loading) - np.cumsum(loading), 0)
        else:
            within = exits[(exits[:, 0] >= fold.start) & (exits[:, 0] < fold.start + fold.cycles), 0]
            # In an array taller than the tile the bottom rows leave first, and they are empty.
            if not within.size:  # a broken machine may deliver nothing
                continue
            first = int(within.min()) - (trace.rows - fold.rows)
            rows_away[span] = np.clip(np.arange(fold.start, fold.start + fold.cycles) + 1 - first, 0, None)
    return rows_away


def _final_cycles(trace: SystolicTrace) -> NDArray[np.int64]:
    """Return the cycle in which each result leaves for good, shape (m, n)."""
    cycles = np.full((trace.m, trace.n), -1, np.int64)
    exits = trace.exits()
    final = exits[exits[:, 4] == 1]
    cycles[final[:, 2], final[:, 3]] = final[:, 0]
    return cycles


def _python(trace: SystolicTrace, part: Part) -> str:
    """Return one line of Python that makes the run again: with its numbers where they are few."""
    more = ", overlap=True" if trace.overlap else ""
    call = f"systolic.simulate(a, b, rows={trace.rows}, cols={trace.cols}, dataflow={trace.dataflow!r}{more})"
    only = "" if len(part.folds) == len(trace.folds) else f", folds={tuple(part.folds)}"
    show = f"widgets.SystolicPlayer({call}{only})"
    return one_line(operand_lines(trace.a, trace.b), show)


def one_line(lines: Sequence[str], show: str) -> str:
    """Return one line of Python: the imports, `lines` in order, then `show`; comments come last."""
    code = [line for line in lines if not line.startswith("#")]
    notes = "".join(f"  {line}" for line in lines if line.startswith("#"))
    imports = [*(["import numpy as np"] if code else []), "from pulsewarp import systolic, widgets"]
    return "; ".join([*imports, *code, show]) + notes


def operand_lines(a: NDArray[Any], b: NDArray[Any], most: int = 160) -> list[str]:
    """Return lines of Python that make `a` and `b` again; of more elements a comment with shape and type."""
    if a.size + b.size > most:
        return [f"# a: {a.shape} {a.dtype}, b: {b.shape} {b.dtype}, as you made them"]
    narrow = any(operand.dtype.kind == "V" for operand in (a, b))
    lines = ["import ml_dtypes"] if narrow else []  # NumPy then knows bfloat16 by its name
    for name, operand in (("a", a), ("b", b)):
        lines.append(f"{name} = np.array({operand.tolist()}, {operand.dtype.name!r})")
    return lines
