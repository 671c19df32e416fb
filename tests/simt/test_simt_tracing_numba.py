"""The same function objects through Numba: run by its CUDA simulator, typed by its CUDA compiler.

Neither needs a GPU. The simulator computes with NumPy's types and gives results; the compiler gives the types
that a GPU would compute with, and would refuse what Numba does not take.
"""

from __future__ import annotations

import importlib.util
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from idiom_kernels import IDIOMS
from numba_answers import VARIABLES, small_lessons
from tracing_naive import kernel_of

from pulsewarp import simt
from pulsewarp.simt import cuda
from pulsewarp.simt.tracing import _values

pytestmark = pytest.mark.exhaustive
needs_numba = pytest.mark.skipif(
    importlib.util.find_spec("numba") is None or importlib.util.find_spec("numba.cuda") is None,
    reason="Numba with its CUDA simulator is in the group test, not in this environment",
)

LESSONS = small_lessons()
# What Numba 0.68 gives; the compiler is asked again below. Left out: min, max and int, whose compilation asks
# for a driver.
TYPES = {
    "i32 + i32": "int64", "i32 * i64": "int64", "i16 + i16": "int64", "u32 + u32": "uint64",
    "u32 + i32": "int64", "u64 + i64": "int64", "b + b": "int64", "b * i32": "int64", "f32 + f32": "float32",
    "f32 * f64": "float64", "f32 + i32": "float64", "f32 + i64": "float64", "f32 * 2": "float64",
    "f32 * 0.5": "float64", "i32 / i32": "float64", "f32 / f32": "float32", "f32 / i32": "float64",
    "i32 // i32": "int64", "f32 // f32": "float32", "i32 % i32": "int64", "f32 % f32": "float32",
    "f32 ** 2": "float32", "f32 ** i32": "float32", "i32 ** 2": "int64", "f64 ** 2": "float64",
    "f32 ** f32": "float32", "i32 ** i32": "int64", "-i32": "int64", "-f32": "float32", "-b": "int64",
    "~i32": "int64", "i32 & i32": "int64", "b & b": "bool", "i32 << i32": "int64", "u32 >> i32": "uint64",
    "i32 | i64": "int64", "math.sqrt(f32)": "float32", "math.sqrt(i32)": "float64",
    "math.exp(f64)": "float64", "math.floor(f32)": "float32", "math.ceil(f64)": "float64",
    "math.trunc(f32)": "float32", "math.pow(f32, f32)": "float32", "math.atan2(f32, f64)": "float64",
    "math.fabs(i32)": "float64", "math.isnan(f32)": "bool", "abs(i32)": "int32", "abs(f32)": "float32",
    "float(f32)": "float32", "float(i32)": "float64", "bool(i32)": "bool", "np.float32(i64)": "float32",
    "np.int32(f64)": "int32", "f32 < i32": "bool", "i32 == i32": "bool", "f32 > 0 and i32 > 0": "bool",
    "f32 if b else f64": "float64", "i32 if b else f32": "float64", "not b": "bool", "i16 + f32": "float32",
    "f32 - i16": "float32", "u32 - u32": "uint64", "u32 * f32": "float64", "pow(f32, 2)": "float32",
    "f32 + b": "float32", "f32 * f32 + f64": "float64", "f32 * f32 + f32": "float32",
}  # fmt: skip


def ask(*words: str) -> Any:
    """Return Numba's answers."""
    script = Path(__file__).with_name("numba_answers.py")
    answer = subprocess.run(
        [sys.executable, str(script), *words], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def simulated() -> Any:
    return ask("simulate")


@pytest.fixture(scope="module")
def compiled() -> Any:
    return ask("compile")


@needs_numba
@pytest.mark.parametrize("name", LESSONS)
def test_numbas_simulator_and_numpy_and_the_tracer_agree(name: str, simulated: Any) -> None:
    lesson = LESSONS[name]
    run = lesson.trace()
    np.testing.assert_array_equal(run.results[lesson.output], lesson.expected)
    np.testing.assert_array_equal(run.results[lesson.output], np.array(simulated[name]))


@needs_numba
@pytest.mark.parametrize("name", [name for name, idiom in IDIOMS.items() if idiom.simulated])
def test_numbas_simulator_agrees_on_what_people_write(name: str, simulated: Any) -> None:
    idiom = IDIOMS[name]
    run = simt.trace_kernel(idiom.kernel, grid=idiom.grid, block=idiom.block, args=idiom.args)
    found = run.results[idiom.kernel.__code__.co_varnames[idiom.output]]
    np.testing.assert_allclose(found, np.array(simulated[name]), rtol=0, atol=idiom.tolerance)


@needs_numba
def test_numbas_simulator_stops_at_the_same_thread_and_index(simulated: Any) -> None:
    (problem,) = simt.lesson_kernels.LESSONS["out_of_bounds"].trace().problems
    said = simulated["out_of_bounds"]
    assert f"tid={list(problem.thread)} ctaid={list(problem.block)}" in said
    assert problem.index is not None and f"index {problem.index[0]} is out of bounds" in said


def check_types(run: simt.KernelTrace, types: dict[str, str]) -> None:
    """Hold the type of every variable that a traced kernel computes to Numba's."""
    held = 0
    for warp in run.warps:
        for i in warp.instructions:
            if i.dst in types and i.values is not None and i.what != "atomic":
                assert i.values.dtype.name == types[i.dst], f"{i.dst} in {run.name}: {i.text}"
                held += 1
    assert held


@needs_numba
@pytest.mark.parametrize("name", simt.lesson_kernels.LESSONS)
def test_numba_compiles_the_kernel_for_a_gpu_with_the_same_types(name: str, compiled: Any) -> None:
    check_types(simt.lesson_kernels.LESSONS[name].trace(), compiled[name])


def dtype_of(expression: str) -> str:
    """Return the type that the tracer gives an expression."""
    body = f"    v = {expression}\n    w = 0\n    for r in range(out.size):\n        w = v\n"
    kernel = kernel_of(f"def k({', '.join(VARIABLES)}, out):\n{body}", cuda=cuda, math=math)
    kinds = (np.int16, np.int32, np.int64, np.uint32, np.uint64, np.bool_, np.float32, np.float64)
    args = (*(kind(1) for kind in kinds), np.zeros(1))
    run = simt.trace_kernel(kernel, grid=1, block=1, args=args)
    found = [i.values.dtype.name for i in run.warps[0].instructions if i.dst == "v" and i.values is not None]
    return found[-1]


@pytest.mark.parametrize("expression", TYPES)
def test_an_expression_has_the_type_that_numba_gives_it(expression: str) -> None:
    assert dtype_of(expression) == TYPES[expression]


@needs_numba
def test_another_type_of_a_variable_would_be_seen(compiled: Any) -> None:
    run = simt.lesson_kernels.LESSONS["tiled_transpose"].trace()
    with pytest.raises(AssertionError):
        check_types(run, {**compiled["tiled_transpose"], "tx": "int64"})


def test_the_types_of_numpy_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_values, "joint_type", np.result_type)  # NumPy adds two int32 in 32 bits
    assert dtype_of("i32 + i32") != TYPES["i32 + i32"]


@needs_numba
def test_numba_still_gives_these_types() -> None:
    assert ask("types", *TYPES) == TYPES
