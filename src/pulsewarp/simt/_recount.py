"""A run told again from its issues: where every warp stands in every cycle, and whom each scheduler issues.

Written apart from the loop that made the run and from the states derived with it: the only thing taken from a
trace is which warp each scheduler issued in each cycle. A warp's ``k``-th issue is its ``k``-th instruction;
all else follows from the rules in `simulate`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp.simt._instruction import Instruction
from pulsewarp.simt._policy import ACTIVE_WARPS
from pulsewarp.simt._states import BARRIER, FINISHED, ISSUES, LIMIT, MEMORY, PENDING, READY, RESULT, UNIT

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Plan:
    """What the recount asks of a program: its columns, and which earlier results each instruction needs."""

    def __init__(self, program: Sequence[Instruction]) -> None:
        self.length = len(program)
        self.latency = np.array([i.latency for i in program], np.int64)
        self.interval = np.array([i.interval for i in program], np.int64)
        self.lanes = np.array([i.lanes for i in program], np.int64)
        self.unit = np.array([i.unit for i in program], object)
        self.is_bar = self.unit == "bar"
        self.is_memory = self.unit == "mem"
        after = [
            max([i.lanes for i in program[pc:]], default=0) for pc in np.flatnonzero(self.is_bar).tolist()
        ]
        self.shut = np.zeros(self.length, np.bool_)  # a barrier that some of the warp's threads miss
        self.shut[self.is_bar] = self.lanes[self.is_bar] < np.array(after, np.int64)
        self.needs = _needs(program)


def _needs(program: Sequence[Instruction]) -> Ints:
    """Return by pc the last writer of every register it reads or writes; -1 fills up, as for none."""
    writer: dict[str, int] = {}
    rows = []
    for pc, i in enumerate(program):
        named = [*i.srcs, *([] if i.dst is None else [i.dst])]
        rows.append([writer[register] for register in named if register in writer])
        if i.dst is not None:
            writer[i.dst] = pc
    table = np.full((len(rows), max([1, *map(len, rows)])), -1, np.int64)
    for row, found in zip(table, rows, strict=True):
        row[: len(found)] = found
    return table


@dataclass(frozen=True, eq=False)
class Recount:
    """A run told again.

    Parameters
    ----------
    programs, blocks, policy, max_outstanding
        As simulated.
    issued : ndarray, (T, S)
        What is taken from the trace: the warp each scheduler issued, -1 for none.
    held : tuple of int
        Warps whose last instruction is a barrier that never opens, though no program here says why.
    """

    programs: tuple[tuple[Instruction, ...], ...]
    blocks: tuple[int, ...]
    policy: str
    max_outstanding: int | None
    issued: NDArray[np.int32]
    held: tuple[int, ...] = ()

    @cached_property
    def plans(self) -> list[Plan]:
        """By warp the plan of its program; equal programs share one."""
        made = {id(program): Plan(program) for program in {id(p): p for p in self.programs}.values()}
        return [made[id(program)] for program in self.programs]

    # ------------------------------------------------------------------------------------------- issues

    @cached_property
    def issues(self) -> Ints:
        """Rows (cycle, scheduler, warp, pc) in the order of cycles and schedulers; no warp beyond its end."""
        cycle, scheduler = np.nonzero((self.issued >= 0) & (self.issued < len(self.programs)))
        warp = self.issued[cycle, scheduler].astype(np.int64)
        by_warp = np.argsort(warp, kind="stable")
        first = np.searchsorted(warp[by_warp], np.arange(len(self.programs)))
        pc = np.empty_like(warp)
        pc[by_warp] = np.arange(len(warp)) - first[warp[by_warp]]
        length = np.array([plan.length for plan in self.plans])
        return np.stack([cycle, scheduler, warp, pc], axis=1)[pc < length[warp]]

    def column(self, name: str) -> NDArray[Any]:
        """Return a column of the plans for every row of `issues`."""
        _, _, warp, pc = self.issues.T
        start = np.cumsum([0, *(plan.length for plan in self.plans)])[:-1]
        whole: NDArray[Any] = np.concatenate([getattr(plan, name) for plan in self.plans])[start[warp] + pc]
        return whole

    @cached_property
    def times(self) -> list[Ints]:
        """By warp the cycles of its issues."""
        cycle, _, warp, _ = self.issues.T
        by_warp = np.argsort(warp, kind="stable")
        ends = np.searchsorted(warp[by_warp], np.arange(1, len(self.programs)))
        return np.split(cycle[by_warp], ends)

    @cached_property
    def needed(self) -> list[Ints]:
        """By warp and pc: 2 * the cycle from which its operands are there, + 1 where a load is the last.

        The entry behind the last instruction is for all that is then in flight.
        """
        found = []
        for plan, times in zip(self.plans, self.times, strict=True):
            come = np.zeros(plan.length + 1, np.int64)  # the last answers for -1
            n = len(times)
            come[:n] = 2 * (times + plan.latency[:n]) + plan.is_memory[:n]
            found.append(np.append(np.max(come[plan.needs], axis=1), np.max(come)))
        return found

    @cached_property
    def loaded(self) -> list[Ints]:
        """By warp and pc: the cycle from which the loads it needs are there, 0 where it needs none."""
        found = []
        for plan, times in zip(self.plans, self.times, strict=True):
            come = np.zeros(plan.length + 1, np.int64)
            n = len(times)
            come[:n] = (times + plan.latency[:n]) * plan.is_memory[:n]
            found.append(np.append(np.max(come[plan.needs], axis=1), 0))
        return found

    # ------------------------------------------------------------------------------------------ barriers

    @cached_property
    def opening(self) -> list[Ints]:
        """By warp and pc: the first cycle after the barrier just before it, 0 without one.

        The cycle after the last arrival, or after the last exit of those that never come; a cycle beyond
        the run for a barrier that never opens.
        """
        found = [np.zeros(plan.length + 1, np.int64) for plan in self.plans]
        for block in set(self.blocks):
            mates = [w for w, own in enumerate(self.blocks) if own == block and self.plans[w].length]
            bars = {w: np.flatnonzero(self.plans[w].is_bar) for w in mates}
            for k in range(max([len(own) for own in bars.values()], default=0)):
                opens = self._opens(bars, k)
                for w, own in bars.items():
                    if k < len(own):
                        found[w][own[k] + 1] = opens
        for w in self.held:
            found[w][-1] = self.never
        return found

    def _opens(self, bars: dict[int, Ints], k: int) -> int:
        """Return when the ``k``-th barrier of a block opens, whose warps have barriers at these pcs."""
        last = -1
        for w, own in bars.items():
            pc = int(own[k]) if k < len(own) else self.plans[w].length - 1
            if pc >= len(self.times[w]) or (k < len(own) and self.plans[w].shut[pc]):
                return self.never
            last = max(last, int(self.times[w][pc]))
        return last + 1

    @property
    def never(self) -> int:
        """A cycle that no barrier opens in."""
        return len(self.issued) + 1

    @cached_property
    def stuck(self) -> list[int]:
        """The warps that stand at a barrier that never opens."""
        return [
            w
            for w, times in enumerate(self.times)
            if len(times) and self.opening[w][len(times)] == self.never
        ]

    # --------------------------------------------------------------------------------------- every cycle

    @cached_property
    def pc(self) -> NDArray[np.int32]:
        """As `WarpTrace.pc`: how many instructions each warp has issued before each cycle; (T, W)."""
        now = np.arange(len(self.issued))
        counts = [np.searchsorted(times, now) for times in self.times]
        return np.stack(counts, axis=1).astype(np.int32)

    @cached_property
    def state(self) -> NDArray[np.int8]:
        """As `WarpTrace.state`; (T, W)."""
        return self._stands[0]

    @cached_property
    def until(self) -> NDArray[np.int32]:
        """As `WarpTrace.until`; (T, W)."""
        return self._stands[1]

    @cached_property
    def able(self) -> Flags:
        """Whether each warp could issue in each cycle, when its scheduler decides; (T, W)."""
        return self._stands[2]

    @cached_property
    def _stands(self) -> tuple[NDArray[np.int8], NDArray[np.int32], Flags]:
        T, W, S = len(self.issued), len(self.programs), self.issued.shape[1]
        state, until = np.full((T, W), READY, np.int8), np.full((T, W), -1, np.int32)
        for s in range(min(S, W)):
            inside = self._inside(s)
            for i, w in enumerate(range(s, W, S)):
                self._warp(s, w, None if inside is None else inside[:, i], state[:, w], until[:, w])
        able = state == READY
        for w, times in enumerate(self.times):
            state[times, w] = ISSUES
        return state, until, able

    def _warp(
        self, s: int, w: int, inside: Flags | None, state: NDArray[np.int8], until: NDArray[np.int32]
    ) -> None:
        """Say in place how warp `w` stands whenever its scheduler decides, as if it were never picked."""
        now, pc, plan = np.arange(len(state)), self.pc[:, w], self.plans[w]
        opening, needed = self.opening[w][pc], self.needed[w][pc]
        at_barrier = opening > now
        lacks = ~at_barrier & (needed >> 1 > now)
        ended = ~at_barrier & ~lacks & (pc == plan.length)
        asks = ~at_barrier & ~lacks & ~ended
        state[at_barrier], state[ended] = BARRIER, FINISHED
        known = at_barrier & (opening == now + 1)  # whoever comes last is seen by the end of its cycle
        until[known] = opening[known]
        state[lacks] = np.where(needed[lacks] & 1, MEMORY, RESULT)
        until[lacks] = needed[lacks] >> 1
        if inside is not None:
            state[asks & ~inside] = PENDING
            asks &= inside
        units = np.append(plan.unit, "")[pc]
        for unit in {*plan.unit.tolist()} - {"bar"}:
            wants = asks & (units == unit)
            free = self._free(unit, s)
            state[wants & (free > now)] = UNIT
            until[wants & (free > now)] = free[wants & (free > now)]
            if unit == "mem" and self.max_outstanding is not None:
                flying, lands = self._flying(s)
                later = wants & (flying >= self.max_outstanding) & (lands > np.where(free > now, free, -1))
                state[later] = LIMIT
                until[later] = lands[later]

    def _seen(self, unit: str, s: int) -> tuple[Ints, Flags]:
        """Return from which cycle on scheduler `s` finds each use of a unit made, and which uses these are.

        Memory is one unit for all: what a scheduler before it issued in a cycle, it finds in that cycle.
        """
        cycle, scheduler = self.issues.T[:2]
        uses = self.column("unit") == unit
        if unit == "mem":
            return (cycle + (scheduler >= s))[uses], uses
        uses = uses & (scheduler == s)
        return cycle[uses] + 1, uses

    def _free(self, unit: str, s: int) -> Ints:
        """Return for each cycle from when on a unit is free, as scheduler `s` finds it."""
        if (unit, s) not in self._found:
            seen, uses = self._seen(unit, s)
            free = np.zeros(len(self.issued) + 1, np.int64)
            np.maximum.at(free, seen, (self.issues[:, 0] + self.column("interval"))[uses])
            self._found[unit, s] = np.maximum.accumulate(free)[:-1]
        return self._found[unit, s]

    @cached_property
    def _found(self) -> dict[tuple[str, int], Ints]:
        return {}

    def _flying(self, s: int) -> tuple[Ints, Ints]:
        """Return for each cycle how many loads are in flight as `s` finds it, and when the next lands."""
        T = len(self.issued)
        seen, uses = self._seen("mem", s)
        done = np.sort((self.issues[:, 0] + self.column("latency"))[uses])
        begun = np.cumsum(np.bincount(seen, minlength=T + 1))[:T]
        landed = np.searchsorted(done, np.arange(T), side="right")
        return begun - landed, np.append(done, -1)[landed]

    def _inside(self, s: int) -> Flags | None:
        """Return which warps of scheduler `s` are in its active pool in each cycle; None without pools."""
        if self.policy != "two_level":
            return None
        T, mine = len(self.issued), range(s, len(self.programs), self.issued.shape[1])
        now = np.arange(T)
        away = np.stack([self._away(w, now) for w in mine], axis=1)
        inside = np.zeros(away.shape, np.bool_)
        pool, queue = [*range(len(mine))][:ACTIVE_WARPS], [*range(len(mine))][ACTIVE_WARPS:]
        turns = [0, *(np.flatnonzero((away[1:] != away[:-1]).any(axis=1)) + 1).tolist(), T]
        for begin, end in itertools.pairwise(turns):
            out = away[begin]
            queue += [i for i in pool if out[i]]
            pool = sorted(i for i in pool if not out[i])
            enter = [i for i in queue if not out[i]][: ACTIVE_WARPS - len(pool)]
            queue = [i for i in queue if i not in enter]
            pool = sorted(pool + enter)
            inside[begin:end, pool] = True
        return inside

    def _away(self, w: int, now: Ints) -> Flags:
        """Return when a warp waits for a load or a barrier, or has issued everything."""
        pc = self.pc[:, w]
        away: Flags = (self.opening[w][pc] > now) | (self.loaded[w][pc] > now) | (pc == self.plans[w].length)
        return away

    # -------------------------------------------------------------------------------------------- picks

    @cached_property
    def picks(self) -> Ints:
        """The warp that the policy names among those that could issue, -1 where none could; (T, S)."""
        T, S = self.issued.shape
        picks = np.full((T, S), -1, np.int64)
        for s in range(min(S, len(self.programs))):
            able = self.able[:, s::S]
            place = np.arange(able.shape[1])
            last = self._last(s)[:, None]
            if self.policy in ("lrr", "two_level"):  # the first behind the last, going round
                rank = (place - last - 1) % len(place)
            else:
                rank = np.broadcast_to(-place if self.policy == "gty" else place, able.shape).copy()
                if self.policy != "oldest":  # greedy: the last one goes before all
                    rank[place == last] = -len(place)
            best = np.where(able, rank, len(place)).argmin(axis=1)
            picks[:, s] = np.where(able.any(axis=1), s + S * best, -1)
        return picks

    def _last(self, s: int) -> Ints:
        """Return for each cycle the place of the warp that `s` issued last before it; -1 for none."""
        T, S = self.issued.shape
        cycle, scheduler, warp, _ = self.issues.T
        mine = (scheduler == s) & (warp % S == s)
        latest = np.full(T + 1, -1, np.int64)
        latest[cycle[mine] + 1] = np.arange(len(cycle))[mine]
        latest = np.maximum.accumulate(latest)[:T]
        return np.where(latest < 0, -1, (np.append(warp, 0)[latest] - s) // S)
