"""What the compiler did with a function: its program, its cost, and where the time of its calls goes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from pulsewarp._checks import choice, instance, names_keywords, whole_number
from pulsewarp.bench import timeline
from pulsewarp.bench.hlo import read_program
from pulsewarp.bench.live._dtypes import JAX_NAMES, catalogue_dtype, precision_setting
from pulsewarp.bench.live._observe import begin, import_jax
from pulsewarp.bench.live.timing import single
from pulsewarp.bench.measurement import PRECISIONS
from pulsewarp.bench.program import CompiledProgram
from pulsewarp.matmul import Matmul

_PARTS = {"arguments": "argument", "results": "output", "temporaries": "temp"}
_RUNNING = "Profile has already been started"


@names_keywords
def compiled(function: Callable[..., Any], *arguments: Any, matmul: Matmul | None = None) -> CompiledProgram:
    """Compile a function for these arguments and show what XLA made of it.

    Nothing is run. The program is the one that a call with such arguments would run on the device that
    JAX puts them on.

    Parameters
    ----------
    function : callable
        Of arrays; a function that `jax.jit` already wrapped keeps its options.
    *arguments
        Arrays, numbers, or `jax.ShapeDtypeStruct` where only the shape is known.
    matmul : Matmul, optional
        The product that the function computes, whose FLOPs and bytes are set beside XLA's.

    Returns
    -------
    CompiledProgram

    Raises
    ------
    TypeError
        When `function` cannot be called, or `matmul` is no Matmul.
    ImportError
        JAX is missing or broken.
    RuntimeError
        JAX gives no device.

    Examples
    --------
    >>> import numpy as np
    >>> one = np.ones((32, 32), np.float32)
    >>> made = compiled(lambda a, b: a @ b, one, one, matmul=Matmul(32, 32, 32, "fp32"))
    >>> made.flops, made.flops_ratio, len(made.program.products)
    (65536.0, 1.0, 1)
    """
    _callable(function)
    if matmul is not None:
        instance("matmul", matmul, Matmul, "write Matmul(m, k, n, 'fp32')")
    jax, seen = begin()
    program = _jitted(jax, function).lower(*arguments).compile()
    flops, moved, why_unknown = _cost(program)
    return CompiledProgram(
        program=read_program(program.as_text()),
        platform=seen.measured.platform,
        flops=flops,
        bytes_accessed=moved,
        matmul=matmul,
        memory_bytes=_memory(program),
        versions={name: seen.versions[name] for name in ("jax", "jaxlib") if name in seen.versions},
        why_unknown=why_unknown,
    )


@names_keywords
def inspect_matmul(
    m: int, k: int, n: int, *, dtype: str = "float32", precision: str | None = None
) -> CompiledProgram:
    """Show what XLA makes of the product that `time_matmul` times, with its cost beside ours.

    No array is made and nothing is run, so any size can be looked at.

    Parameters
    ----------
    m, k, n : int
        Sizes.
    dtype, precision : str
        As for `time_matmul`.

    Returns
    -------
    CompiledProgram

    Raises
    ------
    ValueError
        A size, dtype or precision that cannot be measured.
    ImportError
        JAX is missing or broken.
    RuntimeError
        JAX gives no device.

    Examples
    --------
    >>> made = inspect_matmul(64, 64, 64)
    >>> made.flops, made.matmul.flops, made.flops_ratio
    (524288.0, 524288, 1.0)
    """
    matmul = Matmul(m, k, n, catalogue_dtype(dtype))
    if precision is not None:
        precision = choice("precision", precision, PRECISIONS)
    jax = import_jax()
    precision = precision or precision_setting(jax)
    stored = jax.numpy.dtype(JAX_NAMES[matmul.dtype])
    factors = [jax.ShapeDtypeStruct(shape, stored) for shape in ((m, k), (k, n))]
    return compiled(single(jax, matmul, precision), *factors, matmul=matmul)


def _callable(function: object) -> None:
    if not callable(function):
        raise TypeError(
            f"function is {type(function).__name__} {function!r:.40}, but must be a function of arrays, "
            "such as lambda a, b: a @ b."
        )


def _jitted(jax: ModuleType, function: Callable[..., Any]) -> Any:
    return function if hasattr(function, "lower") else jax.jit(function)


def _cost(program: Any) -> tuple[float | None, float | None, str | None]:
    """Return FLOPs and bytes by XLA's cost analysis, None where unknown, and why if it failed.

    JAX returns a list of one dictionary before 0.5 and a dictionary since; a backend may lack either key,
    and -1 stands for unknown.
    """
    try:
        found = program.cost_analysis()
    except Exception as error:  # NotImplementedError, or the backend's own class
        return None, None, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    found = (found[0] if found else {}) if isinstance(found, list | tuple) else (found or {})
    flops, moved = (_known(found.get(key)) for key in ("flops", "bytes accessed"))
    return flops, moved, None


def _known(value: float | None) -> float | None:
    return float(value) if value is not None and value >= 0 else None


def _memory(program: Any) -> dict[str, int]:
    try:
        stats = program.memory_analysis()
    except Exception:  # not every backend has it: unknown
        return {}
    sizes = {part: getattr(stats, f"{word}_size_in_bytes", None) for part, word in _PARTS.items()}
    return {part: size for part, size in sizes.items() if isinstance(size, int)}


@names_keywords
def profile(
    function: Callable[..., Any],
    *arguments: Any,
    calls: int = 3,
    folder: str | os.PathLike[str] | None = None,
    most_events: int = 400,
) -> timeline.Timeline:
    """Profile a few calls of a function and return where their time went.

    The function is compiled and called once beforehand; then each call is waited for and marked. No server
    is started. Where the profiler gives nothing, as when another trace is being taken, the timeline is
    empty and its notes say why.

    Parameters
    ----------
    function : callable
        Of arrays; it is compiled with `jax.jit` unless it already is.
    *arguments
        Arrays or numbers.
    calls : int
        Calls to profile, at most 100.
    folder : path, optional
        Where to keep the profiler's files, for XProf and Perfetto. Left out, they are not kept.
    most_events : int
        Events to keep, the longest; sums are over all.

    Returns
    -------
    Timeline

    Raises
    ------
    TypeError
        When `function` cannot be called.
    NotADirectoryError
        When `folder` is a file.
    ImportError
        JAX is missing or broken.
    RuntimeError
        JAX gives no device.

    Examples
    --------
    >>> import numpy as np
    >>> taken = profile(lambda a: a @ a, np.ones((64, 64), np.float32), calls=2)
    >>> len(taken.calls), taken.seconds > 0
    (2, True)
    """
    _callable(function)
    calls = whole_number("calls", calls, most=100)
    most_events = whole_number("most_events", most_events, most=5000)
    if folder is not None and Path(folder).exists() and not Path(folder).is_dir():
        raise NotADirectoryError(f"{folder} is a file; name a folder, which is made if it is not there.")
    jax, _ = begin()
    run = _jitted(jax, function)
    jax.block_until_ready(run(*arguments))
    with tempfile.TemporaryDirectory() as temporary:
        problem = _trace(jax, run, arguments, calls, str(folder or temporary), keep=folder is not None)
        if problem is None:
            try:
                taken = timeline.read_timeline(folder or temporary, most_events=most_events)
            except (FileNotFoundError, ValueError) as error:
                problem = str(error).replace(temporary, "its folder")
    if problem is not None:
        return timeline.Timeline(notes=(f"The profiler gave nothing: {problem}",))
    return replace(taken, folder=None if folder is None else str(folder))


def _trace(
    jax: ModuleType, run: Any, arguments: tuple[Any, ...], calls: int, folder: str, *, keep: bool
) -> str | None:
    """Take the trace; return why there is none, if so."""
    options: dict[str, Any] = {"create_perfetto_trace": keep}
    if hasattr(jax.profiler, "ProfileOptions"):  # since JAX 0.5; before, Python's functions are traced too
        options["profiler_options"] = jax.profiler.ProfileOptions()
        options["profiler_options"].python_tracer_level = 0
    try:
        trace = jax.profiler.trace(folder, **options)
        trace.__enter__()
    except RuntimeError as error:
        if _RUNNING in str(error):
            return "another trace is being taken in this process; end it first, and try again."
        return str(error)
    try:
        for call in range(1, calls + 1):
            with jax.profiler.TraceAnnotation(f"call {call} of {calls}"):
                jax.block_until_ready(run(*arguments))
    finally:
        trace.__exit__(None, None, None)
    return None
