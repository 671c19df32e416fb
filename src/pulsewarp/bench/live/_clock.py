"""Compile, warm up and call: what every timed thing goes through."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

MOST_REPEATS = 10_000  # all of them are kept, in memory and on disk
FEWEST_REPEATS, MOST_REPEATS_BY_TIME = 5, 50


def compile_for(
    jax: ModuleType, function: Callable[..., Any], arguments: tuple[Any, Any], **options: Any
) -> tuple[Any, float, str]:
    """Compile for these arguments, with `options` of ``jax.jit``; also the seconds, and the text after and before."""
    start = time.perf_counter()
    lowered = jax.jit(function, **options).lower(*arguments)
    program = lowered.compile()
    seconds = time.perf_counter() - start
    return program, seconds, f"{program.as_text()}\n{lowered.as_text()}"


def call_once(jax: ModuleType, program: Any, arguments: tuple[Any, Any]) -> tuple[float, Any]:
    """Seconds of one call, waited for, and what it returned."""
    start = time.perf_counter()
    result = jax.block_until_ready(program(*arguments))
    return time.perf_counter() - start, result


def warm_up(jax: ModuleType, program: Any, arguments: tuple[Any, Any]) -> list[float]:
    """Call until three calls in a row agree within a tenth, at most 10 calls or about a second."""
    seconds: list[float] = []
    while len(seconds) < 10 and sum(seconds) < 1:
        seconds.append(call_once(jax, program, arguments)[0])
        if len(seconds) >= 3 and max(seconds[-3:]) < 1.1 * min(seconds[-3:]):
            break
    return seconds


def repeat_calls(
    jax: ModuleType, program: Any, arguments: tuple[Any, Any], repeats: int | None, budget: float
) -> tuple[tuple[float, ...], Any]:
    """Seconds of every call, and what the last one returned."""
    seconds: list[float] = []
    result = None
    fewest, most = (FEWEST_REPEATS, MOST_REPEATS_BY_TIME) if repeats is None else (repeats, repeats)
    while len(seconds) < fewest or (len(seconds) < most and sum(seconds) < budget):
        taken, result = call_once(jax, program, arguments)
        seconds.append(taken)
    return tuple(seconds), result
