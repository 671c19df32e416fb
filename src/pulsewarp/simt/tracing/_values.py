"""The values of a warp's 32 lanes, their masks, and the arithmetic between them as Numba types it."""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp.simt._instruction import LANES

ALL = (1 << LANES) - 1
Lanes = NDArray[Any]


@functools.lru_cache(maxsize=2**14)
def lanes_of(mask: int) -> NDArray[np.bool_]:
    """Return a mask's bits as 32 booleans, lane 0 first."""
    lanes: NDArray[np.bool_] = (mask >> np.arange(LANES)) & 1 == 1
    lanes.flags.writeable = False
    return lanes


def mask_of(lanes: NDArray[np.bool_]) -> int:
    """Return 32 booleans as a mask."""
    return _mask_of_bytes(lanes.tobytes())


@functools.lru_cache(maxsize=2**14)
def _mask_of_bytes(lanes: bytes) -> int:
    """Return 32 bytes of 0 or 1 as a mask: the same few masks come back all the time."""
    bits = np.packbits(np.frombuffer(lanes, np.bool_), bitorder="little")
    return int.from_bytes(bits.tobytes(), "little")


def some(lanes: NDArray[np.bool_]) -> bool:
    """Tell whether any of some booleans holds; of so few, Python's own search is the fastest."""
    return b"\1" in lanes.tobytes()


def every(lanes: NDArray[np.bool_]) -> bool:
    """Tell whether all of some booleans hold."""
    return b"\0" not in lanes.tobytes()


def even(lanes: Lanes) -> bool:
    """Tell whether all lanes hold the same bits."""
    return lanes.tobytes() == lanes[:1].tobytes() * len(lanes)


@dataclass(slots=True, eq=False)  # not frozen: a trace makes tens of thousands, at half the time each
class Value:
    """What an expression is in every lane, and the register that holds it (None: known without one).

    Never changed once made: variables, constants and loops share them.
    """

    data: Lanes
    register: str | None = None


def constant(number: Any) -> Value:
    """Return a number that is the same in all lanes: int64 or float64 unless it has a type of its own."""
    if type(number) is int:
        return _whole(number)
    return _constant(number)


@functools.lru_cache(maxsize=2**12)
def _whole(number: int) -> Value:
    """Return a plain whole number in all lanes; kernels have few, and read them often."""
    return _constant(number)


def _constant(number: Any) -> Value:
    if isinstance(number, int) and not -(2**63) <= number < 2**63:
        raise ValueError(
            f"A number of the kernel takes {number.bit_length() + 1} bits with its sign, but it computes "
            f"with at most 64; take a smaller one, or write it with a decimal point."
        )
    array = np.asarray(number)
    if array.dtype.kind in "iu" and not isinstance(number, np.generic):
        array = array.astype(np.int64)
    data = np.full(LANES, array)
    data.flags.writeable = False
    return Value(data)


# --- types -------------------------------------------------------------------------------------------------


def _wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type in which Numba computes with an integer: 64 bits, signed unless it is unsigned."""
    return np.dtype(np.uint64 if dtype.kind == "u" else np.int64)


@functools.lru_cache(maxsize=2**8)
def joint_type(a: np.dtype[Any], b: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of `a` (op) `b`: integers widen to 64 bits, mixed signs are signed, floats as NumPy."""
    if "f" not in (a.kind, b.kind):
        wide_a, wide_b = _wide(a), _wide(b)
        return wide_a if wide_a == wide_b else np.dtype(np.int64)
    return np.result_type(a, b)


def unified(a: np.dtype[Any], b: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of a variable that may hold either."""
    return a if a == b else joint_type(a, b)


_ARITHMETIC: dict[type[ast.operator], Any] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.mod,
    ast.BitAnd: np.bitwise_and,
    ast.BitOr: np.bitwise_or,
    ast.BitXor: np.bitwise_xor,
    ast.LShift: np.left_shift,
    ast.RShift: np.right_shift,
}
_SHIFTS = (ast.LShift, ast.RShift)
_INTEGERS_ONLY = (ast.BitAnd, ast.BitOr, ast.BitXor, *_SHIFTS)
_COMPARISONS: dict[type[ast.cmpop], Any] = {
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
}
SYMBOLS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip


def operate(op: ast.operator, a: Lanes, b: Lanes) -> Lanes:
    """Return ``a (op) b`` in every lane; a TypeError where the types allow no such operation."""
    kind = type(op)
    if kind in _INTEGERS_ONLY:
        if "f" in (a.dtype.kind, b.dtype.kind):
            raise TypeError(f"{SYMBOLS[kind]} needs integers")
        if a.dtype.kind == b.dtype.kind == "b" and kind not in _SHIFTS:
            return _computed(_ARITHMETIC[kind](a, b))
    if kind is ast.Pow:
        return _power(a, b)
    dtype = _wide(a.dtype) if kind in _SHIFTS else joint_type(a.dtype, b.dtype)
    if kind is ast.Div:
        if dtype.kind != "f":
            dtype = np.dtype(np.float64)
        return _computed(np.true_divide(_as(a, dtype), _as(b, dtype)))
    return _computed(_ARITHMETIC[kind](_as(a, dtype), _as(b, dtype)))


def _as(lanes: Lanes, dtype: np.dtype[Any]) -> Lanes:
    """Return lanes in a type, the same ones where they are in it."""
    return lanes if lanes.dtype is dtype else lanes.astype(dtype, copy=False)


def _computed(result: Any) -> Lanes:
    lanes: Lanes = result
    return lanes


def _power(a: Lanes, b: Lanes) -> Lanes:
    """Return ``a ** b``: a float to an integer power keeps its type; integers stay integers."""
    if a.dtype.kind == "f" and b.dtype.kind != "f":
        return _computed(np.power(a, b.astype(a.dtype)))
    dtype = joint_type(a.dtype, b.dtype)
    if dtype.kind != "f" and b.dtype.kind == "i" and (b < 0).any():
        raise TypeError("an integer to a negative power is no integer; write float(...) around the base")
    return _computed(np.power(a.astype(dtype), b.astype(dtype)))


def compare(op: ast.cmpop, a: Lanes, b: Lanes) -> Lanes:
    """Return the 32 booleans of a comparison."""
    dtype = unified(a.dtype, b.dtype)
    return _computed(_COMPARISONS[type(op)](_as(a, dtype), _as(b, dtype)))


def negate(op: ast.unaryop, a: Lanes) -> Lanes:
    """Return ``-a``, ``+a``, ``~a`` or ``not a``."""
    if isinstance(op, ast.Not):
        return _computed(a == 0)
    if a.dtype.kind != "f":
        a = a.astype(_wide(a.dtype), copy=False)
    if isinstance(op, ast.USub):
        return -a
    if isinstance(op, ast.UAdd):
        return a
    if a.dtype.kind == "f":
        raise TypeError("~ needs an integer")
    return ~a


# --- loops -------------------------------------------------------------------------------------------------

_EVERY, _NONE = np.ones(LANES, np.bool_), np.zeros(LANES, np.bool_)
_FAR = 2**31  # a loop that stays below counts without leaving 64 bits


def trips(start: Lanes, stop: Lanes, step: Lanes) -> Iterator[tuple[Lanes, NDArray[np.bool_]]]:
    """Yield what each lane's ``range(start, stop, step)`` has come to, and in which lanes it goes on.

    Where all lanes count alike, as they mostly do, the numbers are those that constants are made of.
    """
    bounds = [int(bound[0]) for bound in (start, stop, step)]
    if all(map(even, (start, stop, step))) and max(map(abs, bounds)) < _FAR:
        counted = range(*bounds)
        for number in counted:
            yield constant(number).data, _EVERY
        yield constant(bounds[0] + len(counted) * bounds[2]).data, _NONE
        return
    now: Lanes = start.astype(np.int64)
    while True:
        yield now, np.where(step > 0, now < stop, now > stop)
        now = now + step


# --- functions ---------------------------------------------------------------------------------------------


def _python(function: Callable[[float], float]) -> Callable[[Lanes], Lanes]:
    """Return a function of `math` that NumPy lacks, for every lane."""

    def each(a: Lanes) -> Lanes:
        return np.array([function(float(v)) for v in a], a.dtype)

    return each


_UNARY: dict[str, Callable[..., Any]] = {
    "sqrt": np.sqrt, "exp": np.exp, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "expm1": np.expm1, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "fabs": np.fabs,
    "erf": _python(math.erf), "erfc": _python(math.erfc), "exp2": np.exp2, "trunc": np.trunc,
    "floor": np.floor, "ceil": np.ceil, "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite,
    "radians": np.radians, "degrees": np.degrees,
}  # fmt: skip
_BINARY: dict[str, Callable[..., Any]] = {
    "pow": np.power, "atan2": np.arctan2, "hypot": np.hypot, "fmod": np.fmod, "copysign": np.copysign,
}  # fmt: skip
MATH = (*_UNARY, *_BINARY)
# Functions that a GPU answers with its ordinary arithmetic; the others go to the special function unit.
PLAIN_MATH = (
    "fabs",
    "trunc",
    "floor",
    "ceil",
    "isnan",
    "isinf",
    "isfinite",
    "copysign",
    "radians",
    "degrees",
)


def math_function(name: str, *args: Lanes) -> Lanes:
    """Return a function of `math` in every lane: float32 stays float32, integers become float64."""
    wanted = 1 if name in _UNARY else 2
    if len(args) != wanted:
        raise TypeError(f"math.{name} takes {wanted} argument{'s' * (wanted > 1)}, not {len(args)}")
    dtype = functools.reduce(joint_type, [a.dtype for a in args])
    dtype = dtype if dtype.kind == "f" else np.dtype(np.float64)
    if len(args) == 1 and args[0].dtype.kind == "f":
        dtype = args[0].dtype
    result = (_UNARY if wanted == 1 else _BINARY)[name](*(a.astype(dtype, copy=False) for a in args))
    return _computed(result)


def cast(a: Lanes, to: str) -> Lanes:
    """Return ``int(a)``, ``float(a)``, ``bool(a)`` or a NumPy type's cast; float32 is a float already."""
    if to == "int":
        return a if a.dtype.kind in "iu" else a.astype(np.int64)
    if to == "float":
        return a if a.dtype.kind == "f" else a.astype(np.float64)
    if to == "bool":
        return _computed(a != 0)
    return a.astype(np.dtype(to))


def extreme(name: str, a: Lanes, b: Lanes) -> Lanes:
    """Return ``min(a, b)`` or ``max(a, b)``."""
    dtype = unified(a.dtype, b.dtype)
    return _computed((np.minimum if name == "min" else np.maximum)(_as(a, dtype), _as(b, dtype)))
