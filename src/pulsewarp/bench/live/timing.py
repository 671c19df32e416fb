"""One product, timed by either of two clocks."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp._checks import choice, names_keywords, positive_number, whole_number
from pulsewarp.bench import card, host
from pulsewarp.bench.live import errors
from pulsewarp.bench.live._clock import (
    MOST_REPEATS,
    Links,
    Repeats,
    call_once,
    compile_for,
    lengthen,
    memory_named,
    ran_out_of_memory,
    repeat_calls,
    warm_up,
)
from pulsewarp.bench.live._dtypes import JAX_NAMES, catalogue_dtype, precision_setting, stored_dtype
from pulsewarp.bench.live._observe import begin
from pulsewarp.bench.live._proof import HLO_NAMES, Proof, examine, widened
from pulsewarp.bench.measurement import CLOCKS, PRECISIONS, TRANSPOSED, Measurement, in_words
from pulsewarp.bench.rounding import expected_error
from pulsewarp.matmul import BYTES, Matmul

_PROBE_SIDE = 64  # a multiple of what the 8-bit units of any chip ask for


@dataclass(frozen=True)
class Work:
    """What is multiplied, and how.

    Parameters
    ----------
    matmul : Matmul
        The product.
    stored : str
        JAX's name of the factors' type.
    batch : int
        Products in one batched product.
    transposed : {"", "a", "b", "ab"}
        Which factors lie transposed.
    precision : {"default", "high", "highest"}
        Pinned in the program.
    """

    matmul: Matmul
    stored: str
    batch: int = 1
    transposed: str = ""
    precision: str = "default"

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shapes of the factors as they lie on the device; no batch axis for a batch of one."""
        m, k, n = self.matmul.m, self.matmul.k, self.matmul.n
        lead = (self.batch,) if self.batch > 1 else ()
        left = (k, m) if "a" in self.transposed else (m, k)
        right = (n, k) if "b" in self.transposed else (k, n)
        return (*lead, *left), (*lead, *right)

    @property
    def result_shape(self) -> tuple[int, ...]:
        """Shape of the result; no batch axis for a batch of one."""
        return (*((self.batch,) if self.batch > 1 else ()), self.matmul.m, self.matmul.n)

    def result_dtype(self, jax: ModuleType) -> Any:
        """Return the type of the result."""
        return jax.numpy.dtype(JAX_NAMES[self.matmul.result_dtype])

    @property
    def smaller(self) -> str:
        """Which factor is the smaller one, "a" or "b"; "a" where they are alike."""
        return "a" if self.matmul.m <= self.matmul.n else "b"

    @property
    def words(self) -> str:
        """The work in a few words."""
        return in_words(self.matmul, self.batch, self.transposed, self.stored)


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
    batch: int = 1,
    transposed: str = "",
    seed: int = 0,
    budget_seconds: float = 1.0,
) -> Measurement:
    """Time the product of a random m x k and a random k x n matrix on the first device JAX lists.

    The factors lie on the device beforehand; compiling is timed apart; calls are thrown away
    until three in a row agree within a tenth; every repeat waits for its result and is kept.

    ``clock="call"`` times one call as a Python loop sees it, dispatch included.
    ``clock="device"`` times a chain of products inside one compiled call and divides by their
    number. One element of each result (of each of a batch) is written into a factor of the next product,
    so that none can be hoisted, dropped or overlapped, and each call takes over the arrays of the last one,
    so that none is charged for fresh pages; the chain lasts about 20 ms, or as long as a
    hundred calls of next to nothing where that is more, so that the one dispatch weighs one percent at
    most. The compiled program is read: where the compiler prepares a factor before the chain, such as by
    widening it, elements are written into both, so that each product pays for it; where it does so all the
    same, a note says it.

    A note stands beside the number wherever it may mislead: an error above what is expected, a run that
    drifts or scatters, factors that the device widens first, a rate above the chip's published peak, a CPU
    in place of an accelerator.

    On a CPU the kernels are XLA's, not those of NumPy's BLAS, and may take longer. `make bench` measures how
    much on the machine it runs on: a float32 2048 product by either in turn, with the processor time of both,
    which tells a slower kernel from fewer threads.

    Not modelled: several devices (`time_sharded`), power.

    Parameters
    ----------
    m, k, n : int
        Sizes.
    dtype : str
        ``"float32"``, ``"bfloat16"``, ``"float16"``, ``"int8"``, ``"float8_e4m3fn"`` or
        ``"float8_e5m2"``, or the catalogue's names (``"fp32"``, ``"bf16"``, ``"fp16"``, ``"fp8"``). int8
        is summed in int32, 8-bit floats give bfloat16; the others give their own type. The device is
        asked first, by a small product that is compiled and checked.
    precision : {"default", "high", "highest"}, optional
        JAX's precision, pinned in the program. Left out, JAX's setting is read and then pinned.
    repeats : int, optional
        Repeats to keep, at most 10,000. Left out: at least 5, then until they are settled, the budget is
        spent or 100 are made. Settled are 10 or more whose quartiles' distance, over the root of their
        number, is at most 1 % of the median.
    clock : {"device", "call"}
        Which clock.
    batch : int
        Products of factors of their own in one batched product; the times are for the whole batch.
    transposed : {"", "a", "b", "ab"}
        Which factors lie transposed on the device: a as (k, m), b as (n, k).
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
        A size, dtype, precision or clock that cannot be measured, or a dtype that the device lacks.
    MemoryError
        The product does not fit into the memory that is free.
    ImportError
        JAX is missing or broken.
    RuntimeError
        JAX gives no device.
    KeyboardInterrupt
        An interrupt. During the repeats its ``measurement`` holds those that were made.

    Examples
    --------
    >>> run = time_matmul(64, 64, 64, repeats=3, precision="highest")
    >>> len(run.seconds), run.matmul.flops, run.relative_error <= run.error_bound
    (3, 524288, True)
    """
    matmul = Matmul(m, k, n, catalogue_dtype(dtype))
    _refuse_overflow(matmul)
    clock = choice("clock", clock, CLOCKS)
    batch = whole_number("batch", batch)
    transposed = choice("transposed", transposed, TRANSPOSED)
    seed = whole_number("seed", seed, least=0)
    if repeats is not None:
        repeats = whole_number("repeats", repeats, most=MOST_REPEATS)
    budget_seconds = positive_number("budget_seconds", budget_seconds)
    if precision is not None:
        precision = choice("precision", precision, PRECISIONS)
    jax, seen = begin()
    _fits(matmul, seen, batch)
    work = Work(matmul, stored_dtype(dtype), batch, transposed, precision or precision_setting(jax))
    with memory_named(work.words, "take smaller sizes"):
        dispatch = _ask(jax, work.stored, seen.measured.platform, seen.measured.kind)
        factors = _factors(jax, work, seed)
        if clock == "call":
            ran = _by_calls(jax, work, factors, repeats, budget_seconds)
        else:
            ran = _by_chain(jax, work, factors, repeats, budget_seconds, dispatch)
        return ran.made.hand_over(_measured(work, seen, clock, seed, ran))


@functools.cache
def _ask(jax: ModuleType, stored: str, platform: str, kind: str) -> float:
    """Compile and check a small product, and refuse a type that the device does not multiply.

    Returns the seconds of a call of it, which are those of the dispatch for the most part.
    """
    side = _PROBE_SIDE
    work = Work(Matmul(side, side, side, catalogue_dtype(stored)), stored, precision="highest")
    instead = "use dtype='bfloat16'" if stored != "bfloat16" else "use dtype='float32'"
    try:
        a, b = _factors(jax, work, seed=0)
        program, _, text = compile_for(jax, single_of(jax, work), (a, b))
        arguments = jax.block_until_ready(jax.device_put((a, b), jax.local_devices()[0]))
        result = np.asarray(program(*arguments))
    except Exception as error:
        if ran_out_of_memory(error):
            raise
        cause = " ".join(str(error).split())[:200]
        raise ValueError(f"The {kind} cannot multiply {stored}: {cause}; {instead}.") from error
    found = errors.compare(a, b, result, seed=0)
    bound = expected_error(work.matmul.dtype, "default", platform, side, found.cancellation)
    # A wrong product is off by about itself; sums in fewer bits than float32 has are not wrong.
    if not found.error <= 0.05 + (bound or 0.0):
        raise ValueError(
            f"The {kind} multiplies {stored} wrongly: a small product is off by {found.error:.1e}; {instead}."
        )
    multiplied = examine(text).multiplied
    if stored.startswith("float8") and widened(stored, multiplied):
        raise ValueError(
            f"The {kind} has no products of {stored}: its compiler turns factors into {multiplied} first, so "
            f"the time would be that of {multiplied} and of turning them; {instead}."
        )
    return min(call_once(jax, program, arguments)[0] for _ in range(5))


@dataclass(frozen=True)
class _Ran:
    """A product that was timed, and what is needed to judge it."""

    made: Repeats
    factors: tuple[NDArray[Any], NDArray[Any]]  # as they lay on the device when the result was made
    result: Any
    compile_seconds: float
    text: str
    warmup_calls: int
    length: int = 1
    notes: tuple[str, ...] = ()


def _by_calls(
    jax: ModuleType,
    work: Work,
    factors: tuple[NDArray[Any], NDArray[Any]],
    repeats: int | None,
    budget: float,
) -> _Ran:
    placed = _place(jax, factors)
    program, compile_seconds, text = compile_for(jax, single_of(jax, work), placed)
    warm = warm_up(jax, program, placed)
    made = repeat_calls(jax, program, placed, repeats, budget)
    return _Ran(made, factors, made.result, compile_seconds, text, len(warm))


def _by_chain(
    jax: ModuleType,
    work: Work,
    factors: tuple[NDArray[Any], NDArray[Any]],
    repeats: int | None,
    budget: float,
    dispatch: float,
) -> _Ran:
    writes, links = _long_chain(jax, work, factors, dispatch)
    made = repeat_calls(jax, links, (), repeats, budget)
    if made.interrupt is not None:
        links.recover()
    *written, result = links.held
    last = tuple(
        _with_corner(factor, np.asarray(written.pop(0))) if which in writes else factor
        for which, factor in zip("ab", factors, strict=True)
    )
    return _Ran(
        made,
        (last[0], last[1]),
        result,
        links.compile_seconds,
        links.text,
        len(links.warm),
        links.length,
        links.about_fresh_pages(float(np.median(made.seconds)) / links.length),
    )


def _long_chain(
    jax: ModuleType, work: Work, factors: tuple[NDArray[Any], NDArray[Any]], dispatch: float
) -> tuple[str, Links]:
    """Return a chain that is long enough and prepares no factor beforehand, and what it writes into."""
    estimate = _seconds_alone(jax, work, factors)
    for writes in (work.smaller, "ab"):
        links = links_of(jax, work, factors, writes)
        lengthen(jax, links, estimate, dispatch)
        if not examine(links.text).changed:
            break
        # A factor that stays the same was prepared once, before the loop: change it at each step too.
        estimate = min(links.warm) / links.length
    return writes, links


def _seconds_alone(jax: ModuleType, work: Work, factors: tuple[NDArray[Any], NDArray[Any]]) -> float:
    placed = _place(jax, factors)
    program, _, _ = compile_for(jax, single_of(jax, work), placed)
    return min(call_once(jax, program, placed)[0] for _ in range(2))


def links_of(jax: ModuleType, work: Work, factors: tuple[NDArray[Any], NDArray[Any]], writes: str) -> Links:
    """Return the chain of some work on the first device; its length is still to be said."""
    changed = tuple(i for i, which in enumerate("ab") if which in writes)
    return Links(
        jax,
        functools.partial(chain_of, jax, work, writes),
        lambda: _place(jax, (*factors, np.zeros(work.result_shape, work.result_dtype(jax)))),
        (*changed, 2),
    )


def _place(jax: ModuleType, arrays: tuple[NDArray[Any], ...]) -> tuple[Any, ...]:
    placed: tuple[Any, ...] = jax.block_until_ready(jax.device_put(arrays, jax.local_devices()[0]))
    return placed


def _with_corner(factor: NDArray[Any], last: NDArray[Any]) -> NDArray[Any]:
    """Return a factor with the elements that the chain wrote, taken from what lay on the device last."""
    factor = factor.copy()
    factor[..., :1, :1] = last[..., :1, :1]
    return factor


def _measured(work: Work, seen: card.DeviceCard, clock: str, seed: int, ran: _Ran) -> Measurement:
    left, right = (
        np.swapaxes(factor, -1, -2) if which in work.transposed else factor
        for which, factor in zip("ab", ran.factors, strict=True)
    )
    found = errors.compare(left, right, np.asarray(ran.result), seed)
    device, matmul = seen.measured, work.matmul
    bound = expected_error(matmul.dtype, work.precision, device.platform, matmul.k, found.cancellation)
    per_product = tuple(value / ran.length for value in ran.made.seconds)
    median = float(np.median(per_product))
    rate = work.batch * matmul.flops / median
    notes = (
        *errors.remarks(matmul.dtype, device.platform, device.kind, found.error, per_product),
        *errors.beyond(found.error, bound, matmul.dtype, work.precision),
        *errors.beyond_peak(rate, matmul.dtype, seen.chip, seen.devices_per_chip),
        *_remarks_on_program(work, examine(ran.text), ran.length, clock),
        *(_remarks_on_launches(device.platform, median) if clock == "device" else ()),
        *seen.fallback,
        *ran.notes,
        *ran.made.notes,
    )
    return Measurement(
        matmul=matmul,
        stored=work.stored,
        batch=work.batch,
        transposed=work.transposed,
        device=device,
        clock=clock,
        precision=work.precision,
        precision_in_program=errors.precision_of(ran.text),
        seconds=per_product,
        products_per_repeat=ran.length,
        compile_seconds=ran.compile_seconds,
        warmup_calls=ran.warmup_calls,
        relative_error=found.error,
        error_bound=bound,
        error_rows=found.rows,
        seed=seed,
        versions=seen.versions,
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        notes=notes,
    )


def _remarks_on_program(work: Work, proof: Proof, length: int, clock: str) -> tuple[str, ...]:
    """Say where the compiled program is not the one that was meant."""
    found = []
    if widened(work.stored, proof.multiplied):
        found.append(
            f"The device multiplies {work.stored} by turning the factors into {proof.multiplied} first; "
            "the time includes that."
        )
    elif proof.multiplied not in (None, HLO_NAMES[work.stored]):
        found.append(f"The program multiplies {proof.multiplied}, though {work.stored} was asked for.")
    if clock == "call":
        return tuple(found)
    if proof.products is None or proof.changed is None:
        found.append(
            "The compiled program could not be read to check that each product of the chain is in it."
        )
    elif proof.products == 0:
        found.append("The compiler made no matrix product of this but something simpler, as where k is 1.")
    elif proof.products != length:
        found.append(f"The compiled program makes {proof.products} products where {length} were asked for.")
    elements = work.batch * work.matmul.m * work.matmul.n
    if proof.elements is not None and proof.elements < elements:
        found.append(
            f"The compiled program makes only {proof.elements} of the {elements} elements of each product."
        )
    if proof.changed:
        found.append(
            f"The compiler prepared {' and '.join(proof.changed)} once, before the chain; this time leaves "
            "that out, the time by clock='call' does not."
        )
    return tuple(found)


def _remarks_on_launches(platform: str, median: float) -> tuple[str, ...]:
    if platform != "gpu" or median >= 2e-5:
        return ()
    return (
        "On a GPU each step of the chain starts kernels of its own, which takes microseconds: "
        "of so short a product that is a part of the time.",
    )


def single(
    jax: ModuleType, matmul: Matmul, precision: str, *, batch: int = 1, transposed: str = ""
) -> Callable[[Any, Any], Any]:
    """Return the function whose call makes one product, or one batch of them.

    Parameters
    ----------
    jax : module
        JAX.
    matmul : Matmul
        Decides the result's type.
    precision : str
        Pinned in the program.
    batch, transposed
        As for `time_matmul`.

    Returns
    -------
    callable
        (a, b) to their product.

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
    lead = 1 if batch > 1 else 0
    contract = ((lead + ("a" not in transposed),), (lead + ("b" in transposed),))
    batched = ((0,), (0,)) if lead else ((), ())

    def multiply(a: Any, b: Any) -> Any:
        return jax.lax.dot_general(a, b, (contract, batched), precision=pinned, preferred_element_type=result)

    return multiply


def single_of(jax: ModuleType, work: Work) -> Callable[[Any, Any], Any]:
    """Return `single` of some work."""
    return single(jax, work.matmul, work.precision, batch=work.batch, transposed=work.transposed)


def chain(
    jax: ModuleType,
    matmul: Matmul,
    precision: str,
    length: int,
    *,
    batch: int = 1,
    transposed: str = "",
    writes: str = "a",
) -> Callable[[Any, Any, Any], tuple[Any, ...]]:
    """Return the function whose call makes `length` products, each needing the one before.

    Before each product one element of the last result (of each of a batch), cut to [-1, 1] so that nothing
    grows, is written into the first element of a factor. The whole result is carried from step to step, so
    no product can shrink to the one element that is read; a factor differs at each step, so none can be moved
    out of the loop. The cost over bare products is one element a step. What is changed is taken and given
    back, so that a caller who donates it pays for no copy and no fresh page.

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
    batch, transposed
        As for `time_matmul`.
    writes : {"a", "b", "ab"}
        Which factor is written into, or both.

    Returns
    -------
    callable
        (a, b, the product before) to (the factors that were written into, the last product).

    Examples
    --------
    >>> import jax
    >>> import numpy as np
    >>> a, result = chain(jax, Matmul(1, 2, 1, "fp32"), "highest", 3)(
    ...     np.float32([[5, 3]]), np.float32([[0.5], [0.25]]), np.zeros((1, 1), np.float32))
    >>> a.tolist(), result.tolist()
    ([[1.0, 3.0]], [[1.25]])
    """
    lax, multiply = jax.lax, single(jax, matmul, precision, batch=batch, transposed=transposed)
    lead = (batch,) if batch > 1 else ()
    start, one = (0,) * (len(lead) + 2), (*lead, 1, 1)

    def write(into: Any, element: Any) -> Any:
        return lax.dynamic_update_slice(into, element.astype(into.dtype), start)

    def step(_: Any, state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        a, b, last = state
        element = lax.slice(last, start, one)
        cut = lax.clamp(lax.full_like(element, -1), element, lax.full_like(element, 1))
        a = write(a, cut) if "a" in writes else a
        b = write(b, cut) if "b" in writes else b
        return a, b, multiply(a, b)

    def run(a: Any, b: Any, last: Any) -> tuple[Any, ...]:
        a, b, last = lax.fori_loop(0, length, step, (a, b, last))
        return (*(factor for which, factor in (("a", a), ("b", b)) if which in writes), last)

    return run


def chain_of(
    jax: ModuleType, work: Work, writes: str, length: int
) -> Callable[[Any, Any, Any], tuple[Any, ...]]:
    """Return `chain` of some work."""
    return chain(
        jax,
        work.matmul,
        work.precision,
        length,
        batch=work.batch,
        transposed=work.transposed,
        writes=writes,
    )


def _factors(jax: ModuleType, work: Work, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    random = np.random.default_rng(seed)
    if work.stored == "int8":
        a, b = (random.integers(-127, 128, shape, dtype=np.int8) for shape in work.shapes)
    else:
        stored = jax.numpy.dtype(work.stored)
        a, b = (random.standard_normal(shape, dtype=np.float32).astype(stored) for shape in work.shapes)
    return a, b


def _fits(matmul: Matmul, seen: card.DeviceCard, batch: int = 1) -> None:
    """Refuse a product that cannot fit, before anything is allocated."""
    on_device, on_host = _needs(matmul, batch)
    # A square product takes side**2 times what one of a single element takes.
    unit_device, unit_host = _needs(Matmul(1, 1, 1, matmul.dtype), batch)
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
                f"Timing {in_words(matmul, batch)} needs about {needed / 2**30:.1f} GiB on {where}, but "
                f"{free / 2**30:.1f} GiB are free; the largest square that fits has sides of about {side}."
            )


def _needs(matmul: Matmul, batch: int = 1) -> tuple[int, int]:
    """Bytes that timing takes on the device and on the host."""
    m, k, n = matmul.m, matmul.k, matmul.n
    stored, result = BYTES[matmul.dtype], BYTES[matmul.result_dtype]
    # The chain may keep a copy of each factor, widened where the device widens it, and has two results.
    copied = stored if stored >= 4 else stored + 4
    on_device = (m * k + k * n) * (stored + copied) + 2 * m * n * result
    on_host = (m * k + k * n) * (stored + 4) + m * n * result
    return math.ceil(batch * on_device), math.ceil(batch * on_host)


def _refuse_overflow(matmul: Matmul) -> None:
    """Refuse an int8 product whose sums may leave int32: factors lie in -127 to 127."""
    longest = (2**31 - 1) // 127**2
    if matmul.dtype == "int8" and matmul.k > longest:
        raise ValueError(f"k is {matmul.k}, but int8 products summed in int32 may overflow beyond {longest}.")
