"""The player of occupancy: blocks enter one SM one by one until something runs out."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp import _checks
from pulsewarp._text import counted
from pulsewarp.simt import Occupancy
from pulsewarp.widgets._player import Player, first_frame
from pulsewarp.widgets._wire import pack

MOST_LAUNCHES = 3  # what fits one screen

_TASK_ONE = (
    "say from the bars alone what must shrink before one more block fits, and by how much; then compare with "
    "the panel."
)
_TASK_SEVERAL = (
    "before you play it, say how many blocks each launch will hold and what runs out in it; then go to the "
    "end and compare."
)
_LABELS = {
    "warps": "Warp slots",
    "registers": "Registers",
    "shared_memory": "Shared memory",
    "blocks": "Block slots",
    "barriers": "Barriers",
}
#: How a launch is told from another: the keyword, and how its value is said.
_SETTINGS = ("compute_capability", "threads_per_block", "registers_per_thread", "shared", "carveout")


class OccupancyPlayer(Player):
    """Play how blocks of a launch fill one SM: warp slots, registers, shared memory, block slots, barriers.

    One frame is one block placed; the last is the block that does not fit, with every resource that runs out
    named. Modelled nothing: all of it is what :func:`pulsewarp.simt.occupancy` counted. Not shown: time (no
    block ends), and which sub-partition a warp goes to, which nobody documents; they are dealt in turn.

    Synced traits, beside those of every player: ``selected`` <-> ``[launch, block]`` of the block pointed at,
    launches from 0 and blocks from 1; or ``[]``.

    Parameters
    ----------
    launches : Occupancy, or iterable of Occupancy
        What ``simt.occupancy`` returned; up to 3 are filled side by side on one clock.
    start : int, optional
        Blocks placed at first, from 0. Left out: the frame in which the first launch is full, from which
        "play" goes back to the empty SM.
    rate : float, optional
        Blocks a second at first; left out: 1, faster for many blocks.
    title : str, optional
        Instead of the scene's own.
    task : str, optional
        What the reader is asked to do; left out, the scene's own task.

    Raises
    ------
    TypeError
        When `launches` holds anything but occupancies.
    ValueError
        For no launch or more than 3; when `start` lies beyond the last frame.

    Examples
    --------
    >>> from pulsewarp import simt
    >>> OccupancyPlayer([simt.occupancy(registers_per_thread=count) for count in (32, 64)])
    OccupancyPlayer(32 registers a thread: 8 blocks; 64 registers a thread: 4 blocks)
    """

    _scene = "occupancy.js"

    @_checks.names_keywords
    def __init__(
        self,
        launches: Occupancy | Iterable[Occupancy],
        *,
        start: int | None = None,
        rate: float | None = None,
        title: str | None = None,
        task: str | None = None,
    ) -> None:
        self._launches = _checked(launches)
        frames = _frames(self._launches)
        cursor, poster = first_frame(start, _telling_frame(self._launches), frames)
        own_task = _TASK_ONE if len(self._launches) == 1 else _TASK_SEVERAL
        super().__init__(
            _packed(self._launches),
            cycles=frames,
            cursor=cursor,
            options={
                "poster": poster,
                "rate": None if rate is None else _checks.positive_number("rate", rate),
                "title": title,
            },
            task=own_task if task is None else task,
            shows=_by_name(self._launches),
        )

    def show(self, launches: Occupancy | Iterable[Occupancy]) -> None:
        """Replace the launches in every view, for instance by one of numbers that the reader gave."""
        shown = _checked(launches)
        packed = _packed(shown)
        self._launches = shown
        frame = _telling_frame(shown)
        self.replace(packed, cycles=_frames(shown), cursor=frame, shows=_by_name(shown))

    def __repr__(self) -> str:
        named = zip(_names(self._launches), self._launches, strict=True)
        fits = "; ".join(
            f"{detail or name}: {counted(one.blocks_per_sm, 'block')}" for (name, detail), one in named
        )
        return f"OccupancyPlayer({fits})"


def _checked(launches: Any) -> tuple[Occupancy, ...]:
    remedy = "make one with simt.occupancy"
    given = (
        (launches,)
        if isinstance(launches, Occupancy)
        else _checks.several("launches", launches, "pass what simt.occupancy returned, or a list of them")
    )
    _checks.whole_number(
        "The number of launches",
        len(given),
        most=MOST_LAUNCHES,
        remedy="Show others in a player of their own.",
    )
    return tuple(_checks.instance("a launch", one, Occupancy, remedy) for one in given)


def _frames(launches: tuple[Occupancy, ...]) -> int:
    """Return the number of frames: the empty SM, a block in each, and the one that does not fit."""
    return max(one.blocks_per_sm for one in launches) + 2


def _telling_frame(launches: tuple[Occupancy, ...]) -> int:
    """Return the first frame in which a block does not fit."""
    return min(one.blocks_per_sm for one in launches) + 1


def _settings(launch: Occupancy) -> dict[str, str]:
    """Return what a launch is told by, each setting in words."""
    shared = launch.static_shared + launch.dynamic_shared
    opted = ", opted in" if launch.shared_opt_in and shared > launch.device.shared_memory_per_block else ""
    words = {
        "compute_capability": f"compute capability {launch.compute_capability}",
        "threads_per_block": f"{launch.threads_per_block:,} threads a block",
        "registers_per_thread": f"{launch.registers_per_thread:,} registers a thread",
        "shared": f"{launch.shared_memory_text} of shared memory a block{opted}"
        if shared
        else "no shared memory",
        "carveout": "carve-out as usual" if launch.carveout is None else f"carve-out {launch.carveout} %",
    }
    return {name: words[name] for name in _SETTINGS}


def _names(launches: tuple[Occupancy, ...]) -> list[tuple[str, str]]:
    """Return each launch's name and what else sets it apart: one setting is a name, more are numbered."""
    told = [_settings(one) for one in launches]
    apart = [name for name in _SETTINGS if len({one[name] for one in told}) > 1]
    if len(launches) == 1:
        apart = ["threads_per_block", "registers_per_thread"]
    words = [", ".join(one[name] for name in apart) for one in told]
    if len(launches) == 1 or (len(apart) == 1 and len(set(words)) == len(launches)):
        return [(one, "") for one in words]
    return [(f"launch {number}", one) for number, one in enumerate(words, start=1)]


def _by_name(launches: tuple[Occupancy, ...]) -> dict[str, Occupancy]:
    """Return the launches by name, for their checks; a single one needs none."""
    names = [name if len(launches) > 1 else "" for name, _ in _names(launches)]
    return dict(zip(names, launches, strict=True))


def _given(launches: tuple[Occupancy, ...]) -> str:
    """Say in one line what all launches have in common."""
    told = [_settings(one) for one in launches]
    alike = {name: told[0][name] for name in _SETTINGS if len({one[name] for one in told}) == 1}
    if launches[0].carveout is None:
        alike.pop("carveout", None)
    if "compute_capability" in alike:
        device = launches[0].device
        alike["compute_capability"] += f" ({device.architecture}, such as {device.example})"
    lead = "Launched" if len(launches) == 1 else "All launches"
    return f"{lead}: {'; '.join(alike.values())}." if alike else ""


def _packed(launches: tuple[Occupancy, ...]) -> str:
    header = {
        "frames": _frames(launches),
        "given": _given(launches),
        "lanes": [_lane(one, *name) for one, name in zip(launches, _names(launches), strict=True)],
        "chapters": [{"cycle": frame, "label": label} for frame, label in _chapters(launches)],
        "python": _python(launches),
    }
    columns = {f"{number}.taken": _taken(one) for number, one in enumerate(launches)}
    return pack("occupancy", header, columns)


def _parts(launch: Occupancy) -> dict[str, tuple[int, int]]:
    """Return for each resource what a block takes of it and what the SM has."""
    device = launch.device
    parts = {
        "warps": (launch.warps_per_block, device.max_warps),
        "registers": (launch.registers_per_block, device.registers),
        "shared_memory": (launch.shared_memory_per_block, launch.shared_memory_capacity),
        "blocks": (1, device.max_blocks),
    }
    return parts | ({} if device.max_barriers is None else {"barriers": (1, device.max_barriers)})


def _taken(launch: Occupancy) -> NDArray[np.int64]:
    """Return what is taken of each resource with 0, 1, 2, ... blocks placed, a row for each."""
    part = np.array([need for need, _ in _parts(launch).values()], np.int64)
    return np.arange(launch.blocks_per_sm + 1)[:, None] * part


def _lane(launch: Occupancy, name: str, detail: str) -> dict[str, Any]:
    device = launch.device
    by_registers = launch.warps_by_registers
    return {
        "name": name,
        "detail": detail,
        "capability": launch.compute_capability,
        "blocks": launch.blocks_per_sm,
        "warps": launch.warps_per_block,
        "max_warps": device.max_warps,
        "partitions": device.partitions,
        "registers_per_warp": launch.registers_per_warp,
        "partition_registers": device.registers // device.partitions,
        "partition_warps": 0 if by_registers == math.inf else int(by_registers) // device.partitions,
        "whole_shared": device.shared_memory,
        "asked": launch.static_shared + launch.dynamic_shared,
        "reserved": device.shared_memory_reserved,
        "resources": [
            {
                "name": resource,
                "label": _LABELS[resource],
                "part": part,
                "has": has,
                "limit": None if launch.limits[resource] == math.inf else launch.limits[resource],
                "limiting": resource in launch.limiting,
            }
            for resource, (part, has) in _parts(launch).items()
        ],
        "why": launch.why(),
        "advice": launch.advice(),
    }


def _chapters(launches: tuple[Occupancy, ...]) -> list[tuple[int, str]]:
    """Return the empty SM and the frames in which launches are full, by which they are."""
    full: dict[int, list[str]] = {}
    for (name, _), one in zip(_names(launches), launches, strict=True):
        full.setdefault(one.blocks_per_sm + 1, []).append(name)
    if len(launches) == 1:
        none = "no more fits" if launches[0].blocks_per_sm else "cannot start"
        return [(0, "empty SM"), (launches[0].blocks_per_sm + 1, none)]
    return [(0, "empty SM"), *((frame, f"{', '.join(full[frame])}: full") for frame in sorted(full))]


def _python(launches: tuple[Occupancy, ...]) -> str:
    """Return lines of Python that count the launches again and show them."""
    calls = []
    for one in launches:
        given = {name: value for name, value in one.launch.items() if value not in (0, False, None)}
        given |= {"registers_per_thread": one.registers_per_thread}
        if one.carveout == 0:
            given["carveout"] = 0
        ordered = [f"{name}={given[name]!r}" for name in one.launch if name in given]
        calls.append(f"simt.occupancy({', '.join(ordered)})")
    made = calls[0] if len(calls) == 1 else "".join(["[\n", *(f"    {call},\n" for call in calls), "]"])
    return f"from pulsewarp import simt, widgets\n\nlaunches = {made}\nwidgets.OccupancyPlayer(launches)"
