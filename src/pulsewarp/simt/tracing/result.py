"""What comes out of a traced kernel: results, every warp's instructions, and what went wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp import _checks
from pulsewarp._text import counted
from pulsewarp.simt._instruction import LANES, Instruction
from pulsewarp.simt.access import sectors, wavefronts
from pulsewarp.simt.scheduler import simulate
from pulsewarp.simt.trace import WarpTrace

MOST_RESIDENT = 64  # warps: the most that any SM of compute capability 7.0 to 12.0 keeps
SECTORS_PER_CYCLE = 4  # 128 bytes a cycle leave L1 and shared memory (NVIDIA developer forum 77228)

# What can go wrong, causes before what follows from them.
KINDS = (
    "divergent_barrier", "race", "out_of_bounds", "uninitialised", "negative_index", "zero_division",
    "early_exit", "divergent_syncwarp",
)  # fmt: skip

Triple = tuple[int, int, int]


@dataclass(frozen=True)
class Memory:
    """One array as the kernel addresses it.

    Parameters
    ----------
    name : str
        The kernel's name for it.
    space : str
        ``"global"``: an argument. ``"shared"``: one per block. ``"local"``: one per thread.
    shape : tuple of int
        Elements along each axis.
    dtype : str
        As NumPy names it.
    base : int
        Byte address of the first element. Arguments lie one behind the other, each at a multiple of 256
        bytes as ``cudaMalloc`` aligns them; shared arrays lie one behind the other from 0 in their block.
    strides : tuple of int
        Elements from one index to the next, along each axis.
    """

    name: str
    space: str
    shape: tuple[int, ...]
    dtype: str
    base: int
    strides: tuple[int, ...]

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""
        return np.dtype(self.dtype).itemsize

    def index(self, element: int) -> tuple[int, ...]:
        """Return the index of the element at a place in memory, counted in elements from the first."""
        rest, found = element, dict.fromkeys(range(len(self.shape)), 0)
        for axis in sorted(found, key=lambda axis: -self.strides[axis]):
            found[axis], rest = divmod(rest, self.strides[axis]) if self.shape[axis] > 1 else (0, rest)
        return tuple(found[axis] for axis in range(len(self.shape)))

    def element(self, element: int) -> str:
        """Return an element as the kernel would write it: ``a[3, 4]``."""
        return f"{self.name}[{', '.join(map(str, self.index(element)))}]"


@dataclass(frozen=True, eq=False, slots=True)
class TracedInstruction:
    """One instruction of one warp.

    Parameters
    ----------
    line : int
        Its line in the file or cell of the kernel.
    what : str
        ``"alu"``, ``"sfu"``, ``"load"``, ``"store"``, ``"atomic"``, ``"branch"``, ``"barrier"`` or
        ``"warp barrier"``; which memory a load goes to is `memory`'s space.
    text : str
        Mnemonic and operands; memory operands as they stand in the source.
    mask : int
        Bit l is set when lane l takes part.
    dst : str or None
        The register written: a variable's name, or ``%r`` and a number.
    srcs : tuple of str
        The registers read.
    values : ndarray, (32,), or None
        What each lane computes, loads, stores or decides (a branch: whether it is taken); 0 where it is off.
        An atomic's values are what it adds or compares.
    memory : Memory or None
        The array of a load, a store or an atomic.
    elements : ndarray of int64, (32,), or None
        Each lane's element, counted from the array's first in memory; -1 where it is off or out of bounds.
    """

    line: int
    what: str
    text: str
    mask: int
    dst: str | None = None
    srcs: tuple[str, ...] = ()
    values: NDArray[Any] | None = None
    memory: Memory | None = None
    elements: NDArray[np.int64] | None = None

    @property
    def lanes(self) -> int:
        """How many lanes take part, 1 to 32."""
        return self.mask.bit_count()

    @property
    def addresses(self) -> NDArray[np.int64] | None:
        """Each lane's byte address, -1 where there is none; in a local array counted from its first."""
        if self.memory is None or self.elements is None:
            return None
        found = self.memory.base + self.elements * self.memory.element_bytes
        return np.where(self.elements >= 0, found, -1)

    def __repr__(self) -> str:
        return f"TracedInstruction(line {self.line}: {self.text}, {counted(self.lanes, 'lane')})"


@dataclass(frozen=True, eq=False, repr=False)
class TracedWarp:
    """What one warp did.

    Parameters
    ----------
    block : int
        Its block, counted x first.
    warp : int
        Its place in the block: it holds threads ``32 * warp`` and the following, counted x first.
    mask : int
        The lanes that have a thread.
    instructions : tuple of TracedInstruction
        In the order of issue.
    """

    block: int
    warp: int
    mask: int
    instructions: tuple[TracedInstruction, ...]

    def __repr__(self) -> str:
        return (
            f"TracedWarp(block {self.block}, warp {self.warp}: {counted(self.mask.bit_count(), 'lane')}, "
            f"{counted(len(self.instructions), 'instruction')})"
        )


@dataclass(frozen=True)
class Touch:
    """One of the two accesses of a race: which thread, where in the source, and what it does."""

    block: Triple
    thread: Triple
    line: int
    what: str


@dataclass(frozen=True)
class Problem:
    """Something wrong that the run came upon.

    Parameters
    ----------
    kind : str
        ``"race"``: two threads touch one element, one of them writes, and nothing orders them.
        ``"out_of_bounds"``: an index beyond the array; the load gave 0, the store was dropped.
        ``"divergent_barrier"``: not all threads of the block reach a barrier; the block stops there.
        ``"early_exit"``: some threads had ended before a barrier; since Volta it opens without them.
        ``"divergent_syncwarp"``: some lanes of a warp are not at its barrier; here it opens without them.
        ``"uninitialised"``: an element of shared or local memory is read before it is written; it gave 0.
        ``"negative_index"``: it counts from the end, in Numba as in Python.
        ``"zero_division"``: an integer divided by 0; a GPU gives no error and an undefined number.
    line : int
        Where.
    text : str
        A sentence with thread, line, array and index.
    block, thread : tuple of int
        The first thread concerned, (x, y, z).
    array : str or None
        The array's name.
    index : tuple of int or None
        The element's index.
    touches : tuple of Touch
        A race's two accesses.
    missing : tuple of tuple of int
        Threads that did not arrive at a barrier, or had ended.
    count : int
        How often the same was seen on these lines.
    """

    kind: str
    line: int
    text: str
    block: Triple
    thread: Triple
    array: str | None = None
    index: tuple[int, ...] | None = None
    touches: tuple[Touch, ...] = ()
    missing: tuple[Triple, ...] = ()
    count: int = 1

    def __str__(self) -> str:
        more = f" (seen {self.count} times)" if self.count > 1 else ""
        return f"{self.text}{more}"


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
        load_latency: int = 466,
        shared_latency: int = 24,
        alu_latency: int = 4,
        fp64_latency: int = 8,
        sfu_latency: int = 18,
        store_latency: int = 1,
        warps: Sequence[int] | None = None,
    ) -> tuple[tuple[Instruction, ...], ...]:
        """Return one program per warp, instruction for instruction, as `simulate` takes them.

        Modelled: who waits for whom by register; loads, stores and atomics on the SM's one memory unit, which
        a global access keeps for a cycle per four sectors, a shared access for a cycle per wavefront, and an
        atomic for a cycle per lane on its most wanted element. Not modelled: caches (every load of global
        memory takes `load_latency`), what a compiler removes or unrolls, the several instructions of a
        division, register banks.

        Parameters
        ----------
        load_latency : int
            Cycles of a load from global memory; 466 is an A100's device memory, its L2 262 and L1 38 (Luo et
            al., arXiv:2402.13499).
        shared_latency : int
            Cycles of a load from shared memory; 24 on Ampere (Huerta et al., MICRO 2025, table 2). Local
            arrays take it too.
        alu_latency : int
            Cycles of 32-bit arithmetic; 4 since Volta (Jia et al., arXiv:1804.06826).
        fp64_latency : int
            Cycles of float64 arithmetic; 8 in Mesa's table for Turing. A float64 unit takes two cycles an
            instruction here, as on a V100, A100 or H100; on others it takes many more.
        sfu_latency : int
            Cycles of a root, a logarithm, a sine: illustrative. Their unit takes two instructions in
            sixteen cycles (four of its lanes a cycle, CUDA's table of throughputs).
        store_latency : int
            Cycles until a store counts as landed; nothing waits for it.
        warps : sequence of int, or None
            Which warps; None for all.

        Returns
        -------
        tuple of tuples of Instruction

        Raises
        ------
        ValueError
            For a latency below 1 or a warp that is not there.

        Examples
        --------
        >>> import numpy as np
        >>> from pulsewarp import simt
        >>> x = np.ones(32, np.float32)
        >>> run = simt.trace_kernel(simt.lesson_kernels.vector_add, grid=1, block=32, args=(x, x, x))
        >>> [i.text for i in run.programs[0] if i.unit == "mem"]
        ['LDG %r1, x[i]', 'LDG %r2, y[i]', 'STG out[i], %r3']
        """
        given = {
            "load_latency": load_latency,
            "shared_latency": shared_latency,
            "alu_latency": alu_latency,
            "fp64_latency": fp64_latency,
            "sfu_latency": sfu_latency,
            "store_latency": store_latency,
        }
        latency = {name: _checks.whole_number(name, value) for name, value in given.items()}
        chosen = range(len(self.warps)) if warps is None else _checks.several("warps", warps, "list them")
        cost = _Cost()
        made: dict[tuple[object, ...], Instruction] = {}

        def instruction(i: TracedInstruction) -> Instruction:
            unit, base, interval = "alu", latency["alu_latency"], 1
            if i.what == "barrier":
                unit = "bar"
            elif i.what == "sfu":
                unit, base, interval = "sfu", latency["sfu_latency"], 8
            elif i.memory is not None:
                unit, interval = "mem", cost.cycles(i)
                near = i.memory.space != "global"
                base = latency["shared_latency"] if near else latency["load_latency"]
                base = latency["store_latency"] if i.dst is None else base + interval - 1
            elif i.what == "alu" and i.text[0] == "D":
                unit, base, interval = "fp64", latency["fp64_latency"], 2
            key = (unit, base, interval, i.dst, i.srcs, i.text, i.lanes)
            if key not in made:
                made[key] = Instruction(unit, base, interval, i.dst, i.srcs, i.text, i.lanes)
            return made[key]

        most = len(self.warps) - 1
        return tuple(
            tuple(
                map(
                    instruction,
                    self.warps[_checks.whole_number("A warp", w, least=0, most=most)].instructions,
                )
            )
            for w in chosen
        )

    @_checks.names_keywords
    def simulate(
        self,
        *,
        schedulers: int = 4,
        policy: str = "lrr",
        max_outstanding: int | None = None,
        blocks: Sequence[int] | None = None,
        load_latency: int = 466,
        shared_latency: int = 24,
        alu_latency: int = 4,
        fp64_latency: int = 8,
        sfu_latency: int = 18,
        store_latency: int = 1,
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
            modelled: blocks that follow when one ends (see `simt.place`), registers and shared memory as
            limits (see `simt.occupancy`).
        load_latency, shared_latency, alu_latency, fp64_latency, sfu_latency, store_latency
            As for `timed_programs`.

        Returns
        -------
        WarpTrace

        Raises
        ------
        ValueError
            For blocks that are not there or exceed 64 warps, and for a kernel that stops at a divergent
            barrier: it has no end that could be timed.

        Examples
        --------
        >>> from pulsewarp import simt
        >>> run = simt.lesson_kernels.product(simt.lesson_kernels.tiled_product, m=16, k=16, n=16).trace()
        >>> run.simulate(schedulers=4, policy="gto").warps
        8
        """
        stops = [p for p in self.problems if p.kind == "divergent_barrier"]
        if stops:
            raise ValueError(f"{self.name} has no end that could be timed: {stops[0].text}")
        per_block = sum(warp.block == self.warps[0].block for warp in self.warps)
        count = len(self.warps) // per_block
        if blocks is None:
            blocks = range(min(count, max(1, MOST_RESIDENT // per_block)))
        chosen = [
            _checks.whole_number("A block", block, least=0, most=count - 1)
            for block in _checks.several("blocks", blocks, "list the blocks on the SM")
        ]
        if len(chosen) * per_block > MOST_RESIDENT:
            raise ValueError(
                f"blocks names {counted(len(chosen), 'block')} of {counted(per_block, 'warp')}, but an SM "
                "holds at "
                f"most {MOST_RESIDENT} warps; name fewer."
            )
        warps = [w for w, warp in enumerate(self.warps) for block in chosen if warp.block == block]
        programs = self.timed_programs(
            load_latency=load_latency,
            shared_latency=shared_latency,
            alu_latency=alu_latency,
            fp64_latency=fp64_latency,
            sfu_latency=sfu_latency,
            store_latency=store_latency,
            warps=warps,
        )
        return simulate(
            programs,
            schedulers=schedulers,
            policy=policy,
            max_outstanding=max_outstanding,
            blocks=[self.warps[w].block for w in warps],
        )

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
        cost = _Cost()
        found: dict[int, list[int]] = {}
        for warp in self.warps:
            for i in warp.instructions:
                row = found.setdefault(i.line, [0] * 7)
                row[0] += 1
                row[1] += i.lanes
                row[2] += LANES - i.lanes
                if i.memory is not None and i.elements is not None and i.memory.space != "local":
                    place = 3 if i.memory.space == "global" else 5
                    row[place] += cost.count(i)
                    distinct = len(set(i.elements[i.elements >= 0].tolist()))
                    size = 32 if i.memory.space == "global" else 128
                    row[place + 1] += -(-distinct * i.memory.element_bytes // size)
        return tuple(LineScore(line, self._line(line), *found[line]) for line in sorted(found))

    def _line(self, line: int) -> str:
        place = line - self.first_line
        return self.source[place] if 0 <= place < len(self.source) else ""

    def __repr__(self) -> str:
        issued = sum(len(warp.instructions) for warp in self.warps)
        wrong = counted(len(self.problems), "problem") if self.problems else "no problem"
        return (
            f"KernelTrace({self.name}: {counted(int(np.prod(self.grid)), 'block')} x "
            f"{counted(int(np.prod(self.block)), 'thread')}, {counted(len(self.warps), 'warp')}, "
            f"{counted(issued, 'instruction')}, {wrong})"
        )


class _Cost:
    """Sectors, wavefronts and cycles of accesses; each distinct pattern is worked out once."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], int] = {}

    def count(self, i: TracedInstruction) -> int:
        """Return the sectors of a global access or the wavefronts of a shared one."""
        addresses = i.addresses
        if addresses is None or i.memory is None or i.elements is None:
            return 0
        on = i.elements >= 0
        if not on.any():
            return 0
        # What follows depends on the place within 128 bytes only: lines, sectors and banks repeat.
        origin = int(np.min(addresses[on])) // 128 * 128
        relative = np.where(on, addresses - origin, 0)
        mask = int.from_bytes(np.packbits(on, bitorder="little").tobytes(), "little")
        key = (i.memory.space, i.memory.element_bytes, mask, relative.tobytes())
        if key not in self._known:
            args = (relative.tolist(), i.memory.element_bytes, mask)
            if i.memory.space == "global":
                self._known[key] = sectors(*args).sectors
            else:
                self._known[key] = wavefronts(*args).wavefronts
        return self._known[key]

    def cycles(self, i: TracedInstruction) -> int:
        """Return for how many cycles an access keeps the memory unit."""
        if i.memory is None or i.elements is None:
            return 1
        if i.memory.space == "local":  # interleaved by lane: neighbours lie side by side
            return 1
        if i.what == "atomic":
            wanted = i.elements[i.elements >= 0]
            return int(np.max(np.unique(wanted, return_counts=True)[1])) if len(wanted) else 1
        count = self.count(i)
        return max(1, -(-count // SECTORS_PER_CYCLE) if i.memory.space == "global" else count)
