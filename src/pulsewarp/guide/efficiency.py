"""How fast real training runs went: a small model fitted on published cases, with its own errors beside it.

The letters are those of the roofline: N parameters, L layers, d width, s context, n chips, F peak.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp import chips
from pulsewarp._checks import choice, names_keywords, positive_number, whole_number
from pulsewarp._files import read_json, write_text_atomically
from pulsewarp.guide.band import Band

CASES_FORM = "pulsewarp-training-cases/1"
EFFICIENCY_FORM = "pulsewarp-efficiency/1"
ASSUMED_CONTEXT = 4096  # tokens; where a case or a workload does not say
PRECISIONS = ("bf16", "fp16", "mixed", "fp8", "int8", "fp4")
_NARROW = ("fp8", "int8", "fp4")
_EIGHTY_PERCENT = 1.2815515655446004  # standard deviations either side of the mean of a normal distribution


@dataclass(frozen=True)
class TrainingCase:
    """One published training result, normalised to one chip; `part` sets apart chips sold under one name."""

    id: str
    model: str
    params_b: float
    active_params_b: float
    seq_len: int | None
    global_batch: int | None
    precision: str
    chip: str
    part: str
    n_chips: int
    tokens_per_second_per_chip: float | None
    model_flops_per_second_per_chip: float | None
    attention_counted: str
    source: Mapping[str, str]
    notes: str

    @property
    def published_model_flops_per_second(self) -> float:
        """The published rate as model FLOP/s for one chip, causal attention counted."""
        per_token = flops_per_token(self.active_params_b, self.seq_len)
        if self.tokens_per_second_per_chip is not None:
            return self.tokens_per_second_per_chip * per_token
        assert self.model_flops_per_second_per_chip is not None  # the loader refuses a case with neither
        if self.attention_counted == "full":
            # This source counted both triangles of the attention matrix; the product counts one.
            attention = per_token - 6e9 * self.active_params_b
            return self.model_flops_per_second_per_chip * per_token / (per_token + attention)
        return self.model_flops_per_second_per_chip


@dataclass(frozen=True)
class TrainingEstimate:
    """What training would reach on a chip, as 80 % bands.

    Attributes
    ----------
    tokens_per_second_per_chip : Band
        Tokens/s for one chip.
    model_flops_per_second_per_chip : Band
        Model FLOP/s for one chip: 6 a parameter and token, causal attention, no recomputation.
    share_of_16_bit_peak : Band
        That rate over the chip's dense 16-bit peak: the MFU of a 16-bit run; above it in 8 or 4 bits.
    flops_per_token : float
        Model FLOPs of one token, forward and backward.
    chip, n_chips, precision, seq_len
        What was asked, with the context that was assumed where none was given.
    cases : tuple of str
        The published cases on this chip that the estimate leans on; empty when there are none.
    """

    chip: str
    n_chips: int
    precision: str
    seq_len: int
    flops_per_token: float
    tokens_per_second_per_chip: Band
    model_flops_per_second_per_chip: Band
    share_of_16_bit_peak: Band
    cases: tuple[str, ...]

    def __repr__(self) -> str:
        return (
            f"TrainingEstimate(chip={self.chip!r}, n_chips={self.n_chips}, "
            f"tokens_per_second_per_chip={self.tokens_per_second_per_chip!r}, "
            f"share_of_16_bit_peak={self.share_of_16_bit_peak!r}, cases={len(self.cases)})"
        )


# --- the formula part ------------------------------------------------------------------------------------


def layers_times_width(active_params_b: float) -> float:
    """Estimate L d of a transformer from its active parameters.

    A decoder holds about 12 L d^2 parameters and published ones are about 128 wide for each layer
    (Llama 3.1: 8B 4096/32, 70B 8192/80, 405B 16384/126), so d = (N 128/12)^(1/3). Used for attention
    only, which is a few per cent of the work at 4,096 tokens and over half of it at 131,072.

    Parameters
    ----------
    active_params_b : float
        Parameters active for one token, billions.

    Returns
    -------
    float
        Layers times width.

    Examples
    --------
    >>> round(layers_times_width(70.6) / (80 * 8192), 2)
    0.99
    """
    width = math.cbrt(active_params_b * 1e9 * 128 / 12)
    return width * width / 128


def flops_per_token(active_params_b: float, seq_len: int | None = None) -> float:
    """Count the model FLOPs that training spends on one token.

    6 N_a for the matrices (Kaplan et al. 2020) and 6 L d s for causal attention; recomputation is not
    counted (that would be HFU).

    Parameters
    ----------
    active_params_b : float
        Parameters active for one token, billions.
    seq_len : int, optional
        Context, tokens; 4,096 where unknown.

    Returns
    -------
    float
        FLOPs.

    Examples
    --------
    >>> f"{flops_per_token(70.6, 8192):.3g}"
    '4.55e+11'
    """
    context = ASSUMED_CONTEXT if seq_len is None else seq_len
    return 6e9 * active_params_b + 6 * layers_times_width(active_params_b) * context


def missing_peak(chip: chips.Chip, precision: str) -> str | None:
    """Name the first peak that an estimate in `precision` needs and the chip does not publish.

    Parameters
    ----------
    chip : chips.Chip
        The chip.
    precision : str
        One of `PRECISIONS`.

    Returns
    -------
    str or None
        "16-bit", "8-bit" or "fp4"; None where all that it needs is published.

    Examples
    --------
    >>> missing_peak(chips.get("tpu_v4"), "fp4")
    'fp4'
    """
    peaks = chip.peak_flops_per_second
    if not (peaks.get("bf16") or peaks.get("fp16")):
        return "16-bit"
    if precision in _NARROW and not (peaks.get("fp8") or peaks.get("int8")):
        return "8-bit"
    return "fp4" if precision == "fp4" and not peaks.get("fp4") else None


def _sixteen_bit_peak(chip: chips.Chip) -> float:
    peaks = chip.peak_flops_per_second
    return peaks.get("bf16") or peaks["fp16"]


def _eight_bit_speed_up(chip: chips.Chip) -> bool:
    """Whether the chip multiplies 8-bit numbers faster than 16-bit ones, in either 8-bit format."""
    peaks = chip.peak_flops_per_second
    return max(peaks.get("fp8") or 0.0, peaks.get("int8") or 0.0) > 1.2 * _sixteen_bit_peak(chip)


# --- the fitted part -------------------------------------------------------------------------------------

# The logarithm of (model FLOP/s over the 16-bit peak) is a sum of these terms, one for the chip, and, while
# fitting, one for the source (whose team and year tuned the code). Each has a normal prior, so a term
# that few cases speak about stays near its prior: partial pooling. Prior means and deviations were set
# before looking at single errors; the noise and the two pooling widths are those with the highest marginal
# likelihood on a coarse grid.
_TERMS: Mapping[str, tuple[float, float]] = {
    "base": (math.log(0.45), 1.0),
    "gpu": (0.0, 0.2),
    "experts": (0.0, 0.3),  # ln(total / active parameters)
    "eight_bit": (0.3, 0.3),  # published gains are 21 to 53 %, not 100 %
    "eight_bit_gpu": (0.0, 0.3),
    "four_bit": (0.0, 0.3),
    "attention": (0.0, 1.0),  # share of the FLOPs spent in attention
    "scale": (0.0, 0.03),  # ln(chips / 64)
}
_CHIP_DEVIATION, _PART_DEVIATION, _SOURCE_DEVIATION, _NOISE = 0.2, 0.2, 0.15, 0.16


@dataclass(frozen=True)
class Efficiency:
    """A fitted model: names of the columns, their posterior mean and covariance."""

    names: tuple[str, ...]
    mean: NDArray[np.float64]
    covariance: NDArray[np.float64]

    def predict(self, row: Mapping[str, float], chip: str) -> tuple[float, float]:
        """Return the mean and the standard deviation of ln(share of the 16-bit peak) in an unseen source."""
        here = {**row, f"chip {chip}": 1.0}
        column = np.array([here.get(name, 0.0) for name in self.names])
        variance = float(column @ self.covariance @ column) + _SOURCE_DEVIATION**2 + _NOISE**2
        if f"chip {chip}" not in self.names:
            variance += _CHIP_DEVIATION**2
        return float(column @ self.mean), math.sqrt(variance)


def _row(
    *, chip: str, params_b: float, active_params_b: float, seq_len: int | None, precision: str, n_chips: int
) -> dict[str, float]:
    """Compute the terms' values for one run; the only place that knows what a term means."""
    machine = chips.get(chip)
    gpu = {"gpu": 1.0, "tpu": 0.0}.get(machine.family, 0.5)
    narrow = precision in _NARROW and _eight_bit_speed_up(machine)
    total = flops_per_token(active_params_b, seq_len)
    return {
        "base": 1.0,
        "gpu": gpu,
        "experts": math.log(params_b / active_params_b),
        "eight_bit": float(narrow),
        "eight_bit_gpu": gpu * narrow,
        "four_bit": float(precision == "fp4"),
        "attention": 1 - 6e9 * active_params_b / total,
        "scale": math.log(n_chips / 64),
    }


def _case_row(case: TrainingCase) -> dict[str, float]:
    return _row(
        chip=case.chip,
        params_b=case.params_b,
        active_params_b=case.active_params_b,
        seq_len=case.seq_len,
        precision=case.precision,
        n_chips=case.n_chips,
    )


def _published(case: TrainingCase) -> float:
    return math.log(case.published_model_flops_per_second / _sixteen_bit_peak(chips.get(case.chip)))


def fit(cases: Iterable[TrainingCase]) -> Efficiency:
    """Fit the efficiency model on published cases by Bayesian linear regression.

    Parameters
    ----------
    cases : iterable of TrainingCase
        At least one.

    Returns
    -------
    Efficiency
        Terms and chips; what belongs to single sources is fitted beside them and left out, because a
        reader's own run is a new source.

    Raises
    ------
    ValueError
        When there is no case.

    Notes
    -----
    Posterior of a linear model with normal priors and noise: covariance (X'X/e^2 + P^-1)^-1
    (Gelman et al., Bayesian Data Analysis, 3rd edition, chapter 14).
    """
    rows = list(cases)
    if not rows:
        raise ValueError("fit got no cases; give it at least one TrainingCase.")
    chip_ids = sorted({case.chip for case in rows})
    parts = sorted({case.part for case in rows} - set(chip_ids))
    sources = sorted({case.source["id"] for case in rows})
    names = [*_TERMS, *(f"chip {c}" for c in chip_ids), *(f"part {p}" for p in parts)]
    design = np.zeros((len(rows), len(names) + len(sources)))
    for i, case in enumerate(rows):
        here = {
            **_case_row(case),
            f"chip {case.chip}": 1.0,
            f"part {case.part}": 1.0,
        }
        design[i, : len(names)] = [here.get(name, 0.0) for name in names]
        design[i, len(names) + sources.index(case.source["id"])] = 1.0
    prior_mean = np.array([*(m for m, _ in _TERMS.values()), *[0.0] * (design.shape[1] - len(_TERMS))])
    prior_deviation = np.array(
        [
            *(deviation for _, deviation in _TERMS.values()),
            *[_CHIP_DEVIATION] * len(chip_ids),
            *[_PART_DEVIATION] * len(parts),
            *[_SOURCE_DEVIATION] * len(sources),
        ]
    )
    published = np.array([_published(case) for case in rows])
    covariance = np.linalg.inv(design.T @ design / _NOISE**2 + np.diag(prior_deviation**-2.0))
    mean = covariance @ (design.T @ published / _NOISE**2 + prior_mean / prior_deviation**2)
    kept = len(names)
    return Efficiency(tuple(names), mean[:kept], covariance[:kept, :kept])


@dataclass(frozen=True)
class LeftOut:
    """One published case beside what the model says when the case's whole source is left out of the fit."""

    id: str
    source: str
    model: str
    chip: str
    published: float
    band: Band

    @property
    def ratio(self) -> float:
        """Published over predicted."""
        return self.published / self.band.value

    @property
    def inside(self) -> bool:
        """Whether the published value lies in the band."""
        return self.band.low <= self.published <= self.band.high


@dataclass(frozen=True)
class Errors:
    """How far off the model is on cases it has not seen: factors and fractions."""

    cases: int
    typical: float
    within_1_25: float
    within_1_5: float
    band_coverage: float

    def __repr__(self) -> str:
        return (
            f"Errors(cases={self.cases}, typical={self.typical:.3f}, within_1_25={self.within_1_25:.2f}, "
            f"within_1_5={self.within_1_5:.2f}, band_coverage={self.band_coverage:.2f})"
        )


def leave_out(cases: Iterable[TrainingCase], *, whole_sources: bool = True) -> tuple[LeftOut, ...]:
    """Predict each case from a fit that has seen neither it nor, by default, anything of its source.

    Parameters
    ----------
    cases : iterable of TrainingCase
        The public cases.
    whole_sources : bool
        Leave out the whole source (True) or the single case (False, which flatters).

    Returns
    -------
    tuple of LeftOut
        In the order given; model FLOP/s for one chip.
    """
    rows = list(cases)
    out = []
    for case in rows:
        rest = [row for row in rows if row.id != case.id and not (whole_sources and _same_source(row, case))]
        mean, deviation = fit(rest).predict(_case_row(case), case.chip)
        band = _band(mean, deviation) * _sixteen_bit_peak(chips.get(case.chip))
        published = case.published_model_flops_per_second
        out.append(LeftOut(case.id, case.source["id"], case.model, case.chip, published, band))
    return tuple(out)


def _same_source(one: TrainingCase, other: TrainingCase) -> bool:
    return one.source["id"] == other.source["id"]


def errors(left_out: Iterable[LeftOut]) -> Errors:
    """Summarise left-out cases; the typical error is the geometric mean of max(ratio, 1/ratio)."""
    rows = list(left_out)
    sizes = np.abs(np.log([row.ratio for row in rows]))
    return Errors(
        cases=len(rows),
        typical=float(np.exp(sizes.mean())),
        within_1_25=float((sizes <= math.log(1.25)).mean()),
        within_1_5=float((sizes <= math.log(1.5)).mean()),
        band_coverage=float(np.mean([row.inside for row in rows])),
    )


def _band(mean: float, deviation: float) -> Band:
    reach = _EIGHTY_PERCENT * deviation
    return Band(math.exp(mean - reach), math.exp(mean), math.exp(mean + reach))


# --- package data ----------------------------------------------------------------------------------------


@functools.cache
def training_cases() -> tuple[TrainingCase, ...]:
    """Return the public training cases the product ships, each with source, date and notes.

    Examples
    --------
    >>> len(training_cases()), training_cases()[0].chip
    (54, 'tpu_v4')
    """
    with resources.as_file(_data("training_cases.json")) as path:
        rows = read_json(path, CASES_FORM)["cases"]
    wanted = {field.name for field in fields(TrainingCase)}
    for row in rows:
        if set(row) != wanted:
            raise ValueError(
                f"Training case {row.get('id')!r} has other fields than expected: {set(row) ^ wanted}."
            )
        if row["tokens_per_second_per_chip"] is None and row["model_flops_per_second_per_chip"] is None:
            raise ValueError(
                f"Training case {row['id']!r} has no rate; give tokens/s or FLOP/s for one chip."
            )
    return tuple(TrainingCase(**row) for row in rows)


@functools.cache
def _fitted() -> Efficiency:
    data = _shipped()
    return Efficiency(
        tuple(data["names"]), np.array(data["mean"], dtype=float), np.array(data["covariance"], dtype=float)
    )


@functools.cache
def _shipped() -> dict[str, Any]:
    with resources.as_file(_data("efficiency.json")) as path:
        return read_json(path, EFFICIENCY_FORM)


@functools.cache
def left_out_rows() -> tuple[LeftOut, ...]:
    """Return what `leave_out` said of every public case when the shipped model was fitted.

    Returns
    -------
    tuple of LeftOut
        Model FLOP/s for one chip, as recorded in ``guide/data/efficiency.json``.

    Examples
    --------
    >>> rows = left_out_rows()
    >>> len(rows), sum(row.inside for row in rows)
    (54, 45)
    """
    return tuple(
        LeftOut(
            row["id"],
            row["source"],
            row["model"],
            row["chip"],
            row["published_model_flops_per_second"],
            Band(**row["predicted"]),
        )
        for row in _shipped()["left_out"]
    )


@functools.cache
def _cases_on(chip: str) -> tuple[str, ...]:
    return tuple(case.id for case in training_cases() if case.chip == chip and case.part == chip)


def _data(name: str) -> Any:
    return resources.files("pulsewarp.guide").joinpath("data", name)


def write_efficiency(path: str | os.PathLike[str]) -> Path:
    """Fit the shipped cases and write the numbers, with every left-out error, to `path`.

    This makes ``guide/data/efficiency.json``; a test holds the file to what this writes.

    Parameters
    ----------
    path : path
        Where to write.

    Returns
    -------
    Path
        The path written.
    """
    cases = training_cases()
    model = fit(cases)
    left = leave_out(cases)
    document = {
        "form": EFFICIENCY_FORM,
        "about": "ln(model FLOP/s over the dense 16-bit peak) as a sum of terms; see guide/efficiency.py. "
        "left_out: each public case predicted without anything of its own source.",
        "names": list(model.names),
        "mean": [_digits(v) for v in model.mean],
        "covariance": [[_digits(v) for v in row] for row in model.covariance],
        "errors_whole_sources_left_out": {
            name: _digits(value) for name, value in dataclasses.asdict(errors(left)).items()
        },
        "left_out": [
            {
                "id": row.id,
                "source": row.source,
                "model": row.model,
                "chip": row.chip,
                "published_model_flops_per_second": _digits(row.published),
                "predicted": {name: _digits(v) for name, v in row.band.to_dict().items()},
                "published_over_predicted": _digits(row.ratio),
                "inside_band": row.inside,
            }
            for row in left
        ],
    }
    text = ",\n ".join(f"{json.dumps(key)}: {_lines(value)}" for key, value in document.items())
    return write_text_atomically(path, f"{{\n {text}\n}}\n")


def _lines(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict | list):
        return "[\n  " + ",\n  ".join(json.dumps(item) for item in value) + "\n ]"
    return json.dumps(value)


def _digits(value: float) -> float:
    """Seven digits: more than the data knows, few enough to be the same with every linear algebra library."""
    return float(f"{value:.7g}")


# --- the public call -------------------------------------------------------------------------------------


@names_keywords
def estimate_training(
    *,
    params_b: float,
    chip: str,
    n_chips: int = 1,
    model: str | None = None,
    active_params_b: float | None = None,
    seq_len: int | None = None,
    global_batch: int | None = None,
    precision: str = "bf16",
) -> TrainingEstimate:
    """Estimate how fast a transformer trains on a chip, from published runs.

    Modelled: model FLOPs a token (6 N_a + 6 L d s), the chip's dense 16-bit peak, and a share of that peak
    fitted on 54 published runs by chip, dense or mixture of experts, precision, share of attention and
    scale, with partial pooling. Not modelled: the parallelism chosen, the interconnect, the input
    pipeline, failures, and `global_batch`, which the published cases do not separate.

    Parameters
    ----------
    params_b : float
        All parameters, billions.
    chip : str
        Catalogue id, such as "tpu_v5p" or "h100_sxm".
    n_chips : int
        Chips that train one model together.
    model : str, optional
        A name, for you; used for nothing.
    active_params_b : float, optional
        Parameters active for one token, billions; all of them where not given.
    seq_len : int, optional
        Context, tokens; 4,096 where unknown.
    global_batch : int, optional
        Sequences a step; checked, not used.
    precision : str
        "bf16", "fp16", "mixed" (all 16 bit), "fp8", "int8" or "fp4".

    Returns
    -------
    TrainingEstimate
        With 80 % bands.

    Raises
    ------
    ValueError
        For sizes that are not positive, more active than total parameters, an unknown chip or precision,
        or 8-bit training on a chip without 8-bit peaks.

    Notes
    -----
    Leaving whole sources out, the typical error and the share of cases inside the band stand in
    ``guide/data/efficiency.json`` beside every single case.

    Examples
    --------
    >>> estimate = estimate_training(params_b=70.6, seq_len=8192, chip="tpu_v5p", n_chips=512)
    >>> estimate.tokens_per_second_per_chip.low < 650 < estimate.tokens_per_second_per_chip.high
    True
    """
    total = positive_number("params_b", params_b)
    active = total if active_params_b is None else positive_number("active_params_b", active_params_b)
    if active > total:
        raise ValueError(
            f"active_params_b is {active:g} but params_b is {total:g}: no more can be active than there are."
        )
    count = whole_number("n_chips", n_chips)
    context = ASSUMED_CONTEXT if seq_len is None else whole_number("seq_len", seq_len)
    if global_batch is not None:
        whole_number("global_batch", global_batch)
    choice("precision", precision, PRECISIONS)
    if model is not None and not isinstance(model, str):
        raise ValueError(f"model is {model!r}, but must be a name.")
    return estimate_checked(total, active, context, precision, chips.get(chip).id, count)


@functools.lru_cache(maxsize=4096)
def estimate_checked(
    total: float, active: float, context: int, precision: str, chip: str, n_chips: int
) -> TrainingEstimate:
    """Do what `estimate_training` does with arguments that were checked before."""
    machine = chips.get(chip)
    missing = missing_peak(machine, precision)
    if missing is not None:
        remedy = {"8-bit": "use precision='bf16' or another", "fp4": "use precision='fp8' or another"}
        raise ValueError(
            f"{machine.name} has no published {missing} peak, so {precision} training cannot be estimated; "
            f"{remedy.get(missing, 'choose another')} chip."
        )
    row = _row(
        chip=chip,
        params_b=total,
        active_params_b=active,
        seq_len=context,
        precision=precision,
        n_chips=n_chips,
    )
    share = _band(*_fitted().predict(row, chip))
    per_token = flops_per_token(active, context)
    rate = share * _sixteen_bit_peak(machine)
    return TrainingEstimate(
        chip=chip,
        n_chips=n_chips,
        precision=precision,
        seq_len=context,
        flops_per_token=per_token,
        tokens_per_second_per_chip=rate / per_token,
        model_flops_per_second_per_chip=rate,
        share_of_16_bit_peak=share,
        cases=_cases_on(chip),
    )
