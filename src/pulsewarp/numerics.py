"""Numbers as a matrix unit has them: what bf16, int8 and float32 "by so many passes" do to a product.

A TPU's matrix unit multiplies bf16 by bf16 and sums in float32. A product of float32 matrices is therefore
made of bf16 products: each operand is written as a sum of bf16 parts, and one pass multiplies one part of `a`
by one part of `b`. JAX names how many passes are made: "default" one, "high" three, "highest" six.

Documented, and taken over here: the number of passes by name, and that on a CPU the names change nothing (the
page of `jax.lax.Precision`); the names of the same algorithms for any device, such as BF16_BF16_F32_X3 (the
page of `jax.lax.DotAlgorithmPreset`); both read on 2026-11-30. Which part meets which follows G. Henry,
P. T. P. Tang, A. Heinecke, "Leveraging the bfloat16 artificial intelligence datatype for higher-precision
computations", ARITH 2019, arXiv:1904.06376.

Not documented for a TPU, and chosen here: the order in which passes are added (the smallest first, in the
order that XLA's dot algorithm rewriter has for GPUs) and the order in which one pass sums its products (that
of k, as `systolic.simulate` does), so the last bits of a real chip may differ. Not modelled: int8 that
saturates instead of wrapping around, numbers below the smallest normal one taken as zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pulsewarp import _checks
from pulsewarp._arrays import add_up, freeze
from pulsewarp._text import counted

PARTS = ("hi", "mid", "lo")
"""Names of the bf16 parts of a float32 value: the value rounded, what that left rounded, and so again."""

MOST_MACS = 2**27
"""The most multiply-adds, over all passes, that `multiply` makes: a few seconds."""

BF16_UNIT = 2.0**-8
"""Rounding to bf16 changes a value by at most this fraction of it: 8 significant bits, to the nearest."""

FLOAT32_UNIT = 2.0**-24
"""The same for float32, 24 significant bits."""

_BF16_HALF_STEP = (
    2.0**-134
)  # half the distance of the smallest bf16 values, below which the fraction says nothing
_FLOAT32_HALF_STEP = 2.0**-150


@dataclass(frozen=True)
class Precision:
    """One way in which a matrix unit makes a product.

    Parameters
    ----------
    name : str
        As `multiply` takes it; "default", "high" and "highest" are JAX's own words.
    title : str
        What happens, in a few words.
    passes : tuple of (int, int)
        Which part of `a` meets which part of `b` (0: hi, 1: mid, 2: lo), in the order in which they are
        added.
    algorithm : str or None
        JAX's name of the same computation on any device, a member of `jax.lax.DotAlgorithmPreset`.
    """

    name: str
    title: str
    passes: tuple[tuple[int, int], ...]
    algorithm: str | None

    @property
    def parts(self) -> int:
        """Into how many bf16 parts each operand is split; 0 where it is multiplied as it is."""
        return 1 + max(max(pair) for pair in self.passes) if self.name in JAX_PRECISIONS else 0

    @property
    def switch(self) -> str | None:
        """The line of JAX that asks for it everywhere, for the three that JAX names."""
        return f'jax.config.update("jax_default_matmul_precision", "{self.name}")' if self.parts else None


JAX_PRECISIONS = ("default", "high", "highest")
"""JAX's words for float32 on a TPU, from the fastest to the most exact."""

PRECISIONS: Mapping[str, Precision] = MappingProxyType(
    {
        precision.name: precision
        for precision in (
            Precision("default", "float32 by one bf16 pass", ((0, 0),), "BF16_BF16_F32"),
            Precision("high", "float32 by three bf16 passes", ((1, 0), (0, 1), (0, 0)), "BF16_BF16_F32_X3"),
            Precision(
                "highest",
                "float32 by six bf16 passes",
                ((1, 1), (0, 2), (2, 0), (0, 1), (1, 0), (0, 0)),
                "BF16_BF16_F32_X6",
            ),
            Precision("float32", "float32 as it is, as a CPU multiplies it", ((0, 0),), "F32_F32_F32"),
            Precision("int8", "int8 by int8 into int32", ((0, 0),), None),
        )
    }
)
"""What `multiply` knows. "float32" is no mode of a TPU; it is there to compare the others with."""

JAX_SWITCH = 'jax.default_matmul_precision("highest")'
"""The context in which JAX's float32 products take six passes; `precision="highest"` asks it of one.

JAX of 2024 takes only the older name "float32" for it here.
"""


class Term(NamedTuple):
    """One multiply-add on the way to one element of a result."""

    number: int
    """Which pass, counted from 1."""
    k: int
    a: int | float
    b: int | float
    product: int | float
    total: int | float
    """The sum of this pass so far."""


@dataclass(frozen=True, eq=False, repr=False)
class Pass:
    """One pass through the matrix unit: one part of `a` times one part of `b`.

    Parameters
    ----------
    name : str
        Which parts meet, such as "hi x mid"; "a x b" where the operands are not split.
    a : ndarray, shape (m, k)
        The part of `a`, in the type in which it is multiplied.
    b : ndarray, shape (k, n)
        The part of `b`.
    result : ndarray, shape (m, n)
        Their product, summed in order of k in the accumulator's type.
    """

    name: str
    a: NDArray[Any]
    b: NDArray[Any]
    result: NDArray[Any]

    def __repr__(self) -> str:
        (m, k), n = self.a.shape, self.b.shape[1]
        return f"Pass({self.name}, {m}x{k} by {k}x{n}, {self.result.dtype})"


@dataclass(frozen=True, eq=False, repr=False)
class Product:
    """A product as a matrix unit makes it, beside the exact one.

    Parameters
    ----------
    precision : Precision
        How it was made.
    a, b : ndarray
        The operands in the type they were multiplied from: float32, or int8.
    a_parts, b_parts : tuple of ndarray of float32
        The bf16 parts of each operand (`PARTS`), each a float32 array whose values bf16 holds; the operand
        itself where it is not split.
    passes : tuple of Pass
        In the order in which they were added.
    result : ndarray, shape (m, n)
        In float32, or int32 for int8.
    exact : ndarray of float64, shape (m, n)
        The product of the same operands in float64.
    bound : ndarray of float64, shape (m, n)
        What the error of each element cannot exceed; see Notes of `multiply`.
    """

    precision: Precision
    a: NDArray[Any]
    b: NDArray[Any]
    a_parts: tuple[NDArray[Any], ...]
    b_parts: tuple[NDArray[Any], ...]
    passes: tuple[Pass, ...]
    result: NDArray[Any]
    exact: NDArray[np.float64]
    bound: NDArray[np.float64]

    @property
    def error(self) -> NDArray[np.float64]:
        """`result` less `exact`, element by element, in float64."""
        return freeze(self.result.astype(np.float64) - self.exact)

    @property
    def max_error(self) -> float:
        """The largest error of an element, without its sign."""
        return float(np.abs(self.error).max())

    @property
    def relative_error(self) -> float:
        """Frobenius norm of the error over that of the exact product, as `bench` has it; 0 for 0 over 0."""
        return _norm(self.error) / (_norm(self.exact) or 1.0)

    @property
    def within_bound(self) -> bool:
        """Whether no element's error exceeds its bound."""
        return bool((np.abs(self.error) <= self.bound).all())

    @_checks.names_keywords
    def terms(self, row: int, col: int) -> tuple[Term, ...]:
        """Return every multiply-add of one element of the result, pass by pass and in order of k.

        Parameters
        ----------
        row, col : int
            Which element, from 0.

        Returns
        -------
        tuple of Term
            One for each pass and k.

        Raises
        ------
        ValueError
            For an element that is not there.

        Examples
        --------
        300 needs 9 bits and bf16 has 8: the first pass multiplies by 300, the nearest that bf16 holds of 301.

        >>> [(term.a, term.b, term.total) for term in multiply([[301.0]], [[2.0]], "high").terms(0, 0)]
        [(1.0, 2.0, 2.0), (300.0, 0.0, 0.0), (300.0, 2.0, 600.0)]
        """
        m, n = self.result.shape
        row = _checks.whole_number("row", row, least=0, most=m - 1, remedy="Rows are counted from 0.")
        col = _checks.whole_number("col", col, least=0, most=n - 1, remedy="Columns are counted from 0.")
        found = []
        for number, each in enumerate(self.passes, 1):
            total = self.result.dtype.type(0)
            left, right = each.a[row].astype(total.dtype), each.b[:, col].astype(total.dtype)
            for k, (x, y) in enumerate(zip(left, right, strict=True)):
                step = multiply_add(x, y, total)
                total = step.total[()]
                found.append(Term(number, k, x.item(), y.item(), step.product.item(), total.item()))
        return tuple(found)

    def __repr__(self) -> str:
        (m, k), n = self.a.shape, self.b.shape[1]
        return (
            f"Product({self.precision.name}, {m}x{k} by {k}x{n}, {counted(len(self.passes), 'pass', 'es')}, "
            f"largest error {self.max_error:.2g}, bound {np.max(self.bound):.2g})"
        )


@dataclass(frozen=True, eq=False, repr=False)
class MultiplyAdd:
    """What one cell does in one cycle, before and after each rounding.

    Parameters
    ----------
    product, total : ndarray
        The product and the new sum, in the accumulator's type.
    exact_product, exact_total : ndarray of float64
        The same before rounding to that type: x times y, and the earlier sum plus `product`. Of a sum that
        float64 cannot hold, the nearest that it can.
    product_lost, total_lost : ndarray of float64
        What each rounding took away, exactly: before less after (for integers: what wrapping around took).
    """

    product: NDArray[Any]
    total: NDArray[Any]
    exact_product: NDArray[np.float64]
    exact_total: NDArray[np.float64]
    product_lost: NDArray[np.float64]
    total_lost: NDArray[np.float64]

    def __repr__(self) -> str:
        return f"MultiplyAdd(shape={self.total.shape}, accumulator={self.total.dtype})"


@_checks.names_keywords
def split(x: ArrayLike, parts: int = 3) -> tuple[NDArray[np.float32], ...]:
    """Write float32 values as sums of bf16 parts: hi, mid, lo.

    Each part is what the earlier ones left over, rounded to bf16 to the nearest (ties to even) by
    `ml_dtypes`. Three parts give every float32 value back exactly, from 2**-110 to the largest that bf16
    holds; below, lo may fall under the smallest bf16 value. Not modelled: hardware that cuts off instead of
    rounding.

    Parameters
    ----------
    x : array_like, shape (rows, columns)
        Values; rounded to float32 first if they are wider.
    parts : {1, 2, 3}
        How many.

    Returns
    -------
    tuple of ndarray of float32
        The parts, each of the shape of `x`, with values that bf16 holds.

    Raises
    ------
    ValueError
        For another number of parts, for what is no matrix of finite numbers, or for a value that bf16 rounds
        to infinity.

    Examples
    --------
    >>> hi, mid, lo = split([[1 / 3]])
    >>> float(hi[0, 0]), float(mid[0, 0]), float(lo[0, 0])
    (0.333984375, -0.000652313232421875, 1.2814998626708984e-06)
    >>> bool(hi + mid + lo == np.float32(1 / 3))
    True
    """
    parts = _checks.whole_number("parts", parts, most=len(PARTS), remedy="Three parts hold all of a float32.")
    return _split("x", _as_float32("x", x), parts)


@_checks.names_keywords
def multiply(a: ArrayLike, b: ArrayLike, precision: str = "default") -> Product:
    """Multiply two matrices with the numbers that a matrix unit has.

    Modelled: rounding of operands to bf16, the passes of each precision, float32 sums in order of k, int32
    sums that wrap around. Not modelled: the order of summation inside a real chip, int8 saturation, rounding
    of the result to bf16 on its way out.

    Parameters
    ----------
    a : array_like, shape (m, k)
        Left operand. For "int8" whole numbers from -128 to 127; else any numbers, rounded to float32 first if
        they are wider, as JAX does. bf16 operands (`ml_dtypes.bfloat16`) are their own first part, so
        "default" is the unit's own bf16 x bf16 into float32.
    b : array_like, shape (k, n)
        Right operand.
    precision : {"default", "high", "highest", "float32", "int8"}
        A key of `PRECISIONS`.

    Returns
    -------
    Product
        The result with its passes, the parts of the operands, the error against float64 and its bound.

    Raises
    ------
    ValueError
        For operands that are no matrices of finite numbers or do not fit each other, an unknown precision,
        values beyond the type's range, sums that may exceed float32's, or more than 2**27 multiply-adds.

    Notes
    -----
    With u = 2**-24 and v = 2**-8 (largest relative change by rounding to float32 and to bf16), the error of
    an element is at most (d + g (1 + v)**4) times the same element of abs(a) @ abs(b). d is what the
    precision leaves out: 2 v + v**2 for one pass, 3 v**2 + v**4 for three, 2 v**3 + v**4 for six.
    g = n u / (1 - n u) is the usual bound of n = k - 1 + passes - 1 float32 additions (N. J. Higham,
    "Accuracy and Stability of Numerical Algorithms", 2002, section 3.1; for "float32" also of the product's
    own rounding). Values so small that rounding changes them by more than these fractions add their share,
    and float64 itself k 2**-52.

    Examples
    --------
    A float32 has 24 significant bits, bf16 has 8. JAX's default on a TPU loses the rest:

    >>> third = [[1 / 3]]
    >>> [f"{multiply(third, third, name).relative_error:.0e}" for name in JAX_PRECISIONS]
    ['4e-03', '1e-05', '1e-08']
    >>> multiply([[100, 27]], [[100], [1]], "int8").result.tolist()
    [[10027]]
    """
    kind = PRECISIONS[_checks.choice("precision", precision, PRECISIONS)]
    a, b = _checks.factors(a, b)
    macs = a.size * b.shape[1] * len(kind.passes)
    if macs > MOST_MACS:
        raise ValueError(
            f"This product takes {macs} multiply-adds over {counted(len(kind.passes), 'pass', 'es')}, above "
            f"the limit of {MOST_MACS}; take fewer rows or columns."
        )
    narrow = _as_int8 if kind.name == "int8" else _as_float32
    a, b = freeze(narrow("a", a)), freeze(narrow("b", b))
    accumulator = np.dtype(np.int32 if kind.name == "int8" else np.float32)
    reach = add_up(np.abs(a.astype(np.float64)), np.abs(b.astype(np.float64)), np.dtype(np.float64))
    if accumulator.kind == "f" and reach.max() > np.finfo(np.float32).max / (1 + BF16_UNIT) ** 4:
        raise ValueError(
            f"Sums of this product can reach {reach.max():.2g}, beyond float32's "
            f"{np.finfo(np.float32).max:.2g}; scale the operands down."
        )
    a_parts = _split("a", a, kind.parts) if kind.parts else (a,)
    b_parts = _split("b", b, kind.parts) if kind.parts else (b,)
    passes = tuple(
        Pass(
            f"{PARTS[i]} x {PARTS[j]}" if kind.parts else "a x b",
            a_parts[i],
            b_parts[j],
            freeze(add_up(a_parts[i], b_parts[j], accumulator)),
        )
        for i, j in kind.passes
    )
    result = passes[0].result
    for each in passes[1:]:
        result = result + each.result
    return Product(
        precision=kind,
        a=a,
        b=b,
        a_parts=a_parts,
        b_parts=b_parts,
        passes=passes,
        result=freeze(result),
        exact=freeze(add_up(a, b, np.dtype(np.float64))),
        bound=freeze(_bound(kind, a, b, reach)),
    )


@_checks.names_keywords
def multiply_add(x: ArrayLike, y: ArrayLike, earlier: ArrayLike) -> MultiplyAdd:
    """Return earlier + x * y as a cell forms it, with what each of its two roundings took away.

    The product is rounded to the accumulator's type, then the sum, as `systolic.simulate` does. Not modelled:
    cells that round once for both (fused multiply-add).

    Parameters
    ----------
    x, y, earlier : array_like, of shapes that go together
        Factors and the sum so far, all in the accumulator's type: float32, int32, or int64 with values whose
        products and sums stay below 2**53.

    Returns
    -------
    MultiplyAdd
        Arrays of the common shape.

    Raises
    ------
    ValueError
        For another type, or different ones.

    Notes
    -----
    A product of two float32 values has at most 48 significant bits, so float64 holds it. What a float32 sum
    loses is itself a float32 and is found by D. E. Knuth's exact sum ("The Art of Computer Programming",
    volume 2, section 4.2.2, theorem B).

    Examples
    --------
    2**24 is where float32 begins to skip every second whole number:

    >>> step = multiply_add(np.float32(3), np.float32(1), np.float32(2**24))
    >>> float(step.total), float(step.exact_total), float(step.total_lost)
    (16777220.0, 16777219.0, -1.0)
    """
    x, y, earlier = np.broadcast_arrays(np.asarray(x), np.asarray(y), np.asarray(earlier))
    types = sorted({str(each.dtype) for each in (x, y, earlier)})
    if len(types) > 1 or types[0] not in ("float32", "int32", "int64"):
        raise ValueError(
            f"x, y and earlier are of type {', '.join(types)}, but must all be float32, all int32 or all "
            f"int64; convert them to the accumulator's type."
        )
    with np.errstate(over="ignore"):  # an int32 that wraps around is what is modelled
        product = np.asarray(x * y)
        total = np.asarray(earlier + product)
    if product.dtype.kind == "f":
        exact_product = x.astype(np.float64) * y.astype(np.float64)
        taken = total - earlier
        total_lost = ((earlier - (total - taken)) + (product - taken)).astype(np.float64)
        exact_total = total.astype(np.float64) + total_lost
    else:
        exact_product = (x.astype(np.int64) * y.astype(np.int64)).astype(np.float64)
        exact_total = (earlier.astype(np.int64) + product.astype(np.int64)).astype(np.float64)
        total_lost = exact_total - total.astype(np.float64)
    product_lost = exact_product - product.astype(np.float64)
    parts = (product, total, exact_product, exact_total, product_lost, total_lost)
    return MultiplyAdd(*(freeze(np.asarray(part)).reshape(x.shape) for part in parts))


def _as_float32(name: str, value: ArrayLike) -> NDArray[np.float32]:
    """Return a matrix of numbers rounded to float32; refuse what float32 cannot reach."""
    given = _checks.matrix(name, value)
    with np.errstate(over="ignore"):
        array: NDArray[np.float32] = given.astype(np.float32)
    _refuse_infinite(name, given, array, "float32")
    return array


def _as_int8(name: str, value: ArrayLike) -> NDArray[np.int8]:
    """Return a matrix of whole numbers from -128 to 127 as int8."""
    array = _checks.matrix(name, value)
    wrong = np.argwhere((array != np.rint(array.astype(np.float64))) | (array < -128) | (array > 127))
    if wrong.size:
        row, col = (int(i) for i in wrong[0])
        raise ValueError(
            f"{name}[{row}, {col}] is {array[row, col]}, but int8 holds whole numbers from -128 to 127; "
            f"scale and round the operand first, or choose another precision."
        )
    return array.astype(np.int8)


def _refuse_infinite(name: str, given: NDArray[Any], rounded: NDArray[Any], kind: str) -> None:
    wrong = np.argwhere(~np.isfinite(rounded))
    if wrong.size:
        row, col = (int(i) for i in wrong[0])
        raise ValueError(
            f"{name}[{row}, {col}] is {given[row, col]}, which {kind} can only round to infinity; scale the "
            f"operand down."
        )


def _round_to_bf16(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return float32 values rounded to the nearest of bf16, ties to even; beyond its range infinity."""
    import ml_dtypes  # here, so that what never rounds never loads it

    with np.errstate(over="ignore"):
        return x.astype(ml_dtypes.bfloat16).astype(np.float32)


def _split(name: str, x: NDArray[np.float32], parts: int) -> tuple[NDArray[np.float32], ...]:
    """Return so many bf16 parts of float32 values, the largest first."""
    found, left = [], x
    for _ in range(parts):
        part = _round_to_bf16(left)
        _refuse_infinite(name, x, part, "bf16")
        found.append(freeze(part))
        left = left - part  # exact: a multiple of x's last bit, and small
    return tuple(found)


def _bound(
    kind: Precision, a: NDArray[Any], b: NDArray[Any], reach: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return what the error of each element cannot exceed, from abs(a) @ abs(b) (see `multiply`, Notes)."""
    k = a.shape[1]
    if kind.name == "int8":  # exact until it wraps around, by 2**32 each time
        return 2.0**32 * np.ceil(np.maximum(0.0, reach - (2**31 - 1)) / 2**32)
    v = BF16_UNIT
    left_out = {"default": 2 * v + v**2, "high": 3 * v**2 + v**4, "highest": 2 * v**3 + v**4, "float32": 0.0}
    additions = k - 1 + len(kind.passes) - 1 + (kind.name == "float32")
    grown = additions * FLOAT32_UNIT / (1 - additions * FLOAT32_UNIT)
    sums = (
        np.abs(a.astype(np.float64)).sum(axis=1)[:, None] + np.abs(b.astype(np.float64)).sum(axis=0)[None, :]
    )
    tiny = 4 * _BF16_HALF_STEP * sums + (k + 1) * len(kind.passes) * _FLOAT32_HALF_STEP
    bound: NDArray[np.float64] = (left_out[kind.name] + grown * (1 + v) ** 4 + k * 2.0**-52) * reach + tiny
    return bound


def _norm(x: NDArray[np.float64]) -> float:
    """Return the Frobenius norm, the same to the last bit everywhere, without overflow."""
    largest = float(np.abs(x).max())
    return largest * float(np.sqrt(np.cumsum((x / largest).reshape(-1) ** 2)[-1])) if largest else 0.0
