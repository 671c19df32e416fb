"""The player of block placement: a grid's blocks on all SMs of a GPU, one grid above another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp import _checks, chips
from pulsewarp._text import counted
from pulsewarp.simt import Placement
from pulsewarp.widgets._player import FUTURES, HidingPlayer, first_frame, spread_stills
from pulsewarp.widgets._wire import Coding, pack

#: What is drawn: more blocks, frames or slots than these are thinner than a pixel.
MOST_BLOCKS, MOST_FRAMES, MOST_SLOTS = 20_000, 2000, 4224
#: Equal blocks start and end in few cycles; so many frames in between let the eye follow.
FEW = 24
TALLY = ("resident", "waiting", "done", "idle")

_RULE = (
    "Rule: while blocks wait, a slot that comes free takes the next one at once; a block keeps its slot to "
    "its end."
)
_ORDERS = {
    "round_robin": "the next SM in turn",
    "most_room": "the SM with most free slots",
    "fill": "the lowest SM with a free slot",
}
_HELP = (
    "A square is an SM, its parts are slots: the blocks it can hold at once. Beside the squares every slot "
    "is a line over time. The orange line is the present cycle, the same for both grids.",
    "The tail begins when a slot stays idle because no block waits any more. All idle slot-cycles lie in it.",
    "Equal blocks take ceil(blocks / slots) waves; one block more than full waves costs a whole wave "
    "(NVIDIA, Matrix Multiplication Background User's Guide, section 3.2).",
    "NVIDIA documents no order of SMs. On Fermi they were seen to be taken mostly in turn (S. Pai, How the "
    "Fermi Thread Block Scheduler Works); on Pascal, Volta and Turing the one with most room (G. Gilman et "
    "al. 2020). Here the order decides where a block runs, never when.",
)


class PlacementPlayer(HidingPlayer):
    """Play how a grid's blocks take the SMs of a GPU: waves, replacement, the tail; one grid, or two.

    Modelled nothing: the player shows :class:`pulsewarp.simt.Placement`. A frame is a cycle in which a block
    starts or ends; where these are few, as with equal blocks, cycles in between are frames too.

    Synced traits, beside those of every player: ``selected`` <-> ``[run, SM]``, or ``[]``; runs count from 0
    from the top.

    Parameters
    ----------
    placements : Placement, or iterable of one or two
        What ``simt.place_blocks`` returned. Two run on one clock, the first above.
    start : int, optional
        Frame shown at first, from 0. Left out: the tail of the grid with the longer one; "play" then begins
        at 0.
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
        When `placements` holds anything but placements.
    ValueError
        For none or more than two; for more than 20,000 blocks, 4,224 slots or 2,000 frames; when `start` lies
        outside.

    Examples
    --------
    >>> from pulsewarp import chips, simt
    >>> gpu = chips.get("h100_sxm")
    >>> PlacementPlayer([simt.place_blocks(count, gpu, block_cycles=1000) for count in (132, 133)])
    PlacementPlayer(132 SMs: grid of 132 in 1000 cycles; grid of 133 in 2000 cycles)
    """

    _scene = "placement.js"

    @_checks.names_keywords
    def __init__(
        self,
        placements: Placement | Iterable[Placement],
        *,
        start: int | None = None,
        rate: float = 4,
        title: str | None = None,
        task: str | None = None,
        future: str = "dimmed",
    ) -> None:
        self._runs = _checked(placements)
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
            shows=dict(zip(_names(self._runs), self._runs, strict=True)),
        )

    def show(self, placements: Placement | Iterable[Placement]) -> None:
        """Replace the placements in every view."""
        runs = _checked(placements)
        times = _times(runs)
        packed = _packed(runs, times)
        self._runs = runs
        self.replace(
            packed,
            cycles=times.size,
            cursor=_telling_frame(runs, times),
            shows=dict(zip(_names(runs), runs, strict=True)),
        )

    def __repr__(self) -> str:
        sms = {run.sms for run in self._runs}
        where = f"{counted(sms.pop(), 'SM')}: " if len(sms) == 1 else ""
        named = zip(_names(self._runs), self._runs, strict=True)
        return f"PlacementPlayer({where}{'; '.join(f'{name} in {run.cycles} cycles' for name, run in named)})"


def _checked(placements: Placement | Iterable[Placement]) -> tuple[Placement, ...]:
    """Return one or two placements; refuse those that are too large to be seen."""
    if isinstance(placements, Placement):
        placements = (placements,)
    runs = tuple(
        _checks.instance("a placement", run, Placement, "make one with simt.place_blocks")
        for run in _checks.several(
            "placements", placements, "give one of simt.place_blocks, or two in a list"
        )
    )
    if len(runs) not in (1, 2):
        raise ValueError(f"There are {len(runs)} placements, but one or two are shown; give one or two.")
    for run in runs:
        for many, what, most in ((run.blocks, "blocks", MOST_BLOCKS), (run.slots, "slots", MOST_SLOTS)):
            if many > most:
                raise ValueError(
                    f"A placement of {many} {what} is above the limit of {most} for a player; take fewer."
                )
    frames = np.unique(np.concatenate([run.events() for run in runs])).size
    if frames > MOST_FRAMES:
        raise ValueError(
            f"Blocks start and end in {frames} different cycles, above the limit of {MOST_FRAMES} frames "
            f"for a player; take fewer blocks, or round their cycles."
        )
    return runs


def _times(runs: tuple[Placement, ...]) -> NDArray[np.int64]:
    """Return the cycles that are frames: where something starts or ends, and others where these are few."""
    events = np.unique(np.concatenate([run.events() for run in runs]))
    if events.size >= FEW:
        return events
    return np.unique(np.concatenate([events, np.linspace(0, events[-1], FEW + 1).astype(np.int64)]))


def _telling_frame(runs: tuple[Placement, ...], times: NDArray[np.int64]) -> int:
    """Return a frame in the longest tail, or in the last wave where no grid has a tail."""
    longest = max(runs, key=lambda run: run.tail_cycles)
    begins = longest.tail_start if longest.tail_cycles else int(np.max(longest.start))
    first, after = np.searchsorted(times, [begins, longest.cycles])
    return int(first + (after - first) // 3)


def _packed(runs: tuple[Placement, ...], times: NDArray[np.int64]) -> str:
    """Return the text that crosses to the browser."""
    sentences: dict[str, int] = {}
    columns: dict[str, NDArray[Any]] = {"time": times}
    codings: dict[str, Coding] = {"time": "delta"} if times[-1] < 2**31 else {}
    for r, run in enumerate(runs):
        inside = np.minimum(times, run.cycles)  # a grid that is done stays at its end
        told = [
            [sentences.setdefault(text, len(sentences)) for text in _told(run, t)] for t in times.tolist()
        ]
        done = run.tally(inside)
        columns |= {f"{name}{r}": getattr(run, name) for name in ("sm", "slot", "start", "end", "wave")}
        columns |= {
            f"sentence{r}": np.array(told),
            f"tally{r}": np.stack([getattr(done, name) for name in TALLY], axis=1),
        }
    header = {
        "title": _title(runs),
        "rule": _RULE,
        "simplified": _simplified(runs),
        "given": _given(runs),
        "help": _HELP,
        "python": _python(runs),
        "frames": int(times.size),
        "tally": TALLY,
        "runs": [
            {
                "name": name,
                "sms": run.sms,
                "each": run.blocks_per_sm,
                "blocks": run.blocks,
                "cycles": run.cycles,
                "waves": run.waves,
                "tail_start": run.tail_start,
                "tail_cycles": run.tail_cycles,
            }
            for name, run in zip(_names(runs), runs, strict=True)
        ],
        "sentences": list(sentences),
        "chapters": _chapters(runs, times),
        "stills": spread_stills(times.size, _telling_frame(runs, times), 4),
    }
    return pack("placement", header, columns, codings)


def _told(run: Placement, t: int) -> tuple[str, str]:
    """Return the sentences of a cycle; another grid may still run when this one is done."""
    if t <= run.cycles:
        return run.why(t)
    return f"The grid has been done since cycle {run.cycles:,}.", run.why(run.cycles)[1]


def _names(runs: tuple[Placement, ...]) -> list[str]:
    """Return what each grid is called: by its blocks, and where these are alike by what differs."""
    plain = [f"grid of {run.blocks:,}" for run in runs]
    ways = (
        plain,
        [f"{name}, {run.sms} SMs" for name, run in zip(plain, runs, strict=True)],
        [f"{name}, {run.blocks_per_sm} an SM" for name, run in zip(plain, runs, strict=True)],
        [f"{name}, {run.order.replace('_', ' ')}" for name, run in zip(plain, runs, strict=True)],
        [f"{name}, {'equal' if _equal(run) else 'uneven'}" for name, run in zip(plain, runs, strict=True)],
        [f"{name}, {where}" for name, where in zip(plain, ("above", "below"), strict=False)],
    )
    return next(names for names in ways if len(set(names)) == len(runs))


def _equal(run: Placement) -> bool:
    return bool((run.block_cycles == run.block_cycles[0]).all())


def _title(runs: tuple[Placement, ...]) -> str:
    sms = {run.sms for run in runs}
    blocks = " and ".join(dict.fromkeys(f"{run.blocks:,}" for run in runs))
    where = f" on {counted(sms.pop(), 'SM')}" if len(sms) == 1 else ""
    return f"A grid of {blocks} blocks{where}, wave by wave"


def _simplified(runs: tuple[Placement, ...]) -> str:
    orders = " above, ".join(dict.fromkeys(_ORDERS[run.order] for run in runs))
    below = " below" if "above" in orders else ""
    return (
        f"Simplified: a start takes no time, and a block takes as long beside others as alone. NVIDIA "
        f"documents no order of SMs, and measurements disagree; shown is {orders}{below}."
    )


def _given(runs: tuple[Placement, ...]) -> str:
    """Return the GPU and the blocks, one line."""
    first = runs[0]
    names = {chip.id: chip.name for chip in chips.catalogue()}
    chip = f"{names.get(first.chip, first.chip)}: " if first.chip else ""
    machines = dict.fromkeys(
        f"{counted(run.sms, 'SM')} with {counted(run.blocks_per_sm, 'slot')} each" for run in runs
    )
    lengths = dict.fromkeys(
        f"{int(run.block_cycles[0]):,} cycles a block"
        if _equal(run)
        else f"{int(np.min(run.block_cycles)):,} to {int(np.max(run.block_cycles)):,} cycles a block"
        for run in runs
    )
    return f"{chip}{', then '.join(machines)}; {', then '.join(lengths)}."


def _task(runs: tuple[Placement, ...]) -> str:
    """Return what to look for: what one grid more costs, or where the tail begins."""
    if len(runs) == 2:
        return (
            "before you play, say how many cycles each grid takes, and how many slots stand idle at the end "
            "of the lower one; then play and compare."
        )
    if runs[0].tail_cycles:
        return "before you play, say in which cycle a slot first falls idle for good; then step to it."
    return "no slot is ever idle here; say what one more block would cost, then make that grid and compare."


def _chapters(runs: tuple[Placement, ...], times: NDArray[np.int64]) -> list[dict[str, Any]]:
    """Return where waves begin, where the longest tail begins, and where each grid is done."""
    longest = max(runs, key=lambda run: run.cycles)
    marks: dict[int, list[str]] = {0: ["first wave"]}
    what = "wave" if _equal(longest) else "blocks"  # uneven blocks have no waves in common
    for number, word in ((1, f"second {what}"), (2, f"third {what}")):
        starts = longest.start[longest.wave == number]
        if starts.size:
            marks.setdefault(int(np.min(starts)), []).append(word)
    if longest.tail_cycles:
        marks.setdefault(longest.tail_start, []).append("tail")
    for name, run in zip(_names(runs), runs, strict=True):
        marks.setdefault(run.cycles, [f"{name} done" if len(runs) > 1 else "done"])
    return [
        {"cycle": int(np.searchsorted(times, t)), "label": ", ".join(labels)}
        for t, labels in sorted(marks.items())
    ]


def _python(runs: tuple[Placement, ...]) -> str:
    """Return lines of Python that make the placements again."""
    ids = {chip.id for chip in chips.catalogue()}
    calls = []
    for run in runs:
        sms = f"chips.get({run.chip!r})" if run.chip in ids else str(run.sms)
        cycles: Any = int(run.block_cycles[0]) if _equal(run) else run.block_cycles.tolist()
        calls.append(f"simt.place_blocks({run.blocks}, {sms}, {run.blocks_per_sm}, {cycles}, {run.order!r})")
    used = "chips, simt, widgets" if any("chips." in call for call in calls) else "simt, widgets"
    made = "".join(f"    {call},\n" for call in calls)
    return f"from pulsewarp import {used}\n\ngrids = [\n{made}]\nwidgets.PlacementPlayer(grids)"
