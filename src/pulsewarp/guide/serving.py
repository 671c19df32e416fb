"""How fast a language model answers: the roofline of prefill and decode, with factors from public cases.

The letters are those of the roofline: N parameters (N_a of them active), L layers, d width, s context,
b sequences at once, n chips, F peak FLOP/s, W bytes/s of memory.
"""

from __future__ import annotations

import functools
import math
import operator
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pulsewarp import chips
from pulsewarp._checks import choice, instance, names_keywords, several, whole_number
from pulsewarp._files import read_json
from pulsewarp.guide.band import Band
from pulsewarp.guide.efficiency import LeftOut
from pulsewarp.guide.memory import RESERVE
from pulsewarp.guide.models import ModelShape
from pulsewarp.matmul import BYTES

SERVING_FORM = "pulsewarp-serving/1"
PRECISIONS = ("bf16", "fp16", "fp8", "int8", "fp4", "int4")
LIMITS = ("weights", "kv cache", "compute", "exchange", "overhead")
# TensorRT-LLM's own limit where nobody sets one (docs/source/performance/perf-benchmarking.md at commit
# ac643b6, read 2026-12-01); what fits in memory beyond it is not used.
MOST_SEQUENCES = 2048
ACTIVATION_BYTES = 2  # what chips exchange between layers is 16 bits an element, also under 8-bit weights
HOP_SECONDS = 1e-6  # of a message from one chip of a torus to the next
_EIGHTY_PERCENT = statistics.NormalDist().inv_cdf(0.9)  # deviations either side of the mean


# --- the formula part ------------------------------------------------------------------------------------


class Work(NamedTuple):
    """What a piece of serving needs: seconds at the published rates, and counts of what has a price each.

    Attributes
    ----------
    weights, kv : float
        Seconds to read the weights, and the KV cache, at the memory's published rate.
    compute : float
        Seconds of matrix products at the published dense peak.
    exchange : float
        Seconds that the bytes of the collectives take over all links, and of their hops.
    collectives, steps : float
        How many collectives are started, and how many steps a host has to launch.
    """

    weights: float = 0.0
    kv: float = 0.0
    compute: float = 0.0
    exchange: float = 0.0
    collectives: float = 0.0
    steps: float = 0.0


@dataclass(frozen=True)
class Machine:
    """Chips that serve one copy of a model together: n times the published rates in one precision."""

    chip: chips.Chip
    n_chips: int
    flops_per_second: float
    bytes_per_second: float
    weight_bytes: float
    kv_bytes: float
    remarks: tuple[str, ...] = ()

    @property
    def room(self) -> float:
        """Bytes of memory that may be filled."""
        assert self.chip.memory_bytes is not None
        return self.n_chips * self.chip.memory_bytes * (1 - RESERVE)


def weights_read(shape: ModelShape, batch: float) -> float:
    """Count the parameters that one decode step of `batch` sequences reads.

    A dense model's are all read, whatever the batch. Of E experts with k a token, a share
    1 - (1 - k/E)^b is visited if tokens choose evenly and independently; real routing is less even.

    Parameters
    ----------
    shape : ModelShape
        The model.
    batch : float
        Sequences, one token each.

    Returns
    -------
    float
        Parameters.

    Examples
    --------
    >>> mixture = ModelShape(params_b=30, active_params_b=5, experts=8, experts_per_token=1)
    >>> [round(weights_read(mixture, batch) / 1e9, 1) for batch in (1, 8, 64)]
    [5.0, 20.2, 30.0]
    """
    if shape.expert_params_b:
        experts, visited = shape.expert_params_b, (shape.experts_per_token or 1) / (shape.experts or 1)
    else:  # dense; or a mixture whose experts are not counted: then all of it is taken to be experts
        experts, visited = shape.params_b, shape.active_params_b / shape.params_b
    idle = float((1 - visited) ** batch)
    return 1e9 * (shape.params_b - experts * idle)


class Units(NamedTuple):
    """Seconds at the published rates that one of each takes, for one model on one machine.

    Attributes
    ----------
    parameter, kv_element : float
        To read one parameter, one element of a KV cache.
    token, pair : float
        To compute the products of one token, and one of the s^2 pairs of a prompt's attention.
    exchange_token, exchange_start : float
        Of all collectives of a pass: for each token, and for their hops.
    collectives : float
        How many there are in a pass.
    """

    parameter: float
    kv_element: float
    token: float
    pair: float
    exchange_token: float
    exchange_start: float
    collectives: float


def units(shape: ModelShape, machine: Machine) -> Units:
    """Return what one of each costs; the shape must have layers and width, as `serve` makes sure.

    Modelled: tensor parallelism with two all-reduces a layer; N_a multiplications and additions a token,
    2 L d FLOPs a pair of a prompt (causal). Not modelled: pipeline stages, networks between nodes.
    """
    assert shape.layers is not None and shape.width is not None
    bandwidth = machine.n_chips * machine.bytes_per_second
    flops = machine.n_chips * machine.flops_per_second
    token, start = (0.0, 0.0) if machine.n_chips == 1 else _all_reduce(machine.chip, machine.n_chips)
    return Units(
        parameter=machine.weight_bytes / bandwidth,
        kv_element=machine.kv_bytes / bandwidth,
        token=2e9 * shape.active_params_b / flops,
        pair=2.0 * shape.layers * shape.width / flops,
        exchange_token=2 * shape.layers * token * shape.width * ACTIVATION_BYTES,
        exchange_start=2 * shape.layers * start,
        collectives=2.0 * shape.layers if machine.n_chips > 1 else 0.0,
    )


def _all_reduce(chip: chips.Chip, n: int) -> tuple[float, float]:
    """Return the least seconds of an all-reduce over n chips: for each byte, and for its hops."""
    link = _one_way(chip)
    assert link is not None  # `machine_for` refuses such chips
    axes = _torus_axes(chip)
    if axes is None:
        byte, start = 2 * (n - 1) / n / link, 0.0
    else:
        # A ring closes only in a whole axis: 16 long in two dimensions, 4 in three.
        closed = n >= (256 if axes == 2 else 64)
        side = n ** (1 / axes)
        byte = (2 if closed else 4) / link
        start = 2 * HOP_SECONDS * axes * (side / 2 if closed else side - 1)
    # Over many chips both sides of a weight are split, and the bytes fall with the root of n: better once
    # root n exceeds the width of the feed-forward layer over the model's, about 4 (Pope et al. 2022,
    # arXiv 2211.05102, section 3.2; recalled).
    return byte * min(1.0, 4 / math.sqrt(n)), start


def decode_work(shape: ModelShape, of: Units, batch: int, elements: int) -> Work:
    """Return what one step needs in which each of `batch` sequences gets one token.

    Modelled: every weight (of the experts visited) and every sequence's KV cache read once, 2 N_a FLOPs a
    token, one launch. Not modelled: FLOPs of attention itself (memory-bound in decode), speculative decoding.

    Parameters
    ----------
    shape : ModelShape
        The model.
    of : Units
        What one of each costs.
    batch : int
        Sequences.
    elements : int
        Elements of one sequence's KV cache.
    """
    return Work(
        weights=weights_read(shape, batch) * of.parameter,
        kv=batch * elements * of.kv_element,
        compute=batch * of.token,
        exchange=batch * of.exchange_token + of.exchange_start,
        collectives=of.collectives,
        steps=1.0,
    )


def prefill_work(of: Units, prompt: int) -> Work:
    """Return what reading one prompt adds to a busy machine: (2 N_a s + 2 L d s^2) FLOPs and its exchange."""
    return Work(
        compute=prompt * of.token + prompt**2 * of.pair,
        exchange=prompt * of.exchange_token + of.exchange_start,
    )


def first_tokens_work(shape: ModelShape, of: Units, prompt: int, batch: int) -> Work:
    """Return what prompts that come together need of an idle machine: weights are read, and a step starts."""
    start = decode_work(shape, of, prompt * batch, 0)
    return start._replace(compute=batch * (prompt * of.token + prompt**2 * of.pair))


def _one_way(chip: chips.Chip) -> float | None:
    """Bytes/s that a chip sends over all its links together."""
    both = chip.interconnect_bidirectional_bytes_per_second
    return chip.interconnect_unidirectional_bytes_per_second or (None if both is None else both / 2)


def _torus_axes(chip: chips.Chip) -> int | None:
    return {"2D": 2, "3D": 3}.get((chip.topology or "")[:2])


def machine_for(
    chip: chips.Chip, n_chips: int, precision: str, kv_precision: str | None = None
) -> Machine | None:
    """Return n chips as one machine, or None where what serving needs is not published.

    Parameters
    ----------
    chip : chips.Chip
        The chip.
    n_chips : int
        How many share one copy of the model.
    precision : str
        Of the weights, one of `PRECISIONS`. Products run in it where the chip has a published peak
        for it, else in the next wider one that it has, and a remark says so.
    kv_precision : str, optional
        Of the KV cache; as wide as the weights where not given, but at least 8 bits.

    Returns
    -------
    Machine or None
        None for a projection, or where memory, bandwidth, a 16-bit peak or (for several chips) the
        link between chips is not known.
    """
    peaks = chip.peak_flops_per_second
    wide = peaks.get("bf16") or peaks.get("fp16")
    if not chip.has_roofline or chip.memory_bytes is None or wide is None:
        return None
    if n_chips > 1 and _one_way(chip) is None:
        return None
    assert chip.bandwidth_bytes_per_second is not None  # a roofline has one
    remarks = []
    sixteen = precision in ("bf16", "fp16")
    peak = wide if sixteen else peaks.get(precision) or (peaks.get("fp8") if precision == "fp4" else None)
    if peak is None:
        peak = wide
        remarks.append(f"{chip.name} has no {precision} peak: weights are kept in it and used in 16 bits.")
    if chip.max_domain_chips is not None and n_chips > chip.max_domain_chips:
        remarks.append(
            f"{n_chips} chips are more than the {chip.max_domain_chips} that one fast link joins: the slower "
            "network between them is not counted."
        )
    kv = BYTES[kv_precision] if kv_precision is not None else max(BYTES[precision], 1.0)
    return Machine(chip, n_chips, peak, chip.bandwidth_bytes_per_second, BYTES[precision], kv, tuple(remarks))


def most_sequences(shape: ModelShape, machine: Machine, context: int) -> int:
    """Return how many sequences of `context` tokens fit beside the weights; 0 where not even these fit."""
    left = machine.room - 1e9 * shape.params_b * machine.weight_bytes
    elements = shape.kv_elements(context)
    assert elements is not None
    return max(0, math.floor(left / (elements * machine.kv_bytes))) if elements else MOST_SEQUENCES


# --- the fitted part -------------------------------------------------------------------------------------

# Five factors turn `Work` into seconds: how many times longer than published reading memory, computing and
# exchanging take, and how many seconds starting a collective and a step costs. The logarithm of each is a
# sum: one value for all chips, a deviation of the vendor (its compilers and servers are its own), for memory
# and compute a deviation of the chip, and a term for mixtures of experts and for 4-bit products. All have
# normal priors, so that a vendor or a chip of which few cases speak stays near the others: partial pooling.
# Prior means are what the evidence says in general: 40 to 75 % of the peak in prefill, milliseconds a step.
# The chip's, the source's and the noise's deviations have the highest marginal likelihood on a coarse grid.
_PRIOR: Mapping[str, tuple[float, float]] = {
    "memory": (-math.log(0.75), 0.2),
    "compute": (-math.log(0.55), 0.2),  # published prefill reaches 40 to 75 % of the peak
    "exchange": (-math.log(0.7), 0.3),
    "collective": (math.log(15e-6), 0.8),  # seconds
    "step": (math.log(3e-3), 0.6),  # seconds
    "experts": (0.1, 0.15),  # for each factor e of total over active parameters
    "four_bit": (0.3, 0.3),
}
_VENDOR_DEVIATION: Mapping[str, float] = {
    "memory": 0.2,
    "compute": 0.2,
    "exchange": 0.3,
    "collective": 0.8,
    "step": 0.6,
}
_CHIP_DEVIATION, _SOURCE_DEVIATION, NOISE = 0.25, 0.35, 0.15


def prior(name: str) -> tuple[float, float]:
    """Return the prior mean and deviation of one term."""
    if name in _PRIOR:
        return _PRIOR[name]
    part = name.partition(" ")[0]
    if part == "source":
        return 0.0, _SOURCE_DEVIATION
    return 0.0, _CHIP_DEVIATION if part == "chip" else _VENDOR_DEVIATION[part]


def terms_of(chip: chips.Chip, mixture: float, precision: str) -> dict[str, NDArray[np.float64]]:
    """Return which terms make up the five factors, and how often; the only place that knows.

    `mixture` is total over active parameters, 1 for a dense model.
    """
    unit = np.eye(len(Parts._fields))
    terms = {part: unit[i] for i, part in enumerate(Parts._fields)}
    terms |= {f"{part} {chip.vendor}": unit[i] for i, part in enumerate(Parts._fields)}
    terms[f"chip {chip.id}"] = unit[0] + unit[1]
    if mixture > 1:
        terms["experts"] = math.log(mixture) * (unit[0] + unit[1])
    if precision == "fp4":
        terms["four_bit"] = unit[1]
    return terms


class Parts(NamedTuple):
    """Seconds of the five parts of a piece of work; of memory and compute only the longer counts."""

    memory: float
    compute: float
    exchange: float
    collective: float
    step: float

    def plus(self, other: Parts, times: float) -> Parts:
        """Add another's parts, so many times."""
        return Parts(
            self.memory + times * other.memory,
            self.compute + times * other.compute,
            self.exchange + times * other.exchange,
            self.collective + times * other.collective,
            self.step + times * other.step,
        )


def _dot(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    return math.fsum(map(operator.mul, one, other))


@dataclass(frozen=True)
class Factors:
    """The five factors for one chip, kind of model and precision, and how well they are known.

    Attributes
    ----------
    values : tuple of float
        In the order memory, compute, exchange, collective, step; the last two in seconds.
    covariance : tuple of tuples of float
        Of their logarithms; a new source's deviation and the noise come on top.
    """

    values: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]

    def parts(self, work: Work) -> Parts:
        """Return the seconds of the five parts."""
        memory, compute, exchange, collective, step = self.values
        read, products = memory * (work.weights + work.kv), compute * work.compute
        return Parts(
            read if read >= products else 0.0,
            0.0 if read >= products else products,
            exchange * work.exchange,
            collective * work.collectives,
            step * work.steps,
        )

    def band(self, parts: Parts) -> Band:
        """Return the sum of the parts with its 80 % band in a source not seen before."""
        seconds = sum(parts)
        # Plain sums: an array of five would take longer to make than to multiply.
        variance = sum(
            part * _dot(row, parts) for part, row in zip(parts, self.covariance, strict=True) if part
        )
        deviation = math.sqrt(variance / seconds**2 + _SOURCE_DEVIATION**2 + NOISE**2)
        reach = math.exp(_EIGHTY_PERCENT * deviation)
        return Band(seconds / reach, seconds, seconds * reach)


@dataclass(frozen=True)
class ServingModel:
    """A fitted model: names of the terms, their posterior mean and covariance."""

    names: tuple[str, ...]
    mean: NDArray[np.float64]
    covariance: NDArray[np.float64]

    def factors(self, chip: chips.Chip, mixture: float, precision: str) -> Factors:
        """Return the factors for a chip; what no case spoke of has its prior, and so widens the band."""
        terms = terms_of(chip, mixture, precision)
        design = np.zeros((len(Parts._fields), len(self.names)))
        log, unseen = np.zeros(len(Parts._fields)), np.zeros((len(Parts._fields), len(Parts._fields)))
        for name, column in terms.items():
            if name in self.names:
                design[:, self.names.index(name)] = column
            else:
                mean, deviation = prior(name)
                log += mean * column
                unseen += deviation**2 * np.outer(column, column)
        covariance = design @ self.covariance @ design.T + unseen
        return Factors(
            tuple(np.exp(log + design @ self.mean).tolist()), tuple(tuple(row) for row in covariance.tolist())
        )


def no_cases() -> ServingModel:
    """Return the model before any case: the priors alone."""
    return ServingModel((), np.zeros(0), np.zeros((0, 0)))


@functools.cache
def fitted() -> ServingModel:
    """Return the model that the product ships, fitted on the public cases."""
    data = _shipped()
    return ServingModel(
        tuple(data["names"]), np.array(data["mean"], dtype=float), np.array(data["covariance"], dtype=float)
    )


@functools.lru_cache(maxsize=512)
def _fitted_factors(chip_id: str, mixture: float, precision: str) -> Factors:
    return fitted().factors(chips.get(chip_id), mixture, precision)


@functools.cache
def _shipped() -> dict[str, Any]:
    with resources.as_file(resources.files("pulsewarp.guide").joinpath("data", "serving.json")) as path:
        return read_json(path, SERVING_FORM)


@functools.cache
def left_out() -> tuple[LeftOut, ...]:
    """Return every public serving case beside what the model says without anything of the case's source.

    Returns
    -------
    tuple of LeftOut
        Output tokens per second for one chip (prompt tokens for a prefill), as recorded in
        ``guide/data/serving.json``; `missed` says why a case lies outside its band.

    Examples
    --------
    >>> rows = left_out()
    >>> len(rows), sum(row.inside for row in rows)
    (22, 18)
    """
    return tuple(
        LeftOut(
            row["id"],
            row["source"],
            row["model"],
            row["chip"],
            row["published_tokens_per_second_per_chip"],
            Band(**row["predicted"]),
        )
        for row in _shipped()["left_out"]
    )


@functools.cache
def missed() -> Mapping[str, str]:
    """Return the cases outside their band, each with the reason."""
    return MappingProxyType(
        {row["id"]: row["why_missed"] for row in _shipped()["left_out"] if not row["inside_band"]}
    )


# --- the public call -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    """What all points of a curve share: model, cost of one of each thing, factors, prompt and answer."""

    shape: ModelShape
    units: Units
    factors: Factors
    prompt: int
    output_len: int | None
    reading: Parts


@dataclass(frozen=True, repr=False)
class ServingPoint:
    """One point of the curve: what `batch` sequences at once get.

    Attributes
    ----------
    batch, n_chips : int
        Sequences at once, and the chips that serve them.
    fits : bool
        Whether weights and their KV caches fit in memory.
    limited_by : str
        What takes most of a decode step, one of `LIMITS`.
    seconds : float
        The most likely time of a decode step, the middle of `step_seconds`.
    parts : Parts
        What a decode step is made of.
    setting : Setting
        What all points of a curve share.
    """

    batch: int
    n_chips: int
    fits: bool
    limited_by: str
    seconds: float
    parts: Parts
    setting: Setting

    def __repr__(self) -> str:
        return (
            f"ServingPoint(batch={self.batch}, fits={self.fits}, limited_by={self.limited_by!r}, "
            f"step_seconds={self.step_seconds!r})"
        )

    @functools.cached_property
    def step_seconds(self) -> Band:
        """One decode step: the time between two tokens of one user."""
        return self.setting.factors.band(self.parts)

    @functools.cached_property
    def prefill_seconds(self) -> Band:
        """From `batch` prompts that come together on an idle machine to their first tokens."""
        shared = self.setting
        work = first_tokens_work(shared.shape, shared.units, shared.prompt, self.batch)
        return shared.factors.band(shared.factors.parts(work))

    @property
    def user_tokens_per_second(self) -> Band:
        """Tokens that one user sees in a second."""
        return _inverse(self.step_seconds)

    @property
    def tokens_per_second_per_chip(self) -> Band:
        """Answer tokens of all users over the chips, while nobody's prompt is read."""
        return _inverse(self.step_seconds) * (self.batch / self.n_chips)

    @functools.cached_property
    def served(self) -> float | None:
        """The most likely of `served_tokens_per_second_per_chip`."""
        if self.setting.output_len is None:
            return None
        reading = sum(self.setting.reading) * self.batch / self.setting.output_len
        return self.batch / self.n_chips / (self.seconds + reading)

    @functools.cached_property
    def served_tokens_per_second_per_chip(self) -> Band | None:
        """Answer tokens of all users over the chips with the prompts read in between, one for each answer.

        Costs follow from this one. None where the length of an answer is not known.
        """
        if self.setting.output_len is None:
            return None
        with_prompts = self.parts.plus(self.setting.reading, self.batch / self.setting.output_len)
        return _inverse(self.setting.factors.band(with_prompts)) * (self.batch / self.n_chips)


@dataclass(frozen=True)
class Serving:
    """Serving a model on n chips that share one copy of it: a curve of latency against throughput.

    Attributes
    ----------
    chip_id, n_chips, precision, context, output_len
        What was asked.
    points : tuple of ServingPoint
        By batch.
    most_sequences : int
        Sequences that fit in memory, 2,048 at most; 0 where the weights alone do not.
    compute_bound_batch : float or None
        Batch from which a step of this context is bound by compute at the published rates; None for never.
    compute_bound_batch_without_kv : float
        The same for a context of nothing.
    context_beyond_which_never : float or None
        Context from which no batch makes a step compute-bound; None where there is no such context.
    cases : tuple of str
        Published cases on this chip that the factors lean on; empty when there are none.
    remarks : tuple of str
        What was assumed or is not counted, a sentence each.
    """

    chip_id: str
    n_chips: int
    precision: str
    context: int
    output_len: int | None
    points: tuple[ServingPoint, ...]
    most_sequences: int
    compute_bound_batch: float | None
    compute_bound_batch_without_kv: float
    context_beyond_which_never: float | None
    cases: tuple[str, ...]
    remarks: tuple[str, ...]

    def __repr__(self) -> str:
        return (
            f"Serving({self.n_chips} x {self.chip_id}, {self.precision}, context={self.context}, "
            f"points={len(self.points)}, most_sequences={self.most_sequences}, cases={len(self.cases)})"
        )


@names_keywords
def serve(
    shape: ModelShape,
    chip_id: str,
    n_chips: int = 1,
    *,
    precision: str = "bf16",
    context: int = 4096,
    output_len: int | None = None,
    batches: Iterable[int] | None = None,
    kv_precision: str | None = None,
) -> Serving | None:
    """Estimate how fast n chips that share one copy of a model answer, for several batches.

    Modelled: a decode step takes max((bytes_w + b KV s)/(n W e_w), 2 N_a b/(n F e_f)) and the exchange
    between chips (two all-reduces a layer over the catalogue's links), a start for each collective and one
    for the step; a prompt takes (2 N_a s + 2 L d s^2)/(n F e_f) and its exchange. The factors are fitted on
    public results by vendor, chip and kind of model, with partial pooling. Not modelled: speculative
    decoding, prefix caches, beam search, pipeline stages, networks between nodes, uneven experts, queues.

    Parameters
    ----------
    shape : ModelShape
        Of the model; see `models.shape_of` and `models.card`.
    chip_id : str
        Catalogue id, such as "tpu_v6e" or "h100_sxm".
    n_chips : int
        Chips that share one copy of the model.
    precision : str
        Of the weights, one of `PRECISIONS`.
    context : int
        Tokens of a finished sequence, prompt and answer.
    output_len : int, optional
        Tokens of an answer, at most `context`; the cache is then that of an answer half written, and the
        rest of the context is the prompt. Where not given every cache holds the whole context.
    batches : iterable of int, optional
        Sequences at once; powers of two and the most that fit where not given.
    kv_precision : str, optional
        Of the KV cache; as wide as the weights where not given, but at least 8 bits.

    Returns
    -------
    Serving or None
        None where the shape lacks layers, width or KV heads, or the chip a published peak, bandwidth,
        memory or, for several chips, link.

    Raises
    ------
    TypeError
        When `shape` is no ModelShape, or for an unknown keyword.
    ValueError
        For an unknown chip or precision, or numbers that are not whole and positive.

    Examples
    --------
    >>> from pulsewarp.guide import models
    >>> llama = models.card("llama-3.1-70b")
    >>> one = serve(llama, "tpu_v6e", 8, context=2048, output_len=1024)
    >>> round(one.compute_bound_batch_without_kv), round(one.context_beyond_which_never, -1)
    (560, 770.0)
    >>> [(point.batch, point.fits) for point in serve(llama, "tpu_v6e", 8, batches=[1, 1024]).points]
    [(1, True), (1024, False)]
    >>> one.points[3].step_seconds.low < 0.03 < one.points[3].step_seconds.high
    True
    """
    instance("shape", shape, ModelShape, "take one from models.card('llama-3.1-8b')")
    chip = chips.get(chip_id)
    count = whole_number("n_chips", n_chips)
    choice("precision", precision, PRECISIONS)
    if kv_precision is not None:
        choice("kv_precision", kv_precision, PRECISIONS)
    length = whole_number("context", context)
    if output_len is not None:
        whole_number("output_len", output_len, most=length, remedy="context counts prompt and answer.")
    asked = None
    if batches is not None:
        asked = tuple(
            whole_number("batches", batch, most=10**6)
            for batch in several("batches", batches, "write batches=[1, 8, 64]")
        )
    return _serve(shape, chip.id, count, precision, kv_precision, length, output_len, asked)


@functools.lru_cache(maxsize=2048)
def _serve(
    shape: ModelShape,
    chip_id: str,
    n_chips: int,
    precision: str,
    kv_precision: str | None,
    context: int,
    output_len: int | None,
    batches: tuple[int, ...] | None,
) -> Serving | None:
    chip = chips.get(chip_id)
    machine = machine_for(chip, n_chips, precision, kv_precision)
    if machine is None or shape.layers is None or shape.width is None or shape.kv_elements(1) is None:
        return None
    held = context if output_len is None else context - output_len // 2
    most = min(MOST_SEQUENCES, most_sequences(shape, machine, held))
    if batches is None:
        batches = tuple(sorted({*(2**i for i in range(12) if 2**i <= max(most, 1)), max(most, 1)}))
    never = context_beyond_which_never(shape, machine)
    return Serving(
        chip_id=chip_id,
        n_chips=n_chips,
        precision=precision,
        context=context,
        output_len=output_len,
        points=_curve(shape, machine, precision, batches, held, context, output_len, most),
        most_sequences=most,
        compute_bound_batch=compute_bound_batch(shape, machine, held),
        compute_bound_batch_without_kv=compute_bound_batch(shape, machine, 0) or math.inf,
        context_beyond_which_never=never,
        cases=_cases_on(chip_id),
        remarks=(*shape.remarks, *machine.remarks),
    )


def _curve(
    shape: ModelShape,
    machine: Machine,
    precision: str,
    batches: tuple[int, ...],
    held: int,
    context: int,
    output_len: int | None,
    most: int,
) -> tuple[ServingPoint, ...]:
    """Return the points, plain numbers only: a search looks at many of them and asks few for their bands."""
    of, elements = units(shape, machine), shape.kv_elements(held)
    assert elements is not None
    factors = _fitted_factors(machine.chip.id, shape.params_b / shape.active_params_b, precision)
    prompt = context - (output_len or 0)
    setting = Setting(shape, of, factors, prompt, output_len, factors.parts(prefill_work(of, prompt)))
    points = []
    for batch in batches:
        work = decode_work(shape, of, batch, elements)
        parts = factors.parts(work)
        limit, seconds = _limit(work, parts), sum(parts)
        points.append(ServingPoint(batch, machine.n_chips, batch <= most, limit, seconds, parts, setting))
    return tuple(points)


@functools.cache
def _cases_on(chip_id: str) -> tuple[str, ...]:
    return tuple(row["id"] for row in _shipped()["left_out"] if row["chip"] == chip_id and row["fitted"])


def _limit(work: Work, parts: Parts) -> str:
    """Name the longest part of a step; starting collectives and the step itself are overhead together."""
    longest = max(parts.memory, parts.compute, parts.exchange, parts.collective + parts.step)
    if longest == parts.memory:
        return "weights" if work.weights >= work.kv else "kv cache"
    return {parts.compute: "compute", parts.exchange: "exchange"}.get(longest, "overhead")


def _inverse(band: Band) -> Band:
    return Band(1 / band.high, 1 / band.value, 1 / band.low)


def compute_bound_batch(shape: ModelShape, machine: Machine, context: int) -> float | None:
    """Return the batch from which a decode step is bound by compute at the published rates.

    b > (F/W)(w/2) for a dense model without a cache; more for a mixture of experts, whose weights are all
    read but only in part computed with, and for a cache that grows with b as well.

    Returns
    -------
    float or None
        None where no batch is large enough.
    """
    elements = shape.kv_elements(context)
    assert elements is not None
    per_sequence = 2e9 * shape.active_params_b * machine.bytes_per_second / machine.flops_per_second
    spare = per_sequence - elements * machine.kv_bytes
    if spare <= 0:
        return None
    batch = (
        1e9 * shape.params_b * machine.weight_bytes / spare
    )  # every expert read; fewer need a smaller batch
    for _ in range(100):
        nearer = weights_read(shape, batch) * machine.weight_bytes / spare
        if math.isclose(nearer, batch, rel_tol=1e-9):
            break
        batch = nearer
    return batch


def context_beyond_which_never(shape: ModelShape, machine: Machine) -> float | None:
    """Return the context from which no batch makes a decode step compute-bound: 2 N_a W/(F KV).

    Returns
    -------
    float or None
        Tokens; None where sliding windows keep the cache below that size for ever.
    """
    per_sequence = 2e9 * shape.active_params_b * machine.bytes_per_second / machine.flops_per_second
    wanted = per_sequence / machine.kv_bytes
    window = shape.sliding_window or 0
    first, short, longer = (shape.kv_elements(tokens) for tokens in (1, window, window + 1))
    assert first is not None and short is not None and longer is not None
    if wanted <= short or window == 0:
        return wanted / first
    return None if longer == short else window + (wanted - short) / (longer - short)
