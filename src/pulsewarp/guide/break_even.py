"""Where the cheaper side changes: a line of prices, not one price, and the break-even of each number."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from pulsewarp.guide.band import Band
from pulsewarp.guide.costs import ChipEstimate, Comparison, billions
from pulsewarp.guide.workload import Workload


@dataclass(frozen=True)
class PriceRange:
    """One piece of the price line: between two factors on every GPU price the verdict stays the same.

    Attributes
    ----------
    low, high : float
        The factors; 1 is today's prices, `high` of the last piece is infinite.
    verdict : str
        The verdict in between.
    because : str
        What decides.
    """

    low: float
    high: float
    verdict: str
    because: str

    def __contains__(self, factor: float) -> bool:
        return self.low <= factor < self.high


@dataclass(frozen=True)
class BreakEven:
    """Where both sides cost the same, one number changed and all others kept.

    Attributes
    ----------
    gpu_price_factor : Band or None
        On every GPU price: at `value` the sides cost the same, beyond `low` and `high` the whole band of the
        ratio lies on one side of 1.
    gpu_chip : str
        The cheapest GPU; empty where none has a cost.
    gpu_usd_per_chip_hour : Band or None
        What an hour of that GPU would have to cost.
    port_weeks : Band or None
        Weeks of one engineer that the saving on TPUs pays for; 0 where there is no saving.
    batch : int or None
        In serving, the batch from which the other side is cheaper, whatever the latency.
    ratio_by_batch : mapping of int to float
        TPU over GPU cost by batch, each side's cheapest chip.
    compute_bound_batch : mapping of str to (float or None)
        By chip, the batch where decode turns compute-bound; None where it never does at this context.
    missing : tuple of str
        Why a number above is None.
    """

    gpu_price_factor: Band | None = None
    gpu_chip: str = ""
    gpu_usd_per_chip_hour: Band | None = None
    port_weeks: Band | None = None
    batch: int | None = None
    ratio_by_batch: Mapping[int, float] = field(default_factory=dict, hash=False)
    compute_bound_batch: Mapping[str, float | None] = field(default_factory=dict, hash=False)
    missing: tuple[str, ...] = ()


def price_line(
    comparison: Comparison | None, ask: Callable[[float], tuple[str, str]]
) -> tuple[PriceRange, ...]:
    """Cut the factors on every GPU price into pieces of one verdict.

    The ratio falls as GPUs become dearer, so that the verdict can change only where an edge of its band meets
    1: at the low edge and at the high one.

    Parameters
    ----------
    comparison : Comparison or None
        At today's prices; None where a gate decides, whatever the price.
    ask : callable
        From a factor to verdict and reason.

    Returns
    -------
    tuple of PriceRange
        From 0 to infinity without a gap; neighbours have different verdicts.
    """
    ratio = None if comparison is None else comparison.ratio
    if ratio is None:
        return (PriceRange(0.0, math.inf, *ask(1.0)),)
    edges = [0.0, ratio.low, ratio.high, math.inf]
    middles = (ratio.low / 2, math.sqrt(ratio.low * ratio.high), ratio.high * 2)
    pieces: list[PriceRange] = []
    for low, high, middle in zip(edges, edges[1:], middles, strict=False):
        verdict, because = ask(middle)
        if low <= 1.0 < high:
            verdict, because = ask(1.0)
        if pieces and pieces[-1].verdict == verdict:
            last = pieces.pop()
            pieces.append(PriceRange(last.low, high, verdict, because if low <= 1.0 < high else last.because))
        else:
            pieces.append(PriceRange(low, high, verdict, because))
    return tuple(pieces)


def break_even(workload: Workload, comparison: Comparison) -> BreakEven:
    """Solve for each number that turns the cost around.

    Parameters
    ----------
    workload : Workload
        What was asked.
    comparison : Comparison
        Its costs.

    Returns
    -------
    BreakEven
        With a sentence in `missing` for each number that cannot be had.
    """
    serving = {e.chip_id: e.serving for e in comparison.estimates if e.serving is not None}
    bound = {chip: curve.compute_bound_batch for chip, curve in serving.items()}
    if comparison.ratio is None or comparison.gpu is None or comparison.tpu is None:
        return BreakEven(
            compute_bound_batch=MappingProxyType(bound),
            missing=(f"No break-even of costs: {comparison.missing}.",),
        )
    gpus = [e for e in comparison.estimates if e.family == "gpu" and e.usd is not None]
    cheapest = min(gpus, key=lambda e: e.usd.value if e.usd is not None else math.inf)
    price = cheapest.usd_per_chip_hour
    missing: list[str] = []
    weeks = _port_weeks(workload, comparison, missing)
    by_batch = _ratio_by_batch(comparison.estimates)
    if workload.phase != "inference":
        missing.append("No break-even batch: the published training runs do not tell batches apart.")
    batch = _crossing(by_batch)
    if by_batch and batch is None:
        side = "TPUs" if next(iter(by_batch.values())) < 1 else "GPUs"
        missing.append(f"No break-even batch: {side} are cheaper at every batch from 1 to {max(by_batch):,}.")
    return BreakEven(
        gpu_price_factor=comparison.ratio,
        gpu_chip=cheapest.chip_id,
        gpu_usd_per_chip_hour=None if price is None else comparison.ratio * price.value,
        port_weeks=weeks,
        batch=batch,
        ratio_by_batch=MappingProxyType(by_batch),
        compute_bound_batch=MappingProxyType(bound),
        missing=tuple(missing),
    )


def _port_weeks(workload: Workload, comparison: Comparison, missing: list[str]) -> Band | None:
    week, amount = workload.usd_per_engineer_week, billions(workload)
    if week is None or amount is None:
        tokens = "served_tokens_b" if workload.phase == "inference" else "tokens_b"
        lacking = [
            name for name, value in (("usd_per_engineer_week", week), (tokens, amount)) if value is None
        ]
        missing.append(f"No break-even of port weeks: {' and '.join(lacking)} not given.")
        return None
    running = comparison.running
    if running is None:
        return None
    tpu, gpu = running
    moved = comparison.once.value - (workload.port_weeks or 0.0) * week
    saved = (gpu.low - tpu.high, gpu.value - tpu.value, gpu.high - tpu.low)
    return Band(*(max(0.0, (usd - moved) / week) for usd in saved))


def _ratio_by_batch(estimates: tuple[ChipEstimate, ...]) -> dict[int, float]:
    costs: dict[str, dict[int, float]] = {"tpu": {}, "gpu": {}}
    for estimate in estimates:
        if estimate.serving is None or estimate.usd_per_chip_hour is None:
            continue
        side = costs[estimate.family]
        for point in estimate.serving.points:
            if point.fits and point.served is not None:
                usd = estimate.usd_per_chip_hour.value / point.served
                side[point.batch] = min(usd, side.get(point.batch, math.inf))
    both = sorted(set(costs["tpu"]) & set(costs["gpu"]))
    return {batch: costs["tpu"][batch] / costs["gpu"][batch] for batch in both}


def _crossing(ratios: Mapping[int, float]) -> int | None:
    values = list(ratios.items())
    for (_, before), (batch, after) in itertools.pairwise(values):
        if (before < 1) != (after < 1):
            return batch
    return None
