"""The shipped catalogue against the values as collected, each after its change of unit."""

from __future__ import annotations

import csv
import dataclasses
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import pytest

from pulsewarp import chips
from pulsewarp.chips import Chip

FACTS = Path(__file__).parent.parent / "reference" / "facts"

PEAKS = {
    "peak_fp64_vector_tflops": "fp64",
    "peak_fp64_tensor_tflops": "fp64_tensor",
    "peak_fp32_vector_tflops": "fp32",
    "peak_tf32_dense_tflops": "tf32",
    "peak_bf16_dense_tflops": "bf16",
    "peak_fp16_dense_tflops": "fp16",
    "peak_fp8_dense_tflops": "fp8",
    "peak_int8_dense_tops": "int8",
    "peak_fp4_dense_tflops": "fp4",
    "peak_int4_dense_tops": "int4",
}
NUMBERS = {
    "year": ("year", 1),
    "memory_gb_vendor_label": ("memory_label_gb", 1),
    "memory_bytes": ("memory_bytes", 1),
    "memory_bw_gb_per_s": ("bandwidth_bytes_per_second", 10**9),
    "tdp_w": ("tdp_watts", 1),
    "measured_power_mean_w": ("measured_power_mean_watts", 1),
    "measured_power_max_w": ("measured_power_max_watts", 1),
    "boost_clock_mhz": ("boost_clock_hz", 10**6),
    "matrix_clock_mhz": ("matrix_clock_hz", 10**6),
    "num_cores": ("cores", 1),
    "matrix_units_per_core": ("matrix_units_per_core", 1),
    "fma_per_clk_per_matrix_unit_16b": ("fma_per_clock_per_matrix_unit", 1),
    "l2_cache_mib": ("l2_cache_bytes", 2**20),
    "llc_mib": ("last_level_cache_bytes", 2**20),
    "vmem_total_mib": ("vmem_bytes", 2**20),
    "cmem_mib": ("cmem_bytes", 2**20),
    "unified_buffer_mib": ("unified_buffer_bytes", 2**20),
    "shared_mem_per_core_kib": ("shared_memory_per_core_bytes", 2**10),
    "register_file_per_core_kib": ("register_file_per_core_bytes", 2**10),
    "warp_size": ("warp_size", 1),
    "max_threads_per_core": ("max_threads_per_core", 1),
    "interconnect_gb_per_s_bidirectional": ("interconnect_bidirectional_bytes_per_second", 10**9),
    "interconnect_gb_per_s_unidirectional": ("interconnect_unidirectional_bytes_per_second", 10**9),
    "max_domain_chips": ("max_domain_chips", 1),
}
TEXTS = {
    "process_node": "process_node",
    "memory_type": "memory_type",
    "tdp_term": "tdp_term",
    "core_kind": "core_kind",
    "interconnect_type": "interconnect",
    "topology": "topology",
}
LABELS = ("id", "name", "vendor", "family", "status")

LEFT_OUT = {
    ("v100_sxm2_16", "matrix_geometry"): "the step of a tensor core is no array shape",
    ("v100_sxm2_32", "matrix_geometry"): "the step of a tensor core is no array shape",
}
REWORDED = {
    (chip_id, "status"): "a status is free words; ours is shorter"
    for chip_id in ("tpu_v4", "tpu_v7", "tpu_8t", "tpu_8i", "rubin", "mi455x")
}


def rows(name: str) -> list[dict[str, str]]:
    with (FACTS / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def carried(chip: Chip, column: str, value: str) -> tuple[str, object, object]:
    """Return attribute name, expected value and the catalogue's value of one cell."""
    if column in PEAKS:
        dtype = PEAKS[column]
        exact = float(Decimal(value) * 10**12)
        return f"peak_flops_per_second.{dtype}", exact, chip.peak_flops_per_second.get(dtype)
    if column in NUMBERS:
        attribute, factor = NUMBERS[column]
        return attribute, float(Decimal(value) * factor), getattr(chip, attribute)
    if column == "matrix_geometry":
        left, right = value.split()[0].split("x")
        return "matrix_unit_shape", (int(left), int(right)), chip.matrix_unit_shape
    if column == "clouds_seen":
        return "clouds", tuple(value.split("; ")), chip.clouds
    attribute = column if column in LABELS else TEXTS[column]
    return attribute, value, getattr(chip, attribute)


def differences(catalogue: Mapping[str, Chip], facts: Iterable[Mapping[str, str]]) -> list[str]:
    """Return a line for every collected value that the catalogue lacks, changes or does not source."""
    found = []
    for row in facts:
        chip = catalogue[row["id"]]
        for column, value in row.items():
            if not value or (chip.id, column) in LEFT_OUT or (chip.id, column) in REWORDED:
                continue
            attribute, expected, actual = carried(chip, column, value)
            if actual != expected:
                found.append(f"{chip.id}.{attribute}: {actual} for {expected}")
            if column not in LABELS and attribute not in chip.sources:
                found.append(f"{chip.id}.{attribute}: no source")
    return found


CATALOGUE = {chip.id: chip for chip in chips.catalogue()}
CHIPS = rows("chips.csv")


def test_every_collected_value_is_carried_with_a_source() -> None:
    assert differences(CATALOGUE, CHIPS) == []
    assert [row["id"] for row in CHIPS if row["id"] not in CATALOGUE] == []
    assert len(CATALOGUE) == len(CHIPS) == 40


def test_nothing_is_carried_that_was_not_collected() -> None:
    derived = {"matrix_units", "jax_devices_per_chip"}
    for row in CHIPS:
        chip = CATALOGUE[row["id"]]
        cells = {
            column: value for column, value in row.items() if value and (chip.id, column) not in LEFT_OUT
        }
        collected = {carried(chip, column, value)[0] for column, value in cells.items()}
        if "memory_bytes" not in collected and "memory_label_gb" in collected:
            assert chip.memory_caveat
            collected.add("memory_bytes")
        else:
            assert chip.memory_caveat is None
        assert set(chip.sources) - collected - derived == set(), chip.id


@pytest.mark.parametrize(
    ("chip_id", "change"),
    [
        ("h100_sxm", {"tdp_watts": 701.0}),
        ("tpu_v5e", {"bandwidth_bytes_per_second": 820e9}),
        ("tpu_v5e", {"memory_bytes": 16 * 10**9}),
        ("b200", {"peak_flops_per_second": MappingProxyType({"bf16": 4.5e15})}),
        ("mi300x", {"cores": None}),
        ("l4", {"sources": MappingProxyType({})}),
    ],
)
def test_a_planted_difference_is_found(chip_id: str, change: dict[str, Any]) -> None:
    planted = CATALOGUE | {chip_id: dataclasses.replace(CATALOGUE[chip_id], **change)}
    assert differences(planted, CHIPS)


def test_what_is_left_out_exists_and_is_absent() -> None:
    by_id = {row["id"]: row for row in CHIPS}
    for chip_id, column in LEFT_OUT:
        assert by_id[chip_id][column]
        assert CATALOGUE[chip_id].matrix_unit_shape is None
    for chip_id, column in REWORDED:
        assert getattr(CATALOGUE[chip_id], column) != by_id[chip_id][column]


def test_every_value_names_as_many_sources_as_were_seen() -> None:
    collected = {(row["id"], column): value for row in CHIPS for column, value in row.items()}
    counted = 0
    for row in rows("sources.csv"):
        chip_id, column = row["chip_id"], row["field"]
        if collected[chip_id, column] != row["value"] or (chip_id, column) in LEFT_OUT:
            continue
        chip = CATALOGUE[chip_id]
        attribute = carried(chip, column, row["value"])[0]
        named = {chip.source(attribute), *chip.further_sources.get(attribute, ())}
        assert len(named) == int(row["sources"]), (chip_id, attribute)
        counted += 1
    assert counted > 750


def test_every_source_is_complete_and_tells_of_no_machine_of_ours() -> None:
    for chip in CATALOGUE.values():
        for source in chip.sources.values():
            assert source.title and source.address and source.date
            assert not source.address.startswith(("/", "file:", "."))


def test_the_arithmetic_of_units_and_clock_is_the_collected_one() -> None:
    unknown_clock = [row for row in rows("checks.csv") if not row["clock_ghz"]]
    # B300: no source seen gives the SM count that the collected row assumes.
    known = [row for row in rows("checks.csv") if row["clock_ghz"] and row["id"] != "b300"]
    assert (len(unknown_clock), len(known)) == (7, 84)
    printed = 0
    for row in known:
        chip, dtype = CATALOGUE[row["id"]], PEAKS[row["field"]]
        assert float(Decimal(row["published"]) * 10**12) == pytest.approx(chip.peak(dtype), rel=0.003)
        if chip.unit_arithmetic_caveat is None:
            assert chip.peak_arithmetic[dtype] / 1e12 == pytest.approx(
                float(row["computed"]), rel=4e-4, abs=0.051
            )
            printed += 1
    assert printed == 75


def test_units_times_clock_is_not_offered_where_it_would_mislead() -> None:
    for chip_id in ("tpu_v6e", "tpu_v7", "tpu_8t", "b200", "gb200", "b300", "gb300"):
        assert CATALOGUE[chip_id].unit_arithmetic_caveat
        assert CATALOGUE[chip_id].peak_arithmetic == {}
    for chip_id in ("h100_sxm", "h200_sxm"):  # at the tensor clock, which is below the boost clock
        chip = CATALOGUE[chip_id]
        assert chip.matrix_clock_hz is not None and chip.boost_clock_hz is not None
        assert chip.matrix_clock_hz < chip.boost_clock_hz
        assert chip.peak_arithmetic["bf16"] == pytest.approx(chip.peak("bf16"), rel=1e-3)


def test_conflicts_are_settled_as_decided() -> None:
    assert CATALOGUE["tpu_v3"].peak("bf16") == 123e12
    assert CATALOGUE["tpu_v5p"].bandwidth_bytes_per_second == 2765e9
    assert CATALOGUE["tpu_v5e"].bandwidth_bytes_per_second == 819e9
    assert CATALOGUE["gb200"].peak("bf16") == 2500e12
    assert CATALOGUE["b300"].peak("fp4") == 13.5e15


def test_weak_entries_carry_a_caveat_and_projections_no_roofline() -> None:
    weak = ["a10g", "b300", "gb300", "h100_nvl", "mi455x", "rtx3090", "rubin", "tpu_8i", "tpu_8t", "tpu_v4i"]
    assert sorted(chip.id for chip in CATALOGUE.values() if chip.caveat) == sorted([*weak, "trainium2"])
    assert [chip.id for chip in CATALOGUE.values() if not chip.has_roofline] == ["mi455x", "rubin"]


def test_no_tpu_after_v4_has_a_power_and_no_chip_mixes_two_kinds_of_it() -> None:
    for chip_id in ("tpu_v5e", "tpu_v5p", "tpu_v6e", "tpu_v7", "tpu_8t", "tpu_8i"):
        chip = CATALOGUE[chip_id]
        assert chip.tdp_watts is chip.measured_power_mean_watts is chip.measured_power_max_watts is None
    assert CATALOGUE["tpu_v4"].tdp_watts is None and CATALOGUE["tpu_v4"].measured_power_mean_watts == 170


def test_every_price_seen_is_carried() -> None:
    seen = [row for row in rows("prices.csv") if row["usd_per_chip_hour"]]
    unseen = [row["chip_id"] for row in rows("prices.csv") if not row["usd_per_chip_hour"]]
    assert unseen == ["tpu_v7", "tpu_8t", "tpu_8i", "trainium2"]
    assert all(chips.prices(chip_id) == () for chip_id in unseen)
    collected = sorted(
        (
            row["chip_id"],
            row["provider"],
            row["region"],
            float(row["usd_per_chip_hour"]),
            row["date_of_source"] or "undated",
            row["confidence"],
        )
        for row in seen
    )
    ours = sorted(
        (p.chip_id, p.provider, p.region or "", p.usd_per_chip_hour, p.date, p.confidence)
        for p in chips.prices()
    )
    assert ours == collected
    kinds = sorted((row["chip_id"], float(row["usd_per_chip_hour"]), row["kind"]) for row in seen)
    for (chip_id, usd, words), price in zip(
        kinds, sorted(chips.prices(), key=lambda p: (p.chip_id, p.usd_per_chip_hour, p.kind)), strict=True
    ):
        assert (price.chip_id, price.usd_per_chip_hour) == (chip_id, usd)
        assert words.startswith(price.kind)


SI = {"pJ/op": ("J/op", 1e-12), "pJ/access": ("J/access", 1e-12), "pJ/bit": ("J/bit", 1e-12)}


def test_every_published_energy_is_carried_or_computed() -> None:
    collected = rows("energy.csv")
    published = [row for row in collected if row["unit"] in SI and row["value"]]
    assert len(published) == 18
    by_item = {(fact.item, fact.process_node or ""): fact for fact in chips.energy()}
    for row in published:
        unit, factor = SI[row["unit"]]
        fact = by_item[row["item"], row["process_node"]]
        assert (fact.unit, fact.basis) == (unit, row["basis"])
        assert fact.value == pytest.approx(float(row["value"]) * factor, rel=1e-12)
        if fact.unit == "J/access":
            assert f"{fact.access_bits}-bit" == row["basis"].split()[0].rstrip(",")


@pytest.mark.parametrize("fact_id", ["dram_read_32_bit_word_45nm", "hbm2_stack_access"])
def test_the_energy_of_a_byte_is_what_the_note_says(fact_id: str) -> None:
    fact = chips.energy_fact(fact_id)
    noted = re.match(r"([\d.]+) pJ a byte", fact.note or "")
    assert noted is not None
    low, high = fact.joules_per_byte
    assert low == high == pytest.approx(float(noted[1]) * 1e-12, rel=2e-3)  # the note is rounded


def test_energy_over_peak_is_computed_as_collected() -> None:
    derived = [row for row in rows("energy.csv") if row["basis"].startswith("DERIVED")]
    assert len(derived) == 19
    for row in derived:
        chip_id, words = row["item"].split(": ")
        power: Literal["tdp", "measured_power_mean"] = "measured_power_mean" if "measured" in words else "tdp"
        joules = chips.joules_per_peak_flop(CATALOGUE[chip_id], words.split()[-1], power)
        assert joules is not None
        assert joules * 1e12 == pytest.approx(float(row["value"]), abs=5e-4)


def test_claims_and_powers_are_carried_as_ranges() -> None:
    values = {row["item"]: row["value"] for row in rows("energy.csv")}

    def ends(fact_id: str) -> tuple[float | None, float]:
        fact = chips.energy_fact(fact_id)
        return fact.low, fact.high

    assert values["TPU v1 vs contemporary CPU/GPU, TOPS/W"] == "30-80"
    assert ends("tpu_v1_vs_cpu_and_gpu_tops_per_watt") == (30, 80)
    assert values["TPU v1 vs CPU / vs GPU perf per watt (Google blog figure)"] == "83 / 29"
    assert ends("tpu_v1_vs_cpu_perf_per_watt") == (83, 83)
    assert ends("tpu_v1_vs_gpu_perf_per_watt") == (29, 29)
    assert values["TPU v3 measured min/mean/max power"] == "123/220/262"
    v3, v4 = CATALOGUE["tpu_v3"], CATALOGUE["tpu_v4"]
    assert ends("tpu_v3_measured_power_min") == (123, 123)
    assert (v3.measured_power_mean_watts, v3.measured_power_max_watts) == (220, 262)
    assert values["TPU v4 measured min/mean/max power"] == "90/170/192"
    assert ends("tpu_v4_measured_power_min") == (90, 90)
    assert (v4.measured_power_mean_watts, v4.measured_power_max_watts) == (170, 192)
    assert values["TPU v2 / v3 TDP"] == "280 / 450"
    assert (CATALOGUE["tpu_v2"].tdp_watts, v3.tdp_watts) == (280, 450)
    assert float(values["TPU v1 power"]) == CATALOGUE["tpu_v1"].tdp_watts
    assert values["TPU v4 vs A100"] == "1.2-1.7x faster at 1.3-1.9x less power"
    assert ends("tpu_v4_vs_a100_speed") == (1.2, 1.7)
    assert ends("tpu_v4_vs_a100_power") == (1.3, 1.9)
    assert (
        float(values["Ironwood vs Trillium perf/W"]) == chips.energy_fact("tpu_v7_vs_v6e_perf_per_watt").value
    )
    assert values["TPU 8t/8i vs Ironwood perf/W"] == "up to 2"
    assert ends("tpu_8_vs_v7_perf_per_watt") == (None, 2)
    assert values["SRAM vs HBM energy per bit on TPU 8i"] == "10-20"
    assert ends("tpu_8i_sram_vs_hbm_per_bit") == (10, 20)
    assert (
        float(values["TPU v7 (Ironwood) pod, all-in"]) == chips.energy_fact("tpu_v7_pod_power_per_chip").value
    )
    # What nobody was seen to publish: six rows of the 7 nm table, SRAM and GDDR6 at 7 nm, a FLOP at load.
    assert sum(not value for value in (row["value"] for row in rows("energy.csv"))) == 10


def test_every_stack_is_carried_and_says_no_where_the_collected_row_says_no() -> None:
    collected = [row for row in rows("stacks.csv") if not row["stack"].startswith("Google guidance")]
    assert len(collected) == len(rows("stacks.csv")) - 1  # guidance on when to use a TPU is no stack
    ours = {stack.name: stack for stack in chips.stacks()}
    assert list(ours) == [row["stack"] for row in collected]
    for row in collected:
        stack = ours[row["stack"]]
        assert (stack.version or "") in row["version"]
        for platform in chips.PLATFORMS:
            words = row[platform].lower()
            level = stack.support[platform].level if platform in stack.support else None
            assert (level is None) == (not words), (stack.id, platform)
            if words.startswith("yes"):
                assert level == "yes", (stack.id, platform)
            if words == "no":
                assert level == "no", (stack.id, platform)
            if words.startswith("experimental"):
                assert level == "experimental", (stack.id, platform)
