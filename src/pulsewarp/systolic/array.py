"""The systolic array, stepped register by register: three dataflows, one simulator.

How a hop can be a view. All values that travel along one array row lie in one line of memory, in the order in
which they entered; the row's cells are a window on that line. Each cycle the window slides by one element, and
with it every value is one cell further, though no value was copied. The same holds down the columns, and for
the held registers while they are loaded or drained. A sum that moves down therefore stays where it is in memory
while the cells slide past and add to it. What lies before the window is still on its way to the array, what
lies behind it has left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pulsewarp import _checks
from pulsewarp.systolic import rules
from pulsewarp.systolic.dataflow import DATAFLOWS, Axis, Dataflow, Letter, flat_index, turned
from pulsewarp.systolic.rules import Fold
from pulsewarp.systolic.trace import PHASES, Probe, Registers, Schedule, SystolicTrace

#: Up to so many cell-cycles (cycles * rows * cols) a trace keeps every register of every cycle.
FULL_REGISTERS = 2**21
#: No run may need more bytes than this for its registers, streams and trace.
MEMORY_LIMIT = 512 * 2**20
#: No run may take more cycles than this: at a few microseconds each, minutes.
CYCLE_LIMIT = 50_000_000


def simulate(
    a: ArrayLike,
    b: ArrayLike,
    *,
    rows: int,
    cols: int,
    dataflow: str = "ws",
    trace: bool = True,
    probes: Iterable[tuple[int, int, int]] = (),
) -> SystolicTrace:
    """Multiply `a` by `b` on a systolic array of rows x cols cells, cycle by cycle, with the real values.

    Modelled: the held, right-moving and down-moving register of every cell, one hop a cycle, skewed entry,
    loading and draining, folds for products larger than the array. A fold takes the whole array's schedule
    even where it fills only part of it, starts with empty registers, and the next starts when it has ended.
    The partial sum of an earlier fold re-enters at the top edge, so each result is summed over k = 0, 1, 2, ...
    Not modelled: memory (operands are always there in time), shadow registers that load the next tile early,
    rounding inside a cell other than that of the accumulator's type.

    Parameters
    ----------
    a : array_like, shape (m, k)
        Left operand.
    b : array_like, shape (k, n)
        Right operand.
    rows, cols : int
        Size of the array in cells.
    dataflow : {"ws", "os", "is"}
        Which operand stays in its cell: weight-stationary keeps tiles of `b`, input-stationary tiles of `a`,
        output-stationary keeps the sums.
    trace : bool
        True keeps every register where cycles * rows * cols is at most 2**21, beyond that the schedule seen
        while stepping. False steps every register all the same and keeps the result and the counts.
    probes : iterable of (cycle, row, col)
        Cells whose three registers are noted at the given cycles, with or without a trace.

    Returns
    -------
    SystolicTrace
        Accumulators are int32 for int8 operands, int64 for other integers (both wrap around), float32 for
        floats of up to 32 bits, else float64; products are formed in that type.

    Raises
    ------
    ValueError
        For operands that are no matrices of finite numbers or do not fit each other, an unknown dataflow, a
        size below 1, a probe outside the run, a run too long or too large for memory.

    Examples
    --------
    Two rows of cells load for two cycles, then two rows of `a` pass: 2 + 2 + 2 + 2 - 2 cycles.

    >>> trace = simulate([[1, 2], [3, 4]], [[5, 6], [7, 8]], rows=2, cols=2)
    >>> trace.cycles, trace.result.tolist()
    (6, [[19, 22], [43, 50]])
    """
    flow = DATAFLOWS[_checks.choice("dataflow", dataflow, DATAFLOWS)]
    rows, cols = _checks.whole_number("rows", rows), _checks.whole_number("cols", cols)
    a, b = _checks.matrix("a", a), _checks.matrix("b", b)
    if a.shape[1] != b.shape[0]:
        raise ValueError(
            f"a has shape {a.shape} and b has shape {b.shape}, but the columns of a ({a.shape[1]}) must be as "
            f"many as the rows of b ({b.shape[0]}); transpose or cut one of them."
        )
    accumulator = accumulator_type(a.dtype, b.dtype)
    sizes: dict[Axis, int] = {"m": a.shape[0], "k": a.shape[1], "n": b.shape[1]}
    layout = _Layout(flow, rows, cols, sizes[flow.stream_axis])
    keeps_registers = _refuse_or_choose(layout, sizes, accumulator.itemsize, trace)
    folds = rules.plan_folds(flow, sizes, rows, cols)
    cycles = layout.cycles * len(folds)

    observers: list[_Observer] = []
    notes = _Probes(layout, _probe_cells(probes, cycles, rows, cols))
    if notes.cells:
        observers.append(notes)
    schedule = registers = None
    if trace:
        schedule = _ScheduleObserver(layout, folds)
        observers.append(schedule)
        if keeps_registers:
            registers = _RegisterObserver(layout, cycles, sizes, accumulator, schedule)
            observers.append(registers)
    result = _run(layout, folds, a.astype(accumulator), b.astype(accumulator), sizes, observers)
    return SystolicTrace(
        dataflow=flow.name,
        rows=rows,
        cols=cols,
        m=sizes["m"],
        k=sizes["k"],
        n=sizes["n"],
        a=_freeze(a.copy()),
        b=_freeze(b.copy()),
        result=_freeze(result),
        cycles=cycles,
        folds=folds,
        probed=tuple(notes.seen),
        kept_registers=registers.finish() if registers else None,
        kept_schedule=schedule.finish() if schedule else None,
    )


def accumulator_type(a: np.dtype[Any], b: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type in which products are formed and summed for operands of types `a` and `b`."""
    try:
        common = np.result_type(a, b)
    except TypeError:
        raise ValueError(
            f"a holds {a} and b holds {b}, which have no common type; convert one to the other's."
        ) from None
    if common.kind in "iu":
        return np.dtype(np.int32 if a == b == np.int8 else np.int64)
    if common.kind == "V":  # the narrow types of ml_dtypes, such as bfloat16
        return np.dtype(np.int32 if "int" in common.name else np.float32)
    return np.dtype(np.float32 if common.itemsize <= 4 else np.float64)


class _Lines(NamedTuple):
    """One kind of content (values, indices or presence) of all registers and of what is before and behind them."""

    held: NDArray[Any]
    right: NDArray[Any]
    down: NDArray[Any]


class _Layout:
    """Where the values of one fold lie in memory, and where the window of cells is at each of its cycles."""

    def __init__(self, flow: Dataflow, rows: int, cols: int, stream: int) -> None:
        self.flow, self.rows, self.cols, self.stream = flow, rows, cols, stream
        self.load = rules.load_cycles(flow, rows)
        self.drain = rules.drain_cycles(flow, rows)
        self.cycles = rules.fold_cycles(flow, rows, cols, stream)

    def offsets(self) -> list[int]:
        """Return the start of the window on the moving lines at each cycle of a fold."""
        return [rules.travel(self.cycles - 1 - t) for t in range(self.cycles)]

    def held_offsets(self) -> list[int]:
        """Return the start of the window on the held lines: it slides while loading or draining only."""
        shifts = self.load or self.drain
        first = 0 if self.load else self.cycles - self.drain
        return [self.rows - rules.travel(min(max(t + 1 - first, 0), shifts)) for t in range(self.cycles)]

    def blank(self, kind: Any, fill: int) -> _Lines:
        """Return lines of one kind of content in which nothing travels."""
        reach = rules.travel(self.cycles - 1)
        return _Lines(
            held=np.full((2 * self.rows, self.cols), fill, kind),
            right=np.full((self.rows, reach + self.cols), fill, kind),
            down=np.full((reach + self.rows, self.cols), fill, kind),
        )

    def line(self, number: int) -> slice:
        """Return where the stream of one array row or column lies, its last element first."""
        first = self.load + rules.skew(number)
        newest = rules.travel(self.cycles - 1 - (first + self.stream - 1))
        return slice(newest, rules.travel(self.cycles - 1 - first) + 1, rules.travel(1))

    def feed(
        self, lines: _Lines, fill: int, held: NDArray[Any], right: NDArray[Any], down: NDArray[Any]
    ) -> None:
        """Put one fold on the lines: its stationary tile, and both streams with their skew."""
        for line in lines:
            line.fill(fill)
        for r in range(right.shape[0]):
            lines.right[r, self.line(r)] = right[r, ::-1]
        for c in range(down.shape[1]):
            lines.down[self.line(c), c] = down[::-1, c]
        for cycle in range(self.load):
            row = rules.loading_row(cycle, self.rows)
            if row < held.shape[0]:
                lines.held[self.rows - 1 - cycle, : held.shape[1]] = held[row]

    def leaving(self, lines: _Lines, fold: Fold) -> NDArray[Any]:
        """Return the sums that left the array in a fold: (stream, cols), for "os" (rows, cols)."""
        if not self.flow.loads:
            return lines.held[self.rows : self.rows + fold.rows, : fold.cols]
        return np.stack([lines.down[self.line(c), c][::-1] for c in range(fold.cols)], axis=1)


def _tiles(flow: Dataflow, fold: Fold, content: dict[Letter, NDArray[Any]]) -> tuple[NDArray[Any], ...]:
    """Return what the held, right-moving and down-moving registers carry in a fold: views of the operands."""
    on_rows = slice(fold.row0, fold.row0 + fold.rows)
    on_cols = slice(fold.col0, fold.col0 + fold.cols)
    return (
        turned(flow.held, content[flow.held], flow.row_axis, flow.col_axis)[on_rows, on_cols],
        turned(flow.right, content[flow.right], flow.row_axis, flow.stream_axis)[on_rows],
        turned(flow.down, content[flow.down], flow.stream_axis, flow.col_axis)[:, on_cols],
    )


class _Observer:
    """Sees each cycle of a run after its registers have stepped."""

    def begin(self, fold: Fold) -> None:
        """Take note that a fold starts."""

    def see(self, t: int, moved: int, shifted: int, values: _Lines) -> None:
        """Look at cycle `t` of the fold: the windows start at `moved` and, for held registers, at `shifted`."""
        raise NotImplementedError


def _run(
    layout: _Layout,
    folds: Sequence[Fold],
    a: NDArray[Any],
    b: NDArray[Any],
    sizes: dict[Axis, int],
    observers: Sequence[_Observer],
) -> NDArray[Any]:
    """Step every register through every cycle of every fold and return the product."""
    flow, rows, cols = layout.flow, layout.rows, layout.cols
    result = np.zeros((sizes["m"], sizes["n"]), a.dtype)
    values = layout.blank(a.dtype, 0)
    held, right, down = values
    product = np.empty((rows, cols), a.dtype)
    schedule = list(zip(range(layout.cycles), layout.offsets(), layout.held_offsets(), strict=True))
    sum_moves = flow.loads
    multiply, add = np.multiply, np.add
    for fold in folds:
        tiles = _tiles(flow, fold, {"a": a, "b": b, "c": result})
        earlier = tiles[2] if sum_moves else tiles[0]
        layout.feed(values, 0, *tiles)
        for observer in observers:
            observer.begin(fold)
        for t, moved, shifted in schedule:
            moving_right = right[:, moved : moved + cols]
            moving_down = down[moved : moved + rows]
            staying = held[shifted : shifted + rows]
            if sum_moves:
                multiply(moving_right, staying, out=product)
                add(moving_down, product, out=moving_down)
            else:
                multiply(moving_right, moving_down, out=product)
                add(staying, product, out=staying)
            for observer in observers:
                observer.see(t, moved, shifted, values)
        earlier[...] = rules.settle(earlier, layout.leaving(values, fold))
    return result


@dataclass
class _Probes(_Observer):
    """Notes the registers of single cells."""

    layout: _Layout
    cells: dict[int, list[tuple[int, int]]]

    def __post_init__(self) -> None:
        self.seen: list[Probe] = []
        self.start = 0

    def begin(self, fold: Fold) -> None:
        self.start = fold.start

    def see(self, t: int, moved: int, shifted: int, values: _Lines) -> None:
        for r, c in self.cells.get(self.start + t, ()):
            held, right, down = (
                values.held[shifted + r, c],
                values.right[r, moved + c],
                values.down[moved + r, c],
            )
            self.seen.append(Probe(self.start + t, r, c, held.item(), right.item(), down.item()))


class _ScheduleObserver(_Observer):
    """Notes when each cell works and how many values enter, hop and leave in each cycle.

    It sees presence bits that travel beside the values, not a formula.
    """

    def __init__(self, layout: _Layout, folds: Sequence[Fold]) -> None:
        self.layout = layout
        total = layout.cycles * len(folds)
        shape = (len(folds), layout.rows, layout.cols)
        self.present = layout.blank(bool, 0)
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
        layout = self.layout
        self._close()
        self.fold = fold
        layout.feed(
            self.present,
            0,
            np.ones((fold.rows, fold.cols), bool),
            np.ones((fold.rows, layout.stream), bool),
            np.ones((layout.stream, fold.cols), bool),
        )

    def see(self, t: int, moved: int, shifted: int, values: _Lines) -> None:
        layout, fold, present = self.layout, self.fold, self.present
        assert fold is not None
        rows, cols, cycle = layout.rows, layout.cols, fold.start + t
        right = present.right[:, moved : moved + cols]
        down = present.down[moved : moved + rows]
        held = present.held[shifted : shifted + rows]
        if layout.flow.loads:
            np.logical_and(right, held, out=self.active)
            self.exited[cycle] = np.count_nonzero(down[rows - 1])
        else:
            np.logical_and(right, down, out=self.active)
            if t >= layout.cycles - layout.drain:
                self.exited[cycle] = np.count_nonzero(present.held[shifted + rows])
            np.logical_or(held, self.active, out=held)
        self.busy[cycle] = np.count_nonzero(self.active)
        self._note_changes(cycle)
        loading = t < layout.load
        shifting = loading or t >= layout.cycles - layout.drain
        entered = (
            np.count_nonzero(held[0]) if loading else 0,
            np.count_nonzero(right[:, 0]),
            np.count_nonzero(down[0]),
        )
        self.entered[cycle] = entered
        self.moved[cycle] = (
            np.count_nonzero(held) - entered[0] if shifting else 0,
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
        self._close()
        return Schedule(
            start=_freeze(self.start),
            length=_freeze(self.length),
            phase=_freeze(self.phase),
            busy=_freeze(self.busy),
            entered=_freeze(self.entered),
            moved=_freeze(self.moved),
            exited=_freeze(self.exited),
        )


class _RegisterObserver(_Observer):
    """Keeps every register of every cycle, with the index of the element each value belongs to."""

    def __init__(
        self,
        layout: _Layout,
        cycles: int,
        sizes: dict[Axis, int],
        accumulator: np.dtype[Any],
        schedule: _ScheduleObserver,
    ) -> None:
        self.layout, self.schedule = layout, schedule
        self.index_of: dict[Letter, NDArray[np.int32]] = {
            "a": flat_index("a", sizes),
            "b": flat_index("b", sizes),
            "c": flat_index("c", sizes),
        }
        self.index = layout.blank(np.int32, -1)
        self.tile = np.full((layout.rows, layout.cols), -1, np.int32)
        shape = (cycles, layout.rows, layout.cols)
        self.values = _Lines(*(np.empty(shape, accumulator) for _ in range(3)))
        self.indices = _Lines(*(np.empty(shape, np.int32) for _ in range(3)))
        self.active = np.empty(shape, bool)
        self.start = 0

    def begin(self, fold: Fold) -> None:
        tiles = _tiles(self.layout.flow, fold, dict(self.index_of))
        self.layout.feed(self.index, -1, *tiles)
        self.tile.fill(-1)
        self.tile[: fold.rows, : fold.cols] = tiles[0]
        self.start = fold.start

    def see(self, t: int, moved: int, shifted: int, values: _Lines) -> None:
        rows, cols, cycle = self.layout.rows, self.layout.cols, self.start + t
        if not self.layout.flow.loads:  # a sum exists from its first product on
            np.copyto(self.index.held[shifted : shifted + rows], self.tile, where=self.schedule.active)
        for kept, lines in ((self.values, values), (self.indices, self.index)):
            kept.held[cycle] = lines.held[shifted : shifted + rows]
            kept.right[cycle] = lines.right[:, moved : moved + cols]
            kept.down[cycle] = lines.down[moved : moved + rows]
        self.active[cycle] = self.schedule.active

    def finish(self) -> Registers:
        return Registers(
            *(_freeze(part) for part in (*self.values, *self.indices, self.active)),
        )


def _freeze(array: NDArray[Any]) -> NDArray[Any]:
    """Return `array` C-contiguous and read-only."""
    array = np.ascontiguousarray(array)
    array.flags.writeable = False
    return array


def _probe_cells(
    probes: Iterable[tuple[int, int, int]], cycles: int, rows: int, cols: int
) -> dict[int, list[tuple[int, int]]]:
    """Return the probed cells by cycle; refuse those outside the run."""
    cells: dict[int, list[tuple[int, int]]] = {}
    for t, r, c in probes:
        if not (0 <= t < cycles and 0 <= r < rows and 0 <= c < cols):
            raise ValueError(
                f"Probe ({t}, {r}, {c}) lies outside the run: cycles go from 0 to {cycles - 1}, rows to "
                f"{rows - 1}, columns to {cols - 1}; leave it out."
            )
        cells.setdefault(int(t), []).append((int(r), int(c)))
    return cells


def _refuse_or_choose(layout: _Layout, sizes: dict[Axis, int], itemsize: int, trace: bool) -> bool:
    """Tell whether every register can be kept; raise when the run is too long or too large for memory."""
    flow, rows, cols = layout.flow, layout.rows, layout.cols
    m, k, n = sizes["m"], sizes["k"], sizes["n"]
    folds = -(-sizes[flow.row_axis] // rows) * -(-sizes[flow.col_axis] // cols)
    cycles = folds * layout.cycles
    what = f"A product of {m} x {k} by {k} x {n} on {rows} x {cols} cells ({flow.name})"
    if cycles > CYCLE_LIMIT:
        raise ValueError(
            f"{what} takes {cycles} cycles, above the limit of {CYCLE_LIMIT} for stepping; use a larger array or "
            f"smaller matrices, or count without stepping with systolic.gemm."
        )
    keeps_registers = trace and cycles * rows * cols <= FULL_REGISTERS
    lines = (rows + cols) * layout.cycles + 6 * rows * cols
    need = itemsize * (lines + m * k + k * n + m * n)
    if trace:
        need += lines + 32 * cycles + 8 * folds * rows * cols
    if need > MEMORY_LIMIT:
        remedy = "use smaller matrices, or count without stepping with systolic.gemm"
        if trace:
            remedy = f"pass trace=False, {remedy}"
        raise ValueError(
            f"{what} needs {need / 2**20:.0f} MiB of registers, streams and trace, above the limit of "
            f"{MEMORY_LIMIT // 2**20} MiB; {remedy}."
        )
    return keeps_registers
