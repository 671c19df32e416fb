"""What this machine looks like from the outside: read from files and variables, never by asking a device.

A TPU belongs to one process, so nothing here starts another process or opens a device.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

VARIABLES = (
    "COLAB_GPU", "COLAB_RELEASE_TAG", "COLAB_TPU_ADDR", "CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES", "JAX_PLATFORMS", "JAX_PLATFORM_NAME", "LD_LIBRARY_PATH", "NVIDIA_TF32_OVERRIDE",
    "ROCR_VISIBLE_DEVICES", "TPU_ACCELERATOR_TYPE", "TPU_NAME", "TPU_VISIBLE_CHIPS", "TPU_VISIBLE_DEVICES",
    "XLA_FLAGS", "XLA_PYTHON_CLIENT_ALLOCATOR", "XLA_PYTHON_CLIENT_MEM_FRACTION",
    "XLA_PYTHON_CLIENT_PREALLOCATE",
)  # fmt: skip
"""Environment variables that decide which device JAX uses, and how."""

_DISTRIBUTIONS = (
    "jax", "jaxlib", "numpy", "pulsewarp", "libtpu", "libtpu-nightly",
    "jax-cuda12-plugin", "jax-cuda13-plugin", "jax-rocm60-plugin", "jax-rocm7-plugin",
)  # fmt: skip

# Google's PCI vendor number and its TPU device numbers, as listed in JAX's own
# jax/_src/hardware_utils.py (0.12.0). The vendor alone is not enough: Google's virtual network
# card carries it too.
_GOOGLE = "0x1ae0"
_TPU_DEVICES = {
    "0x0027": "v2 or v3", "0x0056": "", "0x005e": "v4", "0x0062": "v5p", "0x0063": "v5e", "0x006f": "v6e",
    "0x0076": "v7", "0x007c": "8t", "0x0083": "8i",
}  # fmt: skip
_AMD = "0x1002"

# Linux names no model on Arm, but gives the designer's and the core's number in hexadecimal. Numbers as
# listed by LLVM's and util-linux's tables of Arm cores.
_ARM_CORES = {
    ("0x41", "0xd03"): "Cortex-A53", ("0x41", "0xd07"): "Cortex-A57", ("0x41", "0xd08"): "Cortex-A72",
    ("0x41", "0xd0b"): "Cortex-A76", ("0x41", "0xd0c"): "Neoverse-N1", ("0x41", "0xd40"): "Neoverse-V1",
    ("0x41", "0xd49"): "Neoverse-N2", ("0x41", "0xd4f"): "Neoverse-V2", ("0x46", "0x001"): "A64FX",
}  # fmt: skip


NVIDIA_FILES = ("/dev/nvidia", "/dev/dxg", "nvcuda.dll")
"""How the device files of NVIDIA GPUs begin: Linux, WSL2, and the driver's library on Windows."""


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
    core_limit : float or None
        How many cores' time the container grants, where that is less than `cores`.
    last_level_cache_bytes : int or None
        The last-level caches of the cores this process may use, together.
    memory_bytes, memory_free_bytes : int or None
        Memory this process may use and what is free of it, the container's limit included.
    distributions : mapping of str to str
        Installed packages that matter here, with versions.
    variables : mapping of str to str
        Those of `VARIABLES` that are set, empty ones included.
    device_files : tuple of str
        Device files of accelerators, such as ``"/dev/nvidia0"``.
    locked_files : tuple of str
        Those of them that this process may not open.
    tpu_chips : int
        TPU chips on the PCI bus.
    tpu_generation : str or None
        Which TPU these are by their PCI number, such as ``"v5e"``.
    nvidia_driver : str or None
        Version of the loaded NVIDIA driver.
    nvidia_models : tuple of str
        Names of the NVIDIA GPUs as the driver lists them.
    amd_power_limits_watts : tuple of float
        Power limit of each AMD GPU, as its driver shows it.
    system : str
        ``"Linux"``, ``"Darwin"`` (macOS) or ``"Windows"``.

    Examples
    --------
    >>> Host(python="3.13.0", cpu_model="Example CPU", cores=2).has_nvidia
    False
    """

    python: str
    cpu_model: str
    cores: int
    core_limit: float | None = None
    last_level_cache_bytes: int | None = None
    memory_bytes: int | None = None
    memory_free_bytes: int | None = None
    distributions: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    device_files: tuple[str, ...] = ()
    locked_files: tuple[str, ...] = ()
    tpu_chips: int = 0
    tpu_generation: str | None = None
    nvidia_driver: str | None = None
    nvidia_models: tuple[str, ...] = ()
    amd_power_limits_watts: tuple[float, ...] = ()
    system: str = "Linux"

    @property
    def has_nvidia(self) -> bool:
        """Whether an NVIDIA device file is there (``/dev/dxg`` is how WSL2 shows one)."""
        return any(name.startswith(NVIDIA_FILES) for name in self.device_files)

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
    chips, generation = _tpus(base)
    cores = _core_numbers(base)
    limit = _core_limit(base)
    files = _device_files(base)
    return Host(
        python=platform.python_version(),
        cpu_model=_cpu_model(base),
        cores=len(cores),
        core_limit=limit if limit is not None and limit < len(cores) else None,
        last_level_cache_bytes=_last_level_cache(base, cores),
        memory_bytes=total,
        memory_free_bytes=free,
        distributions=_distributions(),
        variables={name: os.environ[name] for name in VARIABLES if name in os.environ},
        device_files=files,
        locked_files=tuple(name for name in files if not _may_open(base, name)),
        tpu_chips=chips,
        tpu_generation=generation,
        nvidia_driver=_nvidia_driver(base),
        nvidia_models=_nvidia_models(base),
        amd_power_limits_watts=tuple(_amd_power_limits(base)),
        system=platform.system(),
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:  # absent on this system, or not for us to read: unknown
        return ""


def _cpu_model(base: Path) -> str:
    rows = [(name.strip(), value.strip()) for name, value in _pairs(_read(base / "proc/cpuinfo"))]
    for name, value in rows:
        if name in ("model name", "Model", "cpu model") and value:
            return value
    first = dict(reversed(rows))
    core = _ARM_CORES.get((first.get("CPU implementer", ""), first.get("CPU part", "").lower()))
    named = f"Arm {core}" if core else _name_by_system()
    return named or platform.processor() or platform.machine() or "unknown"


def _pairs(text: str) -> Iterable[tuple[str, str]]:
    return (
        (name, value) for name, colon, value in (line.partition(":") for line in text.splitlines()) if colon
    )


def _name_by_system() -> str | None:
    """Ask macOS or Windows, inside this process; Python itself knows the family only."""
    try:
        if platform.system() == "Darwin":
            text = ctypes.create_string_buffer(256)
            size = ctypes.c_size_t(len(text))
            failed = ctypes.CDLL(None).sysctlbyname(
                b"machdep.cpu.brand_string", text, ctypes.byref(size), None, ctypes.c_size_t(0)
            )
            return None if failed else text.value.decode() or None
        if platform.system() == "Windows":
            import winreg

            place = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
            with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, place) as key:  # type: ignore[attr-defined, unused-ignore]
                return str(winreg.QueryValueEx(key, "ProcessorNameString")[0]).strip()  # type: ignore[attr-defined, unused-ignore]
    except (OSError, AttributeError):  # not told: unknown
        pass
    return None


def _core_numbers(base: Path) -> tuple[int, ...]:
    affinity = getattr(os, "sched_getaffinity", None)  # Linux only
    return tuple(sorted(affinity(0))) if affinity else tuple(range(os.cpu_count() or 1))


def _core_limit(base: Path) -> float | None:
    """Cores' worth of time that the container's control group grants, version 2 or 1."""
    words = _read(base / "sys/fs/cgroup/cpu.max").split()
    if not words:
        words = [
            _read(base / "sys/fs/cgroup/cpu" / name).strip()
            for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        ]
    if len(words) == 2 and all(word.isdigit() for word in words) and int(words[1]):  # "max" and -1: no limit
        return int(words[0]) / int(words[1])
    return None


def _last_level_cache(base: Path, cores: Iterable[int]) -> int | None:
    """Bytes of the highest level of cache, each cache counted once however many cores share it."""
    found: dict[tuple[int, str], int] = {}
    for core in cores:
        folder = base / f"sys/devices/system/cpu/cpu{core}/cache"
        for index in folder.glob("index[0-9]*"):
            level, kind = _read(index / "level").strip(), _read(index / "type").strip()
            size = _size(_read(index / "size").strip())
            if level.isdigit() and kind != "Instruction" and size is not None:
                found[int(level), _read(index / "shared_cpu_list").strip() or str(core)] = size
    highest = max((level for level, _ in found), default=0)
    return sum(size for (level, _), size in found.items() if level == highest) or None


def _size(text: str) -> int | None:
    number, unit = text[:-1], {"K": 2**10, "M": 2**20, "G": 2**30}.get(text[-1:])
    return int(number) * unit if number.isdigit() and unit else None


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
    if platform.system() == "Windows" and (base / "Windows/System32/nvcuda.dll").exists():
        found.add("nvcuda.dll")
    return tuple(sorted(found))


def _may_open(base: Path, name: str) -> bool:
    return not name.startswith("/dev/") or os.access(base / name.lstrip("/"), os.R_OK | os.W_OK)


def _tpus(base: Path) -> tuple[int, str | None]:
    """TPU chips on the PCI bus, and which generation they are."""
    found = []
    for folder in (base / "sys/bus/pci/devices").glob("*.0"):  # function 0: each chip once
        device = _read(folder / "device").strip()
        if _read(folder / "vendor").strip() == _GOOGLE and device in _TPU_DEVICES:
            found.append(_TPU_DEVICES[device])
    return len(found), (found[0] or None) if found else None


def _nvidia_driver(base: Path) -> str | None:
    # "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar ..."
    words = _read(base / "proc/driver/nvidia/version").split()
    numbers = [word for word in words if word[:1].isdigit() and "." in word]
    return numbers[0] if numbers else None


def _nvidia_models(base: Path) -> tuple[str, ...]:
    folders = sorted((base / "proc/driver/nvidia/gpus").glob("*"))
    tables = (dict(_pairs(_read(folder / "information"))) for folder in folders)
    return tuple(table["Model"].strip() for table in tables if table.get("Model", "").strip())


def _amd_power_limits(base: Path) -> Iterable[float]:
    """Watts, from the driver's files, which give microwatts."""
    for card in sorted((base / "sys/class/drm").glob("card[0-9]*")):
        if _read(card / "device/vendor").strip() != _AMD:
            continue
        for file in sorted((card / "device/hwmon").glob("hwmon*/power1_cap")):
            text = _read(file).strip()
            if text.isdigit() and int(text):
                yield int(text) / 1e6
