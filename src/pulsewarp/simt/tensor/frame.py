"""One cycle of a run counted again from its issues, and what the run has taken up to a cycle."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pulsewarp._arrays import freeze
from pulsewarp._report import Check
from pulsewarp._text import counted
from pulsewarp.simt.tensor._programs import BARRIER, COPY, LOAD_A, LOAD_B, MULTIPLY, STORE
from pulsewarp.simt.tensor.trace import STAGE_STATES, TiledTrace, issue_cycles

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


def check_frame(trace: TiledTrace, t: int) -> Check:
    """Count units, stages and sums of a cycle again, from issues and operands, and compare."""
    found = [
        ("unit", "units", _units_held(trace, t), trace.unit[t]),
        ("stage", "stages", _stage_states(trace, t), trace.stages[t]),
        ("stage's tile", "stages' tiles", *_tiles_held(trace, t)),
    ]
    says, passed = [], True
    for one, many, expected, shown in found:
        wrong = int((expected != shown).sum())
        passed &= wrong == 0
        says.append(f"{wrong} of {expected.size} {one if expected.size == 1 else many}")
    off = _wrong_sums(trace, t)
    passed &= off == 0
    says.append(f"{off} of {trace.kernel.padded[0] * trace.kernel.padded[2]} sums")
    return Check(f"cycle {t}", passed, f"{', '.join(says)} other than counted again from the issues.")


def _units_held(trace: TiledTrace, t: int) -> NDArray[np.int32]:
    """Return which multiplication holds each unit: the last issued there, if its interval is not over."""
    held = np.full(trace.warp.schedulers, -1, np.int32)
    rows = {(w, pc): i for i, (w, pc) in enumerate(trace.work[:, 2:4].tolist())}
    for w, cycles in enumerate(issue_cycles(trace.warp)):
        issued = int(np.searchsorted(cycles, t, side="right"))
        multiplies = np.flatnonzero(trace.kernel.roles[w][:issued, 0] == MULTIPLY)
        if multiplies.size:
            pc = int(multiplies[-1])
            if t < cycles[pc] + trace.kernel.programs[w][pc].interval:
                held[w % trace.warp.schedulers] = rows[w, pc]
    return held


def _stage_states(trace: TiledTrace, t: int) -> NDArray[np.int8]:
    """Return the state of every stage, asked of each of its tiles: what has begun, and what is over."""
    states = np.zeros(trace.stages.shape[1:], np.int8)
    for (block, stage, _), (begun, landed, passed, read, left) in _steps_of_tiles(trace, t).items():
        if not begun or left:
            continue
        name = "filling" if not landed else "landed" if not passed else "in use" if read else "ready"
        states[block, stage] = STAGE_STATES.index(name)
    return states


def _tiles_held(trace: TiledTrace, t: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the tile in every stage, and the one that the trace says."""
    tiles = np.full(trace.stages.shape[1:], -1, np.int32)
    for (block, stage, tile), (begun, *_, left) in _steps_of_tiles(trace, t).items():
        if begun and not left:
            tiles[block, stage] = tile
    return tiles, trace.stage_tile[t]


def _steps_of_tiles(trace: TiledTrace, t: int) -> dict[tuple[int, int, int], tuple[bool, ...]]:
    """Return how far each tile of a block is.

    Is its copy begun, all of it there, every warp past the barrier, a fragment asked for, all of them there?
    """
    kernel = trace.kernel
    writes = COPY if kernel.copies == "async" else STORE
    done: dict[tuple[int, int, int], list[list[bool]]] = {}
    for w, cycles in enumerate(issue_cycles(trace.warp)):
        roles = kernel.roles[w][: len(cycles)]
        own = np.flatnonzero(np.isin(roles[:, 0], (writes, BARRIER, LOAD_A, LOAD_B)))
        for pc in own.tolist():
            kind, tile, stage = roles[pc, :3].tolist()
            issued = cycles[pc] <= t
            over = cycles[pc] + kernel.programs[w][pc].latency <= t
            steps = done.setdefault((kernel.blocks[w], stage, tile), [[], [], [], [], []])
            if kind == writes:
                steps[0].append(issued)
                steps[1].append(over)
            elif kind == BARRIER:
                steps[2].append(over)
            else:
                steps[3].append(issued)
                steps[4].append(over)
    return {
        place: (any(begun), all(landed), all(passed), any(read), all(left))
        for place, (begun, landed, passed, read, left) in done.items()
    }


def _wrong_sums(trace: TiledTrace, t: int) -> int:
    """Return how many accumulators are not the products of the operands that have been added by then."""
    kernel = trace.kernel
    (m, k, n), (rows, columns, depth) = kernel.padded, kernel.unit_shape
    steps = np.zeros((m // rows, n // columns), np.int64)
    for w, cycles in enumerate(issue_cycles(trace.warp)):
        roles = kernel.roles[w][: len(cycles)]
        latency = np.array([i.latency for i in kernel.programs[w][: len(cycles)]], np.int64)
        over = (roles[:, 0] == MULTIPLY) & (cycles + latency <= t)
        np.add.at(steps, (roles[over, 3] // rows, roles[over, 4] // columns), 1)
    a, b = np.zeros((m, k)), np.zeros((k, n))
    a[: kernel.a.shape[0], : kernel.a.shape[1]] = kernel.a.astype(np.float64)
    b[: kernel.b.shape[0], : kernel.b.shape[1]] = kernel.b.astype(np.float64)
    summed = np.repeat(np.repeat(steps, rows, 0), columns, 1)
    shown = trace.sums_at(t).astype(np.float64)
    wrong = 0
    for step in np.unique(steps).tolist():
        upto = step * depth
        exact, reach = a[:, :upto] @ b[:upto], np.abs(a[:, :upto]) @ np.abs(b[:upto])
        slack = 0 if kernel.dtype == "int8" else max(step, 1) * np.finfo(kernel.sums.dtype).eps * 8
        wrong += int(((np.abs(shown - exact) > slack * reach) & (summed == step)).sum())
    return wrong
