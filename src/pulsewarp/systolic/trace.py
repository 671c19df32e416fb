"""What a run of the array leaves behind: registers and schedule by cycle, products, exits, result."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp import _checks
from pulsewarp._arrays import freeze
from pulsewarp._text import counted
from pulsewarp.systolic.dataflow import DATAFLOWS, Axis, Dataflow, Letter, coordinates
from pulsewarp.systolic.faults import Fault
from pulsewarp.systolic.registers import Check, Probe, Registers, Report, Schedule
from pulsewarp.systolic.rules import Fold

ROW_LIMIT = 2**24
"""The most rows that `macs` and `exits` list."""


@dataclass(frozen=True, eq=False, repr=False)
class SystolicTrace:
    """One product on one array: T cycles of R x C cells.

    The first axis of every array is the cycle; entry t is the state after clock edge t, when the products of
    cycle t are in the sums. Cycles are counted from 0. Which arrays are kept depends on the size of the run:
    see `has_registers` and `has_schedule`.

    Parameters
    ----------
    dataflow : str
        "ws", "os" or "is".
    rows, cols : int
        Size of the array, R and C.
    m, k, n : int
        Sizes of the product.
    a, b, result : ndarray
        The operands as given and the product in the accumulator's type.
    cycles : int
        T.
    folds : tuple of Fold
        In order of execution.
    overlap : bool
        Whether cells have shadow registers, so that folds overlap in time.
    fault : Fault or None
        The rule that was broken in this machine, None for a sound one. `macs` then lists what was multiplied,
        with the k of the operand that moves (in "os", down).
    probed : tuple of Probe
        What the probes saw.
    kept_registers : Registers or None
        Every register of every cycle.
    kept_schedule : Schedule or None
        When each cell worked.
    """

    dataflow: str
    rows: int
    cols: int
    m: int
    k: int
    n: int
    a: NDArray[Any]
    b: NDArray[Any]
    result: NDArray[Any]
    cycles: int
    folds: tuple[Fold, ...]
    overlap: bool
    fault: Fault | None
    probed: tuple[Probe, ...]
    kept_registers: Registers | None
    kept_schedule: Schedule | None

    @property
    def has_registers(self) -> bool:
        """Whether the registers of all cycles are kept (up to 2**21 cell-cycles)."""
        return self.kept_registers is not None

    @property
    def has_schedule(self) -> bool:
        """Whether `start`, `length` and the counts by cycle are kept (unless made with trace=False)."""
        return self.kept_schedule is not None

    @property
    def flow(self) -> Dataflow:
        """The dataflow with its roles and axes."""
        return DATAFLOWS[self.dataflow]

    @property
    def roles(self) -> dict[str, Letter]:
        """Register name -> letter of the matrix it carries, "a", "b" or "c" (the result)."""
        return self.flow.roles

    @property
    def sizes(self) -> dict[Axis, int]:
        """The product's sizes by the name of their index."""
        return {"m": self.m, "n": self.n, "k": self.k}

    @property
    def stream(self) -> int:
        """Steps of a fold's stream: the cycles in which each cell in use works."""
        return self.sizes[self.flow.stream_axis]

    @property
    def schedule(self) -> Schedule:
        """When each cell worked; raises a ValueError when the trace keeps none."""
        if self.kept_schedule is None:
            raise ValueError(
                "This trace was made with trace=False and keeps no schedule; simulate with trace=True."
            )
        return self.kept_schedule

    @property
    def start(self) -> NDArray[np.int32]:
        """First cycle of each cell in each fold, -1 for never; shape (F, R, C)."""
        return self.schedule.start

    @property
    def length(self) -> NDArray[np.int32]:
        """Cycles in which each cell works in each fold; shape (F, R, C)."""
        return self.schedule.length

    @property
    def phase(self) -> NDArray[np.int8]:
        """Index into `PHASES` for each cycle; shape (T,)."""
        return self.schedule.phase

    @property
    def held(self) -> NDArray[Any]:
        """Values that stay in their cell; shape (T, R, C)."""
        return self._all_registers.held

    @property
    def right(self) -> NDArray[Any]:
        """Values on their way to the right; shape (T, R, C)."""
        return self._all_registers.right

    @property
    def down(self) -> NDArray[Any]:
        """Values on their way down; shape (T, R, C)."""
        return self._all_registers.down

    @property
    def held_index(self) -> NDArray[np.int32]:
        """Which element each value of `held` is; shape (T, R, C)."""
        return self._all_registers.held_index

    @property
    def right_index(self) -> NDArray[np.int32]:
        """Which element each value of `right` is; shape (T, R, C)."""
        return self._all_registers.right_index

    @property
    def down_index(self) -> NDArray[np.int32]:
        """Which element each value of `down` is; shape (T, R, C)."""
        return self._all_registers.down_index

    @property
    def active(self) -> NDArray[np.bool_]:
        """Whether a cell multiplies in a cycle; shape (T, R, C)."""
        return self._all_registers.active

    @property
    def shadow(self) -> NDArray[Any]:
        """Values in the shadow registers, with overlapping folds only; shape (T, R, C)."""
        self._refuse_shadow()
        shadow = self._all_registers.shadow
        assert shadow is not None
        return shadow

    @property
    def shadow_index(self) -> NDArray[np.int32]:
        """Which element each value of `shadow` is; shape (T, R, C)."""
        self._refuse_shadow()
        index = self._all_registers.shadow_index
        assert index is not None
        return index

    @property
    def stationary(self) -> NDArray[Any]:
        """The registers that stay: another name for `held`."""
        return self.held

    @property
    def moving(self) -> NDArray[Any]:
        """The registers that move right: another name for `right`."""
        return self.right

    @property
    def partial(self) -> NDArray[Any]:
        """The registers that hold partial sums: `down`, for "os" `held`."""
        return self.down if self.flow.loads else self.held

    @property
    def _all_registers(self) -> Registers:
        if self.kept_registers is None:
            raise ValueError(
                f"This trace of {self.cycles} x {self.rows} x {self.cols} cell-cycles does not keep every "
                f"register; ask for one cycle with registers(t), or simulate a run of at most 2**21 of them."
            )
        return self.kept_registers

    @_checks.names_keywords
    def registers(self, t: int, rows: slice = slice(None), cols: slice = slice(None)) -> Registers:
        """Return the registers of a window of cells after clock edge `t`.

        Kept registers are cut out; where only the schedule is kept, values are looked up in the operands by
        it and sums are added up in the order in which the array added them, bit for bit.

        Parameters
        ----------
        t : int
            Cycle, from 0.
        rows, cols : slice
            Which cells; all without it.

        Returns
        -------
        Registers
            Arrays of the window's shape.

        Raises
        ------
        ValueError
            For a cycle outside the run, or a trace made with trace=False.

        Examples
        --------
        After clock edge 2 the first sum has its first product, 1 * 5, in the upper left cell:

        >>> from pulsewarp import systolic
        >>> trace = systolic.simulate([[1, 2], [3, 4]], [[5, 6], [7, 8]], rows=2, cols=2)
        >>> trace.registers(2).down.tolist()
        [[5, 0], [0, 0]]
        """
        t = self._checked_cycle("t", t)
        for name, cells in (("rows", rows), ("cols", cols)):
            _checks.instance(name, cells, slice, "write slice(first, last + 1)")
        if self.kept_registers is None:
            from pulsewarp.systolic import window  # it needs this class

            self._refuse_lookup()
            return window.recompute(self, t, rows, cols)
        kept = self.kept_registers
        names = [field.name for field in fields(kept)]
        parts = {name: getattr(kept, name) for name in names}
        cut: dict[str, Any] = {
            name: freeze(part[t, rows, cols]) for name, part in parts.items() if part is not None
        }
        return Registers(**cut)

    def macs(self) -> NDArray[np.int32]:
        """Return every multiply-add: rows (cycle, row, col, m, n, k), sorted by cycle, row, column.

        Returns
        -------
        ndarray of int32, shape (m * n * k, 6)

        Raises
        ------
        ValueError
            When there are more than 2**24 of them, or the trace was made with trace=False.

        Examples
        --------
        In cycle 3 of a 2 x 2 product the third of its three working cells is the lower left one:

        >>> from pulsewarp import systolic
        >>> trace = systolic.simulate([[1, 2], [3, 4]], [[5, 6], [7, 8]], rows=2, cols=2)
        >>> [row.tolist() for row in trace.macs() if row[0] == 3]
        [[3, 0, 0, 1, 0, 0], [3, 0, 1, 0, 1, 0], [3, 1, 0, 0, 0, 1]]
        """
        self._refuse_rows(self.m * self.n * self.k, "multiply-adds")
        if self.kept_registers is None:
            from pulsewarp.systolic import window  # it needs this class

            self._refuse_lookup()
            return window.scheduled_macs(self)
        kept = self.kept_registers
        cycle, row, col = np.nonzero(kept.active)
        found: dict[Axis, NDArray[Any]] = {}
        for register, letter in self.roles.items():
            if letter != "c":
                index = getattr(kept, f"{register}_index")[cycle, row, col]
                found |= coordinates(letter, index, self.sizes)
        columns = (cycle, row, col, found["m"], found["n"], found["k"])
        return np.stack(columns, axis=1).astype(np.int32)

    def exits(self) -> NDArray[np.int32]:
        """Return every sum that leaves: rows (cycle, col, m, n, final), sorted by cycle, column.

        `final` is 0 for a partial sum that a later fold over k continues, else 1. In "ws" and "is" a sum
        leaves in the cycle in which it is in the bottom row; in "os" in the cycle that shifts it out.

        Returns
        -------
        ndarray of int32, shape (sums, 5)

        Raises
        ------
        ValueError
            When there are more than 2**24 of them, or the trace was made with trace=False.

        Examples
        --------
        The first sum, 1 * 5 + 2 * 7 = 19, is in the bottom row after clock edge 3:

        >>> from pulsewarp import systolic
        >>> trace = systolic.simulate([[1, 2], [3, 4]], [[5, 6], [7, 8]], rows=2, cols=2)
        >>> trace.exits()[0].tolist()
        [3, 0, 0, 0, 1]
        """
        passes = -(-self.k // self.rows) if self.flow.loads else 1
        self._refuse_rows(self.m * self.n * passes, "exits")
        if self.kept_registers is None:
            from pulsewarp.systolic import window  # it needs this class

            self._refuse_lookup()
            return window.scheduled_exits(self)
        kept = self.kept_registers
        if self.flow.loads:
            leaving = kept.down_index[:, -1]
        elif kept.shadow_index is not None:  # what sank, and what the bottom row handed over
            leaving = np.full((self.cycles, self.cols), -1, np.int32)
            held = kept.held_index[:, -1]
            handed_over = np.where(held[1:] != held[:-1], held[:-1], -1)
            leaving[1:] = np.maximum(kept.shadow_index[:-1, -1], handed_over)
        else:  # what sat in the bottom row when the drain shifted
            leaving = np.full((self.cycles, self.cols), -1, np.int32)
            for fold in self.folds:
                drain = slice(fold.start + fold.cycles - self.rows, fold.start + fold.cycles)
                leaving[drain] = kept.held_index[drain.start - 1 : drain.stop - 1, -1]
        cycle, col = np.nonzero(leaving >= 0)
        at = coordinates("c", leaving[cycle, col], self.sizes)
        last = np.array([not self.flow.loads or fold.row0 + fold.rows == self.k for fold in self.folds])
        # A fold's first sum leaves column 0 after the load and all rows, the next column a cycle later.
        since = cycle - col - (self.folds[0].cycles - self.stream - self.cols + 1) if self.overlap else cycle
        apart = self.folds[1].start if len(self.folds) > 1 else self.cycles
        final = last[np.clip(since // apart, 0, len(self.folds) - 1)]
        return np.stack([cycle, col, at["m"], at["n"], final], axis=1).astype(np.int32)

    @_checks.names_keywords
    def verify(self, cycle: int | None = None) -> Report:
        """Check this trace: NumPy's product, the closed form, one hop a cycle, each product once.

        With a cycle, also the frame: every register after that clock edge, kept or looked up, against the
        element that must be in it by the closed form of the schedule, with the value that the operands give.

        Parameters
        ----------
        cycle : int, optional
            Cycle of the frame to be checked, from 0.

        Returns
        -------
        Report
            One `Check` each, with its numbers in a sentence; `passed` when all hold. What a trace does not
            keep is not checked, and the report says so.

        Raises
        ------
        ValueError
            For a cycle outside the run, or one of a trace that can neither show nor look up its registers.

        Examples
        --------
        >>> from pulsewarp import systolic
        >>> systolic.simulate([[1, 2], [3, 4]], [[5, 6], [7, 8]], rows=2, cols=2).verify().passed
        True
        """
        from pulsewarp.systolic import verification  # it needs this class

        if cycle is not None:
            cycle = self._checked_cycle("cycle", cycle)
        return verification.verify(self, cycle)

    def verify_frame(self, cycle: int) -> Check:
        """Check one frame and nothing of the whole run: the check that `verify` adds for a cycle.

        Parameters
        ----------
        cycle : int
            Cycle of the frame, from 0.

        Returns
        -------
        Check
            Whether it holds, with its numbers in a sentence.

        Raises
        ------
        ValueError
            As `verify`.

        Examples
        --------
        >>> from pulsewarp import systolic
        >>> systolic.simulate([[1, 2], [3, 4]], [[5, 6], [7, 8]], rows=2, cols=2).verify_frame(3).passed
        True
        """
        from pulsewarp.systolic.frame import check_frame  # it needs this class

        return check_frame(self, self._checked_cycle("cycle", cycle))

    def _checked_cycle(self, name: str, t: int) -> int:
        last = self.cycles - 1
        return _checks.whole_number(name, t, least=0, most=last, remedy="Cycles are counted from 0.")

    def _refuse_shadow(self) -> None:
        if not self.overlap:
            raise ValueError(
                "This trace is of a machine without shadow registers; simulate with overlap=True."
            )

    def _refuse_lookup(self) -> None:
        if self.has_schedule and self.fault is not None:  # the look-up follows the rules of a sound machine
            raise ValueError(
                f"This trace of a machine with fault {self.fault.kind!r} does not keep every register, and "
                f"they cannot be looked up; simulate a run of at most 2**21 cell-cycles, or use probes."
            )

    def _refuse_rows(self, rows: int, what: str) -> None:
        if rows > ROW_LIMIT:
            raise ValueError(
                f"This trace has {rows} {what}, above the limit of {ROW_LIMIT} for a list; "
                f"use start and length, or a smaller product."
            )

    def __repr__(self) -> str:
        kept = (
            "every register" if self.has_registers else "the schedule" if self.has_schedule else "the result"
        )
        broken = f", fault {self.fault.kind}" if self.fault else ""
        folds = counted(len(self.folds), "overlapping fold" if self.overlap else "fold")
        return (
            f"SystolicTrace({self.dataflow}, {self.rows}x{self.cols} cells, {self.m}x{self.k} by "
            f"{self.k}x{self.n}, {self.cycles} cycles, {folds}{broken}, "
            f"keeps {kept})"
        )
