"""The player of tensor cores: one product as warps of mma, its stages in shared memory, one mma by lanes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp import _checks, simt
from pulsewarp._text import counted
from pulsewarp.simt import TiledTrace
from pulsewarp.widgets._player import FUTURES, HidingPlayer, first_frame, spread_stills
from pulsewarp.widgets._wire import Coding, pack
from pulsewarp.widgets.systolic import operand_lines

#: A frame is an event; nobody steps through more than these, and their bars are thinner than a pixel.
MOST_EVENTS = 2000
#: So many stages have a row each, and so many runs on tensor cores a block of rows.
MOST_STAGES, MOST_RUNS = 8, 2
#: Operands with more elements are not written into the lines of Python.
MOST_WRITTEN = 2**13

_MULTIPLY = simt.ROLES.index("multiply")
_WORK = {name: i for i, name in enumerate(simt.WORK_COLUMNS)}
_FILL = {name: i for i, name in enumerate(simt.FILL_COLUMNS)}

_TASK = (
    "choose the lane that keeps C[{row},{col}] (click, or arrow keys); then find a cycle in which all tensor "
    "units starve, and say what for."
)
_HELP = (
    "Above, time: a row for each tensor unit (the tensor cores of one scheduler, taken as one) with the mma "
    "it works on, by warp; over its bars the scheduler's issue slots; below, a row for each stage of shared "
    "memory. A frame is a cycle in which something starts or ends.",
    "Below, one mma spread over the 32 lanes of its warp: a box is what one lane holds side by side, and "
    "bears the lane's number. It is what the first tensor unit did last, or the one you click in the "
    "timeline; Escape lets go of it. Arrow keys in the picture choose a lane: left and right by one, up and "
    "down by four.",
    "Documented: which lane holds which element, in which register, which products there are, and how many "
    "multiply-adds a tensor core makes a cycle (PTX ISA; the sources of the times below). Not documented: "
    "how a tensor core is built, when inside it an element is read, in which order the products of one mma "
    "are added and how often they are rounded.",
    "The score beside counts the same product twice on one clock: by mma, and by FFMA, which makes 32 "
    "multiply-adds an instruction, one a lane. For FFMA narrow operands are widened to 4 bytes when they are "
    "copied, so that more bytes are.",
)


class TensorPlayer(HidingPlayer):
    """Play one product on the tensor cores of an SM: units, stages of shared memory, fragments by lane.

    Modelled nothing: the player shows :class:`pulsewarp.simt.TiledTrace`. A frame is an event: a cycle in
    which an mma issues or its sums are there, a unit falls idle, or a stage changes its state.

    Synced traits, beside those of every player: ``selected`` <-> ``[lane]``, or ``[lane, run, mma]`` while an
    mma other than the present one is shown (counted from 0 in order of issue); ``[]`` is lane 0.

    Parameters
    ----------
    traces : TiledTrace, or iterable of up to three
        One or two runs of ``simt.tensor_kernel`` (drawn), and one of ``simt.ffma_kernel`` if you like (in the
        score only), all of one product.
    start : int, optional
        Frame shown at first, from 0. Left out: one in which units work while a copy is on its way; "play"
        then begins at 0.
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
        When `traces` are no such traces.
    ValueError
        When there is none on tensor cores, more than two, more than one with FFMA, when they are not one
        product with one shape of mma, when an element is held by two lanes (Volta's m8n8k4), when there are
        more than 8 stages or 2,000 events, or `start` lies outside.

    Examples
    --------
    >>> import numpy as np
    >>> from pulsewarp import simt
    >>> a, b = np.eye(32, 64), np.ones((64, 32))
    >>> kernels = [simt.tensor_kernel(a, b), simt.ffma_kernel(a, b)]
    >>> TensorPlayer([kernel.simulate() for kernel in kernels])
    TensorPlayer(32x64 by 64x32: mma 1176, FFMA 2825 cycles)
    """

    _scene = "tensor.js"

    @_checks.names_keywords
    def __init__(
        self,
        traces: TiledTrace | Iterable[TiledTrace],
        *,
        start: int | None = None,
        rate: float = 2,
        title: str | None = None,
        task: str | None = None,
        future: str = "dimmed",
    ) -> None:
        self._runs, self._score = _fitting(traces)
        self._times = times = _times(self._runs, self._score)
        cursor, poster = first_frame(start, _telling_frame(self._runs[0], times), times.size)
        self._own_task = task is None
        super().__init__(
            _packed(self._runs, self._score, times),
            cycles=times.size,
            cursor=cursor,
            options={
                "poster": poster,
                "rate": _checks.positive_number("rate", rate),
                "title": title,
                "future": _checks.choice("future", future, FUTURES),
            },
            task=_task(self._runs[0]) if task is None else task,
            shows=_named(self._score),
        )

    def show(self, traces: TiledTrace | Iterable[TiledTrace]) -> None:
        """Replace the runs in every view."""
        runs, score = _fitting(traces)
        times = _times(runs, score)
        packed = _packed(runs, score, times)
        self._runs, self._score, self._times = runs, score, times
        with self.hold_sync():
            cursor = _telling_frame(runs[0], times)
            self.replace(packed, cycles=times.size, cursor=cursor, shows=_named(score))
            if self._own_task:
                self.options = {**self.options, "task": _task(runs[0])}

    def _cycle_of(self, frame: int) -> int:
        return int(self._times[frame])  # a frame is an event

    def __repr__(self) -> str:
        (m, k), n = self._runs[0].kernel.a.shape, self._runs[0].kernel.b.shape[1]
        lengths = ", ".join(f"{name} {run.cycles}" for name, run in _named(self._score).items())
        return f"TensorPlayer({m}x{k} by {k}x{n}: {lengths} cycles)"


def _fitting(
    traces: TiledTrace | Iterable[TiledTrace],
) -> tuple[tuple[TiledTrace, ...], tuple[TiledTrace, ...]]:
    """Return the runs to be drawn, and those of the score; refuse what cannot be shown together."""
    remedy = "make one with simt.tensor_kernel(...).simulate()"
    if isinstance(traces, TiledTrace):
        traces = (traces,)
    given = [
        _checks.instance("a trace", run, TiledTrace, remedy)
        for run in _checks.several("traces", traces, f"{remedy}, or give up to three in a list")
    ]
    runs = tuple(run for run in given if run.kernel.kind == "mma")
    others = tuple(run for run in given if run.kernel.kind != "mma")
    if not 1 <= len(runs) <= MOST_RUNS or len(others) > 1:
        raise ValueError(
            f"There are {len(runs)} traces of mma and {len(others)} of FFMA, but one or two and at most one "
            f"are shown; {remedy}."
        )
    one = runs[0].kernel
    for run in (*runs[1:], *others):
        same = np.array_equal(run.kernel.a, one.a) and np.array_equal(run.kernel.b, one.b)
        if not same or run.kernel.padded != one.padded:
            raise ValueError(
                f"{run.kernel!r} is not the product of {one!r}, but only one product compares; make all with "
                f"the same a, b and tile."
            )
    for run in runs:
        _fits(run, one)
    return runs, (*runs, *others)


def _fits(run: TiledTrace, one: simt.TiledKernel) -> None:
    shape = run.kernel.shape
    if shape is None or shape != one.shape:
        raise ValueError(
            f"The traces have mma of {one.shape!r} and {shape!r}, but one is drawn by lanes; give both the "
            f"same shape."
        )
    if shape.computations > 1:
        raise ValueError(
            f"{shape.name} makes {shape.computations} products at once, so that two lanes hold an element, "
            f"but one is shown for each; take an architecture from Turing on."
        )
    blocks, stages = run.stages.shape[1:]
    if blocks * stages > MOST_STAGES:
        raise ValueError(
            f"{counted(blocks, 'block')} with {counted(stages, 'stage')} each are {blocks * stages} "
            f"stages, but at most {MOST_STAGES} have room; take larger tiles or a smaller product."
        )


def _named(score: Sequence[TiledTrace]) -> dict[str, TiledTrace]:
    """Return the runs by the names they have in the scene: what tells them apart."""
    drawn = [run for run in score if run.kernel.kind == "mma"]
    others = {run.kernel.kind.upper(): run for run in score if run.kernel.kind == "ffma"}
    if len(drawn) == 1:
        return {"mma": drawn[0], **others}
    first, second = (run.kernel for run in drawn)
    ways: list[tuple[str, str]] = [
        (counted(first.stages, "stage"), counted(second.stages, "stage")),
        (first.copies, second.copies),
        (first.layout, second.layout),
        (f"{first.tile[2]} deep", f"{second.tile[2]} deep"),
        (counted(len(first.programs), "warp"), counted(len(second.programs), "warp")),
        (first.architecture.title, second.architecture.title),
        (drawn[0].warp.policy, drawn[1].warp.policy),
        ("first run", "second run"),
    ]
    pair = next(pair for pair in ways if pair[0] != pair[1])
    return dict(zip(pair, drawn, strict=True)) | others


def _times(runs: Sequence[TiledTrace], score: Sequence[TiledTrace]) -> NDArray[np.int64]:
    """Return the cycles that are frames: wherever something starts or ends."""
    edges: list[NDArray[Any] | list[int]] = [[0]]
    for run in score:
        edges.append(run.fills[:, [_FILL[name] for name in ("copy", "landed", "ready", "read", "release")]])
        edges.append([run.cycles - 1])
    for run in runs:
        edges += [run.work[:, _WORK["cycle"]], run.work[:, _WORK["done"]]]
        falls_idle = (run.unit[1:] < 0) & (run.unit[:-1] >= 0)
        edges.append(1 + np.flatnonzero(falls_idle.any(axis=1)))
    times = np.unique(np.concatenate([np.asarray(edge, np.int64).ravel() for edge in edges]))
    times = times[(times >= 0) & (times < max(run.cycles for run in score))]
    if times.size > MOST_EVENTS:
        raise ValueError(
            f"These runs have {times.size} events, but at most {MOST_EVENTS} are shown; take a smaller "
            f"product."
        )
    return times


def _clipped(run: TiledTrace, times: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the frames' cycles for one run; one that has ended stays at its last cycle."""
    return np.minimum(times, run.cycles - 1)


def _telling_frame(run: TiledTrace, times: NDArray[np.int64]) -> int:
    """Return a frame in which as many units as ever work, a copy is on its way, and C has begun to fill."""
    t = _clipped(run, times)
    busy = (run.unit[t] >= 0).sum(axis=1)
    filling = (run.stages[t] == simt.STAGE_STATES.index("filling")).any(axis=(1, 2))
    begun = t >= np.min(run.work[:, _WORK["done"]])
    return int(np.argmax(busy * 4 + filling * 2 + begun))


def _packed(runs: Sequence[TiledTrace], score: Sequence[TiledTrace], times: NDArray[np.int64]) -> str:
    """Return the text that crosses to the browser."""
    names = list(_named(score))
    one = runs[0].kernel
    assert one.shape is not None  # _fitting let no other through
    m, k, n = one.padded
    sentences: dict[str, int] = {}
    columns: dict[str, NDArray[Any]] = {
        "time": times,
        "a": _padded(one.a, (m, k)),
        "b": _padded(one.b, (k, n)),
        **_fragments(one.shape),
    }
    for r, run in enumerate(runs):
        rest = [other for other in score if other.kernel.kind == "ffma"]
        told = [
            [sentences.setdefault(text, len(sentences)) for text in _told(run, t, rest)]
            for t in times.tolist()
        ]
        mine = {**_history(run), **_frames(run, times), "told": np.array(told)}
        columns |= {f"{name}{r}": column for name, column in mine.items()}
    for v, run in enumerate(score):
        columns[f"tally{v}"] = _tally(run, times)
    header = {
        "title": _title(one),
        "rule": _rule(one.shape),
        "simplified": _simplified(runs[0]),
        "given": _given(score),
        "help": [*_HELP, _sources(score)],
        "python": _python(score),
        "frames": int(times.size),
        "shape": [m, k, n],
        "piece": [one.shape.m, one.shape.n, one.shape.k],
        "shortest": int(np.min(runs[0].work[:, _WORK["free"]] - runs[0].work[:, _WORK["cycle"]])),
        "states": simt.STAGE_STATES,
        "stages": [_stage_names(run) for run in runs],
        "runs": [
            {
                "name": name,
                "cycles": run.cycles,
                "units": run.unit.shape[1],
                "stages": run.stages.shape[1] * run.stages.shape[2],
                "deep": run.kernel.tile[2],
            }
            for name, run in zip(names, runs, strict=False)
        ],
        "score": names,
        "tally": _TALLY,
        "lengths": [run.cycles for run in score],
        "sentences": list(sentences),
        "chapters": _chapters(runs, score, times),
        "stills": spread_stills(times.size, _telling_frame(runs[0], times), 5),
    }
    codings: dict[str, Coding] = {"time": "delta"}
    return pack("tensor", header, columns, codings)


def _padded(operand: NDArray[Any], shape: tuple[int, int]) -> NDArray[np.float64]:
    whole = np.zeros(shape)
    whole[: operand.shape[0], : operand.shape[1]] = operand.astype(np.float64)
    return whole


def _fragments(shape: simt.MmaShape) -> dict[str, NDArray[np.int64]]:
    """Return for every element of A, B and C its lane, its register there, and its turn in the lane."""
    columns: dict[str, NDArray[np.int64]] = {}
    for letter in "abc":
        held = simt.fragment(shape, letter)
        lanes, elements = np.indices(held.rows.shape)
        for name, value in (("lane", lanes), ("register", held.register[elements]), ("place", elements)):
            grid = np.full((held.height, held.width), -1, np.int64)
            grid[held.rows, held.columns] = value
            columns[f"{name}_{letter}"] = grid
    return columns


def _history(run: TiledTrace) -> dict[str, NDArray[Any]]:
    """Return what time moves through: every mma, every stage's states, every issue slot used."""
    assert run.kernel.shape is not None
    work = {name: run.work[:, i] for name, i in _WORK.items()}
    cycles, schedulers = np.nonzero(run.warp.issued >= 0)
    warps = run.warp.issued[cycles, schedulers]
    pcs = run.warp.pc[cycles, warps]
    kinds = [run.kernel.roles[w][pc, 0] for w, pc in zip(warps.tolist(), pcs.tolist(), strict=True)]
    multiplies = np.array(kinds) == _MULTIPLY
    return {
        "issue": work["cycle"],
        "free": work["free"],
        "lands": work["done"],
        "warp": work["warp"],
        "unit": work["scheduler"],
        "piece": np.stack([work["row"], work["step"] * run.kernel.shape.k, work["column"]], axis=1),
        "after": np.stack([run.accumulator(i) for i in range(len(run.work))]),
        "span": _spans(run),
        "slot": np.stack([cycles, schedulers, np.where(multiplies, 1, 2)], axis=1),
    }


def _spans(run: TiledTrace) -> NDArray[np.int64]:
    """Return rows (stage, state, first cycle, cycle after the last, first k): a stage's time in one state."""
    states = run.stages.reshape(run.cycles, -1)
    tiles = run.stage_tile.reshape(run.cycles, -1)
    rows = []
    for stage in range(states.shape[1]):
        both = np.stack([states[:, stage], tiles[:, stage]], axis=1)
        starts = [0, *(1 + np.flatnonzero((both[1:] != both[:-1]).any(axis=1))).tolist(), run.cycles]
        for first, end in itertools.pairwise(starts):
            state, tile = both[first].tolist()
            if simt.STAGE_STATES[state] != "free":
                rows.append((stage, state, first, end, tile * run.kernel.tile[2]))
    return np.array(rows, np.int64).reshape(-1, 5)


def _frames(run: TiledTrace, times: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """Return for every frame what each unit works on, which mma to look at, and whose sums stand in C."""
    assert run.kernel.shape is not None
    t = _clipped(run, times)
    now = np.where((times < run.cycles)[:, None], run.unit[t], -1)
    issue, done = run.work[:, _WORK["cycle"]], run.work[:, _WORK["done"]]
    mine = np.flatnonzero(run.work[:, _WORK["scheduler"]] == run.work[0, _WORK["scheduler"]])
    focus = mine[np.maximum(np.searchsorted(issue[mine], times, side="right") - 1, 0)]
    m, _, n = run.kernel.padded
    high, wide = run.kernel.shape.m, run.kernel.shape.n
    piece = run.work[:, _WORK["row"]] // high * (n // wide) + run.work[:, _WORK["column"]] // wide
    sums = np.full((times.size, m // high * (n // wide)), -1, np.int64)
    for e in np.argsort(done, kind="stable").tolist():
        sums[times >= done[e], piece[e]] = e
    return {"now": now, "focus": focus, "sums": sums}


# ---------------------------------------------------------------------------------------------- the score

_TALLY: tuple[dict[str, Any], ...] = (
    {"label": "cycles so far", "help": "A run that has ended stays at its length."},
    {"label": "instructions", "help": "By all warps: copies, barriers, loads, multiplications, stores."},
    {"label": "of them multiply", "help": "mma or FFMA instructions."},
    {"label": "multiply-adds", "help": "Those with padding, where the product does not fill its tiles."},
    {"label": "multiply-adds / issue", "digits": 1, "help": "For every instruction, whatever it does."},
    {
        "label": "units in use, %",
        "help": "Share of the cycles so far in which tensor units (for FFMA: FMA units) were held.",
    },
    {
        "label": "bytes copied",
        "help": "Into shared memory, landed; for FFMA narrow operands are widened first.",
    },
)


def _tally(run: TiledTrace, times: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the rows of the score for every frame."""
    tally = run.tally(times.tolist())
    return np.stack(
        [
            tally.cycles,
            tally.instructions,
            tally.multiplies,
            tally.multiply_adds,
            tally.multiply_adds_per_instruction,
            np.round(100 * tally.utilization),
            tally.copied_bytes,
        ],
        axis=1,
    )


# ---------------------------------------------------------------------------------------------- words

_STATE_WORDS = {
    "filling": "on its way until {end}",
    "landed": "landed, but not all warps know it until {end}",
    "ready": "ready, not yet read",
    "in use": "being read",
}


def _told(run: TiledTrace, t: int, rest: Sequence[TiledTrace] = ()) -> list[str]:
    """Return three sentences about a cycle: units, stages, why a unit is idle; empty where none is due."""
    if t >= run.cycles:
        going = [
            f"FFMA goes on: {other.tally([t]).multiply_adds[0]:,} of {other.kernel.padded_multiply_adds:,} "
            f"multiply-adds so far."
            for other in rest
            if t < other.cycles
        ]
        return [f"C has been complete since cycle {run.cycles - 1}.", *(going or [""]), ""]
    busy = [u for u, e in enumerate(run.unit[t].tolist()) if e >= 0]
    idle = [u for u in range(run.unit.shape[1]) if u not in busy]
    why = run.warp.why(t, idle[0]) if idle else ""
    return [_unit_words(run, t, busy, idle), _stage_words(run, t), why]


def _unit_words(run: TiledTrace, t: int, busy: list[int], idle: list[int]) -> str:
    if not busy:
        return "No tensor unit works."
    warps = [f"w{run.work[run.unit[t, u], _WORK['warp']]}" for u in busy]
    one = len(busy) == 1
    works = f"Tensor unit{'' if one else 's'} {_listed(busy)} {'works' if one else 'work'}"
    what = f"on an mma of {warps[0]}" if one else f"on mma of {_listed(warps)}"
    rest = f"; {_listed(idle)} {'is' if len(idle) == 1 else 'are'} idle" if idle else ""
    return f"{works} {what}{rest}."


def _stage_words(run: TiledTrace, t: int) -> str:
    deep = run.kernel.tile[2]
    parts = []
    names = _stage_names(run)
    states, tiles = run.stages[t].ravel().tolist(), run.stage_tile[t].ravel().tolist()
    for i, (state, tile) in enumerate(zip(states, tiles, strict=True)):
        word = simt.STAGE_STATES[state]
        if word == "free":
            parts.append(f"{names[i]} is free")
            continue
        first, last = tile * deep, tile * deep + deep - 1
        said = _STATE_WORDS[word].format(end=_ends(run, i, tile, word))
        parts.append(f"{names[i]} has k {first}\N{EN DASH}{last}, {said}")
    whole = "; ".join(parts)
    return f"{whole[0].upper()}{whole[1:]}."


def _ends(run: TiledTrace, stage: int, tile: int, state: str) -> int:
    """Return the cycle in which a filling stage lands, or a landed one may be read."""
    block = stage // run.stages.shape[2]
    mine = (run.fills[:, _FILL["block"]] == block) & (run.fills[:, _FILL["tile"]] == tile)
    row = run.fills[np.flatnonzero(mine)[0]]
    return int(row[_FILL["landed" if state == "filling" else "ready"]])


def _listed(things: Sequence[object]) -> str:
    """Return things as a sentence names them: "0, 1 and 3"."""
    words = [str(thing) for thing in things]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _stage_names(run: TiledTrace) -> list[str]:
    blocks, stages = run.stages.shape[1:]
    return [
        f"stage {i}" if blocks == 1 else f"block {block}, stage {i}"
        for block in range(blocks)
        for i in range(stages)
    ]


def _task(run: TiledTrace) -> str:
    """Return the task of the scene, with an element of C that is not in the first lane."""
    shape = run.kernel.shape
    assert shape is not None
    return _TASK.format(row=min(8, shape.m - 1), col=min(3, shape.n - 1))


def _title(kernel: simt.TiledKernel) -> str:
    times = "\N{MULTIPLICATION SIGN}"
    (m, k), n = kernel.a.shape, kernel.b.shape[1]
    return f"{m} {times} {k} by {k} {times} {n} on the tensor cores of one SM"


def _rule(shape: simt.MmaShape) -> str:
    return (
        f"Rule: one mma = {shape.m} x {shape.n} x {shape.k} = {shape.multiply_adds:,} multiply-adds by a "
        f"whole warp, spread over its 32 lanes; a tensor unit takes one mma at a time."
    ).replace(" x ", " \N{MULTIPLICATION SIGN} ")


def _simplified(run: TiledTrace) -> str:
    kernel = run.kernel
    schedulers = run.unit.shape[1]
    few = "" if schedulers == 4 else f" An SM since Volta has 4 schedulers; this one has {schedulers}."
    return (
        "Simplified: fixed latencies, no address arithmetic or loop control, no caches filling up, one SM "
        f"alone with its memory.{few} Not documented by NVIDIA: the inside of a tensor core, the order in "
        "which one mma adds its products and where it rounds; here the sums of an mma appear at once, "
        f"{'exact' if kernel.dtype == 'int8' else 'rounded once'}."
    )


def _given(score: Sequence[TiledTrace]) -> str:
    """Return the tile, the machine and where its times come from, one line."""
    times = " \N{MULTIPLICATION SIGN} "
    one = score[0].kernel
    m, n, k = one.tile
    operations = list(dict.fromkeys(run.kernel.operation for run in score))
    costs = ", ".join(
        f"{name} {machine.latency} cycles (unit taken {machine.interval})"
        for name in operations
        for machine in [one.architecture.operations[name]]
    )
    blocks = one.grid[0] * one.grid[1]
    makes = "One block makes" if blocks == 1 else f"{blocks} blocks make each"
    return (
        f"{makes} {m}{times}{n} of C with {counted(len(one.programs) // blocks, 'warp')}, {k} of k at a "
        f"time; {one.dtype}, sums in {one.result.dtype}. {one.architecture.title} "
        f"({one.architecture.gpu}): {costs}; sources in Help."
    )


def _sources(score: Sequence[TiledTrace]) -> str:
    """Return where the times of the instructions come from."""
    machines = {run.kernel.architecture.name: run.kernel.architecture for run in score}
    used = {
        name: [run.kernel.operation for run in score if run.kernel.architecture.name == name]
        for name in machines
    }
    said = " ".join(machine.given(list(dict.fromkeys(used[name]))) for name, machine in machines.items())
    return f"Times: {said}"


def _chapters(
    runs: Sequence[TiledTrace], score: Sequence[TiledTrace], times: NDArray[np.int64]
) -> list[dict[str, Any]]:
    """Return where the parts of the first run begin, and where each run is done."""
    first = runs[0]
    names = _named(score)
    marks = {
        0: "first copies",
        int(np.min(first.fills[:, _FILL["landed"]])): "first tile landed",
        int(first.work[0, _WORK["cycle"]]): "multiplying",
        int(np.max(first.work[:, _WORK["done"]])): "last sums",
    }
    for name, run in names.items():
        marks[run.cycles - 1] = f"{name} done"
    return [{"cycle": int(np.searchsorted(times, t)), "label": label} for t, label in sorted(marks.items())]


def _python(score: Sequence[TiledTrace]) -> str:
    """Return lines of Python that make the runs again and show them."""
    one = score[0].kernel
    lines = ["import numpy as np", "from pulsewarp import simt, widgets"]
    lines += operand_lines(one.a, one.b, most=MOST_WRITTEN)
    lines.append("traces = [")
    for run in score:
        kernel = run.kernel
        given = {
            "architecture": kernel.architecture.name,
            "dtype": kernel.dtype,
            **({"shape": kernel.shape.name} if kernel.shape else {}),
            "tile": kernel.tile,
            "warps": kernel.warps,
            "stages": kernel.stages,
            "copies": kernel.copies,
            "layout": kernel.layout,
            "load": kernel.load,
        }
        made = "tensor_kernel" if kernel.kind == "mma" else "ffma_kernel"
        settings = ", ".join(f"{name}={value!r}" for name, value in given.items())
        clock = f"schedulers={run.warp.schedulers}, policy={run.warp.policy!r}"
        if run.warp.max_outstanding is not None:
            clock += f", max_outstanding={run.warp.max_outstanding}"
        lines.append(f"    simt.{made}(a, b, {settings}).simulate({clock}),")
    return "\n".join([*lines, "]", "widgets.TensorPlayer(traces)"])
