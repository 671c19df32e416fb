"""The three dataflows as data: which operand stays in its cell, which one moves right, which one moves down.

House letters: m, n, k are the product's indices (result[m, n] sums a[m, k] * b[k, n] over k); r is an array
row, c an array column. Operands are named by letter: "a", "b" and the result "c".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

Letter = Literal["a", "b", "c"]
Axis = Literal["m", "n", "k"]

_Scalar = TypeVar("_Scalar", bound=np.generic)

AXES: dict[Letter, tuple[Axis, Axis]] = {"a": ("m", "k"), "b": ("k", "n"), "c": ("m", "n")}
"""The two indices of each operand, in the order in which its rows and columns are stored."""


@dataclass(frozen=True)
class Dataflow:
    """What each of a cell's three registers carries, and how the product's indices lie on the array.

    Parameters
    ----------
    name : str
        The field's abbreviation: "ws", "os" or "is".
    title : str
        The same in words.
    held, right, down : {"a", "b", "c"}
        The operand in the register that stays, in the one that moves right and in the one that moves down.
    row_axis, col_axis : {"m", "n", "k"}
        The index that runs along the array's rows and along its columns.
    stream_axis : {"m", "n", "k"}
        The index that runs along time.
    """

    name: str
    title: str
    held: Letter
    right: Letter
    down: Letter
    row_axis: Axis
    col_axis: Axis
    stream_axis: Axis

    @property
    def loads(self) -> bool:
        """Whether an operand is loaded before the products start; if not, the result stays and is drained."""
        return self.held != "c"

    @property
    def roles(self) -> dict[str, Letter]:
        """Register name -> operand letter."""
        return {"held": self.held, "right": self.right, "down": self.down}


DATAFLOWS: dict[str, Dataflow] = {
    "ws": Dataflow("ws", "weight-stationary", "b", "a", "c", row_axis="k", col_axis="n", stream_axis="m"),
    "os": Dataflow("os", "output-stationary", "c", "a", "b", row_axis="m", col_axis="n", stream_axis="k"),
    "is": Dataflow("is", "input-stationary", "a", "b", "c", row_axis="k", col_axis="m", stream_axis="n"),
}


def turned(letter: Letter, array: NDArray[_Scalar], first: Axis, second: Axis) -> NDArray[_Scalar]:
    """Return a view of operand `letter` whose first axis is index `first` and whose second is `second`."""
    return array if AXES[letter] == (first, second) else array.T


def flat_index(letter: Letter, sizes: dict[Axis, int]) -> NDArray[np.int32]:
    """Return the row-major flat index of every element of an operand, in the operand's own shape."""
    first, second = AXES[letter]
    return np.arange(sizes[first] * sizes[second], dtype=np.int32).reshape(sizes[first], sizes[second])


def coordinates(letter: Letter, index: NDArray[Any], sizes: dict[Axis, int]) -> dict[Axis, NDArray[Any]]:
    """Return the two indices, by name, of elements given by their flat index."""
    first, second = AXES[letter]
    return {first: index // sizes[second], second: index % sizes[second]}
