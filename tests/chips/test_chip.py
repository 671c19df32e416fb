"""What a `Chip` answers, and how the catalogue is asked."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest

from pulsewarp import chips
from pulsewarp.chips import Chip

ALL = chips.catalogue()


def by_id(chip: Chip) -> str:
    return chip.id


def test_an_unknown_chip_names_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"Unknown chip 'tpu_v5'; .*Did you mean 'tpu_v5[ep]'\?"):
        chips.get("tpu_v5")


@pytest.mark.wrong_type
def test_a_chip_of_the_wrong_type_is_refused() -> None:
    with pytest.raises(ValueError, match="Unknown chip None"):
        chips.get(None)  # type: ignore[arg-type]  # what is tested


def test_families_partition_the_catalogue() -> None:
    assert sum((chips.ids(family) for family in chips.FAMILIES), ()) == chips.ids()
    assert len(set(chips.ids())) == len(chips.ids())
    with pytest.raises(ValueError, match="Unknown family 'tpus'; use one of tpu, gpu, other"):
        chips.ids("tpus")


def test_each_call_gives_the_same_objects() -> None:
    assert all(chips.get(chip.id) is chip for chip in ALL)


@pytest.mark.parametrize("chip", ALL, ids=by_id)
def test_a_chip_cannot_be_changed(chip: Chip) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        chip.tdp_watts = 1.0  # type: ignore[misc]  # what is tested
    with pytest.raises(TypeError):
        chip.peak_flops_per_second["bf16"] = 1.0  # type: ignore[index]  # what is tested


@pytest.mark.parametrize("chip", ALL, ids=by_id)
def test_every_number_of_a_chip_has_a_source(chip: Chip) -> None:
    for field in dataclasses.fields(chip):
        value = getattr(chip, field.name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            assert chip.source(field.name).title, field.name
    for dtype in chip.peak_flops_per_second:
        assert chip.source(f"peak_flops_per_second.{dtype}").date


@pytest.mark.parametrize("chip", ALL, ids=by_id)
def test_repr_is_short_and_hash_works(chip: Chip) -> None:
    assert len(repr(chip)) < 120 and chip.id in repr(chip)
    assert {chip: 1}[chip] == 1


def test_unknown_stays_unknown_and_says_what_is_known() -> None:
    v6e = chips.get("tpu_v6e")
    assert v6e.tdp_watts is None and v6e.boost_clock_hz is None
    with pytest.raises(
        ValueError, match=r"No fp32 peak of TPU v6e.* is known.* known peaks: bf16, fp8, int8, int4"
    ):
        v6e.peak("fp32")
    with pytest.raises(ValueError, match=r"Unknown dtype 'bfloat16'.*"):
        v6e.peak("bfloat16")
    with pytest.raises(ValueError, match=r"has no sourced value named 'tdp_wats'"):
        v6e.source("tdp_wats")


def test_a_span_holds_what_other_sources_print() -> None:
    assert chips.get("tpu_v3").span("peak_flops_per_second.bf16") == (123e12, 140e12)
    assert chips.get("tpu_v6e").span("matrix_units_per_core") == (2, 4)
    assert chips.get("tpu_v3").span("interconnect_unidirectional_bytes_per_second") == (280e9, 328e9)
    assert chips.get("t4").span("tdp_watts") == (70, 70)
    with pytest.raises(ValueError, match="which is no number"):
        chips.get("t4").span("memory_type")


@pytest.mark.parametrize("chip", ALL, ids=by_id)
def test_one_device_has_an_equal_share_of_its_chip(chip: Chip) -> None:
    devices = chip.jax_devices_per_chip
    if devices is None:
        with pytest.raises(ValueError, match="is not documented"):
            chip.per_jax_device()
        return
    share = chip.per_jax_device()
    assert share.jax_devices_per_chip == 1 and share.id == chip.id
    assert (share is chip) == (devices == 1)
    for dtype, peak in chip.peak_flops_per_second.items():
        assert share.peak(dtype) * devices == peak
    assert share.bandwidth_bytes_per_second is not None and chip.bandwidth_bytes_per_second is not None
    assert share.bandwidth_bytes_per_second * devices == chip.bandwidth_bytes_per_second
    if chip.matrix_units is not None:
        assert share.matrix_units is not None and share.matrix_units * devices == chip.matrix_units


def test_chips_that_show_two_devices_are_known() -> None:
    two = [chip.id for chip in ALL if chip.jax_devices_per_chip == 2]
    assert two == ["tpu_v2", "tpu_v3", "tpu_v7", "tpu_8i", "mi250x"]


def test_prices_span_what_was_seen() -> None:
    assert chips.price_range("h100_sxm") == (2.69, 12.29)
    assert chips.price_range("tpu_v5e", "spot") == (0.2534, 0.78)
    assert chips.price_range("tpu_v7") is None
    with pytest.raises(ValueError, match="Unknown kind 'reserved'"):
        chips.prices("h100_sxm", "reserved")
    with pytest.raises(ValueError, match=r"Unknown chip 'h100'.*Did you mean 'h100_"):
        chips.price_range("h100")


def test_a_range_of_energy_has_no_single_value() -> None:
    with pytest.raises(ValueError, match=r"is a range from 1.2 to 1.7 x; use low and high"):
        _ = chips.energy_fact("tpu_v4_vs_a100_speed").value
    with pytest.raises(ValueError, match=r"Unknown energy fact .*Did you mean 'fp32_multiply_45nm'"):
        chips.energy_fact("fp32_multiply_45_nm")
    with pytest.raises(ValueError, match=r"int8 multiply is given in J/op, which counts no bits"):
        _ = chips.energy_fact("int8_multiply_45nm").joules_per_byte


@pytest.mark.wrong_type
def test_an_unknown_kind_of_power_is_refused() -> None:
    with pytest.raises(ValueError, match="Unknown power 'tgp'"):
        chips.joules_per_peak_flop(ALL[0], "bf16", "tgp")  # type: ignore[arg-type]  # what is tested


def test_stacks_are_found_by_what_they_reach() -> None:
    assert [stack.id for stack in chips.stacks("apple_gpu")] == ["jax", "vllm"]
    with pytest.raises(ValueError, match="Unknown platform 'tpu'"):
        chips.stacks("tpu")


def test_importing_the_catalogue_reads_nothing() -> None:
    code = (
        "import sys, pulsewarp.chips, pulsewarp.matmul, pulsewarp.roofline\n"
        "from pulsewarp.chips.loader import load\n"
        "assert load.cache_info().currsize == 0\n"
        "assert 'tomllib' not in sys.modules\n"
        "assert not {'jax', 'plotly', 'ipywidgets', 'anywidget'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
