"""How many cells work in a cycle, and how many products are formed by its end: closed forms, no loop.

A fold with r x c cells in use whose first cell begins in cycle s has cell (i, j) working in the cycles t with
0 <= t - s - i - j < T. Up to a cycle, as many cells have begun as the r x c rectangle has on its diagonals
0 .. t - s; those that have finished are the same count T cycles earlier. A count of diagonals is a sum of
triangular numbers, and folds that begin one after another at equal distance add up to sums of powers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_INT64 = 2**62


class Series(NamedTuple):
    """Folds of one shape, one after another at equal distance in time.

    Parameters
    ----------
    weight : int
        1, or -1 for folds that an earlier series counted in a shape that they do not have.
    folds, first, apart : int
        How many; cycle in which the first cell of the first one begins; cycles from one to the next.
    rows, cols : int
        Cells in use.
    """

    weight: int
    folds: int
    first: int
    apart: int
    rows: int
    cols: int


def series_of(
    row_extent: int, col_extent: int, rows: int, cols: int, first: int, interval: int
) -> tuple[Series, ...]:
    """Return at most six series that make up all folds: whole tiles, and what is cut at the two edges."""
    row_tiles, full_cols = -(-row_extent // rows), col_extent // cols
    cut_rows, cut_cols = row_extent % rows, col_extent % cols
    found = []
    for columns, width, before in ((full_cols, cols, 0), (1, cut_cols, full_cols * row_tiles)):
        if not columns or not width:
            continue
        start = first + before * interval
        found.append(Series(1, columns * row_tiles, start, interval, rows, width))
        if cut_rows:  # the last row tile of each column of tiles
            last = Series(
                1, columns, start + (row_tiles - 1) * interval, row_tiles * interval, cut_rows, width
            )
            found += [last._replace(weight=-1, rows=rows), last]
    return tuple(found)


def working(t: NDArray[Any], series: tuple[Series, ...], stream: int) -> NDArray[Any]:
    """Return how many cells work in each cycle of `t`."""
    return _count(t, series, stream, 1)


def formed(t: NDArray[Any], series: tuple[Series, ...], stream: int) -> NDArray[Any]:
    """Return how many products have been formed by the end of each cycle of `t`."""
    return _count(t, series, stream, 2)


def _count(t: NDArray[Any], series: tuple[Series, ...], stream: int, degree: int) -> NDArray[Any]:
    """Return a count over all folds: of one cycle (degree 1), or of all cycles up to it (degree 2)."""
    total = np.zeros(t.shape, np.int64)
    for weight, folds, first, apart, rows, cols in series:
        span = rows + cols + stream - 1  # cycles from the first cell's first product to the last one's last
        wide = span + apart
        exact = 64 * (wide // apart + 1) * wide ** (degree + 1) + folds * rows * cols * stream < _INT64
        at = t.astype(np.int64 if exact else object) - first
        # Folds that have ended add nothing to one cycle and all they had to a total; the others are summed.
        ended = np.minimum(np.maximum((at - span) // apart + 1, 0), folds)
        at, left = at - ended * apart, folds - ended
        for sign, lag in ((1, 0), (-1, stream)):
            for side, cut in ((1, 0), (-1, rows), (-1, cols), (1, rows + cols)):
                total = total + weight * sign * side * _sum(at + 1 - lag - cut, left, apart, degree)
        if degree == 2:
            total = total + weight * ended * (rows * cols * stream)
    return total


def _sum(x: NDArray[Any], folds: NDArray[Any], apart: int, degree: int) -> NDArray[Any]:
    """Return the sum of D(x - j * apart) over j < folds and x - j * apart > 0.

    D(x) is x(x + 1) / 2, the cells on the first x diagonals of a quarter plane (degree 1), or its running
    total x(x + 1)(x + 2) / 6 (degree 2).
    """
    q = np.minimum(np.maximum(-(-x // apart), 0), folds)
    one, two = q * (q - 1) // 2, (q - 1) * q * (2 * q - 1) // 6  # sums of j and of j * j
    first = q * x - apart * one
    second = q * x * x - 2 * x * apart * one + apart**2 * two
    total: NDArray[Any] = (second + first) // 2
    if degree == 2:
        third = q * x * x * x - 3 * x * x * apart * one + 3 * x * apart**2 * two - apart**3 * one * one
        total = (third + 3 * second + 2 * first) // 6
    return total
