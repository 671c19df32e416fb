"""What memory holds in every cycle of a timed kernel, against the results and counts made otherwise."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pulsewarp import simt
from pulsewarp.simt import cuda
from pulsewarp.simt.tracing.replay import Replay

pytestmark = pytest.mark.exhaustive

LESSONS = simt.lesson_kernels.LESSONS
N = 4


def twice(v):  # type: ignore[no-untyped-def]
    w = v + v
    w += 0
    return w


def many_kinds(x, y, cube, flag, n, out):  # type: ignore[no-untyped-def]
    own = cuda.local.array((2, N), np.float64)
    i = cuda.grid(1)
    for j in range(2):
        for k in range(N):
            own[j, k] = math.sqrt(x[i % 6, k % 3]) + j
    if i < n:
        out[i] = twice(own[1, i % N]) + cube[i % 2, i % 3, 1]
        flag[i] = out[i] > 2
        y[i, 0] = np.float64(i)


def float_sums(x, out):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    cuda.atomic.add(out, 0, x[i])
    cuda.atomic.exch(out, 1, x[i])
    cuda.atomic.max(out, 2, x[i])


def locked(x, out):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    old = cuda.atomic.cas(out, 0, 0, i + 1)
    if old == 0:
        out[1] = x[i]


def same_array(x, y):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] + 1


def own_runs() -> dict[str, simt.KernelTrace]:
    tenths = (np.arange(192) * 0.1).astype(np.float32)
    fortran = np.asfortranarray(np.arange(18, dtype=np.float64).reshape(6, 3))
    given = (
        fortran,
        np.full((100, 3), np.nan, order="F"),
        np.arange(12).reshape(2, 3, 2),
        np.zeros(100, bool),
    )
    x = np.arange(40, dtype=np.float32)
    return {
        "many kinds": simt.trace_kernel(
            many_kinds, grid=2, block=48, args=(*given, np.int64(96), np.zeros(100))
        ),
        "float sums": simt.trace_kernel(float_sums, grid=3, block=64, args=(tenths, np.zeros(3, np.float32))),
        "locked": simt.trace_kernel(locked, grid=1, block=32, args=(x.astype(int), np.zeros(2, int))),
        "one array twice": simt.trace_kernel(same_array, grid=1, block=64, args=(x, x)),
    }


OWN = ("many kinds", "float sums", "locked", "one array twice")
NAMES = (*(n for n in LESSONS if "transpose" not in n), *OWN)  # those whose blocks are all on one SM


@functools.cache
def traced(name: str) -> simt.KernelTrace:
    return LESSONS[name].trace() if name in LESSONS else own_runs()[name]


def replayed(kernel: simt.KernelTrace, expected: Mapping[str, Any] | None = None, **timing: Any) -> Replay:
    blocks = timing.get("blocks")
    trace = kernel.simulate(**timing, until_stop=True)
    return Replay(kernel, trace, kernel.resident_warps(blocks), dict(expected or {}))


def differences(run: Replay) -> list[str]:
    """Name the arguments that end otherwise than the kernel left them, following the changes one by one."""
    held = {
        array: np.array(one.before, np.float64)
        for array, one in enumerate(run.arrays)
        if one.before is not None
    }
    changes = run.changes
    for array, element, value in zip(changes.array, changes.element, changes.value, strict=True):
        if array in held:
            held[array][element] = value
    wrong = []
    for array, found in held.items():
        for name in run.arrays[array].names:
            shape, strides = run.arrays[array].memory.shape, run.arrays[array].memory.strides
            places = sum(i * stride for i, stride in zip(np.indices(shape), strides, strict=True))
            left = run.kernel.results[name].astype(np.float64)
            if not np.array_equal(found[places], left, equal_nan=True):
                wrong.append(name)
    return wrong


@pytest.mark.parametrize("name", NAMES)
def test_memory_ends_as_the_kernel_left_it_whatever_the_schedule(name: str) -> None:
    kernel = traced(name)
    for timing in ({"policy": "gto", "schedulers": 1}, {"policy": "gty", "load_latency": 1}):
        assert differences(replayed(kernel, **timing)) == [], timing


@pytest.mark.parametrize("name", [n for n in NAMES if n != "divergent_barrier"])
def test_every_check_holds(name: str) -> None:
    kernel = traced(name)
    lesson = LESSONS.get(name)
    right = lesson is not None and lesson.mistake is None
    expected = {lesson.output: lesson.expected} if lesson is not None and right else {}
    report = replayed(kernel, expected).verify()
    assert report.passed, report
    assert len(report.checks) == 7 + len(expected)


def test_a_race_is_told_where_loads_read_something_else() -> None:
    report = replayed(LESSONS["missing_barrier"].trace()).verify()
    (loads,) = [check for check in report.checks if check.name == "loads"]
    assert "of tile, for which threads race" in loads.says


def test_a_wrong_result_is_found() -> None:
    lesson = LESSONS["saxpy"]
    wrong = lesson.expected.copy()
    wrong[7] += 1
    report = replayed(lesson.trace(), {"y": wrong}).verify()
    (found,) = [check for check in report.checks if not check.passed]
    assert found.name == "y against NumPy" and found.says.startswith("299 of 300 elements")


def test_elements_that_other_blocks_write_are_told_and_left_out() -> None:
    report = replayed(LESSONS["vector_add"].trace(), blocks=[1]).verify()
    assert report.passed
    assert report.checks[0].says.endswith("blocks that are not shown write 172 more")


# --- scores ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_scores_of_lines_end_at_those_of_the_kernel_and_never_fall(name: str) -> None:
    kernel = traced(name)
    run = replayed(kernel)
    cycles = np.arange(run.cycles)
    lines, counts = run.lines(cycles)
    own = [(s.line, s.instructions, s.lanes_on, s.lanes_off, s.sectors, s.least_sectors, s.wavefronts,
            s.least_wavefronts) for s in kernel.lines()]  # fmt: skip
    assert [(line, *row) for line, row in zip(lines, counts[-1].tolist(), strict=True)] == own
    assert (np.diff(counts, axis=0) >= 0).all()
    # Counted otherwise: instructions of a line by the end of a cycle.
    for t in (0, run.cycles // 3, run.cycles // 2):
        issued = [run.instruction(w, pc).line for u, w, pc in run.issues.tolist() if u <= t]
        assert counts[t, :, 0].tolist() == [issued.count(line) for line in lines]


def test_an_access_needs_no_fewer_than_the_least() -> None:
    for kernel in map(traced, NAMES):
        for warp in kernel.warps:
            for i in warp.instructions:
                many = i.sectors if i.sectors is not None else i.wavefronts
                assert (many is None) == (i.least is None)
                assert many is None or i.least is None or many >= i.least >= 1


# --- a kernel that stops -----------------------------------------------------------------------------------


def test_a_kernel_that_stops_is_timed_up_to_there() -> None:
    kernel = LESSONS["divergent_barrier"].trace()
    assert [warp.stopped for warp in kernel.warps] == [True, True, False, False]
    trace = kernel.simulate(until_stop=True)
    barrier, issues = simt.STATES.index("barrier"), simt.STATES.index("issues")
    for w in (0, 1):
        last = int(np.flatnonzero(trace.state[:, w] == issues)[-1])
        assert (trace.state[last + 1 :, w] == barrier).all() and last + 1 < trace.cycles
        assert (trace.until[last + 1 :, w] == -1).all()
    assert replayed(kernel).verify().passed


def test_other_blocks_go_on_where_one_stops() -> None:
    def stops(x, out):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        if cuda.blockIdx.x == 0:
            if cuda.threadIdx.x < 32:
                cuda.syncthreads()
            else:
                cuda.syncthreads()
        out[i] = x[i]

    x = np.arange(128, dtype=np.float32)
    kernel = simt.trace_kernel(stops, grid=2, block=64, args=(x, np.zeros_like(x)))
    trace = kernel.simulate(until_stop=True)
    told = [simt.STATES[code] for code in trace.state[-1]]
    assert told == ["barrier", "barrier", "finished", "finished"]
    assert kernel.results["out"][64:].tolist() == x[64:].tolist() and not kernel.results["out"][:64].any()
    assert differences(replayed(kernel)) == []


# --- what the trace keeps of its call ----------------------------------------------------------------------


def test_a_trace_keeps_what_was_passed_and_what_the_source_names() -> None:
    kernel = traced("many kinds")
    assert kernel.arguments["n"] == 96
    assert np.isnan(kernel.arguments["y"]).all() and not np.isnan(kernel.results["y"][:96, 0]).any()
    assert not kernel.arguments["y"].flags.writeable
    assert [helper.name for helper in kernel.helpers] == ["twice"]
    assert set(kernel.outside) == {"cuda", "np", "math", "twice", "N"}
    inside = next(score for score in kernel.lines() if score.source.strip() == "w = v + v")
    assert inside.instructions == 4


# --- planted faults ----------------------------------------------------------------------------------------


def spoilt(run: Replay, **changed: Any) -> Replay:
    return Replay(run.kernel, replace(run.trace, **changed), run.warps, run.expected)


def without(run: Replay, w: int, pc: int) -> NDArray[np.int32]:
    """Return the issues without one of them."""
    issued = run.trace.issued.copy()
    t = next(t for t, v, at in run.issues.tolist() if (v, at) == (w, pc))
    issued[t, issued[t] == w] = -1
    return issued


FAULTS: dict[str, tuple[str, Callable[[Replay], Replay]]] = {
    "a slot lost": ("slots", lambda run: spoilt(run, issued=without(run, 0, 5))),
    "early operands": (
        "operands",
        lambda run: spoilt(
            run,
            programs=tuple(tuple(replace(i, latency=i.latency + 1) for i in p) for p in run.trace.programs),
        ),
    ),
    "a busy unit taken": (
        "memory unit",
        lambda run: spoilt(
            run,
            programs=tuple(
                tuple(replace(i, interval=i.interval + 9) if i.unit == "mem" else i for i in p)
                for p in run.trace.programs
            ),
        ),
    ),
    "one block taken for two": (
        "barriers",
        lambda run: spoilt(run, blocks=(0,) * len(run.trace.blocks)),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_mutant_a_spoilt_clock_is_found(fault: str) -> None:
    name, plant = FAULTS[fault]
    lesson = LESSONS["shared_histogram"]
    run = replayed(lesson.trace(), {lesson.output: lesson.expected})
    if name == "barriers":  # blocks one after the other, so that one barrier for all would have to open later
        run = replayed(lesson.trace(), schedulers=1, policy="oldest", load_latency=200)
    found = {check.name for check in plant(run).verify().checks if not check.passed}
    assert name in found


def test_mutant_changes_in_another_order_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    run = replayed(LESSONS["shared_histogram"].trace())
    changes = run.changes
    order = np.arange(changes.value.size)[::-1]
    turned = replace(changes, value=changes.value[order])
    monkeypatch.setitem(run.__dict__, "changes", turned)
    assert differences(run) and not run.verify().passed
