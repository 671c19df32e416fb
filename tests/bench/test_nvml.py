"""NVIDIA's management library by a stand-in with the same functions."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import pytest

from pulsewarp.bench import nvml
from pulsewarp.bench.nvml import Gpu, UnreadableError, first_visible


class NVMLError(Exception):
    """What the real module raises."""


class FakeNvml:
    """Cards as the management library shows them; a value of None is not supported by the card."""

    NVMLError = NVMLError

    def __init__(
        self, *cards: Mapping[str, object], library: bool = True, names_are_bytes: bool = False
    ) -> None:
        self.cards, self._library, self._bytes, self.open = cards, library, names_are_bytes, 0

    def nvmlInit(self) -> None:  # noqa: N802  # the real name, here and below
        if not self._library:
            raise NVMLError("NVML Shared Library Not Found")
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetName(self, handle: int) -> str | bytes:  # noqa: N802
        name = str(self.cards[handle]["name"])
        return name.encode() if self._bytes else name

    def nvmlDeviceGetUUID(self, handle: int) -> str:  # noqa: N802
        return str(self.cards[handle]["uuid"])

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: int) -> object:  # noqa: N802
        return self._told(handle, "limit")

    def nvmlDeviceGetPowerManagementDefaultLimit(self, handle: int) -> object:  # noqa: N802
        return self._told(handle, "default")

    def nvmlDeviceGetPowerUsage(self, handle: int) -> object:  # noqa: N802
        return self._told(handle, "milliwatts")

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: int) -> object:  # noqa: N802
        return self._told(handle, "millijoules")

    def _told(self, handle: int, name: str) -> object:
        value = self.cards[handle].get(name)
        if value is None:
            raise NVMLError("Not Supported")
        return value() if callable(value) else value


H100 = {"name": "NVIDIA H100 PCIe", "uuid": "GPU-b", "limit": 310_000, "default": 350_000}
T4 = {"name": "Tesla T4", "uuid": "GPU-a"}


def test_cards_are_read_in_watts_and_the_library_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeNvml(T4, H100, names_are_bytes=True)
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    assert nvml.look() == (Gpu("Tesla T4", "GPU-a"), Gpu("NVIDIA H100 PCIe", "GPU-b", 310.0, 350.0))
    assert fake.open == 0


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (None, "nvidia-ml-py is not installed"),
        (FakeNvml(library=False), "cannot be opened: NVML Shared Library Not Found."),
    ],
)
def test_without_package_or_driver_there_is_a_reason(
    module: object, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", module)
    assert nvml.look() == ()
    with pytest.raises(UnreadableError, match=reason):
        nvml.open_library()


TWO = (Gpu("Tesla T4", "GPU-a"), Gpu("NVIDIA H100 PCIe", "GPU-b"))


@pytest.mark.parametrize(
    ("variables", "uuid"),
    [
        ({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, "GPU-a"),
        ({"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "1,0"}, "GPU-b"),
        ({"CUDA_VISIBLE_DEVICES": "GPU-b,GPU-a"}, "GPU-b"),
    ],
)
def test_the_first_gpu_of_cuda_is_found_where_it_is_certain(variables: dict[str, str], uuid: str) -> None:
    assert first_visible(TWO, variables).uuid == uuid


@pytest.mark.parametrize("variables", [{}, {"CUDA_VISIBLE_DEVICES": "1"}, {"CUDA_VISIBLE_DEVICES": "MIG-x"}])
def test_a_doubt_about_the_first_gpu_is_said(variables: dict[str, str]) -> None:
    with pytest.raises(UnreadableError, match="set CUDA_DEVICE_ORDER=PCI_BUS_ID before Python starts"):
        first_visible(TWO, variables)
