"""From a traced instruction to one that the scheduler takes: its unit, latency and interval."""

from __future__ import annotations

import numpy as np

from pulsewarp import _checks
from pulsewarp.simt._instruction import Instruction
from pulsewarp.simt.access import sectors, wavefronts
from pulsewarp.simt.presets import Architecture, architecture
from pulsewarp.simt.tracing.stream import TracedInstruction

SECTORS_PER_CYCLE = 4  # 128 bytes a cycle leave L1 and shared memory (NVIDIA developer forum, 77228)
SERVED_BY = {"dram": "LDG", "l2": "LDG.L2", "l1": "LDG.L1"}
# Asked in this order for what an architecture has no sourced value for.
OTHERS = ("ampere", "volta")


class Cost:
    """Sectors, wavefronts and cycles of accesses; each distinct pattern is worked out once."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], int] = {}

    def count(self, i: TracedInstruction) -> int:
        """Return the sectors of a global access or the wavefronts of a shared one."""
        addresses = i.addresses
        if addresses is None or i.memory is None or i.elements is None:
            return 0
        on = i.elements >= 0
        if not on.any():
            return 0
        # What follows depends on the place within 128 bytes only: lines, sectors and banks repeat.
        origin = int(np.min(addresses[on])) // 128 * 128
        relative = np.where(on, addresses - origin, 0)
        mask = int.from_bytes(np.packbits(on, bitorder="little").tobytes(), "little")
        key = (i.memory.space, i.memory.element_bytes, mask, relative.tobytes())
        if key not in self._known:
            args = (relative.tolist(), i.memory.element_bytes, mask)
            if i.memory.space == "global":
                self._known[key] = sectors(*args).sectors
            else:
                self._known[key] = wavefronts(*args).wavefronts
        return self._known[key]

    def passes(self, i: TracedInstruction) -> int:
        """Return for how many cycles an access keeps the memory unit."""
        if i.memory is None or i.elements is None or i.memory.space == "local":
            return 1  # local arrays are interleaved by lane: neighbours lie side by side
        if i.what == "atomic":
            wanted = i.elements[i.elements >= 0]
            return int(np.max(np.unique(wanted, return_counts=True)[1])) if len(wanted) else 1
        count = self.count(i)
        return max(1, -(-count // SECTORS_PER_CYCLE) if i.memory.space == "global" else count)


class Times:
    """An architecture's latencies and unit widths, put to traced instructions."""

    def __init__(self, name: str | Architecture, served_by: str, load_latency: int | None) -> None:
        self._architecture = architecture(name)
        self._load = SERVED_BY[_checks.choice("served_by", served_by, SERVED_BY)]
        self._load_latency = (
            None if load_latency is None else _checks.whole_number("load_latency", load_latency)
        )
        self._cost = Cost()
        self._made: dict[tuple[object, ...], Instruction] = {}

    def instruction(self, i: TracedInstruction) -> Instruction:
        """Return a traced instruction with its times; equal ones are one object."""
        passes = self._cost.passes(i)
        key = (i.text, i.lanes, i.dst, i.srcs, passes)
        if key not in self._made:
            self._made[key] = self._timed(i, passes)
        return self._made[key]

    def _timed(self, i: TracedInstruction, passes: int) -> Instruction:
        if i.what == "barrier":
            return Instruction("bar", text=i.text, lanes=i.lanes)
        operation = self._operation(i)
        known = next(a for a in (self._architecture, *map(architecture, OTHERS)) if operation in a.operations)
        if i.memory is None:
            return known.instruction(operation, dst=i.dst, srcs=i.srcs, text=i.text, lanes=i.lanes)
        width = known.operations[operation].interval
        if i.memory.space == "global" and known.operations[operation].sector_interval:
            passes = max(1, known.operations[operation].sector_interval * self._cost.count(i))
        latency = known.operations[operation].latency
        if i.memory.space == "global" and self._load_latency is not None:
            latency = self._load_latency
        # Nothing waits for a store, so it counts as landed when its unit is free again.
        latency = passes if i.dst is None else latency + passes - 1
        return Instruction("mem", latency, max(width, passes), i.dst, i.srcs, i.text, i.lanes)

    def _operation(self, i: TracedInstruction) -> str:
        """Return the operation whose times an instruction takes."""
        if i.memory is not None:
            return {"global": self._load, "shared": "LDS", "local": "LDG.L1"}[i.memory.space]
        if i.what == "sfu":
            return "MUFU"
        name = i.text.split()[0]
        if name.startswith("D"):
            return "DFMA"
        if name.startswith("F") and not name.startswith(("F2",)):
            return "FFMA"
        return "IMAD" if name in ("IMAD", "IMUL") else "IADD3"
