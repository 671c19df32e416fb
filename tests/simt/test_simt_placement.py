"""Block placement against the oracle's rows, a cycle-by-cycle model, its laws, and planted faults."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import placement_naive as naive
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsewarp import chips, roofline, simt
from pulsewarp.simt import placement as module
from pulsewarp.simt.placement import ORDERS, Placement

H100 = chips.get("h100_sxm")
REFERENCE = Path(__file__).resolve().parent.parent / "reference"
LENGTHS = st.lists(st.integers(1, 9), min_size=1, max_size=24)
SIDE = st.integers(1, 4)


def waves_rows() -> list[dict[str, str]]:
    with (REFERENCE / "sched_analytic.csv").open(encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if row["family"] == "wave_quantisation"]


def rows_of(placed: Placement) -> list[tuple[int, int, int, int]]:
    columns = (placed.sm, placed.slot, placed.start, placed.end)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def wrong_rows(place: Callable[..., Placement] = simt.place_blocks) -> list[str]:
    """Name the rows of the oracle that do not hold, in any order of SMs."""
    wrong = []
    for row in waves_rows():
        given = json.loads(row["params"])
        for order in ORDERS:
            placed = place(
                given["grid_blocks"], given["sms"], given["blocks_per_sm"], given["block_cycles"], order
            )
            waves = int(row["cycles"]) // given["block_cycles"]
            share = given["grid_blocks"] / (waves * given["sms"] * given["blocks_per_sm"])
            counts = (placed.cycles, placed.waves, placed.blocks)
            if (
                counts != (int(row["cycles"]), waves, int(row["issued"]))
                or placed.utilisation != pytest.approx(share, rel=1e-12)
                or not placed.verify().passed
            ):
                wrong.append(row["case_id"])
    return wrong


def test_every_row_of_wave_quantisation_holds_in_every_order() -> None:
    assert len(waves_rows()) >= 15
    assert wrong_rows() == []


def test_mutant_floor_instead_of_ceiling_is_seen() -> None:
    def short(blocks: int, sms: int, each: int, cycles: int, order: str) -> Placement:
        return simt.place_blocks(max(1, blocks // (sms * each) * sms * each), sms, each, cycles, order)

    assert len(wrong_rows(short)) > 5


# -------------------------------------------------------------------------------------- the naive model


@given(LENGTHS, SIDE, SIDE, st.sampled_from(ORDERS))
def test_every_block_is_where_stepping_puts_it(lengths: list[int], sms: int, each: int, order: str) -> None:
    placed = simt.place_blocks(len(lengths), sms, each, lengths, order)
    assert rows_of(placed) == naive.place(lengths, sms, each, order)
    report = placed.verify()
    assert report.passed, report
    slots: dict[tuple[int, int], int] = {}
    for b, (s, i, _, _) in enumerate(rows_of(placed)):
        assert placed.wave[b] == slots.get((s, i), 0)
        slots[s, i] = placed.wave[b] + 1


def differs_from_stepping() -> bool:
    """Tell whether some small run of any order is not where stepping puts it."""
    rng = np.random.default_rng(7)
    for order in ORDERS:
        for _ in range(30):
            sms, each = (int(side) for side in rng.integers(1, 5, 2))
            lengths = rng.integers(1, 9, rng.integers(1, 24)).tolist()
            placed = simt.place_blocks(len(lengths), sms, each, lengths, order)
            if rows_of(placed) != naive.place(lengths, sms, each, order):
                return True
    return False


@pytest.mark.parametrize("order", ORDERS)
def test_mutant_an_order_taken_for_another_is_seen(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not differs_from_stepping()
    for other in ORDERS:
        if other != order:
            monkeypatch.setitem(module._PICKERS, order, dict(module._PICKERS)[other])
            assert differs_from_stepping(), other
            monkeypatch.undo()


# -------------------------------------------------------------------------------------- laws


@given(LENGTHS, SIDE, SIDE)
def test_the_order_of_sms_decides_where_and_never_when(lengths: list[int], sms: int, each: int) -> None:
    first, *others = (simt.place_blocks(len(lengths), sms, each, lengths, order) for order in ORDERS)
    for other in others:
        assert np.array_equal(first.start, other.start) and np.array_equal(first.end, other.end)


@given(st.integers(1, 400), st.integers(1, 20), SIDE, st.integers(1, 900), st.sampled_from(ORDERS))
def test_equal_blocks_take_whole_waves(blocks: int, sms: int, each: int, cycles: int, order: str) -> None:
    placed = simt.place_blocks(blocks, sms, each, cycles, order)
    grid = roofline.waves(blocks, sms, each)
    assert placed.cycles == grid.cycles(cycles) and placed.waves == grid.waves
    assert placed.utilisation == pytest.approx(grid.efficiency, rel=1e-12)
    assert placed.last_wave_blocks == grid.last_wave_blocks
    assert np.array_equal(placed.wave, np.arange(blocks) // grid.slots)
    assert placed.tail_cycles == (0 if grid.last_wave_blocks == grid.slots else cycles)


@given(LENGTHS, SIDE, SIDE)
def test_slots_are_busy_or_idle_in_the_tail(lengths: list[int], sms: int, each: int) -> None:
    placed = simt.place_blocks(len(lengths), sms, each, lengths)
    resident = [int(((placed.start <= t) & (t < placed.end)).sum()) for t in range(placed.cycles)]
    assert all(held == placed.slots for held in resident[: placed.tail_start])
    assert sum(placed.slots - held for held in resident) == placed.idle_slot_cycles
    assert placed.tail_start == placed.cycles or resident[placed.tail_start] < placed.slots
    tally = placed.tally(range(placed.cycles + 1))
    assert tally.resident.tolist() == [*resident, 0]
    assert tally.idle.tolist() == [
        sum(placed.slots - held for held in resident[:t]) for t in range(placed.cycles + 1)
    ]
    assert (tally.resident + tally.waiting + tally.done == placed.blocks).all()
    assert placed.utilisation == sum(lengths) / (placed.slots * placed.cycles)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.integers(1, 3))
@settings(max_examples=60)
def test_the_bounds_of_graham_hold_against_the_true_best(lengths: list[int], slots: int) -> None:
    placed, best = simt.place_blocks(len(lengths), slots, 1, lengths), naive.best(lengths, slots)
    assert placed.least_cycles <= best <= placed.cycles
    assert placed.cycles * slots <= (2 * slots - 1) * best


def test_graham_s_bound_is_reached_and_the_longest_first_ends_sooner() -> None:
    short_first = [1] * 6 + [3]  # on 3 slots: 2 cycles of ones, then 3 alone; Graham's own kind of example
    placed = simt.place_blocks(7, 3, 1, short_first)
    assert placed.cycles == 5 and naive.best(short_first, 3) == 3
    assert simt.place_blocks(7, 3, 1, sorted(short_first, reverse=True)).cycles == 3


@given(st.integers(1, 300), st.integers(1, 9))
def test_one_block_more_never_ends_sooner(blocks: int, sms: int) -> None:
    assert simt.place_blocks(blocks + 1, sms).cycles >= simt.place_blocks(blocks, sms).cycles


# -------------------------------------------------------------------------------------- verify


def spoil(placed: Placement, name: str, block: int, by: int) -> Placement:
    column = getattr(placed, name).copy()
    column[block] += by
    return replace(placed, **{name: column})


SOUND = simt.place_blocks(9, 2, 2, [5, 2, 7, 3, 4, 6, 2, 8, 1])


def late(placed: Placement) -> Placement:
    """Start the last block a cycle after its slot came free."""
    return spoil(spoil(placed, "start", 8, 1), "end", 8, 1)


def shifted(placed: Placement) -> Placement:
    """Leave the first cycle empty."""
    return replace(placed, start=placed.start + 1, end=placed.end + 1)


def alone(placed: Placement) -> Placement:
    """Run all blocks one after the other in one slot."""
    end = np.cumsum(placed.block_cycles)
    nought = np.zeros(placed.blocks, np.int64)
    return replace(placed, sm=nought, slot=nought, start=end - placed.block_cycles, end=end)


def turned(placed: Placement) -> Placement:
    """Start blocks by falling number."""
    again = simt.place_blocks(placed.blocks, 2, 2, placed.block_cycles[::-1])
    columns = {name: getattr(again, name)[::-1] for name in ("sm", "slot", "start", "end", "wave")}
    return replace(placed, **columns)


@pytest.mark.parametrize(
    "fault, seen_by",
    [
        (lambda p: spoil(p, "sm", 3, 1), "every block once"),
        (lambda p: spoil(p, "end", 3, 1), "every block once"),
        (lambda p: spoil(p, "slot", 1, -2), "every block once"),
        (lambda p: replace(p, sm=np.zeros(9, np.int64)), "one block a slot"),
        (lambda p: spoil(spoil(p, "start", 8, -1), "end", 8, -1), "one block a slot"),
        (late, "starts at once"),
        (shifted, "starts at once"),
        (alone, "never idle in vain"),
        (alone, "bounds"),
        (turned, "by number"),
    ],
)
def test_verify_sees_a_planted_fault(fault: Callable[[Placement], Placement], seen_by: str) -> None:
    assert SOUND.verify().passed
    assert seen_by in [check.name for check in fault(SOUND).verify().checks if not check.passed]


def test_verify_holds_equal_blocks_against_the_closed_form() -> None:
    placed = simt.place_blocks(5, 2, 1, 10)
    names = [check.name for check in placed.verify().checks]
    assert "closed form" in names and "closed form" not in [check.name for check in SOUND.verify().checks]
    broken = replace(placed, sms=4).verify()
    assert "closed form" in [check.name for check in broken.checks if not check.passed]


# -------------------------------------------------------------------------------------- what it takes


def test_the_catalogue_and_occupancy_give_the_slots() -> None:
    launch = simt.occupancy("9.0", threads_per_block=256, registers_per_thread=64)
    placed = simt.place_blocks(529, H100, launch, 700)
    assert (placed.sms, placed.blocks_per_sm, placed.chip) == (132, 4, "h100_sxm")
    by_id = simt.place_blocks(3, "v100_sxm2_16")
    assert (by_id.sms, by_id.chip) == (80, "v100_sxm2_16")
    assert placed.cycles == 1400 and placed.last_wave_blocks == 1


def test_a_trace_gives_its_cycles() -> None:
    trace = simt.simulate([simt.load_compute(1, 1)] * 4)
    assert simt.place_blocks(3, 2, 1, trace).cycles == 2 * trace.cycles


def test_the_first_wave_of_each_order() -> None:
    first = {order: simt.place_blocks(6, 3, 2, 1, order).sm.tolist() for order in ORDERS}
    assert first == {
        "round_robin": [0, 1, 2, 0, 1, 2],
        "most_room": [0, 1, 2, 0, 1, 2],
        "fill": [0, 0, 1, 1, 2, 2],
    }
    uneven = {o: simt.place_blocks(6, 3, 1, [1, 5, 5, 1, 1, 5], o).sm.tolist() for o in ORDERS}
    assert uneven["round_robin"] == [0, 1, 2, 0, 0, 0]
    # Where a whole SM has come free, the one with most room is not the next in turn.
    lengths = [1, 9, 1, 9, 9, 1, 9, 9, 9]
    turn, room = (simt.place_blocks(9, 3, 2, lengths, order).sm.tolist() for order in ORDERS[:2])
    assert (turn[6:], room[6:]) == ([0, 2, 2], [2, 0, 2])


TAKEN = "All 132 slots are taken; 2 blocks wait for one to come free."
IDLE = "2 of 132 slots are taken and no block waits: 130 slots stay idle to the end."
DONE = "Of 264,000 slot-cycles 130,000 were idle: utilisation 50.8 %."


@pytest.mark.parametrize(
    "t, sentences",
    [
        (0, ("132 blocks (b0 to b131) start, on 132 SMs.", TAKEN)),
        (1, ("No block starts or ends; the next one ends at cycle 1,000.", TAKEN)),
        (1000, ("132 blocks (b0 to b131) end and b132 and b133 start, on 2 SMs.", IDLE)),
        (2000, ("b132 and b133 end: the grid is done after 2,000 cycles.", DONE)),
    ],
)
def test_it_says_what_happens(t: int, sentences: tuple[str, str]) -> None:
    assert simt.place_blocks(134, H100, block_cycles=1000).why(t) == sentences


def test_it_names_one_and_many() -> None:
    placed = simt.place_blocks(4, 2, 1, [1, 3, 2, 4])
    assert placed.why(0)[0] == "b0 and b1 start, on 2 SMs."
    assert placed.why(0)[1] == "All 2 slots are taken; 2 blocks wait for one to come free."
    one = "1 of 2 slots is taken and no block waits: 1 slot stays idle to the end."
    assert placed.why(3) == ("b1 and b2 end and b3 starts on SM 1.", one)
    full = simt.place_blocks(3, 1, 3, [4, 5, 4])
    assert full.why(0)[1] == "All 3 slots are taken and no block waits."
    scattered = simt.place_blocks(7, 1, 4, [2, 9, 2, 2, 9, 9, 9]).why(2)[0]
    assert scattered.startswith("3 blocks (b0 the lowest, b3 the highest) end and 3 blocks (b4 to b6) start")


def test_repr_and_events() -> None:
    assert repr(SOUND).startswith("Placement(9 uneven blocks on 2 SMs of 2 slots, round_robin: 3 waves, ")
    assert simt.place_blocks(3, 2, 1, 5).events().tolist() == [0, 5, 10]


# -------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "settings, sentence",
    [
        ({"blocks": 0}, r"blocks is 0.*at least 1.*roofline\.waves"),
        ({"blocks": 10**7}, r"blocks is 10000000.*at most 1000000"),
        ({"sms": 0}, r"sms is 0"),
        ({"sms": chips.get("tpu_v5e")}, r"TPU v5e is no GPU.*give the number of SMs"),
        ({"sms": "h100"}, r"Unknown chip 'h100'.*Did you mean 'h100_"),
        ({"sms": replace(H100, cores=None)}, r"H100.* unknown number of cores.*give the number of SMs"),
        ({"blocks_per_sm": 0}, r"blocks_per_sm is 0"),
        ({"sms": 2000, "blocks_per_sm": 1000}, r"2000 SMs of 1000 slots are more than 1000000 slots"),
        ({"blocks_per_sm": simt.occupancy(threads_per_block=2000)}, r"cannot start: 2,000 threads.*Change"),
        ({"block_cycles": 0}, r"block_cycles is 0, but must be a whole number of at least 1"),
        ({"block_cycles": [1, 2]}, r"block_cycles has 2 numbers, but there are 3 blocks; give one"),
        ({"block_cycles": [1, 0, 2]}, r"block_cycles\[1\] is 0"),
        ({"order": "roundrobin"}, r"Unknown order 'roundrobin'.*Did you mean 'round_robin'"),
    ],
)
def test_bad_input_gets_a_sentence(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        simt.place_blocks(**{"blocks": 3, "sms": 2, **settings})


def test_a_trace_that_never_ends_is_refused() -> None:
    half, add = simt.Instruction("bar", lanes=16), simt.Instruction(dst="r0")
    stuck = simt.simulate([[add, half, add], [add, simt.bar(), add]])
    with pytest.raises(ValueError, match=r"never ends.*Give a trace that ends"):
        simt.place_blocks(3, 2, 1, stuck)


def test_a_cycle_the_run_does_not_have() -> None:
    with pytest.raises(ValueError, match=r"t is 99.*at most"):
        SOUND.why(99)


@pytest.mark.wrong_type
@pytest.mark.parametrize("cycles", ["12", 1.5, None, [1, 2.5, 3]])
def test_cycles_are_whole_numbers(cycles: Any) -> None:
    with pytest.raises(ValueError, match="block_cycles"):
        simt.place_blocks(3, 2, 1, cycles)
