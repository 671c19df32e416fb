"""The card and its causes, from observations recorded as data: no hardware is needed to test them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from pulsewarp.bench.card import DeviceCard, SeenDevice, SeenJax, describe, find_problems
from pulsewarp.bench.host import Host

GIB = 2**30
CPU = SeenDevice("cpu", "cpu")


def host(**changes: Any) -> Host:
    plain = Host(
        python="3.13.15",
        cpu_model="Example CPU @ 2.20GHz",
        cores=2,
        memory_bytes=13 * GIB,
        memory_free_bytes=11 * GIB,
        distributions={"jax": "0.7.2", "jaxlib": "0.7.2", "numpy": "2.1.3"},
    )
    return dataclasses.replace(plain, **changes)


def fell_back(**changes: Any) -> SeenJax:
    return dataclasses.replace(SeenJax("0.7.2", (CPU,)), **changes)


def with_packages(**more: str) -> dict[str, str]:
    names = {name.replace("_", "-"): version for name, version in more.items()}
    return {"jax": "0.7.2", "jaxlib": "0.7.2", "numpy": "2.1.3", **names}


TPU_HOST = host(tpu_chips=1, distributions=with_packages(libtpu="0.0.21.1"))
GPU_HOST = host(
    device_files=("/dev/nvidia0", "/dev/nvidiactl"),
    nvidia_driver="550.54.15",
    distributions=with_packages(jax_cuda12_plugin="0.7.2"),
)


def tpu(kind: str, chips: int, per_chip: int = 1, hbm: int | None = None) -> SeenJax:
    devices = tuple(
        SeenDevice("tpu", kind, (x, 0, 0), hbm, 2 * GIB if hbm else None)
        for x in range(chips)
        for _ in range(per_chip)
    )
    return SeenJax("0.7.2", devices)


@pytest.mark.parametrize(
    ("jax", "seen_host", "chip", "devices", "chips", "per_chip"),
    [
        (tpu("TPU v5 lite", 1, hbm=16 * GIB), TPU_HOST, "tpu_v5e", 1, 1, 1),
        (tpu("TPU v5 lite", 4, hbm=16 * GIB), TPU_HOST, "tpu_v5e", 4, 4, 1),
        (tpu("TPU v6 lite", 1, hbm=32 * GIB), TPU_HOST, "tpu_v6e", 1, 1, 1),
        (tpu("TPU7x", 4, per_chip=2, hbm=96 * GIB), TPU_HOST, "tpu_v7", 8, 4, 2),
        (SeenJax("0.7.2", (SeenDevice("gpu", "NVIDIA H100 80GB HBM3"),)), GPU_HOST, "h100_sxm", 1, 1, 1),
        (SeenJax("0.7.2", (SeenDevice("gpu", "NVIDIA A100-SXM4-40GB"),)), GPU_HOST, "a100_sxm_40", 1, 1, 1),
        (SeenJax("0.7.2", (SeenDevice("gpu", "NVIDIA H100 80GB HBM3"),) * 8), GPU_HOST, "h100_sxm", 8, 8, 1),
    ],
)
def test_an_accelerator_is_named_counted_and_free_of_problems(
    jax: SeenJax, seen_host: Host, chip: str, devices: int, chips: int, per_chip: int
) -> None:
    card = describe(seen_host, jax)
    assert (card.chip, card.device_count, card.chip_count, card.devices_per_chip) == (
        chip,
        devices,
        chips,
        per_chip,
    )
    assert card.accelerated
    assert card.problems == ()
    assert chip in repr(card)


def test_one_device_of_a_chip_with_two_says_that_it_has_half_the_peak() -> None:
    card = describe(TPU_HOST, SeenJax("0.7.2", (SeenDevice("tpu", "TPU7x"),)))
    assert card.devices_per_chip == 2
    assert "1/2 of its peak" in repr(card)


def test_memory_of_an_accelerator_is_its_own_and_free_is_what_nobody_uses() -> None:
    card = describe(TPU_HOST, tpu("TPU v5 lite", 1, hbm=16 * GIB))
    assert (card.memory_bytes, card.memory_free_bytes) == (16 * GIB, 14 * GIB)


def test_memory_that_a_backend_does_not_tell_stays_unknown() -> None:
    card = describe(TPU_HOST, tpu("TPU v5 lite", 1))
    assert (card.memory_bytes, card.memory_free_bytes) == (None, None)
    assert "Memory:    unknown" in repr(card)


def test_an_accelerator_that_the_catalogue_does_not_know_keeps_its_own_name() -> None:
    card = describe(GPU_HOST, SeenJax("0.7.2", (SeenDevice("gpu", "NVIDIA Imaginary 9000"),)))
    assert card.chip is None
    assert "NVIDIA Imaginary 9000: not in the catalogue" in repr(card)


def test_a_plain_cpu_is_no_problem() -> None:
    card = describe(host(), fell_back())
    assert card.problems == ()
    assert not card.accelerated
    assert (card.memory_bytes, card.memory_free_bytes) == (13 * GIB, 11 * GIB)
    assert "no published ceiling is known for this CPU" in repr(card)


NVIDIA_FILES = {"device_files": ("/dev/nvidia0", "/dev/nvidiactl")}
BUSY = "ABORTED: The TPU is already in use by process with pid 176028."
NO_CUDA = "INTERNAL: no supported devices found for platform CUDA"

FALLBACKS = {
    "platform forced on a GPU machine": (
        host(**NVIDIA_FILES, variables={"JAX_PLATFORMS": "cpu"}), fell_back(),
        "JAX_PLATFORMS is set to 'cpu', so JAX uses the CPU although /dev/nvidia0", "Unset JAX_PLATFORMS",
    ),
    "platform forced by the older variable on a TPU machine": (
        dataclasses.replace(TPU_HOST, variables={"JAX_PLATFORM_NAME": "cpu"}), fell_back(),
        "although a TPU is here", "Unset JAX_PLATFORM_NAME",
    ),
    "GPUs hidden": (
        dataclasses.replace(GPU_HOST, variables={"CUDA_VISIBLE_DEVICES": ""}), fell_back(),
        "CUDA_VISIBLE_DEVICES is set to '', which hides every GPU", "Unset CUDA_VISIBLE_DEVICES",
    ),
    "GPUs hidden by minus one": (
        dataclasses.replace(GPU_HOST, variables={"CUDA_VISIBLE_DEVICES": "-1"}), fell_back(),
        "CUDA_VISIBLE_DEVICES is set to '-1'", "set it to 0",
    ),
    "no CUDA plugin": (
        host(**NVIDIA_FILES), fell_back(),
        "the CUDA plugin of JAX is not installed", 'pip install "jax[cuda12]==0.7.2"',
    ),
    "no CUDA plugin in WSL2": (
        host(device_files=("/dev/dxg",)), fell_back(),
        "/dev/dxg shows an NVIDIA GPU", 'pip install "jax[cuda12]==0.7.2"',
    ),
    "CUDA plugin of another release": (
        host(**NVIDIA_FILES, distributions=with_packages(jax_cuda12_plugin="0.6.0")), fell_back(),
        "jax-cuda12-plugin 0.6.0 does not match jaxlib 0.7.2", "pip install jax-cuda12-plugin==0.7.2",
    ),
    "CUDA does not start": (
        GPU_HOST, fell_back(backend_errors={"cuda": NO_CUDA}),
        f"CUDA did not start: {NO_CUDA}.", "nvidia-smi",
    ),
    "plugin without a device": (
        host(distributions=with_packages(jax_cuda12_plugin="0.7.2")), fell_back(),
        "this machine shows no NVIDIA device file", "--gpus all",
    ),
    "TPU without libtpu": (
        host(tpu_chips=4), fell_back(), "libtpu is not installed", 'pip install "jax[tpu]==0.7.2"',
    ),
    "Colab TPU after somebody upgraded jax": (
        host(variables={"COLAB_TPU_ADDR": "10.0.0.2:8470"}), fell_back(),
        "libtpu is not installed", "Disconnect and delete runtime",
    ),
    "TPU held by another process": (
        TPU_HOST, fell_back(backend_errors={"tpu": BUSY}),
        "another process holds it", "belongs to one process",
    ),
    "TPU does not start": (
        host(device_files=("/dev/accel0",), distributions=with_packages(libtpu="0.0.21.1")),
        fell_back(backend_errors={"tpu": "UNKNOWN: TPU initialization failed"}),
        "the TPU did not start: UNKNOWN: TPU initialization failed.", "Restart the runtime",
    ),
    "AMD without its plugin": (
        host(device_files=("/dev/kfd",)), fell_back(), "ROCm plugin of JAX is not installed", "ROCm",
    ),
    "AMD does not start": (
        host(device_files=("/dev/kfd",), distributions=with_packages(jax_rocm60_plugin="0.7.2")), fell_back(),
        "ROCm did not start: JAX gives no reason.", "rocminfo",
    ),
    "Colab without an accelerator": (
        host(variables={"COLAB_RELEASE_TAG": "release-colab-external", "COLAB_GPU": ""}), fell_back(),
        "This Colab runtime has no accelerator", "Change runtime type",
    ),
    "a platform that was asked for does not start": (
        host(variables={"JAX_PLATFORMS": "tpu"}),
        fell_back(devices=(), error="Unable to initialize backend 'tpu': NOT_FOUND"),
        "JAX_PLATFORMS is set to 'tpu', and that platform did not start", "Unset JAX_PLATFORMS",
    ),
    "no device at all": (
        host(), fell_back(devices=(), error="Unable to initialize backend 'cpu': broken"),
        "could not start any device: Unable to initialize backend 'cpu': broken.", "Recorded runs still work",
    ),
    "jax missing": (
        host(distributions={"numpy": "2.1.3"}), SeenJax(None, error="No module named 'jax'"),
        "JAX is not installed", "pip install jax.",
    ),
    "jax missing on a TPU machine": (
        host(distributions={"numpy": "2.1.3"}, tpu_chips=1), SeenJax(None, error="No module named 'jax'"),
        "JAX is not installed", 'pip install "jax[tpu]"',
    ),
    "jax broken": (
        host(), SeenJax(None, error="jaxlib version 0.4 is too old"),
        "JAX 0.7.2 is installed but cannot be imported: jaxlib version 0.4 is too old.", "one matching pair",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FALLBACKS)
def test_a_fallback_names_its_cause_and_its_remedy(case: str) -> None:
    seen_host, jax, cause, remedy = FALLBACKS[case]
    (problem,) = find_problems(seen_host, jax)
    assert cause in problem.cause
    assert remedy in problem.remedy
    card = describe(seen_host, jax)
    assert f"Problem:   {problem.cause}" in repr(card)
    assert f"Remedy:    {problem.remedy}" in repr(card)


def test_each_sentence_is_one_line_and_ends() -> None:
    for seen_host, jax, _, _ in FALLBACKS.values():
        for problem in find_problems(seen_host, jax):
            for sentence in (problem.cause, problem.remedy):
                assert "\n" not in sentence
                assert sentence.endswith("."), sentence


def test_a_backend_error_of_many_lines_is_cut_to_its_first() -> None:
    error = "\n  INTERNAL: first line\nsecond line\n" + "x" * 1000
    (problem,) = find_problems(GPU_HOST, fell_back(backend_errors={"cuda": error}))
    assert problem.cause.endswith("INTERNAL: first line.")


def test_without_devices_the_card_still_stands() -> None:
    card = describe(host(), SeenJax(None, error="No module named 'jax'"))
    assert (card.platform, card.kind, card.device_count, card.chip_count) == (None, None, 0, 0)
    assert "none: JAX gives no device" in repr(card)


@pytest.mark.parametrize(
    ("setting", "words"),
    [(None, "default (nobody set it)"), ("highest", "jax_default_matmul_precision is 'highest'")],
)
def test_the_default_precision_is_told(setting: str | None, words: str) -> None:
    assert words in repr(describe(host(), fell_back(default_precision=setting)))


def test_html_escapes_what_comes_from_outside() -> None:
    card = describe(host(cpu_model="<b>fast</b> & cheap"), fell_back())
    page = card._repr_html_()
    assert "<b>" not in page
    assert "&lt;b&gt;fast&lt;/b&gt; &amp; cheap" in page


def test_a_card_is_the_same_each_time() -> None:
    cards: list[DeviceCard] = [describe(TPU_HOST, tpu("TPU v6 lite", 2)) for _ in range(2)]
    assert cards[0] == cards[1]
    assert repr(cards[0]) == repr(cards[1])
