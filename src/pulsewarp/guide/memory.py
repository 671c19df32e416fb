"""What a workload keeps in memory, and the fewest chips that can be had together and hold it.

The letters: N parameters, L layers, d width, a heads, s context, b sequences at once, V vocabulary.
"""

from __future__ import annotations

import bisect
import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from pulsewarp import chips, matmul
from pulsewarp._checks import names_keywords, positive_number
from pulsewarp.chips import Source
from pulsewarp.guide import slices
from pulsewarp.guide.models import ModelShape, shape_of
from pulsewarp.guide.workload import Workload, checked

# bf16 weights 2, gradients 2 to 4, fp32 master weights 4, Adam's moments 8 (Rajbhandari et al. 2020, ZeRO,
# counts 16): the larger reading, so that what is said to fit does fit.
TRAINING_BYTES_PER_PARAMETER = 18
_DOUBLE_BYTES_PER_PARAMETER = 32  # weights, gradients and two moments of 8 bytes
# Parameters that low-rank adapters add, as a share; rank 16 on every matrix of an 8B model adds half as many.
ADAPTER_SHARE = 0.01
RESERVE = 0.10  # of each chip's memory, for the runtime and fragmentation

_KEEPS_OPTIMISER = ("train", "finetune", "train_and_inference", "rl_posttrain")


class Part(NamedTuple):
    """One thing that is kept in memory: what it is and its bytes."""

    name: str
    bytes: float


@dataclass(frozen=True)
class MemoryNeed:
    """What a workload keeps in memory on all its chips together.

    Attributes
    ----------
    parts : tuple of Part
        Weights and optimiser state, activations, logits, KV cache: those that apply.
    remarks : tuple of str
        What was assumed and what comes on top, a sentence each.
    """

    parts: tuple[Part, ...]
    remarks: tuple[str, ...]

    @property
    def bytes(self) -> float:
        """Of all parts."""
        return sum(part.bytes for part in self.parts)


@dataclass(frozen=True)
class MemoryFit:
    """The smallest number of one chip that can be had together and whose memory holds a workload.

    Attributes
    ----------
    chip_id : str
        Catalogue id.
    bytes_needed : float
        Of all parts.
    bytes_per_chip : int
        The chip's whole memory.
    chips : int
        Smallest legal count (`slices.legal`) that holds it with a tenth of each memory kept free.
    next_smaller : int or None
        The legal count below that; None where there is none.
    why : str
        A sentence: why the next smaller one fails.
    parts : tuple of Part
        What is kept.
    remarks : tuple of str
        What was assumed and what comes on top.
    source : chips.Source or None
        Where the legal counts were read; None where no list was seen.
    """

    chip_id: str
    bytes_needed: float
    bytes_per_chip: int
    chips: int
    next_smaller: int | None = None
    why: str = ""
    parts: tuple[Part, ...] = ()
    remarks: tuple[str, ...] = ()
    source: Source | None = None


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


@names_keywords
def need_memory(workload: Workload, *, recompute: bool = True, flash: bool = True) -> MemoryNeed | None:
    """Count what a workload keeps in memory on all its chips together.

    Training keeps 18 bytes a parameter (all parameters, also of a mixture of experts), 16-bit activations
    and 32-bit logits of the sequences that are in memory at one time: `batch_size`, or one, since gradients
    can be accumulated. Per layer these are s b d (34 + 5 a s / d) bytes, without the second term under flash
    attention; recomputed, 2 s b d a layer and one layer in full (Korthikanti et al., arXiv:2205.05198).
    Fine-tuning by low-rank adapters keeps the weights, and 18 bytes for each of one per cent more parameters.
    Inference keeps the weights and the KV cache of `batch_size` sequences (or one) of `seq_len` tokens.

    Not modelled: parts that every chip holds again, buffers of collectives, experts' own activations, prompts
    being prefilled, the second model of reinforcement learning.

    Parameters
    ----------
    workload : Workload
        Needs `model` or `params_b`, and `phase`.
    recompute : bool
        Activations are made again in the backward pass instead of kept.
    flash : bool
        Attention keeps no s x s matrix.

    Returns
    -------
    MemoryNeed or None
        None where the model's size or the phase is not known.

    Raises
    ------
    TypeError
        When `workload` is not a Workload.

    Examples
    --------
    >>> for name, size in need_memory(Workload(phase="train", model="llama-3.1-8b", seq_len=8192)).parts:
    ...     print(f"{name}: {size / 1e9:.1f} GB")
    weights, gradients and optimiser state: 144.5 GB
    activations: 3.3 GB
    logits: 4.2 GB
    """
    shape = shape_of(checked(workload))
    if shape is None:
        return None
    sequences = workload.batch_size or 1
    if workload.phase == "inference":
        return _inference(shape, weight_dtype(workload), workload.seq_len, sequences)
    if workload.phase not in _KEEPS_OPTIMISER:
        return None
    adapters = workload.phase == "finetune" and workload.finetune_method == "lora"
    return _training(
        shape, weight_dtype(workload), workload.seq_len, sequences, adapters, bool(recompute), bool(flash)
    )


@functools.lru_cache(maxsize=512)
def _training(
    shape: ModelShape,
    dtype: str,
    context: int | None,
    sequences: int,
    adapters: bool,
    recompute: bool,
    flash: bool,
) -> MemoryNeed:
    parameters = shape.params_b * 1e9
    per_parameter: float = _DOUBLE_BYTES_PER_PARAMETER if dtype == "fp64" else TRAINING_BYTES_PER_PARAMETER
    name, remarks = "weights, gradients and optimiser state", list(shape.remarks)
    if adapters:
        per_parameter = matmul.BYTES[dtype] + ADAPTER_SHARE * per_parameter
        name = "frozen weights, adapters and their optimiser state"
        remarks.append(f"Adapters were taken to add {ADAPTER_SHARE:.0%} of the parameters.")
    parts = [Part(name, parameters * per_parameter)]
    if context is None or shape.layers is None or shape.width is None:
        what = "seq_len is" if shape.layers is not None else "layers and width are"
        remarks.append(f"Activations come on top: {what} not given.")
        return MemoryNeed(tuple(parts), tuple(remarks))
    tokens = context * sequences
    attention = 0.0 if flash else 5 * (shape.heads or 0) * context / shape.width
    layer = tokens * shape.width * (34 + attention)
    kept = 2 * tokens * shape.width * shape.layers + layer if recompute else layer * shape.layers
    parts.append(Part("activations", kept))
    if shape.vocabulary is not None:
        parts.append(Part("logits", 4.0 * tokens * shape.vocabulary))
    remarks.append(
        f"{_sequences(sequences)} of {context:,} tokens in memory at one time"
        + (", each layer computed again in the backward pass" if recompute else ", every activation kept")
        + ("." if flash else ", attention matrices stored.")
    )
    return MemoryNeed(tuple(parts), tuple(remarks))


@functools.lru_cache(maxsize=512)
def _inference(shape: ModelShape, dtype: str, context: int | None, sequences: int) -> MemoryNeed:
    size = matmul.BYTES[dtype]
    parts, remarks = [Part("weights", shape.params_b * 1e9 * size)], list(shape.remarks)
    elements = None if context is None else shape.kv_elements(context)
    if not shape.generates:
        return MemoryNeed(tuple(parts), tuple(remarks))
    if elements is None:
        what = "seq_len is" if context is None else "layers, kv_heads and head_dim are"
        remarks.append(f"The KV cache comes on top: {what} not given.")
    else:
        parts.append(Part("KV cache", elements * kv_bytes(dtype) * sequences))
        remarks.append(f"{_sequences(sequences)} of {context:,} tokens in the KV cache.")
    return MemoryNeed(tuple(parts), tuple(remarks))


def kv_bytes(dtype: str) -> float:
    """Return the bytes of one KV element beside weights of a dtype: as many as theirs, and at least one."""
    return max(matmul.BYTES[dtype], 1.0)


def _sequences(count: int) -> str:
    return "One sequence" if count == 1 else f"{count:,} sequences"


def bytes_needed(workload: Workload) -> float | None:
    """Count the bytes that a workload keeps in memory, as `need_memory` does.

    Parameters
    ----------
    workload : Workload
        As for `need_memory`.

    Returns
    -------
    float or None
        Bytes, or None where the model's size or the phase is not known.

    Examples
    --------
    >>> bytes_needed(Workload(phase="train", params_b=7)) / 1e9
    126.0
    """
    need = need_memory(workload)
    return None if need is None else need.bytes


def smallest_count(needed: float, memory_bytes: float, counts: Iterable[int] = ()) -> int:
    """Return how many chips of `memory_bytes` hold `needed` bytes spread evenly, a tenth kept free.

    Parameters
    ----------
    needed, memory_bytes : float
        Bytes.
    counts : iterable of int
        Counts that can be had, ascending; where there are none, or none is large enough, every count can.

    Returns
    -------
    int
        At least 1.

    Examples
    --------
    >>> smallest_count(126e9, 80e9)
    2
    >>> smallest_count(1260e9, 80e9, (1, 2, 4, 8, 16, 24))
    24
    """
    positive_number("needed", needed)
    positive_number("memory_bytes", memory_bytes)
    least = max(1, math.ceil(needed / (memory_bytes * (1 - RESERVE))))
    ordered = tuple(counts)
    place = bisect.bisect_left(ordered, least)
    return ordered[place] if place < len(ordered) else least


@names_keywords
def fit_memory(
    workload: Workload, chip_id: str, *, recompute: bool = True, flash: bool = True
) -> MemoryFit | None:
    """Find the smallest number of a chip that can be had together and holds a workload.

    Parameters
    ----------
    workload : Workload
        What is to run, as for `need_memory`.
    chip_id : str
        Catalogue id, such as "tpu_v5p".
    recompute, flash : bool
        As for `need_memory`.

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
    >>> fit = fit_memory(Workload(phase="train", params_b=70), "tpu_v5p")
    >>> fit.chips, fit.next_smaller
    (16, 8)
    >>> fit.why
    '8 TPU v5p hold 734 GB, a tenth of each memory kept free; 1,260 GB are needed.'
    """
    need = need_memory(workload, recompute=recompute, flash=flash)
    chip = chips.get(chip_id)
    if need is None or chip.memory_bytes is None:
        return None
    return _fit(need, chip.id, chip.name, chip.memory_bytes)


@functools.lru_cache(maxsize=1024)
def _fit(need: MemoryNeed, chip_id: str, name: str, memory_bytes: int) -> MemoryFit:
    counts = slices.legal(chip_id)
    count = smallest_count(need.bytes, memory_bytes, counts)
    below = bisect.bisect_left(counts, count)
    smaller = counts[below - 1] if below else None
    remarks = need.remarks
    if not counts:
        smaller = count - 1 or None
        remarks += (f"Which numbers of {name} can be had together was not seen; only memory counts here.",)
    elif count > counts[-1]:
        remarks += (f"More than {counts[-1]:,} {name}, the most that was seen together.",)
    return MemoryFit(
        chip_id=chip_id,
        bytes_needed=need.bytes,
        bytes_per_chip=memory_bytes,
        chips=count,
        next_smaller=smaller,
        why=_why(need.bytes, memory_bytes, name, count, smaller),
        parts=need.parts,
        remarks=remarks,
        source=slices.source(chip_id),
    )


def _why(needed: float, memory_bytes: int, name: str, count: int, smaller: int | None) -> str:
    if smaller is None:
        return f"No smaller number of {name} can be had than {count}."
    held = smaller * memory_bytes * (1 - RESERVE)
    # As few digits as tell the two apart.
    digits = next((d for d in range(6) if round(held / 1e9, d) != round(needed / 1e9, d)), 6)
    return (
        f"{smaller:,} {name} {'holds' if smaller == 1 else 'hold'} {held / 1e9:,.{digits}f} GB, a tenth of "
        f"each memory kept free; {needed / 1e9:,.{digits}f} GB are needed."
    )
