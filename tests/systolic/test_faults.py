"""Machines with a fault: they run to their end, every check goes red, and nothing is said that is not so."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from systolic_products import GOLDEN, assert_golden

from pulsewarp import systolic
from pulsewarp.systolic import array

A = np.array([[1, 2, 3, 4, 5], [2, 7, 1, 3, 1], [4, 1, 1, 2, 2]], np.int8)
B = np.array([[1, 2, 3], [3, 1, 2], [2, 2, 1], [1, 4, 1], [2, 1, 3]], np.int8)
DATAFLOWS = tuple(systolic.DATAFLOWS)
#: "os" loads no tile and adds to no earlier sum.
REFUSED = {("load_reversed", "os"), ("added_twice", "os")}
CASES = [(kind, flow) for kind in systolic.FAULTS for flow in DATAFLOWS if (kind, flow) not in REFUSED]


def fault(kind: str, row: int = 1, col: int = 1) -> systolic.Fault:
    return systolic.Fault(kind, row, col) if kind == "stuck_cell" else systolic.Fault(kind)


def run(kind: str, dataflow: str, **options: Any) -> systolic.SystolicTrace:
    return systolic.simulate(A, B, rows=3, cols=2, dataflow=dataflow, fault=fault(kind), **options)


def failed(trace: systolic.SystolicTrace) -> set[str]:
    return {check.name for check in trace.verify().checks if not check.passed}


#: What must go red where every register is kept; the rest of the machine is sound, and those checks hold.
SEEN_BY = {
    "no_skew": {"product", "operands meet"},
    "late_by_one": {"product", "operands meet"},
    "load_reversed": {"product", "operands meet"},
    "fold_dropped": {"product", "closed form", "each product once"},
    "added_twice": {"product"},
    "hop_of_two": {"product", "one hop a cycle", "each product once"},
    "stuck_cell": {"product"},
}


@pytest.mark.parametrize(("kind", "dataflow"), CASES)
def test_every_fault_is_seen_by_the_checks_meant_for_it(kind: str, dataflow: str) -> None:
    trace = run(kind, dataflow)
    assert trace.fault == fault(kind)
    assert failed(trace) >= SEEN_BY[kind], repr(trace.verify())
    assert f"fault {kind}" in repr(trace)


@pytest.mark.parametrize(("kind", "dataflow"), CASES)
def test_every_fault_is_seen_by_a_golden_trace(kind: str, dataflow: str) -> None:
    red = []
    for case in GOLDEN:
        if case["dataflow"] == dataflow:
            try:
                assert_golden(case, fault=fault(kind, 0, 0))
            except AssertionError:
                red.append(case["name"])
            except ValueError as refusal:
                assert "would change nothing" in str(refusal)
    assert red


@pytest.mark.parametrize(("kind", "dataflow"), CASES)
def test_a_faulty_machine_that_keeps_less_gives_the_same_result_and_is_red(
    kind: str, dataflow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    full, bare = run(kind, dataflow), run(kind, dataflow, trace=False)
    monkeypatch.setattr(array, "FULL_REGISTERS", 0)
    lean = run(kind, dataflow)
    for trace in (bare, lean):
        np.testing.assert_array_equal(trace.result, full.result)
        assert "product" in failed(trace)
    np.testing.assert_array_equal(lean.start, full.start)
    for look_up in (lambda: lean.registers(0), lean.macs, lean.exits):
        with pytest.raises(ValueError, match=rf"fault '{kind}' does not keep every register.*use probes"):
            look_up()


@settings(max_examples=100)
@given(
    st.tuples(*[st.integers(1, 5)] * 5),
    st.sampled_from(tuple(systolic.FAULTS)),
    st.sampled_from(DATAFLOWS),
    st.booleans(),
)
def test_on_every_array_a_fault_is_seen_or_refused(
    sizes: tuple[int, ...], kind: str, dataflow: str, overlap: bool
) -> None:
    m, k, n, rows, cols = sizes
    rng = np.random.default_rng(sum(size * 7**i for i, size in enumerate(sizes)))
    a, b = rng.integers(1, 100, (m, k)), rng.integers(1, 100, (k, n))
    cell = {"row": 0, "col": 0} if kind == "stuck_cell" else {}
    planted = systolic.Fault(kind, **cell)
    try:
        trace = systolic.simulate(
            a, b, rows=rows, cols=cols, dataflow=dataflow, overlap=overlap, fault=planted
        )
    except ValueError as refusal:
        assert "would change nothing" in str(refusal)
        assume(False)
    report = trace.verify()
    assert not report.passed
    assert repr(report).count("FAILS") >= 1


@given(
    st.integers(1, 6), st.integers(1, 6), st.integers(1, 6), st.integers(1, 4), st.integers(1, 4),
    st.sampled_from(DATAFLOWS), st.data(),
)  # fmt: skip
def test_a_stuck_cell_takes_away_just_its_own_products(
    m: int, k: int, n: int, rows: int, cols: int, dataflow: str, data: st.DataObject
) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(1, 100, (m, k)), rng.integers(1, 100, (k, n))
    sound = systolic.simulate(a, b, rows=rows, cols=cols, dataflow=dataflow)
    r, c = data.draw(st.sampled_from(sorted({(r, c) for _, r, c, *_ in sound.macs().tolist()})))
    broken = systolic.Fault("stuck_cell", r, c)
    trace = systolic.simulate(a, b, rows=rows, cols=cols, dataflow=dataflow, fault=broken)
    expected = a @ b
    for _, row, col, i, j, p in sound.macs():
        if (row, col) == (r, c):
            expected[i, j] -= a[i, p] * b[p, j]
    np.testing.assert_array_equal(trace.result, expected)
    wrong = int(np.count_nonzero(trace.result != a @ b))
    says = trace.verify().checks[0].says
    assert f"{m * n - wrong} of {m * n} results equal" in says
    assert f"{wrong} wrong within" in says


def test_a_wrong_result_is_told_with_its_place_and_its_numbers() -> None:
    trace = systolic.simulate(A, B, rows=3, cols=2, dataflow="os", fault=systolic.Fault("stuck_cell", 1, 0))
    assert trace.verify().checks[0].says == (
        "7 of 9 results equal NumPy's a @ b in int32; 2 wrong within row 1 and columns 0 to 2, "
        "the first result[1, 0] = 0 instead of 30"
    )


@pytest.mark.parametrize(
    ("kind", "options", "says"),
    [
        ("no_skew", {"rows": 1, "cols": 1}, "this product uses 1 x 1 of 1 x 1 cells; use at least two rows"),
        ("hop_of_two", {"rows": 1, "cols": 1}, "uses 1 x 1 of 1 x 1 cells"),
        ("load_reversed", {"dataflow": "os"}, "dataflow 'os' neither loads .*; use 'ws' or 'is'"),
        ("added_twice", {"dataflow": "os"}, "dataflow 'os' neither loads"),
        ("load_reversed", {"rows": 1}, "the array has one row; use at least two"),
        ("added_twice", {"rows": 5}, "k is 5 and fits into 5 rows.*; use fewer rows"),
        ("fold_dropped", {"rows": 5, "cols": 3}, "takes one fold; use a smaller array"),
        ("stuck_cell", {"rows": 9}, r"uses 5 x 2 of 9 x 2 cells; choose a cell it uses instead of \(5, 1\)"),
    ],
)
def test_a_fault_that_would_change_nothing_is_refused(kind: str, options: dict[str, Any], says: str) -> None:
    arguments = {"rows": 2, "cols": 2, "dataflow": "ws", "fault": fault(kind, 5, 1)} | options
    with pytest.raises(ValueError, match=f"Fault '{kind}' would change nothing: .*{says}"):
        systolic.simulate(A, B, **arguments)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("no_skwe",), "Unknown kind 'no_skwe'.*Did you mean 'no_skew'?"),
        (("stuck_cell",), "Fault 'stuck_cell' lacks its row; write row= and col=."),
        (("stuck_cell", 1), "Fault 'stuck_cell' lacks its col; write row= and col=."),
        (("stuck_cell", -1, 0), "row is -1, but must be a whole number of at least 0"),
        (("no_skew", None, 2), "col is 2, but fault 'no_skew' is in no single cell; leave it out."),
    ],
)
def test_a_fault_that_cannot_be_is_refused(arguments: tuple[Any, ...], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        systolic.Fault(*arguments)


def test_each_check_that_fails_names_the_first_place() -> None:
    says = {check.name: check.says for check in run("hop_of_two", "os").verify().checks}
    assert re.search(
        r"\d+ values from elsewhere, the first at cycle \d+ in cell \(\d, \d\)$", says["one hop a cycle"]
    )
    assert re.search(r"multiply-adds in all, a\[\d, \d\] \* b\[\d, \d\] 0 times$", says["each product once"])
    says = {check.name: check.says for check in run("no_skew", "ws").verify().checks}
    assert re.search(r"they belong to, the first at cycle 3 in cell \(1, 0\)$", says["operands meet"])


def test_every_kind_says_in_one_sentence_what_it_does() -> None:
    assert tuple(systolic.FAULTS) == tuple(SEEN_BY)
    for sentence in systolic.FAULTS.values():
        assert sentence.endswith(".")
        assert sentence.count(". ") == 0
