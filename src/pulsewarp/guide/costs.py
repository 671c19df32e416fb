"""What the same training costs on each chip: time from published efficiency, money from dated prices."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from pulsewarp import chips, roofline
from pulsewarp._checks import instance, names_keywords, positive_number, several
from pulsewarp.guide.band import Band
from pulsewarp.guide.efficiency import (
    PRECISIONS,
    TrainingEstimate,
    estimate_training,
    missing_peak,
    training_cases,
)
from pulsewarp.guide.memory import MemoryFit, fit_memory, weight_dtype
from pulsewarp.guide.workload import Workload, checked
from pulsewarp.matmul import Matmul

# Mean node power over the sum of its GPUs' TDP in MLPerf power logs: 0.93 to 1.28, rounded outwards.
NODE_POWER_OVER_TDP = Band(0.9, 1.1, 1.3)

_ON_TOKENS = ("train", "finetune", "train_and_inference")  # phases that the published runs speak for
_NO_RENT = ("colab", "kaggle", "donated_tpu", "donated_other", "on_prem", "own_machine", "edge_device")
_TRUSTED = ("good", "medium")


@dataclass(frozen=True)
class ChipEstimate:
    """What one kind of chip would do for a workload; None where something needed is not published.

    Attributes
    ----------
    chip_id, name, family : str
        From the catalogue.
    memory : MemoryFit or None
        Smallest count that holds the training state.
    n_chips : int
        Chips assumed: as many as the workload names, or as few as hold it.
    training : TrainingEstimate or None
        Speed.
    usd_per_chip_hour : Band or None
        Lowest, median and highest on-demand price, or the reader's own quote.
    price_rows : tuple of chips.Price
        The rows behind that price; empty for the reader's own.
    usd_per_billion_tokens : Band or None
        Speed and price together, bands multiplied.
    days : Band or None
        For all of `tokens_b`.
    kwh_per_billion_tokens : Band or None
        From TDP; None where the vendor publishes no power.
    decode_floor_seconds : float or None
        In inference, the least time for one step that reads every active weight once, whatever the batch.
    """

    chip_id: str
    name: str
    family: str
    memory: MemoryFit | None
    n_chips: int
    training: TrainingEstimate | None
    usd_per_chip_hour: Band | None
    price_rows: tuple[chips.Price, ...]
    usd_per_billion_tokens: Band | None
    days: Band | None
    kwh_per_billion_tokens: Band | None
    decode_floor_seconds: float | None

    def __repr__(self) -> str:
        return (
            f"ChipEstimate({self.chip_id!r}, n_chips={self.n_chips}, "
            f"usd_per_chip_hour={self.usd_per_chip_hour!r}, "
            f"usd_per_billion_tokens={self.usd_per_billion_tokens!r})"
        )


@dataclass(frozen=True)
class Comparison:
    """TPU over GPU cost, each side as cheap as its cheapest chip.

    Attributes
    ----------
    estimates : tuple of ChipEstimate
        Every chip compared.
    unit : str
        "US dollars a billion tokens", or "US dollars for the whole run" where tokens and a port are known.
    tpu, gpu : Band or None
        Cost of a side: the lowest low, value and high of its chips; None where no chip has both.
    ratio : Band or None
        TPU over GPU.
    missing : str
        Why there is no ratio; empty when there is one.
    """

    estimates: tuple[ChipEstimate, ...]
    unit: str
    tpu: Band | None
    gpu: Band | None
    ratio: Band | None
    missing: str


@names_keywords
def compare(
    workload: Workload, prices: Iterable[chips.Price] | None = None, *, gpu_price_factor: float = 1.0
) -> Comparison:
    """Compare what training costs on TPUs and on GPUs.

    Parameters
    ----------
    workload : Workload
        Needs `phase`, `params_b` and a `domain` of "llm" or "any": the formulas are those of transformers.
    prices : iterable of chips.Price, optional
        Used in place of the catalogue's rows.
    gpu_price_factor : float
        Every GPU price times this: how a price line is drawn.

    Returns
    -------
    Comparison
        With `missing` set where a field or a price is not known.

    Raises
    ------
    TypeError
        When `workload` is no Workload, or `prices` holds anything but prices.
    ValueError
        When `gpu_price_factor` is not above 0.
    """
    missing = _what_is_missing(checked(workload))
    gpu_price_factor = positive_number("gpu_price_factor", gpu_price_factor)
    estimates: tuple[ChipEstimate, ...] = ()
    if (
        workload.params_b is not None
        and workload.phase in (*_ON_TOKENS, "inference")
        and not _foreign(workload)
    ):
        estimates = _estimates(_only_numbers(workload), price_rows(prices), gpu_price_factor)
    unit, costs = "US dollars a billion tokens", {}
    port = _port_usd(workload)
    for family in ("tpu", "gpu"):
        bands = [e.usd_per_billion_tokens for e in estimates if e.family == family]
        costs[family] = _cheapest([band for band in bands if band is not None])
    tpu, gpu = costs["tpu"], costs["gpu"]
    if port is not None and workload.tokens_b is not None:
        unit = "US dollars for the whole run, port to TPU included"
        tpu, gpu = tpu and tpu * workload.tokens_b, gpu and gpu * workload.tokens_b
        tpu = tpu and Band(tpu.low + port, tpu.value + port, tpu.high + port)
    if missing or tpu is None or gpu is None:
        without = " and ".join(name for name, side in (("TPU", tpu), ("GPU", gpu)) if side is None)
        missing = missing or f"no {without} has both a known speed and a known price here"
        return Comparison(estimates, unit, None, None, None, missing)
    return Comparison(estimates, unit, tpu, gpu, tpu / gpu, "")


def price_rows(prices: Iterable[chips.Price] | None) -> tuple[chips.Price, ...] | None:
    """Return the prices to use in place of the catalogue's; refuse what is no price."""
    if prices is None:
        return None
    remedy = "pass rows such as chips.prices() gives, or leave prices out"
    return tuple(instance("A price", row, chips.Price, remedy) for row in several("prices", prices, remedy))


def _what_is_missing(workload: Workload) -> str:
    if _foreign(workload):
        return (
            f"the cost formulas are those of transformers on tokens, and the domain is {workload.domain!r}: "
            "only a measurement can compare here"
        )
    if workload.phase == "inference":
        return (
            "what a served token costs depends on batch and context, which is not modelled here: measure it"
        )
    if workload.phase not in _ON_TOKENS:
        return "phase is not one that trains on tokens" if workload.phase != "any" else "phase is not given"
    if workload.params_b is None:
        return "params_b is not given"
    if workload.precision not in (*PRECISIONS, "any"):
        return f"no published training runs in {workload.precision} to compare"
    if workload.location in _NO_RENT:
        return f"no rental price applies to location {workload.location!r}"
    return ""


def _foreign(workload: Workload) -> bool:
    return workload.domain not in ("llm", "any")


def _candidates(workload: Workload, rows: tuple[chips.Price, ...] | None) -> list[chips.Chip]:
    """Chips that can be had today, can be joined, and have a price or a published run."""
    named = {"gpu": workload.gpu_chip, "tpu": workload.tpu_chip}
    known = {price.chip_id for price in (chips.prices() if rows is None else rows)}
    known |= {case.chip for case in training_cases()}
    out = []
    for chip in chips.catalogue():
        if chip.family not in named:
            continue
        wanted = named[chip.family]
        if wanted is not None:
            if chip.id == wanted:
                out.append(chip)
            continue
        linked = chip.interconnect_unidirectional_bytes_per_second is not None
        if chip.status.startswith("available") and chip.caveat is None and linked and chip.id in known:
            out.append(chip)
    return out


# What an estimate depends on; the words that only gates read are left out, so that asking "and if the
# framework were another?" a hundred times, as the flips do, computes each number once.
_READ = (
    *("phase", "finetune_method", "precision", "model", "params_b", "active_params_b", "layers", "width"),
    *("heads", "kv_heads", "head_dim", "vocabulary", "experts", "experts_per_token", "chips", "seq_len"),
    *("output_len", "batch_size", "tokens_b"),
    *("gpu_chip", "tpu_chip", "usd_per_gpu_hour", "usd_per_tpu_hour"),
)


def _only_numbers(workload: Workload) -> tuple[tuple[str, object], ...]:
    known = {name: value for name, value in workload.known().items() if name in _READ}
    if workload.location == "gcp_only":
        known["location"] = "gcp_only"
    return tuple(known.items())


@functools.lru_cache(maxsize=512)
def _estimates(
    asked: tuple[tuple[str, object], ...], rows: tuple[chips.Price, ...] | None, gpu_price_factor: float
) -> tuple[ChipEstimate, ...]:
    workload = Workload(**dict(asked))
    return tuple(_estimate(workload, chip, rows, gpu_price_factor) for chip in _candidates(workload, rows))


def _estimate(
    workload: Workload, chip: chips.Chip, rows: tuple[chips.Price, ...] | None, gpu_price_factor: float
) -> ChipEstimate:
    memory = fit_memory(workload, chip.id)
    n_chips = max(workload.chips or 1, memory.chips if memory is not None else 1)
    training = _training(workload, chip, n_chips)
    price, price_rows = _price(workload, chip, rows)
    if price is not None and chip.family == "gpu":
        price = price * gpu_price_factor
    usd = days = energy = None
    if training is not None:
        chip_hours = _invert(training.tokens_per_second_per_chip) * (1e9 / 3600)
        if price is not None:
            usd = chip_hours * price
        if workload.tokens_b is not None:
            days = chip_hours * (workload.tokens_b / n_chips / 24)
        if chip.tdp_watts is not None:
            energy = chip_hours * (NODE_POWER_OVER_TDP * (chip.tdp_watts / 1000))
    return ChipEstimate(
        chip_id=chip.id,
        name=chip.name,
        family=chip.family,
        memory=memory,
        n_chips=n_chips,
        training=training,
        usd_per_chip_hour=price,
        price_rows=price_rows,
        usd_per_billion_tokens=usd,
        days=days,
        kwh_per_billion_tokens=energy,
        decode_floor_seconds=_decode_floor(workload, chip, n_chips),
    )


def _decode_floor(workload: Workload, chip: chips.Chip, n_chips: int) -> float | None:
    """Weights over bandwidth: the memory side of the roofline for one row times a d x d matrix, d^2 = N_a."""
    active = workload.active_params_b or workload.params_b
    if workload.phase != "inference" or active is None or not chip.has_roofline:
        return None
    dtype = weight_dtype(workload)
    if not chip.peak_flops_per_second.get(dtype):
        return None
    side = math.isqrt(round(active * 1e9))
    return roofline.bound(Matmul(1, side, side, dtype), chip).memory_seconds / n_chips


def _training(workload: Workload, chip: chips.Chip, n_chips: int) -> TrainingEstimate | None:
    if workload.phase not in _ON_TOKENS or workload.params_b is None:
        return None
    precision = "bf16" if workload.precision == "any" else workload.precision
    if precision not in PRECISIONS or missing_peak(chip, precision) is not None:
        return None  # estimate_training would refuse
    return estimate_training(
        params_b=workload.params_b,
        active_params_b=workload.active_params_b,
        seq_len=workload.seq_len,
        precision=precision,
        chip=chip.id,
        n_chips=n_chips,
    )


def _price(
    workload: Workload, chip: chips.Chip, rows: tuple[chips.Price, ...] | None
) -> tuple[Band | None, tuple[chips.Price, ...]]:
    quote = {"gpu": workload.usd_per_gpu_hour, "tpu": workload.usd_per_tpu_hour}[chip.family]
    if quote is not None:
        return Band(quote, quote, quote), ()
    return _listed_price(chip.id, workload.location == "gcp_only", rows)


@functools.lru_cache(maxsize=256)
def _listed_price(
    chip_id: str, only_google: bool, rows: tuple[chips.Price, ...] | None
) -> tuple[Band | None, tuple[chips.Price, ...]]:
    found = tuple(
        row
        for row in (chips.prices(chip_id) if rows is None else rows)
        if row.chip_id == chip_id
        and row.kind == "on-demand"
        and row.confidence in _TRUSTED
        and (not only_google or row.provider == "Google Cloud")
    )
    if not found:
        return None, ()
    usd = [row.usd_per_chip_hour for row in found]
    return Band(min(usd), statistics.median(usd), max(usd)), found


def _port_usd(workload: Workload) -> float | None:
    if workload.port_weeks is None or workload.usd_per_engineer_week is None:
        return None
    return workload.port_weeks * workload.usd_per_engineer_week


def _cheapest(bands: list[Band]) -> Band | None:
    """Take the lowest of each edge: a buyer chooses the chip, and no dearer chip makes the choice cheaper."""
    if not bands:
        return None
    return Band(min(b.low for b in bands), min(b.value for b in bands), min(b.high for b in bands))


def _invert(band: Band) -> Band:
    return Band(1 / band.high, 1 / band.value, 1 / band.low)
