"""What a price or a date may change: only what depends on it, in training and in serving; faults planted."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsewarp import chips, guide
from pulsewarp.guide import Workload, advice, costs, gates, measured, memory, models, serving
from pulsewarp.guide.report import as_dict, as_markdown
from pulsewarp.guide.report_page import as_page

TOWARDS_GPU = {"tpu": 0, "either": 1, "gpu": 2}
few = settings(max_examples=20)

SERVED = Workload(phase="inference", model="llama-3.1-70b", precision="fp8", latency="interactive")
TRAINED = Workload(domain="llm", phase="train", params_b=70, framework="jax", chips=512, tokens_b=100)


def servings() -> st.SearchStrategy[Workload]:
    """Workloads whose cost of serving is known, so that prices can matter."""
    return st.builds(
        lambda **fields: Workload(domain="llm", phase="inference", **fields),
        model=st.sampled_from(["llama-3.1-8b", "llama-3.1-70b", "mixtral-8x7b", "qwen3-30b-a3b"]),
        precision=st.sampled_from(["bf16", "fp8", "any"]),
        latency=st.sampled_from(["none", "relaxed", "interactive", "real_time", "any"]),
        seq_len=st.sampled_from([1024, 4096, 32768]),
        output_len=st.sampled_from([128, 1000]),
        batch=st.sampled_from(["one", "small", "medium", "large", "any"]),
        chips=st.sampled_from([None, 8, 64]),
        framework=st.sampled_from(["vllm", "jax", "pytorch", "any"]),
        location=st.sampled_from(["any", "gcp_ok", "gcp_only", "multi_cloud"]),
        served_tokens_b=st.sampled_from([None, 5.0]),
        host_usd_per_chip_hour=st.sampled_from([None, 0.7]),
    )


@functools.cache
def dearer(family: str, factor: float) -> tuple[chips.Price, ...]:
    return tuple(
        dataclasses.replace(row, usd_per_chip_hour=row.usd_per_chip_hour * factor)
        if chips.get(row.chip_id).family == family
        else row
        for row in chips.prices()
    )


# --- prices, in serving ------------------------------------------------------------------------------------


def check_a_dearer_side_never_gains(workload: Workload, family: str, factor: float) -> None:
    """Neither verdict nor cost ratio moves towards the side that has become dearer, by rows or by quotes."""
    now, then = (advice._decide(workload, dearer(family, f)) for f in (1.0, factor))
    _no_nearer(now, then, family)
    chip = {"gpu": "h100_sxm", "tpu": "tpu_v6e"}[family]
    quotes = [
        workload.change(**{f"{family}_chip": chip, f"usd_per_{family}_hour": usd})
        for usd in (2.0, 2.0 * factor)
    ]
    cheap, dear = (advice._decide(quoted, None) for quoted in quotes)
    _no_nearer(cheap, dear, family)


def _no_nearer(now: Any, then: Any, family: str) -> None:
    sign = 1 if family == "gpu" else -1
    if now.verdict == "neither":
        assert then.verdict == "neither"
        return
    assert sign * (TOWARDS_GPU[then.verdict] - TOWARDS_GPU[now.verdict]) <= 0
    if now.comparison is None or now.comparison.ratio is None:
        return
    assert then.comparison.ratio is not None
    for edge in ("low", "value", "high"):
        before, after = getattr(now.comparison.ratio, edge), getattr(then.comparison.ratio, edge)
        assert sign * (after - before) <= 1e-9 * before, edge


@pytest.mark.parametrize("family", ["gpu", "tpu"])
@few
@given(servings(), st.sampled_from([1.2, 2.0, 20.0]))
def test_a_dearer_side_never_gains_in_serving(family: str, workload: Workload, factor: float) -> None:
    check_a_dearer_side_never_gains(workload, family, factor)


def _cheapest_is_dearest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "_invert", lambda band: band)
    monkeypatch.setattr(
        costs,
        "_cheapest",
        lambda bands: (
            guide.Band(*(1 / edge for edge in (bands[0].high, bands[0].value, bands[0].low)))
            if bands
            else None
        ),
    )


def _verdict_upside_down(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = advice._cheaper
    other = {"gpu": "tpu", "tpu": "gpu", None: None}
    monkeypatch.setattr(advice, "_cheaper", lambda comparison: other[sound(comparison)])


@contextlib.contextmanager
def forgotten() -> Iterator[None]:
    """Without what was kept of earlier questions, before and after."""
    kept = [one for module in (costs, advice) for one in vars(module).values() if hasattr(one, "cache_clear")]
    for one in kept:
        one.cache_clear()
    try:
        yield
    finally:
        for one in kept:
            one.cache_clear()


@pytest.mark.parametrize("fault", [_cheapest_is_dearest, _verdict_upside_down])
def test_a_verdict_that_a_price_turns_the_wrong_way_is_noticed(
    fault: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with forgotten():
        fault(monkeypatch)
        with pytest.raises(AssertionError):
            for family in ("gpu", "tpu"):
                check_a_dearer_side_never_gains(SERVED, family, 200.0)


# --- memory, in serving ------------------------------------------------------------------------------------


def check_more_memory_never_makes_serving_fail(workload: Workload, chip_id: str, factor: float) -> None:
    """A chip with more memory holds the model in no larger a slice, and every batch that the smaller held."""
    shape = models.shape_of(workload)
    assert shape is not None
    need = memory.need_memory(workload)
    chip = chips.get(chip_id)
    assert need is not None and chip.memory_bytes is not None
    larger = dataclasses.replace(chip, memory_bytes=round(chip.memory_bytes * factor))
    fits = [memory._fit(need, c.id, c.name, c.memory_bytes) for c in (chip, larger)]
    assert fits[1].chips <= fits[0].chips
    context = workload.seq_len or 4096
    dtype = memory.weight_dtype(workload)
    machines = [serving.machine_for(c, fits[0].chips, dtype) for c in (chip, larger)]
    if None not in machines:
        most = [serving.most_sequences(shape, on, context) for on in machines if on is not None]
        assert most[1] >= most[0] >= 1


SERVING_CHIPS = ["h100_sxm", "tpu_v6e", "tpu_v5p", "a100_sxm_80", "b200"]


@few
@given(servings(), st.sampled_from(SERVING_CHIPS), st.floats(1.0, 8.0))
def test_more_memory_never_makes_serving_fail(workload: Workload, chip_id: str, factor: float) -> None:
    check_more_memory_never_makes_serving_fail(workload, chip_id, factor)


def test_memory_that_counts_the_wrong_way_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = serving.most_sequences
    monkeypatch.setattr(
        serving, "most_sequences", lambda shape, on, context: 10**6 // (1 + sound(shape, on, context))
    )
    with pytest.raises(AssertionError):
        check_more_memory_never_makes_serving_fail(SERVED, "h100_sxm", 2.0)


# --- dates -------------------------------------------------------------------------------------------------


def flat(value: Any, path: str = "") -> dict[str, Any]:
    """Return every leaf of a report's plain data by its path."""
    if isinstance(value, dict):
        parts = value.items()
    elif isinstance(value, list):
        parts = ((str(i), one) for i, one in enumerate(value))  # type: ignore[assignment]
    else:
        return {path: value}
    return {p: leaf for name, one in parts for p, leaf in flat(one, f"{path}/{name}").items()}


def changed_paths(before: guide.Advice, after: guide.Advice) -> set[str]:
    old, new = flat(as_dict(before)), flat(as_dict(after))
    assert old.keys() == new.keys()
    return {path for path in old if old[path] != new[path]}


def redated(date: str, every: int) -> tuple[chips.Price, ...]:
    return tuple(
        dataclasses.replace(row, date=date, source=dataclasses.replace(row.source, date=date))
        if i % every == 0
        else row
        for i, row in enumerate(chips.prices())
    )


def check_a_price_rows_date_changes_only_what_says_it(workload: Workload, date: str, every: int) -> None:
    before = guide.advise(workload, prices=chips.prices())
    after = guide.advise(workload, prices=redated(date, every))
    for path in changed_paths(before, after):
        assert path.endswith("/date"), path
        assert path.startswith(("/reasons/", "/estimates/")), path
        assert "/price_sources/" in path or path.startswith("/reasons/0/"), path


@pytest.mark.parametrize("workload", [SERVED, TRAINED], ids=["served", "trained"])
@settings(max_examples=4)
@given(date=st.sampled_from(["1999-01-01", "2026-11-30", "2031-05", "undated"]), every=st.integers(1, 3))
def test_a_price_rows_date_changes_only_what_says_it(workload: Workload, date: str, every: int) -> None:
    check_a_price_rows_date_changes_only_what_says_it(workload, date, every)


def test_a_price_that_its_date_rules_out_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = costs._listed_price.__wrapped__

    def only_new(chip_id: str, only_google: bool, rows: tuple[chips.Price, ...] | None) -> Any:
        kept = None if rows is None else tuple(row for row in rows if row.date >= "2000")
        return sound(chip_id, only_google, kept)

    with forgotten():
        monkeypatch.setattr(costs, "_listed_price", functools.lru_cache(only_new))
        with pytest.raises(AssertionError):
            check_a_price_rows_date_changes_only_what_says_it(SERVED, "1999-01-01", 2)


GATED = Workload(phase="train", framework="pytorch", custom_kernels="triton", precision="fp64")


def check_a_sources_date_changes_only_what_says_it(date: str) -> None:
    before = guide.advise(GATED)
    told = tuple(
        dataclasses.replace(gate, source=dataclasses.replace(gate.source, date=date)) for gate in gates.GATES
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gates, "GATES", told)
        after = guide.advise(GATED)
    paths = changed_paths(before, after)
    assert paths == {
        f"/reasons/{i}/source/date"
        for i, reason in enumerate(before.reasons)
        if reason.source is not None and reason.source.date != date
    }
    assert len(paths) >= 3


@pytest.mark.parametrize("date", ["1999-01", "2031-12-31", "undated"])
def test_a_sources_date_changes_only_what_says_it(date: str) -> None:
    check_a_sources_date_changes_only_what_says_it(date)


def test_a_gate_that_grows_silent_with_age_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = gates.check

    def fresh_only(workload: Workload, asked: tuple[gates.Gate, ...] = gates.GATES) -> Any:
        return sound(workload, tuple(gate for gate in asked if gate.source.date >= "2000"))

    monkeypatch.setattr(gates, "check", fresh_only)
    with pytest.raises(AssertionError):
        check_a_sources_date_changes_only_what_says_it("1999-01")


@settings(max_examples=6)
@given(st.sampled_from([SERVED, TRAINED, GATED]), st.text(max_size=12))
def test_the_workloads_own_date_is_repeated_and_nothing_else(workload: Workload, date: str) -> None:
    before, after = (as_dict(guide.advise(workload.change(date=text))) for text in ("2020-01-01", date))
    assert before.pop("workload") | {"date": date} == after.pop("workload")
    assert before == after


def test_the_day_it_is_asked_on_changes_only_the_stamp(monkeypatch: pytest.MonkeyPatch) -> None:
    """A report of another day, under a clock of another day, differs in that day alone."""
    first = guide.advise(SERVED)
    pages = [as_page(first, made="2026-12-01"), as_markdown(first)]

    class Later(datetime.date):
        @classmethod
        def today(cls) -> Later:
            return cls(2031, 5, 6)

    monkeypatch.setattr(datetime, "date", Later)
    monkeypatch.setattr("time.time", lambda: 1.9e9)
    with forgotten():
        later = guide.advise(SERVED)
    assert as_dict(later) == as_dict(first)
    assert as_page(later, made="2031-05-06").replace("2031-05-06", "2026-12-01") == pages[0]
    assert as_markdown(later) == pages[1]


def test_the_catalogues_date_changes_only_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    before = guide.advise(TRAINED)
    sound = chips.catalogue()
    newer = tuple(dataclasses.replace(chip, as_of="2031-05-06") for chip in sound)
    monkeypatch.setattr(chips, "catalogue", lambda: newer)
    assert changed_paths(before, guide.advise(TRAINED)) == {"/as_of"}


def test_own_measurements_of_another_day_weigh_the_same() -> None:
    """A run has no date in the guide: what was measured counts until something newer is passed."""
    assert not {"date", "when"} & {field.name for field in dataclasses.fields(measured.OwnRun)}
    assert not {"date", "when"} & {field.name for field in dataclasses.fields(measured.Evidence)}
