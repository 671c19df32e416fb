"""Run as a program: what Numba says of the lesson kernels and of types, printed as one JSON line.

    python numba_answers.py simulate    results of the lesson kernels in Numba's CUDA simulator
    python numba_answers.py compile     types of the lesson kernels' variables, from Numba's compiler for CUDA
    python numba_answers.py types E...  types of expressions E over the variables of `VARIABLES`

Numba decides when it is imported whether its simulator stands in for a GPU, so each is a process of its own.
"""

from __future__ import annotations

import json
import math
import os
import sys
from dataclasses import replace
from typing import Any

import numpy as np

VARIABLES = ("i16", "i32", "i64", "u32", "u64", "b", "f32", "f64")


def small_lessons() -> dict[str, Any]:
    """Return the correct lessons, the largest at a size that the simulator runs soon."""
    from pulsewarp.simt import lesson_kernels

    lessons = {name: lesson for name, lesson in lesson_kernels.LESSONS.items() if lesson.mistake is None}
    for kernel in (lesson_kernels.naive_product, lesson_kernels.tiled_product):
        lessons[kernel.__name__] = lesson_kernels.product(kernel, m=10, k=18, n=20)
    picture = (np.arange(20 * 30, dtype=np.float32) % 17).reshape(20, 30)
    for name in ("naive_transpose", "tiled_transpose", "padded_transpose"):
        lessons[name] = replace(
            lessons[name], grid=1, args=(picture, np.zeros((30, 20), np.float32)), expected=picture.T.copy()
        )
    return lessons


def simulated() -> dict[str, Any]:
    from idiom_kernels import IDIOMS
    from numba.cuda.simulator.kernelapi import FakeCUDAModule

    from pulsewarp import simt

    # The simulator has no barrier of a warp. In the one kernel with such barriers only one warp is left by
    # then, and the simulator's block barrier waits for those threads that have not ended.
    FakeCUDAModule.syncwarp = lambda self: self.syncthreads()
    answers = {}
    for name, lesson in small_lessons().items():
        args = [a.copy() if isinstance(a, np.ndarray) else a for a in lesson.args]
        simt.compile_kernel(lesson.kernel)[lesson.grid, lesson.block](*args)
        # Its `cuda` is Numba's now; the tracer reads that as well.
        np.testing.assert_array_equal(lesson.trace().results[lesson.output], lesson.expected)
        place = lesson.kernel.__code__.co_varnames.index(lesson.output)
        answers[name] = args[place].tolist()
    for name, idiom in IDIOMS.items():
        if idiom.simulated:
            given = [a.copy() for a in idiom.args]
            simt.compile_kernel(idiom.kernel)[idiom.grid, idiom.block](*given)
            answers[name] = given[idiom.output].tolist()
    bounds = simt.lesson_kernels.LESSONS["out_of_bounds"]
    try:
        simt.compile_kernel(bounds.kernel)[bounds.grid, bounds.block](*(a.copy() for a in bounds.args))
    except IndexError as refusal:
        answers["out_of_bounds"] = str(refusal)
    return answers


def compiled() -> dict[str, Any]:
    import numba
    from numba.cuda.compiler import compile_cuda

    from pulsewarp import simt

    answers = {}
    for name, lesson in simt.lesson_kernels.LESSONS.items():
        simt.compile_kernel(lesson.kernel)
        given = tuple(numba.typeof(a.copy() if isinstance(a, np.ndarray) else a) for a in lesson.args)
        found = compile_cuda(lesson.kernel, numba.types.void, given, cc=(8, 0)).type_annotation.typemap
        answers[name] = {v: str(getattr(t, "literal_type", t)) for v, t in found.items() if v.isidentifier()}
    return answers


def typed(expressions: list[str]) -> dict[str, str]:
    from numba import types
    from numba.cuda.compiler import compile_cuda

    kinds = ("int16", "int32", "int64", "uint32", "uint64", "boolean", "float32", "float64")
    given = (*(getattr(types, kind) for kind in kinds), types.float64[:])
    body = "".join(f"    v{n} = {e}\n    out[0] = v{n}\n" for n, e in enumerate(expressions))
    space: dict[str, Any] = {"np": np, "math": math}
    exec(f"def k({', '.join(VARIABLES)}, out):\n{body}", space)
    found = compile_cuda(space["k"], types.void, given, cc=(8, 0)).type_annotation.typemap
    return {e: str(found[f"v{n}"]) for n, e in enumerate(expressions)}


if __name__ == "__main__":
    if sys.argv[1] == "simulate":
        os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
    answers = {"simulate": simulated, "compile": compiled, "types": lambda: typed(sys.argv[2:])}[
        sys.argv[1]
    ]()
    print(json.dumps(answers))
