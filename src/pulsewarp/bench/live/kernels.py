"""What is not a matrix product, timed: passes over memory, random access, scans, recompiling, dispatch.

`pulsewarp.bench.kernel_list` says what each kernel is and what is exact; here it is written for a device.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp._checks import choice, names_keywords, positive_number, several, whole_number
from pulsewarp._text import counted as in_number
from pulsewarp.bench import card, host, kernel_list
from pulsewarp.bench.hlo import read_program
from pulsewarp.bench.kernel_list import KERNELS, Kernel
from pulsewarp.bench.kernel_measurement import KernelMeasurement
from pulsewarp.bench.live import _clock
from pulsewarp.bench.live._compilations import Compilations, count_compilations
from pulsewarp.bench.live._dtypes import JAX_NAMES, catalogue_dtype
from pulsewarp.bench.live._observe import begin
from pulsewarp.bench.live._runs import Planned, Runs, told_by
from pulsewarp.bench.measurement import with_prefix
from pulsewarp.matmul import BYTES

_NEW_LENGTHS = 7  # calls of dynamic_shape and padded_shape: compiling takes seconds on some devices
_SMALL_COPY = 0.05  # of the compulsory bytes: below it a copy within the chain is not worth a remark
# On-chip memory that may hold what should come from main memory, where the system does not tell.
_CACHE_BYTES = {"cpu": 64 * 2**20, "gpu": 256 * 2**20, "tpu": 256 * 2**20}

Arrays = tuple[NDArray[Any], ...]


@names_keywords
def time_kernel(
    name: str,
    *,
    size: int | None = None,
    dtype: str = "float32",
    repeats: int | None = None,
    clock: str | None = None,
    seed: int = 0,
    budget_seconds: float = 1.0,
) -> KernelMeasurement:
    """Time one kernel that is no matrix product on the first device JAX lists.

    The input lies on the device beforehand, compiling is timed apart, and every repeat waits for its
    result. The whole result of the last repeat is compared with NumPy in float64, each time.

    ``clock="device"`` times a chain within one compiled call: before each link one element of the last
    result goes into the input, so that none can be hoisted, dropped or overlapped; see `chain`.
    ``clock="call"`` times one call as a Python loop sees it, dispatch included. Three kernels are about the
    calls themselves and take that clock: ``"dynamic_shape"`` (its times include compiling, which is what
    it is for), ``"padded_shape"`` and ``"tiny_operations"``.

    Half types are computed in float32 inside and rounded once, except for the additions of a scatter.

    Parameters
    ----------
    name : str
        One of `pulsewarp.bench.kernels`.
    size : int, optional
        Elements. Left out: enough to leave the caches where memory is what matters.
    dtype : str
        ``"float32"``, ``"bfloat16"`` or ``"float16"``.
    repeats : int, optional
        Repeats to keep, at most 10,000. Left out: at least 5, then until they are settled or the budget is
        spent; 7 calls where each has a new length.
    clock : {"device", "call"}, optional
        Left out: the kernel's usual one.
    seed : int
        Of the random input.
    budget_seconds : float
        Time for the repeats in seconds; compiling, warming up and checking come on top.

    Returns
    -------
    KernelMeasurement

    Raises
    ------
    ValueError
        A kernel, size, dtype or clock that cannot be measured.
    MemoryError
        The arrays do not fit into the memory that is free.
    ImportError
        JAX is missing or broken.
    RuntimeError
        JAX gives no device.

    Examples
    --------
    >>> run = time_kernel("sort", size=4096, repeats=3)
    >>> run.bytes_moved, run.relative_error, run.compilations
    (32768, 0.0, 0)
    """
    kernel = kernel_list.find(name)
    dtype = _dtype(dtype)
    clock = kernel.clocks[0] if clock is None else _clock_of(kernel, clock)
    if repeats is not None:
        repeats = whole_number("repeats", repeats, most=_clock.MOST_REPEATS)
    seed = whole_number("seed", seed, least=0)
    budget_seconds = positive_number("budget_seconds", budget_seconds)
    if size is not None:
        size = kernel.check_size(size)
    jax, seen = begin()
    size = size or (kernel.size_on_cpu if seen.platform == "cpu" else kernel.size)
    _fits(kernel, size, dtype, seen)
    bench = _Bench(jax, kernel, size, dtype, repeats, seed, budget_seconds)
    timed = {"dynamic_shape": _new_shapes, "padded_shape": _padded_shapes}.get(name)
    if timed is None and clock == "call":
        timed = _calls_in_a_row if name == "tiny_operations" else _calls
    with _clock.memory_named(f"{name} of {size} elements", "take a smaller size"):
        found = (timed or _chained)(bench)
    return found.made.hand_over(_measurement(bench, found, clock, seen))


@names_keywords
def time_kernels(
    names: Iterable[str] | None = None,
    *,
    dtype: str = "float32",
    repeats: int | None = None,
    seed: int = 0,
    budget_seconds: float = 60.0,
    progress: Callable[[KernelMeasurement], object] | None = None,
) -> list[KernelMeasurement]:
    """Time one kernel after the other, each by its usual clock, and keep what is measured whatever happens.

    An interrupt, a spent budget or a device that fails ends the run with a warning and returns what is
    there; a kernel that does not fit into memory is named in a warning and left out.

    Parameters
    ----------
    names : iterable of str, optional
        Of `pulsewarp.bench.kernels`; all of them when left out.
    dtype, repeats, seed
        As for `time_kernel`.
    budget_seconds : float
        After so many seconds no further kernel is begun; the first one always is.
    progress : callable, optional
        Called with each KernelMeasurement as soon as it is there.

    Returns
    -------
    list of KernelMeasurement
        In the order of `names`.

    Raises
    ------
    ValueError
        An unknown kernel, before anything is measured.

    Examples
    --------
    >>> [run.name for run in time_kernels(["tiny_operations", "padded_shape"], repeats=2)]
    ['tiny_operations', 'padded_shape']
    """
    budget_seconds = positive_number("budget_seconds", budget_seconds)
    told_by(progress, "KernelMeasurement")
    wanted = (
        tuple(KERNELS) if names is None else several("names", names, "write ['softmax', 'sort'], for example")
    )
    measure = functools.partial(
        time_kernel,
        dtype=dtype,
        repeats=repeats,
        seed=seed,
        budget_seconds=min(1.0, budget_seconds / max(1, len(wanted))),
    )
    planned = [
        Planned(name, name, functools.partial(measure, kernel_list.find(name).name)) for name in wanted
    ]
    return Runs("kernel", planned, budget_seconds, progress).make(bar=False)


def function_of(jax: ModuleType, name: str) -> Callable[..., Any]:
    """Return the function whose call runs one kernel once.

    Parameters
    ----------
    jax : module
        JAX.
    name : str
        Of the kernel.

    Returns
    -------
    callable
        The kernel's arrays to its result; the first array decides the type.

    Examples
    --------
    >>> import jax
    >>> function_of(jax, "sort")(np.float32([3, 1, 2])).tolist()
    [1.0, 2.0, 3.0]
    """
    numpy, lax = jax.numpy, jax.lax

    def in_single(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda x: function(x.astype("float32")).astype(x.dtype)

    def scan_rows(x: Any) -> Any:
        def step(state: Any, row: Any) -> tuple[Any, Any]:
            state = numpy.tanh(row.astype("float32") + 0.5 * state)
            return state, state.astype(x.dtype)

        return lax.scan(step, numpy.zeros(x.shape[1], "float32"), x)[1]

    def masked_softmax(x: Any, length: Any) -> Any:
        kept = numpy.where(numpy.arange(x.size) < length, x, -numpy.inf)
        return in_single(jax.nn.softmax)(kept)

    def convolve(x: Any, weights: Any) -> Any:
        return lax.conv_general_dilated(
            x,
            weights,
            (1, 1),
            "VALID",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            precision=lax.Precision.HIGHEST,  # else float32 may be rounded to TF32 or bfloat16 first
        )

    def add_in_places(x: Any, places: Any) -> Any:
        bins = max(1, x.size // kernel_list.BINS)
        return numpy.zeros(bins, x.dtype).at[places].add(x, mode="promise_in_bounds")

    written: dict[str, Callable[..., Any]] = {
        "elementwise": in_single(lambda x: numpy.maximum(x * kernel_list.SCALE + kernel_list.SHIFT, 0)),
        "reduction": lambda x: numpy.sum(x, dtype="float32"),
        "softmax": in_single(functools.partial(jax.nn.softmax, axis=-1)),
        "gather": lambda x, places: x.at[places].get(mode="promise_in_bounds"),
        "scatter_add": add_in_places,
        "sort": numpy.sort,
        "prefix_scan": lambda x: lax.cumsum(x.astype("float32")),
        "sequential_scan": scan_rows,
        "convolution": convolve,
        "dynamic_shape": in_single(jax.nn.softmax),
        "padded_shape": masked_softmax,
        "tiny_operations": lambda x: x + 1,
    }
    return written[name]


def chain(jax: ModuleType, function: Callable[..., Any], length: int) -> Callable[..., tuple[Any, Any]]:
    """Return the function whose call runs a kernel `length` times, each run needing the one before.

    Before each run the first element of the input becomes the fractional part of what it was plus the middle
    element of the last result plus 0.618: another input each time, so no run can be moved out of the loop.
    The whole result is carried from run to run, so none can shrink to the element that is read. Where JAX
    has an optimisation barrier, it stands before and after the kernel, so that nothing is fused into it.
    The cost over bare runs is one element. Input and result are taken and given back, so that a caller who
    donates them pays for no fresh page: first touching those took up to three times as long as the kernel.

    Parameters
    ----------
    jax : module
        JAX.
    function : callable
        The kernel; its first argument is the input that changes.
    length : int
        Runs.

    Returns
    -------
    callable
        (the input, the result before it, the kernel's other arguments) to (the last input, its result).

    Examples
    --------
    >>> import jax
    >>> zeros = np.zeros(2, np.float32)
    >>> last, result = chain(jax, lambda x: x + 1, 2)(zeros, zeros)
    >>> [f"{value:.3f}" for value in (*last, *result)]
    ['0.236', '0.000', '1.236', '1.000']
    """
    lax, numpy = jax.lax, jax.numpy
    # Public since JAX 0.4.36 or so; the optimised programs of older ones are the same on a CPU without it.
    alone = getattr(lax, "optimization_barrier", lambda array: array)

    def run(x: Any, last: Any, *others: Any) -> tuple[Any, Any]:
        middle = tuple(side // 2 for side in last.shape)
        after = tuple(side + 1 for side in middle)

        def step(_: Any, state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
            x, element, last = state
            moved = element + lax.slice(last, middle, after).reshape(()).astype("float32") + 0.618
            element = alone(moved - numpy.floor(moved))
            written = element.astype(x.dtype).reshape((1,) * x.ndim)
            x = alone(lax.dynamic_update_slice(x, written, (0,) * x.ndim))
            return x, element, alone(function(x, *others))

        first = x[(0,) * x.ndim].astype("float32")
        x, _, last = lax.fori_loop(0, length, step, (x, first, last))
        return x, last

    return run


@dataclass(frozen=True)
class _Bench:
    """One kernel with its arrays: what all ways of timing it share."""

    jax: ModuleType
    kernel: Kernel
    size: int
    dtype: str
    repeats: int | None
    seed: int
    budget: float

    @property
    def function(self) -> Callable[..., Any]:
        return function_of(self.jax, self.kernel.name)

    @property
    def bytes_moved(self) -> int:
        return self.kernel.bytes_moved(self.size, math.ceil(BYTES[self.dtype]))

    def arrays(self, size: int | None = None) -> Arrays:
        """Return the input as the device gets it."""
        stored = self.jax.numpy.dtype(JAX_NAMES[self.dtype])
        random = np.random.default_rng(self.seed)
        made = self.kernel.inputs(self.size if size is None else size, random)
        return tuple(array.astype(stored) if array.dtype.kind == "f" else array for array in made)

    def on_device(self, arrays: Any) -> Any:
        jax = self.jax
        return jax.block_until_ready(jax.device_put(arrays, jax.local_devices()[0]))

    def exact(self, *arrays: Any) -> NDArray[Any]:
        """Return the result by NumPy, floats in float64."""
        return np.asarray(self.kernel.exact(*(_in_double(np.asarray(array)) for array in arrays)))


@dataclass(frozen=True)
class _Found:
    """Times and what was seen beside them."""

    made: _clock.Repeats
    error: float
    compilations: Compilations
    compile_seconds: float
    warmup_calls: int
    per_repeat: int = 1
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> tuple[float, ...]:
        return tuple(value / self.per_repeat for value in self.made.seconds)


def _repeat(
    bench: _Bench, program: Any, arguments: Any, repeats: int | None = None
) -> tuple[_clock.Repeats, Compilations]:
    """Time the repeats, so many or as many as the bench says, and hear what is compiled meanwhile."""
    with count_compilations(bench.jax) as compiled:
        made = _clock.repeat_calls(bench.jax, program, arguments, repeats or bench.repeats, bench.budget)
    return made, compiled


def _chained(bench: _Bench) -> _Found:
    arrays = bench.arrays()
    links = _links_of(bench, arrays)
    _clock.lengthen(bench.jax, links, _seconds_alone(bench, arrays))
    made, compiled = _repeat(bench, links, ())
    if made.interrupt is not None:
        links.recover()
    last, result = links.held
    return _Found(
        made,
        _relative_error(result, bench.exact(last, *arrays[1:])),
        compiled,
        links.compile_seconds,
        len(links.warm),
        links.length,
        notes=(
            *_about_copies(links.text, bench.bytes_moved),
            *links.about_fresh_pages(float(np.median(made.seconds)) / links.length),
        ),
    )


def _links_of(bench: _Bench, arrays: Arrays) -> _clock.Links:
    """Return the chain of a kernel; its length is still to be said."""
    jax, (first, *others) = bench.jax, arrays
    shape = jax.eval_shape(bench.function, *arrays)
    return _clock.Links(
        jax,
        functools.partial(chain, jax, bench.function),
        lambda: bench.on_device((first, np.zeros(shape.shape, shape.dtype), *others)),
        (0, 1),
    )


def _seconds_alone(bench: _Bench, arrays: Arrays) -> float:
    on_device = bench.on_device(arrays)
    program, _, _ = _clock.compile_for(bench.jax, bench.function, on_device)
    return min(_clock.call_once(bench.jax, program, on_device)[0] for _ in range(2))


def _calls(bench: _Bench) -> _Found:
    jax, arrays = bench.jax, bench.arrays()
    on_device = bench.on_device(arrays)
    program, compile_seconds, _ = _clock.compile_for(jax, bench.function, on_device)
    warm = _clock.warm_up(jax, program, on_device)
    made, compiled = _repeat(bench, program, on_device)
    error = _relative_error(made.result, bench.exact(*arrays))
    return _Found(made, error, compiled, compile_seconds, len(warm))


def _calls_in_a_row(bench: _Bench) -> _Found:
    jax, arrays = bench.jax, bench.arrays()
    on_device = bench.on_device(arrays)
    _, compile_seconds, _ = _clock.compile_for(jax, bench.function, on_device)
    operation = jax.jit(bench.function)

    def row(x: Any) -> Any:
        for _ in range(kernel_list.TINY_OPERATIONS):
            x = operation(x)
        return x

    warm = _clock.warm_up(jax, row, on_device)
    made, compiled = _repeat(bench, row, on_device)
    error = _relative_error(made.result, _in_double(arrays[0]) + kernel_list.TINY_OPERATIONS)
    return _Found(made, error, compiled, compile_seconds, len(warm), kernel_list.TINY_OPERATIONS)


def _new_shapes(bench: _Bench) -> _Found:
    jax, lengths = bench.jax, _lengths(bench)
    (longest,) = bench.arrays(max(lengths) + 1)
    on_device = bench.on_device([(longest[:length],) for length in (*lengths, longest.size)])
    softmax = bench.function
    program = jax.jit(lambda x: softmax(x))  # a function of its own: JAX has no program of it yet
    warm_seconds, _ = _clock.call_once(jax, program, on_device[-1])
    made, results, compiled = _in_turn(bench, program, on_device[:-1])
    error = max(
        _relative_error(result, bench.exact(longest[:length]))
        for result, length in zip(results, lengths, strict=False)
    )
    notes = _about_new_shapes(compiled, len(results))
    return _Found(made, error, compiled, warm_seconds, warmup_calls=1, notes=notes)


def _padded_shapes(bench: _Bench) -> _Found:
    jax, lengths = bench.jax, _lengths(bench)
    (longest,) = bench.arrays(max(lengths))
    room = 2 ** math.ceil(math.log2(longest.size))
    padded = [np.pad(longest[:length], (0, room - length)) for length in lengths]
    on_device = bench.on_device(
        [(row, np.int32(length)) for row, length in zip(padded, lengths, strict=True)]
    )
    program, compile_seconds, _ = _clock.compile_for(jax, bench.function, on_device[0])
    warm = _clock.warm_up(jax, program, on_device[0])
    made, results, compiled = _in_turn(bench, program, on_device)
    error = max(
        _relative_error(result, np.pad(bench.exact(longest[:length]), (0, room - length)))
        for result, length in zip(results, lengths, strict=False)
    )
    return _Found(made, error, compiled, compile_seconds, len(warm))


def _in_turn(
    bench: _Bench, program: Any, arguments: Sequence[tuple[Any, ...]]
) -> tuple[_clock.Repeats, list[Any], Compilations]:
    """Call once with each of several arguments; return also the results, fewer after an interrupt."""
    left, results = iter(arguments), list[Any]()

    def call() -> Any:
        results.append(program(*next(left)))
        return results[-1]

    made, compiled = _repeat(bench, call, (), len(arguments))
    return made, results[: len(made.seconds)], compiled


def _lengths(bench: _Bench) -> tuple[int, ...]:
    """Return as many lengths as there are repeats, no two alike, whose mean is the size."""
    count = _NEW_LENGTHS if bench.repeats is None else bench.repeats
    half = count // 2
    if bench.size <= half:
        raise ValueError(
            f"size is {bench.size}, but {count} different lengths around it need a size above {half}; "
            "take a larger size or fewer repeats."
        )
    offsets = (offset for offset in range(-half, half + 1) if offset or count % 2)
    return tuple(bench.size + offset for offset in offsets)


def _about_new_shapes(compiled: Compilations, calls: int) -> tuple[str, ...]:
    if compiled.count is None:
        return ("The times include compiling; this JAX does not announce it, so nothing was counted.",)
    told = f"{in_number(calls, 'call')} with a new length each: {in_number(compiled.count, 'compilation')}"
    taken = with_prefix(sum(compiled.seconds), "s")
    found = [f"{told}, {taken} of XLA in all, which the times include."]
    if compiled.from_disk:
        found.append(f"{in_number(compiled.from_disk, 'program')} came from JAX's cache on disk instead.")
    return tuple(found)


def _measurement(bench: _Bench, found: _Found, clock: str, seen: card.DeviceCard) -> KernelMeasurement:
    kernel, size = bench.kernel, bench.size
    bound = kernel.bound(size, kernel_list.DTYPES[bench.dtype])
    bytes_moved = bench.bytes_moved
    notes = (
        *found.made.notes,
        *found.notes,
        *_about_error(found.error, bound),
        *(() if kernel.name == "dynamic_shape" else _about_compiling(found.compilations)),
        *(_about_cache(bytes_moved, seen) if kernel.clocks[0] == "device" else ()),
        *_about_reading(kernel, size, seen),
        *_clock.unsteady(found.seconds),
        *seen.fallback,
    )
    return KernelMeasurement(
        name=kernel.name,
        size=size,
        dtype=bench.dtype,
        operations=None if kernel.operations is None else kernel.operations(size),
        bytes_moved=bytes_moved,
        relative_error=found.error,
        error_bound=bound,
        compilations=found.compilations.count,
        seed=bench.seed,
        device=seen.measured,
        clock=clock,
        seconds=found.seconds,
        products_per_repeat=found.per_repeat,
        compile_seconds=found.compile_seconds,
        warmup_calls=found.warmup_calls,
        versions=seen.versions,
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        notes=notes,
    )


def _about_error(error: float, bound: float) -> tuple[str, ...]:
    if error <= bound:
        return ()
    return (
        f"The result is off by {error:.1e} where rounding explains {bound:.1e}: this device did not compute "
        "the kernel it was timed for, or not in this type.",
    )


def _about_compiling(compiled: Compilations) -> tuple[str, ...]:
    if not compiled.count:
        return ()
    return (
        f"{in_number(compiled.count, 'program')} compiled while it was timed; the slowest repeats hold that.",
    )


def _about_copies(text: str, bytes_moved: int) -> tuple[str, ...]:
    """Say when the compiler copies arrays in each link that no kernel asked for."""
    try:
        program = read_program(text.split("\nmodule @", 1)[0])
    except ValueError:  # a backend that does not show its program
        return ()
    moved = 0.0
    for operation, inside in program.walk():
        width = re.match(r"[a-z]+(\d+)", operation.shape)
        in_the_chain = [each.opcode for each in inside].count("while") == 1
        if operation.opcode == "copy" and in_the_chain and operation.elements and width:
            moved += 2 * operation.elements * int(width[1]) / 8
    if moved <= _SMALL_COPY * bytes_moved:
        return ()
    return (
        f"Beside the kernel each link copies arrays, {with_prefix(moved, 'B')} read and written, as the "
        "compiler placed them; the kernel alone is faster by that.",
    )


def _about_reading(kernel: Kernel, size: int, seen: card.DeviceCard) -> tuple[str, ...]:
    if seen.platform != "cpu" or kernel.result_elements(size) > size // 100:
        return ()
    return (
        "It only reads. Most CPUs also read what a copy overwrites, which is not counted, so a copy is a low "
        "roof for it: its share may pass 100%.",
    )


def _about_cache(bytes_moved: int, seen: card.DeviceCard) -> tuple[str, ...]:
    known = host.look().last_level_cache_bytes if seen.platform == "cpu" else None
    cache = known or _CACHE_BYTES.get(seen.platform or "", 0)
    if bytes_moved > cache:
        return ()
    size, room = with_prefix(bytes_moved, "B"), with_prefix(cache, "B")
    where = f"may stay in caches of {room}" if known else f"may stay on the chip (up to {room} are assumed)"
    return (f"All its data, {size}, {where}, so its share of the memory roof may pass 100%.",)


def _in_double(array: NDArray[Any]) -> NDArray[Any]:
    return array if array.dtype.kind in "iu" else array.astype(np.float64)


def _relative_error(result: Any, exact: NDArray[Any]) -> float:
    """Return ``norm(result - exact) / norm(exact)``; the first alone where all are exactly zero."""
    given = _in_double(np.asarray(result))
    if given.shape != exact.shape:
        raise ValueError(f"The result has shape {given.shape}, but the exact one {exact.shape}.")
    difference, norm = (float(np.linalg.norm(array.ravel())) for array in (given - exact, exact))
    return difference / (norm or 1.0)


def _dtype(dtype: str) -> str:
    found = catalogue_dtype(dtype)
    if found not in kernel_list.DTYPES:
        raise ValueError(
            f"dtype {dtype!r} cannot be timed here: kernels are timed in float32, bfloat16 and float16."
        )
    return found


def _clock_of(kernel: Kernel, clock: str) -> str:
    if clock == "device" and "device" not in kernel.clocks:
        raise ValueError(
            f"{kernel.name} is about separate calls, which the clock 'device' does not see; use clock='call'."
        )
    return choice("clock", clock, kernel.clocks)


def _fits(kernel: Kernel, size: int, dtype: str, seen: card.DeviceCard) -> None:
    """Refuse arrays that cannot fit, before anything is allocated."""
    # The chain copies its input and holds two results; NumPy's check holds about four arrays in float64.
    on_device, on_host = 2 * kernel.bytes_moved(size, math.ceil(BYTES[dtype])), 40 * size
    if seen.platform == "cpu":
        limits: Sequence[tuple[int, int | None, str]] = (
            (on_device + on_host, seen.memory_free_bytes, "this machine"),
        )
    else:
        limits = (
            (on_device, seen.memory_free_bytes, f"the {seen.kind}"),
            (on_host, host.look().memory_free_bytes, "the host"),
        )
    for needed, free, where in limits:
        if free is not None and needed > free:
            most = max(kernel.multiple, size * free // needed // kernel.multiple * kernel.multiple)
            raise MemoryError(
                f"Timing {kernel.name} of {size} elements needs about {needed / 2**30:.1f} GiB on {where}, "
                f"but {free / 2**30:.1f} GiB are free; a size of about {most} fits."
            )
