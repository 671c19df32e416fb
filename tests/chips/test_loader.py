"""The loader refuses what cannot be trusted; every fault is planted in a copy of the shipped files."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pulsewarp import chips
from pulsewarp.chips.energy_fact import read_energy
from pulsewarp.chips.files import DATA
from pulsewarp.chips.loader import FIELDS, PEAK_TOLERANCE, load, read_chips
from pulsewarp.chips.price import read_prices
from pulsewarp.chips.stack import read_stacks

Plant = Callable[[str, str, str], Path]


@pytest.fixture
def plant(tmp_path: Path) -> Plant:
    """Copy the shipped files and replace one text that stands exactly once in a file."""

    def planted(file: str, old: str, new: str) -> Path:
        folder = tmp_path / "data"
        shutil.copytree(str(DATA), folder)
        text = (folder / file).read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {file}"
        (folder / file).write_text(text.replace(old, new), encoding="utf-8")
        return folder

    return planted


def chip_line(file: str, chip_id: str, field: str) -> str:
    """Return the chip's header and lines down to `field`, a text that stands once in the file."""
    text = (DATA / "chips" / file).read_text(encoding="utf-8")
    found = re.search(rf"^\[{chip_id}\]\n(?:(?!\[).*\n)*?{re.escape(field)} = .*$", text, re.MULTILINE)
    assert found is not None
    return found.group()


def test_the_shipped_files_load() -> None:
    assert list(read_chips(DATA)) == list(chips.ids())
    assert read_chips(DATA) == dict(load())


FAULTS: dict[str, tuple[str, Callable[[str], str], str]] = {
    "a number without a source": (
        "bandwidth",
        lambda line: re.sub(r", source = .*", " }", line),
        r"nvidia_gpu.toml: h100_sxm.bandwidth = 3350 has no source; add source",
    ),
    "an empty list of sources": (
        "tdp",
        lambda line: re.sub(r"source = .*", "source = [] }", line),
        r"h100_sxm.tdp = 700 has no source",
    ),
    "an unknown source": (
        "tdp",
        lambda line: re.sub(r"source = .*", 'source = "ml_engineering_acelerators" }', line),
        r"h100_sxm.tdp.source = 'ml_engineering_acelerators' is no key of sources.toml. "
        r"Did you mean 'ml_engineering_accelerators'\?",
    ),
    "a bare number": (
        "tdp",
        lambda line: re.sub(r"tdp = .*", "tdp = 700", line),
        r"h100_sxm.tdp = 700 must be a table such as",
    ),
    "an unknown field": (
        "tdp",
        lambda line: line.replace("tdp =", "tpd ="),
        r"h100_sxm.tpd = 700 is an unknown field. Did you mean 'tdp'\?",
    ),
    "an unknown field of a value": (
        "tdp",
        lambda line: re.sub(r"tdp = \{ value", "tdp = { valeu", line),
        r"h100_sxm.tdp.valeu = 700 is an unknown field. Did you mean 'value'\?",
    ),
    "an unknown dtype": (
        "peak.bf16",
        lambda line: line.replace("peak.bf16", "peak.bf-16"),
        r"h100_sxm.peak.bf-16 = 989.4 is an unknown field. Did you mean 'bf16'\?",
    ),
    "a peak without its sparsity": (
        "peak.bf16",
        lambda line: line.replace('sparsity = "dense", ', ""),
        r"nvidia_gpu.toml: h100_sxm.peak.bf16 = 989.4 does not state its sparsity",
    ),
    "a sparse peak": (
        "peak.bf16",
        lambda line: line.replace("989.4", "1978.9").replace('"dense"', '"2:4"'),
        r"h100_sxm.peak.bf16.sparsity = '2:4' is not dense, and the catalogue holds dense peaks only",
    ),
    "a sparse figure called dense": (
        "peak.bf16",
        lambda line: line.replace("989.4", "1978.9"),
        r"h100_sxm.peak.bf16 = 1978.9 TFLOP/s is 100% above units x FMA x 2 x clock .* 10 % is the limit",
    ),
    "an unknown unit": (
        "bandwidth",
        lambda line: line.replace('"GB/s"', '"GiB/s"'),
        r"h100_sxm.bandwidth.unit = 'GiB/s' is no unit of this field; write one of GB/s, TB/s",
    ),
    "a missing unit": (
        "bandwidth",
        lambda line: line.replace(', unit = "GB/s"', ""),
        r"h100_sxm.bandwidth.unit = None is no unit of this field",
    ),
    "a unit where none belongs": (
        "warp_size",
        lambda line: re.sub(r"warp_size = \{ value = 32", 'warp_size = { value = 32, unit = "B"', line),
        r"h100_sxm.warp_size.unit = 'B' is out of place",
    ),
    "a text for a number": (
        "bandwidth",
        lambda line: line.replace("3350", '"3350"'),
        r"h100_sxm.bandwidth = '3350' must be a finite number",
    ),
    "a negative number": (
        "bandwidth",
        lambda line: line.replace("3350", "-3350"),
        r"h100_sxm.bandwidth = -3350 must be a finite number",
    ),
    "not a number": (
        "bandwidth",
        lambda line: line.replace("3350", "nan"),
        r"h100_sxm.bandwidth = nan must be a finite number",
    ),
    "an infinite number": (
        "bandwidth",
        lambda line: line.replace("3350", "inf"),
        r"h100_sxm.bandwidth = inf must be a finite number",
    ),
    "a truth for a number": (
        "bandwidth",
        lambda line: line.replace("3350", "true"),
        r"h100_sxm.bandwidth = True must be a finite number",
    ),
    "a peak of zero": (
        "peak.bf16",
        lambda line: line.replace("989.4", "0"),
        r"h100_sxm.peak.bf16 = 0 must be above 0",
    ),
    "half a core": (
        "cores",
        lambda line: line.replace("value = 132", "value = 131.5"),
        r"h100_sxm.cores = 131.5 must come to a whole number",
    ),
    "half a check": (
        "peak.fp8",
        lambda line: line.replace('clock = "matrix", ', ""),
        r"h100_sxm.peak.fp8 = \{units, fma_per_clock\} is half a check",
    ),
    "a check without its clock": (
        "matrix_clock",
        lambda line: "",
        r"h100_sxm.peak.tf32 = 494.7 asks for a check with matrix units at the matrix clock, not both known",
    ),
    "an unknown family": (
        "family",
        lambda line: line.replace('family = "gpu"', 'family = "GPU"'),
        r"h100_sxm.family = 'GPU' must be one of tpu, gpu, other",
    ),
    "no name": (
        "name",
        lambda line: line.replace('name = "H100 SXM5 80GB"', ""),
        r"h100_sxm.name = None must be a text",
    ),
    "an empty caveat": (
        "name",
        lambda line: line + '\ncaveat = " "',
        r"h100_sxm.caveat = ' ' must be a text",
    ),
    "device names that are no list": (
        "device_kinds",
        lambda line: re.sub(r"device_kinds = .*", 'device_kinds = "NVIDIA H100"', line),
        r"h100_sxm.device_kinds = 'NVIDIA H100' must be a list of texts",
    ),
    "a projection that is no truth": (
        "name",
        lambda line: line + '\nprojection = "yes"',
        r"h100_sxm.projection = 'yes' must be true or false",
    ),
    "an exemption without its reason": (
        "name",
        lambda line: line + "\nunit_check = false",
        r"h100_sxm.unit_check = False needs its reason; add unit_arithmetic_caveat",
    ),
    "an empty basis": (
        "tdp",
        lambda line: re.sub(r" \}$", ', basis = "" }', line),
        r"h100_sxm.tdp.basis = '' must be a text",
    ),
    "others that are no list": (
        "tdp",
        lambda line: re.sub(r" \}$", ", others = 650 }", line),
        r"h100_sxm.tdp.others = 650 must be a list",
    ),
    "another value without a source": (
        "tdp",
        lambda line: re.sub(r" \}$", ", others = [{ value = 650 }] }", line),
        r"h100_sxm.tdp.others = 650 has no source",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_refused_in_one_sentence(fault: str, plant: Plant) -> None:
    field, change, sentence = FAULTS[fault]
    lines = chip_line("nvidia_gpu.toml", "h100_sxm", field)
    before, line = lines.rsplit("\n", 1)
    assert change(line) != line
    folder = plant("chips/nvidia_gpu.toml", lines, f"{before}\n{change(line)}")
    with pytest.raises(ValueError, match=rf"^nvidia_gpu.toml: {sentence.removeprefix('nvidia_gpu.toml: ')}"):
        read_chips(folder)


def test_a_peak_within_ten_percent_of_the_arithmetic_is_kept(plant: Plant) -> None:
    line = chip_line("nvidia_gpu.toml", "h100_sxm", "peak.bf16")
    limit = float(PEAK_TOLERANCE) * 989.4
    folder = plant(
        "chips/nvidia_gpu.toml",
        line,
        line.replace("bf16 = { value = 989.4", f"bf16 = {{ value = {limit - 1:.1f}"),
    )
    assert read_chips(folder)["h100_sxm"].peak("bf16") == pytest.approx((limit - 1) * 1e12, rel=1e-4)


def test_a_16_bit_peak_is_held_to_the_units_even_without_a_stated_check(plant: Plant) -> None:
    line = chip_line("nvidia_gpu.toml", "h200_sxm", "peak.fp16")
    head, last = line.rsplit("\n", 1)
    bare = re.sub(r', units = "matrix", clock = "matrix", fma_per_clock = \d+', "", last).replace(
        "989.4", "1978.9"
    )
    folder = plant("chips/nvidia_gpu.toml", line, f"{head}\n{bare}")
    with pytest.raises(ValueError, match=r"h200_sxm.peak.fp16 = 1978.9 TFLOP/s is 100% above"):
        read_chips(folder)


def test_an_exemption_with_its_reason_is_honoured(plant: Plant) -> None:
    line = chip_line("google_tpu.toml", "tpu_v6e", "cores")
    clock = '\nmatrix_clock = { value = 1751, unit = "MHz", source = "arithmetic" }'
    rate = '\nfma_per_clock_per_matrix_unit = { value = 65536, source = "arithmetic" }'
    folder = plant("chips/google_tpu.toml", line, line + clock + rate)
    assert read_chips(folder)["tpu_v6e"].peak("bf16") == 918e12  # 2 units at this clock make half of it
    file = folder / "chips" / "google_tpu.toml"
    exempt = chip_line("google_tpu.toml", "tpu_v6e", "unit_check")
    file.write_text(
        file.read_text(encoding="utf-8").replace(exempt, exempt.rsplit("\n", 1)[0]), encoding="utf-8"
    )
    with pytest.raises(ValueError, match=r"google_tpu.toml: tpu_v6e.peak.bf16 = 918 TFLOP/s is 100% above"):
        read_chips(folder)


def test_a_chip_stated_twice_is_refused(plant: Plant) -> None:
    folder = plant("chips/amd_gpu.toml", "[mi300x]", "[h100_sxm]")
    with pytest.raises(
        ValueError, match=r"nvidia_gpu.toml: h100_sxm = 'h100_sxm' stands in another file too"
    ):
        read_chips(folder)


def test_a_file_without_its_date_is_refused(plant: Plant) -> None:
    folder = plant("chips/other.toml", 'as_of = "2026-11-30"', "")
    with pytest.raises(ValueError, match=r"other.toml: as_of = None must be a text"):
        read_chips(folder)


def test_broken_toml_is_named(plant: Plant) -> None:
    folder = plant("chips/other.toml", "[gaudi3]", "[gaudi3")
    with pytest.raises(ValueError, match=r"other.toml is not valid TOML: .*line"):
        read_chips(folder)


def test_a_matrix_unit_of_three_sides_is_refused(plant: Plant) -> None:
    line = chip_line("google_tpu.toml", "tpu_v5e", "matrix_unit_shape")
    folder = plant("chips/google_tpu.toml", line, line.replace("[128, 128]", "[128, 128, 4]"))
    with pytest.raises(
        ValueError, match=r"tpu_v5e.matrix_unit_shape = \[128, 128, 4\] must be \[rows, columns\]"
    ):
        read_chips(folder)


def test_a_chip_that_is_no_table_is_refused(plant: Plant) -> None:
    folder = plant("chips/other.toml", 'as_of = "2026-11-30"', 'as_of = "2026-11-30"\nwse3 = 3')
    with pytest.raises(ValueError, match=r"other.toml: wse3 = 3 must be a table"):
        read_chips(folder)


def test_a_source_without_an_address_is_refused(plant: Plant) -> None:
    folder = plant("sources.toml", 'address = "https://docs.cloud.google.com/tpu/docs/v5e"\n', "")
    with pytest.raises(ValueError, match=r"sources.toml: gcp_v5e.address = None must be a text"):
        read_chips(folder)


GB200_PRICE = '{ chip = "gb200", usd_per_chip_hour = 10.5, kind = "on-demand", confidence = "medium"'


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            GB200_PRICE,
            GB200_PRICE.replace('"gb200"', '"gb20"'),
            r"chip = 'gb20' must be one of .*Did you mean 'gb200'\?",
        ),
        (
            GB200_PRICE,
            GB200_PRICE.replace("on-demand", "on demand"),
            r"kind = 'on demand' must be one of on-demand",
        ),
        (GB200_PRICE, GB200_PRICE.replace("10.5", "-1"), r"usd_per_chip_hour = -1 must be a finite number"),
        (GB200_PRICE, GB200_PRICE.replace("usd_per_chip_hour", "usd"), r"usd = 10.5 is an unknown field"),
        (GB200_PRICE, GB200_PRICE.replace("medium", "sure"), r"confidence = 'sure' must be one of good"),
        ('source = "skypilot_lambda"\n', "", r" = \{provider, date, rows\} has no source"),
    ],
)
def test_a_faulty_price_is_refused(old: str, new: str, sentence: str, plant: Plant) -> None:
    folder = plant("prices.toml", old, new)
    with pytest.raises(ValueError, match=rf"^prices.toml: offers\[\d+\].*{sentence}"):
        read_prices(folder, load())


SRAM_8_KB = 'value = 5\nunit = "pJ/access"\naccess_bits = 32\n'
INT8_MULTIPLY = '[int8_multiply_45nm]\nitem = "int8 multiply"\nprocess_node = "45 nm"\nvalue = 0.2\n'


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            INT8_MULTIPLY,
            INT8_MULTIPLY + "low = 0.1\n",
            r"int8_multiply_45nm = .* must state value, or low and high",
        ),
        (
            INT8_MULTIPLY,
            INT8_MULTIPLY.replace("0.2", "inf"),
            r"int8_multiply_45nm.value = inf must be a finite number",
        ),
        (
            INT8_MULTIPLY,
            INT8_MULTIPLY + 'joules = "1"\n',
            r"int8_multiply_45nm.joules = '1' is an unknown field",
        ),
        ('source = "oconnor_2017"\n', "", r"hbm2_stack_access = 3.97 has no source"),
        ('unit = "pJ/bit"', 'unit = "pJ/byte"', r"hbm2_stack_access.unit = 'pJ/byte' must be one of"),
        (
            SRAM_8_KB,
            SRAM_8_KB.replace("access_bits = 32\n", ""),
            r"sram_read_8_kb.*.access_bits = None must be a whole number",
        ),
        (SRAM_8_KB, SRAM_8_KB.replace("32", "0"), r"sram_read_8_kb.*.access_bits = 0 must be a whole"),
        (
            INT8_MULTIPLY,
            INT8_MULTIPLY + "access_bits = 8\n",
            r"int8_multiply_45nm.access_bits = 8 .* where the unit is \"pJ/access\"",
        ),
        ('chip = "tpu_8i"', 'chip = "tpu_9i"', r"tpu_8i_sram_vs_hbm_per_bit.chip = 'tpu_9i' must be one of"),
    ],
)
def test_a_faulty_energy_fact_is_refused(old: str, new: str, sentence: str, plant: Plant) -> None:
    folder = plant("energy.toml", old, new)
    with pytest.raises(ValueError, match=rf"^energy.toml: {sentence}"):
        read_energy(folder, load())


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('source = "jax_triton_release"\n', "", r"jax_triton = \{.*\} has no source"),
        (
            '{ support = "interpreted"',
            '{ support = "perhaps"',
            r"pallas.cpu.support = 'perhaps' must be one of yes",
        ),
        ("[jax_triton]", '[jax_triton]\nnvidia = "yes"', r"jax_triton.nvidia = 'yes' is an unknown field"),
        ("[jax_triton]", "[jax_triton]\ncpu = true", r"jax_triton.cpu = True must be a table"),
    ],
)
def test_a_faulty_stack_is_refused(old: str, new: str, sentence: str, plant: Plant) -> None:
    folder = plant("stacks.toml", old, new)
    with pytest.raises(ValueError, match=rf"^stacks.toml: {sentence}"):
        read_stacks(folder)


def test_every_field_that_may_be_stated_is_stated_by_some_chip() -> None:
    stated = {name for chip in chips.catalogue() for name in chip.sources}
    assert {field.attribute for field in FIELDS.values()} - stated == set()
