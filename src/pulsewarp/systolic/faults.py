"""Machines with one rule broken: what each fault changes, and where it changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp import _checks
from pulsewarp.systolic import rules
from pulsewarp.systolic.dataflow import Axis, Dataflow
from pulsewarp.systolic.rules import Rules

FAULTS = MappingProxyType(
    {
        "no_skew": "All rows and columns get their streams at once, none waits for its neighbour.",
        "late_by_one": "The streams from the left enter one cycle late, those from the top in time.",
        "load_reversed": "The stationary tile is loaded with its first row first, so it stands upside down.",
        "fold_dropped": "The last fold is never run.",
        "added_twice": "A partial sum that re-entered the array is added to the earlier one once more.",
        "hop_of_two": "Moving values cover two cells a cycle and skip every second one.",
        "stuck_cell": "The product of one cell, at `row` and `col`, is always 0.",
    }
)
"""Kind of fault -> what it does to the machine, in one sentence."""


@_checks.class_names_keywords
@dataclass(frozen=True)
class Fault:
    """One rule of the array that is broken, for `simulate(..., fault=...)`.

    Modelled: the machine runs on by the broken rule, and its result is what comes out. Not modelled: several
    faults at once, and faults that come and go.

    Parameters
    ----------
    kind : str
        A key of `FAULTS`.
    row, col : int, optional
        The cell, for "stuck_cell" only.

    Raises
    ------
    ValueError
        For an unknown kind, a "stuck_cell" without its cell, or a cell with another kind.

    Examples
    --------
    Without skew, values that belong to different sums meet:

    >>> from pulsewarp import systolic
    >>> fault = systolic.Fault("no_skew")
    >>> trace = systolic.simulate([[1, 2], [3, 4]], [[5, 6], [7, 8]], rows=2, cols=2, fault=fault)
    >>> trace.result.tolist(), trace.verify().passed
    ([[33, 16], [15, 38]], False)
    """

    kind: str
    row: int | None = None
    col: int | None = None

    def __post_init__(self) -> None:
        _checks.choice("kind", self.kind, FAULTS)
        for name in ("row", "col"):
            place = getattr(self, name)
            if self.kind == "stuck_cell":
                if place is None:
                    raise ValueError(f"Fault 'stuck_cell' lacks its {name}; write row= and col=.")
                object.__setattr__(self, name, _checks.whole_number(name, place, least=0))
            elif place is not None:
                raise ValueError(
                    f"{name} is {place!r}, but fault {self.kind!r} is in no single cell; leave it out."
                )


def break_rules(fault: Fault, flow: Dataflow, sizes: dict[Axis, int], rows: int, cols: int) -> Rules:
    """Return the rules of the machine with this fault; refuse a fault that would change nothing in this run.

    Numbers can hide a fault all the same: where the skipped products are 0, the result is right.
    """
    row_extent, col_extent = sizes[flow.row_axis], sizes[flow.col_axis]
    used = f"this product uses {min(rows, row_extent)} x {min(cols, col_extent)} of {rows} x {cols} cells"
    says = remedy = ""
    if fault.kind in ("no_skew", "hop_of_two") and min(rows, row_extent) == min(cols, col_extent) == 1:
        says, remedy = used, "use at least two rows or columns of cells"
    elif fault.kind in ("load_reversed", "added_twice") and not flow.loads:
        says, remedy = (
            f"dataflow {flow.name!r} neither loads a tile nor adds to earlier sums",
            "use 'ws' or 'is'",
        )
    elif fault.kind == "load_reversed" and rows == 1:
        says, remedy = "the array has one row", "use at least two"
    elif fault.kind == "added_twice" and row_extent <= rows:
        says = f"k is {row_extent} and fits into {rows} rows, so that no sum enters again"
        remedy = "use fewer rows"
    elif fault.kind == "fold_dropped" and row_extent <= rows and col_extent <= cols:
        says, remedy = "this product takes one fold", "use a smaller array"
    elif (fault.row or 0) >= min(rows, row_extent) or (fault.col or 0) >= min(cols, col_extent):
        says, remedy = used, f"choose a cell it uses instead of ({fault.row}, {fault.col})"
    if says:
        raise ValueError(f"Fault {fault.kind!r} would change nothing: {says}; {remedy}.")
    return replace(rules.RULES, **_CHANGES[fault.kind](fault, cols))


def _stick(fault: Fault, cols: int) -> dict[str, Any]:
    assert fault.row is not None
    assert fault.col is not None
    cell = fault.row * cols + fault.col

    def multiply(right: NDArray[Any], other: NDArray[Any], *, out: NDArray[Any]) -> None:
        np.multiply(right, other, out=out)
        out[cell] = 0

    return {"multiply": multiply}


def _drop_last(row_extent: int, col_extent: int, rows: int, cols: int) -> Sequence[tuple[int, int]]:
    return rules.plan_tiles(row_extent, col_extent, rows, cols)[:-1]


_CHANGES: dict[str, Callable[[Fault, int], dict[str, Any]]] = {
    "no_skew": lambda fault, cols: dict.fromkeys(("skew_rows", "skew_cols"), lambda line: 0),
    "late_by_one": lambda fault, cols: {"skew_rows": lambda line: rules.skew(line) + 1},
    "load_reversed": lambda fault, cols: {"loading_row": lambda cycle, rows: cycle},
    "fold_dropped": lambda fault, cols: {"plan_tiles": _drop_last},
    "added_twice": lambda fault, cols: {"settle": lambda earlier, left: earlier + left},
    "hop_of_two": lambda fault, cols: {"travel": lambda cycles: 2 * rules.travel(cycles)},
    "stuck_cell": _stick,
}
