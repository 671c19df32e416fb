"""Compile, warm up and call: what every timed thing goes through."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

MOST_REPEATS = 10_000  # all of them are kept, in memory and on disk
FEWEST_REPEATS, MOST_REPEATS_BY_TIME = 5, 100
ENOUGH_TO_JUDGE = 10  # repeats before their spread may end them
SETTLED = 0.01
"""Repeats end early when their quartiles' distance over the root of their number is this part of the median.

That is about what the median itself may still move: the half width of the notches in R. McGill, J. W. Tukey,
W. A. Larsen, "Variations of box plots", 1978, is 1.57 times it (recalled, not read).
"""

CHAIN_SECONDS = 0.02  # a chain this long spreads a dispatch of 50 us to a quarter of a percent
LONGEST_CHAIN = 100_000
DISPATCHES = 100  # a chain lasts as long as so many calls of next to nothing
LOOKS = 5

now = time.perf_counter  # by a name of this module's own, so that a test can have another clock


class Interrupted(KeyboardInterrupt):
    """An interrupt during the repeats, with what was measured until then.

    Parameters
    ----------
    seconds : tuple of float
        The calls that were finished, at least one.
    result : Any
        What the last of them returned.
    """

    def __init__(self, seconds: tuple[float, ...], result: Any) -> None:
        super().__init__(f"Interrupted after {len(seconds)} repeats; this error's .measurement has them.")
        self.seconds = seconds
        self.result = result
        self.measurement: Any = None


@dataclass(frozen=True)
class Chain:
    """A compiled chain that is long enough to time, warm."""

    length: int
    program: Any
    compile_seconds: float
    text: str
    warm: list[float]


def compile_for(
    jax: ModuleType, function: Callable[..., Any], arguments: tuple[Any, ...], **options: Any
) -> tuple[Any, float, str]:
    """Compile for these arguments, with `options` of ``jax.jit``.

    Returns
    -------
    (program, float, str)
        The seconds it took; the program's text as compiled, then as it was before.
    """
    start = now()
    lowered = jax.jit(function, **options).lower(*arguments)
    program = lowered.compile()
    seconds = now() - start
    return program, seconds, f"{program.as_text()}\n{lowered.as_text()}"


def call_once(jax: ModuleType, program: Any, arguments: tuple[Any, ...]) -> tuple[float, Any]:
    """Seconds of one call, waited for, and what it returned."""
    start = now()
    result = jax.block_until_ready(program(*arguments))
    return now() - start, result


def warm_up(jax: ModuleType, program: Any, arguments: tuple[Any, ...]) -> list[float]:
    """Call until three calls in a row agree within a tenth, at most 10 calls or about a second."""
    seconds: list[float] = []
    while len(seconds) < 10 and sum(seconds) < 1:
        seconds.append(call_once(jax, program, arguments)[0])
        if len(seconds) >= 3 and max(seconds[-3:]) < 1.1 * min(seconds[-3:]):
            break
    return seconds


def lengthen(
    jax: ModuleType,
    chain_of: Callable[[int], Callable[..., Any]],
    estimate: float,
    arguments: tuple[Any, ...],
    least: int = 2,
    dispatch: float = 0.0,
) -> Chain:
    """Compile `chain_of` so many links that one call is long beside its dispatch, and warm it up.

    It lasts about `CHAIN_SECONDS`, longer where a dispatch takes more than a hundredth of that.

    Parameters
    ----------
    jax : module
        JAX.
    chain_of : callable
        A length to the function that makes so many links.
    estimate : float
        Seconds of one link, dispatch included: of a call of one link alone.
    arguments : tuple
        Of the chain.
    least : int
        Links that it has at least.
    dispatch : float
        Seconds that a call of next to nothing takes.

    Returns
    -------
    Chain
        From `least` to `LONGEST_CHAIN` links.
    """
    wanted = max(CHAIN_SECONDS, DISPATCHES * dispatch)
    for _ in range(LOOKS):  # a call's dispatch hides how fast a small link is: look again
        length = min(LONGEST_CHAIN, max(least, math.ceil(wanted / estimate)))
        program, compile_seconds, text = compile_for(jax, chain_of(length), arguments)
        warm = warm_up(jax, program, arguments)
        if min(warm) > wanted / 2 or length == LONGEST_CHAIN:
            break
        estimate = min(warm) / length
    return Chain(length, program, compile_seconds, text, warm)


def repeat_calls(
    jax: ModuleType, program: Any, arguments: tuple[Any, ...], repeats: int | None, budget: float
) -> tuple[tuple[float, ...], Any]:
    """Call again and again; return the seconds of every call, and what the last one returned.

    So many as `repeats` says. Where it is None: at least `FEWEST_REPEATS`, then until they are settled
    (`SETTLED`), `budget` seconds are spent or `MOST_REPEATS_BY_TIME` are made.

    Raises
    ------
    Interrupted
        An interrupt after at least one call, with what was measured.
    """
    seconds: list[float] = []
    result = None
    try:
        while _more(seconds, repeats, budget):
            taken, result = call_once(jax, program, arguments)
            seconds.append(taken)
    except KeyboardInterrupt:
        if not seconds:
            raise
        raise Interrupted(tuple(seconds), result) from None
    return tuple(seconds), result


def _more(seconds: Sequence[float], repeats: int | None, budget: float) -> bool:
    made = len(seconds)
    if repeats is not None:
        return made < repeats
    if made < FEWEST_REPEATS:
        return True
    return made < MOST_REPEATS_BY_TIME and sum(seconds) < budget and not _settled(seconds)


def _settled(seconds: Sequence[float]) -> bool:
    low, middle, high = np.quantile(seconds, (0.25, 0.5, 0.75))
    return len(seconds) >= ENOUGH_TO_JUDGE and bool(high - low <= SETTLED * middle * math.sqrt(len(seconds)))


def unsteady(seconds: Sequence[float]) -> tuple[str, ...]:
    """Say whether repeats drifted or scattered.

    Parameters
    ----------
    seconds : sequence of float
        The repeats, in order.

    Returns
    -------
    tuple of str
        A sentence when the last third differs from the first by more than a tenth, from six repeats on; one
        when the quartiles lie more than a fifth of the median apart.

    Examples
    --------
    >>> unsteady([1.0, 1.0, 1.1, 1.1, 1.3, 1.3])[0].split(";")[0]
    'The run drifted: its last third was 30% slower than its first'
    """
    found = []
    third = len(seconds) // 3
    if third >= 2:
        ratio = float(np.median(seconds[-third:]) / np.median(seconds[:third]))
        if not 0.9 < ratio < 1.1:
            word = "slower" if ratio > 1 else "faster"
            found.append(
                f"The run drifted: its last third was {abs(ratio - 1):.0%} {word} than its first; "
                "the device was throttled, shared or not yet warm."
            )
    low, middle, high = np.quantile(seconds, (0.25, 0.5, 0.75))
    if high - low > 0.2 * middle:
        found.append(
            f"The repeats scatter: their quartiles lie {(high - low) / middle:.0%} of the median apart; "
            "something else ran on the device or on its host."
        )
    return tuple(found)
