"""Read a matrix that someone typed or pasted: from Python, from NumPy's print, from a spreadsheet."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp._text import counted

#: Longer texts are no small matrix; they are refused before they are read.
MOST_LETTERS = 4096

#: Settings beside the numbers, as NumPy, JAX and PyTorch print them: dtype=int8, shape=(2, 3), device='cpu'.
_SETTING = re.compile(
    r",?\s*\b(?:dtype|device|shape|requires_grad)\s*=\s*(?:'[^']*'|\"[^\"]*\"|\([\d,\s]*\)|[\w.]+)"
)
#: One number in its type, as NumPy 2 prints the elements of a list: np.int64(3).
_SCALAR = re.compile(r"(?:\w+\.)?(?:u?int|b?float)\d*\(([^()]*)\)")
_WRAPPING = re.compile(r"[A-Za-z_]\w*\s*=|(?:\w+\.)?(?:array|asarray|matrix|tensor|Array)\s*(?=\()")
#: A comma without a space in a row whose numbers stand apart by spaces: "1,5 2,5" is two numbers to many.
_DECIMAL_COMMA = re.compile(r"\d,\d"), re.compile(r"\d\.?\s+[-+.\d]")
_EMPTY_CELL = re.compile(r",\s*,|\t *\t|^\s*,|^\t")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


def read_matrix(name: str, text: str, *, most: int) -> NDArray[Any]:
    r"""Return the matrix that a text holds: int64 where all its numbers are whole, else float64.

    Numbers stand apart by spaces, commas or tabs, rows by line ends or semicolons; with brackets, as Python
    and NumPy write lists, tuples and arrays, each innermost pair is a row.

    Parameters
    ----------
    name : str
        The matrix's name in a sentence, such as ``"A"``.
    text : str
        What was typed.
    most : int
        Most rows, and most columns.

    Raises
    ------
    ValueError
        With one sentence: what is wrong, where, and what to do.

    Examples
    --------
    >>> read_matrix("A", "[[1, -2],\n [3, 4]]", most=8).tolist()
    [[1, -2], [3, 4]]
    >>> read_matrix("A", "1.5 2; 3 4", most=8).tolist()
    [[1.5, 2.0], [3.0, 4.0]]
    """
    if len(text) > MOST_LETTERS:
        raise ValueError(
            f"{name} has {len(text)} characters, but at most {MOST_LETTERS} are read; shorten it."
        )
    rows = [_cells(name, i, row) for i, row in enumerate(_rows(name, text), start=1)]
    if not any(rows):
        raise ValueError(f"{name} is empty; type a row of numbers on each line, such as 1 2 3.")
    for i, row in enumerate(rows, start=1):
        if len(row) != len(rows[0]):
            raise ValueError(
                f"{name} has {counted(len(rows[0]), 'number')} in row 1 but {len(row)} in row {i}; "
                f"give every row the same number."
            )
    if max(len(rows), len(rows[0])) > most:
        raise ValueError(
            f"{name} is {len(rows)} x {len(rows[0])}, but at most {most} x {most} fit here; cut it down."
        )
    numbers = [[_number(name, i, cell) for cell in row] for i, row in enumerate(rows, start=1)]
    whole = all(isinstance(value, int) for row in numbers for value in row)
    return np.array(numbers, np.int64 if whole else np.float64)


def _rows(name: str, text: str) -> list[str]:
    """Return the text of each row, without brackets and without what Python writes around a matrix."""
    bare = text.removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}").replace("\N{MINUS SIGN}", "-")
    for pattern, put in ((_SETTING, ""), (_SCALAR, r"\1"), (_WRAPPING, " ")):
        bare = pattern.sub(put, bare)
    bare = bare.replace("(", "[").replace(")", "]")
    if bare.count("[") != bare.count("]"):
        raise ValueError(
            f"{name} has {bare.count('[')} opening and {bare.count(']')} closing brackets; close each."
        )
    groups = re.findall(r"\[([^\[\]]*)\]", bare)
    if groups:
        rest = re.sub(r"\[[^\[\]]*\]", " ", bare)
        if left := re.sub(r"[\[\],;\s]", "", rest):
            raise ValueError(f"{name} has {left[:20]!r} outside its rows' brackets; put every number inside.")
    if bare.count("[") > 1:  # NumPy breaks a long row over several lines
        return [group.replace("\n", " ").strip().rstrip(",") for group in groups]
    lines = re.split(r"[;\n\r]+", groups[0] if groups else bare)
    return [line for line in lines if line.strip()]


def _cells(name: str, i: int, row: str) -> list[str]:
    if _EMPTY_CELL.search(row):
        raise ValueError(f"{name} has an empty cell in row {i}; write 0 where nothing stands.")
    if all(pattern.search(row) for pattern in _DECIMAL_COMMA):
        raise ValueError(
            f"{name} has commas beside spaces in row {i}; write decimals with a point, and the same sign "
            f"between all numbers."
        )
    return [cell for cell in re.split(r"[,\s]+", row) if cell]


def _number(name: str, i: int, cell: str) -> int | float:
    if not _NUMBER.fullmatch(cell):
        raise ValueError(f"{name} has {cell[:20]!r} in row {i}, which is not a finite number; write digits.")
    if re.fullmatch(r"[+-]?\d+", cell):
        value = int(cell)
        if abs(value) >= 2**53:
            raise ValueError(
                f"{name} has {cell[:24]} in row {i}, but whole numbers are exact here only below 2**53; "
                f"write a smaller one."
            )
        return value
    number = float(cell)
    if not np.isfinite(number):
        raise ValueError(
            f"{name} has {cell[:24]} in row {i}, beyond the largest float64; write a smaller one."
        )
    return number
