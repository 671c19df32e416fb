"""Ceilings of the device that is here: memory bandwidth by copy and triad, and the best rate of products."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp import chips
from pulsewarp._checks import choice, names_keywords, positive_number, several, whole_number
from pulsewarp.bench import card, host
from pulsewarp.bench.kernel_measurement import KernelMeasurement
from pulsewarp.bench.live._clock import (
    MOST_REPEATS,
    call_once,
    compile_for,
    memory_named,
    repeat_calls,
    unsteady,
    warm_up,
)
from pulsewarp.bench.live._dtypes import JAX_NAMES, catalogue_dtype
from pulsewarp.bench.live._observe import begin, devices, remember
from pulsewarp.bench.live.timing import time_matmul
from pulsewarp.bench.measured_ceilings import Ceilings
from pulsewarp.bench.measurement import Measurement
from pulsewarp.matmul import BYTES

_MIB = 2**20
_TIMES_CACHE = 4  # STREAM's rule: each array at least 4 times the caches (stream.c, read 2026-12-01)
_UNKNOWN_CACHE = {
    "cpu": 32 * _MIB,
    "gpu": 64 * _MIB,
    "tpu": 128 * _MIB,
}  # where neither files nor catalogue tell
_LEAST_BYTES = {"cpu": 64 * _MIB}  # of an array; elsewhere 256 MiB, so that a pass outlasts a launch
_MOST_BYTES = {
    "cpu": 160 * _MIB
}  # three arrays, and a lesson stays under 1 GB; a note says what that leaves open
_SHARE_OF_MEMORY = 16  # an array takes at most this fraction of what is free
_CALL_SECONDS = {"cpu": 0.1}  # elsewhere 20 ms; a call's dispatch then weighs well under a percent
_PERIOD = 127 * 128  # after so many elements the arrays' patterns repeat
_DTYPES = {"cpu": ("float32", "bfloat16")}  # int8 and float16 on a CPU say much about XLA and little about it
_OTHER_DTYPES = ("float32", "bfloat16", "float16", "int8")
_SIDES = {"cpu": (512, 1024, 2048)}
_OTHER_SIDES = (1024, 2048, 4096, 8192)


@dataclass(frozen=True)
class _Operation:
    """A pass over arrays: which it has, how often each element is read or written, and the sum it makes."""

    arrays: int  # the first is the one written
    passes: int
    reads_twice: bool  # whether b is added to a multiple of c

    def step(self, scale: Any, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
        if self.arrays == 1:
            return (arrays[0] * scale,)
        *others, c = arrays[1:]
        written = others[0] + scale * c if self.reads_twice else scale * c
        return (written, *arrays[1:])


OPERATIONS = {
    "copy": _Operation(arrays=2, passes=2, reads_twice=False),
    "triad": _Operation(arrays=3, passes=3, reads_twice=True),
    "update": _Operation(arrays=1, passes=2, reads_twice=False),
}


@names_keywords
def bandwidth(
    operation: str = "copy",
    *,
    dtype: str = "float32",
    array_bytes: int | None = None,
    repeats: int | None = None,
    budget_seconds: float = 1.0,
) -> KernelMeasurement:
    """Time passes over arrays far larger than the caches of the first device JAX lists.

    ``"copy"`` writes ``a = s * c``, ``"triad"`` writes ``a = b + s * c``, and ``"update"`` writes
    ``a = s * a`` where it stands. The factor s is 1, but the program does not know it. Each pass needs the
    one before: an update takes over its array, the others read s from what was written. So no pass can be
    dropped, hoisted or fused with the next.

    Bytes are counted as STREAM counts them: each element read once and written once, so 2 arrays for a copy
    and an update, 3 for a triad. Not counted is write-allocate: most CPUs read a cache line before they
    overwrite it, which for a copy makes 3 arrays of real traffic and for a triad 4. An update has read its
    lines anyway, so nothing is hidden there, and it often shows the highest rate.

    The arrays are 4 times the last-level cache or more, but on a CPU at most 160 MiB and nowhere more than a
    sixteenth of the free memory; a note says where that leaves less than the 4 times. They
    stay on the device from call to call. Not measured: latency, strides, several devices.

    Parameters
    ----------
    operation : {"copy", "triad", "update"}
        Which pass.
    dtype : {"float32", "bfloat16", "float16"}
        Type of the elements.
    array_bytes : int, optional
        Bytes of one array, at least 1 MiB. Left out: from the caches and the memory that is free.
    repeats : int, optional
        Repeats to keep. Left out: as for `time_matmul`.
    budget_seconds : float
        Time for the repeats in seconds; compiling and warming up come on top.

    Returns
    -------
    KernelMeasurement
        `KernelMeasurement.bytes_per_second` is the bandwidth.

    Raises
    ------
    ValueError
        An operation, dtype or size that cannot be measured.
    MemoryError
        The arrays do not fit into the memory that is free.
    ImportError, RuntimeError
        JAX is missing, or gives no device.

    Examples
    --------
    >>> run = bandwidth("triad", array_bytes=2**20, repeats=3)
    >>> run.bytes_moved == 3 * 4 * run.size, run.relative_error
    (True, 0.0)
    """
    kind = OPERATIONS[choice("operation", operation, OPERATIONS)]
    stored = catalogue_dtype(dtype)
    if stored not in ("fp32", "bf16", "fp16"):
        raise ValueError(f"dtype is {dtype!r}, but passes are timed in float32, bfloat16 or float16 alone.")
    if array_bytes is not None:
        array_bytes = whole_number("array_bytes", array_bytes, least=_MIB)
    if repeats is not None:
        repeats = whole_number("repeats", repeats, most=MOST_REPEATS)
    budget_seconds = positive_number("budget_seconds", budget_seconds)
    jax, seen = begin()
    cache = _cache_bytes(seen)
    wanted = array_bytes or _array_bytes(seen, cache)
    size = math.ceil(wanted / BYTES[stored] / _PERIOD) * _PERIOD
    _fits(kind.arrays * size * BYTES[stored], seen)
    arrays = f"{kind.arrays} arrays of {size * BYTES[stored] / _MIB:.0f} MiB"
    with memory_named(arrays, "give a smaller array_bytes"):
        return _time(jax, operation, stored, size, seen, cache, repeats, budget_seconds)


@names_keywords
def ceilings(dtypes: Iterable[str] | None = None, *, budget_seconds: float = 8.0) -> Ceilings:
    """Measure what the first device JAX lists reaches: products by dtype, and memory bandwidth.

    For a CPU this is the only roof there is; for a chip of the catalogue it shows how much of the published
    one can be had. The result is kept, and the device card of this process shows it from then on, also what
    was measured before an interrupt.

    A small square product is timed, then the largest one that is likely to end within the time for its
    dtype, and larger ones while time is left; the best median is kept. Bandwidth is the better of a triad
    and an update. float32 is timed at the highest precision.

    Parameters
    ----------
    dtypes : iterable of str, optional
        JAX's or the catalogue's names. Left out: float32, bfloat16, and on an accelerator float16, int8.
    budget_seconds : float
        Time for all of it in seconds, compiling included, at most by one run more.

    Returns
    -------
    Ceilings

    Raises
    ------
    ValueError
        A dtype that cannot be timed, or no dtype.
    MemoryError, ImportError, RuntimeError
        As for `time_matmul`.

    Examples
    --------
    >>> found = ceilings(["float32"], budget_seconds=0.5)
    >>> sorted(found.peak_flops_per_second), found.bandwidth_bytes_per_second > 0
    (['fp32'], True)
    """
    budget = positive_number("budget_seconds", budget_seconds)
    if dtypes is None:
        dtypes = _DTYPES.get(devices().platform or "", _OTHER_DTYPES)
    names = several("dtypes", dtypes, 'write ["float32"]')
    wanted = tuple(dict.fromkeys(catalogue_dtype(name) for name in names))
    if not wanted:
        raise ValueError('dtypes is empty, but at least one is needed; write ["float32"].')
    share = budget / (len(wanted) + 2)
    copies: list[KernelMeasurement] = []
    products: list[Measurement] = []
    try:
        for operation in ("triad", "update"):
            copies.append(bandwidth(operation, budget_seconds=share / 2))
        sides = _SIDES.get(copies[0].device.platform, _OTHER_SIDES)
        for dtype in wanted:
            products.append(_fastest_product(dtype, sides, share))
    finally:  # an interrupt or a device that fails loses nothing that was measured
        if copies:
            found = Ceilings(tuple(products), tuple(copies))
            remember(found)
    return found


def _fastest_product(dtype: str, sides: Iterable[int], share: float) -> Measurement:
    """Time a small square, then the largest that is likely to end within the share, then larger ones."""
    end = time.perf_counter() + share
    smallest, *larger = sides
    best = _square(smallest, dtype)
    while larger:
        left = end - time.perf_counter()
        fitting = [side for side in larger if _likely_seconds(side, best) <= left]
        if not fitting:
            break
        larger = [side for side in larger if side > fitting[-1]]
        try:
            run = _square(fitting[-1], dtype)
        except MemoryError:
            break
        best = max(best, run, key=lambda each: each.flops_per_second)
    return best


def _square(side: int, dtype: str) -> Measurement:
    precision = "highest" if dtype == "fp32" else "default"
    return time_matmul(side, side, side, dtype=JAX_NAMES[dtype], precision=precision, repeats=5)


def _likely_seconds(side: int, known: Measurement) -> float:
    """Compiling three times and some 12 calls, each a chain of two products or of 20 ms."""
    call = max(0.02, 2 * 2 * side**3 / known.flops_per_second)
    return 3 * known.compile_seconds + 12 * call


def _time(
    jax: ModuleType,
    operation: str,
    dtype: str,
    size: int,
    seen: card.DeviceCard,
    cache: int | None,
    repeats: int | None,
    budget: float,
) -> KernelMeasurement:
    kind = OPERATIONS[operation]
    state = _Passes(jax, kind, dtype, size)
    state.length = 1
    one = min(call_once(jax, state, ())[0] for _ in range(2))
    state.length = max(2, math.ceil(_CALL_SECONDS.get(seen.platform or "", 0.02) / one))
    warm = warm_up(jax, state, ())
    made = repeat_calls(jax, state, (), repeats, budget)
    if made.interrupt is not None:
        raise KeyboardInterrupt  # the arrays may be gone, so nothing can be checked
    seconds = made.seconds
    return KernelMeasurement(
        name=operation,
        size=size,
        dtype=dtype,
        operations=2 * size if kind.reads_twice else None,  # the factor 1 of the others is no work
        bytes_moved=math.floor(kind.passes * size * BYTES[dtype]),
        device=seen.measured,
        clock="device",
        seconds=tuple(value / state.length for value in seconds),
        products_per_repeat=state.length,
        compile_seconds=state.compile_seconds,
        warmup_calls=len(warm) + 2,
        relative_error=_error(kind, np.asarray(state.arrays[0])),
        error_bound=0.0,
        compilations=0,  # compiled ahead: a call cannot compile
        versions=seen.versions,
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        notes=(*_notes(size * BYTES[dtype], cache, state.text, size), *unsteady(seconds), *seen.fallback),
    )


class _Passes:
    """A compiled loop of passes over arrays that stay on the device: each call takes over the last one's.

    The arrays are donated to the program and come back from it, so a call neither copies them nor asks the
    system for fresh pages. The number of passes is an argument, so it is compiled once.
    """

    def __init__(self, jax: ModuleType, kind: _Operation, dtype: str, size: int) -> None:
        stored = jax.numpy.dtype(JAX_NAMES[dtype])
        self.length = 1
        self._one = jax.numpy.ones((), stored)
        self.arrays = _filled(jax, kind, stored, size)
        numbers = tuple(range(3, 3 + kind.arrays))
        self._program, self.compile_seconds, self.text = compile_for(
            jax, loop(jax, kind), (np.int32(1), self._one, self._one, *self.arrays), donate_argnums=numbers
        )

    def __call__(self) -> Any:
        """Run the passes and return the arrays, which the next call takes."""
        self.arrays = self._program(np.int32(self.length), self._one, self._one, *self.arrays)
        return self.arrays


def loop(jax: ModuleType, kind: _Operation) -> Callable[..., tuple[Any, ...]]:
    """Return the function that makes a number of passes, each with a factor read from the one before.

    Parameters
    ----------
    jax : module
        JAX.
    kind : _Operation
        What a pass does.

    Returns
    -------
    callable
        (passes, least factor, greatest factor, *arrays) to the arrays.

    Examples
    --------
    >>> import jax
    >>> one, c = np.float32(1), np.float32([0.5, 0.25])
    >>> [each.tolist() for each in loop(jax, OPERATIONS["copy"])(2, one, one, np.zeros_like(c), c)]
    [[0.5, 0.25], [0.5, 0.25]]
    """
    lax = jax.lax

    def run(passes: Any, least: Any, most: Any, *arrays: Any) -> tuple[Any, ...]:
        def step(_: Any, state: tuple[Any, tuple[Any, ...]]) -> tuple[Any, tuple[Any, ...]]:
            scale, arrays = state
            arrays = kind.step(scale, arrays)
            if kind.arrays == 1:  # each pass needs all of the last one as it is
                return scale, arrays
            element = lax.reshape(lax.slice(arrays[0], (0,), (1,)), ())
            # Both bounds are 1, which the compiler cannot know.
            return lax.clamp(least, element, most), arrays

        _, arrays = lax.fori_loop(0, passes, step, (least, arrays))
        return arrays

    return run


def _filled(jax: ModuleType, kind: _Operation, dtype: Any, size: int) -> tuple[Any, ...]:
    """Make the arrays on the device, so that no copy of them lies on the host."""
    device = jax.local_devices()[0]

    def fill(period: Any) -> Any:
        return jax.numpy.tile(period, size // _PERIOD)

    make = jax.jit(fill)
    b, c = (jax.device_put(each.astype(dtype), device) for each in _periods())
    sources = {1: (c,), 2: (0 * c, c), 3: (0 * c, b, c)}[kind.arrays]
    return tuple(jax.block_until_ready(make(source)) for source in sources)


def _periods() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """One period of b and of c: multiples of 1/128 below 1, so that b + c is exact in every dtype timed."""
    numbers = np.arange(_PERIOD)
    return numbers % 127 / 128, numbers % 128 / 128


def _error(kind: _Operation, written: NDArray[Any]) -> float:
    """Compare all of the written array with NumPy in float64: 0, or the passes were not made."""
    b, c = _periods()
    exact = b + c if kind.reads_twice else c
    squares = 0.0
    for rows in np.array_split(written.reshape(-1, _PERIOD), max(1, written.size // 2**23)):
        squares += float(np.sum((rows.astype(np.float64) - exact) ** 2))
    norm = math.sqrt(float(np.sum(exact**2)) * written.size / _PERIOD)
    return math.sqrt(squares) / norm


def _notes(array_bytes: float, cache: int | None, program: str, size: int) -> Iterable[str]:
    if cache is not None and array_bytes < _TIMES_CACHE * cache:
        yield (
            f"Each array is {array_bytes / _MIB:.0f} MiB and the last-level cache {cache / _MIB:.0f} MiB: "
            "part of the traffic may have stayed in the cache, so memory may be slower than this."
        )
    if copies_in_loop(program, size):
        yield "The compiled loop copies an array besides, so the memory is faster than this."


def copies_in_loop(program: str, size: int) -> bool:
    r"""Whether an optimised program copies a whole array anywhere but before and after its loop.

    Parameters
    ----------
    program : str
        Optimised HLO.
    size : int
        Elements of an array.

    Returns
    -------
    bool

    Examples
    --------
    >>> copies_in_loop("%body () {\n  %c = f32[64]{0} copy(%a)\n}\nENTRY %main () {\n}", 64)
    True
    """
    before_entry = program.split("ENTRY", 1)[0]
    return re.search(rf"\[{size}\]\S* copy\(", before_entry) is not None


def _cache_bytes(seen: card.DeviceCard) -> int | None:
    """Bytes of the last cache before the memory, of the device that is timed; None where unknown."""
    if seen.platform == "cpu":
        return host.look().last_level_cache_bytes
    chip = chips.get(seen.chip) if seen.chip else None
    if chip is None:
        return None
    known = (chip.last_level_cache_bytes, chip.l2_cache_bytes, chip.cmem_bytes, chip.vmem_bytes)
    return max((value for value in known if value is not None), default=None)


def _array_bytes(seen: card.DeviceCard, cache: int | None) -> int:
    platform = seen.platform or ""
    assumed = cache if cache is not None else _UNKNOWN_CACHE.get(platform, 64 * _MIB)
    wanted = max(_TIMES_CACHE * assumed, _LEAST_BYTES.get(platform, 256 * _MIB))
    wanted = min(wanted, _MOST_BYTES.get(platform, wanted))
    if seen.memory_free_bytes is None:
        return wanted
    return max(_MIB, min(wanted, seen.memory_free_bytes // _SHARE_OF_MEMORY))


def _fits(needed: float, seen: card.DeviceCard) -> None:
    free = seen.memory_free_bytes
    if free is not None and needed > 0.9 * free:
        raise MemoryError(
            f"The arrays need {needed / 2**30:.1f} GiB, but {free / 2**30:.1f} GiB are free; "
            "give a smaller array_bytes."
        )
