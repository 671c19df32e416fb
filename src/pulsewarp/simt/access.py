"""Memory access of one warp: 32-byte sectors of global memory, wavefronts of shared memory's banks.

Rules (compute capability 6 and later). Global memory: a request moves every aligned 32-byte sector that any
active lane touches, once (CUDA C++ Best Practices Guide, coalesced access; sector and line sizes also by
NVIDIA staff, developer forum 312884). Shared memory: 32 banks of 4 bytes; lanes in one word never conflict
(CUDA C++ Programming Guide, shared memory of compute capability 5.x to 9.x).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pulsewarp import _checks
from pulsewarp._arrays import freeze
from pulsewarp._report import Report
from pulsewarp._text import counted
from pulsewarp.simt._instruction import LANES
from pulsewarp.simt.patterns import MOST_ADDRESS, Addresses, lane_values

SECTOR_BYTES = 32
LINE_BYTES = 128
BANKS = 32
WORD_BYTES = 4
WAVEFRONT_BYTES = BANKS * WORD_BYTES
ELEMENT_BYTES = (1, 2, 4, 8, 16)
"""Bytes that one lane may load or store with one instruction."""

ALL_LANES = 0xFFFFFFFF
_AT_ONCE = 2**14  # requests worked on together: their intermediate arrays stay in the caches


@dataclass(frozen=True, repr=False)
class Access:
    """One warp's request to global memory, taken apart into 32-byte sectors.

    Made by `sectors`.

    Parameters
    ----------
    element_bytes : int
        Bytes each lane asks for.
    active_mask : int
        Bit ``l`` is set where lane ``l`` takes part.
    addresses : tuple of 32 int or None
        First byte each lane asks for; None for a lane that is off.
    sector_addresses : tuple of int
        First byte of each sector touched, ascending.
    used : tuple of int
        For each of these sectors 32 bits: bit ``b`` is set where its byte ``b`` is asked for.
    lane_sectors : tuple of 32 tuples of int
        For each lane the sectors it touches, as indices into `sector_addresses`: one, two where its access
        is not aligned to its own size, none where it is off.

    Examples
    --------
    >>> from pulsewarp import simt
    >>> access = simt.sectors(simt.pattern("8 * lane"), 4)
    >>> access.sectors, access.lines, access.efficiency
    (8, 2, 0.5)
    >>> access.lanes_in(1)
    (4, 5, 6, 7)
    """

    element_bytes: int
    active_mask: int
    addresses: Addresses
    sector_addresses: tuple[int, ...]
    used: tuple[int, ...]
    lane_sectors: tuple[tuple[int, ...], ...]

    @property
    def sectors(self) -> int:
        """32-byte sectors touched."""
        return len(self.sector_addresses)

    @cached_property
    def line_addresses(self) -> tuple[int, ...]:
        """First byte of each 128-byte line touched, ascending."""
        return tuple(dict.fromkeys(address - address % LINE_BYTES for address in self.sector_addresses))

    @property
    def lines(self) -> int:
        """128-byte lines touched."""
        return len(self.line_addresses)

    @property
    def active_lanes(self) -> int:
        """Lanes that take part."""
        return self.active_mask.bit_count()

    @property
    def requested_bytes(self) -> int:
        """Bytes asked for; a byte that several lanes ask for counts for each."""
        return self.active_lanes * self.element_bytes

    @cached_property
    def unique_bytes(self) -> int:
        """Bytes asked for, each once."""
        return sum(bits.bit_count() for bits in self.used)

    @property
    def moved_bytes(self) -> int:
        """Bytes of all sectors touched."""
        return SECTOR_BYTES * self.sectors

    @property
    def efficiency(self) -> float | None:
        """Share of moved bytes that is asked for, ``unique_bytes / (32 sectors)``; None without a lane."""
        return self.unique_bytes / self.moved_bytes if self.sectors else None

    @cached_property
    def misaligned(self) -> tuple[int, ...]:
        """Lanes whose address is no multiple of `element_bytes`; a GPU ends such a kernel with an error."""
        return _misaligned(self.addresses, self.element_bytes)

    def lanes_in(self, sector: int) -> tuple[int, ...]:
        """Return the lanes that touch a sector, given by its index in `sector_addresses`."""
        sector = _checks.whole_number("sector", sector, least=0, most=self.sectors - 1)
        return tuple(lane for lane, touched in enumerate(self.lane_sectors) if sector in touched)

    def verify(self) -> Report:
        """Count the request again, byte by byte from what its lanes ask for.

        Returns
        -------
        Report

        Examples
        --------
        >>> from pulsewarp import simt
        >>> simt.sectors(simt.pattern("12 * lane"), 4).verify().passed
        True
        """
        from pulsewarp.simt import _access_verification  # it needs this class

        return _access_verification.verify_sectors(self)

    def __repr__(self) -> str:
        share = "" if self.efficiency is None else f", {100 * self.efficiency:.4g} % of their bytes used"
        return (
            f"Access({counted(self.active_lanes, 'lane')} of {self.element_bytes} B: "
            f"{counted(self.sectors, 'sector')} in {counted(self.lines, 'line')}{share})"
        )


class BankWord(NamedTuple):
    """One 32-bit word that a wavefront reads from one bank, and the lanes that want it."""

    bank: int
    word: int
    lanes: tuple[int, ...]


@dataclass(frozen=True, slots=True)  # no named tuple: one within another defeats type checks at run time
class Wavefront:
    """One pass over the banks: at most one word of each. `phase` is the group of lanes it belongs to."""

    phase: int
    words: tuple[BankWord, ...]


@dataclass(frozen=True, repr=False)
class BankAccess:
    """One warp's request to shared memory, taken apart into phases and wavefronts.

    Made by `wavefronts`.

    Parameters
    ----------
    element_bytes : int
        Bytes each lane asks for.
    active_mask : int
        Bit ``l`` is set where lane ``l`` takes part.
    offsets : tuple of 32 int or None
        First byte each lane asks for, counted from the start of shared memory; None for a lane that is off.
    served : tuple of Wavefront
        The wavefronts, phase after phase. In which of a phase's wavefronts a word comes is not documented:
        here the words of a bank come in the order of the lanes that want them.

    Examples
    --------
    >>> from pulsewarp import simt
    >>> simt.wavefronts(simt.pattern("128 * lane"), 4)  # a column of a 32 x 32 tile of 4-byte elements
    BankAccess(32 lanes of 4 B: 32 wavefronts in 1 phase, 32 ways)
    >>> simt.wavefronts(simt.pattern("132 * lane"), 4)  # the same, each row padded by one element
    BankAccess(32 lanes of 4 B: 1 wavefront in 1 phase, 1 way)
    """

    element_bytes: int
    active_mask: int
    offsets: Addresses
    served: tuple[Wavefront, ...]

    @property
    def wavefronts(self) -> int:
        """Passes over the banks, the sum over phases of their `ways`."""
        return len(self.served)

    @cached_property
    def ways_by_phase(self) -> dict[int, int]:
        """Wavefronts of each phase that has an active lane: the most words that one bank has to give."""
        ways: dict[int, int] = {}
        for wavefront in self.served:
            ways[wavefront.phase] = ways.get(wavefront.phase, 0) + 1
        return ways

    @property
    def phases(self) -> int:
        """Groups of lanes served one after the other, of those that have an active lane."""
        return len(self.ways_by_phase)

    @property
    def ways(self) -> int:
        """Degree of the worst conflict: 1 means none, 0 that no lane takes part."""
        return max(self.ways_by_phase.values(), default=0)

    @property
    def conflicts(self) -> int:
        """Wavefronts beyond one a phase."""
        return self.wavefronts - self.phases

    @property
    def active_lanes(self) -> int:
        """Lanes that take part."""
        return self.active_mask.bit_count()

    @cached_property
    def misaligned(self) -> tuple[int, ...]:
        """Lanes whose offset is no multiple of `element_bytes`; a GPU ends such a kernel with an error."""
        return _misaligned(self.offsets, self.element_bytes)

    @cached_property
    def paired_wavefronts(self) -> int:
        """Wavefronts where lanes in pairs share addresses, as NVIDIA staff describe 7.0 to 7.5; see below.

        If every active lane has the same offset as its neighbour (lane ^ 1), or every one as its second
        neighbour (lane ^ 2), 64- and 128-bit loads return twice the lanes a pass (developer forum 77228):
        a broadcast takes 1 instead of 2, or 2 instead of 4. Whether other compute capabilities do so, and
        what a lane without an active partner does (here: no pairing), is not documented.
        """
        phases = _phases_of(self.element_bytes)
        if phases == 1 or not any(self._is_paired(step) for step in (1, 2)):
            return self.wavefronts
        return len(_serve(self.offsets, self.element_bytes, phases // 2))

    def _is_paired(self, step: int) -> bool:
        return all(self.offsets[lane] == self.offsets[lane ^ step] for lane in range(LANES))

    def verify(self) -> Report:
        """Count the request again, word by word from what its lanes ask for.

        Returns
        -------
        Report

        Examples
        --------
        >>> from pulsewarp import simt
        >>> simt.wavefronts(simt.pattern("12 * lane"), 4).verify().passed
        True
        """
        from pulsewarp.simt import _access_verification  # it needs this class

        return _access_verification.verify_wavefronts(self)

    def __repr__(self) -> str:
        return (
            f"BankAccess({counted(self.active_lanes, 'lane')} of {self.element_bytes} B: "
            f"{counted(self.wavefronts, 'wavefront')} in {counted(self.phases, 'phase')}, "
            f"{counted(self.ways, 'way')})"
        )


@_checks.names_keywords
def sectors(
    byte_addresses: Sequence[int | None] | NDArray[Any], element_bytes: int, active_mask: int = ALL_LANES
) -> Access:
    """Return the 32-byte sectors and 128-byte lines of global memory that one warp's request touches.

    All bytes touched by active lanes count; a sector is moved whole, and once however many lanes touch it;
    the order of lanes does not matter. Not modelled: caches and what they already hold, the order in which
    sectors are fetched (not documented), and accesses of 32 bytes a lane.

    Parameters
    ----------
    byte_addresses : sequence of 32 int or None
        First byte each lane asks for, such as `pattern` returns; None, or anything where `active_mask` has no
        bit, for a lane that is off.
    element_bytes : int
        Bytes each lane asks for: 1, 2, 4, 8 or 16. An address that is no multiple of it is counted by the
        bytes it touches, and listed in `misaligned`.
    active_mask : int
        Bit ``l`` is set where lane ``l`` takes part.

    Returns
    -------
    Access

    Raises
    ------
    TypeError
        When the addresses are not several things.
    ValueError
        When there are not 32, one is no whole number from 0 to 2**62, or another argument is out of range.

    Notes
    -----
    CUDA C++ Best Practices Guide, coalesced access to global memory: "as many 32-byte transactions as are
    necessary".

    Examples
    --------
    >>> from pulsewarp import simt
    >>> simt.sectors(simt.pattern("4 * lane"), 4)
    Access(32 lanes of 4 B: 4 sectors in 1 line, 100 % of their bytes used)
    >>> simt.sectors(simt.pattern("4 * lane + 4"), 4).sectors
    5
    """
    addresses, element_bytes, mask = _request("byte_addresses", byte_addresses, element_bytes, active_mask)
    every_bit = (1 << element_bytes) - 1
    used: dict[int, int] = {}
    touched: list[tuple[int, ...]] = []
    for address in addresses:
        if address is None:
            touched.append(())
            continue
        first, byte = divmod(address, SECTOR_BYTES)
        bits = every_bit << byte
        used[first] = used.get(first, 0) | (bits & 0xFFFFFFFF)
        if bits >> SECTOR_BYTES:  # the access reaches into the next sector
            used[first + 1] = used.get(first + 1, 0) | (bits >> SECTOR_BYTES)
            touched.append((first, first + 1))
        else:
            touched.append((first,))
    order = sorted(used)
    place = {sector: i for i, sector in enumerate(order)}
    return Access(
        element_bytes,
        mask,
        addresses,
        tuple(SECTOR_BYTES * sector for sector in order),
        tuple(used[sector] for sector in order),
        tuple(tuple(place[sector] for sector in own) for own in touched),
    )


@_checks.names_keywords
def wavefronts(
    byte_offsets: Sequence[int | None] | NDArray[Any], element_bytes: int, active_mask: int = ALL_LANES
) -> BankAccess:
    """Return the wavefronts that one warp's request to shared memory takes: bank conflicts, phase by phase.

    32 banks of 4 bytes: word ``w`` lies in bank ``w mod 32``, and a bank gives one word a wavefront. Lanes
    that want the same word never conflict. Accesses of up to 4 bytes are served in one phase of 32 lanes, of
    8 bytes in two of 16, of 16 bytes in four of 8; a phase without an active lane costs nothing. A phase
    takes as many wavefronts as the most different words it wants of one bank. Not modelled: stores of several
    lanes to one word (which lane wins is not defined), atomics; of matrix loads (LDSM) see `matrix_load`.

    Parameters
    ----------
    byte_offsets : sequence of 32 int or None
        First byte each lane asks for, from the start of shared memory; None, or anything where `active_mask`
        has no bit, for a lane that is off.
    element_bytes : int
        Bytes each lane asks for: 1, 2, 4, 8 or 16. An offset that is no multiple of it is counted by the
        words it touches, and listed in `misaligned`.
    active_mask : int
        Bit ``l`` is set where lane ``l`` takes part.

    Returns
    -------
    BankAccess

    Raises
    ------
    TypeError
        When the offsets are not several things.
    ValueError
        When there are not 32, one is no whole number from 0 to 2**62, or another argument is out of range.

    Notes
    -----
    What is known: the rule for up to 4 bytes is documented (CUDA C++ Programming Guide, figures on shared
    memory). For 8 and 16 bytes a lane no guide says how lanes are grouped; that a full 128-bit access takes
    four passes is what NVIDIA staff explain (developer forum 77228: 128 bytes, one register of 32 lanes, a
    cycle), and the same post describes pairs of lanes that share an address, on 7.0 to 7.5: see
    `BankAccess.paired_wavefronts`. Phases of neighbouring lanes are the usual reading of measurements, not a
    promise.

    Examples
    --------
    >>> from pulsewarp import simt
    >>> simt.wavefronts(simt.pattern("8 * lane"), 4)
    BankAccess(32 lanes of 4 B: 2 wavefronts in 1 phase, 2 ways)
    >>> simt.wavefronts(simt.pattern("16 * lane"), 16)
    BankAccess(32 lanes of 16 B: 4 wavefronts in 4 phases, 1 way)
    """
    offsets, element_bytes, mask = _request("byte_offsets", byte_offsets, element_bytes, active_mask)
    served = _serve(offsets, element_bytes, _phases_of(element_bytes))
    return BankAccess(element_bytes, mask, offsets, served)


@dataclass(frozen=True, eq=False, repr=False)
class SectorCounts:
    """What `sectors` counts, for many requests at once; made by `count_sectors`.

    Parameters
    ----------
    sectors, lines : ndarray of int64, (requests,)
        Sectors of 32 and lines of 128 bytes touched.
    unique_bytes, requested_bytes : ndarray of int64, (requests,)
        Bytes asked for, each once, and as often as lanes ask.
    """

    sectors: NDArray[np.int64]
    lines: NDArray[np.int64]
    unique_bytes: NDArray[np.int64]
    requested_bytes: NDArray[np.int64]

    def __repr__(self) -> str:
        return f"SectorCounts({counted(len(self.sectors), 'request')}, {int(self.sectors.sum())} sectors)"


@dataclass(frozen=True, eq=False, repr=False)
class WavefrontCounts:
    """What `wavefronts` counts, for many requests at once; made by `count_wavefronts`.

    Parameters
    ----------
    wavefronts, phases, ways : ndarray of int64, (requests,)
        As of a `BankAccess`.
    """

    wavefronts: NDArray[np.int64]
    phases: NDArray[np.int64]
    ways: NDArray[np.int64]

    def __repr__(self) -> str:
        total = int(self.wavefronts.sum())
        return f"WavefrontCounts({counted(len(self.wavefronts), 'request')}, {total} wavefronts)"


@_checks.names_keywords
def count_sectors(byte_addresses: Any, element_bytes: int, active_masks: Any = ALL_LANES) -> SectorCounts:
    """Count sectors, lines and bytes of many requests at once, by the rule of `sectors`.

    Parameters
    ----------
    byte_addresses : array-like of int, (requests, 32)
        First byte each lane asks for; anything where a lane is off.
    element_bytes : int
        Bytes each lane asks for, the same in all requests: 1, 2, 4, 8 or 16.
    active_masks : int, or array-like of int, (requests,)
        Bit ``l`` is set where lane ``l`` takes part.

    Returns
    -------
    SectorCounts

    Raises
    ------
    ValueError
        When an array has another shape or kind, or a number is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> count_sectors(np.arange(32) * np.array([[4], [8], [128]]), 4).sectors.tolist()
    [4, 8, 32]
    """
    addresses, size, active = _requests("byte_addresses", byte_addresses, element_bytes, active_masks)
    n = len(addresses)
    found = {granule: np.zeros(n, np.int64) for granule in (SECTOR_BYTES, LINE_BYTES, 1)}
    for part in _parts(n):
        # Sorted, all accesses being equally long, their granules ascend too: one that begins where the
        # earlier one has ended adds all its granules, one that overlaps it the rest. Lanes that are off
        # stand first, before every address, and add nothing.
        first = np.sort(np.where(active[part], addresses[part], -size), axis=1)
        on = first >= 0
        for granule, count in found.items():
            shift = granule.bit_length() - 1
            low, high = first >> shift, (first + (size - 1)) >> shift
            low[:, 1:] = np.maximum(low[:, 1:], high[:, :-1] + 1)
            count[part] = np.where(on, high - low + 1, 0).clip(0).sum(axis=1)
    requested = active.sum(axis=1, dtype=np.int64) * size
    return SectorCounts(
        freeze(found[SECTOR_BYTES]), freeze(found[LINE_BYTES]), freeze(found[1]), freeze(requested)
    )


@_checks.names_keywords
def count_wavefronts(byte_offsets: Any, element_bytes: int, active_masks: Any = ALL_LANES) -> WavefrontCounts:
    """Count wavefronts, phases and ways of many requests at once, by the rule of `wavefronts`.

    Parameters
    ----------
    byte_offsets : array-like of int, (requests, 32)
        First byte each lane asks for; anything where a lane is off.
    element_bytes : int
        Bytes each lane asks for, the same in all requests: 1, 2, 4, 8 or 16.
    active_masks : int, or array-like of int, (requests,)
        Bit ``l`` is set where lane ``l`` takes part.

    Returns
    -------
    WavefrontCounts

    Raises
    ------
    ValueError
        When an array has another shape or kind, or a number is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> count_wavefronts(np.arange(32) * np.array([[4], [8], [128]]), 4).wavefronts.tolist()
    [1, 2, 32]
    """
    offsets, size, active = _requests("byte_offsets", byte_offsets, element_bytes, active_masks)
    n, phases = len(offsets), _phases_of(size)
    ways = np.zeros((n, phases), np.int64)
    for part in _parts(n):
        first = offsets[part]
        last_word = (first + (size - 1)) // WORD_BYTES
        first_word = first // WORD_BYTES
        most = 1 + int(np.max((last_word - first_word)[active[part]], initial=0))
        words = first_word[:, :, None] + np.arange(most)
        there = active[part][:, :, None] & (words <= last_word[:, :, None])
        words = np.where(there, words, -1).reshape(len(first) * phases, -1)
        words.sort(axis=1)  # the same word stands side by side, what is not there in front
        new = words >= 0
        new[:, 1:] &= words[:, 1:] != words[:, :-1]
        cells = np.arange(len(words))[:, None] * BANKS + words % BANKS
        filled = np.bincount(cells[new], minlength=len(words) * BANKS).reshape(len(first), phases, BANKS)
        ways[part] = filled.max(axis=2)
    return WavefrontCounts(freeze(ways.sum(axis=1)), freeze((ways > 0).sum(axis=1)), freeze(ways.max(axis=1)))


def _phases_of(element_bytes: int) -> int:
    """Return how many phases a full warp takes, each of ``32 // phases`` lanes."""
    return max(1, element_bytes // WORD_BYTES)


def _serve(offsets: Addresses, element_bytes: int, phases: int) -> tuple[Wavefront, ...]:
    """Return the wavefronts of a request whose lanes are served in so many phases."""
    served = []
    lanes = LANES // phases
    for phase in range(phases):
        banks: dict[int, dict[int, list[int]]] = {}  # by bank: its words, each with the lanes that want it
        for lane in range(phase * lanes, (phase + 1) * lanes):
            offset = offsets[lane]
            if offset is None:
                continue
            for word in range(offset // WORD_BYTES, (offset + element_bytes - 1) // WORD_BYTES + 1):
                banks.setdefault(word % BANKS, {}).setdefault(word, []).append(lane)
        queues = [(bank, list(banks[bank].items())) for bank in sorted(banks)]
        for turn in range(max((len(words) for _, words in queues), default=0)):
            now = tuple(
                BankWord(bank, words[turn][0], tuple(words[turn][1]))
                for bank, words in queues
                if turn < len(words)
            )
            served.append(Wavefront(phase, now))
    return tuple(served)


def _misaligned(addresses: Addresses, element_bytes: int) -> tuple[int, ...]:
    return tuple(lane for lane, at in enumerate(addresses) if at is not None and at % element_bytes)


def _size(element_bytes: Any) -> int:
    if not (isinstance(element_bytes, int | np.integer) and not isinstance(element_bytes, bool)) or (
        element_bytes not in ELEMENT_BYTES
    ):
        raise ValueError(
            f"element_bytes is {element_bytes!r}, but a lane loads or stores 1, 2, 4, 8 or 16 bytes at once; "
            f"count a larger element as several requests."
        )
    return int(element_bytes)


def _request(name: str, given: Any, element_bytes: Any, active_mask: Any) -> tuple[Addresses, int, int]:
    """Return a request's addresses (None: the lane is off), its bytes a lane and its mask."""
    mask = _checks.whole_number(
        "active_mask", active_mask, least=0, most=ALL_LANES, remedy="It has a bit a lane."
    )
    values = _checks.several(name, given, "give 32 addresses, one a lane, such as simt.pattern('4 * lane')")
    if len(values) == LANES:  # what a lane that is off would ask for is nobody's business
        values = tuple(value if mask >> lane & 1 else None for lane, value in enumerate(values))
    checked = lane_values(name, values)
    mask = sum(1 << lane for lane, value in enumerate(checked) if value is not None)
    return checked, _size(element_bytes), mask


def _requests(
    name: str, given: Any, element_bytes: Any, active_masks: Any
) -> tuple[NDArray[np.int64], int, NDArray[np.bool_]]:
    """Return addresses (requests, 32), bytes a lane, and which lanes take part, (requests, 32)."""
    size = _size(element_bytes)
    addresses: NDArray[Any]
    masks: NDArray[Any]
    try:
        addresses, masks = np.asarray(given), np.asarray(active_masks)
    except ValueError:  # rows of different lengths
        addresses = masks = np.empty(0)
    if addresses.ndim != 2 or addresses.shape[1] != LANES or addresses.dtype.kind not in "iu":
        raise ValueError(
            f"{name} holds {addresses.dtype} values in shape {addresses.shape}, but must hold whole numbers "
            f"in shape (requests, {LANES}); give a row a request and a column a lane."
        )
    n = len(addresses)
    if masks.shape not in ((), (n,)) or masks.dtype.kind not in "iu":
        raise ValueError(
            f"active_masks holds {masks.dtype} values in shape {masks.shape}, but must be a whole number or "
            f"{n} of them; give one a request."
        )
    wide = masks.astype(np.int64)
    over = wide[(wide < 0) | (wide > ALL_LANES)]
    if over.size:
        raise ValueError(
            f"active_masks holds {over[0]}, but a mask has {LANES} bits, 0 to {ALL_LANES}; drop the rest."
        )
    active = np.broadcast_to((wide.reshape(-1, 1) >> np.arange(LANES)) & 1 == 1, (n, LANES))
    bad = np.argwhere(active & ((addresses < 0) | (addresses > MOST_ADDRESS)))
    if bad.size:
        row, lane = (int(i) for i in bad[0])
        raise ValueError(
            f"{name}[{row}, {lane}] is {addresses[row, lane]}, but an address must be from 0 to "
            f"{MOST_ADDRESS}; take lanes that have none out of the mask."
        )
    return np.where(active, addresses, 0).astype(np.int64), size, active


def _parts(n: int) -> list[slice]:
    return [slice(start, start + _AT_ONCE) for start in range(0, n, _AT_ONCE)]
