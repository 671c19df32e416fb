"""Checks of one warp's request, counted again byte by byte and word by word from what its lanes ask for."""

from __future__ import annotations

from collections import Counter

from pulsewarp._report import Check, Report
from pulsewarp._text import counted
from pulsewarp.simt._instruction import LANES
from pulsewarp.simt.access import BANKS, LINE_BYTES, SECTOR_BYTES, WORD_BYTES, Access, BankAccess


def verify_sectors(access: Access) -> Report:
    """Return what holds of a request to global memory."""
    size = access.element_bytes
    asked = [() if at is None else range(at, at + size) for at in access.addresses]
    every = {byte for own in asked for byte in own}
    sectors = sorted({byte // SECTOR_BYTES * SECTOR_BYTES for byte in every})
    lines = len({byte // LINE_BYTES for byte in every})
    right = list(access.sector_addresses) == sectors and access.lines == lines
    used = [
        {sector + bit for bit in range(SECTOR_BYTES) if bits >> bit & 1}
        for sector, bits in zip(access.sector_addresses, access.used, strict=True)
    ]
    same = set().union(*used) == every and sum(map(len, used)) == len(every)
    wrong = [
        lane
        for lane, own in enumerate(asked)
        if {access.sector_addresses[i] for i in access.lane_sectors[lane]}
        != {byte // SECTOR_BYTES * SECTOR_BYTES for byte in own}
    ]
    return Report(
        (
            Check(
                "sectors",
                right,
                f"{counted(access.sectors, 'sector')} in {counted(access.lines, 'line')} shown; the bytes "
                f"asked for lie in {len(sectors)} in {lines}.",
            ),
            Check(
                "bytes",
                same,
                f"{counted(access.unique_bytes, 'byte')} marked as used; lanes ask for {len(every)} "
                f"different ones, {sum(map(len, asked))} in all.",
            ),
            Check("lanes", not wrong, f"{counted(len(wrong), 'lane')} of {LANES} in a sector not its own."),
        )
    )


def verify_wavefronts(access: BankAccess) -> Report:
    """Return what holds of a request to shared memory."""
    phases = max(1, access.element_bytes // WORD_BYTES)
    wanted: list[dict[int, set[int]]] = [{} for _ in range(phases)]  # by phase and word its lanes
    for lane, at in enumerate(access.offsets):
        for byte in () if at is None else range(at, at + access.element_bytes):
            wanted[lane * phases // LANES].setdefault(byte // WORD_BYTES, set()).add(lane)
    served = Counter(
        (wave.phase, word.bank, word.word, word.lanes) for wave in access.served for word in wave.words
    )
    due = Counter(
        (phase, word % BANKS, word, tuple(sorted(lanes)))
        for phase, words in enumerate(wanted)
        for word, lanes in words.items()
    )
    twice = sum(
        len({word.bank for word in wave.words}) < len(wave.words) or not wave.words for wave in access.served
    )
    least = [max(Counter(word % BANKS for word in words).values(), default=0) for words in wanted]
    taken = [sum(wave.phase == phase for wave in access.served) for phase in range(phases)]
    return Report(
        (
            Check(
                "words",
                served == due,
                f"{sum((served & due).values())} of {counted(sum(due.values()), 'word')} given once, to the "
                f"lanes that want it; {sum((served - due).values())} given that nobody wants so.",
            ),
            Check(
                "one word a bank",
                not twice,
                f"{counted(twice, 'wavefront')} of {access.wavefronts} with two words of one bank, or none.",
            ),
            Check(
                "wavefronts",
                taken == least and access.ways == max(least),
                f"{access.wavefronts} wavefronts; as many as the fullest bank of each phase has words: "
                f"{sum(least)}.",
            ),
        )
    )
