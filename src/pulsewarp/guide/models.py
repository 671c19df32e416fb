"""From what a workload says about its model, or from a model card, to one shape that every estimate reads."""

from __future__ import annotations

import functools
import math
from typing import Any

from pulsewarp._checks import names_keywords
from pulsewarp.guide.model_card import ModelShape, card, cards
from pulsewarp.guide.workload import Workload, checked

__all__ = ["ModelShape", "card", "cards", "shape_of"]

_GIVEN = (
    *("params_b", "active_params_b", "layers", "width", "heads", "kv_heads", "head_dim", "vocabulary"),
    *("experts", "experts_per_token"),
)
_TRANSFORMERS = ("llm", "any")  # domains in which missing dimensions are estimated
# Width over layers of the dense language models among the cards lies between 75 and 160; without the tables
# a dense transformer has about 12 L d^2 parameters.
_WIDTH_PER_LAYER = 128
_HEAD_DIM = 128
_KV_HEADS = 8
_VOCABULARY = 128_000


@names_keywords
def shape_of(workload: Workload) -> ModelShape | None:
    """Return the shape of a workload's model: its card, or what the workload says with the rest estimated.

    Estimated, each with a remark in the shape: layers and width from the parameters (12 L d^2 of them, d near
    128 L), heads of 128, 8 KV heads, a vocabulary of 128,000. Only where the domain is "llm" or not given.

    Parameters
    ----------
    workload : Workload
        Needs `model` or `params_b`.

    Returns
    -------
    ModelShape or None
        None where the workload gives neither.

    Raises
    ------
    TypeError
        When `workload` is not a Workload.

    Examples
    --------
    >>> shape_of(Workload(model="llama-3.1-70b")).kv_heads
    8
    >>> own = shape_of(Workload(domain="llm", params_b=70, layers=80, heads=64, kv_heads=8))
    >>> own.width, own.vocabulary
    (8576, 128000)
    >>> own.remarks[0]
    'width was estimated as 8576 from the number of parameters and layers.'
    """
    model = checked(workload).model
    if model is not None:
        return card(model)
    if workload.params_b is None:
        return None
    return _own(workload.domain, tuple(getattr(workload, name) for name in _GIVEN))


@functools.lru_cache(maxsize=512)
def _own(domain: str, given: tuple[Any, ...]) -> ModelShape:
    known = dict(zip(_GIVEN, given, strict=True))
    remarks: list[str] = []
    if known["active_params_b"] is None:
        known["active_params_b"] = known["params_b"]
        if known["experts"] is not None:
            remarks.append("active_params_b is not given, so every parameter is counted as active.")
    if domain in _TRANSFORMERS:
        _estimate(known, remarks)
    return ModelShape(domain=domain, remarks=tuple(remarks), **known)


def _estimate(known: dict[str, Any], remarks: list[str]) -> None:
    def fill(name: str, value: float, because: str) -> None:
        if known[name] is None:
            known[name] = max(1, round(value))
            remarks.append(f"{name} was estimated as {known[name]} {because}.")

    blocks = known["active_params_b"] * 1e9 / 12  # L d^2
    layers, width = known["layers"], known["width"]
    if layers is None:
        layers = blocks / width**2 if width else math.cbrt(blocks / _WIDTH_PER_LAYER**2)
        fill("layers", layers, "from the number of parameters")
        fill("width", _WIDTH_PER_LAYER * known["layers"], "from the number of parameters")
    width = _HEAD_DIM * round(math.sqrt(blocks / known["layers"]) / _HEAD_DIM)
    fill("width", width, "from the number of parameters and layers")
    size = known["width"] / known["heads"] if known["heads"] else _HEAD_DIM
    fill("head_dim", size, f"from width {known['width']}")
    heads = known["width"] / known["head_dim"]
    fill("heads", _KV_HEADS * round(heads / _KV_HEADS) or heads, f"from width {known['width']}")
    if known["heads"] % _KV_HEADS == 0:
        fill("kv_heads", _KV_HEADS, "as in most models since 2023")
    fill("kv_heads", known["heads"], "one for each head")
    fill("vocabulary", _VOCABULARY, "as in Llama 3")
