from __future__ import annotations

import json
from collections.abc import Callable
from importlib import resources
from typing import Any

import pytest

from pulsewarp import chips, guide
from pulsewarp.bench.shapes import LLAMA
from pulsewarp.guide import Workload, model_card, models

FILE = json.loads((resources.files("pulsewarp.guide") / "data" / "models.json").read_text(encoding="utf-8"))
ROWS: list[dict[str, Any]] = FILE["models"]
ids = pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row["id"]))


def agrees(counted: float, stated: float) -> bool:
    """Within 3 %, or within what rounding to the digits stated leaves open."""
    digits = len(str(stated).partition(".")[2]) if isinstance(stated, float) else 0
    return abs(counted - stated) <= max(0.03 * stated, 0.5 * 10.0**-digits)


def count_agrees(row: dict[str, Any]) -> bool:
    total, idle = model_card.count_parameters(row)
    stated = row["stated"]
    # OpenAI's active parameters leave the table out that is only looked up in.
    table = row["vocabulary"] * row["width"] if stated.get("active_without_input_table") else 0
    return agrees(total / 1e9, stated["params_b"]) and agrees(
        (total - idle - table) / 1e9, stated["active_params_b"]
    )


@ids
def test_parameters_counted_from_a_card_are_those_its_makers_state(row: dict[str, Any]) -> None:
    assert count_agrees(row)


FAULTS: dict[str, Callable[[dict[str, Any]], object]] = {
    "layers": lambda row: row.update(layers=round(1.2 * row["layers"])),
    "width": lambda row: row.update(width=round(0.85 * row["width"])),
    "kv_heads": lambda row: row.update(kv_heads=row["heads"]),
    "experts": lambda row: row.update(experts=2 * row["experts"]),
    "experts_per_token": lambda row: row.update(experts_per_token=2 * row["experts_per_token"]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_dimension_turns_the_count_red(fault: str) -> None:
    for row in ROWS:
        shared = 4 * row["kv_heads"] <= row["heads"]
        if fault in row and (fault != "kv_heads" or shared):
            wrong = json.loads(json.dumps(row))
            FAULTS[fault](wrong)
            assert not count_agrees(wrong), row["id"]


@ids
def test_each_card_names_two_sources_and_fits_itself(row: dict[str, Any]) -> None:
    for key in (row["source"], row["stated"]["source"]):
        source = FILE["sources"][key]
        assert source["title"] and source["address"].startswith("https://") and "2026" in source["date"]
    card = models.card(row["id"])
    assert card.source is not None and card.source.title == FILE["sources"][row["source"]]["title"]
    assert card.heads is not None and card.kv_heads is not None and card.heads % card.kv_heads == 0
    assert (card.windowed_layers is None) == (card.sliding_window is None)
    assert (card.windowed_layers or 0) < (card.layers or 0)
    assert card.domain in guide.VOCABULARY["domain"]
    assert set(FILE["sources"]) == {
        row[k] if k == "source" else row["stated"]["source"] for row in ROWS for k in row
    }


def test_routed_experts_follow_from_total_and_active_parameters() -> None:
    for row in ROWS:
        card = models.card(row["id"])
        if card.experts is None:
            assert card.expert_params_b == 0
            continue
        count = row["counted_from"]
        routed = card.layers - count["dense_layers"]
        by_hand = routed * card.experts * 3 * card.width * count["expert_width"] / 1e9
        assert card.expert_params_b == pytest.approx(by_hand)


def test_the_cards_have_the_dimensions_of_the_products_that_are_timed() -> None:
    for name, llama in LLAMA.items():
        card = models.card(name)
        assert (card.width, card.heads, card.kv_heads, card.layers, card.vocabulary) == (
            llama.dim,
            llama.heads,
            llama.kv_heads,
            llama.layers,
            llama.vocabulary,
        )


@pytest.mark.parametrize(
    ("chip", "context"), [("tpu_v6e", 770), ("tpu_v7", 1377), ("h100_sxm", 1460), ("a100_sxm_80", 2816)]
)
def test_the_context_beyond_which_decode_never_turns_compute_bound(chip: str, context: int) -> None:
    # 2 N W / (F KV) of Llama 70B in bf16, as the evidence prints it for 70e9 parameters.
    card, machine = models.card("llama-3.1-70b"), chips.get(chip)
    kv_bytes = 2 * card.kv_elements(1)
    ratio = machine.bandwidth_bytes_per_second / machine.peak_flops_per_second["bf16"]
    assert 2 * 70e9 * ratio / kv_bytes == pytest.approx(context, rel=0.02)


def test_windows_and_latent_vectors_shorten_the_cache() -> None:
    gemma = models.card("gemma-2-27b")
    per_layer = 2 * 16 * 128
    assert gemma.kv_elements(4096) == 46 * per_layer * 4096
    assert gemma.kv_elements(10_000) == per_layer * (23 * 4096 + 23 * 10_000)
    assert models.card("deepseek-v3").kv_elements(1) == 61 * (512 + 64)
    assert models.card("gemma-3-27b").kv_elements(0) == 0


def test_a_workload_with_a_card_has_that_shape_and_one_without_has_its_own() -> None:
    assert models.shape_of(Workload(model="mixtral-8x7b", params_b=47)) is models.card("mixtral-8x7b")
    assert models.shape_of(Workload(layers=32, width=4096)) is None
    said = {
        "params_b": 8.0,
        "active_params_b": 7.0,
        "layers": 32,
        "width": 4096,
        "heads": 32,
        "kv_heads": 8,
        "head_dim": 128,
        "vocabulary": 128256,
        "experts": 8,
        "experts_per_token": 2,
    }
    own = models.shape_of(Workload(**said))
    assert own is not None and own.remarks == ()
    assert {name: getattr(own, name) for name in said} == said
    seen = models.shape_of(Workload(domain="vision", params_b=0.3))
    assert seen is not None and seen.layers is None and seen.remarks == ()


@pytest.mark.parametrize(
    "card", [card for card in models.cards() if card.domain == "llm"], ids=lambda c: c.id
)
def test_what_is_estimated_from_parameters_alone_is_near_the_card(card: models.ModelShape) -> None:
    own = models.shape_of(Workload(params_b=card.params_b, active_params_b=card.active_params_b))
    assert own is not None and len(own.remarks) == 6
    assert own.heads % own.kv_heads == 0
    residual = card.layers * card.width  # what activations grow with
    assert residual / 2 < own.layers * own.width < residual * 2


def test_an_unknown_card_names_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"Unknown model 'llama-3\.1-71b'.*Did you mean 'llama-3\.1-70b'"):
        models.card("llama-3.1-71b")
