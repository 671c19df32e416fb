"""Why a scheduler issued this warp or none, and what a warp waits for, in sentences.

Every number in a sentence is read from the trace. Sentences are made a row at a time, so that a whole
trace is put into words without looking at any array element by element.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pulsewarp._text import counted
from pulsewarp.simt._instruction import Instruction
from pulsewarp.simt._states import BARRIER, FINISHED, ISSUES, LIMIT, MEMORY, PENDING, READY, RESULT, UNIT

MOST_NAMED = 3  # more warps in one group are counted, not named


class Words:
    """What sentences about one trace need besides its rows: labels, units and barriers of its programs."""

    def __init__(
        self,
        programs: Sequence[Sequence[Instruction]],
        blocks: Sequence[int],
        schedulers: int,
        policy: str,
        max_outstanding: int | None,
    ) -> None:
        self.programs = programs
        self.blocks = blocks
        self.schedulers = schedulers
        self.policy = policy
        self.max_outstanding = max_outstanding
        self.mates: dict[int, list[int]] = {}
        for w, block in enumerate(blocks):
            self.mates.setdefault(block, []).append(w)
        distinct = {id(p): p for p in programs}
        self.bars_before: dict[int, list[int]] = {}  # by program: barriers before each pc
        for program in distinct.values():
            counts = np.cumsum([0, *(i.unit == "bar" for i in program)])
            self.bars_before[id(program)] = counts.tolist()

    def scheduler(
        self, s: int, states: Sequence[int], untils: Sequence[int], pcs: Sequence[int], last: int
    ) -> str:
        """Return the sentence for scheduler `s` in the cycle of these rows; `last` it issued before."""
        mine = range(s, len(self.programs), self.schedulers)
        if not mine:
            return f"Scheduler {s} issues nothing: it has no warps."
        issuing = [w for w in mine if states[w] == ISSUES]
        ready = [w for w in mine if states[w] == READY]
        if not issuing:
            if all(states[w] == FINISHED for w in mine):
                return f"Scheduler {s} issues nothing: all its warps have finished."
            return f"Scheduler {s} issues nothing: {self.waits(mine, states, untils, pcs)}."
        w = issuing[0]
        instruction = self.programs[w][pcs[w]]
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
        policy = self.policy
        if policy in ("lrr", "two_level"):
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
        state, program = states[w], self.programs[w]
        drained = pcs[w] == len(program)
        if state == MEMORY:
            return "for its last memory access" if drained else "for memory"
        if state == RESULT:
            return "for its last result" if drained else "for a result"
        if state == UNIT:
            unit = program[pcs[w]].unit
            return f"for the {'memory' if unit == 'mem' else unit} unit"
        if state == LIMIT:
            most = self.max_outstanding
            return f"for {'one of ' * (most != 1)}the {most} load{'s' * (most != 1)} in flight"
        if state == PENDING:
            return "for a place in the active pool"
        short = [v for v in self.mates[self.blocks[w]] if self.arrived_short(v, pcs[v], states[v])]
        if short:
            return f"at a barrier that never opens: {self.short_of(short[0], pcs[short[0]])}"
        absent = self.absent(w, pcs[w], states, pcs)
        return "at the barrier" + (f" for {_names(absent, 'warps')}" if absent else "")

    def arrived_short(self, w: int, pc: int, state: int) -> bool:
        """Tell whether `w` stands at a barrier that some of its threads have not reached."""
        return state == BARRIER and self.programs[w][pc - 1].lanes < self.threads(w, pc - 1)

    def threads(self, w: int, pc: int) -> int:
        """Return how many threads of `w` have not exited before `pc`: the most lanes from there on."""
        return max(i.lanes for i in self.programs[w][pc:])

    def short_of(self, w: int, pc: int) -> str:
        """Return how many of the threads of `w` reached the barrier before `pc`."""
        there = self.programs[w][pc - 1].lanes
        return f"{there} of the {self.threads(w, pc - 1)} threads of w{w} reached it"

    def deadlock(self, states: Sequence[int], pcs: Sequence[int]) -> str | None:
        """Return who waits at a barrier that never opens and who is missing, from the last cycle's rows."""
        told = []
        for block, mates in self.mates.items():
            short = [w for w in mates if self.arrived_short(w, pcs[w], states[w])]
            if short:
                waiting = [w for w in mates if states[w] == BARRIER]
                verb = "waits" if len(waiting) == 1 else "wait"
                missing = " and ".join(self.short_of(w, pcs[w]) for w in short[:MOST_NAMED])
                more = f", and {len(short) - MOST_NAMED} warps more" if len(short) > MOST_NAMED else ""
                told.append(
                    f"Block {block} never ends: {_names(waiting, 'warps')} {verb} at a barrier; "
                    f"only {missing}{more}."
                )
        return " ".join(told) or None

    def absent(self, w: int, pc: int, states: Sequence[int], pcs: Sequence[int]) -> list[int]:
        """Return the warps that will still have to arrive where `w` at `pc` stands, when this cycle ends.

        A warp that has issued everything has exited, and a barrier does not wait for it.
        """
        programs = self.programs
        barrier = self.bars_before[id(programs[w])][pc]
        return [
            v
            for v in self.mates[self.blocks[w]]
            if (done := pcs[v] + (states[v] == ISSUES)) < len(programs[v])
            and self.bars_before[id(programs[v])][done] < barrier
        ]

    def warp(
        self,
        t: int,
        w: int,
        states: Sequence[int],
        untils: Sequence[int],
        pcs: Sequence[int],
        last: int,
        issuing: int,
        cycles: Sequence[int],
    ) -> str:
        """Return the sentence for warp `w` in cycle `t`.

        `last` and `issuing` are what its scheduler issued before and issues now; `cycles` are those in
        which `w` issued before.
        """
        state, s = states[w], w % self.schedulers
        if state == FINISHED:
            return f"w{w} has finished."
        text = "" if pcs[w] == len(self.programs[w]) else self.programs[w][pcs[w]].text
        if state == ISSUES:
            lanes = self.programs[w][pcs[w]].lanes
            return f"w{w} issues {text} on {counted(lanes, 'lane')}."
        if state == READY:
            reason = self.reason(issuing, last)
            return f"w{w} is ready to issue {text}; scheduler {s} issues w{issuing}, {reason}."
        head = f"w{w} waits {self.wait(w, states, untils, pcs)}{_until(untils[w])}"
        if state == BARRIER or not text:
            return f"{head}."
        if state in (MEMORY, RESULT):
            return f"{head}: {text} needs {self.needs(t, w, pcs[w], cycles)}."
        return f"{head}, to issue {text}."

    def needs(self, t: int, w: int, pc: int, cycles: Sequence[int]) -> str:
        """Return the registers that the instruction at `pc` still lacks in cycle `t`, and since when."""
        program = self.programs[w]
        parts = []
        for register in dict.fromkeys((*program[pc].srcs, program[pc].dst)):
            writers = [p for p in range(pc) if program[p].dst == register] if register is not None else []
            if writers and cycles[writers[-1]] + program[writers[-1]].latency > t:
                parts.append(f"{register} ({program[writers[-1]].mnemonic} issued at {cycles[writers[-1]]})")
        return " and ".join(parts)


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
