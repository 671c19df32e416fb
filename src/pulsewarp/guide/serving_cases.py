"""The published serving results the guide is fitted on, the fit, and how far off it is on unseen sources."""

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

from pulsewarp import chips
from pulsewarp._files import read_json, write_text_atomically
from pulsewarp.guide import models
from pulsewarp.guide.band import Band
from pulsewarp.guide.efficiency import LeftOut, errors
from pulsewarp.guide.models import ModelShape
from pulsewarp.guide.serving import (
    MOST_SEQUENCES,
    NOISE,
    SERVING_FORM,
    Factors,
    Machine,
    Parts,
    ServingModel,
    Work,
    decode_work,
    machine_for,
    most_sequences,
    prefill_work,
    prior,
    terms_of,
    units,
)

CASES_FORM = "pulsewarp-serving-cases/1"
KINDS = ("tokens per second", "samples per second", "seconds per token", "prefill MFU")


@dataclass(frozen=True)
class ServingCase:
    """One published serving result with the conditions it was run under.

    Attributes
    ----------
    id, model, chip : str
        Of the case, of the model's card, of the chip in the catalogue.
    n_chips : int
        Chips that the value speaks of.
    one_instance : bool
        Whether all of them share one copy of the model; False where the source leaves it open, and then
        the split into copies that serves fastest is taken.
    precision, kv_precision : str
        Of weights and KV cache.
    batch : int or None
        Sequences at once; None for "at maximum load": as many as fit.
    prompt_len, output_len : int
        Tokens of the mean prompt and of the mean answer.
    beams : int
        Sequences that are searched together for one answer.
    counts_prompts : bool
        Whether the time holds the reading of prompts too.
    value, kind : float, str
        As published, for all `n_chips` together, in one of `KINDS`.
    fitted : bool
        False for what the model leaves out (then it is only predicted); `remark` says why.
    source : mapping
        id, title, address and date.
    notes : str
        Traps and conditions, and where each condition was read or that it is assumed.
    remark : str
        Why the case is not fitted, or why it is missed; empty otherwise.
    """

    id: str
    model: str
    chip: str
    n_chips: int
    one_instance: bool
    precision: str
    kv_precision: str
    batch: int | None
    prompt_len: int
    output_len: int
    beams: int
    counts_prompts: bool
    value: float
    kind: str
    fitted: bool
    source: Mapping[str, str]
    notes: str
    remark: str

    @property
    def shape(self) -> ModelShape:
        """The model's shape, from its card."""
        return models.card(self.model)

    @property
    def mixture(self) -> float:
        """Total over active parameters."""
        return self.shape.params_b / self.shape.active_params_b

    @property
    def published(self) -> float:
        """The published value as tokens per second for one chip: of answers, or of prompts in a prefill."""
        if self.kind == "tokens per second":
            return self.value / self.n_chips
        if self.kind == "samples per second":
            return self.value * self.output_len / self.n_chips
        if self.kind == "seconds per token":
            assert self.batch is not None
            return self.batch / self.value / self.n_chips
        peak = chips.get(self.chip).peak(self.precision)
        return self.value * peak / (2e9 * self.shape.active_params_b)


@dataclass(frozen=True)
class _Split:
    """The work of one token of an answer for one split into copies, and how many chip-shares of it count."""

    step: Work
    of_step: float
    prefill: Work
    of_prefill: float

    def chip_seconds(self, factors: Factors) -> Parts:
        nothing = Parts(0.0, 0.0, 0.0, 0.0, 0.0)
        step = nothing.plus(factors.parts(self.step), self.of_step)
        return step.plus(factors.parts(self.prefill), self.of_prefill)


def _splits(case: ServingCase) -> tuple[_Split, ...]:
    """Return the splits into copies that the case may have used; one where the source names it."""
    counts = [case.n_chips]
    if not case.one_instance:
        counts = [n for n in range(1, case.n_chips + 1) if case.n_chips % n == 0]
    found = tuple(split for n in counts if (split := _split(case, n)) is not None)
    if not found:
        raise ValueError(
            f"Serving case {case.id!r} does not fit: {case.model} in {case.n_chips} x {case.chip}."
        )
    return found


def _split(case: ServingCase, n: int) -> _Split | None:
    machine = machine_for(chips.get(case.chip), n, case.precision, case.kv_precision)
    if machine is None:
        raise ValueError(f"Serving case {case.id!r}: the catalogue does not know enough of {case.chip}.")
    of = units(case.shape, machine)
    prefill = prefill_work(of, case.prompt_len)
    if case.kind == "prefill MFU":
        return _Split(Work(), 0.0, prefill, n / case.prompt_len)
    batch = case.batch if case.batch is not None else _load(case, machine)
    if batch < 1:
        return None
    elements = case.shape.kv_elements(case.prompt_len + case.output_len // 2)
    assert elements is not None  # a test asks for every case
    step = decode_work(case.shape, of, batch, elements)
    return _Split(step, n * case.beams / batch, prefill, n / case.output_len if case.counts_prompts else 0.0)


def _fastest(splits: Iterable[_Split], factors: Factors) -> Parts:
    """Return the chip-seconds of one token by part, for the fastest split into copies."""
    return min((split.chip_seconds(factors) for split in splits), key=sum)


def _load(case: ServingCase, machine: Machine) -> int:
    """Sequences in flight at maximum load: those that fit half-way through their answers."""
    fitting = most_sequences(case.shape, machine, case.prompt_len + case.output_len // 2)
    return min(MOST_SEQUENCES, fitting)


@functools.cache
def serving_cases() -> tuple[ServingCase, ...]:
    """Return the public serving cases the product ships, each with source, date and notes."""
    with resources.as_file(resources.files("pulsewarp.guide").joinpath("data", "serving_cases.json")) as path:
        rows = read_json(path, CASES_FORM)["cases"]
    wanted = {field.name for field in fields(ServingCase)}
    for row in rows:
        if set(row) != wanted:
            raise ValueError(
                f"Serving case {row.get('id')!r} has other fields than expected: {set(row) ^ wanted}."
            )
    return tuple(ServingCase(**row) for row in rows)


def fit(cases: Iterable[ServingCase], *, rounds: int = 60) -> ServingModel:
    """Fit the factors on published cases: the most probable terms, and their covariance around them.

    Parameters
    ----------
    cases : iterable of ServingCase
        Those with ``fitted`` set count.
    rounds : int
        Half-steps of the iteration at most.

    Returns
    -------
    ServingModel
        Without the sources' own deviations, because a reader's server is a new source.

    Notes
    -----
    ln(rate) is a sum of exponentials in the terms, so the posterior is found by Gauss-Newton steps, each a
    Bayesian linear regression around the present terms, and approximated by a normal distribution there
    (Gelman et al., Bayesian Data Analysis, 3rd edition, chapter 4).
    """
    rows = [case for case in cases if case.fitted]
    splits = [_splits(case) for case in rows]
    terms = [terms_of(chips.get(case.chip), case.mixture, case.precision) for case in rows]
    kept = sorted({name for row in terms for name in row})
    sources = sorted({f"source {case.source['id']}" for case in rows})
    names = [*kept, *sources]
    priors = np.array([prior(name) for name in names]).reshape(len(names), 2)
    precision = np.diag(priors[:, 1] ** -2.0)
    mean, covariance = priors[:, 0].copy(), np.linalg.inv(precision)
    for _ in range(rounds if rows else 0):
        model = ServingModel(tuple(kept), mean[: len(kept)], covariance[: len(kept), : len(kept)])
        design, missing = np.zeros((len(rows), len(names))), np.zeros(len(rows))
        for i, case in enumerate(rows):
            factors = model.factors(chips.get(case.chip), case.mixture, case.precision)
            parts = _fastest(splits[i], factors)
            seconds = sum(parts)
            source = names.index(f"source {case.source['id']}")
            for name, column in terms[i].items():
                design[i, names.index(name)] = float(column @ np.array(parts)) / seconds
            design[i, source] = 1.0
            missing[i] = -math.log(case.published * seconds) - mean[source]
        covariance = np.linalg.inv(design.T @ design / NOISE**2 + precision)
        target = covariance @ (design.T @ (missing + design @ mean) / NOISE**2 + precision @ priors[:, 0])
        step, mean = target - mean, mean + 0.5 * (target - mean)
        if np.abs(step).max() < 1e-7:
            break
    return ServingModel(tuple(kept), mean[: len(kept)], covariance[: len(kept), : len(kept)])


def leave_out(cases: Iterable[ServingCase]) -> tuple[LeftOut, ...]:
    """Predict each case from a fit that has seen nothing of its source.

    Parameters
    ----------
    cases : iterable of ServingCase
        The public cases.

    Returns
    -------
    tuple of LeftOut
        In the order given; tokens per second for one chip.
    """
    rows = list(cases)
    without = {
        source: fit(row for row in rows if row.source["id"] != source)
        for source in {row.source["id"] for row in rows}
    }
    return tuple(predict(case, without[case.source["id"]]) for case in rows)


def predict(case: ServingCase, model: ServingModel) -> LeftOut:
    """Return a case beside what `model` says of it."""
    factors = model.factors(chips.get(case.chip), case.mixture, case.precision)
    band = factors.band(_fastest(_splits(case), factors))
    rate = Band(1 / band.high, 1 / band.value, 1 / band.low)
    return LeftOut(case.id, case.source["id"], case.model, case.chip, case.published, rate)


def write_serving(path: str | os.PathLike[str]) -> Path:
    """Fit the shipped cases and write the numbers, with every left-out error, to `path`.

    This makes ``guide/data/serving.json``; a test holds the file to what this writes.

    Parameters
    ----------
    path : path
        Where to write.

    Returns
    -------
    Path
        The path written.
    """
    cases = serving_cases()
    model, left = fit(cases), leave_out(cases)
    document = {
        "form": SERVING_FORM,
        "about": "Logarithms of five factors over the roofline as sums of terms; see guide/serving.py. "
        "left_out: each public case predicted without anything of its own source, in answer tokens a second "
        "for one chip (prompt tokens for a prefill). errors_whole_sources_left_out: of the fitted cases.",
        "names": list(model.names),
        "mean": [_digits(v) for v in model.mean],
        "covariance": [[_digits(v) for v in row] for row in model.covariance],
        "errors_whole_sources_left_out": {
            name: _digits(value)
            for name, value in dataclasses.asdict(
                errors(row for row, case in zip(left, cases, strict=True) if case.fitted)
            ).items()
        },
        "left_out": [
            {
                "id": row.id,
                "source": row.source,
                "model": row.model,
                "chip": row.chip,
                "fitted": case.fitted,
                "published_tokens_per_second_per_chip": _digits(row.published),
                "predicted": {name: _digits(v) for name, v in row.band.to_dict().items()},
                "published_over_predicted": _digits(row.ratio),
                "inside_band": row.inside,
                "why_missed": "" if row.inside else case.remark,
            }
            for row, case in zip(left, cases, strict=True)
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
