"""A run that repeats itself, noticed while it goes on, and its repetitions taken at once.

Programs are mostly loops, and warps that go round in loops soon fall into step. When everything that decides
what comes next stands as it stood at an earlier moment, cycles counted from the one and from the other, and
every warp has the same instructions before it as it had then, the cycles in between come again, for as long
as the instructions go on being the same.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import eq
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp.simt._compiled import Compiled, Ints

if TYPE_CHECKING:
    Times = array[int]  # of 64 bits
else:
    Times = array  # Python 3.11 cannot evaluate array[int]

NEVER = 1 << 62  # a cycle after any
SHORTEST, LONG, LONGEST = 64, 1024, 8192  # cycles for which one moment is held against those that follow
WORTH = 64  # fewer instructions than this at once are not worth the trouble
FIRST = 4  # cycles until the second moment is held
PATIENCE = 64  # moments that look like the one held in vain, until it is looked for no more
FEW = 64  # instructions for each such moment, on the whole: looking must not cost more than it saves


class Lags:
    """How far a program stays the same as itself some instructions later."""

    def __init__(self, compiled: Compiled) -> None:
        producers = compiled.producers
        back = np.where(producers < 0, 0, np.arange(len(producers))[:, None] - producers)
        kind = 2 * compiled.latency + compiled.is_memory
        needed = np.where(producers < 0, 0, kind[producers])
        own = (compiled.unit, compiled.interval, kind, compiled.misses_threads)
        self._kinds = _numbered([*own, *back.T, *needed.T])
        self._unlike: dict[int, list[int]] = {}
        # The loop asks for the issue cycle of an instruction for so long. One that waits for the instruction
        # just before it is told when that issues.
        self.reach = int(np.max(np.where(back > 1, needed, 0), initial=0)) // 2

    def alike(self, pc: int, lag: int) -> int:
        """Return how many instructions from `pc` on are the same as those `lag` later."""
        if lag not in self._unlike:
            differ = self._kinds[:-lag] != self._kinds[lag:]
            self._unlike[lag] = [*np.flatnonzero(differ).tolist(), len(differ)]
        unlike = self._unlike[lag]
        return unlike[bisect_left(unlike, pc)] - pc


def _numbered(columns: Sequence[NDArray[Any]]) -> Ints:
    """Return one number for each row: rows have the same where they are the same in every column."""
    number = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        if np.any(column):
            span = int(np.max(column)) + 1
            if int(np.max(number)) >= 2**62 // span:
                number = np.unique(number, return_inverse=True)[1]
            number = number * span + column
    return number


@dataclass(eq=False, slots=True)
class Moment:
    """One moment of a run, held against those that follow."""

    t: int
    ready: list[int]
    favoured: list[int]
    parts: tuple[object, ...]
    issued: list[int]  # by each warp
    moves: list[int]  # in each pool
    watch: int = 0  # not before this cycle is it looked for again
    missed: int = 0  # how often it looked like this one and was not, or was to no avail


@dataclass(eq=False, slots=True)
class Repeats:
    """What a run changes in place as it goes on, and two earlier moments of it.

    One is never long ago, so that short loops are found wherever they are; the other is held for longer and
    longer.
    """

    programs: Sequence[Compiled]
    issues: Sequence[list[int]]
    ready: list[int]
    favoured: list[int]
    busy: list[int]
    free: list[int]
    calendar: dict[int, Any]
    freeing: dict[int, Any]
    unparking: dict[int, Any]
    landing: list[int]
    arrived: dict[int, list[int]]
    parked: list[int]
    pools: Sequence[Any]
    held: list[int] = field(default_factory=list)  # of each moment, what the loop can look for
    held_all: list[list[int]] = field(default_factory=list)
    hold_at: int = 0
    _moments: list[Moment] = field(default_factory=list)
    _length: int = SHORTEST
    _late: int = 0
    _rest: int = FIRST
    _missed: int = 0
    _lags: dict[int, Lags] = field(default_factory=dict)

    def hold(self, t: int, memory_free: int) -> int:
        """Hold this moment against those that follow; return when to hold the next."""
        issued = [len(times) for times in self.issues]
        if self._missed > PATIENCE + sum(issued) // FEW:
            self.held.clear()
            return t + SHORTEST
        moves = [len(pool.moves) for pool in self.pools]
        parts = tuple(self._parts(t, memory_free))
        moment = Moment(t, list(self.ready), list(self.favoured), parts, issued, moves)
        if t >= self._late:
            self._length = 4 * self._length if self._length < LONGEST else SHORTEST
            self._late = t + self._length
            self._moments[1:] = [moment]
        self._moments[:1] = [moment]
        self._look_for()
        rest = self._rest
        self._rest = min(2 * self._rest, LONG)
        return t + rest

    def _look_for(self) -> None:
        """Say what the loop can look for."""
        self.held_all[:] = [moment.ready for moment in self._moments if moment.watch < NEVER]
        self.held[:] = [ready[0] for ready in self.held_all]

    def skip(self, t: int, memory_free: int, last_cycle: int) -> int:
        """Return how many cycles repeat those since a moment held; their issues are noted."""
        for moment in dict.fromkeys(self._moments):  # at times both are the same one
            # What the loop found may be the other moment.
            if t < moment.watch or moment.favoured != self.favoured or moment.ready != self.ready:
                continue
            often = self._often(t, memory_free, moment)
            if often:
                skipped = often * (t - moment.t)
                if t + skipped > last_cycle:
                    raise OverflowError
                self._repeat(t, moment, often)
                return skipped
            self._missed += 1
            moment.missed += 1
            if moment.missed == PATIENCE:
                moment.watch = NEVER
                self._look_for()
        return 0

    def _often(self, t: int, memory_free: int, moment: Moment) -> int:
        """Return how often what happened since the moment happens again; 0 when that is not worth while."""
        if not all(map(eq, moment.parts, self._parts(t, memory_free))):
            return 0
        steps = [len(times) - n for times, n in zip(self.issues, moment.issued, strict=True)]
        going = [w for w, step in enumerate(steps) if step]
        often = NEVER
        for w in going:
            # What is noted beforehand repeats itself, too. And one more must be the same: what a warp waits
            # for is settled as it issues the instruction before.
            n = moment.issued[w]
            start = bisect_left(self.issues[w], moment.t, 0, n)
            often = min(often, (self._lag(w).alike(start, steps[w]) - 1 - (n - start)) // steps[w])
            if often * sum(steps) < WORTH:
                # Until the instructions change, the same moment comes again, to no more avail.
                moment.watch = t + 1 + max(often, 0) * (t - moment.t)
                return 0
        # Of a warp that goes on, what it may wait for; of any, what is noted of it beforehand.
        compared = range(len(steps)) if max(self.busy) > t else going
        return often if going and all(self._same_flights(w, t, moment) for w in compared) else 0

    def _repeat(self, t: int, moment: Moment, often: int) -> None:
        """Note everything that happened since the moment so often again, and move what is to come."""
        period = t - moment.t
        skipped = often * period
        later = period * np.arange(1, often + 1)[:, None]
        for times, n in zip(self.issues, moment.issued, strict=True):
            if len(times) > n:
                times += (later + np.array(times[n:], np.int64)).ravel().tolist()
        for pool, n in zip(self.pools, moment.moves, strict=True):
            again = pool.moves[n:]
            for cycles in later[:, 0].tolist():
                pool.moves += [(cycle + cycles, bit) for cycle, bit in again]
        self.landing[:] = [cycle + skipped for cycle in self.landing]
        for awaited in (self.calendar, self.freeing, self.unparking):
            later_on = [(cycle + skipped, who) for cycle, who in awaited.items()]
            awaited.clear()
            awaited.update(later_on)
        self.busy[:] = [cycle + skipped for cycle in self.busy]
        moment.missed = 0
        self._rest = FIRST
        moment.watch = t + skipped + period + 1

    def _parts(self, t: int, memory_free: int) -> Iterator[object]:
        """Yield what else decides what comes next, but for the programs and results on their way.

        What differs the most comes first, since a comparison goes no further.
        """
        yield max(memory_free - t, 0)
        for awaited in (self.calendar, self.freeing, self.unparking):
            yield {cycle - t: tuple(who) for cycle, who in awaited.items()}
        yield [max(cycle - t, 0) for cycle in self.busy]
        yield list(self.free)
        yield sorted([cycle - t for cycle in self.landing if cycle > t])
        yield list(self.parked)
        yield [(pool.active, list(pool.queue)) for pool in self.pools]
        yield [list(warps) for warps in self.arrived.values()]

    def _lag(self, w: int) -> Lags:
        compiled = self.programs[w]
        if id(compiled) not in self._lags:
            self._lags[id(compiled)] = Lags(compiled)
        return self._lags[id(compiled)]

    def _same_flights(self, w: int, t: int, moment: Moment) -> bool:
        """Tell whether what warp w may still wait for is as far on its way as it was at the moment."""
        times, n = self.issues[w], moment.issued[w]
        back = max(self._lag(w).reach - 1, 0) if len(times) > n else 0
        then = times[bisect_left(times, moment.t - back, 0, n) : n]
        now = times[bisect_left(times, t - back) :]
        return [cycle - moment.t for cycle in then] == [cycle - t for cycle in now]
