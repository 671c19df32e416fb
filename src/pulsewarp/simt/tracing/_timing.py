"""From a traced instruction to one that the scheduler takes: its unit, latency and interval."""

from __future__ import annotations

import numpy as np

from pulsewarp import _checks
from pulsewarp.simt._instruction import Instruction
from pulsewarp.simt.presets import SECTORS_PER_CYCLE, Architecture, architecture
from pulsewarp.simt.tracing.stream import TracedInstruction

SERVED_BY = {"dram": "LDG", "l2": "LDG.L2", "l1": "LDG.L1"}
# Asked in this order for what an architecture has no sourced value for.
OTHERS = ("ampere", "volta")


def passes(i: TracedInstruction) -> int:
    """Return for how many cycles an instruction keeps its unit, as far as its addresses decide."""
    if i.what == "atomic" and i.elements is not None:
        wanted = i.elements[i.elements >= 0]
        return int(np.max(np.unique(wanted, return_counts=True)[1])) if len(wanted) else 1
    # Local arrays are interleaved by lane: neighbours lie side by side, and one pass serves them all.
    return max(1, -(-(i.sectors or 0) // SECTORS_PER_CYCLE), i.wavefronts or 0)


class Times:
    """An architecture's latencies and unit widths, put to traced instructions."""

    def __init__(self, name: str | Architecture, served_by: str, load_latency: int | None) -> None:
        self._architecture = architecture(name)
        self._load = SERVED_BY[_checks.choice("served_by", served_by, SERVED_BY)]
        self._load_latency = (
            None if load_latency is None else _checks.whole_number("load_latency", load_latency)
        )
        self._made: dict[tuple[object, ...], Instruction] = {}

    def instruction(self, i: TracedInstruction) -> Instruction:
        """Return a traced instruction with its times; equal ones are one object."""
        taken = passes(i)
        key = (i.text, i.lanes, i.dst, i.srcs, taken, i.sectors)
        if key not in self._made:
            self._made[key] = self._timed(i, taken)
        return self._made[key]

    def _timed(self, i: TracedInstruction, taken: int) -> Instruction:
        if i.what == "barrier":
            return Instruction("bar", text=i.text, lanes=i.lanes)
        operation = self._operation(i)
        known = next(a for a in (self._architecture, *map(architecture, OTHERS)) if operation in a.operations)
        if i.memory is None:
            return known.instruction(operation, dst=i.dst, srcs=i.srcs, text=i.text, lanes=i.lanes)
        width = known.operations[operation].interval
        taken = max(taken, known.operations[operation].sector_interval * (i.sectors or 0))
        latency = known.operations[operation].latency
        if i.memory.space == "global" and self._load_latency is not None:
            latency = self._load_latency
        # Nothing waits for a store, so it counts as landed when its unit is free again.
        latency = taken if i.dst is None else latency + taken - 1
        return Instruction("mem", latency, max(width, taken), i.dst, i.srcs, i.text, i.lanes)

    def _operation(self, i: TracedInstruction) -> str:
        """Return the operation whose times an instruction takes."""
        if i.memory is not None:
            return {"global": self._load, "shared": "LDS", "local": "LDG.L1"}[i.memory.space]
        if i.what == "sfu":
            return "MUFU"
        name = i.text.split()[0]
        if name.startswith("SHFL"):
            return "LDS"
        if name.startswith("D"):
            return "DFMA"
        if name.startswith("H"):
            return "HFMA2"
        if name.startswith("F") and not name.startswith("F2"):
            return "FFMA"
        return "IMAD" if name in ("IMAD", "IMUL") else "IADD3"
