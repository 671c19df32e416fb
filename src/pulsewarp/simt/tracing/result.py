"""What comes out of a traced kernel: results, every warp's instructions, and what went wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp import _checks
from pulsewarp._arrays import freeze
from pulsewarp._text import counted
from pulsewarp.simt._instruction import Instruction
from pulsewarp.simt._states import BARRIER, FINISHED, ISSUES
from pulsewarp.simt.presets import Architecture
from pulsewarp.simt.scheduler import simulate
from pulsewarp.simt.trace import WarpTrace
from pulsewarp.simt.tracing._timing import Times
from pulsewarp.simt.tracing.stream import Listing, Memory, Problem, TracedWarp, Triple

MOST_RESIDENT = 64  # warps: the most that any SM of compute capability 7.0 to 12.0 keeps


@dataclass(frozen=True)
class LineScore:
    """What one source line cost, over all warps.

    Parameters
    ----------
    line : int
        Its number.
    source : str
        Its text.
    instructions : int
        Warp instructions.
    lanes_on, lanes_off : int
        Lane slots of these instructions that were used and that were masked off.
    sectors : int
        32-byte sectors of global memory.
    least_sectors : int
        Sectors that would hold the bytes asked for, were they side by side.
    wavefronts : int
        Passes through shared memory.
    least_wavefronts : int
        Passes without any bank conflict: one for every 128 bytes an instruction asks for.
    """

    line: int
    source: str
    instructions: int
    lanes_on: int
    lanes_off: int
    sectors: int
    least_sectors: int
    wavefronts: int
    least_wavefronts: int


@dataclass(frozen=True, eq=False, repr=False)
class KernelTrace:
    """A kernel that ran: its results, every warp's instruction stream, and what went wrong.

    Parameters
    ----------
    name : str
        The kernel's name.
    source : tuple of str
        Its lines.
    first_line : int
        The number of the first of them in its file or cell.
    grid, block : tuple of int
        Blocks, and threads of a block, along x, y, z.
    results : mapping of str to ndarray
        The array arguments as the kernel left them; what was passed is untouched.
    memory : tuple of Memory
        Every array: the arguments, then shared and local ones in order of appearance.
    warps : tuple of TracedWarp
        Block by block.
    problems : tuple of Problem
        Causes before what follows from them (see `Problem`); empty when nothing was wrong.
    arguments : mapping
        What was passed, by parameter: arrays as they were before the kernel ran, and numbers.
    helpers : tuple of Listing
        The source of functions that the kernel calls; their lines' numbers count in their own file or cell.
    outside : mapping
        What the source names from outside itself: modules, functions, numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from pulsewarp import simt
    >>> x = np.arange(100, dtype=np.float32)
    >>> run = simt.trace_kernel(
    ...     simt.lesson_kernels.vector_add, grid=2, block=64, args=(x, x, np.zeros_like(x))
    ... )
    >>> run
    KernelTrace(vector_add: 2 blocks x 64 threads, 4 warps, 28 instructions, no problem)
    >>> run.results["out"][:4].tolist()
    [0.0, 2.0, 4.0, 6.0]
    >>> run.warps[3].instructions[-1].lanes  # 100 threads of 128 have an element
    4
    """

    name: str
    source: tuple[str, ...]
    first_line: int
    grid: Triple
    block: Triple
    results: Mapping[str, NDArray[Any]]
    memory: tuple[Memory, ...]
    warps: tuple[TracedWarp, ...]
    problems: tuple[Problem, ...]
    arguments: Mapping[str, Any]
    helpers: tuple[Listing, ...]
    outside: Mapping[str, Any]

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory a block uses."""
        ends = [m.base + int(np.prod(m.shape)) * m.element_bytes for m in self.memory if m.space == "shared"]
        return max(ends, default=0)

    @property
    def blocks(self) -> tuple[int, ...]:
        """The block of each warp, as `simulate` takes them."""
        return tuple(warp.block for warp in self.warps)

    @property
    def programs(self) -> tuple[tuple[Instruction, ...], ...]:
        """One program per warp with the times that `timed_programs` has by default."""
        return self.timed_programs()

    @_checks.names_keywords
    def timed_programs(
        self,
        *,
        architecture: str | Architecture = "ampere",
        served_by: str = "dram",
        load_latency: int | None = None,
        warps: Sequence[int] | None = None,
    ) -> tuple[tuple[Instruction, ...], ...]:
        """Return one program per warp, instruction for instruction, as `simulate` takes them.

        Modelled: who waits for whom by register; latencies and unit widths of the architecture; loads, stores
        and atomics on the SM's one memory unit, which a global access keeps for a cycle per four sectors (128
        bytes a cycle leave L1: NVIDIA developer forum, 77228), a shared access for a cycle per wavefront, and
        an atomic for a cycle per lane on its most wanted element. A shuffle counts as a load of shared memory
        without conflict, a vote as arithmetic: neither has a sourced time here. Not modelled: caches (one
        latency for every load of global memory), what a compiler removes, moves or joins, the several
        instructions of a division or of arithmetic with 64-bit integers, what a branch costs beyond its
        issue, register banks. What an architecture has no sourced value for takes Ampere's, or Volta's where
        that has none.

        Parameters
        ----------
        architecture : str or Architecture
            As `simt.architecture` takes it; latencies and widths come from there, with their sources.
        served_by : str
            Where loads of global memory find their data: ``"dram"``, ``"l2"`` or ``"l1"``. Local arrays
            are in L1.
        load_latency : int or None
            Cycles of a load of global memory instead of the architecture's, to make a run short enough to
            watch.
        warps : sequence of int, or None
            Which warps; None for all.

        Returns
        -------
        tuple of tuples of Instruction

        Raises
        ------
        ValueError
            For an unknown architecture or place, a latency below 1, and a warp that is not there.

        Examples
        --------
        >>> import numpy as np
        >>> from pulsewarp import simt
        >>> x = np.ones(32, np.float32)
        >>> run = simt.trace_kernel(simt.lesson_kernels.vector_add, grid=1, block=32, args=(x, x, x))
        >>> [(i.text, i.latency) for i in run.timed_programs(served_by="l2")[0] if i.unit == "mem"]
        [('LDG %r1, x[i]', 262), ('LDG %r2, y[i]', 262), ('STG out[i], %r3', 1)]
        """
        times = Times(architecture, served_by, load_latency)
        most = len(self.warps) - 1
        chosen = range(most + 1) if warps is None else _checks.several("warps", warps, "list them")
        kept = [self.warps[_checks.whole_number("A warp", w, least=0, most=most)] for w in chosen]
        return tuple(tuple(map(times.instruction, warp.instructions)) for warp in kept)

    @_checks.names_keywords
    def simulate(
        self,
        *,
        schedulers: int = 4,
        policy: str = "lrr",
        max_outstanding: int | None = None,
        blocks: Sequence[int] | None = None,
        architecture: str | Architecture = "ampere",
        served_by: str = "dram",
        load_latency: int | None = None,
        until_stop: bool = False,
    ) -> WarpTrace:
        """Return the trace of these warps on one SM.

        Warp ``w`` of the result is the ``w``-th of those warps here whose block is named, and its instruction
        ``pc`` is that warp's ``instructions[pc]``.

        Parameters
        ----------
        schedulers, policy, max_outstanding
            As for `simt.simulate`.
        blocks : sequence of int, or None
            Blocks that are on the SM from the start; None takes the first ones that fit 64 warps. Not
            modelled: blocks that follow when one ends, registers and shared memory as limits (see
            `simt.occupancy`).
        architecture, served_by, load_latency
            As for `timed_programs`.
        until_stop : bool
            Whether a kernel that stops at a divergent barrier is timed up to there: from their arrival on,
            the warps that wait at it are in state ``"barrier"``, to the trace's last cycle.

        Returns
        -------
        WarpTrace

        Raises
        ------
        ValueError
            For blocks that are not there or exceed 64 warps, and unless `until_stop` for a kernel that stops
            at a divergent barrier: it has no end that could be timed.

        Examples
        --------
        >>> from pulsewarp import simt
        >>> run = simt.lesson_kernels.product(simt.lesson_kernels.tiled_product, m=16, k=16, n=16).trace()
        >>> run.simulate(policy="gto").warps
        8

        Two of four warps come to a barrier that the others leave out, and stay there:

        >>> half = simt.lesson_kernels.LESSONS["divergent_barrier"].trace().simulate(until_stop=True)
        >>> [simt.STATES[code] for code in half.state[-1]]
        ['barrier', 'barrier', 'finished', 'finished']
        """
        _checks.instance("until_stop", until_stop, bool, "write True to time it up to its stop, or False")
        stops = [p for p in self.problems if p.kind == "divergent_barrier"]
        if stops and not until_stop:
            raise ValueError(f"{self.name} has no end that could be timed: {stops[0].text}")
        warps = self.resident_warps(blocks)
        trace = simulate(
            self.timed_programs(
                architecture=architecture, served_by=served_by, load_latency=load_latency, warps=warps
            ),
            schedulers=schedulers,
            policy=policy,
            max_outstanding=max_outstanding,
            blocks=[self.warps[w].block for w in warps],
        )
        return _held(trace, [place for place, w in enumerate(warps) if self.warps[w].stopped])

    @_checks.names_keywords
    def resident_warps(self, blocks: Sequence[int] | None = None) -> tuple[int, ...]:
        """Return the warps of this trace that `simulate` runs: its warp ``w`` is ``warps[this[w]]`` here.

        Parameters
        ----------
        blocks : sequence of int, or None
            As for `simulate`.

        Returns
        -------
        tuple of int

        Raises
        ------
        ValueError
            For blocks that are not there or exceed 64 warps.

        Examples
        --------
        >>> from pulsewarp import simt
        >>> run = simt.lesson_kernels.LESSONS["vector_add"].trace()  # three blocks of four warps
        >>> run.resident_warps(blocks=[2])
        (8, 9, 10, 11)
        """
        per_block = sum(warp.block == self.warps[0].block for warp in self.warps)
        count = len(self.warps) // per_block
        if blocks is None:
            blocks = range(min(count, max(1, MOST_RESIDENT // per_block)))
        chosen = [
            _checks.whole_number("A block", block, least=0, most=count - 1)
            for block in _checks.several("blocks", blocks, "list the blocks on the SM")
        ]
        if len(set(chosen)) * per_block > MOST_RESIDENT:
            raise ValueError(
                f"blocks names {counted(len(chosen), 'block')} of {counted(per_block, 'warp')}, but an SM "
                f"holds at most {MOST_RESIDENT} warps; name fewer."
            )
        return tuple(b * per_block + w for b in sorted(set(chosen)) for w in range(per_block))

    def lines(self) -> tuple[LineScore, ...]:
        """Return what each source line cost, over all warps; lines that issued nothing are left out.

        Examples
        --------
        >>> import numpy as np
        >>> from pulsewarp import simt
        >>> x = np.ones(64, np.float32)
        >>> run = simt.trace_kernel(
        ...     simt.lesson_kernels.strided_copy, grid=1, block=32, args=(x, np.zeros(32, np.float32), 2)
        ... )
        >>> [(line.source.strip(), line.sectors, line.least_sectors) for line in run.lines()][-1]
        ('out[i] = x[i * stride]', 12, 8)
        """
        found: dict[int, NDArray[np.int64]] = {}
        for warp in self.warps:
            for i in warp.instructions:
                found[i.line] = found.get(i.line, 0) + np.array(i.charges)
        return tuple(LineScore(line, self._line(line), *found[line].tolist()) for line in sorted(found))

    def _line(self, line: int) -> str:
        for listing in (Listing(self.name, self.source, self.first_line), *self.helpers):
            if 0 <= line - listing.first_line < len(listing.lines):
                return listing.lines[line - listing.first_line]
        return ""

    def __repr__(self) -> str:
        issued = sum(len(warp.instructions) for warp in self.warps)
        wrong = counted(len(self.problems), "problem") if self.problems else "no problem"
        return (
            f"KernelTrace({self.name}: {counted(int(np.prod(self.grid)), 'block')} x "
            f"{counted(int(np.prod(self.block)), 'thread')}, {counted(len(self.warps), 'warp')}, "
            f"{counted(issued, 'instruction')}, {wrong})"
        )


def same_numbers(run: KernelTrace, name: str, other: Any) -> NDArray[np.bool_]:
    """Return where an array of a run holds the numbers that another way to compute them gives.

    Whole numbers must be the same. Floats may be rounded otherwise, as by NumPy's order of a sum or a GPU's
    fused multiply-add: by 100 steps of the coarsest type among the launch's arrays, of the number itself and,
    since large terms may cancel in it, of the median of those that are not 0.

    Examples
    --------
    >>> from pulsewarp import simt
    >>> run = simt.lesson_kernels.LESSONS["vector_add"].trace()
    >>> out = run.results["out"]
    >>> bool(same_numbers(run, "out", out * np.float32(1.00001)).all())
    True
    >>> bool(same_numbers(run, "out", out * np.float32(1.0001)).all())
    False
    """
    found, other = run.results[name], np.asarray(other)
    if found.dtype.kind != "f":
        return np.asarray(found == other)
    step = max(float(np.finfo(a.dtype).eps) for a in run.results.values() if a.dtype.kind == "f")
    share = min(100 * step, step**0.5)  # of float16 100 steps would be a tenth
    sizes = np.abs(other[np.isfinite(other) & (other != 0)])
    typical = float(np.median(sizes)) if sizes.size else 1.0
    close: NDArray[np.bool_] = np.isclose(found, other, rtol=share, atol=share * typical, equal_nan=True)
    return close


def _held(trace: WarpTrace, stopped: Sequence[int]) -> WarpTrace:
    """Return the trace with some warps at a barrier that never opens, their last instruction.

    To the simulator such a program ends with its barrier, so it holds nobody up and changes no other warp's
    times; a cycle is added at the end, in which nothing else is left.
    """
    if not stopped:
        return trace
    state, pc, until = (np.concatenate([a, a[-1:]]) for a in (trace.state, trace.pc, trace.until))
    issues = [*np.argwhere(trace.state == ISSUES).tolist()]
    last = {w: t for t, w in issues}
    for w in last:
        pc[-1, w] = len(trace.programs[w])
        state[-1, w], until[-1, w] = FINISHED, -1
    for w in stopped:
        state[last[w] + 1 :, w], until[last[w] + 1 :, w] = BARRIER, -1
    nobody = np.full((1, trace.schedulers), -1, np.int32)
    return replace(
        trace,
        cycles=trace.cycles + 1,
        issued=freeze(np.concatenate([trace.issued, nobody])),
        state=freeze(state),
        pc=freeze(pc),
        until=freeze(until),
        lanes=freeze(np.concatenate([trace.lanes, np.zeros_like(trace.lanes[:1])])),
        held=tuple(stopped),
    )
