"""The suspects are exactly the cells that, faulty, give the wrong results: each is tried by simulation."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from systolic_products import Product, products, run

from pulsewarp import systolic
from pulsewarp.systolic import diagnosis

pytestmark = pytest.mark.exhaustive

Trace = systolic.SystolicTrace
PRODUCTS = products(types=("int8", "float32"))
RNG = np.random.default_rng(5)
A, B = RNG.integers(1, 10, (4, 6)), RNG.integers(1, 10, (6, 4))


def stuck(row: int, col: int) -> systolic.Fault:
    return systolic.Fault("stuck_cell", row=row, col=col)


def used(trace: Trace) -> list[tuple[int, int]]:
    """The cells the product uses: all faults elsewhere are refused."""
    rows = min(trace.rows, trace.sizes[trace.flow.row_axis])
    cols = min(trace.cols, trace.sizes[trace.flow.col_axis])
    return [(r, c) for r in range(rows) for c in range(cols)]


def by_trying(product: Product, sound: Trace, seen: np.ndarray) -> list[tuple[int, int]]:
    """Find the suspects by running the machine with each cell faulty."""
    cells = used(sound)
    found = []
    for cell in np.ndindex(sound.rows, sound.cols):
        result = run(product, fault=stuck(*cell)).result if cell in cells else sound.result
        if np.array_equal(result, seen, equal_nan=True):
            found.append(cell)
    return found


@settings(max_examples=40)
@given(PRODUCTS, st.data())
def test_the_suspects_are_those_found_by_trying_every_cell(product: Product, data: st.DataObject) -> None:
    sound = run(product)
    cell = data.draw(st.sampled_from(used(sound)))
    broken = run(product, fault=stuck(*cell))
    found = systolic.suspects(sound, broken)
    assert cell in found.cells
    assert list(found.cells) == by_trying(product, sound, broken.result)
    assert set(found.cells) <= set(found.clues[0].cells)
    assert [tuple(at) for at in np.argwhere(sound.result != broken.result)] == list(found.wrong)


def test_a_cell_mistaken_for_its_neighbour_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant: the share of a cell is that of the row below."""
    product: Product = (A, B, 3, 3, "ws")
    sound = run(product)
    broken = run(product, fault=stuck(1, 2))
    honest = diagnosis._work
    assert list(systolic.suspects(sound, broken).cells) == by_trying(product, sound, broken.result)
    monkeypatch.setattr(diagnosis, "_work", lambda trace, row, col: honest(trace, (row + 1) % 3, col))
    assert list(systolic.suspects(sound, broken).cells) != by_trying(product, sound, broken.result)


@settings(max_examples=20)
@given(PRODUCTS, st.data())
def test_only_results_are_looked_at(product: Product, data: st.DataObject) -> None:
    sound = run(product)
    fault = stuck(*data.draw(st.sampled_from(used(sound))))
    broken = run(product, fault=fault)
    bare = replace(run(product, fault=fault, trace=False), fault=None)
    assert systolic.suspects(run(product, trace=False), bare).cells == systolic.suspects(sound, broken).cells


@pytest.mark.parametrize("dataflow", ["ws", "os", "is"])
def test_where_results_are_wrong_tells_the_column_and_how_much_tells_the_row(dataflow: str) -> None:
    sound = systolic.simulate(A, B, rows=3, cols=4, dataflow=dataflow)
    broken = systolic.simulate(A, B, rows=3, cols=4, dataflow=dataflow, fault=stuck(1, 2))
    found = systolic.suspects(sound, broken)
    column = tuple((r, 2) for r in range(3))
    assert found.clues[0].cells == (((1, 2),) if dataflow == "os" else column)
    assert found.cells == ((1, 2),)


@pytest.mark.parametrize(("dataflow", "unit"), [("ws", "a"), ("is", "b")])
def test_the_unit_matrix_tells_every_cell_apart(dataflow: str, unit: str) -> None:
    kept = RNG.integers(1, 3, (4, 4))  # many alike
    a, b = (np.eye(4, dtype=int), kept) if unit == "a" else (kept, np.eye(4, dtype=int))
    sound = systolic.simulate(a, b, rows=4, cols=4, dataflow=dataflow)
    for cell in np.ndindex(4, 4):
        broken = systolic.simulate(a, b, rows=4, cols=4, dataflow=dataflow, fault=stuck(*cell))
        assert systolic.suspects(sound, broken).cells == (cell,)


def test_a_second_product_narrows_what_the_first_left() -> None:
    ones = np.ones((1, 4), int)
    weights = np.array([[3, 1, 2], [3, 1, 2], [3, 1, 2], [1, 4, 5]])

    def tried(a: np.ndarray) -> tuple[Trace, Trace]:
        return (
            systolic.simulate(a, weights, rows=4, cols=3),
            systolic.simulate(a, weights, rows=4, cols=3, fault=stuck(1, 0)),
        )

    first = systolic.suspects(*tried(ones))
    assert first.cells == ((0, 0), (1, 0), (2, 0))
    second = systolic.suspects(*tried(np.array([[0, 1, 1, 0]])), among=first.cells)
    assert second.cells == ((1, 0), (2, 0))
    assert systolic.suspects(*tried(np.array([[0, 1, 0, 0]])), among=second.cells).cells == ((1, 0),)
    assert "of 3 cells" in second.clues[0].says
    assert second.verdict(0, 1) == "Not cell (0,1): it was ruled out before. 2 cells explain every result."


def test_another_fault_is_no_single_cells() -> None:
    sound = systolic.simulate(A, B, rows=3, cols=3)
    broken = systolic.simulate(A, B, rows=3, cols=3, fault=systolic.Fault("no_skew"))
    found = systolic.suspects(sound, broken)
    assert found.cells == ()
    assert found.verdict(0, 0).endswith("0 cells add to all of them.")


def test_a_fault_that_changes_no_result_leaves_the_cells_that_make_no_difference() -> None:
    a = np.array([[1, 0, 2]])
    sound = systolic.simulate(a, A[:3], rows=3, cols=6)
    broken = systolic.simulate(a, A[:3], rows=3, cols=6, fault=stuck(1, 1))
    found = systolic.suspects(sound, broken)
    assert found.wrong == () and found.cells == tuple((1, c) for c in range(6))
    assert "every result would be the same. 6 cells explain every result." in found.verdict(1, 1)
    assert found.verdict(0, 0).startswith("Not cell (0,0): without its products C[0,0] would be ")


@pytest.mark.parametrize("dataflow", ["ws", "os", "is"])
def test_every_sentence_agrees_with_the_cells(dataflow: str) -> None:
    sound = systolic.simulate(A, B, rows=3, cols=4, dataflow=dataflow)
    for cell in used(sound):
        broken = systolic.simulate(A, B, rows=3, cols=4, dataflow=dataflow, fault=stuck(*cell))
        found = systolic.suspects(sound, broken)
        for r, c in np.ndindex(3, 4):
            says = found.verdict(r, c)
            assert says.startswith(f"Cell ({r},{c})" if (r, c) in found.cells else f"Not cell ({r},{c}):")
            assert says.endswith(".") and "  " not in says
            told = re.search(r"(\d+) cells? (?:add|adds|explain|explains)\b", says)
            if told:
                clue = found.clues[0] if "to all of them" in says else found.clues[1]
                assert int(told[1]) == len(clue.cells), says
            wrong = re.search(r"C\[(\d+),(\d+)\] would be (-?\d+), but it is (-?\d+)", says)
            if wrong:
                m, n, would, is_ = map(int, wrong.groups())
                faulty = systolic.simulate(A, B, rows=3, cols=4, dataflow=dataflow, fault=stuck(r, c))
                assert (would, is_) == (faulty.result[m, n], broken.result[m, n]) and would != is_


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")  # the point of the test
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_a_nan_in_both_machines_is_no_wrong_result() -> None:
    a = np.array([[3e38, 3e38, 1], [1, 1, 1]], np.float32)
    b = np.array([[2, 1], [-2, 0], [1, 1]], np.float32)
    sound = systolic.simulate(a, b, rows=3, cols=2)
    found = systolic.suspects(sound, systolic.simulate(a, b, rows=3, cols=2, fault=stuck(2, 1)))
    assert np.isnan(sound.result[0, 0])
    assert (found.wrong, found.cells) == (((1, 1),), ((2, 1),))


def test_the_report_reads_well() -> None:
    sound = systolic.simulate([[1, 2], [3, 4]], [[5, 6], [7, 8]], rows=2, cols=2)
    broken = systolic.simulate([[1, 2], [3, 4]], [[5, 6], [7, 8]], rows=2, cols=2, fault=stuck(1, 0))
    found = systolic.suspects(sound, broken)
    assert repr(found) == (
        "1 of 4 cells may be the faulty one: (1,0)\n"
        "where: 2 wrong results of 4 lie in column 0 of C; 2 of 4 cells add to all of them\n"
        "how much: C[0,0] is 5 instead of 19; of these cells 1 leaves exactly such gaps"
    )
    assert found.verdict(1, 0) == (
        "Cell (1,0): without A[0,1] x B[1,0], C[0,0] is 5 instead of 19, and its other products explain the "
        "other wrong result. No other cell does."
    )
    assert found.verdict(0, 1) == (
        "Not cell (0,1): it adds to column 1 of C only, but the wrong results lie in column 0 of C. "
        "2 cells add to all of them."
    )


SOUND = systolic.simulate(A, B, rows=3, cols=3)
BROKEN = systolic.simulate(A, B, rows=3, cols=3, fault=stuck(0, 0))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: systolic.suspects(BROKEN, SOUND), "sound has the fault 'stuck_cell'.*the broken one second"),
        (lambda: systolic.suspects(SOUND, systolic.simulate(A, B, rows=2, cols=3)), "array: 3 x 3 and 2 x 3"),
        (
            lambda: systolic.suspects(SOUND, systolic.simulate(A, B, rows=3, cols=3, dataflow="os")),
            "dataflow",
        ),
        (lambda: systolic.suspects(SOUND, systolic.simulate(A + 1, B, rows=3, cols=3)), "values of a"),
        (lambda: systolic.suspects(SOUND, systolic.simulate(A[:2], B, rows=3, cols=3)), "differ in shapes"),
        (lambda: systolic.suspects(SOUND, BROKEN, among=[(3, 0)]), "a cell's row is 3.*at most 2"),
        (lambda: systolic.suspects(SOUND, BROKEN).verdict(0, 3), "col is 3.*at most 2"),
    ],
)
def test_what_does_not_belong_together_is_refused(call: Callable[[], object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        call()


@pytest.mark.wrong_type
def test_a_cell_has_two_numbers() -> None:
    with pytest.raises(ValueError, match=r"\(0, 0, 1\) is not \(row, col\)"):
        systolic.suspects(SOUND, BROKEN, among=[(0, 0, 1)])
