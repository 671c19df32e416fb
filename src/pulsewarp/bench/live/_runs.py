"""One measurement after the other, whatever happens: what is measured stays."""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from pulsewarp._text import counted
from pulsewarp.bench.live._bar import Bar
from pulsewarp.bench.live._clock import Interrupted
from pulsewarp.bench.live._interrupts import InterruptedWarning, Interrupts
from pulsewarp.bench.measurement import Timed, save

R = TypeVar("R", bound=Timed)


@dataclass(frozen=True)
class Planned(Generic[R]):
    """What is to be measured.

    Parameters
    ----------
    title : str
        In a few words.
    known_by : str
        What an error's sentence says of it when it names it.
    measure : callable
        Measures it.
    """

    title: str
    known_by: str
    measure: Callable[[], R]

    def named(self, error: Exception) -> str:
        """Return an error's sentence, which names this."""
        return str(error) if self.known_by in str(error) else f"{self.title}: {error}"


@dataclass
class Runs(Generic[R]):
    """Measurements under way: what is planned, and what is kept of it.

    Parameters
    ----------
    noun : str
        What one of them is called.
    planned : sequence of Planned
        In order.
    budget_seconds : float
        After so many seconds no further one is begun; the first one always is.
    progress : callable or None
        Called with each measurement as soon as it is kept.
    target : Path or None
        A file that is written anew after each.
    """

    noun: str
    planned: Sequence[Planned[R]]
    budget_seconds: float
    progress: Callable[[R], object] | None = None
    target: Path | None = None
    found: list[R] = field(default_factory=list)
    ready: R | None = None  # measured, not yet kept
    untold: list[R] = field(default_factory=list)  # kept, not yet told
    said: list[str] = field(default_factory=list)
    cut_short: str = ""  # what an interrupt left
    failure: Exception | None = None  # the first; raised where there is nothing to keep
    unwritten: OSError | None = None

    def make(self, bar: bool | None) -> list[R]:
        """Measure until the end, the budget's end, a failure or an interrupt; warn of what went wrong.

        Raises only where there is nothing to return.
        """
        with Interrupts() as interrupts:
            self._measure_all(bar, interrupts)
            self._say()
            return self.found  # within: an interrupt from here on could only lose what was measured

    def _measure_all(self, shown: bool | None, interrupts: Interrupts) -> None:
        bar, start = Bar(len(self.planned), shown), time.perf_counter()
        try:
            for each in self.planned:
                if self.found and time.perf_counter() - start > self.budget_seconds:
                    self.said.append(
                        f"Stopped after {self.budget_seconds:g} s with {self._kept()} measured; "
                        "raise budget_seconds for more."
                    )
                    break
                bar.name(each.title)
                if not self._measure(each, interrupts):
                    break
                bar.step()
                self._tell(bar, interrupts.let_through())
            interrupts.check()
        except KeyboardInterrupt as interrupt:
            if isinstance(interrupt, Interrupted):
                self.ready = interrupt.measurement  # of the repeats that were made
            self._keep()  # it may have come as the measurement was ready
            self.cut_short = f"Interrupted: {self._kept()} were measured and are kept."
            with contextlib.suppress(KeyboardInterrupt):  # of a function that raises it by itself
                self._tell(bar, contextlib.nullcontext())  # no second interrupt is let through
        bar.close()

    def _measure(self, each: Planned[R], interrupts: Interrupts) -> bool:
        """Measure one and keep it; False when this is to be the end."""
        try:
            with interrupts.let_through():
                self.ready = each.measure()
        except MemoryError as error:
            self.said.append(f"Left out: {each.named(error)}")
        except Exception as error:
            self.failure = self.failure or error
            if not isinstance(error, ValueError) and "UNIMPLEMENTED" not in str(error):
                self.said.append(f"Stopped at {each.title}: {error} {self._kept()} are kept.")
                return False
            self.said.append(f"Left out: {each.named(error)}")
        self._keep()
        return True

    def _keep(self) -> None:
        if self.ready is None:
            return
        self.found.append(self.ready)
        self.untold.append(self.ready)
        self.ready = None
        if self.target is None:
            return
        try:
            save(self.target, self.found)
        except OSError as error:
            self.unwritten = error  # what is there is returned, and perhaps there is room the next time
        else:
            self.unwritten = None

    def _tell(self, bar: Bar, within: contextlib.AbstractContextManager[None]) -> None:
        """Call the reader's function, `within` which it runs, with a measurement that it has not seen."""
        if self.progress is None or not self.untold:
            return
        try:
            with within, bar.aside():
                self.progress(self.untold.pop())
        except Exception as error:
            self.progress = None
            self.said.append(f"progress raised {type(error).__name__}: {error}; it was not called again.")

    def _kept(self) -> str:
        return f"{len(self.found)} of {counted(len(self.planned), self.noun)}"

    def _say(self) -> None:
        """Warn of all that went otherwise than planned; raise where nothing could be measured."""
        if self.failure is not None and not self.found and not self.cut_short:
            raise self.failure
        if self.unwritten is not None:
            self.said.append(
                f"{self.target} could not be written ({self.unwritten.strerror or self.unwritten}); what was "
                "measured is returned: free some space and write it with bench.save."
            )
        said = [(sentence, RuntimeWarning) for sentence in self.said]
        said += [(self.cut_short, InterruptedWarning)] if self.cut_short else []
        for sentence, kind in said:
            warnings.warn(" ".join(sentence.split()), kind, stacklevel=5)


def told_by(progress: object, measurement: str) -> None:
    """Refuse what cannot be told a measurement."""
    if progress is not None and not callable(progress):
        raise TypeError(
            f"progress is {progress!r}, but must be a function of one {measurement}, such as print."
        )


def file_to_write(out: str | os.PathLike[str]) -> Path:
    """Return the file to write, refused now rather than after minutes of measuring."""
    path = Path(out)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file in it.")
    if not path.resolve().parent.is_dir():
        raise FileNotFoundError(
            f"There is no folder {path.resolve().parent} to write {path.name} into; make it first."
        )
    return path
