"""Which catalogue chip a JAX device is, from the name the device gives itself."""

from __future__ import annotations

from functools import cache

from pulsewarp._checks import instance, names_keywords
from pulsewarp.chips.loader import catalogue

_VENDORS = {"tpu": ("Google",), "gpu": ("NVIDIA", "AMD"), "cuda": ("NVIDIA",), "rocm": ("AMD",)}


@names_keywords
def identify(device_kind: str, platform: str) -> str | None:
    """Return the catalogue id of a JAX device, or None when its name is not known to mean one chip.

    Names are compared whole, apart from case, hyphens and the words NVIDIA, AMD and Tesla, so
    that an SXM card is never taken for a PCIe one, nor a slice of a card for the card.

    Parameters
    ----------
    device_kind
        JAX's ``device.device_kind``, such as ``"TPU v5 lite"`` or ``"NVIDIA H100 80GB HBM3"``.
    platform
        JAX's ``device.platform``: "tpu", "gpu", "cuda", "rocm" or "cpu".

    Returns
    -------
    str or None
        The chip's id.

    Notes
    -----
    TPU names are those of JAX 0.12 (`jax/_src/tpu_info.py`), GPU names the ones drivers report.

    Examples
    --------
    >>> from pulsewarp import chips
    >>> chips.identify("TPU v5 lite", "tpu")
    'tpu_v5e'
    >>> chips.identify("NVIDIA H100 PCIe", "gpu")
    'h100_pcie'
    >>> chips.identify("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "gpu") is None
    True
    """
    instance("device_kind", device_kind, str, "pass jax.devices()[0].device_kind")
    vendors = _VENDORS.get(instance("platform", platform, str, "pass jax.devices()[0].platform").lower(), ())
    return next(
        (chip_id for vendor in vendors if (chip_id := _names().get((vendor, _plain(device_kind))))), None
    )


@cache
def _names() -> dict[tuple[str, str], str]:
    return {(chip.vendor, _plain(kind)): chip.id for chip in catalogue() for kind in chip.device_kinds}


def _plain(device_kind: str) -> str:
    words = device_kind.lower().replace("-", " ").split()
    return " ".join(word for word in words if word not in ("nvidia", "amd", "tesla"))
