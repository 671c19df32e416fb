"""Block placement: a grid's blocks onto the SMs of a GPU, wave by wave, and the tail.

Documented is this: a grid's blocks go to SMs that have room, and as blocks end, new ones start in their
place; nothing is said of the order, and programs may not rely on one (NVIDIA, "CUDA C++ Programming Guide",
hardware implementation, and thread hierarchy). Measurements disagree about the rest. On Fermi, S. Pai ("How
the Fermi Thread Block Scheduler Works (Illustrated)", users.ices.utexas.edu/~sreepai/fermi-tbs) saw SMs taken
mostly in turn, and blocks not always by number. On Pascal, Volta and Turing, G. Gilman et al. ("Demystifying
the Placement Policies of the NVIDIA GPU Thread Block Scheduler for Concurrent Kernels", SIGMETRICS
Performance Evaluation Review 48(3), 2020) report that the SM with most room is taken, not the next in turn.
So the order is a parameter here, and what holds for every order is told apart from what does not.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pulsewarp import _checks, chips
from pulsewarp._arrays import freeze
from pulsewarp._report import Check, Report
from pulsewarp._text import counted
from pulsewarp.chips import Chip
from pulsewarp.simt._occupancy import Occupancy
from pulsewarp.simt.trace import WarpTrace

ORDERS = ("round_robin", "most_room", "fill")
"""Orders in which `place_blocks` takes SMs. "round_robin": the next SM in turn that has a free slot.
"most_room": the SM with most free slots, the lowest of several. "fill": the lowest SM that has a free slot,
so that one SM is full before the next one gets a block; for comparison only, since no measurement we
know of shows it."""

MOST_BLOCKS = 1_000_000
MOST_BLOCK_CYCLES = 10**9  # so that the sum over the most blocks is exact in a float, and so in the browser


@dataclass(frozen=True, eq=False, repr=False)
class PlacementTally:
    """Numbers of a placement at some cycles, one entry for each.

    Parameters
    ----------
    resident, waiting, done : ndarray of int64
        Blocks that are on an SM, have not started, and have ended.
    idle : ndarray of int64
        Cycles before this one in which a slot held no block, summed over slots.
    """

    resident: NDArray[np.int64]
    waiting: NDArray[np.int64]
    done: NDArray[np.int64]
    idle: NDArray[np.int64]

    def __repr__(self) -> str:
        return f"PlacementTally({counted(self.idle.size, 'cycle')})"


@dataclass(frozen=True, eq=False, repr=False)
class Placement:
    """Where and when each block of a grid ran.

    Entry ``b`` of an array tells of block ``b``. A slot is the room for one block on an SM.

    Parameters
    ----------
    sms, blocks_per_sm : int
        SMs, and the slots of each.
    order : str
        One of `ORDERS`.
    block_cycles : ndarray of int64, (blocks,)
        Cycles each block takes.
    sm, slot : ndarray of int64, (blocks,)
        The SM of each block, and its slot there.
    start, end : ndarray of int64, (blocks,)
        First cycle of each block, and the cycle after its last one.
    wave : ndarray of int64, (blocks,)
        How many blocks the slot held before. Of equal blocks this is the wave they belong to; uneven blocks
        have no common waves, and a slot of short blocks gets further than one of long blocks.
    chip : str or None
        The chip's id in the catalogue; None where a number of SMs was given.

    Examples
    --------
    >>> from pulsewarp import simt
    >>> placed = simt.place_blocks(5, sms=2, blocks_per_sm=2, block_cycles=[30, 10, 10, 10, 20])
    >>> placed.sm.tolist(), placed.start.tolist(), placed.end.tolist()
    ([0, 1, 0, 1, 0], [0, 0, 0, 0, 10], [30, 10, 10, 10, 30])
    """

    sms: int
    blocks_per_sm: int
    order: str
    block_cycles: NDArray[np.int64]
    sm: NDArray[np.int64]
    slot: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    wave: NDArray[np.int64]
    chip: str | None = None

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return self.block_cycles.size

    @property
    def slots(self) -> int:
        """Blocks that can be resident at once."""
        return self.sms * self.blocks_per_sm

    @property
    def cycles(self) -> int:
        """Cycles until the last block has ended."""
        return int(np.max(self.end))

    @property
    def waves(self) -> int:
        """Waves of the grid, ``ceil(blocks / slots)``, the last one perhaps not full."""
        return -(-self.blocks // self.slots)

    @property
    def last_wave_blocks(self) -> int:
        """Blocks of the last wave, from 1 to `slots`."""
        return self.blocks - (self.waves - 1) * self.slots

    @property
    def work(self) -> int:
        """Cycles of all blocks together."""
        return int(self.block_cycles.sum())

    @property
    def utilisation(self) -> float:
        """Share of slots that hold a block, over all cycles, in (0, 1]."""
        return self.work / (self.slots * self.cycles)

    @property
    def idle_slot_cycles(self) -> int:
        """Cycles in which a slot holds no block, summed over slots; all of them lie in the tail."""
        return self.slots * self.cycles - self.work

    @property
    def tail_start(self) -> int:
        """First cycle in which a slot stays idle, since no block waits any more; `cycles` if none does."""
        return int(np.min(self._idle_from()))

    @property
    def tail_cycles(self) -> int:
        """Cycles from `tail_start` to the end."""
        return self.cycles - self.tail_start

    @property
    def least_cycles(self) -> int:
        """Cycles below which no placement in any order can end: the longest block, or all work evenly spread.

        Notes
        -----
        max(longest, ceil(work / slots)); R. L. Graham, "Bounds for Certain Multiprocessing Anomalies", Bell
        System Technical Journal 45 (1966), who also shows that blocks which start as soon as a slot is free,
        in whatever order, end within (2 - 1 / slots) times the best.
        """
        return max(int(np.max(self.block_cycles)), -(-self.work // self.slots))

    def tally(self, cycles: ArrayLike) -> PlacementTally:
        """Count at some cycles the blocks that are resident, wait and are done, and idle slot-cycles so far.

        Parameters
        ----------
        cycles : array of int
            From 0 to `cycles`.

        Returns
        -------
        PlacementTally
            `resident`, `waiting`, `done`, `idle`.

        Examples
        --------
        >>> from pulsewarp import simt
        >>> simt.place_blocks(3, sms=2, block_cycles=10).tally([0, 10, 20]).resident.tolist()
        [2, 1, 0]
        """
        times = np.asarray(cycles, np.int64)
        started = np.searchsorted(np.sort(self.start), times, side="right")
        ends = np.sort(self.end)
        done = np.searchsorted(ends, times, side="right")
        # Slots are idle in the tail only, so the idle part of each begins when its last block has ended.
        idle_from = np.sort(self._idle_from())
        begun = np.searchsorted(idle_from, times, side="right")
        idle = begun * times - np.concatenate([[0], np.cumsum(idle_from)])[begun]
        return PlacementTally(*map(freeze, (started - done, self.blocks - started, done, idle)))

    def events(self) -> NDArray[np.int64]:
        """Return the cycles in which a block starts or ends, in order; the last one is `cycles`."""
        return np.unique(np.concatenate([self.start, self.end]))

    def why(self, t: int) -> tuple[str, str]:
        """Say in two sentences what happens in cycle `t` and how the slots stand after it.

        Parameters
        ----------
        t : int
            From 0 to `cycles`.

        Returns
        -------
        tuple of str
            Which blocks end and start; how many slots are taken, and how many blocks wait.

        Raises
        ------
        ValueError
            When the run has no such cycle.

        Examples
        --------
        >>> from pulsewarp import simt
        >>> for sentence in simt.place_blocks(133, sms=132, block_cycles=1000).why(1000):
        ...     print(sentence)
        132 blocks (b0 to b131) end and b132 starts on SM 0.
        1 of 132 slots is taken and no block waits: 131 slots stay idle to the end.
        """
        t = _checks.whole_number("t", t, least=0, most=self.cycles)
        starts, ends = np.flatnonzero(self.start == t), np.flatnonzero(self.end == t)
        now = self.tally([t])
        return self._happens(t, starts, ends), self._stands(t, int(now.resident[0]), int(now.waiting[0]))

    def verify(self) -> Report:
        """Check this placement against the rule: every block once, one block a slot, no slot idle in vain.

        Returns
        -------
        Report
            One `Check` each, with its numbers in a sentence; `passed` when all hold.

        Examples
        --------
        >>> from pulsewarp import simt
        >>> simt.place_blocks(133, sms=132, block_cycles=1000).verify().passed
        True
        """
        first = self._every_block_once()
        if not first.passed:  # a block on an SM that is not there has no slot to ask about
            return Report((first,))
        return Report((
            first, self._one_block_a_slot(), self._starts_at_once(), self._never_idle(),
            self._in_order(), self._bounds(), *self._closed_form(),
        ))  # fmt: skip

    def _places(self) -> NDArray[np.int64]:
        """Return the number of each block's slot among all slots."""
        places: NDArray[np.int64] = self.sm * self.blocks_per_sm + self.slot
        return places

    def _idle_from(self) -> NDArray[np.int64]:
        """Return for each slot the cycle after its last block, 0 where it never held one."""
        last = np.zeros(self.slots, np.int64)
        np.maximum.at(last, self._places(), self.end)
        return last

    def _happens(self, t: int, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> str:
        ended = f"{_named(ends)} {'ends' if ends.size == 1 else 'end'}" if ends.size else ""
        if t == self.cycles:
            return f"{ended}: the grid is done after {_count(t, 'cycle')}."
        where = ""
        if starts.size == 1:
            where = f" on SM {self.sm[starts[0]]}"
        elif starts.size:
            where = f", on {_count(np.unique(self.sm[starts]).size, 'SM')}"
        started = (
            f"{_named(starts)} {'starts' if starts.size == 1 else 'start'}{where}" if starts.size else ""
        )
        if ended or started:
            return f"{' and '.join(part for part in (ended, started) if part)}."
        return f"No block starts or ends; the next one ends at cycle {int(np.min(self.end[self.end > t])):,}."

    def _stands(self, t: int, resident: int, waiting: int) -> str:
        if t == self.cycles:
            idle = self.idle_slot_cycles
            return (
                f"Of {self.slots * t:,} slot-cycles {idle:,} were idle: utilisation "
                f"{100 * self.utilisation:.1f} %."
            )
        if waiting:
            wait = "1 block waits" if waiting == 1 else f"{waiting:,} blocks wait"
            return f"All {_count(self.slots, 'slot')} are taken; {wait} for one to come free."
        free = self.slots - resident
        if not free:
            return f"All {_count(self.slots, 'slot')} are taken and no block waits."
        stay = "1 slot stays" if free == 1 else f"{free:,} slots stay"
        be = "is" if resident == 1 else "are"
        taken = f"{resident:,} of {_count(self.slots, 'slot')} {be} taken"
        return f"{taken} and no block waits: {stay} idle to the end."

    def _every_block_once(self) -> Check:
        inside = (self.sm >= 0) & (self.sm < self.sms) & (self.slot >= 0) & (self.slot < self.blocks_per_sm)
        right = inside & (self.start >= 0) & (self.end - self.start == self.block_cycles)
        return Check(
            "every block once",
            bool(right.all()),
            f"{int(right.sum()):,} of {_count(self.blocks, 'block')} ran on an SM that is there, for the "
            f"cycles given.",
        )

    def _by_slot(self) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the blocks by slot and start, and which of them follow another one in their slot."""
        places = self._places()
        by_slot = np.lexsort((self.start, places))
        follows = np.zeros(self.blocks, np.bool_)
        follows[1:] = places[by_slot][1:] == places[by_slot][:-1]
        return by_slot, follows

    def _before(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return each block's start and when its slot had come free before, 0 for the slot's first block."""
        by_slot, follows = self._by_slot()
        free = np.where(follows, np.roll(self.end[by_slot], 1), 0)
        return self.start[by_slot], free

    def _one_block_a_slot(self) -> Check:
        start, free = self._before()
        twice = int((start < free).sum())
        says = f"{_count(twice, 'block')} started in a slot that was taken."
        return Check("one block a slot", not twice, says)

    def _starts_at_once(self) -> Check:
        start, free = self._before()
        late = int((start > free).sum())
        return Check(
            "starts at once",
            not late,
            f"{_count(late, 'block')} started later than their slot came free.",
        )

    def _never_idle(self) -> Check:
        last = int(np.max(self.start))
        early = int((self._idle_from() < last).sum())
        return Check(
            "never idle in vain",
            not early,
            f"{_count(early, 'slot')} fell idle before the last block started at {last:,}.",
        )

    def _in_order(self) -> Check:
        back = int((np.diff(self.start) < 0).sum())
        return Check("by number", not back, f"{_count(back, 'block')} started before one of a lower number.")

    def _bounds(self) -> Check:
        longest = int(np.max(self.block_cycles))
        most = (self.work + (self.slots - 1) * longest) // self.slots
        return Check(
            "bounds",
            self.least_cycles <= self.cycles <= most,
            f"{self.cycles:,} cycles, at least {self.least_cycles:,} and at most {most:,} (Graham 1966).",
        )

    def _closed_form(self) -> tuple[Check, ...]:
        """Check waves times cycles where blocks are equal; uneven ones have no closed form."""
        each = int(self.block_cycles[0])
        if (self.block_cycles != each).any():
            return ()
        wanted = self.waves * each
        waves = _count(self.waves, "wave")
        says = f"{waves} of {each:,} cycles are {wanted:,}; the grid took {self.cycles:,}."
        return (Check("closed form", self.cycles == wanted, says),)

    def __repr__(self) -> str:
        even = "equal" if (self.block_cycles == self.block_cycles[0]).all() else "uneven"
        return (
            f"Placement({self.blocks} {even} {'block' if self.blocks == 1 else 'blocks'} on "
            f"{counted(self.sms, 'SM')} of {counted(self.blocks_per_sm, 'slot')}, {self.order}: "
            f"{counted(self.waves, 'wave')}, {counted(self.cycles, 'cycle')}, "
            f"{100 * self.utilisation:.1f} % of slots used)"
        )


@_checks.names_keywords
def place_blocks(
    blocks: int,
    sms: Chip | str | int,
    blocks_per_sm: Occupancy | int = 1,
    block_cycles: WarpTrace | Iterable[int] | NDArray[np.integer[Any]] | int = 1,
    order: str = "round_robin",
) -> Placement:
    """Place the blocks of a grid on SMs: at first, and again whenever a block ends, until none is left.

    Modelled: blocks start in the order of their numbers, each as soon as a slot is free; slots that come free
    in the same cycle are filled together. Not modelled: the time a start takes, other kernels, clusters of
    blocks, groups of SMs (GPC, TPC), and that a block runs faster where fewer share its SM. NVIDIA documents
    no order; see the module for what was measured.

    Parameters
    ----------
    blocks : int
        Blocks of the grid, from 1 to 1,000,000.
    sms : Chip, str or int
        A GPU whose number of cores is known, its id in the catalogue such as ``"h100_sxm"``, or that number.
    blocks_per_sm : Occupancy or int
        Blocks an SM holds at once, or what :func:`occupancy` says of the launch.
    block_cycles : int, iterable of int, or WarpTrace
        Cycles of a block, up to 10**9: one number for all, one for each block, or a trace, whose cycles every
        block then takes. Blocks that share an SM slow each other down: trace all of an SM's blocks together.
    order : str
        Which SM with a free slot is taken: "round_robin" (the next in turn), "most_room" (that with most free
        slots, the lowest of several), or "fill" (the lowest).

    Returns
    -------
    Placement
        `.sm`, `.slot`, `.start`, `.end`, `.wave` by block; `.cycles`, `.waves`, `.utilisation`,
        `.tail_cycles`.

    Raises
    ------
    ValueError
        When a number is no whole one in its range, an id is not in the catalogue, the chip is no GPU or its
        cores are unknown, the launch cannot start, the trace never ends, or there are not as many numbers of
        cycles as blocks.

    Notes
    -----
    Equal blocks take ``ceil(blocks / (sms * blocks_per_sm)) * block_cycles`` in every order; NVIDIA, "Matrix
    Multiplication Background User's Guide", DU-09799-001 (2023), section 3.2. Uneven blocks, too, start and
    end at the same cycles in every order of SMs, since which slot a block gets does not change when the next
    one comes free: `order` decides where a block runs, never when. What changes the cycles is the order of
    the blocks, such as the longest first.

    Examples
    --------
    >>> from pulsewarp import chips, simt
    >>> full = simt.place_blocks(132, chips.get("h100_sxm"), block_cycles=1000)
    >>> more = simt.place_blocks(133, chips.get("h100_sxm"), block_cycles=1000)
    >>> full.cycles, more.cycles, more.waves, more.tail_cycles, round(more.utilisation, 3)
    (1000, 2000, 2, 1000, 0.504)
    >>> launch = simt.occupancy("9.0", threads_per_block=256, registers_per_thread=64)
    >>> simt.place_blocks(529, "h100_sxm", launch, 1000)
    Placement(529 equal blocks on 132 SMs of 4 slots, round_robin: 2 waves, 2000 cycles, 50.1 % of slots used)
    """
    count = _checks.whole_number(
        "blocks", blocks, most=MOST_BLOCKS, remedy="For more of equal blocks, roofline.waves counts."
    )
    order = _checks.choice("order", order, ORDERS)
    sms = chips.get(sms) if isinstance(sms, str) else sms
    cores, each = _cores(sms), _slots_per_sm(blocks_per_sm)
    if cores * each > MOST_BLOCKS:
        raise ValueError(
            f"{cores} SMs of {counted(each, 'slot')} are more than {MOST_BLOCKS} slots; give fewer of either."
        )
    lengths = _lengths(block_cycles, count)
    sm, slot, start, wave = _run(lengths.tolist(), cores, each, order)
    chip = sms.id if isinstance(sms, Chip) else None
    return Placement(
        cores, each, order, freeze(lengths), freeze(sm), freeze(slot), freeze(start), freeze(start + lengths),
        freeze(wave), chip,
    )  # fmt: skip


def _count(count: int, noun: str) -> str:
    """Return a count of thousands with its noun."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _named(blocks: NDArray[np.int64]) -> str:
    """Return blocks as a reader takes them in: by name where there are few, else their number and range."""
    if blocks.size == 1:
        return f"b{blocks[0]}"
    if blocks.size == 2:
        return f"b{blocks[0]} and b{blocks[1]}"
    first, last = int(np.min(blocks)), int(np.max(blocks))
    whole = last - first + 1 == blocks.size
    span = f"b{first} to b{last}" if whole else f"b{first} the lowest, b{last} the highest"
    return f"{blocks.size:,} blocks ({span})"


def _cores(sms: Chip | int) -> int:
    if not isinstance(sms, Chip):
        return _checks.whole_number("sms", sms, most=MOST_BLOCKS)
    if sms.family != "gpu" or sms.cores is None:
        reason = "is no GPU" if sms.family != "gpu" else "has an unknown number of cores"
        raise ValueError(f"{sms.name} {reason}, so no blocks can be placed; give the number of SMs instead.")
    return sms.cores


def _slots_per_sm(blocks_per_sm: Occupancy | int) -> int:
    if not isinstance(blocks_per_sm, Occupancy):
        return _checks.whole_number("blocks_per_sm", blocks_per_sm, most=MOST_BLOCKS)
    if not blocks_per_sm.blocks_per_sm:
        raise ValueError(f"{blocks_per_sm.why()[0]} Change the launch until an SM holds at least 1 block.")
    return blocks_per_sm.blocks_per_sm


def _lengths(
    block_cycles: WarpTrace | Iterable[int] | NDArray[np.integer[Any]] | int, blocks: int
) -> NDArray[np.int64]:
    if isinstance(block_cycles, WarpTrace):
        if block_cycles.deadlock is not None:
            raise ValueError(f"{block_cycles.deadlock} Give a trace that ends.")
        block_cycles = block_cycles.cycles
    if isinstance(block_cycles, str | bytes) or not isinstance(block_cycles, Iterable):
        each = _checks.whole_number("block_cycles", block_cycles, most=MOST_BLOCK_CYCLES)
        return np.full(blocks, each, np.int64)
    lengths = [
        _checks.whole_number(f"block_cycles[{b}]", value, most=MOST_BLOCK_CYCLES)
        for b, value in enumerate(block_cycles)
    ]
    if len(lengths) != blocks:
        raise ValueError(
            f"block_cycles has {counted(len(lengths), 'number')}, but there are {counted(blocks, 'block')}; "
            f"give one number for each, or a single one for all."
        )
    return np.array(lengths, np.int64)


def _run(
    lengths: list[int], sms: int, each: int, order: str
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return SM, slot, start and wave of each block."""
    free = _PICKERS[order](sms, each)
    running: list[tuple[int, int, int]] = []  # (end, SM, slot), the next to end first
    slots = [list(range(each)) for _ in range(sms)]
    held = [0] * (sms * each)
    rows = np.empty((len(lengths), 4), np.int64)
    now = 0
    for b, length in enumerate(lengths):
        if not free:
            now = running[0][0]
            while running and running[0][0] == now:
                _, s, i = heapq.heappop(running)
                heapq.heappush(slots[s], i)
                free.give(s)
        s = free.take()
        i = heapq.heappop(slots[s])
        rows[b] = s, i, now, held[s * each + i]
        held[s * each + i] += 1
        heapq.heappush(running, (now + length, s, i))
    sm, slot, start, wave = rows.T.copy()
    return sm, slot, start, wave


class _InLine:
    """SMs with a free slot, taken in turn, or always the lowest."""

    def __init__(self, sms: int, each: int, turns: bool) -> None:
        self._free = [each] * sms
        self._open = list(range(sms))
        self._turns = turns
        self._next = 0

    def __bool__(self) -> bool:
        return bool(self._open)

    def take(self) -> int:
        at = bisect_left(self._open, self._next) % len(self._open) if self._turns else 0
        s = self._open[at]
        self._next = s + 1
        self._free[s] -= 1
        if not self._free[s]:
            del self._open[at]
        return s

    def give(self, s: int) -> None:
        if not self._free[s]:
            insort(self._open, s)
        self._free[s] += 1


class _MostRoom:
    """SMs with a free slot, that with most of them first, of several the lowest."""

    def __init__(self, sms: int, each: int) -> None:
        self._free = [each] * sms
        self._heap = [(-each, s) for s in range(sms)]  # some entries are outdated
        self._left = sms * each

    def __bool__(self) -> bool:
        return self._left > 0

    def take(self) -> int:
        while True:
            room, s = heapq.heappop(self._heap)
            if -room == self._free[s] > 0:
                break
        self._left -= 1
        self._free[s] -= 1
        heapq.heappush(self._heap, (-self._free[s], s))
        return s

    def give(self, s: int) -> None:
        self._left += 1
        self._free[s] += 1
        heapq.heappush(self._heap, (-self._free[s], s))


_PICKERS: dict[str, Callable[[int, int], _InLine | _MostRoom]] = {
    "round_robin": lambda sms, each: _InLine(sms, each, turns=True),
    "most_room": _MostRoom,
    "fill": lambda sms, each: _InLine(sms, each, turns=False),
}
