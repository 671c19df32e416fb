"""Kernels to trace, time and mend, in the syntax of Numba CUDA: correct ones, and one for each mistake.

`LESSONS` holds each with a launch that fits it and what NumPy says the result must be. A kernel's constants
(`TILE`, `THREADS`, `BINS`, ...) are this module's, as Numba needs them for arrays of shared memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FunctionType, MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp import _checks
from pulsewarp._arrays import freeze
from pulsewarp.simt import cuda
from pulsewarp.simt.tracing._source import beneath
from pulsewarp.simt.tracing.result import KernelTrace
from pulsewarp.simt.tracing.tracer import trace_kernel

TILE = 16
WIDE_TILE = 32
PADDED = WIDE_TILE + 1  # an array's shape takes names and numbers, no sums
THREADS = 128
BINS = 16
MOST_SIDE = 4096  # of a matrix; a trace refuses launches long before
_REMEDY = "pass a function written with def, such as simt.lesson_kernels.tiled_product"

# --- one thread per element --------------------------------------------------------------------------------


def vector_add(x, y, out):  # type: ignore[no-untyped-def]  # kernels are written as a reader writes them
    """Add two vectors, one thread per element."""
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


def saxpy(a, x, y):  # type: ignore[no-untyped-def]
    """Add a multiple of one vector to another, in place."""
    i = cuda.grid(1)
    if i < y.size:
        y[i] = a * x[i] + y[i]


def strided_copy(x, out, stride):  # type: ignore[no-untyped-def]
    """Copy every `stride`-th element: the larger the stride, the more sectors for the same bytes."""
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i * stride]


def misaligned_copy(x, out, offset):  # type: ignore[no-untyped-def]
    """Copy from an element that begins no sector: each warp touches one sector more."""
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i + offset]


# --- matrix product ----------------------------------------------------------------------------------------


def naive_product(a, b, c):  # type: ignore[no-untyped-def]
    """Multiply matrices, a thread per element, every factor from global memory."""
    column, row = cuda.grid(2)
    if row < c.shape[0] and column < c.shape[1]:
        total = np.float32(0)
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, column]
        c[row, column] = total


def tiled_product(a, b, c):  # type: ignore[no-untyped-def]
    """Multiply matrices tile by tile: a block loads each element once and reads it `TILE` times."""
    tile_a = cuda.shared.array((TILE, TILE), np.float32)
    tile_b = cuda.shared.array((TILE, TILE), np.float32)
    column, row = cuda.grid(2)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    total = np.float32(0)
    for first in range(0, a.shape[1], TILE):
        tile_a[ty, tx] = 0
        tile_b[ty, tx] = 0
        if row < a.shape[0] and first + tx < a.shape[1]:
            tile_a[ty, tx] = a[row, first + tx]
        if first + ty < b.shape[0] and column < b.shape[1]:
            tile_b[ty, tx] = b[first + ty, column]
        cuda.syncthreads()
        for k in range(TILE):
            total += tile_a[ty, k] * tile_b[k, tx]
        cuda.syncthreads()
    if row < c.shape[0] and column < c.shape[1]:
        c[row, column] = total


# --- transpose ---------------------------------------------------------------------------------------------


def naive_transpose(x, out):  # type: ignore[no-untyped-def]
    """Transpose element by element: reads lie side by side, writes a row apart."""
    column, row = cuda.grid(2)
    if row < x.shape[0] and column < x.shape[1]:
        out[column, row] = x[row, column]


def tiled_transpose(x, out):  # type: ignore[no-untyped-def]
    """Transpose through shared memory: both sides lie side by side, but a column of the tile is one bank."""
    tile = cuda.shared.array((WIDE_TILE, WIDE_TILE), np.float32)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    column = cuda.blockIdx.x * WIDE_TILE + tx
    row = cuda.blockIdx.y * WIDE_TILE + ty
    if row < x.shape[0] and column < x.shape[1]:
        tile[ty, tx] = x[row, column]
    cuda.syncthreads()
    column = cuda.blockIdx.y * WIDE_TILE + tx
    row = cuda.blockIdx.x * WIDE_TILE + ty
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = tile[tx, ty]


def padded_transpose(x, out):  # type: ignore[no-untyped-def]
    """Transpose through a tile with one unused column, which puts a column into 32 banks."""
    tile = cuda.shared.array((WIDE_TILE, PADDED), np.float32)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    column = cuda.blockIdx.x * WIDE_TILE + tx
    row = cuda.blockIdx.y * WIDE_TILE + ty
    if row < x.shape[0] and column < x.shape[1]:
        tile[ty, tx] = x[row, column]
    cuda.syncthreads()
    column = cuda.blockIdx.y * WIDE_TILE + tx
    row = cuda.blockIdx.x * WIDE_TILE + ty
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = tile[tx, ty]


# --- reduction ---------------------------------------------------------------------------------------------


def divergent_sum(x, out):  # type: ignore[no-untyped-def]
    """Sum a block's elements, every second thread working, then every fourth: all warps stay half on."""
    partial = cuda.shared.array(THREADS, np.float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    partial[t] = x[i] if i < x.size else np.float32(0)
    cuda.syncthreads()
    stride = 1
    while stride < THREADS:
        if t % (2 * stride) == 0:
            partial[t] += partial[t + stride]
        cuda.syncthreads()
        stride *= 2
    if t == 0:
        out[cuda.blockIdx.x] = partial[0]


def sequential_sum(x, out):  # type: ignore[no-untyped-def]
    """Sum a block's elements, the first half of the threads working, then the first quarter."""
    partial = cuda.shared.array(THREADS, np.float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    partial[t] = x[i] if i < x.size else np.float32(0)
    cuda.syncthreads()
    stride = THREADS // 2
    while stride > 0:
        if t < stride:
            partial[t] += partial[t + stride]
        cuda.syncthreads()
        stride //= 2
    if t == 0:
        out[cuda.blockIdx.x] = partial[0]


def warp_sum(x, out):  # type: ignore[no-untyped-def]
    """Sum without shuffles: threads add up strided elements, then one warp adds the rest."""
    partial = cuda.shared.array(THREADS, np.float32)
    t = cuda.threadIdx.x
    total = np.float32(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        total += x[i]
    partial[t] = total
    cuda.syncthreads()
    if t < 32:
        for k in range(t + 32, THREADS, 32):
            partial[t] += partial[k]
        cuda.syncwarp()
        stride = 16
        while stride > 0:
            if t < stride:
                partial[t] += partial[t + stride]
            cuda.syncwarp()
            stride //= 2
        if t == 0:
            out[cuda.blockIdx.x] = partial[0]


# --- histogram ---------------------------------------------------------------------------------------------


def histogram(x, counts):  # type: ignore[no-untyped-def]
    """Count values by atomics on global memory."""
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(counts, x[i], 1)


def shared_histogram(x, counts):  # type: ignore[no-untyped-def]
    """Count values in the block's shared memory first, then add each block's counts once."""
    own = cuda.shared.array(BINS, np.int32)
    t = cuda.threadIdx.x
    if t < BINS:
        own[t] = 0
    cuda.syncthreads()
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(own, x[i], 1)
    cuda.syncthreads()
    if t < BINS:
        cuda.atomic.add(counts, t, own[t])


# --- one mistake each --------------------------------------------------------------------------------------


def missing_barrier(x, out):  # type: ignore[no-untyped-def]
    """Reverse a block's elements, without the barrier between writing and reading."""
    tile = cuda.shared.array(THREADS, np.float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    tile[t] = x[i]
    out[i] = tile[THREADS - 1 - t]


def out_of_bounds(x, out):  # type: ignore[no-untyped-def]
    """Add neighbours; the last thread has none."""
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i] + x[i + 1]


def divergent_barrier(x, out):  # type: ignore[no-untyped-def]
    """Shift elements through shared memory, with the barrier inside the branch."""
    tile = cuda.shared.array(THREADS, np.float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    if t < 48:
        cuda.syncthreads()
        out[t] = tile[t + 1]


def lost_update(x, counts):  # type: ignore[no-untyped-def]
    """Count values without an atomic: threads overwrite each other's sum."""
    i = cuda.grid(1)
    if i < x.size:
        counts[x[i]] += 1


# --- launches ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Lesson:
    """A kernel with a launch and its result.

    Parameters
    ----------
    name : str
        The kernel's name.
    kernel : function
        The kernel.
    grid, block : int or tuple of int
        A launch that fits the arguments.
    args : tuple
        Its arguments; arrays hold the same values every time.
    output : str
        The argument that holds the result.
    expected : ndarray
        What NumPy says it must be.
    mistake : str or None
        The kind of problem (see `tracing.Problem`) that the kernel shows; None for a correct one.

    Examples
    --------
    >>> from pulsewarp import simt
    >>> lesson = simt.lesson_kernels.LESSONS["missing_barrier"]
    >>> lesson
    Lesson(missing_barrier: race)
    >>> print(lesson.trace().problems[0])  # doctest: +ELLIPSIS
    Race on tile[...]: thread ... of block 0 writes it in line ..., thread ... of block 0 reads it in line ...
    """

    name: str
    kernel: Callable[..., Any]
    grid: int | tuple[int, ...]
    block: int | tuple[int, ...]
    args: tuple[Any, ...]
    output: str
    expected: NDArray[Any]
    mistake: str | None = None

    def __post_init__(self) -> None:
        kept = tuple(freeze(a.copy()) if isinstance(a, np.ndarray) else a for a in self.args)
        object.__setattr__(self, "args", kept)
        object.__setattr__(self, "expected", freeze(self.expected.copy()))

    def trace(self) -> KernelTrace:
        """Return the trace of this launch.

        Examples
        --------
        >>> from pulsewarp import simt
        >>> simt.lesson_kernels.LESSONS["vector_add"].trace().problems
        ()
        """
        return trace_kernel(self.kernel, grid=self.grid, block=self.block, args=self.args)

    def __repr__(self) -> str:
        return f"Lesson({self.name}: {self.mistake or 'correct'})"


@_checks.names_keywords
def product(kernel: Callable[..., Any] = tiled_product, *, m: int = 32, k: int = 32, n: int = 32) -> Lesson:
    """Return a matrix product of any size: (m, k) by (k, n), small whole numbers in float32.

    Parameters
    ----------
    kernel : function
        `naive_product` or `tiled_product`.
    m, k, n : int
        Sizes.

    Returns
    -------
    Lesson

    Raises
    ------
    ValueError
        For a size below 1 or above 4,096.

    Examples
    --------
    >>> from pulsewarp import simt
    >>> simt.lesson_kernels.product(simt.lesson_kernels.naive_product, m=4, k=4, n=4).trace()
    KernelTrace(naive_product: 1 block x 256 threads, 8 warps, 84 instructions, no problem)
    """
    _checks.instance("kernel", beneath(kernel), FunctionType, _REMEDY)
    m, k, n = (_checks.whole_number(*side, most=MOST_SIDE) for side in (("m", m), ("k", k), ("n", n)))
    a, b = _numbers(m, k), _numbers(k, n)
    grid = (-(-n // TILE), -(-m // TILE))
    args = (a, b, np.zeros((m, n), np.float32))
    return Lesson(kernel.__name__, kernel, grid, (TILE, TILE), args, "c", a @ b)


@_checks.names_keywords
def transpose(kernel: Callable[..., Any] = padded_transpose, *, rows: int = 32, columns: int = 32) -> Lesson:
    """Return a transpose of any size in blocks of 32 x 32 threads, small whole numbers in float32.

    Parameters
    ----------
    kernel : function
        `naive_transpose`, `tiled_transpose` or `padded_transpose`.
    rows, columns : int
        Of the matrix.

    Returns
    -------
    Lesson

    Raises
    ------
    ValueError
        For a size below 1 or above 4,096.

    Examples
    --------
    >>> from pulsewarp import simt
    >>> simt.lesson_kernels.transpose(rows=32, columns=64).trace()
    KernelTrace(padded_transpose: 2 blocks x 1024 threads, 64 warps, 1216 instructions, no problem)
    """
    _checks.instance("kernel", beneath(kernel), FunctionType, _REMEDY)
    rows, columns = (_checks.whole_number(*s, most=MOST_SIDE) for s in (("rows", rows), ("columns", columns)))
    x = _numbers(rows, columns)
    grid = (-(-columns // WIDE_TILE), -(-rows // WIDE_TILE))
    args = (x, np.zeros((columns, rows), np.float32))
    return Lesson(
        kernel.__name__, kernel, grid, (WIDE_TILE, WIDE_TILE), args, "out", np.ascontiguousarray(x.T)
    )


def _numbers(*shape: int) -> NDArray[np.float32]:
    """Return small whole numbers without a pattern, whose sums and products are exact in float32."""
    count = int(np.prod(shape))
    return (np.arange(count) * 7 % 11 - 5).astype(np.float32).reshape(shape)


def _lessons() -> Mapping[str, Lesson]:
    n = 300
    x, y = _numbers(n), _numbers(n)[::-1].copy()
    wide = _numbers(4 * n)
    picture = _numbers(40, 70)
    values = (np.arange(n) * 5 % 13).astype(np.int32)
    short = _numbers(THREADS)

    def out(*shape: int) -> NDArray[np.float32]:
        return np.zeros(shape, np.float32)

    def sums(blocks: int) -> NDArray[np.float32]:
        padded = np.zeros(blocks * THREADS, np.float32)
        padded[:n] = x
        return padded.reshape(blocks, THREADS).sum(axis=1)

    over = (2, 3)  # tiles that cover the picture, rows by columns
    transposed = np.ascontiguousarray(picture.T)
    counts = np.bincount(values, minlength=BINS).astype(np.int32)
    neighbours = x + np.append(x[1:], np.float32(0))
    lessons = [
        Lesson("vector_add", vector_add, 3, THREADS, (x, y, out(n)), "out", x + y),
        Lesson("saxpy", saxpy, 3, THREADS, (np.float32(2.5), x, y), "y", np.float32(2.5) * x + y),
        Lesson("strided_copy", strided_copy, 3, THREADS, (wide, out(n), 4), "out", wide[::4]),
        Lesson("misaligned_copy", misaligned_copy, 3, THREADS, (wide, out(n), 1), "out", wide[1 : n + 1]),
        product(naive_product, m=20, k=24, n=36),
        product(tiled_product, m=20, k=24, n=36),
        *(
            Lesson(kernel.__name__, kernel, over[::-1], (32, 32), (picture, out(70, 40)), "out", transposed)
            for kernel in (naive_transpose, tiled_transpose, padded_transpose)
        ),
        Lesson("divergent_sum", divergent_sum, 3, THREADS, (x, out(3)), "out", sums(3)),
        Lesson("sequential_sum", sequential_sum, 3, THREADS, (x, out(3)), "out", sums(3)),
        Lesson("warp_sum", warp_sum, 1, THREADS, (x, out(1)), "out", x.sum(keepdims=True)),
        Lesson("histogram", histogram, 3, THREADS, (values, np.zeros(BINS, np.int32)), "counts", counts),
        Lesson("shared_histogram", shared_histogram, 3, THREADS, (values, np.zeros(BINS, np.int32)), "counts",
               counts),
        Lesson("missing_barrier", missing_barrier, 1, THREADS, (short, out(THREADS)), "out",
               short[::-1].copy(), "race"),
        Lesson("out_of_bounds", out_of_bounds, 3, THREADS, (x, out(n)), "out", neighbours, "out_of_bounds"),
        Lesson("divergent_barrier", divergent_barrier, 1, THREADS, (short, out(THREADS)), "out",
               np.where(np.arange(THREADS) < 48, np.roll(short, -1), np.float32(0)), "divergent_barrier"),
        Lesson("lost_update", lost_update, 3, THREADS, (values, np.zeros(BINS, np.int32)), "counts",
               counts, "race"),
    ]  # fmt: skip
    return MappingProxyType({lesson.name: lesson for lesson in lessons})


LESSONS: Mapping[str, Lesson] = _lessons()
