"""The barriers of a run: who reached which when, who came last, when each opened, and what waiting cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pulsewarp import _checks
from pulsewarp._arrays import freeze
from pulsewarp._report import Check, Report
from pulsewarp._text import counted
from pulsewarp.simt._instruction import Instruction
from pulsewarp.simt._states import BARRIER, FINISHED, ISSUES, READY, STATES
from pulsewarp.simt._words import MOST_NAMED, Words
from pulsewarp.simt.trace import WarpTrace

Rows = tuple[list[int], list[int], list[int]]  # states, program counters and ends of waits in a cycle


@dataclass(frozen=True)
class BarrierRound:
    """One barrier of one block, from the first warp that reached it to the cycle in which it opened.

    Parameters
    ----------
    block, number : int
        Which block, and which of its barriers, counted from 1.
    arrivals : tuple of (int, int)
        Cycle and warp of every arrival, in the order of cycles: the cycle in which the barrier was issued.
    exits : tuple of (int, int)
        Cycle and warp of the last instruction of those that never reach it: it waits for them only so long.
    opens : int or None
        First cycle in which its warps may go on, one after the last arrival or exit; None if it never opens.
    """

    block: int
    number: int
    arrivals: tuple[tuple[int, int], ...]
    exits: tuple[tuple[int, int], ...]
    opens: int | None

    @property
    def last_event(self) -> int:
        """Cycle of the last arrival or exit; it opens in the next."""
        return max(cycle for cycle, _ in (*self.arrivals, *self.exits))

    @property
    def last(self) -> tuple[int, ...]:
        """The warps that opened it, or would: those whose arrival or exit came last."""
        return tuple(sorted(w for cycle, w in (*self.arrivals, *self.exits) if cycle == self.last_event))

    @_checks.names_keywords
    def waited(self, t: int) -> int:
        """Return the warp-cycles spent at this barrier in cycles 0 to `t`.

        Parameters
        ----------
        t : int
            Cycle; of one beyond the end of the run nothing is added.
        """
        t = _checks.whole_number("t", t, least=0)
        end = math.inf if self.opens is None else self.opens
        return sum(int(max(0, min(end, t + 1) - cycle - 1)) for cycle, _ in self.arrivals)


@dataclass(frozen=True, eq=False, repr=False)
class Barriers:
    """Every barrier of a run of `simulate`, by block and in order, with a sentence for each cycle.

    Nothing is simulated: all of it is read from the trace. A barrier waits for the threads of its block
    that have not exited; so what it expects shrinks as warps, or threads of a warp, exit.

    Parameters
    ----------
    trace : WarpTrace
        The run.
    rounds : tuple of BarrierRound
        By block, then in order.

    Examples
    --------
    >>> from pulsewarp import simt
    >>> late, other = simt.chain_and_barrier(2, 9), simt.chain_and_barrier(2, 3)
    >>> found = simt.barriers(simt.simulate([late] + [other] * 3))
    >>> found
    Barriers(1 block: 2 of 2 barriers opened, 150 warp-cycles waited)
    >>> found.rounds[0].arrivals, found.rounds[0].opens
    (((9, 1), (9, 2), (9, 3), (33, 0)), 34)
    >>> found.why(9, 0)
    'Block 0 waits at barrier 1: 3 of 4 warps are there, 96 of 128 threads; w0 is late: it waits for a \
result until 12, and has 6 FFMA to go.'
    """

    trace: WarpTrace
    rounds: tuple[BarrierRound, ...]

    @property
    def cycles(self) -> int:
        """Cycles of the run."""
        return self.trace.cycles

    @cached_property
    def blocks(self) -> tuple[int, ...]:
        """The blocks of the trace, in order."""
        return tuple(sorted(set(self.trace.blocks)))

    @cached_property
    def _of_block(self) -> dict[int, list[BarrierRound]]:
        found: dict[int, list[BarrierRound]] = {block: [] for block in self.blocks}
        for one in self.rounds:
            found[one.block].append(one)
        return found

    @cached_property
    def _mates(self) -> dict[int, list[int]]:
        mates: dict[int, list[int]] = {block: [] for block in self.blocks}
        for w, block in enumerate(self.trace.blocks):
            mates[block].append(w)
        return mates

    @cached_property
    def current(self) -> NDArray[np.int64]:
        """For each cycle and block the number of the barrier it has not passed: 0 after the last; (T, B)."""
        found = np.zeros((self.trace.cycles, len(self.blocks)), np.int64)
        for column, block in enumerate(self.blocks):
            start = 0
            for one in self._of_block[block]:
                end = self.trace.cycles if one.opens is None else min(one.opens, self.trace.cycles)
                found[start:end, column] = one.number
                start = max(start, end)
        return freeze(found)

    @cached_property
    def _threads(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return threads that stand at the present barrier at the end of each cycle, and those it expects."""
        trace = self.trace
        there = np.zeros((trace.cycles, len(self.blocks)), np.int64)
        wanted = there.copy()
        column = {block: i for i, block in enumerate(self.blocks)}
        live = {id(p): _threads_left(p) for p in trace.programs}
        done = trace.pc + (trace.state == ISSUES)
        for w, (block, program) in enumerate(zip(trace.blocks, trace.programs, strict=True)):
            threads = np.array([*live[id(program)], 0])[done[:, w]]
            here = np.zeros(trace.cycles, np.int64)
            for one in self._of_block[block]:
                for cycle in [cycle for cycle, v in one.arrivals if v == w]:
                    pc = int(trace.pc[cycle, w])
                    end = trace.cycles if one.opens is None else one.opens
                    here[cycle:end] = program[pc].lanes
                    threads[cycle:end] = live[id(program)][pc]
            there[:, column[block]] += here
            wanted[:, column[block]] += threads
        return freeze(there), freeze(wanted)

    @property
    def arrived(self) -> NDArray[np.int64]:
        """Threads of each block that have reached its present barrier by the end of each cycle; (T, B)."""
        return self._threads[0]

    @property
    def expected(self) -> NDArray[np.int64]:
        """Threads of each block that have not exited by the end of each cycle; (T, B)."""
        return self._threads[1]

    @cached_property
    def late(self) -> NDArray[np.bool_]:
        """Whether others of its block are at a barrier that a warp has still to reach when a cycle ends."""
        found = np.zeros(self.trace.state.shape, np.bool_)
        for one in self.rounds:
            first = one.arrivals[0][0]
            for cycle, w in (*one.arrivals, *one.exits):
                found[first:cycle, w] = True
        return freeze(found)

    @cached_property
    def waited(self) -> NDArray[np.int64]:
        """Cycles each warp has stood at barriers, counted from 0 to each cycle; (T, W)."""
        return freeze(np.cumsum(self.trace.state == BARRIER, axis=0, dtype=np.int64))

    @_checks.names_keywords
    def why(self, t: int, block: int) -> str:
        """Return one sentence: how block `block` stands with its barriers in cycle `t`, and who is late.

        Parameters
        ----------
        t, block : int
            Cycle and block.

        Raises
        ------
        ValueError
            When the trace has no such cycle or block.
        """
        t = _checks.whole_number("t", t, least=0, most=self.trace.cycles - 1)
        if not isinstance(block, int | np.integer) or block not in self._mates:
            raise ValueError(
                f"block is {block!r}, but the trace has {', '.join(map(str, self.blocks))}; name one."
            )
        return self._sentence(t, self.blocks.index(block))

    def sentences(self) -> list[list[str]]:
        """Return ``why`` of every cycle and block, as ``sentences[t][i]`` with `i` an index into `blocks`."""
        opened = {one.opens for one in self.rounds}
        columns = []
        for i, block in enumerate(self.blocks):
            mates = self._mates[block]
            rows = [row[:, mates] for row in (self.trace.state, self.trace.pc, self.trace.until)]
            column: list[str] = []
            before: tuple[bytes, ...] = ()
            for t in range(self.trace.cycles):
                now = tuple(row[t].tobytes() for row in rows)
                # That a barrier has opened is said in that cycle alone.
                same = now == before and not {t, t - 1} & opened
                column.append(column[-1] if same else self._sentence(t, i))
                before = now
            columns.append(column)
        return [list(told) for told in zip(*columns, strict=True)]

    @_checks.names_keywords
    def of_warp(self, w: int) -> list[tuple[int, str]]:
        """Return what warp `w` has to do with its barriers, as (first cycle, sentence) in order.

        Parameters
        ----------
        w : int
            The warp.
        """
        trace = self.trace
        w = _checks.whole_number("w", w, least=0, most=trace.warps - 1)
        program, own = trace.programs[w], self._of_block[trace.blocks[w]]
        times = np.flatnonzero(trace.state[:, w] == ISSUES).tolist()
        told: dict[int, str] = {0: self._ahead(w, 0)}
        passed = 0
        for pc, t in enumerate(times):
            if program[pc].unit != "bar":
                told[t + 1] = self._ahead(w, pc + 1)
                continue
            one = own[passed]
            passed += 1
            last = " as the last" if w in one.last else ""
            told[t] = f"w{w} reaches barrier {one.number}{last}."
            if one.opens is None:
                told[t + 1] = f"w{w} has stood since cycle {t} at barrier {one.number}, which never opens."
                continue
            if one.opens > t + 1:
                told[t + 1] = f"w{w} has stood at barrier {one.number} since it arrived in cycle {t}."
            told[one.opens] = self._ahead(w, pc + 1)
        return [(t, text) for t, text in sorted(told.items()) if t < trace.cycles]

    @_checks.names_keywords
    def verify(self, cycle: int | None = None) -> Report:
        """Check the run against the rule of a barrier: nobody passes early, nobody is kept longer.

        Parameters
        ----------
        cycle : int, optional
            A cycle whose counts of threads are checked too.

        Returns
        -------
        Report

        Examples
        --------
        >>> from pulsewarp import simt
        >>> simt.barriers(simt.simulate([simt.chain_and_barrier(3, 2)] * 8)).verify().passed
        True
        """
        checks = [self._everybody_comes(), self._nobody_early(), self._stands_between()]
        if cycle is not None:
            checks.append(self.verify_frame(cycle))
        return Report(tuple(checks))

    @_checks.names_keywords
    def verify_frame(self, cycle: int) -> Check:
        """Count the threads at barriers in one cycle again, warp by warp from their programs.

        Parameters
        ----------
        cycle : int
            Cycle from 0.

        Returns
        -------
        Check
            The one that `verify` adds for a cycle.

        Raises
        ------
        ValueError
            When the trace has no such cycle.

        Examples
        --------
        >>> from pulsewarp import simt
        >>> simt.barriers(simt.simulate([simt.chain_and_barrier(3, 2)] * 8)).verify_frame(3).passed
        True
        """
        t = _checks.whole_number("cycle", cycle, least=0, most=self.cycles - 1)
        trace, held = self.trace, 0
        for w, program in enumerate(trace.programs):
            pc = int(trace.pc[t, w])
            standing = trace.state[t, w] == BARRIER
            arriving = trace.state[t, w] == ISSUES and program[pc].unit == "bar"
            if standing or arriving:
                held += program[pc - int(standing)].lanes
        counts = int(self.arrived[t].sum())
        says = (
            f"In cycle {t} {counted(held, 'thread')} of the programs stand at a barrier, {counts} are shown."
        )
        return Check("threads at barriers", held == counts, says)

    # ------------------------------------------------------------------------------------------- words

    def _sentence(self, t: int, i: int) -> str:
        block, own = self.blocks[i], self._of_block[self.blocks[i]]
        number = int(self.current[t, i])
        if not own:
            return f"Block {block} has no barrier."
        before = own[(number or len(own) + 1) - 2] if number != 1 else None
        lead = f"Barrier {before.number} has opened. " if before is not None and before.opens == t else ""
        if not number:
            return f"{lead}{self._past(t, block)}"
        rows = self._rows(t)
        done = {w: rows[1][w] + (rows[0][w] == ISSUES) for w in self._mates[block]}
        here = [
            w for w, pc in done.items() if self._words.bars_before[id(self.trace.programs[w])][pc] >= number
        ]
        late = [w for w, pc in done.items() if w not in here and pc < len(self.trace.programs[w])]
        name = f"barrier {number}"
        if not here:
            return (
                f"{lead}Block {block} is on its way to {name}: nobody is there yet; "
                f"{self._nearest(late, done)}."
            )
        if not late:
            return self._full(t, own[number - 1])
        if short := self._short(own[number - 1], t):
            name = f"{name}, which never opens ({short})"
        verb = "is" if len(here) == 1 else "are"
        there = f"{len(here)} of {counted(len(here) + len(late), 'warp')} {verb} there"
        threads = f"{self.arrived[t, i]} of {self.expected[t, i]} threads"
        return f"{lead}Block {block} waits at {name}: {there}, {threads}; {self._late(late, done, rows)}."

    def _past(self, t: int, block: int) -> str:
        own, states = self._of_block[block], self.trace.state[t]
        waited = counted(sum(one.waited(t) for one in own), "warp-cycle")
        many = "its barrier" if len(own) == 1 else f"its {len(own)} barriers"
        done = all(states[w] == FINISHED for w in self._mates[block])
        what = f"Block {block} has finished" if done else f"Block {block} has passed {many}"
        return f"{what}; it waited {waited} at {'them' if len(own) > 1 else 'it'}."

    def _full(self, t: int, one: BarrierRound) -> str:
        """Everybody who comes is there: it opens in the next cycle, or never."""
        block, w = one.block, one.last
        if one.opens is None:
            waiting = sorted(w for _, w in one.arrivals)
            verb = "waits" if len(waiting) == 1 else "wait"
            return (
                f"Block {block} never ends: {_names(waiting)} {verb} at barrier {one.number}, but only "
                f"{self._short(one, t)}."
            )
        waited = one.waited(t)
        cost = (
            f"the block has waited {counted(waited, 'warp-cycle')} for it" if waited else "nobody had to wait"
        )
        arrives = max(cycle for cycle, _ in one.arrivals) == t
        verb = ("arrives" if arrives else "exits") if len(w) == 1 else ("arrive" if arrives else "exit")
        return (
            f"Barrier {one.number} of block {block} is full: {_names(w)} {verb} last, {cost}, and all may go "
            f"on in cycle {one.opens}."
        )

    def _short(self, one: BarrierRound, t: int) -> str:
        """Return how many of a warp's threads reached a barrier that some of its others miss, "" if none."""
        if one.opens is not None:
            return ""
        parts = []
        for cycle, w in one.arrivals:
            pc = int(self.trace.pc[cycle, w])
            there, threads = self.trace.programs[w][pc].lanes, _threads_left(self.trace.programs[w])[pc]
            if cycle <= t and there < threads:
                parts.append(f"{there} of the {threads} threads of w{w} reached it")
        more = (
            f", and so in {counted(len(parts) - MOST_NAMED, 'warp')} more" if len(parts) > MOST_NAMED else ""
        )
        return " and ".join(parts[:MOST_NAMED]) + more

    def _late(self, late: Sequence[int], done: Mapping[int, int], rows: Rows) -> str:
        """Return who is late: one warp with what it does, or of several the one with most to do."""
        most = max(late, key=lambda w: self._to_go(w, done[w])[0])
        what = self._now(most, done[most], rows)
        if len(late) == 1:
            return f"w{most} is late: it {what}"
        return f"{_names(late)} are late; of these w{most} {what}"

    def _nearest(self, late: Sequence[int], done: Mapping[int, int]) -> str:
        comes = sorted((self._to_go(w, done[w]), w) for w in late if self._to_go(w, done[w])[1])
        if not comes:
            return "nobody will be"
        (_, least), (_, most) = comes[0], comes[-1]
        fewest, longest = self._left(least, done[least]), self._left(most, done[most])
        if fewest == longest:
            return f"{'each warp has' if len(comes) > 1 else f'w{least} has'} {fewest} to go"
        return f"w{least} has {fewest} to go, w{most} {longest}"

    def _now(self, w: int, done: int, rows: Rows) -> str:
        """Return what late warp `w` does, and what it has still to do, to follow its name."""
        states, pcs, untils = rows
        count, comes = self._to_go(w, done)
        left = self._left(w, done)
        ends = f"has {left} to go" if comes else f"has {left} to go, then it exits"
        if states[w] == ISSUES:
            name = self.trace.programs[w][pcs[w]].mnemonic
            if comes and count and left == f"{count} {name}":
                return f"issues {name}, and has {count} more to go"
            return f"issues {name}, and {ends}"
        if states[w] == READY:
            return f"is ready, while its scheduler issues another, and {ends}"
        until = f" until {untils[w]}" if untils[w] >= 0 else ""
        return f"waits {self._words.wait(w, states, untils, pcs)}{until}, and {ends}"

    def _rows(self, t: int) -> Rows:
        return self.trace.state[t].tolist(), self.trace.pc[t].tolist(), self.trace.until[t].tolist()

    @cached_property
    def _words(self) -> Words:
        trace = self.trace
        return Words(trace.programs, trace.blocks, trace.schedulers, trace.policy, trace.max_outstanding)

    def _to_go(self, w: int, pc: int) -> tuple[int, bool]:
        """Return how many instructions `w` at `pc` has before its next barrier, or its exit, and which."""
        end = self._next_bar[id(self.trace.programs[w])][pc]
        return abs(end) - pc - 1, end > 0

    @cached_property
    def _next_bar(self) -> dict[int, list[int]]:
        """By program and pc: 1 + the index of the next barrier, or minus (1 + the length) without one."""
        found = {}
        for program in {id(p): p for p in self.trace.programs}.values():
            ends = [-(len(program) + 1)]
            for pc in range(len(program) - 1, -1, -1):
                ends.append(pc + 1 if program[pc].unit == "bar" else ends[-1])
            found[id(program)] = ends[::-1]
        return found

    def _left(self, w: int, pc: int) -> str:
        """Return what `w` at `pc` has before its next barrier or exit: "5 FFMA", or "3 instructions"."""
        key = (id(self.trace.programs[w]), pc)
        if key not in self._told:
            count, comes = self._to_go(w, pc)
            names = {i.mnemonic for i in self.trace.programs[w][pc : pc + count]}
            one = f"{count} {names.pop()}" if len(names) == 1 else counted(count, "instruction")
            self._told[key] = one if count else "only the barrier itself" if comes else "nothing"
        return self._told[key]

    @cached_property
    def _told(self) -> dict[tuple[int, int], str]:
        return {}

    def _ahead(self, w: int, pc: int) -> str:
        program = self.trace.programs[w]
        if pc == len(program):
            return f"w{w} has issued everything; no barrier waits for it."
        _, comes = self._to_go(w, pc)
        left = self._left(w, pc)
        if not comes:
            return f"w{w} has {left} to go, and no barrier any more."
        number = sum(i.unit == "bar" for i in program[:pc]) + 1
        return f"w{w} is on its way to barrier {number}: {left} to go."

    # ------------------------------------------------------------------------------------------ checks

    def _nobody_early(self) -> Check:
        """No warp issues anything between its arrival and the cycle after the last arrival or exit."""
        issues = [np.flatnonzero(self.trace.state[:, w] == ISSUES) for w in range(self.trace.warps)]
        early = [
            (one.block, one.number, w)
            for one in self.rounds
            for cycle, w in one.arrivals
            for after in issues[w][issues[w] > cycle][:1].tolist()
            if one.opens is None or after < one.opens
        ]
        name = "nobody passes early"
        if early:
            block, number, w = early[0]
            return Check(name, False, f"w{w} passes barrier {number} of block {block} before it opens.")
        many = sum(len(one.arrivals) for one in self.rounds)
        return Check(name, True, f"After {counted(many, 'arrival')} no warp issues before its barrier opens.")

    def _everybody_comes(self) -> Check:
        """Count arrivals against the barriers in the programs; after a deadlock some are not reached."""
        reached = sum(len(one.arrivals) for one in self.rounds)
        written = sum(i.unit == "bar" for program in self.trace.programs for i in program)
        stuck = any(one.opens is None for one in self.rounds)
        says = f"The programs have {counted(written, 'barrier')}, and warps arrived {reached} times"
        ends = ", since one never opens." if stuck and reached < written else "."
        return Check(
            "every barrier is reached", reached == written or (stuck and reached < written), says + ends
        )

    def _stands_between(self) -> Check:
        """Hold arrivals and openings against the states: at the barrier from after the one to the other."""
        wanted = np.zeros(self.trace.state.shape, np.bool_)
        for one in self.rounds:
            for cycle, w in one.arrivals:
                wanted[cycle + 1 : one.opens, w] = True
        same = np.array_equal(wanted, self.trace.state == BARRIER)
        says = f"{int(wanted.sum())} warp-cycles lie between arrivals and openings, "
        says += f"{int((self.trace.state == BARRIER).sum())} are {STATES[BARRIER]!r} in the trace."
        return Check("waits in between", same, says)

    def __repr__(self) -> str:
        opened = sum(one.opens is not None for one in self.rounds)
        waited = counted(int(self.waited[-1].sum()), "warp-cycle")
        return (
            f"Barriers({counted(len(self.blocks), 'block')}: {opened} of "
            f"{counted(len(self.rounds), 'barrier')} opened, {waited} waited)"
        )


@_checks.names_keywords
def barriers(trace: WarpTrace) -> Barriers:
    """Return every barrier of a run: arrivals, exits, openings, and what the waiting cost.

    Parameters
    ----------
    trace : WarpTrace
        What `simulate`, a `Kernel` or a `KernelTrace` returned.

    Returns
    -------
    Barriers

    Examples
    --------
    >>> from pulsewarp import simt
    >>> trace = simt.simulate([simt.chain_and_barrier(1, 6)] + [simt.chain_and_barrier(1, 2)] * 3)
    >>> [one.opens for one in barriers(trace).rounds]
    [22]
    """
    remedy = "pass what simt.simulate returned"
    trace = _checks.instance("trace", trace, WarpTrace, remedy)
    stuck = {trace.blocks[w] for w in np.flatnonzero(trace.state[-1] == BARRIER).tolist()}
    rounds = []
    for block in sorted(set(trace.blocks)):
        reached: dict[int, list[int]] = {}
        ends: dict[int, int] = {}
        for w in [w for w, own in enumerate(trace.blocks) if own == block]:
            times = np.flatnonzero(trace.state[:, w] == ISSUES).tolist()
            if times:
                begun = zip(times, trace.programs[w], strict=False)  # a deadlock keeps back the program's end
                reached[w] = [t for t, i in begun if i.unit == "bar"]
                ends[w] = times[-1]
        most = max([len(own) for own in reached.values()], default=0)
        for k in range(most):
            arrivals = sorted((own[k], w) for w, own in reached.items() if k < len(own))
            exits = sorted((ends[w], w) for w, own in reached.items() if k >= len(own))
            opens = None if block in stuck and k == most - 1 else max(arrivals + exits)[0] + 1
            rounds.append(BarrierRound(block, k + 1, tuple(arrivals), tuple(exits), opens))
    return Barriers(trace, tuple(rounds))


def _threads_left(program: Sequence[Instruction]) -> list[int]:
    """Return for each pc how many threads have not exited before it: the most lanes from there on."""
    lanes = [i.lanes for i in program]
    left: list[int] = np.maximum.accumulate(lanes[::-1])[::-1].tolist() if lanes else []
    return left


def _names(warps: Sequence[int]) -> str:
    if len(warps) > MOST_NAMED:
        return f"{len(warps)} warps"
    names = [f"w{w}" for w in warps]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
