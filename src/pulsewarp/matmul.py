"""One matrix product: its shape and dtype give FLOPs, bytes and arithmetic intensity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from pulsewarp._checks import choice, class_names_keywords, instance, names_keywords, whole_number


@dataclass(frozen=True)
class DType:
    """How a dtype is stored, summed and returned by a matrix unit.

    Parameters
    ----------
    bits
        Storage of one element. tf32 is stored as fp32; block scales of 4-bit formats are not counted.
    accumulator
        What products are summed in.
    result
        What a product of two such matrices is written back as, unless asked otherwise.
    """

    bits: int
    accumulator: str
    result: str


DTYPES: Mapping[str, DType] = MappingProxyType(
    {
        "fp64": DType(64, "fp64", "fp64"),
        "fp32": DType(32, "fp32", "fp32"),
        "tf32": DType(32, "fp32", "fp32"),
        "bf16": DType(16, "fp32", "bf16"),
        "fp16": DType(16, "fp32", "fp16"),
        "fp8": DType(8, "fp32", "bf16"),
        "int8": DType(8, "int32", "int32"),
        "fp4": DType(4, "fp32", "bf16"),
        "int4": DType(4, "int32", "int32"),
    }
)
"""Operand dtypes. 16-bit results keep their type; 8- and 4-bit floats return bf16, integers int32."""

BYTES: Mapping[str, float] = MappingProxyType(
    {name: dtype.bits / 8 for name, dtype in DTYPES.items()} | {"int32": 4.0}
)
"""Bytes of one stored element, operands and results alike."""


@class_names_keywords
@dataclass(frozen=True)
class Matmul:
    """The product of an (m, k) and a (k, n) matrix in one dtype.

    Counted are the multiplications and additions of the textbook product, and the least traffic
    that any machine needs: each operand is read once and the result written once. Not modelled:
    re-reading for want of on-chip memory, padding, a bias, or a result that stays on the chip.

    Parameters
    ----------
    m, k, n
        Rows of the left operand, the shared side, columns of the right one; whole, at least 1.
    dtype
        Of both operands, a key of `DTYPES`; it decides the result's dtype too.

    Raises
    ------
    ValueError
        When a side is no whole number of at least 1, or the dtype is unknown.

    Examples
    --------
    >>> from pulsewarp.matmul import Matmul
    >>> product = Matmul(1024, 1024, 1024, "bf16")
    >>> product.flops, product.bytes_moved, round(product.intensity, 1)
    (2147483648, 6291456, 341.3)
    >>> Matmul(1024, 1024, 1024, "int8").bytes_moved  # the result is int32
    6291456
    """

    m: int
    k: int
    n: int
    dtype: str = "bf16"

    def __post_init__(self) -> None:
        for side in ("m", "k", "n"):
            object.__setattr__(self, side, whole_number(side, getattr(self, side)))
        choice("dtype", self.dtype, DTYPES)

    @property
    def flops(self) -> int:
        """Multiplications and additions, 2 m k n (integer operations for integer dtypes)."""
        return 2 * self.m * self.k * self.n

    @property
    def macs(self) -> int:
        """Multiply-accumulates, m k n."""
        return self.m * self.k * self.n

    @property
    def result_dtype(self) -> str:
        """Dtype that the result is written in."""
        return DTYPES[self.dtype].result

    @property
    def accumulator_dtype(self) -> str:
        """Dtype that products are summed in."""
        return DTYPES[self.dtype].accumulator

    @property
    def bytes_moved(self) -> int:
        """Bytes read and written when each operand is read once and the result written once.

        Each matrix takes whole bytes, so an odd number of 4-bit elements is rounded up.
        """
        return (
            stored_bytes(self.m * self.k, self.dtype)
            + stored_bytes(self.k * self.n, self.dtype)
            + stored_bytes(self.m * self.n, self.result_dtype)
        )

    @property
    def intensity(self) -> float:
        """Arithmetic intensity, `flops` over `bytes_moved`, in FLOP/B."""
        return self.flops / self.bytes_moved


@names_keywords
def stored_bytes(elements: int, dtype: str) -> int:
    """Return the bytes of so many elements stored one after another, rounded up to whole ones.

    Parameters
    ----------
    elements
        How many, at least 0.
    dtype
        A key of `BYTES`.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        When `elements` is no whole number of at least 0, or the dtype is unknown.

    Examples
    --------
    >>> stored_bytes(3, "bf16"), stored_bytes(3, "int4")
    (6, 2)
    """
    bits = int(8 * BYTES[choice("dtype", dtype, BYTES)])
    return -(-whole_number("elements", elements, least=0) * bits // 8)


@names_keywords
def accumulator_type(a: np.dtype[Any], b: np.dtype[Any]) -> np.dtype[Any]:
    """Return the NumPy type in which both simulators form and sum products of operands of types `a` and `b`.

    Parameters
    ----------
    a, b
        Types of the operands.

    Returns
    -------
    numpy.dtype
        int32 for int8 by int8, as matrix units do; int64 for other integers; float32 for floats of up to
        32 bits, else float64.

    Raises
    ------
    ValueError
        When the two have no common type.

    Examples
    --------
    >>> accumulator_type(np.dtype(np.int8), np.dtype(np.int8))
    dtype('int32')
    """
    for name, dtype in (("a", a), ("b", b)):
        instance(name, dtype, np.dtype, "pass an array's dtype")
    if a.kind in "iu" and b.kind in "iu":
        return np.dtype(np.int32 if a == b == np.int8 else np.int64)
    try:
        common = np.result_type(a, b)
    except TypeError:
        raise ValueError(
            f"a holds {a} and b holds {b}, which have no common type; convert one to the other's."
        ) from None
    if common.kind == "V":  # the narrow types of ml_dtypes, such as bfloat16
        return np.dtype(np.int32 if "int" in common.name else np.float32)
    return np.dtype(np.float32 if common.itemsize <= 4 else np.float64)
