"""The kernel player: a traced kernel line by line, or two of them beside each other on one clock."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp import _checks, ledger, simt
from pulsewarp._text import counted
from pulsewarp.simt.tracing._source import read
from pulsewarp.simt.tracing.replay import Held, Replay, flat
from pulsewarp.simt.tracing.stream import Listing, Memory, TracedInstruction
from pulsewarp.simt.tracing.tracer import three_sizes
from pulsewarp.widgets._player import FUTURES, HidingPlayer, first_frame
from pulsewarp.widgets._warps import stills
from pulsewarp.widgets._wire import Coding, pack

#: Frames times warps of both kernels; the columns still unpack at once.
MOST_CELLS = 2**21
#: Values in registers that travel; beyond them the scene shows addresses only.
MOST_VALUES = 2**20
#: Elements of an array that are drawn; of a larger one a part is.
MOST_ELEMENTS = 2**14
#: Columns of an array's picture; a wider one is drawn in rows of 32 elements.
MOST_COLUMNS, ROW = 128, 32
#: A source with more lines is read in an editor, not beside a picture.
MOST_LINES = 200
#: Numbers written out in the copied Python; larger arrays are made by a comment's advice.
MOST_WRITTEN = 2**13

Kernels = simt.KernelTrace | Iterable[simt.KernelTrace] | Mapping[str, simt.KernelTrace]

SCORE = (
    "cycles", "issued", "masked", "sectors", "least_sectors", "bytes", "wavefronts", "least_wavefronts",
    "slots", "idle",
)  # fmt: skip
_LOADS = {"dram": "LDG", "l2": "LDG.L2", "l1": "LDG.L1"}
WHAT = ("alu", "sfu", "load", "store", "atomic", "branch", "barrier", "warp barrier")

_RULE = (
    "Rule: a warp runs a line for its 32 lanes at once, under a mask; a scheduler issues one instruction a "
    "cycle; global memory moves in 32-byte sectors, shared memory in wavefronts of at most one word a bank."
)
_SIMPLIFIED = (
    "Simplified: one operation of the source is one instruction; every load takes the time of the memory "
    "named above, no caches; what a compiler removes, moves or joins is not modelled; registers and shared "
    "memory do not limit how many blocks are on the SM, and no block follows when one ends."
)
_RACES = (
    " Where threads race, the values are those of one order of several: the warps of a block one after the "
    "other from barrier to barrier."
)
_HELP = (
    "The marked line is the one that the followed warp is at: solid while it issues, dashed while it waits "
    "to. Beside each line stand the warps that are there, and what the line has cost so far, all warps "
    "together.",
    "The picture follows the warp that issues. Click a warp in the strip, or use the arrow keys in the "
    "picture, to stay with one; Escape follows again.",
    "A step is a cycle in which something issues, or the beginning of a stretch in which nothing does; both "
    "kernels share the clock.",
    "A grid is an array: blue is read and orange is written by the followed warp in this step; written "
    "elements are filled. Shared arrays are those of the warp's block. Point at an element to read its "
    "value.",
    "Sectors: 32-byte pieces of global memory that an access touches; in brackets, how many would do if the "
    "same bytes lay side by side. Wavefronts: passes through shared memory, and how many would do without a "
    "bank conflict.",
)


#: What may set two kernels apart, in words; what matters most comes first.
_COUNTED = {"sectors": "moves fewer sectors", "wavefronts": "needs fewer wavefronts"}


class KernelPlayer(HidingPlayer):
    """Play a traced kernel: the source line each warp is at, its lanes, memory, and the score of every line.

    Two kernels stand beside each other on one clock. A frame is a cycle in which something issues, or the
    first of a stretch in which nothing does. Shown as counted: the times are those of `KernelTrace.simulate`,
    the score that of `ledger.warp` and `KernelTrace.lines`; nothing is counted in the browser.

    Synced traits, beside those of every player: ``selected`` <-> ``[kernel, warp]``, or ``[]`` to follow the
    warp that issues; the warp counts within the warps shown.

    Parameters
    ----------
    kernels : KernelTrace, or one or two in a list, or by the names to show
        What `simt.trace_kernel` returned.
    expected : mapping of str to array, optional
        What arrays must hold in the end; "Verify" compares.
    schedulers, policy, max_outstanding, blocks, architecture, served_by, load_latency
        As for `KernelTrace.simulate`, for both kernels alike. A kernel that stops at a divergent barrier is
        shown up to there.
    start : int, optional
        Frame shown at first, from 0. Left out: one in which memory is in use, from which "play" goes to 0.
    rate : float
        Frames a second at first.
    future : str
        ``"dimmed"`` or ``"hidden"``, which keeps what comes from the reader, for a prediction.
    title : str, optional
        Instead of the scene's own.
    task : str, optional
        What the reader is asked to do; left out, the scene's own task.

    Raises
    ------
    TypeError
        When `kernels` are no kernel traces.
    ValueError
        For more than two kernels, for blocks that are not there or exceed 64 warps, and for a run too large
        to be shown; the sentence names the limit.

    Examples
    --------
    >>> from pulsewarp import simt, widgets
    >>> lessons = simt.lesson_kernels
    >>> naive = lessons.product(lessons.naive_product, m=8, k=8, n=8).trace()
    >>> tiled = lessons.product(lessons.tiled_product, m=8, k=8, n=8).trace()
    >>> widgets.KernelPlayer({"naive": naive, "tiled": tiled}, load_latency=40)
    KernelPlayer(naive: 8 warps, 414 cycles; tiled: 8 warps, 720 cycles)
    """

    _scene = "kernel.js"

    @_checks.names_keywords
    def __init__(
        self,
        kernels: Kernels,
        *,
        expected: Mapping[str, NDArray[Any]] | None = None,
        schedulers: int = 4,
        policy: str = "lrr",
        max_outstanding: int | None = None,
        blocks: Sequence[int] | None = None,
        architecture: str | simt.Architecture = "ampere",
        served_by: str = "dram",
        load_latency: int | None = None,
        start: int | None = None,
        rate: float = 2,
        future: str = "dimmed",
        title: str | None = None,
        task: str | None = None,
    ) -> None:
        self._timing: dict[str, Any] = {
            "schedulers": schedulers, "policy": policy, "max_outstanding": max_outstanding,
            "architecture": architecture, "served_by": served_by, "load_latency": load_latency,
        }  # fmt: skip
        self._own_task = task is None
        self._shown = run = _read(kernels, expected or {}, blocks, self._timing)
        cursor, poster = first_frame(start, run.poster, run.frames)
        super().__init__(
            run.pack(),
            cycles=run.frames,
            cursor=cursor,
            options={
                "poster": poster,
                "rate": _checks.positive_number("rate", rate),
                "future": _checks.choice("future", future, FUTURES),
                "title": title,
            },
            task=run.task if task is None else task,
            shows=run.checked,
        )

    @_checks.names_keywords
    def show(
        self,
        kernels: Kernels,
        *,
        expected: Mapping[str, NDArray[Any]] | None = None,
        blocks: Sequence[int] | None = None,
    ) -> None:
        """Replace the kernels in every view, timed as the first ones were; for instance by the reader's own.

        Parameters
        ----------
        kernels, expected, blocks
            As for the class.
        """
        run = _read(kernels, expected or {}, blocks, self._timing)
        packed = run.pack()
        self._shown = run
        with self.hold_sync():
            self.replace(packed, cycles=run.frames, cursor=run.poster, shows=run.checked)
            if self._own_task:
                self.options = {**self.options, "task": run.task}

    def __repr__(self) -> str:
        told = (
            f"{name}: {counted(r.trace.warps, 'warp')}, {counted(r.cycles, 'cycle')}"
            for name, r in self._shown.replays.items()
        )
        return f"KernelPlayer({'; '.join(told)})"


def _read(
    kernels: Kernels,
    expected: Mapping[str, NDArray[Any]],
    blocks: Sequence[int] | None,
    timing: Mapping[str, Any],
) -> _Run:
    """Return what is shown: one or two kernels, timed; refuse what cannot be."""
    if isinstance(kernels, simt.KernelTrace):
        kernels = (kernels,)
    if not isinstance(kernels, Mapping):
        several = _checks.several("kernels", kernels, "give one, or two in a list")
        kernels = dict(zip(_names(several), several, strict=True))
    if not 1 <= len(kernels) <= 2:
        raise ValueError(f"There are {len(kernels)} kernels, but one or two are shown; give one or two.")
    replays = {}
    for name, kernel in kernels.items():
        _checks.instance("A kernel", kernel, simt.KernelTrace, "pass what simt.trace_kernel returned")
        lines = sum(len(listing.lines) for listing in _listings(kernel))
        if lines > MOST_LINES:
            raise ValueError(
                f"{kernel.name} has {lines} lines with the functions it calls, but at most {MOST_LINES} are "
                "shown; trace a shorter kernel."
            )
        if not any(warp.instructions for warp in kernel.warps):
            raise ValueError(
                f"{kernel.name} issues no instruction, so there is nothing to show; let it store."
            )
        trace = kernel.simulate(**timing, blocks=blocks, until_stop=True)
        for array in expected:
            _checks.choice("array", array, kernel.results)
        replays[str(name)] = Replay(kernel, trace, kernel.resident_warps(blocks), dict(expected))
    run = _Run(replays, None if blocks is None else list(blocks), timing)
    cells = sum(run.frames * replay.trace.warps for replay in replays.values())
    if cells > MOST_CELLS:
        raise ValueError(
            f"The run has {run.frames} steps of {sum(r.trace.warps for r in replays.values())} warps, "
            f"{cells} in all, but at most {MOST_CELLS} are shown; name fewer blocks, such as blocks=[0]."
        )
    return run


def _names(kernels: Sequence[Any]) -> list[str]:
    """Return a name for each kernel: its own, with a number where both have the same."""
    names = [str(getattr(kernel, "name", "kernel")) for kernel in kernels]
    return names if len(set(names)) == len(names) else [f"{n}, {i}" for i, n in enumerate(names, start=1)]


def _listings(kernel: simt.KernelTrace) -> tuple[Listing, ...]:
    """Return the kernel's source, then that of the functions it calls."""
    return (Listing(kernel.name, kernel.source, kernel.first_line), *kernel.helpers)


@dataclass(frozen=True, eq=False)
class _Run:
    """The kernels of one scene, by name, and the cycles that are its frames."""

    replays: Mapping[str, Replay]
    blocks: list[int] | None
    timing: Mapping[str, Any]

    @property
    def checked(self) -> Mapping[str, Replay]:
        """What "Verify" asks, by name; a single kernel needs none."""
        return self.replays if len(self.replays) > 1 else {"": next(iter(self.replays.values()))}

    @property
    def cycles(self) -> int:
        """Cycles until the last kernel has ended."""
        return max(replay.cycles for replay in self.replays.values())

    @property
    def times(self) -> NDArray[np.int64]:
        """The cycle of each frame: issues, beginnings of stretches without any, and each kernel's end."""
        busy = np.unique(np.concatenate([r.issues[:, 0] for r in self.replays.values()]))
        marks = [busy, busy + 1, [0, self.cycles - 1], [r.cycles for r in self.replays.values()]]
        times = np.unique(np.concatenate(marks))
        return times[times < self.cycles].astype(np.int64)

    @property
    def frames(self) -> int:
        return int(self.times.size)

    @property
    def poster(self) -> int:
        """The first frame past a third of the shorter run in which the most followed warps use memory."""
        times = self.times
        use = np.zeros(times.size, np.int64)
        for replay in self.replays.values():
            memory = [i.memory is not None for i in replay.issued]
            cycles = np.unique(replay.issues[:, 0][memory])
            use[np.searchsorted(times, cycles)] += 1
        shortest = min(replay.cycles for replay in self.replays.values())
        use[times < shortest // 3] = 0
        use[times >= shortest] = 0
        return int(np.argmax(use))

    @property
    def task(self) -> str:
        """What to do with this run."""
        wrong = next(((n, r.kernel.problems[0]) for n, r in self.replays.items() if r.kernel.problems), None)
        if wrong is not None:
            name, problem = wrong
            return (
                f"step to where {name} runs line {problem.line}, find in lanes and memory what the list of "
                "problems says of it, and say what you would change."
            )
        if len(self.replays) == 2:
            one, other = self.replays
            return (
                f"before you play, say whether {one} or {other} {self._difference()}, and which line of the "
                "other costs the difference; then step to the end and check."
            )
        return (
            "before you play, say which line will have moved the most sectors at the end, and in "
            "which of its "
            "lines lanes will be masked off; then step to the end and check."
        )

    def _difference(self) -> str:
        """Return in words what sets two kernels apart: the first count that is not the same for both."""
        for what, words in _COUNTED.items():
            one, other = (sum(getattr(i, what) or 0 for i in r.issued) for r in self.replays.values())
            if one != other:
                return words
        return "takes fewer cycles"

    def pack(self) -> str:
        """Return the text that crosses to the browser."""
        times = self.times
        columns: dict[str, NDArray[Any]] = {"time": times}
        codings: dict[str, Coding] = {"time": "delta"}
        heads, ends = [], []
        scores = []
        keeps_values = sum(len(r.issues) * 32 for r in self.replays.values()) <= MOST_VALUES
        for n, (name, replay) in enumerate(self.replays.items()):
            shown = _Shown(replay, times)
            score = shown.score(self.blocks)
            scores.append(score)
            head, own = shown.columns(score, keeps_values)
            heads.append({"name": name, **head})
            ends.append(int(np.searchsorted(times, replay.cycles)))
            columns |= {f"{key}{n}": column for key, column in own.items()}
            codings |= {f"{key}{n}": "delta" for key in _DELTAS}
        if len(scores) == 2:
            with np.errstate(divide="ignore", invalid="ignore"):
                columns["ratio"] = (scores[0] / scores[1]).astype(np.float32)
        chapters = self._chapters()
        header = {
            "title": self._title(),
            "rule": _RULE,
            "simplified": self._simplified(keeps_values),
            "given": self._given(),
            "help": [*_HELP, self._sources()],
            "python": _python(self),
            "frames": int(times.size),
            "cycles": self.cycles,
            "states": list(simt.STATES),
            "what": WHAT,
            "score": SCORE,
            "kernels": heads,
            "ends": ends,
            "chapters": chapters,
            "stills": stills(times.size, [(self.poster, ""), *((c["cycle"], c["label"]) for c in chapters)]),
        }
        return pack("kernel", header, columns, codings)

    def _title(self) -> str:
        names = list(self.replays)
        if len(names) == 2:
            return f"Two kernels on one clock: {names[0]} and {names[1]}"
        kernel = self.replays[names[0]].kernel
        blocks, threads = int(np.prod(kernel.grid)), int(np.prod(kernel.block))
        of = f"{counted(blocks, 'block')} of {counted(threads, 'thread')}"
        return f"{names[0]}, line by line: {of}"

    def _simplified(self, keeps_values: bool) -> str:
        told = _SIMPLIFIED
        if any(p.kind == "race" for r in self.replays.values() for p in r.kernel.problems):
            told += _RACES
        if not keeps_values:
            told += f" The run has more than {MOST_VALUES:,} values in registers: they are left out."
        for name, replay in self.replays.items():
            blocks = sorted(set(replay.trace.blocks))
            every = int(np.prod(replay.kernel.grid))
            if len(blocks) < every:
                which = _ranges(blocks)
                told += (
                    f" Of the {every} blocks of {name}, {which} {'is' if len(blocks) == 1 else 'are'} shown."
                )
            for head in map(_drawn, replay.arrays):
                if head.of > head.count:
                    told += f" Of {head.name}, {head.of:,} elements, {head.count:,} are drawn."
        return told

    def _given(self) -> str:
        """Return the times, one line; where they come from stands in the help."""
        machine = simt.architecture(self.timing["architecture"])
        own = self.timing["load_latency"]
        given, loads = "", [_LOADS[self.timing["served_by"]]]
        if own is not None:
            given = f"Loads of global memory take {counted(own, 'cycle')} here, so that they can be watched. "
            loads = []
        used = [name for name in (*loads, "LDS", "FFMA") if name in machine.operations]
        costs = ", ".join(f"{name} {machine.operations[name].latency}" for name in used)
        policy = simt.POLICY_NAMES[self.timing["policy"]]
        return (
            f"{given}{counted(self.timing['schedulers'], 'scheduler')}, {policy}, on {machine.title}; "
            "cycles until "
            f"the result: {costs}. Sources: see Help."
        )

    def _sources(self) -> str:
        machine = simt.architecture(self.timing["architecture"])
        load = _LOADS[self.timing["served_by"]]
        used = [name for name in (load, "LDS", "FFMA") if name in machine.operations]
        return f"Where the times come from. {machine.given(used)}"

    def _chapters(self) -> list[dict[str, Any]]:
        """Return where each kernel first does something of another kind, and where it ends."""
        times = self.times
        found: list[tuple[int, str]] = [(0, "start")]
        two = len(self.replays) == 2
        for name, replay in self.replays.items():
            lead = f"{name}: " if two else ""
            seen: dict[str, int] = {}
            for (t, _, _), i in zip(replay.issues.tolist(), replay.issued, strict=True):
                kind = _kind(i)
                if kind:
                    seen.setdefault(kind, t)
            kinds = (
                ("barrier", "stores") if two else ("loads", "shared memory", "barrier", "atomics", "stores")
            )
            found += [(seen[kind], f"{lead}{kind}") for kind in kinds if kind in seen]
            if not two or replay.cycles < self.cycles:
                stops = any(p.kind == "divergent_barrier" for p in replay.kernel.problems)
                found.append(
                    (min(replay.cycles, self.cycles - 1), f"{lead}{'stopped' if stops else 'ended'}")
                )
        by_frame: dict[int, str] = {}
        for t, label in sorted(found, key=lambda each: each[0]):
            by_frame.setdefault(int(np.searchsorted(times, t)), label)
        return [{"cycle": frame, "label": label} for frame, label in by_frame.items()]


def _kind(i: TracedInstruction) -> str:
    """Return which chapter an instruction may open."""
    if i.what == "barrier":
        return "barrier"
    if i.memory is None or i.memory.space == "local":
        return ""
    if i.what == "atomic":
        return "atomics"
    return "shared memory" if i.memory.space == "shared" else f"{i.what}s"


def _ranges(numbers: Sequence[int]) -> str:
    """Return block numbers in words: ``block 2`` or ``blocks 0 to 7``."""
    if len(numbers) == 1:
        return f"block {numbers[0]}"
    if numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"blocks {numbers[0]} to {numbers[-1]}"
    return f"blocks {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


# --- one kernel's columns ----------------------------------------------------------------------------------

_DELTAS = ("pc", "until", "score", "line_score", "issue_frame", "change_frame", "follow", "lost")


@dataclass(frozen=True)
class _Grid:
    """How an array is drawn: in rows and columns, from an element on, in the order of its indices."""

    name: str
    rows: int
    cols: int
    start: int
    count: int
    of: int
    wrapped: bool


def _drawn(held: Held) -> _Grid:
    """Return how an array is drawn; a local one has a row for each lane."""
    memory = held.memory
    size = int(np.prod(memory.shape))
    if memory.space == "local":
        rows, cols, wrapped = 32, size, False
    elif len(memory.shape) == 1:
        rows, cols, wrapped = -(-size // ROW), min(size, ROW), size > ROW
    else:
        rows, cols, wrapped = size // max(1, memory.shape[-1]), memory.shape[-1], False
    if cols > MOST_COLUMNS:
        rows, cols, wrapped = -(-rows * cols // ROW), ROW, True
    of = size * (32 if memory.space == "local" else 1)
    rows = min(rows, MOST_ELEMENTS // max(1, cols))
    return _Grid(" = ".join(held.names), rows, cols, 0, min(of, rows * cols), of, wrapped)


def _by_index(memory: Memory) -> NDArray[np.int64] | None:
    """Return where each element of memory stands in the order of indices, None where that is the same."""
    size = int(np.prod(memory.shape))
    order = flat(memory, np.arange(size).reshape(memory.shape))
    return None if memory.space == "local" or (order == np.arange(size)).all() else order


class _Shown:
    """What one kernel of a scene sends."""

    def __init__(self, replay: Replay, times: NDArray[np.int64]) -> None:
        self.replay = replay
        self.times = times
        self.clipped = np.minimum(times, replay.cycles - 1)
        self.lines, self.by_line = replay.lines(times)
        self.grids = [_drawn(held) for held in replay.arrays]
        self.orders = [_by_index(held.memory) for held in replay.arrays]

    def score(self, blocks: Sequence[int] | None) -> NDArray[np.int64]:
        """Return `SCORE` by frame: what the ledger has charged so far; cycles are those that have passed."""
        replay, at = self.replay, self.clipped
        self.bill = bill = ledger.warp(replay.trace, kernel=replay.kernel, blocks=blocks)
        none = np.zeros(replay.cycles, np.int64)
        lines = self.by_line.sum(axis=1)
        score = {
            "cycles": np.minimum(self.times + 1, replay.cycles),
            "issued": bill.issued[at],
            "masked": bill.masked[at],
            "sectors": (none if bill.sectors is None else bill.sectors)[at],
            "least_sectors": lines[:, 4],
            "bytes": (none if bill.bytes is None else bill.bytes)[at],
            "wavefronts": (none if bill.wavefronts is None else bill.wavefronts)[at],
            "least_wavefronts": lines[:, 6],
            "slots": bill.slots[at],
            "idle": (bill.slots - bill.issued)[at],
        }
        return np.stack([score[name] for name in SCORE], axis=1).astype(np.int64)

    def columns(
        self, score: NDArray[np.int64], keeps_values: bool
    ) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return header and columns of this kernel."""
        replay, trace, at = self.replay, self.replay.trace, self.clipped
        reasons = [reason for reason, count in self.bill.lost.items() if count[-1] > 0]
        lost = [self.bill.lost[reason][at] for reason in reasons]
        head, instructions = self._instructions(keeps_values)
        changes = self._changes()
        columns: dict[str, NDArray[Any]] = {
            "state": trace.state[at],
            "pc": trace.pc[at],
            "until": trace.until[at],
            "follow": self._follow(),
            "score": score,
            "lost": np.stack(lost, axis=1) if lost else np.zeros((at.size, 0), np.int64),
            "line_score": self.by_line[:, :, [0, 2, 3, 4, 5, 6]],
            **instructions,
            **changes,
            **{f"before{a}_": column for a, column in self._before().items()},
        }
        kernel = replay.kernel
        header = {
            "kernel": kernel.name,
            "warps": trace.warps,
            "schedulers": trace.schedulers,
            "cycles": replay.cycles,
            "blocks": list(trace.blocks),
            "warp_in_block": [kernel.warps[w].warp for w in replay.warps],
            "lanes": [kernel.warps[w].mask.bit_count() for w in replay.warps],
            "owner": list(replay.warps),
            "source": self._source(),
            "lines": list(self.lines),
            "lost": reasons,
            "uses_shared": any(held.memory.space == "shared" for held in replay.arrays),
            "stops": any(kernel.warps[w].stopped for w in replay.warps),
            "arrays": [self._array(a) for a in range(len(self.grids))],
            "problems": [self._problem(p) for p in kernel.problems],
            **head,
        }
        return header, columns

    def _source(self) -> list[dict[str, Any]]:
        """Return the lines shown, each with its number; the kernel's own come first."""
        taken: set[int] = set()
        rows: list[dict[str, Any]] = []
        for listing in _listings(self.replay.kernel):
            if rows:
                rows.append({"line": -1, "text": f"{listing.name}, which it calls"})
            silent = _docstring(listing.lines)
            for n, text in enumerate(listing.lines):
                line = listing.first_line + n
                if line not in taken and n not in silent and text.strip():
                    rows.append({"line": line, "text": text.partition("  # type: ignore")[0]})
                    taken.add(line)
        return rows

    def _array(self, a: int) -> dict[str, Any]:
        held, grid = self.replay.arrays[a], self.grids[a]
        written = {"store", "atomic"}
        output = any(
            i.what in written and i.memory is not None and self.replay.places[id(i.memory)] == a
            for i in self.replay.issued
        )
        return {
            "name": grid.name,
            "first": held.names[0],
            "space": held.memory.space,
            "dtype": held.memory.dtype,
            "shape": list(held.memory.shape),
            "rows": grid.rows,
            "cols": grid.cols,
            "count": grid.count,
            "of": grid.of,
            "wrapped": grid.wrapped,
            "written": output,
        }

    def _problem(self, problem: simt.tracing.Problem) -> dict[str, Any]:
        lines = [touch.line for touch in problem.touches] or [problem.line]
        return {"kind": problem.kind.replace("_", " "), "text": str(problem), "lines": sorted(set(lines))}

    def _follow(self) -> NDArray[np.int64]:
        """Return the warp followed in each frame: the first that issues, else the one before."""
        issues = self.replay.issues
        first = np.full(self.times.size, -1, np.int64)
        frames = np.searchsorted(self.times, issues[:, 0])
        first[frames[::-1]] = issues[::-1, 1]  # of several in a cycle the first remains
        last = np.maximum.accumulate(np.where(first >= 0, np.arange(first.size), -1))
        follow = np.where(last >= 0, first[last], 0)
        stopped = [w for w, own in enumerate(self.replay.warps) if self.replay.kernel.warps[own].stopped]
        if stopped:  # when nothing issues any more, one that waits for ever
            follow[int(frames[-1]) + 1 :] = stopped[0]
        return follow

    def _instructions(self, keeps_values: bool) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return every instruction issued, in the order of issue, with the lanes' elements and values."""
        replay = self.replay
        texts: dict[str, int] = {}
        rows = []
        elements: dict[bytes, int] = {}
        values: dict[bytes, int] = {}
        touched: list[NDArray[np.int64]] = []
        held: list[NDArray[np.float64]] = []
        programs = replay.trace.programs
        for (_, w, pc), i in zip(replay.issues.tolist(), replay.issued, strict=True):
            place = value = array = -1
            if i.memory is not None:
                array = replay.places[id(i.memory)]
                place = _numbered(elements, touched, self._positions(array, replay.cells(i)))
            if i.values is not None and keeps_values:
                value = _numbered(values, held, i.values.astype(np.float64))
            many = i.sectors if i.sectors is not None else i.wavefronts
            timed = programs[w][pc]
            rows.append(
                (
                    w, pc, i.line, texts.setdefault(i.text, len(texts)), WHAT.index(_what(i)), i.mask, array,
                    -1 if many is None else many, -1 if i.least is None else i.least, timed.latency, place,
                    value,
                )
            )  # fmt: skip
        names = (
            "warp", "at", "line", "text", "kind", "mask", "array", "count", "least", "latency", "place",
            "value",
        )  # fmt: skip
        table = np.array(rows, np.int64).reshape(-1, len(names))
        columns: dict[str, NDArray[Any]] = {f"i_{name}": table[:, n] for n, name in enumerate(names)}
        columns["issue_frame"] = np.searchsorted(self.times, replay.issues[:, 0])
        columns["places"] = np.array(touched, np.int64).reshape(-1, 32)
        columns["values"] = _narrow(np.array(held, np.float64).reshape(-1, 32))
        return {"texts": list(texts), "values": keeps_values}, columns

    def _positions(self, array: int, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return elements as their places in the order of indices."""
        order = self.orders[array]
        return cells if order is None else np.where(cells >= 0, order[cells], -1)

    def _changes(self) -> dict[str, NDArray[Any]]:
        """Return what is written, in the order of the clock, as far as it is drawn."""
        changes, issues = self.replay.changes, self.replay.issues
        position = changes.element.copy()
        for a, order in enumerate(self.orders):
            mine = changes.array == a
            if order is not None and mine.any():
                position[mine] = order[position[mine]]
        limits = np.array([grid.count for grid in self.grids] or [0])
        kept = position < limits[changes.array] if changes.array.size else np.zeros(0, np.bool_)
        return {
            "change_frame": np.searchsorted(self.times, issues[changes.issue[kept], 0]),
            "change_array": changes.array[kept],
            "change_owner": changes.owner[kept],
            "change_place": position[kept],
            "change_value": _narrow(changes.value[kept]),
        }

    def _before(self) -> dict[int, NDArray[Any]]:
        """Return what each argument holds before the kernel runs, as far as it is drawn."""
        found = {}
        for a, (held, grid) in enumerate(zip(self.replay.arrays, self.grids, strict=True)):
            if held.before is not None:
                given = self.replay.kernel.arguments[held.names[0]].reshape(-1)
                found[a] = _narrow(given[: grid.count].astype(np.float64))
        return found


def _docstring(lines: Sequence[str]) -> range:
    """Return which lines of a function are its docstring: they issue nothing."""
    (definition,) = ast.parse("\n".join(lines)).body
    first = definition.body[0] if isinstance(definition, ast.FunctionDef) else None
    if (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    ):
        return range(first.lineno - 1, first.end_lineno or first.lineno)
    return range(0)


def _what(i: TracedInstruction) -> str:
    """Return what kind of instruction it is to the scene; what it does not know computes."""
    return i.what if i.what in WHAT else "alu"


def _numbered(known: dict[bytes, int], kept: list[NDArray[Any]], row: NDArray[Any]) -> int:
    """Return the number of a row of lanes, the same for equal rows."""
    key = row.tobytes()
    if key not in known:
        known[key] = len(kept)
        kept.append(row)
    return known[key]


def _narrow(values: NDArray[np.float64]) -> NDArray[Any]:
    """Return the values in float32 where that is exact."""
    with np.errstate(over="ignore", invalid="ignore"):
        half = values.astype(np.float32)
    return half if ((half == values) | (values != values)).all() else values


# --- copied as Python --------------------------------------------------------------------------------------


def _python(run: _Run) -> str:
    """Return lines of Python that make the scene again."""
    lines: list[str] = []
    imports = ["from pulsewarp import simt, widgets"]
    calls = []
    for n, (name, replay) in enumerate(run.replays.items()):
        variable = f"run_{n}" if len(run.replays) > 1 else "run"
        known = _lesson(replay.kernel)
        if known is None:
            written, needs = _written(replay.kernel, f"_{n}" if len(run.replays) > 1 else "")
            imports = list(dict.fromkeys([*imports, *needs]))
            lines += written
            known = lines.pop()
        lines.append(f"{variable} = {known}")
        calls.append(f"{name!r}: {variable}")
    arguments = ["{" + ", ".join(calls) + "}"]
    default = {
        "schedulers": 4, "policy": "lrr", "max_outstanding": None, "served_by": "dram", "load_latency": None,
    }  # fmt: skip
    arguments += [f"{key}={run.timing[key]!r}" for key, value in default.items() if run.timing[key] != value]
    architecture = simt.architecture(run.timing["architecture"]).name
    if architecture != "ampere":
        arguments.append(f"architecture={architecture!r}")
    if run.blocks is not None:
        arguments.append(f"blocks={run.blocks!r}")
    return "\n".join([*imports, "", *lines, f"widgets.KernelPlayer({', '.join(arguments)})"])


def _lesson(kernel: simt.KernelTrace) -> str | None:
    """Return the call that traces a lesson's kernel with its own arguments, None for any other run."""
    lessons = simt.lesson_kernels
    function = getattr(lessons, kernel.name, None)
    if not isinstance(function, FunctionType) or read(function).lines != kernel.source:
        return None
    found = []
    if kernel.name in lessons.LESSONS:
        found.append((lessons.LESSONS[kernel.name], f"simt.lesson_kernels.LESSONS[{kernel.name!r}].trace()"))
    if kernel.name.endswith("_product") and {"a", "b"} <= set(kernel.arguments):
        (m, k), n = kernel.arguments["a"].shape, kernel.arguments["b"].shape[1]
        call = f"simt.lesson_kernels.product(simt.lesson_kernels.{kernel.name}, m={m}, k={k}, n={n}).trace()"
        found.append((lessons.product(function, m=m, k=k, n=n), call))
    given = list(kernel.arguments.values())
    for lesson, call in found:
        same = all(_same(one, other) for one, other in zip(lesson.args, given, strict=True))
        launch = three_sizes("grid", lesson.grid), three_sizes("block", lesson.block)
        if same and launch == (kernel.grid, kernel.block):
            return call
    return None


def _same(one: Any, other: Any) -> bool:
    one, other = np.asarray(one), np.asarray(other)
    return one.dtype == other.dtype and one.shape == other.shape and bool((one == other).all())


def _written(kernel: simt.KernelTrace, mark: str) -> tuple[list[str], list[str]]:
    """Return the lines that define and trace a kernel, the call last, and the imports that they need.

    The lines are for a cell or a file: Python keeps no source of what is typed elsewhere.
    """
    imports = ["import numpy as np"]
    lines: list[str] = []
    functions = {listing.name: listing for listing in kernel.helpers}
    for name, thing in kernel.outside.items():
        if isinstance(thing, ModuleType):
            imports.append(_import(name, thing))
        elif getattr(thing, "__name__", name) in functions:
            continue
        elif callable(thing) and getattr(thing, "__module__", None) and not isinstance(thing, np.generic):
            own = thing.__name__ if hasattr(thing, "__name__") else str(thing)
            imports.append(f"from {thing.__module__.partition('.')[0]} import {own}{_as(own, name)}")
        else:
            lines.append(f"{name} = {_thing(thing)}")
    for listing in (*kernel.helpers, Listing(kernel.name, kernel.source, kernel.first_line)):
        lines += ["", *(line for line in listing.lines if not line.lstrip().startswith("@"))]
    lines.append("")
    by_base: dict[int, str] = {}
    names = []
    bases = {m.name: m for m in kernel.memory if m.space == "global"}
    for parameter, given in kernel.arguments.items():
        if not isinstance(given, np.ndarray):
            names.append(_thing(given))
            continue
        memory = bases[parameter]
        if memory.base not in by_base:
            by_base[memory.base] = f"{parameter}{mark}"
            lines.append(f"{parameter}{mark} = {_array_text(given, memory)}")
        names.append(by_base[memory.base])
    args = f"({', '.join(names)},)" if len(names) == 1 else f"({', '.join(names)})"
    lines.append(f"simt.trace_kernel({kernel.name}, grid={kernel.grid}, block={kernel.block}, args={args})")
    return lines, imports


def _import(name: str, module: ModuleType) -> str:
    """Return the line that imports a module under its name."""
    parent, _, own = module.__name__.rpartition(".")
    return f"from {parent} import {own}{_as(own, name)}" if parent else f"import {own}{_as(own, name)}"


def _as(own: str, name: str) -> str:
    return "" if own == name else f" as {name}"


def _thing(thing: Any) -> str:
    """Return a number or a type as Python writes it."""
    if isinstance(thing, np.generic):
        return f"np.{thing.dtype.name}({_number(thing)})"
    return f"np.dtype({thing.name!r})" if isinstance(thing, np.dtype) else repr(thing)


def _number(value: Any) -> str:
    """Return a NumPy number in the fewest digits that give it back."""
    text = str(value)
    return f"np.{text}" if text in ("nan", "inf") else "-np.inf" if text == "-inf" else text


def _array_text(array: NDArray[Any], memory: Memory) -> str:
    """Return an array as Python that makes it again."""
    dtype = f"np.{array.dtype.name}" if array.dtype.name != "bool" else "bool"
    shape = array.shape[0] if array.ndim == 1 else array.shape
    if array.size == 0 or (array == array.reshape(-1)[0]).all():
        first = array.reshape(-1)[0] if array.size else 0
        made = f"np.zeros({shape}, {dtype})" if not first else f"np.full({shape}, {_number(first)}, {dtype})"
    elif array.ndim == 1 and (array == np.arange(array.size).astype(array.dtype)).all():
        return f"np.arange({array.size}, dtype={dtype})"
    elif array.size > MOST_WRITTEN:
        return f"...  # your array of shape {array.shape} in {array.dtype.name}"
    else:
        made = f"np.array([{', '.join(map(_number, array.reshape(-1)))}], {dtype})"
        made += f".reshape{array.shape}" if array.ndim > 1 else ""
    return made if memory.row_major or not array.size else f"np.asfortranarray({made})"
