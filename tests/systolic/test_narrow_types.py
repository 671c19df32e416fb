"""Operands in the narrow types of matrix units are run, checked and looked up; sums are in a wider type."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pulsewarp import systolic
from pulsewarp.systolic import array

FLOATS = ("bfloat16", "float8_e4m3fn", "float8_e5m2")


def operands(kind: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(2)
    narrow = np.dtype(getattr(ml_dtypes, kind))
    if kind == "int4":
        return rng.integers(-8, 8, (5, 7)).astype(narrow), rng.integers(-8, 8, (7, 4)).astype(narrow)
    return rng.normal(size=(5, 7)).astype(narrow), rng.normal(size=(7, 4)).astype(narrow)


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("dataflow", ["ws", "os", "is"])
@pytest.mark.parametrize("kind", [*FLOATS, "int4"])
def test_narrow_operands_run_as_their_values_do_in_the_accumulators_type(
    kind: str, dataflow: str, overlap: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = operands(kind)
    accumulator = np.int32 if kind == "int4" else np.float32
    machine: dict[str, Any] = {"rows": 3, "cols": 2, "dataflow": dataflow, "overlap": overlap}
    full = systolic.simulate(a, b, **machine)
    wide = systolic.simulate(a.astype(np.float32), b.astype(np.float32), **machine)
    assert (full.a.dtype, full.b.dtype) == (a.dtype, b.dtype)
    assert full.result.dtype == accumulator
    assert full.result.tobytes() == wide.result.astype(accumulator).tobytes()
    monkeypatch.setattr(array, "FULL_REGISTERS", 0)
    lean = systolic.simulate(a, b, **machine)
    for t in range(full.cycles):
        for register in ("held", "right", "down"):
            kept, looked_up = (getattr(trace.registers(t), register) for trace in (full, lean))
            assert kept.dtype == accumulator
            assert kept.tobytes() == looked_up.tobytes()
    for trace in (full, lean):
        report = trace.verify(cycle=full.cycles // 2)
        assert report.passed, repr(report)


@pytest.mark.parametrize("kind", FLOATS)
def test_products_are_not_rounded_to_the_narrow_type(kind: str) -> None:
    narrow = getattr(ml_dtypes, kind)
    one_and_a_bit = narrow(1) + ml_dtypes.finfo(narrow).eps
    a = np.full((1, 2), one_and_a_bit, narrow)
    trace = systolic.simulate(a, a.T, rows=2, cols=1)
    assert trace.result.item() == 2 * float(one_and_a_bit) ** 2
    assert trace.result.item() != float(narrow(trace.result.item()))


def test_a_narrow_product_that_a_fault_spoils_is_told() -> None:
    a, b = operands("bfloat16")
    trace = systolic.simulate(a, b, rows=3, cols=2, fault=systolic.Fault("stuck_cell", 1, 1))
    says = trace.verify().checks[0].says
    assert "10 wrong within rows 0 to 4 and columns 1 to 3" in says


def test_two_types_run_in_a_common_one_and_are_named_where_there_is_none() -> None:
    a, b = operands("bfloat16")[0], operands("float8_e5m2")[1]
    try:
        np.result_type(a, b)  # ml_dtypes knows one for these two since 0.7
    except TypeError:
        with pytest.raises(ValueError, match=r"a holds bfloat16 and b holds float8_e5m2.*convert one"):
            systolic.simulate(a, b, rows=2, cols=2)
    else:
        run = systolic.simulate(a, b, rows=2, cols=2)
        wide = systolic.simulate(a.astype(np.float32), b.astype(np.float32), rows=2, cols=2)
        assert run.result.dtype == np.float32 and run.result.tobytes() == wide.result.tobytes()
