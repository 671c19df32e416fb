"""The shape of a model: how many parameters, layers, heads and experts, each card with its source."""

from __future__ import annotations

from dataclasses import dataclass

from pulsewarp._checks import class_names_keywords, positive_number, whole_number
from pulsewarp.chips import Source


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
            Elements (times the bytes of one gives the cache), or None where the shape does not say.
        """
        whole_number("context", context, least=0)
        if self.layers is None:
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
