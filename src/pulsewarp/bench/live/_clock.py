"""Compile, warm up and call: what every timed thing goes through."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar

import numpy as np

MOST_REPEATS = 10_000  # all of them are kept, in memory and on disk
FEWEST_REPEATS, MOST_REPEATS_BY_TIME = 5, 100
ENOUGH_TO_JUDGE = 10  # repeats before their spread may end them
SETTLED = 0.01
"""Repeats end early when their quartiles' distance over the root of their number is this part of the median.

That is about what the median itself may still move: half a notch of a box plot, which is 1.58 times it, is
about a 95 % interval for the difference of two medians (R's help on boxplot, which follows R. McGill, J. W.
Tukey, W. A. Larsen, "Variations of box plots", 1978; as quoted on R-help,
stat.ethz.ch/pipermail/r-help/2008-October/176244, read 2026-12-01).
"""

CHAIN_SECONDS = 0.02  # a chain this long spreads a dispatch of 50 us to a quarter of a percent
LONGEST_CHAIN = 100_000
DISPATCHES = 100  # a chain lasts as long as so many calls of next to nothing
LOOKS = 5

# Working space of a program that a CPU's allocator asks the system for anew at each call: glibc keeps smaller
# pieces (DEFAULT_MMAP_THRESHOLD_MAX, 32 MB on 64-bit platforms: log of malloc.c of 2006-08-22,
# sourceware.org/ml/glibc-cvs/2006-q3/msg00288.html, read 2026-12-01). Bytes a second of first touching it, at
# worst: measured on a busy virtual machine, 2026-12-01.
_KEPT_BYTES, _FIRST_TOUCH = 32 * 2**20, 1e9
_ONCE_AT_MOST = 0.02  # of a call's time, as far as a call stays within the longest repeat
_LONGEST_REPEAT = 1.0

now = time.perf_counter  # by a name of this module's own, so that a test can have another clock


T = TypeVar("T")


class Interrupted(KeyboardInterrupt):
    """An interrupt during the repeats; its `measurement` has those that were made."""

    def __init__(self, repeats: int) -> None:
        super().__init__(f"Interrupted after {repeats} repeats; this error's .measurement has them.")
        self.measurement: Any = None


@dataclass(frozen=True)
class Repeats:
    """Calls that were timed.

    Parameters
    ----------
    seconds : tuple of float
        Of every call that was finished.
    result : Any
        What the last of them returned.
    interrupt : Interrupted or None
        What ended them early, if anything did.
    """

    seconds: tuple[float, ...]
    result: Any
    interrupt: Interrupted | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """Say when they ended early."""
        return () if self.interrupt is None else (f"Interrupted after {len(self.seconds)} repeats.",)

    def hand_over(self, measurement: T) -> T:
        """Return what was made of them; where they were interrupted, raise that, with it."""
        if self.interrupt is not None:
            self.interrupt.measurement = measurement
            raise self.interrupt
        return measurement


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


@contextmanager
def memory_named(work: str, remedy: str) -> Iterator[None]:
    """Raise a MemoryError in one sentence where a device runs out of memory.

    Parameters
    ----------
    work : str
        What did not fit.
    remedy : str
        What to give instead.

    Examples
    --------
    >>> with memory_named("sort", "take less"):
    ...     raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 256 bytes.")
    Traceback (most recent call last):
    ...
    MemoryError: The device ran out of memory at sort; take less, or free arrays that other cells hold.
    """
    try:
        yield
    except Exception as error:
        if not ran_out_of_memory(error):
            raise
        raise MemoryError(
            f"The device ran out of memory at {work}; {remedy}, or free arrays that other cells hold."
        ) from error


def ran_out_of_memory(error: Exception) -> bool:
    """Tell by XLA's status code in the text: JAX's class of this error has moved between versions."""
    return "RESOURCE_EXHAUSTED" in str(error)


class Links:
    """A compiled chain whose arrays stay on the device: each call takes over the last one's.

    What a link changes is donated to the program and comes back from it, so a call neither copies it nor asks
    the system for fresh pages: first touching those took up to three times as long as a kernel, and 40 % of
    a thin product (8192 x 8 x 4096 with 12 links, on 2 cores of a Xeon, 2026-12-01).

    Parameters
    ----------
    jax : module
        JAX.
    chain_of : callable
        A number of links to the function that makes them: of the arguments, to those that it changed.
    begin : callable
        Makes the arguments, on the device.
    changed : tuple of int
        Which arguments these are.

    Attributes
    ----------
    length : int
        Links in a call.
    compile_seconds, text
        As `compile_for` returns them.
    warm : list of float
        Seconds of the calls that warmed it up.
    fresh_bytes : int
        Working space that a call takes anew.

    Examples
    --------
    >>> import jax
    >>> links = Links(jax, lambda length: lambda x: (x + length,), lambda: (jax.numpy.zeros(1),), (0,))
    >>> links.make(3)
    >>> [float(links()[0][0]) for _ in range(2)]
    [3.0, 6.0]
    """

    def __init__(
        self,
        jax: ModuleType,
        chain_of: Callable[[int], Callable[..., tuple[Any, ...]]],
        begin: Callable[[], tuple[Any, ...]],
        changed: tuple[int, ...],
    ) -> None:
        self.length, self.compile_seconds, self.text, self.fresh_bytes = 0, 0.0, "", 0
        self.warm: list[float] = []
        self._jax, self._chain_of, self._begin, self._changed = jax, chain_of, begin, changed
        self._arguments = begin()

    def make(self, length: int) -> None:
        """Compile so many links, for the arguments as they are now."""
        self.length = length
        self._program, self.compile_seconds, self.text = compile_for(
            self._jax, self._chain_of(length), self._arguments, donate_argnums=self._changed
        )
        self.fresh_bytes = _fresh_bytes(self._jax, self._program)

    def __call__(self) -> tuple[Any, ...]:
        """Make the links; return what they changed, which the next call takes."""
        made = self._program(*self._arguments)
        given = dict(zip(self._changed, made, strict=True))
        self._arguments = tuple(given.get(i, array) for i, array in enumerate(self._arguments))
        return self.held

    @property
    def held(self) -> tuple[Any, ...]:
        """What the last call gave: the arguments that a link changes, as they are now."""
        return tuple(self._arguments[i] for i in self._changed)

    def recover(self) -> None:
        """Begin anew, with one call, where an interrupt came when a call had taken arrays and given none."""
        if any(array.is_deleted() for array in self.held):
            self._arguments = self._begin()
            self._jax.block_until_ready(self())

    def about_fresh_pages(self, seconds: float) -> tuple[str, ...]:
        """Say when first touching its working space may be a part of a link's seconds."""
        share = self.fresh_bytes / _FIRST_TOUCH / self.length / seconds
        if share <= 2.5 * _ONCE_AT_MOST:
            return ()
        return (
            f"Each call takes {self.fresh_bytes / 2**20:.0f} MiB of working space anew; first touching it "
            f"may be up to {min(share, 1.0):.0%} of this time.",
        )


def _fresh_bytes(jax: ModuleType, program: Any) -> int:
    if jax.local_devices()[0].platform != "cpu":  # others keep what was given back
        return 0
    try:
        taken = int(program.memory_analysis().temp_size_in_bytes)
    except Exception:  # not every backend tells: unknown
        return 0
    return taken if taken > _KEPT_BYTES else 0


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


def lengthen(jax: ModuleType, links: Links, estimate: float, dispatch: float = 0.0) -> None:
    """Compile so many links that one call is long beside its dispatch, from 2 to `LONGEST_CHAIN`; warm it up.

    It lasts about `CHAIN_SECONDS`, longer where a dispatch takes more than a hundredth of that, or where it
    takes much working space anew.

    Parameters
    ----------
    jax : module
        JAX.
    links : Links
        The chain.
    estimate : float
        Seconds of one link, dispatch included: of a call of one link alone.
    dispatch : float
        Seconds that a call of next to nothing takes.
    """
    wanted = max(CHAIN_SECONDS, DISPATCHES * dispatch)
    for _ in range(LOOKS):  # a call's dispatch hides how fast a small link is: look again
        length = min(LONGEST_CHAIN, max(2, math.ceil(wanted / estimate)))
        links.make(length)
        once = links.fresh_bytes / _FIRST_TOUCH
        wanted = max(wanted, min(once / _ONCE_AT_MOST, _LONGEST_REPEAT))
        links.warm = warm_up(jax, links, ())
        if min(links.warm) > wanted / 2 or length == LONGEST_CHAIN:
            break
        estimate = min(links.warm) / length


def repeat_calls(
    jax: ModuleType, program: Any, arguments: tuple[Any, ...], repeats: int | None, budget: float
) -> Repeats:
    """Call again and again, and time each.

    So many as `repeats` says. Where it is None: at least `FEWEST_REPEATS`, then until they are settled
    (`SETTLED`), `budget` seconds are spent or `MOST_REPEATS_BY_TIME` are made.

    An interrupt after at least one call ends them; before that it is raised.
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
        return Repeats(tuple(seconds), result, Interrupted(len(seconds)))
    return Repeats(tuple(seconds), result)


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
