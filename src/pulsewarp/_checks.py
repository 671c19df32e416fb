"""Sentences for bad input: each names the value, the limit and the remedy."""

from __future__ import annotations

import difflib
import functools
import inspect
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def nearest(word: object, valid: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the valid word nearest to `word`, or an empty string."""
    match = difflib.get_close_matches(str(word).lower(), list(valid), n=1, cutoff=0.5)
    return f" Did you mean {match[0]!r}?" if match else ""


def choice(name: str, value: object, valid: Iterable[str]) -> str:
    """Return `value` when it is one of `valid`; otherwise raise a ValueError naming them all."""
    words = list(valid)
    if isinstance(value, str) and value in words:
        return value
    listed = ", ".join(word or "''" for word in words)  # an empty word would not be seen
    raise ValueError(f"Unknown {name} {_shown(value)}; use one of {listed}.{nearest(value, words)}")


def whole_number(name: str, value: Any, *, least: int = 1, most: int | None = None, remedy: str = "") -> int:
    """Return `value` as an int when it is a whole number in [least, most]; otherwise raise a ValueError."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or number < least or (most is not None and number > most):
        wanted = f"a whole number of at least {least}" + (f" and at most {most}" if most is not None else "")
        raise ValueError(f"{name} is {_shown(value)}, but must be {wanted}.{_tail(remedy)}")
    return number


def positive_number(name: str, value: Any, *, zero: bool = False) -> float:
    """Return `value` as a float when it is finite and positive (or zero, if allowed)."""
    try:
        number = float("nan") if isinstance(value, str | bytes) else float(value)  # text is no number here
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if isinstance(value, bool) or not np.isfinite(number) or number < 0 or (number == 0 and not zero):
        limit = "of at least 0" if zero else "above 0"
        raise ValueError(f"{name} is {_shown(value)}, but must be a finite number {limit}.")
    return number


def instance(name: str, value: object, kind: type[T], remedy: str) -> T:
    """Return `value` when it is a `kind`; otherwise raise a TypeError with the remedy."""
    if isinstance(value, kind):
        return value
    raise TypeError(f"{name} is {_shown(value)}, but must be a {kind.__name__}; {remedy}.")


def several(name: str, value: Iterable[T], remedy: str) -> tuple[T, ...]:
    """Return what `value` holds as a tuple; a single thing or a text raises a TypeError with the remedy."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise TypeError(f"{name} is {_shown(value)}, but must hold several things; {remedy}.")
    return tuple(value)


def matrix(name: str, value: Any) -> NDArray[Any]:
    """Return `value` as a two-dimensional numeric array without NaN, infinity or an empty side."""
    if np.ma.is_masked(value):
        raise ValueError(f"{name} has masked elements, but every element must be there; fill them first.")
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError(f"{name} has rows of different lengths; give every row the same length.") from None
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(
            f"{name} has shape {array.shape}, but must have two dimensions, neither of them empty; "
            f"write it as a list of rows, such as [[1, 2], [3, 4]]."
        )
    if array.dtype.kind == "b" or not (array.dtype.kind in "iuf" or _is_narrow(array.dtype)):
        raise ValueError(f"{name} holds {array.dtype} values, but must hold integers or real floats.")
    if array.dtype.kind not in "iu":
        bad = np.argwhere(~np.isfinite(array.astype(np.float64)))
        if bad.size:
            row, column = (int(i) for i in bad[0])
            raise ValueError(
                f"{name}[{row}, {column}] is {array[row, column]}, but every element must be finite; "
                f"replace it first."
            )
    return array


def factors(a: Any, b: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the operands of a product as matrices that fit each other."""
    a, b = matrix("a", a), matrix("b", b)
    if a.shape[1] != b.shape[0]:
        raise ValueError(
            f"a has shape {a.shape} and b has shape {b.shape}, but a must have as many "
            f"columns ({a.shape[1]}) as b has rows ({b.shape[0]}); transpose or cut one of them."
        )
    return a, b


def known_keywords(caller: str, given: Mapping[str, object], valid: Iterable[str]) -> None:
    """Raise a TypeError when `given` has a key that `valid` lacks, naming the nearest valid one."""
    words = list(valid)
    for key in given:
        if key not in words:
            raise TypeError(
                f"{caller} does not know the keyword {key!r}.{nearest(key, words)} Valid: {', '.join(words)}."
            )


def names_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """Make `function` answer an unknown keyword with the nearest valid one; its signature stays as it is."""
    valid = [name for name in inspect.signature(function).parameters if name != "self"]
    caller = function.__qualname__.removesuffix(".__init__")  # a class is called by its own name

    @functools.wraps(function)
    def checked(*args: P.args, **given: P.kwargs) -> R:
        known_keywords(caller, given, valid)
        return function(*args, **given)

    return checked


def class_names_keywords(cls: type[T]) -> type[T]:
    """Make the constructor of a dataclass answer an unknown keyword as `names_keywords` does."""
    setattr(cls, "__init__", names_keywords(cls.__init__))  # noqa: B010  # mypy refuses the plain assignment
    return cls


def _is_narrow(dtype: np.dtype[Any]) -> bool:
    """Tell whether `dtype` is a number type of ml_dtypes; numpy calls them void, as it does records."""
    return dtype.kind == "V" and dtype.type is not np.void


def _shown(value: object) -> str:
    """Return a value as a sentence shows it: a short repr without an address, else its type."""
    text = " ".join(repr(value).split())
    kind = type(value).__name__
    return text if len(text) <= 60 and " at 0x" not in text else f"a{'n' * (kind[0] in 'aeiou')} {kind}"


def _tail(remedy: str) -> str:
    return f" {remedy}" if remedy else ""
