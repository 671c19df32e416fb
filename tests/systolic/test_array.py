"""The array itself: the golden traces, the laws every run obeys, and faults that must not survive them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from systolic_products import GOLDEN, Product, assert_golden, products, run

from pulsewarp import systolic
from pulsewarp.matmul import accumulator_type
from pulsewarp.systolic import array, rules


def step_naively(product: Product) -> list[dict[str, list[list[tuple[int, Any]]]]]:
    """Step cell by cell in plain Python: (index, value) of each register, by cycle; (-1, 0) for nothing."""
    a, b, R, C, dataflow = product
    (M, K), N = a.shape, b.shape[1]
    number = accumulator_type(a.dtype, b.dtype).type
    A = [[(m * K + k, number(a[m, k])) for k in range(K)] for m in range(M)]
    B = [[(k * N + n, number(b[k, n])) for n in range(N)] for k in range(K)]
    result = [[(m * N + n, number(0)) for n in range(N)] for m in range(M)]
    turn = {"ws": False, "os": False, "is": True}[dataflow]  # "is" is "ws" on the transposed product
    left, top = (
        (A, B)
        if not turn
        else ([list(x) for x in zip(*B, strict=True)], [list(x) for x in zip(*A, strict=True)])
    )
    out = result if not turn else [list(x) for x in zip(*result, strict=True)]
    holds_sums = dataflow == "os"
    extent_r = len(left) if holds_sums else len(top)
    extent_c = len(top[0])
    stream = len(top) if holds_sums else len(left)
    nothing = (-1, number(0))
    frames = []
    for c0 in range(0, extent_c, C):
        for r0 in range(0, extent_r, R):
            u, v = min(R, extent_r - r0), min(C, extent_c - c0)
            held, right, down = ([[nothing] * C for _ in range(R)] for _ in range(3))
            load = 0 if holds_sums else R
            busy = R + C + stream - 2
            total = R + busy
            for t in range(total):
                before_held, before_right, before_down = held, right, down
                held = [list(row) for row in before_held]
                right = [[nothing] * C for _ in range(R)]
                down = [[nothing] * C for _ in range(R)]
                for r in range(R):
                    for c in range(C):
                        if t < load:
                            row = R - 1 - t
                            entering = top[r0 + row][c0 + c] if row < u and c < v else nothing
                            held[r][c] = before_held[r - 1][c] if r else entering
                        if holds_sums and t >= busy:
                            held[r][c] = before_held[r - 1][c] if r else nothing
                        s = t - load - r
                        if c:
                            right[r][c] = before_right[r][c - 1]
                        elif 0 <= s < stream and r < u:
                            right[r][c] = left[r0 + r][s] if holds_sums else left[s][r0 + r]
                        s = t - load - c
                        if r:
                            down[r][c] = before_down[r - 1][c]
                        elif 0 <= s < stream and c < v:
                            down[r][c] = top[s][c0 + c] if holds_sums else out[s][c0 + c]
                        if holds_sums and right[r][c][0] >= 0 and down[r][c][0] >= 0:
                            index = out[r0 + r][c0 + c][0]
                            held[r][c] = (index, number(held[r][c][1] + right[r][c][1] * down[r][c][1]))
                        if not holds_sums and right[r][c][0] >= 0 and held[r][c][0] >= 0:
                            index, so_far = down[r][c]
                            down[r][c] = (index, number(so_far + right[r][c][1] * held[r][c][1]))
                frames.append({"held": held, "right": right, "down": down})
                if not holds_sums:
                    for c in range(v):
                        index, value = down[R - 1][c]
                        if index >= 0:
                            out[t - load - c - (R - 1)][c0 + c] = (index, value)
    return frames


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["name"])
def test_golden_traces(case: dict[str, Any]) -> None:
    assert_golden(case)


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["name"])
def test_golden_traces_from_the_schedule_alone(case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array, "FULL_REGISTERS", 0)
    assert_golden(case)


@given(products())
def test_every_run_passes_its_own_verification(product: Product) -> None:
    report = run(product).verify()
    assert report.passed, repr(report)


@given(products(types=("int8", "int64")))
@example((np.full((3, 3), -128, np.int8), np.full((3, 3), -128, np.int8), 2, 2, "ws"))
@example((np.full((2, 5), -128, np.int8), np.full((5, 2), 127, np.int8), 2, 3, "os"))
def test_the_result_is_the_product(product: Product) -> None:
    a, b, *_ = product
    trace = run(product)
    assert trace.result.dtype == (np.int32 if a.dtype == np.int8 else np.int64)
    np.testing.assert_array_equal(trace.result, a.astype(np.int64) @ b.astype(np.int64))


@given(products(types=("float16", "float32", "float64")))
def test_floats_are_added_in_the_order_of_the_trace_bit_for_bit(product: Product) -> None:
    a, b, *_ = product
    trace = run(product)
    kind = np.float64 if a.dtype == np.float64 else np.float32
    assert trace.result.dtype == kind
    total = np.zeros(trace.result.shape, kind)
    for _, _, _, m, n, k in trace.macs():
        total[m, n] += kind(a[m, k]) * kind(b[k, n])
    assert total.tobytes() == trace.result.tobytes()


@pytest.mark.exhaustive
@settings(max_examples=40)
@given(products())
def test_every_register_is_what_a_cell_by_cell_stepper_says(product: Product) -> None:
    trace = run(product)
    frames = step_naively(product)
    assert len(frames) == trace.cycles
    for register in systolic.REGISTERS:
        values, index = getattr(trace, register), getattr(trace, f"{register}_index")
        expected = [[[cell[0] for cell in row] for row in frame[register]] for frame in frames]
        np.testing.assert_array_equal(index, expected, err_msg=register)
        expected = [[[cell[1] for cell in row] for row in frame[register]] for frame in frames]
        np.testing.assert_array_equal(values, expected, err_msg=register)


@settings(max_examples=50)
@given(products())
def test_keeping_less_changes_nothing(product: Product) -> None:
    full, bare = run(product), run(product, trace=False)
    assert full.result.tobytes() == bare.result.tobytes()
    assert full.cycles == bare.cycles
    assert full.folds == bare.folds
    assert not bare.has_registers
    assert not bare.has_schedule


@settings(max_examples=50)
@given(products(), st.data())
def test_probes_see_what_the_trace_keeps(product: Product, data: st.DataObject) -> None:
    full = run(product)
    cells = st.tuples(
        st.integers(0, full.cycles - 1), st.integers(0, full.rows - 1), st.integers(0, full.cols - 1)
    )
    probes = data.draw(st.lists(cells, max_size=5, unique=True))
    probed = run(product, trace=False, probes=probes).probed
    assert sorted(probe[:3] for probe in probed) == sorted(probes)
    for t, r, c, *registers in probed:
        assert registers == [full.held[t, r, c], full.right[t, r, c], full.down[t, r, c]]


def test_transposing_the_product_turns_weight_into_input_stationary() -> None:
    a, b = np.arange(20).reshape(4, 5), np.arange(15).reshape(5, 3)
    ws = systolic.simulate(a, b, rows=2, cols=3, dataflow="ws")
    turned = systolic.simulate(b.T, a.T, rows=2, cols=3, dataflow="is")
    for register in systolic.REGISTERS:
        np.testing.assert_array_equal(getattr(ws, register), getattr(turned, register))


# Faults. Each is planted into one rule; the very checks used above must go red. Those that a reader can plant
# (`systolic.FAULTS`) are in test_faults.

DOUBLE = (
    [[1, 2, 3, 4, 5], [2, 0, 1, 3, 1], [4, 1, 1, 2, 2]],
    [[1, 2, 3], [3, 1, 2], [2, 2, 1], [1, 4, 1], [2, 1, 3]],
)


def caught_by_golden(dataflow: str) -> bool:
    """Whether a golden trace of the dataflow that has several folds, rows and columns goes red."""
    red = []
    for case in GOLDEN:
        if case["dataflow"] == dataflow and case["rows"] > 1 and case["cols"] > 1:
            try:
                assert_golden(case)
            except (AssertionError, ValueError, IndexError, KeyError):
                red.append(case["name"])
    return bool(red)


def caught_by_verification(dataflow: str) -> bool:
    """Whether the trace's own verification fails, or the machine cannot even be run."""
    try:
        a, b = (np.array(operand, np.int8) for operand in DOUBLE)
        return not systolic.simulate(a, b, rows=3, cols=2, dataflow=dataflow).verify().passed
    except (ValueError, IndexError):
        return True


MUTANTS: dict[str, dict[str, Any]] = {
    "late by one": {"skew_rows": lambda row: row + 1, "skew_cols": lambda col: col + 1},
    "second line late by one": dict.fromkeys(("skew_rows", "skew_cols"), lambda line: line + (line > 0)),
    "late from the top": {"skew_cols": lambda col: col + 1},
    "no skew on the left": {"skew_rows": lambda row: 0},
    "first tile twice": {
        "plan_tiles": lambda *extents: [rules.plan_tiles(*extents)[0], *rules.plan_tiles(*extents)]
    },
    "drain forgotten": {"drain_cycles": lambda dataflow, rows: 0},
    "load one cycle short": {"load_cycles": lambda dataflow, rows: (rows - 1) * dataflow.loads},
}
#: "os" loads nothing, "ws" and "is" drain nothing: there the fault changes nothing.
HARMLESS = {("load one cycle short", "os"), ("drain forgotten", "ws"), ("drain forgotten", "is")}


def test_the_checks_are_green_without_a_fault() -> None:
    for dataflow in ("ws", "os", "is"):
        assert not caught_by_golden(dataflow)
        assert not caught_by_verification(dataflow)


@pytest.mark.parametrize("dataflow", ["ws", "os", "is"])
@pytest.mark.parametrize("fault", MUTANTS)
def test_no_planted_fault_survives(fault: str, dataflow: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "RULES", replace(rules.RULES, **MUTANTS[fault]))
    harmless = (fault, dataflow) in HARMLESS
    assert caught_by_golden(dataflow) is not harmless
    assert caught_by_verification(dataflow) is not harmless


# What goes wrong in a reader's hands.


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"b": [[1, 2]]}, r"a has shape \(2, 2\) and b has shape \(1, 2\).*columns \(2\).*rows \(1\)"),
        ({"a": [1, 2]}, r"a has shape \(2,\), but must have two dimensions"),
        ({"a": [[]]}, "neither of them empty"),
        ({"a": [[1, 2], [3]]}, "a has rows of different lengths"),
        ({"a": [[1.0, float("nan")], [1, 2]]}, r"a\[0, 1\] is nan, but every element must be finite"),
        ({"b": [["x", "y"], ["z", "w"]]}, "b holds <U1 values, but must hold integers or real floats"),
        ({"b": [[True, False], [True, True]]}, "b holds bool values"),
        ({"b": [[1j, 2], [3, 4]]}, "b holds complex128 values"),
        ({"rows": 0}, "rows is 0, but must be a whole number of at least 1"),
        ({"cols": -3}, "cols is -3, but must be a whole number of at least 1"),
        ({"dataflow": "wss"}, "Unknown dataflow 'wss'; use one of ws, os, is. Did you mean 'ws'?"),
        ({"probes": [(6, 0, 0)]}, r"Probe \(6, 0, 0\) lies outside the run: cycles go from 0 to 5"),
    ],
)
def test_bad_input_gets_one_sentence(arguments: dict[str, Any], says: str) -> None:
    good = {"a": [[1, 2], [3, 4]], "b": [[1, 2], [3, 4]], "rows": 2, "cols": 2}
    with pytest.raises(ValueError, match=says):
        systolic.simulate(**(good | arguments))


@pytest.mark.wrong_type
def test_a_size_that_is_no_whole_number_is_refused() -> None:
    with pytest.raises(ValueError, match=r"rows is 2.5, but must be a whole number of at least 1"):
        systolic.simulate([[1]], [[1]], rows=2.5, cols=2)


def test_an_unknown_keyword_names_the_nearest() -> None:
    with pytest.raises(TypeError, match=r"simulate does not know the keyword 'row'. Did you mean 'rows'\?"):
        systolic.simulate([[1]], [[1]], row=2, cols=2)


def test_a_product_too_large_for_memory_is_refused_before_anything_is_stepped() -> None:
    a = np.zeros((2, 2), np.int8)
    with pytest.raises(ValueError, match=r"needs \d+ MiB of registers.*limit of 512 MiB; pass trace=False"):
        systolic.simulate(a, a, rows=10_000, cols=10_000)
    with pytest.raises(ValueError, match=r"limit of 512 MiB; use smaller matrices, or count.*systolic\.gemm"):
        systolic.simulate(a, a, rows=10_000, cols=10_000, trace=False)


def test_a_run_too_long_is_refused_before_anything_is_stepped() -> None:
    a = np.zeros((400, 400), np.int8)
    with pytest.raises(ValueError, match=r"takes \d+ cycles, above the limit of 50000000.*larger array"):
        systolic.simulate(a, a, rows=1, cols=1)


def test_types_without_a_common_one_are_refused() -> None:
    record = np.zeros((2, 2), [("x", "i4"), ("y", "f4")])
    with pytest.raises(ValueError, match=r"a holds .* values, but must hold integers or real floats"):
        systolic.simulate(record, [[1, 2], [3, 4]], rows=2, cols=2)
