"""What each machine is charged for its work, cycle by cycle: counted from what happened in a trace."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from pulsewarp.systolic import REGISTERS, SystolicTrace


@dataclass(frozen=True, eq=False, repr=False)
class SystolicLedger:
    """Charges of a systolic array, each an int64 array of shape (T,): entry t counts cycles 0 to t.

    Parameters
    ----------
    macs : ndarray
        Multiply-adds.
    reads_a, reads_b : ndarray
        Elements of each operand that entered the array from outside.
    reads_partial : ndarray
        Partial sums of earlier folds that entered again.
    writes_out : ndarray
        Sums that left the array, partial ones included.
    hops : ndarray
        Values handed to the cell on the right or below: moving operands and moving sums.
    shifts : ndarray
        Values shifted down while a tile was loaded or results were drained.
    decisions : ndarray
        Decisions about what runs next: one a fold, none a cell.
    idle_cell_cycles : ndarray
        Cells times cycles in which a cell did not multiply.
    busy : ndarray
        Cells that multiply in cycle t (not summed up).
    """

    macs: NDArray[np.int64]
    reads_a: NDArray[np.int64]
    reads_b: NDArray[np.int64]
    reads_partial: NDArray[np.int64]
    writes_out: NDArray[np.int64]
    hops: NDArray[np.int64]
    shifts: NDArray[np.int64]
    decisions: NDArray[np.int64]
    idle_cell_cycles: NDArray[np.int64]
    busy: NDArray[np.int64]

    def at(self, t: int) -> dict[str, int]:
        """Return every charge after clock edge `t`, by name."""
        return {field.name: int(getattr(self, field.name)[t]) for field in fields(self)}

    def __repr__(self) -> str:
        charges = ", ".join(f"{name} {value}" for name, value in self.at(-1).items() if name != "busy")
        return f"SystolicLedger({self.macs.size} cycles: {charges})"


def systolic(trace: SystolicTrace) -> SystolicLedger:
    """Count what a systolic array is charged, by cycle.

    Counted: what crossed the array's edge, hopped or was multiplied while the array was stepped. Not counted:
    memory behind the edge, and the clock and control of cells that do nothing.

    Parameters
    ----------
    trace : SystolicTrace
        Of any size, unless made with trace=False.

    Returns
    -------
    SystolicLedger

    Raises
    ------
    ValueError
        For a trace made with trace=False.

    Examples
    --------
    Four weights are read once, and each of the eight products is formed once:

    >>> from pulsewarp import systolic as array
    >>> ledger = systolic(array.simulate([[1, 2], [3, 4]], [[5, 6], [7, 8]], rows=2, cols=2))
    >>> [ledger.at(-1)[charge] for charge in ("macs", "reads_a", "reads_b", "writes_out")]
    [8, 4, 4, 4]
    """
    schedule = trace.schedule
    column = {trace.roles[register]: REGISTERS.index(register) for register in REGISTERS}
    entered, moved = schedule.entered.astype(np.int64), schedule.moved.astype(np.int64)
    reads = {letter: entered[:, column[letter]] for letter in "abc"}
    cycle_of_fold = np.arange(trace.cycles) // trace.folds[0].cycles
    continues = np.array([fold.row0 > 0 and trace.roles["held"] != "c" for fold in trace.folds])
    starts = np.zeros(trace.cycles, np.int64)
    starts[[fold.start for fold in trace.folds]] = 1
    held = REGISTERS.index("held")
    busy = schedule.busy.astype(np.int64)
    return SystolicLedger(
        macs=_total(busy),
        reads_a=_total(reads["a"]),
        reads_b=_total(reads["b"]),
        reads_partial=_total(np.where(continues[cycle_of_fold], reads["c"], 0)),
        writes_out=_total(schedule.exited),
        hops=_total(moved.sum(axis=1) - moved[:, held]),
        shifts=_total(moved[:, held]),
        decisions=_total(starts),
        idle_cell_cycles=_total(trace.rows * trace.cols - busy),
        busy=_read_only(busy),
    )


def _total(by_cycle: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the running total of a count by cycle, read-only."""
    return _read_only(np.cumsum(by_cycle, dtype=np.int64))


def _read_only(array: NDArray[np.int64]) -> NDArray[np.int64]:
    array.flags.writeable = False
    return array
