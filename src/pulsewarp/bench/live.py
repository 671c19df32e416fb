"""Time real matrix products on the device that is here, through JAX.

The only file of `pulsewarp.bench` that touches JAX, and only inside its functions. Nothing here
starts a second process: a TPU belongs to one.
"""

from __future__ import annotations

import functools
import math
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp._checks import choice, names_keywords, nearest, positive_number, several, whole_number
from pulsewarp.bench import card, host
from pulsewarp.bench.measurement import CLOCKS, PRECISIONS, MeasuredDevice, Measurement
from pulsewarp.matmul import BYTES, Matmul

# Catalogue name of a factor's type that can be timed, and JAX's name for it.
_TIMED = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "int8": "int8"}
_JAX_NAMES = _TIMED | {"int32": "int32"}  # results too
_NOT_TIMED = {
    "tf32": "TF32 is how an NVIDIA GPU may multiply float32 values, not a type to store them in; "
    "use dtype='float32' with precision='default' and look at the error",
    "fp64": "JAX computes in float32 unless told otherwise, and few matrix units have float64; "
    "use dtype='float32'",
    "fp8": "no chip that multiplies fp8 could be reached to check it on; use dtype='bfloat16'",
    "fp4": "JAX stores fp4 but multiplies it on few chips; use dtype='bfloat16'",
    "int4": "JAX stores int4 but multiplies it on few chips; use dtype='int8'",
}
_NAMES = {stored: name for name, stored in _TIMED.items()} | {name: name for name in _TIMED}

# JAX's own aliases of a precision (jax.lax.Precision, read 2026-11-30).
_PRECISION_ALIASES = {
    "fastest": "default",
    "bfloat16": "default",
    "bfloat16_3x": "high",
    "tensorfloat32": "high",
    "float32": "highest",
}

_CHAIN_SECONDS = 0.02  # a chain this long spreads a dispatch of 50 us to a quarter of a percent
_LONGEST_CHAIN = 20_000
MOST_REPEATS = 10_000  # all of them are kept, in memory and on disk
_FEWEST_REPEATS, _MOST_REPEATS = 5, 50
_ERROR_ROWS = 64


def devices() -> card.DeviceCard:
    """Say which device runs the reader's products, and why it may not be the one they expect.

    Looks at this machine's files and variables and asks JAX, in this process, once. Without JAX
    the card says so; nothing is raised.

    Returns
    -------
    DeviceCard

    Examples
    --------
    >>> devices().cores >= 1
    True
    """
    return card.describe(host.look(), _see_jax())


@names_keywords
def default_sizes(platform: str) -> tuple[int, ...]:
    """Return the square sizes that `sweep` takes when none are given.

    Parameters
    ----------
    platform : str
        JAX's platform name.

    Returns
    -------
    tuple of int
        Up to 2048 on a CPU, where larger products take minutes on a small machine; up to 8192
        elsewhere, where smaller ones would measure the launch alone.

    Examples
    --------
    >>> default_sizes("cpu")
    (64, 128, 256, 512, 1024, 2048)
    """
    return tuple(2**power for power in (range(6, 12) if platform == "cpu" else range(8, 14)))


@names_keywords
def time_matmul(
    m: int,
    k: int,
    n: int,
    *,
    dtype: str = "float32",
    precision: str | None = None,
    repeats: int | None = None,
    clock: str = "device",
    seed: int = 0,
    budget_seconds: float = 1.0,
) -> Measurement:
    """Time the product of a random m x k and a random k x n matrix on the first device JAX lists.

    The factors lie on the device beforehand; compiling is timed apart; calls are thrown away
    until three in a row agree within a tenth; every repeat waits for its result and is kept.

    ``clock="call"`` times one call as a Python loop sees it, dispatch included.
    ``clock="device"`` times a chain of products inside one compiled call and divides by their
    number. One element of each result is written into the left factor of the next product, so
    that none can be hoisted, dropped or overlapped; the chain lasts at least about 20 ms, so that
    the one dispatch weighs under one percent.

    Not modelled: several devices, batches, transposed factors, power.

    Parameters
    ----------
    m, k, n : int
        Sizes.
    dtype : str
        ``"float32"``, ``"bfloat16"``, ``"float16"`` or ``"int8"``, or the catalogue's names for
        them (``"fp32"``, ``"bf16"``, ``"fp16"``). int8 is summed in int32; the others give their
        own type.
    precision : {"default", "high", "highest"}, optional
        JAX's precision, pinned in the program. Left out, JAX's setting is read and then pinned.
    repeats : int, optional
        Repeats to keep, at most 10,000. Left out: at least 5, then until the budget is spent or 50 are done.
    clock : {"device", "call"}
        Which clock.
    seed : int
        Of the random factors: standard normal, or whole numbers from -127 to 127 for int8.
    budget_seconds : float
        Time for the repeats in seconds; compiling and warming up come on top.

    Returns
    -------
    Measurement

    Raises
    ------
    ValueError
        A size, dtype, precision or clock that cannot be measured.
    MemoryError
        The product does not fit into the memory that is free.
    ImportError
        JAX is missing or broken.
    RuntimeError
        JAX gives no device.

    Examples
    --------
    >>> run = time_matmul(64, 64, 64, repeats=3, precision="highest")
    >>> len(run.seconds), run.matmul.flops, run.relative_error < 1e-6
    (3, 524288, True)
    """
    matmul = Matmul(m, k, n, _dtype(dtype))
    _refuse_overflow(matmul)
    clock = choice("clock", clock, CLOCKS)
    seed = whole_number("seed", seed, least=0)
    if repeats is not None:
        repeats = whole_number("repeats", repeats, most=MOST_REPEATS)
    budget_seconds = positive_number("budget_seconds", budget_seconds)
    if precision is not None:
        precision = choice("precision", precision, PRECISIONS)
    jax = _import_jax()
    seen = devices()
    if seen.platform is None:
        raise RuntimeError(_no_device(seen))
    _fits(matmul, seen)
    precision = precision or _precision_setting(jax)
    try:
        return _time(jax, matmul, seen, precision, repeats, clock, seed, budget_seconds)
    except Exception as error:
        # JAX's error class has moved between versions; XLA's status code in the text has not.
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise MemoryError(
            f"The device ran out of memory at {_shape(matmul)}; take smaller sizes, "
            "or free arrays that other cells hold."
        ) from error


@names_keywords
def sweep(
    sizes: Iterable[int | Sequence[int]] | None = None,
    *,
    dtype: str = "float32",
    precision: str | None = None,
    repeats: int | None = None,
    clock: str = "device",
    seed: int = 0,
    budget_seconds: float = 60.0,
    progress: Callable[[Measurement], object] | None = None,
) -> list[Measurement]:
    """Time one product after the other, and keep what is measured whatever happens.

    An interrupt, a spent budget or a device that fails ends the sweep with a warning and returns what is
    there; a size that does not fit into memory is named in a warning and left out.

    Parameters
    ----------
    sizes : iterable of int or (m, k, n), optional
        A number means a square product. Left out: `default_sizes` of the device.
    dtype, precision, repeats, clock, seed
        As for `time_matmul`.
    budget_seconds : float
        After so many seconds no further product is begun; the first one always is.
    progress : callable, optional
        Called with each Measurement as soon as it is there.

    Returns
    -------
    list of Measurement
        In the order of `sizes`.

    Raises
    ------
    ValueError
        A size that is neither a whole number nor three of them, before anything is measured.

    Examples
    --------
    >>> [run.matmul.m for run in sweep([16, (32, 8, 8)], repeats=2)]
    [16, 32]
    """
    positive_number("budget_seconds", budget_seconds)
    if sizes is None:
        sizes = default_sizes(devices().platform or "cpu")
    if progress is not None and not callable(progress):
        raise TypeError(
            f"progress is {progress!r}, but must be a function of one Measurement, such as print."
        )
    shapes = [_triple(size) for size in several("sizes", sizes, "write [256, 512] or [(m, k, n)]")]
    measure = functools.partial(
        time_matmul, dtype=dtype, precision=precision, repeats=repeats, clock=clock, seed=seed
    )
    found: list[Measurement] = []
    start = time.perf_counter()
    try:
        for shape in shapes:
            if found and time.perf_counter() - start > budget_seconds:
                _warn(
                    f"Stopped after {budget_seconds:g} s with {len(found)} of {len(shapes)} products "
                    "measured; raise budget_seconds for more."
                )
                break
            try:
                run = measure(*shape)
            except MemoryError as error:
                _warn(f"Left out: {error}")
                continue
            except Exception as error:
                if not found:
                    raise
                _warn(f"Stopped at {shape}: {error} {len(found)} of {len(shapes)} products are kept.")
                break
            found.append(run)
            if progress is not None:
                progress(run)
    except KeyboardInterrupt:
        _warn(f"Interrupted: {len(found)} of {len(shapes)} products were measured and are kept.")
    return found


def _import_jax() -> ModuleType:
    try:
        import jax
    except Exception as error:  # a jaxlib that does not match raises more than ImportError
        problem = card.find_problems(host.look(), card.SeenJax(version=None, error=str(error)))[0]
        raise ImportError(f"{problem.cause} {problem.remedy}") from error
    return jax  # type: ignore[no-any-return]  # jax is untyped here, see pyproject


def _see_jax() -> card.SeenJax:
    try:
        import jax
    except Exception as error:  # a jaxlib that does not match raises more than ImportError
        return card.SeenJax(version=None, error=str(error))
    setting = jax.config.jax_default_matmul_precision
    try:
        listed = jax.local_devices()
    except Exception as error:  # whatever a driver raises belongs on the card
        return card.SeenJax(jax.__version__, (), str(error), _backend_errors(), setting)
    seen = tuple(_see_device(device) for device in listed)
    return card.SeenJax(jax.__version__, seen, None, _backend_errors(), setting)


def _see_device(device: Any) -> card.SeenDevice:
    try:
        memory = device.memory_stats() or {}
    except Exception:  # some backends do not implement it: unknown
        memory = {}
    coords = getattr(device, "coords", None)
    return card.SeenDevice(
        platform={"cuda": "gpu", "rocm": "gpu"}.get(device.platform, device.platform),
        kind=device.device_kind,
        coords=None if coords is None else tuple(coords),
        memory_bytes=memory.get("bytes_limit"),
        memory_used_bytes=memory.get("bytes_in_use"),
    )


def _backend_errors() -> dict[str, str]:
    # JAX falls back to the CPU silently and keeps the reason in this private table, its only record
    # of it; where a version has no such table, the card does without.
    bridge = sys.modules.get("jax._src.xla_bridge")
    table = getattr(bridge, "_backend_errors", {})
    return {str(name): str(text) for name, text in table.items()} if isinstance(table, dict) else {}


def _dtype(name: object) -> str:
    """Catalogue name of a dtype that can be timed."""
    word = str(name)
    if word in _NAMES:
        return _NAMES[word]
    if word in _NOT_TIMED or word.startswith("float8"):
        raise ValueError(f"dtype {word!r} cannot be timed here: {_NOT_TIMED.get(word, _NOT_TIMED['fp8'])}.")
    raise ValueError(f"Unknown dtype {name!r}; use one of {', '.join(_NAMES)}.{nearest(name, _NAMES)}")


def _precision_setting(jax: ModuleType) -> str:
    """Return what JAX takes when no precision is given, by one of its three plain names."""
    setting = jax.config.jax_default_matmul_precision or "default"
    setting = _PRECISION_ALIASES.get(setting, setting)
    if setting not in PRECISIONS:
        raise ValueError(
            f"jax_default_matmul_precision is {setting!r}, which is none of {', '.join(PRECISIONS)}; "
            "pass precision= to say which one to time."
        )
    return str(setting)


def _no_device(seen: card.DeviceCard) -> str:
    return (
        " ".join(f"{problem.cause} {problem.remedy}" for problem in seen.problems) or "JAX gives no device."
    )


def _triple(size: int | Sequence[int]) -> tuple[int, int, int]:
    parts = tuple(size) if isinstance(size, tuple | list) else (size, size, size)
    if len(parts) != 3:
        raise ValueError(f"A size is {size!r}, but must be one whole number or three (m, k, n).")
    m, k, n = (whole_number("a size", part) for part in parts)
    return m, k, n


def _warn(sentence: str) -> None:
    warnings.warn(sentence, RuntimeWarning, stacklevel=3)


def _shape(matmul: Matmul) -> str:
    return f"{matmul.m} x {matmul.k} x {matmul.n} in {matmul.dtype}"


def _needs(matmul: Matmul) -> tuple[int, int]:
    """Bytes that timing takes on the device and on the host."""
    m, k, n = matmul.m, matmul.k, matmul.n
    stored, result = BYTES[matmul.dtype], BYTES[matmul.result_dtype]
    # The chain keeps a copy of a and two results.
    on_device = (2 * m * k + k * n) * stored + 2 * m * n * result
    on_host = (m * k + k * n) * (stored + 4) + m * n * result
    return math.ceil(on_device), math.ceil(on_host)


def _refuse_overflow(matmul: Matmul) -> None:
    """Refuse an int8 product whose sums may leave int32: factors lie in -127 to 127."""
    longest = (2**31 - 1) // 127**2
    if matmul.dtype == "int8" and matmul.k > longest:
        raise ValueError(f"k is {matmul.k}, but int8 products summed in int32 may overflow beyond {longest}.")


def _fits(matmul: Matmul, seen: card.DeviceCard) -> None:
    """Refuse a product that cannot fit, before anything is allocated."""
    on_device, on_host = _needs(matmul)
    # A square product takes side**2 times what one of a single element takes.
    unit_device, unit_host = _needs(Matmul(1, 1, 1, matmul.dtype))
    if seen.platform == "cpu":
        limits = [(on_device + on_host, unit_device + unit_host, seen.memory_free_bytes, "this machine")]
    else:
        limits = [
            (on_device, unit_device, seen.memory_free_bytes, f"the {seen.kind}"),
            (on_host, unit_host, host.look().memory_free_bytes, "the host"),
        ]
    for needed, unit, free, where in limits:
        if free is not None and needed > free:
            side = math.isqrt(free // unit)
            raise MemoryError(
                f"Timing {_shape(matmul)} needs about {needed / 2**30:.1f} GiB on {where}, but "
                f"{free / 2**30:.1f} GiB are free; the largest square that fits has sides of about {side}."
            )


def _time(
    jax: ModuleType,
    matmul: Matmul,
    seen: card.DeviceCard,
    precision: str,
    repeats: int | None,
    clock: str,
    seed: int,
    budget_seconds: float,
) -> Measurement:
    a, b = _factors(jax, matmul, seed)
    on_device = jax.block_until_ready(jax.device_put((a, b), jax.local_devices()[0]))
    length = 1
    program, compile_seconds, text = _compile(jax, single(jax, matmul, precision), on_device)
    if clock == "device":
        estimate = min(_call(jax, program, on_device)[0] for _ in range(2))
        for _ in range(2):  # a call's dispatch hides how fast a small product is: look twice
            length = max(2, min(_LONGEST_CHAIN, math.ceil(_CHAIN_SECONDS / estimate)))
            program, compile_seconds, text = _compile(jax, chain(jax, matmul, precision, length), on_device)
            warm = _warm_up(jax, program, on_device)
            if min(warm) > _CHAIN_SECONDS / 2 or length == _LONGEST_CHAIN:
                break
            estimate = min(warm) / length
    else:
        warm = _warm_up(jax, program, on_device)
    seconds, last = _repeat(jax, program, on_device, repeats, budget_seconds)
    left, result = last if clock == "device" else (a, last)
    error, rows = relative_error(np.asarray(left), b, np.asarray(result), seed)
    per_product = tuple(value / length for value in seconds)
    return Measurement(
        matmul=matmul,
        device=MeasuredDevice(
            seen.platform or "", seen.kind or "", seen.chip, seen.devices_per_chip, seen.cpu_model, seen.cores
        ),
        clock=clock,
        precision=precision,
        precision_in_program=precision_of(text),
        seconds=per_product,
        products_per_repeat=length,
        compile_seconds=compile_seconds,
        warmup_calls=len(warm),
        relative_error=error,
        error_rows=rows,
        seed=seed,
        versions=seen.versions,
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        notes=remarks(matmul.dtype, seen.platform or "", seen.kind or "", error, per_product),
    )


def _factors(jax: ModuleType, matmul: Matmul, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    random = np.random.default_rng(seed)
    shapes = (matmul.m, matmul.k), (matmul.k, matmul.n)
    if matmul.dtype == "int8":
        a, b = (random.integers(-127, 128, shape, dtype=np.int8) for shape in shapes)
    else:
        stored = jax.numpy.dtype(_JAX_NAMES[matmul.dtype])
        a, b = (random.standard_normal(shape, dtype=np.float32).astype(stored) for shape in shapes)
    return a, b


def single(jax: ModuleType, matmul: Matmul, precision: str) -> Callable[[Any, Any], Any]:
    """Return the function whose call makes one product.

    Parameters
    ----------
    jax : module
        JAX.
    matmul : Matmul
        Decides the result's type.
    precision : str
        Pinned in the program.

    Returns
    -------
    callable
        (a, b) to a @ b.

    Examples
    --------
    >>> import jax
    >>> import numpy as np
    >>> one = np.ones((2, 2), np.float32)
    >>> single(jax, Matmul(2, 2, 2, "fp32"), "highest")(one, one).tolist()
    [[2.0, 2.0], [2.0, 2.0]]
    """
    result = jax.numpy.dtype(_JAX_NAMES[matmul.result_dtype])
    pinned = {name.lower(): value for name, value in jax.lax.Precision.__members__.items()}[precision]

    def multiply(a: Any, b: Any) -> Any:
        contract_k = (((1,), (0,)), ((), ()))
        return jax.lax.dot_general(a, b, contract_k, precision=pinned, preferred_element_type=result)

    return multiply


def chain(
    jax: ModuleType, matmul: Matmul, precision: str, length: int
) -> Callable[[Any, Any], tuple[Any, Any]]:
    """Return the function whose call makes `length` products, each needing the one before.

    Before each product one element of the last result, cut to [-1, 1] so that nothing grows, is
    written into ``a[0, 0]``. The whole result is carried from step to step, so no product can
    shrink to the one element that is read; the left factor differs at each step, so none can
    be moved out of the loop. The cost over bare products is one element.

    Parameters
    ----------
    jax : module
        JAX.
    matmul : Matmul
        Decides shape and the result's type.
    precision : str
        Pinned in the program.
    length : int
        Products.

    Returns
    -------
    callable
        (a, b) to (the last left factor, its product with b).

    Examples
    --------
    >>> import jax
    >>> import numpy as np
    >>> last, result = chain(jax, Matmul(1, 2, 1, "fp32"), "highest", 3)(
    ...     np.float32([[5, 3]]), np.float32([[0.5], [0.25]]))
    >>> last.tolist(), result.tolist()
    ([[1.0, 3.0]], [[1.25]])
    """
    lax, multiply = jax.lax, single(jax, matmul, precision)

    def step(_: Any, state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        a, b, last = state
        element = lax.slice(last, (0, 0), (1, 1))
        cut = lax.clamp(lax.full_like(element, -1), element, lax.full_like(element, 1))
        a = lax.dynamic_update_slice(a, cut.astype(a.dtype), (0, 0))
        return a, b, multiply(a, b)

    def run(a: Any, b: Any) -> tuple[Any, Any]:
        nothing = jax.numpy.zeros((matmul.m, matmul.n), jax.numpy.dtype(_JAX_NAMES[matmul.result_dtype]))
        a, _, result = lax.fori_loop(0, length, step, (a, b, nothing))
        return a, result

    return run


def _compile(
    jax: ModuleType, function: Callable[..., Any], arguments: tuple[Any, Any]
) -> tuple[Any, float, str]:
    """Compile for these arguments; also the seconds it took, and the program's text after and before."""
    start = time.perf_counter()
    lowered = jax.jit(function).lower(*arguments)
    program = lowered.compile()
    seconds = time.perf_counter() - start
    return program, seconds, f"{program.as_text()}\n{lowered.as_text()}"


def _call(jax: ModuleType, program: Any, arguments: tuple[Any, Any]) -> tuple[float, Any]:
    """Seconds of one call, waited for, and what it returned."""
    start = time.perf_counter()
    result = jax.block_until_ready(program(*arguments))
    return time.perf_counter() - start, result


def _warm_up(jax: ModuleType, program: Any, arguments: tuple[Any, Any]) -> list[float]:
    """Call until three calls in a row agree within a tenth, at most 10 calls or about a second."""
    seconds: list[float] = []
    while len(seconds) < 10 and sum(seconds) < 1:
        seconds.append(_call(jax, program, arguments)[0])
        if len(seconds) >= 3 and max(seconds[-3:]) < 1.1 * min(seconds[-3:]):
            break
    return seconds


def _repeat(
    jax: ModuleType, program: Any, arguments: tuple[Any, Any], repeats: int | None, budget: float
) -> tuple[tuple[float, ...], Any]:
    """Seconds of every call, and what the last one returned."""
    seconds: list[float] = []
    result = None
    fewest, most = (_FEWEST_REPEATS, _MOST_REPEATS) if repeats is None else (repeats, repeats)
    while len(seconds) < fewest or (len(seconds) < most and sum(seconds) < budget):
        taken, result = _call(jax, program, arguments)
        seconds.append(taken)
    return tuple(seconds), result


def relative_error(
    left: NDArray[Any], right: NDArray[Any], result: NDArray[Any], seed: int
) -> tuple[float, int]:
    """Compare sampled rows of a result with the product of the same factors in float64.

    Parameters
    ----------
    left, right, result : ndarray
        Factors as the device had them, (m, k) and (k, n), and its result (m, n).
    seed : int
        Of the sample.

    Returns
    -------
    (float, int)
        ``norm(result - exact) / norm(exact)`` in the Frobenius norm, and the rows compared: all
        of them up to 64. Where the exact rows are all zero, the norm of the difference.

    Examples
    --------
    >>> one = np.ones((2, 2))
    >>> relative_error(one, one, np.full((2, 2), 2.5), seed=0)
    (0.25, 2)
    """
    m, n = result.shape
    count = min(m, _ERROR_ROWS)
    rows = np.sort(np.random.default_rng(seed).choice(m, count, replace=False))
    exact_rows = left[rows].astype(np.float64)
    squares = np.zeros(2)
    for start in range(0, n, 256):  # in slices: the right factor in float64 could be the largest array of all
        columns = slice(start, start + 256)
        exact = exact_rows @ right[:, columns].astype(np.float64)
        difference = result[rows, columns].astype(np.float64) - exact
        squares += np.sum(difference**2), np.sum(exact**2)
    difference_norm, exact_norm = np.sqrt(squares)
    return float(difference_norm / (exact_norm or 1.0)), count


def precision_of(program_text: str) -> str:
    """Read the precision that a compiled program carries.

    Parameters
    ----------
    program_text : str
        Optimised HLO, followed by the StableHLO that it was made from: where the compiler put a
        call into a library in place of a product, only the latter still names the precision.

    Returns
    -------
    str
        In lower case; ``"default"`` when the program names none, as HLO leaves that one out.

    Examples
    --------
    >>> precision_of("dot(%a, %b), operand_precision={highest,highest}")
    'highest'
    """
    found = re.search(r'operand_precision"?\s*[=:]\s*[\[{]"?(\w+)', program_text) or re.search(
        r"\bprecision = \[(\w+)", program_text
    )
    return found.group(1).lower() if found else "default"


def remarks(dtype: str, platform: str, kind: str, error: float, seconds: Sequence[float]) -> tuple[str, ...]:
    """Return the sentences that must stand beside a measured number.

    Parameters
    ----------
    dtype, platform, kind : str
        What was multiplied, and on what.
    error : float
        Relative error against float64.
    seconds : sequence of float
        The repeats, in order.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> remarks("fp32", "gpu", "NVIDIA H100 80GB HBM3", 3e-4, (1e-3,) * 6)
    ('An error of 3.0e-04 is what factors rounded to TF32 give: this was not a float32 product.',)
    """
    found = []
    if dtype == "int8" and platform == "cpu":
        found.append("int8 on a CPU depends on XLA's version and is not representative of an accelerator.")
    # Rounding factors to 8 bits of significand gives about 2e-3, to 11 bits about 3e-4, and a float32
    # product stays below 1e-5 at any size that fits; three passes of bfloat16 also stay below 5e-5.
    if dtype == "fp32" and error > 5e-5:
        like = "bfloat16" if error > 1e-3 else "TF32"
        found.append(
            f"An error of {error:.1e} is what factors rounded to {like} give: this was not a float32 product."
        )
    third = len(seconds) // 3
    if third >= 2:
        ratio = float(np.median(seconds[-third:]) / np.median(seconds[:third]))
        if not 0.9 < ratio < 1.1:
            word = "slower" if ratio > 1 else "faster"
            found.append(
                f"The run drifted: its last third was {abs(ratio - 1):.0%} {word} than its first; "
                "the device was throttled, shared or not yet warm."
            )
    return tuple(found)
