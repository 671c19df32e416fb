"""The systolic array, stepped register by register: three dataflows, one simulator.

How a hop can be a view. Values on their way lie in memory in the order in which they go, and the registers
are a window on that line. At each clock edge the window slides by one element (for values that move down: by
one row), and with it every value is one cell further, though none was copied. So a sum that moves down stays
where it is in memory while the cells slide past and add to it; what lies before the window has yet to enter,
what lies behind it has left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pulsewarp import _checks
from pulsewarp.systolic import rules
from pulsewarp.systolic.dataflow import DATAFLOWS, Axis, Dataflow, Letter, flat_index, turned
from pulsewarp.systolic.registers import PHASES, REGISTERS, Probe, Registers, Schedule
from pulsewarp.systolic.rules import Fold
from pulsewarp.systolic.trace import SystolicTrace

#: Up to so many cell-cycles (cycles * rows * cols) a trace keeps every register of every cycle.
FULL_REGISTERS = 2**21
#: No run may need more bytes than this for its registers, streams and trace.
MEMORY_LIMIT = 512 * 2**20
#: No run may take more cycles than this: at a few microseconds each, minutes.
CYCLE_LIMIT = 50_000_000


@_checks.names_keywords
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
    The partial sum of an earlier fold re-enters at the top edge, so each result is summed in the order of k.
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
            f"a has shape {a.shape} and b has shape {b.shape}, but a must have as many "
            f"columns ({a.shape[1]}) as b has rows ({b.shape[0]}); transpose or cut one of them."
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
    if a.kind in "iu" and b.kind in "iu":
        return np.dtype(np.int32 if a == b == np.int8 else np.int64)
    try:
        common = np.result_type(a, b)
    except TypeError:
        raise ValueError(
            f"a holds {a} and b holds {b}, which have no common type; convert one to the other's."
        ) from None
    if common.kind == "V":  # the narrow types of ml_dtypes, such as bfloat16
        return np.dtype(np.int32 if "int" in common.name else np.float32)
    return np.dtype(np.float32 if common.itemsize <= 4 else np.float64)


class _Layout:
    """Where one fold's values are at each of its cycles: everything the rules say, worked out once a run."""

    def __init__(self, flow: Dataflow, rows: int, cols: int, stream: int) -> None:
        self.flow, self.rows, self.cols, self.stream = flow, rows, cols, stream
        self.load = rules.load_cycles(flow, rows)
        self.drain = rules.drain_cycles(flow, rows)
        self.cycles = rules.fold_cycles(flow, rows, cols, stream)

    def moving_offsets(self) -> list[int]:
        """Return by cycle where the cells are on the lines of moving values: one further towards the feed."""
        return [rules.travel(self.cycles - 1 - t) for t in range(self.cycles)]

    def held_offsets(self) -> list[int]:
        """Return the same for the held registers, which move while they are loaded or drained only."""
        shifts = self.load or self.drain
        first = 0 if self.load else self.cycles - self.drain
        return [self.rows - min(rules.travel(max(t + 1 - first, 0)), shifts) for t in range(self.cycles)]

    def entries(self, line: int) -> slice:
        """Return the cycles in which the stream of one array row or column enters at the edge."""
        first = self.load + rules.skew(line)
        return slice(first, first + self.stream)


class _Lines:
    """One kind of content (values, indices or presence) of all registers and of what is before and behind.

    The three arrays are flat. The line of right-moving values is shared by all array rows: the last cell of a
    row is followed by the first of the next, whose content is replaced at every edge by what enters there.
    """

    def __init__(self, layout: _Layout, kind: Any, fill: int) -> None:
        self.layout, self.fill, self.size = layout, fill, layout.rows * layout.cols
        self.moving, self.shifted = layout.moving_offsets(), layout.held_offsets()
        reach = max(self.moving)
        self.held = np.full(2 * self.size, fill, kind)
        self.right = np.full(self.size + reach, fill, kind)
        self.down = np.full(self.size + reach * layout.cols, fill, kind)
        self.from_left = np.full((layout.cycles, layout.rows), fill, kind)
        self.from_top = np.full((layout.cycles, layout.cols), fill, kind)

    def feed(self, held: NDArray[Any], right: NDArray[Any], down: NDArray[Any]) -> None:
        """Empty every register and line up a fold: its stationary tile, and both streams with their skew."""
        layout, cols = self.layout, self.layout.cols
        for line in (self.held, self.right, self.down, self.from_left, self.from_top):
            line.fill(self.fill)
        for r in range(right.shape[0]):
            self.from_left[layout.entries(r), r] = right[r]
        for c in range(down.shape[1]):
            self.from_top[layout.entries(c), c] = down[:, c]
        self.down.reshape(-1, cols)[self.moving] = self.from_top
        waiting = self.held.reshape(-1, cols)
        for cycle in range(layout.load):
            row = rules.loading_row(cycle, layout.rows)
            if row < held.shape[0]:
                waiting[layout.rows - 1 - cycle, : held.shape[1]] = held[row]

    def hop(self, t: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Step over clock edge `t` of the fold; return the held, right-moving and down-moving registers."""
        size, cols = self.size, self.layout.cols
        at, held_at = self.moving[t], self.shifted[t] * cols
        right = self.right[at : at + size]
        right[::cols] = self.from_left[t]
        return self.held[held_at : held_at + size], right, self.down[at * cols : at * cols + size]

    def just_behind(self, t: int) -> NDArray[Any]:
        """Return what clock edge `t` has pushed out of the held registers at the bottom."""
        end = (self.shifted[t] + self.layout.rows) * self.layout.cols
        return self.held[end : end + self.layout.cols]

    def leaving(self, fold: Fold) -> NDArray[Any]:
        """Return the sums that have left the array in a fold: (stream, cols), for "os" (rows, cols)."""
        layout, cols = self.layout, self.layout.cols
        if not layout.flow.loads:
            return self.held.reshape(-1, cols)[layout.rows : layout.rows + fold.rows, : fold.cols]
        left = self.down.reshape(-1, cols)[self.moving]
        return np.stack([left[layout.entries(c), c] for c in range(fold.cols)], axis=1)


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

    def see(self, t: int, held: NDArray[Any], right: NDArray[Any], down: NDArray[Any]) -> None:
        """Look at the registers after clock edge `t` of the fold, each flat."""


def _run(
    layout: _Layout,
    folds: Sequence[Fold],
    a: NDArray[Any],
    b: NDArray[Any],
    sizes: dict[Axis, int],
    observers: Sequence[_Observer],
) -> NDArray[Any]:
    """Step every register through every cycle of every fold and return the product."""
    flow = layout.flow
    result = np.zeros((sizes["m"], sizes["n"]), a.dtype)
    lines = _Lines(layout, a.dtype, 0)
    product = np.empty(lines.size, a.dtype)
    sum_moves, hop, multiply, add = flow.loads, lines.hop, np.multiply, np.add
    for fold in folds:
        tiles = _tiles(flow, fold, {"a": a, "b": b, "c": result})
        lines.feed(*tiles)
        for observer in observers:
            observer.begin(fold)
        for t in range(layout.cycles):
            held, right, down = hop(t)
            if sum_moves:
                multiply(right, held, out=product)
                add(down, product, out=down)
            else:
                multiply(right, down, out=product)
                add(held, product, out=held)
            for observer in observers:
                observer.see(t, held, right, down)
        earlier = tiles[2] if sum_moves else tiles[0]
        earlier[...] = rules.settle(earlier, lines.leaving(fold))
    return result


class _Probes(_Observer):
    """Notes the registers of single cells."""

    def __init__(self, layout: _Layout, cells: dict[int, list[tuple[int, int]]]) -> None:
        self.layout, self.cells = layout, cells
        self.seen: list[Probe] = []
        self.start = 0

    def begin(self, fold: Fold) -> None:
        self.start = fold.start

    def see(self, t: int, held: NDArray[Any], right: NDArray[Any], down: NDArray[Any]) -> None:
        for r, c in self.cells.get(self.start + t, ()):
            cell = r * self.layout.cols + c
            registers = held[cell].item(), right[cell].item(), down[cell].item()
            self.seen.append(Probe(self.start + t, r, c, *registers))


class _ScheduleObserver(_Observer):
    """Notes when each cell works and how many values enter, hop and leave in each cycle.

    It sees presence bits that travel beside the values, not a formula.
    """

    def __init__(self, layout: _Layout, folds: Sequence[Fold]) -> None:
        self.layout = layout
        total = layout.cycles * len(folds)
        shape = (len(folds), layout.rows, layout.cols)
        self.present = _Lines(layout, bool, 0)
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
        stream = self.layout.stream
        self._close()
        self.fold = fold
        self.present.feed(
            np.ones((fold.rows, fold.cols), bool),
            np.ones((fold.rows, stream), bool),
            np.ones((stream, fold.cols), bool),
        )

    def see(self, t: int, held: NDArray[Any], right: NDArray[Any], down: NDArray[Any]) -> None:
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
        self.index = _Lines(layout, np.int32, -1)
        self.tile = np.full((layout.rows, layout.cols), -1, np.int32)
        shape = (cycles, layout.rows, layout.cols)
        self.values = [np.empty(shape, accumulator) for _ in REGISTERS]
        self.indices = [np.empty(shape, np.int32) for _ in REGISTERS]
        self.active = np.empty(shape, bool)
        self.start = 0

    def begin(self, fold: Fold) -> None:
        tiles = _tiles(self.layout.flow, fold, dict(self.index_of))
        self.index.feed(*tiles)
        self.tile.fill(-1)
        self.tile[: fold.rows, : fold.cols] = tiles[0]
        self.start = fold.start

    def see(self, t: int, held: NDArray[Any], right: NDArray[Any], down: NDArray[Any]) -> None:
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
        return Registers(*(_freeze(part) for part in (*self.values, *self.indices, self.active)))


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
            f"{what} takes {cycles} cycles, above the limit of {CYCLE_LIMIT} for stepping; use a larger "
            f"array or smaller matrices, or count without stepping with systolic.gemm."
        )
    keeps_registers = trace and cycles * rows * cols <= FULL_REGISTERS
    lines = (rows + 4 * cols) * layout.cycles + 5 * rows * cols
    need = itemsize * (lines + m * k + k * n + m * n)
    if trace:  # presence bits on the same lines, counts by cycle, start and length of each cell in each fold
        need += lines + 33 * cycles + 8 * folds * rows * cols
    if need > MEMORY_LIMIT:
        remedy = "use smaller matrices, or count without stepping with systolic.gemm"
        if trace:
            remedy = f"pass trace=False, {remedy}"
        raise ValueError(
            f"{what} needs {need / 2**20:.0f} MiB of registers, streams and trace, above the limit of "
            f"{MEMORY_LIMIT // 2**20} MiB; {remedy}."
        )
    return keeps_registers
