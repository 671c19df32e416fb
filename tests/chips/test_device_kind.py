"""Device names that JAX shows, to catalogue ids; a name that is not known means None."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pulsewarp import chips
from pulsewarp.chips import device_kind

# TPU names as in jax/_src/tpu_info.py; GPU names as drivers report them.
KNOWN = {
    ("TPU v2", "tpu"): "tpu_v2",
    ("TPU v3", "tpu"): "tpu_v3",
    ("TPU v4 lite", "tpu"): "tpu_v4i",
    ("TPU v4", "tpu"): "tpu_v4",
    ("TPU v5 lite", "tpu"): "tpu_v5e",
    ("TPU v5e", "tpu"): "tpu_v5e",
    ("TPU v5", "tpu"): "tpu_v5p",
    ("TPU v5p", "tpu"): "tpu_v5p",
    ("TPU v6 lite", "tpu"): "tpu_v6e",
    ("TPU v6e", "tpu"): "tpu_v6e",
    ("TPU7x", "tpu"): "tpu_v7",
    ("TPU8t", "tpu"): "tpu_8t",
    ("TPU8i", "tpu"): "tpu_8i",
    ("Tesla T4", "gpu"): "t4",
    ("Tesla T4", "cuda"): "t4",
    ("Tesla V100-SXM2-16GB", "gpu"): "v100_sxm2_16",
    ("Tesla V100-SXM2-32GB", "gpu"): "v100_sxm2_32",
    ("Tesla P100-SXM2-16GB", "gpu"): "p100_sxm2",
    ("NVIDIA A100-SXM4-40GB", "gpu"): "a100_sxm_40",
    ("NVIDIA A100-SXM4-80GB", "gpu"): "a100_sxm_80",
    ("NVIDIA A100 80GB PCIe", "gpu"): "a100_pcie_80",
    ("NVIDIA L4", "gpu"): "l4",
    ("NVIDIA L40S", "gpu"): "l40s",
    ("NVIDIA A10G", "gpu"): "a10g",
    ("NVIDIA H100 80GB HBM3", "gpu"): "h100_sxm",
    ("NVIDIA H100 PCIe", "gpu"): "h100_pcie",
    ("NVIDIA H100 NVL", "gpu"): "h100_nvl",
    ("NVIDIA H200", "gpu"): "h200_sxm",
    ("NVIDIA B200", "gpu"): "b200",
    ("NVIDIA GB200", "gpu"): "gb200",
    ("NVIDIA GeForce RTX 4090", "gpu"): "rtx4090",
    ("AMD Instinct MI300X", "rocm"): "mi300x",
    ("AMD Instinct MI250X", "gpu"): "mi250x",
}

UNKNOWN = [
    ("cpu", "cpu"),
    ("TPU v5 lite", "cpu"),
    ("TPU v5 lite", "gpu"),
    ("NVIDIA H100 80GB HBM3", "tpu"),
    ("NVIDIA H100 80GB HBM3", "rocm"),
    ("TPU v9", "tpu"),
    ("TPU v5 litepod", "tpu"),
    ("NVIDIA H100", "gpu"),
    ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "gpu"),
    ("NVIDIA H200 NVL", "gpu"),
    ("NVIDIA A100-PCIE-40GB", "gpu"),
    ("Tesla V100-PCIE-16GB", "gpu"),
    ("Tesla P100-PCIE-16GB", "gpu"),
    ("NVIDIA A10", "gpu"),
    ("NVIDIA L40", "gpu"),
    ("NVIDIA GeForce RTX 4090 D", "gpu"),
    ("NVIDIA GeForce RTX 4090 Laptop GPU", "gpu"),
    ("AMD Instinct MI300A", "rocm"),
    ("", "gpu"),
    ("H100", "metal"),
]


@pytest.mark.parametrize(("name", "chip_id"), KNOWN.items())
def test_known_names(name: tuple[str, str], chip_id: str) -> None:
    assert chips.identify(*name) == chip_id
    assert chips.identify(name[0].upper(), name[1].upper()) == chip_id


@pytest.mark.parametrize(("device_kind", "platform"), UNKNOWN)
def test_unknown_names_are_not_guessed(device_kind: str, platform: str) -> None:
    assert chips.identify(device_kind, platform) is None


@pytest.mark.parametrize(
    "plain",
    [
        lambda kind: kind.lower().split(" mig")[0],
        lambda kind: kind.lower().replace("pcie", "80gb hbm3"),
        lambda kind: kind,
    ],
    ids=["a slice taken for its card", "a PCIe card taken for an SXM one", "case matters"],
)
def test_a_planted_fault_takes_one_name_for_another(
    plain: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_kind, "_plain", plain)
    device_kind._names.cache_clear()
    try:
        wrong = [
            name for name, chip_id in KNOWN.items() if chips.identify(name[0].upper(), name[1]) != chip_id
        ]
        guessed = [name for name in UNKNOWN if chips.identify(*name) is not None]
        assert wrong or guessed
    finally:
        device_kind._names.cache_clear()


def test_no_name_means_two_chips() -> None:
    kinds = [(chip.id, kind) for chip in chips.catalogue() for kind in chip.device_kinds]
    assert [chip_id for chip_id, kind in kinds if chips.identify(kind, _platform(chip_id)) != chip_id] == []


def _platform(chip_id: str) -> str:
    return "tpu" if chips.get(chip_id).family == "tpu" else "gpu"
