"""Kernels as people write them, with what NumPy makes of the same data: what the lessons do not have."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy import float32, int32

from pulsewarp.simt import cuda

rng = np.random.default_rng(11)
THREADS = 64
RADIUS = 3


@dataclass(frozen=True)
class Idiom:
    """A kernel, its launch, and what one of its arrays must hold afterwards."""

    kernel: Callable[..., Any]
    grid: Any
    block: Any
    args: tuple[Any, ...]
    output: int
    expected: Any
    tolerance: float = 0.0
    simulated: bool = True  # Numba's simulator has no shuffles and no votes


IDIOMS: dict[str, Idiom] = {}


def idiom(grid: Any, block: Any, *args: Any, output: int, expected: Any, **how: Any) -> Any:
    def keep(kernel: Any) -> Any:
        IDIOMS[kernel.__name__] = Idiom(kernel, grid, block, args, output, np.asarray(expected), **how)
        return kernel

    return keep


def floats(*shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


ROWS = floats(3, 70)
POWERS = np.exp(ROWS - ROWS.max(1, keepdims=True))


@idiom(3, THREADS, ROWS, np.zeros_like(ROWS), output=1,
       expected=POWERS / POWERS.sum(1, keepdims=True), tolerance=1e-6)  # fmt: skip
@cuda.jit
def softmax(x, out):
    row = cuda.blockIdx.x
    tid = cuda.threadIdx.x
    n = x.shape[1]
    shared = cuda.shared.array(shape=THREADS, dtype=float32)
    most = float32(-math.inf)
    for i in range(tid, n, cuda.blockDim.x):
        most = max(most, x[row, i])
    shared[tid] = most
    cuda.syncthreads()
    s = cuda.blockDim.x // 2
    while s > 0:
        if tid < s:
            shared[tid] = max(shared[tid], shared[tid + s])
        cuda.syncthreads()
        s >>= 1
    most = shared[0]
    cuda.syncthreads()
    total = float32(0.0)
    for i in range(tid, n, cuda.blockDim.x):
        total += math.exp(x[row, i] - most)
    shared[tid] = total
    cuda.syncthreads()
    for s in [32, 16, 8, 4, 2, 1]:
        if tid < s:
            shared[tid] += shared[tid + s]
        cuda.syncthreads()
    for i in range(tid, n, cuda.blockDim.x):
        out[row, i] = math.exp(x[row, i] - most) / shared[0]


MIXED = floats(THREADS)


@idiom(1, THREADS, MIXED, output=0, expected=np.sort(MIXED))
@cuda.jit("void(float32[:])", fastmath=True)
def bitonic_sort(data):
    sh = cuda.shared.array(THREADS, float32)
    tid = cuda.threadIdx.x
    sh[tid] = data[tid]
    cuda.syncthreads()
    k = 2
    while k <= THREADS:
        j = k >> 1
        while j:
            other = tid ^ j
            if other > tid and (sh[tid] > sh[other]) == ((tid & k) == 0):
                sh[tid], sh[other] = sh[other], sh[tid]
            cuda.syncthreads()
            j >>= 1
        k <<= 1
    data[tid] = sh[tid]


CELLS = rng.integers(0, 2, (9, 12)).astype(np.int8)
NEIGHBOURS = sum(
    np.roll(np.roll(CELLS, a, 0), b, 1) for a in (-1, 0, 1) for b in (-1, 0, 1) if (a, b) != (0, 0)
)


@idiom((2, 2), (8, 8), CELLS, np.zeros_like(CELLS), output=1,
       expected=(NEIGHBOURS == 3) | ((CELLS == 1) & (NEIGHBOURS == 2)))  # fmt: skip
@cuda.jit
def game_of_life(cells, out):
    x, y = cuda.grid(2)
    height, width = cells.shape
    if not (x < width and y < height):
        return
    alive_around = 0
    for dy in range(-1, 2):
        for dx in range(-1, 2):
            if dx == 0 and dy == 0:
                continue
            alive_around += cells[(y + dy) % height, (x + dx) % width]
    alive = cells[y, x] == 1
    out[y, x] = 1 if alive_around == 3 or (alive and alive_around == 2) else 0


LINE = floats(100)
PADDED = np.pad(LINE, RADIUS)


@idiom(2, THREADS, LINE, np.zeros_like(LINE), output=1,
       expected=sum(PADDED[k : k + 100] for k in range(2 * RADIUS + 1)), tolerance=1e-5)  # fmt: skip
@cuda.jit
def stencil_with_halo(x, out):
    tile = cuda.shared.array(64 + 2 * 3, dtype=float32)
    g = cuda.grid(1)
    t = cuda.threadIdx.x + RADIUS
    tile[t] = x[g] if g < x.size else 0
    if cuda.threadIdx.x < RADIUS:
        tile[t - RADIUS] = x[g - RADIUS] if g >= RADIUS else 0
        after = g + cuda.blockDim.x
        tile[t + cuda.blockDim.x] = x[after] if after < x.size else 0
    cuda.syncthreads()
    if g < x.size:
        total = float32(0)
        for k in range(-RADIUS, RADIUS + 1):
            total += tile[t + k]
        out[g] = total


COUNTS = rng.integers(0, 9, THREADS).astype(np.int32)


@idiom(1, THREADS, COUNTS, np.zeros_like(COUNTS), output=1, expected=np.cumsum(COUNTS))
@cuda.jit
def prefix_scan(x, out):
    temp = cuda.shared.array((2, THREADS), int32)
    tid = cuda.threadIdx.x
    into, from_ = 0, 1
    temp[into, tid] = x[tid]
    cuda.syncthreads()
    offset = 1
    while offset < THREADS:
        into, from_ = from_, into
        if tid >= offset:
            temp[into, tid] = temp[from_, tid] + temp[from_, tid - offset]
        else:
            temp[into, tid] = temp[from_, tid]
        cuda.syncthreads()
        offset <<= 1
    out[tid] = temp[into, tid]


@cuda.jit(device=True, inline=True)
def escape(cx, cy, most):
    x, y = 0.0, 0.0
    for n in range(most):
        x, y = x * x - y * y + cx, 2.0 * x * y + cy
        if x * x + y * y > 4.0:
            return n
    return most


ESCAPED = [[escape(-2 + 0.25 * x, -1 + 0.25 * y, 15) for x in range(12)] for y in range(8)]


@idiom((2, 1), (8, 8), np.zeros((8, 12), np.uint8), output=0, expected=ESCAPED)
@cuda.jit
def mandelbrot(image):
    start_x, start_y = cuda.grid(2)
    step_x = cuda.gridDim.x * cuda.blockDim.x
    for x in range(start_x, image.shape[1], step_x):
        image[start_y, x] = escape(-2 + x * 0.25, -1 + start_y * 0.25, 15)


@cuda.jit(device=True)
def first_of(a, low, high):
    for k in range(low, high):
        if a[k] % 7 == 5:
            return k, a[k] * 0.5
    return -1, 0.0


def found(low: int) -> float:
    k, value = first_of(np.arange(40), low, min(low + 5, 40))
    return float(k + value)


@idiom(2, 32, np.arange(40, dtype=np.int32), np.zeros(40), output=1, expected=[found(k) for k in range(40)])
@cuda.jit
def two_results(x, out):
    i = cuda.grid(1)
    if i >= out.size:
        return
    k, value = first_of(x, i, min(i + 5, x.size))
    out[i] = k + value


PAIRS = [(i + 5, 2 * i) if i % 3 == 0 else (i + 100, i - 1) if i % 3 == 1 else (0, 7) for i in range(64)]


@idiom(
    2, 32, np.arange(64, dtype=np.int64), np.zeros(64), output=1, expected=[1000 * a + b for a, b in PAIRS]
)
@cuda.jit
def two_numbers_on_three_paths(x, out):
    i = cuda.grid(1)
    pair = (0, 7)
    if x[i] % 3 < 2:
        pair = (x[i] + 5, 2 * i) if x[i] % 3 == 0 else (i + 100, x[i] - 1)
    out[i] = pair[0] * 1000 + pair[1]


def picked(i: int) -> int:
    total = 0
    for step in (3, 1, 4, 1, 5):
        if step > i % 6:
            continue
        if total > 6:
            break
        total += step
    return total * 10 + step


@idiom(1, 32, np.zeros(32, np.int64), output=0, expected=[picked(i) for i in range(32)])
@cuda.jit
def loop_over_numbers(out):
    i: int = cuda.grid(1)
    total = 0
    for step in (3, 1, 4, 1, 5):
        if step > i % 6:
            continue
        if total > 6:
            break
        total += step
    out[i] = total * 10 + step


@idiom(2, 32, np.array([0, 0, 0, 0, 0, 0, 0, 15], np.int32), output=0,
       expected=[64, 63, np.bitwise_xor.reduce(range(1, 65)), -1, 0, 7, 0x3FFFFFFF, 12])  # fmt: skip
@cuda.jit
def all_atomics(out):
    i = cuda.grid(1)
    while True:  # a counter by compare and swap
        old = cuda.atomic.add(out, 0, 0)
        if cuda.atomic.cas(out, 0, old, old + 1) == old:
            break
    cuda.atomic.max(out, 1, i)
    cuda.atomic.min(out, 3, -1)
    cuda.atomic.exch(out, 5, 7)
    cuda.atomic.or_(out, 6, 1 << (i % 30))
    cuda.atomic.xor(out, 2, i + 1)
    cuda.atomic.cas(out, 4, 5, i + 1)
    cuda.atomic.and_(out, 7, 12 + i % 4)


@idiom(2, 32, LINE[:64], np.zeros(2, np.float32), output=1,
       expected=LINE[:64].reshape(2, 32).sum(1), tolerance=1e-5, simulated=False)  # fmt: skip
@cuda.jit
def warp_sum(x, out):
    i = cuda.grid(1)
    value = x[i]
    for offset in (16, 8, 4, 2, 1):
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, offset)
    if cuda.laneid == 0:
        out[i // 32] = value


LANE = np.arange(32)


@idiom(1, 32, np.arange(32, dtype=np.int32), np.zeros((32, 6), np.int64), output=1, simulated=False,
       expected=np.stack([LANE ^ 5, np.maximum(LANE - 3, LANE % 3 + (LANE // 3 == 0) * 0), LANE * 0 + 7,
                          LANE * 0 + 11, LANE % 3 == 0, LANE * 0 + 1], 1))  # fmt: skip
@cuda.jit
def lanes_ask_each_other(x, out):
    i = cuda.grid(1)
    out[i, 0] = cuda.shfl_xor_sync(-1, x[i], 5)
    up = cuda.shfl_up_sync(-1, x[i], 3)
    out[i, 1] = up if i >= 3 else i % 3
    out[i, 2] = cuda.shfl_sync(-1, x[i], 32 + 7)
    votes = cuda.ballot_sync(0xFFFFFFFF, x[i] % 3 == 0)
    out[i, 3] = cuda.popc(votes)
    out[i, 4] = (votes >> i) & 1
    out[i, 5] = cuda.any_sync(-1, i == 4) and not cuda.all_sync(-1, i == 4) and not cuda.eq_sync(-1, i == 4)


@idiom(2, 32, np.zeros((64, 4), np.int64), output=0, simulated=False,
       expected=[[bin(i).count("1"), 32 - i.bit_length(), (i & -i).bit_length(),
                  int(f"{i:032b}"[::-1], 2)] for i in range(64)])  # fmt: skip
@cuda.jit
def bits(out):
    i = cuda.grid(1)
    v = np.uint32(i)
    out[i, 0] = cuda.popc(v)
    out[i, 1] = cuda.clz(v)
    out[i, 2] = cuda.ffs(v)
    out[i, 3] = cuda.brev(v)
