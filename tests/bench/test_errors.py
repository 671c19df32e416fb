"""Errors against float64, what is expected of them, and the sentences that stand beside a number."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsewarp import chips, numerics
from pulsewarp.bench.live import errors
from pulsewarp.bench.measurement import PRECISIONS
from pulsewarp.bench.rounding import expected_error, rounded_like
from pulsewarp.matmul import accumulator_type

HALF = {"bf16": 8, "fp16": 11}  # significant bits of a result


def rounded(x: Any, bits: int) -> Any:
    significand, exponent = np.frexp(np.asarray(x, np.float64))
    return np.ldexp(np.round(significand * 2.0**bits) / 2.0**bits, exponent)


def factors(m: int, k: int, n: int, seed: int) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    return random.standard_normal((m, k), np.float32), random.standard_normal((k, n), np.float32)


def summed_in_order(a: Any, b: Any) -> Any:
    """float32 additions one after the other: the most roundings that a product can have."""
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for row, column in zip(a.T, b, strict=True):
        total = total + np.outer(row, column).astype(np.float32)
    return total


@given(
    m=st.integers(1, 8), k=st.integers(1, 300), n=st.integers(1, 8), seed=st.integers(0, 10**6),
    dtype=st.sampled_from(["fp32", "bf16", "fp16"]),
)  # fmt: skip
def test_what_float32_sums_give_stays_within_what_is_expected(
    m: int, k: int, n: int, seed: int, dtype: str
) -> None:
    a, b = (rounded(x, HALF.get(dtype, 24)).astype(np.float32) for x in factors(m, k, n, seed))
    result = summed_in_order(a, b)
    if dtype in HALF:
        result = rounded(result, HALF[dtype])
    found = errors.compare(a, b, result, seed=0)
    bound = expected_error(dtype, "highest", "cpu", k, found.cancellation)
    assert bound is not None and found.error <= bound


@pytest.mark.parametrize("name", numerics.JAX_PRECISIONS)
def test_the_passes_of_a_tpu_stay_within_what_is_expected_and_fewer_do_not(name: str) -> None:
    a, b = factors(32, 256, 32, seed=2)
    found = [numerics.multiply(a, b, each).relative_error for each in numerics.JAX_PRECISIONS]
    bound = expected_error("fp32", name, "tpu", 256)
    assert bound is not None
    at = numerics.JAX_PRECISIONS.index(name)
    assert all(error <= bound for error in found[at:])  # as exact as asked for, or more
    assert all(error > bound for error in found[:at])  # what was not asked for is seen
    assert accumulator_type(a.dtype, b.dtype) == np.float32


@pytest.mark.parametrize("size", [16, 64, 1024, 8192])
def test_a_float32_product_by_tf32_or_bfloat16_exceeds_what_is_expected(size: int) -> None:
    bound = expected_error("fp32", "highest", "gpu", size)
    assert bound is not None and bound < 1e-5
    a, b = factors(16, size, 16, seed=1)
    for bits, like in ((8, "bf16"), (11, "tf32"), (24, "fp32")):
        result = (rounded(a, bits) @ rounded(b, bits)).astype(np.float32)
        error, _ = errors.relative_error(a, b, result, seed=0)
        assert rounded_like(error) == like
        assert (error > bound) == (like != "fp32")


def test_expected_errors_follow_jaxs_words() -> None:
    by = {
        (platform, precision): expected_error("fp32", precision, platform, 512)
        for platform, precision in itertools.product(("cpu", "gpu", "tpu"), PRECISIONS)
    }
    assert len({by["cpu", precision] for precision in PRECISIONS}) == 1
    assert by["gpu", "default"] == by["gpu", "high"] > by["gpu", "highest"] == by["cpu", "highest"]  # type: ignore[operator]  # none is None
    assert by["tpu", "default"] > by["tpu", "high"] > by["tpu", "highest"] > by["cpu", "highest"]  # type: ignore[operator]  # none is None
    assert expected_error("fp32", "default", "metal", 512) is None
    assert expected_error("int8", "default", "tpu", 512) == 0.0


def test_the_error_of_zeros_is_not_nan() -> None:
    zero = np.zeros((3, 3))
    assert errors.compare(zero, zero, zero, seed=0) == (0.0, 3, 1.0)


def test_error_rows_are_sampled_and_columns_all_compared() -> None:
    a, b = np.ones((100, 2)), np.ones((2, 600))
    result = a @ b
    result[:, 599] = 0  # in the last slice of columns
    error, rows = errors.relative_error(a, b, result, seed=0)
    assert rows == 64
    assert error == pytest.approx(np.sqrt(1 / 600))


def test_of_a_batch_every_product_may_be_sampled_with_its_own_factors() -> None:
    random = np.random.default_rng(0)
    a, b = random.standard_normal((3, 4, 5)), random.standard_normal((3, 5, 6))
    assert errors.compare(a, b, a @ b, seed=0).error < 1e-15
    assert errors.compare(a, b, a @ b, seed=0).rows == 12
    for wrong in range(3):
        result = a @ b
        result[wrong] *= 1.1
        assert 0.01 < errors.compare(a, b, result, seed=0).error < 0.1
    assert errors.compare(a, b[::-1], a @ b, seed=0).error > 0.5


def test_cancellation_is_one_for_random_factors_and_large_where_products_cancel() -> None:
    a, b = factors(64, 256, 64, seed=0)
    assert errors.compare(a, b, a @ b, seed=0).cancellation == pytest.approx(1.0, rel=0.05)
    a, b = np.array([[1.0, 1.0]]), np.array([[1.0], [-0.999]])
    assert errors.compare(a, b, a @ b, seed=0).cancellation == pytest.approx(np.sqrt(1 + 0.999**2) / 0.001)


def test_a_steady_run_within_its_bounds_needs_no_remark() -> None:
    assert errors.remarks("fp32", "gpu", "x", 1e-7, (1e-3, 1.01e-3) * 5) == ()
    assert errors.beyond(1e-7, 1e-7, "fp32", "highest") == ()
    assert errors.beyond(1.0, None, "fp32", "highest") == ()


def test_a_rate_above_the_peak_is_not_to_be_trusted() -> None:
    peak = chips.get("tpu_v5e").peak_flops_per_second["bf16"]
    assert errors.beyond_peak(1.04 * peak, "bf16", "tpu_v5e", 1) == ()
    assert errors.beyond_peak(1.06 * peak, "bf16", "tpu_v5e", 1)
    assert errors.beyond_peak(0.6 * peak, "bf16", "tpu_v5e", 2)  # half a chip has half its peak
    assert errors.beyond_peak(0.9 * peak, "fp32", "tpu_v5e", 1) == ()  # by bfloat16 passes it may be as fast
    assert errors.beyond_peak(1e30, "bf16", None, 1) == ()  # nothing is known of it
