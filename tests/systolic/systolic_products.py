"""The house's vocabulary of small products, how one is run, and the golden traces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from pulsewarp import systolic

ELEMENTS = {
    "int8": st.integers(-128, 127),
    "int64": st.integers(-(2**20), 2**20),
    "float16": st.floats(-100, 100, width=16),
    "float32": st.floats(-1000, 1000, width=32),
    "float64": st.floats(-1000, 1000),
}
GOLDEN = json.loads((Path(__file__).parents[1] / "reference" / "systolic_trace_golden.json").read_text())[
    "cases"
]
Product = tuple[np.ndarray, np.ndarray, int, int, str]


@st.composite
def products(draw: st.DrawFn, types: tuple[str, ...] = tuple(ELEMENTS)) -> Product:
    """A small product, an array for it and a dataflow."""
    m, k, n = (draw(st.integers(1, 7)) for _ in range(3))
    kind = draw(st.sampled_from(types))
    a = draw(arrays.arrays(kind, (m, k), elements=ELEMENTS[kind]))
    b = draw(arrays.arrays(kind, (k, n), elements=ELEMENTS[kind]))
    return a, b, draw(st.integers(1, 5)), draw(st.integers(1, 5)), draw(st.sampled_from(["ws", "os", "is"]))


def run(product: Product, **options: Any) -> systolic.SystolicTrace:
    a, b, rows, cols, dataflow = product
    return systolic.simulate(a, b, rows=rows, cols=cols, dataflow=dataflow, **options)


def assert_golden(case: dict[str, Any], **options: Any) -> None:
    """Hold one golden trace to the simulator: result, folds, every MAC and every exit in its cycle."""
    trace = systolic.simulate(
        case["A"], case["B"], rows=case["rows"], cols=case["cols"], dataflow=case["dataflow"], **options
    )
    assert trace.result.tolist() == case["result"]
    assert trace.cycles == case["total_cycles"] == len(case["cycles"])
    folds = [
        {"start": f.start, "length": f.cycles, "row0": f.row0, "rows": f.rows, "col0": f.col0, "cols": f.cols}
        for f in trace.folds
    ]
    assert folds == case["folds"]
    assert trace.macs().tolist() == [[c["cycle"], *mac] for c in case["cycles"] for mac in c["macs"]]
    assert trace.exits().tolist() == [[c["cycle"], *leaves] for c in case["cycles"] for leaves in c["exits"]]
    final = {(m, n): cycle for cycle, _, m, n, last in trace.exits().tolist() if last}
    assert [[final[m, n] for n in range(case["N"])] for m in range(case["M"])] == case["final_exit_cycle"]
    phases = [systolic.PHASES[p] for p in trace.phase[: case["fold_cycles"]]]
    assert phases.count("load") == case["load_cycles_per_fold"]
