"""What the cell player sends is what the simulator recorded, and each rounding is exact."""

import dataclasses
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from pulsewarp import numerics, systolic
from pulsewarp.widgets import _wire
from pulsewarp.widgets.cell import CellPlayer, round_each

ELEMENTS = {
    "int8": st.integers(-128, 127),
    "float32": st.floats(-(2.0**20), 2.0**20, width=32),
    "bfloat16": st.floats(-(2.0**20), 2.0**20, width=32),
}


@st.composite
def traces(draw):
    m, k, n, rows, cols = (draw(st.integers(1, 6)) for _ in range(5))
    kind = draw(st.sampled_from(list(ELEMENTS)))
    a, b = (
        draw(arrays.arrays("int8" if kind == "int8" else "float32", shape, elements=ELEMENTS[kind]))
        for shape in ((m, k), (k, n))
    )
    if kind == "bfloat16":
        a, b = a.astype(ml_dtypes.bfloat16), b.astype(ml_dtypes.bfloat16)
    return systolic.simulate(a, b, rows=rows, cols=cols, dataflow=draw(st.sampled_from(["ws", "os", "is"])))


def example(dataflow="ws", m=5, k=4, n=4):
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(shape) * 10.0 ** rng.integers(-1, 3, shape) for shape in ((m, k), (k, n)))
    narrow = (x.astype(ml_dtypes.bfloat16) for x in (a, b))
    return systolic.simulate(*narrow, rows=4, cols=4, dataflow=dataflow)


def wrong_steps(trace, steps):
    """Return the multiply-adds whose sum is not what the cell's register held after that cycle."""
    wrong = []
    for t, r, c, m, n, k in trace.macs().tolist():
        if steps["total"][k, m, n] != trace.partial[t, r, c]:
            wrong.append((t, r, c))
    return wrong


@given(traces())
def test_every_sum_is_the_register_of_its_cell_and_cycle(trace):
    assert wrong_steps(trace, round_each(trace)) == []


def test_a_step_of_another_k_is_seen():
    """A mutant: every step one product late."""
    trace = example()
    late = {name: np.roll(values, 1, axis=0) for name, values in round_each(trace).items()}
    assert wrong_steps(trace, late)


def test_a_cell_that_rounds_once_is_seen(monkeypatch):
    """A mutant: product and sum rounded together, as a fused unit would."""
    rng = np.random.default_rng(2)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((6, 5), (5, 4)))
    trace = systolic.simulate(a, b, rows=4, cols=4)
    honest = numerics.multiply_add

    def fused(x, y, earlier):
        once = (x.astype(np.float64) * y + earlier).astype(np.float32)
        return dataclasses.replace(honest(x, y, earlier), total=once)

    monkeypatch.setattr(numerics, "multiply_add", fused)
    assert wrong_steps(trace, round_each(trace))


@given(traces())
def test_what_crosses_adds_up_exactly(trace):
    header, columns = _wire.unpack(CellPlayer(trace).trace)
    before = np.zeros((trace.m, trace.n))
    assert header["kind"] == "cell"
    for k in range(trace.k):
        product, total = columns["each_product"][k], columns["each_total"][k]
        for at in np.ndindex(trace.m, trace.n):
            x, y = Fraction(float(trace.a[at[0], k])), Fraction(float(trace.b[k, at[1]]))
            p, s = Fraction(float(product[at])), Fraction(float(total[at]))
            assert p + Fraction(float(columns["each_product_lost"][k][at])) == x * y
            assert Fraction(float(columns["each_exact_product"][k][at])) == x * y
            assert s + Fraction(float(columns["each_total_lost"][k][at])) == Fraction(float(before[at])) + p
        before = total
    assert (before == trace.result).all()
    assert columns["rounded"][-1] == np.count_nonzero(
        (columns["each_product_lost"] != 0) | (columns["each_total_lost"] != 0)
    )


@given(traces())
def test_the_first_frame_is_a_cycle_in_which_the_cell_works(trace):
    player = CellPlayer(trace)
    header, _ = _wire.unpack(player.trace)
    row, col = header["cell"]
    assert trace.active[player.cursor, row, col]


def test_it_opens_on_a_rounding_where_there_is_one():
    for dataflow in ("ws", "os", "is"):
        trace = example(dataflow)
        player = CellPlayer(trace)
        (row, col), t = _wire.unpack(player.trace)[0]["cell"], player.cursor
        (m, n, k) = next(mac[3:] for mac in trace.macs().tolist() if mac[:3] == [t, row, col])
        assert round_each(trace)["total_lost"][k, m, n] != 0


def test_a_cell_may_be_chosen_and_an_idle_one_shown():
    trace = systolic.simulate([[1, 2]], [[3], [4]], rows=3, cols=3)
    assert repr(CellPlayer(trace, cell=(1, 0))) == "CellPlayer(ws, cell (1, 0) of 3x3, 8 cycles)"
    assert CellPlayer(trace, cell=(2, 2)).cursor == 0  # it never works


def test_options_reach_the_browser():
    trace = example()
    player = CellPlayer(trace, zoom="row", start=0, rate=4, title="Mine", task="look.")
    assert player.options == {"rate": 4.0, "title": "Mine", "zoom": "row", "task": "look.", "verify": True}
    assert CellPlayer(trace).options["zoom"] == "cell" and "poster" in CellPlayer(trace).options


def roundings_of(player, trace):
    """How many of the shown cell's multiply-adds lose something, and how many it makes."""
    row, col = _wire.unpack(player.trace)[0]["cell"]
    steps = round_each(trace)
    lost = (steps["product_lost"] != 0) | (steps["total_lost"] != 0)
    own = [bool(lost[k, m, n]) for _, r, c, m, n, k in trace.macs().tolist() if (r, c) == (row, col)]
    return sum(own), len(own)


@given(traces())
def test_the_task_can_be_done(trace):
    player = CellPlayer(trace)
    lose, all_of_them = roundings_of(player, trace)
    kind = {0: "say how many", all_of_them: "say which rounding"}.get(lose, "find a cycle")
    assert player.options["task"].startswith(kind)


def test_show_replaces_the_run():
    player = CellPlayer(example())
    player.show(systolic.simulate([[1, 2]], [[3], [4]], rows=2, cols=2))
    assert repr(player) == "CellPlayer(ws, cell (1, 0) of 2x2, 5 cycles)"
    assert _wire.unpack(player.trace)[0]["rows"] == 2
    assert player.options["task"].startswith("say how many")
    given = CellPlayer(example(), task="look.")
    given.show(systolic.simulate([[1, 2]], [[3], [4]], rows=2, cols=2))
    assert given.options["task"] == "look."


def test_python_line_makes_the_run_again():
    trace = example("os")
    header, _ = _wire.unpack(CellPlayer(trace, cell=(2, 1)).trace)
    assert "\n" not in header["python"]
    scope = {}
    exec(header["python"].replace("widgets.CellPlayer(", "again = dict(trace="), scope)
    again = scope["again"]
    assert again["cell"] == (2, 1) and again["trace"].a.dtype == trace.a.dtype
    assert (again["trace"].result == trace.result).all() and again["trace"].dataflow == "os"


SMALL = systolic.simulate([[1, 2], [3, 4]], [[5, 6], [7, 8]], rows=2, cols=2)
LARGE = np.ones((4, 9), np.int8)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: CellPlayer(systolic.simulate(LARGE, LARGE.T, rows=9, cols=9)), "9 x 9 cells.*at most 8 x 8"),
        (lambda: CellPlayer(systolic.simulate(LARGE, LARGE.T, rows=2, cols=2, trace=False)), "no registers"),
        (
            lambda: CellPlayer(systolic.simulate(np.ones((64, 64)), np.ones((64, 64)), rows=8, cols=8)),
            "262144 multiply-adds.*at most 16384",
        ),
        (lambda: CellPlayer(systolic.simulate([[1.5]], [[2.5]], rows=1, cols=1)), "float64.*convert"),
        (
            lambda: CellPlayer(
                systolic.simulate([[1, 2]], [[2], [3]], rows=2, cols=2, fault=systolic.Fault("no_skew"))
            ),
            "fault 'no_skew'.*without fault",
        ),
        (
            lambda: CellPlayer(systolic.simulate([[1]], [[2]], rows=1, cols=1, overlap=True)),
            "overlap.*overlap=False",
        ),
        (lambda: CellPlayer(SMALL, cell=(2, 0)), "row of the cell is 2.*at most 1"),
        pytest.param(
            lambda: CellPlayer(SMALL, cell=(0, 1, 1)),
            r"\(0, 1, 1\).*write \(row, col\)",
            marks=pytest.mark.wrong_type,
        ),
        (lambda: CellPlayer(SMALL, zoom="cells"), r"'cells'.*Did you mean 'cell'\?"),
        (lambda: CellPlayer(SMALL, start=6), "start is 6.*at most 5"),
        (lambda: CellPlayer(SMALL, rate=0), "rate is 0.*above 0"),
    ],
)
def test_what_cannot_be_shown_is_refused(call, said):
    with pytest.raises(ValueError, match=said):
        call()
