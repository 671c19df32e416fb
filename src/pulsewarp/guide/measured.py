"""What the reader has measured, in place of what published runs let one expect."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from pulsewarp import chips, roofline
from pulsewarp._checks import choice, names_keywords, positive_number, several, whole_number
from pulsewarp.bench.measurement import Measurement, Timed
from pulsewarp.guide.band import Band
from pulsewarp.guide.efficiency import TrainingEstimate

_EIGHTY_PERCENT = statistics.NormalDist().inv_cdf(0.9)  # deviations either side of the mean
# A run of the reader's own against the same run on another day and other machines of the kind: within 10 %
# four times in five.
OWN_RUN_DEVIATION = math.log(1.10) / _EIGHTY_PERCENT
# Bare products reach more of the peak than training does: published training shares of 37 to 67 % beside
# large products at 75 to 95 %, hence a factor of about 1.7, known to about 1.35 either way. An assumption of
# the guide.
PRODUCT_OVER_TRAINING = 1.7
_MOST_OF_PEAK = 1.05  # of what is published; clocks are boosted a little, what claims more was mistaken
PRODUCT_DEVIATION = math.log(1.35) / _EIGHTY_PERCENT


@dataclass(frozen=True)
class OwnRun:
    """The reader's own workload, timed on one kind of chip: the best thing a pilot brings home.

    Parameters
    ----------
    chip : str
        Catalogue id.
    tokens_per_second_per_chip : float
        Trained tokens, or in inference output tokens of all users, over the chips.
    n_chips : int
        Chips it ran on.
    batch : int, optional
        In inference, the sequences at once; needed there.

    Raises
    ------
    ValueError
        For an unknown chip or a number that is not above 0.

    Examples
    --------
    >>> OwnRun(chip="tpu_v5p", tokens_per_second_per_chip=520.0, n_chips=16)
    OwnRun(chip='tpu_v5p', tokens_per_second_per_chip=520.0, n_chips=16, batch=None)
    """

    chip: str
    tokens_per_second_per_chip: float
    n_chips: int = 1
    batch: int | None = None

    def __post_init__(self) -> None:
        choice("chip", self.chip, chips.ids())
        rate = positive_number("tokens_per_second_per_chip", self.tokens_per_second_per_chip)
        object.__setattr__(self, "tokens_per_second_per_chip", rate)
        whole_number("n_chips", self.n_chips)
        if self.batch is not None:
            whole_number("batch", self.batch)


@dataclass(frozen=True)
class Evidence:
    """One measured thing in the form in which estimates take it up.

    Attributes
    ----------
    chip : str
        Catalogue id; empty where the device is none of the catalogue's.
    what : {"training", "serving", "product", ""}
        What was timed; empty where it says nothing about this workload.
    value : float
        Tokens/s for one chip, or of a product the share of the dense peak.
    n_chips : int
        Chips it ran on.
    batch : int or None
        Sequences at once, in serving.
    text : str
        What is made of it, or why nothing.
    """

    chip: str
    what: str
    value: float
    n_chips: int
    batch: int | None
    text: str


def measured_rows(measured: Iterable[Timed | OwnRun]) -> tuple[Timed | OwnRun, ...]:
    """Return what was measured as a tuple; refuse what is no measurement."""
    remedy = "pass rows such as bench.load gives, or guide.OwnRun"
    rows = several("measured", measured, remedy)
    for row in rows:
        if not isinstance(row, Timed | OwnRun):
            raise TypeError(f"A measurement is a {type(row).__name__}, but must be timed work; {remedy}.")
    return rows


@names_keywords
def evidence(
    measured: Iterable[Timed | OwnRun], phase: str, *, active_params_b: float | None = None
) -> tuple[Evidence, ...]:
    """Sort what a reader measured by what it says about a workload.

    Parameters
    ----------
    measured : iterable of bench measurements or OwnRun
        Several products on one chip count as one: the fastest that is bound by compute.
    phase : str
        The workload's.
    active_params_b : float, optional
        Its parameters active a token, in billions: a run whose arithmetic would exceed the chip's published
        peak is then not used.

    Returns
    -------
    tuple of Evidence
        One for each chip's products, own runs and things of which no use is made.

    Raises
    ------
    TypeError
        When a row is neither.
    """
    rows = measured_rows(measured)
    out = [_own(row, phase, active_params_b) for row in rows if isinstance(row, OwnRun)]
    products: dict[str, Evidence] = {}
    for row in rows:
        if isinstance(row, OwnRun):
            continue
        found = _product(row, phase)
        if found.what != "product":
            out.append(found)
        elif found.chip not in products or found.value > products[found.chip].value:
            products[found.chip] = found
    return (*out, *products.values())


# FLOPs a token and parameter that no run does without: two in serving; in training six, four with adapters.
_LEAST_FLOPS = {True: 2, False: 4}


def _own(run: OwnRun, phase: str, active_params_b: float | None) -> Evidence:
    serves = phase == "inference"
    chip, rate = chips.get(run.chip), run.tokens_per_second_per_chip
    name, peak = chip.name, max(filter(None, chip.peak_flops_per_second.values()), default=math.inf)
    share = rate * _LEAST_FLOPS[serves] * 1e9 * (active_params_b or 0.0) / peak
    if share > _MOST_OF_PEAK:
        text = (
            f"Your run on {name} is not used: {rate:,.4g} tokens/s a chip of this model need at least "
            f"{share:,.3g} times its highest published peak; give tokens a second for one chip."
        )
        return Evidence(run.chip, "", rate, run.n_chips, run.batch, text)
    if serves and run.batch is None:
        text = f"Your run on {name} is not used: serving depends on the batch, so give batch."
        return Evidence(run.chip, "", rate, run.n_chips, None, text)
    at = f" at batch {run.batch:,}" if serves and run.batch is not None else ""
    text = f"{name}: {rate:,.4g} tokens/s a chip{at}, as you measured on {run.n_chips:,}."
    return Evidence(run.chip, "serving" if serves else "training", rate, run.n_chips, run.batch, text)


def _product(row: Timed, phase: str) -> Evidence:
    chip_id = row.device.chip

    def unused(why: str) -> Evidence:
        return Evidence(
            chip_id or "", "", 0.0, 1, None, f"{row.title} on {row.device.label} is not used: {why}."
        )

    if chip_id is None or chip_id not in chips.ids():
        return unused("the catalogue does not know the device")
    if not isinstance(row, Measurement):
        return unused("only matrix products say how much of its peak a chip reaches")
    if phase == "inference":
        return unused("decoding is bound by memory; measure your own serving and pass guide.OwnRun")
    chip = chips.get(chip_id)
    peak = chip.peak_flops_per_second.get(row.matmul.dtype)
    if not chip.has_roofline or not peak or row.matmul.dtype not in ("bf16", "fp16", "fp8", "int8", "fp4"):
        return unused("training runs in 16 bits or fewer, with a published peak")
    if roofline.bound(row.matmul, chip).limit != "compute":
        return unused("the product is too small to be bound by compute")
    share = row.flops_per_second * row.device.devices_per_chip / peak
    if share > _MOST_OF_PEAK:
        return unused(f"it claims {share:.0%} of the published peak")
    text = (
        f"{chip.name}: bare products reach {share:.0%} of the dense {row.matmul.dtype} peak, as you "
        f"measured; training is expected at that over {PRODUCT_OVER_TRAINING:g}."
    )
    return Evidence(chip_id, "product", share, 1, None, text)


def pulled(band: Band, measured: float, deviation: float) -> Band:
    """Pull an estimate to what was measured: the mean of both logarithms, each weighed by its certainty.

    With s and t the standard deviations of the logarithms,
    ln e' = (ln e / s^2 + ln m / t^2) / (1/s^2 + 1/t^2)
    and 1/s'^2 = 1/s^2 + 1/t^2: the posterior of a normal mean (Gelman et al., Bayesian Data Analysis, 3rd
    edition, chapter 2). The band always becomes narrower.

    Parameters
    ----------
    band : Band
        The estimate from published runs.
    measured : float
        The same quantity, measured.
    deviation : float
        Standard deviation of the measurement's logarithm.

    Returns
    -------
    Band
        80 %, as before.

    Examples
    --------
    >>> pulled(Band(300, 400, 500), 500, 0.05)
    Band(low=463.7, value=493.4, high=525.1)
    """
    before = math.log(band.high / band.low) / (2 * _EIGHTY_PERCENT)
    if before <= 0:
        return band
    weights = (before**-2, deviation**-2)
    mean = (weights[0] * math.log(band.value) + weights[1] * math.log(measured)) / sum(weights)
    reach = _EIGHTY_PERCENT / math.sqrt(sum(weights))
    return Band(math.exp(mean - reach), math.exp(mean), math.exp(mean + reach))


def pulled_training(
    estimate: TrainingEstimate, facts: Iterable[Evidence], eight_bit: bool
) -> TrainingEstimate:
    """Pull a training estimate to the reader's own run and products on the same chip.

    Parameters
    ----------
    estimate : TrainingEstimate
        From published runs.
    facts : iterable of Evidence
        Those of other chips are passed over.
    eight_bit : bool
        Whether the estimate is for fewer than 16 bits: a share of the 16-bit peak is then no share of the
        product's own, and only own runs count.

    Returns
    -------
    TrainingEstimate
        The same where nothing was measured on the chip.
    """
    share = estimate.share_of_16_bit_peak
    per_share = estimate.tokens_per_second_per_chip.value / share.value
    for fact in facts:
        if fact.chip != estimate.chip:
            continue
        if fact.what == "training":
            share = pulled(share, fact.value / per_share, OWN_RUN_DEVIATION)
        elif fact.what == "product" and not eight_bit:
            share = pulled(share, fact.value / PRODUCT_OVER_TRAINING, PRODUCT_DEVIATION)
    if share is estimate.share_of_16_bit_peak:
        return estimate
    tokens = share * per_share
    return dataclasses.replace(
        estimate,
        share_of_16_bit_peak=share,
        tokens_per_second_per_chip=tokens,
        model_flops_per_second_per_chip=tokens * estimate.flops_per_token,
    )


def pulled_rate(rate: Band, predicted: Band, measured: float) -> Band:
    """Pull a rate by what the reader measured at another point of the same curve.

    Parameters
    ----------
    rate : Band
        What is expected at the point in question.
    predicted : Band
        What was expected at the point that was measured.
    measured : float
        What it was there.

    Returns
    -------
    Band
        `rate` times the factor by which `pulled` moves `predicted`, as narrow as that leaves it.
    """
    there = pulled(predicted, measured, OWN_RUN_DEVIATION)
    value = rate.value * there.value / predicted.value
    return Band(value * there.low / there.value, value, value * there.high / there.value)
