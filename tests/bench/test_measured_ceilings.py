"""Measured ceilings as a value: what they are, whose they are, and that nobody takes them for published."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from pulsewarp import bench, roofline
from pulsewarp.bench.card import describe
from pulsewarp.bench.host import Host
from pulsewarp.bench.kernel_measurement import KernelMeasurement
from pulsewarp.bench.measured_ceilings import MEASURED_HERE, Ceilings
from pulsewarp.bench.measurement import MeasuredDevice, Measurement
from pulsewarp.bench.seen import SeenDevice, SeenJax
from pulsewarp.matmul import Matmul

CPU = MeasuredDevice("cpu", "cpu", None, 1, "Example CPU", 2)
SHARED: dict[str, Any] = {
    "device": CPU,
    "clock": "device",
    "products_per_repeat": 4,
    "compile_seconds": 0.1,
    "warmup_calls": 3,
    "versions": {"jax": "0.7.2"},
    "when": "2026-11-30T12:00:00+00:00",
}


def product(dtype: str = "fp32", seconds: float = 0.02) -> Measurement:
    return Measurement(
        matmul=Matmul(1000, 1000, 1000, dtype),
        seconds=(seconds, seconds, 1.5 * seconds),
        precision="highest",
        precision_in_program="highest",
        relative_error=1e-7,
        error_rows=64,
        seed=0,
        **SHARED,
    )


def passes(name: str = "copy", seconds: float = 0.02, **changes: Any) -> KernelMeasurement:
    return KernelMeasurement(
        name=name,
        size=25_000_000,
        dtype="fp32",
        bytes_moved=200_000_000,
        seconds=(seconds,) * 3,
        relative_error=0.0,
        **{**SHARED, **changes},
    )


FOUND = Ceilings((product(), product("int8", 0.2)), (passes(), passes("triad", 0.01)))


def test_peaks_are_by_dtype_and_the_bandwidth_is_the_best() -> None:
    assert dict(FOUND.peak_flops_per_second) == {"fp32": 1e11, "int8": 1e10}
    assert FOUND.bandwidth_bytes_per_second == 2e10
    assert Ceilings((product(),), ()).bandwidth_bytes_per_second is None


def test_each_value_has_its_unit_method_repeats_and_spread() -> None:
    said = repr(FOUND)
    assert MEASURED_HERE in said
    assert "fp32:   100 GFLOP/s (1000 x 1000 x 1000 fp32, 3 repeats, spread 25%)" in said
    assert "int8:   10.0 GOP/s" in said
    assert "triad:  20.0 GB/s (25000000 elements of fp32 an array, 3 repeats, spread 0%)" in said
    assert "write-allocate not counted" in FOUND.says


@pytest.mark.parametrize(
    ("products", "copies", "sentence"),
    [
        ((), (), "No product and no copy was measured"),
        ((product(), product()), (), "a dtype has one ceiling"),
        ((product(),), (passes(device=dataclasses.replace(CPU, cores=4)),), "of different devices"),
    ],
)
def test_what_is_no_ceiling_is_refused(products: Any, copies: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Ceilings(products, copies)


def test_as_a_chip_it_bounds_products_and_says_where_it_comes_from() -> None:
    chip = FOUND.as_chip()
    assert (chip.name, chip.status, chip.tdp_watts) == (
        "Example, 2 cores (measured here)",
        MEASURED_HERE,
        None,
    )
    assert roofline.ridge_point(chip, "fp32") == 5.0
    assert roofline.bound(Matmul(1000, 1000, 1000, "fp32"), chip).seconds == pytest.approx(0.02)
    for field in ("peak_flops_per_second.fp32", "bandwidth_bytes_per_second"):
        assert "not published" in chip.source(field).title
    with pytest.raises(ValueError, match="No bf16 peak"):
        chip.peak("bf16")


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("Intel(R) Xeon(R) Processor @ 2.00GHz", "Intel Xeon, 2 cores (measured here)"),
        ("Intel(R) Core(TM) i7-8650U CPU @ 1.90GHz", "Intel Core i7-8650U, 2 cores (measured here)"),
        ("AMD EPYC 7B12", "AMD EPYC 7B12, 2 cores (measured here)"),
        ("Apple M3 Pro", "Apple M3 Pro, 2 cores (measured here)"),
    ],
)
def test_a_long_name_is_shortened_for_a_legend(model: str, name: str) -> None:
    device = dataclasses.replace(CPU, cpu_model=model)
    assert Ceilings((), (passes(device=device),)).as_chip().name == name


def test_a_roofline_of_it_is_not_called_published() -> None:
    figures = pytest.importorskip("pulsewarp.figures")
    own, both, published = (
        figures.roofline(which, dtype="fp32").layout.title.text.replace("<br>", " ")
        for which in (FOUND.as_chip(), ["h100_sxm", FOUND.as_chip()], "h100_sxm")
    )
    assert "measured here, not published" in own and "catalogue" not in own
    assert "published (catalogue of" in both and "measured here" in both
    assert "measured" not in published


def test_the_runs_are_kept_as_data(tmp_path: Path) -> None:
    saved = bench.load(bench.save(tmp_path / "ceilings.json", FOUND.runs))
    assert [run.seconds for run in saved] == [run.seconds for run in FOUND.runs]


def test_the_card_shows_them_on_the_device_they_are_of_alone() -> None:
    here = Host(python="3.13.15", cpu_model="Example CPU", cores=2)
    card = describe(here, SeenJax("0.7.2", (SeenDevice("cpu", "cpu"),)), ceilings=FOUND)
    assert "Ceilings:  measured here, not published: fp32 100 GFLOP/s" in repr(card)
    assert "\n           triad 20.0 GB/s" in repr(card)
    elsewhere = describe(here, SeenJax("0.7.2", (SeenDevice("gpu", "Tesla T4"),)), ceilings=FOUND)
    assert elsewhere.ceilings is None and "Ceilings" not in repr(elsewhere)
