"""Why a scheduler issued this warp or none, and what a warp waits for, in sentences.

Every number in a sentence is read from the trace. Sentences are made a row at a time, so that a whole
trace is put into words without looking at any array element by element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pulsewarp.simt._states import BARRIER, FINISHED, ISSUES, LIMIT, MEMORY, READY, RESULT, UNIT

if TYPE_CHECKING:
    from pulsewarp.simt.trace import WarpTrace

MOST_NAMED = 3  # more warps in one group are counted, not named


class Words:
    """What sentences about one trace need besides its rows: labels, units and barriers of its programs."""

    def __init__(self, trace: WarpTrace) -> None:
        self.trace = trace
        self.mates: dict[int, list[int]] = {}
        for w, block in enumerate(trace.blocks):
            self.mates.setdefault(block, []).append(w)
        self.bars_before: dict[int, list[int]] = {}  # by program: barriers before each pc
        for program in {id(p): p for p in trace.programs}.values():
            counts = np.cumsum([0, *(i.unit == "bar" for i in program)])
            self.bars_before[id(program)] = counts.tolist()

    def scheduler(
        self, s: int, states: Sequence[int], untils: Sequence[int], pcs: Sequence[int], last: int
    ) -> str:
        """Return the sentence for scheduler `s` in the cycle of these rows; `last` it issued before."""
        mine = range(s, self.trace.warps, self.trace.schedulers)
        if not mine:
            return f"Scheduler {s} issues nothing: it has no warps."
        issuing = [w for w in mine if states[w] == ISSUES]
        ready = [w for w in mine if states[w] == READY]
        if not issuing:
            if all(states[w] == FINISHED for w in mine):
                return f"Scheduler {s} issues nothing: all its warps have finished."
            return f"Scheduler {s} issues nothing: {self.waits(mine, states, untils, pcs)}."
        w = issuing[0]
        instruction = self.trace.programs[w][pcs[w]]
        what = instruction.mnemonic
        if instruction.unit == "bar" and not self.absent(w, pcs[w] + 1, states, pcs):
            what += ", the last to arrive"
        if ready:
            rest = (
                f"{_names(ready, 'more warps')} {_is(ready)} ready{' too' * (len(ready) <= MOST_NAMED)} and "
            )
            rest += "waits its turn" if len(ready) == 1 else "wait their turn"
            return f"Scheduler {s} issues w{w}, {self.reason(w, last)}: {what}; {rest}."
        rest = self.waits(mine, states, untils, pcs)
        return f"Scheduler {s} issues w{w}: {what}{'; ' * bool(rest)}{rest}."

    def reason(self, picked: int, last: int) -> str:
        """Return why the policy picked this one of several ready warps."""
        policy = self.trace.policy
        if policy == "lrr":
            return f"next after w{last} in round robin" if last >= 0 else "the first in round robin"
        if policy in ("gto", "gty") and picked == last:
            return "which issued last (greedy)"
        return "the youngest ready" if policy == "gty" else "the oldest ready"

    def waits(
        self, warps: Sequence[int], states: Sequence[int], untils: Sequence[int], pcs: Sequence[int]
    ) -> str:
        """Return what the waiting ones of these warps wait for, grouped by what it is."""
        groups: dict[str, list[int]] = {}
        for w in warps:
            if states[w] not in (ISSUES, READY, FINISHED):
                groups.setdefault(self.wait(w, states, untils, pcs), []).append(w)
        return "; ".join(_group(wait, group, untils) for wait, group in groups.items())

    def wait(self, w: int, states: Sequence[int], untils: Sequence[int], pcs: Sequence[int]) -> str:
        """Return what a waiting warp waits for, to follow 'waits'."""
        state, program = states[w], self.trace.programs[w]
        drained = pcs[w] == len(program)
        if state == MEMORY:
            return "for its last memory access" if drained else "for memory"
        if state == RESULT:
            return "for its last result" if drained else "for a result"
        if state == UNIT:
            unit = program[pcs[w]].unit
            return f"for the {'memory' if unit == 'mem' else unit} unit"
        if state == LIMIT:
            most = self.trace.max_outstanding
            return f"for {'one of ' * (most != 1)}the {most} load{'s' * (most != 1)} in flight"
        absent = self.absent(w, pcs[w], states, pcs)
        return "at the barrier" + (f" for {_names(absent, 'warps')}" if absent else "")

    def absent(self, w: int, pc: int, states: Sequence[int], pcs: Sequence[int]) -> list[int]:
        """Return the warps that have not arrived, by the end of this cycle, where `w` at `pc` stands."""
        programs = self.trace.programs
        barrier = self.bars_before[id(programs[w])][pc]
        return [
            v
            for v in self.mates[self.trace.blocks[w]]
            if self.bars_before[id(programs[v])][pcs[v] + (states[v] == ISSUES)] < barrier
        ]

    def warp(
        self, t: int, w: int, states: Sequence[int], untils: Sequence[int], pcs: Sequence[int], last: int
    ) -> str:
        """Return the sentence for warp `w` in cycle `t`."""
        trace, s = self.trace, w % self.trace.schedulers
        state = states[w]
        if state == FINISHED:
            return f"w{w} has finished."
        text = "" if pcs[w] == len(trace.programs[w]) else trace.programs[w][pcs[w]].text
        if state == ISSUES:
            lanes = trace.programs[w][pcs[w]].lanes
            return f"w{w} issues {text} on {lanes} lane{'s' * (lanes > 1)}."
        if state == READY:
            other = int(trace.issued[t, s])
            return (
                f"w{w} is ready to issue {text}; scheduler {s} issues w{other}, {self.reason(other, last)}."
            )
        head = f"w{w} waits {self.wait(w, states, untils, pcs)}" + _until(untils[w])
        if state == BARRIER or not text:
            return f"{head}."
        if state in (MEMORY, RESULT):
            return f"{head}: {text} needs {self.needs(t, w, pcs[w])}."
        return f"{head}, to issue {text}."

    def needs(self, t: int, w: int, pc: int) -> str:
        """Return the registers that the instruction at `pc` still lacks in cycle `t`, and since when."""
        program = self.trace.programs[w]
        cycles = np.flatnonzero(self.trace.state[:t, w] == ISSUES)
        parts = []
        for register in dict.fromkeys((*program[pc].srcs, program[pc].dst)):
            writers = [p for p in range(pc) if program[p].dst == register] if register is not None else []
            if writers and cycles[writers[-1]] + program[writers[-1]].latency > t:
                parts.append(f"{register} ({program[writers[-1]].mnemonic} issued at {cycles[writers[-1]]})")
        return " and ".join(parts)

    def events(self) -> list[tuple[int, str]]:
        """Return the notable cycles, in order, one label for each."""
        trace = self.trace
        found: list[tuple[int, str]] = []
        if len(trace.requests):
            found.append((int(trace.requests[0, 0]), "first loads"))
            found.append((int(np.min(trace.requests[:, 3])), "first data back"))
        unit = {id(p): np.array([i.unit for i in p]) for p in trace.programs}
        cycles, warps = np.nonzero(trace.lanes)
        pcs = trace.pc[cycles, warps]
        units = np.empty(len(cycles), dtype="U16")
        for w, program in enumerate(trace.programs):
            own = warps == w
            units[own] = unit[id(program)][pcs[own]]
        compute = np.flatnonzero((units != "mem") & (units != "bar"))
        if len(compute):
            w, p = warps[compute[0]], pcs[compute[0]]
            found.append((int(cycles[compute[0]]), f"first {trace.programs[w][p].mnemonic}"))
        at_barrier = np.flatnonzero(units == "bar")
        if len(at_barrier):
            found.append((int(cycles[at_barrier[0]]), "first at a barrier"))
        openings = np.unique(trace.until[(trace.state == BARRIER) & (trace.until >= 0)])
        if 0 < len(openings) <= MOST_NAMED:
            found += [(int(t), "barrier opens") for t in openings if t < trace.cycles]
        elif len(openings):
            found.append((int(openings[0]), "first barrier opens"))
            if openings[-1] < trace.cycles:
                found.append((int(openings[-1]), "last barrier opens"))
        found.append((int(cycles[-1]), "last issue"))
        by_cycle: dict[int, str] = {}
        for t, label in sorted(found, key=lambda event: event[0]):
            by_cycle.setdefault(t, label)
        return list(by_cycle.items())


def _names(warps: Sequence[int], many: str) -> str:
    if len(warps) > MOST_NAMED:
        return f"{len(warps)} {many}"
    names = [f"w{w}" for w in warps]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _is(warps: Sequence[int]) -> str:
    return "is" if len(warps) == 1 else "are"


def _until(cycle: int) -> str:
    return f" until {cycle}" if cycle >= 0 else ""


def _group(wait: str, warps: Sequence[int], untils: Sequence[int]) -> str:
    ends = [untils[w] for w in warps]
    verb = "waits" if len(warps) == 1 else "wait"
    if len(set(ends)) == 1:
        return f"{_names(warps, 'warps')} {verb} {wait}{_until(ends[0])}"
    if len(warps) > MOST_NAMED:
        first = warps[ends.index(min(ends))]
        return f"{len(warps)} warps wait {wait} (w{first} until {min(ends)}, the last until {max(ends)})"
    told = [f"w{warps[0]} waits {wait}{_until(ends[0])}"]
    return ", ".join(told + [f"w{w}{_until(end)}" for w, end in zip(warps[1:], ends[1:], strict=True)])
