"""The shape of a model, and the cards of models that many people run, each with its source.

A card's file holds the dimensions as they were read. Parameters are counted from them here, and the tests
hold that count against the total that the model's makers state.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from pulsewarp._checks import choice, class_names_keywords, names_keywords, positive_number, whole_number
from pulsewarp.chips import Source

_DIMENSIONS = (
    *("layers", "width", "heads", "kv_heads", "head_dim", "vocabulary", "experts", "experts_per_token"),
    *("sliding_window", "windowed_layers", "latent_kv"),
)


@class_names_keywords
@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """What time and memory depend on in a model; None where it is not known.

    Modelled: transformers, dense or with experts, with grouped KV heads, sliding windows in some layers, or
    one latent vector in place of keys and values. Not modelled: state-space layers, adapters.

    Parameters
    ----------
    params_b, active_params_b : float
        Parameters, and those that one token uses, in billions (1e9); equal in a dense model.
    id, name : str
        Of the model card; empty for the reader's own model.
    domain : str
        What it is for, a word of ``guide.VOCABULARY["domain"]``; "any" where it is not known.
    layers, width, heads, kv_heads, head_dim, vocabulary : int, optional
        Blocks, elements of the residual stream, query heads, key and value heads, elements of one head,
        tokens in the vocabulary.
    experts, experts_per_token : int, optional
        Routed experts in a layer and how many of them a token visits; None in a dense model.
    sliding_window : int, optional
        Tokens that a windowed layer looks back; None where every layer sees the whole context.
    windowed_layers : int, optional
        How many layers have that window.
    latent_kv : int, optional
        Elements that one token leaves in one layer's cache where keys and values are kept as one latent
        vector (multi-head latent attention); None where they are kept as heads.
    generates : bool
        Whether it makes one token after the other; an encoder does not, and keeps no KV cache.
    source : chips.Source, optional
        Where the card was read; None for the reader's own model.
    remarks : tuple of str
        What was estimated, a sentence each; empty where everything was given or read.

    Examples
    --------
    >>> shape = ModelShape(params_b=8, active_params_b=8, layers=32, kv_heads=8, head_dim=128)
    >>> shape.kv_elements(context=1000)  # keys and values of 32 layers
    65536000
    """

    params_b: float
    active_params_b: float
    id: str = ""
    name: str = ""
    domain: str = "any"
    layers: int | None = None
    width: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    vocabulary: int | None = None
    experts: int | None = None
    experts_per_token: int | None = None
    sliding_window: int | None = None
    windowed_layers: int | None = None
    latent_kv: int | None = None
    generates: bool = True
    source: Source | None = None
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        positive_number("params_b", self.params_b)
        positive_number("active_params_b", self.active_params_b)

    @property
    def expert_params_b(self) -> float:
        """Billions of parameters in all routed experts of all layers; 0 in a dense model.

        From total and active parameters: going from k to E experts a token adds (E - k) experts.
        """
        if self.experts is None or self.experts_per_token is None or self.experts <= self.experts_per_token:
            return 0.0
        idle = self.experts - self.experts_per_token
        return (self.params_b - self.active_params_b) * self.experts / idle

    def kv_elements(self, context: int) -> int | None:
        """Count the elements that one sequence of `context` tokens keeps in the KV cache of all layers.

        Parameters
        ----------
        context : int
            Tokens; a windowed layer keeps no more than its window.

        Returns
        -------
        int or None
            Elements (times the bytes of one gives the cache); None for an encoder, or where the shape does
            not say.
        """
        whole_number("context", context, least=0)
        if self.layers is None or not self.generates:
            return None
        if self.latent_kv is not None:
            per_layer = self.latent_kv
        elif self.kv_heads is not None and self.head_dim is not None:
            per_layer = 2 * self.kv_heads * self.head_dim
        else:
            return None
        windowed = (self.windowed_layers or 0) if self.sliding_window is not None else 0
        tokens = (self.layers - windowed) * context + windowed * min(context, self.sliding_window or 0)
        return per_layer * tokens


def cards() -> tuple[ModelShape, ...]:
    """Return every model card.

    Returns
    -------
    tuple of ModelShape
        In the order of the file: by maker.

    Examples
    --------
    >>> [card.id for card in cards()][:3]
    ['llama-3.1-8b', 'llama-3.1-70b', 'llama-3.1-405b']
    """
    return tuple(_cards().values())


@names_keywords
def card(model: str) -> ModelShape:
    """Return one model card.

    Parameters
    ----------
    model : str
        Its id, such as "llama-3.1-70b".

    Returns
    -------
    ModelShape
        Dimensions as read, parameters as counted from them.

    Raises
    ------
    ValueError
        When there is no such card; the nearest id is named.

    Examples
    --------
    >>> mixtral = card("mixtral-8x7b")
    >>> round(mixtral.params_b, 1), round(mixtral.active_params_b, 1), mixtral.experts
    (46.7, 12.9, 8)
    """
    return _cards()[choice("model", model, _cards())]


@functools.cache
def _cards() -> Mapping[str, ModelShape]:
    file = resources.files("pulsewarp.guide") / "data" / "models.json"
    data = json.loads(file.read_text(encoding="utf-8"))
    sources = {key: Source(key, **source) for key, source in data["sources"].items()}
    return {row["id"]: _card(row, sources) for row in data["models"]}


def _card(row: Mapping[str, Any], sources: Mapping[str, Source]) -> ModelShape:
    total, idle = count_parameters(row)
    return ModelShape(
        params_b=total / 1e9,
        active_params_b=(total - idle) / 1e9,
        id=row["id"],
        name=row["name"],
        domain=row["domain"],
        generates=not row.get("encoder", False),
        source=sources[row["source"]],
        **{name: row[name] for name in _DIMENSIONS if name in row},
    )


def count_parameters(row: Mapping[str, Any]) -> tuple[int, int]:
    """Count a card's parameters, and those of the experts that one token does not visit.

    Counted: attention, feed-forward matrices, router, the tables at both ends. Not counted: norms and
    biases, less than two parts in a thousand.

    Parameters
    ----------
    row : mapping
        One model of ``data/models.json``.

    Returns
    -------
    tuple of int
        All parameters, idle ones.
    """
    count, width, layers = row["counted_from"], row["width"], row["layers"]
    one = count["feed_forward_matrices"] * width  # of a feed-forward network one element wide
    experts, idle = 0, 0
    dense_layers = layers
    if "experts" in row:
        dense_layers = count["dense_layers"]
        routed = layers - dense_layers
        shared = count.get("shared_experts", 0)
        each = one * count["expert_width"]
        experts = routed * ((row["experts"] + shared) * each + width * row["experts"])
        idle = routed * (row["experts"] - row["experts_per_token"]) * each
    feed_forward = dense_layers * one * count["feed_forward"]
    tables = (row["vocabulary"] or 0) * width * (1 if count["tied_embeddings"] else 2)
    total = layers * _attention(row) + feed_forward + experts + tables + count.get("other_params", 0)
    return total, idle


def _attention(row: Mapping[str, Any]) -> int:
    width, heads, size = row["width"], row["heads"], row["head_dim"]
    latent = row["counted_from"].get("latent")
    if latent is None:
        return int(2 * width * size * (heads + row["kv_heads"]))
    query, kept, rope = latent["query_rank"], latent["kv_rank"], latent["rope_dim"]
    down = width * (query + kept + rope)
    up = query * heads * (size + rope) + kept * heads * 2 * size
    return int(down + up + heads * size * width)
