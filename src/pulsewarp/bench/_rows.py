"""Frozen dataclasses as JSON objects and back, checked field by field by their own annotations.

An object has exactly the fields of its class, in order. Understood are bool, int, float, str, None,
``X | None``, ``tuple[X, ...]`` (a list), ``Mapping[str, X]`` (an object) and other dataclasses (an object).
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import types
import typing
from collections.abc import Mapping
from typing import Any


def to_object(value: Any) -> Any:
    """Return what JSON has for a value.

    Parameters
    ----------
    value : dataclass, mapping, tuple or plain value
        What `from_object` reads back.

    Returns
    -------
    dict, list or plain value

    Examples
    --------
    >>> to_object({"seconds": (1.0, 2.0)})
    {'seconds': [1.0, 2.0]}
    """
    if dataclasses.is_dataclass(value):
        return {each.name: to_object(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: to_object(each) for key, each in value.items()}
    return [to_object(each) for each in value] if isinstance(value, tuple) else value


def from_object(kind: Any, value: Any, where: str) -> Any:
    """Return a value of the annotation `kind` from what JSON had for it.

    Parameters
    ----------
    kind : annotation
        Of the forms above.
    value : Any
        As JSON gives it.
    where : str
        The place, for the sentence of an error.

    Returns
    -------
    Any

    Raises
    ------
    ValueError
        When a field is missing, unknown, of another type, or refused by its class: one sentence with the
        place and the value.

    Examples
    --------
    >>> from_object(tuple[float, ...], [1, "2"], "runs.json: seconds")
    Traceback (most recent call last):
    ...
    ValueError: runs.json: seconds[1] is '2', but must be a finite number.
    """
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind, value, where)
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        (kind,) = (part for part in parts if part is not type(None))
        return None if value is None else from_object(kind, value, where)
    if origin is tuple:
        listed = _of(list, value, where, "a list")
        return tuple(from_object(parts[0], each, f"{where}[{i}]") for i, each in enumerate(listed))
    if origin is Mapping:
        named = _of(dict, value, where, "an object")
        return {key: from_object(parts[1], each, f"{where}[{key!r}]") for key, each in named.items()}
    return _plain(kind, value, where)


def has_fields(row: Any, fields: tuple[str, ...], where: str) -> None:
    """Raise a ValueError unless `row` is an object with exactly these fields."""
    if not isinstance(row, dict):
        raise ValueError(
            f"{where} is {type(row).__name__}, but must be an object with the fields {', '.join(fields)}."
        )
    for name in fields:
        if name not in row:
            raise ValueError(f"{where} has no field {name!r}; all of {', '.join(fields)} must be there.")
    for name in row:
        if name not in fields:
            raise ValueError(
                f"{where} has the unknown field {name!r}; the form has {', '.join(fields)} alone."
            )


def _dataclass(kind: Any, value: Any, where: str) -> Any:
    names = tuple(each.name for each in dataclasses.fields(kind))
    has_fields(value, names, where)
    hints = _annotations(kind)
    given = {}
    for name in names:
        between = ", " if dataclasses.is_dataclass(hints[name]) else ": "
        given[name] = from_object(hints[name], value[name], f"{where}{between}{name}")
    try:
        return kind(**given)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


@functools.cache
def _annotations(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _plain(kind: type, value: Any, where: str) -> Any:
    # Text that looks like a number would pass float(); in a file it is a fault. So is a truth value.
    if kind is float:
        if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > sys.float_info.max:
            raise ValueError(f"{where} is {str(value)[:40]!r}, but must be a finite number.")
        return float(value)
    if kind is int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{where} is {str(value)[:40]!r}, but must be a whole number.")
        return value
    return _of(kind, value, where, {str: "a text", bool: "true or false"}[kind])


def _of(kind: type, value: Any, where: str, words: str) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{where} is {str(value)[:40]!r}, but must be {words}.")
    return value
