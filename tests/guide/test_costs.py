"""Costs: inputs with their origin, serving in US dollars, own runs, the price line; faults planted."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pulsewarp import bench, chips, guide
from pulsewarp.guide import (
    Band,
    OwnRun,
    Workload,
    break_even,
    costs,
    inputs,
    measured,
    models,
    serving,
    slices,
)
from pulsewarp.matmul import Matmul

TRAIN: dict[str, Any] = {"domain": "llm", "phase": "train", "params_b": 70.0, "chips": 512, "tokens_b": 100.0}
QUOTES = {"gpu_chip": "h100_sxm", "usd_per_gpu_hour": 9.0, "tpu_chip": "tpu_v5p", "usd_per_tpu_hour": 2.5}
SERVE: dict[str, Any] = {"phase": "inference", "model": "llama-3.1-70b", "seq_len": 2048, "output_len": 512}


def of(comparison: guide.Comparison, chip_id: str) -> guide.ChipEstimate:
    return next(e for e in comparison.estimates if e.chip_id == chip_id)


# --- a whole run by hand -----------------------------------------------------------------------------------


def check_a_run_by_hand() -> None:
    """Port, host, discount, goodput and moving data, each a number of its own, against arithmetic by hand."""
    fields = {
        **TRAIN,
        **QUOTES,
        "goodput": 0.8,
        "host_usd_per_chip_hour": 0.5,
        "port_weeks": 10.0,
        "usd_per_engineer_week": 4000.0,
        "egress_tb": 2.0,
        "usd_per_egress_gb": 0.1,
    }
    comparison = guide.compare(Workload(**fields))
    totals = {}
    for chip, price in (("tpu_v5p", 3.0), ("h100_sxm", 9.5)):
        estimate = of(comparison, chip)
        assert estimate.training is not None
        hours = 100e9 / estimate.training.tokens_per_second_per_chip.value / 3600 / 0.8
        totals[chip] = hours * price
        assert estimate.days is not None and estimate.days.value == pytest.approx(hours / 512 / 24)
    once = 10 * 4000 + 2000 * 0.1
    assert comparison.once.value == pytest.approx(once)
    assert comparison.once.high == pytest.approx(2 * once)  # leaving takes as long, and moves as much
    assert comparison.ratio is not None
    expected = (totals["tpu_v5p"] + once) / totals["h100_sxm"]
    assert comparison.ratio.value == pytest.approx(expected)


def test_a_run_by_hand() -> None:
    check_a_run_by_hand()


def _goodput_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = costs.values
    monkeypatch.setattr(costs, "values", lambda workload: {**sound(workload), "goodput": 1.0})


def _port_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "_paid_once", lambda workload: Band(0.0, 0.0, 0.0))


def _ratio_upside_down(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = costs._compared

    def turned(*asked: Any) -> guide.Comparison:
        result = sound(*asked)
        assert result.tpu is not None and result.gpu is not None
        return dataclasses.replace(result, ratio=result.gpu / result.tpu)

    monkeypatch.setattr(costs, "_compared", turned)


def _host_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = costs.values
    monkeypatch.setattr(costs, "values", lambda workload: {**sound(workload), "host_usd_per_chip_hour": 0.0})


@pytest.mark.parametrize("fault", [_goodput_ignored, _port_forgotten, _ratio_upside_down, _host_forgotten])
def test_planted_faults_turn_the_run_red(
    fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    costs.compare_checked.cache_clear()
    costs._estimates.cache_clear()
    fault(monkeypatch)
    try:
        with pytest.raises(AssertionError):
            check_a_run_by_hand()
    finally:
        costs.compare_checked.cache_clear()
        costs._estimates.cache_clear()


# --- inputs ------------------------------------------------------------------------------------------------


def test_every_default_says_who_says_so() -> None:
    serving = Workload(**SERVE, commitment_years=3, port_weeks=2, egress_tb=1)
    found = {one.name: one for one in guide.cost_inputs(serving)}
    assert set(found) == set(inputs._RULES)
    for one in found.values():
        assert one.origin and one.text and math.isfinite(one.value)
        assert one.given == (one.name in SERVE or one.name == "egress_tb")
    assert found["token_ms"].source is not None and found["usd_per_egress_gb"].source is not None
    assert (
        found["gpu_discount"].value == found["tpu_discount"].value == pytest.approx(1 - 1.22 / 2.70, abs=0.01)
    )
    training = {one.name for one in guide.cost_inputs(Workload(phase="train"))}
    assert not training & {"token_ms", "output_len", "usd_per_egress_gb", "leave_weeks"}


def test_an_input_of_the_readers_own_replaces_the_default() -> None:
    workload = Workload(**TRAIN, goodput=0.5, tpu_discount=0.25, tpu_lead_weeks=4, pue=1.5)
    mine, usual = guide.compare(workload), guide.compare(Workload(**TRAIN))
    old, new = of(usual, "tpu_v5p"), of(mine, "tpu_v5p")
    assert old.usd is not None and new.usd is not None and old.days is not None and new.days is not None
    assert new.usd.value == pytest.approx(old.usd.value * 0.9 / 0.5 * 0.75)
    assert new.weeks_until_done is not None
    assert new.weeks_until_done.value == pytest.approx(new.days.value / 7 + 4)
    joules = [of(c, "h100_sxm").kwh_per_billion_tokens for c in (usual, mine)]
    assert joules[0] is not None and joules[1] is not None
    assert joules[1].value == pytest.approx(joules[0].value * 0.9 / 0.5 * 1.5)


# --- serving -----------------------------------------------------------------------------------------------


def test_a_million_output_tokens_is_price_over_served_tokens_within_the_latency() -> None:
    comparison = guide.compare(Workload(**SERVE, latency="interactive"))
    assert comparison.unit == "US dollars a million output tokens" and comparison.ratio is not None
    for estimate in comparison.estimates:
        if estimate.point is None or estimate.usd is None or estimate.usd_per_chip_hour is None:
            continue
        served = estimate.point.served
        assert served is not None and estimate.point.fits and estimate.point.seconds <= 0.040
        by_hand = estimate.usd_per_chip_hour.value * 1e6 / 3600 / served / 0.5
        assert estimate.usd.value == pytest.approx(by_hand)
        assert (
            estimate.usd is estimate.usd_per_million_output_tokens and estimate.usd_per_billion_tokens is None
        )


def test_a_stricter_latency_never_makes_serving_cheaper() -> None:
    before: guide.Comparison | None = None
    for token_ms in (400.0, 100.0, 30.0, 20.0):
        now = guide.compare(Workload(**SERVE, token_ms=token_ms))
        for estimate in now.estimates:
            assert estimate.point is None or 1e3 * estimate.point.seconds <= token_ms
            if before is not None and estimate.usd is not None:
                looser = of(before, estimate.chip_id).usd
                # A larger slice may only be tried where the smallest does not answer in time.
                if estimate.n_chips == of(before, estimate.chip_id).n_chips:
                    assert looser is not None and looser.value <= estimate.usd.value * (1 + 1e-9)
        before = now
    nobody = guide.compare(Workload(**SERVE, token_ms=0.01))
    assert nobody.ratio is None and all(e.point is None and e.remarks for e in nobody.estimates)


@pytest.mark.parametrize("latency", ["none", "interactive"])
@pytest.mark.parametrize("precision", ["bf16", "fp8"])
def test_more_chips_at_hand_never_make_a_token_dearer(latency: str, precision: str) -> None:
    """The smallest slice that holds the weights has room for few sequences; a larger may be cheaper."""
    asked = Workload(**SERVE, latency=latency, precision=precision, location="multi_cloud")
    compared = [guide.compare(asked.change(chips=count)) for count in (2, 4, 8, 16)]
    for chip_id in ("h100_sxm", "tpu_v6e", "tpu_v5p"):
        found = [of(comparison, chip_id) for comparison in compared]
        usd = [e.usd_per_million_output_tokens for e in found if e.usd_per_million_output_tokens is not None]
        assert usd and all(a.value >= b.value for a, b in itertools.pairwise(usd))
    h100 = of(compared[2], "h100_sxm")
    assert h100.memory is not None and h100.n_chips > h100.memory.chips


def test_a_bound_that_may_be_missed_widens_the_band() -> None:
    """If steps are slower than expected, only a smaller batch answers in time: that costs more."""
    bounded, free = (guide.compare(Workload(**SERVE, latency=word)) for word in ("interactive", "none"))
    spreads = []
    for comparison in (bounded, free):
        usd = of(comparison, "h100_sxm").usd
        assert usd is not None
        spreads.append(usd.high / usd.low)
    assert spreads[0] > 1.2 * spreads[1]


def check_slow_steps_take_the_cheapest_that_answers(workload: Workload) -> int:
    """The high edge of a cost within a latency, anew: the cheapest that answers in time at slow steps."""
    checked = 0
    for e in guide.compare(workload).estimates:
        if e.point is None or e.usd is None or e.usd_at_this_batch is None or e.usd_per_chip_hour is None:
            continue
        slower = e.point.step_seconds.high / e.point.step_seconds.value
        shape = models.shape_of(workload)
        assert shape is not None and workload.seq_len is not None and e.serving is not None
        counts = [n for n in slices.legal(e.chip_id) if n >= e.n_chips][:4]
        served = [
            point.served or 0.0
            for n in counts
            if (curve := serving.serve(shape, e.chip_id, n, context=2048, output_len=512)) is not None
            for point in curve.points
            if point.fits and point.seconds * slower <= 0.015
        ]
        late = [text for text in e.remarks if "one sequence at a time" in text]
        assert bool(late) == (not served)
        most = max(served, default=e.serving.points[0].served)
        assert most is not None and e.point.served is not None
        widened = min(1.0, most / e.point.served)
        dear = e.usd_at_this_batch.high / e.usd.high
        assert dear == pytest.approx(widened, rel=1e-6), e.chip_id
        assert e.usd_at_this_batch.value == pytest.approx(e.usd.value)
        checked += 1
    return checked


SOON = Workload(phase="inference", model="llama-3.1-8b", seq_len=2048, output_len=512, token_ms=15)


def test_slow_steps_take_the_cheapest_that_answers() -> None:
    assert check_slow_steps_take_the_cheapest_that_answers(SOON) > 5


def test_the_first_slice_that_answers_at_all_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = costs._counts
    monkeypatch.setattr(costs, "_counts", lambda *asked: sound(*asked)[:1])
    caches = [one for one in vars(costs).values() if hasattr(one, "cache_clear")]
    for one in caches:
        one.cache_clear()
    try:
        with pytest.raises(AssertionError):
            check_slow_steps_take_the_cheapest_that_answers(SOON)
    finally:
        for one in caches:
            one.cache_clear()


def test_a_side_that_answers_too_late_is_said_to() -> None:
    late = guide.advise(Workload(phase="inference", model="llama-3.1-70b", token_ms=15, output_len=512))
    assert late.cost.ratio is None and "answers within 15 ms" in late.cost.missing
    assert any("answers within 15 ms a token" in reason.text for reason in late.reasons)


def test_where_nothing_is_rented_no_rent_is_counted() -> None:
    asked = Workload(**SERVE, location="on_prem")
    assert all(e.usd is e.usd_per_chip_hour is None and e.point for e in guide.compare(asked).estimates)
    own = guide.compare(asked.change(gpu_chip="h100_sxm", usd_per_gpu_hour=1.5))
    assert of(own, "h100_sxm").usd is not None


# --- measured ----------------------------------------------------------------------------------------------


def product(chip: str, share: float, side: int = 8192) -> bench.Measurement:
    peak = chips.get(chip).peak_flops_per_second["bf16"]
    assert peak is not None
    return bench.Measurement(
        matmul=Matmul(side, side, side, "bf16"),
        device=bench.MeasuredDevice("gpu", "x", chip, 1, "Example CPU", 8),
        clock="device",
        precision="default",
        precision_in_program="default",
        seconds=(2 * side**3 / (peak * share),),
        products_per_repeat=10,
        compile_seconds=0.1,
        warmup_calls=3,
        relative_error=1e-3,
        error_rows=64,
        seed=0,
        versions={"jax": "0.7.2"},
        when="2026-11-30T12:00:00+00:00",
    )


def test_what_was_measured_pulls_and_narrows_that_chip_only() -> None:
    workload = Workload(**TRAIN)
    usual = of(guide.compare(workload), "h100_sxm").training
    assert usual is not None
    band = usual.tokens_per_second_per_chip
    rows: tuple[tuple[bench.Measurement | OwnRun, float], ...] = (
        (OwnRun(chip="h100_sxm", tokens_per_second_per_chip=band.value * 1.4, n_chips=8), band.value * 1.4),
        (
            product("h100_sxm", 0.9),
            0.9 / measured.PRODUCT_OVER_TRAINING * band.value / usual.share_of_16_bit_peak.value,
        ),
    )
    for row, there in rows:
        after = guide.compare(workload, measured=[row])
        pulled = of(after, "h100_sxm").training
        assert pulled is not None and of(after, "h100_sxm").measured
        now = pulled.tokens_per_second_per_chip
        assert now.high / now.low < band.high / band.low
        assert abs(math.log(now.value / there)) < abs(math.log(band.value / there))
        assert of(after, "tpu_v5p") == of(guide.compare(workload), "tpu_v5p")


def test_what_says_nothing_is_named_and_not_used() -> None:
    rows = [product("h100_sxm", 0.9, side=128), OwnRun(chip="tpu_v5p", tokens_per_second_per_chip=500.0)]
    result = guide.advise(Workload(**SERVE), measured=rows)
    assert [fact.what for fact in result.measured] == ["", ""]
    assert all("not used" in fact.text for fact in result.measured)
    assert result.cost_ratio == guide.compare(Workload(**SERVE)).ratio
    with pytest.raises(ValueError, match="Did you mean"):
        OwnRun(chip="tpu_v5", tokens_per_second_per_chip=1.0)


@pytest.mark.parametrize("fields", [TRAIN, SERVE], ids=["trained", "served"])
def test_a_run_beyond_the_chips_arithmetic_is_not_used(fields: dict[str, Any]) -> None:
    """Tokens a second of the whole machine, passed for one chip, would turn the verdict."""
    for rate, used in ((3e3, True), (1e9, False)):
        run = OwnRun(chip="h100_sxm", tokens_per_second_per_chip=rate, n_chips=8, batch=64)
        result = guide.compare(Workload(**fields), measured=[run])
        assert bool(of(result, "h100_sxm").measured) == used
        told = guide.advise(Workload(**fields), measured=[run]).measured[0]
        assert ("not used" in told.text and "published peak" in told.text) != used


@pytest.mark.wrong_type
def test_what_was_not_timed_is_refused() -> None:
    with pytest.raises(TypeError, match="must be timed work; pass rows"):
        guide.advise(Workload(), measured=[3])  # type: ignore[list-item]


# --- price line and break-even -----------------------------------------------------------------------------


def test_the_price_line_is_whole_and_true_inside_each_piece() -> None:
    workload = Workload(**TRAIN, location="multi_cloud")
    result = guide.advise(workload)
    line = result.price_line
    assert [piece.verdict for piece in line] == ["gpu", "either", "tpu"]
    assert line[0].low == 0 and line[-1].high == math.inf
    for one, following in itertools.pairwise(line):
        assert one.high == following.low and one.verdict != following.verdict
    ratio = result.cost_ratio
    assert ratio is not None and (line[1].low, line[1].high) == (ratio.low, ratio.high)
    for piece, factor in zip(line, (ratio.low * 0.99, ratio.low * 1.01, ratio.high * 1.01), strict=True):
        there = guide.compare(workload, gpu_price_factor=factor).ratio
        assert there is not None and factor in piece
        assert piece.verdict == ("gpu" if there.low > 1 else "tpu" if there.high < 1 else "either")
    gated = guide.advise(workload.change(custom_kernels="triton")).price_line
    assert [(piece.low, piece.high, piece.verdict) for piece in gated] == [(0.0, math.inf, "gpu")]


def test_at_the_break_even_both_sides_cost_the_same() -> None:
    workload = Workload(**TRAIN, **QUOTES, usd_per_engineer_week=4000.0)
    found = guide.advise(workload).break_even
    assert found.port_weeks is not None and found.gpu_usd_per_chip_hour is not None
    ported = guide.compare(workload.change(port_weeks=found.port_weeks.value)).ratio
    assert ported is not None and ported.value == pytest.approx(1)
    cheaper = workload.change(usd_per_gpu_hour=found.gpu_usd_per_chip_hour.value)
    priced = guide.compare(cheaper).ratio
    assert priced is not None and priced.value == pytest.approx(1)
    assert found.batch is None and any("batch" in sentence for sentence in found.missing)


def test_the_batch_where_the_cheaper_side_changes() -> None:
    assert break_even._crossing({1: 0.5, 2: 0.9, 4: 1.2, 8: 2.0}) == 4
    assert break_even._crossing({1: 0.5, 2: 0.9}) is None
    found = guide.advise(Workload(**SERVE)).break_even
    assert set(found.compute_bound_batch) >= {"tpu_v5p", "h100_sxm"} and found.ratio_by_batch


# --- the table of errors -----------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["training", "serving"])
def test_the_table_of_errors_holds_every_case_and_every_miss(what: str) -> None:
    table = guide.errors_table(what)
    outside = {row.id for row in table.rows if not row.inside}
    assert set(table.misses) == outside and all(table.misses.values())
    assert table.errors.cases == len(table.rows) and table.errors.typical <= 1.36
    assert all(row.id in str(table) and row.id in table._repr_markdown_() for row in table.rows)


# --- reasons -----------------------------------------------------------------------------------------------


def test_every_number_among_the_reasons_names_the_lesson_that_shows_it() -> None:
    notebooks = Path(__file__).resolve().parents[2] / "notebooks"
    for fields in (TRAIN, SERVE):
        for reason in guide.advise(Workload(**fields)).reasons:
            if reason.kind in ("cost", "fit", "time", "energy"):
                shown = reason.shown_in
                assert shown is not None, reason.name
                text = (notebooks / f"{shown.notebook}.ipynb").read_text(encoding="utf-8")
                assert f"## {shown.section}" in text, shown
