"""What JAX says about this machine, asked in this process, once."""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from pulsewarp.bench import card, host, nvml
from pulsewarp.bench.measured_ceilings import Ceilings

# What this process has learnt and JAX or the clock does not say twice.
_plugin_errors: dict[str, str] = {}
_measured: list[Ceilings] = []


def devices() -> card.DeviceCard:
    """Say which device runs the reader's products, and why it may not be the one they expect.

    Looks at this machine's files and variables and asks JAX, in this process, once. Without JAX
    the card says so; nothing is raised. Nothing is measured: ceilings are on the card once
    `pulsewarp.bench.ceilings` has measured them in this process.

    Returns
    -------
    DeviceCard

    Examples
    --------
    >>> devices().cores >= 1
    True
    """
    here = host.look()
    return card.describe(
        here, see_jax(), _gpus() if here.has_nvidia else (), _measured[-1] if _measured else None
    )


def remember(found: Ceilings) -> None:
    """Keep measured ceilings for the cards to come."""
    _measured[:] = [found]


@functools.cache
def _gpus() -> tuple[nvml.Gpu, ...]:
    return nvml.look()


def import_jax() -> ModuleType:
    try:
        import jax
    except Exception as error:  # a jaxlib that does not match raises more than ImportError
        problem = card.find_problems(host.look(), card.SeenJax(version=None, error=str(error)))[0]
        raise ImportError(f"{problem.cause} {problem.remedy}") from error
    return jax  # type: ignore[no-any-return]  # jax is untyped here, see pyproject


def begin() -> tuple[ModuleType, card.DeviceCard]:
    """Import JAX and look at its devices; refuse to go on without JAX or without a device."""
    jax, seen = import_jax(), devices()
    if seen.platform is None:
        raise RuntimeError(no_device(seen))
    return jax, seen


def see_jax() -> card.SeenJax:
    try:
        import jax
    except Exception as error:  # a jaxlib that does not match raises more than ImportError
        return card.SeenJax(version=None, error=str(error))
    told = {
        "default_precision": jax.config.jax_default_matmul_precision,
        "platforms": getattr(jax.config, "jax_platforms", None) or None,
    }
    failure, listed = None, []
    with _hear_plugins():
        try:
            listed = jax.local_devices()
        except Exception as raised:  # whatever a driver raises belongs on the card
            failure = str(raised)
    seen = tuple(see_device(device) for device in listed)
    table = _backend_errors()  # an older JAX lists a plugin that could not be set up, without a reason
    errors = {**table, **_plugin_errors, **{name: text for name, text in table.items() if text}}
    return card.SeenJax(jax.__version__, seen, failure, errors, **told)


@contextmanager
def _hear_plugins() -> Iterator[None]:
    """Keep why a plugin of JAX could not be set up: JAX logs that once, when it first looks for devices."""

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            text = record.getMessage()
            reason = record.exc_info[1] if record.exc_info else None
            if "plugin configuration error" in text:
                platform = next((name for name in ("cuda", "rocm", "tpu") if name in text), None)
                if platform is not None:
                    _plugin_errors[platform] = str(reason) if reason else text

    logger, ear = logging.getLogger("jax._src.xla_bridge"), Ear()
    logger.addHandler(ear)
    try:
        yield
    finally:
        logger.removeHandler(ear)


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
