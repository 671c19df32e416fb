"""What every warp is doing in every cycle, derived from the cycles at which its instructions issued.

Between two issues a warp passes through the same stages in the same order: at the barrier, waiting for
operands, then able to issue but for the scheduler's choice, its unit or the limit on loads in flight.
The stages of all warps are laid out at once and unrolled into cycles with `np.repeat`; only cycles of
the last stage need a closer look.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp.simt._compiled import Compiled, Ints
from pulsewarp.simt._policy import ACTIVE_WARPS
from pulsewarp.simt._repeats import Times

STATES = ("issues", "ready", "unit", "memory", "result", "barrier", "limit", "finished", "pending")
ISSUES, READY, UNIT, MEMORY, RESULT, BARRIER, LIMIT, FINISHED, PENDING = range(len(STATES))

Moves = Sequence[tuple[int, int]]  # (cycle, warp) of one scheduler: out of the active pool and in, by turns

# While states are made: `_ASKS + u` has its operands and wants unit number u.
_ASKS = len(STATES)


@dataclass(frozen=True, eq=False)
class Log:
    """Every issue of a run, ordered by cycle and, within a cycle, by scheduler."""

    cycle: Ints
    scheduler: Ints
    warp: Ints
    pc: Ints
    interval: Ints
    done: Ints
    unit: Ints
    lanes: Ints
    units: tuple[str, ...]
    cycles: int


def log(
    programs: Sequence[Compiled], units: tuple[str, ...], schedulers: int, issues: Sequence[Times]
) -> Log:
    """Return every issue of a run as columns, ordered by cycle and scheduler."""
    counts = [len(times) for times in issues]
    cycle = np.concatenate([np.frombuffer(times, np.int64) for times in issues])
    warp = np.repeat(np.arange(len(programs)), counts)
    slot = cycle * schedulers + warp % schedulers
    # A slot holds one issue, so laying the issues out by slot puts them in order.
    place = np.full(int(np.max(slot)) + 1, -1, np.int64)
    place[slot] = np.arange(len(slot))
    order = place[place >= 0]

    def column(name: str) -> Ints:
        whole: Ints = np.concatenate([getattr(c, name)[:n] for c, n in zip(programs, counts, strict=True)])[
            order
        ]
        return whole

    cycle, warp = cycle[order], warp[order]
    done = cycle + column("latency")
    # A deadlock shows for a cycle in which nothing else is left.
    shut = any(c.misses_threads[:n].any() for c, n in zip(programs, counts, strict=True))
    return Log(
        cycle=cycle,
        scheduler=warp % schedulers,
        warp=warp,
        pc=np.concatenate([np.arange(n) for n in counts])[order],
        interval=column("interval"),
        done=done,
        unit=column("unit"),
        lanes=column("lanes"),
        units=units,
        cycles=int(np.max(done)) + shut,
    )


def unroll(
    programs: Sequence[Compiled],
    blocks: Sequence[int],
    issues: Sequence[Times],
    events: Log,
    schedulers: int,
    max_outstanding: int | None,
    pools: Sequence[Moves] | None,
) -> tuple[NDArray[np.int8], NDArray[np.int32], NDArray[np.int32]]:
    """Return state, program counter and end of the present wait, each (cycles, warps)."""
    T, W = events.cycles, len(programs)
    state = np.empty((W, T), np.int8)  # by warp first, so that every warp's cycles lie together
    pc = np.empty((W, T), np.int32)
    until = np.empty((W, T), np.int32)
    opened = _barrier_openings(programs, blocks, issues, T)
    busy = [events.units[u] for u in np.unique(events.unit[_can_be_busy(events)]).tolist()]
    together: dict[tuple[int, int], list[int]] = {}
    for w, compiled in enumerate(programs):
        together.setdefault((id(compiled), len(issues[w])), []).append(w)
    asks = np.array([_ASKS + u if name in busy else READY for u, name in enumerate(events.units)], np.int8)
    for (_, n), warps in together.items():
        openings = np.array([opened[w] for w in warps], np.int64).reshape(len(warps), -1)
        times = np.stack([np.frombuffer(issues[w], np.int64) for w in warps])
        made = _stages(programs[warps[0]], n, times, openings, asks, T)
        if len(warps) == W:
            state, pc, until = made
        else:
            state[warps], pc[warps], until[warps] = made
    if pools is not None:
        _send_outside(state, pools, schedulers)
    _contend(state, until, events, busy, schedulers, max_outstanding)
    state[events.warp, events.cycle] = ISSUES
    return np.ascontiguousarray(state.T), np.ascontiguousarray(pc.T), np.ascontiguousarray(until.T)


def _barrier_openings(
    programs: Sequence[Compiled], blocks: Sequence[int], issues: Sequence[Sequence[int]], T: int
) -> list[list[int]]:
    """Return, for every warp, the first cycle after each barrier it issued: one after the last arrival.

    A warp that has exited holds up no barrier after that; a barrier that never opens gets a cycle after
    the end of the run.
    """
    bars = {id(c): np.flatnonzero(c.is_bar).tolist() for c in programs}
    arrivals = [[issues[w][pc] for pc in bars[id(c)] if pc < len(issues[w])] for w, c in enumerate(programs)]
    opening = open_barriers(blocks, issues, arrivals)
    for w, compiled in enumerate(programs):
        if compiled.misses_threads[: len(issues[w])].any():  # the last barrier of this block stays shut
            opening[blocks[w]][-1] = T + 1
    return [opening[block][: len(arrivals[w])] for w, block in enumerate(blocks)]


def open_barriers(
    blocks: Sequence[int], issues: Sequence[Sequence[int]], arrivals: Sequence[Sequence[int]]
) -> dict[int, list[int]]:
    """Return, by block, the cycle after the last arrival at each barrier, or after the last exit if later."""
    opening: dict[int, list[int]] = {}
    for block in set(blocks):
        mates = [w for w, own in enumerate(blocks) if own == block and issues[w]]
        opening[block] = [
            max(arrivals[w][k] if k < len(arrivals[w]) else issues[w][-1] for w in mates) + 1
            for k in range(max([len(arrivals[w]) for w in mates], default=0))
        ]
    return opening


def _send_outside(state: NDArray[np.int8], pools: Sequence[Moves], schedulers: int) -> None:
    """Say in place which warps that have their operands are not in their scheduler's active pool."""
    moves: dict[int, list[int]] = {}
    for pool in pools:
        for t, w in pool:
            moves.setdefault(w, []).append(t)
    for w, row in enumerate(state):
        # A warp goes in and out by turns.
        ends = np.array([0, *moves.get(w, []), len(row)])
        turns = (np.arange(len(ends) - 1) + (w // schedulers >= ACTIVE_WARPS)) % 2 == 1
        row[((row >= _ASKS) | (row == READY)) & np.repeat(turns, np.diff(ends))] = PENDING


def _can_be_busy(events: Log) -> NDArray[np.bool_]:
    """Return which issues are on a unit that others may find taken: memory, or for more than a cycle."""
    memory = events.units.index("mem") if "mem" in events.units else -1
    can: NDArray[np.bool_] = (events.unit == memory) | (events.interval > 1)
    return can


def _stages(
    table: Compiled, n: int, times: Ints, openings: Ints, asks: NDArray[np.int8], T: int
) -> tuple[Any, Any, Any]:
    """Return state, pc and until, each (warps, T), of warps that issued the first n of one program.

    The cycle of an issue is part of the stage before it. A stage that no warp can be in is left out: most
    instructions wait for nothing.
    """
    W = len(times)
    is_bar = table.is_bar[:n]
    edge = np.zeros((W, 1), np.int64)
    start = np.concatenate([edge, times + 1], axis=1)  # first cycle in which pc is p, for p = 0 .. n
    last = np.concatenate([times, np.full((W, 1), T)], axis=1)

    # The stages of each pc, side by side: at a shut barrier, at one that opens, waiting, asking for its unit.
    after_bar = np.concatenate([[False], is_bar])
    waits = np.concatenate([[len(earlier) > 0 for earlier in table.waits[:n]], [n > 0]]).astype(bool)
    width = 1 + waits + 2 * after_bar
    ask = np.cumsum(width) - 1  # column of the last stage
    wait, bar = ask[waits] - 1, (ask - waits)[after_bar] - 2
    ends = np.empty((W, int(ask[-1]) + 1), np.int64)
    states = np.empty(ends.shape, np.int8)
    untils = np.full(ends.shape, -1, np.int32)
    ends[:, ask[:n]] = start[:, 1:]
    ends[:, ask[n]] = T
    states[:, ask[:n]] = asks[table.unit[:n]]
    states[:, ask[n]] = FINISHED

    # Each end is clipped to the next, so that no stage is shorter than nothing.
    first = start
    if bar.size:
        first = start.copy()
        first[:, after_bar] = np.minimum(openings, last[:, after_bar])
        ends[:, bar] = np.clip(openings - 1, start[:, after_bar], last[:, after_bar])
        ends[:, bar + 1] = first[:, after_bar]
        states[:, bar] = states[:, bar + 1] = BARRIER
        untils[:, bar + 1] = openings
    needed = _needed(table, n, times, waits)
    ends[:, wait] = np.clip(needed >> 1, first[:, waits], last[:, waits])
    states[:, wait] = np.where(needed & 1, MEMORY, RESULT)
    untils[:, wait] = needed >> 1

    flat = np.diff(ends, axis=1, prepend=0).ravel()
    begun = np.diff(ends[:, ask], axis=1, prepend=0).ravel()
    return (
        np.repeat(states.ravel(), flat).reshape(W, T),
        np.repeat(np.tile(np.arange(n + 1, dtype=np.int32), W), begun).reshape(W, T),
        np.repeat(untils.ravel(), flat).reshape(W, T),
    )


def _needed(table: Compiled, n: int, times: Ints, waits: NDArray[np.bool_]) -> Ints:
    """Return, for each pc that waits, 2 * the cycle in which its operands are there, + 1 if a load is last.

    So one maximum carries both, and a tie counts as memory.
    """
    edge = np.zeros((len(times), 1), np.int64)
    arrival = 2 * (times + table.latency[:n]) + table.is_memory[:n]
    arrival[:, table.is_bar[:n]] = 0
    needed = np.zeros((len(times), int(np.sum(waits))), np.int64)
    if n:
        # After its last instruction a warp waits for everything in flight, stores included.
        needed[:, -1] = arrival.max(axis=1)
        arrival = np.concatenate([arrival, edge], axis=1)  # the last column answers for -1
        for producer in table.producers[:n][waits[:n]].T:
            np.maximum(needed[:, :-1], arrival[:, producer], out=needed[:, :-1])
    return needed


def _contend(
    state: NDArray[np.int8],
    until: NDArray[np.int32],
    events: Log,
    busy: Sequence[str],
    schedulers: int,
    max_outstanding: int | None,
) -> None:
    """Say in place, for warps that have their operands and want a unit, whether they are ready or wait."""
    T = events.cycles
    now = np.arange(T)

    def per_cycle(cycles: Ints) -> Ints:
        return np.bincount(cycles, minlength=T)[:T]

    for u, name in enumerate(events.units):
        if name not in busy:  # taken for one cycle by its own scheduler: free again at every decision
            continue
        uses = events.unit == u
        shared = name == "mem"
        # Issues before the decision in each cycle: schedulers decide one after the other.
        before = np.zeros(T, np.int64)
        if shared:
            before = np.cumsum(per_cycle(events.cycle[uses])) - per_cycle(events.cycle[uses])
            landings = np.sort(events.done[uses])
            landed = np.cumsum(per_cycle(landings))
        for s in range(min(schedulers, len(state))):
            asks = state[s::schedulers] == _ASKS + u
            mine = uses & (events.scheduler == s)
            cycle = events.cycle[mine]
            if not shared:
                before = np.cumsum(per_cycle(cycle)) - per_cycle(cycle)
            theirs = uses if shared else mine
            free = np.concatenate([[0], (events.cycle + events.interval)[theirs]])[before]
            taken = free > now
            shown = np.where(taken, np.int8(UNIT), np.int8(READY))
            ends = np.where(taken, free, -1)
            if shared and max_outstanding is not None:
                place = np.append(landings, -1)[landed]  # the next to land leaves its place
                # Of two reasons, the one that ends last is shown.
                later = (before - landed >= max_outstanding) & (place > ends)
                shown[later] = LIMIT
                ends = np.where(later, place, ends)
            if shared:
                before += per_cycle(cycle)
            np.copyto(state[s::schedulers], shown, where=asks)
            np.copyto(until[s::schedulers], ends.astype(np.int32), where=asks)
