"""Interrupts that end a run of measurements once, and never while one is being kept."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any


class InterruptedWarning(RuntimeWarning):
    """An interrupt ended a run of measurements; the sentence says what of it is kept."""


class Interrupts:
    """While entered, a Ctrl-C raises KeyboardInterrupt where it is let through, and only the first one does.

    An impatient reader presses twice, and the second one must not hit the code that keeps what the first one
    left. An interrupt that comes elsewhere, or that something on its way swallows, is raised by `check`. In
    another thread than the main one Python delivers no interrupt; where the host ignores them that stays so.
    """

    def __init__(self) -> None:
        self._came = False
        self._open = False
        self._before: Callable[[int, FrameType | None], Any] | None = None

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            before = signal.getsignal(signal.SIGINT)
            if callable(before):
                self._before = before
                signal.signal(signal.SIGINT, self._answer)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _answer(self, number: int, frame: FrameType | None) -> None:
        first, self._came = not self._came, True
        if first and self._open:
            raise KeyboardInterrupt

    def check(self) -> None:
        """Raise KeyboardInterrupt when an interrupt came."""
        if self._came:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def let_through(self) -> Iterator[None]:
        """Let an interrupt end the block at once."""
        self.check()
        self._open = True
        try:
            yield
        finally:
            self._open = False
