"""When each instruction of each warp issues: the exact model PW-0, skipping the cycles in which nothing can.

The loop keeps, for every scheduler, bit masks of the warps whose operands are there, and the cycles at
which others wake up. Stretches in which every scheduler goes round among the same warps, and these only add
on units that are always free, are issued at once; so is what a run does over and over (`_repeats`). It
records nothing but issue cycles: everything else a trace shows (states, waits, program counters) follows from
those and is derived in `_states`. `run` is one long function, because calls inside its loop would cost more
than the work they name.
"""

from __future__ import annotations

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
#             and the warp can issue again then, on a unit of that kind: nothing to note but the cycle
#   next      the next Step or None; Any, because run-time type checkers stumble over recursive types
#   queue     where a warp waits that has this instruction next: ALWAYS_FREE for units that are free by the
#             next cycle, MEMORY, or the number of a unit that can be busy
#   interval  cycles its unit is taken; 0 for a barrier, -1 for one that not all of the warp's threads reach
#   delay     cycles until the next instruction can have what this one leaves it
#   older     (pc, latency) of earlier instructions that the next one may have to wait for as well
#   loads     of these, this one included, those that load: two_level parks a warp that waits for them
Step = tuple[int, Any, int, int, int, int, tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]
ALWAYS_FREE = 0
MEMORY = 1  # queue number of the one unit that the schedulers share

WORTH = 24  # fewer cycles than this at once are not worth the looking ahead


@dataclass(eq=False, slots=True)
class Pool:
    """The warps of one scheduler under two_level: those it may issue, and those that queue to get in."""

    active: int
    outside: int
    queue: list[int]
    moves: list[tuple[int, int, bool]] = field(default_factory=list)  # (cycle, bit, in or out)

    def settle(self, t: int, parked: int) -> None:
        """Send parked warps out, lowest bit first; let in those who queued longest and are not parked."""
        gone = self.active & parked
        while gone:
            bit = gone & -gone
            gone ^= bit
            self.active ^= bit
            self.outside |= bit
            self.queue.append(bit)
            self.moves.append((t, bit, False))
        room = ACTIVE_WARPS - self.active.bit_count()
        if room > 0 and self.outside & ~parked:
            for bit in [bit for bit in self.queue if not bit & parked][:room]:
                self.queue.remove(bit)
                self.outside ^= bit
                self.active |= bit
                self.moves.append((t, bit, True))


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
            plain = step[0] + 1
        step = (plain, step, q, interval, latency[pc], delay, older, loaded)
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
) -> tuple[list[Times], list[Pool] | None]:
    """Return the issue cycles of every warp's instructions, in program order, and the pools of two_level.

    A warp that stands at a barrier that never opens has fewer issues than its program has instructions.
    There are no pools where no scheduler has more warps than an active pool takes.

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
    issues: list[Times] = [array("q") for _ in programs]

    n_queues = max([MEMORY, *queue]) + 1
    slow = tuple(range(MEMORY + 1, n_queues))
    # Bits of the warps that have their operands, by scheduler and queue.
    ready = [[0] * n_queues for _ in range(schedulers)]
    ready_of = [ready[w % schedulers] for w in range(len(programs))]
    # Bits of the warps that will have their operands for a unit that is always free, by cycle.
    waking: list[dict[int, int]] = [{} for _ in range(schedulers)]
    free = [[0] * n_queues for _ in range(schedulers)]  # the cycle from which a unit is free again
    numbered = []
    bit_of = [0] * len(programs)
    for s in range(schedulers):
        mine = range(s, len(programs), schedulers)
        bits = {1 << k: w for k, w in enumerate(reversed(mine) if policy.youngest_first else mine)}
        for bit, w in bits.items():
            bit_of[w] = bit
        numbered.append((s, ready[s], free[s], waking[s], bits))
    favoured = [-1] * schedulers
    follow = policy.follow
    memory_free = 0
    landing: list[int] = []  # heap of the cycles at which loads in flight land
    joining: dict[int, list[int]] = {}  # warps by the cycle in which they have those for another unit
    unparking: dict[int, list[int]] = {}  # and by the cycle in which the wait for loads or a barrier is over
    # Warps of each block that have not exited, and those of them that stand at its barrier.
    in_block = dict.fromkeys(blocks, 0)
    arrived: dict[int, list[int]] = {block: [] for block in in_block}
    unfinished = 0
    for w, step in enumerate(steps):
        if step is not None:
            unfinished += 1
            in_block[blocks[w]] += 1
            ready_of[w][step[2]] |= bit_of[w]
    pools: list[Pool] | None = None
    parked = [0] * schedulers  # bits of the warps that wait for loads (two_level) or a barrier, or are done
    if policy.pools and len(programs) > ACTIVE_WARPS * schedulers:
        pools = []
        for s, _, _, _, bits in numbered:
            order = list(bits)
            active, rest = order[:ACTIVE_WARPS], order[ACTIVE_WARPS:]
            parked[s] = sum(bit for bit in order if steps[bits[bit]] is None)
            pools.append(Pool(sum(active), sum(rest), rest))

    inside = [-1] * schedulers  # bits of the warps that two_level may issue: all, without pools
    awaited: list[dict[int, Any]] = [joining, unparking, *waking]
    moved = [pools is not None] * schedulers  # a warp has parked or gone on since the pool was settled

    repeats = Repeats(
        programs,
        issues,
        favoured,
        ready,
        free,
        waking,
        joining,
        unparking,
        landing,
        arrived,
        parked,
        moved,
        pools or [],
    )
    now = (favoured, ready)
    hold_at = repeats.hold_at

    t = 0
    look_ahead = 0  # not before this cycle
    while True:
        if now in repeats.held:
            skipped = repeats.skip(t, memory_free, last_cycle)
            if skipped:
                t += skipped
                memory_free += skipped
                look_ahead = t
                hold_at = min(hold_at, t + WORTH)
                steps = [line[len(times)] for line, times in zip(line_of, issues, strict=True)]
        if t >= hold_at:
            hold_at = repeats.hold(t, memory_free)
        if t in joining:
            for w in joining.pop(t):
                ready_of[w][steps[w][2]] |= bit_of[w]  # type: ignore[index]  # a waking warp has a next step
                if parked[w % schedulers] & bit_of[w]:
                    parked[w % schedulers] ^= bit_of[w]
                    moved[w % schedulers] = True
        if t in unparking:
            for w in unparking.pop(t):
                parked[w % schedulers] &= ~bit_of[w]
                moved[w % schedulers] = True
        idle = True
        for s, masks, frees, wakes, bits in numbered:
            if t in wakes:
                bit = wakes.pop(t)
                masks[ALWAYS_FREE] |= bit
                if parked[s] & bit:
                    parked[s] &= ~bit
                    moved[s] = True
            eligible = masks[ALWAYS_FREE]
            if masks[MEMORY] and memory_free <= t:
                if max_outstanding is None:
                    eligible |= masks[MEMORY]
                else:
                    while landing and landing[0] <= t:
                        heappop(landing)
                    if len(landing) < max_outstanding:
                        eligible |= masks[MEMORY]
            if slow:
                for q in slow:
                    if masks[q] and frees[q] <= t:
                        eligible |= masks[q]
            if pools is not None:
                if moved[s]:
                    pools[s].settle(t, parked[s])
                    inside[s] = pools[s].active
                    moved[s] = False
                eligible &= inside[s]
            if not eligible:
                continue

            idle = False
            bit = eligible & favoured[s] or eligible
            bit &= -bit
            favoured[s] = bit * follow
            w = bits[bit]
            plain, after, q, interval, latency, delay, older, loads = steps[w]  # type: ignore[misc]  # as above
            steps[w] = after
            times = issues[w]
            times.append(t)
            if plain:
                continue
            if interval > 1 or q:
                if q == MEMORY:
                    memory_free = t + interval
                    if max_outstanding is not None:
                        heappush(landing, t + latency)
                elif q:
                    frees[q] = t + interval
            if after is not None and interval > 0:
                wake = t + delay
                if older:
                    for pc, latency in older:
                        if times[pc] + latency > wake:
                            wake = times[pc] + latency
                if wake > t + 1:
                    masks[q] ^= bit
                    if after[2] == ALWAYS_FREE:
                        if wake in wakes:
                            wakes[wake] |= bit
                        else:
                            wakes[wake] = bit
                    elif wake in joining:
                        joining[wake].append(w)
                    else:
                        joining[wake] = [w]
                    if loads and pools is not None:
                        end = max([times[pc] + latency for pc, latency in loads])
                        if end > t + 1:
                            parked[s] |= bit
                            moved[s] = True
                            if end < wake:  # else it is let go as it wakes
                                unparking.setdefault(end, []).append(w)
                elif after[2] != q:
                    masks[q] ^= bit
                    masks[after[2]] |= bit  # its scheduler has decided for this cycle
                continue

            # A barrier, or the warp's last instruction.
            masks[q] ^= bit
            if pools is not None:
                parked[s] |= bit
                moved[s] = True
            block = blocks[w]
            if interval > 0:
                unfinished -= 1
                in_block[block] -= 1
            elif interval == 0:
                arrived[block].append(w)
            # Whoever arrives last, or exits last of those missing, lets all go on in the next cycle, not
            # before: another scheduler may still have to decide in this one.
            arrivals = arrived[block]
            if not arrivals or len(arrivals) < in_block[block]:
                continue
            arrived[block] = []
            for v in arrivals:
                times = issues[v]
                _, after, _, _, _, _, older, loads = line_of[v][len(times) - 1]  # type: ignore[misc]  # its barrier
                if after is None:
                    unfinished -= 1
                    in_block[block] -= 1
                    continue
                wake = max([t + 1, *[times[pc] + latency for pc, latency in older]])
                joining.setdefault(wake, []).append(v)
                if pools is not None:
                    end = max([t + 1, *[times[pc] + latency for pc, latency in loads]])
                    if end < wake:
                        unparking.setdefault(end, []).append(v)

        if not unfinished:
            return issues, pools
        if not idle:
            t += 1
            if t >= look_ahead:
                end = min([min(cycles) for cycles in awaited if cycles], default=NEVER)
                turns = []
                for s, masks, _, _, bits in numbered:
                    if any(masks[MEMORY:]) or moved[s] or end < t + WORTH:
                        break
                    eligible = masks[ALWAYS_FREE] & inside[s]
                    if not eligible:
                        continue
                    order = _turns(eligible, favoured[s], follow)
                    for k, bit in enumerate(order):
                        # Its first instruction that is not plain would be issued in this cycle.
                        end = min(end, t + k + len(order) * steps[bits[bit]][0])  # type: ignore[index]
                    turns.append((s, order))
                else:
                    if end >= t + WORTH and turns:
                        if end > last_cycle:
                            raise OverflowError
                        for s, order in turns:
                            for k, bit in enumerate(order):
                                w = numbered[s][-1][bit]
                                issues[w].extend(range(t + k, end, len(order)))
                                steps[w] = line_of[w][len(issues[w])]
                            favoured[s] = order[(end - t - 1) % len(order)] * follow
                        t = end
                look_ahead = t + WORTH
        else:
            # Nothing could issue: nothing can until a warp wakes, a busy unit frees or a load lands.
            end = NEVER
            for cycles in awaited:
                if cycles:
                    end = min(end, *cycles)
            for _, masks, frees, _, _ in numbered:
                for q in slow:
                    if masks[q] and t < frees[q] < end:
                        end = frees[q]
                if masks[MEMORY]:
                    if t < memory_free < end:
                        end = memory_free
                    if landing and t < landing[0] < end:
                        end = landing[0]
            if end == NEVER:  # warps stand at a barrier that never opens
                return issues, pools
            t = end
        if t > last_cycle:
            raise OverflowError


def _turns(eligible: int, favoured: int, follow: int) -> list[int]:
    """Return the bits issued in turn, over and over, as long as all of them and no others are eligible."""
    first = eligible & favoured or eligible
    if follow >= 0:
        return [first & -first]
    order = []
    for mask in (first, eligible ^ first):
        while mask:
            order.append(mask & -mask)
            mask &= mask - 1
    return order
