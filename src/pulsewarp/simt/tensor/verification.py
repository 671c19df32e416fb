"""Checks of a run of a tiled kernel, counted again from its issues and from what its instructions are for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pulsewarp._report import Check, Report
from pulsewarp._text import counted
from pulsewarp.simt.tensor._programs import BARRIER, COPY, LOAD_A, LOAD_B, MULTIPLY, STORE
from pulsewarp.simt.tensor.trace import TiledTrace, issue_cycles

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class _Events:
    """Every issue of the run as columns, warp after warp."""

    warp: Ints
    block: Ints
    scheduler: Ints
    pc: Ints
    cycle: Ints
    free: Ints
    done: Ints
    kind: Ints
    tile: Ints
    stage: Ints
    row: Ints
    column: Ints
    step: Ints

    def of(self, *kinds: int) -> _Events:
        """Return the events of these kinds."""
        return self.where(np.isin(self.kind, kinds))

    def where(self, chosen: NDArray[np.bool_] | Ints) -> _Events:
        """Return some of the events."""
        return _Events(**{name: column[chosen] for name, column in vars(self).items()})


def verify(trace: TiledTrace) -> Report:
    """Return what holds of a run."""
    events = _events(trace)
    return Report(
        (
            _issues(trace),
            _multiply_adds(trace, events.of(MULTIPLY)),
            _units(events.of(MULTIPLY)),
            _order(events.of(MULTIPLY)),
            _registers(trace),
            _fragments(trace),
            _reads(trace, events),
            _overwrites(trace, events),
            _result(trace),
        )
    )


def _events(trace: TiledTrace) -> _Events:
    kernel, warp = trace.kernel, trace.warp
    columns = []
    for w, cycles in enumerate(issue_cycles(warp)):
        n = len(cycles)
        program, role = warp.programs[w][:n], kernel.roles[w][:n]
        same = [np.full(n, value) for value in (w, kernel.blocks[w], w % warp.schedulers)]
        free = cycles + np.array([i.interval for i in program], np.int64)
        done = cycles + np.array([i.latency for i in program], np.int64)
        columns.append(np.stack([*same, np.arange(n), cycles, free, done, *role.T]))
    return _Events(*np.concatenate(columns, axis=1).astype(np.int64))


def _issues(trace: TiledTrace) -> Check:
    wanted = sum(map(len, trace.kernel.programs))
    return Check(
        "issues",
        trace.warp.issue_count == wanted and trace.warp.deadlock is None,
        f"{trace.warp.issue_count} of {wanted} instructions were issued.",
    )


def _multiply_adds(trace: TiledTrace, made: _Events) -> Check:
    (m, k, n), (rows, columns, depth) = trace.kernel.padded, trace.kernel.unit_shape
    count = np.zeros((m // rows, n // columns, k // depth), np.int64)
    np.add.at(count, (made.row // rows, made.column // columns, made.step), 1)
    wrong = int((count != 1).sum())
    whole = not ((made.row % rows).any() or (made.column % columns).any())
    return Check(
        "multiply-adds",
        wrong == 0 and whole,
        f"{counted(wrong, 'unit')} of {count.size} ({rows}x{columns}x{depth} each) not made exactly once.",
    )


def _units(made: _Events) -> Check:
    order = made.where(np.lexsort((made.cycle, made.scheduler)))
    same = order.scheduler[1:] == order.scheduler[:-1]
    early = int((same & (order.cycle[1:] < order.free[:-1])).sum())
    return Check("units", early == 0, f"{counted(early, 'multiplication')} began before the unit was free.")


def _order(made: _Events) -> Check:
    order = made.where(np.lexsort((made.step, made.column, made.row)))
    same = (order.row[1:] == order.row[:-1]) & (order.column[1:] == order.column[:-1])
    early = int((same & (order.cycle[1:] < order.done[:-1])).sum())
    return Check("sums", early == 0, f"{counted(early, 'sum')} went on before the one it adds to was there.")


def _registers(trace: TiledTrace) -> Check:
    early = 0
    for program, cycles in zip(trace.warp.programs, issue_cycles(trace.warp), strict=True):
        ready: dict[str, int] = {}
        for i, cycle in zip(program, cycles.tolist(), strict=False):
            early += sum(ready.get(register, 0) > cycle for register in i.srcs)
            if i.dst is not None:
                ready[i.dst] = cycle + i.latency
    return Check("registers", early == 0, f"{counted(early, 'operand')} read before it was there.")


def _fragments(trace: TiledTrace) -> Check:
    """Check that the registers a multiplication reads were loaded last with its rows, columns and step."""
    kernel = trace.kernel
    depth = kernel.fragment_depth // kernel.unit_shape[2]
    wrong = 0
    for program, roles in zip(trace.warp.programs, kernel.roles, strict=True):
        loaded: dict[str | None, tuple[int, int, int]] = {}
        for i, (kind, tile, _, row, column, step) in zip(program, roles.tolist(), strict=True):
            if kind in (LOAD_A, LOAD_B):
                loaded[i.dst] = (max(row, column), step, tile)
            elif kind == MULTIPLY:
                for register, outer in zip(i.srcs, (row, column), strict=False):
                    place, first, of_tile = loaded.get(register, (-1, -1, -1))
                    wrong += (place, of_tile) != (outer, tile) or not first <= step < first + depth
    return Check("fragments", wrong == 0, f"{counted(wrong, 'fragment')} not those that were multiplied.")


def _ends(events: _Events, blocks: int, tiles: int, values: Ints, worst: int) -> Ints:
    """Return the largest of `values` for each block and tile, `worst` where there is none."""
    ends = np.full((blocks, tiles), -1, np.int64)
    np.maximum.at(ends, (events.block, events.tile), values)
    return np.where(ends < 0, worst, ends)


def _reads(trace: TiledTrace, events: _Events) -> Check:
    """Check that a fragment is loaded from a stage that holds its tile, behind the barrier."""
    kernel = trace.kernel
    blocks, tiles, never = kernel.grid[0] * kernel.grid[1], kernel.tiles, trace.cycles + 1
    writes = events.of(COPY if kernel.copies == "async" else STORE)
    loads, bars = events.of(LOAD_A, LOAD_B), events.of(BARRIER)
    landed = _ends(writes, blocks, tiles, writes.done, never)
    opened = _ends(bars, blocks, tiles, bars.cycle + 1, never)
    arrived = np.zeros((blocks, tiles), np.int64)
    np.add.at(arrived, (bars.block, bars.tile), 1)
    missing = arrived < kernel.warps[0] * kernel.warps[1]
    place = (loads.block, loads.tile)
    early = (loads.cycle < landed[place]) | (loads.cycle < opened[place]) | missing[place]
    # The tile whose filling of this stage began last must be the one that is read.
    held = np.full((trace.cycles + 1, blocks, kernel.stages), -1, np.int64)
    np.maximum.at(held, (writes.cycle, writes.block, writes.stage), writes.tile)
    held = np.maximum.accumulate(held, axis=0)
    other = held[loads.cycle, loads.block, loads.stage] != loads.tile
    wrong = int((early | other).sum())
    return Check("reads", wrong == 0, f"{counted(wrong, 'load')} of {len(early)} from a stage not ready.")


def _overwrites(trace: TiledTrace, events: _Events) -> Check:
    """Check that nothing is copied into a stage while an earlier tile is read from it."""
    kernel = trace.kernel
    writes = events.of(COPY if kernel.copies == "async" else STORE)
    loads = events.of(LOAD_A, LOAD_B)
    shape = (kernel.grid[0] * kernel.grid[1], kernel.stages, kernel.tiles + 1)
    read = np.zeros(shape, np.int64)  # until when any tile before this one is read from the stage
    np.maximum.at(read, (loads.block, loads.stage, loads.tile + 1), loads.done)
    read = np.maximum.accumulate(read, axis=2)
    early = writes.cycle < read[writes.block, writes.stage, writes.tile]
    wrong = int(early.sum())
    return Check("overwrites", wrong == 0, f"{wrong} of {len(early)} copies into a stage still read.")


def _result(trace: TiledTrace) -> Check:
    kernel = trace.kernel
    error = np.abs(kernel.result.astype(np.float64) - kernel.exact)
    worst = float(np.max(error))
    return Check(
        "result",
        bool((error <= kernel.bound).all()),
        f"the largest error is {worst:.3g}, its bound at least {float(np.min(kernel.bound)):.3g}.",
    )
