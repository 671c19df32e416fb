"""Training estimates against the public cases, each predicted without anything of its own source."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsewarp import chips, guide
from pulsewarp.guide import efficiency

CASES = efficiency.training_cases()


def check_errors(cases: tuple[efficiency.TrainingCase, ...]) -> None:
    """The bar for cases of unseen sources: a typical factor, and a band that means what it says.

    1.35 would do; 1.3 also notices a model that forgot mixtures, precision and context (1.32).
    """
    errors = efficiency.errors(efficiency.leave_out(cases))
    print(errors)
    assert errors.typical <= 1.3
    assert 0.65 <= errors.band_coverage <= 0.95


def test_unseen_sources_are_predicted_within_the_bar() -> None:
    check_errors(CASES)


def test_single_cases_left_out_are_nearer_than_whole_sources() -> None:
    assert efficiency.errors(efficiency.leave_out(CASES, whole_sources=False)).typical <= 1.25


def test_the_recorded_errors_are_those_of_the_model() -> None:
    recorded = _shipped()["errors_whole_sources_left_out"]
    now = efficiency.errors(efficiency.leave_out(CASES))
    assert recorded["cases"] == now.cases == len(CASES)
    assert recorded["typical"] == pytest.approx(now.typical, rel=1e-5)
    assert recorded["band_coverage"] == pytest.approx(now.band_coverage)


def test_the_shipped_numbers_are_what_the_fit_writes(tmp_path: Path) -> None:
    again = json.loads(efficiency.write_efficiency(tmp_path / "efficiency.json").read_text(encoding="utf-8"))
    shipped = _shipped()
    assert again["names"] == shipped["names"]
    assert again["mean"] == pytest.approx(shipped["mean"], rel=1e-4, abs=1e-6)
    for ours, theirs in zip(again["covariance"], shipped["covariance"], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-7)
    for ours, theirs in zip(again["left_out"], shipped["left_out"], strict=True):
        assert ours["id"] == theirs["id"]
        assert ours["inside_band"] == theirs["inside_band"]
        assert ours["published_over_predicted"] == pytest.approx(theirs["published_over_predicted"], rel=1e-4)


def _shipped() -> dict[str, Any]:
    path = Path(efficiency.__file__).with_name("data") / "efficiency.json"
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return data


def test_the_shipped_cases_are_the_public_ones(public_cases: list[dict[str, Any]]) -> None:
    assert [case.id for case in CASES] == [row["id"] for row in public_cases]
    for case, row in zip(CASES, public_cases, strict=True):
        for name in set(row) - {"source", "date"}:
            assert getattr(case, name) == row[name], (case.id, name)
        assert (case.source["address"], case.source["date"]) == (row["source"], row["date"])


def test_every_public_case_can_be_asked_for(public_cases: list[dict[str, Any]]) -> None:
    """The call form that checks rely on, for each public row as it stands."""
    asked = (
        *("model", "params_b", "active_params_b", "seq_len", "global_batch"),
        *("precision", "chip", "n_chips"),
    )
    ratios = []
    for row in public_cases:
        estimate = guide.estimate_training(**{name: row[name] for name in asked})
        if row["tokens_per_second_per_chip"] is not None:
            published, band = row["tokens_per_second_per_chip"], estimate.tokens_per_second_per_chip
        else:
            published, band = row["model_flops_per_second_per_chip"], estimate.model_flops_per_second_per_chip
        assert band.low < band.value < band.high
        ratios.append(published / band.value)
    typical = math.exp(sum(abs(math.log(r)) for r in ratios) / len(ratios))
    assert typical <= 1.2  # seen cases: better than unseen ones, or the fit is broken


sizes = st.floats(0.1, 1000)


@given(sizes, sizes, st.integers(1, 10_000), st.sampled_from(["tpu_v5e", "tpu_v5p", "h100_sxm", "b200"]))
def test_tokens_times_flops_a_token_is_the_rate(total: float, share: float, n: int, chip: str) -> None:
    active = total * min(1.0, share / 1000)
    estimate = guide.estimate_training(params_b=total, active_params_b=active, chip=chip, n_chips=n)
    for edge in ("low", "value", "high"):
        tokens = getattr(estimate.tokens_per_second_per_chip, edge)
        rate = getattr(estimate.model_flops_per_second_per_chip, edge)
        assert tokens * estimate.flops_per_token == pytest.approx(rate)


@given(sizes, st.integers(1, 1_000_000))
def test_longer_contexts_never_cost_fewer_flops(params: float, context: int) -> None:
    assert efficiency.flops_per_token(params, context) > 6e9 * params
    assert efficiency.flops_per_token(params, context + 1) > efficiency.flops_per_token(params, context)


@pytest.mark.parametrize(
    ("active", "layers", "width"),
    [(8.03, 32, 4096), (70.6, 80, 8192), (405.9, 126, 16384), (175.0, 96, 12288)],
)
def test_layers_times_width_is_near_that_of_real_models(active: float, layers: int, width: int) -> None:
    assert efficiency.layers_times_width(active) == pytest.approx(layers * width, rel=0.2)


def test_a_chip_without_published_runs_has_a_wider_band() -> None:
    known = guide.estimate_training(params_b=70, chip="h100_sxm", n_chips=64)
    unknown = guide.estimate_training(params_b=70, chip="h200_sxm", n_chips=64)
    spread = [e.share_of_16_bit_peak.high / e.share_of_16_bit_peak.low for e in (known, unknown)]
    assert not unknown.cases
    assert len(known.cases) > 5
    assert spread[1] > spread[0]


def test_eight_bits_help_but_do_not_double() -> None:
    for chip in ("tpu_v7", "h100_sxm", "tpu_v6e"):
        wide, narrow = (
            guide.estimate_training(params_b=70, chip=chip, n_chips=256, precision=precision)
            for precision in ("bf16", "fp8")
        )
        gain = narrow.tokens_per_second_per_chip.value / wide.tokens_per_second_per_chip.value
        assert 1.1 < gain < 1.6


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"params_b": 0}, "params_b is 0, but must be a finite number above 0"),
        ({"params_b": 7, "active_params_b": 8}, "active_params_b is 8 but params_b is 7"),
        ({"params_b": 7, "n_chips": 0}, "n_chips is 0, but must be a whole number of at least 1"),
        ({"params_b": 7, "seq_len": -1}, "seq_len is -1"),
        ({"params_b": 7, "chip": "h100"}, "Did you mean"),
        ({"params_b": 7, "precision": "fp64"}, "Unknown precision 'fp64'; use one of bf16"),
        ({"params_b": 7, "precision": "fp8", "chip": "v100_sxm2_16"}, "no published 8-bit peak"),
        ({"params_b": 7, "precision": "fp4", "chip": "h100_sxm"}, "no published fp4 peak"),
        ({"params_b": 7, "chip": "tpu_v1"}, "no published 16-bit peak"),
    ],
)
def test_bad_input_gets_one_sentence(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        guide.estimate_training(**{"chip": "tpu_v5p", **fields})


def test_an_empty_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="fit got no cases"):
        efficiency.fit([])


# --- planted faults: each must turn the check above red ----------------------------------------------------


def _half_band(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(efficiency, "_EIGHTY_PERCENT", 0.5)


def _endless_band(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(efficiency, "_EIGHTY_PERCENT", 5.0)


def _doubled(monkeypatch: pytest.MonkeyPatch) -> None:
    original = efficiency.Efficiency.predict

    def predict(self: efficiency.Efficiency, row: Any, chip: str) -> tuple[float, float]:
        mean, deviation = original(self, row, chip)
        return mean + math.log(2), deviation

    monkeypatch.setattr(efficiency.Efficiency, "predict", predict)


def _forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    original = efficiency._row

    def row(**fields: Any) -> dict[str, float]:
        return {
            **original(**fields),
            "experts": 0.0,
            "attention": 0.0,
            "eight_bit": 0.0,
            "eight_bit_gpu": 0.0,
        }

    monkeypatch.setattr(efficiency, "_row", row)


@pytest.mark.parametrize("fault", [_half_band, _endless_band, _doubled, _forgetful])
def test_planted_faults_turn_the_bar_red(
    fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    with pytest.raises(AssertionError):
        check_errors(CASES)


def test_a_case_of_a_chip_the_catalogue_lacks_is_refused() -> None:
    assert {case.chip for case in CASES} <= {chip.id for chip in chips.catalogue()}
