"""Kernels that are no matrix product: exact results, what a chain really runs, compilations, refusals."""

from __future__ import annotations

import importlib
import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from pulsewarp import bench
from pulsewarp.bench import card, host, kernel_list
from pulsewarp.bench.hlo import Computation, Operation, Program, read_program
from pulsewarp.bench.kernel_list import KERNELS
from pulsewarp.bench.live import _clock, _observe, kernels
from pulsewarp.bench.live._compilations import count_compilations

jax: Any = pytest.importorskip("jax", reason="JAX is optional; without it nothing can be timed")

CHAINED = [name for name, kernel in KERNELS.items() if "device" in kernel.clocks]
ROWS = 4
SIZES = {"softmax": 2 * kernel_list.COLUMNS, "sequential_scan": ROWS * kernel_list.STATE, "convolution": 4096}
LINKS = 7

# What does the work in the optimised program of a CPU, and how often it runs in one link. JAX 0.4.30 writes
# a scatter as a loop over the elements.
WORK = {
    "elementwise": {"maximum": 1},
    "reduction": {"reduce": 1},
    "softmax": {"exponential": 1},
    "gather": {"gather": 1},
    "scatter_add": {"scatter": 1, "while": 1},
    "sort": {"sort": 1},
    "prefix_scan": {"reduce-window": 1},
    "sequential_scan": {"tanh": ROWS},
    "convolution": {"convolution": 1},
    "tiny_operations": {"add": 1},
}


def size_of(name: str) -> int:
    return SIZES.get(name, 96)


def input_of(name: str, seed: int = 0) -> tuple[Any, ...]:
    made = KERNELS[name].inputs(size_of(name), np.random.default_rng(seed))
    return tuple(made)


def optimised(function: Callable[..., Any], arguments: tuple[Any, ...], **options: Any) -> Program:
    return read_program(jax.jit(function, **options).lower(*arguments).compile().as_text())


def chain_of(name: str, links: int = LINKS) -> Callable[..., Any]:
    return kernels.chain(jax, kernels.function_of(jax, name), links)


def loop_of(program: Program) -> tuple[Operation, Computation]:
    """Return the chain's loop, the outermost one, and its body."""
    loop = next(each for each, inside in program.walk() if each.opcode == "while" and not _loops(inside))
    named = {each.name: each for each in program.computations}
    return loop, next(named[name] for name in loop.calls if named[name].operations[-1].shape.startswith("("))


def _loops(inside: tuple[Operation, ...]) -> tuple[Operation, ...]:
    return tuple(each for each in inside if each.opcode == "while")


def everything_in(
    program: Program, step: Operation, most: float = np.inf
) -> Iterator[tuple[Operation, int, float]]:
    """Go through a step and all it runs: each, how often one run of the step runs it, on how many elements.

    A fusion computes what its own result asks for: of what is fused into a slice of one element, that element
    alone, whatever shape is written there. A reduction asks for all.
    """
    computed = min(most, np.inf if step.elements is None else step.elements)
    yield step, 1, computed
    fused = program.inner(step)
    asks_for_all = step.opcode != "fusion" or any(each.opcode.startswith("reduce") for each in fused)
    for inner in fused:
        # JAX 0.4.30 prints no number of trips; there the inner loop is taken to visit every row.
        times = 1 if step.opcode != "while" else ROWS if step.trips is None else step.trips
        for operation, runs, elements in everything_in(program, inner, np.inf if asks_for_all else computed):
            yield operation, times * runs, elements


def is_work(name: str, operation: Operation, elements: float) -> bool:
    """Whether this is the kernel's own operation, on all its elements: a slice of it is not the kernel."""
    least = {"reduction": 1, "scatter_add": 1, "sequential_scan": 256}.get(name, size_of(name) // 2)
    return operation.opcode in WORK[name] and elements >= least


def faults_of(name: str, program: Program, links: int = LINKS) -> list[str]:
    """Name what is wrong with an optimised chain: work left out, hoisted, unused or independent."""
    try:
        loop, body = loop_of(program)
    except StopIteration:
        return ["no loop"]
    found = [] if loop.trips in (None, links) else [f"{loop.trips} links"]
    steps = {each.name: each for each in body.operations}

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        todo = [start]
        while todo:
            at = todo.pop()
            if at not in seen and at in steps:
                seen.add(at)
                todo += steps[at].operands
        return seen

    runs = {
        each.name: sum(
            times for inner, times, elements in everything_in(program, each) if is_work(name, inner, elements)
        )
        for each in body.operations
    }
    working = [step for step, count in runs.items() if count]
    if sum(runs.values()) not in [WORK[name][key] * more for key in WORK[name] for more in (1, 2, 3)]:
        found.append(f"the work runs {sum(runs.values())} times in a link")
    root = next(each.name for each in body.operations if each.is_root)
    if not working or not any(step in reached(root) for step in working):
        return [*found, "nothing uses the result"]
    fed = reached(working[-1])
    writes = [
        step
        for step in fed
        for inner, _, _ in everything_in(program, steps[step])
        if inner.opcode == "dynamic-update-slice"
    ]
    if not writes:
        found.append("the work needs nothing of the last result")
    return found


@pytest.fixture(scope="module")
def programs() -> dict[str, Program]:
    return {name: optimised(chain_of(name), for_a_chain(name), donate_argnums=(0, 1)) for name in CHAINED}


def for_a_chain(name: str) -> tuple[Any, ...]:
    """Return what a chain takes: the input, a result of zeros, and the other arrays."""
    x, *others = as_stored(name)
    result = jax.eval_shape(kernels.function_of(jax, name), x, *others)
    return x, np.zeros(result.shape, result.dtype), *others


def as_stored(name: str) -> tuple[Any, ...]:
    return tuple(array.astype(np.float32) if array.dtype.kind == "f" else array for array in input_of(name))


@pytest.mark.parametrize("name", CHAINED)
def test_every_link_of_a_chain_does_the_work_and_needs_the_one_before(
    name: str, programs: dict[str, Program]
) -> None:
    assert faults_of(name, programs[name]) == []


def without_dependence(function: Callable[..., Any], links: int) -> Callable[..., Any]:
    """Repeat a kernel on the same input: what a naive loop does."""

    def run(x: Any, *others: Any) -> Any:
        shape = jax.eval_shape(function, x, *others)
        start = x, jax.numpy.zeros(shape.shape, shape.dtype)
        return jax.lax.fori_loop(0, links, lambda _, state: (state[0], function(state[0], *others)), start)

    return run


def with_one_element(function: Callable[..., Any], links: int) -> Callable[..., Any]:
    """Carry one element of each result instead of all of it: the compiler computes that one alone."""

    def run(x: Any, *others: Any) -> Any:
        def step(_: Any, state: Any) -> Any:
            x, element = state
            x = jax.lax.dynamic_update_slice(x, element.reshape((1,) * x.ndim), (0,) * x.ndim)
            return x, jax.numpy.ravel(function(x, *others))[3] * 0.5

        return jax.lax.fori_loop(0, links, step, (x, jax.numpy.float32(0)))

    return run


def unrolled(function: Callable[..., Any], links: int) -> Callable[..., Any]:
    return lambda x, *others: [function(x, *others) for _ in range(links)][-1]


@pytest.mark.parametrize("mutant", [without_dependence, unrolled])
@pytest.mark.parametrize("name", ["elementwise", "sort", "gather", "softmax"])
def test_mutant_links_that_do_not_need_each_other_are_seen(name: str, mutant: Callable[..., Any]) -> None:
    program = optimised(mutant(kernels.function_of(jax, name), LINKS), as_stored(name))
    assert faults_of(name, program)


@pytest.mark.parametrize("name", ["elementwise", "gather"])
def test_mutant_a_result_that_shrinks_to_one_element_is_seen(name: str) -> None:
    program = optimised(with_one_element(kernels.function_of(jax, name), LINKS), as_stored(name))
    assert faults_of(name, program)


def test_mutant_a_link_too_few_is_seen(programs: dict[str, Program]) -> None:
    if loop_of(programs["sort"])[0].trips is not None:  # JAX 0.4.30 does not print it
        assert faults_of("sort", programs["sort"], links=LINKS + 1) == ["7 links"]


def numpy_chain(name: str, arguments: tuple[Any, ...], links: int) -> tuple[Any, Any]:
    x, *others = (np.array(each, np.float64 if each.dtype.kind == "f" else None) for each in arguments)
    element, result = x.flat[0], None
    for _ in range(links):
        middle = 0.0 if result is None else result[tuple(side // 2 for side in result.shape)]
        moved = element + middle + 0.618
        element = moved - np.floor(moved)
        x.flat[0] = element
        result = KERNELS[name].exact(x, *others)
    return x, result


@pytest.mark.parametrize("name", CHAINED)
def test_a_chain_computes_what_the_same_steps_in_numpy_compute(name: str) -> None:
    arguments = as_stored(name)
    firsts = []
    for links in (1, 3):
        last, result = jax.jit(chain_of(name, links))(*for_a_chain(name))
        expected_last, expected = numpy_chain(name, arguments, links)
        np.testing.assert_allclose(last, expected_last, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
        firsts.append(float(np.ravel(last)[0]))
    assert all(abs(one - other) > 1e-3 for one, other in itertools.pairwise(firsts))


@pytest.mark.parametrize("name", KERNELS)
def test_the_bytes_are_those_of_input_and_result(name: str) -> None:
    """Compulsory bytes by the arrays themselves: each read or written once."""
    kernel = KERNELS[name]
    arguments = input_of(name)
    result = kernel.exact(*(each.astype(float) if each.dtype.kind == "f" else each for each in arguments))
    assert arguments[0].size == size_of(name)
    for element in (4, 2):
        widths = [element if each.dtype.kind == "f" else each.itemsize for each in arguments]
        read = sum(each.size * width for each, width in zip(arguments, widths, strict=True))
        written = result.size * (4 if kernel.sums else element)
        assert kernel.bytes_moved(size_of(name), element) == read + written


def test_operations_of_the_convolution_are_counted_one_by_one() -> None:
    image, weights = input_of("convolution")
    rows, columns = image.shape[1] - 2, image.shape[2] - 2
    counted = sum(2 for _ in range(rows * columns) for _ in range(weights.size))
    operations = KERNELS["convolution"].operations
    assert operations is not None
    assert operations(image.size) == counted


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_is_right_and_its_error_explained_in_narrow_types_too(name: str) -> None:
    # Which type changes from kernel to kernel; float32 is what the device clock is tested with.
    dtype = ("bfloat16", "float16", "float32")[list(KERNELS).index(name) % 3]
    run = bench.time_kernel(name, size=size_of(name), dtype=dtype, clock="call", repeats=2)
    assert type(run) is bench.KernelMeasurement
    assert run.is_exact_enough
    assert run.error_bound is not None and run.error_bound < 0.1
    assert (run.compilations or 0) == (2 if name == "dynamic_shape" else 0)
    assert run.bytes_moved > 0
    assert not any("off by" in note for note in run.notes)
    if name in ("gather", "sort"):
        assert run.relative_error == 0


@pytest.mark.parametrize("name", CHAINED)
def test_the_device_clock_measures_a_chain(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_clock, "LOOKS", 1)  # enough where no time is looked at
    run = bench.time_kernel(name, size=size_of(name), clock="device", repeats=1)
    assert run.clock == "device"
    assert run.products_per_repeat >= 2
    assert run.is_exact_enough
    assert (run.name, run.size, run.dtype, len(run.seconds)) == (name, size_of(name), "fp32", 1)


@pytest.mark.parametrize("name", ["elementwise", "dynamic_shape", "padded_shape"])
def test_mutant_a_wrong_result_is_said(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = kernels.function_of

    def slightly_wrong(module: Any, which: str) -> Callable[..., Any]:
        function = right(module, which)
        return lambda *arguments: function(*arguments) * 1.01

    monkeypatch.setattr(kernels, "function_of", slightly_wrong)
    monkeypatch.setattr(_clock, "LOOKS", 1)
    run = bench.time_kernel(name, size=size_of(name), repeats=1)
    assert run.relative_error == pytest.approx(0.01, rel=0.1)
    assert not run.is_exact_enough
    assert any("did not compute the kernel" in note for note in run.notes)


def test_mutant_a_dropped_tiny_operation_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels.kernel_list, "TINY_OPERATIONS", 3)
    assert bench.time_kernel("tiny_operations", size=8, repeats=1).relative_error == 0
    monkeypatch.setattr(kernels, "range", lambda count: range(count - 1), raising=False)
    assert bench.time_kernel("tiny_operations", size=8, repeats=1).relative_error > 0.01


def test_every_new_length_is_compiled_and_padding_spares_it() -> None:
    new = bench.time_kernel("dynamic_shape", size=100, repeats=2)
    padded = bench.time_kernel("padded_shape", size=100, repeats=2)
    assert (new.compilations, padded.compilations) == (2, 0)
    assert "2 calls with a new length each: 2 compilations" in new.notes[0]
    again = bench.time_kernel("dynamic_shape", size=100, repeats=2)
    assert again.compilations == 2  # the same lengths, but a program of its own


@pytest.mark.parametrize("count", range(1, 9))
def test_lengths_are_all_different_and_their_mean_is_the_size(count: int) -> None:
    used = kernels._Bench(jax, KERNELS["dynamic_shape"], 50, "fp32", count, 0, 1.0)
    lengths = kernels._lengths(used)
    assert len(set(lengths)) == count
    assert np.mean(lengths) == 50


def test_compilations_are_counted_once_also_where_somebody_else_counts_or_clears_listeners() -> None:
    arguments = [jax.device_put(np.ones(length, np.float32)) for length in (3, 4, 5)]
    negative = jax.jit(lambda x: -x)
    with count_compilations(jax) as outer:
        negative(arguments[0])
        with count_compilations(jax) as inner:
            negative(arguments[0])
            negative(arguments[1])
    assert (outer.count, inner.count) == (2, 1)
    assert all(seconds > 0 for seconds in outer.seconds)
    jax.monitoring.clear_event_listeners()
    with count_compilations(jax) as counted:
        negative(arguments[2])
    assert counted.count == 1
    negative(jax.device_put(np.ones(6, np.float32)))
    assert counted.count == 1  # it is over


def test_a_jax_that_announces_nothing_gives_no_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsewarp.bench.live._compilations._COMPILED", "/another/name")
    run = bench.time_kernel("dynamic_shape", size=20, repeats=2)
    assert run.compilations is None
    assert "nothing was counted" in run.notes[0]


def test_a_program_from_the_disk_is_no_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    with count_compilations(jax) as counted:
        for _ in range(2):
            jax.monitoring.record_event_duration_secs("/jax/core/compile/backend_compile_duration", 0.25)
        jax.monitoring.record_event("/jax/compilation_cache/cache_hits")
    assert (counted.count, counted.seconds, counted.from_disk) == (1, [0.25, 0.25], 1)
    assert kernels._about_new_shapes(counted, 2) == (
        "2 calls with a new length each: 1 compilation, 500 ms of XLA in all, which the times include.",
        "1 program came from JAX's cache on disk instead.",
    )


COPYING = """HloModule chain

%body (state: (s32[], f32[100])) -> (s32[], f32[100]) {
  %state = (s32[], f32[100]{0}) parameter(0)
  %i = s32[] get-tuple-element(%state), index=0
  %x = f32[100]{0} get-tuple-element(%state), index=1
  %copied = f32[100]{0} copy(%x)
  ROOT %next = (s32[], f32[100]{0}) tuple(%i, %copied)
}

%condition (state.1: (s32[], f32[100])) -> pred[] {
  %state.1 = (s32[], f32[100]{0}) parameter(0)
  ROOT %true = pred[] constant(true)
}

ENTRY %main (start: (s32[], f32[100])) -> (s32[], f32[100]) {
  %start = (s32[], f32[100]{0}) parameter(0)
  ROOT %loop = (s32[], f32[100]{0}) while(%start), condition=%condition, body=%body
}
"""


def test_a_copy_that_the_compiler_puts_into_a_link_is_said() -> None:
    (told,) = kernels._about_copies(COPYING, bytes_moved=800)
    assert "each link copies arrays, 800 B read and written" in told
    assert kernels._about_copies(COPYING, bytes_moved=80_000) == ()
    assert kernels._about_copies(COPYING.replace("copy(", "negate("), bytes_moved=800) == ()
    assert kernels._about_copies("no program", bytes_moved=800) == ()


def card_of(platform: str, memory: int = 2**34) -> card.DeviceCard:
    seen = card.SeenDevice(platform, "a chip", None, memory, 0)
    return card.describe(
        host.Host(python="3.13.0", cpu_model="Example CPU", cores=2), card.SeenJax("0.7.2", (seen,))
    )


@pytest.mark.parametrize(
    ("platform", "cache", "bytes_moved", "words"),
    [
        ("cpu", 10**6, 10**6, "may stay in caches of 1.00 MB"),
        ("cpu", 10**6, 10**6 + 1, None),
        ("cpu", None, 2**26, "67.1 MB are assumed"),
        ("gpu", 10**6, 2**28, "268 MB are assumed"),
        ("gpu", None, 2**28 + 1, None),
    ],
)
def test_data_that_a_cache_can_hold_are_said(
    platform: str, cache: int | None, bytes_moved: int, words: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = host.Host(python="3.13.0", cpu_model="Example CPU", cores=2, last_level_cache_bytes=cache)
    monkeypatch.setattr(host, "look", lambda: here)
    told = kernels._about_cache(bytes_moved, card_of(platform))
    assert (told == ()) if words is None else (words in told[0])


@pytest.mark.parametrize(
    ("name", "platform"), [("reduction", "gpu"), ("elementwise", "cpu"), ("reduction", "cpu")]
)
def test_a_kernel_that_only_reads_is_said_to_have_a_low_roof_on_a_cpu(name: str, platform: str) -> None:
    told = kernels._about_reading(KERNELS[name], 10**6, card_of(platform))
    assert bool(told) == ((name, platform) == ("reduction", "cpu"))


@pytest.mark.parametrize("name", ["elementwise", "prefix_scan"])
def test_each_call_of_a_chain_takes_over_the_arrays_of_the_last_and_goes_on(name: str) -> None:
    bench_of = kernels._Bench(jax, KERNELS[name], size_of(name), "fp32", None, 0, 1.0)
    arrays = bench_of.arrays()
    links = kernels._links_of(bench_of, arrays)
    links.make(2)
    links()
    before = links.held
    last, result = links()
    assert all(array.is_deleted() for array in before)  # given away: no fresh page, no copy
    expected_last, expected = numpy_chain(name, arrays, 4)
    np.testing.assert_allclose(last, expected_last, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "call",
    [lambda: bench.time_kernel("sort", size=64, repeats=50), lambda: bench.time_matmul(8, 16, 4, repeats=50)],
    ids=["kernel", "product"],
)
def test_an_interrupt_that_takes_the_arrays_with_it_keeps_the_repeats_and_checks_one_more(
    call: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = _clock.Links.__call__
    calls = itertools.count()

    def lost(self: _clock.Links) -> Any:
        if next(calls) == 5:
            self._program(*self._arguments)
            raise KeyboardInterrupt
        return real(self)

    monkeypatch.setattr(_clock.Links, "__call__", lost)
    monkeypatch.setattr(_clock, "warm_up", lambda *_: [0.1])
    with pytest.raises(_clock.Interrupted) as caught:
        call()
    run = caught.value.measurement
    assert len(run.seconds) == 5 and "Interrupted after 5 repeats." in run.notes
    assert run.relative_error <= run.error_bound
    assert next(calls) == 7  # the one that was lost, and one more


def test_arrays_beyond_memory_are_refused_with_a_size_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_observe, "devices", lambda: card_of("gpu", memory=2**20))
    with pytest.raises(
        MemoryError, match=r"softmax of 33554432 elements .* size of about (\d+) fits"
    ) as caught:
        bench.time_kernel("softmax")
    fits = int(re.findall(r"about (\d+) fits", str(caught.value))[0])
    kernels._fits(KERNELS["softmax"], fits, "fp32", card_of("gpu", memory=2**20))
    assert fits % kernel_list.COLUMNS == 0


def test_a_device_that_runs_out_of_memory_names_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object, **__: object) -> None:
        raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 17179869184 bytes.")

    monkeypatch.setattr(_clock, "compile_for", exhausted)
    with pytest.raises(MemoryError, match="ran out of memory at sort of 64 elements"):
        bench.time_kernel("sort", size=64)


@pytest.mark.wrong_type
@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("sorted", {}, "Unknown kernel 'sorted'; use one of elementwise"),
        (7, {}, "Unknown kernel 7"),
        ("sort", {"size": 0}, "size is 0"),
        ("sort", {"size": 2**31}, "at most 2147483647. Indices are int32."),
        ("softmax", {"size": 1500}, "a multiple of 1024; take 1024"),
        ("sort", {"dtype": "int8"}, "timed in float32, bfloat16 and float16"),
        ("sort", {"dtype": "floot"}, "Unknown dtype 'floot'"),
        ("sort", {"clock": "wall"}, "Unknown clock 'wall'"),
        ("padded_shape", {"clock": "device"}, "use clock='call'"),
        ("sort", {"repeats": 0}, "repeats is 0"),
        ("dynamic_shape", {"size": 3}, "need a size above 3"),
        ("sort", {"seed": -1}, "seed is -1"),
        ("sort", {"budget_seconds": 0}, "budget_seconds is 0"),
    ],
)
def test_what_cannot_be_timed_gets_one_sentence(name: Any, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError) as caught:
        bench.time_kernel(name, **changes)
    assert words in str(caught.value)


def test_an_interrupt_keeps_what_is_measured() -> None:
    def interrupt(run: bench.KernelMeasurement) -> None:
        raise KeyboardInterrupt

    with pytest.warns(RuntimeWarning, match="Interrupted: 1 of 2 kernels were measured and are kept"):
        runs = bench.time_kernels(["tiny_operations", "sort"], repeats=1, progress=interrupt)
    assert [run.name for run in runs] == ["tiny_operations"]


def test_an_interrupt_within_the_repeats_keeps_them(monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = _clock.call_once, itertools.count()

    def interrupted(*arguments: Any) -> Any:
        if next(calls) == 9:  # two for the estimate, then seven repeats
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(_clock, "call_once", interrupted)
    monkeypatch.setattr(_clock, "warm_up", lambda *_: [0.1])
    with pytest.warns(RuntimeWarning, match="Interrupted: 1 of 2 kernels"):
        (run,) = bench.time_kernels(["sort", "gather"], repeats=50)
    assert (run.name, len(run.seconds), run.relative_error) == ("sort", 7, 0.0)
    assert "Interrupted after 7 repeats." in run.notes


def test_a_spent_budget_and_a_kernel_too_large_keep_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.warns(RuntimeWarning, match="with 1 of 2 kernels measured; raise budget_seconds"):
        assert len(bench.time_kernels(["tiny_operations", "sort"], repeats=1, budget_seconds=1e-9)) == 1
    right = kernels.time_kernel

    def one_too_large(name: str, **how: Any) -> bench.KernelMeasurement:
        if name == "sort":
            raise MemoryError("too large.")
        return right(name, **how)

    monkeypatch.setattr(kernels, "time_kernel", one_too_large)
    with pytest.warns(RuntimeWarning, match="Left out: sort: too large"):
        runs = bench.time_kernels(["sort", "tiny_operations"], repeats=1)
    assert [run.name for run in runs] == ["tiny_operations"]


def test_an_unknown_name_is_refused_before_anything_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "time_kernel", lambda *_, **__: pytest.fail("measured"))
    with pytest.raises(ValueError, match="Unknown kernel 'sorting'"):
        bench.time_kernels(["sort", "sorting"])


def test_the_list_names_every_kernel_once_and_each_has_a_device_function() -> None:
    names = [kernel.name for kernel in bench.kernels()]
    assert names == list(KERNELS)
    assert all(callable(kernels.function_of(jax, name)) for name in names)
    assert "0x" not in repr(bench.kernels())
    assert importlib.import_module("pulsewarp.bench.kernel_list") is kernel_list


def test_every_reason_fits_on_a_line_of_a_phone() -> None:
    assert [kernel.name for kernel in bench.kernels() if len(kernel.bound_by) > 48] == []
