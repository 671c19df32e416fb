"""PW-0 read straight: one cycle after the other, every warp looked at in every cycle.

Written from the model's text alone and without a look at the package's loop. Slow on purpose: nothing is
skipped, remembered or precomputed, so that a fault here and the same fault there would be a coincidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pulsewarp.simt import Instruction

POOL = 6  # warps in a scheduler's active pool


@dataclass
class Run:
    cycles: int = 0
    issued: list[list[int]] = field(default_factory=list)
    state: list[list[str]] = field(default_factory=list)
    pc: list[list[int]] = field(default_factory=list)
    until: list[list[int]] = field(default_factory=list)
    requests: list[tuple[int, int, int, int]] = field(default_factory=list)


@dataclass
class Warp:
    program: Sequence[Instruction]
    block: int
    pc: int = 0
    at_barrier: bool = False
    waits_for_mates: bool = False  # at a barrier that not all of its threads reached: never over
    writes: dict[str, tuple[int, bool]] = field(default_factory=dict)  # register: (ready cycle, by memory)
    flights: list[tuple[int, bool]] = field(default_factory=list)


def step_through(
    programs: Sequence[Sequence[Instruction]],
    schedulers: int,
    policy: str,
    max_outstanding: int | None = None,
    blocks: Sequence[int] | None = None,
) -> Run:
    warps = [Warp(p, 0 if blocks is None else blocks[w]) for w, p in enumerate(programs)]
    unit_free: dict[object, int] = {}
    last = [-1] * schedulers
    loads: list[int] = []
    mine = [list(range(s, len(programs), schedulers)) for s in range(schedulers)]
    pool = [own[:POOL] for own in mine]
    outside = [own[POOL:] for own in mine]
    run = Run()

    def unit(w: int) -> object:
        name = warps[w].program[warps[w].pc].unit
        return "mem" if name == "mem" else (name, w % schedulers)

    def operands(w: int) -> list[tuple[int, bool]]:
        i = warps[w].program[warps[w].pc]
        touched = [*i.srcs, *([] if i.dst is None else [i.dst])]
        return [warps[w].writes[r] for r in touched if r in warps[w].writes]

    def waits(w: int, t: int) -> tuple[str, int] | None:
        """Why warp w cannot issue at t, or None."""
        warp = warps[w]
        if warp.at_barrier:
            return "barrier", -1
        if warp.pc == len(warp.program):
            ends = [f for f in warp.flights if f[0] > t]
            return ("memory" if max(ends)[1] else "result", max(ends)[0]) if ends else ("finished", -1)
        i = warp.program[warp.pc]
        if i.unit == "bar":
            return None
        pending = [o for o in operands(w) if o[0] > t]
        if pending:
            return ("memory" if max(pending)[1] else "result", max(pending)[0])
        reasons = []
        if unit_free.get(unit(w), 0) > t:
            reasons.append((unit_free[unit(w)], "unit"))
        in_flight = sorted(r for r in loads if r > t)
        if i.unit == "mem" and max_outstanding is not None and len(in_flight) >= max_outstanding:
            reasons.append((in_flight[0], "limit"))
        if reasons:  # the later end; "unit" on a tie, which is also the later word
            end, word = max(reasons)
            return word, end
        return None

    def parked(w: int, t: int) -> bool:
        """Whether warp w waits for a barrier or a load, or has nothing left: two_level sends it out."""
        warp = warps[w]
        if warp.at_barrier or warp.pc == len(warp.program):
            return True
        if warp.program[warp.pc].unit == "bar":
            return False
        return any(ready > t and by_memory for ready, by_memory in operands(w))

    def settle(s: int, t: int) -> None:
        for w in sorted(pool[s]):
            if parked(w, t):
                pool[s].remove(w)
                outside[s].append(w)
        for w in list(outside[s]):
            if len(pool[s]) < POOL and not parked(w, t):
                outside[s].remove(w)
                pool[s].append(w)

    def choose(able: list[int], s: int) -> int:
        if policy in ("lrr", "two_level"):
            return min([w for w in able if w > last[s]] or able)
        if policy in ("gto", "gty") and last[s] in able:
            return last[s]
        return max(able) if policy == "gty" else min(able)

    def stuck() -> bool:
        """Whether nothing can ever issue again: every warp has finished or stands at a barrier."""
        return all(w.at_barrier or w.pc == len(w.program) for w in warps)

    t = 0
    while not stuck():
        state = [""] * len(warps)
        until = [-1] * len(warps)
        pcs = [w.pc for w in warps]
        issued = [-1] * schedulers
        arrived_now = []
        for s in range(schedulers):
            able = []
            if policy == "two_level":
                settle(s, t)
            for w in range(s, len(warps), schedulers):
                reason = waits(w, t)
                operands_there = reason is None or reason[0] in ("unit", "limit")
                if policy == "two_level" and operands_there and w not in pool[s]:
                    state[w] = "pending"
                elif reason is None:
                    state[w] = "ready"
                    able.append(w)
                else:
                    state[w], until[w] = reason
            if not able:
                continue
            w = choose(able, s)
            state[w], issued[s], last[s] = "issues", w, w
            warp = warps[w]
            i = warp.program[warp.pc]
            if i.unit == "bar":
                arrived_now.append(w)
                run.cycles = max(run.cycles, t + 1)
            else:
                unit_free[unit(w)] = t + i.interval
                if i.dst is not None:
                    warp.writes[i.dst] = (t + i.latency, i.unit == "mem")
                warp.flights.append((t + i.latency, i.unit == "mem"))
                run.cycles = max(run.cycles, t + i.latency)
                if i.unit == "mem":
                    loads.append(t + i.latency)
                    run.requests.append((t, w, warp.pc, t + i.latency))
            warp.pc += 1
        for w in arrived_now:
            warps[w].at_barrier = True
            own, pc = warps[w].program, warps[w].pc
            warps[w].waits_for_mates = any(i.lanes > own[pc - 1].lanes for i in own[pc:])
        for block in {w.block for w in warps}:
            members = [
                w
                for w, warp in enumerate(warps)
                if warp.block == block and (warp.at_barrier or warp.pc < len(warp.program))
            ]
            if all(warps[w].at_barrier and not warps[w].waits_for_mates for w in members):
                for w in members:
                    warps[w].at_barrier = False
                    if state[w] == "barrier":
                        until[w] = t + 1
        run.issued.append(issued)
        run.state.append(state)
        run.pc.append(pcs)
        run.until.append(until)
        t += 1
    run.cycles += any(w.at_barrier for w in warps)  # a deadlock shows for one cycle more
    while t < run.cycles:  # everything has issued; what is in flight lands
        run.issued.append([-1] * schedulers)
        ends = [waits(w, t) for w in range(len(warps))]
        run.state.append([e[0] for e in ends if e])
        run.until.append([e[1] for e in ends if e])
        run.pc.append([w.pc for w in warps])
        t += 1
    return run
