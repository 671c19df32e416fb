"""The house's vocabulary of small products, and how one is run."""

from __future__ import annotations

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
