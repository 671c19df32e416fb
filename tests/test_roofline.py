"""Bounds, padding and waves: published numbers, oracle rows, and laws that planted faults break."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pulsewarp import chips, roofline
from pulsewarp.chips import Chip
from pulsewarp.matmul import DTYPES, Matmul
from pulsewarp.roofline import Bound, TilePadding, WaveQuantisation, Waves

REFERENCE = Path(__file__).parent / "reference"
DRAWN = [chip for chip in chips.catalogue() if chip.has_roofline]

sides = st.integers(1, 1 << 16)
pairs = st.sampled_from(
    [(chip, dtype) for chip in DRAWN for dtype in chip.peak_flops_per_second if dtype in DTYPES]
)
counts = st.integers(1, 10_000)


# --- bound -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chip_id", "ridge"),
    [
        ("tpu_v5e", 240),
        ("tpu_v5p", 166),
        ("tpu_v6e", 560),
        ("tpu_v7", 313),
        ("a100_sxm_80", 153),
        ("h100_sxm", 295),
        ("h200_sxm", 206),
        ("b200", 281),
    ],
)
def test_ridge_points_are_the_batch_sizes_quoted_for_decoding(chip_id: str, ridge: int) -> None:
    # A decode step turns compute-bound at peak / bandwidth sequences (bf16, two bytes a weight).
    assert roofline.ridge_point(chips.get(chip_id), "bf16") == pytest.approx(ridge, abs=1)


def bound_faults(bound: Bound) -> list[str]:
    """Return the laws of a bound that do not hold."""
    product, peak, bandwidth = bound.matmul, bound.peak_flops_per_second, bound.bandwidth_bytes_per_second
    tiny = 1 + 1e-12
    laws = {
        "no faster than the arithmetic": bound.seconds * peak * tiny >= product.flops,
        "no faster than the traffic": bound.seconds * bandwidth * tiny >= product.bytes_moved,
        "one of the two is reached": min(
            bound.seconds * peak / product.flops, bound.seconds * bandwidth / product.bytes_moved
        )
        <= tiny,
        "the limit is the ridge's side": (bound.limit == "compute")
        == (product.intensity * tiny >= bound.ridge_point)
        or math.isclose(product.intensity, bound.ridge_point, rel_tol=1e-9),
        "the rate lies on the roof": math.isclose(
            bound.flops_per_second, min(peak, product.intensity * bandwidth), rel_tol=1e-12
        ),
        "a fraction of the peak": 0 < bound.fraction_of_peak <= 1,
    }
    return [law for law, holds in laws.items() if not holds]


@given(pairs, sides, sides, sides)
def test_laws_of_a_bound(pair: tuple[Chip, str], m: int, k: int, n: int) -> None:
    chip, dtype = pair
    bound = roofline.bound(Matmul(m, k, n, dtype), chip)
    assert bound_faults(bound) == []
    assert bound.flops_per_second == pytest.approx(roofline.attainable(chip, dtype, bound.matmul.intensity))


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("seconds", property(lambda self: self.compute_seconds + self.memory_seconds)),
        ("seconds", property(lambda self: min(self.compute_seconds, self.memory_seconds))),
        (
            "memory_seconds",
            property(lambda self: self.matmul.bytes_moved / 2 / self.bandwidth_bytes_per_second),
        ),
        ("compute_seconds", property(lambda self: self.matmul.macs / self.peak_flops_per_second)),
        (
            "limit",
            property(lambda self: "memory" if self.compute_seconds >= self.memory_seconds else "compute"),
        ),
        ("ridge_point", property(lambda self: self.bandwidth_bytes_per_second / self.peak_flops_per_second)),
    ],
)
def test_a_planted_fault_breaks_a_law_of_the_bound(
    name: str, fault: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes = [Matmul(8, 4096, 4096), Matmul(4096, 4096, 4096)]
    bounds = [roofline.bound(shape, chips.get("tpu_v5e")) for shape in shapes]
    assert [bound_faults(bound) for bound in bounds] == [[], []]
    monkeypatch.setattr(Bound, name, fault)
    assert any(bound_faults(bound) for bound in bounds)


@given(pairs, sides, sides, sides, st.sampled_from(["m", "k", "n"]))
def test_a_longer_side_never_takes_less_time(
    pair: tuple[Chip, str], m: int, k: int, n: int, side: str
) -> None:
    chip, dtype = pair
    sizes = {"m": m, "k": k, "n": n}
    longer = sizes | {side: sizes[side] + 1}
    assert (
        roofline.bound(Matmul(**longer, dtype=dtype), chip).seconds
        >= roofline.bound(Matmul(**sizes, dtype=dtype), chip).seconds
    )


@given(pairs, st.floats(1e-3, 1e6), st.floats(1e-3, 1e6))
def test_the_roof_rises_to_the_ridge_and_is_flat_beyond(pair: tuple[Chip, str], x: float, y: float) -> None:
    chip, dtype = pair
    low, high = sorted((x, y))
    assert roofline.attainable(chip, dtype, low) <= roofline.attainable(chip, dtype, high) <= chip.peak(dtype)
    ridge = roofline.ridge_point(chip, dtype)
    if low >= ridge * (1 + 1e-12):
        assert roofline.attainable(chip, dtype, low) == chip.peak(dtype)
    elif low <= ridge * (1 - 1e-12):
        assert roofline.attainable(chip, dtype, low) < chip.peak(dtype)


def test_the_curve_keeps_its_shape() -> None:
    curve = roofline.attainable(chips.get("t4"), "fp16", np.ones((2, 3)))
    assert isinstance(curve, np.ndarray) and curve.shape == (2, 3) and np.all(curve == 320e9)
    assert isinstance(roofline.attainable(chips.get("t4"), "fp16", 1.0), float)
    assert roofline.attainable(chips.get("t4"), "fp16", 1) == 320e9


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_a_bad_intensity_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match=r"intensity holds .*, but must be finite and above 0"):
        roofline.attainable(chips.get("t4"), "fp16", [1.0, bad])


def test_another_peak_may_be_asked_for() -> None:
    product = Matmul(4096, 4096, 4096, "fp32")
    a100 = chips.get("a100_sxm_80")
    assert roofline.bound(product, a100).peak_flops_per_second == 19.5e12
    assert roofline.bound(product, a100, "tf32").peak_flops_per_second == 156e12
    assert (
        roofline.bound(product, a100, "tf32").memory_seconds == roofline.bound(product, a100).memory_seconds
    )


def test_half_a_chip_takes_twice_as_long() -> None:
    product, chip = Matmul(4096, 4096, 4096), chips.get("tpu_v7")
    whole, half = roofline.bound(product, chip), roofline.bound(product, chip.per_jax_device())
    assert half.seconds == 2 * whole.seconds and half.ridge_point == whole.ridge_point


def test_what_has_no_roofline_says_why() -> None:
    product = Matmul(8, 8, 8)
    with pytest.raises(ValueError, match="No fp32 peak of TPU v5e is known"):
        roofline.bound(Matmul(8, 8, 8, "fp32"), chips.get("tpu_v5e"))
    with pytest.raises(ValueError, match=r"figures of Rubin .* are projections"):
        roofline.bound(product, chips.get("rubin"))
    with pytest.raises(ValueError, match="Unknown dtype 'bf15'"):
        roofline.ridge_point(chips.get("tpu_v5e"), "bf15")


# --- padding ---------------------------------------------------------------------------------------------


def test_one_row_too_many_wastes_three_quarters() -> None:
    padding = roofline.tile_padding(Matmul(1024, 129, 129), chips.get("tpu_v5e"))
    assert (padding.padded_k, padding.padded_n) == (256, 256)
    assert padding.efficiency_k == padding.efficiency_n == 129 / 256
    assert padding.efficiency == pytest.approx(0.254, abs=5e-4)
    wide = roofline.tile_padding(Matmul(1024, 129, 129), chips.get("tpu_v6e"))
    assert wide.efficiency == padding.efficiency  # one unit of 256 x 256


def padding_faults(padding: TilePadding) -> list[str]:
    """Return the laws of padding that do not hold."""
    laws = {
        "a share along k": 0 < padding.efficiency_k <= 1,
        "a share along n": 0 < padding.efficiency_n <= 1,
        "whole units": padding.padded_k % padding.rows == 0 and padding.padded_n % padding.cols == 0,
        "no unit too many": padding.padded_k - padding.k < padding.rows
        and padding.padded_n - padding.n < padding.cols,
        "full on multiples": (padding.efficiency == 1)
        == (padding.k % padding.rows == 0 and padding.n % padding.cols == 0),
        "the work that is useful": math.isclose(
            padding.efficiency * padding.padded_k * padding.padded_n, padding.k * padding.n, rel_tol=1e-12
        ),
    }
    return [law for law, holds in laws.items() if not holds]


@given(sides, sides, st.integers(1, 512), st.integers(1, 512))
def test_laws_of_padding(k: int, n: int, rows: int, columns: int) -> None:
    assert padding_faults(roofline.tile_padding(Matmul(1, k, n), (rows, columns))) == []
    whole = roofline.tile_padding(Matmul(1, k * rows, n * columns), (rows, columns))
    assert whole.efficiency == 1


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("padded_k", property(lambda self: self.k // self.rows * self.rows + self.rows)),
        ("padded_n", property(lambda self: -(-self.n // self.rows) * self.rows)),
        ("efficiency", property(lambda self: self.efficiency_k)),
    ],
)
def test_a_planted_fault_breaks_a_law_of_padding(
    name: str, fault: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = [TilePadding(k, n, 128, 96) for k, n in ((128, 96), (129, 97), (256, 100))]
    assert [padding_faults(case) for case in cases] == [[], [], []]
    monkeypatch.setattr(TilePadding, name, fault)
    assert any(padding_faults(case) for case in cases)


@pytest.mark.wrong_type
@pytest.mark.parametrize(
    ("unit", "sentence"),
    [
        ((0, 128), "unit rows is 0, but must be a whole number of at least 1"),
        ((128, 1.5), "unit columns is 1.5, but must be a whole number"),
        (128, r"unit is 128, but must be \(rows, columns\)"),
        ((128, 128, 128), r"unit is \(128, 128, 128\), but must be"),
    ],
)
def test_a_bad_unit_is_refused(unit: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        roofline.tile_padding(Matmul(8, 8, 8), unit)


def test_a_gpu_has_no_systolic_unit() -> None:
    with pytest.raises(ValueError, match=r"H100 .* has no systolic matrix unit .* use wave_quantisation"):
        roofline.tile_padding(Matmul(8, 8, 8), chips.get("h100_sxm"))


# --- waves -----------------------------------------------------------------------------------------------


def oracle() -> list[dict[str, str]]:
    with (REFERENCE / "sched_analytic.csv").open(encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if row["family"] == "wave_quantisation"]


def oracle_faults() -> list[str]:
    """Return the cases of the oracle that `waves` gets wrong."""
    wrong = []
    for row in oracle():
        given = json.loads(row["params"])
        grid = roofline.waves(given["grid_blocks"], given["sms"], given["blocks_per_sm"])
        if grid.cycles(given["block_cycles"]) != int(row["cycles"]) or grid.blocks != int(row["issued"]):
            wrong.append(row["case_id"])
    return wrong


def test_every_oracle_row_is_met() -> None:
    assert len(oracle()) == 15
    assert oracle_faults() == []


@pytest.mark.parametrize(
    "fault",
    [
        property(lambda self: self.blocks // self.slots),
        property(lambda self: self.blocks // self.slots + 1),
        property(lambda self: -(-self.blocks // self.sms)),
    ],
)
def test_a_planted_fault_misses_the_oracle(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Waves, "waves", fault)
    assert oracle_faults()


@given(counts, counts, st.integers(1, 32))
def test_laws_of_waves(blocks: int, sms: int, blocks_per_sm: int) -> None:
    grid = roofline.waves(blocks, sms, blocks_per_sm)
    assert 0 < grid.efficiency <= 1
    assert 1 <= grid.last_wave_blocks <= grid.slots
    assert (grid.efficiency == 1) == (blocks % grid.slots == 0)
    assert roofline.waves(blocks + 1, sms, blocks_per_sm).waves >= grid.waves
    assert roofline.waves(blocks, sms + 1, blocks_per_sm).waves <= grid.waves
    assert roofline.waves(blocks, sms, blocks_per_sm + 1).waves <= grid.waves


def quantisation_faults(quantisation: WaveQuantisation) -> list[str]:
    """Return the laws of tiles and waves that do not hold."""
    product, (rows, columns) = quantisation.matmul, quantisation.tile
    laws = {
        "the tiles cover the result": quantisation.tiles * rows * columns >= product.m * product.n,
        "no row of tiles too many": quantisation.tiles
        == math.ceil(product.m / rows) * math.ceil(product.n / columns),
        "shares": 0 < quantisation.tile_efficiency <= 1 and 0 < quantisation.wave_efficiency <= 1,
        "the useful share": math.isclose(
            quantisation.efficiency * quantisation.waves * quantisation.launch.slots * rows * columns,
            product.m * product.n,
            rel_tol=1e-12,
        ),
    }
    return [law for law, holds in laws.items() if not holds]


@given(sides, sides, counts, st.integers(1, 512), st.integers(1, 512), st.integers(1, 32))
def test_laws_of_wave_quantisation(m: int, n: int, sms: int, rows: int, columns: int, per_sm: int) -> None:
    assume(m * n < 1 << 30)
    quantisation = roofline.wave_quantisation(Matmul(m, 64, n), sms, (rows, columns), per_sm)
    assert quantisation_faults(quantisation) == []


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("tile_efficiency", property(lambda self: 1.0)),
        ("wave_efficiency", property(lambda self: 1.0)),
        ("efficiency", property(lambda self: self.wave_efficiency)),
        ("tiles", property(lambda self: self.launch.blocks + 1)),
    ],
)
def test_a_planted_fault_breaks_a_law_of_wave_quantisation(
    name: str, fault: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = roofline.wave_quantisation(Matmul(2305, 64, 1537), 108)
    assert quantisation_faults(case) == []
    monkeypatch.setattr(WaveQuantisation, name, fault)
    assert quantisation_faults(case)


def test_the_default_tile_is_256_by_128() -> None:
    case = roofline.wave_quantisation(Matmul(257, 64, 129), chips.get("a100_sxm_80"))
    assert case.tiles == 4 and case.waves == 1 and case.launch.sms == 108


@pytest.mark.wrong_type
@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: roofline.waves(0, 80), "blocks is 0, but must be a whole number of at least 1"),
        (lambda: roofline.waves(1, -80), "sms is -80, but must be a whole number"),
        (lambda: roofline.waves(1, 80, 0), "blocks_per_sm is 0, but must be a whole number"),
        (lambda: roofline.waves(1, 80).cycles(0), "block_cycles is 0, but must be a whole number"),
        (lambda: roofline.wave_quantisation(Matmul(8, 8, 8), 108, (0, 8)), "tile rows is 0"),
        (lambda: roofline.wave_quantisation(Matmul(8, 8, 8), 108, 256), r"tile is 256, but must be \(rows"),  # type: ignore[arg-type]  # what is tested
        (lambda: roofline.wave_quantisation(Matmul(8, 8, 8), "108"), "sms is '108', but must be a whole"),  # type: ignore[arg-type]  # what is tested
    ],
)
def test_bad_launches_are_refused(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        call()


def test_waves_need_a_gpu_with_known_cores() -> None:
    with pytest.raises(ValueError, match="TPU v5e is no GPU"):
        roofline.wave_quantisation(Matmul(8, 8, 8), chips.get("tpu_v5e"))
    with pytest.raises(ValueError, match=r"A10G .* has an unknown number of cores"):
        roofline.wave_quantisation(Matmul(8, 8, 8), chips.get("a10g"))
