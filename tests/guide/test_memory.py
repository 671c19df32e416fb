from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsewarp import chips, guide
from pulsewarp.guide import Workload, fit_memory, memory, models, slices
from pulsewarp.guide.efficiency import training_cases
from pulsewarp.guide.serving import serve

IDS = [chip.id for chip in chips.catalogue() if chip.memory_bytes is not None]
PHASES = ("train", "finetune", "train_and_inference", "rl_posttrain", "inference")
FIELDS = {
    "phase": st.sampled_from(PHASES),
    "finetune_method": st.sampled_from(("full", "lora", "any")),
    "precision": st.sampled_from(("bf16", "fp8", "int4", "fp32", "fp64", "any")),
    "seq_len": st.integers(1, 200_000),
    "batch_size": st.integers(1, 4096),
}
NAMED = st.fixed_dictionaries({"model": st.sampled_from([card.id for card in models.cards()])})
OWN = st.fixed_dictionaries({"params_b": st.floats(0.001, 2000)})
WORKLOADS = st.builds(
    lambda model, fields: Workload(**model, **fields), NAMED | OWN, st.fixed_dictionaries(FIELDS)
)


# --- laws: each one is also run against planted faults below ---------------------------------------------


def check_more_to_keep_never_needs_less(workload: Workload, chip_id: str) -> None:
    now = fit_memory(workload, chip_id)
    assert now is not None
    grown: list[dict[str, Any]] = [
        {"seq_len": 2 * workload.seq_len},
        {"batch_size": 2 * workload.batch_size},
    ]
    for change in grown:
        then = fit_memory(workload.change(**change), chip_id)
        assert then is not None
        counted = workload.phase != "inference" or models.shape_of(workload).generates
        assert (then.bytes_needed > now.bytes_needed) == counted, change
        assert then.chips >= now.chips, change


def check_more_memory_never_makes_a_fit_fail(needed: float, size: float, counts: tuple[int, ...]) -> None:
    few, many = memory.smallest_count(needed, size, counts), memory.smallest_count(needed, 1.5 * size, counts)
    assert many <= few


def check_the_smallest_legal_count_holds_and_the_next_smaller_does_not(
    workload: Workload, chip_id: str
) -> None:
    fit = fit_memory(workload, chip_id)
    assert fit is not None
    usable = 0.9 * fit.bytes_per_chip
    assert fit.chips * usable >= fit.bytes_needed * (1 - 1e-12)
    legal = slices.legal(chip_id)
    if legal and fit.chips <= legal[-1]:
        assert fit.chips in legal
        below = [count for count in legal if count < fit.chips]
        assert fit.next_smaller == (below[-1] if below else None)
    if fit.next_smaller is not None:
        assert fit.next_smaller * usable < fit.bytes_needed
        assert fit.why.startswith(f"{fit.next_smaller:,} {chips.get(chip_id).name} hold")
    assert fit.why.endswith(".") and "\n" not in fit.why


@settings(max_examples=60)
@given(WORKLOADS, st.sampled_from(IDS))
def test_longer_contexts_and_larger_batches_never_need_less(workload: Workload, chip_id: str) -> None:
    check_more_to_keep_never_needs_less(workload, chip_id)


@settings(max_examples=100)
@given(
    st.floats(1e6, 1e14), st.floats(8e9, 3e11), st.sampled_from(["tpu_v5p", "tpu_v6e", "h100_sxm", "gb200"])
)
def test_more_memory_never_makes_a_fit_fail(needed: float, size: float, chip_id: str) -> None:
    check_more_memory_never_makes_a_fit_fail(needed, size, slices.legal(chip_id))
    check_more_memory_never_makes_a_fit_fail(needed, size, ())


@settings(max_examples=60)
@given(WORKLOADS, st.sampled_from(IDS))
def test_the_smallest_legal_count_holds_and_the_next_smaller_does_not(
    workload: Workload, chip_id: str
) -> None:
    check_the_smallest_legal_count_holds_and_the_next_smaller_does_not(workload, chip_id)


@settings(max_examples=40)
@given(WORKLOADS)
def test_saving_memory_saves_memory(workload: Workload) -> None:
    least, kept, stored = (
        memory.need_memory(workload, recompute=recompute, flash=flash).bytes
        for recompute, flash in ((True, True), (False, True), (False, False))
    )
    assert least <= kept <= stored
    full = memory.need_memory(workload.change(phase="finetune", finetune_method="full"))
    lora = memory.need_memory(workload.change(phase="finetune", finetune_method="lora"))
    assert lora.bytes < full.bytes


# --- numbers worked out by hand --------------------------------------------------------------------------


def test_training_llama_70b_by_hand() -> None:
    need = memory.need_memory(Workload(phase="train", model="llama-3.1-70b", seq_len=8192, batch_size=2))
    state, activations, logits = need.parts
    tokens = 2 * 8192
    assert state.bytes == pytest.approx(18 * 70.55e9, rel=1e-3)
    assert activations.bytes == tokens * 8192 * (2 * 80 + 34)
    assert logits.bytes == 4 * tokens * 128256
    kept = memory.need_memory(
        Workload(phase="train", model="llama-3.1-70b", seq_len=8192), recompute=False, flash=False
    )
    assert kept.parts[1].bytes == 80 * 8192 * 8192 * (34 + 5 * 64 * 8192 / 8192)


def test_serving_and_adapters_by_hand() -> None:
    served = Workload(phase="inference", model="llama-3.1-70b", precision="fp8", seq_len=1000, batch_size=3)
    weights, cache = memory.need_memory(served).parts
    assert weights.bytes == pytest.approx(70.55e9, rel=1e-3)
    assert cache.bytes == 3 * 1000 * 2 * 80 * 8 * 128
    assert (
        memory.need_memory(served.change(precision="int4")).parts[1] == cache
    )  # a cache keeps a byte at least
    tuned = memory.need_memory(served.change(phase="finetune", finetune_method="lora", precision="bf16"))
    assert tuned.parts[0].bytes == pytest.approx((2 + 0.18) * 70.55e9, rel=1e-3)


def test_an_encoder_keeps_no_cache() -> None:
    assert models.card("bert-large").kv_elements(512) is None
    need = memory.need_memory(Workload(phase="inference", model="bert-large", seq_len=512, batch_size=64))
    assert [part.name for part in need.parts] == ["weights"] and not need.remarks


def test_what_is_not_given_is_said_to_come_on_top() -> None:
    assert memory.bytes_needed(Workload(phase="train", params_b=7)) == 126e9
    for phase, sentence in (("train", "Activations come on top"), ("inference", "The KV cache comes on top")):
        fit = fit_memory(Workload(phase=phase, params_b=7), "h100_sxm")
        assert any(remark.startswith(sentence) for remark in fit.remarks)
    assert fit_memory(Workload(phase="train"), "h100_sxm") is None
    assert fit_memory(Workload(params_b=7), "h100_sxm") is None
    estimated = fit_memory(Workload(phase="train", params_b=7, seq_len=4096), "h100_sxm")
    assert any("layers was estimated as" in remark for remark in estimated.remarks)


def test_no_published_run_was_on_fewer_chips_than_the_fit_says() -> None:
    for case in training_cases():
        numbers = {
            "params_b": case.params_b,
            "active_params_b": case.active_params_b,
            "seq_len": case.seq_len,
        }
        fit = fit_memory(Workload(domain="llm", phase="train", **numbers), case.chip)
        assert fit is not None and fit.chips <= case.n_chips, (case.id, fit.why)


# --- legal counts ----------------------------------------------------------------------------------------


def test_every_published_run_had_a_legal_number_of_chips() -> None:
    for case in training_cases():
        assert case.n_chips in slices.legal(case.chip), case.id


def test_legal_counts_ascend_and_have_a_source() -> None:
    for chip in chips.catalogue():
        legal, source = slices.legal(chip.id), slices.source(chip.id)
        assert list(legal) == sorted(set(legal)) and all(count > 0 for count in legal)
        assert (source is None) == (not legal)
        if chip.family == "gpu" or (chip.family == "tpu" and chip.status.startswith("available")):
            assert legal and source.address.startswith("https://") and "2026" in source.date, chip.id


def test_a_chip_without_a_list_is_counted_by_memory_alone_and_says_so() -> None:
    fit = fit_memory(Workload(phase="train", params_b=70), "trainium2")
    assert fit.chips == 15 and fit.next_smaller == 14 and fit.source is None
    assert any("was not seen" in remark for remark in fit.remarks)
    far = fit_memory(Workload(phase="train", params_b=99_999), "tpu_v6e")
    assert far.chips > slices.legal("tpu_v6e")[-1]
    assert any("the most that was seen together" in remark for remark in far.remarks)


# --- planted faults --------------------------------------------------------------------------------------


def _floor(needed: float, size: float, counts: tuple[int, ...] = ()) -> int:
    least = max(1, int(needed / (0.9 * size)))
    return next((count for count in counts if count >= least), least)


def _any_count(needed: float, size: float, counts: tuple[int, ...] = ()) -> int:
    return HONEST_COUNT(needed, size)


def _no_reserve(needed: float, size: float, counts: tuple[int, ...] = ()) -> int:
    return HONEST_COUNT(needed, size / 0.9, counts)


def _one_size_up(needed: float, size: float, counts: tuple[int, ...] = ()) -> int:
    count = HONEST_COUNT(needed, size, counts)
    return next((larger for larger in counts if larger > count), count)


HONEST_COUNT = memory.smallest_count


@pytest.mark.parametrize("fault", [_floor, _any_count, _no_reserve, _one_size_up])
def test_a_count_that_is_wrong_turns_the_laws_red(
    monkeypatch: pytest.MonkeyPatch, fault: Callable[..., int]
) -> None:
    monkeypatch.setattr(memory, "smallest_count", fault)
    memory._fit.cache_clear()
    try:
        with pytest.raises(AssertionError):
            for billions in (5, 7, 30, 38.2, 70, 405):
                for chip_id in ("tpu_v5p", "tpu_v6e", "h100_sxm"):
                    check_the_smallest_legal_count_holds_and_the_next_smaller_does_not(
                        Workload(phase="train", params_b=billions), chip_id
                    )
    finally:
        memory._fit.cache_clear()


@pytest.mark.parametrize("field", ["seq_len", "batch_size"])
@pytest.mark.parametrize("phase", ["train", "inference"])
def test_a_field_that_is_not_counted_turns_the_law_red(
    monkeypatch: pytest.MonkeyPatch, field: str, phase: str
) -> None:
    honest = memory.need_memory
    monkeypatch.setattr(memory, "need_memory", lambda w, **given: honest(w.change(**{field: 1}), **given))
    with pytest.raises(AssertionError):
        check_more_to_keep_never_needs_less(
            Workload(phase=phase, model="llama-3.1-8b", seq_len=4096, batch_size=8), "h100_sxm"
        )


@pytest.mark.parametrize("chip_id", ["h100_sxm", "tpu_v6e", "tpu_v5p", "mi300x"])
@pytest.mark.parametrize(("precision", "batch"), [("bf16", 64), ("fp8", 256)])
def test_what_fits_is_what_the_serving_model_lets_fit(chip_id: str, precision: str, batch: int) -> None:
    workload = Workload(
        phase="inference", model="llama-3.1-70b", precision=precision, seq_len=8192, batch_size=batch
    )
    fit, card = fit_memory(workload, chip_id), models.card("llama-3.1-70b")
    for count, holds in ((fit.chips, True), (fit.next_smaller, False)):
        if count is not None:
            served = serve(card, chip_id, count, precision=precision, context=8192, batches=(batch,))
            assert served.points[0].fits == holds, count


def test_an_unknown_chip_names_the_nearest() -> None:
    for ask in (slices.legal, slices.source, lambda name: fit_memory(Workload(), name)):
        with pytest.raises(ValueError, match="Did you mean 'tpu_v5"):
            ask("tpu_v5q")


def test_a_fit_is_the_same_through_the_estimates() -> None:
    workload = Workload(domain="llm", phase="train", params_b=8, seq_len=4096, chips=256)
    for estimate in guide.advise(workload).estimates:
        assert estimate.memory == fit_memory(workload, estimate.chip_id)
        json.dumps(dataclasses.asdict(estimate.memory))
