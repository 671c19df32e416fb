"""The player of the tile pipeline: HBM, VMEM and the matrix unit on one time axis, one buffer under two."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp import _checks, chips
from pulsewarp._text import counted
from pulsewarp.bench.measurement import with_prefix
from pulsewarp.matmul import DTYPES
from pulsewarp.systolic import PipelineTrace
from pulsewarp.systolic.pipeline_trace import KINDS, holdings
from pulsewarp.widgets._player import FUTURES, HidingPlayer, first_frame, spread_stills
from pulsewarp.widgets._wire import Coding, pack
from pulsewarp.widgets.systolic import one_line, operand_lines

#: A frame is an event; nobody steps through more than these, and their bars are thinner than a pixel.
MOST_EVENTS = 2000

#: What a buffer can be doing, in the order of the column `state`.
STATES = ("free", "filling", "ready", "in use", "summing", "partial", "complete", "leaving")
EVENT = ("kind", "step", "tiles", "start", "end", "slot", "size", "after")
TALLY = ("multiplied", "stalled", "moved", "bubbles", "bytes_in", "bytes_out", "vmem")

_RULE = (
    "Rule: a step starts when both its tiles are in VMEM; one DMA channel moves one tile at a time; a second "
    "buffer lets it fetch ahead."
)
_SIMPLIFIED = (
    "Simplified: vector unit and scalar unit take no time, HBM has no latency, a step drains before the next "
    "one fills, and the channel's bandwidth serves both directions. Times are whole cycles of the array's "
    "clock."
)
_HELP = (
    "A bar is one tile on its way, or one step of the MXU; a step multiplies one tile of A with one of B. "
    "The orange line is the present cycle, the same for both runs.",
    "The boxes are the buffers in VMEM: how far each is filled, with which tile, and what happens to it.",
    "MXU, the matrix unit: multiplies. Vector unit: adds the MXU's sums to the tile of C, converts it for "
    "its way back, and would apply scale, bias and activation. Scalar unit: runs the loop, computes "
    "addresses, starts the DMA transfers and waits for them. (System architecture, Cloud TPU documentation; "
    "How to Think About TPUs, jax-ml.github.io/scaling-book.)",
    "Two buffers for each operand, a tile that the next step uses again is not fetched again, and C is "
    "written once: so JAX's Pallas pipelines kernels on a TPU (Software Pipelining, and Writing TPU "
    "kernels with Pallas, docs.jax.dev).",
    "By formula, one buffer takes fetch + multiply + write for every step; two take max(multiply, transfer).",
)


class PipelinePlayer(HidingPlayer):
    """Play a product's way through HBM, VMEM and the matrix unit: with two buffers, with one, or both.

    Modelled nothing: the player shows :class:`pulsewarp.systolic.PipelineTrace`. A frame is an event: the
    cycle in which something starts or ends in one of the runs.

    Synced traits, beside those of every player: ``selected`` <-> ``[run, event]``, or ``[]``; runs count from
    0 from the top.

    Parameters
    ----------
    traces : PipelineTrace, or iterable of one or two
        Two are the same product in the same tiles on the same machine, one with each number of buffers, in
        any order.
    start : int, optional
        Frame shown at first, from 0. Left out: one in which the runs differ; "play" then begins at 0.
    rate : float
        Frames a second at first.
    title : str, optional
        Instead of the scene's own.
    task : str, optional
        What the reader is asked to do; left out, the scene's own task.
    future : str
        ``"dimmed"`` shows what comes faintly; ``"hidden"`` keeps it from the reader, for a prediction.

    Raises
    ------
    TypeError
        When `traces` are no pipeline traces.
    ValueError
        When the two cannot be compared, when there are more than 2,000 events, or `start` lies outside.

    Examples
    --------
    >>> from pulsewarp import systolic
    >>> machine = {"rows": 2, "cols": 2, "clock_hz": 1, "bandwidth_bytes_per_second": 2, "vmem_bytes": 200}
    >>> runs = [systolic.pipeline(m=4, k=4, n=4, tile=(2, 2, 2), dtype="int8", buffers=count, **machine)
    ...         for count in (1, 2)]
    >>> PipelinePlayer(runs)
    PipelinePlayer(4x4 by 4x4, 2x2 by 2x2 tiles: 78 cycles with 2 buffers, 112 with 1)
    """

    _scene = "pipeline.js"

    @_checks.names_keywords
    def __init__(
        self,
        traces: PipelineTrace | Iterable[PipelineTrace],
        *,
        start: int | None = None,
        rate: float = 1,
        title: str | None = None,
        task: str | None = None,
        future: str = "dimmed",
    ) -> None:
        self._runs = _fitting(traces)
        times = _times(self._runs)
        cursor, poster = first_frame(start, _telling_frame(self._runs, times), times.size)
        super().__init__(
            _packed(self._runs, times),
            cycles=times.size,
            cursor=cursor,
            options={
                "poster": poster,
                "rate": _checks.positive_number("rate", rate),
                "title": title,
                "future": _checks.choice("future", future, FUTURES),
            },
            task=_task(self._runs) if task is None else task,
            shows={_buffers(run): run for run in self._runs},
        )

    def show(self, traces: PipelineTrace | Iterable[PipelineTrace]) -> None:
        """Replace the runs in every view."""
        runs = _fitting(traces)
        times = _times(runs)
        packed = _packed(runs, times)
        self._runs = runs
        self.replace(
            packed,
            cycles=times.size,
            cursor=_telling_frame(runs, times),
            shows={_buffers(run): run for run in runs},
        )

    def __repr__(self) -> str:
        one = self._runs[0]
        m, k, n = one.grid
        first, *other = (f"{run.cycles} {{}}with {run.buffers}{{}}" for run in self._runs)
        said = ", ".join([first.format("cycles ", " buffers" if one.buffers > 1 else " buffer"), *(
            each.format("", "") for each in other
        )])  # fmt: skip
        return f"PipelinePlayer({one.m}x{one.k} by {one.k}x{one.n}, {m}x{k} by {k}x{n} tiles: {said})"


def _fitting(traces: PipelineTrace | Iterable[PipelineTrace]) -> tuple[PipelineTrace, ...]:
    """Return one or two traces, more buffers first; refuse those that cannot be shown together."""
    remedy = "make one with systolic.pipeline"
    if isinstance(traces, PipelineTrace):
        traces = (traces,)
    runs = [
        _checks.instance("a trace", run, PipelineTrace, remedy)
        for run in _checks.several("traces", traces, "give one trace, or two in a list")
    ]
    if len(runs) not in (1, 2):
        raise ValueError(f"There are {len(runs)} traces, but one or two are shown; give one or two.")
    if len(runs) == 2:
        first, second = runs
        for name in ("m", "k", "n", "dtype", "tile", "dataflow", "overlap", "rows", "cols", "units",
                     "clock_hz", "bandwidth_bytes_per_second"):  # fmt: skip
            one, other = getattr(first, name), getattr(second, name)
            if one != other:
                raise ValueError(
                    f"The traces differ in {name}, {one} and {other}, but may differ in buffers only; give "
                    f"both the same {name}."
                )
        if first.buffers == second.buffers:
            raise ValueError(
                f"Both traces have {counted(first.buffers, 'buffer')}; make one with buffers=2 and one with "
                f"buffers=1."
            )
    events = max(run.kind.size for run in runs)
    if events > MOST_EVENTS:
        raise ValueError(
            f"A trace of {events} events is above the limit of {MOST_EVENTS} for a player; take larger "
            f"tiles, or a smaller product."
        )
    return tuple(sorted(runs, key=lambda run: -run.buffers))


def _times(runs: tuple[PipelineTrace, ...]) -> NDArray[np.int64]:
    """Return the cycles that are frames: wherever something starts or ends."""
    return np.unique(np.concatenate([[0], *(edge for run in runs for edge in (run.start, run.end))]))


def _clipped(run: PipelineTrace, times: NDArray[np.int64]) -> list[int]:
    """Return the frames' cycles for one run; one that has ended stays at its end."""
    return [min(t, run.cycles) for t in times.tolist()]


def _now(run: PipelineTrace, times: NDArray[np.int64], which: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the event of an engine under way at each frame, -1 for none."""
    events = np.flatnonzero(which)
    last = np.searchsorted(run.start[events], times, side="right") - 1
    found = events[np.maximum(last, 0)]
    under_way = (last >= 0) & (times < run.end[found])
    return np.where(under_way, found, -1)


def _telling_frame(runs: tuple[PipelineTrace, ...], times: NDArray[np.int64]) -> int:
    """Return a frame at which the first run does two things at once while the other waits."""
    first = runs[0]
    mxu, dma = (_now(first, times, which) >= 0 for which in (first.kind == 2, first.kind != 2))
    both = mxu & dma
    for run in runs[1:]:
        differ = both & (_now(run, times, run.kind == 2) < 0) & (times < run.cycles)
        both = differ if differ.any() else both
    found = np.flatnonzero(both)
    return int(found[0]) if found.size else 0


def _packed(runs: tuple[PipelineTrace, ...], times: NDArray[np.int64]) -> str:
    """Return the text that crosses to the browser."""
    sentences: dict[str, int] = {}
    columns: dict[str, NDArray[Any]] = {"time": times}
    codings: dict[str, Coding] = {"time": "delta"} if times[-1] < 2**31 else {}
    for r, run in enumerate(runs):
        clipped = _clipped(run, times)
        told = [run.why(t) for t in clipped]
        index = [[sentences.setdefault(text, len(sentences)) for text in pair] for pair in told]
        done = run.tally(clipped)
        events, state, share = _slots(run, np.array(clipped))
        mine: dict[str, NDArray[Any]] = {
            **{name: getattr(run, name) for name in EVENT},
            "mxu": _now(run, times, run.kind == 2),
            "dma": _now(run, times, run.kind != 2),
            "sentence": np.array(index),
            "tally": np.stack([getattr(done, name) for name in TALLY], axis=1),
            "held": events,
            "state": state,
            "share": share,
        }  # fmt: skip
        columns |= {f"{name}{r}": column for name, column in mine.items()}
    one = runs[0]
    header = {
        "title": _title(one),
        "rule": _RULE,
        "simplified": _SIMPLIFIED,
        "given": _given(one),
        "help": _HELP,
        "python": _python(runs),
        "frames": int(times.size),
        "kinds": KINDS,
        "states": STATES,
        "tally": TALLY,
        "grid": one.grid,
        "runs": [
            {
                "name": _buffers(run),
                "buffers": run.buffers,
                "cycles": run.cycles,
                "steps": run.steps,
                "high_water": run.high_water_bytes,
                "dma_bytes": run.bytes_in + run.bytes_out,
            }
            for run in runs
        ],
        "vmem_bytes": one.vmem_bytes,
        "sentences": list(sentences),
        "chapters": _chapters(runs, times),
        "stills": spread_stills(times.size, _telling_frame(runs, times), 5),
    }
    return pack("pipeline", header, columns, codings)


def _slots(
    run: PipelineTrace, times: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """Return what lies in each buffer at each time: (event, state, share there); shape (T, 3 * buffers).

    The event is the fetch that brought the tile, for C the write that will take it away. The share is the
    part of the tile that has arrived, for C the part of its steps that have ended, then what has not left.
    """
    shape = (times.size, 3 * run.buffers)
    events, state = np.full(shape, -1, np.int64), np.zeros(shape, np.int64)
    share = np.zeros(shape, np.float32)
    code = {name: i for i, name in enumerate(STATES)}
    steps = np.flatnonzero(run.kind == 2)
    for e, begins, ends, _ in holdings(run).tolist():
        kind = int(run.kind[e])
        letter = min(kind, 2)
        column = letter * run.buffers + int(run.slot[e, letter])
        here = np.flatnonzero((begins <= times) & (times < ends))
        t = times[here]
        events[here, column] = e
        mine = steps[(begins <= run.start[steps]) & (run.end[steps] <= ends)]
        mine = mine[run.slot[mine, letter] == run.slot[e, letter]]
        worked = ((run.start[mine][:, None] <= t) & (t < run.end[mine][:, None])).any(axis=0)
        part = (t - run.start[e]) / (run.end[e] - run.start[e])
        if letter < 2:
            arriving = t < run.end[e]
            share[here, column] = np.where(arriving, part, 1)
            state[here, column] = np.where(
                arriving, code["filling"], np.where(worked, code["in use"], code["ready"])
            )
        else:
            done = (run.end[mine][:, None] <= t).sum(axis=0)
            leaving = run.start[e] <= t
            share[here, column] = np.where(leaving, 1 - part, done / mine.size)
            waits = np.where(done == mine.size, code["complete"], code["partial"])
            state[here, column] = np.where(leaving, code["leaving"], np.where(worked, code["summing"], waits))
    return events, state, share


def _chapters(runs: tuple[PipelineTrace, ...], times: NDArray[np.int64]) -> list[dict[str, Any]]:
    """Return where the parts of the first run begin, and where each run is done."""
    first = runs[0]
    marks = [(0, "first tiles"), (int(first.start[first.kind == 2][0]), "multiplying")]
    done = "done" if len(runs) == 1 else "{} done"
    marks += [(run.cycles, done.format(_buffers(run))) for run in runs]
    return [{"cycle": int(np.searchsorted(times, t)), "label": label} for t, label in marks]


def _buffers(run: PipelineTrace) -> str:
    return "two buffers" if run.buffers == 2 else "one buffer"


def _title(run: PipelineTrace) -> str:
    times = "\N{MULTIPLICATION SIGN}"
    return f"{run.m} {times} {run.k} by {run.k} {times} {run.n}, tile by tile through HBM, VMEM and MXU"


def _given(run: PipelineTrace) -> str:
    """Return the machine and the tiles, one line."""
    times = "\N{MULTIPLICATION SIGN}"
    tm, tk, tn = run.tile
    per_cycle = run.bandwidth_bytes_per_second / run.clock_hz
    names = _chip_names()
    where = f"One core of {names.get(run.chip, run.chip)}: " if run.chip else ""
    units = "One MXU" if run.units == 1 else f"{run.units} MXUs"
    accumulator = DTYPES[run.dtype].accumulator
    return (
        f"{where}{units} of {run.rows} {times} {run.cols} cells at "
        f"{with_prefix(run.clock_hz, 'Hz')}; HBM {with_prefix(run.bandwidth_bytes_per_second, 'B/s')}, "
        f"{per_cycle:,.4g} B a cycle. Tiles of {tm} {times} {tk} by {tk} {times} {tn} in {run.dtype}, sums "
        f"in {accumulator}."
    )


def _chip_names() -> dict[str, str]:
    """Return the catalogue's chips, id to name; a run may also be of a chip that the reader described."""
    return {chip.id: chip.name for chip in chips.catalogue()}


def _task(runs: tuple[PipelineTrace, ...]) -> str:
    """Return what to look for: where the MXU waits again, or that it does not."""
    first = runs[0]
    begins, ends = first.start[first.kind == 2], first.end[first.kind == 2]
    upper = "the upper MXU" if len(runs) == 2 else "the MXU"
    if (begins[1:] > ends[:-1]).any():
        return (
            f"before you play, say at which event {upper} first waits again after its first step, and what "
            f"for; then step there."
        )
    lower = " What does the lower one do in the meantime?" if len(runs) == 2 else ""
    return f"after its first step {upper} never waits; find out why the DMA has time to spare.{lower}"


def _python(runs: tuple[PipelineTrace, ...]) -> str:
    """Return one line of Python that makes the runs again."""
    one = runs[0]
    rates = {name: _plain(getattr(one, name)) for name in ("clock_hz", "bandwidth_bytes_per_second")}
    # The chip gives the scene its name; the numbers stand beside it: any may override the catalogue's.
    named = {"chip": one.chip} if one.chip in _chip_names() else {}
    settings: Mapping[str, Any] = {
        **named, "tile": one.tile, "rows": one.rows, "cols": one.cols, "units": one.units, **rates,
        "vmem_bytes": one.vmem_bytes, "dtype": one.dtype, "dataflow": one.dataflow, "overlap": one.overlap,
    }  # fmt: skip
    given = ", ".join(f"{name}={value!r}" for name, value in settings.items())
    operands, lines = f"m={one.m}, k={one.k}, n={one.n}", []
    if one.a is not None and one.b is not None:
        operands, lines = "a, b", operand_lines(one.a, one.b)
    buffers = [run.buffers for run in runs]
    call = f"systolic.pipeline({operands}, {given}, buffers=count)"
    return one_line(lines, f"widgets.PipelinePlayer([{call} for count in {buffers}])")


def _plain(value: float) -> float | int:
    return int(value) if value == int(value) else value
