"""What may look on while the array is stepped: probes, the schedule, every register."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp._arrays import freeze
from pulsewarp.systolic.dataflow import Axis, Letter, flat_index
from pulsewarp.systolic.lines import Layout, Lines, tiles_of
from pulsewarp.systolic.overlap import ShadowLines, continues
from pulsewarp.systolic.registers import PHASES, REGISTERS, Probe, Registers, Schedule
from pulsewarp.systolic.rules import Fold


class Observer:
    """Sees each cycle of a run after its registers have stepped."""

    def begin(self, fold: Fold) -> None:
        """Take note that a fold starts."""

    def see(self, t: int, registers: tuple[NDArray[Any], ...]) -> None:
        """Look at the registers after clock edge `t`, each flat: held, right, down.

        With shadow registers, also what sinks in them and what waits.
        """


class Probes(Observer):
    """Notes the registers of single cells."""

    def __init__(self, layout: Layout, cells: dict[int, list[tuple[int, int]]]) -> None:
        self.layout, self.cells = layout, cells
        self.seen: list[Probe] = []

    def see(self, t: int, registers: tuple[NDArray[Any], ...]) -> None:
        """Note the probed cells of this cycle."""
        for r, c in self.cells.get(t, ()):
            cell = r * self.layout.cols + c
            held, right, down = (register[cell].item() for register in registers[:3])
            self.seen.append(Probe(t, r, c, held, right, down))


class ScheduleObserver(Observer):
    """Notes when each cell works and how many values enter, hop and leave in each cycle.

    It sees marks that travel beside the values, not a formula: presence bits where one fold is under way at a
    time, the number of the fold where several are.
    """

    def __init__(self, layout: Layout, folds: tuple[Fold, ...], cycles: int) -> None:
        self.layout, self.folds = layout, folds
        shape = (len(folds), layout.rows, layout.cols)
        self.active = np.zeros(shape[1:], bool)
        self.since = np.zeros(shape[1:], np.int32)
        self.start = np.full(shape, -1, np.int32)
        self.length = np.zeros(shape, np.int32)
        self.busy = np.zeros(cycles, np.int32)
        self.entered = np.zeros((cycles, 3), np.int32)
        self.moved = np.zeros((cycles, 3), np.int32)
        self.reentered = np.zeros(cycles, np.int32)
        self.exited = np.zeros(cycles, np.int32)
        self.phase = np.zeros(cycles, np.int8)

    def _mark_phases(self, begins: Fold, ends: Fold, first: int, end: int) -> None:
        """Give the cycles from `first` to `end` their phase, by the fold that begins and that which ends."""
        full = int(self.start[begins.index, begins.rows - 1, begins.cols - 1])
        finished = int(self.start[ends.index, 0, 0] + self.length[ends.index, 0, 0])
        cycle = np.arange(first, end)
        phase = self.phase[first:end]
        phase[...] = PHASES.index("fill")
        phase[cycle < first + self.layout.load] = PHASES.index("load")
        phase[cycle >= full] = PHASES.index("steady")
        phase[cycle >= finished] = PHASES.index("drain")

    def _close(self) -> None:
        """Note the end of what is under way."""
        raise NotImplementedError

    def finish(self) -> Schedule:
        """Close what is under way and return what was seen."""
        self._close()
        return Schedule(
            start=freeze(self.start),
            length=freeze(self.length),
            phase=freeze(self.phase),
            busy=freeze(self.busy),
            entered=freeze(self.entered),
            moved=freeze(self.moved),
            reentered=freeze(self.reentered),
            exited=freeze(self.exited),
        )


class FoldByFold(ScheduleObserver):
    """The schedule of a machine whose folds follow one another."""

    def __init__(self, layout: Layout, folds: tuple[Fold, ...], cycles: int) -> None:
        super().__init__(layout, folds, cycles)
        self.present = Lines(layout, bool, 0)
        self.before = np.zeros_like(self.active)
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

    def see(self, t: int, registers: tuple[NDArray[Any], ...]) -> None:
        """Step the presence bits and count what works, enters, hops and leaves."""
        layout, fold = self.layout, self.fold
        assert fold is not None
        local, shape = t - fold.start, (layout.rows, layout.cols)
        loading, draining = local < layout.load, local >= layout.cycles - layout.drain
        held, right, down = (bits.reshape(shape) for bits in self.present.hop(local))
        if layout.flow.loads:
            np.logical_and(right, held, out=self.active)
            self.exited[t] = np.count_nonzero(down[-1])
        else:
            np.logical_and(right, down, out=self.active)
            np.logical_or(held, self.active, out=held)
            if draining:
                self.exited[t] = np.count_nonzero(self.present.just_behind(local))
        self.busy[t] = np.count_nonzero(self.active)
        self._note_changes(t)
        entered = (
            np.count_nonzero(held[0]) if loading else 0,
            np.count_nonzero(right[:, 0]),
            np.count_nonzero(down[0]),
        )
        self.entered[t] = entered
        if layout.flow.loads and continues(self.folds, fold.index):
            self.reentered[t] = entered[2]
        self.moved[t] = (
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
        self._mark_phases(fold, fold, fold.start, end)


class FoldsAtOnce(ScheduleObserver):
    """The schedule of a machine with shadow registers: the number of its fold travels with each value."""

    def __init__(self, layout: Layout, folds: tuple[Fold, ...], cycles: int) -> None:
        super().__init__(layout, folds, cycles)
        self.number = ShadowLines(layout, np.int32, -1)
        self.before = np.full(self.active.shape, -1, np.int32)
        self.goes_on = np.array([continues(folds, i) for i in range(len(folds))]) & layout.flow.loads

    def begin(self, fold: Fold) -> None:
        """Send the fold's number along every line."""
        stream = self.layout.stream
        held, right, down = (
            np.full(shape, fold.index, np.int32)
            for shape in ((fold.rows, fold.cols), (fold.rows, stream), (stream, fold.cols))
        )
        self.number.feed(fold, held if self.layout.flow.loads else None, right, down)

    def see(self, t: int, registers: tuple[NDArray[Any], ...]) -> None:
        """Step the fold numbers and count what works, enters, hops and leaves."""
        layout, shape = self.layout, self.active.shape
        held, right, down, sinking, _ = (part.reshape(shape) for part in self.number.hop(t))
        np.logical_and(right >= 0, (held if layout.flow.loads else down) >= 0, out=self.active)
        if layout.flow.loads:
            self.exited[t] = np.count_nonzero(down[-1] >= 0)
        else:
            np.copyto(held, right, where=self.active)
            self.exited[t] = np.count_nonzero(self.number.just_behind() >= 0)
        self.busy[t] = np.count_nonzero(self.active)
        self._note_changes(np.where(self.active, right, -1), t)
        lines = sinking >= 0, right >= 0, down >= 0
        entered = [np.count_nonzero(edge) for edge in (lines[0][0], lines[1][:, 0], lines[2][0])]
        self.entered[t] = entered
        self.reentered[t] = np.count_nonzero(self.goes_on[down[0][lines[2][0]]])
        self.moved[t] = [np.count_nonzero(line) - edge for line, edge in zip(lines, entered, strict=True)]

    def _note_changes(self, works_for: NDArray[np.int32], cycle: int) -> None:
        """Write down the cells that begin or cease to work for a fold in this cycle."""
        changed = np.flatnonzero(works_for != self.before)
        if not changed.size:
            return
        now, before = works_for.reshape(-1)[changed], self.before.reshape(-1)[changed]
        since = self.since.reshape(-1)
        cells = self.start[0].size
        start, length = self.start.reshape(-1), self.length.reshape(-1)
        ended, begun = before >= 0, now >= 0
        length[before[ended] * cells + changed[ended]] += cycle - since[changed[ended]]
        since[changed[begun]] = cycle
        at = now[begun] * cells + changed[begun]
        start[at] = np.where(start[at] < 0, cycle, start[at])
        self.before[...] = works_for

    def _close(self) -> None:
        """End the run: its cells stop working, its cycles get their phase."""
        end = self.busy.size
        self._note_changes(np.full_like(self.before, -1), end)
        self._mark_phases(self.folds[0], self.folds[-1], 0, end)


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
        self.index: Lines | ShadowLines = (ShadowLines if layout.overlap else Lines)(layout, np.int32, -1)
        self.tile = np.full((layout.rows, layout.cols), -1, np.int32)
        shape = (cycles, layout.rows, layout.cols)
        kept = len(REGISTERS) + layout.overlap
        self.values = [np.empty(shape, accumulator) for _ in range(kept)]
        self.indices = [np.empty(shape, np.int32) for _ in range(kept)]
        self.active = np.empty(shape, bool)
        self.start = 0

    def begin(self, fold: Fold) -> None:
        """Send the indices of the elements along every line of the fold."""
        tiles = tiles_of(self.layout.flow, fold, dict(self.index_of))
        if isinstance(self.index, ShadowLines):
            self.index.feed(fold, *tiles)
            return
        self.index.feed(*tiles)
        self.tile.fill(-1)
        self.tile[: fold.rows, : fold.cols] = tiles[0]
        self.start = fold.start

    def see(self, t: int, registers: tuple[NDArray[Any], ...]) -> None:
        """Step the indices and copy every register."""
        shape = self.tile.shape
        if isinstance(self.index, ShadowLines):
            index, tile = list(self.index.hop(t)), self.index.expected.reshape(shape)
            values = list(registers)
            sinks = index[3] >= 0
            for kind in (index, values):
                sinking, waiting = kind[3:]
                kind[3:] = [np.where(sinks, sinking, waiting)]
        else:
            index, tile, values = list(self.index.hop(t - self.start)), self.tile, list(registers)
        if not self.layout.flow.loads:  # a sum exists from its first product on
            np.copyto(index[0].reshape(shape), tile, where=self.schedule.active)
        for kept, register in zip((*self.values, *self.indices), (*values, *index), strict=True):
            kept[t] = register.reshape(shape)
        self.active[t] = self.schedule.active

    def finish(self) -> Registers:
        """Return what was kept."""
        names = (*REGISTERS, "shadow")[: len(self.values)]
        parts: dict[str, Any] = {name: freeze(kept) for name, kept in zip(names, self.values, strict=True)}
        parts |= {f"{name}_index": freeze(kept) for name, kept in zip(names, self.indices, strict=True)}
        return Registers(**parts, active=freeze(self.active))
