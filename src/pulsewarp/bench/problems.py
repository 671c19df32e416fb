"""Why JAX does not use an accelerator that is here, and what to do: from observations to sentences."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from pulsewarp.bench.host import NVIDIA_FILES, Host
from pulsewarp.bench.seen import SeenJax

# The driver each CUDA plugin needs at least: JAX's installation page names 525.60.13 for CUDA 12 (read
# 2026-12-01), NVIDIA 580 for CUDA 13 (NVIDIA/cutlass issue 2866, read 2026-12-01).
_NVIDIA_PLUGINS = {"jax-cuda12-plugin": (525, 60), "jax-cuda13-plugin": (580,)}
_AMD_PLUGINS = ("jax-rocm60-plugin", "jax-rocm7-plugin")


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
    >>> from pulsewarp.bench.seen import SeenDevice
    >>> host = Host(python="3.13.0", cpu_model="Example CPU", cores=2, device_files=("/dev/nvidia0",),
    ...             distributions={"jax": "0.7.2"})
    >>> find_problems(host, SeenJax(version="0.7.2", devices=(SeenDevice("cpu", "cpu"),)))[0].cause
    '/dev/nvidia0 shows an NVIDIA GPU, but the CUDA plugin of JAX is not installed.'
    """
    if jax.version is None:
        return (_without_jax(host, jax),)
    if jax.devices and jax.devices[0].platform != "cpu":
        return ()
    checks = (_forced_platform, _hidden_gpus, _locked, _nvidia, _tpu, _amd, _failed, _colab_choice)
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
    unset = not any(host.variables.get(name) for name in ("JAX_PLATFORMS", "JAX_PLATFORM_NAME"))
    if (
        unset
        and (jax.platforms or "").split(",")[0] == "cpu"
        and (host.has_nvidia or host.has_tpu or host.has_amd)
    ):
        return Problem(
            f"jax_platforms is set to {jax.platforms!r} in this program, so JAX uses the CPU although "
            f"{_hardware(host)}.",
            "Take out jax.config.update('jax_platforms', ...) and restart Python (in a notebook: restart the "
            "kernel).",
        )
    return None


def _hidden_gpus(host: Host, jax: SeenJax) -> Problem | None:
    names = ["CUDA_VISIBLE_DEVICES"] if host.has_nvidia else []
    names += ["HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"] if host.has_amd else []
    for name in names:
        value = host.variables.get(name)
        if value is not None and value.strip() in ("", "-1", "NoDevFiles"):
            return Problem(
                f"{name} is set to {value!r}, which hides every GPU, although {_hardware(host)}.",
                f"Unset {name} or set it to 0, and restart Python (in a notebook: restart the kernel).",
            )
    return None


def _locked(host: Host, jax: SeenJax) -> Problem | None:
    if not host.locked_files:
        return None
    remedy = (
        "add your user to the groups render and video (sudo usermod -a -G render,video $USER), log in anew"
    )
    if not host.has_amd:
        remedy = "run as a user who may open it, or hand the device to the container"
    return Problem(
        f"{_hardware(host)}, but this process may not open {host.locked_files[0]}.",
        f"{remedy[0].upper()}{remedy[1:]}, and restart Python.",
    )


def _nvidia(host: Host, jax: SeenJax) -> Problem | None:
    if not host.has_nvidia:
        return None
    if host.system == "Windows":
        return Problem(
            "An NVIDIA driver is here, but JAX has no CUDA build for Windows itself.",
            "Install Linux by WSL2 and JAX inside it, where the same GPU is seen; or stay on the CPU.",
        )
    plugins = {name: host.distributions[name] for name in _NVIDIA_PLUGINS if name in host.distributions}
    if not plugins:
        return Problem(
            f"{_hardware(host)}, but the CUDA plugin of JAX is not installed.",
            f'Install it for your JAX: pip install "jax[cuda12]=={jax.version}", and restart Python.',
        )
    name, version = next(iter(plugins.items()))
    jaxlib = host.distributions.get("jaxlib", version)
    if version != jaxlib:
        return Problem(
            f"{name} {version} does not match jaxlib {jaxlib}, so JAX leaves it out.",
            f"Bring them together: pip install {name}=={jaxlib}, and restart Python.",
        )
    needed = _NVIDIA_PLUGINS[name]
    if host.nvidia_driver and _numbers(host.nvidia_driver) < needed:
        older = f', or take the plugin of the CUDA before: pip install "jax[cuda12]=={jax.version}"'
        return Problem(
            f"The NVIDIA driver {host.nvidia_driver} is too old for {name}, which needs "
            f"{'.'.join(map(str, needed))} or later.",
            f"Update the driver{older if name == 'jax-cuda13-plugin' else ''}, and restart Python.",
        )
    why = jax.backend_errors.get("cuda") or jax.error
    driver = f"driver {host.nvidia_driver}" if host.nvidia_driver else "no loaded driver was found"
    return Problem(
        f"An NVIDIA GPU and {name} {version} are here ({driver}), but CUDA did not start: {_sentence(why)}",
        _cuda_remedy(host, why or ""),
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


# What JAX or CUDA says, and what helped those who met it: jax issues 15961, 18027, 29068 and the
# comment of jax pull request 19605 on memory (read 2026-12-01).
_CUDA_REMEDIES: tuple[tuple[str, Callable[[Host], str]], ...] = (
    (
        r"outdated|unable to load|was built against|DNN library|cannot open shared object",
        lambda host: (
            f"LD_LIBRARY_PATH is set to {host.variables['LD_LIBRARY_PATH']!r} and may bring older CUDA "
            "libraries: unset it, and restart Python."
            if host.variables.get("LD_LIBRARY_PATH")
            else 'Install its CUDA libraries anew: pip install -U "jax[cuda12]", and restart Python.'
        ),
    ),
    (
        r"DRIVER_MISMATCH|does not match DSO|version mismatch",
        lambda host: "The driver was updated under a running system: restart the machine.",
    ),
    (
        r"OUT_OF_MEMORY|RESOURCE_EXHAUSTED|no supported devices found",
        lambda host: (
            "Run nvidia-smi in a terminal: another program may hold the GPU's memory (end it), or the driver "
            "is at fault; then restart Python."
        ),
    ),
)


def _cuda_remedy(host: Host, why: str) -> str:
    for pattern, remedy in _CUDA_REMEDIES:
        if re.search(pattern, why, re.IGNORECASE):
            return remedy(host)
    if not why:
        return (
            "Restart Python and call bench.devices() first, so that JAX's reason is heard; run nvidia-smi in "
            "a terminal: if it fails, the driver is at fault."
        )
    return (
        "Run nvidia-smi in a terminal: if it fails too, the driver is at fault; if its CUDA version is older "
        "than the plugin's, update the driver. Then restart Python."
    )


def _tpu(host: Host, jax: SeenJax) -> Problem | None:
    if not host.has_tpu:
        return None
    here = _tpu_named(host)
    why = jax.backend_errors.get("tpu") or jax.error or ""
    if "already in use" in why:
        return Problem(
            f"{here} is here, but another process holds it: {_sentence(why)}",
            "A TPU belongs to one process: shut down the other notebook or program, then restart this one.",
        )
    if "lockfile" in why:
        return Problem(
            f"{here} is here, but a lock that another process left keeps it: {_sentence(why)}",
            "Make sure that no other program uses the TPU, remove /tmp/libtpu_lockfile, and restart Python.",
        )
    if not any(name in host.distributions for name in ("libtpu", "libtpu-nightly")):
        return Problem(
            f"{here} is here, but libtpu is not installed beside JAX.",
            "On Colab: Runtime > Disconnect and delete runtime, then connect anew: a newer jax was "
            "installed over Colab's own."
            if host.on_colab
            else f'Install it for your JAX: pip install "jax[tpu]=={jax.version}", and restart Python.',
        )
    return Problem(
        f"{here} and libtpu are here, but the TPU did not start: {_sentence(why)}",
        "Restart the runtime; if that does not help, make sure that no other program uses the TPU and that "
        "jax, jaxlib and libtpu come from one release.",
    )


def _tpu_named(host: Host) -> str:
    return f"A TPU {host.tpu_generation}" if host.tpu_generation else "A TPU"


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
        file = next(name for name in host.device_files if name.startswith(NVIDIA_FILES))
        model = f", {host.nvidia_models[0]}" if host.nvidia_models else ""
        return f"{file} shows an NVIDIA GPU{model}"
    if host.has_tpu:
        return f"{_tpu_named(host).replace('A', 'a', 1)} is here"
    return "/dev/kfd shows an AMD GPU"


def _sentence(text: str | None) -> str:
    """First line of an error text, as the end of a sentence; with the second where the first announces it."""
    lines = [line.strip() for line in (text or "").strip().splitlines() if line.strip()] or [
        "JAX gives no reason"
    ]
    line = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    line = line if len(line) <= 300 else line[:297] + "..."
    return line if line.endswith((".", "!", "?")) else line + "."
