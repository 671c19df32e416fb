"""What JAX says about itself and its devices, as values: observed by `pulsewarp.bench.live`, or recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class SeenDevice:
    """One device as JAX lists it.

    Parameters
    ----------
    platform : str
        ``"cpu"``, ``"gpu"`` or ``"tpu"``.
    kind : str
        JAX's ``device_kind``, such as ``"TPU v5 lite"``.
    coords : tuple of int or None
        Place of the chip in its slice; TPUs only. Devices of one chip share it.
    memory_bytes, memory_used_bytes : int or None
        Bytes JAX may use on the device and uses now.
    """

    platform: str
    kind: str
    coords: tuple[int, ...] | None = None
    memory_bytes: int | None = None
    memory_used_bytes: int | None = None


@dataclass(frozen=True)
class SeenJax:
    """What JAX says about itself.

    Parameters
    ----------
    version : str or None
        JAX's version; None when it cannot be imported.
    devices : tuple of SeenDevice
        What ``jax.local_devices()`` lists; empty when that failed.
    error : str or None
        What importing JAX or asking it for devices raised.
    backend_errors : mapping of str to str
        Why a platform that JAX tried silently did not start, or its plugin could not be set up.
    default_precision : str or None
        ``jax_default_matmul_precision``; None when nobody set it.
    platforms : str or None
        ``jax_platforms``, which a variable or the program itself may have set.
    """

    version: str | None
    devices: tuple[SeenDevice, ...] = ()
    error: str | None = None
    backend_errors: Mapping[str, str] = field(default_factory=dict)
    default_precision: str | None = None
    platforms: str | None = None
