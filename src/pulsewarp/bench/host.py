"""What this machine looks like from the outside: read from files and variables, never by asking a device.

A TPU belongs to one process, so nothing here starts another process or opens a device.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

VARIABLES = (
    "COLAB_GPU", "COLAB_RELEASE_TAG", "COLAB_TPU_ADDR", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
    "JAX_PLATFORMS", "JAX_PLATFORM_NAME", "ROCR_VISIBLE_DEVICES", "TPU_ACCELERATOR_TYPE", "TPU_NAME",
    "TPU_VISIBLE_CHIPS", "TPU_VISIBLE_DEVICES",
)  # fmt: skip
"""Environment variables that decide which device JAX uses."""

_DISTRIBUTIONS = (
    "jax", "jaxlib", "numpy", "pulsewarp", "libtpu", "libtpu-nightly",
    "jax-cuda12-plugin", "jax-cuda13-plugin", "jax-rocm60-plugin", "jax-rocm7-plugin",
)  # fmt: skip

# Google's PCI vendor number and its TPU device numbers, as listed in JAX's own
# jax/_src/hardware_utils.py (0.12.0). The vendor alone is not enough: Google's virtual network
# card carries it too.
_GOOGLE = "0x1ae0"
_TPU_DEVICES = {
    "0x0027", "0x0056", "0x005e", "0x0062", "0x0063", "0x006f", "0x0076", "0x007c", "0x0083",
}  # fmt: skip


@dataclass(frozen=True)
class Host:
    """What a machine shows without asking any device.

    Parameters
    ----------
    python : str
        Version of Python.
    cpu_model : str
        The processor as the system names it, or ``"unknown"``.
    cores : int
        Cores this process may use.
    memory_bytes, memory_free_bytes : int or None
        Memory this process may use and what is free of it, the container's limit included.
    distributions : mapping of str to str
        Installed packages that matter here, with versions.
    variables : mapping of str to str
        Those of `VARIABLES` that are set, empty ones included.
    device_files : tuple of str
        Device files of accelerators, such as ``"/dev/nvidia0"``.
    tpu_chips : int
        TPU chips on the PCI bus.
    nvidia_driver : str or None
        Version of the loaded NVIDIA driver.

    Examples
    --------
    >>> Host(python="3.13.0", cpu_model="Example CPU", cores=2).has_nvidia
    False
    """

    python: str
    cpu_model: str
    cores: int
    memory_bytes: int | None = None
    memory_free_bytes: int | None = None
    distributions: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    device_files: tuple[str, ...] = ()
    tpu_chips: int = 0
    nvidia_driver: str | None = None

    @property
    def has_nvidia(self) -> bool:
        """Whether an NVIDIA device file is there (``/dev/dxg`` is how WSL2 shows one)."""
        return any(name.startswith(("/dev/nvidia", "/dev/dxg")) for name in self.device_files)

    @property
    def has_amd(self) -> bool:
        """Whether AMD's compute device file is there."""
        return "/dev/kfd" in self.device_files

    @property
    def has_tpu(self) -> bool:
        """Whether a TPU is on the PCI bus, has a device file, or is announced by a variable."""
        announced = ("COLAB_TPU_ADDR", "TPU_NAME", "TPU_ACCELERATOR_TYPE")
        return (
            self.tpu_chips > 0
            or any(name.startswith("/dev/accel") for name in self.device_files)
            or any(self.variables.get(name) for name in announced)
        )

    @property
    def on_colab(self) -> bool:
        """Whether this is a Colab runtime."""
        return any(name.startswith("COLAB_") for name in self.variables)


def look(root: str | os.PathLike[str] = "/") -> Host:
    """Read what this machine shows in files and variables.

    Parameters
    ----------
    root : path
        Where ``dev``, ``proc`` and ``sys`` are; another folder only in tests.

    Returns
    -------
    Host
        What was seen; what could not be read is unknown, never guessed.

    Examples
    --------
    >>> look().cores >= 1
    True
    """
    base = Path(root)
    total, free = _memory(base)
    return Host(
        python=platform.python_version(),
        cpu_model=_cpu_model(base),
        cores=_cores(),
        memory_bytes=total,
        memory_free_bytes=free,
        distributions=_distributions(),
        variables={name: os.environ[name] for name in VARIABLES if name in os.environ},
        device_files=_device_files(base),
        tpu_chips=_tpu_chips(base),
        nvidia_driver=_nvidia_driver(base),
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:  # absent on this system, or not for us to read: unknown
        return ""


def _cpu_model(base: Path) -> str:
    for line in _read(base / "proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model", "cpu model") and value.strip():
            return value.strip()
    return platform.processor() or platform.machine() or "unknown"


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)  # Linux only
    return len(affinity(0)) if affinity else (os.cpu_count() or 1)


def _memory(base: Path) -> tuple[int | None, int | None]:
    """Total and free bytes: the machine's, or the container's where that is less."""
    lines = dict(line.split(":", 1) for line in _read(base / "proc/meminfo").splitlines() if ":" in line)
    total, free = (_kilobytes(lines.get(name)) for name in ("MemTotal", "MemAvailable"))
    limit, used = _container_memory(base)
    if limit is not None and (total is None or limit < total):
        total = limit
        room = max(0, limit - (used or 0))
        free = room if free is None else min(free, room)
    return total, free


def _kilobytes(text: str | None) -> int | None:
    words = (text or "").split()
    return int(words[0]) * 1024 if words and words[0].isdigit() else None


def _container_memory(base: Path) -> tuple[int | None, int | None]:
    """Limit and use in bytes by the container's control group, version 2 or 1."""
    for folder, limit_name, used_name, cache_name in (
        ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
        ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        limit = _read(base / folder / limit_name).strip()
        if not limit.isdigit():  # "max" means no limit
            continue
        used = _read(base / folder / used_name).strip()
        rows = (line.split() for line in _read(base / folder / "memory.stat").splitlines())
        stat = {row[0]: row[1] for row in rows if len(row) == 2}
        cache = stat.get(cache_name, "0")  # file pages the system gives back when asked
        busy = int(used) - int(cache) if used.isdigit() and cache.isdigit() else None
        return int(limit), busy
    return None, None


def _distributions() -> dict[str, str]:
    found = {}
    for name in _DISTRIBUTIONS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _device_files(base: Path) -> tuple[str, ...]:
    patterns = ("nvidia[0-9]*", "nvidiactl", "dxg", "accel[0-9]*", "kfd")
    found = {f"/dev/{path.name}" for pattern in patterns for path in (base / "dev").glob(pattern)}
    return tuple(sorted(found))


def _tpu_chips(base: Path) -> int:
    folders = (base / "sys/bus/pci/devices").glob("*.0")  # function 0: each chip once
    return sum(
        _read(folder / "vendor").strip() == _GOOGLE and _read(folder / "device").strip() in _TPU_DEVICES
        for folder in folders
    )


def _nvidia_driver(base: Path) -> str | None:
    # "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar ..."
    words = _read(base / "proc/driver/nvidia/version").split()
    numbers = [word for word in words if word[:1].isdigit() and "." in word]
    return numbers[0] if numbers else None
