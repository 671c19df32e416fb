"""What may look on while the array is stepped: probes, the schedule, every register."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp._arrays import freeze
from pulsewarp.systolic.dataflow import Axis, Letter, flat_index
from pulsewarp.systolic.lines import Layout, Lines, tiles_of
from pulsewarp.systolic.registers import PHASES, REGISTERS, Probe, Registers, Schedule
from pulsewarp.systolic.rules import Fold


class Observer:
    """Sees each cycle of a run after its registers have stepped."""

    def begin(self, fold: Fold) -> None:
        """Take note that a fold starts."""

    def see(self, t: int, held: NDArray[Any], right: NDArray[Any], down: NDArray[Any]) -> None:
        """Look at the registers after clock edge `t` of the fold, each flat."""


class Probes(Observer):
    """Notes the registers of single cells."""

    def __init__(self, layout: Layout, cells: dict[int, list[tuple[int, int]]]) -> None:
        self.layout, self.cells = layout, cells
        self.seen: list[Probe] = []
        self.start = 0

    def begin(self, fold: Fold) -> None:
        """Remember the cycle from which the fold counts."""
        self.start = fold.start

    def see(self, t: int, held: NDArray[Any], right: NDArray[Any], down: NDArray[Any]) -> None:
        """Note the probed cells of this cycle."""
        for r, c in self.cells.get(self.start + t, ()):
            cell = r * self.layout.cols + c
            registers = held[cell].item(), right[cell].item(), down[cell].item()
            self.seen.append(Probe(self.start + t, r, c, *registers))


class ScheduleObserver(Observer):
    """Notes when each cell works and how many values enter, hop and leave in each cycle.

    It sees presence bits that travel beside the values, not a formula.
    """

    def __init__(self, layout: Layout, folds: Sequence[Fold]) -> None:
        self.layout = layout
        total = layout.cycles * len(folds)
        shape = (len(folds), layout.rows, layout.cols)
        self.present = Lines(layout, bool, 0)
        self.active = np.zeros(shape[1:], bool)
        self.before = np.zeros(shape[1:], bool)
        self.since = np.zeros(shape[1:], np.int32)
        self.start = np.full(shape, -1, np.int32)
        self.length = np.zeros(shape, np.int32)
        self.busy = np.zeros(total, np.int32)
        self.entered = np.zeros((total, 3), np.int32)
        self.moved = np.zeros((total, 3), np.int32)
        self.exited = np.zeros(total, np.int32)
        self.phase = np.zeros(total, np.int8)
        self.fold: Fold | None = None

    def begin(self, fold: Fold) -> None:
        """Close the fold before and send presence bits along every line of the new one."""
        stream = self.layout.stream
        self._close()
        self.fold = fold
        self.present.feed(
            np.ones((fold.rows, fold.cols), bool),
            np.ones((fold.rows, stream), bool),
            np.ones((stream, fold.cols), bool),
        )

    def see(self, t: int, held: NDArray[Any], right: NDArray[Any], down: NDArray[Any]) -> None:
        """Step the presence bits and count what works, enters, hops and leaves."""
        layout, fold = self.layout, self.fold
        assert fold is not None
        cycle, shape = fold.start + t, (layout.rows, layout.cols)
        loading, draining = t < layout.load, t >= layout.cycles - layout.drain
        held, right, down = (bits.reshape(shape) for bits in self.present.hop(t))
        if layout.flow.loads:
            np.logical_and(right, held, out=self.active)
            self.exited[cycle] = np.count_nonzero(down[-1])
        else:
            np.logical_and(right, down, out=self.active)
            np.logical_or(held, self.active, out=held)
            if draining:
                self.exited[cycle] = np.count_nonzero(self.present.just_behind(t))
        self.busy[cycle] = np.count_nonzero(self.active)
        self._note_changes(cycle)
        entered = (
            np.count_nonzero(held[0]) if loading else 0,
            np.count_nonzero(right[:, 0]),
            np.count_nonzero(down[0]),
        )
        self.entered[cycle] = entered
        self.moved[cycle] = (
            np.count_nonzero(held) - entered[0] if loading or draining else 0,
            np.count_nonzero(right) - entered[1],
            np.count_nonzero(down) - entered[2],
        )

    def _note_changes(self, cycle: int) -> None:
        """Write down the cells that begin or cease to work in this cycle."""
        assert self.fold is not None
        changed = np.flatnonzero(self.active != self.before)
        if changed.size:
            begins = self.active.ravel()[changed]
            up, ends = changed[begins], changed[~begins]
            since, start = self.since.reshape(-1), self.start[self.fold.index].reshape(-1)
            since[up] = cycle
            start[up] = np.where(start[up] < 0, cycle, start[up])
            self.length[self.fold.index].reshape(-1)[ends] += cycle - since[ends]
            self.before[...] = self.active

    def _close(self) -> None:
        """End the fold: its cells stop working, its cycles get their phase."""
        fold = self.fold
        if fold is None:
            return
        end = fold.start + fold.cycles
        self.active[...] = False
        self._note_changes(end)
        start, length = self.start[fold.index], self.length[fold.index]
        first, last = int(start[0, 0]), int(start[fold.rows - 1, fold.cols - 1])
        cycle = np.arange(fold.start, end)
        phase = self.phase[fold.start : end]
        phase[...] = PHASES.index("fill")
        phase[cycle < fold.start + self.layout.load] = PHASES.index("load")
        phase[cycle >= last] = PHASES.index("steady")
        phase[cycle >= first + int(length[0, 0])] = PHASES.index("drain")

    def finish(self) -> Schedule:
        """Close the last fold and return what was seen."""
        self._close()
        return Schedule(
            start=freeze(self.start),
            length=freeze(self.length),
            phase=freeze(self.phase),
            busy=freeze(self.busy),
            entered=freeze(self.entered),
            moved=freeze(self.moved),
            exited=freeze(self.exited),
        )


class RegisterObserver(Observer):
    """Keeps every register of every cycle, with the index of the element each value belongs to."""

    def __init__(
        self,
        layout: Layout,
        cycles: int,
        sizes: dict[Axis, int],
        accumulator: np.dtype[Any],
        schedule: ScheduleObserver,
    ) -> None:
        self.layout, self.schedule = layout, schedule
        self.index_of: dict[Letter, NDArray[np.int32]] = {
            "a": flat_index("a", sizes),
            "b": flat_index("b", sizes),
            "c": flat_index("c", sizes),
        }
        self.index = Lines(layout, np.int32, -1)
        self.tile = np.full((layout.rows, layout.cols), -1, np.int32)
        shape = (cycles, layout.rows, layout.cols)
        self.values = [np.empty(shape, accumulator) for _ in REGISTERS]
        self.indices = [np.empty(shape, np.int32) for _ in REGISTERS]
        self.active = np.empty(shape, bool)
        self.start = 0

    def begin(self, fold: Fold) -> None:
        """Send the indices of the elements along every line of the fold."""
        tiles = tiles_of(self.layout.flow, fold, dict(self.index_of))
        self.index.feed(*tiles)
        self.tile.fill(-1)
        self.tile[: fold.rows, : fold.cols] = tiles[0]
        self.start = fold.start

    def see(self, t: int, held: NDArray[Any], right: NDArray[Any], down: NDArray[Any]) -> None:
        """Step the indices and copy every register."""
        cycle, shape = self.start + t, self.tile.shape
        index = [line.reshape(shape) for line in self.index.hop(t)]
        if not self.layout.flow.loads:  # a sum exists from its first product on
            np.copyto(index[0], self.tile, where=self.schedule.active)
        for kept, register in zip(self.values, (held, right, down), strict=True):
            kept[cycle] = register.reshape(shape)
        for kept, register in zip(self.indices, index, strict=True):
            kept[cycle] = register
        self.active[cycle] = self.schedule.active

    def finish(self) -> Registers:
        """Return what was kept."""
        return Registers(*(freeze(part) for part in (*self.values, *self.indices, self.active)))
