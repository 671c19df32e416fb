"""What each machine has been charged at any cycle, counted from what happened in a trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from pulsewarp._arrays import freeze
from pulsewarp._checks import instance, names_keywords
from pulsewarp.simt import LANES, STATES, KernelTrace, WarpTrace
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
        """Return every charge after clock edge `t`, by name.

        Parameters
        ----------
        t : int
            Cycle; -1 is the last one, as in any array.

        Returns
        -------
        dict of str to int
        """
        return {field.name: int(getattr(self, field.name)[t]) for field in fields(self)}

    def __repr__(self) -> str:
        charges = ", ".join(f"{name} {value}" for name, value in self.at(-1).items() if name != "busy")
        return f"SystolicLedger({self.macs.size} cycles: {charges})"


@names_keywords
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

    >>> from pulsewarp import ledger, systolic
    >>> books = ledger.systolic(systolic.simulate([[1, 2], [3, 4]], [[5, 6], [7, 8]], rows=2, cols=2))
    >>> [books.at(-1)[charge] for charge in ("macs", "reads_a", "reads_b", "writes_out")]
    [8, 4, 4, 4]
    """
    schedule = instance("trace", trace, SystolicTrace, "pass what systolic.simulate returned").schedule
    entered, moved = schedule.entered.astype(np.int64), schedule.moved.astype(np.int64)
    reads = {trace.roles[register]: entered[:, column] for column, register in enumerate(REGISTERS)}
    starts = np.zeros(trace.cycles, np.int64)
    starts[[fold.start for fold in trace.folds]] = 1
    held = REGISTERS.index("held")
    busy = schedule.busy.astype(np.int64)
    return SystolicLedger(
        macs=_total(busy),
        reads_a=_total(reads["a"]),
        reads_b=_total(reads["b"]),
        reads_partial=_total(schedule.reentered),
        writes_out=_total(schedule.exited),
        hops=_total(moved.sum(axis=1) - moved[:, held]),
        shifts=_total(moved[:, held]),
        decisions=_total(starts),
        idle_cell_cycles=_total(trace.rows * trace.cols - busy),
        busy=freeze(busy),
    )


def _total(by_cycle: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the running total of a count by cycle, read-only."""
    return freeze(np.cumsum(by_cycle, dtype=np.int64))


@dataclass(frozen=True, eq=False, repr=False)
class WarpLedger:
    """Charges of one SM, each an int64 array of shape (T,): entry t counts cycles 0 to t.

    Parameters
    ----------
    slots : ndarray
        Issue slots offered, one per scheduler and cycle; always `issued` plus everything in `lost`.
    issued : ndarray
        Slots used, which is also the number of issue decisions: one for each instruction of a warp.
    lost : mapping of str to ndarray
        Slots not used, by reason: ``memory``, ``result``, ``unit``, ``limit``, ``barrier`` (as in
        `simt.STATES`) and ``finished`` (every warp of the scheduler has, or it has none).
    lanes : ndarray
        Lanes that were on, summed over issued instructions; 32 x `issued` when none was masked off.
    requests : ndarray
        Instructions issued to the memory unit.
    masked : ndarray
        Lanes that were off: 32 x `issued` less `lanes`.
    sectors, bytes : ndarray or None
        32-byte sectors of global memory touched, and bytes that active lanes asked for in it; an atomic
        counts once. None where the trace has no addresses.
    wavefronts : ndarray or None
        Passes through shared memory; None likewise.
    """

    slots: NDArray[np.int64]
    issued: NDArray[np.int64]
    lost: Mapping[str, NDArray[np.int64]]
    lanes: NDArray[np.int64]
    requests: NDArray[np.int64]
    masked: NDArray[np.int64]
    sectors: NDArray[np.int64] | None = None
    bytes: NDArray[np.int64] | None = None
    wavefronts: NDArray[np.int64] | None = None

    def at(self, t: int) -> dict[str, int]:
        """Return every charge after cycle `t`, by name; lost slots as ``lost_memory`` and so on.

        Parameters
        ----------
        t : int
            Cycle; -1 is the last one, as in any array.

        Returns
        -------
        dict of str to int
        """
        counts = {"slots": self.slots, "issued": self.issued}
        counts |= {f"lost_{reason}": count for reason, count in self.lost.items()}
        counts |= {"lanes": self.lanes, "requests": self.requests, "masked": self.masked}
        traffic = {"sectors": self.sectors, "bytes": self.bytes, "wavefronts": self.wavefronts}
        counts |= {name: count for name, count in traffic.items() if count is not None}
        return {name: int(count[t]) for name, count in counts.items()}

    def __repr__(self) -> str:
        charges = ", ".join(f"{name} {value}" for name, value in self.at(-1).items())
        return f"WarpLedger({self.slots.size} cycles: {charges})"


@names_keywords
def warp(
    trace: WarpTrace, *, kernel: KernelTrace | None = None, blocks: Sequence[int] | None = None
) -> WarpLedger:
    """Count what an SM is charged, by cycle: issue slots used, and slots lost with the reason.

    A scheduler whose warps wait for different things loses its slot to the wait that, as known in that
    cycle, ends first: had it been shorter, the slot would have been used. On a tie the reason that comes
    first in `simt.STATES` counts; a barrier that still lacks a warp counts last; and a warp that has issued
    everything counts only when no other has anything left. Not counted: energy, and without `kernel` bytes,
    sectors and wavefronts.

    Parameters
    ----------
    trace : WarpTrace
        Any.
    kernel : KernelTrace, optional
        The traced kernel whose `simulate` returned the trace: its addresses give sectors, bytes and
        wavefronts, charged in the cycle in which the access issues.
    blocks : sequence of int, optional
        As given to that `simulate`.

    Returns
    -------
    WarpLedger

    Raises
    ------
    ValueError
        When the trace is not one of that kernel and those blocks.

    Examples
    --------
    >>> from pulsewarp import ledger, simt
    >>> books = ledger.warp(simt.simulate([simt.load_compute(1, 2)] * 8))
    >>> {reason: int(count[-1]) for reason, count in books.lost.items() if count[-1]}
    {'unit': 12, 'memory': 64, 'result': 20, 'finished': 12}
    >>> int(books.slots[-1]), int(books.issued[-1])
    (132, 24)
    """
    T, S = instance("trace", trace, WarpTrace, "pass what simt.simulate returned").issued.shape
    traffic = {} if kernel is None else _traffic(trace, kernel, blocks)
    idle = trace.issued < 0
    blamed = _blamed(trace)
    by_reason = {
        word: (idle & (blamed == code)).sum(axis=1)
        for code, word in enumerate(STATES)
        # With a warp ready no slot is lost; one outside the pool is there only when six are inside, and of
        # these each waits for something whose end is known.
        if word not in ("issues", "ready", "pending")
    }
    return WarpLedger(
        slots=_total(np.full(T, S)),
        issued=_total((~idle).sum(axis=1)),
        lost=MappingProxyType({word: _total(count) for word, count in by_reason.items()}),
        lanes=_total(trace.lanes.sum(axis=1, dtype=np.int64)),
        requests=_total(np.bincount(trace.requests[:, 0], minlength=T)),
        masked=_total(np.where(trace.lanes > 0, LANES - trace.lanes.astype(np.int64), 0).sum(axis=1)),
        **traffic,
    )


def _traffic(
    trace: WarpTrace, kernel: KernelTrace, blocks: Sequence[int] | None
) -> dict[str, NDArray[np.int64]]:
    """Return sectors, bytes and wavefronts, summed up by cycle."""
    kernel = instance("kernel", kernel, KernelTrace, "pass what simt.trace_kernel returned")
    warps = [kernel.warps[w].instructions for w in kernel.resident_warps(blocks)]
    if [[i.text for i in program] for program in trace.programs] != [[i.text for i in own] for own in warps]:
        raise ValueError(
            f"The trace of {trace.warps} warps is not one of {kernel.name} with its {len(warps)} warps; "
            "pass the kernel whose simulate returned the trace, and the same blocks."
        )
    sums = {name: np.zeros(trace.cycles, np.int64) for name in ("sectors", "bytes", "wavefronts")}
    for t, w, pc, _ in trace.requests.tolist():
        i = warps[w][pc]
        sums["sectors"][t] += i.sectors or 0
        sums["wavefronts"][t] += i.wavefronts or 0
        if i.sectors is not None and i.memory is not None and i.elements is not None:
            sums["bytes"][t] += i.memory.element_bytes * int((i.elements >= 0).sum())
    return {name: _total(count) for name, count in sums.items()}


def _blamed(trace: WarpTrace) -> NDArray[np.int64]:
    """Return, for every cycle and scheduler, the state that costs the slot if nothing is issued."""
    finished = STATES.index("finished")
    never = int(np.max(trace.until)) + 1  # after any known end of a wait
    lengths = np.array([len(program) for program in trace.programs])
    end = np.where(trace.until < 0, never, trace.until).astype(np.int64)
    end[trace.pc == lengths] += never + 1  # after everyone who has something left to issue
    end[trace.state == finished] = 3 * (never + 1)
    # One number per warp and cycle, whose minimum over warps carries both the end and the state.
    keys = end * len(STATES) + trace.state
    blamed = np.full(trace.issued.shape, finished, np.int64)
    for s in range(min(trace.schedulers, trace.warps)):  # a scheduler without warps has nothing to do
        blamed[:, s] = keys[:, s :: trace.schedulers].min(axis=1) % len(STATES)
    return blamed
