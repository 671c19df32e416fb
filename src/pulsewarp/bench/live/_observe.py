"""What JAX says about this machine, asked in this process, once."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from pulsewarp.bench import card, host


def devices() -> card.DeviceCard:
    """Say which device runs the reader's products, and why it may not be the one they expect.

    Looks at this machine's files and variables and asks JAX, in this process, once. Without JAX
    the card says so; nothing is raised.

    Returns
    -------
    DeviceCard

    Examples
    --------
    >>> devices().cores >= 1
    True
    """
    return card.describe(host.look(), see_jax())


def import_jax() -> ModuleType:
    try:
        import jax
    except Exception as error:  # a jaxlib that does not match raises more than ImportError
        problem = card.find_problems(host.look(), card.SeenJax(version=None, error=str(error)))[0]
        raise ImportError(f"{problem.cause} {problem.remedy}") from error
    return jax  # type: ignore[no-any-return]  # jax is untyped here, see pyproject


def see_jax() -> card.SeenJax:
    try:
        import jax
    except Exception as error:  # a jaxlib that does not match raises more than ImportError
        return card.SeenJax(version=None, error=str(error))
    setting = jax.config.jax_default_matmul_precision
    try:
        listed = jax.local_devices()
    except Exception as error:  # whatever a driver raises belongs on the card
        return card.SeenJax(jax.__version__, (), str(error), _backend_errors(), setting)
    seen = tuple(see_device(device) for device in listed)
    return card.SeenJax(jax.__version__, seen, None, _backend_errors(), setting)


def see_device(device: Any) -> card.SeenDevice:
    try:
        memory = device.memory_stats() or {}
    except Exception:  # some backends do not implement it: unknown
        memory = {}
    coords = getattr(device, "coords", None)
    return card.SeenDevice(
        platform={"cuda": "gpu", "rocm": "gpu"}.get(device.platform, device.platform),
        kind=device.device_kind,
        coords=None if coords is None else tuple(coords),
        memory_bytes=memory.get("bytes_limit"),
        memory_used_bytes=memory.get("bytes_in_use"),
    )


def _backend_errors() -> dict[str, str]:
    # JAX falls back to the CPU silently and keeps the reason in this private table, its only record
    # of it; where a version has no such table, the card does without.
    bridge = sys.modules.get("jax._src.xla_bridge")
    table = getattr(bridge, "_backend_errors", {})
    return {str(name): str(text) for name, text in table.items()} if isinstance(table, dict) else {}


def no_device(seen: card.DeviceCard) -> str:
    return (
        " ".join(f"{problem.cause} {problem.remedy}" for problem in seen.problems) or "JAX gives no device."
    )
