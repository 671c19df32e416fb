"""What is noted about a run: the three registers of a cell, when cells work, what checks of it found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pulsewarp._report import Check as Check  # what checks found is the same for every kind of run
from pulsewarp._report import Report as Report

PHASES = ("load", "fill", "steady", "drain")
"""Names of the values of `SystolicTrace.phase`. "load": the stationary tile is shifted in. "fill": more
and more cells work. "steady": all cells that the fold uses work. "drain": the first cell has finished. Where
folds overlap, the run as a whole has these phases once: it fills until all cells of the first fold work, and
drains from when the first cell has finished the last one."""

REGISTERS = ("held", "right", "down")
"""The three registers of a cell, in the order of the columns of `Schedule.entered` and `Schedule.moved`."""


class Probe(NamedTuple):
    """The three registers of one cell after one clock edge."""

    cycle: int
    row: int
    col: int
    held: int | float
    right: int | float
    down: int | float


@dataclass(frozen=True, eq=False)
class Registers:
    """Registers of cells: values, and the flat index of the element each belongs to (-1: nothing there).

    Parameters
    ----------
    held, right, down : ndarray, shape ([T,] R, C)
        Values, in the accumulator's type; 0 where nothing is.
    held_index, right_index, down_index : ndarray of int32, same shape
        Row-major index into the matrix that `SystolicTrace.roles` names for the register.
    active : ndarray of bool, same shape
        Whether the cell multiplies in this cycle.
    shadow, shadow_index : ndarray or None
        The same for the shadow registers, whose matrix is that of `held`; None where folds do not overlap.
    """

    held: NDArray[Any]
    right: NDArray[Any]
    down: NDArray[Any]
    held_index: NDArray[np.int32]
    right_index: NDArray[np.int32]
    down_index: NDArray[np.int32]
    active: NDArray[np.bool_]
    shadow: NDArray[Any] | None = None
    shadow_index: NDArray[np.int32] | None = None

    def __repr__(self) -> str:
        return f"Registers(shape={self.active.shape}, values={self.held.dtype})"


@dataclass(frozen=True, eq=False)
class Schedule:
    """When each cell worked and what moved in each cycle, as seen while stepping.

    Parameters
    ----------
    start : ndarray of int32, shape (F, R, C)
        First cycle in which a cell multiplies in a fold, -1 for never.
    length : ndarray of int32, shape (F, R, C)
        Cycles in which it multiplies.
    phase : ndarray of int8, shape (T,)
        Index into `PHASES`.
    busy : ndarray of int32, shape (T,)
        Cells that multiply.
    entered, moved : ndarray of int32, shape (T, 3)
        Values that come in from outside, and that come from the neighbouring cell, by register (`REGISTERS`).
        Where folds overlap, "held" counts what is shifted through the shadow registers.
    reentered : ndarray of int32, shape (T,)
        Values among those of `entered` that are partial sums of an earlier fold.
    exited : ndarray of int32, shape (T,)
        Sums that leave.
    """

    start: NDArray[np.int32]
    length: NDArray[np.int32]
    phase: NDArray[np.int8]
    busy: NDArray[np.int32]
    entered: NDArray[np.int32]
    moved: NDArray[np.int32]
    reentered: NDArray[np.int32]
    exited: NDArray[np.int32]

    def __repr__(self) -> str:
        return f"Schedule(cycles={self.phase.size}, folds={self.start.shape[0]})"
