"""Causes that users met, from their own error texts: each has its remedy."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from pulsewarp.bench.card import describe
from pulsewarp.bench.host import Host
from pulsewarp.bench.live import _observe
from pulsewarp.bench.problems import find_problems
from pulsewarp.bench.seen import SeenDevice, SeenJax

CPU = SeenDevice("cpu", "cpu")
FILES = ("/dev/nvidia0", "/dev/nvidiactl")


def host(**changes: Any) -> Host:
    packages = {"jax": "0.7.2", "jaxlib": "0.7.2", **changes.pop("packages", {})}
    return Host(python="3.13.15", cpu_model="Example CPU", cores=2, distributions=packages, **changes)


def cuda(why: str | None = None, plugin: str = "jax-cuda12-plugin", **changes: Any) -> tuple[Host, SeenJax]:
    here = host(
        **{
            "device_files": FILES,
            "nvidia_driver": "580.65.06",
            "nvidia_models": ("Tesla T4",),
            "packages": {plugin: "0.7.2"},
            **changes,
        }
    )
    return here, SeenJax("0.7.2", (CPU,), backend_errors={"cuda": why} if why else {})


def tpu(why: str, **changes: Any) -> tuple[Host, SeenJax]:
    here = host(tpu_chips=4, packages={"libtpu": "0.0.21"}, **changes)
    return here, SeenJax("0.7.2", (CPU,), backend_errors={"tpu": why})


CASES: dict[str, tuple[tuple[Host, SeenJax], str, str]] = {
    "no plugin, and which GPU waits": (
        cuda(plugin="unrelated"),
        "/dev/nvidia0 shows an NVIDIA GPU, Tesla T4, but the CUDA plugin",
        "jax[cuda12]",
    ),
    "driver older than CUDA 13": (
        cuda(plugin="jax-cuda13-plugin", nvidia_driver="550.54.15"),
        "driver 550.54.15 is too old for jax-cuda13-plugin, which needs 580",
        'pip install "jax[cuda12]==0.7.2"',
    ),
    "driver older than CUDA 12": (
        cuda(nvidia_driver="520.61.05"),
        "520.61.05 is too old for jax-cuda12-plugin, which needs 525.60",
        "Update the driver, and restart Python.",
    ),
    "outdated library on the path": (
        cuda(
            "Unable to use CUDA because of the following issues with CUDA components:\n"
            "Outdated cuSPARSE installation found.",
            variables={"LD_LIBRARY_PATH": "/usr/local/cuda-12.0/lib64"},
        ),
        "CUDA components: Outdated cuSPARSE installation found.",
        "LD_LIBRARY_PATH is set to '/usr/local/cuda-12.0/lib64'",
    ),
    "cuDNN missing": (
        cuda("Unable to load cuDNN. Is it installed?"),
        "Unable to load cuDNN",
        "pip install -U",
    ),
    "driver updated under a running system": (
        cuda("operation cuInit(0) failed: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
        "CUDA_ERROR",
        "restart the machine",
    ),
    "memory taken by another program": (
        cuda("INTERNAL: no supported devices found for platform CUDA"),
        "no supported devices",
        "end it",
    ),
    "no reason heard": (cuda(), "CUDA did not start: JAX gives no reason.", "call bench.devices() first"),
    "no device": (cuda("cuInit(0) failed: CUDA_ERROR_NO_DEVICE"), "CUDA_ERROR_NO_DEVICE.", "nvidia-smi"),
    "Windows": (
        (host(device_files=("nvcuda.dll",), system="Windows"), SeenJax("0.7.2", (CPU,))),
        "JAX has no CUDA build for Windows",
        "WSL2",
    ),
    "forced by the program": (
        (host(device_files=FILES), SeenJax("0.7.2", (CPU,), platforms="cpu")),
        "jax_platforms is set to 'cpu' in this program",
        "Take out jax.config.update",
    ),
    "AMD device locked": (
        (host(device_files=("/dev/kfd",), locked_files=("/dev/kfd",)), SeenJax("0.7.2", (CPU,))),
        "/dev/kfd shows an AMD GPU, but this process may not open /dev/kfd.",
        "groups render and video",
    ),
    "NVIDIA device locked": (
        (host(device_files=FILES, locked_files=("/dev/nvidia0",)), SeenJax("0.7.2", (CPU,))),
        "this process may not open /dev/nvidia0",
        "hand the device to the container",
    ),
    "AMD hidden": (
        (host(device_files=("/dev/kfd",), variables={"HIP_VISIBLE_DEVICES": "-1"}), SeenJax("0.7.2", (CPU,))),
        "HIP_VISIBLE_DEVICES is set to '-1'",
        "Unset HIP_VISIBLE_DEVICES",
    ),
    "TPU lock left behind": (
        tpu("ABORTED: Internal error when accessing libtpu multi-process lockfile."),
        "a lock that another process left",
        "remove /tmp/libtpu_lockfile",
    ),
    "TPU held, older words": (
        tpu(
            "libtpu.so already in use by another process probably owned by another user.", tpu_generation="v4"
        ),
        "A TPU v4 is here, but another process holds it",
        "shut down the other notebook",
    ),
    "TPU forced off": (
        (
            host(tpu_chips=1, tpu_generation="v6e", variables={"JAX_PLATFORMS": "cpu"}),
            SeenJax("0.7.2", (CPU,)),
        ),
        "although a TPU v6e is here",
        "Unset JAX_PLATFORMS",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_cause_has_its_remedy(case: str) -> None:
    (here, jax), cause, remedy = CASES[case]
    (problem,) = find_problems(here, jax)
    assert cause in problem.cause
    assert remedy in problem.remedy
    for sentence in (problem.cause, problem.remedy):
        assert sentence.endswith((".", "?")) and "\n" not in sentence, sentence
    assert problem.remedy in repr(describe(here, jax))


def test_a_new_driver_under_an_old_plugin_is_no_cause() -> None:
    (problem,) = find_problems(*cuda("something else", nvidia_driver="525.60.13"))
    assert "too old" not in problem.cause


def test_a_plugin_that_jax_only_logs_is_heard_once_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_observe, "_plugin_errors", {})
    logger = logging.getLogger("jax._src.xla_bridge")
    before = list(logger.handlers)
    with _observe._hear_plugins():
        try:
            raise RuntimeError("operation cuInit(0) failed: CUDA_ERROR_NO_DEVICE")
        except RuntimeError:
            logger.exception(
                "Jax plugin configuration error: Exception when calling %s.initialize()",
                "jax_plugins.xla_cuda12",
            )
        logger.warning("something about cuda that is no such error")
    assert _observe._plugin_errors == {"cuda": "operation cuInit(0) failed: CUDA_ERROR_NO_DEVICE"}
    assert logger.handlers == before
    heard = "operation cuInit(0) failed: CUDA_ERROR_NO_DEVICE"
    for in_table, told in (
        ({}, heard),
        ({"cuda": ""}, heard),  # as JAX 0.4.30 keeps it
        ({"cuda": "no supported devices found"}, "no supported devices found"),
    ):
        monkeypatch.setattr(_observe, "_backend_errors", lambda table=in_table: table)
        assert _observe.see_jax().backend_errors["cuda"] == told
