"""The device card: what JAX sees, what the machine shows, and why the two may differ.

`describe` is a plain function from observations to a card, so every machine that is not here can
be tested from data. `pulsewarp.bench.live` makes the observations.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass, field

from pulsewarp import chips
from pulsewarp._text import counted
from pulsewarp.bench.host import Host

_NVIDIA_PLUGINS = ("jax-cuda12-plugin", "jax-cuda13-plugin")
_AMD_PLUGINS = ("jax-rocm60-plugin", "jax-rocm7-plugin")


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
        Why a platform that JAX tried silently did not start.
    default_precision : str or None
        ``jax_default_matmul_precision``; None when nobody set it.
    """

    version: str | None
    devices: tuple[SeenDevice, ...] = ()
    error: str | None = None
    backend_errors: Mapping[str, str] = field(default_factory=dict)
    default_precision: str | None = None


@dataclass(frozen=True)
class Problem:
    """Something that keeps JAX from the accelerator.

    Parameters
    ----------
    cause, remedy : str
        One sentence each.
    """

    cause: str
    remedy: str


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

    @property
    def accelerated(self) -> bool:
        """Whether JAX computes on something other than the CPU."""
        return self.platform not in (None, "cpu")

    def rows(self) -> tuple[tuple[str, str], ...]:
        """Return the card as (label, text) pairs, in reading order, without the problems.

        Returns
        -------
        tuple of (str, str)
        """
        return (
            ("Device", self._device()),
            ("Chip", self._chip()),
            ("Memory", self._memory()),
            ("Host", f"{self.cpu_model}, {counted(self.cores, 'core')} usable"),
            ("Precision", _precision(self.default_precision, self.platform)),
            ("Versions", ", ".join(f"{name} {version}" for name, version in self.versions.items())),
        )

    def __repr__(self) -> str:
        lines = [f"{label + ':':<11}{text}" for label, text in self.rows()]
        for problem in self.problems:
            lines += [f"{'Problem:':<11}{problem.cause}", f"{'Remedy:':<11}{problem.remedy}"]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        pairs = list(self.rows())
        for problem in self.problems:
            pairs += [("Problem", problem.cause), ("Remedy", problem.remedy)]
        cells = (
            f'<tr><th scope="row" style="text-align:left;vertical-align:top">{html.escape(label)}</th>'
            f'<td style="text-align:left">{html.escape(text)}</td></tr>'
            for label, text in pairs
        )
        return f"<table><caption>What runs your products</caption>{''.join(cells)}</table>"

    def _device(self) -> str:
        if self.platform is None:
            return "none: JAX gives no device"
        if self.platform == "cpu":
            return "the host's CPU through JAX; no accelerator in use"
        return f"{self.device_count} x {self.kind} ({self.platform.upper()})"

    def _chip(self) -> str:
        if self.platform is None:
            return "unknown"
        if self.chip is None and self.platform == "cpu":
            return "not in the catalogue: no published ceiling is known for this CPU"
        if self.chip is None:
            return f"{self.kind}: not in the catalogue, so no published ceiling is known"
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


def describe(host: Host, jax: SeenJax) -> DeviceCard:
    """Make the card from what the host shows and what JAX says.

    Parameters
    ----------
    host : Host
        From `pulsewarp.bench.host.look`, or recorded.
    jax : SeenJax
        From `pulsewarp.bench.live`, or recorded.

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
    )


def find_problems(host: Host, jax: SeenJax) -> tuple[Problem, ...]:
    """Say why JAX does not use an accelerator that the machine has or was meant to have.

    Parameters
    ----------
    host : Host
        What the machine shows.
    jax : SeenJax
        What JAX says.

    Returns
    -------
    tuple of Problem
        Empty when JAX computes on an accelerator, or when nothing says that there is one.

    Examples
    --------
    >>> host = Host(python="3.13.0", cpu_model="Example CPU", cores=2, device_files=("/dev/nvidia0",),
    ...             distributions={"jax": "0.7.2"})
    >>> find_problems(host, SeenJax(version="0.7.2", devices=(SeenDevice("cpu", "cpu"),)))[0].cause
    '/dev/nvidia0 shows an NVIDIA GPU, but the CUDA plugin of JAX is not installed.'
    """
    if jax.version is None:
        return (_without_jax(host, jax),)
    if jax.devices and jax.devices[0].platform != "cpu":
        return ()
    checks = (_forced_platform, _hidden_nvidia, _nvidia, _tpu, _amd, _failed, _colab_choice)
    found = (check(host, jax) for check in checks)
    problems = [problem for problem in found if problem is not None]
    return tuple(problems[:1])  # the first cause hides the later ones; solve it, then look again


def _without_jax(host: Host, jax: SeenJax) -> Problem:
    if "jax" in host.distributions:
        return Problem(
            f"JAX {host.distributions['jax']} is installed but cannot be imported: {_sentence(jax.error)}",
            "Make jax and jaxlib one matching pair, best in a fresh environment; recorded runs still work.",
        )
    extra = "tpu" if host.has_tpu else "cuda12" if host.has_nvidia else None
    package = f'"jax[{extra}]"' if extra else "jax"
    return Problem(
        "JAX is not installed, so nothing can be measured here.",
        f"Install it with: pip install {package}. Until then bench.recorded() gives labelled runs.",
    )


def _forced_platform(host: Host, jax: SeenJax) -> Problem | None:
    for name in ("JAX_PLATFORMS", "JAX_PLATFORM_NAME"):
        value = host.variables.get(name, "")
        wanted = value.lower().replace(" ", "").split(",")
        if not value:
            continue
        if wanted[0] == "cpu" and (host.has_nvidia or host.has_tpu or host.has_amd):
            return Problem(
                f"{name} is set to {value!r}, so JAX uses the CPU although {_hardware(host)}.",
                f"Unset {name} and restart Python (in a notebook: restart the kernel).",
            )
        if not jax.devices:
            return Problem(
                f"{name} is set to {value!r}, and that platform did not start: {_sentence(jax.error)}",
                f"Unset {name} to let JAX choose, and restart Python (in a notebook: restart the kernel).",
            )
    return None


def _hidden_nvidia(host: Host, jax: SeenJax) -> Problem | None:
    value = host.variables.get("CUDA_VISIBLE_DEVICES")
    if not host.has_nvidia or value is None or value.strip() not in ("", "-1", "NoDevFiles"):
        return None
    return Problem(
        f"CUDA_VISIBLE_DEVICES is set to {value!r}, which hides every GPU, although {_hardware(host)}.",
        "Unset CUDA_VISIBLE_DEVICES or set it to 0, and restart Python (in a notebook: restart the kernel).",
    )


def _nvidia(host: Host, jax: SeenJax) -> Problem | None:
    if not host.has_nvidia:
        return None
    plugins = {name: host.distributions[name] for name in _NVIDIA_PLUGINS if name in host.distributions}
    if not plugins:
        return Problem(
            f"{_device_file(host, '/dev/nvidia', '/dev/dxg')} shows an NVIDIA GPU, "
            "but the CUDA plugin of JAX is not installed.",
            f'Install it for your JAX: pip install "jax[cuda12]=={jax.version}", and restart Python.',
        )
    name, version = next(iter(plugins.items()))
    jaxlib = host.distributions.get("jaxlib", version)
    if version != jaxlib:
        return Problem(
            f"{name} {version} does not match jaxlib {jaxlib}, so JAX leaves it out.",
            f"Bring them together: pip install {name}=={jaxlib}, and restart Python.",
        )
    why = jax.backend_errors.get("cuda") or jax.error
    driver = f"driver {host.nvidia_driver}" if host.nvidia_driver else "no loaded driver was found"
    return Problem(
        f"An NVIDIA GPU and {name} {version} are here ({driver}), but CUDA did not start: {_sentence(why)}",
        "Run nvidia-smi in a terminal: if it fails too, the driver is at fault; if its CUDA version is older "
        "than the plugin's, update the driver. Then restart Python.",
    )


def _tpu(host: Host, jax: SeenJax) -> Problem | None:
    if not host.has_tpu:
        return None
    why = jax.backend_errors.get("tpu") or jax.error or ""
    if "already in use" in why:
        return Problem(
            f"A TPU is here, but another process holds it: {_sentence(why)}",
            "A TPU belongs to one process: shut down the other notebook or program, then restart this one.",
        )
    if not any(name in host.distributions for name in ("libtpu", "libtpu-nightly")):
        return Problem(
            "A TPU is here, but libtpu is not installed beside JAX.",
            "On Colab: Runtime > Disconnect and delete runtime, then connect anew: a newer jax was "
            "installed over Colab's own."
            if host.on_colab
            else f'Install it for your JAX: pip install "jax[tpu]=={jax.version}", and restart Python.',
        )
    return Problem(
        f"A TPU and libtpu are here, but the TPU did not start: {_sentence(why)}",
        "Restart the runtime; if that does not help, make sure that no other program uses the TPU and that "
        "jax, jaxlib and libtpu come from one release.",
    )


def _amd(host: Host, jax: SeenJax) -> Problem | None:
    if not host.has_amd:
        return None
    if not any(name in host.distributions for name in _AMD_PLUGINS):
        return Problem(
            "/dev/kfd shows an AMD GPU, but the ROCm plugin of JAX is not installed.",
            "Install JAX for ROCm as AMD describes it for your card and ROCm version, and restart Python.",
        )
    return Problem(
        f"An AMD GPU and JAX's ROCm plugin are here, but ROCm did not start: "
        f"{_sentence(jax.backend_errors.get('rocm') or jax.error)}",
        "Run rocminfo in a terminal: if it fails too, the driver or the rights on /dev/kfd are at fault.",
    )


def _failed(host: Host, jax: SeenJax) -> Problem | None:
    if jax.devices or jax.error is None:
        return None
    return Problem(
        f"JAX {jax.version} could not start any device: {_sentence(jax.error)}",
        "Restart Python; if it stays, make jax and jaxlib one matching pair. Recorded runs still work.",
    )


def _colab_choice(host: Host, jax: SeenJax) -> Problem | None:
    plugin = next((name for name in _NVIDIA_PLUGINS if name in host.distributions), None)
    if host.on_colab:
        return Problem(
            "This Colab runtime has no accelerator.",
            "Choose Runtime > Change runtime type and pick a GPU or a TPU; until then recorded runs do.",
        )
    if plugin is None:
        return None
    return Problem(
        f"{plugin} is installed, but this machine shows no NVIDIA device file.",
        "If a GPU should be here, hand it to the container or virtual machine (docker run --gpus all); "
        "otherwise recorded runs stand in.",
    )


def _hardware(host: Host) -> str:
    if host.has_nvidia:
        return f"{_device_file(host, '/dev/nvidia', '/dev/dxg')} shows an NVIDIA GPU"
    return "a TPU is here" if host.has_tpu else "/dev/kfd shows an AMD GPU"


def _device_file(host: Host, *starts: str) -> str:
    return next(name for name in host.device_files if name.startswith(starts))


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


def _sentence(text: str | None) -> str:
    """First line of an error text, as the end of a sentence."""
    line = next(iter((text or "").strip().splitlines()), "") or "JAX gives no reason"
    line = line if len(line) <= 300 else line[:297] + "..."
    return line if line.endswith((".", "!", "?")) else line + "."
