"""Kernels as people write them: results, no false alarms, and what goes wrong when a line is missing."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import idiom_kernels
import numpy as np
import pytest
from idiom_kernels import IDIOMS, Idiom
from tracing_naive import kernel_of

from pulsewarp import simt
from pulsewarp.simt import cuda
from pulsewarp.simt.tracing import _warp

X = np.arange(64, dtype=np.float32)


def run_of(one: Idiom, kernel: Callable[..., Any] | None = None) -> tuple[simt.KernelTrace, Any]:
    run = simt.trace_kernel(kernel or one.kernel, grid=one.grid, block=one.block, args=one.args)
    return run, run.results[one.kernel.__code__.co_varnames[one.output]]


def holds(one: Idiom, found: Any) -> bool:
    return bool((np.abs(found.astype(np.float64) - one.expected) <= one.tolerance).all())


@pytest.mark.parametrize("name", IDIOMS)
def test_an_idiom_gives_what_numpy_gives_and_raises_no_alarm(name: str) -> None:
    run, found = run_of(IDIOMS[name])
    assert holds(IDIOMS[name], found), found
    assert run.problems == ()
    assert run.simulate().cycles > 0


def changed(name: str, old: str, new: str) -> Callable[..., Any]:
    """Return an idiom's kernel with one of its lines changed."""
    source = textwrap.dedent(inspect.getsource(IDIOMS[name].kernel))
    source = source[source.index("def ") :]
    assert old in source
    source = source.replace(old, new, 1).replace(f"def {name}(", "def k(", 1)
    return kernel_of(source, **{n: v for n, v in vars(idiom_kernels).items() if not n.startswith("__")})


MISTAKES = [
    # What is missing or wrong, and the two lines (as they begin) between which there is a race.
    ("softmax", "    most = shared[0]\n    cuda.syncthreads()\n", "    most = shared[0]\n",
     ("shared[tid] = total", "most = shared[0]")),
    ("bitonic_sort", "            cuda.syncthreads()\n", "",
     ("sh[tid], sh[other] =", "sh[tid], sh[other] =")),
    ("stencil_with_halo", "    cuda.syncthreads()\n", "", ("tile[t", "total += tile[t + k]")),
    ("prefix_scan", "        cuda.syncthreads()\n        offset", "        offset",
     ("temp[into, tid] =", "temp[into, tid] =")),
    ("game_of_life", "out[y, x] =", "cells[y, x] =", ("cells[y, x] =", "alive_around += cells[")),
    ("all_atomics", "cuda.atomic.add(out, 0, 0)", "out[0]", ("if cuda.atomic.cas(", "old = out[0]")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "old", "new", "between"), MISTAKES, ids=[m[0] for m in MISTAKES])
def test_a_missing_line_is_a_race_between_two_named_accesses(
    name: str, old: str, new: str, between: tuple[str, str]
) -> None:
    kernel = changed(name, old, new)
    run, _ = run_of(IDIOMS[name], kernel)
    races = [p for p in run.problems if p.kind == "race"]
    lines = inspect.getsource(kernel).splitlines()
    pairs = {tuple(sorted(lines[t.line - 1].strip() for t in p.touches)) for p in races}
    assert any(all(any(line.startswith(word) for line in pair) for word in between) for pair in pairs), pairs


def test_a_lane_that_takes_no_part_in_a_shuffle_is_told() -> None:
    source = (
        "def k(x, out):\n    i = cuda.grid(1)\n    if i < 20:\n"
        "        out[i] = cuda.shfl_down_sync(0xffffffff, x[i], 4)\n"
    )
    run = simt.trace_kernel(kernel_of(source, cuda=cuda), grid=1, block=32, args=(X, X * 0))
    assert [p.kind for p in run.problems] == ["divergent_syncwarp", "inactive_lane"]
    assert "without thread 20" in run.problems[0].text
    assert "thread 16 of block 0 takes its value from lane 20" in run.problems[1].text
    assert run.problems[1].count == 4
    there = source.replace("0xffffffff", "cuda.activemask()").replace("4)", "0)")
    assert simt.trace_kernel(kernel_of(there, cuda=cuda), grid=1, block=32, args=(X, X * 0)).problems == ()


def test_an_array_chosen_in_some_threads_only_is_refused() -> None:
    source = (
        "def k(x, out):\n    i = cuda.grid(1)\n    p = x\n    if i < 4:\n        p = out\n    out[i] = p[i]\n"
    )
    with pytest.raises(ValueError, match="Line 5 of k gives p another array in some threads only"):
        simt.trace_kernel(kernel_of(source, cuda=cuda), grid=1, block=32, args=(X, X * 0))


def test_an_order_by_fences_is_not_followed_and_said_so() -> None:
    source = (
        "def k(part, out):\n    b = cuda.blockIdx.x\n    part[b] = b\n    cuda.threadfence()\n"
        "    if cuda.atomic.add(out, 0, 1) == 1:\n        out[1] = part[0] + part[1]\n"
    )
    run = simt.trace_kernel(kernel_of(source, cuda=cuda), grid=2, block=1, args=(X[:2], X[:2] * 0))
    (race,) = run.problems
    assert "an order made by threadfence and atomics is not followed here" in race.text


def test_names_imported_from_cuda_are_cudas() -> None:
    source = "def k(x, out):\n    i = grid(1)\n    out[i] = x[i] + threadIdx.x\n    syncthreads()\n"
    kernel = kernel_of(source, grid=cuda.grid, threadIdx=cuda.threadIdx, syncthreads=cuda.syncthreads)
    run = simt.trace_kernel(kernel, grid=1, block=32, args=(X, X * 0))
    np.testing.assert_array_equal(run.results["out"][:32], 2 * X[:32])
    assert run.warps[0].instructions[-1].what == "barrier"


def filled(v: Any, low: Any = 0) -> Any:
    return max(v, low)


def test_a_default_is_left_to_be_given_as_numba_has_it() -> None:
    kernel = kernel_of("def k(out):\n    out[0] = filled(out[1] - 2)\n", filled=filled)
    with pytest.raises(ValueError, match="1 arguments, but it has 2; Numba fills in no defaults"):
        simt.trace_kernel(kernel, grid=1, block=1, args=(X,))
    kernel = kernel_of("def k(out):\n    out[0] = filled(out[1] - 2, 0)\n", filled=filled)
    assert simt.trace_kernel(kernel, grid=1, block=1, args=(X,)).results["out"][0] == 0


MUTANTS = [
    ("warp_sum", _warp.SHUFFLES, "shfl_down_sync", lambda lane, by: lane - by),
    ("lanes_ask_each_other", _warp.SHUFFLES, "shfl_sync", lambda lane, by: by),
    ("lanes_ask_each_other", _warp.VOTES, "eq_sync", lambda yes, all_: yes == all_ or yes > 0),
    ("lanes_ask_each_other", _warp.VOTES, "all_sync", lambda yes, all_: yes > 0),
    ("bits", _warp.BITS, "ffs", lambda bits: len(bits) - len(bits.rstrip("0"))),
    ("all_atomics", _warp.ATOMICS, "xor", lambda old, v: old | v),
    ("all_atomics", _warp.ATOMICS, "cas", lambda old, v, expected: v),
]


@pytest.mark.parametrize(("name", "table", "key", "wrong"), MUTANTS, ids=[f"{m[0]} {m[2]}" for m in MUTANTS])
def test_a_wrong_rule_would_be_seen(
    name: str, table: Any, key: str, wrong: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(table, key, wrong)
    _, found = run_of(IDIOMS[name])
    assert not holds(IDIOMS[name], found)
