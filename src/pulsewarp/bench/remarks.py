"""What bears on the numbers of a device that works: its power limit, its part, its memory pool."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pulsewarp import chips
from pulsewarp.bench.host import Host
from pulsewarp.bench.seen import SeenDevice, SeenJax


def find_remarks(host: Host, jax: SeenJax, power_limit_watts: float | None = None) -> tuple[str, ...]:
    """Say what bears on the numbers of a device that works.

    Parameters
    ----------
    host, jax
        As for `describe`.
    power_limit_watts : float, optional
        The limit in force on the first device.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> host = Host(python="3.13.0", cpu_model="Example CPU", cores=2)
    >>> card = SeenJax(version="0.7.2", devices=(SeenDevice("gpu", "NVIDIA H100 80GB HBM3"),))
    >>> find_remarks(host, card, 500.0)[0]
    'Its power limit is 500 W and the published one 700 W: long products may run below the published peak.'
    """
    first = jax.devices[0] if jax.devices else None
    if first is None:
        return ()
    chip = chips.identify(first.kind, first.platform)
    found: list[str] = []
    if first.platform == "cpu" and len(jax.devices) > 1:
        found.append(
            f"XLA shows this one CPU as {len(jax.devices)} devices, which share its cores: they show how "
            "sharding works, not how it scales."
        )
    if first.platform != "cpu":
        found += _power_remarks(first.kind, chips.get(chip) if chip else None, power_limit_watts)
        found += _memory_remarks(host, first, chips.get(chip) if chip else None)
    override = host.variables.get("NVIDIA_TF32_OVERRIDE")
    if first.platform == "gpu" and override in ("0", "1"):
        found.append(
            f"NVIDIA_TF32_OVERRIDE is set to {override}: NVIDIA's libraries then "
            f"{'never' if override == '0' else 'always'} use TF32 for float32, whatever precision is asked."
        )
    return tuple(found)


# Parts whose name says that they are not the card of the datasheet; all sources read 2026-12-01. Public
# logs show an A100-PG509-200 "power limited to 330.00 W" (an example of torchao for segment-anything), and
# public tables of device peaks the H20 with 148 TFLOP/s of bf16 where the H100 has 989. A800: NVLink at 400
# GB/s instead of 600 (tweakers.net/nieuws/203182, 2022); H800: slower links too (techpowerup.com, "NVIDIA
# Prepares H800", 2023). Shares of a card are named by frame buffer and series, such as V100L-16C (NVIDIA AI
# Enterprise, "Volta Architecture vGPU Types", docs.nvidia.com/ai-enterprise) and P40-8Q (globalnettech.com,
# 2017), in older releases after the word GRID. Laptop parts are held at 150 W and below, desktop cards up
# to 600 W (netzender.com, "Nvidia's new rule").
_SPECIAL_PARTS = (
    (r"\bMIG\b", "it is a slice of a card, so the whole card's ceilings do not apply"),
    (
        r"\bPG5\d\d",
        "this is a board made for one customer, often with another power limit than the card on sale",
    ),
    (r"\bH20\b", "this part has a fraction of an H100's matrix rate and the full memory bandwidth"),
    (r"\b[AH]800\b", "this part has slower links than the A100 or H100 it is made from"),
    (r"\bGRID\b|-\d+[QC]$", "it is a share of a card given to a virtual machine"),
    (r"Laptop|Max-Q|Mobile", "a laptop part has a lower power limit than the desktop card of that name"),
)


def _power_remarks(kind: str, chip: chips.Chip | None, limit: float | None) -> Iterable[str]:
    published = chip.tdp_watts if chip else None
    if limit is not None and published is not None and limit < 0.97 * published:
        yield (
            f"Its power limit is {limit:.0f} W and the published one {published:.0f} W: long products may "
            "run below the published peak."
        )
    for pattern, words in _SPECIAL_PARTS:
        if re.search(pattern, kind):
            yield f"By its name, {kind}, {words}."
    if limit is None and re.search(r"\bPCIe\b", kind) and published is not None:
        yield (
            f"PCIe cards are built for less power than SXM ones ({published:.0f} W here): long products may "
            "run below the published peak."
        )


def _memory_remarks(host: Host, device: SeenDevice, chip: chips.Chip | None) -> Iterable[str]:
    whole = chip.memory_bytes if chip else None
    if whole is not None and device.memory_bytes is not None and chip is not None:
        whole //= chip.jax_devices_per_chip or 1
        if device.memory_bytes > 1.05 * whole:
            yield (
                f"JAX reports {device.memory_bytes / 2**30:.0f} GiB, but the {chip.name} has "
                f"{whole / 2**30:.0f} GiB: the name may stand for another part."
            )
    frugal = host.variables.get("XLA_PYTHON_CLIENT_PREALLOCATE", "").lower() in ("false", "0")
    frugal |= host.variables.get("XLA_PYTHON_CLIENT_ALLOCATOR", "").lower() == "platform"
    if device.platform == "gpu" and device.memory_bytes is not None and not frugal:
        share = host.variables.get("XLA_PYTHON_CLIENT_MEM_FRACTION") or "0.75"
        yield (
            f"JAX takes a pool of memory at its start ({share} of the GPU), and other programs see all of it "
            "as used; XLA_PYTHON_CLIENT_PREALLOCATE=false stops that."
        )
