"""Each check of `trace.verify()` holds on a true trace and fails on a trace that has been tampered with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from pulsewarp import systolic
from pulsewarp._arrays import freeze
from pulsewarp.systolic import array

Trace = systolic.SystolicTrace


def make(dataflow: str = "ws", *, kind: str = "int64") -> Trace:
    a, b = np.arange(1, 21).reshape(4, 5).astype(kind), np.arange(1, 16).reshape(5, 3).astype(kind)
    return systolic.simulate(a, b, rows=3, cols=2, dataflow=dataflow)


def with_register(trace: Trace, name: str, change: Callable[[np.ndarray], object]) -> Trace:
    kept = trace.kept_registers
    assert kept is not None
    changed = getattr(kept, name).copy()
    change(changed)
    return replace(trace, kept_registers=replace(kept, **{name: freeze(changed)}))


def failed(trace: Trace) -> set[str]:
    return {check.name for check in trace.verify().checks if not check.passed}


def first(trace: Trace) -> tuple[int, int, int]:
    """A cell in the array's inside that works, and when."""
    t, r, c = np.argwhere(trace.active & (np.indices(trace.active.shape)[1:] > 0).all(axis=0))[0]
    return int(t), int(r), int(c)


@pytest.mark.parametrize("dataflow", ["ws", "os", "is"])
def test_true_traces_pass(dataflow: str) -> None:
    assert failed(make(dataflow)) == set()
    assert failed(make(dataflow, kind="float32")) == set()


def test_a_wrong_result_fails() -> None:
    trace = make()
    result = trace.result.copy()
    result[1, 1] += 1
    assert failed(replace(trace, result=result)) == {"product"}


def test_a_rounding_in_another_order_fails() -> None:
    trace = make(kind="float32")
    result = trace.result.copy()
    result[1, 1] = np.nextafter(result[1, 1], np.float32(np.inf))
    assert failed(replace(trace, result=result)) == {"product"}


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")  # the point of the test
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_sums_beyond_the_range_of_the_type_are_still_compared() -> None:
    big = np.full((2, 2), 3e38, np.float32)
    trace = systolic.simulate(big, np.array([[2, 2], [-2, -2]], np.float32), rows=2, cols=2)
    assert np.isnan(trace.result).all()
    assert "product" not in failed(trace)


@pytest.mark.exhaustive
def test_sums_that_wrap_around_are_compared_as_they_wrap() -> None:
    low = np.full((1, 140_000), -128, np.int8)  # 140 000 * 2**14 is above 2**31
    trace = systolic.simulate(low, low.T, rows=1, cols=1, dataflow="os", trace=False)
    assert trace.result.item() == 140_000 * 2**14 - 2**32
    assert failed(trace) == set()
    huge = np.full((2, 3), 2**40)
    assert failed(systolic.simulate(huge, huge.T, rows=2, cols=2)) == set()


def test_a_wrong_count_fails() -> None:
    trace = make()
    assert "closed form" in failed(
        replace(trace, cycles=trace.cycles + 1, kept_registers=None, kept_schedule=None)
    )


@pytest.mark.parametrize("dataflow", ["ws", "os", "is"])
@pytest.mark.parametrize("name", ["right_index", "down_index", "held_index"])
def test_a_value_from_nowhere_fails(name: str, dataflow: str) -> None:
    trace = make(dataflow)
    where = first(trace)

    def plant(index: np.ndarray) -> None:
        index[where] = 0 if index[where] else 1

    assert "one hop a cycle" in failed(with_register(trace, name, plant))
    assert "operands meet" in failed(with_register(trace, name, plant))


def test_a_value_that_changes_on_its_way_fails() -> None:
    trace = make()
    where = first(trace)

    def plant(values: np.ndarray) -> None:
        values[where] += 1

    assert failed(with_register(trace, "right", plant)) == {"one hop a cycle"}


def test_a_forgotten_product_fails() -> None:
    trace = make()
    where = first(trace)

    def plant(active: np.ndarray) -> None:
        active[where] = False

    assert failed(with_register(trace, "active", plant)) == {"each product once", "schedule"}


@pytest.mark.parametrize("dataflow", ["ws", "os", "is"])
def test_a_trace_with_its_schedule_only_is_checked_by_it(
    dataflow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(array, "FULL_REGISTERS", 0)
    trace = make(dataflow)
    names = [check.name for check in trace.verify().checks]
    assert names == ["product", "closed form", "one hop a cycle", "each product once"]
    assert failed(trace) == set()
    start, length = trace.start.copy(), trace.length.copy()
    start[0, 1, 1] += 1
    length[0, 1, 1] -= 1
    assert failed(replace(trace, kept_schedule=replace(trace.schedule, start=start))) == {"one hop a cycle"}
    assert failed(replace(trace, kept_schedule=replace(trace.schedule, length=length))) == {
        "each product once"
    }


def test_the_report_reads_well() -> None:
    report = systolic.simulate([[1, 2], [3, 4]], [[5, 6], [7, 8]], rows=2, cols=2).verify()
    assert report.passed
    assert repr(report) == (
        "6 of 6 checks hold\n"
        "holds  product: 4 of 4 results equal NumPy's a @ b in int64\n"
        "holds  closed form: 6 cycles counted in 1 fold; by formula 1 x 6 = 6\n"
        "holds  one hop a cycle: 8 hops to a neighbour, 0 values from elsewhere\n"
        "holds  operands meet: 8 of 8 products join the k, m and n they belong to\n"
        "holds  each product once: 8 of 8 formed once, 8 multiply-adds in all\n"
        "holds  schedule: 0 of 24 cell-cycles differ from start and length"
    )
