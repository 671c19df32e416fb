"""What the catalogue knows of one chip, in SI base units, and who says so."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from pulsewarp._checks import choice, nearest

Family = Literal["tpu", "gpu", "other"]

FAMILIES: tuple[Family, ...] = ("tpu", "gpu", "other")
"""TPUs are Google's; "other" holds accelerators that are neither TPU nor GPU."""

PEAK_DTYPES = ("fp64", "fp64_tensor", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4", "int4")
"""Names of peaks. fp64 and fp32 are the vector units' rates, fp64_tensor and the rest the matrix units'."""


@dataclass(frozen=True)
class Source:
    """Where a value comes from.

    Parameters
    ----------
    key
        The source's name inside the catalogue's files.
    title, address, date
        What it is called, where it stands, and its own date or the one it was read on.
    """

    key: str
    title: str
    address: str
    date: str


@dataclass(frozen=True)
class OtherValue:
    """A value that another source prints for the same field, in the field's own unit."""

    value: float
    source: Source


@dataclass(frozen=True, repr=False)
class Chip:
    """One accelerator chip as published: peaks, memory, units, power, and the source of each value.

    Every peak is dense. What nobody was seen to publish is None, never a guess. Values describe
    the whole chip, also where software shows it as several devices (see `per_jax_device`).

    Parameters
    ----------
    id, name, vendor, family, status
        Catalogue id such as ``"tpu_v5e"``, printed name, maker, "tpu", "gpu" or "other", and
        whether it can be had.
    as_of
        Day on which the catalogue's entry was last compared with its sources.
    year
        Year of launch (of deployment for TPU v1).
    peak_flops_per_second
        Dense peak by dtype (`PEAK_DTYPES`), FLOP/s, or integer operations per second.
    bandwidth_bytes_per_second
        Of the chip's main memory (HBM or GDDR).
    memory_bytes
        Exact capacity where known; otherwise the vendor's label read as decimal gigabytes, and
        then `memory_caveat` says so.
    memory_label_gb
        The number of "GB" the vendor prints. On TPUs it means GiB, on NVIDIA parts neither.
    cores, core_kind, matrix_units_per_core, matrix_units
        Number of cores and what they are called (TensorCore, SM, CU, ...), matrix units of one
        core, and of the chip (their product).
    matrix_unit_shape
        (rows, columns) of one matrix unit where it is a systolic or MAC array of known shape.
    fma_per_clock_per_matrix_unit
        Fused multiply-adds of 16-bit operands a clock.
    boost_clock_hz, matrix_clock_hz
        Clock of the vector units at boost, and the one the matrix peak is quoted at.
    peak_arithmetic
        Units x FMA x 2 x clock by dtype in FLOP/s, where all of them are known and may be printed.
    unit_arithmetic_caveat
        Why that product must not be printed as this chip's peak; None where it may.
    tdp_watts, tdp_term
        Design power, and the term its vendor uses (TDP, TGP, TBP, ...).
    measured_power_mean_watts, measured_power_max_watts
        Measured per chip. Never to be mixed with `tdp_watts` on one line of a chart.
    l2_cache_bytes, last_level_cache_bytes, vmem_bytes, cmem_bytes, unified_buffer_bytes
        On-chip memories of the whole chip.
    shared_memory_per_core_bytes, register_file_per_core_bytes, warp_size, max_threads_per_core
        Limits of one GPU core.
    interconnect, interconnect_bidirectional_bytes_per_second, interconnect_unidirectional_bytes_per_second
        Link between chips, both ways together and one way.
    topology, max_domain_chips
        How chips are joined, and how many at most by that link.
    clouds
        Providers seen to offer it.
    device_kinds
        Names under which JAX shows it.
    jax_devices_per_chip
        Devices that JAX shows for one chip, or None where that is not documented.
    projection
        True when the figures are a vendor's projection; then no roofline is drawn.
    caveat
        Why this entry is weak; None for a sound one.
    note
        What else a reader should know, such as where sources disagree.
    sources
        Attribute name (a peak as ``"peak_flops_per_second.bf16"``) to the strongest source.
    further_sources
        Attribute name to the other sources that print the same value.
    other_values
        Attribute name to the values that other sources print.

    Examples
    --------
    >>> from pulsewarp import chips
    >>> v5e = chips.get("tpu_v5e")
    >>> v5e.peak("bf16"), v5e.bandwidth_bytes_per_second, v5e.matrix_units
    (197000000000000.0, 819000000000.0, 4)
    >>> v5e.tdp_watts is None  # Google does not publish it
    True
    >>> v5e.source("bandwidth_bytes_per_second").title
    'Google Cloud documentation, TPU v5e'
    """

    id: str
    name: str
    vendor: str
    family: Family
    status: str
    as_of: str
    peak_flops_per_second: Mapping[str, float]
    sources: Mapping[str, Source]
    further_sources: Mapping[str, tuple[Source, ...]]
    other_values: Mapping[str, tuple[OtherValue, ...]]
    year: int | None = None
    process_node: str | None = None
    bandwidth_bytes_per_second: float | None = None
    memory_type: str | None = None
    memory_label_gb: float | None = None
    memory_bytes: int | None = None
    memory_caveat: str | None = None
    cores: int | None = None
    core_kind: str | None = None
    matrix_units_per_core: int | None = None
    matrix_units: int | None = None
    matrix_unit_shape: tuple[int, int] | None = None
    fma_per_clock_per_matrix_unit: int | None = None
    boost_clock_hz: float | None = None
    matrix_clock_hz: float | None = None
    unit_arithmetic_caveat: str | None = None
    tdp_watts: float | None = None
    tdp_term: str | None = None
    measured_power_mean_watts: float | None = None
    measured_power_max_watts: float | None = None
    l2_cache_bytes: int | None = None
    last_level_cache_bytes: int | None = None
    vmem_bytes: int | None = None
    cmem_bytes: int | None = None
    unified_buffer_bytes: int | None = None
    shared_memory_per_core_bytes: int | None = None
    register_file_per_core_bytes: int | None = None
    warp_size: int | None = None
    max_threads_per_core: int | None = None
    interconnect: str | None = None
    interconnect_bidirectional_bytes_per_second: float | None = None
    interconnect_unidirectional_bytes_per_second: float | None = None
    topology: str | None = None
    max_domain_chips: int | None = None
    clouds: tuple[str, ...] = ()
    device_kinds: tuple[str, ...] = ()
    jax_devices_per_chip: int | None = None
    projection: bool = False
    caveat: str | None = None
    note: str | None = None
    peak_arithmetic: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    def __repr__(self) -> str:
        return f"Chip(id={self.id!r}, name={self.name!r}, vendor={self.vendor!r}, family={self.family!r})"

    def __hash__(self) -> int:
        return hash((self.id, self.name))  # mappings cannot be hashed; equality still compares them

    @property
    def has_roofline(self) -> bool:
        """Whether a roofline may be drawn: a peak and a bandwidth are known and are no projection."""
        return bool(
            self.peak_flops_per_second and self.bandwidth_bytes_per_second is not None and not self.projection
        )

    def peak(self, dtype: str) -> float:
        """Return the dense peak for `dtype` in FLOP/s (integer operations per second for int8 and int4).

        Parameters
        ----------
        dtype
            One of `PEAK_DTYPES`.

        Returns
        -------
        float
            Operations per second.

        Raises
        ------
        ValueError
            When `dtype` is no known name, or its peak on this chip was not seen published.

        Examples
        --------
        >>> from pulsewarp import chips
        >>> chips.get("tpu_v4").peak("bf16")
        275000000000000.0
        """
        choice("dtype", dtype, PEAK_DTYPES)
        if dtype not in self.peak_flops_per_second:
            known = ", ".join(self.peak_flops_per_second) or "none"
            raise ValueError(
                f"No {dtype} peak of {self.name} is known, and unknown is not guessed; known peaks: {known}."
            )
        return self.peak_flops_per_second[dtype]

    def source(self, field: str) -> Source:
        """Return the strongest source of an attribute.

        Parameters
        ----------
        field
            The attribute's name, such as ``"tdp_watts"``; a peak's is ``"peak_flops_per_second.bf16"``.

        Returns
        -------
        Source

        Raises
        ------
        ValueError
            When this chip has no sourced value under that name.

        Examples
        --------
        >>> from pulsewarp import chips
        >>> chips.get("tpu_v5e").source("bandwidth_bytes_per_second").title
        'Google Cloud documentation, TPU v5e'
        """
        if not isinstance(field, str) or field not in self.sources:
            raise ValueError(
                f"{self.name} has no sourced value named {field!r}.{nearest(field, self.sources)} "
                f"Sourced: {', '.join(self.sources)}."
            )
        return self.sources[field]

    def span(self, field: str) -> tuple[float, float]:
        """Return the least and greatest value that sources print for a numeric attribute.

        Equal ends mean that no other value was seen.

        Parameters
        ----------
        field
            As for `source`.

        Returns
        -------
        (float, float)
            In the attribute's own unit.

        Raises
        ------
        ValueError
            When this chip has no sourced number under that name.

        Examples
        --------
        >>> from pulsewarp import chips
        >>> chips.get("b200").span("bandwidth_bytes_per_second")
        (7672000000000.0, 8000000000000.0)
        """
        self.source(field)
        name, _, dtype = field.partition(".")
        own = self.peak_flops_per_second[dtype] if dtype else getattr(self, name)
        if not isinstance(own, int | float):
            raise ValueError(f"{field} of {self.name} is {own!r}, which is no number and has no span.")
        values = [float(own), *(other.value for other in self.other_values.get(field, ()))]
        return min(values), max(values)

    def per_jax_device(self) -> Chip:
        """Return what one JAX device of this chip may use: the chip, or an equal share of it.

        TPU v2, v3, v7 and 8i and the MI250X show one chip as two devices; a product timed on one
        of them must be held against half the chip. Peaks, bandwidth, memory, cores, matrix units,
        on-chip memories of the chip and power are divided; the share keeps the chip's id.

        Returns
        -------
        Chip

        Raises
        ------
        ValueError
            When the number of devices is not documented for this chip.

        Examples
        --------
        >>> from pulsewarp import chips
        >>> half = chips.get("tpu_v7").per_jax_device()
        >>> half.name, half.peak("bf16")
        ('TPU7x (Ironwood, v7), one of 2 devices', 1153500000000000.0)
        """
        share = self.jax_devices_per_chip
        if share is None:
            raise ValueError(
                f"How many JAX devices one {self.name} shows is not documented; "
                f"compare with the whole chip, and say so."
            )
        if share == 1:
            return self
        counts = (
            "memory_bytes",
            "cores",
            "matrix_units",
            "l2_cache_bytes",
            "last_level_cache_bytes",
            "vmem_bytes",
            "cmem_bytes",
        )
        amounts = (
            "bandwidth_bytes_per_second",
            "memory_label_gb",
            "tdp_watts",
            "measured_power_mean_watts",
            "measured_power_max_watts",
        )
        divided: dict[str, object] = {
            name: None if getattr(self, name) is None else getattr(self, name) // share for name in counts
        }
        divided |= {
            name: None if getattr(self, name) is None else getattr(self, name) / share for name in amounts
        }
        return dataclasses.replace(
            self,
            name=f"{self.name}, one of {share} devices",
            jax_devices_per_chip=1,
            peak_flops_per_second=_divided(self.peak_flops_per_second, share),
            peak_arithmetic=_divided(self.peak_arithmetic, share),
            other_values=MappingProxyType({}),
            **divided,  # type: ignore[arg-type]  # names and types are those of the fields read above
        )


def _divided(peaks: Mapping[str, float], share: int) -> Mapping[str, float]:
    return MappingProxyType({dtype: peak / share for dtype, peak in peaks.items()})
