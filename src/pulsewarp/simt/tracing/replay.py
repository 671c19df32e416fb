"""A traced kernel beside its timing: what memory holds in every cycle, and checks of both.

The tracer runs the warps of a block one after the other from barrier to barrier; on the clock they issue
interleaved. Where nothing races, that makes no difference to any value. Where something does, an element
holds what the tracer's order makes of those accesses that have been issued so far, so that a run always ends
with the tracer's results.
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp._arrays import equal_values
from pulsewarp._report import Check, Report
from pulsewarp._text import counted
from pulsewarp.simt._instruction import LANES, Instruction
from pulsewarp.simt._states import ISSUES
from pulsewarp.simt.access import SECTOR_BYTES
from pulsewarp.simt.trace import WarpTrace
from pulsewarp.simt.tracing._warp import ATOMICS
from pulsewarp.simt.tracing.result import KernelTrace, same_numbers
from pulsewarp.simt.tracing.stream import Memory, TracedInstruction

Key = tuple[int, int, int, int, int]  # block, barriers passed, warp, pc, lane: the tracer's order


@dataclass(frozen=True, eq=False)
class Held:
    """An array of a kernel: its names (several where one array was passed several times), and what it holds.

    `before` is what it holds before the kernel runs, in the order of memory; None for shared and local
    arrays, whose content is not defined then.
    """

    names: tuple[str, ...]
    memory: Memory
    before: NDArray[Any] | None


@dataclass(frozen=True, eq=False)
class Changes:
    """Every element written, in the order of issue: one entry for each lane of a store or an atomic.

    `issue` is its row in `Replay.issues`; `owner` the block of a shared array, the warp (as in the kernel's
    `warps`) of a local one, else 0; `element` counts in memory, in a local array ``lane * size + element``;
    `value` is what the element then holds.
    """

    issue: NDArray[np.int64]
    array: NDArray[np.int64]
    owner: NDArray[np.int64]
    element: NDArray[np.int64]
    value: NDArray[np.float64]


@dataclass(slots=True)
class _Write:
    issue: int
    key: Key
    op: str  # "" where the element's old value does not matter
    value: Any


# Atomics that make a new value of the old one and the lane's; what others leave is taken from the tracer.
_CHANGE: Mapping[str, Callable[..., Any]] = {
    "": lambda _, new: new,
    **{
        name.upper().rstrip("_"): ATOMICS[name] for name in ("add", "sub", "max", "min", "and_", "or_", "xor")
    },
}
_SUMS = frozenset({"ADD", "SUB"})


@dataclass(frozen=True, eq=False, repr=False)
class Replay:
    """A traced kernel and the trace of its warps on one SM.

    Parameters
    ----------
    kernel : KernelTrace
        The kernel.
    trace : WarpTrace
        What its `simulate` returned.
    warps : tuple of int
        Warp ``w`` of `trace` is ``kernel.warps[warps[w]]``, as `resident_warps` says.
    expected : mapping of str to ndarray
        What arrays must hold in the end, by the reader's own account; `verify` compares.

    Examples
    --------
    >>> from pulsewarp import simt
    >>> kernel = simt.lesson_kernels.LESSONS["saxpy"].trace()
    >>> run = Replay(kernel, kernel.simulate(), kernel.resident_warps())
    >>> run.changes.element[:3].tolist(), run.changes.value[:3].tolist()
    ([0, 1, 2], [-14.5, 7.0, -10.0])
    >>> run.verify().passed
    True
    """

    kernel: KernelTrace
    trace: WarpTrace
    warps: tuple[int, ...]
    expected: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    @property
    def cycles(self) -> int:
        """Cycles of the trace."""
        return self.trace.cycles

    @functools.cached_property
    def issues(self) -> NDArray[np.int64]:
        """Rows (cycle, warp, pc) of everything issued, by cycle and within one by scheduler."""
        cycle, scheduler = np.nonzero(self.trace.issued >= 0)
        warp = self.trace.issued[cycle, scheduler]
        return np.stack([cycle, warp, self.trace.pc[cycle, warp]], axis=1).astype(np.int64)

    def instruction(self, warp: int, pc: int) -> TracedInstruction:
        """Return what a warp of the trace issues at a place of its program."""
        return self.kernel.warps[self.warps[warp]].instructions[pc]

    @functools.cached_property
    def issued(self) -> list[TracedInstruction]:
        """The instructions of `issues`, row by row."""
        return [self.instruction(w, pc) for _, w, pc in self.issues.tolist()]

    @functools.cached_property
    def arrays(self) -> tuple[Held, ...]:
        """Every array once, arguments first."""
        found: dict[tuple[str, int], list[Memory]] = {}
        for place, memory in enumerate(self.kernel.memory):
            found.setdefault(_key(memory, place), []).append(memory)
        arrays = []
        for same in found.values():
            first = same[0]
            given = self.kernel.arguments[first.name] if first.space == "global" else None
            arrays.append(
                Held(tuple(m.name for m in same), first, given if given is None else flat(first, given))
            )
        return tuple(arrays)

    @functools.cached_property
    def places(self) -> dict[int, int]:
        """Return which of `arrays` an instruction's memory is, by its identity."""
        keys = [_key(memory, place) for place, memory in enumerate(self.kernel.memory)]
        order = list(dict.fromkeys(keys))
        return {id(m): order.index(key) for m, key in zip(self.kernel.memory, keys, strict=True)}

    def owner(self, i: TracedInstruction, warp: int) -> int:
        """Return whose copy of an array an instruction of a warp of the trace touches, as in `Changes`."""
        space = i.memory.space if i.memory is not None else "global"
        return {"global": 0, "shared": self.trace.blocks[warp], "local": self.warps[warp]}[space]

    def cells(self, i: TracedInstruction) -> NDArray[np.int64]:
        """Return the element that each lane touches, as `Changes` counts it; -1 for none."""
        elements = np.full(LANES, -1) if i.elements is None else i.elements
        if i.memory is None or i.memory.space != "local":
            return elements
        size = int(np.prod(i.memory.shape))
        return np.where(elements >= 0, np.arange(elements.size) * size + elements, -1)

    @functools.cached_property
    def changes(self) -> Changes:
        """What every store and every atomic leaves behind."""
        places, arrays = self.places, self.arrays
        writes: dict[tuple[int, int, int], list[_Write]] = {}
        rows: list[tuple[int, int, int, int]] = []
        phases = self._phases()
        for n, (_, w, pc) in enumerate(self.issues.tolist()):
            i = self.instruction(w, pc)
            if i.what not in ("store", "atomic") or i.memory is None:
                continue
            array, owner = places[id(i.memory)], self.owner(i, w)
            warp = self.kernel.warps[self.warps[w]]
            op = i.text.split()[0].partition(".")[2] if i.what == "atomic" else ""
            op, new = (op, i.values) if op in _CHANGE else ("", i.left)
            if new is None:
                continue
            for lane, element in enumerate(self.cells(i).tolist()):
                if element >= 0:
                    key = (warp.block, int(phases[w][pc]), warp.warp, pc, lane)
                    writes.setdefault((array, owner, element), []).append(_Write(n, key, op, new[lane]))
                    rows.append((n, array, owner, element))
        after: dict[tuple[int, int, int], Iterator[Any]] = {}
        with np.errstate(all="ignore"):
            for (array, owner, element), own in writes.items():
                before = arrays[array].before
                dtype = np.dtype(arrays[array].memory.dtype)
                start = dtype.type(0) if before is None else before[element]
                after[array, owner, element] = iter(_values(own, start, dtype))
        columns = np.array(rows, np.int64).reshape(-1, 4).T
        value = [float(next(after[array, owner, element])) for _, array, owner, element in rows]
        return Changes(columns[0], columns[1], columns[2], columns[3], np.array(value, np.float64))

    def _phases(self) -> list[NDArray[np.int64]]:
        """Return, for each warp of the trace, how many barriers it has passed before each instruction."""
        bars = [
            np.array([i.what == "barrier" for i in self.kernel.warps[w].instructions], np.int64)
            for w in self.warps
        ]
        return [np.cumsum(own) - own for own in bars]

    def lines(self, cycles: NDArray[np.int64]) -> tuple[tuple[int, ...], NDArray[np.int64]]:
        """Return the lines that issue something, and what each has cost by the end of some cycles.

        Parameters
        ----------
        cycles : ndarray of int
            Ascending.

        Returns
        -------
        tuple of int
            `L` line numbers.
        ndarray of int64, (cycles, L, 7)
            The counts of `LineScore`, from ``instructions`` on.

        Examples
        --------
        >>> from pulsewarp import simt
        >>> kernel = simt.lesson_kernels.LESSONS["saxpy"].trace()
        >>> run = Replay(kernel, kernel.simulate(), kernel.resident_warps())
        >>> lines, counts = run.lines(np.array([0, run.cycles - 1]))
        >>> counts[:, :, 0].tolist()  # instructions: the first cycle issues four
        [[4, 0, 0], [12, 24, 40]]
        """
        issues = self.issues
        issued = self.issued
        lines = tuple(sorted({i.line for i in issued}))
        counts = np.zeros((len(cycles) + 1, len(lines), 7), np.int64)
        charged = np.array([i.charges for i in issued], np.int64).reshape(-1, 7)
        which = np.searchsorted(lines, [i.line for i in issued])
        np.add.at(counts, (np.searchsorted(cycles, issues[:, 0]), which), charged)
        return lines, np.cumsum(counts[:-1], axis=0)

    def memory_after(self) -> dict[tuple[int, int], NDArray[np.float64]]:
        """Return what each array and owner holds in the end, as far as it was ever written or passed."""
        held: dict[tuple[int, int], NDArray[np.float64]] = {}
        for array, one in enumerate(self.arrays):
            if one.before is not None:
                held[array, 0] = one.before.astype(np.float64)
        changes = self.changes
        for array, owner, element, value in zip(
            changes.array.tolist(), changes.owner.tolist(), changes.element.tolist(),
            changes.value.tolist(), strict=True,
        ):  # fmt: skip
            self._content(held, array, owner)[element] = value
        return held

    def _content(
        self, held: dict[tuple[int, int], NDArray[np.float64]], array: int, owner: int
    ) -> NDArray[np.float64]:
        memory = self.arrays[array].memory if (array, owner) not in held else None
        if memory is not None:
            lanes = LANES if memory.space == "local" else 1
            held[array, owner] = np.zeros(lanes * int(np.prod(memory.shape)))
        return held[array, owner]

    def verify(self) -> Report:
        """Return a report that recounts what is shown: results, loads, sectors, the clock's rules."""
        checks = [self._check_results(), *self._check_expected(), self._check_loads(), self._check_sectors()]
        return Report((*checks, *self._check_clock()))

    def _check_results(self) -> Check:
        """Compare memory in the last cycle with the kernel's results, where all who write are on the SM."""
        after, places = self.memory_after(), self.places
        shown = set(self.warps)
        agree = total = 0
        others: dict[int, set[int]] = {}
        for w, warp in enumerate(self.kernel.warps):
            for i in () if w in shown else warp.instructions:
                if i.what in ("store", "atomic") and i.memory is not None and i.memory.space == "global":
                    others.setdefault(places[id(i.memory)], set()).update(self.cells(i).tolist())
        for array, one in enumerate(self.arrays):
            if one.before is None:
                continue
            found = flat(one.memory, self.kernel.results[one.names[0]]).astype(np.float64)
            own = np.array(sorted(set(range(found.size)) - others.get(array, set())), np.int64)
            agree += int(np.count_nonzero(equal_values(after[array, 0][own], found[own])))
            total += own.size
        away = sum(len(elements - {-1}) for elements in others.values())
        more = f"; blocks that are not shown write {away} more" if away else ""
        return Check(
            "results",
            agree == total,
            f"{agree} of {counted(total, 'element')} hold after the last store what the kernel left{more}",
        )

    def _check_expected(self) -> list[Check]:
        checks = []
        for name, wanted in self.expected.items():
            found = self.kernel.results[name]
            right = int(np.count_nonzero(same_numbers(self.kernel, name, wanted)))
            far = "" if found.dtype.kind != "f" else f", at most {_distance(found, wanted):.2g} apart"
            says = f"{right} of {counted(found.size, 'element')} of {name} are what NumPy says{far}"
            checks.append(Check(f"{name} against NumPy", right == found.size, says))
        return checks

    def _check_loads(self) -> Check:
        """Compare every value loaded with what memory holds in that cycle, going along the clock."""
        held: dict[tuple[int, int], NDArray[np.float64]] = {}
        for array, one in enumerate(self.arrays):
            if one.before is not None:
                held[array, 0] = one.before.astype(np.float64)
        places, changes = self.places, self.changes
        racing = {p.array for p in self.kernel.problems if p.kind == "race"}
        next_change = same = total = excused = 0
        for n, (_, w, pc) in enumerate(self.issues.tolist()):
            i = self.instruction(w, pc)
            while next_change < changes.issue.size and changes.issue[next_change] < n:
                at = next_change
                where = self._content(held, int(changes.array[at]), int(changes.owner[at]))
                where[changes.element[at]] = changes.value[at]
                next_change += 1
            if i.what != "load" or i.memory is None or i.values is None:
                continue
            cells = self.cells(i)
            on = cells >= 0
            content = self._content(held, places[id(i.memory)], self.owner(i, w))[cells[on]]
            right = int(np.count_nonzero(equal_values(content, i.values[on].astype(np.float64))))
            same, total = same + right, total + int(on.sum())
            excused += int(on.sum()) - right if i.memory.name in racing else 0
        says = f"{same} of {counted(total, 'value')} loaded are what memory holds in that cycle"
        if excused:
            says += f"; {excused} are of {' and '.join(sorted(filter(None, racing)))}, for which threads race"
        return Check("loads", same + excused == total, says)

    def _check_sectors(self) -> Check:
        """Recount sectors from the addresses of each access to global memory."""
        counted_here = told = accesses = 0
        for i in self.issued:
            addresses = i.addresses
            if i.memory is None or i.memory.space != "global" or addresses is None:
                continue
            accesses += 1
            counted_here += np.unique(addresses[addresses >= 0] // SECTOR_BYTES).size
            told += i.sectors or 0
        return Check(
            "sectors",
            counted_here == told,
            f"{counted(accesses, 'access', 'es')} to global memory touch {counted(counted_here, 'sector')} "
            f"by their addresses; {told} are charged",
        )

    def _check_clock(self) -> list[Check]:
        """Check the timing against its rules, each by looking at the issues alone."""
        times = [np.flatnonzero(self.trace.state[:, w] == ISSUES).tolist() for w in range(self.trace.warps)]
        programs = self.trace.programs
        issued = sum(map(len, times))
        early = sum(_early(program, own) for program, own in zip(programs, times, strict=True))
        through = self._through(times)
        taken = self._overlaps()
        slots = int(np.count_nonzero(self.trace.issued >= 0))
        return [
            Check("slots", slots == issued == sum(map(len, programs)),
                  f"{slots} slots issue the {counted(sum(map(len, programs)), 'instruction')} of "
                  f"{counted(len(programs), 'warp')}"),
            Check("operands", not early,
                  f"{early} of {counted(issued, 'instruction')} issue before an operand has landed"),
            Check("memory unit", not taken,
                  f"{taken} of {counted(len(self.trace.requests), 'access', 'es')} begin while another keeps "
                  "the memory unit"),
            Check("barriers", not through,
                  f"{through} of {counted(issued, 'instruction')} issue before the barrier in front of them "
                  "opens"),
        ]  # fmt: skip

    def _overlaps(self) -> int:
        """Return how many accesses begin while an earlier one keeps the memory unit."""
        rows = self.trace.requests.tolist()
        schedulers = self.trace.schedulers
        rows.sort(key=lambda row: (row[0], row[1] % schedulers))
        ends = [t + self.trace.programs[w][pc].interval for t, w, pc, _ in rows]
        return sum(row[0] < end for row, end in zip(rows[1:], ends, strict=False))

    def _through(self, times: Sequence[Sequence[int]]) -> int:
        """Return how many instructions issue before all warps of their block have come to the barrier."""
        arrivals = [
            [t for t, i in zip(own, program, strict=False) if i.unit == "bar"]
            for own, program in zip(times, self.trace.programs, strict=True)
        ]
        wrong = 0
        for w, own in enumerate(times):
            mates = [v for v, block in enumerate(self.trace.blocks) if block == self.trace.blocks[w]]
            phase = np.searchsorted(arrivals[w], own, side="left")  # barriers issued before each instruction
            for t, k in zip(own, phase.tolist(), strict=True):
                came = [arrivals[v][k - 1] for v in mates if k and len(arrivals[v]) >= k]
                wrong += bool(came) and t <= max(came)
        return wrong

    def __repr__(self) -> str:
        return f"Replay({self.kernel.name}: {len(self.issues)} instructions in {self.cycles} cycles)"


def _key(memory: Memory, place: int) -> tuple[str, int]:
    """Return what two names of one array share."""
    return (memory.space, memory.base if memory.space == "global" else -1 - place)


def flat(memory: Memory, array: NDArray[Any]) -> NDArray[Any]:
    """Return an argument's elements in the order of memory."""
    return array.reshape(-1, order="C" if memory.row_major else "F")


def _values(writes: Sequence[_Write], start: Any, dtype: np.dtype[Any]) -> list[Any]:
    """Return what an element holds after each of its writes, given in the order of the clock.

    It is what the tracer's order makes of those that have been issued so far.
    """
    ops = {write.op for write in writes}
    sums = ops <= _SUMS
    any_order = (sums and dtype.kind in "iu") or (len(ops) == 1 and not sums and "" not in ops)
    taken: list[_Write] = []
    found = []
    now = start
    for write in writes:
        if any_order or not taken or write.key > taken[-1].key:
            taken.append(write)
            now = dtype.type(_CHANGE[write.op](now, write.value))
        else:
            bisect.insort(taken, write, key=lambda one: one.key)
            now = _folded(taken, start, dtype)
        found.append(now)
    return found


def _folded(writes: Sequence[_Write], start: Any, dtype: np.dtype[Any]) -> Any:
    """Return what writes make of an element, from the last of them that asks for nothing before it."""
    first = max((n for n, write in enumerate(writes) if not write.op), default=0)
    now = start
    for write in writes[first:]:
        now = dtype.type(_CHANGE[write.op](now, write.value))
    return now


def _distance(found: NDArray[Any], wanted: NDArray[Any]) -> float:
    apart = np.abs(found.astype(np.float64) - np.asarray(wanted, np.float64))
    return float(np.nanmax(apart, initial=0.0))


def _early(program: Sequence[Instruction], times: Sequence[int]) -> int:
    """Return how many instructions issue before a register they read or write has landed."""
    landed: dict[str, int] = {}
    early = 0
    for t, i in zip(times, program, strict=False):
        registers = (*i.srcs, *(() if i.dst is None else (i.dst,)))
        early += any(landed.get(register, 0) > t for register in registers)
        if i.dst is not None:
            landed[i.dst] = t + i.latency
    return early
