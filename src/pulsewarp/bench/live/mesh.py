"""Several devices as one: which there are, and where the parts of a product lie on them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp._checks import names_keywords, several, whole_number
from pulsewarp._text import counted
from pulsewarp.bench.live._clock import compile_for
from pulsewarp.bench.live._observe import devices as devices_here
from pulsewarp.bench.live._observe import import_jax, no_device
from pulsewarp.bench.live.timing import single
from pulsewarp.matmul import Matmul

_AXIS = "shard"
_FLAG = "xla_force_host_platform_device_count"


@names_keywords
def several_devices(count: int = 8) -> tuple[Any, ...]:
    """Return devices to split a product over: accelerators where there are several, else parts of the CPU.

    JAX can present one CPU as several devices. They share its cores and memory, so nothing gets faster, but
    programs for several devices compile and run as they do elsewhere. It has to be told before it starts;
    call this first in a notebook. All happens in this process: on a TPU host no other process is started.

    Parameters
    ----------
    count : int
        How many parts to make of the CPU, at most 64.

    Returns
    -------
    tuple of JAX devices
        Of accelerators the largest power of two that there is, so that sizes can be shared; else `count`
        parts of the CPU. Those of other processes are included.

    Raises
    ------
    RuntimeError
        JAX has started with fewer devices: the sentence says how to begin anew.

    Examples
    --------
    >>> len(several_devices(1))
    1
    """
    count = whole_number("count", count, most=64)
    jax = import_jax()
    _ask_for_host_devices(jax, count)
    listed = _all_devices(jax)
    if listed[0].platform != "cpu":
        if len(listed) > 1:
            return tuple(listed[: 2 ** (len(listed).bit_length() - 1)])
        listed = _cpus(jax)
    if len(listed) < count:
        raise RuntimeError(
            f"JAX has started and shows the CPU as {counted(len(listed), 'device')}, not {count}; restart "
            "Python (in a notebook: the kernel) and call bench.several_devices before anything else uses JAX."
        )
    return tuple(listed[:count])


def choose(jax: ModuleType, devices: int | Sequence[Any] | None) -> tuple[Any, ...]:
    """Return the devices that a caller means, or raise an error that says what to give."""
    listed = _all_devices(jax)
    if devices is None:
        return tuple(listed)
    if isinstance(devices, int):
        number = whole_number("devices", devices, most=len(listed))
        return tuple(listed[:number])
    chosen = several("devices", devices, "write a number, or give what bench.several_devices() returned")
    strange = next((each for each in chosen if not hasattr(each, "process_index")), None)
    if not chosen or strange is not None:
        what = "holds none" if not chosen else f"holds {strange!r}"
        raise TypeError(f"devices {what}, but must hold JAX devices, such as jax.devices() gives.")
    if len({(each.platform, each.device_kind) for each in chosen}) > 1 or len(set(chosen)) < len(chosen):
        raise ValueError("devices holds one twice, or some of different kinds; give equal ones, each once.")
    return chosen


def _all_devices(jax: ModuleType) -> list[Any]:
    try:
        return list(jax.devices())
    except Exception as error:  # whatever a driver raises
        raise RuntimeError(no_device(devices_here())) from error


class Layout:
    """Where factors and result of a product lie on several devices, and the programs that follow from it.

    Parameters
    ----------
    jax : module
        JAX.
    matmul : Matmul
        The whole product.
    split, gather, devices, precision
        As for `time_sharded`, with all devices listed.
    """

    def __init__(
        self,
        jax: ModuleType,
        matmul: Matmul,
        split: str,
        gather: bool,
        devices: Sequence[Any],
        precision: str,
    ) -> None:
        self.jax, self.matmul, self.precision = jax, matmul, precision
        self.split, self.gather, self.devices = split, gather, tuple(devices)
        self.mesh = jax.sharding.Mesh(np.array(self.devices, dtype=object), (_AXIS,))
        spec = jax.sharding.PartitionSpec
        by_rows, by_columns, whole = spec(_AXIS, None), spec(None, _AXIS), spec(None, None)
        # Where A, B and a result of which each device keeps a share lie, and what a device makes by itself.
        self._a, self._b, self._kept, self._made = {
            "rows": (by_rows, whole, by_rows, by_rows),
            "columns": (whole, by_columns, by_columns, by_columns),
            # Sums of single devices are not the result: they are stacked, one below the other.
            "contraction": (by_columns, by_rows, by_rows, by_rows),
        }[split]
        self._result = whole if gather else self._kept

    @property
    def processes(self) -> int:
        """How many processes the devices belong to."""
        return len({device.process_index for device in self.devices})

    def place(self, a: NDArray[Any], b: NDArray[Any]) -> tuple[Any, Any]:
        """Put the factors on the devices, each device its share."""
        placed = tuple(
            self.jax.make_array_from_callback(array.shape, self._sharding(spec), array.__getitem__)
            for array, spec in ((a, self._a), (b, self._b))
        )
        a_placed, b_placed = self.jax.block_until_ready(placed)
        return a_placed, b_placed

    def sharded(self, arguments: tuple[Any, Any]) -> tuple[Any, float, str]:
        """Compile the whole product, with the exchange that the compiler chooses."""
        return compile_for(
            self.jax,
            single(self.jax, self.matmul, self.precision),
            arguments,
            in_shardings=(self._sharding(self._a), self._sharding(self._b)),
            out_shardings=self._sharding(self._result),
        )

    def local(self, arguments: tuple[Any, Any]) -> Any:
        """Compile the products that the devices make by themselves, without any exchange."""
        alone = _shard_map(self.jax)(
            single(self.jax, self.matmul, self.precision),
            mesh=self.mesh,
            in_specs=(self._a, self._b),
            out_specs=self._made,
        )
        return compile_for(self.jax, alone, arguments)[0]

    def _sharding(self, spec: Any) -> Any:
        return self.jax.sharding.NamedSharding(self.mesh, spec)


def _shard_map(jax: ModuleType) -> Any:
    if hasattr(jax, "shard_map"):
        return jax.shard_map
    from jax.experimental.shard_map import shard_map  # before JAX 0.6

    return shard_map


def _ask_for_host_devices(jax: ModuleType, count: int) -> None:
    """Tell JAX to present the CPU as `count` devices, where it has not started yet and nobody has told it."""
    flags = os.environ.get("XLA_FLAGS", "")
    if _FLAG in flags:
        return
    if not hasattr(jax.config, "jax_num_cpu_devices"):  # before JAX 0.5; XLA reads the variable as it starts
        os.environ["XLA_FLAGS"] = f"{flags} --{_FLAG}={count}".strip()
        return
    if jax.config.jax_num_cpu_devices in (-1, 1):
        try:
            jax.config.update("jax_num_cpu_devices", count)
        except RuntimeError:  # it has started: whether its devices suffice is seen by counting them
            return


def _cpus(jax: ModuleType) -> list[Any]:
    try:
        return list(jax.devices("cpu"))
    except RuntimeError as error:
        raise RuntimeError(
            "There is one accelerator, and JAX_PLATFORMS keeps JAX from the CPU beside it; set it to "
            "'cuda,cpu' or 'tpu,cpu', or leave it out, and restart Python."
        ) from error
