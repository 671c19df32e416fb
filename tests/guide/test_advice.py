"""Verdicts: the public scenarios, the laws they must obey, and planted faults."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsewarp import chips, guide
from pulsewarp.guide import Workload, advice
from pulsewarp.guide.memory import smallest_count

TOWARDS_GPU = {"tpu": 0, "either": 1, "gpu": 2}
few = settings(max_examples=25)


def trainings() -> st.SearchStrategy[Workload]:
    """Workloads whose cost is known, so that prices can matter."""
    return st.builds(
        lambda **fields: Workload(domain="llm", **fields),
        phase=st.sampled_from(["train", "finetune", "train_and_inference"]),
        params_b=st.floats(0.5, 500),
        chips=st.integers(1, 2048),
        framework=st.sampled_from(["jax", "pytorch", "several", "any"]),
        precision=st.sampled_from(["bf16", "fp8", "any"]),
        location=st.sampled_from(["any", "gcp_ok", "gcp_only", "multi_cloud", "donated_tpu"]),
        shapes=st.sampled_from(["static", "dynamic", "any"]),
    )


def verdict(workload: Workload, prices: tuple[chips.Price, ...] | None = None) -> str:
    """Decide without flips and report, in which a hundred further questions are asked."""
    return advice._decide(workload, prices).verdict


@functools.cache
def dearer(family: str, factor: float) -> tuple[chips.Price, ...]:
    return tuple(
        dataclasses.replace(row, usd_per_chip_hour=row.usd_per_chip_hour * factor)
        if chips.get(row.chip_id).family == family
        else row
        for row in chips.prices()
    )


# --- laws --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["gpu", "tpu"])
@few
@given(trainings(), st.sampled_from([1.2, 2.0, 5.0, 20.0]))
def test_dearer_chips_never_turn_a_verdict_towards_themselves(
    family: str, workload: Workload, factor: float
) -> None:
    now, then = (verdict(workload, dearer(family, f)) for f in (1.0, factor))
    if now != "neither":
        nearer = TOWARDS_GPU[then] - TOWARDS_GPU[now]
        assert nearer <= 0 if family == "gpu" else nearer >= 0


def test_a_verdict_turned_the_wrong_way_by_a_price_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = Workload(domain="llm", phase="train", params_b=70, framework="any")
    dear = {family: verdict(workload, dearer(family, 20.0)) for family in ("gpu", "tpu")}
    assert dear == {"gpu": "tpu", "tpu": "gpu"}
    sound = advice._cheaper
    monkeypatch.setattr(
        advice, "_cheaper", lambda comparison: {"gpu": "tpu", "tpu": "gpu", None: None}[sound(comparison)]
    )
    assert {family: verdict(workload, dearer(family, 20.0)) for family in ("gpu", "tpu")} != dear


@given(st.floats(1, 1e15), st.floats(1e6, 1e12), st.floats(1, 100))
def test_more_memory_never_needs_more_chips(needed: float, memory: float, factor: float) -> None:
    assert smallest_count(needed, memory * factor) <= smallest_count(needed, memory)
    assert smallest_count(needed * factor, memory) >= smallest_count(needed, memory)


@few
@given(trainings(), st.sampled_from(["h100_sxm", "tpu_v5p", "b200"]), st.floats(0.1, 10))
def test_a_price_changes_only_what_depends_on_it(workload: Workload, chip: str, factor: float) -> None:
    changed = tuple(
        dataclasses.replace(row, usd_per_chip_hour=row.usd_per_chip_hour * factor)
        if row.chip_id == chip
        else row
        for row in chips.prices()
    )
    before, after = guide.compare(workload), guide.compare(workload, changed)
    for old, new in zip(before.estimates, after.estimates, strict=True):
        if old.chip_id != chip:
            assert old == new
        assert (old.training, old.memory, old.days) == (new.training, new.memory, new.days)
        assert old.kwh_per_billion_tokens == new.kwh_per_billion_tokens
    assert advice._decide(workload, changed).findings == advice._decide(workload, None).findings


@few
@given(trainings())
def test_costs_are_price_times_time(workload: Workload) -> None:
    for estimate in guide.compare(workload).estimates:
        if estimate.usd_per_billion_tokens is None:
            continue
        assert estimate.training is not None and estimate.usd_per_chip_hour is not None
        hours = 1e9 / estimate.training.tokens_per_second_per_chip.value / 3600 / 0.9  # the default goodput
        assert estimate.usd_per_billion_tokens.value == pytest.approx(
            hours * estimate.usd_per_chip_hour.value
        )
        low = 1e9 / estimate.training.tokens_per_second_per_chip.high / 3600 / 0.9
        assert estimate.usd_per_billion_tokens.low == pytest.approx(low * estimate.usd_per_chip_hour.low)


def check_flips(workload: Workload) -> int:
    """Every word flip, asked again, gives the verdict it names; no nearer word of an ordered field does."""
    result = guide.advise(workload)
    words = [flip for flip in result.flips if flip.field in guide.VOCABULARY]
    for flip in words:
        assert flip.verdict != result.verdict
        assert verdict(workload.change(**{flip.field: flip.to})) == flip.verdict
    return len(words)


def test_flips_hold_when_asked_again(scenarios: list[dict[str, Any]]) -> None:
    flips = sum(check_flips(Workload.from_dict(s["workload"])) for s in scenarios[::3])
    assert flips > 50


def check_word_flips(workload: Workload) -> None:
    """Ask with every word of every field, and require each other verdict that one word leads to as a flip."""
    result = guide.advise(workload)
    for field, words in guide.VOCABULARY.items():
        reachable = {verdict(workload.change(**{field: word})) for word in words if word != "any"}
        listed = {flip.verdict for flip in result.flips if flip.field == field}
        assert listed == reachable - {result.verdict}, field


JAX_ON_GCP = Workload(
    phase="train", framework="jax", shapes="static", non_matrix_share="low", location="gcp_ok"
)


def test_every_verdict_one_word_away_is_listed() -> None:
    check_word_flips(JAX_ON_GCP)


def test_a_missing_flip_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = advice._word_flips

    def all_but_the_first(*asked: Any) -> Iterator[guide.Flip]:
        return itertools.islice(found(*asked), 1, None)

    monkeypatch.setattr(advice, "_word_flips", all_but_the_first)
    with pytest.raises(AssertionError):
        check_word_flips(JAX_ON_GCP)


def test_number_flips_hold_when_asked_again() -> None:
    workload = Workload(
        domain="llm",
        phase="train",
        params_b=70,
        framework="jax",
        gpu_chip="h100_sxm",
        usd_per_gpu_hour=9,
        tpu_chip="tpu_v5p",
        usd_per_tpu_hour=2.5,
    )
    result = guide.advise(workload)
    assert result.verdict == "tpu"
    quotes = {flip.field: flip for flip in result.flips if flip.field.startswith("usd_per")}
    assert set(quotes) == {"usd_per_gpu_hour", "usd_per_tpu_hour"}
    for flip in quotes.values():
        edge = float(flip.to.split()[-1])
        inside = 1.02 if flip.to.startswith("at most") else 1 / 1.02
        beyond = 0.99 if flip.to.startswith("at most") else 1.01
        assert guide.advise(workload.change(**{flip.field: edge * beyond})).verdict == flip.verdict
        assert guide.advise(workload.change(**{flip.field: edge * inside})).verdict == "tpu"


def test_the_price_line_breaks_where_the_band_leaves_one() -> None:
    workload = Workload(domain="llm", phase="train", params_b=70, chips=512, location="multi_cloud")
    result = guide.advise(workload)
    assert result.verdict == "either" and result.cost_ratio is not None
    for factor, verdict in ((result.cost_ratio.high * 1.01, "tpu"), (result.cost_ratio.low * 0.99, "gpu")):
        assert guide.advise(workload, prices=dearer("gpu", factor)).verdict == verdict
    line = [flip for flip in result.flips if flip.field == "every GPU price"]
    assert {flip.verdict for flip in line} == {"tpu", "gpu"}


def test_the_port_is_paid_before_comparing() -> None:
    quotes = {"gpu_chip": "h100_sxm", "usd_per_gpu_hour": 9, "tpu_chip": "tpu_v5p", "usd_per_tpu_hour": 2.5}
    workload = Workload(
        domain="llm",
        phase="train",
        params_b=70,
        framework="pytorch",
        tokens_b=100,
        **{**quotes, "port_weeks": 1, "usd_per_engineer_week": 5000},
    )
    assert guide.advise(workload).verdict == "tpu"
    dear = guide.advise(workload.change(port_weeks=500))
    assert dear.verdict == "gpu"
    assert dear.cost_ratio is not None
    without = guide.compare(workload.change(port_weeks=0))
    assert without.tpu is not None and without.gpu is not None
    assert dear.cost_ratio.value == pytest.approx((without.tpu.value + 2_500_000) / without.gpu.value)


def test_power_that_is_not_published_stays_unknown() -> None:
    workload = Workload(domain="llm", phase="train", params_b=8, chips=256)
    for estimate in guide.advise(workload).estimates:
        published = chips.get(estimate.chip_id).tdp_watts is not None
        assert (estimate.kwh_per_billion_tokens is not None) == published
        assert not (estimate.family == "tpu" and published)


def test_decode_reads_every_weight_once() -> None:
    workload = Workload(phase="inference", params_b=70, precision="bf16", chips=8, gpu_chip="h100_sxm")
    h100 = next(e for e in guide.advise(workload).estimates if e.chip_id == "h100_sxm")
    assert h100.decode_floor_seconds == pytest.approx(140e9 / (8 * 3.35e12), rel=1e-3)


@pytest.mark.wrong_type
def test_advise_wants_a_workload() -> None:
    with pytest.raises(TypeError, match="must be a Workload; write Workload"):
        guide.advise({"phase": "train"})  # type: ignore[arg-type]


def test_every_number_of_an_estimate_traces_to_prices_cases_and_the_catalogue() -> None:
    case_ids = {case.id for case in guide.efficiency.training_cases()}
    for estimate in guide.advise(Workload(domain="llm", phase="train", params_b=70, chips=512)).estimates:
        assert estimate.training is not None
        assert set(estimate.training.cases) <= case_ids
        if estimate.usd_per_chip_hour is not None:
            seen = [row.usd_per_chip_hour for row in estimate.price_rows]
            assert (estimate.usd_per_chip_hour.low, estimate.usd_per_chip_hour.high) == (min(seen), max(seen))
            assert set(estimate.price_rows) <= set(chips.prices(estimate.chip_id))
