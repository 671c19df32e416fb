"""What a tiled kernel did cycle by cycle: which unit works on what, what each stage holds, and the counts."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp import _checks
from pulsewarp._arrays import freeze
from pulsewarp._report import Check, Report
from pulsewarp._text import counted
from pulsewarp.simt._instruction import Instruction
from pulsewarp.simt._states import ISSUES
from pulsewarp.simt.access import BankAccess
from pulsewarp.simt.presets import Architecture
from pulsewarp.simt.scheduler import simulate
from pulsewarp.simt.tensor._programs import BARRIER, COPY, LOAD_A, LOAD_B, MULTIPLY, STORE
from pulsewarp.simt.tensor.shapes import MmaShape
from pulsewarp.simt.tensor.staging import CHUNK_BYTES
from pulsewarp.simt.trace import WarpTrace

if TYPE_CHECKING:
    from pulsewarp.simt.tensor.frame import Recount, TiledTally

Ints = NDArray[np.int64]

WORK_COLUMNS = ("cycle", "scheduler", "warp", "pc", "row", "column", "step", "free", "done")
FILL_COLUMNS = ("block", "stage", "tile", "copy", "landed", "ready", "read", "release", "end")
STAGE_STATES = ("free", "filling", "landed", "ready", "in use")
"""What a stage is in: nothing anybody will still read; copies into it on their way; all there, but the
barrier not passed; the barrier passed; being read."""


@dataclass(frozen=True)
class TiledCounts:
    """What a run of a tiled kernel took, in numbers that two kernels can be compared by.

    Parameters
    ----------
    instructions : int
        Warp instructions issued, which is also the number of issue decisions.
    multiplies : int
        Of these, mma or FFMA.
    copies, loads, barriers : int
        Of these, copies of pieces from global memory; loads of fragments from shared memory; barriers.
    cycles : int
    multiply_adds : int
        Of the product, m k n; those with padding are not counted.
    padded_multiply_adds : int
        Those that were made.
    multiply_adds_per_instruction : float
        `multiply_adds` over `instructions`.
    multiply_adds_per_multiply : float
        `padded_multiply_adds` over `multiplies`: 2048 for an mma m16n8k16, 32 for an FFMA.
    utilization : float
        Share of all cycles of all schedulers' units in which a unit was held by a multiplication.
    peak : float
        `multiply_adds` a cycle, as a share of what the architecture's units can make.
    shared_wavefronts : int
        Wavefronts of loads from shared memory and of stores to it through registers.
    copied_bytes : int
        Bytes of operands put into stages.
    """

    instructions: int
    multiplies: int
    copies: int
    loads: int
    barriers: int
    cycles: int
    multiply_adds: int
    padded_multiply_adds: int
    multiply_adds_per_instruction: float
    multiply_adds_per_multiply: float
    utilization: float
    peak: float
    shared_wavefronts: int
    copied_bytes: int

    def __repr__(self) -> str:
        return (
            f"TiledCounts({self.instructions} instructions, {self.multiplies} of them multiply, in "
            f"{self.cycles} cycles: {self.multiply_adds_per_instruction:.4g} multiply-adds an instruction, "
            f"units held {100 * self.utilization:.3g} % of the time)"
        )

    def as_dict(self) -> dict[str, int | float]:
        """Return every count by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, eq=False, repr=False)
class TiledKernel:
    """A product cut into tiles that go through shared memory, as programs of warps, with its values.

    Made by `tensor_kernel` and `ffma_kernel`. Letters: `W` warps.

    Parameters
    ----------
    a, b : ndarray, shapes (m, k) and (k, n)
        The operands, rounded to `dtype`.
    dtype : str
        Type in which they are multiplied.
    architecture : Architecture
    kind : str
        ``"mma"`` or ``"ffma"``.
    operation : str
        The multiplying instruction, a key of ``architecture.operations``.
    shape : MmaShape or None
        None without tensor cores.
    unit_shape : (int, int, int)
        Rows and columns of C to which one multiplying instruction of a warp adds, and how many k: (16, 8, 16)
        for an mma m16n8k16; (4, 8, 1) for an FFMA, one multiply-add in each of 32 lanes.
    tile : (int, int, int)
        Rows and columns of C that a block computes, and the depth k of a stage.
    warps : (int, int)
        Warps of a block along rows and columns of its tile.
    stages : int
        Buffers in shared memory, each for one tile of A and one of B.
    copies : str
        ``"async"`` or ``"through registers"``.
    layout : str
        How a tile lies in shared memory.
    load : str
        Where copies come from, ``"LDG"``, ``"LDG.L2"`` or ``"LDG.L1"``.
    grid : (int, int)
        Blocks along rows and columns of C.
    padded : (int, int, int)
        m, k and n rounded up to whole tiles; what is added holds 0.
    programs : tuple of tuples of Instruction
        One per warp, as `simulate` takes them.
    blocks : tuple of int
        The block of each warp.
    origins : ndarray of int64, (W, 2)
        First row and column of C of each warp.
    roles : tuple of ndarray of int64, each (instructions, 6)
        Per warp, what each instruction is there for; columns as in `ROLE_COLUMNS`. ``kind`` is an index into
        `ROLES`, ``row`` and ``column`` are those of C, ``step`` the first step along k; -1 where there is
        none.
    sums : ndarray, (steps, padded m, padded n)
        All accumulators after every step along k.
    result : ndarray, shape (m, n)
    exact, bound : ndarray of float64, shape (m, n)
        The product of the rounded operands in float64, and what the error of each element cannot exceed.
    access : mapping of str to BankAccess
        The wavefronts of the first load of A, of B, and of the first piece of a tile written to a stage.
    element_bytes, stage_bytes, registers : int
        Bytes of an element in shared memory, and of one stage; registers a thread for values alone
        (accumulators, fragments, what is copied through registers), without addresses.

    Examples
    --------
    >>> import numpy as np
    >>> from pulsewarp import simt
    >>> kernel = simt.tensor_kernel(np.ones((32, 64)), np.ones((64, 32)))
    >>> kernel
    TiledKernel(HMMA.16816 of fp16, 32x64 @ 64x32 on Ampere: 1 block, 4 warps, 2 stages, async copies)
    >>> kernel.steps, kernel.tiles, float(kernel.result[0, 0])
    (4, 2, 64.0)
    """

    a: NDArray[Any]
    b: NDArray[Any]
    dtype: str
    architecture: Architecture
    kind: str
    operation: str
    shape: MmaShape | None
    unit_shape: tuple[int, int, int]
    tile: tuple[int, int, int]
    warps: tuple[int, int]
    stages: int
    copies: str
    layout: str
    load: str
    grid: tuple[int, int]
    padded: tuple[int, int, int]
    programs: tuple[tuple[Instruction, ...], ...]
    blocks: tuple[int, ...]
    origins: NDArray[np.int64]
    roles: tuple[NDArray[np.int64], ...]
    sums: NDArray[Any]
    result: NDArray[Any]
    exact: NDArray[np.float64]
    bound: NDArray[np.float64]
    access: Mapping[str, BankAccess]
    element_bytes: int
    stage_bytes: int
    registers: int

    @property
    def tiles(self) -> int:
        """Tiles along k; each goes through a stage once."""
        return self.padded[1] // self.tile[2]

    @property
    def steps(self) -> int:
        """Steps along k, each as deep as one multiplying instruction."""
        return self.padded[1] // self.unit_shape[2]

    @property
    def fragment_depth(self) -> int:
        """How many k one round of loads from shared memory brings."""
        return self.unit_shape[2] if self.shape else CHUNK_BYTES // self.element_bytes

    @property
    def warp_tile(self) -> tuple[int, int]:
        """Rows and columns of C that a warp computes."""
        return self.tile[0] // self.warps[0], self.tile[1] // self.warps[1]

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block."""
        return self.stages * self.stage_bytes

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds of the product, m k n."""
        return int(self.a.size * self.b.shape[1])

    @property
    def padded_multiply_adds(self) -> int:
        """Multiply-adds that are made, those with padding included."""
        m, k, n = self.padded
        return m * k * n

    @property
    def wasted(self) -> float:
        """Share of the multiply-adds made that have padding as an operand or belong to no element of C."""
        return 1 - self.multiply_adds / self.padded_multiply_adds

    @_checks.names_keywords
    def simulate(
        self, *, schedulers: int = 4, policy: str = "lrr", max_outstanding: int | None = None
    ) -> TiledTrace:
        """Return the trace of this kernel's warps, all blocks at once on one SM.

        Parameters
        ----------
        schedulers, policy, max_outstanding
            As for `pulsewarp.simt.simulate`.

        Returns
        -------
        TiledTrace

        Raises
        ------
        ValueError
            As `pulsewarp.simt.simulate`.
        """
        warp = simulate(
            self.programs,
            schedulers=schedulers,
            policy=policy,
            max_outstanding=max_outstanding,
            blocks=self.blocks,
        )
        return _trace_of(self, warp)

    def __repr__(self) -> str:
        (m, k), n = self.a.shape, self.b.shape[1]
        copied = "async copies" if self.copies == "async" else f"copies {self.copies}"
        return (
            f"TiledKernel({self.operation} of {self.dtype}, {m}x{k} @ {k}x{n} on {self.architecture.title}: "
            f"{counted(self.grid[0] * self.grid[1], 'block')}, {counted(len(self.programs), 'warp')}, "
            f"{counted(self.stages, 'stage')}, {copied})"
        )


@dataclass(frozen=True, eq=False, repr=False)
class TiledTrace:
    """A run of a `TiledKernel`: the trace of its warps, and what units and stages did.

    Made by `TiledKernel.simulate`. Letters: `T` cycles, `S` schedulers, `B` blocks, `N` multiplying
    instructions.

    Parameters
    ----------
    kernel : TiledKernel
    warp : WarpTrace
        States, waits and issues of every cycle, with their sentences.
    work : ndarray of int64, (N, 9)
        One row for each mma or FFMA, in the order of issue; columns as in `WORK_COLUMNS`. ``row`` and
        ``column`` are the first element of C it adds to, ``step`` is the step along k; its unit is free at
        ``free``, and the sum can be read at ``done``.
    fills : ndarray of int64, (blocks x tiles, 9)
        One row for each tile of each block; columns as in `FILL_COLUMNS`, all but the first three in cycles:
        the first copy into the stage is issued, the last byte is there, the barrier is passed too, the first
        fragment is loaded from it, the last fragment's data has arrived, the next tile begins to fill the
        stage (or the end).

    Examples
    --------
    >>> import numpy as np
    >>> from pulsewarp import simt
    >>> trace = simt.tensor_kernel(np.ones((32, 64)), np.ones((64, 32))).simulate()
    >>> trace
    TiledTrace(HMMA.16816, 32x64 @ 64x32: 32 multiplications in 1176 cycles)
    >>> dict(zip(simt.WORK_COLUMNS, trace.work[0].tolist()))["cycle"]
    541
    """

    kernel: TiledKernel
    warp: WarpTrace
    work: Ints
    fills: Ints

    @property
    def cycles(self) -> int:
        """`T`."""
        return self.warp.cycles

    @property
    def result(self) -> NDArray[Any]:
        """The product."""
        return self.kernel.result

    @cached_property
    def unit(self) -> NDArray[np.int32]:
        """Which row of `work` holds the multiplying unit of each scheduler, (T, S); -1 where it is idle."""
        held = np.full((self.cycles, self.warp.schedulers), -1, np.int32)
        for number, (cycle, s, *_, free, _done) in enumerate(self.work.tolist()):
            held[cycle:free, s] = number
        return freeze(held)

    @cached_property
    def stages(self) -> NDArray[np.int8]:
        """What each stage of each block is in, (T, B, stages), an index into `STAGE_STATES`."""
        states = np.zeros(self._stage_shape, np.int8)
        for block, stage, _, *times, _end in self.fills.tolist():
            for state, (start, end) in enumerate(itertools.pairwise(times), 1):
                states[start:end, block, stage] = state
        return freeze(states)

    @cached_property
    def stage_tile(self) -> NDArray[np.int32]:
        """Tile along k that each stage of each block holds or is filled with, (T, B, stages); -1: none."""
        tiles = np.full(self._stage_shape, -1, np.int32)
        for block, stage, tile, start, *_, release, _end in self.fills.tolist():
            tiles[start:release, block, stage] = tile
        return freeze(tiles)

    @property
    def _stage_shape(self) -> tuple[int, int, int]:
        return self.cycles, self.kernel.grid[0] * self.kernel.grid[1], self.kernel.stages

    @_checks.names_keywords
    def progress_at(self, t: int) -> NDArray[np.int32]:
        """Return how many steps along k each unit of C has summed up by cycle `t`.

        Parameters
        ----------
        t : int
            Cycle; a sum whose ``done`` is `t` counts.

        Returns
        -------
        ndarray of int32, (padded m / unit rows, padded n / unit columns)
        """
        t = _checks.whole_number("t", t, least=0, most=self.cycles)
        (m, _, n), (rows, columns, _) = self.kernel.padded, self.kernel.unit_shape
        made = np.zeros((m // rows, n // columns), np.int32)
        row, column, step, _, done = self.work[:, 4:].T
        landed = done <= t
        np.maximum.at(
            made, (row[landed] // rows, column[landed] // columns), step[landed].astype(np.int32) + 1
        )
        return made

    @_checks.names_keywords
    def sums_at(self, t: int) -> NDArray[Any]:
        """Return the accumulators that can be read in cycle `t`, (padded m, padded n); 0 before the first.

        Parameters
        ----------
        t : int
            Cycle.

        Returns
        -------
        ndarray
        """
        rows, columns, _ = self.kernel.unit_shape
        steps = np.repeat(np.repeat(self.progress_at(t), rows, 0), columns, 1)
        last = np.take_along_axis(self.kernel.sums, np.maximum(steps - 1, 0)[None].astype(np.int64), 0)[0]
        return np.where(steps > 0, last, np.zeros((), last.dtype))

    @_checks.names_keywords
    def accumulator(self, i: int) -> NDArray[Any]:
        """Return the sums that row `i` of `work` leaves, one unit of C.

        Parameters
        ----------
        i : int
            Row of `work`.

        Returns
        -------
        ndarray, (unit rows, unit columns)
        """
        i = _checks.whole_number("i", i, least=0, most=len(self.work) - 1)
        row, column, step = self.work[i, 4:7].tolist()
        rows, columns, _ = self.kernel.unit_shape
        return self.kernel.sums[step, row : row + rows, column : column + columns]

    @cached_property
    def counts(self) -> TiledCounts:
        """What the run took."""
        kernel, warp = self.kernel, self.warp
        kinds = np.concatenate([role[:, 0] for role in kernel.roles])
        intervals = np.array([i.interval for program in kernel.programs for i in program])
        known = kernel.architecture.operations[kernel.operation]
        a_multiply = int(np.prod(kernel.unit_shape))
        held = int((self.unit >= 0).sum())
        rows, columns, depth = kernel.tile
        return TiledCounts(
            instructions=warp.issue_count,
            multiplies=len(self.work),
            copies=int((kinds == COPY).sum()),
            loads=int(np.isin(kinds, (LOAD_A, LOAD_B)).sum()),
            barriers=sum(i.unit == "bar" for program in kernel.programs for i in program),
            cycles=self.cycles,
            multiply_adds=kernel.multiply_adds,
            padded_multiply_adds=kernel.padded_multiply_adds,
            multiply_adds_per_instruction=kernel.multiply_adds / warp.issue_count,
            multiply_adds_per_multiply=kernel.padded_multiply_adds / len(self.work),
            utilization=held / (self.cycles * warp.schedulers),
            peak=kernel.multiply_adds * known.interval / (self.cycles * warp.schedulers * a_multiply),
            shared_wavefronts=int(intervals[np.isin(kinds, (LOAD_A, LOAD_B, STORE))].sum()),
            copied_bytes=len(self.fills) * (rows + columns) * depth * kernel.element_bytes,
        )

    @_checks.names_keywords
    def tally(self, cycles: Iterable[int]) -> TiledTally:
        """Return what the run has taken up to and with some cycles.

        Parameters
        ----------
        cycles : iterable of int
            From 0; one beyond the end counts as the last.

        Returns
        -------
        TiledTally
        """
        from pulsewarp.simt.tensor.frame import tally_of  # it needs this module

        wanted = _checks.several("cycles", cycles, "write a list")
        return tally_of(self, [_checks.whole_number("a cycle", t, least=0) for t in wanted])

    @_checks.names_keywords
    def verify(self, *, cycle: int | None = None) -> Report:
        """Recount the run from its issues and return what holds.

        Checked: every multiply-add made exactly once; no unit taken before it is free; no sum or fragment
        read before it is there; no stage read before its tile has landed and the barrier is passed, nor
        overwritten while it is read; the result within its bound.

        Parameters
        ----------
        cycle : int, optional
            Count units, stages and sums of this cycle again too.

        Returns
        -------
        Report

        Raises
        ------
        ValueError
            When the run has no such cycle.
        """
        if cycle is None:
            return self._verified
        return Report((*self._verified.checks, self.verify_frame(cycle)))

    def verify_frame(self, cycle: int) -> Check:
        """Count units, stages and sums of one cycle again, and nothing of the whole run.

        Parameters
        ----------
        cycle : int
            Cycle from 0.

        Returns
        -------
        Check
            The one that `verify` adds for a cycle.

        Raises
        ------
        ValueError
            When the run has no such cycle.
        """
        return self._recount.check(_checks.whole_number("cycle", cycle, least=0, most=self.cycles - 1))

    @cached_property
    def _recount(self) -> Recount:
        from pulsewarp.simt.tensor.frame import recount_of  # it needs this module

        return recount_of(self)

    @cached_property
    def _verified(self) -> Report:
        from pulsewarp.simt.tensor.verification import verify  # it needs this module

        return verify(self)

    def __repr__(self) -> str:
        (m, k), n = self.kernel.a.shape, self.kernel.b.shape[1]
        return (
            f"TiledTrace({self.kernel.operation}, {m}x{k} @ {k}x{n}: {len(self.work)} multiplications in "
            f"{self.cycles} cycles)"
        )


def _trace_of(kernel: TiledKernel, warp: WarpTrace) -> TiledTrace:
    """Return the trace of a kernel whose warps did that."""
    issues = issue_cycles(warp)
    return TiledTrace(kernel, warp, freeze(_work(kernel, warp, issues)), freeze(_fills(kernel, warp, issues)))


def issue_cycles(warp: WarpTrace) -> list[Ints]:
    """Return the cycle of each instruction's issue, by warp."""
    return [np.flatnonzero(warp.state[:, w] == ISSUES) for w in range(warp.warps)]


def _work(kernel: TiledKernel, warp: WarpTrace, issues: list[Ints]) -> Ints:
    """Return the rows of `TiledTrace.work`."""
    found = []
    for w, (role, cycles, program) in enumerate(zip(kernel.roles, issues, warp.programs, strict=True)):
        pc = np.flatnonzero(role[: len(cycles), 0] == MULTIPLY)
        cycle = cycles[pc]
        free = cycle + np.array([program[p].interval for p in pc.tolist()], np.int64)
        done = cycle + np.array([program[p].latency for p in pc.tolist()], np.int64)
        scheduler = np.full(len(pc), w % warp.schedulers)
        rows = [cycle, scheduler, np.full(len(pc), w), pc, role[pc, 3], role[pc, 4], role[pc, 5], free, done]
        found.append(np.stack(rows, axis=1))
    work: Ints = np.concatenate(found).astype(np.int64)
    return work[np.lexsort((work[:, 1], work[:, 0]))]


def _fills(kernel: TiledKernel, warp: WarpTrace, issues: list[Ints]) -> Ints:
    """Return the rows of `TiledTrace.fills`."""
    blocks = kernel.grid[0] * kernel.grid[1]
    writes = COPY if kernel.copies == "async" else STORE
    T = warp.cycles
    fills = np.full((blocks, kernel.tiles, len(FILL_COLUMNS)), -1, np.int64)
    fills[:, :, 3:] = [T, -1, -1, T, -1, T]
    for w, (role, cycles, program) in enumerate(zip(kernel.roles, issues, warp.programs, strict=True)):
        own = fills[kernel.blocks[w]]
        latency = np.array([i.latency for i in program[: len(cycles)]], np.int64)
        kind, tile, stage = role[: len(cycles), :3].T
        for at, which in (
            (kind == writes, (3, 4)),
            (kind == BARRIER, (None, 5)),
            ((kind == LOAD_A) | (kind == LOAD_B), (6, 7)),
        ):
            first, last = which
            if first is not None:
                np.minimum.at(own[:, first], tile[at], cycles[at])
            np.maximum.at(own[:, last], tile[at], cycles[at] + latency[at])
            own[tile[at], 1] = stage[at]
    # Stores through registers may land behind the barrier: the memory unit serves them before any load.
    fills[:, :, 5] = np.maximum(fills[:, :, 5], fills[:, :, 4])
    fills[:, :, 0] = np.arange(blocks)[:, None]
    fills[:, :, 2] = np.arange(kernel.tiles)
    fills[:, : -kernel.stages, 8] = fills[:, kernel.stages :, 3]
    return fills.reshape(-1, len(FILL_COLUMNS))
