"""When each instruction of each warp issues: the exact model PW-0, skipping the cycles in which nothing can.

The loop keeps, for every scheduler, the bits of the warps that have their operands, and a calendar of the
cycles at which others wake up. A scheduler that goes round among the same warps, while these only add on
units that are always free, issues all that at once and is left alone until then; what a run does over and
over is taken at once, too (`_repeats`). The loop records nothing but issue cycles: everything else a trace
shows (states, waits, program counters) follows from those and is derived in `_states`. `run` is one long
function, because calls inside its loop would cost more than the work they name.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from pulsewarp.simt._compiled import Compiled
from pulsewarp.simt._policy import ACTIVE_WARPS, Policy
from pulsewarp.simt._repeats import NEVER, Repeats, Times

# One compiled instruction, linked to the one after it (None at the end), since a warp mostly moves on by one:
#   plain     how many instructions from this one on are plain: their units are free again in the next cycle
#             and the warp can issue again then, on a unit of that kind: nothing to note but the cycle.
#             LAST for a barrier, and for the last of a program
#   next      the next Step or None; Any, because run-time type checkers stumble over recursive types
#   queue     where a warp waits that has this instruction next: ALWAYS_FREE for units that are free by the
#             next cycle, MEMORY, or the number of a unit that can be busy
#   interval  cycles its unit is taken; 0 for a barrier, -1 for one that not all of the warp's threads reach
#   latency   cycles until its result is there
#   wait      what the next instruction may have to wait for, or None: cycles until it can have what this one
#             leaves it; (pc, latency) of earlier instructions; and of all these, of those that load, since
#             two_level parks a warp that waits for them, and whether they are all
Needs = tuple[tuple[int, int], ...]
Wait = tuple[int, Needs, Needs, bool]
Step = tuple[int, Any, int, int, int, Wait | None]
LAST = -1
NO_WAIT: Wait = (1, (), (), False)
# Where a warp is found that wakes: its scheduler, its bit for what it does next, all its bits, and another
# such place or None: those that wake in the same cycle hang together.
Place = tuple[int, int, int, Any]
ALWAYS_FREE = 0
MEMORY = 1  # queue number of the one unit that the schedulers share

Moves = list[tuple[int, int]]  # (cycle, warp): out of the active pool and in, by turns
Crew = tuple[int, dict[int, tuple[int, list[int], int, tuple[Place, ...]]]]  # a scheduler's warps by bit

WORTH = 6  # fewer cycles than this at once are not worth the looking ahead
PAUSE = 24  # cycles until a scheduler that looked ahead in vain does so again


@dataclass(eq=False, slots=True)
class Pool:
    """The warps of one scheduler under two_level, by all their bits: who may issue, and who queues to."""

    active: int
    outside: int
    queue: dict[int, None]  # those outside, in order
    room: int
    each: int  # times a warp's first bit: all its bits
    moves: list[tuple[int, int]] = field(default_factory=list)  # (cycle, bits), of a warp out and in by turns

    def settle(self, t: int, parked: int) -> int:
        """Send parked warps out, lowest bit first; let in those who queued longest and are not parked.

        Return the bits of all that are in.
        """
        gone = self.active & parked
        while gone:
            bits = (gone & -gone) * self.each
            gone ^= bits
            self.active ^= bits
            self.outside ^= bits
            self.queue[bits] = None
            self.room += 1
            self.moves.append((t, bits))
        waiting = self.outside & ~parked
        if waiting and self.room:
            for bits in [bits for bits in self.queue if bits & waiting][: self.room]:
                del self.queue[bits]
                self.active ^= bits
                self.outside ^= bits
                self.room -= 1
                self.moves.append((t, bits))
        return self.active


class Visits(dict[int, list[Crew]]):
    """The crews of the schedulers whose bits are set, in order."""

    def __init__(self, crews: Sequence[Crew]) -> None:
        self.crews = crews

    def __missing__(self, bits: int) -> list[Crew]:
        if len(self) >= 4096:  # of many schedulers there are too many sets to keep
            self.clear()
        self[bits] = [crew for crew in self.crews if bits >> crew[0] & 1]
        return self[bits]


def queues(programs: Sequence[Compiled], units: Sequence[str]) -> list[int]:
    """Return the queue of each unit, by its number."""
    slow = {u for c in programs for u in c.unit[c.interval > 1].tolist()}
    numbers = []
    for u, unit in enumerate(units):
        if unit == "mem":
            numbers.append(MEMORY)
        elif u in slow:
            numbers.append(MEMORY + 1 + sum(v < u and units[v] != "mem" for v in slow))
        else:
            numbers.append(ALWAYS_FREE)
    return numbers


def link(compiled: Compiled, queue: Sequence[int]) -> list[Step | None]:
    """Return the program's steps in order, and None behind the last."""
    step: Step | None = None
    steps: list[Step | None] = [None]
    latency = compiled.latency.tolist()
    bars, shut = compiled.is_bar.tolist(), compiled.misses_threads.tolist()
    loads = compiled.is_memory.tolist()
    waits = ((), *reversed(compiled.waits))  # of the instruction after each, counted from the end
    columns = zip(
        reversed(compiled.unit.tolist()),
        reversed(compiled.interval.tolist()),
        waits,
        strict=False,  # the first instruction's own waits are nobody's
    )
    pc = len(latency)
    for unit, interval, needed in columns:
        pc -= 1
        q = queue[unit]
        if bars[pc]:
            interval = -1 if shut[pc] else 0
        delay = 1
        older: tuple[tuple[int, int], ...] = ()
        loaded: tuple[tuple[int, int], ...] = ()
        if needed:
            if pc in needed:
                delay = latency[pc]
            if needed != (pc,):
                older = tuple([(p, latency[p]) for p in needed if p != pc])
            loaded = tuple([(p, latency[p]) for p in needed if loads[p]])
        plain = 0
        at_once = q == ALWAYS_FREE and delay == 1 and interval > 0 and not older
        if at_once and step is not None and step[2] == ALWAYS_FREE:
            plain = max(step[0], 0) + 1
        if interval <= 0 or step is None:
            plain = LAST
        wait = (delay, older, loaded, len(loaded) == len(needed)) if delay > 1 or older else None
        step = (plain, step, q, interval, latency[pc], wait)
        steps.append(step)
    steps.reverse()
    return steps


def run(
    programs: Sequence[Compiled],
    units: Sequence[str],
    blocks: Sequence[int],
    schedulers: int,
    policy: Policy,
    max_outstanding: int | None,
    last_cycle: int,
) -> tuple[list[Times], list[Moves] | None]:
    """Return the issue cycles of every warp's instructions, in program order, and the moves of two_level.

    A warp that stands at a barrier that never opens has fewer issues than its program has instructions.
    There are no moves where no scheduler has more warps than an active pool takes.

    Raises
    ------
    OverflowError
        When an issue would come after `last_cycle`.
    """
    distinct = {id(c): c for c in programs}
    queue = queues(list(distinct.values()), units)
    lines = {key: link(c, queue) for key, c in distinct.items()}
    line_of = [lines[id(c)] for c in programs]
    steps = [line[0] for line in line_of]  # what each warp issues next
    issues: list[list[int]] = [[] for _ in programs]

    # A warp has a bit for each queue, side by side; of a scheduler's warps, the one preferred has the lowest.
    n_queues = max([MEMORY, *queue]) + 1
    slow = n_queues > MEMORY + 1
    all_queues = (1 << n_queues) - 1  # times a warp's first bit: all its bits
    crews: list[Crew] = []
    places: list[tuple[Place, ...]] = [()] * len(programs)  # by queue
    for s in range(min(schedulers, len(programs))):
        mine = range(s, len(programs), schedulers)
        end = 1 << len(mine) * n_queues
        crew: dict[int, Any] = {}
        for k, w in enumerate(reversed(mine) if policy.youngest_first else mine):
            first = 1 << k * n_queues
            own = first * all_queues
            above = first << n_queues
            favours = {1: above - first, 0: 0, -1: end - first, -2: end - above}[
                policy.follow
            ]  # when it issued
            places[w] = tuple([(s, first << q, own, None) for q in range(n_queues)])
            for _, bit, _, _ in places[w]:
                crew[bit] = (w, issues[w], favours, places[w])
        crews.append((s, crew))
    all_plain = sum([1 << k * n_queues for k in range(-(-len(programs) // schedulers))])
    all_bits = all_plain * all_queues
    no_memory = all_bits ^ (all_plain << MEMORY)
    turns, greedy = policy.follow < 0, policy.follow == 1

    # Warps of each block that have not exited, and those of them that stand at its barrier.
    in_block = dict.fromkeys(blocks, 0)
    arrived: dict[int, list[int]] = {block: [] for block in in_block}
    unfinished = 0
    visits = Visits(crews)
    ready = [0] * len(crews)  # bits of the warps that have their operands
    due = 0  # bits of the schedulers that have such warps and are not busy
    for w, step in enumerate(steps):
        if step is not None:
            unfinished += 1
            in_block[blocks[w]] += 1
            s, bit, _, _ = places[w][step[2]]
            ready[s] |= bit
            due |= 1 << s
    favoured = [0] * len(crews)
    busy = [0] * len(crews)  # what a scheduler issues before this cycle is settled
    busiest = 0  # the last of these cycles
    standing = [0] * len(crews)  # first bits of the warps at a barrier
    calendar: dict[int, Any] = {}  # the places of the warps that will have their operands, by cycle
    free = [all_bits] * len(crews)  # bits of the queues of units that are not taken, but for memory
    freeing: dict[int, list[tuple[int, int]]] = {}  # scheduler and bits that will be free again, by cycle
    memory_free = 0  # the cycle from which the memory unit is free again
    landing: list[int] = []  # heap of the cycles at which loads in flight land
    pools: list[Pool] = []
    parked = [0] * len(
        crews
    )  # all bits of the warps that wait for loads (two_level) or a barrier, or are done
    unparking: dict[int, list[Place]] = {}  # and of those that will no longer, by cycle
    moved = 0  # bits of the schedulers of which a warp has parked or gone on since the pool was settled
    inside = [all_bits] * len(crews)  # bits of the warps that two_level may issue: all, without pools
    usual = [all_bits] * len(crews)  # free and inside
    if policy.pools and len(programs) > ACTIVE_WARPS * schedulers:
        for s, crew in crews:
            order = sorted([bit * all_queues for bit in crew if bit & all_plain])
            active, rest = order[:ACTIVE_WARPS], order[ACTIVE_WARPS:]
            room = ACTIVE_WARPS - len(active)
            pools.append(Pool(sum(active), sum(rest), dict.fromkeys(rest), room, all_queues))
            parked[s] = sum([bits for bits in order if steps[crew[bits & -bits][0]] is None])
            moved |= 1 << s
    pooled = bool(pools)
    special = pooled or slow or max_outstanding is not None

    repeats = Repeats(
        programs,
        issues,
        ready,
        favoured,
        busy,
        free,
        calendar,
        freeing,
        unparking,
        landing,
        arrived,
        parked,
        pools,
    )
    held, held_all = repeats.held, repeats.held_all
    hold_at = hold_early = repeats.hold_at

    t = 0
    look_ahead = [0] * len(crews)  # not before this cycle
    while True:
        if t in calendar:
            waking = calendar.pop(t)
            while waking is not None:
                s, bit, own, waking = waking
                ready[s] |= bit
                due |= 1 << s
                if pooled and parked[s] & own:
                    parked[s] ^= own
                    if pools[s].room:
                        moved |= 1 << s
        usable = all_bits if memory_free <= t else no_memory
        if special:
            if pooled:
                if t in unparking:
                    for s, _, own, _ in unparking.pop(t):
                        parked[s] &= ~own
                        if pools[s].room:
                            moved |= 1 << s
                if moved:
                    for s, _ in visits[moved]:
                        inside[s] = pools[s].settle(t, parked[s])
                        usual[s] = free[s] & inside[s]
                    moved = 0
            if slow and t in freeing:
                for s, bits in freeing.pop(t):
                    free[s] |= bits
                    usual[s] = free[s] & inside[s]
            if max_outstanding is not None:
                while landing and landing[0] <= t:
                    heappop(landing)
                if len(landing) >= max_outstanding:
                    usable = no_memory
        if ready[0] in held and ready in held_all:
            skipped = repeats.skip(t, memory_free, last_cycle)
            if skipped:
                t += skipped
                memory_free += skipped
                look_ahead = [t] * len(crews)
                hold_at = min(hold_at, t + WORTH)
                busiest = max(busy)
                steps = [line[len(times)] for line, times in zip(line_of, issues, strict=True)]
        if t >= hold_at:
            if t > last_cycle:
                raise OverflowError
            hold_at = repeats.hold(t, memory_free)
            hold_early = (t + hold_at) // 2

        idle = True
        for s, crew in visits[due]:
            eligible = ready[s] & usable
            if special:
                eligible &= usual[s]
            if not eligible:
                continue
            if busiest > t and busy[s] > t:
                if busy[s] > t + WORTH:  # woken into what is settled
                    due ^= 1 << s
                else:
                    idle = False
                continue

            idle = False
            bit = eligible & favoured[s] or eligible
            bit &= -bit
            w, times, favours, place = crew[bit]
            favoured[s] = favours
            now = t
            while True:
                plain, after, q, interval, latency, wait = steps[w]  # type: ignore[misc]  # who is ready has one
                times.append(now)
                if plain > 0:
                    if greedy:
                        times.extend(range(now + 1, now + plain))
                        now += plain - 1
                        after = line_of[w][len(times)]
                    elif plain >= WORTH and t >= look_ahead[s] and now == t:
                        # Who comes next is known for so long as the same warps can issue.
                        order, end = [bit], t + plain
                        rivals = all_bits if turns else place[0][1] - 1
                        others = ready[s] & inside[s] & rivals
                        if standing[s] & rivals or others & ~all_plain:
                            end = t
                        elif rivals:
                            if others & ~bit:
                                order, end = _in_turn(others, bit, favours), NEVER
                                for k, other in enumerate(order):
                                    # Its first instruction that is not plain would be issued in this cycle.
                                    own_plain = max(steps[crew[other][0]][0], 0)  # type: ignore[index]  # as above
                                    end = min(end, t + k + len(order) * own_plain)
                            end = _before(end, s, rivals, calendar, unparking)
                        if end >= t + WORTH:
                            if end > last_cycle:
                                raise OverflowError
                            for k, other in enumerate(order):
                                v, times, _, _ = crew[other]
                                times.extend(range(t + (k or len(order)), end, len(order)))
                                steps[v] = line_of[v][len(times)]
                            favoured[s] = crew[order[(end - t - 1) % len(order)]][2]
                            now = end - 1
                            break
                        look_ahead[s] = t + PAUSE
                    if plain > 1 and not (turns or greedy):
                        # While no other wakes, it goes on to the end of what is plain.
                        rivals = place[0][1] - 1
                        if not (standing[s] | ready[s]) & rivals:
                            end, stop = now + 1, now + plain
                            while end < stop and not (rivals and end in calendar):
                                end += 1
                            times.extend(range(now + 1, end))
                            now = end - 1
                            after = line_of[w][len(times)]
                    steps[w] = after
                else:
                    steps[w] = after
                    if q:
                        if q == MEMORY:
                            memory_free = t + interval
                            usable = no_memory
                            if max_outstanding is not None:
                                heappush(landing, t + latency)
                        elif interval > 1:
                            free[s] ^= all_plain << q
                            usual[s] = free[s] & inside[s]
                            freeing.setdefault(t + interval, []).append((s, all_plain << q))
                    if plain == 0:
                        if wait is not None:
                            delay, older, loads, only_loads = wait
                            wake = now + delay
                            for pc, latency in older:
                                if times[pc] + latency > wake:
                                    wake = times[pc] + latency
                            if wake > now + 1:
                                ready[s] ^= bit
                                if not ready[s]:
                                    due ^= 1 << s
                                if wake in calendar:
                                    calendar[wake] = (*place[after[2]][:3], calendar[wake])
                                else:
                                    calendar[wake] = place[after[2]]
                                if pooled and loads:
                                    end = wake
                                    if not only_loads:
                                        end = max([times[pc] + latency for pc, latency in loads])
                                    if end > t + 1:
                                        # It leaves the pool in the next cycle, in which it is still parked.
                                        own = place[0][2]
                                        parked[s] |= own
                                        pool = pools[s]
                                        if not pool.room:  # else nobody waits to get in
                                            moved |= 1 << s
                                        pool.room += 1
                                        pool.active ^= own
                                        pool.outside ^= own
                                        pool.queue[own] = None
                                        pool.moves.append((t + 1, own))
                                        inside[s] ^= own
                                        usual[s] &= ~own
                                        if end < wake:  # else it is let go as it wakes
                                            unparking.setdefault(end, []).append(place[0])
                                break
                        if after[2] != q:
                            other = place[after[2]][1]
                            ready[s] ^= bit | other
                            bit = other
                    else:
                        # A barrier, or the warp's last instruction.
                        ready[s] ^= bit
                        if not ready[s]:
                            due ^= 1 << s
                        if pooled:
                            parked[s] |= place[0][2]
                            moved |= 1 << s
                        block = blocks[w]
                        if interval > 0:
                            unfinished -= 1
                            in_block[block] -= 1
                            if not unfinished:
                                return _packed(issues), _moves(pools, crews)
                        elif interval == 0:
                            arrived[block].append(w)
                            standing[s] |= place[0][1]
                        # Whoever arrives last, or exits last of those missing, lets all go on in the next
                        # cycle, not before: another scheduler may still have to decide in this one.
                        arrivals = arrived[block]
                        if not arrivals or len(arrivals) < in_block[block]:
                            break
                        arrived[block] = []
                        if t >= hold_early:  # moments like the one after a barrier are rare, and come again
                            hold_at = t + 1
                        for v in arrivals:
                            place = places[v]
                            standing[place[0][0]] ^= place[0][1]
                            times = issues[v]
                            _, after, _, _, _, wait = line_of[v][len(times) - 1]  # type: ignore[misc]  # its barrier
                            if after is None:
                                unfinished -= 1
                                in_block[block] -= 1
                                if not unfinished:
                                    return _packed(issues), _moves(pools, crews)
                                continue
                            _, older, loads, _ = wait or NO_WAIT
                            wake = max([t + 1, *[times[pc] + latency for pc, latency in older]])
                            calendar[wake] = (*place[after[2]][:3], calendar.get(wake))
                            if pooled:
                                end = max([t + 1, *[times[pc] + latency for pc, latency in loads]])
                                if end < wake:
                                    unparking.setdefault(end, []).append(place[0])
                        break
                # It can issue again in the next cycle, and surely will when no other can that goes before it.
                if turns or after[2] or after[0] == LAST:
                    break
                if not greedy:
                    rivals = place[0][1] - 1
                    if rivals and (now + 1 in calendar or (ready[s] | standing[s]) & rivals):
                        break
                now += 1
            if now > t:
                end = now + 1
                busy[s] = end
                if end > busiest:
                    busiest = end
                if end > t + WORTH:
                    due &= ~(1 << s)
                    calendar[end] = (s, 0, 0, calendar.get(end))

        t += 1
        if idle:
            # Nothing can issue until a warp wakes, a busy unit frees or a load lands.
            if not calendar and not due:  # warps stand at a barrier that never opens
                return _packed(issues), _moves(pools, crews)
            end = min(calendar, default=NEVER)
            if special:
                end = min([end, *freeing, *unparking])
            if t <= memory_free < end:
                end = memory_free
            if landing and t <= landing[0] < end:
                end = landing[0]
            if end > last_cycle:
                raise OverflowError
            t = end


def _packed(issues: list[list[int]]) -> list[Times]:
    """Return the cycles in less memory; the lists are used up."""
    packed = []
    while issues:
        times = issues.pop()
        packed.append(array("q"))
        packed[-1].frombytes(struct.pack(f"{len(times)}q", *times))
    packed.reverse()
    return packed


def _moves(pools: Sequence[Pool], crews: Sequence[Crew]) -> list[Moves] | None:
    """Return who left or entered the pools, and when."""
    if not pools:
        return None
    return [
        [(cycle, crew[bits & -bits][0]) for cycle, bits in pool.moves]
        for pool, (_, crew) in zip(pools, crews, strict=True)
    ]


def _before(
    end: int, s: int, rivals: int, calendar: dict[int, Any], unparking: dict[int, list[Place]]
) -> int:
    """Return `end`, or the cycle before in which a rival on scheduler s wakes or a warp is let go."""
    for cycle, waking in calendar.items():
        if cycle < end:
            while waking is not None:
                r, bit, _, waking = waking
                if r == s and bit & rivals:
                    end = cycle
    for cycle, places in unparking.items():
        if cycle < end and any(r == s for r, _, _, _ in places):
            end = cycle
    return end


def _in_turn(own: int, bit: int, above: int) -> list[int]:
    """Return the bits of `own` in the order in which they take turns, from `bit` on."""
    order = [bit]
    for mask in (own & above & ~bit, own & ~above & ~bit):
        while mask:
            order.append(mask & -mask)
            mask &= mask - 1
    return order
