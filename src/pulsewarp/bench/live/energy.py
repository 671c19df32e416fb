"""Energy of one matrix product, on the GPU that is here."""

from __future__ import annotations

import math
import re

from pulsewarp._checks import names_keywords, positive_number
from pulsewarp.bench.energy import Energy, NotMeasurable, measure_energy
from pulsewarp.bench.live._observe import import_jax
from pulsewarp.bench.live.timing import Work, _factors, links_of, time_matmul

_CALL_SECONDS = 0.2  # long enough that the GPU does not wait for Python between calls


@names_keywords
def energy_of_matmul(
    m: int,
    k: int,
    n: int,
    *,
    dtype: str = "float32",
    precision: str | None = None,
    seconds: float = 4.0,
    seed: int = 0,
) -> Energy | NotMeasurable:
    """Repeat a product of a random m x k and a random k x n matrix and read the energy that the card took.

    The products form the dependent chain that `time_matmul` times on the device clock, and the card is read
    before and after some seconds of it, through NVIDIA's management library (``pip install
    "pulsewarp[energy]"``). Random factors: constant ones switch fewer wires and take less energy.

    Parameters
    ----------
    m, k, n, dtype, precision, seed
        As for `time_matmul`.
    seconds : float
        How long to repeat, at least 1.

    Returns
    -------
    Energy or NotMeasurable
        The energy, or one sentence with the reason why there is none.

    Raises
    ------
    ValueError, MemoryError, ImportError, RuntimeError
        As for `time_matmul`.

    Examples
    --------
    >>> import jax
    >>> if jax.default_backend() == "cpu":
    ...     print(energy_of_matmul(64, 64, 64))
    Energy is not measurable here: JAX computes on the CPU, whose power is not read.
    """
    positive_number("seconds", seconds)
    jax = import_jax()
    run = time_matmul(m, k, n, dtype=dtype, precision=precision, repeats=3, seed=seed)
    if run.device.platform == "cpu":
        return NotMeasurable("JAX computes on the CPU, whose power is not read.")
    if run.device.platform != "gpu" or re.search("AMD|Instinct|Radeon|gfx", run.device.kind):
        return NotMeasurable(f"power is read from NVIDIA GPUs alone, and this is {run.device.kind}.")
    if "MIG" in run.device.kind.split():
        return NotMeasurable(f"{run.device.kind} is a slice, and the card reports power of the whole alone.")
    length = max(2, math.ceil(_CALL_SECONDS / run.median))
    work = Work(run.matmul, run.stored, precision=run.precision)
    links = links_of(jax, work, _factors(jax, work, seed), work.smaller)
    links.make(length)
    return measure_energy(
        lambda: jax.block_until_ready(links()),
        products_per_call=length,
        flops_per_product=run.flops,
        title=run.title,
        seconds=seconds,
    )
