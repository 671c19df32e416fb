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

from pulsewarp.simt._instruction import Instruction

STATES = ("issues", "ready", "unit", "memory", "result", "barrier", "limit", "finished")
ISSUES, READY, UNIT, MEMORY, RESULT, BARRIER, LIMIT, FINISHED = range(len(STATES))

# While states are made: `_ASKS + u` has its operands and wants unit number u.
_ASKS = len(STATES)

Ints = NDArray[np.int64]


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


@dataclass(frozen=True, eq=False)
class Table:
    """A program's fields as columns, and which earlier instructions each one waits for."""

    latency: Ints
    interval: Ints
    unit: Ints
    lanes: Ints
    is_bar: NDArray[np.bool_]
    is_memory: NDArray[np.bool_]
    producers: Ints  # (n, widest), -1 for none

    @classmethod
    def of(cls, program: Sequence[Instruction], units: Sequence[str]) -> Table:
        writer: dict[str, int] = {}
        producers: list[list[int]] = []
        for pc, i in enumerate(program):
            touched = (*i.srcs, *([i.dst] if i.dst is not None else []))
            # The last writer is enough: it could only issue when the register's earlier value was there.
            producers.append(sorted({writer[r] for r in touched if r in writer}))
            if i.dst is not None:
                writer[i.dst] = pc
        wide = max([1, *map(len, producers)])
        number = {unit: k for k, unit in enumerate(units)}
        return cls(
            latency=np.array([i.latency for i in program], np.int64),
            interval=np.array([i.interval for i in program], np.int64),
            unit=np.array([number[i.unit] for i in program], np.int64),
            lanes=np.array([i.lanes for i in program], np.int64),
            is_bar=np.array([i.unit == "bar" for i in program], np.bool_),
            is_memory=np.array([i.unit == "mem" for i in program], np.bool_),
            producers=np.array([p + [-1] * (wide - len(p)) for p in producers], np.int64).reshape(-1, wide),
        )


def log(programs: Sequence[Sequence[Instruction]], schedulers: int, issues: Sequence[Sequence[int]]) -> Log:
    """Return every issue of a run as columns, ordered by cycle and scheduler."""
    units = tuple(sorted({i.unit for program in programs for i in program}))
    tables = _tables(programs, units)
    counts = [len(program) for program in programs]
    cycle = np.fromiter((t for times in issues for t in times), np.int64, sum(counts))
    warp = np.repeat(np.arange(len(programs)), counts)
    pc = np.concatenate([np.arange(n) for n in counts])

    def column(name: str) -> Ints:
        whole: Ints = np.concatenate([getattr(tables[id(program)], name) for program in programs])
        return whole

    done: Ints = cycle + column("latency")
    order = np.argsort(cycle * schedulers + warp % schedulers)
    return Log(
        cycle=cycle[order],
        scheduler=(warp % schedulers)[order],
        warp=warp[order],
        pc=pc[order],
        interval=column("interval")[order],
        done=done[order],
        unit=column("unit")[order],
        lanes=column("lanes")[order],
        units=units,
        cycles=int(np.max(done)),
    )


def _tables(programs: Sequence[Sequence[Instruction]], units: Sequence[str]) -> dict[int, Table]:
    return {key: Table.of(program, units) for key, program in {id(p): p for p in programs}.items()}


def unroll(
    programs: Sequence[Sequence[Instruction]],
    blocks: Sequence[int],
    issues: Sequence[Sequence[int]],
    events: Log,
    schedulers: int,
    max_outstanding: int | None,
) -> tuple[NDArray[np.int8], NDArray[np.int32], NDArray[np.int32]]:
    """Return state, program counter and end of the present wait, each (cycles, warps)."""
    T, W = events.cycles, len(programs)
    state = np.empty((W, T), np.int8)  # by warp first, so that every warp's cycles lie together
    pc = np.empty((W, T), np.int32)
    until = np.empty((W, T), np.int32)
    tables = _tables(programs, events.units)
    opened = _barrier_openings(programs, blocks, issues)
    together: dict[int, list[int]] = {}
    for w, program in enumerate(programs):
        together.setdefault(id(program), []).append(w)
    for key, warps in together.items():
        openings = np.array([opened[w] for w in warps], np.int64).reshape(len(warps), -1)
        times = np.array([issues[w] for w in warps], np.int64).reshape(len(warps), -1)
        state[warps], pc[warps], until[warps] = _stages(tables[key], times, openings, T)
    _contend(state, until, events, schedulers, max_outstanding)
    return np.ascontiguousarray(state.T), np.ascontiguousarray(pc.T), np.ascontiguousarray(until.T)


def _barrier_openings(
    programs: Sequence[Sequence[Instruction]], blocks: Sequence[int], issues: Sequence[Sequence[int]]
) -> list[list[int]]:
    """Return, for every warp, the first cycle after each of its barriers: one after the last arrival."""
    bars = {id(p): [pc for pc, i in enumerate(p) if i.unit == "bar"] for p in programs}
    arrivals: dict[int, list[list[int]]] = {}
    for w, program in enumerate(programs):
        arrivals.setdefault(blocks[w], []).append([issues[w][pc] for pc in bars[id(program)]])
    opening = {
        block: [max(column) + 1 for column in zip(*rows, strict=True)] for block, rows in arrivals.items()
    }
    return [opening[block] for block in blocks]


def _stages(table: Table, times: Ints, openings: Ints, T: int) -> tuple[Any, Any, Any]:
    """Return state, pc and until, each (warps, T), of warps that run the same program."""
    W, n = times.shape
    edge = np.zeros((W, 1), np.int64)
    start = np.concatenate([edge, times + 1], axis=1)  # first cycle in which pc is p, for p = 0 .. n
    opened = start.copy()
    opened[:, 1:][:, table.is_bar] = openings
    done = times + table.latency

    # When the operands of instruction p are there, and whether the one that comes last is a load's.
    # 2 * cycle + 1 for memory, so that one maximum carries both and a tie counts as memory.
    arrival = np.concatenate([2 * done + table.is_memory, edge], axis=1)  # the last column answers for -1
    arrival[:, :-1][:, table.is_bar] = 0
    needed = np.zeros((W, n + 1), np.int64)
    if n:
        for producer in table.producers.T:
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
    states[:, :n, 3] = _ASKS + table.unit
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
    now = np.arange(T)
    # A scheduler decides after those before it in the same cycle, so decisions have an order.
    order = events.cycle * S + events.scheduler
    for u, name in enumerate(events.units):
        shared = name == "mem"
        busy = name != "bar" and (shared or bool((events.interval[events.unit == u] > 1).any()))
        for s in range(S):
            asks = state[s::S] == _ASKS + u
            if not asks.any():
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
            np.copyto(state[s::S], waits.astype(np.int8), where=asks)
            np.copyto(until[s::S], end.astype(np.int32), where=asks)
