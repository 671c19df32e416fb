"""Programs that JAX compiles, counted and timed by what JAX itself announces.

`jax.monitoring` is public: listeners hear named events with the seconds they took. It is the same in
JAX 0.4.30, 0.7.2 and 0.12.0, except that the oldest cannot take a listener back; so one listener is left
for the life of the process, and it is silent unless somebody counts. The names of the events are no promise
of JAX's, so before counting a small program is compiled to see whether the event still comes.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

# Read in JAX 0.4.30, 0.7.2 and 0.12.0.1 (jax/_src/dispatch.py and compiler.py), 2026-11-30. The first also
# comes where a program was found in JAX's cache on disk; then the second comes as well.
_COMPILED = "/jax/core/compile/backend_compile_duration"
_FROM_DISK = "/jax/compilation_cache/cache_hits"
_OURS = "/pulsewarp/bench/listening"


@dataclass
class Compilations:
    """What was compiled while this was counting, in the thread that counts.

    Parameters
    ----------
    heard : bool
        Whether this JAX announces compilations at all; if not, nothing else here means anything.
    seconds : list of float
        One for each program, in order.
    from_disk : int
        How many of them were found in JAX's cache on disk, so that nothing was compiled.
    alone : bool
        While this counts, no other of the same thread does.
    thread : int
        Who counts.

    Examples
    --------
    >>> Compilations(heard=False).count is None
    True
    """

    heard: bool = True
    seconds: list[float] = field(default_factory=list)
    from_disk: int = 0
    alone: bool = False
    thread: int = field(default_factory=threading.get_ident)

    @property
    def count(self) -> int | None:
        """Programs really compiled; None where JAX does not tell."""
        return len(self.seconds) - self.from_disk if self.heard else None


_counting: list[Compilations] = []
_probes_heard: list[str] = []


@contextmanager
def count_compilations(jax: ModuleType) -> Iterator[Compilations]:
    """Count the programs that JAX compiles within a ``with`` block.

    Parameters
    ----------
    jax : module
        JAX.

    Yields
    ------
    Compilations
        Grows while the block runs; what other threads compile is left out.

    Examples
    --------
    >>> import jax
    >>> negative = jax.jit(lambda x: -x)
    >>> three, four = (jax.numpy.ones(length) for length in (3, 4))
    >>> with count_compilations(jax) as counted:
    ...     for argument in (three, four, three):
    ...         _ = negative(argument)
    >>> counted.count
    2
    """
    counted = Compilations(heard=_is_heard(jax))
    _counting.append(counted)
    try:
        yield counted
    finally:
        _counting[:] = [each for each in _counting if each is not counted]


def _is_heard(jax: ModuleType) -> bool:
    """Listen, and compile a small program to see that compilations are announced."""
    _listen()
    trial = Compilations(alone=True)
    _counting.append(trial)
    try:
        jax.jit(lambda x: x + 1).lower(jax.ShapeDtypeStruct((), "float32")).compile()
    finally:
        _counting[:] = [each for each in _counting if each is not trial]
    return len(trial.seconds) == 1


def _listen() -> None:
    """Register the listeners where they are not: anyone may clear all of JAX's listeners."""
    monitoring = importlib.import_module("jax.monitoring")
    _probes_heard.clear()
    monitoring.record_event(_OURS)
    monitoring.record_event_duration_secs(_OURS, 0.0)
    if "event" not in _probes_heard:
        monitoring.register_event_listener(_hear_event)
    if "duration" not in _probes_heard:
        monitoring.register_event_duration_secs_listener(_hear_duration)


def _hear_event(event: str, **_: Any) -> None:
    if event == _OURS:
        _probes_heard.append("event")
    elif event == _FROM_DISK:
        for each in _here():
            each.from_disk += 1


def _hear_duration(event: str, seconds: float, **_: Any) -> None:
    if event == _OURS:
        _probes_heard.append("duration")
    elif event == _COMPILED:
        for each in _here():
            each.seconds.append(seconds)


def _here() -> list[Compilations]:
    mine = [each for each in _counting if each.thread == threading.get_ident()]
    return [each for each in mine if each.alone] or mine
