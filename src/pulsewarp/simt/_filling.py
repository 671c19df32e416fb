"""An SM filled warp by warp, to check what `occupancy` counted: nothing here divides."""

from __future__ import annotations

import math
from collections.abc import Collection

from pulsewarp._report import Check, Report
from pulsewarp._text import counted
from pulsewarp.simt._occupancy import Occupancy

_MOST = 1000  # blocks; more than any SM has bytes for, so that what still has room then is no limit


class Filling:
    """One SM and the blocks in it; what is free is known by what was taken away.

    Parameters
    ----------
    launch : Occupancy
        The launch whose blocks enter; of what was counted for it nothing is read but a block's parts.
    heeded : collection of str
        The resources that may run out; the others have no end.
    """

    def __init__(self, launch: Occupancy, heeded: Collection[str]) -> None:
        device = launch.device
        self.launch, self.heeded = launch, heeded
        self.warps = self.blocks = 0
        self.slots = device.max_warps
        self.registers = [device.registers // device.partitions] * device.partitions
        self.shared = launch.shared_memory_capacity
        self.block_slots = device.max_blocks
        self.barriers: float = math.inf if device.max_barriers is None else device.max_barriers

    def refusing(self) -> set[str]:
        """Return the resources that keep the next block out; none where it may enter."""
        launch, device = self.launch, self.launch.device
        refusing = set()
        if launch.threads_per_block > device.max_threads_per_block or self.slots < launch.warps_per_block:
            refusing.add("warps")
        if not self._registers_after() or launch.registers_per_thread > device.registers_per_thread_checked:
            refusing.add("registers")
        if self.shared < launch.shared_memory_per_block or self._asks_too_much():
            refusing.add("shared_memory")
        if self.block_slots < 1:
            refusing.add("blocks")
        if self.barriers < 1:
            refusing.add("barriers")
        return refusing & set(self.heeded)

    def enter(self) -> None:
        """Let the next block take its parts."""
        self.registers = self._registers_after() or self.registers
        self.warps += self.launch.warps_per_block
        self.slots -= self.launch.warps_per_block
        self.shared -= self.launch.shared_memory_per_block
        self.block_slots -= 1
        self.barriers -= 1
        self.blocks += 1

    def fill(self, most: int = _MOST) -> None:
        """Let blocks enter until one is refused, or so many are there."""
        while self.blocks < most and not self.refusing():
            self.enter()

    def _registers_after(self) -> list[int] | None:
        """Return what each sub-partition has left once the block's warps are dealt to them in turn."""
        left = list(self.registers)
        for warp in range(self.warps, self.warps + self.launch.warps_per_block):
            left[warp % len(left)] -= self.launch.registers_per_warp
        return left if min(left) >= 0 else None

    def _asks_too_much(self) -> bool:
        launch, device = self.launch, self.launch.device
        asked = launch.static_shared + launch.dynamic_shared
        return asked > (
            device.shared_memory_opt_in if launch.shared_opt_in else device.shared_memory_per_block
        )


def check_filling(held: Occupancy) -> Report:
    """Return the report of blocks entering one by one, beside what was counted."""
    names = tuple(held.limits)
    filling = Filling(held, names)
    filling.fill(held.blocks_per_sm)
    refusing = filling.refusing()
    more = set() if filling.blocks < held.blocks_per_sm else refusing
    checks = [
        Check(
            "Blocks enter",
            filling.blocks == held.blocks_per_sm,
            f"put in one by one, {counted(filling.blocks, 'block')} of {held.blocks_per_sm} found room: "
            f"{counted(filling.warps, 'warp')}, dealt to {held.device.partitions} sub-partitions.",
        ),
        Check(
            "The next one does not",
            bool(more) and more == set(held.limiting),
            f"block {filling.blocks + 1} is refused by {_listed(refusing)}; said to run out: "
            f"{_listed(held.limiting)}.",
        ),
        _check_limits(held),
    ]
    if changes := held.one_more():
        fits = 0
        for change in changes:
            changed = Filling(change.result, names)
            changed.fill(held.blocks_per_sm + 1)
            fits += changed.blocks > held.blocks_per_sm
        checks.append(
            Check(
                "Changes help",
                fits == len(changes),
                f"block {held.blocks_per_sm + 1} enters with {fits} of {counted(len(changes), 'change')}.",
            )
        )
    return Report(tuple(checks))


def _check_limits(held: Occupancy) -> Check:
    """Fill once for each resource with no other heeded."""
    found: dict[str, float] = {}
    for name in held.limits:
        alone = Filling(held, (name,))
        alone.fill()
        found[name] = alone.blocks if alone.blocks < _MOST else math.inf
    told = ", ".join(f"{_word(name)} {'no end' if at == math.inf else at}" for name, at in found.items())
    return Check("Each limit alone", found == dict(held.limits), f"blocks put in with one heeded: {told}.")


def _listed(names: Collection[str]) -> str:
    return " and ".join(_word(name) for name in sorted(names)) or "nothing"


def _word(name: str) -> str:
    return name.replace("_", " ")
