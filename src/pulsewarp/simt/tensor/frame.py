"""One cycle of a run counted again from its issues, and what the run has taken up to a cycle."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp._arrays import freeze
from pulsewarp._report import Check
from pulsewarp._text import counted
from pulsewarp.simt.tensor._programs import BARRIER, COPY, LOAD_A, LOAD_B, MULTIPLY, STORE
from pulsewarp.simt.tensor.trace import TiledTrace, issue_cycles

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class TiledTally:
    """What a run has taken up to and with some cycles, as arrays with one entry for each of them.

    Attributes
    ----------
    cycles : ndarray of int64
        Cycles passed; those of the whole run once it has ended.
    instructions, multiplies : ndarray of int64
        Warp instructions issued, and how many of them are mma or FFMA.
    multiply_adds : ndarray of int64
        Those of the instructions issued, padding included.
    held : ndarray of int64
        Cycles in which a multiplying unit was held, over all units.
    copied_bytes : ndarray of int64
        Bytes of A and B whose tile has landed in its stage.
    units : int
        Multiplying units: one for each scheduler.

    Examples
    --------
    >>> import numpy as np
    >>> from pulsewarp import simt
    >>> trace = simt.tensor_kernel(np.ones((32, 64)), np.ones((64, 32))).simulate()
    >>> tally = trace.tally([0, trace.cycles - 1])
    >>> tally
    TiledTally(136 instructions, 32 of them multiply, in 1176 cycles)
    >>> tally.instructions.tolist(), tally.multiply_adds.tolist()
    ([1, 136], [0, 65536])
    """

    cycles: Ints
    instructions: Ints
    multiplies: Ints
    multiply_adds: Ints
    held: Ints
    copied_bytes: Ints
    units: int

    @property
    def utilization(self) -> NDArray[np.float64]:
        """Share of the unit-cycles so far in which a multiplying unit was held."""
        return self.held / (self.cycles * self.units)

    @property
    def multiply_adds_per_instruction(self) -> NDArray[np.float64]:
        """Multiply-adds for each instruction issued, whatever it does; 0 before the first."""
        return self.multiply_adds / np.maximum(self.instructions, 1)

    def __repr__(self) -> str:
        last = (int(column[-1]) if len(column) else 0 for column in (self.instructions, self.multiplies))
        issued, multiplies = last
        cycles = int(self.cycles[-1]) if len(self.cycles) else 0
        return (
            f"TiledTally({counted(issued, 'instruction')}, {multiplies} of them multiply, "
            f"in {counted(cycles, 'cycle')})"
        )


def tally_of(trace: TiledTrace, cycles: Iterable[int]) -> TiledTally:
    """Return what a run has taken up to and with each of these cycles."""
    kernel = trace.kernel
    t = np.minimum(np.asarray([*cycles], np.int64), trace.cycles - 1)
    multiplies = np.searchsorted(trace.work[:, 0], t, side="right")
    landed = np.searchsorted(np.sort(trace.fills[:, 4]), t, side="right")
    rows, columns, depth = kernel.tile
    taken: dict[str, Ints] = {
        "cycles": t + 1,
        "instructions": np.cumsum((trace.warp.issued >= 0).sum(axis=1))[t],
        "multiplies": multiplies,
        "multiply_adds": multiplies * int(np.prod(kernel.unit_shape)),
        "held": np.cumsum((trace.unit >= 0).sum(axis=1))[t],
        "copied_bytes": landed * (rows + columns) * depth * kernel.element_bytes,
    }
    frozen = {name: freeze(np.asarray(column, np.int64)) for name, column in taken.items()}
    return TiledTally(**frozen, units=trace.warp.schedulers)


@dataclass(frozen=True, eq=False)
class Recount:
    """Every issue of a run as columns, warp after warp, to count any cycle again from."""

    trace: TiledTrace
    scheduler: Ints
    cycle: Ints
    done: Ints
    free: Ints
    kind: Ints
    place: Ints  # block, stage and tile as one number, -1 for instructions without a stage
    row: Ints
    column: Ints
    number: Ints  # row of `TiledTrace.work`, -1 for all but multiplications
    a: NDArray[np.float64]
    b: NDArray[np.float64]

    def check(self, t: int) -> Check:
        """Count units, stages and sums of a cycle again, and compare with what the trace says of it."""
        trace = self.trace
        states, tiles = self._stages(t)
        found: list[tuple[str, NDArray[Any], NDArray[Any]]] = [
            ("unit", self._units(t), trace.unit[t]),
            ("stage", states, trace.stages[t]),
            ("tile", tiles, trace.stage_tile[t]),
        ]
        wrong = [int((expected != shown).sum()) for _, expected, shown in found]
        off = self._wrong_sums(t)
        parts = [
            f"{count} of {counted(expected.size, noun)}"
            for count, (noun, expected, _) in zip(wrong, found, strict=True)
        ]
        said = ", ".join([*parts, f"{off} of {counted(self.a.shape[0] * self.b.shape[1], 'sum')}"])
        return Check(
            f"cycle {t}", not any((*wrong, off)), f"{said} other than counted again from the issues."
        )

    def _units(self, t: int) -> NDArray[np.int32]:
        """Return which multiplication holds each unit: one that was issued and has not let go of it."""
        held = np.full(self.trace.warp.schedulers, -1, np.int32)
        now = np.flatnonzero((self.number >= 0) & (self.cycle <= t) & (t < self.free))
        held[self.scheduler[now]] = self.number[now]
        return held

    def _stages(self, t: int) -> tuple[NDArray[np.int8], NDArray[np.int32]]:
        """Return state and tile of every stage, asked of each tile: what has begun, and what is over."""
        kernel = self.trace.kernel
        blocks, stages = self.trace.stages.shape[1:]
        places = blocks * stages * kernel.tiles
        writes = COPY if kernel.copies == "async" else STORE

        def count(kinds: tuple[int, ...], over: NDArray[np.bool_]) -> Ints:
            chosen = (self.place >= 0) & np.isin(self.kind, kinds) & over
            return np.bincount(self.place[chosen], minlength=places)

        everything, issued, over = self.cycle >= 0, self.cycle <= t, self.done <= t
        begun = count((writes,), issued) > 0
        left = count((LOAD_A, LOAD_B), over) == count((LOAD_A, LOAD_B), everything)
        landed = count((writes,), over) == count((writes,), everything)
        passed = count((BARRIER,), over) == count((BARRIER,), everything)
        read = count((LOAD_A, LOAD_B), issued) > 0
        state = np.select([~landed, ~passed, ~read], [1, 2, 3], 4)
        states, tiles = np.zeros((blocks, stages), np.int8), np.full((blocks, stages), -1, np.int32)
        for place in np.flatnonzero(begun & ~left).tolist():
            rest, tile = divmod(place, kernel.tiles)
            states[divmod(rest, stages)] = state[place]
            tiles[divmod(rest, stages)] = tile
        return states, tiles

    def _wrong_sums(self, t: int) -> int:
        """Return how many accumulators are not the products of the operands that were added by then."""
        kernel = self.trace.kernel
        rows, columns, depth = kernel.unit_shape
        steps = np.zeros((self.a.shape[0] // rows, self.b.shape[1] // columns), np.int64)
        over = (self.number >= 0) & (self.done <= t)
        np.add.at(steps, (self.row[over] // rows, self.column[over] // columns), 1)
        summed = np.repeat(np.repeat(steps, rows, 0), columns, 1)
        shown = self.trace.sums_at(t).astype(np.float64)
        wrong = 0
        for step in np.unique(steps).tolist():
            a, b = self.a[:, : step * depth], self.b[: step * depth]
            off = np.abs(shown - a @ b)
            if kernel.dtype != "int8":  # exact, else rounded at every step
                off -= 8 * max(step, 1) * np.finfo(kernel.sums.dtype).eps * (np.abs(a) @ np.abs(b))
            wrong += int(((off > 0) & (summed == step)).sum())
        return wrong


def recount_of(trace: TiledTrace) -> Recount:
    """Return a run's issues as columns."""
    kernel, warp = trace.kernel, trace.warp
    stages = kernel.stages
    numbers = {(w, pc): i for i, (w, pc) in enumerate(trace.work[:, 2:4].tolist())}
    columns = []
    for w, cycles in enumerate(issue_cycles(warp)):
        program, roles = kernel.programs[w][: len(cycles)], kernel.roles[w][: len(cycles)]
        kind, tile, stage, row, column, _ = roles.T
        done = cycles + np.array([i.latency for i in program], np.int64)
        free = cycles + np.array([i.interval for i in program], np.int64)
        place = np.where(stage < 0, -1, (kernel.blocks[w] * stages + stage) * kernel.tiles + tile)
        number = [numbers[w, pc] if k == MULTIPLY else -1 for pc, k in enumerate(kind.tolist())]
        scheduler = np.full(len(cycles), w % warp.schedulers)
        columns.append(np.stack([scheduler, cycles, done, free, kind, place, row, column, np.array(number)]))
    m, k, n = kernel.padded
    a, b = np.zeros((m, k)), np.zeros((k, n))
    a[: kernel.a.shape[0], : kernel.a.shape[1]] = kernel.a.astype(np.float64)
    b[: kernel.b.shape[0], : kernel.b.shape[1]] = kernel.b.astype(np.float64)
    names = ("scheduler", "cycle", "done", "free", "kind", "place", "row", "column", "number")
    whole = np.concatenate(columns, axis=1).astype(np.int64)
    return Recount(trace=trace, a=a, b=b, **dict(zip(names, whole, strict=True)))
