"""Ceilings that were measured on a device: the fastest products and the memory bandwidth found there.

A CPU has no published peak in the catalogue, and not every GPU has; what was measured stands in for it
then, labelled so. `pulsewarp.bench.live.ceilings` does the measuring.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pulsewarp import chips
from pulsewarp._text import counted
from pulsewarp.bench.kernel_measurement import KernelMeasurement
from pulsewarp.bench.measurement import MeasuredDevice, Measurement, Timed, with_prefix

MEASURED_HERE = "measured here, not published"


@dataclass(frozen=True, repr=False)
class Ceilings:
    """What one device was seen to reach: a rate of products by dtype, and a memory bandwidth.

    Each is the best median of a few runs, so it is a floor of what the device can do: a faster program,
    or a quieter hour, may exceed it. Nothing here is a vendor's figure.

    Parameters
    ----------
    products : tuple of Measurement
        The fastest product of each dtype.
    copies : tuple of KernelMeasurement
        Passes over arrays far larger than the caches, see `pulsewarp.bench.bandwidth`.

    Raises
    ------
    ValueError
        Nothing was measured, two products have one dtype, or the runs are of different devices.

    Examples
    --------
    >>> from pulsewarp.matmul import Matmul
    >>> shared = dict(
    ...     device=MeasuredDevice("cpu", "cpu", None, 1, "Example CPU", 2), clock="device",
    ...     products_per_repeat=4, compile_seconds=0.1, warmup_calls=3, versions={"jax": "0.7.2"},
    ...     when="2026-11-30T12:00:00+00:00")
    >>> product = Measurement(
    ...     matmul=Matmul(1000, 1000, 1000, "fp32"), seconds=(0.02, 0.02, 0.02), precision="highest",
    ...     precision_in_program="highest", relative_error=1e-7, error_rows=64, seed=0, **shared)
    >>> copy = KernelMeasurement(
    ...     name="copy", size=25_000_000, dtype="fp32", bytes_moved=200_000_000, seconds=(0.02, 0.02, 0.02),
    ...     relative_error=0.0, **shared)
    >>> found = Ceilings((product,), (copy,))
    >>> found.peak_flops_per_second["fp32"], found.bandwidth_bytes_per_second
    (100000000000.0, 10000000000.0)
    >>> found.as_chip().name
    'Example, 2 cores (measured here)'
    """

    products: tuple[Measurement, ...]
    copies: tuple[KernelMeasurement, ...]

    def __post_init__(self) -> None:
        if not self.runs:
            raise ValueError("No product and no copy was measured, so there is no ceiling.")
        dtypes = [run.matmul.dtype for run in self.products]
        if len(set(dtypes)) < len(dtypes):
            raise ValueError(
                f"Products of {', '.join(dtypes)} were given, but a dtype has one ceiling; give the fastest."
            )
        if len({run.device for run in self.runs}) > 1:
            raise ValueError(
                "The runs are of different devices, but ceilings are of one; measure them apart."
            )

    @property
    def runs(self) -> tuple[Timed, ...]:
        """All that was timed, as `pulsewarp.bench.save` takes it."""
        return (*self.products, *self.copies)

    @property
    def device(self) -> MeasuredDevice:
        """The device that was measured."""
        return self.runs[0].device

    @property
    def when(self) -> str:
        """When the last run ended."""
        return max(run.when for run in self.runs)

    @property
    def peak_flops_per_second(self) -> Mapping[str, float]:
        """The best rate by catalogue dtype, in FLOP/s (OP/s for integers); measured dtypes alone."""
        return MappingProxyType({run.matmul.dtype: run.flops_per_second for run in self.products})

    @property
    def bandwidth_bytes_per_second(self) -> float | None:
        """The best rate of compulsory bytes, in B/s; None when no copy was measured."""
        return max((run.bytes_per_second for run in self.copies), default=None)

    @property
    def says(self) -> str:
        """How the ceilings were found, in one sentence."""
        return f"Measured here on {self.when[:10]}, not published: {'; '.join(self._methods())}."

    def _methods(self) -> Iterable[str]:
        if self.products:
            yield "peaks are the best median rate of square products in a dependent chain"
        if self.copies:
            names = ", ".join(run.name for run in self.copies)
            yield f"bandwidth is the best of {names} by bytes read and written, write-allocate not counted"

    def rows(self) -> tuple[tuple[str, str], ...]:
        """Return each ceiling as a (label, text) pair: value, repeats, spread and what was run.

        Returns
        -------
        tuple of (str, str)
        """
        peaks = (
            (
                run.matmul.dtype,
                f"{with_prefix(run.flops_per_second, _rate(run.matmul.dtype))} ({run.title}, {_spread(run)})",
            )
            for run in self.products
        )
        copies = (
            (run.name, f"{with_prefix(run.bytes_per_second, 'B/s')} ({_arrays(run)}, {_spread(run)})")
            for run in self.copies
        )
        return (*peaks, *copies)

    def as_chip(self) -> chips.Chip:
        """Return the ceilings in the form of a catalogue chip, for `roofline` and the figures.

        Its status, its caveat and its sources say that it was measured here.

        Returns
        -------
        Chip
        """
        source = chips.Source(
            "measured_here", self.says.rstrip("."), "bench.ceilings() on this machine", self.when
        )
        peaks = self.peak_flops_per_second
        names = [f"peak_flops_per_second.{dtype}" for dtype in peaks]
        if self.bandwidth_bytes_per_second is not None:
            names.append("bandwidth_bytes_per_second")
        return chips.Chip(
            id="measured_here",
            name=f"{_short(self.device.label)} (measured here)",
            vendor="measured here",
            family="other",
            status=MEASURED_HERE,
            as_of=self.when[:10],
            peak_flops_per_second=peaks,
            bandwidth_bytes_per_second=self.bandwidth_bytes_per_second,
            sources=MappingProxyType(dict.fromkeys(names, source)),
            further_sources=MappingProxyType({}),
            other_values=MappingProxyType({}),
            jax_devices_per_chip=1,
            caveat="Measured here, not published: a floor of what the device can do.",
        )

    def __repr__(self) -> str:
        lines = [f"Ceilings of {self.device.label}, {MEASURED_HERE}"]
        lines += [f"  {label + ':':<8}{text}" for label, text in self.rows()]
        lines += [f"  {note}" for note in dict.fromkeys(note for run in self.runs for note in run.notes)]
        return "\n".join(lines)


def _short(label: str) -> str:
    """Leave out of a processor's name what a legend has no room for: marks, the word itself, its clock."""
    words = re.sub(r"\((R|TM)\)|\b(CPU|Processor)\b|@ ?[\d.]+ ?[GM]Hz", " ", label)
    return re.sub(r" +(?=,|$)", "", " ".join(words.split())) or label


def _rate(dtype: str) -> str:
    return "OP/s" if dtype.startswith("int") else "FLOP/s"


def _spread(run: Timed) -> str:
    return f"{counted(len(run.seconds), 'repeat')}, spread {run.spread:.0%}"


def _arrays(run: KernelMeasurement) -> str:
    return f"{run.size} elements of {run.dtype} an array"
