"""What every register must hold after one clock edge, worked out element by element, not cell by cell.

Written apart from what steps the array and from what looks registers up: it asks where each element of the
operands has got to by now, from the closed form of the schedule (H. T. Kung, "Why systolic architectures?",
Computer 15(1), 1982) and nothing that the trace has noted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp._text import counted
from pulsewarp.systolic.cost import cost_of
from pulsewarp.systolic.dataflow import AXES, Axis, Letter
from pulsewarp.systolic.registers import REGISTERS, Check
from pulsewarp.systolic.trace import SystolicTrace

_AT_ONCE = 2**18  # products formed at a time while sums are added up


def check_frame(trace: SystolicTrace, t: int) -> Check:
    """Compare every register of cycle `t` with the element that must be in it."""
    found, due = trace.registers(t), _Frame(trace, t)
    wrong: list[str] = []
    right = count = 0
    for register in due.index:
        index, value = due.index[register], due.value(register)
        held = getattr(found, f"{register}_index"), getattr(found, register)
        same = (held[0] == index) & ((held[1] == value) | (np.isnan(held[1]) & np.isnan(value)))
        right, count = right + int(np.count_nonzero(same)), count + same.size
        for r, c in np.argwhere(~same)[:1].tolist():
            letter = trace.roles["held" if register == "shadow" else register]
            is_there, must = (
                f"{_element(letter, int(where[r, c]), trace)} = {what[r, c]}"
                for where, what in (held, (index, value))
            )
            wrong.append(f"{register} of cell ({r}, {c}) is {is_there} instead of {must}")
    idle = int(np.count_nonzero(found.active != due.active))
    if idle:
        wrong.append(f"{counted(idle, 'cell')} multiply or rest where they should not")
    says = (
        f"cycle {t}: {right} of {count} registers hold the element and the value that they must, "
        f"{np.count_nonzero(found.active)} of {found.active.size} cells multiply"
    )
    return Check("frame", not wrong, "; ".join([says, *wrong]))


def _element(letter: Letter, index: int, trace: SystolicTrace) -> str:
    """Return the name of an element, such as a[1, 2]."""
    if index < 0:
        return "nothing"
    first, second = divmod(index, trace.sizes[AXES[letter][1]])
    return f"{letter}[{first}, {second}]"


class _Frame:
    """The elements in the array after one clock edge, each put where it must be by then."""

    def __init__(self, trace: SystolicTrace, t: int) -> None:
        self.trace, self.t, self.cost = trace, t, cost_of(trace)
        shape = (trace.rows, trace.cols)
        names = (*REGISTERS, "shadow") if trace.overlap else REGISTERS
        self.index = {name: np.full(shape, -1, np.int32) for name in names}
        self.terms = {name: np.zeros(shape, np.int64) for name in names}
        self.active = np.zeros(shape, bool)
        for row0, col0, origin, last in self._folds():
            rows = np.arange(min(trace.rows, trace.sizes[trace.flow.row_axis] - row0))
            cols = np.arange(min(trace.cols, trace.sizes[trace.flow.col_axis] - col0))
            self._put_streams(row0, col0, t - origin, rows, cols)
            put = self._put_sums if trace.dataflow == "os" else self._put_tile
            put(row0, col0, t - origin, rows[:, None], cols, last)
            since = t - origin - rows[:, None] - cols
            self.active[: rows.size, : cols.size] |= (since >= 0) & (since < trace.stream)

    def _folds(self) -> Iterator[tuple[int, int, int, bool]]:
        """Yield first row, first column, first product's cycle and being the last, of each fold under way."""
        trace, cost = self.trace, self.cost
        # A tile is held until the next one's stream comes; until then its fold has something in the array.
        first = max(0, (self.t - cost.cycles_per_fold) // cost.interval - (1 if trace.overlap else 0))
        for f in range(first, min(self.t // cost.interval + 1, cost.folds)):
            if trace.overlap or self.t < (f + 1) * cost.interval:
                col, row = divmod(f, cost.row_tiles)
                yield (
                    row * trace.rows,
                    col * trace.cols,
                    f * cost.interval + cost.load,
                    f == cost.folds - 1,
                )

    def _put_streams(self, row0: int, col0: int, since: int, rows: NDArray[Any], cols: NDArray[Any]) -> None:
        """Put each element of both streams as many cells from its edge as cycles have passed since then."""
        trace, flow = self.trace, self.trace.flow
        first = max(0, since - trace.rows - trace.cols)  # earlier steps have left
        steps = np.arange(first, min(trace.stream, since + 1))
        line, step = rows[:, None], steps
        at: dict[Axis, NDArray[Any]] = {flow.row_axis: row0 + line, flow.stream_axis: step}
        self._put("right", flow.right, at, line, since - line - step)
        line, step = cols, steps[:, None]
        at = {flow.col_axis: col0 + line, flow.stream_axis: step}
        row = since - line - step
        # A sum has the products of the rows it has been through, which the tile may have fewer of.
        self._put("down", flow.down, at, row, line, terms=row0 + np.minimum(row + 1, rows.size))

    def _put_tile(
        self, row0: int, col0: int, since: int, row: NDArray[Any], col: NDArray[Any], last: bool
    ) -> None:
        """Put each stationary element where it is on its way to its cell, in its shadow, or in the cell."""
        trace, flow = self.trace, self.trace.flow
        at: dict[Axis, NDArray[Any]] = {flow.row_axis: row0 + row, flow.col_axis: col0 + col}
        # The bottom row enters first, in the first of as many cycles as the array has rows.
        entered = since + trace.rows - (trace.rows - 1 - row)
        if not trace.overlap:
            self._put("held", flow.held, at, np.minimum(row, entered), col)
            return
        entered, reached = entered - col, since - row - col
        left = reached >= (self.cost.interval if not last else np.inf)
        self._put("shadow", flow.held, at, np.where(reached < 0, np.minimum(row, entered), -1), col)
        self._put("held", flow.held, at, np.where((reached >= 0) & ~left, row, -1), col)

    def _put_sums(
        self, row0: int, col0: int, since: int, row: NDArray[Any], col: NDArray[Any], last: bool
    ) -> None:
        """Put each sum of "os" into its cell, from its first product on, or where it is on its way out."""
        trace, flow = self.trace, self.trace.flow
        at: dict[Axis, NDArray[Any]] = {flow.row_axis: row0 + row, flow.col_axis: col0 + col}
        terms = np.clip(since - row - col + 1, 0, trace.stream)
        begun = since - row - col >= 0
        if not trace.overlap:
            sunk = max(since - (trace.rows + trace.cols + trace.stream - 2) + 1, 0)
            self._put("held", "c", at, np.where(begun, row + sunk, -1), col, terms)
            return
        finished = since - row - col >= trace.stream
        sunk_by = np.maximum(since - (trace.rows - 1 + trace.stream) - col + 1, 0)
        self._put("held", "c", at, np.where(begun & ~finished, row, -1), col, terms)
        self._put("shadow", "c", at, np.where(finished, row + sunk_by, -1), col, terms)

    def _put(
        self,
        register: str,
        letter: Letter,
        at: dict[Axis, NDArray[Any]],
        row: NDArray[Any],
        col: NDArray[Any],
        terms: NDArray[Any] | None = None,
    ) -> None:
        """Write the elements with these indices to the cells they are in; those outside the array to none."""
        first, second = AXES[letter]
        flat = at[first] * self.trace.sizes[second] + at[second]
        flat, row, col = np.broadcast_arrays(flat, row, col)
        inside = (row >= 0) & (row < self.trace.rows) & (col >= 0) & (col < self.trace.cols)
        self.index[register][row[inside], col[inside]] = flat[inside]
        if terms is not None:
            self.terms[register][row[inside], col[inside]] = np.broadcast_to(terms, flat.shape)[inside]

    def value(self, register: str) -> NDArray[Any]:
        """Return the values of a register: 0 for nothing, an operand's element, or a sum as far as it is."""
        trace, index = self.trace, self.index[register]
        letter = trace.roles["held" if register == "shadow" else register]
        value = np.zeros(index.shape, trace.result.dtype)
        there = index >= 0
        if letter == "c":
            value[there] = self._sums(index[there], self.terms[register][there])
        else:
            operand = trace.a if letter == "a" else trace.b
            value[there] = operand.reshape(-1)[index[there]].astype(value.dtype)
        return value

    def _sums(self, index: NDArray[Any], terms: NDArray[Any]) -> NDArray[Any]:
        """Return the sums of the first `terms` products of results, added one after another."""
        trace, kind = self.trace, self.trace.result.dtype
        a, b = trace.a.T.astype(kind), trace.b.astype(kind)
        sums = np.empty(index.size, kind)
        at_once = max(1, _AT_ONCE // (trace.k + 1))
        for first in range(0, index.size, at_once):
            span = slice(first, first + at_once)
            m, n = np.divmod(index[span], trace.n)
            most = int(terms[span].max())
            so_far = np.zeros((most + 1, m.size), kind)
            np.multiply(a[:most, m], b[:most, n], out=so_far[1:])
            np.add.accumulate(so_far, axis=0, dtype=kind, out=so_far)
            sums[span] = so_far[terms[span], np.arange(m.size)]
        return sums
