"""The reader's own launch on an SM, and the reader's own addresses of a warp."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pulsewarp import _checks, simt
from pulsewarp._checks import instance, names_keywords
from pulsewarp._text import counted
from pulsewarp.lesson._fields import typed_whole
from pulsewarp.lesson._values import short
from pulsewarp.widgets.access import AccessPlayer
from pulsewarp.widgets.occupancy import OccupancyPlayer

#: Shared memory that the field takes; what a compute capability cannot give, the scene itself says.
MOST_OWN_BYTES = 10**6


@names_keywords
def own_occupancy(
    compute_capability: str = "8.0",
    threads_per_block: int = 256,
    registers_per_thread: int = 64,
    shared: int = 0,
    *,
    shared_opt_in: bool = True,
    task: str | None = None,
) -> OccupancyPlayer:
    """Let the reader fill an SM with blocks of a launch of their own.

    The scene opens with the launch given here. When the reader presses Run, the kernel counts the blocks
    (`simt.occupancy`) and shows them beside the launch before, so that one sees what the change did. On a
    page without a kernel the fields are switched off and say so. Not modelled: what the compiler does when
    it is given fewer registers, and speed: more occupancy is not more speed.

    Parameters
    ----------
    compute_capability : str
        At first, such as ``"8.0"``.
    threads_per_block, registers_per_thread : int
        Of the launch at first; from 1 to 2,048 and from 0 to 512, so that one can see what cannot start.
    shared : int
        Dynamic shared memory of a block at first, in bytes.
    shared_opt_in : bool
        Whether the kernel has opted in to more than 48 KiB a block.
    task : str, optional
        What the reader is asked to do; left out, the scene's own task.

    Returns
    -------
    OccupancyPlayer
        Shows itself as the last line of a cell.

    Raises
    ------
    ValueError
        For a compute capability or a number that is none.

    Examples
    --------
    >>> from pulsewarp import lesson
    >>> lesson.own_occupancy("8.6", threads_per_block=128, registers_per_thread=80)
    OccupancyPlayer(128 threads a block, 80 registers a thread: 6 blocks)
    """
    limits = {"threads_per_block": (1, 2048), "registers_per_thread": (0, 512), "shared": (0, MOST_OWN_BYTES)}
    labels = {
        "threads_per_block": "Threads a block",
        "registers_per_thread": "Registers a thread",
        "shared": "Shared memory a block, bytes",
    }
    first = {
        "threads_per_block": threads_per_block,
        "registers_per_thread": registers_per_thread,
        "shared": shared,
    }
    for name, (least, most) in limits.items():
        _checks.whole_number(name, first[name], least=least, most=most)

    def count(compute_capability: str, shared_opt_in: bool, **numbers: int) -> simt.Occupancy:
        numbers["dynamic_shared"] = numbers.pop("shared")
        return simt.occupancy(compute_capability, shared_opt_in=shared_opt_in, **numbers)

    shown = [count(compute_capability, shared_opt_in, **first)]

    def run(values: Mapping[str, Any]) -> Mapping[str, Any]:
        numbers: dict[str, int] = {}
        for name, (least, most) in limits.items():
            try:
                numbers[name] = typed_whole(labels[name], values.get(name), most, least=least)
            except ValueError as error:
                return {"error": str(error), "field": name}
        held = count(str(values.get("compute_capability")), bool(values.get("shared_opt_in")), **numbers)
        before = [one for one in shown if one != held]
        shown[:] = [held]
        player.show([*before, held])
        beside = ", beside the launch before" if before else ""
        fits = f"{counted(held.blocks_per_sm, 'block')}, {held.warps_per_sm} of {held.device.max_warps} warps"
        return {"done": f"Now shown: {fits}{beside}."}

    player = OccupancyPlayer(shown[0], task=task)
    capabilities = [
        [name, f"{name}: {device.architecture}, such as {device.example}"]
        for name, device in simt.compute_capabilities().items()
    ]
    player.offer(
        "Your own launch",
        "The compiler reports registers and static shared memory (nvcc -Xptxas -v); add the dynamic.",
        [
            {
                "name": "compute_capability",
                "label": "Compute capability",
                "kind": "choice",
                "value": compute_capability,
                "choices": capabilities,
            },
            *(
                {
                    "name": name,
                    "label": labels[name],
                    "kind": "whole",
                    "value": first[name],
                    "least": least,
                    "most": most,
                }
                for name, (least, most) in limits.items()
            ),
            {
                "name": "shared_opt_in",
                "label": "opted in to more than 48 KiB",
                "kind": "switch",
                "value": bool(shared_opt_in),
            },
        ],
        run,
    )
    return player


#: Where a pattern of the reader's own may point, and what each is counted in.
OWN_MEMORIES = {"global": "global memory: sectors of 32 bytes", "shared": "shared memory: 32 banks"}


@names_keywords
def own_access(
    pattern: str = "8 * lane",
    element_bytes: int = 4,
    *,
    memory: str = "global",
    task: str | None = None,
) -> AccessPlayer:
    """Let the reader type or paint the addresses of a warp's 32 lanes, and see what the request costs.

    The scene opens with the pattern given here, after the same access of lanes side by side. When the reader
    presses Run, the kernel reads the pattern (`simt.pattern`), counts it (`simt.sectors`, `simt.wavefronts`)
    and replaces the requests shown; what cannot be read is said in one sentence at its field. On a page
    without a kernel the fields are switched off and say so.

    Parameters
    ----------
    pattern : str
        Byte addresses at first: an expression of `lane`, or 32 numbers with commas, ``-`` for a lane that is
        off.
    element_bytes : int
        Bytes each lane asks for at first: 1, 2, 4, 8 or 16.
    memory : str
        ``"global"`` or ``"shared"`` at first.
    task : str, optional
        What the reader is asked to do; left out, the scene's own task.

    Returns
    -------
    AccessPlayer
        Shows itself as the last line of a cell.

    Raises
    ------
    ValueError
        For a pattern that cannot be read or is not aligned, another size or another memory.

    Examples
    --------
    >>> from pulsewarp import lesson
    >>> lesson.own_access("128 * lane", memory="shared")
    AccessPlayer(banks, 2 requests of 1, 32, 35 steps)
    """
    memory = _checks.choice("memory", memory, OWN_MEMORIES)
    pattern = instance("pattern", pattern, str, "write an expression such as '8 * lane'")

    def requests(text: str, size: int, where: str) -> dict[str, Any]:
        count = simt.sectors if where == "global" else simt.wavefronts
        addresses = _typed_addresses(text)
        short = " ".join(text.split())
        name = short if "lane" in short and len(short) <= 30 else "your pattern"
        beside = [size * lane for lane in range(simt.LANES)]
        return {"lanes side by side": count(beside, size), name: count(addresses, size)}

    def run(values: Mapping[str, Any]) -> Mapping[str, Any]:
        size = typed_whole("element_bytes", values.get("element_bytes"), 16)
        try:
            given = requests(str(values.get("pattern")), size, str(values.get("memory")))
            player.show(given)
        except ValueError as error:
            return {"error": str(error), "field": "pattern"}
        own = list(given.values())[-1]
        if isinstance(own, simt.Access):
            share = (
                "" if own.efficiency is None else f", {100 * own.efficiency:.4g} % of their bytes asked for"
            )
            return {"done": f"Now shown: {counted(own.sectors, 'sector')}{share}."}
        return {
            "done": f"Now shown: {counted(own.wavefronts, 'wavefront')} in {counted(own.phases, 'phase')}."
        }

    player = AccessPlayer(requests(pattern, element_bytes, memory), task=task)
    sizes = [[str(size), counted(size, "byte")] for size in (1, 2, 4, 8, 16)]
    player.offer(
        "Your own pattern",
        "The byte address of each lane, as an expression of lane (0 to 31), such as 4 * (lane ^ 1) or "
        "128 * lane if lane < 8 else None (None: the lane is off); or 32 numbers with commas, - for off.",
        [
            {
                "name": "pattern",
                "label": "Byte address",
                "kind": "lanes",
                "value": pattern,
                "scale": "element_bytes",
            },
            {
                "name": "element_bytes",
                "label": "Each lane asks for",
                "kind": "choice",
                "value": str(element_bytes),
                "choices": sizes,
            },
            {
                "name": "memory",
                "label": "In",
                "kind": "choice",
                "value": memory,
                "choices": [list(pair) for pair in OWN_MEMORIES.items()],
            },
        ],
        run,
    )
    return player


def _typed_addresses(text: str) -> tuple[int | None, ...]:
    """Return the addresses that were typed or painted: an expression of lane, or a list of 32."""
    parts = [part.strip() for part in text.strip().strip("[]()").split(",")]
    if len(parts) == 1:
        return simt.pattern(text)
    wrong = [part for part in parts if not (part in ("-", "None") or (part.isascii() and part.isdigit()))]
    if wrong:
        raise ValueError(
            f"The list holds {short(wrong[0])}, but its parts must be whole numbers, or - for a lane that "
            f"is off; write an expression of lane without commas, or 32 numbers."
        )
    return simt.pattern([None if part in ("-", "None") else int(part[:20]) for part in parts])
