"""What several parts do with arrays: make them read-only, compare them, add products up in order."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Scalar = TypeVar("Scalar", bound=np.generic)


def freeze(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """Return `array` C-contiguous and read-only; the same memory where it is contiguous already."""
    array = np.ascontiguousarray(array)
    array.flags.writeable = False
    return array


def equal_values(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which elements are equal, two NaN included."""
    equal: NDArray[np.bool_] = (one == other) | ((one != one) & (other != other))
    return equal


def add_up(a: NDArray[Any], b: NDArray[Any], accumulator: np.dtype[Any]) -> NDArray[Any]:
    """Return a @ b with products and sums in the accumulator's type, added in the order of k.

    Unlike a BLAS it gives the same bits everywhere: one rounding for each product, one for each sum.
    """
    left, right = a.astype(accumulator, copy=False), b.astype(accumulator, copy=False)
    total = np.zeros((a.shape[0], b.shape[1]), accumulator)
    product = np.empty_like(total)
    for k in range(a.shape[1]):
        np.multiply(left[:, k, None], right[None, k], out=product)
        np.add(total, product, out=total)
    return total
