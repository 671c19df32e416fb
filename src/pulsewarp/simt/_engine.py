"""When each instruction of each warp issues: the exact model PW-0, skipping the cycles in which nothing can.

The loop keeps, for every scheduler, bit masks of the warps whose operands are there, and a heap of the
cycles at which others wake up. It records nothing but issue cycles: everything else a trace shows
(states, waits, program counters) follows from those and is derived in `_states`. `run` is one long
function, because calls inside its loop would cost more than the work they name.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any

from pulsewarp.simt import _policy
from pulsewarp.simt._instruction import Instruction

# One compiled instruction, linked to the one after it (None at the end), since a warp only ever moves on:
#   queue     where a warp waits that has this instruction next: 0 for units that are always free by the
#             next cycle, else the number of a unit that can be busy
#   interval  cycles its unit is taken (0 for a barrier)
#   latency   cycles until the result
#   dst       register written; the last register is a dummy for instructions that write none
#   a, b, c, more  registers that must be ready for the *next* instruction: its sources and destination,
#             three of them unpacked because that is faster; register 0 is always ready and fills gaps
#   next      the next Step or None; Any, because run-time type checkers stumble over recursive types
Step = tuple[int, int, int, int, int, int, int, tuple[int, ...], Any]
ALWAYS_READY = 0
MEMORY = 1  # queue number of the one unit that the schedulers share


def queues(programs: Sequence[Sequence[Instruction]]) -> dict[str, int]:
    """Return the queue number of each unit that can be busy: memory, and units with an interval above 1."""
    slow = {i.unit for p in programs for i in p if i.unit not in ("mem", "bar") and i.interval > 1}
    return {"mem": MEMORY} | {unit: MEMORY + 1 + k for k, unit in enumerate(sorted(slow))}


def compile_program(program: Sequence[Instruction], queue: dict[str, int]) -> tuple[Step | None, int]:
    """Return the program's first step (None when it is empty), and how many registers its steps use."""
    names = {register: ALWAYS_READY + 1 + k for k, register in enumerate(dict.fromkeys(_touched(program)))}
    dummy = len(names) + 1
    step: Step | None = None
    needed: list[int] = []
    for i in reversed(program):
        a, b, c, *more = needed + [ALWAYS_READY] * (3 - len(needed))
        dst = dummy if i.dst is None else names[i.dst]
        interval = 0 if i.unit == "bar" else i.interval
        step = (queue.get(i.unit, 0), interval, i.latency, dst, a, b, c, tuple(more), step)
        needed = [names[register] for register in dict.fromkeys(_touched([i]))]
    return step, dummy + 1


def _touched(program: Sequence[Instruction]) -> list[str]:
    """Return the registers that must be ready: sources and destinations."""
    return [r for i in program for r in (*i.srcs, *([] if i.dst is None else [i.dst]))]


def run(
    programs: Sequence[Sequence[Instruction]],
    blocks: Sequence[int],
    schedulers: int,
    policy: str,
    max_outstanding: int | None,
    last_cycle: int,
) -> list[list[int]]:
    """Return the issue cycles of every warp's instructions, in program order.

    Raises
    ------
    OverflowError
        When an issue would come after `last_cycle`.
    """
    pick = _policy.POLICIES[policy]
    queue = queues(programs)
    compiled: dict[int, tuple[Step | None, int]] = {}
    for program in programs:
        if id(program) not in compiled:  # each distinct program is compiled once
            compiled[id(program)] = compile_program(program, queue)
    steps = [compiled[id(program)][0] for program in programs]  # what each warp issues next
    registers = [[0] * compiled[id(program)][1] for program in programs]  # the cycle each one is ready
    issues: list[list[int]] = [[] for _ in programs]

    n_queues = len(queue) + 1
    slow = range(MEMORY + 1, n_queues)
    # Bit masks of the warps that have their operands, by scheduler and queue.
    ready = [[0] * n_queues for _ in range(schedulers)]
    ready_of = [ready[w % schedulers] for w in range(len(programs))]
    bit_of = [1 << w // schedulers for w in range(len(programs))]
    numbered = list(enumerate(ready))
    last = [-1] * schedulers
    memory_free = 0
    free = [[0] * n_queues for _ in range(schedulers)]
    landing: list[int] = []  # heap of the cycles at which loads in flight land
    waking: dict[int, list[int]] = {}  # warps by the cycle in which they have their operands
    wake_cycles: list[int] = []  # heap of its keys
    in_block = {block: blocks.count(block) for block in set(blocks)}
    # Who stands at the block's barrier, with the registers its next instruction needs.
    arrived: dict[int, list[tuple[int, int, int, int, tuple[int, ...]]]] = {block: [] for block in in_block}
    unfinished = 0
    for w, step in enumerate(steps):
        if step is not None:
            unfinished += 1
            ready_of[w][step[0]] |= bit_of[w]

    t = 0
    while True:
        while wake_cycles and wake_cycles[0] <= t:
            for w in waking.pop(heappop(wake_cycles)):
                ready_of[w][steps[w][0]] |= bit_of[w]  # type: ignore[index]  # a waking warp has a next step
        idle = True
        for s, masks in numbered:
            eligible = masks[0]
            if masks[MEMORY] and memory_free <= t:
                if max_outstanding is None:
                    eligible |= masks[MEMORY]
                else:
                    while landing and landing[0] <= t:
                        heappop(landing)
                    if len(landing) < max_outstanding:
                        eligible |= masks[MEMORY]
            for q in slow:
                if masks[q] and free[s][q] <= t:
                    eligible |= masks[q]
            if not eligible:
                continue

            idle = False
            last[s] = mine = pick(eligible, last[s])
            w = mine * schedulers + s
            q, interval, latency, dst, a, b, c, more, after = steps[w]  # type: ignore[misc]  # as above
            steps[w] = after
            issues[w].append(t)
            masks[q] ^= 1 << mine
            if after is None:
                unfinished -= 1
            if interval:
                scoreboard = registers[w]
                scoreboard[dst] = t + latency
                if q:
                    if q == MEMORY:
                        memory_free = t + interval
                        if max_outstanding is not None:
                            heappush(landing, t + latency)
                    else:
                        free[s][q] = t + interval
                if after is None:
                    continue
                wake = scoreboard[a]
                if scoreboard[b] > wake:
                    wake = scoreboard[b]
                if scoreboard[c] > wake:
                    wake = scoreboard[c]
                for register in more:
                    if scoreboard[register] > wake:
                        wake = scoreboard[register]
                if wake <= t + 1:
                    masks[after[0]] |= 1 << mine  # its scheduler has decided for this cycle
                elif wake in waking:
                    waking[wake].append(w)
                else:
                    waking[wake] = [w]
                    heappush(wake_cycles, wake)
                continue

            # A barrier. Whoever arrives first waits, whoever arrives last lets all go on in the next cycle,
            # not before: another scheduler may still have to decide in this one.
            arrivals = arrived[blocks[w]]
            arrivals.append((w, a, b, c, more))
            if len(arrivals) < in_block[blocks[w]]:
                continue
            arrived[blocks[w]] = []
            for v, a, b, c, more in arrivals:
                if steps[v] is not None:
                    scoreboard = registers[v]
                    wake = max(t + 1, *[scoreboard[register] for register in (a, b, c, *more)])
                    if wake in waking:
                        waking[wake].append(v)
                    else:
                        waking[wake] = [v]
                        heappush(wake_cycles, wake)

        if not unfinished:
            return issues
        if idle:
            # Nothing could issue: nothing can until a warp wakes, a busy unit frees or a load lands.
            times = [memory_free, *(free[s][q] for s in range(schedulers) for q in slow), *landing[:1]]
            t = min([c for c in times if c > t] + wake_cycles[:1])
        else:
            t += 1
        if t > last_cycle:
            raise OverflowError
