"""Which cell explains these wrong results: what is known of a faulty cell from outside the array."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp import _checks
from pulsewarp._arrays import equal_values, freeze
from pulsewarp._text import counted
from pulsewarp.systolic.dataflow import AXES, Axis, coordinates
from pulsewarp.systolic.trace import SystolicTrace

Cells = tuple[tuple[int, int], ...]

_LINES: dict[Axis, str] = {"m": "row", "n": "column"}


@dataclass(frozen=True)
class Clue:
    """One step of the search: the cells it leaves, in row-major order, and why, in a sentence."""

    name: str
    cells: Cells
    says: str


@dataclass(frozen=True, eq=False, repr=False)
class Suspects:
    """The cells that may be the one whose product is always 0.

    Parameters
    ----------
    cells : tuple of (row, col)
        Those that explain every result, in row-major order.
    clues : tuple of Clue
        "where": cells that add to every wrong result; "how much": of those, the cells without whose products
        the results are exactly the wrong ones.
    wrong : tuple of (m, n)
        The wrong results, in row-major order.
    sound, seen : ndarray, shape (m, n)
        The product as it should be and as it was delivered.
    """

    cells: Cells
    clues: tuple[Clue, ...]
    wrong: tuple[tuple[int, int], ...]
    sound: NDArray[Any]
    seen: NDArray[Any]
    _trace: SystolicTrace = field(repr=False)
    _among: frozenset[tuple[int, int]] = field(repr=False)

    @_checks.names_keywords
    def verdict(self, row: int, col: int) -> str:
        """Say whether one cell explains the results, and why or why not.

        Parameters
        ----------
        row, col : int
            The cell, from 0.

        Returns
        -------
        str
            Two or three sentences, with the number of cells that remain.

        Raises
        ------
        ValueError
            For a cell outside the array.

        Examples
        --------
        >>> from pulsewarp import systolic
        >>> a, b = [[1, 2], [3, 4]], [[5, 6], [7, 8]]
        >>> sound = systolic.simulate(a, b, rows=2, cols=2)
        >>> fault = systolic.Fault("stuck_cell", row=1, col=0)
        >>> broken = systolic.simulate(a, b, rows=2, cols=2, fault=fault)
        >>> print(systolic.suspects(sound, broken).verdict(0, 0))
        Not cell (0,0): without its products C[0,0] would be 14, but it is 5. 1 cell explains every result.
        """
        trace = self._trace
        row = _checks.whole_number("row", row, least=0, most=trace.rows - 1)
        col = _checks.whole_number("col", col, least=0, most=trace.cols - 1)
        where, cell = self.clues[0], f"({row},{col})"
        if (row, col) in self.cells:
            return self._fits(row, col)
        if (row, col) not in self._among:
            return f"Not cell {cell}: it was ruled out before. {_remain(self.cells)}"
        touched = _touched(trace, row, col)
        if not touched.any():
            return f"Not cell {cell}: this product does not use it. {_remain(self.cells)}"
        if self.wrong and not all(touched[place] for place in self.wrong):
            return (
                f"Not cell {cell}: it adds to {_place(trace, touched)} only, but the wrong results lie in "
                f"{_place(trace, _marked(self.wrong, touched.shape))}. "
                f"{_count(where.cells)} to all of them."
            )
        without = _without(trace, row, col)
        m, n = (int(i) for i in np.argwhere(~equal_values(without, self.seen))[0])
        return (
            f"Not cell {cell}: without its products C[{m},{n}] would be {without[m, n]}, but it is "
            f"{self.seen[m, n]}. {_remain(self.cells)}"
        )

    def _fits(self, row: int, col: int) -> str:
        cell, others = f"({row},{col})", len(self.cells) - 1
        if not self.wrong:
            return (
                f"Cell {cell} may be faulty: without its products every result would be the same. "
                f"{_remain(self.cells)}"
            )
        m, n = self.wrong[0]
        ks = np.flatnonzero(_work(self._trace, row, col)["k"]).tolist()
        products = [f"A[{m},{k}] x B[{k},{n}]" for k in ks]
        lacks = " and ".join(products) if len(products) <= 2 else f"its {len(products)} products"
        gap = f"without {lacks}, C[{m},{n}] is {self.seen[m, n]} instead of {self.sound[m, n]}"
        if len(self.wrong) > 1:
            rest = f"{len(self.wrong) - 1} wrong results" if len(self.wrong) > 2 else "wrong result"
            gap += f", and its other products explain the other {rest}"
        if others:
            return (
                f"Cell {cell} fits: {gap}. So {'does' if others == 1 else 'do'} "
                f"{counted(others, 'other cell')}: this product cannot tell them apart."
            )
        return f"Cell {cell}: {gap}. No other cell does."

    def __repr__(self) -> str:
        total = self._trace.rows * self._trace.cols
        names = ", ".join(f"({r},{c})" for r, c in self.cells[:8]) + (", ..." if len(self.cells) > 8 else "")
        first = f"{len(self.cells)} of {total} cells may be the faulty one" + (f": {names}" if names else "")
        return "\n".join([first, *(f"{clue.name}: {clue.says}" for clue in self.clues)])


@_checks.names_keywords
def suspects(
    sound: SystolicTrace, broken: SystolicTrace, *, among: Iterable[tuple[int, int]] | None = None
) -> Suspects:
    """Find the cells whose product, were it always 0, would give exactly the results of `broken`.

    Modelled: one faulty cell that contributes 0 instead of its product, in every fold that uses it. Only the
    operands, the array and the two results are looked at, never a register or what `broken` says about its
    fault. Not modelled: faults of other kinds, several at a time, cells that fail now and then.

    Parameters
    ----------
    sound, broken : SystolicTrace
        The same product on the same array by the same dataflow, without and with a fault.
    among : iterable of (row, col), optional
        Cells to choose from, for instance `cells` of an earlier test product; all without it.

    Returns
    -------
    Suspects
        The cells, and the clues that lead to them.

    Raises
    ------
    ValueError
        When the traces are not of the same product, array and dataflow, or a cell lies outside the array.

    Notes
    -----
    Weight-stationary: cell (r, c) forms a[m, k] * b[k, n] for the k and n that fall on it, so where results
    are wrong tells c, and how wrong they are tells r. Where two cells would leave the same gap, another test
    product tells them apart: the idea of a test set for single stuck faults (J. P. Roth, "Diagnosis of
    automata failures", IBM Journal of Research and Development 10(4), 1966), here by trying every cell.

    Examples
    --------
    Rows that are alike cannot tell the cells of a column apart; the unit matrix can:

    >>> from pulsewarp import systolic
    >>> weights, fault = [[5, 6], [5, 6]], systolic.Fault("stuck_cell", row=1, col=0)
    >>> def results(a):
    ...     sound = systolic.simulate(a, weights, rows=2, cols=2)
    ...     return sound, systolic.simulate(a, weights, rows=2, cols=2, fault=fault)
    >>> systolic.suspects(*results([[1, 1]])).cells
    ((0, 0), (1, 0))
    >>> systolic.suspects(*results([[1, 0], [0, 1]])).cells
    ((1, 0),)
    """
    _same_product(sound, broken)
    candidates = _candidates(sound, among)
    seen, start = broken.result, len(candidates)
    wrong = ~equal_values(sound.result, seen)
    at = tuple((int(m), int(n)) for m, n in np.argwhere(wrong))
    near = tuple(cell for cell in candidates if not wrong[~_touched(sound, *cell)].any())
    exact = tuple(cell for cell in near if equal_values(_without(sound, *cell), seen).all())
    of_before = f"of {counted(start, 'cell')}"
    if not at:
        where = f"all {seen.size} results are right, which excludes no cell: {len(near)} {of_before} left"
        much = f"{len(exact)} of these make no difference to any result"
    else:
        verb = "lies" if len(at) == 1 else "lie"
        where = (
            f"{counted(len(at), 'wrong result')} of {seen.size} {verb} in {_place(sound, wrong)}; "
            f"{len(near)} {of_before} {'adds' if len(near) == 1 else 'add'} to all of them"
        )
        m, n = at[0]
        much = (
            f"C[{m},{n}] is {seen[m, n]} instead of {sound.result[m, n]}; of these cells {len(exact)} "
            f"{'leaves' if len(exact) == 1 else 'leave'} exactly such gaps"
        )
    clues = (Clue("where", near, where), Clue("how much", exact, much))
    return Suspects(exact, clues, at, sound.result, seen, sound, frozenset(candidates))


def _same_product(sound: SystolicTrace, broken: SystolicTrace) -> None:
    """Refuse two traces that are not of one product on one array."""
    for name, trace in (("sound", sound), ("broken", broken)):
        _checks.instance(name, trace, SystolicTrace, "make one with systolic.simulate")
    if sound.fault is not None:
        raise ValueError(
            f"sound has the fault {sound.fault.kind!r}; pass the trace without a fault first, the broken one "
            f"second."
        )
    for what, one, other in (
        ("dataflow", sound.dataflow, broken.dataflow),
        ("array", f"{sound.rows} x {sound.cols}", f"{broken.rows} x {broken.cols}"),
        ("shapes", (sound.m, sound.k, sound.n), (broken.m, broken.k, broken.n)),
    ):
        if one != other:
            raise ValueError(
                f"sound and broken differ in {what}: {one} and {other}; simulate the same product twice, "
                f"once with fault=."
            )
    for name in ("a", "b"):
        if not np.array_equal(getattr(sound, name), getattr(broken, name)):
            raise ValueError(
                f"sound and broken have different values of {name}; simulate the same product twice, "
                f"once with fault=."
            )


def _candidates(trace: SystolicTrace, among: Iterable[tuple[int, int]] | None) -> Cells:
    """Return the cells to choose from in row-major order."""
    if among is None:
        return tuple((r, c) for r in range(trace.rows) for c in range(trace.cols))
    cells = set()
    for cell in _checks.several("among", among, "write [(row, col), ...]"):
        if not isinstance(cell, tuple | list) or len(cell) != 2:
            raise ValueError(f"Cell {cell!r} is not (row, col); write two whole numbers.")
        cells.add(
            (
                _checks.whole_number("a cell's row", cell[0], least=0, most=trace.rows - 1),
                _checks.whole_number("a cell's column", cell[1], least=0, most=trace.cols - 1),
            )
        )
    return tuple(sorted(cells))


def _work(trace: SystolicTrace, row: int, col: int) -> dict[Axis, NDArray[np.bool_]]:
    """Return which indices along the array's two axes fall on a cell in some fold: its share of the product.

    A fold is a full rectangle of cells, so the share is the product of the two.
    """
    flow = trace.flow
    share: dict[Axis, NDArray[np.bool_]] = {axis: np.ones(size, bool) for axis, size in trace.sizes.items()}
    share[flow.row_axis][:] = share[flow.col_axis][:] = False
    for fold in trace.folds:
        if row < fold.rows:
            share[flow.row_axis][fold.row0 + row] = True
        if col < fold.cols:
            share[flow.col_axis][fold.col0 + col] = True
    return share


def _touched(trace: SystolicTrace, row: int, col: int) -> NDArray[np.bool_]:
    """Return which elements of the result a cell adds a product to."""
    share = _work(trace, row, col)
    if not share["k"].any():
        return np.zeros((trace.m, trace.n), bool)
    return np.logical_and.outer(share["m"], share["n"])


def _without(trace: SystolicTrace, row: int, col: int) -> NDArray[Any]:
    """Return the result with one cell's products taken as 0, added in the order of k, as the array adds."""
    result, touched, k = trace.result, _touched(trace, row, col), _work(trace, row, col)["k"]
    total = np.zeros_like(result)
    for i in range(trace.k):
        product = trace.a[:, i, None].astype(result.dtype) * trace.b[i].astype(result.dtype)
        total += np.where(touched & k[i], np.zeros_like(product), product)
    return freeze(total)


def _marked(places: Iterable[tuple[int, int]], shape: tuple[int, ...]) -> NDArray[np.bool_]:
    marks = np.zeros(shape, bool)
    for place in places:
        marks[place] = True
    return marks


def _place(trace: SystolicTrace, elements: NDArray[np.bool_]) -> str:
    """Say where elements of the result lie: by the lines of C that fall on one line of the array."""
    along: list[Axis] = [axis for axis in AXES["c"] if axis in (trace.flow.row_axis, trace.flow.col_axis)]
    found = coordinates("c", np.flatnonzero(elements), trace.sizes)
    if len(along) == 2:  # output-stationary: each element has a cell of its own
        names = [f"C[{m},{n}]" for m, n in zip(found["m"].tolist(), found["n"].tolist(), strict=True)]
        return _listed(names)
    lines = np.unique(found[along[0]]).tolist()
    return f"{_LINES[along[0]]}{'' if len(lines) == 1 else 's'} {_listed(lines)} of C"


def _listed(names: list[Any]) -> str:
    shown = [str(name) for name in names[:4]]
    if len(names) > 4:
        return f"{', '.join(shown)} and {len(names) - 4} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _count(cells: Cells) -> str:
    return "1 cell adds" if len(cells) == 1 else f"{len(cells)} cells add"


def _remain(cells: Cells) -> str:
    """Say how many cells explain the results."""
    if not cells:
        return "No cell with a product of 0 explains the results."
    return f"{counted(len(cells), 'cell')} {'explains' if len(cells) == 1 else 'explain'} every result."
