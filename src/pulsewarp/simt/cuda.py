"""A stand-in for ``numba.cuda``, so that a kernel can be written and traced where Numba is missing.

A kernel names what is here; `simt.trace_kernel` reads the kernel's source and gives the names their meaning,
so nothing here computes anything. The same kernel runs on a GPU: see `simt.compile_kernel`.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any, NoReturn

warpsize = 32
"""Threads of a warp."""

_REMEDY = "run the kernel with simt.trace_kernel(kernel, grid=..., block=..., args=(...))"


def _outside(name: str) -> NoReturn:
    raise RuntimeError(f"cuda.{name} has a meaning inside a kernel only; {_REMEDY}.")


class _Dim3:
    """Three numbers, x, y and z, that only a running kernel has."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def x(self) -> int:
        """The first number; it changes fastest from thread to thread."""
        _outside(f"{self._name}.x")

    @property
    def y(self) -> int:
        """The second number."""
        _outside(f"{self._name}.y")

    @property
    def z(self) -> int:
        """The third number."""
        _outside(f"{self._name}.z")

    def __repr__(self) -> str:
        return f"cuda.{self._name}"


threadIdx = _Dim3("threadIdx")  # noqa: N816  # these four bear CUDA's own names
"""The thread's place in its block: ``.x``, ``.y``, ``.z``."""
blockIdx = _Dim3("blockIdx")  # noqa: N816
"""The block's place in the grid."""
blockDim = _Dim3("blockDim")  # noqa: N816
"""Threads of a block along each axis."""
gridDim = _Dim3("gridDim")  # noqa: N816
"""Blocks of the grid along each axis."""


class _Arrays:
    """Makes arrays of one memory space."""

    def __init__(self, name: str) -> None:
        self._name = name

    def array(self, shape: Any, dtype: Any) -> Any:
        """Return an array whose shape is a constant; its content is undefined until it is written."""
        _outside(f"{self._name}.array")

    def __repr__(self) -> str:
        return f"cuda.{self._name}"


shared = _Arrays("shared")
"""``shared.array(shape, dtype)``: one array for all threads of a block."""
local = _Arrays("local")
"""``local.array(shape, dtype)``: an array of each thread's own."""


class _Atomic:
    """Reads, changes and writes an element in one step; each returns the element's old value."""

    def add(self, array: Any, index: Any, value: Any) -> Any:
        """Add `value` to the element."""
        _outside("atomic.add")

    def sub(self, array: Any, index: Any, value: Any) -> Any:
        """Subtract `value` from the element."""
        _outside("atomic.sub")

    def max(self, array: Any, index: Any, value: Any) -> Any:
        """Keep the larger of the element and `value`."""
        _outside("atomic.max")

    def min(self, array: Any, index: Any, value: Any) -> Any:
        """Keep the smaller of the element and `value`."""
        _outside("atomic.min")

    def exch(self, array: Any, index: Any, value: Any) -> Any:
        """Put `value` in the element's place."""
        _outside("atomic.exch")

    def cas(self, array: Any, index: Any, old: Any, value: Any) -> Any:
        """Put `value` in the element's place where that holds `old`."""
        _outside("atomic.cas")

    def compare_and_swap(self, array: Any, old: Any, value: Any) -> Any:
        """Do as `cas` does with the array's first element."""
        _outside("atomic.compare_and_swap")

    def and_(self, array: Any, index: Any, value: Any) -> Any:
        """Keep the bits that `value` has too."""
        _outside("atomic.and_")

    def or_(self, array: Any, index: Any, value: Any) -> Any:
        """Add the bits of `value`."""
        _outside("atomic.or_")

    def xor(self, array: Any, index: Any, value: Any) -> Any:
        """Turn the bits of `value` round."""
        _outside("atomic.xor")

    def __repr__(self) -> str:
        return "cuda.atomic"


atomic = _Atomic()
"""``atomic.add``, ``sub``, ``max``, ``min``, ``exch``, ``cas`` and their like, on an element of an array."""


def grid(ndim: int) -> Any:
    """Return the thread's place in the whole grid: a number for 1, a tuple for 2 or 3 axes."""
    _outside("grid")


def gridsize(ndim: int) -> Any:
    """Return the threads of the whole grid along 1, 2 or 3 axes."""
    _outside("gridsize")


def syncthreads() -> None:
    """Wait until every thread of the block is here."""
    _outside("syncthreads")


def syncwarp(mask: int = 0xFFFFFFFF) -> None:
    """Wait until every thread of the warp is here."""
    _outside("syncwarp")


def shfl_sync(mask: int, value: Any, src_lane: int) -> Any:
    """Return the value of another lane of the warp."""
    _outside("shfl_sync")


def shfl_up_sync(mask: int, value: Any, delta: int) -> Any:
    """Return the value of the lane `delta` before this one, its own where there is none."""
    _outside("shfl_up_sync")


def shfl_down_sync(mask: int, value: Any, delta: int) -> Any:
    """Return the value of the lane `delta` behind this one, its own where there is none."""
    _outside("shfl_down_sync")


def shfl_xor_sync(mask: int, value: Any, lane_mask: int) -> Any:
    """Return the value of the lane whose number differs in the bits of `lane_mask`."""
    _outside("shfl_xor_sync")


def any_sync(mask: int, predicate: Any) -> Any:
    """Return whether a lane of the warp says yes."""
    _outside("any_sync")


def all_sync(mask: int, predicate: Any) -> Any:
    """Return whether all lanes of the warp say yes."""
    _outside("all_sync")


def eq_sync(mask: int, predicate: Any) -> Any:
    """Return whether all lanes of the warp say the same."""
    _outside("eq_sync")


def ballot_sync(mask: int, predicate: Any) -> Any:
    """Return 32 bits, one for each lane that says yes."""
    _outside("ballot_sync")


def activemask() -> Any:
    """Return 32 bits, one for each lane that is here."""
    _outside("activemask")


def popc(value: Any) -> Any:
    """Return how many bits are 1."""
    _outside("popc")


def clz(value: Any) -> Any:
    """Return how many bits are 0 before the first 1."""
    _outside("clz")


def ffs(value: Any) -> Any:
    """Return the place of the last bit that is 1, counted from 1; 0 where there is none."""
    _outside("ffs")


def brev(value: Any) -> Any:
    """Return the bits in the reverse order."""
    _outside("brev")


def selp(condition: Any, a: Any, b: Any) -> Any:
    """Return `a` where the condition holds, else `b`."""
    _outside("selp")


def fma(a: Any, b: Any, c: Any) -> Any:
    """Return ``a * b + c``."""
    _outside("fma")


def threadfence() -> None:
    """Let what was written before be seen before what is written after."""
    _outside("threadfence")


def jit(*signature: Any, **options: Any) -> Any:
    """Return a function as it is, so that a kernel decorated for Numba can be traced without it.

    Signatures and options, as in ``@cuda.jit(device=True)``, are taken and set nothing.
    """
    if len(signature) == 1 and isinstance(signature[0], FunctionType):
        return signature[0]
    return jit


def __getattr__(name: str) -> NoReturn:
    if name == "laneid":
        _outside("laneid")
    raise AttributeError(f"simt.cuda has no {name!r}; it stands in for what simt.trace_kernel follows.")
