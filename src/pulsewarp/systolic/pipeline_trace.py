"""What a run of the tile pipeline leaves behind: events, waits, bytes, VMEM, and checks of all of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp import _checks
from pulsewarp._arrays import freeze
from pulsewarp._text import counted
from pulsewarp.matmul import DTYPES, stored_bytes
from pulsewarp.systolic.registers import Report

KINDS = ("fetch a", "fetch b", "multiply", "write c")
"""Names of the values of `PipelineTrace.kind`."""
MULTIPLY, WRITE = 2, 3


@dataclass(frozen=True, eq=False)
class PipelineTally:
    """What has been done by some cycles; shape (T,) each.

    Parameters
    ----------
    multiplied, stalled : ndarray of int64
        Cycles in which the MXU worked, and in which it waited for a tile.
    moved, bubbles : ndarray of int64
        Cycles in which the DMA channel worked, and in which it waited before a later transfer.
    bytes_in, bytes_out : ndarray of int64
        Bytes of the fetches and of the writes that have ended.
    vmem : ndarray of int64
        Bytes of VMEM that hold a tile, or into which one is on its way.
    """

    multiplied: NDArray[np.int64]
    stalled: NDArray[np.int64]
    moved: NDArray[np.int64]
    bubbles: NDArray[np.int64]
    bytes_in: NDArray[np.int64]
    bytes_out: NDArray[np.int64]
    vmem: NDArray[np.int64]

    def __repr__(self) -> str:
        return f"PipelineTally({counted(self.vmem.size, 'cycle')})"


@dataclass(frozen=True, eq=False, repr=False)
class PipelineTrace:
    """One product on its way through HBM, VMEM and the matrix units; E events in order of their start.

    Times are whole cycles of the array's clock; an event lasts from `start` up to, not including, `end`.

    Parameters
    ----------
    m, k, n : int
        Sizes of the product.
    dtype : str
        How elements are stored.
    tile : (int, int, int)
        Largest tile: rows of A's, shared side, columns of B's.
    buffers : int
        Buffers for each of A, B and C.
    dataflow : str
        How a tile runs on the array.
    overlap : bool
        Whether the array loads a stationary tile while another works.
    chip : str or None
        Id of the catalogue entry one core of which it is.
    rows, cols, units : int
        Cells of one matrix unit, and how many units share a tile.
    clock_hz, bandwidth_bytes_per_second : float
        The array's clock, and the bandwidth of the one DMA channel.
    vmem_bytes : int
        Capacity of VMEM.
    kind : ndarray of int8, shape (E,)
        Index into `KINDS`.
    step : ndarray of int32, shape (E,)
        The step it belongs to; a step multiplies one tile of A with one of B.
    tiles : ndarray of int32, shape (E, 3)
        Indices of its tile along m, k and n; -1 where its matrix has no such index.
    start, end : ndarray of int64, shape (E,)
        Cycles.
    slot : ndarray of int8, shape (E, 3)
        The buffers of A, B and C it uses; -1 for none.
    size : ndarray of int64, shape (E,)
        Bytes it moves between HBM and VMEM.
    after : ndarray of int32, shape (E,)
        The event whose end let it start; -1 where it starts with the run.
    a, b, result : ndarray or None
        The factors and the product, where factors were given.
    """

    m: int
    k: int
    n: int
    dtype: str
    tile: tuple[int, int, int]
    buffers: int
    dataflow: str
    overlap: bool
    chip: str | None
    rows: int
    cols: int
    units: int
    clock_hz: float
    bandwidth_bytes_per_second: float
    vmem_bytes: int
    kind: NDArray[np.int8]
    step: NDArray[np.int32]
    tiles: NDArray[np.int32]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    slot: NDArray[np.int8]
    size: NDArray[np.int64]
    after: NDArray[np.int32]
    a: NDArray[Any] | None
    b: NDArray[Any] | None
    result: NDArray[Any] | None

    @property
    def cycles(self) -> int:
        """Cycles until the last tile of C is in HBM."""
        return int(np.max(self.end))

    @property
    def seconds(self) -> float:
        """`cycles` over the clock, in seconds."""
        return self.cycles / self.clock_hz

    @property
    def grid(self) -> tuple[int, int, int]:
        """Tiles along m, k and n."""
        return tuple(-(-size // side) for size, side in zip((self.m, self.k, self.n), self.tile, strict=True))  # type: ignore[return-value]  # three of them

    @property
    def steps(self) -> int:
        """Steps: tiles of A multiplied with tiles of B."""
        return int(np.prod(self.grid))

    @property
    def multiply_cycles(self) -> int:
        """Cycles in which the MXU works."""
        return self._cycles_of(self.kind == MULTIPLY)

    @property
    def transfer_cycles(self) -> int:
        """Cycles in which the DMA channel works."""
        return self._cycles_of(self.kind != MULTIPLY)

    @property
    def stall_cycles(self) -> int:
        """Cycles in which the MXU waits before one of its steps, the first fetch included."""
        return int(np.max(self.end[self.kind == MULTIPLY])) - self.multiply_cycles

    @property
    def bubble_cycles(self) -> int:
        """Cycles in which the DMA channel waits before one of its transfers."""
        return self.cycles - self.transfer_cycles

    @property
    def bytes_in(self) -> int:
        """Bytes fetched from HBM."""
        return int(self.size[self.kind < MULTIPLY].sum())

    @property
    def bytes_out(self) -> int:
        """Bytes written to HBM."""
        return int(self.size[self.kind == WRITE].sum())

    @property
    def bound(self) -> str:
        """The one that takes longer in all: "compute" (also if equal) or "memory"."""
        return "compute" if self.multiply_cycles >= self.transfer_cycles else "memory"

    @property
    def utilization(self) -> float:
        """M * n * k over the multiply-adds that all cells could have made, a fraction."""
        return self.m * self.n * self.k / (self.cycles * self.rows * self.cols * self.units)

    @property
    def high_water_bytes(self) -> int:
        """The most bytes of VMEM that hold tiles at one time."""
        return int(np.max(self.occupancy()[1]))

    def occupancy(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return when the bytes of VMEM in use change, and to what.

        A buffer of A or B is in use from the start of a fetch into it until the last step that needs the
        tile has ended; one of C from its first step until it has been written.

        Returns
        -------
        (ndarray, ndarray), shape (U,) each
            Cycles and bytes.

        Examples
        --------
        >>> from pulsewarp import systolic
        >>> trace = systolic.pipeline(m=2, k=2, n=2, rows=2, cols=2, clock_hz=1, vmem_bytes=64,
        ...                           bandwidth_bytes_per_second=4, dtype="int8")
        >>> [column.tolist() for column in trace.occupancy()]
        [[0, 1, 2, 8, 12], [4, 8, 24, 16, 0]]
        """
        held = holdings(self)
        times, place = np.unique(held[:, 1:3].ravel(), return_inverse=True)
        changes = np.stack([held[:, 3], -held[:, 3]], axis=1).ravel()
        levels = np.cumsum(np.bincount(place.ravel(), weights=changes, minlength=times.size))
        return freeze(times), freeze(levels.astype(np.int64))

    @_checks.names_keywords
    def tally(self, cycles: Any) -> PipelineTally:
        """Return what had been done when each of some cycles began.

        Parameters
        ----------
        cycles : array_like of int
            From 0 to `cycles`.

        Returns
        -------
        PipelineTally

        Raises
        ------
        ValueError
            For a cycle outside the run.

        Examples
        --------
        >>> from pulsewarp import systolic
        >>> trace = systolic.pipeline(m=2, k=2, n=2, rows=2, cols=2, clock_hz=1, vmem_bytes=64,
        ...                           bandwidth_bytes_per_second=4, dtype="int8")
        >>> done = trace.tally([2, 8])
        >>> done.stalled.tolist(), done.multiplied.tolist(), done.bytes_in.tolist()
        ([2, 2], [0, 6], [8, 8])
        """
        listed = _checks.several("cycles", cycles, "give a list of cycles")
        most = self.cycles
        times = np.array(
            [_checks.whole_number("a cycle", int(t) if isinstance(t, np.integer) else t, least=0, most=most)
             for t in listed], np.int64,
        )  # fmt: skip
        multiplied = self._worked(self.kind == MULTIPLY, times)
        moved = self._worked(self.kind != MULTIPLY, times)
        last = int(np.max(self.end[self.kind == MULTIPLY]))
        changed, levels = self.occupancy()
        totals = [
            np.where(self.end[which][:, None] <= times, self.size[which][:, None], 0).sum(axis=0)
            for which in (self.kind < MULTIPLY, self.kind == WRITE)
        ]
        columns = {
            "multiplied": multiplied,
            "stalled": np.minimum(times, last) - multiplied,
            "moved": moved,
            "bubbles": times - moved,
            "bytes_in": totals[0],
            "bytes_out": totals[1],
            "vmem": levels[np.searchsorted(changed, times, side="right") - 1],
        }
        return PipelineTally(**{name: freeze(column.astype(np.int64)) for name, column in columns.items()})

    @_checks.names_keywords
    def why(self, cycle: int) -> tuple[str, str]:
        r"""Return what the MXU and what the DMA channel does in a cycle, or what each waits for.

        Parameters
        ----------
        cycle : int
            From 0 to `cycles`, at which everything has ended.

        Returns
        -------
        (str, str)
            One sentence each.

        Raises
        ------
        ValueError
            For a cycle outside the run.

        Examples
        --------
        >>> from pulsewarp import systolic
        >>> trace = systolic.pipeline(m=2, k=2, n=2, rows=2, cols=2, clock_hz=1, vmem_bytes=64,
        ...                           bandwidth_bytes_per_second=4, dtype="int8")
        >>> print(*trace.why(1), sep="\n")
        The MXU waits for B[0,0] until cycle 2.
        The DMA brings B[0,0] into VMEM until cycle 2.
        """
        t = _checks.whole_number("cycle", cycle, least=0, most=self.cycles, remedy="Cycles count from 0.")
        return _multiplying(self, t), _moving(self, t)

    def closed_form(self) -> int:
        """Return the cycles by formula, from sizes, rates and buffers alone.

        Returns
        -------
        int
            One buffer: the sum over steps of fetch + multiply + write. Two: the first fetch, then for each
            step max(multiply, next fetch + last write), then the last write.

        Examples
        --------
        >>> from pulsewarp import systolic
        >>> trace = systolic.pipeline(m=2, k=2, n=2, rows=2, cols=2, clock_hz=1, vmem_bytes=64,
        ...                           bandwidth_bytes_per_second=4, dtype="int8")
        >>> trace.closed_form() == trace.cycles
        True
        """
        from pulsewarp.systolic import pipeline_verification  # it needs this class

        return pipeline_verification.closed_form(self)

    def verify(self) -> Report:
        """Check this trace: product, closed form, one thing at a time, buffers, coverage, bytes, VMEM.

        Returns
        -------
        Report
            One `Check` each, with its numbers in a sentence; `passed` when all hold. Without factors the
            product is not checked, and the report has no line for it.

        Examples
        --------
        >>> from pulsewarp import systolic
        >>> systolic.pipeline(m=2, k=2, n=2, rows=2, cols=2, clock_hz=1, vmem_bytes=64,
        ...                   bandwidth_bytes_per_second=4, dtype="int8").verify().passed
        True
        """
        from pulsewarp.systolic import pipeline_verification  # it needs this class

        return pipeline_verification.verify(self)

    def _cycles_of(self, which: NDArray[np.bool_]) -> int:
        return int((self.end - self.start)[which].sum())

    def _worked(self, which: NDArray[np.bool_], times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the cycles that events, none of which overlap, have taken by each time."""
        start, end = self.start[which], self.end[which]
        done = np.concatenate([[0], np.cumsum(end - start)])
        last = np.searchsorted(start, times, side="right")  # events begun
        before = np.maximum(last - 1, 0)
        within = np.clip(times - start[before], 0, (end - start)[before])
        worked: NDArray[np.int64] = np.where(last > 0, done[before] + within, 0)
        return worked

    def __repr__(self) -> str:
        m, k, n = self.grid
        return (
            f"PipelineTrace({self.m}x{self.k} by {self.k}x{self.n} in {self.dtype}, "
            f"{m}x{k} by {k}x{n} tiles, {counted(self.buffers, 'buffer')}: {self.cycles} cycles, "
            f"{self.bound} bound)"
        )


def holdings(trace: PipelineTrace) -> NDArray[np.int64]:
    """Return what lay in VMEM: rows (event, from, until, bytes) of each fetch and each tile of C.

    The event is the fetch, or the write of the tile of C.
    """
    ends = trace.end[trace.kind == MULTIPLY]  # by step: steps run in order
    begins = trace.start[trace.kind == MULTIPLY]
    rows = []
    for kind in (0, 1):
        events = np.flatnonzero(trace.kind == kind)
        until = np.concatenate([trace.step[events][1:] - 1, [trace.steps - 1]])
        rows.append(np.stack([events, trace.start[events], ends[until], trace.size[events]], axis=1))
    writes = np.flatnonzero(trace.kind == WRITE)
    first = trace.step[writes] - (trace.grid[1] - 1)
    m, _, n = tile_sizes(trace, writes)
    sizes = [stored_bytes(int(e), DTYPES[trace.dtype].accumulator) for e in m * n]
    rows.append(np.stack([writes, begins[first], trace.end[writes], np.array(sizes, np.int64)], axis=1))
    return np.concatenate(rows).astype(np.int64)


def tile_sizes(trace: PipelineTrace, events: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return the lengths of some events' tiles along m, k and n."""
    whole = (trace.m, trace.k, trace.n)
    return [
        np.minimum(side, size - trace.tiles[events, axis].astype(np.int64) * side)
        for axis, (side, size) in enumerate(zip(trace.tile, whole, strict=True))
    ]


def tile_name(trace: PipelineTrace, event: int) -> str:
    """Return the name of the tile that a transfer carries, such as "B[1,0]"."""
    i, p, j = trace.tiles[event].tolist()
    return (f"A[{i},{p}]", f"B[{p},{j}]", "", f"C[{i},{j}]")[trace.kind[event]]


def _multiplying(trace: PipelineTrace, t: int) -> str:
    steps = np.flatnonzero(trace.kind == MULTIPLY)
    begun = int(np.searchsorted(trace.start[steps], t, side="right"))
    if begun and t < trace.end[steps[begun - 1]]:
        e = int(steps[begun - 1])
        i, p, j = trace.tiles[e].tolist()
        return (
            f"The MXU multiplies A[{i},{p}] by B[{p},{j}], and the vector unit adds the sums to C[{i},{j}], "
            f"until cycle {trace.end[e]:,}."
        )
    if begun == steps.size:
        return f"The MXU has finished all {counted(steps.size, 'step')}."
    e = int(steps[begun])
    missing = [
        tile_name(trace, source)
        for source in (_fetch_for(trace, e, 0), _fetch_for(trace, e, 1))
        if trace.end[source] > t
    ]
    return f"The MXU waits for {' and '.join(missing)} until cycle {trace.start[e]:,}."


def _moving(trace: PipelineTrace, t: int) -> str:
    moves = np.flatnonzero(trace.kind != MULTIPLY)
    begun = int(np.searchsorted(trace.start[moves], t, side="right"))
    if begun and t < trace.end[moves[begun - 1]]:
        e = int(moves[begun - 1])
        where = "writes {} back to HBM" if trace.kind[e] == WRITE else "brings {} into VMEM"
        return f"The DMA {where.format(tile_name(trace, e))} until cycle {trace.end[e]:,}."
    if begun == moves.size:
        return "The DMA has finished: all of C is in HBM."
    e = int(moves[begun])
    name, until = tile_name(trace, e), f"until cycle {trace.start[e]:,}"
    if trace.kind[e] == WRITE:
        return f"The DMA waits {until}, when {name} is complete."
    letter = "AB"[trace.kind[e]]
    if _held_before(trace, e):
        both = (
            f"both buffers of {letter} hold tiles"
            if trace.buffers == 2
            else f"{letter}'s one buffer holds a tile"
        )
        return f"The DMA waits {until}: {both} that the MXU still needs, so {name} has no room."
    return f"The DMA waits {until}: the scalar unit starts {name} one step ahead."


def _fetch_for(trace: PipelineTrace, event: int, kind: int) -> int:
    """Return the fetch of the tile that a step uses."""
    fetches = np.flatnonzero(trace.kind == kind)
    return int(fetches[np.searchsorted(trace.step[fetches], trace.step[event], side="right") - 1])


def _held_before(trace: PipelineTrace, event: int) -> bool:
    """Tell whether a fetch starts exactly when the tile before it in its buffer is given back."""
    kind = int(trace.kind[event])
    fetches = np.flatnonzero(trace.kind == kind)
    number = int(np.searchsorted(fetches, event))
    if number < trace.buffers:
        return False
    # The tile before it in the buffer is needed up to the step before the next tile of the stream.
    last_step = int(trace.step[fetches[number - trace.buffers + 1]]) - 1
    end = trace.end[trace.kind == MULTIPLY][last_step]
    return bool(end == trace.start[event])
