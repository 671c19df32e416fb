"""The check of one frame: it agrees with every true frame, and with no other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from systolic_products import Product, products, run

from pulsewarp import systolic
from pulsewarp._arrays import freeze
from pulsewarp.systolic import array
from pulsewarp.systolic.frame import check_frame

A = np.array([[1, 2, 3, 4, 5], [2, 7, 1, 3, 1], [4, 1, 1, 2, 2]], np.int8)
B = np.array([[1, 2, 3], [3, 1, 2], [2, 2, 1], [1, 4, 1], [2, 1, 3]], np.int8)


def frame(trace: systolic.SystolicTrace, t: int) -> systolic.Check:
    check = trace.verify(cycle=t).checks[-1]
    assert check.name == "frame"
    return check


@pytest.mark.exhaustive
@settings(max_examples=30)
@given(products(), st.booleans(), st.booleans())
@example((A, B, 2, 2, "ws"), True, False)
@example((A, B, 2, 2, "os"), True, True)
def test_every_frame_of_a_sound_machine_holds(product: Product, overlap: bool, keeps_registers: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if not keeps_registers:
            patch.setattr(array, "FULL_REGISTERS", 0)
        trace = run(product, overlap=overlap)
    for t in range(trace.cycles):
        check = check_frame(trace, t)
        assert check.passed, check.says
        assert check.says.startswith(f"cycle {t}: ")


def test_the_sentence_has_the_counts() -> None:
    trace = systolic.simulate([[1, 2], [3, 4]], [[5, 6], [7, 8]], rows=2, cols=2)
    assert frame(trace, 3).says == (
        "cycle 3: 12 of 12 registers hold the element and the value that they must, 3 of 4 cells multiply"
    )
    assert len(trace.verify().checks) == 6
    assert len(trace.verify(cycle=3).checks) == 7


PARTS = ("held", "right", "down", "held_index", "right_index", "down_index", "active")


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("dataflow", ["ws", "os", "is"])
def test_one_wrong_register_is_seen_in_its_frame_and_in_no_other(dataflow: str, overlap: bool) -> None:
    trace = systolic.simulate(A, B, rows=2, cols=2, dataflow=dataflow, overlap=overlap)
    kept = trace.kept_registers
    assert kept is not None
    for name in (*PARTS, "shadow", "shadow_index") if overlap else PARTS:
        for t, r, c in ((4, 1, 0), (6, 0, 1), (9, 1, 1)):
            spoilt = getattr(kept, name).copy()
            spoilt[t, r, c] = not spoilt[t, r, c] if name == "active" else spoilt[t, r, c] + 1
            faulty = replace(trace, kept_registers=replace(kept, **{name: freeze(spoilt)}))
            assert not frame(faulty, t).passed, (name, t, r, c)
            assert frame(faulty, t - 1).passed
            assert frame(faulty, t + 1).passed


@pytest.mark.parametrize("dataflow", ["ws", "os", "is"])
def test_a_frame_a_cycle_late_fails(dataflow: str) -> None:
    trace = systolic.simulate(A, B, rows=2, cols=2, dataflow=dataflow)
    kept = trace.kept_registers
    assert kept is not None
    late: dict[str, Any] = {name: freeze(np.roll(getattr(kept, name), 1, axis=0)) for name in PARTS}
    faulty = replace(trace, kept_registers=replace(kept, **late))
    assert not any(frame(faulty, t).passed for t in range(2, 7))


def test_a_fault_is_told_with_its_cell_and_its_values() -> None:
    trace = systolic.simulate(A, B, rows=3, cols=2, fault=systolic.Fault("stuck_cell", 1, 0))
    start = int(trace.start[0, 1, 0])
    assert frame(trace, start - 1).passed
    check = frame(trace, start)
    assert not check.passed
    assert check.says == (
        f"cycle {start}: 17 of 18 registers hold the element and the value that they must, "
        "3 of 6 cells multiply; down of cell (1, 0) is c[0, 0] = 1 instead of c[0, 0] = 7"
    )


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("dataflow", ["ws", "os", "is"])
@pytest.mark.parametrize("kind", systolic.FAULTS)
def test_every_fault_shows_in_some_frame(kind: str, dataflow: str, overlap: bool) -> None:
    if dataflow == "os" and kind in ("load_reversed", "added_twice"):
        pytest.skip("refused: it would change nothing")
    fault = systolic.Fault(kind, 1, 0) if kind == "stuck_cell" else systolic.Fault(kind)
    trace = systolic.simulate(A, B, rows=2, cols=2, dataflow=dataflow, fault=fault, overlap=overlap)
    red = [t for t in range(trace.cycles) if not check_frame(trace, t).passed]
    # The frames of a run that is cut short, or whose sums are counted twice only below it, may all be right.
    assert red or kind in ("fold_dropped", "added_twice")


def test_a_large_frame_that_is_looked_up_is_checked() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(96, 80)).astype(np.float32), rng.normal(size=(80, 96)).astype(np.float32)
    for dataflow in ("ws", "is"):
        for overlap in (False, True):
            trace = systolic.simulate(a, b, rows=64, cols=64, dataflow=dataflow, overlap=overlap)
            for t in (70, trace.cycles // 2, trace.cycles - 2):
                assert frame(trace, t).passed, frame(trace, t).says


def test_a_frame_that_cannot_be_shown_is_refused() -> None:
    trace = systolic.simulate(A, B, rows=2, cols=2)
    with pytest.raises(
        ValueError, match=r"cycle is 99, but must be .* at most \d+. Cycles are counted from 0"
    ):
        trace.verify(cycle=99)
    with pytest.raises(ValueError, match="made with trace=False"):
        systolic.simulate(A, B, rows=2, cols=2, trace=False).verify(cycle=0)
