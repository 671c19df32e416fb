"""Traced kernels: results, instruction streams, what is reported, what is refused."""

from __future__ import annotations

import linecache
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tracing_naive import kernel_of

import pulsewarp
from pulsewarp import simt
from pulsewarp.simt import cuda, lesson_kernels
from pulsewarp.simt.tracing import _launch, _machine, _races

LESSONS = lesson_kernels.LESSONS
CORRECT = [name for name, lesson in LESSONS.items() if lesson.mistake is None]
X = np.arange(64, dtype=np.float32)


def trace(
    body: str, *args: Any, grid: Any = 1, block: Any = 32, names: str = "x, out", **outside: Any
) -> Any:
    """Trace a kernel of some lines with x = 0 .. 63 and an empty `out`, or with other arguments."""
    source = f"def k({names}):\n" + "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))
    args = args or (X, np.zeros(64, np.float32))
    return simt.trace_kernel(kernel_of(source, cuda=cuda, **outside), grid=grid, block=block, args=args)


def kinds(run: simt.KernelTrace) -> list[str]:
    return [problem.kind for problem in run.problems]


# --- lessons -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CORRECT)
def test_a_lesson_gives_what_numpy_gives(name: str) -> None:
    lesson = LESSONS[name]
    before = [a.copy() if isinstance(a, np.ndarray) else a for a in lesson.args]
    run = lesson.trace()
    np.testing.assert_array_equal(run.results[lesson.output], lesson.expected)
    assert run.results[lesson.output].dtype == lesson.expected.dtype
    assert run.problems == ()
    for was, now in zip(before, lesson.args, strict=True):
        np.testing.assert_array_equal(was, now)


@pytest.mark.parametrize("name", [name for name in LESSONS if name not in CORRECT])
def test_a_mistake_is_reported_first(name: str) -> None:
    lesson = LESSONS[name]
    run = lesson.trace()
    assert run.problems[0].kind == lesson.mistake
    if name != "out_of_bounds":  # there the missing neighbour counts as 0, which NumPy agrees with
        assert (run.results[lesson.output] != lesson.expected).any()


@pytest.mark.parametrize("size", [(1, 1, 1), (16, 16, 16), (17, 5, 33), (40, 64, 24)])
@pytest.mark.parametrize("kernel", [lesson_kernels.naive_product, lesson_kernels.tiled_product])
def test_a_product_of_any_size(kernel: Callable[..., Any], size: tuple[int, int, int]) -> None:
    m, k, n = size
    lesson = lesson_kernels.product(kernel, m=m, k=k, n=n)
    run = lesson.trace()
    np.testing.assert_array_equal(run.results["c"], lesson.expected)
    assert run.problems == ()


# --- laws of the streams -----------------------------------------------------------------------------------


def check_lanes(run: simt.KernelTrace) -> None:
    """Hold every instruction's lanes to its warp's threads, and all warps to the launch."""
    threads = int(np.prod(run.block))
    assert sum(warp.mask.bit_count() for warp in run.warps) == threads * int(np.prod(run.grid))
    for warp in run.warps:
        for i in warp.instructions:
            assert 0 < i.lanes <= 32 and not i.mask & ~warp.mask
            assert i.lanes == i.mask.bit_count()
            if i.elements is not None:
                assert int((i.elements >= 0).sum()) == i.lanes


@pytest.mark.parametrize("name", CORRECT)
def test_lanes_never_exceed_a_warps_threads(name: str) -> None:
    check_lanes(LESSONS[name].trace())


def test_lanes_counted_as_always_32_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simt.tracing.TracedInstruction, "lanes", property(lambda i: 32))
    with pytest.raises(AssertionError):
        check_lanes(LESSONS["vector_add"].trace())


def test_each_thread_of_a_line_is_a_lane_once() -> None:
    run = LESSONS["vector_add"].trace()  # 300 elements in 384 threads
    stores = [i for warp in run.warps for i in warp.instructions if i.what == "store"]
    assert sum(i.lanes for i in stores) == 300
    told = np.concatenate([i.elements[i.elements >= 0] for i in stores if i.elements is not None])
    assert sorted(told.tolist()) == list(range(300))


def test_a_program_follows_its_warp_instruction_by_instruction() -> None:
    for name in CORRECT:
        run = LESSONS[name].trace()
        for warp, program in zip(run.warps, run.programs, strict=True):
            assert [i.text for i in warp.instructions] == [i.text for i in program]
            assert [i.lanes for i in warp.instructions] == [i.lanes for i in program]
            bars = [i.what == "barrier" for i in warp.instructions]
            assert bars == [i.unit == "bar" for i in program]


def test_what_one_line_becomes() -> None:
    run = trace("i = cuda.grid(1)\nout[i] = x[i] * 2 + np.float32(1)")
    assert [i.text for i in run.warps[0].instructions] == [
        "IMAD i, %ctaid.x, c[ntid.x], %tid.x",
        "LDG %r0, x[i]",
        "DFMA %r1, %r0, 2, 1.0",  # float32 with an integer is float64 in Numba
        "STG out[i], %r1",
    ]
    assert run.warps[0].instructions[1].srcs == ("i",)
    np.testing.assert_array_equal(run.results["out"][:32], X[:32] * 2 + 1)


def test_both_sides_of_a_branch_run_one_after_the_other() -> None:
    run = trace("i = cuda.grid(1)\nif i < 8:\n    out[i] = 1\nelse:\n    out[i] = 2\nout[i] += 1")
    stores = [i for i in run.warps[0].instructions if i.what == "store"]
    assert [hex(i.mask) for i in stores] == ["0xff", "0xffffff00", "0xffffffff"]
    assert run.results["out"][:32].tolist() == [2.0] * 8 + [3.0] * 24


def test_a_loop_of_constant_bounds_is_written_out_and_another_is_not() -> None:
    fixed = trace("t = np.float32(0)\nfor k in range(4):\n    t += x[k]\nout[0] = t", block=1)
    open_ = trace(
        "t = np.float32(0)\nfor k in range(n):\n    t += x[k]\nout[0] = t", X, np.zeros(1, np.float32), 4,
        block=1, names="x, out, n",
    )  # fmt: skip
    assert fixed.results["out"][0] == open_.results["out"][0] == 6.0
    assert [i.what for i in fixed.warps[0].instructions] == ["load", "alu"] * 4 + ["store"]
    assert [i.what for i in open_.warps[0].instructions].count("branch") == 5


def test_addresses_sectors_and_wavefronts() -> None:
    run = LESSONS["strided_copy"].trace()
    load, store = (i for i in run.warps[0].instructions if i.memory is not None)
    assert load.addresses is not None and store.addresses is not None
    assert load.addresses.tolist() == [16 * lane for lane in range(32)]
    assert (store.addresses - run.memory[1].base).tolist() == [4 * lane for lane in range(32)]
    assert all(m.base % 256 == 0 for m in run.memory)
    (line,) = (line for line in run.lines() if "stride]" in line.source)
    full, last = 9, 12  # warps of 32 elements, and elements of the last one
    assert line.sectors == full * (16 + 4) + 6 + 2  # 32 x 16 B, 32 x 4 B, then 12 of each
    assert line.least_sectors == full * (4 + 4) + 2 + 2
    assert last == 300 - 32 * full


@pytest.mark.parametrize(("name", "ways"), [("tiled_transpose", 32), ("padded_transpose", 1)])
def test_a_padded_tile_has_no_bank_conflict(name: str, ways: int) -> None:
    args = (np.ones((32, 32), np.float32), np.zeros((32, 32), np.float32))
    run = simt.trace_kernel(LESSONS[name].kernel, grid=1, block=(32, 32), args=args)
    (line,) = (line for line in run.lines() if "= tile" in line.source)
    assert line.wavefronts == 32 * ways and line.least_wavefronts == 32
    (load,) = (i for i in run.programs[0] if i.text.startswith("LDS"))
    assert load.interval == ways


def test_an_atomic_keeps_the_unit_as_long_as_its_most_wanted_element() -> None:
    run = trace("cuda.atomic.add(out, x[cuda.threadIdx.x] // 8, 1)", np.arange(32), np.zeros(8, np.int32))
    (atomic,) = (i for i in run.programs[0] if i.text.startswith("ATOMG"))
    assert atomic.interval == 8
    assert run.results["out"].tolist() == [8, 8, 8, 8, 0, 0, 0, 0]


def test_a_trace_is_timed_by_the_scheduler() -> None:
    naive = lesson_kernels.product(lesson_kernels.naive_product, m=32, k=32, n=32).trace()
    tiled = lesson_kernels.product(lesson_kernels.tiled_product, m=32, k=32, n=32).trace()
    times = {run.name: run.simulate(policy="gto") for run in (naive, tiled)}
    for run in (naive, tiled):
        assert times[run.name].issue_count == sum(len(warp.instructions) for warp in run.warps)
    assert times["tiled_product"].cycles < times["naive_product"].cycles
    half = tiled.simulate(blocks=[1])
    assert half.warps == 8
    assert [i.text for i in half.programs[0]] == [i.text for i in tiled.warps[8].instructions]


def test_times_come_from_the_architecture_and_its_elders() -> None:
    run = trace("i = cuda.grid(1)\nout[i] = math.sqrt(x[i]) + 0.5", math=math)  # a plain 0.5 is float64
    for name in ("volta", "turing", "ampere", "hopper"):
        known = {**simt.architecture("volta").operations, **simt.architecture("ampere").operations}
        known.update(simt.architecture(name).operations)
        (program,) = run.timed_programs(architecture=name, served_by="l1")
        told = {i.mnemonic: (i.unit, i.latency) for i in program}
        assert told["LDG"] == ("mem", known["LDG.L1"].latency)
        assert told["MUFU.SQRT"] == (known["MUFU"].unit, known["MUFU"].latency)
        assert told["DADD"] == (known["DFMA"].unit, known["DFMA"].latency)
        assert told["STG"] == ("mem", 1)
    (short,) = run.timed_programs(load_latency=20)
    assert [i.latency for i in short if i.mnemonic == "LDG"] == [20]


def test_a_request_of_many_sectors_keeps_the_unit_longer() -> None:
    x, out = np.zeros(32 * 32, np.float32), np.zeros(32, np.float32)
    for stride, sectors, cycles in ((1, 4, 1), (2, 8, 2), (8, 32, 8), (32, 32, 8)):
        run = simt.trace_kernel(lesson_kernels.strided_copy, grid=1, block=32, args=(x, out, stride))
        (load,) = (i for i in run.warps[0].instructions if i.what == "load")
        (timed,) = (i for i in run.timed_programs(load_latency=100)[0] if i.mnemonic == "LDG")
        assert load.sectors == sectors and load.wavefronts is None
        assert load.access == simt.sectors([4 * stride * lane for lane in range(32)], 4)
        assert (timed.interval, timed.latency) == (cycles, 100 + cycles - 1)


def test_an_array_passed_twice_is_one_array() -> None:
    y = np.arange(32, dtype=np.float32)
    run = trace("i = cuda.grid(1)\nout[i] = x[i] + 1\nout[i] = x[i] + 1", y, y)
    assert run.results["x"].tolist() == run.results["out"].tolist() == [v + 2 for v in range(32)]
    assert run.memory[0].base == run.memory[1].base
    assert y[0] == 0


def test_columns_first_stays_columns_first() -> None:
    x = np.asfortranarray(np.arange(12, dtype=np.float32).reshape(3, 4))
    run = trace("t = cuda.threadIdx.x\nif t < 4:\n    out[t] = x[1, t]", x, np.zeros(4, np.float32))
    np.testing.assert_array_equal(run.results["out"], x[1])
    np.testing.assert_array_equal(run.results["x"], x)
    (load,) = (i for i in run.warps[0].instructions if i.what == "load")
    assert load.addresses is not None and load.elements is not None and load.memory is not None
    assert load.addresses[:4].tolist() == [4, 16, 28, 40]
    assert load.memory.index(int(load.elements[2])) == (1, 2)


def test_a_block_of_three_axes_counts_x_first() -> None:
    body = """
x, y, z = cuda.grid(3)
a[z, y, x] = cuda.threadIdx.x + 10 * cuda.threadIdx.y + 100 * cuda.threadIdx.z + 1000 * cuda.blockIdx.z
"""
    run = trace(body, np.zeros((4, 3, 2), np.int32), grid=(1, 1, 2), block=(2, 3, 2), names="a")
    z, y, x = np.indices((4, 3, 2))
    np.testing.assert_array_equal(run.results["a"], x + 10 * y + 100 * (z % 2) + 1000 * (z // 2))


def helper(v: Any, w: Any) -> Any:
    if v > w:
        return v - w
    return w - v


def test_a_function_is_run_where_it_is_called() -> None:
    run = trace("i = cuda.grid(1)\nout[i] = distance(x[i], 7.0)", distance=helper)
    np.testing.assert_array_equal(run.results["out"][:32], np.abs(X[:32] - 7))


def test_an_array_of_each_threads_own() -> None:
    body = """
t = cuda.threadIdx.x
own = cuda.local.array(4, np.float32)
for k in range(4):
    own[k] = x[t] * k
out[t] = own[3] + own[1]
"""
    run = trace(body)
    np.testing.assert_array_equal(run.results["out"][:32], X[:32] * 4)
    assert run.problems == () and run.shared_bytes == 0


# --- what is reported --------------------------------------------------------------------------------------


def test_a_missing_barrier_is_a_race_with_both_accesses() -> None:
    run = LESSONS["missing_barrier"].trace()
    race = run.problems[0]
    write, read = race.touches
    lines = dict(enumerate(run.source, run.first_line))
    assert (race.kind, race.array) == ("race", "tile")
    assert "tile[t] = x[i]" in lines[write.line] and "tile[THREADS - 1 - t]" in lines[read.line]
    assert (write.what, read.what) == ("store", "load")
    assert race.index == (write.thread[0],) == (lesson_kernels.THREADS - 1 - read.thread[0],)
    assert race.count == lesson_kernels.THREADS
    for said in ("tile[", "thread", "of block 0", "cuda.syncthreads()", str(write.line), str(read.line)):
        assert said in race.text


def test_out_of_bounds_names_thread_and_index() -> None:
    (problem,) = LESSONS["out_of_bounds"].trace().problems
    assert (problem.index, problem.array) == ((300,), "x")
    assert (problem.block, problem.thread) == ((2, 0, 0), (43, 0, 0))  # thread 299 of the grid, blocks of 128
    assert "thread 43 of block 2" in problem.text and "x[300]" in problem.text


def test_a_divergent_barrier_names_who_did_not_arrive() -> None:
    run = LESSONS["divergent_barrier"].trace()
    (problem,) = run.problems
    assert problem.missing == tuple((t, 0, 0) for t in range(48, 128))
    assert (
        "threads 0 to 47 of block 0 wait" in problem.text
        and "threads 48 to 127 do not arrive" in problem.text
    )
    with pytest.raises(ValueError, match="no end that could be timed"):
        run.simulate()


@pytest.mark.wrong_type
@pytest.mark.parametrize("given", [1, "no", None])
def test_until_stop_is_true_or_false(given: Any) -> None:
    with pytest.raises(TypeError, match=rf"until_stop is {given!r}, but must be a bool"):
        LESSONS["divergent_barrier"].trace().simulate(until_stop=given)


def test_threads_at_two_barriers_do_not_meet() -> None:
    run = trace("if cuda.threadIdx.x < 32:\n    cuda.syncthreads()\nelse:\n    cuda.syncthreads()", block=64)
    (problem,) = run.problems
    assert problem.kind == "divergent_barrier" and "some wait in line 5" in problem.text


def test_threads_that_end_before_a_barrier_are_told_and_the_rest_goes_on() -> None:
    run = trace("i = cuda.grid(1)\nif i >= 20:\n    return\ncuda.syncthreads()\nout[i] = x[i]")
    (problem,) = run.problems
    assert problem.kind == "early_exit" and problem.missing == tuple((t, 0, 0) for t in range(20, 32))
    np.testing.assert_array_equal(run.results["out"][:20], X[:20])


def test_a_sum_without_an_atomic_is_a_race() -> None:
    race = LESSONS["lost_update"].trace().problems[0]
    assert race.kind == "race" and "use an atomic" in race.text and race.array == "counts"


def test_blocks_race_too() -> None:
    run = trace("if cuda.threadIdx.x == 0:\n    out[0] = cuda.blockIdx.x", grid=2)
    (race,) = run.problems
    assert {touch.block for touch in race.touches} == {(0, 0, 0), (1, 0, 0)}
    assert "give each element to one block" in race.text


WARP = """
s = cuda.shared.array(32, np.float32)
t = cuda.threadIdx.x
s[t] = x[t]
{between}
out[t] = s[31 - t]
"""


def test_lock_step_is_no_order_within_a_warp() -> None:
    race = trace(WARP.format(between="pass")).problems[0]
    assert race.kind == "race" and "in one warp" in race.text
    assert trace(WARP.format(between="cuda.syncwarp()")).problems == ()
    assert trace(WARP.format(between="cuda.syncthreads()")).problems == ()


def test_atomics_alone_do_not_race_but_an_atomic_and_a_load_do() -> None:
    assert trace("cuda.atomic.add(out, 0, x[cuda.threadIdx.x])").problems == ()
    mixed = trace("cuda.atomic.add(out, 0, x[cuda.threadIdx.x])\nout[cuda.threadIdx.x + 1] = out[0]")
    assert kinds(mixed) == ["race"]


def test_a_shared_array_takes_the_type_of_an_argument() -> None:
    run = trace("s = cuda.shared.array(32, x.dtype)\nt = cuda.threadIdx.x\ns[t] = x[t]\nout[t] = s[t]")
    assert [m.dtype for m in run.memory] == ["float32"] * 3 and run.problems == ()


def test_shared_memory_is_undefined_until_written() -> None:
    run = trace("s = cuda.shared.array(32, np.float32)\nout[cuda.threadIdx.x] = s[cuda.threadIdx.x]")
    (problem,) = run.problems
    assert (problem.kind, problem.array, problem.index) == ("uninitialised", "s", (0,))


def test_an_index_below_zero_counts_from_the_end_and_is_told() -> None:
    run = trace("i = cuda.grid(1)\nout[i] = x[i - 1]")
    (problem,) = run.problems
    assert (problem.kind, problem.index) == ("negative_index", (-1,))
    assert run.results["out"][0] == X[-1]


def test_a_division_by_zero_is_told() -> None:
    run = trace("i = cuda.grid(1)\nout[i] = 8 // i")
    assert kinds(run) == ["zero_division"] and run.problems[0].thread == (0, 0, 0)


def test_the_same_again_is_counted() -> None:
    (problem,) = trace("out[cuda.grid(1) + 60] = 1").problems
    assert problem.count == 28 and str(problem).endswith("(seen 28 times)")


def test_a_race_that_is_not_looked_for_would_be_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_races, "within_block", lambda *_: None)
    assert "race" not in kinds(LESSONS["missing_barrier"].trace())


@pytest.mark.exhaustive
def test_a_barrier_that_orders_nothing_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = _races.within_block
    monkeypatch.setattr(
        _races, "within_block", lambda launch, pieces: right(launch, [(r, 0) for r, _ in pieces])
    )
    assert LESSONS["tiled_product"].trace().problems != ()


# --- what is refused ---------------------------------------------------------------------------------------

REFUSED = [
    ("a = [1, 2]", "a list", "cuda.local.array"),
    ("a = [k for k in range(3)]", "a list comprehension", "for loop"),
    ("x[0:2] = 0", "a slice", "for loop"),
    ("try:\n    pass\nexcept ValueError:\n    pass", "try", "if before"),
    ("with x:\n    pass", "with", "plain statements"),
    ("out[0] = (lambda v: v)(1)", "a lambda", "def outside"),
    ("import math", "import", "outside the kernel"),
    ("assert x[0] > 0", "assert", "if"),
    ("for v in x:\n    pass", "a loop over x", "range(...)"),
    ("for k in range(3):\n    pass\nelse:\n    pass", "else after a loop", "breaks"),
    ("out[0] = print(1)", "print(...)", "into an array"),
    ("out[0] = np.sqrt(2.0)", "np.sqrt(...)", "write math.sqrt"),
    ("out[0] = np.maximum(x[0], x[1])", "np.maximum(...)", "write max"),
    ("out[0] = complex(1, 2)", "complex(...)", "the imaginary part"),
    ("for i, v in enumerate(x):\n    pass", "a loop over enumerate(x)", "range(...)"),
    ("out[0] = cuda.syncthreads_count(x[0])", "cuda.syncthreads_count(...)", "cuda.atomic.add"),
    ("out[0] = cuda.atomic.inc(out, 0, 3)", "cuda.atomic.inc", "exch"),
    ("out[0] = 'a'", "a text", "numbers"),
    ("out[0] = x is out", "is or in", "=="),
    ("out[0] = x @ out", "@", "loop over k"),
    ("return 5", "return with a value", "an array"),
    ("out[0] = x.T[0]", "x.T", "shape, size or ndim"),
    ("cuda.nanosleep(3)", "cuda.nanosleep(...)", "syncthreads"),
    ("out[0] = cuda.gird(1)", "cuda.gird(...)", "write cuda.grid if that was meant."),
    ("out[0] = np.random.rand()", "np.random.rand(...)", "draw the numbers outside"),
    ("out[0] = sum(x)", "sum(...)", "for loop"),
    ("out[0] = x.sum()", "x.sum(...)", "for loop"),
    ("out[0] = np.dot(x, out)", "np.dot(...)", "for loop"),
    ("a = np.zeros(4)", "np.zeros(...)", "cuda.local.array"),
    ("out[0] = str(1)", "str(...)", "math.sqrt"),
    ("cuda.syncthreads", "cuda.syncthreads without a call", "write cuda.syncthreads()."),
    ("out[0] = max(x, default=0)", "a keyword in max(...)", "by position"),
    ("out[0]: int = 3", "an annotated assignment", "np.float32"),
]


@pytest.mark.parametrize(("body", "what", "instead"), REFUSED, ids=[what for _, what, _ in REFUSED])
def test_syntax_that_is_not_traced_is_named_with_what_to_write(body: str, what: str, instead: str) -> None:
    with pytest.raises(ValueError) as refusal:
        trace(body)
    said = str(refusal.value)
    assert f"uses {what}, which is not traced; " in said and instead in said
    assert said.startswith("Line 2 of k ")


MISTAKEN = [
    ("out[0] = nothing", "nothing, which is defined nowhere"),
    ("if x[0] > 1:\n    v = 1\nout[0] = v", "v, which thread 0 of block 0 has not set"),
    ("out[x[0]] = 1", "a float as an index"),
    ("out[0, 1] = 1", "2 indexes to out, which has 1 dimension;"),
    ("out[0] = x", "the array x as a number"),
    ("out[0] = cuda.threadIdx", "cuda.threadIdx, which is not traced"),
    ("out[0] = cuda.threadIdx.w", "cuda.threadIdx.w, which is not traced"),
    ("a, b = 1, 2, 3", "3 values to 2 names"),
    ("out[0] = x[0] & 1", "& needs integers"),
    ("s = cuda.shared.array(x.size, np.float32)", "a shape that is not constant"),
    ("s = cuda.shared.array(W + 1, np.float32)", "computes W + 1 in a shape, which Numba cannot"),
    ("s = cuda.shared.array(99999, np.float32)", "399996 bytes, but a kernel can declare at most 49152"),
    ("s = cuda.shared.array(4, 'float32')", "type of an array"),
    ("for k in range(0, 5, 0):\n    pass", "a step of 0"),
    ("while True:\n    pass", "a loop may never end"),
    ("while cuda.atomic.cas(out, 0, 0, 1) != 0:\n    pass", "wait for a lane of its own warp"),
    ("t = (1, 2)\nout[0] = t[cuda.threadIdx.x % 2]", "not constant; keep the numbers in an array"),
    ("v = 0\nwhile v < 1:\n    v = v * 2", "a loop may never end"),
    ("out[0] = math.sqrt(1, 2)", "math.sqrt takes 1 argument"),
    ("out[0] = waits(1)", "waits for the block inside a function"),
    ("out[0] = again(1)", "16 calls deep"),
    ("out[0] = forgets(cuda.threadIdx.x)", "ends without return in some threads"),
    ("out[0] = forgets(1, 2)", "2 arguments, but it has 1"),
    ("out[0] = nothing_back()", "nothing_back(), which is no number"),
    ("cuda.grid(4)", "other than 1, 2 or 3"),
    ("out[0] = 2 ** (0 - cuda.threadIdx.x)", "a negative power"),
]


def waits(v: Any) -> Any:
    cuda.syncthreads()
    return v


def again(v: Any) -> Any:
    return again(v)


def nothing_back() -> None:
    return


def forgets(v: Any) -> Any:  # noqa: RET503  # the missing return is the mistake
    if v > 3:
        return v


@pytest.mark.parametrize(("body", "part"), MISTAKEN, ids=[part for _, part in MISTAKEN])
def test_a_kernel_that_cannot_go_on_says_why_and_where(
    body: str, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_machine, "MOST_STEPS", 500)
    with pytest.raises(ValueError) as refusal:
        trace(body, math=math, waits=waits, again=again, forgets=forgets, nothing_back=nothing_back, W=4)
    assert part in str(refusal.value) and str(refusal.value).startswith("Line ")


NAMED = {  # ways to name cuda inside a kernel, beside `cuda` itself
    "through simt": "out[simt.cuda.grid(1)] = simt.cuda.shfl_down_sync(-1, x[simt.cuda.threadIdx.x], 1)",
    "through the package": "out[pulsewarp.simt.cuda.grid(1)] = simt.cuda.shfl_down_sync(-1, x[tid.x], 1)",
    "name by name": "out[place(1)] = shfl_down_sync(-1, x[tid.x], 1)",
    "the lane": "out[simt.cuda.laneid] = shfl_down_sync(-1, x[simt.cuda.laneid], 1)",
}


@pytest.mark.parametrize("body", NAMED.values(), ids=NAMED)
def test_cuda_is_found_by_every_name_it_can_have(body: str) -> None:
    one_by_one = {"place": cuda.grid, "tid": cuda.threadIdx, "shfl_down_sync": cuda.shfl_down_sync}
    run = trace(body, simt=simt, pulsewarp=pulsewarp, **one_by_one)
    np.testing.assert_array_equal(run.results["out"][:32], [*range(1, 32), 31])


def test_a_name_misspelt_behind_dots_is_refused_as_one_of_cuda() -> None:
    with pytest.raises(ValueError, match=r"Line 2 of k uses cuda\.gird.*write cuda\.grid if that was meant"):
        trace("out[0] = simt.cuda.gird(1)", simt=simt)


def test_numbers_have_64_bits() -> None:
    for body in ("out[0] = 9223372036854775808", "out[0] = 1" + "0" * 400):
        with pytest.raises(ValueError, match="at most 64; take a smaller one"):
            trace(body)
    with pytest.raises(ValueError, match="takes 66 bits with its sign"):
        trace("out[0] = n", np.zeros(1), 2**64, names="out, n")


def test_two_threads_that_write_the_same_race_all_the_same() -> None:
    (race,) = trace("out[0] = 1").problems
    assert race.kind == "race" and "the same value" in race.text


def test_a_trace_keeps_so_many_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_launch, "MOST_INSTRUCTIONS", 50)
    with pytest.raises(ValueError, match="at most 50; take a smaller grid"):
        LESSONS["vector_add"].trace()


def test_source_that_is_not_kept_is_asked_for() -> None:
    space: dict[str, Any] = {}
    exec("def typed(x):\n    x[0] = 1\n", space)
    with pytest.raises(ValueError, match="source of typed cannot be read"):
        simt.trace_kernel(space["typed"], grid=1, block=1, args=(X,))


def test_source_of_another_function_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    space: dict[str, Any] = {}
    exec("def typed(x):\n    x[0] = 1\n", space)
    for other in ("lambda x: x\n", "def another(x):\n    x[0] = 2\n"):
        monkeypatch.setitem(
            linecache.cache, "<string>", (len(other), None, other.splitlines(True), "<string>")
        )
        with pytest.raises(ValueError, match="source of typed cannot be read"):
            simt.trace_kernel(space["typed"], grid=1, block=1, args=(X,))


def test_the_stand_in_says_where_it_belongs() -> None:
    for outside in (
        lambda: cuda.threadIdx.x, lambda: cuda.blockDim.z, lambda: cuda.grid(1), cuda.syncthreads,
        lambda: cuda.laneid, lambda: cuda.atomic.add(X, 0, 1), lambda: cuda.shared.array(3, np.float32),
    ):  # fmt: skip
        with pytest.raises(
            RuntimeError, match=r"inside a kernel only; run the kernel with simt\.trace_kernel"
        ):
            outside()
    with pytest.raises(AttributeError, match="nanosleep"):
        getattr(cuda, "nanosleep")  # noqa: B009  # mypy knows that it is not there
    assert cuda.jit(helper) is helper
    assert repr(cuda.threadIdx) == "cuda.threadIdx"


def test_without_numba_compiling_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(RuntimeError, match="pip install numba-cuda"):
        simt.compile_kernel(lesson_kernels.saxpy)


def test_a_decorated_kernel_is_read_beneath() -> None:
    class Decorated:
        py_func = staticmethod(lesson_kernels.saxpy)

        def __call__(self, *_: object) -> None: ...

    run = simt.trace_kernel(Decorated(), grid=1, block=32, args=(2.0, X[:32], X[:32]))
    np.testing.assert_array_equal(run.results["y"], X[:32] * 3)
