"""Occupancy against NVIDIA's header row by row, against naive placing, by laws, and with planted faults."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import math
import types
from typing import Any

import occupancy_naive as naive
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsewarp import simt
from pulsewarp.simt._occupancy import Occupancy, size_text

pytestmark = pytest.mark.exhaustive

module = inspect.getmodule(Occupancy)
assert module is not None

LIMITS = {
    "warps": "limit_warps",
    "registers": "limit_regs",
    "shared_memory": "limit_smem",
    "blocks": "limit_blocks",
    "barriers": "limit_barriers",
}
#: Bits of `limiting_mask`, as the header numbers them.
BITS = {"warps": 1, "registers": 2, "shared_memory": 4, "blocks": 8, "barriers": 16}
ROWS = naive.rows("cuda_occupancy.csv")
CARVEOUTS = naive.rows("cuda_occupancy_carveout.csv")
BEST = naive.rows("cuda_best_block_size.csv")


def differences(row: dict[str, str], occupancy: Any = simt.occupancy) -> list[str]:
    """Name every column of a row that does not hold."""
    assert int(row["static_smem"]) + int(row["dynamic_smem"]) == int(row["smem_per_block"])
    try:
        held = occupancy(**naive.launch_of(row))
    except ValueError:
        return [] if row["status"] == "invalid_input" else ["status"]
    if row["status"] != "ok":
        return ["status"]
    wrong = [
        name for name, column in LIMITS.items() if held.limits[name] != float(row[column])
    ]  # "inf" reads as math.inf
    columns = {
        "active_blocks_per_sm": held.blocks_per_sm,
        "active_warps_per_sm": held.warps_per_sm,
        "alloc_regs_per_block": held.registers_per_block,
        "alloc_smem_per_block": held.shared_memory_per_block,
        "limiting_mask": sum(BITS[name] for name in held.limiting),
    }
    wrong += [name for name, value in columns.items() if value != int(row[name])]
    if f"{held.occupancy:.6f}" != row["occupancy"]:
        wrong.append("occupancy")
    if list(held.limiting) != sorted(row["limiting_factors"].split("+")):
        wrong.append("limiting_factors")
    return wrong


def wrong_rows(rows: list[dict[str, str]], occupancy: Any = simt.occupancy) -> dict[str, list[str]]:
    found = {row["case_id"]: differences(row, occupancy) for row in rows}
    return {case: wrong for case, wrong in found.items() if wrong}


@pytest.mark.parametrize(("rows", "count"), [(ROWS, 2128), (CARVEOUTS, 315)], ids=["default", "carve-outs"])
def test_every_column_of_every_row_is_exact(rows: list[dict[str, str]], count: int) -> None:
    assert len(rows) == count
    assert wrong_rows(rows) == {}


def test_the_rows_hold_every_kind_of_case() -> None:
    limited = {row["limiting_factors"] for row in ROWS + CARVEOUTS}
    assert {"warps+registers", "registers+shared_memory", "blocks+barriers"} <= limited
    assert {row["status"] for row in ROWS} == {"ok", "invalid_input"}
    assert any(row["active_blocks_per_sm"] == "0" for row in ROWS)


def best_differs(row: dict[str, str], best: Any = simt.best_block_size) -> bool:
    found = best(
        row["cc"],
        int(row["regs_per_thread"]),
        static_shared=int(row["static_smem"]),
        dynamic_shared=int(row["dynamic_smem"]),
    )
    return found != (int(row["best_block_size"]), int(row["blocks_per_sm_at_best"]))


def test_every_best_block_size_is_exact() -> None:
    assert len(BEST) == 170
    assert [row["case_id"] for row in BEST if best_differs(row)] == []


def test_where_no_block_starts_no_size_is_best() -> None:
    assert simt.best_block_size("8.0", 32, dynamic_shared=200_000) == (0, 0)
    assert simt.best_block_size("8.0", 257) == (0, 0)


def test_the_kernel_counts_as_opted_in() -> None:
    right = "static_shared, dynamic_shared, True"
    careless = planted(right, right.replace("True", "False"))
    assert simt.best_block_size("8.0", 32, dynamic_shared=100_000) == (1024, 1)
    assert careless.best_block_size("8.0", 32, dynamic_shared=100_000) == (0, 0)


# -------------------------------------------------------------------------------------- against naive placing

SHARED = st.one_of(st.integers(0, 4096), st.integers(0, 60_000), st.integers(0, 240_000))


@st.composite
def launches(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "compute_capability": draw(st.sampled_from(sorted(naive.DEVICES))),
        "threads_per_block": draw(st.one_of(st.integers(1, 1100), st.integers(1, 34).map(lambda w: 32 * w))),
        "registers_per_thread": draw(st.integers(0, 260)),
        "static_shared": draw(st.one_of(st.just(0), SHARED)),
        "dynamic_shared": draw(st.one_of(st.just(0), SHARED)),
        "shared_opt_in": draw(st.booleans()),
        "carveout": draw(st.one_of(st.none(), st.integers(0, 100))),
    }


def unlike_naive(launch: dict[str, Any], occupancy: Any = simt.occupancy) -> list[str]:
    held, found = occupancy(**launch), naive.limits(**launch)
    wrong = [name for name in found if held.limits[name] != found[name]]
    return wrong if held.blocks_per_sm == naive.blocks(found) else [*wrong, "blocks_per_sm"]


@settings(max_examples=400)
@given(launches())
def test_blocks_are_those_of_naive_placing(launch: dict[str, Any]) -> None:
    assert unlike_naive(launch) == []


# -------------------------------------------------------------------------------------- laws


@given(launches(), st.integers(1, 64))
def test_more_registers_never_give_more_blocks(launch: dict[str, Any], more: int) -> None:
    if launch["registers_per_thread"]:
        held = simt.occupancy(**launch)
        larger = simt.occupancy(**{**launch, "registers_per_thread": launch["registers_per_thread"] + more})
        assert larger.blocks_per_sm <= held.blocks_per_sm


@given(launches(), st.integers(1, 20_000))
def test_more_shared_memory_never_gives_more_blocks_of_one_carveout(
    launch: dict[str, Any], more: int
) -> None:
    launch["carveout"] = None  # else the SM itself may be set to more
    held = simt.occupancy(**launch)
    larger = simt.occupancy(**{**launch, "dynamic_shared": launch["dynamic_shared"] + more})
    if larger.static_shared + larger.dynamic_shared <= 49_152 or held.blocks_per_sm:
        assert larger.blocks_per_sm <= held.blocks_per_sm


@given(launches(), st.integers(1, 320))
def test_more_threads_never_give_more_blocks(launch: dict[str, Any], more: int) -> None:
    larger = simt.occupancy(**{**launch, "threads_per_block": launch["threads_per_block"] + more})
    assert larger.blocks_per_sm <= simt.occupancy(**launch).blocks_per_sm


@given(launches(), st.integers(0, 100))
def test_a_larger_carveout_never_takes_blocks_away(launch: dict[str, Any], other: int) -> None:
    low, high = sorted((launch["carveout"] or 0, other))
    blocks = [simt.occupancy(**{**launch, "carveout": share}).blocks_per_sm for share in (low, high, None)]
    assert blocks == sorted(blocks)


@given(launches())
def test_what_is_resident_fits(launch: dict[str, Any]) -> None:
    held = simt.occupancy(**launch)
    device, blocks = held.device, held.blocks_per_sm
    assert 0 <= held.occupancy <= 1
    assert held.warps_per_sm <= min(device.max_warps, held.warps_by_registers)
    assert blocks * held.registers_per_block <= device.registers
    assert blocks * held.shared_memory_per_block <= held.shared_memory_capacity or not blocks
    assert held.limiting and held.limiting == tuple(sorted(held.limiting))


@given(launches())
def test_static_and_dynamic_shared_memory_count_alike(launch: dict[str, Any]) -> None:
    whole = launch["static_shared"] + launch["dynamic_shared"]
    for static in (0, whole):
        other = simt.occupancy(**{**launch, "static_shared": static, "dynamic_shared": whole - static})
        assert other.limits == simt.occupancy(**launch).limits


def test_minus_one_is_cudas_word_for_the_default_carveout() -> None:
    assert simt.occupancy(carveout=-1) == simt.occupancy()
    assert simt.occupancy(carveout=-1).carveout is None


# -------------------------------------------------------------------------------------- one more block


@settings(max_examples=250)
@given(launches())
def test_each_change_gives_one_more_block_and_no_smaller_one_does(launch: dict[str, Any]) -> None:
    held = simt.occupancy(**launch)
    wanted = held.blocks_per_sm + 1
    for change in held.one_more():
        assert change.result == simt.occupancy(**{**launch, **change.settings})
        assert change.result.blocks_per_sm >= wanted, change
        if len(change.settings) > 1:
            continue
        ((name, value),) = change.settings.items()
        old = launch[name]
        between: list[Any] = []
        if name in ("registers_per_thread", "threads_per_block"):
            between = [count for count in range(value + 1, old) if count != 256]  # no thread can have 256
            if name == "threads_per_block":
                between = [threads for threads in between if threads % 32 == 0]  # whole warps
        elif name == "carveout":
            between = list(range(old + 1, value))
        elif name == "dynamic_shared":
            between = [value + 1, (value + old) // 2 + 1, old - 1]
            between = [size for size in between if value < size < old]
        for less in between:
            assert not simt.occupancy(**{**launch, name: less}).blocks_per_sm >= wanted, (change, less)


@settings(max_examples=250)
@given(launches())
def test_a_single_change_is_found_where_there_is_one(launch: dict[str, Any]) -> None:
    held = simt.occupancy(**launch)
    wanted = held.blocks_per_sm + 1
    smallest = {
        "registers_per_thread": 1,
        "threads_per_block": 1,
        "shared_opt_in": True,
        "carveout": 100,
    }
    for name, least in smallest.items():
        could = name != "carveout" or launch["carveout"] is not None
        helps = simt.occupancy(**{**launch, name: least}).blocks_per_sm >= wanted
        old = launch[name]
        if name == "registers_per_thread" and old <= 8:
            continue
        found = [change.settings for change in held.one_more() if set(change.settings) == {name}]
        assert bool(found) == (could and helps and old != least), (name, found)


def test_tied_limits_are_changed_together() -> None:
    held = simt.occupancy("8.0", 256, 64, dynamic_shared=40_000)
    assert held.limiting == ("registers", "shared_memory")
    first, second = held.one_more()
    assert dict(first.settings) == {"registers_per_thread": 48, "dynamic_shared": 32_512}
    assert dict(second.settings) == {"threads_per_block": 192, "dynamic_shared": 32_512}
    for change in (first, second):
        assert change.result.blocks_per_sm == 5
        for name in change.settings:  # both are needed
            alone = {name: change.settings[name]}
            assert simt.occupancy(**{**held.launch, **alone}).blocks_per_sm == 4


@pytest.mark.parametrize(
    ("launch", "settings_", "blocks"),
    [
        ({"static_shared": 60_000}, {"shared_opt_in": True}, 2),
        ({"static_shared": 60_000}, {"static_shared": 49_152}, 3),
        ({"registers_per_thread": 300}, {"registers_per_thread": 255}, 1),
        ({"threads_per_block": 2000, "registers_per_thread": 32}, {"threads_per_block": 1024}, 2),
        (
            {"threads_per_block": 1025, "registers_per_thread": 257},
            {"threads_per_block": 1024, "registers_per_thread": 64},
            1,
        ),
        ({"carveout": 0, "dynamic_shared": 7168, "registers_per_thread": 32}, {"carveout": 5}, 2),
    ],
)
def test_a_launch_that_cannot_start_or_is_cramped_learns_what_to_change(
    launch: dict[str, Any], settings_: dict[str, Any], blocks: int
) -> None:
    found = {tuple(one.settings.items()): one for one in simt.occupancy(**launch).one_more()}
    assert tuple(settings_.items()) in found
    assert found[tuple(settings_.items())].result.blocks_per_sm == blocks


def test_block_slots_are_the_sms_own() -> None:
    held = simt.occupancy("12.0", 32, 16)
    assert held.limiting == ("barriers", "blocks") and held.one_more() == ()
    none, larger = held.advice()
    assert none == "No launch has more than 24 blocks on this SM: its block slots and barriers are all taken."
    assert "64 threads a block instead of 32 hold 48 of 48 warps in 24 blocks" in larger
    assert simt.occupancy("12.0", 64, 16).warps_per_sm == 48


@settings(max_examples=150)
@given(launches())
def test_every_launch_has_its_sentences(launch: dict[str, Any]) -> None:
    held = simt.occupancy(**launch)
    for sentence in (*held.why(), *held.advice()):
        assert (
            (sentence[0].isupper() or sentence[0].isdigit())
            and sentence.endswith(".")
            and "  " not in sentence
        )
        assert " 1 blocks" not in sentence and " 1 warps" not in sentence
    assert len(held.why()) == len(held.limiting)
    assert held.advice()


def test_sentences_name_the_numbers() -> None:
    assert simt.occupancy("8.0", 384, 32).why() == (
        "Warp slots run out: 60 of 64 are taken, and a block needs 12.",
        "Registers run out: each sub-partition of 16,384 holds 16 warps of 1,024, the SM 64; 60 are there, "
        "and a block needs 12.",
    )
    assert simt.occupancy("8.0", 128, 32, dynamic_shared=40_960).why() == (
        "Shared memory runs out: 164 KiB of 164 KiB are taken, and a block needs 41 KiB, "
        "1 KiB of it reserved.",
    )
    (says,) = simt.occupancy("8.0", static_shared=50_000).why()
    assert says.startswith("The launch cannot start: 50,000 B") and "opts in" in says
    (says,) = simt.occupancy("8.0", 544, 113).why()
    assert "17 warps of 3,840 registers, counted in fours as 20, take 76,800" in says
    assert size_text(0) == "0 B" and size_text(1280) == "1.25 KiB" and size_text(41_088) == "41,088 B"


# -------------------------------------------------------------------------------------- its own check


@settings(max_examples=150)
@given(launches())
def test_an_sm_filled_warp_by_warp_holds_what_was_counted(launch: dict[str, Any]) -> None:
    report = simt.occupancy(**launch).verify()
    assert report.passed, report


HELD = simt.occupancy("9.0", 224, 40, dynamic_shared=20_000)


@pytest.mark.parametrize(
    ("fault", "failing"),
    [
        (
            {"blocks_per_sm": HELD.blocks_per_sm + 1},
            {"Blocks enter", "The next one does not", "Changes help"},
        ),
        ({"blocks_per_sm": HELD.blocks_per_sm - 1}, {"The next one does not"}),
        (
            {"limits": {**HELD.limits, "warps": HELD.blocks_per_sm}},
            {"The next one does not", "Each limit alone"},
        ),
        ({"limits": {**HELD.limits, "shared_memory": 12}}, {"Each limit alone"}),
        ({"shared_memory_per_block": 1024}, {"Each limit alone"}),
    ],
    ids=["a block too many", "a block too few", "warps run out too", "a wrong limit", "reserved bytes alone"],
)
def test_a_wrong_count_does_not_pass_its_check(fault: dict[str, Any], failing: set[str]) -> None:
    wrong = dataclasses.replace(HELD, **fault)
    found = {check.name for check in wrong.verify().checks if not check.passed}
    assert found and found <= failing


# -------------------------------------------------------------------------------------- planted faults

Fault = tuple[str, str, str]

FAULTS: list[Fault] = [
    (
        "the textbook rule of registers",
        "return device.partitions * (device.registers // device.partitions // per_warp) // warps",
        "return device.registers // (per_warp * warps)",
    ),
    (
        "registers of a thread not rounded up to the warp's step",
        "registers_per_warp = round_up(device.warp_size * registers, device.register_step)",
        "registers_per_warp = device.warp_size * registers",
    ),
    (
        "255 registers as the header's limit",
        "registers > device.registers_per_thread_checked or",
        "registers > device.registers_per_thread or",
    ),
    (
        "unrounded shared memory",
        "shared = round_up(asked + device.shared_memory_reserved, device.shared_memory_step)",
        "shared = asked + device.shared_memory_reserved",
    ),
    (
        "the reserved bytes forgotten",
        "round_up(asked + device.shared_memory_reserved, device.shared_memory_step)",
        "round_up(asked, device.shared_memory_step)",
    ),
    (
        "the reserved bytes forgotten in the launch check",
        "starts = shared <= most + device.shared_memory_reserved",
        "starts = shared <= most",
    ),
    (
        "opting in counts below 48 KiB too",
        "if shared_opt_in and asked > most:",
        "if asked > most:",
    ),
    (
        "a carve-out cut down to the size below",
        "next(size for size in device.carveouts if size >= wanted)",
        "max(size for size in device.carveouts if size <= wanted or not size)",
    ),
    (
        "a carve-out too small for one block",
        "wanted = max(carveout * device.shared_memory // 100, shared)",
        "wanted = carveout * device.shared_memory // 100",
    ),
    (
        "a broken warp is none",
        "warps = -(-threads // device.warp_size)",
        "warps = max(1, threads // device.warp_size)",
    ),
    (
        "blocks of more than 1,024 threads",
        "if threads <= device.max_threads_per_block else 0",
        "if threads else 0",
    ),
    (
        "barriers never run out",
        "math.inf if device.max_barriers is None else device.max_barriers",
        "math.inf",
    ),
    (
        "only the first of tied limits",
        "return tuple(sorted(name for name, limit in self.limits.items() if limit == self.blocks_per_sm))",
        "return (min(self.limits, key=lambda name: self.limits[name]),)",
    ),
    (
        "occupancy in blocks",
        "return self.warps_per_sm / self.device.max_warps",
        "return self.blocks_per_sm / self.device.max_blocks",
    ),
]
BEST_FAULTS: list[Fault] = [
    ("ties to the smaller", "held.threads_per_sm >= best * blocks", "held.threads_per_sm > best * blocks"),
    ("most blocks, not most threads", "held.threads_per_sm >= best * blocks", "held.blocks_per_sm >= blocks"),
]  # fmt: skip


def planted(right: str, wrong: str) -> types.ModuleType:
    """Return the module with one line changed, as a careless hand would."""
    source = inspect.getsource(module)
    assert source.count(right) == 1, f"{right!r} must stand exactly once"
    faulty = types.ModuleType(module.__name__)
    exec(compile(source.replace(right, wrong), str(module.__file__), "exec"), faulty.__dict__)
    return faulty


def fails(check: Any) -> bool:
    """Tell whether a check finds something, or falls over."""
    try:
        return bool(check())
    except Exception:  # a fault may make anything fall over
        return True


@pytest.mark.parametrize("fault", FAULTS, ids=[fault[0] for fault in FAULTS])
def test_a_fault_in_the_rules_is_seen_by_the_oracle(fault: Fault) -> None:
    _, right, wrong = fault
    faulty = planted(right, wrong)
    assert fails(lambda: wrong_rows(ROWS + CARVEOUTS, faulty.occupancy))


@pytest.mark.parametrize("fault", BEST_FAULTS, ids=[fault[0] for fault in BEST_FAULTS])
def test_a_fault_in_the_choice_is_seen_by_the_oracle(fault: Fault) -> None:
    faulty = planted(fault[1], fault[2])
    assert any(best_differs(row, faulty.best_block_size) for row in BEST)


SOUGHT = [
    {"registers_per_thread": 64},
    {"registers_per_thread": 257, "threads_per_block": 64},
    {"threads_per_block": 384, "registers_per_thread": 32},
    {"threads_per_block": 224, "registers_per_thread": 32},
    {"threads_per_block": 640, "registers_per_thread": 40, "compute_capability": "8.6"},
    {"dynamic_shared": 41_000, "registers_per_thread": 32, "compute_capability": "7.5"},
    {"static_shared": 9000, "dynamic_shared": 30_000, "registers_per_thread": 24, "threads_per_block": 64},
    {"carveout": 20, "dynamic_shared": 9000, "registers_per_thread": 24, "threads_per_block": 64},
]


def unlike_exhaustive(sought: dict[str, Any], occupancy: Any = simt.occupancy) -> set[str]:
    """Name the settings whose least change, by trying every value, is not the one found."""
    launch = simt.occupancy(**sought).launch
    wanted = simt.occupancy(**launch).blocks_per_sm + 1

    def enough(**change: Any) -> bool:
        return simt.occupancy(**{**launch, **change}).blocks_per_sm >= wanted

    asked = launch["dynamic_shared"]
    tried = {
        "registers_per_thread": [r for r in range(launch["registers_per_thread"] - 1, 0, -1) if r != 256],
        "threads_per_block": [t for t in range(launch["threads_per_block"] - 1, 0, -1) if t % 32 == 0],
        "dynamic_shared": range(asked - 1, -1, -1),
        "carveout": [] if launch["carveout"] is None else range(launch["carveout"] + 1, 101),
    }
    least = {
        name: next((value for value in values if enough(**{name: value})), None)
        for name, values in tried.items()
    }
    found = [dict(change.settings) for change in occupancy(**launch).one_more()]
    alone = {name: value for change in found if len(change) == 1 for name, value in change.items()}
    return {name for name in least if least[name] != alone.get(name)}


def test_every_least_change_is_the_one_that_trying_all_finds() -> None:
    assert [unlike_exhaustive(sought) for sought in SOUGHT] == [set()] * len(SOUGHT)


SEARCH_FAULTS: list[Fault] = [
    (
        "the fewest registers",
        "(*beyond, *range(most // step * step, 0, -step))",
        "range(step, most + 1, step)",
    ),
    ("two warps at a time", "for warps in range(most, 0, -1):", "for warps in range(most - 1, 0, -2):"),
    ("reserved bytes left out", "        - device.shared_memory_reserved\n", ""),
    ("a carve-out of all", "range(launch.carveout + 1, 101)", "range(100, 101)"),
    ("as many blocks as before", "wanted = self.blocks_per_sm + 1\n", "wanted = self.blocks_per_sm\n"),
]


@pytest.mark.parametrize("fault", SEARCH_FAULTS, ids=[fault[0] for fault in SEARCH_FAULTS])
def test_a_fault_in_the_search_for_one_more_block_is_seen(fault: Fault) -> None:
    faulty = planted(fault[1], fault[2])
    assert any(unlike_exhaustive(sought, faulty.occupancy) for sought in SOUGHT)


def test_naive_placing_sees_the_textbook_rule_too() -> None:
    faulty = planted(FAULTS[0][1], FAULTS[0][2])
    seen = [
        unlike_naive({**simt.occupancy("8.0", 32 * warps, registers).launch}, faulty.occupancy)
        for warps, registers in itertools.product(range(1, 9), range(8, 129, 8))
    ]
    assert any(seen) and not all(seen)


def test_the_textbook_rule_differs_where_sub_partitions_leave_rests() -> None:
    held = simt.occupancy("8.0", 32, 80)
    assert held.limits["registers"] == 24 and 65536 // held.registers_per_block == 25
    assert math.isinf(held.limits["barriers"])


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"compute_capability": "6.0"}, "compute_capability '6.0'"),
        ({"threads_per_block": 0}, "threads_per_block is 0.*at least 1"),
        ({"registers_per_thread": -1}, "registers_per_thread is -1.*at least 0"),
        ({"dynamic_shared": -1}, "dynamic_shared is -1"),
        ({"carveout": 101}, "carveout is 101.*at most 100.*percentage"),
    ],
)
def test_invalid_input_gets_a_sentence(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        simt.occupancy(**wrong)
