"""One product, timed by either of two clocks."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp._checks import choice, names_keywords, positive_number, whole_number
from pulsewarp.bench import card, host
from pulsewarp.bench.live._clock import MOST_REPEATS, call_once, compile_for, repeat_calls, warm_up
from pulsewarp.bench.live._dtypes import JAX_NAMES, catalogue_dtype, precision_setting
from pulsewarp.bench.live._observe import devices, import_jax, no_device
from pulsewarp.bench.live.errors import precision_of, relative_error, remarks
from pulsewarp.bench.measurement import CLOCKS, PRECISIONS, MeasuredDevice, Measurement
from pulsewarp.matmul import BYTES, Matmul

_CHAIN_SECONDS = 0.02  # a chain this long spreads a dispatch of 50 us to a quarter of a percent
_LONGEST_CHAIN = 20_000


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
    matmul = Matmul(m, k, n, catalogue_dtype(dtype))
    _refuse_overflow(matmul)
    clock = choice("clock", clock, CLOCKS)
    seed = whole_number("seed", seed, least=0)
    if repeats is not None:
        repeats = whole_number("repeats", repeats, most=MOST_REPEATS)
    budget_seconds = positive_number("budget_seconds", budget_seconds)
    if precision is not None:
        precision = choice("precision", precision, PRECISIONS)
    jax = import_jax()
    seen = devices()
    if seen.platform is None:
        raise RuntimeError(no_device(seen))
    _fits(matmul, seen)
    precision = precision or precision_setting(jax)
    try:
        return _time(jax, matmul, seen, precision, repeats, clock, seed, budget_seconds)
    except Exception as error:
        # JAX's error class has moved between versions; XLA's status code in the text has not.
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise MemoryError(
            f"The device ran out of memory at {_in_words(matmul)}; take smaller sizes, "
            "or free arrays that other cells hold."
        ) from error


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
    program, compile_seconds, text = compile_for(jax, single(jax, matmul, precision), on_device)
    if clock == "device":
        estimate = min(call_once(jax, program, on_device)[0] for _ in range(2))
        for _ in range(2):  # a call's dispatch hides how fast a small product is: look twice
            length = max(2, min(_LONGEST_CHAIN, math.ceil(_CHAIN_SECONDS / estimate)))
            program, compile_seconds, text = compile_for(
                jax, chain(jax, matmul, precision, length), on_device
            )
            warm = warm_up(jax, program, on_device)
            if min(warm) > _CHAIN_SECONDS / 2 or length == _LONGEST_CHAIN:
                break
            estimate = min(warm) / length
    else:
        warm = warm_up(jax, program, on_device)
    seconds, last = repeat_calls(jax, program, on_device, repeats, budget_seconds)
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
    result = jax.numpy.dtype(JAX_NAMES[matmul.result_dtype])
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
        nothing = jax.numpy.zeros((matmul.m, matmul.n), jax.numpy.dtype(JAX_NAMES[matmul.result_dtype]))
        a, _, result = lax.fori_loop(0, length, step, (a, b, nothing))
        return a, result

    return run


def _factors(jax: ModuleType, matmul: Matmul, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    random = np.random.default_rng(seed)
    shapes = (matmul.m, matmul.k), (matmul.k, matmul.n)
    if matmul.dtype == "int8":
        a, b = (random.integers(-127, 128, shape, dtype=np.int8) for shape in shapes)
    else:
        stored = jax.numpy.dtype(JAX_NAMES[matmul.dtype])
        a, b = (random.standard_normal(shape, dtype=np.float32).astype(stored) for shape in shapes)
    return a, b


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
                f"Timing {_in_words(matmul)} needs about {needed / 2**30:.1f} GiB on {where}, but "
                f"{free / 2**30:.1f} GiB are free; the largest square that fits has sides of about {side}."
            )


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


def _in_words(matmul: Matmul) -> str:
    return f"{matmul.m} x {matmul.k} x {matmul.n} in {matmul.dtype}"
