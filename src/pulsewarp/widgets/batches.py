"""The player of batches: what loading, fill and drain cost an array, for few rows and for many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp import _checks, ledger
from pulsewarp._text import counted
from pulsewarp.systolic import PHASES, SystolicTrace
from pulsewarp.widgets._player import Player, first_frame
from pulsewarp.widgets._wire import Coding, pack
from pulsewarp.widgets.systolic import one_line, operand_lines

MOST_LANES = 3  # what fits one screen
MOST_BATCHES = 64  # with more, bands of the curve are thinner than a pixel
MOST_CELLS = 2**22  # cells of all folds of a lane; a start and a length each cross
MOST_COUNTS = 2**20  # cycles x batches of a lane

_TASK_ONE = (
    "find the first and the last cycle in which two batches are in the array at once, and say what it would "
    "cost to let the array drain before the next batch enters."
)
_TASK_SEVERAL = (
    "before you play it, guess how much of its time each lane uses its cells; then go to the end and compare."
)


@dataclass(frozen=True)
class Lane:
    """Runs on one array, one after the other, and how their rows of A are cut into batches."""

    runs: tuple[SystolicTrace, ...]
    batches: tuple[int, ...]

    @property
    def cycles(self) -> int:
        """Cycles of all its runs."""
        return sum(run.cycles for run in self.runs)

    @property
    def name(self) -> str:
        """The lane in a few words."""
        sizes = set(self.batches)
        rows = counted(self.batches[0], "row") if len(sizes) == 1 else f"{sum(self.batches):,} rows in all"
        if len(self.batches) == 1:
            words = f"one batch of {rows}"
        elif len(self.runs) == 1:
            words = f"{len(self.batches)} batches of {rows}, back to back"
        else:
            words = f"{len(self.batches)} batches of {rows}, in {len(self.runs)} runs"
        return words + (", loading overlapped" if _overlaps(self) else "")


class BatchesPlayer(Player):
    """Play batches through a weight-stationary array: skew, fill, steady, drain, and how busy they keep it.

    Shown: the rows of A on their way in, as the skewed stream they are, the cells at work, each in the
    colour, texture and number of the batch whose row it works on, and the cells at work by cycle, batch upon
    batch. Modelled nothing: all of it is the traces' own schedule. Not shown: values of operands and sums;
    :class:`SystolicPlayer` shows those.

    Synced traits, beside those of every player: ``selected`` <-> ``[lane, row, col]`` of the cell pointed
    at, or ``[]``.

    Parameters
    ----------
    runs : SystolicTrace, or iterable of lanes
        One weight-stationary run, or up to 3 lanes that are played on one clock below each other. A lane is
        a run, or a sequence of runs that follow each other, each when the one before has ended.
    batches : iterable of int, optional
        How many rows of A belong to each batch, in order, at most 64 of them; for several lanes one such
        sequence for each. Left out: each run is one batch.
    start : int, optional
        Cycle shown at first, from 0. Left out: one in which a second batch follows the first, or in the
        middle of the fill, from which "play" goes back to cycle 0.
    rate : float, optional
        Cycles a second at first; left out: 2, faster for long runs.
    title : str, optional
        Instead of the scene's own.
    task : str, optional
        What the reader is asked to do; left out, the scene's own task.

    Raises
    ------
    TypeError
        When `runs` holds anything but traces.
    ValueError
        For a run that is not weight-stationary, has a fault or keeps no schedule; batches that do not add up
        to the rows of A; more lanes, batches or cells than can be shown; a `start` outside the longest lane.

    Examples
    --------
    >>> from pulsewarp import systolic
    >>> a, b = [[1, 2], [3, 4], [5, 6], [7, 8]], [[5, 6], [7, 8]]
    >>> BatchesPlayer(systolic.simulate(a, b, rows=2, cols=2), batches=(2, 2))
    BatchesPlayer(2 batches of 2 rows, back to back: 8 cycles)
    """

    _scene = "batches.js"

    @_checks.names_keywords
    def __init__(
        self,
        runs: SystolicTrace | Iterable[SystolicTrace | Iterable[SystolicTrace]],
        *,
        batches: Iterable[int] | Iterable[Iterable[int]] | None = None,
        start: int | None = None,
        rate: float | None = None,
        title: str | None = None,
        task: str | None = None,
    ) -> None:
        self._lanes = _lanes(runs, batches)
        cycles = max(lane.cycles for lane in self._lanes)
        cursor, poster = first_frame(start, _telling_cycle(self._lanes), cycles)
        own_task = _TASK_ONE if len(self._lanes) == 1 else _TASK_SEVERAL
        super().__init__(
            _packed(self._lanes, single=isinstance(runs, SystolicTrace)),
            cycles=cycles,
            cursor=cursor,
            options={
                "poster": poster,
                "rate": None if rate is None else _checks.positive_number("rate", rate),
                "title": title,
            },
            task=own_task if task is None else task,
            shows=_verifiable(self._lanes),
        )

    def __repr__(self) -> str:
        lanes = "; ".join(f"{lane.name}: {lane.cycles} cycles" for lane in self._lanes)
        return f"BatchesPlayer({lanes})"


def _verifiable(lanes: tuple[Lane, ...]) -> dict[str, SystolicTrace]:
    """Return the runs whose cycles are the scene's own, by lane; a later run of a lane has others."""
    named = {f"lane {number + 1}": lane for number, lane in enumerate(lanes)}
    alone = {name: lane.runs[0] for name, lane in named.items() if len(lane.runs) == 1}
    return {"": alone["lane 1"]} if len(lanes) == 1 and alone else alone


def _lanes(runs: Any, batches: Any) -> tuple[Lane, ...]:
    """Return the lanes with their batches; refuse what cannot be shown."""
    remedy = "make one with systolic.simulate"
    single = isinstance(runs, SystolicTrace)
    given = (runs,) if single else _checks.several("runs", runs, "pass a trace, or a list of lanes")
    _checks.whole_number(
        "The number of lanes", len(given), most=MOST_LANES, remedy="Show the others in a player of their own."
    )
    wanted: Sequence[Any] = [None] * len(given)
    if batches is not None:
        rows = "write how many rows each batch has, such as (4, 4, 4)"
        wanted = (batches,) if single else _checks.several("batches", batches, rows)
        if len(wanted) != len(given):
            raise ValueError(
                f"batches is for {counted(len(wanted), 'lane')}, but there are {len(given)}; write one "
                f"sequence of sizes for each lane."
            )
    lanes = []
    for lane, sizes in zip(given, wanted, strict=True):
        several = (lane,) if isinstance(lane, SystolicTrace) else _checks.several("a lane", lane, remedy)
        traces = tuple(_checks.instance("a run", run, SystolicTrace, remedy) for run in several)
        lanes.append(Lane(traces, _batches(traces, sizes)))
        _fits(lanes[-1])
    return tuple(lanes)


def _batches(runs: tuple[SystolicTrace, ...], sizes: Any) -> tuple[int, ...]:
    """Return the sizes of a lane's batches, which must add up to its rows of A."""
    if not runs:
        raise ValueError("A lane holds 0 runs, but must hold at least 1; leave it out.")
    if sizes is None:
        return tuple(run.m for run in runs)
    rows = "write one sequence of sizes for each lane, such as (4, 4, 4)"
    whole = tuple(_checks.whole_number("a batch", size) for size in _checks.several("batches", sizes, rows))
    total = sum(run.m for run in runs)
    if sum(whole) != total:
        raise ValueError(
            f"The batches have {sum(whole)} rows in all, but A has {total}; make them add up to it."
        )
    return whole


def _fits(lane: Lane) -> None:
    first = lane.runs[0]
    for run in lane.runs:
        if run.dataflow != "ws":
            raise ValueError(
                f"A run is {run.dataflow!r}, but rows of A stream through the array only where B stays; "
                f"simulate with dataflow='ws'."
            )
        if run.fault is not None:
            raise ValueError(
                f"A run has the fault {run.fault.kind!r}, but batches are shown on a sound machine; simulate "
                f"without it, or show it with FaultPlayer."
            )
        if (run.rows, run.cols) != (first.rows, first.cols):
            raise ValueError(
                f"A lane has runs on {first.rows} x {first.cols} and {run.rows} x {run.cols} cells, but is "
                f"one array; put them into lanes of their own."
            )
    cells = sum(run.schedule.start.size for run in lane.runs)
    if cells > MOST_CELLS:
        raise ValueError(
            f"A lane has {cells} cells in all its folds, but at most {MOST_CELLS} can be shown; simulate a "
            f"product with fewer folds."
        )
    fewer = "Make batches of more rows."
    _checks.whole_number("The number of batches", len(lane.batches), most=MOST_BATCHES, remedy=fewer)
    counts = lane.cycles * len(lane.batches)
    if counts > MOST_COUNTS:
        raise ValueError(
            f"A lane has {lane.cycles} cycles of {len(lane.batches)} batches, {counts} counts, but at most "
            f"{MOST_COUNTS} can be shown; simulate a shorter run or make fewer batches."
        )


def _overlaps(lane: Lane) -> bool:
    return any(run.overlap for run in lane.runs)


def _telling_cycle(lanes: tuple[Lane, ...]) -> int:
    """Return the cycle in which the middle cell takes up a second batch, else the one after it began."""
    lane = max(lanes, key=lambda lane: (len(lane.batches), lane.cycles))
    run = lane.runs[0]
    fold = run.folds[0]
    begins = int(run.start[0, fold.rows // 2, fold.cols // 2])
    follows = lane.batches[0] if lane.batches[0] < run.m else 1
    return min(begins + follows, lane.cycles - 1)


def busy_by_batch(lane: Lane) -> NDArray[np.int32]:
    """Return how many cells work on each batch in each cycle, from when each cell works; shape (T, B)."""
    bounds = np.cumsum((0, *lane.batches))
    busy = np.zeros((lane.cycles, len(lane.batches)), np.int32)
    origin = row0 = 0
    for run in lane.runs:
        start, length = (part.reshape(len(run.folds), -1) for part in (run.start, run.length))
        for begins, works in zip(start, length, strict=True):
            used = begins >= 0
            first, lasts = begins[used] + origin, works[used]
            for batch, (low, high) in enumerate(zip(bounds[:-1] - row0, bounds[1:] - row0, strict=True)):
                opens, closes = np.clip(low, 0, lasts), np.clip(high, 0, lasts)
                steps = np.bincount(first + opens, minlength=lane.cycles + 1)
                steps = steps - np.bincount(first + closes, minlength=lane.cycles + 1)
                busy[:, batch] += np.cumsum(steps)[: lane.cycles].astype(np.int32)
        origin += run.cycles
        row0 += run.m
    return busy


def _packed(lanes: tuple[Lane, ...], *, single: bool) -> str:
    headers: list[dict[str, Any]] = []
    columns: dict[str, NDArray[Any]] = {}
    codings: dict[str, Coding] = {}
    for number, lane in enumerate(lanes):
        header, own = _encode(lane)
        headers.append(header)
        columns |= {f"{number}.{name}": values for name, values in own.items()}
        # A long run's sums may outgrow the differences' int32.
        small = [name for name, values in own.items() if values.max(initial=0) < 2**31]
        codings |= {f"{number}.{name}": "delta" for name in small}
    longest = max(lanes, key=lambda lane: lane.cycles)
    header = {
        "cycles": longest.cycles,
        "phases": PHASES,
        "lanes": headers,
        "chapters": [{"cycle": cycle, "label": label} for cycle, label in _chapters(longest)],
        "python": _python(lanes, single=single),
    }
    return pack("batches", header, columns, codings)


def _encode(lane: Lane) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return what the browser looks up of a lane: its runs in one, cycles and rows of A counted on."""
    first = lane.runs[0]
    bills = [ledger.systolic(run) for run in lane.runs]
    origins = np.cumsum([0, *(run.cycles for run in lane.runs)])[:-1].tolist()
    rows = np.cumsum([0, *(run.m for run in lane.runs)])[:-1].tolist()
    shifted = [
        np.where(run.start >= 0, run.start + origin, -1).reshape(-1, run.cols)
        for run, origin in zip(lane.runs, origins, strict=True)
    ]
    header = {
        "name": lane.name,
        "rows": first.rows,
        "cols": first.cols,
        "cycles": lane.cycles,
        "m": sum(run.m for run in lane.runs),
        "batches": lane.batches,
        "overlap": _overlaps(lane),
        # run, first row of A counted over the lane, first row and column of B, rows and columns in use
        "folds": [
            [number, row0, fold.row0, fold.col0, fold.rows, fold.cols]
            for number, (run, row0) in enumerate(zip(lane.runs, rows, strict=True))
            for fold in run.folds
        ],
    }
    columns: dict[str, NDArray[Any]] = {
        "start": np.concatenate(shifted),
        "length": np.concatenate([run.length.reshape(-1, run.cols) for run in lane.runs]),
        "phase": np.concatenate([run.phase for run in lane.runs]),
        "busy": busy_by_batch(lane),
        "macs": _counted_on([bill.macs for bill in bills]),
        "reads_b": _counted_on([bill.reads_b for bill in bills]),
    }
    return header, columns


def _counted_on(totals: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return running totals of runs that follow each other as one running total."""
    before = np.cumsum([0, *(int(total[-1]) for total in totals)])
    return np.concatenate([total + start for total, start in zip(totals, before[:-1].tolist(), strict=True)])


def _chapters(lane: Lane) -> list[tuple[int, str]]:
    """Return where a lane's phases begin; where these are many, its folds, or its runs."""
    parts, origin = [], 0
    for number, run in enumerate(lane.runs):
        changes = np.flatnonzero(np.diff(run.phase, prepend=-1)).tolist()
        parts.append((number, origin, run, changes))
        origin += run.cycles
    if len(lane.runs) > 1:
        return [(origin, f"run {number + 1}") for number, origin, _, _ in parts]
    _, _, run, changes = parts[0]
    if len(changes) > 12:
        return [(fold.start, f"fold {fold.index + 1}") for fold in run.folds]
    return [(t, PHASES[run.phase[t]]) for t in changes]


def _python(lanes: tuple[Lane, ...], *, single: bool) -> str:
    """Return one line of Python that makes the runs again and shows them."""
    lines: list[str] = []
    names: dict[int, str] = {}
    for lane in lanes:
        for run in lane.runs:
            if id(run) in names:
                continue
            number = len(names)
            names[id(run)] = f"run{number}"
            overlap = ", overlap=True" if run.overlap else ""
            operands = operand_lines(run.a, run.b)
            a, b = "a", "b"
            if operands[0].startswith("#"):  # too large to write down: told apart by number
                a, b = f"a{number}", f"b{number}"
                operands = [operands[0].replace("a: ", f"{a}: ").replace("b: ", f"{b}: ")]
            call = f"systolic.simulate({a}, {b}, rows={run.rows}, cols={run.cols}{overlap})"
            lines += [*operands, f"{names[id(run)]} = {call}"]
    if single:
        return one_line(lines, f"widgets.BatchesPlayer(run0, batches={lanes[0].batches})")
    told = []
    for lane in lanes:
        runs = [names[id(run)] for run in lane.runs]
        told.append(runs[0] if len(runs) == 1 else f"[{', '.join(runs)}]")
    batches = [lane.batches for lane in lanes]
    return one_line(lines, f"widgets.BatchesPlayer([{', '.join(told)}], batches={batches})")
