"""Sectors and wavefronts: the oracle's rows, laws, a naive model said again, and planted faults."""

from __future__ import annotations

import csv
import inspect
import types
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from pulsewarp import simt
from pulsewarp.simt import access

REFERENCE = Path(__file__).parent.parent / "reference"
ROWS = {
    name: list(csv.DictReader((REFERENCE / f"{name}.csv").open()))
    for name in ("coalescing", "bank_conflicts")
}
Request = tuple[tuple[int | None, ...], int, int]


# ------------------------------------------------------------------------------------------ the oracle


def request(row: dict[str, str], addresses: str) -> Request:
    values = tuple(None if text == "-" else int(text) for text in row[addresses].split(";"))
    return values, int(row["elem_bytes"]), int(row["active_mask"], 16)


def check_coalescing(model: Any = access) -> None:
    for row in ROWS["coalescing"]:
        counted = model.sectors(*request(row, "byte_addresses_by_lane"))
        told = (counted.sectors, counted.lines, counted.unique_bytes, counted.requested_bytes)
        names = ("sectors_32B", "lines_128B", "unique_bytes", "requested_bytes")
        assert told == tuple(int(row[name]) for name in names), row["case_id"]
        share = "" if counted.efficiency is None else f"{counted.efficiency:.6f}"
        assert share == row["sector_efficiency"], row["case_id"]


def check_banks(model: Any = access) -> None:
    for row in ROWS["bank_conflicts"]:
        counted = model.wavefronts(*request(row, "byte_offsets_by_lane"))
        told = (counted.phases, counted.wavefronts, counted.ways, counted.conflicts)
        names = ("phases", "wavefronts", "max_ways", "extra_wavefronts")
        assert told == tuple(int(row[name]) for name in names), row["case_id"]
        assert counted.paired_wavefronts == int(row["wavefronts_cc7_pair_rule"]), row["case_id"]


def test_every_row_of_the_oracle() -> None:
    assert (len(ROWS["coalescing"]), len(ROWS["bank_conflicts"])) == (133, 143)
    check_coalescing()
    check_banks()


# ------------------------------------------------------------------------------------------ said naively


def naive_sectors(addresses: Any, size: int, mask: int) -> tuple[int, int, int, int]:
    touched = [addresses[i] + b for i in range(32) if mask & (1 << i) for b in range(size)]
    return len({b // 32 for b in touched}), len({b // 128 for b in touched}), len(set(touched)), len(touched)


def naive_wavefronts(offsets: Any, size: int, mask: int) -> tuple[int, int, int]:
    group = {1: 32, 2: 32, 4: 32, 8: 16, 16: 8}[size]
    ways = []
    for start in range(0, 32, group):
        lanes = [i for i in range(start, start + group) if mask & (1 << i)]
        words = {(offsets[i] + b) // 4 for i in lanes for b in range(size)}
        if lanes:
            ways.append(max(sum(word % 32 == bank for word in words) for bank in range(32)))
    return sum(ways), len(ways), max(ways, default=0)


@st.composite
def requests(draw: st.DrawFn) -> tuple[list[int], int, int]:
    """Requests as kernels make them (strides, columns, swizzles) and as nobody would."""
    size = draw(st.sampled_from(access.ELEMENT_BYTES))
    lane = np.arange(32)
    kind = draw(st.sampled_from(["stride", "near", "far", "swizzle", "same"]))
    if kind == "stride":
        index = lane * draw(st.integers(0, 70)) + draw(st.integers(0, 40))
    elif kind == "swizzle":
        index = (lane // draw(st.integers(1, 8))) * draw(st.integers(1, 40)) ^ draw(st.integers(0, 31))
    else:
        top = {"near": 64, "far": 2**20, "same": 1}[kind]
        index = np.array(draw(st.lists(st.integers(0, top), min_size=32, max_size=32)))
    offset = draw(st.integers(0, 15)) if draw(st.integers(0, 4)) == 0 else 0  # now and then not aligned
    mask = draw(st.one_of(st.just(0xFFFFFFFF), st.integers(0, 0xFFFFFFFF), st.just(0)))
    return [int(i) * size + offset for i in index], size, mask


def check_one(one: tuple[list[int], int, int], model: Any = access) -> None:
    """Compare every way to count one request with the naive one."""
    addresses, size, mask = one
    counted = model.sectors(addresses, size, mask)
    told = (counted.sectors, counted.lines, counted.unique_bytes, counted.requested_bytes)
    assert told == naive_sectors(addresses, size, mask)
    many = model.count_sectors([addresses], size, [mask])
    assert told == (many.sectors[0], many.lines[0], many.unique_bytes[0], many.requested_bytes[0])
    banks = model.wavefronts(addresses, size, mask)
    assert (banks.wavefronts, banks.phases, banks.ways) == naive_wavefronts(addresses, size, mask)
    many = model.count_wavefronts([addresses], size, mask)
    assert (banks.wavefronts, banks.phases, banks.ways) == (many.wavefronts[0], many.phases[0], many.ways[0])


@given(requests())
def test_counts_are_those_of_the_naive_model(one: tuple[list[int], int, int]) -> None:
    check_one(one)


@given(st.lists(requests(), max_size=9), st.sampled_from(access.ELEMENT_BYTES), st.integers(1, 4))
def test_many_requests_count_as_each_does(many: list[Any], size: int, at_once: int) -> None:
    addresses = np.array([one[0] for one in many], np.int64).reshape(-1, 32)
    masks = np.array([one[2] for one in many], np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(access, "_AT_ONCE", at_once)  # parts meet where they should
        sectors = simt.count_sectors(addresses, size, masks)
        banks = simt.count_wavefronts(addresses, size, masks)
    one = [simt.sectors(row, size, int(mask)) for row, mask in zip(addresses, masks, strict=True)]
    other = [simt.wavefronts(row, size, int(mask)) for row, mask in zip(addresses, masks, strict=True)]
    for name in ("sectors", "lines", "unique_bytes", "requested_bytes"):
        assert getattr(sectors, name).tolist() == [getattr(each, name) for each in one]
    for name in ("wavefronts", "phases", "ways"):
        assert getattr(banks, name).tolist() == [getattr(each, name) for each in other]


# ------------------------------------------------------------------------------------------ laws


@given(requests(), st.permutations(range(32)))
def test_the_order_of_lanes_does_not_matter_to_sectors(one: Any, order: list[int]) -> None:
    addresses, size, mask = one
    mixed = [addresses[lane] for lane in order]
    bits = sum(1 << i for i, lane in enumerate(order) if mask >> lane & 1)
    here, there = simt.sectors(addresses, size, mask), simt.sectors(mixed, size, bits)
    assert (here.sector_addresses, here.used) == (there.sector_addresses, there.used)


@given(requests())
def test_what_an_access_tells_agrees(one: Any) -> None:
    addresses, size, mask = one
    told = simt.sectors(addresses, size, mask)
    used = {base + b for base, bits in zip(told.sector_addresses, told.used, strict=True)
            for b in range(32) if bits >> b & 1}  # fmt: skip
    lanes = [i for i in range(32) if mask >> i & 1]
    assert used == {addresses[i] + b for i in lanes for b in range(size)}
    for lane in range(32):
        mine = {told.sector_addresses[i] for i in told.lane_sectors[lane]}
        wanted = {(addresses[lane] + b) // 32 * 32 for b in range(size)} if lane in lanes else set()
        assert mine == wanted
    for i in range(told.sectors):
        assert told.lanes_in(i) == tuple(lane for lane in range(32) if i in told.lane_sectors[lane])
    assert told.line_addresses == tuple(sorted({a // 128 * 128 for a in told.sector_addresses}))
    assert told.misaligned == tuple(i for i in lanes if addresses[i] % size)


@given(requests())
def test_wavefronts_serve_every_word_once_and_no_bank_twice(one: Any) -> None:
    addresses, size, mask = one
    told = simt.wavefronts(addresses, size, mask)
    lanes_a_phase = 32 // max(1, size // 4)
    served: dict[tuple[int, int], set[int]] = {}
    for wavefront in told.served:
        assert wavefront.words
        banks = [word.bank for word in wavefront.words]
        assert banks == sorted(set(banks))
        for bank, word, lanes in wavefront.words:
            assert bank == word % 32 and lanes
            assert {lane // lanes_a_phase for lane in lanes} == {wavefront.phase}
            assert (wavefront.phase, word) not in served  # a word is given once a phase
            served[wavefront.phase, word] = set(lanes)
    for lane in range(32):
        mine = {word for (_, word), lanes in served.items() if lane in lanes}
        wanted = {(addresses[lane] + b) // 4 for b in range(size)} if mask >> lane & 1 else set()
        assert mine == wanted
    assert [w.phase for w in told.served] == sorted(w.phase for w in told.served)
    assert told.paired_wavefronts <= told.wavefronts
    if told.phases:
        assert 1 <= told.ways <= 32 and told.phases <= told.wavefronts <= told.phases * told.ways


@given(st.integers(0, 2**40), st.sampled_from(access.ELEMENT_BYTES))
def test_lanes_in_one_word_never_conflict(base: int, size: int) -> None:
    told = simt.wavefronts([base * 16] * 32, size)
    assert told.ways == 1 and told.conflicts == 0


@given(st.integers(0, 200))
def test_padding_takes_the_conflict_from_a_column(row: int) -> None:
    """A column of 4-byte elements: as many ways as the row length and 32 banks have factors in common."""
    told = simt.wavefronts([4 * row * lane for lane in range(32)], 4)
    assert told.ways == (np.gcd(row, 32) if row else 1)


def test_pairs_that_share_an_address_may_take_half_the_passes() -> None:
    broadcast = simt.wavefronts([0] * 32, 16)
    assert (broadcast.wavefronts, broadcast.paired_wavefronts) == (4, 2)
    neighbours = simt.wavefronts([lane // 2 * 8 for lane in range(32)], 8)
    assert (neighbours.wavefronts, neighbours.paired_wavefronts) == (2, 1)
    crossed = simt.wavefronts([(lane // 4 * 2 + lane % 2) * 8 for lane in range(32)], 8)
    assert (crossed.wavefronts, crossed.paired_wavefronts) == (2, 1)  # lane and lane ^ 2
    apart = simt.wavefronts([lane % 4 * 16 for lane in range(32)], 16)
    assert (apart.wavefronts, apart.paired_wavefronts) == (4, 4)  # forum 77228: 4 requests measured
    narrow = simt.wavefronts([0] * 32, 4)
    assert narrow.paired_wavefronts == narrow.wavefronts == 1


def test_lanes_that_are_off_may_hold_anything() -> None:
    told = simt.sectors([-1, None, 64, *[10**30] * 29], 4, 0b100)
    assert told == simt.sectors([None, None, 64] + [None] * 29, 4)
    assert told.active_mask == 4 and told.addresses[2] == 64 and told.sectors == 1
    nobody = simt.sectors([0] * 32, 4, 0)
    assert (nobody.sectors, nobody.lines, nobody.efficiency) == (0, 0, None)
    assert repr(nobody) == "Access(0 lanes of 4 B: 0 sectors in 0 lines)"
    assert simt.wavefronts([0] * 32, 4, 0).ways == 0
    assert simt.count_sectors(np.full((2, 32), -7), 4, 0).sectors.tolist() == [0, 0]
    assert simt.count_wavefronts(np.zeros((0, 32), int), 4).ways.tolist() == []


@pytest.mark.wrong_type
def test_numpy_addresses_are_taken() -> None:
    told = simt.sectors(np.arange(32, dtype=np.uint16) * 4, np.uint8(4), 0xFFFFFFFF)  # type: ignore[arg-type]
    assert told == simt.sectors(simt.pattern("4 * lane"), 4)


def test_the_highest_address_still_counts() -> None:
    top = simt.sectors([2**62] * 32, 16)
    assert (top.sectors, top.unique_bytes) == (1, 16)
    many = simt.count_sectors([[2**62] * 32], 16)
    assert (many.sectors[0], many.unique_bytes[0]) == (1, 16)


# ------------------------------------------------------------------------------------------ planted faults


def faulty(right: str, wrong: str) -> types.ModuleType:
    """Edit the module's source as a careless hand would, and run it so."""
    source = inspect.getsource(access)
    assert source.count(right) == 1, f"{right!r} must stand exactly once"
    module = types.ModuleType("faulty_access")
    module.__file__ = access.__file__
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(__import__("sys").modules, "faulty_access", module)  # dataclasses look themselves up
        exec(compile(source.replace(right, wrong), str(access.__file__), "exec"), module.__dict__)
    return module


def fuzz(model: types.ModuleType) -> None:
    @settings(max_examples=200, phases=[Phase.generate], database=None)
    @given(requests())
    def check(one: Any) -> None:
        check_one(one, model)

    check()


Fault = tuple[str, str, str, tuple[Callable[[types.ModuleType], None], ...]]

FAULTS: list[Fault] = [
    (
        "lanes counted instead of sectors",
        "        return len(self.sector_addresses)\n",
        "        return self.active_lanes\n",
        (check_coalescing, fuzz),
    ),
    (
        "lanes counted instead of sectors, many at once",
        "                low[:, 1:] = np.maximum(low[:, 1:], high[:, :-1] + 1)".strip(),
        "pass",
        (fuzz,),
    ),
    (
        "an access that is not aligned is not split",
        "        if bits >> SECTOR_BYTES:",
        "        if False:",
        (fuzz,),
    ),
    (
        "a request that is not aligned is moved to where it would be",
        "first, byte = divmod(address, SECTOR_BYTES)",
        "first, byte = divmod(address - (addresses[0] or 0) % SECTOR_BYTES, SECTOR_BYTES)",
        (check_coalescing, fuzz),
    ),
    (
        "phases of 16 lanes for 16 bytes",
        "return max(1, element_bytes // WORD_BYTES)",
        "return min(2, max(1, element_bytes // WORD_BYTES))",
        (check_banks, fuzz),
    ),
    (
        "no phases",
        "return max(1, element_bytes // WORD_BYTES)",
        "return 1",
        (check_banks, fuzz),
    ),
    (
        "two phases for every size",
        "return max(1, element_bytes // WORD_BYTES)",
        "return 2",
        (check_banks, fuzz),
    ),
    (
        "the same word counted as a conflict",
        ".setdefault(word, []).append(lane)",
        ".setdefault((word, lane), []).append(lane)",
        (check_banks, fuzz),
    ),
    (
        "the same word counted as a conflict, many at once",
        "new[:, 1:] &= words[:, 1:] != words[:, :-1]",
        "pass",
        (fuzz,),
    ),
    (
        "16 banks",
        "BANKS = 32\n",
        "BANKS = 16\n",
        (check_banks, fuzz),
    ),
    (
        "lines of 64 bytes",
        "LINE_BYTES = 128\n",
        "LINE_BYTES = 64\n",
        (check_coalescing, fuzz),
    ),
    (
        "lanes that are off take part",
        "value if mask >> lane & 1 else None for lane",
        "value for lane",
        (fuzz,),
    ),
    (
        "a broadcast never paired",
        "for step in (1, 2)):",
        "for step in ()):",
        (check_banks,),
    ),
]


CASES = [
    pytest.param(right, wrong, check, id=f"{name}: {check.__name__}")
    for name, right, wrong, checks in FAULTS
    for check in checks
]


@pytest.mark.parametrize(("right", "wrong", "check"), CASES)
def test_a_planted_fault_is_seen(right: str, wrong: str, check: Callable[[types.ModuleType], None]) -> None:
    model = faulty(right, wrong)
    with pytest.raises(AssertionError):
        check(model)


def test_without_a_fault_the_checks_pass() -> None:
    model = faulty("BANKS = 32\n", "BANKS = 32 \n")
    for check in (check_coalescing, check_banks, fuzz):
        check(model)


# ------------------------------------------------------------------------------------------ verify


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("words", ["4 * lane", "4 * lane + 3", "lane * lane", "64 * (lane % 5)", "0"])
def test_requests_are_counted_again_byte_by_byte(size: int, words: str) -> None:
    for mask in (0xFFFFFFFF, 0x0F0F0F01, 0):
        for report in (
            simt.sectors(simt.pattern(words), size, mask).verify(),
            simt.wavefronts(simt.pattern(words), size, mask).verify(),
        ):
            assert report.passed, report


def test_faults_in_a_request_are_found_by_name() -> None:
    def failed(report: Any) -> set[str]:
        return {check.name for check in report.checks if not check.passed}

    strided = simt.sectors(simt.pattern("8 * lane"), 4)
    rest = strided.lane_sectors[1:]
    assert failed(replace(strided, lane_sectors=(strided.lane_sectors[31], *rest)).verify()) == {"lanes"}
    assert failed(replace(strided, used=(strided.used[0] ^ 1, *strided.used[1:])).verify()) == {"bytes"}
    fewer = replace(strided, sector_addresses=(*strided.sector_addresses[:-1], 4096))
    assert "sectors" in failed(fewer.verify())
    banks = simt.wavefronts(simt.pattern("8 * lane"), 4)
    one, two = banks.served
    merged = replace(banks, served=(access.Wavefront(0, one.words + two.words),))
    assert failed(merged.verify()) == {"one word a bank", "wavefronts"}
    spoilt = (one.words[0]._replace(lanes=(5,)), *one.words[1:])
    assert failed(replace(banks, served=(access.Wavefront(0, spoilt), two)).verify()) == {"words"}
