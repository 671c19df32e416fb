"""One matrix product: counts of a hand-sized case, and laws."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsewarp.chips import PEAK_DTYPES
from pulsewarp.matmul import BYTES, DTYPES, Matmul

sides = st.integers(1, 1 << 20)
products = st.builds(Matmul, sides, sides, sides, st.sampled_from(sorted(DTYPES)))


def miscounts() -> list[str]:
    """Return the counts of a hand-sized product that are wrong."""
    product, integers = Matmul(2, 3, 4, "bf16"), Matmul(2, 3, 4, "int8")
    counts = {
        "macs": product.macs == 24,
        "flops": product.flops == 48,
        "bytes": product.bytes_moved == 2 * (2 * 3 + 3 * 4 + 2 * 4),
        "bytes of a wider result": integers.bytes_moved == 2 * 3 + 3 * 4 + 4 * (2 * 4),
        "intensity": product.intensity == 48 / 52,
    }
    return [name for name, right in counts.items() if not right]


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("flops", property(lambda self: self.macs)),
        ("bytes_moved", property(lambda self: 2 * (self.m * self.k + self.k * self.n))),
        ("bytes_moved", property(lambda self: 2 * (self.m * self.k + self.k * self.n + self.m * self.n))),
        ("result_dtype", property(lambda self: self.dtype)),
        ("intensity", property(lambda self: self.bytes_moved / self.flops)),
    ],
)
def test_a_planted_fault_is_counted_wrong(name: str, fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Matmul, name, fault)
    assert miscounts()


def test_a_product_counted_by_hand() -> None:
    assert miscounts() == []
    product = Matmul(2, 3, 4, "bf16")
    assert repr(product) == "Matmul(m=2, k=3, n=4, dtype='bf16')"


@pytest.mark.parametrize(
    ("dtype", "accumulator", "result", "bytes_moved"),
    [
        ("fp64", "fp64", "fp64", 8 * 26),
        ("fp32", "fp32", "fp32", 4 * 26),
        ("tf32", "fp32", "fp32", 4 * 26),
        ("bf16", "fp32", "bf16", 2 * 26),
        ("fp16", "fp32", "fp16", 2 * 26),
        ("fp8", "fp32", "bf16", 6 + 12 + 2 * 8),
        ("int8", "int32", "int32", 6 + 12 + 4 * 8),
        ("fp4", "fp32", "bf16", 3 + 6 + 2 * 8),
        ("int4", "int32", "int32", 3 + 6 + 4 * 8),
    ],
)
def test_dtypes(dtype: str, accumulator: str, result: str, bytes_moved: int) -> None:
    product = Matmul(2, 3, 4, dtype)
    assert (product.accumulator_dtype, product.result_dtype) == (accumulator, result)
    assert product.bytes_moved == bytes_moved


def test_odd_counts_of_4_bit_elements_take_whole_bytes() -> None:
    assert Matmul(1, 3, 1, "int4").bytes_moved == 2 + 2 + 4


def test_dtypes_are_those_of_the_peaks_and_every_result_has_a_size() -> None:
    # fp64_tensor is a unit that multiplies fp64, not a way to store numbers.
    assert set(PEAK_DTYPES) - set(DTYPES) == {"fp64_tensor"}
    assert set(DTYPES) <= set(PEAK_DTYPES)
    assert {dtype.result for dtype in DTYPES.values()} | set(DTYPES) == set(BYTES)


@given(products)
def test_counts_are_whole_and_positive(product: Matmul) -> None:
    assert product.flops == 2 * product.macs > 0
    assert isinstance(product.bytes_moved, int) and product.bytes_moved > 0
    assert math.isfinite(product.intensity)


@given(products)
def test_transposing_the_product_changes_nothing(product: Matmul) -> None:
    transposed = Matmul(product.n, product.k, product.m, product.dtype)
    assert (transposed.flops, transposed.bytes_moved) == (product.flops, product.bytes_moved)


@given(products, st.sampled_from(["m", "k", "n"]))
def test_a_longer_side_means_more_work_and_no_less_intensity(product: Matmul, side: str) -> None:
    sizes = {"m": product.m, "k": product.k, "n": product.n}
    longer = Matmul(**(sizes | {side: 2 * sizes[side]}), dtype=product.dtype)
    assert longer.flops == 2 * product.flops
    assert product.bytes_moved < longer.bytes_moved <= 2 * product.bytes_moved
    assert longer.intensity >= product.intensity


@given(products)
def test_intensity_stays_below_the_least_side(product: Matmul) -> None:
    # Each operand byte is used at most 2 min(side) / bytes times.
    ceiling = 2 * min(product.m, product.n) / BYTES[product.dtype]
    assert product.intensity <= ceiling


@pytest.mark.wrong_type
def test_numpy_integers_become_python_integers() -> None:
    product = Matmul(np.int32(1 << 16), np.int32(1 << 16), np.int32(1 << 16))  # type: ignore[arg-type]  # accepted
    assert product.flops == 2 << 48


@pytest.mark.wrong_type
@pytest.mark.parametrize("bad", [0, -1, 2.0, 2.5, math.nan, math.inf, "8", None, True, [8]])
@pytest.mark.parametrize("side", ["m", "k", "n"])
def test_a_bad_side_is_refused(side: str, bad: Any) -> None:
    sizes = {"m": 8, "k": 8, "n": 8} | {side: bad}
    with pytest.raises(ValueError, match=rf"^{side} is .*, but must be a whole number of at least 1"):
        Matmul(**sizes)


def test_an_unknown_dtype_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Unknown dtype 'bf_16'; use one of .*Did you mean 'bf16'\?"):
        Matmul(8, 8, 8, "bf_16")
    with pytest.raises(ValueError, match=r"Unknown dtype 'int32'"):
        Matmul(8, 8, 8, "int32")
