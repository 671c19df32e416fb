"""What every warp is doing in every cycle, derived from the cycles at which its instructions issued.

Between two issues a warp passes through the same stages in the same order: at the barrier, waiting for
operands, then able to issue but for the scheduler's choice, its unit or the limit on loads in flight.
The stages of all warps are laid out at once and unrolled into cycles with `np.repeat`; only cycles of
the last stage need a closer look.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp.simt._compiled import Compiled, Ints
from pulsewarp.simt._engine import Pool
from pulsewarp.simt._policy import ACTIVE_WARPS

STATES = ("issues", "ready", "unit", "memory", "result", "barrier", "limit", "finished", "pending")
ISSUES, READY, UNIT, MEMORY, RESULT, BARRIER, LIMIT, FINISHED, PENDING = range(len(STATES))

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
    programs: Sequence[Compiled], units: tuple[str, ...], schedulers: int, issues: Sequence[Sequence[int]]
) -> Log:
    """Return every issue of a run as columns, ordered by cycle and scheduler."""
    counts = [len(times) for times in issues]
    cycle = np.fromiter(itertools.chain.from_iterable(issues), np.int64, sum(counts))
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
    issues: Sequence[Sequence[int]],
    events: Log,
    schedulers: int,
    max_outstanding: int | None,
    pools: Sequence[Pool] | None,
) -> tuple[NDArray[np.int8], NDArray[np.int32], NDArray[np.int32]]:
    """Return state, program counter and end of the present wait, each (cycles, warps)."""
    T, W = events.cycles, len(programs)
    state = np.empty((W, T), np.int8)  # by warp first, so that every warp's cycles lie together
    pc = np.empty((W, T), np.int32)
    until = np.empty((W, T), np.int32)
    opened = _barrier_openings(programs, blocks, issues, T)
    together: dict[tuple[int, int], list[int]] = {}
    for w, compiled in enumerate(programs):
        together.setdefault((id(compiled), len(issues[w])), []).append(w)
    for (_, n), warps in together.items():
        openings = np.array([opened[w] for w in warps], np.int64).reshape(len(warps), -1)
        times = np.array([issues[w] for w in warps], np.int64).reshape(len(warps), -1)
        state[warps], pc[warps], until[warps] = _stages(programs[warps[0]], n, times, openings, T)
    if pools is not None:
        _send_outside(state, pools, schedulers)
    _contend(state, until, events, schedulers, max_outstanding)
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


def _send_outside(state: NDArray[np.int8], pools: Sequence[Pool], schedulers: int) -> None:
    """Say in place which warps that have their operands are not in their scheduler's active pool."""
    for s, pool in enumerate(pools):
        moves: dict[int, list[int]] = {}
        for t, bit, _ in pool.moves:
            moves.setdefault(bit.bit_length() - 1, []).append(t)
        for k, row in enumerate(state[s::schedulers]):
            # A warp goes in and out by turns.
            ends = np.array([0, *moves.get(k, []), len(row)])
            turns = (np.arange(len(ends) - 1) + (k >= ACTIVE_WARPS)) % 2 == 1
            row[(row >= _ASKS) & np.repeat(turns, np.diff(ends))] = PENDING


def _stages(table: Compiled, n: int, times: Ints, openings: Ints, T: int) -> tuple[Any, Any, Any]:
    """Return state, pc and until, each (warps, T), of warps that issued the first n of one program."""
    W = len(times)
    is_bar, is_memory = table.is_bar[:n], table.is_memory[:n]
    edge = np.zeros((W, 1), np.int64)
    start = np.concatenate([edge, times + 1], axis=1)  # first cycle in which pc is p, for p = 0 .. n
    opened = start.copy()
    opened[:, 1:][:, is_bar] = openings
    done = times + table.latency[:n]

    # When the operands of instruction p are there, and whether the one that comes last is a load's.
    # 2 * cycle + 1 for memory, so that one maximum carries both and a tie counts as memory.
    arrival = np.concatenate([2 * done + is_memory, edge], axis=1)  # the last column answers for -1
    arrival[:, :-1][:, is_bar] = 0
    needed = np.zeros((W, n + 1), np.int64)
    if n:
        for producer in table.producers[:n].T:
            np.maximum(needed[:, :n], arrival[:, producer], out=needed[:, :n])
        # After its last instruction a warp waits for everything in flight, stores included.
        needed[:, n] = arrival[:, :-1].max(axis=1)
    last = np.concatenate([times, np.full((W, 1), T)], axis=1)

    # The stages' ends; lengths are the differences, never negative because each end is clipped to the next.
    shut = np.clip(opened - 1, start, last)
    open_ = np.clip(opened, start, last)
    there = np.clip(needed >> 1, open_, last)
    ends = np.stack([shut, open_, there, last, last + 1], axis=2)
    ends[:, n, 4] = T
    lengths = np.diff(ends, axis=2, prepend=start[:, :, None])

    states = np.empty((W, n + 1, 5), np.int8)
    states[:] = (BARRIER, BARRIER, RESULT, READY, ISSUES)
    states[:, :, 2] = np.where(needed & 1, MEMORY, RESULT)
    states[:, :n, 3] = _ASKS + table.unit[:n]
    states[:, n, 3] = FINISHED
    untils = np.full((W, n + 1, 5), -1, np.int32)
    untils[:, :, 1] = opened
    untils[:, :, 2] = needed >> 1
    flat = lengths.ravel()
    return (
        np.repeat(states.ravel(), flat).reshape(W, T),
        np.repeat(np.tile(np.arange(n + 1, dtype=np.int32), W), lengths.sum(axis=2).ravel()).reshape(W, T),
        np.repeat(untils.ravel(), flat).reshape(W, T),
    )


def _contend(
    state: NDArray[np.int8],
    until: NDArray[np.int32],
    events: Log,
    schedulers: int,
    max_outstanding: int | None,
) -> None:
    """Say in place, for warps that have their operands and want a unit, whether they are ready or wait."""
    T, S = events.cycles, schedulers
    # A scheduler decides after those before it in the same cycle, so decisions have an order.
    order = events.cycle * S + events.scheduler
    for u, name in enumerate(events.units):
        shared = name == "mem"
        busy = name != "bar" and (shared or bool((events.interval[events.unit == u] > 1).any()))
        for s in range(S):
            asks = state[s::S] == _ASKS + u
            now = np.flatnonzero(asks.any(axis=0))
            if not now.size:
                continue
            if not busy:  # taken for one cycle and by its own scheduler: free again at every decision
                state[s::S][asks] = READY
                continue
            uses = events.unit == u
            if not shared:
                uses &= events.scheduler == s
            # Issues on this unit before the decision in each cycle.
            before = np.searchsorted(order[uses], now * S + s, side="left")
            free = np.concatenate([[0], (events.cycle + events.interval)[uses]])[before]
            waits = np.where(free > now, UNIT, READY)
            end = np.where(free > now, free, -1)
            if shared and max_outstanding is not None:
                landings = np.sort(events.done[uses])
                landed = np.searchsorted(landings, now, side="right")
                full = before - landed >= max_outstanding
                place = np.append(landings, -1)[landed]  # the next to land leaves its place
                later = full & (place > end)  # of two reasons, the one that ends last is shown
                waits = np.where(later, LIMIT, waits)
                end = np.where(later, place, end)
            shown, ends = np.zeros(T, np.int8), np.zeros(T, np.int32)
            shown[now], ends[now] = waits, end
            np.copyto(state[s::S], shown, where=asks)
            np.copyto(until[s::S], ends, where=asks)
