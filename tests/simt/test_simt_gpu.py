"""A kernel on a real GPU: run through Numba's simulator here, and honest where there is nothing to run on."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from pulsewarp import simt
from pulsewarp.simt import cuda
from pulsewarp.simt.tracing import gpu
from pulsewarp.simt.tracing.result import same_numbers

LESSONS = simt.lesson_kernels.LESSONS

ON_SIMULATOR = """
import numpy as np
from pulsewarp import simt
for name in ("vector_add", "sequential_sum", "shared_histogram", "padded_transpose"):
    lesson = simt.lesson_kernels.LESSONS[name]
    ran = simt.run_on_gpu(lesson.kernel, grid=lesson.grid, block=lesson.block, args=lesson.args)
    right = np.allclose(ran.results[lesson.output], lesson.expected)
    print(name, right, ran.compare(lesson.trace()), sep=": ")
x = np.zeros(4, np.float32)
one = simt.run_on_gpu(simt.lesson_kernels.vector_add, grid=1, block=32, args=(x + 1, x, x))
print(one.results["y"].tolist(), one.results["out"].tolist(), x.tolist())
"""


@pytest.mark.exhaustive
def test_the_same_function_gives_the_same_numbers_where_numba_can_run_it() -> None:
    pytest.importorskip("numba", reason="Numba is in the test group; here it is not installed")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ON_SIMULATOR],
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *lines, aliased = done.stdout.splitlines()
    for line in lines:
        assert ": True: Numba's own simulator, no GPU left the same numbers as the trace in " in line
    assert len(lines) == 4
    assert aliased == "[1.0, 1.0, 1.0, 1.0] [1.0, 1.0, 1.0, 1.0] [0.0, 0.0, 0.0, 0.0]"


def keep(x, out):
    i = cuda.grid(1)
    if i < x.shape[0]:
        out[i] = x[i]


def run(device: str = "a GPU", **results: object) -> gpu.GpuRun:
    arrays = {name: np.array(values, np.float32) for name, values in results.items()}
    return gpu.GpuRun("vector_add", device, arrays, "")


def added() -> simt.KernelTrace:
    x = np.ones(3, np.float32)
    return simt.trace_kernel(
        simt.lesson_kernels.vector_add, grid=1, block=32, args=(x, x, np.zeros(3, np.float32))
    )


def test_a_number_that_differs_is_named_and_rounding_is_not() -> None:
    assert run(out=[2, 2, 2.1]).compare(added()) == "a GPU left 2.0999999046325684 in out[2], the trace 2.0."
    assert run(out=[2, np.nan, 2]).compare(added()).startswith("a GPU left nan in out[1]")
    assert run(out=[2, 2, 2.000001]).compare(added()) == "a GPU left the same numbers as the trace in out."


def test_what_rounding_may_do_follows_the_type_and_the_size_of_the_numbers() -> None:
    """A sum in another order agrees, in every type; a count that is one off does not, however large."""
    terms = np.random.default_rng(4).normal(size=(256, 500))
    for dtype, off in ((np.float16, 1.1), (np.float32, 1.0001), (np.float64, 1 + 1e-12)):
        one, other = np.zeros(500, dtype), np.zeros(500, dtype)
        for row in terms.astype(dtype):
            one += row
        for row in terms.astype(dtype)[::-1]:
            other += row
        assert (one != other).any()
        traced = simt.trace_kernel(keep, grid=16, block=32, args=(one, one.copy()))
        assert same_numbers(traced, "out", other).all(), dtype
        assert not same_numbers(traced, "out", other * dtype(off)).all(), dtype
    counts = np.arange(1.0, 500, dtype=np.float32) * 40
    traced = simt.trace_kernel(keep, grid=16, block=32, args=(counts, counts.copy()))
    assert not same_numbers(traced, "out", counts + 1).any()
    whole = simt.trace_kernel(keep, grid=1, block=32, args=(np.full(9, 2**40), np.full(9, 2**40)))
    assert not same_numbers(whole, "out", np.full(9, 2**40 + 1)).any()
    mixed = simt.trace_kernel(keep, grid=1, block=32, args=(np.full(9, 0.1, np.float32), np.zeros(9)))
    assert same_numbers(mixed, "out", np.full(9, 0.1)).all(), "what came through float32 is not float64's"


def test_a_kernel_without_arrays_and_the_trace_of_another_launch_have_nothing_to_compare() -> None:
    assert run().compare(added()) == "There is nothing to compare: the kernel takes no array."
    for other in (run(y=[1], z=[2]), run(out=[2, 2, 2, 2])):
        with pytest.raises(ValueError, match="trace the same launch"):
            other.compare(added())


@pytest.mark.parametrize("missing", ["installed", "GPU"])
def test_where_nothing_can_run_it_no_result_is_made_up(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if missing == "installed":
        monkeypatch.setitem(sys.modules, "numba", None)
    else:
        cuda = pytest.importorskip("numba.cuda", reason="Numba is in the test group")
        monkeypatch.setattr(cuda, "is_available", lambda: False)
    lesson = LESSONS["vector_add"]
    ran = simt.run_on_gpu(lesson.kernel, grid=lesson.grid, block=lesson.block, args=lesson.args)
    assert (ran.device, dict(ran.results)) == ("", {})
    assert missing in ran.reason and repr(ran) == f"GpuRun(vector_add did not run: {ran.reason})"
    assert ran.compare(lesson.trace()) == "There is nothing to compare: it did not run on a GPU."


def test_a_gpu_that_numba_cannot_drive_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "_find_device", lambda: ("NVIDIA L4", ""))

    def fails(kernel: object) -> object:
        raise OSError("libnvvm not\nfound.")

    monkeypatch.setattr(gpu, "compile_kernel", fails)
    ran = simt.run_on_gpu(LESSONS["vector_add"].kernel, grid=1, block=32, args=(1, 2, 3))
    assert ran.reason == "NVIDIA L4 is there, but Numba could not run it (OSError: libnvvm not found)."
