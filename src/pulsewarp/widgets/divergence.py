"""The player of divergence: the lanes of one warp part at a branch and meet again, one machine or two."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp import _checks
from pulsewarp._text import counted
from pulsewarp.simt import DivergenceTrace
from pulsewarp.simt.divergence import LANE_STATES, OFF, name_lanes
from pulsewarp.widgets._player import FUTURES, HidingPlayer, first_frame
from pulsewarp.widgets._wire import pack

#: What is drawn: longer runs and programs have marks thinner than a pixel.
MOST_CYCLES, MOST_LINES, MOST_CHAPTERS = 2000, 40, 6
TALLY = ("issue_count", "work", "lanes_off")

_RULE = (
    "Rule: one instruction is issued at a time, for the lanes that stand at its line; the others are off, "
    "and their slots are lost."
)
_HELP = (
    "Beside each line of the program, a mark for every lane that stands there, lane 0 on the left. Beside "
    "it, over time, every lane is a row, lane 0 on top: solid where it runs, hatched where it is off.",
    "Before Volta a warp has one program counter. A branch on which lanes disagree puts both paths on a "
    "stack, with the line where they meet: the immediate post-dominator (W. W. L. Fung et al., MICRO 2007).",
    "Since Volta each lane has a program counter of its own and is sure to get on. Which path goes first, "
    "and whether lanes meet again without __syncwarp(), is not documented (NVIDIA, CUDA C++ Programming "
    "Guide).",
    "A barrier counts warps before Volta; since, it counts the threads that have not exited (NVIDIA, Volta "
    "Tuning Guide, 1.4.1.2).",
    "Registers are tracked for the warp as a whole: the second path waits for the first one's result in a "
    "register of the same name.",
)


class DivergencePlayer(HidingPlayer):
    """Play one warp through a program with branches: masks, both paths, the stack; one machine, or two.

    Modelled nothing: the player shows :class:`pulsewarp.simt.DivergenceTrace`. A frame is a cycle.

    Synced traits, beside those of every player: ``selected`` <-> ``[run, lane]``, or ``[]``; runs count from
    0 from the top.

    Parameters
    ----------
    traces : DivergenceTrace, or iterable of one or two
        What ``simt.run_warp`` returned. Two run on one clock, the first above.
    start : int, optional
        Cycle shown at first. Left out: one in which both paths exist; "play" then begins at 0.
    rate : float
        Cycles a second at first.
    title : str, optional
        Instead of the scene's own.
    task : str, optional
        What the reader is asked to do; left out, the scene's own task.
    future : str
        ``"dimmed"`` shows what comes faintly; ``"hidden"`` keeps it from the reader, for a prediction.

    Raises
    ------
    TypeError
        When `traces` holds anything but divergence traces.
    ValueError
        For none or more than two; for more than 2,000 cycles or 40 lines; when `start` lies outside.

    Examples
    --------
    >>> from pulsewarp import simt
    >>> program = '''
    ... if lane < 16:
    ...     x = 1
    ... else:
    ...     x = 2
    ... '''
    >>> DivergencePlayer(simt.run_warp(program, latency=1))
    DivergencePlayer(stack: 3 instructions in 3 cycles)
    """

    _scene = "divergence.js"

    @_checks.names_keywords
    def __init__(
        self,
        traces: DivergenceTrace | Iterable[DivergenceTrace],
        *,
        start: int | None = None,
        rate: float = 2,
        title: str | None = None,
        task: str | None = None,
        future: str = "dimmed",
    ) -> None:
        self._runs = _checked(traces)
        cycles = _cycles(self._runs)
        cursor, poster = first_frame(start, _telling_cycle(self._runs), cycles)
        super().__init__(
            _packed(self._runs),
            cycles=cycles,
            cursor=cursor,
            options={
                "poster": poster,
                "rate": _checks.positive_number("rate", rate),
                "title": title,
                "future": _checks.choice("future", future, FUTURES),
            },
            task=_task(self._runs) if task is None else task,
            shows=_by_name(self._runs),
        )

    def show(self, traces: DivergenceTrace | Iterable[DivergenceTrace]) -> None:
        """Replace the runs in every view."""
        runs = _checked(traces)
        packed = _packed(runs)
        self._runs = runs
        self.replace(packed, cycles=_cycles(runs), cursor=_telling_cycle(runs), shows=_by_name(runs))

    def __repr__(self) -> str:
        named = zip(_short_names(self._runs), self._runs, strict=True)
        told = [
            f"{name}: {counted(run.issue_count, 'instruction')} "
            + (f"and {_unended(run)}" if run.deadlock else f"in {counted(run.cycles, 'cycle')}")
            for name, run in named
        ]
        return f"DivergencePlayer({'; '.join(told)})"


def _checked(traces: DivergenceTrace | Iterable[DivergenceTrace]) -> tuple[DivergenceTrace, ...]:
    """Return one or two traces; refuse those that are too large to be seen."""
    if isinstance(traces, DivergenceTrace):
        traces = (traces,)
    runs = tuple(
        _checks.instance("a trace", run, DivergenceTrace, "make one with simt.run_warp")
        for run in _checks.several("traces", traces, "give one of simt.run_warp, or two in a list")
    )
    if len(runs) not in (1, 2):
        raise ValueError(f"There are {len(runs)} traces, but one or two are shown; give one or two.")
    for run in runs:
        for many, what, most in ((run.cycles, "cycles", MOST_CYCLES), (len(run.lines), "lines", MOST_LINES)):
            if many > most:
                raise ValueError(
                    f"A trace of {many} {what} is above the limit of {most} for a player; take a shorter "
                    f"program, or a smaller latency."
                )
    return runs


def _cycles(runs: tuple[DivergenceTrace, ...]) -> int:
    return max(run.cycles for run in runs)


def _telling_cycle(runs: tuple[DivergenceTrace, ...]) -> int:
    """Return the first cycle in which lanes of the first run are off while a line of their branch runs."""
    run = runs[0]
    off = (run.state[:, : run.lanes] == OFF).any(axis=1)
    plain = np.array([step >= 0 and not run.steps[step].branches for step in run.issued.tolist()])
    for found in (off & plain, (run.issued >= 0) & (run.mask.sum(axis=1) < run.lanes)):
        if found.any():
            return int(np.argmax(found))
    return 0


_NAMES = {
    "stack": ("stack", "before Volta: one program counter and a stack"),
    "converge": ("independent", "since Volta: independent lanes, one path after the other"),
    "traced": ("kernel", "as traced: one path after the other"),
    "alternate": ("alternating", "since Volta: independent lanes, paths take turns"),
}


def _unended(run: DivergenceTrace) -> str:
    """Return what is said of a run whose lanes have not all ended."""
    return "is cut off" if run.cut else "never ends"


def _machine(run: DivergenceTrace) -> tuple[str, str]:
    """Return what a machine is called: a word, and more words."""
    return _NAMES[run.schedule if run.reconvergence == "independent" else run.reconvergence]


def _short_names(runs: tuple[DivergenceTrace, ...]) -> list[str]:
    """Return a word for each run; of two of one machine the upper and the lower."""
    names = [_machine(run)[0] for run in runs]
    if len(set(names)) < len(runs):
        return [f"{name}, {where}" for name, where in zip(names, ("above", "below"), strict=True)]
    return names


def _by_name(runs: tuple[DivergenceTrace, ...]) -> Any:
    return runs[0] if len(runs) == 1 else dict(zip(_short_names(runs), runs, strict=True))


def _told(run: DivergenceTrace, t: int) -> str:
    """Return the sentence of a cycle; another run may still go on when this one is done."""
    if t < run.cycles:
        return run.why(t)
    return (
        str(run.deadlock) if run.deadlock else f"All lanes have ended, after {counted(run.cycles, 'cycle')}."
    )


def _packed(runs: tuple[DivergenceTrace, ...]) -> str:
    """Return the text that crosses to the browser."""
    cycles = _cycles(runs)
    columns: dict[str, NDArray[Any]] = {}
    heads = []
    for r, (run, name) in enumerate(zip(runs, _short_names(runs), strict=True)):
        sentences: dict[str, int] = {}
        standings: dict[tuple[Any, ...], int] = {}
        told = [sentences.setdefault(_told(run, t), len(sentences)) for t in range(cycles)]
        stands = [standings.setdefault(tuple(run.standing(t)), len(standings)) for t in range(run.cycles)]
        so_far = run.so_far
        columns |= {
            f"sentence{r}": np.array(told),
            f"standing{r}": np.array(stands),
            f"state{r}": run.state,
            f"line{r}": np.array([run.lines_at(t) for t in range(run.cycles)]),
            f"value{r}": run.values,
            f"known{r}": run.known,
            f"shared{r}": run.shared,
            f"tally{r}": np.stack([so_far[name] for name in TALLY], axis=1),
            f"efficiency{r}": so_far["efficiency"],
        }
        heads.append({
            "name": name,
            "machine": _machine(run)[1],
            "lines": run.lines,
            "lanes": run.lanes,
            "cycles": run.cycles,
            "ends": run.deadlock is None,
            "ending": _unended(run),
            "first": run.first_line,
            "stacked": run.reconvergence == "stack",
            "registers": run.registers,
            "shared": run.shared_names,
            "sentences": list(sentences),
            "standings": [
                [[*one, name_lanes([lane for lane in range(32) if one[3] >> lane & 1])] for one in rows]
                for rows in standings
            ],
        })  # fmt: skip
    header = {
        "title": "One warp at a branch" if len(runs) == 1 else "One warp at a branch, on two machines",
        "rule": _RULE,
        "simplified": _simplified(runs),
        "given": _given(runs),
        "help": _HELP,
        "python": _python(runs),
        "cycles": cycles,
        "tally": TALLY,
        "states": LANE_STATES,
        "runs": heads,
        "chapters": _chapters(runs),
        "stills": sorted({round(i * (cycles - 1) / 3) for i in range(4)} | {_telling_cycle(runs)}),
    }
    return pack("divergence", header, columns)


def _given(runs: tuple[DivergenceTrace, ...]) -> str:
    """Return lanes, latency and what the lanes share, one line."""
    told = []
    for run in runs:
        shared = [f"{name} = {value}" for name, value in zip(run.shared_names, run.shared_start, strict=True)]
        what = "a load's result" if run.kernel else "a result"
        lanes = f"{counted(run.lanes, 'lane')}, {what} after {counted(run.latency, 'cycle')}"
        told.append(f"{lanes}{'; the lanes share ' if shared else ''}{', '.join(shared)}")
    return f"{'; then '.join(dict.fromkeys(told))}."


def _simplified(runs: tuple[DivergenceTrace, ...]) -> str:
    if all(run.kernel for run in runs):
        return (
            "Simplified: one path after the other, as the kernel was traced; this warp alone on its "
            "scheduler; a compiler may run both sides of a short branch under a predicate instead."
        )
    first = " or ".join(dict.fromkeys(run.first for run in runs))
    free = any(not run.branches for run in runs)
    branch = "a branch takes no cycle" if free else "a branch and a barrier are done in the next cycle"
    return (
        f"Simplified: a line is one instruction, and {branch}. NVIDIA documents neither the stack nor which "
        f"path goes first; shown is the stack of the literature, the {first} path first."
    )


def _task(runs: tuple[DivergenceTrace, ...]) -> str:
    """Return what to look for: who never ends, or what a branch costs."""
    stuck = [run.deadlock is not None and not run.cut for run in runs]
    if any(stuck) and not all(stuck):
        return (
            "before you play, say which machine never ends and who waits for whom there; then step to the "
            "cycle from which on the two differ."
        )
    if any(stuck):
        return "before you play, say which lanes wait for which others; then step to the last cycle."
    if len(runs) == 2:
        return (
            "before you play, say on which machine fewer instructions are issued; then play and compare how "
            "many lane slots each loses."
        )
    return (
        "before you play, count the lines that one lane runs, and those that the warp issues; then play and "
        "see which lane slots are lost."
    )


def _chapters(runs: tuple[DivergenceTrace, ...]) -> list[dict[str, Any]]:
    """Return where lanes of the first run part and meet, and where each run ends."""
    marks = dict(runs[0].events()[:MOST_CHAPTERS])
    for name, run in zip(_short_names(runs), runs, strict=True):
        who = f"{name} " if len(runs) > 1 else ""
        marks.setdefault(run.cycles - 1, f"{who}{run.ending}")
        if run.deadlock and len(runs) > 1:
            marks[run.cycles - 1] = f"{who}{run.ending}"
    return [{"cycle": t, "label": label} for t, label in sorted(marks.items())]


def _python(runs: tuple[DivergenceTrace, ...]) -> str:
    """Return lines of Python that make the runs again."""
    programs = list(dict.fromkeys(run.lines for run in runs if not run.kernel))
    names = ["program"] if len(programs) == 1 else [f"program_{i + 1}" for i in range(len(programs))]
    lines = ["from pulsewarp import simt, widgets", ""]
    for name, program in zip(names, programs, strict=True):
        text = "\n".join(program)
        plain = "'''" not in text and "\\" not in text
        lines += [f"{name} = '''", *program, "'''"] if plain else [f"{name} = {text!r}"]
    lines += ["runs = ["]
    for run in runs:
        if run.kernel:  # its arguments are the reader's
            call, warp = run.kernel
            lines.append(f"    simt.follow_lanes({call}, warp={warp}, load_latency={run.latency}),")
            continue
        given = {"reconvergence": run.reconvergence}
        if run.schedule != "converge":
            given["schedule"] = run.schedule
        if run.first != "then":
            given["first"] = run.first
        words = [f"{key}={value!r}" for key, value in given.items()]
        if run.shared_names:
            words.append(f"shared={dict(zip(run.shared_names, run.shared_start, strict=True))!r}")
        if run.lanes != 32:
            words.append(f"lanes={run.lanes}")
        words.append(f"latency={run.latency}")
        if not run.branches:
            words.append("branches=False")
        lines.append(f"    simt.run_warp({names[programs.index(run.lines)]}, {', '.join(words)}),")
    return "\n".join([*lines, "]", "widgets.DivergencePlayer(runs)"])
