"""The player of barriers: who has arrived, who is late and what it does, and what the waiting cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp import _checks, ledger, simt
from pulsewarp._text import counted
from pulsewarp.widgets import _source, _warps
from pulsewarp.widgets._player import FUTURES, HidingPlayer, first_frame
from pulsewarp.widgets._wire import pack

MOST_WARPS = 64  # what one SM holds at most
MOST_CELLS = 2**19  # cycles x warps of all runs: their sentences take seconds
MOST_TOLD = 3  # blocks; of more, only the chosen warp's has a sentence of its own, and all share one
MOST_CHAPTERS = 6  # openings

_RULE = (
    "Rule: a barrier opens in the cycle after the last thread of its block that has not exited reached it; "
    "other blocks go on."
)
_SIMPLIFIED = (
    "Simplified: a barrier takes one issue slot and no unit, and opens one cycle after the last arrival; "
    "what a real one takes beyond that is not modelled, nor are barriers for a part of a block."
)
_HELP = (
    "A row is a warp, a column a cycle; a short mark is an instruction it issues. Red stripes: it stands at "
    "the barrier, from the cycle after it arrived until the green line, where the barrier opens.",
    "The orange mark in a row is the arrival that opened the barrier: all others waited for this one. The "
    "number at the right is what a warp has waited so far, in cycles.",
    "An issue slot is one scheduler for one cycle. It is lost to a barrier when none of the scheduler's "
    "warps can issue and the barrier is what they wait for; a warp that waits costs nothing while others "
    "keep its scheduler busy.",
    "A barrier waits for threads, not for warps: if only some threads of a warp reach it and the others "
    "neither arrive nor exit, it never opens.",
)


class BarrierPlayer(HidingPlayer):
    """Play the barriers of a run, or of two runs on one clock: arrivals, the late warp, openings, the cost.

    Modelled nothing: the player shows what :func:`pulsewarp.simt.barriers` reads from a trace, and what
    :func:`pulsewarp.ledger.warp` charges to barriers.

    Synced traits, beside those of every player: ``selected`` <-> ``[run, warp]``, or ``[]``; runs count
    from 0 from the top.

    Parameters
    ----------
    traces : WarpTrace, or mapping of str to WarpTrace
        One run, or one or two by name. Each has at most 64 warps, and one of them a barrier.
    start : int, optional
        The cycle shown at first; left out, the middle of the longest wait at a first barrier, from which
        "play" goes back to cycle 0.
    rate : float
        Cycles a second at first.
    title : str, optional
        Another title than the one made from the runs.
    latencies, architecture
        As for `WarpPlayer`.
    future : str
        ``"dimmed"`` shows what comes faintly; ``"hidden"`` keeps it from the reader, for a prediction.
    task : str, optional
        What the reader is asked to do; left out, the scene's own task.

    Raises
    ------
    ValueError
        For none or more than two runs, for runs without a barrier, and for runs too large to be shown.
    TypeError
        When something else than traces is given.

    Examples
    --------
    >>> from pulsewarp import simt, widgets
    >>> late, other = simt.chain_and_barrier(4, 18), simt.chain_and_barrier(4, 6)
    >>> runs = {"one late": [late] + [other] * 7, "none late": [other] * 8}
    >>> widgets.BarrierPlayer({name: simt.simulate(programs) for name, programs in runs.items()})
    BarrierPlayer(one late: 8 warps, 4 barriers, 288 cycles; none late: 8 warps, 4 barriers, 97 cycles)
    """

    _scene = "barrier.js"

    @_checks.names_keywords
    def __init__(
        self,
        traces: simt.WarpTrace | Mapping[str, simt.WarpTrace],
        *,
        start: int | None = None,
        rate: float = 4,
        title: str | None = None,
        latencies: str = "illustrative",
        architecture: str | simt.Architecture | None = None,
        future: str = "dimmed",
        task: str | None = None,
    ) -> None:
        self._runs = _checked(traces)
        cycles = max(run.trace.cycles for run in self._runs.values())
        cursor, poster = first_frame(start, _telling_cycle(self._runs), cycles)
        given = _warps.given([run.trace for run in self._runs.values()], str(latencies), architecture)
        super().__init__(
            _packed(self._runs, given, _warps.settings(str(latencies), architecture)),
            cycles=cycles,
            cursor=cursor,
            options={
                "title": title,
                "rate": _checks.positive_number("rate", rate),
                "poster": poster,
                "future": _checks.choice("future", future, FUTURES),
            },
            task=_task(self._runs) if task is None else task,
            shows=self._runs,
        )

    def __repr__(self) -> str:
        told = (
            f"{name}{': ' * bool(name)}{counted(run.trace.warps, 'warp')}, "
            f"{counted(len(run.rounds), 'barrier')}, {counted(run.trace.cycles, 'cycle')}"
            for name, run in self._runs.items()
        )
        return f"BarrierPlayer({'; '.join(told)})"


def _checked(traces: simt.WarpTrace | Mapping[str, simt.WarpTrace]) -> dict[str, simt.Barriers]:
    """Return the barriers of one or two runs by name; refuse what cannot be shown."""
    if not isinstance(traces, Mapping):
        traces = {"": traces}
    if len(traces) not in (1, 2):
        raise ValueError(f"There are {len(traces)} runs, but one or two are shown; give one or two.")
    remedy = "make one with simt.simulate, or give two by name"
    for name, trace in traces.items():
        which = f"The trace {name!r}" if name else "traces"
        _checks.instance(which, trace, simt.WarpTrace, remedy)
        few = "One SM holds no more; simulate fewer."
        _checks.whole_number("The number of warps", trace.warps, most=MOST_WARPS, remedy=few)
    cells = sum(trace.cycles * trace.warps for trace in traces.values())
    if cells > MOST_CELLS:
        raise ValueError(
            f"The runs have {cells} cells (cycles x warps), but at most {MOST_CELLS} can be shown; simulate "
            f"a shorter program or fewer warps."
        )
    runs = {str(name): simt.barriers(trace) for name, trace in traces.items()}
    if not any(run.rounds for run in runs.values()):
        raise ValueError(
            "No program of the trace reaches a barrier; put simt.bar() into one, or use "
            "simt.chain_and_barrier."
        )
    return runs


def _telling_cycle(runs: Mapping[str, simt.Barriers]) -> int:
    """Return the middle of the longest wait at a first barrier, else the cycle in which somebody arrives."""
    first = [one for run in runs.values() for one in run.rounds if one.number == 1]
    longest = max(first, key=lambda one: one.last_event - one.arrivals[0][0])
    return (longest.arrivals[0][0] + longest.last_event) // 2


def _packed(runs: Mapping[str, simt.Barriers], given: str, settings: str) -> str:
    """Return the text that crosses to the browser."""
    numbers: dict[str, int] = {}
    columns: dict[str, NDArray[Any]] = {}
    heads = []
    for r, (name, run) in enumerate(runs.items()):
        own = _columns(run, numbers)
        columns |= {f"{column}{r}": values for column, values in own.items()}
        heads.append(_head(name, run))
    chapters = _chapters(runs)
    cycles = max(run.trace.cycles for run in runs.values())
    header = {
        "title": _title(runs),
        "rule": _RULE,
        "simplified": _SIMPLIFIED,
        "given": given,
        "help": _HELP,
        "python": _python(runs, settings),
        "cycles": cycles,
        "states": list(simt.STATES),
        "told": MOST_TOLD,
        "runs": heads,
        "sentences": list(numbers),
        "chapters": [{"cycle": cycle, "label": label} for cycle, label in chapters],
        "stills": _warps.stills(cycles, [*chapters, (_telling_cycle(runs), "")]),
    }
    delta = (
        "sentence",
        "told",
        "all",
        "arrived",
        "expected",
        "current",
        "waited",
        "lost",
        "slots",
        "standing",
    )
    codings: dict[str, Any] = {
        f"{name}{r}": "delta" for name in delta for r in range(len(runs)) if f"{name}{r}" in columns
    }
    return pack("barrier", header, columns, codings)


def _head(name: str, run: simt.Barriers) -> dict[str, Any]:
    trace = run.trace
    return {
        "name": name,
        "cycles": trace.cycles,
        "warps": trace.warps,
        "blocks": list(run.blocks),
        "block_of": [run.blocks.index(block) for block in trace.blocks],
        "rounds": [
            {
                "block": run.blocks.index(one.block),
                "number": one.number,
                "first": one.arrivals[0][0],
                "end": one.last_event,
                "last": list(one.last),
                "opens": one.opens,
                "waited": one.waited(trace.cycles - 1),
            }
            for one in run.rounds
        ],
        "over": _over(run),
    }


def _over(run: simt.Barriers) -> str:
    """Return what is said of a run once it is over, while another still goes on."""
    if run.trace.deadlock is not None:
        return run.trace.deadlock
    return f"all has been done since cycle {run.trace.cycles - 1}."


def _columns(run: simt.Barriers, numbers: dict[str, int]) -> dict[str, NDArray[Any]]:
    trace, bill = run.trace, ledger.warp(run.trace)

    def number(text: str) -> int:
        return numbers.setdefault(text, len(numbers))

    told = np.zeros((trace.cycles, trace.warps), np.int64)
    for w in range(trace.warps):
        for cycle, text in run.of_warp(w):
            told[cycle:, w] = number(text)
    arrivals = [
        (i, cycle, w, one.arrivals[0][0] < cycle == one.last_event)  # for this one somebody waited
        for i, one in enumerate(run.rounds)
        for cycle, w in one.arrivals
    ]
    opened = sorted(one.opens for one in run.rounds if one.opens is not None)
    columns = {
        "state": trace.state,
        "sentence": np.array([[number(text) for text in row] for row in run.sentences()]),
        "told": told,
        "arrivals": np.array(arrivals, np.int64).reshape(-1, 4),
        "arrived": run.arrived,
        "expected": run.expected,
        "current": run.current,
        "late": run.late,
        "waited": run.waited,
        "standing": (trace.state == simt.STATES.index("barrier")).sum(axis=1),
        "total": run.waited.sum(axis=1),
        "lost": bill.lost["barrier"],
        "slots": bill.slots,
        "share": bill.lost["barrier"] / bill.slots,
        "opened": np.searchsorted(opened, np.arange(trace.cycles), side="right"),
    }
    if len(run.blocks) > MOST_TOLD:
        columns["all"] = np.array([number(text) for text in _of_all(run)])
    return columns


def _of_all(run: simt.Barriers) -> list[str]:
    """Return one sentence for all blocks in each cycle: how many wait, are on their way, have passed."""
    waits = ((run.current > 0) & (run.arrived > 0)).sum(axis=1).tolist()
    way = ((run.current > 0) & (run.arrived == 0)).sum(axis=1).tolist()
    many = len(run.blocks)
    told = []
    for waiting, going in zip(waits, way, strict=True):
        past = many - waiting - going
        parts = [f"{waiting} {'waits' if waiting == 1 else 'wait'} at a barrier" if waiting else ""]
        parts.append(f"{going} {'is' if going == 1 else 'are'} on the way to one" if going else "")
        parts.append(f"{past} {'has' if past == 1 else 'have'} none before {'it' if past == 1 else 'them'}")
        told.append(f"Of {many} blocks {', '.join(part for part in parts[: 2 + bool(past)] if part)}.")
    return told


def _title(runs: Mapping[str, simt.Barriers]) -> str:
    if len(runs) == 2:
        return f"At the barrier: {' and '.join(runs)}, on one clock"
    (run,) = runs.values()
    blocks = "" if len(run.blocks) == 1 else f" in {len(run.blocks)} blocks"
    return (
        f"At the barrier: {counted(run.trace.warps, 'warp')}{blocks}, {counted(len(run.rounds), 'barrier')}"
    )


def _task(runs: Mapping[str, simt.Barriers]) -> str:
    """Return what to look for: the missing threads, the dearer run, or the warp all others wait for."""
    if any(run.trace.deadlock for run in runs.values()):
        return (
            "find the threads that a barrier misses; say in which cycle nobody can go on any more, then step "
            "to it."
        )
    if len(runs) == 2:
        return (
            "before you play, say which run ends first, and in which waiting costs more issue slots; then "
            "play and compare."
        )
    return (
        "step to the first arrival, say in which cycle the barrier opens and for whom the others wait; then "
        "step there."
    )


def _chapters(runs: Mapping[str, simt.Barriers]) -> list[tuple[int, str]]:
    """Return where somebody first arrives, where barriers open, and where runs are over."""
    found = {0: "start"}
    arrivals = [one.arrivals[0][0] for run in runs.values() for one in run.rounds]
    found.setdefault(min(arrivals), "first arrival")
    cycles = max(run.trace.cycles for run in runs.values())
    for name, run in runs.items():
        lead = f"{name}: " if len(runs) == 2 else ""
        opening = {one.opens: one.number for one in run.rounds if one.opens is not None}
        times = sorted(opening)
        if len(times) > MOST_CHAPTERS // len(runs):
            times = [times[0], times[-1]]
        for t in times:
            if t < cycles:
                found.setdefault(t, f"{lead}{opening[t]} opens")
        for one in run.rounds:
            if one.opens is None and one.last_event + 1 < cycles:
                found.setdefault(one.last_event + 1, f"{lead}never opens")
        if run.trace.cycles < cycles:
            found.setdefault(run.trace.cycles, f"{name} done")
    return sorted(found.items())


def _python(runs: Mapping[str, simt.Barriers], settings: str) -> str:
    """Return lines of Python that simulate the runs again and show them."""
    lines = ["import numpy as np"] * any(run.trace.kernel is not None for run in runs.values())
    lines.append("from pulsewarp import simt, widgets")
    names = ["trace"] if len(runs) == 1 else ["above", "below"]
    for name, run in zip(names, runs.values(), strict=True):
        lines += _source.run(run.trace, name)
    if list(runs) == [""]:
        shown = "trace"
    else:
        shown = f"{{{', '.join(f'{said!r}: {name}' for said, name in zip(runs, names, strict=True))}}}"
    return "\n".join([*lines, f"widgets.BarrierPlayer({shown}{settings})"])
