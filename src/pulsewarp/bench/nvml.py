"""What NVIDIA's management library says of the GPUs here: their names, power limits and energy.

It is asked through the optional package ``nvidia-ml-py`` (``pip install "pulsewarp[energy]"``), in this
process. It reads the driver's own registers: no program starts on a GPU and no memory is taken there.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

PACKAGE = "nvidia-ml-py"


@dataclass(frozen=True)
class Gpu:
    """One NVIDIA GPU as the management library lists it.

    Parameters
    ----------
    name, uuid : str
        Such as ``"NVIDIA H100 PCIe"`` and ``"GPU-..."``.
    power_limit_watts : float or None
        The limit in force; None where the GPU does not tell.
    default_limit_watts : float or None
        The limit the GPU is delivered with.
    """

    name: str
    uuid: str
    power_limit_watts: float | None = None
    default_limit_watts: float | None = None


class UnreadableError(Exception):
    """The management library does not tell; the text is one sentence with the reason."""


class Library:
    """An open management library.

    Parameters
    ----------
    pynvml : module
        The module that ``nvidia-ml-py`` brings, or a stand-in with the same functions.

    Raises
    ------
    UnreadableError
        The library cannot be opened.
    """

    def __init__(self, pynvml: Any) -> None:
        self._nvml = pynvml
        self._ask("opened", pynvml.nvmlInit)

    def close(self) -> None:
        """Close the library; asking it afterwards fails."""
        self._ask("closed", self._nvml.nvmlShutdown)

    def gpus(self) -> tuple[Gpu, ...]:
        """Return the GPUs in the library's order, which is that of the PCI bus."""
        return tuple(self._gpu(handle) for handle in self._handles())

    def handle(self, uuid: str) -> Any:
        """Return what `watts` and `joules` take for the GPU with this uuid."""
        for handle in self._handles():
            if self._text("read", self._nvml.nvmlDeviceGetUUID, handle) == uuid:
                return handle
        raise UnreadableError(f"NVIDIA's management library lists no GPU {uuid}.")

    def watts(self, handle: Any) -> float:
        """Return the power that a GPU draws now, in watts."""
        return float(self._ask("asked for power", self._nvml.nvmlDeviceGetPowerUsage, handle)) / 1e3

    def joules(self, handle: Any) -> float:
        """Return the energy in joules since the driver was loaded; Volta and later count it."""
        return (
            float(self._ask("asked for energy", self._nvml.nvmlDeviceGetTotalEnergyConsumption, handle)) / 1e3
        )

    def _handles(self) -> list[Any]:
        count = self._ask("asked for GPUs", self._nvml.nvmlDeviceGetCount)
        return [self._ask("asked for a GPU", self._nvml.nvmlDeviceGetHandleByIndex, i) for i in range(count)]

    def _gpu(self, handle: Any) -> Gpu:
        return Gpu(
            name=self._text("asked for a name", self._nvml.nvmlDeviceGetName, handle),
            uuid=self._text("asked for an identity", self._nvml.nvmlDeviceGetUUID, handle),
            power_limit_watts=self._watts_or_none(self._nvml.nvmlDeviceGetEnforcedPowerLimit, handle),
            default_limit_watts=self._watts_or_none(
                self._nvml.nvmlDeviceGetPowerManagementDefaultLimit, handle
            ),
        )

    def _watts_or_none(self, function: Callable[..., Any], handle: Any) -> float | None:
        try:
            return float(self._ask("asked for a limit", function, handle)) / 1e3 or None
        except UnreadableError:  # many consumer and embedded GPUs have no limit to tell
            return None

    def _text(self, what: str, function: Callable[..., Any], handle: Any) -> str:
        text = self._ask(what, function, handle)
        return text.decode() if isinstance(text, bytes) else str(text)  # bytes before version 11.5

    def _ask(self, what: str, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except self._nvml.NVMLError as error:
            raise UnreadableError(f"NVIDIA's management library cannot be {what}: {error}.") from error


def open_library() -> Library:
    """Open the management library.

    Returns
    -------
    Library

    Raises
    ------
    UnreadableError
        The package is missing, or there is no NVIDIA driver.
    """
    try:
        pynvml = importlib.import_module("pynvml")
    except ImportError:
        raise UnreadableError(
            f'the optional package {PACKAGE} is not installed (pip install "pulsewarp[energy]").'
        ) from None
    return Library(pynvml)


def look() -> tuple[Gpu, ...]:
    """Return the NVIDIA GPUs of this machine, or nothing where the library does not tell.

    Returns
    -------
    tuple of Gpu
    """
    try:
        library = open_library()
    except UnreadableError:
        return ()
    try:
        return library.gpus()
    except UnreadableError:
        return ()
    finally:
        library.close()


def first_visible(gpus: tuple[Gpu, ...], variables: Mapping[str, str]) -> Gpu:
    """Return the GPU that CUDA, and so JAX, counts as its first.

    The library counts GPUs along the PCI bus, CUDA by default the fastest first and only those that
    ``CUDA_VISIBLE_DEVICES`` names; where that leaves a doubt, none is returned.

    Parameters
    ----------
    gpus : tuple of Gpu
        In the library's order.
    variables : mapping of str to str
        The environment.

    Returns
    -------
    Gpu

    Raises
    ------
    UnreadableError
        No GPU, or no telling which.

    Examples
    --------
    >>> here = (Gpu("NVIDIA T4", "GPU-a"), Gpu("NVIDIA H100 PCIe", "GPU-b"))
    >>> first_visible(here, {"CUDA_VISIBLE_DEVICES": "GPU-b"}).name
    'NVIDIA H100 PCIe'
    """
    if not gpus:
        raise UnreadableError("NVIDIA's management library lists no GPU.")
    if len(gpus) == 1:
        return gpus[0]
    first = variables.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
    named = [gpu for gpu in gpus if first.startswith("GPU-") and gpu.uuid.startswith(first)]
    if len(named) == 1:
        return named[0]
    in_bus_order = variables.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    if in_bus_order and first.isdigit() and int(first) < len(gpus):
        return gpus[int(first)]
    raise UnreadableError(
        f"{len(gpus)} NVIDIA GPUs are here and CUDA may count them in another order than their management "
        "library; set CUDA_DEVICE_ORDER=PCI_BUS_ID before Python starts."
    )
