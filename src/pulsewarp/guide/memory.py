"""Whether a workload's weights fit, and in how few chips."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pulsewarp import chips, matmul
from pulsewarp._checks import names_keywords, positive_number
from pulsewarp.guide.workload import Workload, checked

# bf16 weights 2, gradients 2 to 4, fp32 master weights 4, Adam's moments 8 (Rajbhandari et al. 2020, ZeRO,
# counts 16): the larger reading, so that what is said to fit does fit.
TRAINING_BYTES_PER_PARAMETER = 18
RESERVE = 0.10  # of each chip's memory, for the runtime and fragmentation

_KEEPS_OPTIMISER = ("train", "finetune", "train_and_inference", "rl_posttrain")


@dataclass(frozen=True)
class MemoryFit:
    """The smallest number of one chip whose memory holds a workload's state.

    Attributes
    ----------
    chip_id : str
        Catalogue id.
    bytes_needed : float
        Weights, and in training gradients and optimiser state too; activations and KV cache come on top.
    bytes_per_chip : int
        The chip's whole memory.
    chips : int
        Smallest count that holds it with a tenth of each memory kept free.
    """

    chip_id: str
    bytes_needed: float
    bytes_per_chip: int
    chips: int


def weight_dtype(workload: Workload) -> str:
    """Return the dtype that weights are served in: the workload's precision, bf16 where unknown or mixed.

    Parameters
    ----------
    workload : Workload
        What is to run.

    Returns
    -------
    str
        A key of `matmul.DTYPES`.

    Examples
    --------
    >>> weight_dtype(Workload(precision="mixed"))
    'bf16'
    """
    return "bf16" if workload.precision in ("any", "mixed") else workload.precision


def bytes_needed(workload: Workload) -> float | None:
    """Count the bytes that a workload keeps in memory whatever its batch.

    Modelled: 18 bytes a parameter in training (all parameters, also of a mixture of experts), the weights
    alone in inference. Not modelled: activations, logits, KV cache, LoRA.

    Parameters
    ----------
    workload : Workload
        Needs `params_b` and `phase`; `precision` for inference, 16 bit where it is unknown or mixed.

    Returns
    -------
    float or None
        Bytes, or None where a field is missing.

    Examples
    --------
    >>> bytes_needed(Workload(phase="train", params_b=7)) / 1e9
    126.0
    """
    if workload.params_b is None:
        return None
    if workload.phase in _KEEPS_OPTIMISER:
        return workload.params_b * 1e9 * TRAINING_BYTES_PER_PARAMETER
    if workload.phase == "inference":
        return workload.params_b * 1e9 * matmul.BYTES[weight_dtype(workload)]
    return None


def smallest_count(needed: float, memory_bytes: float) -> int:
    """Return how many chips of `memory_bytes` hold `needed` bytes spread evenly, a tenth kept free.

    Parameters
    ----------
    needed, memory_bytes : float
        Bytes.

    Returns
    -------
    int
        At least 1.

    Examples
    --------
    >>> smallest_count(126e9, 80e9)
    2
    """
    positive_number("needed", needed)
    positive_number("memory_bytes", memory_bytes)
    return max(1, math.ceil(needed / (memory_bytes * (1 - RESERVE))))


@names_keywords
def fit_memory(workload: Workload, chip_id: str) -> MemoryFit | None:
    """Find the smallest number of a chip that holds a workload.

    Parameters
    ----------
    workload : Workload
        What is to run, as for `bytes_needed`.
    chip_id : str
        Catalogue id, such as "tpu_v5p".

    Returns
    -------
    MemoryFit or None
        None where the workload's bytes or the chip's memory are unknown.

    Raises
    ------
    ValueError
        When the catalogue has no such chip; the nearest id is named.

    Examples
    --------
    >>> fit_memory(Workload(phase="train", params_b=70), "tpu_v5p").chips
    14
    """
    needed = bytes_needed(checked(workload))
    chip = chips.get(chip_id)
    if needed is None or chip.memory_bytes is None:
        return None
    return MemoryFit(chip.id, needed, chip.memory_bytes, smallest_count(needed, chip.memory_bytes))
