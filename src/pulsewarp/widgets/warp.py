"""The player of a warp trace: which warp each scheduler of an SM issues, cycle by cycle, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp import _checks, ledger, simt
from pulsewarp._text import counted
from pulsewarp.widgets import _source, _warps
from pulsewarp.widgets._player import FUTURES, HidingPlayer, first_frame
from pulsewarp.widgets._wire import pack

MOST_WARPS = 64  # what one SM holds at most, and what a picture can show
MOST_SCHEDULERS = 8
MOST_CELLS = 2**20  # cycles x warps; the columns still unpack at once
MOST_VALUES = 2**19  # lane values; 2 MB before compression

_RULE = "Rule: one instruction per scheduler and cycle, from its own ready warps; one memory unit per SM."
_SIMPLIFIED = (
    "Simplified: every instruction takes the fixed time shown; no caches, no instruction fetch, no register "
    "banks, no address arithmetic. Known of real SMs since Volta: four schedulers, warp w on scheduler "
    "w mod 4, one instruction a cycle each. Which ready warp a real scheduler picks is not documented by "
    "NVIDIA: Huerta et al. (MICRO 2025) find greedy then youngest on Ampere, with waits set by the "
    "compiler; Olmedo et al. (RTAS 2020) report loose round robin. Two levels are a proposal (Gebhart et "
    "al., ISCA 2011)."
)
_POLICIES = {
    "lrr": "Loose round robin: a scheduler takes the first ready warp after its last one, going round.",
    "gto": "Greedy then oldest: a scheduler stays with its last warp while it can, else the oldest ready.",
    "gty": "Greedy then youngest: a scheduler stays with its last warp while it can, else the youngest.",
    "oldest": "Oldest first: a scheduler issues its oldest ready warp, the one with the lowest number.",
    "two_level": "Two levels, round robin: a scheduler goes round among the six warps of its active pool; "
    "who waits for a load or a barrier leaves it to the next in line.",
}
_LOST = {
    "memory": "to memory",
    "result": "to results",
    "unit": "to a busy unit",
    "barrier": "at the barrier",
    "limit": "to the limit on loads",
    "finished": "with no warp to run",
}
_HELP = (
    "A row is a warp, a column a cycle; the orange frame is the present cycle, and what lies right of it is "
    "still to come. A scheduler's warps stand together.",
    "Point at a place in the picture, or move the cell cursor to it, to read what that warp does then. The "
    "program listing follows the chosen warp.",
    "An issue slot is one scheduler for one cycle. A slot is lost when none of the scheduler's warps can "
    "issue; the bar charges it to the wait that ends first.",
    "At its end a run lasts until the last result has landed, so the last columns issue nothing.",
)


class WarpPlayer(HidingPlayer):
    """Play a warp trace: every warp's state in every cycle, and a sentence for every scheduler.

    Modelled nothing: the player shows a :class:`pulsewarp.simt.WarpTrace` and what
    :func:`pulsewarp.ledger.warp` charges for it. What the trace itself simplifies is written in the scene.

    Synced traits, beside those of every player: ``selected`` <-> ``[warp]``, or ``[warp, cycle]`` while a
    cycle other than the present one is pointed at.

    Parameters
    ----------
    trace : WarpTrace
        At most 64 warps (what one SM holds), 8 schedulers and 2**20 cells (cycles x warps).
    start : int, optional
        The cycle shown at first; left out, the first in which one warp computes and another waits, from
        which "play" goes back to cycle 0.
    rate : float
        Cycles a second at first.
    title : str, optional
        Another title than the one made from the trace.
    latencies : str
        Where the latencies come from, in a word or a source; it stands beside them in the scene.
    architecture : str or Architecture, optional
        As for `simt.architecture`: whose latencies the programs have. The scene then names their sources and
        says how many warps Little's law asks for. Refused where an instruction of that name has others.
    future : str
        ``"dimmed"`` shows what comes faintly; ``"hidden"`` keeps it from the reader, for a prediction.
    task : str, optional
        What the reader is asked to do; left out, the scene's own task.

    Raises
    ------
    ValueError
        When the trace is too large to be shown, or a setting is out of range.

    Examples
    --------
    >>> from pulsewarp import simt, widgets
    >>> trace = simt.simulate([simt.load_compute(2, 2)] * 8, policy="lrr")
    >>> widgets.WarpPlayer(trace)
    WarpPlayer(8 warps, 4 schedulers, lrr: 48 instructions in 57 cycles)
    """

    _scene = "warp.js"

    @_checks.names_keywords
    def __init__(
        self,
        trace: simt.WarpTrace,
        *,
        start: int | None = None,
        rate: float = 4,
        title: str | None = None,
        latencies: str = "illustrative",
        architecture: str | simt.Architecture | None = None,
        future: str = "dimmed",
        task: str | None = None,
    ) -> None:
        _fits(trace)
        self._name = f"WarpPlayer{repr(trace).removeprefix('WarpTrace')}"
        cursor, poster = first_frame(start, _telling_cycle(trace), trace.cycles)
        super().__init__(
            _packed(
                trace,
                _warps.given([trace], str(latencies), architecture),
                _warps.settings(str(latencies), architecture),
            ),
            cycles=trace.cycles,
            cursor=cursor,
            options={
                "title": title,
                "rate": _checks.positive_number("rate", rate),
                "poster": poster,
                "future": _checks.choice("future", future, FUTURES),
            },
            task=_task(trace) if task is None else task,
            shows=trace,
        )

    def __repr__(self) -> str:
        return self._name


def _fits(trace: simt.WarpTrace) -> None:
    if not isinstance(trace, simt.WarpTrace):
        raise TypeError(
            f"WarpPlayer plays a WarpTrace, but got {type(trace).__name__}; make one with simt.simulate."
        )
    few = "One SM holds no more; simulate fewer."
    _checks.whole_number("The number of warps", trace.warps, most=MOST_WARPS, remedy=few)
    few = "An SM has 4; simulate fewer."
    _checks.whole_number("The number of schedulers", trace.schedulers, most=MOST_SCHEDULERS, remedy=few)
    cells = trace.cycles * trace.warps
    if cells > MOST_CELLS:
        raise ValueError(
            f"The trace has {trace.cycles} cycles of {trace.warps} warps, {cells} cells, but at most "
            f"{MOST_CELLS} can be shown; simulate a shorter program or fewer warps."
        )


def _telling_cycle(trace: simt.WarpTrace) -> int:
    """Return the first cycle in which one warp computes and another waits, else the first that computes."""
    computes = np.zeros(trace.cycles, np.bool_)
    cycles, warps = np.nonzero(trace.lanes)
    for t, w in zip(cycles.tolist(), warps.tolist(), strict=True):
        if trace.programs[w][trace.pc[t, w]].unit not in ("mem", "bar"):
            computes[t] = True
    waits = [simt.STATES.index(word) for word in ("memory", "result", "barrier")]
    both = computes & np.isin(trace.state, waits).any(axis=1)
    return int(np.argmax(both if both.any() else computes))


def _packed(trace: simt.WarpTrace, given: str, settings: str) -> str:
    bill = ledger.warp(trace)
    told = trace.sentences()
    sentences = list(dict.fromkeys(sentence for cycle in told for sentence in cycle))
    number = {sentence: i for i, sentence in enumerate(sentences)}
    programs = list({id(program): program for program in trace.programs}.values())
    which = {id(program): i for i, program in enumerate(programs)}
    chapters = trace.events()
    if not chapters or chapters[0][0] > 0:
        chapters = [(0, "start"), *chapters]
    reasons = [reason for reason, column in bill.lost.items() if column[-1] > 0]
    header: dict[str, Any] = {
        "title": _title(trace),
        "rule": _RULE,
        "simplified": _SIMPLIFIED + _schedulers_note(trace.schedulers),
        "costs": given,
        "cycles": trace.cycles,
        "warps": trace.warps,
        "schedulers": trace.schedulers,
        "policy": trace.policy,
        "max_outstanding": trace.max_outstanding,
        "blocks": list(trace.blocks),
        "states": list(simt.STATES),
        "programs": [_listing(program, trace.kernel) for program in programs],
        "program_of": [which[id(program)] for program in trace.programs],
        "sentences": sentences,
        "lost": reasons,
        "lost_words": {reason: _LOST.get(reason, reason) for reason in reasons},
        "chapters": [{"cycle": cycle, "label": label} for cycle, label in chapters],
        "stills": _warps.stills(trace.cycles, chapters),
        "python": _python(trace, settings),
        "help": [_POLICIES[trace.policy], *_HELP],
    }
    columns: dict[str, NDArray[Any]] = {
        "issued": trace.issued,
        "state": trace.state,
        "pc": trace.pc,
        "until": trace.until,
        "lanes": trace.lanes,
        "sentence": np.array([[number[sentence] for sentence in cycle] for cycle in told]),
        "used": bill.issued,
        "slots": bill.slots,
        "lost": np.stack([bill.lost[reason] for reason in reasons], axis=1)
        if reasons
        else np.zeros((trace.cycles, 0), np.int64),
    }
    if trace.kernel is not None:
        values = np.concatenate([each.ravel() for each in trace.kernel.lane_values])
        if values.size <= MOST_VALUES:
            columns["values"] = values
            header["kernel"] = _kernel(trace.kernel)
            header["active_lanes"] = list(trace.kernel.active_lanes)
        else:
            few = f"{values.size} lane values are too many to show; at most {MOST_VALUES} are."
            header["simplified"] += f" {few}"
    codings: dict[str, Any] = dict.fromkeys(("pc", "until", "used", "slots", "lost", "sentence"), "delta")
    return pack("warp", header, columns, codings)


def _title(trace: simt.WarpTrace) -> str:
    blocks = len(set(trace.blocks))
    parts = (
        counted(trace.warps, "warp") + (f" in {blocks} blocks" if blocks > 1 else ""),
        counted(trace.schedulers, "scheduler"),
        simt.POLICY_NAMES[trace.policy],
    )
    if trace.kernel is None:
        return f"One SM: {', '.join(parts)}"
    (m, k), n = trace.kernel.a.shape, trace.kernel.b.shape[1]
    times = "\N{MULTIPLICATION SIGN}"
    return f"{m} {times} {k} by {k} {times} {n} on one SM: {', '.join(parts)}"


def _schedulers_note(schedulers: int) -> str:
    return "" if schedulers == 4 else f" An SM since Volta has 4 schedulers; this one has {schedulers}."


def _listing(program: Sequence[simt.Instruction], kernel: simt.Kernel | None) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    for i in program:
        line = {
            "text": i.text,
            "unit": i.unit,
            "latency": i.latency,
            "lanes": i.lanes,
            "dst": i.dst,
            "srcs": list(i.srcs),
        }
        lines.append(line)
    if kernel is not None:
        # What matmul_kernel documents: for every k load from A, load from B, add to the sum; then store.
        for pc, line in enumerate(lines):
            line["role"] = "stored" if pc == len(lines) - 1 else "abc"[pc % 3]
    return lines


def _kernel(kernel: simt.Kernel) -> dict[str, Any]:
    """Return the shape of C, and where each warp's values begin in the one row they travel in."""
    m, n = kernel.result.shape
    sizes = [values.size for values in kernel.lane_values]
    return {"m": m, "n": n, "offsets": np.cumsum([0, *sizes])[:-1].tolist()}


def _python(trace: simt.WarpTrace, settings: str) -> str:
    """Return lines of Python that simulate the run again and show it."""
    head = ["import numpy as np"] * (trace.kernel is not None)
    lines = [*head, "from pulsewarp import simt, widgets", *_source.run(trace)]
    return "\n".join([*lines, f"widgets.WarpPlayer(trace{settings})"])


def _task(trace: simt.WarpTrace) -> str:
    """Return what to look for: the cycle nobody can go on, or the first in which a scheduler has nothing."""
    if trace.deadlock:
        return "say which warp waits for something that never comes, and why; then step to the last cycle."
    if (trace.issued[:, : min(trace.schedulers, trace.warps)] >= 0).all():
        return "no issue slot is lost here; pick a warp and say when it issues next, then step there."
    return (
        "find a cycle in which a scheduler with warps issues nothing; say what its warps wait for and which "
        "is ready first, then step until it is."
    )
