"""Where only the schedule is kept, everything else is looked up: bit for bit what the registers were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from systolic_products import Product, products, run

from pulsewarp import systolic
from pulsewarp.systolic import array, window

pytestmark = pytest.mark.exhaustive

PRODUCTS = products(types=("int8", "float32"))


@contextmanager
def keeping_the_schedule_only() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(array, "FULL_REGISTERS", 0)
        yield


def trace_twice(product: Product) -> tuple[systolic.SystolicTrace, systolic.SystolicTrace]:
    """Trace one run with every register and with its schedule only."""
    full = run(product)
    with keeping_the_schedule_only():
        return full, run(product)


def differences(full: systolic.SystolicTrace, lean: systolic.SystolicTrace) -> list[tuple[int, str]]:
    """Cycles and arrays in which looked-up registers differ from kept ones."""
    found = []
    for t in range(full.cycles):
        kept, looked_up = full.registers(t), lean.registers(t)
        for field in fields(kept):
            one, other = getattr(kept, field.name), getattr(looked_up, field.name)
            if one is None and other is None:  # no shadow registers
                continue
            if one.dtype != other.dtype or one.tobytes() != other.tobytes():
                found.append((t, field.name))
    return found


@settings(max_examples=50)
@given(PRODUCTS)
def test_looked_up_registers_are_the_registers_bit_for_bit(product: Product) -> None:
    full, lean = trace_twice(product)
    assert full.has_registers
    assert not lean.has_registers
    assert differences(full, lean) == []


@settings(max_examples=50)
@given(PRODUCTS)
def test_schedule_products_and_exits_are_the_same(product: Product) -> None:
    full, lean = trace_twice(product)
    for name in ("start", "length", "phase"):
        np.testing.assert_array_equal(getattr(full, name), getattr(lean, name))
    np.testing.assert_array_equal(full.macs(), lean.macs())
    np.testing.assert_array_equal(full.exits(), lean.exits())


@settings(max_examples=50)
@given(PRODUCTS, st.data())
def test_a_window_is_a_cut_of_the_whole(product: Product, data: st.DataObject) -> None:
    pair = trace_twice(product)
    t = data.draw(st.integers(0, pair[0].cycles - 1))
    rows, cols = data.draw(st.slices(pair[0].rows)), data.draw(st.slices(pair[0].cols))
    for trace in pair:
        whole, cut = trace.registers(t), trace.registers(t, rows, cols)
        for field in fields(whole):
            if getattr(whole, field.name) is None:  # no shadow registers
                continue
            np.testing.assert_array_equal(getattr(whole, field.name)[rows, cols], getattr(cut, field.name))
            assert not getattr(cut, field.name).flags.writeable


def test_a_sum_added_in_another_order_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(4, 9)).astype(np.float32), rng.normal(size=(9, 3)).astype(np.float32)
    full = systolic.simulate(a, b, rows=9, cols=3)
    with keeping_the_schedule_only():
        lean = systolic.simulate(a, b, rows=9, cols=3)
    assert differences(full, lean) == []

    def by_blas(cells: object, fold: np.ndarray, index: np.ndarray) -> np.ndarray:
        m, n = np.divmod(np.clip(index, 0, None), 3)
        terms = np.arange(1, 10)[:, None]
        product = a[m] * np.moveaxis(b[:, n], 0, -1)
        kept = np.arange(9) < terms[..., None]
        return np.where(index >= 0, (product * kept).sum(axis=-1), 0).astype(np.float32)

    monkeypatch.setattr(window._Cells, "sums", by_blas)
    assert differences(full, lean) != []


def test_a_large_trace_is_looked_up_where_it_was_probed() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(96, 80)).astype(np.float32), rng.normal(size=(80, 96)).astype(np.float32)
    for dataflow in ("ws", "os", "is"):
        cost = systolic.gemm(m=96, k=80, n=96, rows=64, cols=64, dataflow=dataflow)
        probes = [(int(t), *rng.integers(64, size=2).tolist()) for t in rng.integers(cost.cycles, size=60)]
        trace = systolic.simulate(a, b, rows=64, cols=64, dataflow=dataflow, probes=probes)
        assert not trace.has_registers
        assert trace.verify().passed
        for t, r, c, *seen in trace.probed:
            cell = trace.registers(t, slice(r, r + 1), slice(c, c + 1))
            assert seen == [cell.held.item(), cell.right.item(), cell.down.item()]
