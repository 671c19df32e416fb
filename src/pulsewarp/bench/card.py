"""The device card: what JAX sees, what the machine shows, and why the two may differ.

`describe` is a plain function from observations to a card, so every machine that is not here can
be tested from data. `pulsewarp.bench.live` makes the observations.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pulsewarp import chips
from pulsewarp._text import counted
from pulsewarp.bench.host import Host
from pulsewarp.bench.measured_ceilings import MEASURED_HERE, Ceilings
from pulsewarp.bench.measurement import MeasuredDevice
from pulsewarp.bench.nvml import Gpu, UnreadableError, first_visible
from pulsewarp.bench.problems import Problem, find_problems
from pulsewarp.bench.remarks import find_remarks
from pulsewarp.bench.seen import SeenDevice, SeenJax

__all__ = ["DeviceCard", "Problem", "SeenDevice", "SeenJax", "describe", "find_problems", "find_remarks"]


@dataclass(frozen=True)
class DeviceCard:
    """What runs the reader's products, and what stands in the way of something faster.

    Parameters
    ----------
    platform, kind : str or None
        JAX's platform and device kind; None when JAX gave no device.
    chip, chip_name : str or None
        The chip as the catalogue knows it: its id and its name.
    device_count, chip_count : int
        Devices in this process, and the chips they sit on.
    devices_per_chip : int
        2 where each core of a chip is a device of its own; a device then has half the chip's peak.
    memory_bytes, memory_free_bytes : int or None
        Memory of one device that JAX may use, and what is free of it.
    versions : mapping of str to str
        Python and the packages that matter.
    default_precision : str or None
        What ``jax_default_matmul_precision`` is set to.
    cpu_model : str
        The host's processor, as the system names it.
    cores : int
        Host cores this process may use.
    problems : tuple of Problem
        Empty when JAX uses what the machine has.
    core_limit : float or None
        How many cores' time the container grants, where that is less than `cores`.
    power_limit_watts : float or None
        The power limit in force on the first device, where its driver tells.
    remarks : tuple of str
        What else bears on the numbers: a power limit, a slice of a card, JAX's memory pool.
    ceilings : Ceilings or None
        What was measured on this device in this process.
    """

    platform: str | None
    kind: str | None
    chip: str | None
    chip_name: str | None
    device_count: int
    chip_count: int
    devices_per_chip: int
    memory_bytes: int | None
    memory_free_bytes: int | None
    versions: Mapping[str, str]
    default_precision: str | None
    cpu_model: str
    cores: int
    problems: tuple[Problem, ...] = ()
    core_limit: float | None = None
    power_limit_watts: float | None = None
    remarks: tuple[str, ...] = ()
    ceilings: Ceilings | None = None

    @property
    def accelerated(self) -> bool:
        """Whether JAX computes on something other than the CPU."""
        return self.platform not in (None, "cpu")

    @property
    def fallback(self) -> tuple[str, ...]:
        """Why the CPU computes although an accelerator is here or was meant to be; empty elsewhere."""
        return tuple(problem.cause for problem in self.problems) if self.platform == "cpu" else ()

    @property
    def measured(self) -> MeasuredDevice:
        """The device as a measurement names it; a ValueError where JAX gives none."""
        if self.platform is None or self.kind is None:
            raise ValueError("There is no device to measure: JAX gives none.")
        return MeasuredDevice(
            self.platform, self.kind, self.chip, self.devices_per_chip, self.cpu_model, self.cores
        )

    def rows(self) -> tuple[tuple[str, str], ...]:
        """Return the card as (label, text) pairs, in reading order, without the problems.

        Returns
        -------
        tuple of (str, str)
        """
        return (
            ("Device", self._device()),
            ("Chip", self._chip()),
            *self._ceilings(),
            ("Memory", self._memory()),
            *self._power(),
            ("Host", f"{self.cpu_model}, {counted(self.cores, 'core')} usable{self._core_limit()}"),
            ("Precision", _precision(self.default_precision, self.platform)),
            ("Versions", ", ".join(f"{name} {version}" for name, version in self.versions.items())),
        )

    def _all_rows(self) -> tuple[tuple[str, str], ...]:
        problems = (
            pair for each in self.problems for pair in (("Problem", each.cause), ("Remedy", each.remedy))
        )
        return (*self.rows(), *(("Remark", remark) for remark in self.remarks), *problems)

    def __repr__(self) -> str:
        return "\n".join(f"{label + ':' if label else '':<11}{text}" for label, text in self._all_rows())

    def _repr_html_(self) -> str:
        cells = (
            f'<tr><th scope="row" style="text-align:left;vertical-align:top">{html.escape(label)}</th>'
            f'<td style="text-align:left">{html.escape(text)}</td></tr>'
            for label, text in self._all_rows()
        )
        return f"<table><caption>What runs your products</caption>{''.join(cells)}</table>"

    def _ceilings(self) -> Iterable[tuple[str, str]]:
        if self.ceilings is None:
            return ()
        first, *rest = (f"{label} {text}" for label, text in self.ceilings.rows())
        return (("Ceilings", f"{MEASURED_HERE}: {first}"), *(("", line) for line in rest))

    def _power(self) -> Iterable[tuple[str, str]]:
        return () if self.power_limit_watts is None else (("Power", f"limit {self.power_limit_watts:.0f} W"),)

    def _core_limit(self) -> str:
        limit = self.core_limit
        return "" if limit is None else f", of which the container grants {limit:g} cores' time"

    def _device(self) -> str:
        if self.platform is None:
            return "none: JAX gives no device"
        if self.platform == "cpu":
            parts = "" if self.device_count == 1 else f", shown as {self.device_count} devices"
            return f"the host's CPU through JAX{parts}; no accelerator in use"
        return f"{self.device_count} x {self.kind} ({self.platform.upper()})"

    def _chip(self) -> str:
        if self.platform is None:
            return "unknown"
        if self.chip is None and self.platform == "cpu":
            found = "" if self.ceilings else "; bench.ceilings() measures its own"
            return f"not in the catalogue: no published ceiling is known for this CPU{found}"
        if self.chip is None:
            found = "" if self.ceilings else "; bench.ceilings() measures its own"
            return f"{self.kind}: not in the catalogue, so no published ceiling is known{found}"
        text = f"{counted(self.chip_count, 'chip')}: {self.chip_name} ({self.chip})"
        if self.devices_per_chip > 1:
            share = self.devices_per_chip
            text += f", {share} devices a chip: one device has 1/{share} of its peak"
        return text

    def _memory(self) -> str:
        if self.memory_bytes is None:
            return "unknown"
        free = "" if self.memory_free_bytes is None else f", {self.memory_free_bytes / 2**30:.1f} GiB free"
        return f"{self.memory_bytes / 2**30:.1f} GiB that JAX may use{free}"


def describe(
    host: Host, jax: SeenJax, gpus: tuple[Gpu, ...] = (), ceilings: Ceilings | None = None
) -> DeviceCard:
    """Make the card from what the host shows and what JAX says.

    Parameters
    ----------
    host : Host
        From `pulsewarp.bench.host.look`, or recorded.
    jax : SeenJax
        From `pulsewarp.bench.live`, or recorded.
    gpus : tuple of Gpu
        From `pulsewarp.bench.nvml.look`, or recorded.
    ceilings : Ceilings, optional
        Measured in this process; shown where they are of the device on the card.

    Returns
    -------
    DeviceCard

    Examples
    --------
    >>> host = Host(python="3.13.0", cpu_model="Example CPU", cores=2)
    >>> describe(host, SeenJax(version="0.7.2", devices=(SeenDevice("tpu", "TPU v5 lite"),))).chip
    'tpu_v5e'
    """
    first = jax.devices[0] if jax.devices else None
    chip = chips.identify(first.kind, first.platform) if first else None
    per_chip = _devices_per_chip(jax.devices, chip)
    total, free = host.memory_bytes, host.memory_free_bytes
    if first and first.platform != "cpu":
        total, used = first.memory_bytes, first.memory_used_bytes
        free = None if total is None or used is None else total - used
    limit = _power_limit(host, first, gpus)
    ours = ceilings is not None and first is not None and ceilings.device.kind == first.kind
    loaded = {"jax": jax.version} if jax.version else {}  # what runs, should it differ from what is installed
    return DeviceCard(
        platform=first.platform if first else None,
        kind=first.kind if first else None,
        chip=chip,
        chip_name=chips.get(chip).name if chip else None,
        device_count=len(jax.devices),
        chip_count=-(-len(jax.devices) // per_chip),
        devices_per_chip=per_chip,
        memory_bytes=total,
        memory_free_bytes=free,
        versions={"python": host.python, **host.distributions, **loaded},
        default_precision=jax.default_precision,
        cpu_model=host.cpu_model,
        cores=host.cores,
        problems=find_problems(host, jax),
        core_limit=host.core_limit,
        power_limit_watts=limit,
        remarks=find_remarks(host, jax, limit),
        ceilings=ceilings if ours else None,
    )


def _power_limit(host: Host, device: SeenDevice | None, gpus: tuple[Gpu, ...]) -> float | None:
    if device is None or device.platform != "gpu":
        return None
    if host.has_amd and not host.has_nvidia:
        return host.amd_power_limits_watts[0] if len(set(host.amd_power_limits_watts)) == 1 else None
    try:
        return first_visible(gpus, host.variables).power_limit_watts
    except UnreadableError:
        limits = {gpu.power_limit_watts for gpu in gpus}  # which one is the first does not matter then
        return limits.pop() if len(limits) == 1 else None


def _devices_per_chip(devices: tuple[SeenDevice, ...], chip: str | None) -> int:
    places = {device.coords for device in devices}
    if len(devices) > 1 and None not in places:  # the devices themselves say which chip they sit on
        return max(1, len(devices) // len(places))
    return (chips.get(chip).jax_devices_per_chip if chip else None) or 1


def _precision(setting: str | None, platform: str | None) -> str:
    if setting is not None:
        return f"jax_default_matmul_precision is {setting!r}"
    meaning = {
        "tpu": "on a TPU a float32 product is then made from one pass of bfloat16 factors",
        "gpu": "on an NVIDIA GPU with tensor cores a float32 product may then be made in TF32",
        "cpu": "on a CPU a float32 product is then made in float32",
    }.get(platform or "", "its meaning depends on the device")
    return f"default (nobody set it): {meaning}"
