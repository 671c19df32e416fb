"""What every array that leaves the package has in common."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Scalar = TypeVar("Scalar", bound=np.generic)


def freeze(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """Return `array` C-contiguous and read-only; the same memory where it is contiguous already."""
    array = np.ascontiguousarray(array)
    array.flags.writeable = False
    return array
