"""What a traced kernel is made of: its arrays, its warps' instructions, and what went wrong."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp._text import counted
from pulsewarp.simt._instruction import LANES
from pulsewarp.simt.access import SECTOR_BYTES, WAVEFRONT_BYTES, Access, BankAccess, sectors, wavefronts

# What can go wrong, causes before what follows from them.
KINDS = (
    "divergent_barrier", "race", "out_of_bounds", "uninitialised", "negative_index", "zero_division",
    "early_exit", "divergent_syncwarp", "inactive_lane",
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

    @property
    def row_major(self) -> bool:
        """Whether its rows lie one behind the other, as NumPy's order C has them."""
        return self.strides == tuple(math.prod(self.shape[axis + 1 :]) for axis in range(len(self.shape)))

    def index(self, element: int) -> tuple[int, ...]:
        """Return the index of the element at a place in memory, counted in elements from the first."""
        rest, found = element, dict.fromkeys(range(len(self.shape)), 0)
        for axis in sorted(found, key=lambda axis: -self.strides[axis]):
            found[axis], rest = divmod(rest, self.strides[axis]) if self.shape[axis] > 1 else (0, rest)
        return tuple(found[axis] for axis in range(len(self.shape)))

    def element(self, element: int) -> str:
        """Return an element as the kernel would write it: ``a[3, 4]``."""
        return f"{self.name}[{', '.join(map(str, self.index(element)))}]"


def _access(space: str, addresses: Sequence[int], size: int, mask: int) -> Access | BankAccess:
    return (sectors if space == "global" else wavefronts)(addresses, size, mask)


@functools.lru_cache(maxsize=2**12)
def _count(space: str, size: int, mask: int, relative: tuple[int, ...]) -> int:
    """Return sectors or wavefronts: the place within 128 bytes decides, so patterns come back often."""
    access = _access(space, relative, size, mask)
    return access.sectors if isinstance(access, Access) else access.wavefronts


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
    left : ndarray, (32,), or None
        What an atomic leaves in each lane's element, lane after lane.
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
    left: NDArray[Any] | None = None

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

    @property
    def access(self) -> Access | BankAccess | None:
        """The access as `simt.sectors` (global memory) or `simt.wavefronts` (shared memory) have it.

        None where it is no access to those, and where every lane was out of bounds.
        """
        place = self._place("global", "shared")
        if place is None:
            return None
        space, size, mask, origin, relative = place
        return _access(space, [origin + r for r in relative], size, mask)

    @property
    def sectors(self) -> int | None:
        """How many 32-byte sectors of global memory it touches; None where it touches none."""
        place = self._place("global")
        return None if place is None else _count(*place[:3], place[4])

    @property
    def wavefronts(self) -> int | None:
        """How many passes through shared memory it takes; None where it goes elsewhere."""
        place = self._place("shared")
        return None if place is None else _count(*place[:3], place[4])

    @property
    def least(self) -> int | None:
        """How many sectors or wavefronts would do, were the distinct elements asked for side by side.

        A sector holds 32 bytes, a wavefront 128. None where it goes to neither memory.
        """
        if self.memory is None or self.elements is None or self.memory.space == "local":
            return None
        distinct = len(set(self.elements[self.elements >= 0].tolist()))
        size = SECTOR_BYTES if self.memory.space == "global" else WAVEFRONT_BYTES
        return -(-distinct * self.memory.element_bytes // size) if distinct else None

    @property
    def charges(self) -> tuple[int, int, int, int, int, int, int]:
        """What its line is charged for it, as `LineScore` counts: the fields from ``instructions`` on."""
        sectors, wavefronts = self.sectors, self.wavefronts
        least = 0 if sectors is None and wavefronts is None else self.least or 0
        return (
            1,
            self.lanes,
            LANES - self.lanes,
            sectors or 0,
            0 if sectors is None else least,
            wavefronts or 0,
            0 if wavefronts is None else least,
        )

    def _place(self, *spaces: str) -> tuple[str, int, int, int, tuple[int, ...]] | None:
        """Return space, element bytes, mask, a multiple of 128 below, and the addresses counted from it."""
        if self.memory is None or self.memory.space not in spaces:
            return None
        addresses = self.addresses
        if addresses is None:
            return None
        on = addresses >= 0
        if not on.any():
            return None
        origin = int(np.min(addresses[on])) // 128 * 128
        mask = int.from_bytes(np.packbits(on, bitorder="little").tobytes(), "little")
        relative = tuple(np.where(on, addresses - origin, 0).tolist())
        return self.memory.space, self.memory.element_bytes, mask, origin, relative

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
    stopped : bool
        Whether the last of them is a barrier that never opens (a `Problem` ``"divergent_barrier"``).
    """

    block: int
    warp: int
    mask: int
    instructions: tuple[TracedInstruction, ...]
    stopped: bool = False

    def __repr__(self) -> str:
        return (
            f"TracedWarp(block {self.block}, warp {self.warp}: {counted(self.mask.bit_count(), 'lane')}, "
            f"{counted(len(self.instructions), 'instruction')})"
        )


@dataclass(frozen=True)
class Listing:
    """The source of a function: its name, its lines, and the number of the first in its file or cell."""

    name: str
    lines: tuple[str, ...]
    first_line: int


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
        ``"divergent_syncwarp"``: some lanes of a warp are not at its barrier, shuffle or vote; here it goes
        on without them. ``"inactive_lane"``: a shuffle asks a lane that takes no part; it gave 0.
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
