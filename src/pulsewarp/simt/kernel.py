"""A matrix product as a kernel: one thread per result element, every lane with its values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pulsewarp import _checks
from pulsewarp._arrays import freeze
from pulsewarp.matmul import accumulator_type
from pulsewarp.simt._instruction import LANES, Instruction
from pulsewarp.simt.trace import Kernel

MOST_WARPS = 64  # the most that any SM of compute capability 7.0 to 12.0 keeps resident
MOST_VALUES = 2**22  # lane values kept: warps x instructions x 32


@_checks.names_keywords
def matmul_kernel(
    a: ArrayLike,
    b: ArrayLike,
    *,
    threads_per_block: int = 256,
    load_latency: int = 18,
    load_interval: int = 1,
    sum_latency: int = 4,
    store_latency: int = 1,
) -> Kernel:
    """Return the naive kernel of ``a @ b``: a thread per result element, executed lane by lane.

    Thread ``i`` computes element ``(i // n, i % n)``: for every ``k`` it loads its element of A, then of
    B, and adds their product to a sum that starts at 0; at the end it stores the sum. Threads are dealt to
    warps 32 at a time, so a 4x4 product is half a warp (16 of 32 lanes on) and 16x16 is 8 warps.

    Modelled: every lane's values, in program order, products and sums in the accumulator type. Not
    modelled: address arithmetic and loop control (a real kernel issues those too), the single rounding of
    a fused FFMA, caches and coalescing (each load takes `load_latency`).

    Parameters
    ----------
    a, b : array_like, shapes (m, k) and (k, n)
        The operands. At most 64 warps of results, 2048 elements: what one SM can hold.
    threads_per_block : int
        A multiple of 32 up to 1024.
    load_latency, load_interval, sum_latency, store_latency : int
        Cycles. Illustrative: an FFMA can use another's result after 4 cycles from Volta to Hopper, and a
        load that hits L1 takes 28 (Volta) to 43 (Ada), one from memory several hundred (Jia et al.,
        arXiv:1804.06826; Luo et al., arXiv:2402.13499). 18 is short enough to be watched, not a measurement.
        Nothing waits for a store.

    Returns
    -------
    Kernel
        With ``result`` equal to ``a @ b``.

    Raises
    ------
    ValueError
        When the shapes do not match or the product is too large for one SM.

    Examples
    --------
    >>> kernel = matmul_kernel([[1, 2], [3, 4]], [[5, 6], [7, 8]])
    >>> kernel.result.tolist()
    [[19, 22], [43, 50]]
    >>> kernel.lane_values[0][2, :4].tolist()  # the sums after the first FFMA
    [5, 6, 15, 18]
    """
    a, b = _checks.factors(a, b)
    threads_per_block = _whole_warps(threads_per_block)
    (m, k), n = a.shape, b.shape[1]
    warps = -(-m * n // LANES)
    _refuse_too_large(m, k, n, warps)
    values, result = _execute(a, b, warps)

    def program(lanes: int) -> tuple[Instruction, ...]:
        step = (
            Instruction("mem", load_latency, load_interval, "r4", (), "LDG r4, [A]", lanes),
            Instruction("mem", load_latency, load_interval, "r5", (), "LDG r5, [B]", lanes),
            Instruction("alu", sum_latency, 1, "r6", ("r4", "r5", "r6"), "FFMA r6, r4, r5, r6", lanes),
        )
        store = (Instruction("mem", store_latency, load_interval, None, ("r6",), "STG [C], r6", lanes),)
        return (*(step * k), *store)

    active = tuple(min(LANES, m * n - w * LANES) for w in range(warps))
    distinct = {lanes: program(lanes) for lanes in set(active)}
    return Kernel(
        a=freeze(a.copy()),
        b=freeze(b.copy()),
        programs=tuple(distinct[lanes] for lanes in active),
        blocks=tuple(w * LANES // threads_per_block for w in range(warps)),
        lane_values=tuple(freeze(values[:, w * LANES : (w + 1) * LANES]) for w in range(warps)),
        active_lanes=active,
        result=freeze(result),
    )


def _whole_warps(threads_per_block: int) -> int:
    """Return the threads of a block when they fill whole warps; refuse others."""
    threads = _checks.whole_number("threads_per_block", threads_per_block, least=LANES, most=1024)
    if threads % LANES:
        raise ValueError(
            f"threads_per_block is {threads}, but must be a multiple of 32; "
            f"use {threads // LANES * LANES} or {(threads // LANES + 1) * LANES}."
        )
    return threads


def _refuse_too_large(m: int, k: int, n: int, warps: int) -> None:
    """Raise when one SM cannot hold the result's warps, or when too many lane values would be kept."""
    if warps > MOST_WARPS:
        raise ValueError(
            f"The {m}x{n} result needs {warps} warps, but one SM holds at most {MOST_WARPS} "
            f"({MOST_WARPS * LANES} elements); take a smaller product."
        )
    if warps * (3 * k + 1) * LANES > MOST_VALUES:
        raise ValueError(
            f"The product has {warps * (3 * k + 1) * LANES} lane values, but at most {MOST_VALUES} are kept; "
            f"take k of at most {(MOST_VALUES // (warps * LANES) - 1) // 3}."
        )


def _execute(a: NDArray[Any], b: NDArray[Any], warps: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return what every thread writes at every instruction, (instructions, threads), and the result."""
    (m, k), n = a.shape, b.shape[1]
    accumulator = accumulator_type(a.dtype, b.dtype)
    wide_a, wide_b = a.astype(accumulator), b.astype(accumulator)
    thread = np.arange(warps * LANES)
    on = thread < m * n
    row, column = np.where(on, thread // n, 0), np.where(on, thread % n, 0)
    values = np.zeros((3 * k + 1, warps * LANES), accumulator)
    total = np.zeros(warps * LANES, accumulator)
    for step in range(k):  # the threads' program order; lanes and warps are independent of each other
        values[3 * step] = wide_a[row, step]
        values[3 * step + 1] = wide_b[step, column]
        total = total + wide_a[row, step] * wide_b[step, column]
        values[3 * step + 2] = total
    values[-1] = total
    values[:, ~on] = 0
    return values, total[on].reshape(m, n)
