"""A kernel's measurement as a value: what it refuses, what it says, and its way to disk and back."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from pulsewarp import bench
from pulsewarp.bench.kernel_measurement import KernelMeasurement
from pulsewarp.bench.measurement import MeasuredDevice

CPU = MeasuredDevice("cpu", "cpu", None, 1, "Example CPU", 2)
RUN = KernelMeasurement(
    name="prefix_scan",
    size=1000,
    dtype="bf16",
    operations=999,
    bytes_moved=6000,
    device=CPU,
    clock="device",
    seconds=(3e-6, 2e-6, 4e-6),
    products_per_repeat=100,
    compile_seconds=0.5,
    warmup_calls=3,
    relative_error=1e-6,
    error_bound=2e-6,
    compilations=0,
    seed=3,
    versions={"jax": "0.7.2"},
    when="2026-12-01T12:00:00+00:00",
    notes=("A note.",),
)


def test_rates_are_by_the_median_and_a_share_by_the_roof() -> None:
    assert RUN.bytes_per_second == pytest.approx(6000 / 3e-6)
    assert RUN.operations_per_second == pytest.approx(999 / 3e-6)
    assert RUN.share_of(4e9) == pytest.approx(0.5)
    assert dataclasses.replace(RUN, operations=None).operations_per_second is None


def test_an_error_above_what_rounding_explains_is_not_exact_enough() -> None:
    assert RUN.is_exact_enough
    assert not dataclasses.replace(RUN, relative_error=2.1e-6).is_exact_enough
    assert dataclasses.replace(RUN, error_bound=None, relative_error=1.0).is_exact_enough


def test_the_repr_says_what_was_timed_and_how_right_it_was() -> None:
    told = repr(RUN)
    for words in (
        "prefix scan, 1000 elements of bf16 on Example CPU, 2 cores",
        "6.00 kB compulsory: 2.00 GB/s, 333 MFLOP/s",
        "relative error 1.0e-06, rounding explains 2.0e-06; compilations while timed: 0",
        "A note.",
    ):
        assert words in told
    assert "compilations while timed: unknown" in repr(dataclasses.replace(RUN, compilations=None))


@pytest.mark.parametrize("changes", [{}, {"operations": None, "error_bound": None, "compilations": None}])
def test_it_comes_back_from_disk_as_it_was(changes: dict[str, Any], tmp_path: Path) -> None:
    run = dataclasses.replace(RUN, **changes)
    assert bench.load(bench.save(tmp_path / "runs.json", [run])) == (run,)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("name", " ", "must be a text"),
        ("dtype", "bf17", "Unknown dtype 'bf17'"),
        ("size", 0, "size is 0"),
        ("bytes_moved", 0, "bytes_moved is 0"),
        ("operations", 0, "operations is 0"),
        ("relative_error", -1.0, "relative_error is -1.0"),
        ("error_bound", -1.0, "error_bound is -1.0"),
        ("compilations", -1, "compilations is -1"),
        ("seed", -1, "seed is -1"),
        ("clock", "wall", "Unknown clock 'wall'"),
    ],
)
def test_what_cannot_be_true_is_refused_here_and_on_load(
    name: str, value: Any, words: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError) as caught:
        dataclasses.replace(RUN, **{name: value})
    assert words in str(caught.value)
    path = bench.save(tmp_path / "runs.json", [RUN])
    document = json.loads(path.read_text())
    document["measurements"][0][name] = value
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError) as caught:
        bench.load(path)
    assert words in str(caught.value)
    assert "measurement 0" in str(caught.value)


@pytest.mark.parametrize("roof", [0, -1.0, float("nan")])
def test_a_roof_is_a_number_above_zero(roof: float) -> None:
    with pytest.raises(ValueError, match="roof is"):
        RUN.share_of(roof)
