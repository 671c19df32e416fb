"""The numbers of a product by mma or FFMA: operands rounded to their type, and the sum after every step.

Documented (NVIDIA, PTX ISA, mma, "Semantics", in stored copies read on 2026-11-30): products and sums of
narrow floats have at least single precision, in an order and with a rounding that are left unspecified; fp64
is added with the precision of fused multiply-adds. Chosen here: the products of one mma and its accumulator
are added without rounding (float64 with a compensation, some 106 bits) and the sum is rounded once, to the
nearest. An FFMA rounds once by definition, so that both machines follow one rule; fp64 is a chain of fused
multiply-adds in the order of k. What was measured differs in the last bits: M. Fasi, N. J. Higham, M.
Mikaitis, S. Pranesh, "Numerical behavior of NVIDIA tensor cores" (PeerJ Computer Science 7:e330, 2021;
recalled) report sums that are cut off rather than rounded.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, NDArray

from pulsewarp import _checks
from pulsewarp._arrays import add_up

Floats = NDArray[np.float64]
TYPES: dict[str, np.dtype[Any]] = {
    "fp16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "tf32": np.dtype(np.float32),
    "fp32": np.dtype(np.float32),
    "int8": np.dtype(np.int8),
    "fp64": np.dtype(np.float64),
}
SUMS: dict[str, np.dtype[Any]] = {
    name: np.dtype({"int8": np.int32, "fp64": np.float64}.get(name, np.float32)) for name in TYPES
}
_TF32_DROPPED = 13  # bits of a float32's significand that tf32 lacks


def dtype_of(a: NDArray[Any], b: NDArray[Any]) -> str:
    """Return the type that operands are multiplied in unless another is asked for."""
    if a.dtype == b.dtype == np.int8:
        return "int8"
    return "bf16" if ml_dtypes.bfloat16 in (a.dtype, b.dtype) else "fp16"


def rounded(name: str, given: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Return an operand in its type; refuse values that the type does not hold."""
    if dtype == "int8":
        wide = given.astype(np.float64)
        bad = np.argwhere((wide != np.rint(wide)) | (wide < -128) | (wide > 127))
        wanted = "whole numbers from -128 to 127"
    else:
        narrow = _tf32(given) if dtype == "tf32" else _cast(given, TYPES[dtype])
        bad = np.argwhere(~np.isfinite(narrow.astype(np.float64)))
        wanted = "values that it does not round to infinity"
    if len(bad):
        row, column = bad[0].tolist()
        raise ValueError(
            f"{name}[{row}, {column}] is {given[row, column]}, but {dtype} takes {wanted}; "
            "scale the values or give another dtype."
        )
    return given.astype(np.int8) if dtype == "int8" else narrow


def _cast(given: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    with np.errstate(over="ignore"):
        # By way of float32 or float64, since narrow types of several kinds do not convert into each other.
        wide = given.astype(
            np.float64 if given.dtype.kind in "iu" or given.dtype.itemsize > 4 else np.float32
        )
        return wide.astype(dtype)


def _tf32(given: NDArray[Any]) -> NDArray[Any]:
    """Return float32 values of 11 significant bits, rounded to the nearest, halves away from 0 (cvt.rna)."""
    bits = _cast(given, np.dtype(np.float32)).view(np.uint32)
    half = np.uint32(1 << (_TF32_DROPPED - 1))
    kept: NDArray[Any] = ((bits + half) >> _TF32_DROPPED << _TF32_DROPPED).view(np.float32)
    return kept


def exact_product(a: NDArray[Any], b: NDArray[Any]) -> Floats:
    """Return a @ b in float64, added in the order of k."""
    return add_up(a.astype(np.float64), b.astype(np.float64), np.dtype(np.float64))


def error_bound(a: NDArray[Any], b: NDArray[Any], dtype: str, steps: int) -> Floats:
    """Return what the error of each element cannot exceed when every step rounds once; 0 for integers."""
    reach = exact_product(np.abs(a.astype(np.float64)), np.abs(b.astype(np.float64)))
    k = a.shape[1]
    if dtype == "int8":
        return np.zeros_like(reach)
    if dtype == "fp64":  # a rounding for each product and each sum, here and in the product compared with
        reach *= 4 * k * 2.0**-53
        return reach
    most = float(np.max(reach))
    if most > float(np.finfo(np.float32).max):
        raise ValueError(
            f"Sums of this product can reach {most:.2g}, beyond float32's 3.4e+38; scale the operands."
        )
    unit = steps * 2.0**-24
    bound: Floats = unit / (1 - unit) * reach + steps * 2.0**-150 + k * 2.0**-52 * reach
    return bound


def sums_of(a: NDArray[Any], b: NDArray[Any], dtype: str, depth: int) -> NDArray[Any]:
    """Return all accumulators after every step of `depth` products, shape (steps, m, n)."""
    steps = a.shape[1] // depth
    total = np.zeros((a.shape[0], b.shape[1]), SUMS[dtype])
    kept = np.empty((steps, *total.shape), total.dtype)
    left: NDArray[Any] = a.astype(np.int64 if dtype == "int8" else np.float64)
    right: NDArray[Any] = b.astype(left.dtype)
    for step in range(steps):
        part = slice(step * depth, (step + 1) * depth)
        if dtype == "int8":
            total = _add_integers(total, left[:, part], right[part])
        elif dtype == "fp64":
            total = _add_doubles(total, left[:, part], right[part])
        else:
            total = _add_floats(total, left[:, part], right[part])
        kept[step] = total
    return kept


def _add_integers(total: NDArray[Any], a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Return int32 sums, which wrap around as PTX has it without ``.satfinite``."""
    wrapped: NDArray[Any] = (total + a @ b).astype(np.int32)
    return wrapped


def _add_doubles(total: NDArray[Any], a: Floats, b: Floats) -> NDArray[Any]:
    """Return float64 sums: one fused multiply-add after the other."""
    for k in range(a.shape[1]):
        total = _fused(a[:, k, None], b[None, k], total)
    return total


def _add_floats(total: NDArray[Any], a: Floats, b: Floats) -> NDArray[Any]:
    """Return float32 sums, rounded once: the products of two narrow values are exact in float64."""
    high = total.astype(np.float64)
    low = np.zeros_like(high)
    for k in range(a.shape[1]):
        high, lost = _two_sum(high, a[:, k, None] * b[None, k])
        low += lost
    return _round_once(high, low)


def _two_sum(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return x + y rounded, and exactly what that lost (Knuth)."""
    total = x + y
    back = total - x
    return total, (x - (total - back)) + (y - back)


def _two_product(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return x * y rounded, and exactly what that lost (Veltkamp and Dekker)."""
    product = x * y
    (high_x, low_x), (high_y, low_y) = _split(x), _split(y)
    lost = low_x * low_y - (((product - high_x * high_y) - low_x * high_y) - high_x * low_y)
    return product, lost


def _split(x: Floats) -> tuple[Floats, Floats]:
    """Return x as the sum of two values of 26 bits."""
    scaled = x * (2.0**27 + 1)
    high = scaled - (scaled - x)
    return high, x - high


def _to_odd(total: Floats, lost: Floats) -> Floats:
    """Return total + lost, taken to the odd neighbour where it is inexact.

    Its last bit then stands for all that follow, so that rounding once more rounds as if for the first time
    (S. Boldo, G. Melquiond, IEEE Transactions on Computers 57(4), 2008).
    """
    even = (total.view(np.int64) & 1) == 0
    odd: Floats = np.where((lost != 0) & even, np.nextafter(total, np.copysign(np.inf, lost)), total)
    return odd


def _round_once(high: Floats, low: Floats) -> NDArray[Any]:
    """Return high + low in float32, rounded once; float64 in between would round twice."""
    result: NDArray[Any] = _to_odd(*_two_sum(high, low)).astype(np.float32)
    return result


def _fused(x: Floats, y: Floats, z: Floats) -> Floats:
    """Return x * y + z in float64, rounded once (the emulation of Boldo and Melquiond)."""
    product, lost = _two_product(x, y)
    upper, rest = _two_sum(z, lost)
    total, more = _two_sum(product, upper)
    fused: Floats = total + _to_odd(*_two_sum(more, rest))
    return fused


def operands(
    a: ArrayLike, b: ArrayLike, dtype: str | None, valid: list[str]
) -> tuple[NDArray[Any], NDArray[Any], str]:
    """Return the operands rounded to the type they are multiplied in, and that type."""
    left, right = _checks.factors(a, b)
    kind = dtype_of(left, right) if dtype is None else dtype
    _checks.choice("dtype", kind, valid)
    return rounded("a", left, kind), rounded("b", right, kind), kind
