"""When each instruction of each warp issues: the exact model PW-0, skipping the cycles in which nothing can.

The loop keeps, for every scheduler, bit masks of the warps whose operands are there, and a heap of the
cycles at which others wake up. It records nothing but issue cycles: everything else a trace shows
(states, waits, program counters) follows from those and is derived in `_states`.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from pulsewarp.simt import _policy
from pulsewarp.simt._instruction import Instruction

# A step is one compiled instruction:
#   queue     where a warp waits that has this instruction next: 0 for units that are always free by the
#             next cycle, else the number of a unit that can be busy
#   interval  cycles its unit is taken (0 for a barrier)
#   latency   cycles until the result
#   dst       register written; the last register is a dummy for instructions that write none
#   operands  registers that must be ready: sources and destination
Step = tuple[int, int, int, int, tuple[int, ...]]
MEMORY = 1  # queue number of the one unit that the schedulers share


def queues(programs: Sequence[Sequence[Instruction]]) -> dict[str, int]:
    """Return the queue number of each unit that can be busy: memory, and units with an interval above 1."""
    slow = {i.unit for p in programs for i in p if i.unit not in ("mem", "bar") and i.interval > 1}
    return {"mem": MEMORY} | {unit: MEMORY + 1 + k for k, unit in enumerate(sorted(slow))}


def compile_program(program: Sequence[Instruction], queue: dict[str, int]) -> tuple[list[Step], int]:
    """Return the program's steps and how many registers they name, the dummy included."""
    names: dict[str, int] = {}
    for i in program:
        for register in (*i.srcs, *([i.dst] if i.dst is not None else [])):
            names.setdefault(register, len(names))
    dummy = len(names)
    steps: list[Step] = []
    for i in program:
        dst = dummy if i.dst is None else names[i.dst]
        operands = dict.fromkeys([names[r] for r in i.srcs] + ([] if i.dst is None else [dst]))
        interval = 0 if i.unit == "bar" else i.interval
        steps.append((queue.get(i.unit, 0), interval, i.latency, dst, tuple(operands)))
    return steps, dummy + 1


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
    compiled: dict[int, tuple[list[Step], int]] = {}
    for program in programs:
        if id(program) not in compiled:  # each distinct program is compiled once
            compiled[id(program)] = compile_program(program, queue)
    steps = [compiled[id(program)][0] for program in programs]
    registers = [[0] * compiled[id(program)][1] for program in programs]
    issues: list[list[int]] = [[] for _ in programs]

    n_queues = len(queue) + 1
    ready = [[0] * n_queues for _ in range(schedulers)]  # bit masks of warps with their operands there
    for w, own in enumerate(steps):
        if own:
            ready[w % schedulers][own[0][0]] |= 1 << w // schedulers
    memory_free = 0
    free = [[0] * n_queues for _ in range(schedulers)]
    last = [-1] * schedulers
    landing: list[int] = []  # heap of the cycles at which loads in flight land
    waking: dict[int, list[int]] = {}
    wake_cycles: list[int] = []  # heap of the keys of `waking`
    in_block = {block: blocks.count(block) for block in set(blocks)}
    arrived: dict[int, list[int]] = {block: [] for block in in_block}
    remaining = sum(len(own) for own in steps)
    numbered = list(enumerate(ready))
    slow = range(MEMORY + 1, n_queues)

    t = 0
    while remaining:
        if t > last_cycle:
            raise OverflowError
        while wake_cycles and wake_cycles[0] <= t:
            for w in waking.pop(heappop(wake_cycles)):
                ready[w % schedulers][steps[w][len(issues[w])][0]] |= 1 << w // schedulers
        before = remaining
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

            mine = pick(eligible, last[s])
            last[s] = mine
            w = mine * schedulers + s
            issued = issues[w]
            q, interval, latency, dst, _ = steps[w][len(issued)]
            issued.append(t)
            remaining -= 1
            masks[q] &= ~(1 << mine)
            if not interval:
                here = arrived[blocks[w]]
                here.append(w)
                if len(here) < in_block[blocks[w]]:
                    continue
                released = here
                arrived[blocks[w]] = []
            else:
                registers[w][dst] = t + latency
                if q == MEMORY:
                    memory_free = t + interval
                    if max_outstanding is not None:
                        heappush(landing, t + latency)
                elif q:
                    free[s][q] = t + interval
                released = [w]

            for v in released:
                if len(issues[v]) == len(steps[v]):
                    continue
                wake = t + 1
                scoreboard = registers[v]
                for register in steps[v][len(issues[v])][4]:
                    if scoreboard[register] > wake:
                        wake = scoreboard[register]
                if wake in waking:
                    waking[wake].append(v)
                else:
                    waking[wake] = [v]
                    heappush(wake_cycles, wake)

        if remaining < before:
            t += 1
        elif remaining:
            # Nothing could issue: nothing can until a warp wakes, a busy unit frees or a load lands.
            times = [memory_free, *(free[s][q] for s in range(schedulers) for q in slow), *landing[:1]]
            t = min([c for c in times if c > t] + wake_cycles[:1])
    return issues
