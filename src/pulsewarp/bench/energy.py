"""Energy of repeated work on an NVIDIA GPU, from the counter or the power sensor of the card itself.

The figure is that of the whole board, memory and regulators included, not of the host. What a card does not
report is not measured: the answer is then one sentence with the reason.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from pulsewarp._checks import names_keywords, positive_number, whole_number
from pulsewarp._text import counted
from pulsewarp.bench.measurement import with_prefix
from pulsewarp.bench.nvml import Gpu, Library, UnreadableError, first_visible, open_library

_SAMPLE_SECONDS = 0.05  # NVML refreshes its power reading 10 to 50 times a second
_SETTLE_SECONDS = 1.0  # from Ampere on the reading is an average over a second

# "Part-time Power Measurements: nvidia-smi's Lack of Attention", arXiv 2312.02741, read 2026-12-01.
_PART_TIME = re.compile(r"\b[AH]100\b")
_PART_TIME_NOTE = (
    "The power sensor of this card watches a quarter of the time (arXiv 2312.02741): right for a steady load "
    "such as this, not for a short burst."
)


@dataclass(frozen=True, repr=False)
class Energy:
    """Energy that a card took for repeated work.

    Parameters
    ----------
    title : str
        What was done.
    device : str
        The card's name.
    joules : float
        Energy of the whole board while the work ran.
    seconds : float
        How long it ran.
    products : int
        How many products (units of work) were made.
    flops_per_product : int or None
        Operations of one; None where they are not counted.
    idle_watts : float
        Power of the board just before, with nothing to do.
    method : {"counter", "sampled power"}
        The card's energy counter read before and after, or its power sensor read 20 times a second.
    when : str
        ISO 8601 with offset.
    notes : tuple of str
        Sentences that belong beside the number.

    Raises
    ------
    ValueError
        When a number cannot be true.

    Examples
    --------
    >>> run = Energy("1024 x 1024 x 1024 bf16", "NVIDIA L4", joules=210.0, seconds=3.0, products=100_000,
    ...              flops_per_product=2 * 1024**3, idle_watts=14.0, method="counter",
    ...              when="2026-12-01T12:00:00+00:00")
    >>> run.joules_per_product, run.watts, run.idle_share
    (0.0021, 70.0, 0.2)
    """

    title: str
    device: str
    joules: float
    seconds: float
    products: int
    flops_per_product: int | None
    idle_watts: float
    method: str
    when: str
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("joules", "seconds", "idle_watts"):
            positive_number(name, getattr(self, name), zero=name == "idle_watts")
        whole_number("products", self.products)
        if self.flops_per_product is not None:
            whole_number("flops_per_product", self.flops_per_product)

    @property
    def joules_per_product(self) -> float:
        """Energy of one product in joules, the idle power included."""
        return self.joules / self.products

    @property
    def joules_per_flop(self) -> float | None:
        """Energy of one operation in joules; None where operations are not counted."""
        return None if self.flops_per_product is None else self.joules_per_product / self.flops_per_product

    @property
    def watts(self) -> float:
        """Mean power while the work ran."""
        return self.joules / self.seconds

    @property
    def idle_share(self) -> float:
        """The part of the energy that the board would have taken with nothing to do, a fraction."""
        return self.idle_watts * self.seconds / self.joules

    def __repr__(self) -> str:
        flop = self.joules_per_flop
        each = "" if flop is None else f", {with_prefix(flop, 'J')} an operation"
        lines = (
            f"Energy({self.title} on {self.device}, {self.when}",
            f"  {with_prefix(self.joules_per_product, 'J')} a product{each}",
            f"  {self.watts:.0f} W over {self.seconds:.1f} s and {counted(self.products, 'product')}; "
            f"idle power {self.idle_watts:.0f} W is {self.idle_share:.0%} of it",
            f"  by the card's {self.method}: the whole board, without the host",
            *(f"  {note}" for note in self.notes),
        )
        return "\n".join(lines) + ")"


@dataclass(frozen=True, repr=False)
class NotMeasurable:
    """Why there is no energy figure here.

    Parameters
    ----------
    reason : str
        One sentence, its beginning in lower case.

    Examples
    --------
    >>> NotMeasurable("JAX computes on the CPU, whose power is not read.")
    Energy is not measurable here: JAX computes on the CPU, whose power is not read.
    """

    reason: str

    def __repr__(self) -> str:
        return f"Energy is not measurable here: {self.reason}"


@names_keywords
def measure_energy(
    work: Callable[[], Any],
    *,
    products_per_call: int = 1,
    flops_per_product: int | None = None,
    title: str = "work",
    seconds: float = 4.0,
    idle_seconds: float = 1.0,
    variables: Mapping[str, str] | None = None,
) -> Energy | NotMeasurable:
    """Repeat work on the first NVIDIA GPU and read what energy the card took.

    The work is called until `seconds` are over, so that the counter's step of up to a tenth of a second
    weighs a few percent at most. Cards without a counter (before Volta) are sampled, and the first second is
    left out then, for the reading lags. Not modelled: the host, its cooling, other programs on the card,
    which are counted in.

    Parameters
    ----------
    work : callable
        Does the work and returns when it is done (with JAX: waits for the result).
    products_per_call : int
        Units of work that one call does.
    flops_per_product : int, optional
        Operations of one unit.
    title : str
        What it is.
    seconds : float
        How long to repeat it, at least 1.
    idle_seconds : float
        How long to read the idle power before.
    variables : mapping of str to str, optional
        The environment that decides which GPU is the first; this process's when left out.

    Returns
    -------
    Energy or NotMeasurable

    Raises
    ------
    TypeError
        `work` is no function.
    ValueError
        A number out of range.

    Examples
    --------
    >>> print(measure_energy(lambda: None, variables={"CUDA_VISIBLE_DEVICES": "-1"}))
    Energy is not measurable here: CUDA_VISIBLE_DEVICES hides every NVIDIA GPU.
    """
    if not callable(work):
        raise TypeError(f"work is {work!r}, but must be a function that does the work; write lambda: f(x).")
    products_per_call = whole_number("products_per_call", products_per_call)
    seconds, idle_seconds = positive_number("seconds", seconds), positive_number("idle_seconds", idle_seconds)
    if seconds < 1:
        raise ValueError(f"seconds is {seconds:g}, but the card's readings need at least 1.")
    environment = os.environ if variables is None else variables
    if environment.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1", "NoDevFiles"):
        return NotMeasurable("CUDA_VISIBLE_DEVICES hides every NVIDIA GPU.")
    try:
        library = open_library()
        try:
            gpu = first_visible(library.gpus(), environment)
            meter = Meter(library, gpu)
            idle_watts = meter.idle(idle_seconds)
            joules, taken, calls = meter.during(work, seconds)
        finally:
            library.close()
    except UnreadableError as error:
        return NotMeasurable(str(error))
    return Energy(
        title=title,
        device=gpu.name,
        joules=joules,
        seconds=taken,
        products=calls * products_per_call,
        flops_per_product=flops_per_product,
        idle_watts=idle_watts,
        method=meter.method,
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        notes=(_PART_TIME_NOTE,) if _PART_TIME.search(gpu.name) else (),
    )


class Meter:
    """One card's energy over a stretch of time, by its counter or by its power sensor.

    Parameters
    ----------
    library : Library
        Open.
    gpu : Gpu
        Which card.
    clock, sleep : callable
        Seconds, and waiting; others in tests.

    Raises
    ------
    UnreadableError
        The card reports neither energy nor power.
    """

    def __init__(
        self,
        library: Library,
        gpu: Gpu,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._library, self._clock, self._sleep = library, clock, sleep
        self._handle = library.handle(gpu.uuid)
        try:
            library.joules(self._handle)
            self.method = "counter"
        except UnreadableError:
            library.watts(self._handle)  # raises where there is neither
            self.method = "sampled power"

    def idle(self, seconds: float) -> float:
        """Return the mean power in watts over some seconds without work."""
        start, before = self._clock(), self._joules()
        readings = []
        while self._clock() - start < seconds:
            self._sleep(_SAMPLE_SECONDS)
            if before is None:
                readings.append(self._library.watts(self._handle))
        after = self._joules()
        if before is None or after is None:
            return float(np.mean(readings))
        return (after - before) / (self._clock() - start)

    def during(self, work: Callable[[], Any], seconds: float) -> tuple[float, float, int]:
        """Repeat the work and return (joules, seconds, calls)."""
        work()  # once beforehand: compiling and first touches are not what is measured
        if self.method == "counter":
            return self._counted(work, seconds)
        return self._sampled(work, seconds + _SETTLE_SECONDS)

    def _joules(self) -> float | None:
        return self._library.joules(self._handle) if self.method == "counter" else None

    def _counted(self, work: Callable[[], Any], seconds: float) -> tuple[float, float, int]:
        before, start, calls = self._library.joules(self._handle), self._clock(), 0
        while self._clock() - start < seconds:
            work()
            calls += 1
        taken, joules = self._clock() - start, self._library.joules(self._handle) - before
        if joules <= 0:
            raise UnreadableError(f"the energy counter of the card stood still for {taken:.1f} s of work.")
        return joules, taken, calls

    def _sampled(self, work: Callable[[], Any], seconds: float) -> tuple[float, float, int]:
        readings: list[tuple[float, float]] = []
        done = threading.Event()

        def sample() -> None:
            while not done.is_set():
                readings.append((self._clock(), self._library.watts(self._handle)))
                done.wait(_SAMPLE_SECONDS)

        start, calls = self._clock(), 0
        reader = threading.Thread(target=sample, daemon=True)
        reader.start()
        try:
            while self._clock() - start < seconds:
                work()
                calls += 1
        finally:
            taken = self._clock() - start
            done.set()
            reader.join()
        settled = [watts for at, watts in readings if at - start >= _SETTLE_SECONDS]
        if not settled:
            raise UnreadableError("the power sensor of the card gave no reading while the work ran.")
        return float(np.mean(settled)) * taken, taken, calls
