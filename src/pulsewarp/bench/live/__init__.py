"""Time real work on the device that is here, through JAX.

The only part of `pulsewarp.bench` that touches JAX, and only inside its functions. Nothing here
starts a second process: a TPU belongs to one.
"""

from __future__ import annotations

from pulsewarp.bench.live._observe import devices
from pulsewarp.bench.live.compiler import compiled, inspect_matmul, profile
from pulsewarp.bench.live.kernels import time_kernel, time_kernels
from pulsewarp.bench.live.mesh import several_devices
from pulsewarp.bench.live.sharding import scaling, time_sharded
from pulsewarp.bench.live.sweeps import default_sizes, sweep
from pulsewarp.bench.live.timing import time_matmul

__all__ = [
    "compiled",
    "default_sizes",
    "devices",
    "inspect_matmul",
    "profile",
    "scaling",
    "several_devices",
    "sweep",
    "time_kernel",
    "time_kernels",
    "time_matmul",
    "time_sharded",
]
