"""What the reader wants to run: a `Workload`, every field of it optional."""

from __future__ import annotations

import contextlib
import copy
import inspect
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, NamedTuple

from pulsewarp import chips
from pulsewarp._checks import choice, instance, known_keywords, positive_number, whole_number
from pulsewarp._files import YAML_ENDINGS, read_json, read_yaml_fields
from pulsewarp.guide import model_card

FORM = "pulsewarp-workload/1"

# Neighbouring words stand next to each other where a field has an order (precision, batch, share):
# the nearest change that alters a verdict is then the nearest word.
VOCABULARY: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "domain": (
            *("llm", "vision", "audio", "diffusion", "recsys", "gnn", "rl", "science", "sparse"),
            *("graphics", "edge", "any"),
        ),
        "phase": (
            *("train", "finetune", "inference", "train_and_inference", "research", "prototype"),
            *("rl_posttrain", "other", "any"),
        ),
        "finetune_method": ("full", "lora", "any"),
        "precision": ("fp64", "fp32", "mixed", "bf16", "fp16", "fp8", "int8", "fp4", "int4", "any"),
        "batch": ("one", "small", "medium", "large", "any"),
        "shapes": ("static", "bucketed", "dynamic", "ragged", "any"),
        "framework": (
            *("jax", "pytorch", "pytorch_xla", "tensorflow", "vllm", "cuda", "several", "custom", "any"),
        ),
        "custom_kernels": ("none", "some", "cuda", "triton", "pallas", "in_house", "any"),
        "non_matrix_share": ("low", "medium", "high", "any"),
        "non_matrix_kind": (
            *("none", "gather_scatter", "embedding", "sparse", "scan", "elementwise", "simulation"),
            *("bandwidth", "input_pipeline", "unsupported_ops", "any"),
        ),
        "location": (
            *("gcp_ok", "gcp_only", "multi_cloud", "on_prem", "own_machine", "colab", "kaggle"),
            *("donated_tpu", "donated_other", "edge_device", "any"),
        ),
        "budget": ("free", "small", "academic", "medium", "large", "cost_driven", "any"),
        "team_skill": ("beginner", "medium", "strong", "expert", "any"),
        "latency": ("none", "relaxed", "interactive", "real_time", "deadline", "mixed", "any"),
    }
)


class _Limits(NamedTuple):
    """Between which values a number makes sense in its unit; beyond them the unit was mistaken."""

    most: float
    unit: str
    least: float | None = None  # None: anything above 0


_BILLIONS = "It is in billions: write"
_AN_HOUR = "It is the price of one chip for one hour, in US dollars."
_SHARE_OFF = "It is the share taken off the on-demand price: write 0.3 for 30 %."
_WEEKS_AWAY = "It is how many weeks quota, a contract or delivery takes."
_NUMBERS: Mapping[str, _Limits] = MappingProxyType(
    {
        "params_b": _Limits(100_000, f"{_BILLIONS} 7 for a model of 7e9 parameters."),
        "active_params_b": _Limits(100_000, f"{_BILLIONS} 37 for 37e9 active parameters."),
        "tokens_b": _Limits(10_000_000, f"{_BILLIONS} 15000 for 15e12 tokens."),
        "served_tokens_b": _Limits(1e9, f"{_BILLIONS} 2 for 2e9 output tokens of the whole deployment."),
        "token_ms": _Limits(60_000, "It is the longest time between two tokens of one answer, milliseconds."),
        "usd_per_gpu_hour": _Limits(10_000, _AN_HOUR),
        "usd_per_tpu_hour": _Limits(10_000, _AN_HOUR),
        "host_usd_per_chip_hour": _Limits(
            1_000, "It is what the host beside one chip costs for one hour, in US dollars.", 0
        ),
        "gpu_discount": _Limits(0.99, _SHARE_OFF, 0),
        "tpu_discount": _Limits(0.99, _SHARE_OFF, 0),
        "gpu_lead_weeks": _Limits(520, _WEEKS_AWAY, 0),
        "tpu_lead_weeks": _Limits(520, _WEEKS_AWAY, 0),
        "goodput": _Limits(1, "It is the share of paid hours that make progress: write 0.9 for 90 %."),
        "pue": _Limits(5, "It is the power of the whole building over that of its computers, 1.1 to 2.", 1),
        "egress_tb": _Limits(
            1e6, "It is in terabytes (1e12 bytes) to be moved to reach the other machine.", 0
        ),
        "usd_per_egress_gb": _Limits(100, "It is the price of moving one gigabyte out, in US dollars.", 0),
        "port_weeks": _Limits(5_000, "It is in weeks of one engineer.", 0),
        "leave_weeks": _Limits(5_000, "It is in weeks of one engineer, for going back.", 0),
        "usd_per_engineer_week": _Limits(
            1_000_000, "It is the cost of one engineer for one week, in US dollars."
        ),
    }
)
MOST_AT_ONCE: Mapping[str, int] = MappingProxyType({"one": 1, "small": 32, "medium": 256})
"""Sequences served at once that a word for the batch allows; "large" sets no limit."""

_COMMITMENTS = (0, 1, 3)  # years that clouds sell at a discount; 0 is on demand
_WHOLE: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        "layers": (1, 100_000),
        "width": (1, 10_000_000),
        "heads": (1, 100_000),
        "kv_heads": (1, 100_000),
        "head_dim": (1, 100_000),
        "vocabulary": (1, 100_000_000),
        "experts": (1, 1_000_000),
        "experts_per_token": (1, 1_000_000),
        "chips": (0, 10_000_000),
        "seq_len": (1, 100_000_000),
        "output_len": (1, 100_000_000),
        "batch_size": (1, 100_000_000),
        "global_batch": (1, 1_000_000_000),
        "commitment_years": (0, 3),
    }
)


@dataclass(frozen=True, init=False, repr=False)
class Workload:
    """What you want to run, in words and numbers that the guide knows; unknown is an answer.

    A word left out is ``"any"`` (unknown), a number left out is None. Nothing is guessed from what is
    missing: a rule that needs a field it does not have stays silent. What is not modelled: several
    workloads sharing one machine, and anything a word of the vocabulary cannot say.

    Parameters
    ----------
    domain, phase, finetune_method, precision, batch, shapes, framework, custom_kernels, non_matrix_share, \
non_matrix_kind, location, budget, team_skill, latency : str
        One word each, from ``guide.VOCABULARY[field]``.
    model_type, date : str, optional
        Free words, repeated in the report and used by no rule.
    model : str, optional
        Id of a model card, such as "llama-3.1-70b"; `guide.models.shape_of` fills what is missing from it.
    params_b, active_params_b : float, optional
        Parameters, and parameters active per token, in billions (1e9).
    layers, width, heads, kv_heads, head_dim, vocabulary : int, optional
        Blocks, elements of the residual stream, query heads, key and value heads, elements of one head,
        tokens in the vocabulary.
    experts, experts_per_token : int, optional
        Routed experts in a layer, and how many of them a token visits.
    chips : int, optional
        How many accelerators you think of.
    seq_len : int, optional
        Context, tokens; in inference prompt and output together.
    output_len : int, optional
        Of these, tokens generated for one request.
    batch_size : int, optional
        Sequences worked on at once by all chips: served together, or in training held in memory at one time.
    global_batch : int, optional
        Sequences in one optimiser step.
    tokens_b : float, optional
        Training tokens of the whole run, in billions (1e9).
    gpu_chip, tpu_chip : str, optional
        Catalogue ids that restrict the comparison to one chip on that side.
    usd_per_gpu_hour, usd_per_tpu_hour : float, optional
        Your own quote, US dollars for one chip and hour; needs `gpu_chip` or `tpu_chip`.
    gpu_discount, tpu_discount : float, optional
        Share taken off on-demand prices, 0.3 for 30 %.
    commitment_years : int, optional
        Years committed to: 0, 1 or 3.
    host_usd_per_chip_hour : float, optional
        What the host beside one chip costs an hour where the price leaves it out, US dollars.
    goodput : float, optional
        Share of paid hours that make progress, at most 1.
    gpu_lead_weeks, tpu_lead_weeks : float, optional
        Weeks until the machine is there: quota, contract, delivery.
    port_weeks, leave_weeks : float, optional
        Weeks of one engineer that bringing the code to a TPU, and going back, would take.
    usd_per_engineer_week : float, optional
        What one such week costs, US dollars.
    egress_tb, usd_per_egress_gb : float, optional
        Terabytes to be moved to reach the other machine, and the price of moving one gigabyte, US dollars.
    pue : float, optional
        Power of the whole building over that of its computers.
    token_ms : float, optional
        Longest time between two tokens of one answer, milliseconds.
    served_tokens_b : float, optional
        Output tokens of the whole deployment, in billions (1e9).

    Raises
    ------
    TypeError
        For a keyword that is none of these; names the nearest valid one.
    ValueError
        For an unknown word, a negative or nonsensical number, or fields that contradict each other.

    Examples
    --------
    >>> from pulsewarp import guide
    >>> guide.Workload(domain="llm", phase="train", params_b=70, framework="jax")
    Workload(domain='llm', phase='train', framework='jax', params_b=70.0)
    >>> guide.Workload(framework="jaxx")
    Traceback (most recent call last):
    ...
    ValueError: Unknown framework 'jaxx'; use one of jax, pytorch, pytorch_xla, tensorflow, vllm, cuda, \
several, custom, any. Did you mean 'jax'?
    """

    domain: str = "any"
    phase: str = "any"
    finetune_method: str = "any"
    precision: str = "any"
    batch: str = "any"
    shapes: str = "any"
    framework: str = "any"
    custom_kernels: str = "any"
    non_matrix_share: str = "any"
    non_matrix_kind: str = "any"
    location: str = "any"
    budget: str = "any"
    team_skill: str = "any"
    latency: str = "any"
    model_type: str | None = None
    model: str | None = None
    params_b: float | None = None
    active_params_b: float | None = None
    layers: int | None = None
    width: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    vocabulary: int | None = None
    experts: int | None = None
    experts_per_token: int | None = None
    chips: int | None = None
    seq_len: int | None = None
    output_len: int | None = None
    batch_size: int | None = None
    global_batch: int | None = None
    tokens_b: float | None = None
    gpu_chip: str | None = None
    tpu_chip: str | None = None
    usd_per_gpu_hour: float | None = None
    usd_per_tpu_hour: float | None = None
    gpu_discount: float | None = None
    tpu_discount: float | None = None
    commitment_years: int | None = None
    host_usd_per_chip_hour: float | None = None
    goodput: float | None = None
    gpu_lead_weeks: float | None = None
    tpu_lead_weeks: float | None = None
    port_weeks: float | None = None
    leave_weeks: float | None = None
    usd_per_engineer_week: float | None = None
    egress_tb: float | None = None
    usd_per_egress_gb: float | None = None
    pue: float | None = None
    token_ms: float | None = None
    served_tokens_b: float | None = None
    date: str | None = None

    def __init__(self, **given: Any) -> None:
        known_keywords("Workload", given, _NAMES)
        self._set({**dict.fromkeys(_NAMES), **given})

    def _set(self, given: Mapping[str, Any]) -> None:
        for name, value in given.items():
            object.__setattr__(self, name, _DEFAULTS[name] if value is None else _checked(name, value))
        _refuse_contradictions(self)

    def __repr__(self) -> str:
        return f"Workload({', '.join(f'{name}={value!r}' for name, value in self.known().items())})"

    def known(self) -> dict[str, Any]:
        """Return the fields that say something, in their fixed order.

        Examples
        --------
        >>> Workload(phase="train", chips=8).known()
        {'phase': 'train', 'chips': 8}
        """
        return {name: value for name, value in vars(self).items() if value != _DEFAULTS[name]}

    def change(self, **fields_to_change: Any) -> Workload:
        """Return a copy with some fields changed.

        Examples
        --------
        >>> Workload(phase="train", chips=8).change(chips=16)
        Workload(phase='train', chips=16)
        """
        known_keywords("Workload.change", fields_to_change, _NAMES)
        changed = copy.copy(self)  # what is not changed was checked when it was given
        changed._set(fields_to_change)
        return changed

    def to_dict(self) -> dict[str, Any]:
        """Return the known fields with their form, ready for JSON.

        Examples
        --------
        >>> Workload(phase="train").to_dict()
        {'form': 'pulsewarp-workload/1', 'phase': 'train'}
        """
        return {"form": FORM, **self.known()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Workload:
        """Make a Workload from a mapping, with or without its ``"form"``.

        Raises
        ------
        TypeError, ValueError
            As the constructor does, and for a mapping of another form.

        Examples
        --------
        >>> Workload.from_dict({"phase": "train", "params_b": None})
        Workload(phase='train')
        """
        if not isinstance(data, Mapping):
            raise ValueError(
                f"A workload is a mapping of fields to values, not a {type(data).__name__}; "
                'write {"phase": "train"}.'
            )
        if data.get("form", FORM) != FORM:
            raise ValueError(f"This holds {data['form']!r}, not {FORM!r}; was it written by another program?")
        return cls(**{str(name): value for name, value in data.items() if name != "form"})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Workload:
        """Read a Workload from a JSON or YAML file; the ``"form"`` field may be missing.

        A file whose name ends in .yaml or .yml is YAML, everything else JSON. YAML needs the package PyYAML.

        Parameters
        ----------
        path : str or path
            The file.

        Returns
        -------
        Workload
            Its fields and nothing else: neither the path nor anything beside it is kept.

        Raises
        ------
        ImportError
            For a YAML file where PyYAML is not installed.
        OSError, TypeError, ValueError
            When the file is missing, not JSON or YAML, of another form, or holds fields the guide refuses;
            the sentence names the file and, in YAML, the line.
        """
        if os.fspath(path).lower().endswith(YAML_ENDINGS):
            words, lines = read_yaml_fields(path, "phase: train")
            data = {name: _from_text(name, word) for name, word in words.items()}
        else:
            data, lines = read_json(path, FORM, form_required=False), {}
        for name, value in data.items():
            with _saying_where(path, lines.get(name)):
                known_keywords("Workload", {name: value}, (*_NAMES, "form"))
                if name != "form" and value is not None:
                    _checked(name, value)
        with _saying_where(path, None):
            return cls.from_dict(data)


def checked(workload: Workload) -> Workload:
    """Return `workload` when it is one; otherwise raise a TypeError."""
    return instance("workload", workload, Workload, "write Workload.from_dict(...) for a dictionary")


_DEFAULTS = {field.name: field.default for field in fields(Workload)}
_NAMES = tuple(_DEFAULTS)
# Editors and help() read this; the constructor itself takes **given so that a typo can be answered
# with the nearest valid name instead of Python's own sentence.
Workload.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [
        inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=f.type)
        for f in fields(Workload)
    ]
)


@contextlib.contextmanager
def _saying_where(path: str | os.PathLike[str], line: int | None) -> Iterator[None]:
    """Put the file, and the line where it is known, before the sentence of what is refused."""
    try:
        yield
    except (TypeError, ValueError) as error:
        where = os.fspath(path) if line is None else f"{os.fspath(path)}, line {line}"
        raise type(error)(f"{where}: {error}") from error


def _from_text(name: str, word: str | None) -> Any:
    """Return the number that a YAML file's text is, in a field that takes numbers; otherwise the text."""
    if word is not None and (name in _WHOLE or name in _NUMBERS):
        for kind in (int, float):
            with contextlib.suppress(ValueError):
                return kind(word)
    return word


def _checked(name: str, value: Any) -> Any:
    if name in VOCABULARY:
        return choice(name, value, VOCABULARY[name])
    if name in _WHOLE:
        least, most = _WHOLE[name]
        whole = int(value) if isinstance(value, float) and value.is_integer() else value
        return whole_number(name, whole, least=least, most=most)
    if name in _NUMBERS:
        limits = _NUMBERS[name]
        try:
            number = positive_number(name, value, zero=limits.least is not None)
        except ValueError as error:
            raise ValueError(f"{error} {limits.unit}") from None
        if number > limits.most:
            raise ValueError(f"{name} is {value!r}, more than {limits.most:g}. {limits.unit}")
        if limits.least is not None and number < limits.least:
            raise ValueError(f"{name} is {value!r}, less than {limits.least:g}. {limits.unit}")
        return number
    if name == "model":
        return choice(name, value, [card.id for card in model_card.cards()])
    if name in ("gpu_chip", "tpu_chip"):
        return choice(name, value, chips.ids(name[:3]))
    if not isinstance(value, str):
        raise ValueError(f"{name} is {value!r}, but must be text.")
    return value


def _refuse_contradictions(workload: Workload) -> None:
    _refuse_impossible_shape(workload)
    if workload.model is not None:
        _refuse_another_model(workload, model_card.card(workload.model))
    for side in ("gpu", "tpu"):
        quote, chip = getattr(workload, f"usd_per_{side}_hour"), getattr(workload, f"{side}_chip")
        if quote is not None and chip is None:
            raise ValueError(
                f"usd_per_{side}_hour is given without {side}_chip: a price an hour belongs to one chip; "
                f"add {side}_chip={'h100_sxm' if side == 'gpu' else 'tpu_v5p'!r} or another id."
            )
    if workload.phase == "inference" and workload.tokens_b is not None:
        raise ValueError(
            "tokens_b counts training tokens, but phase is 'inference': leave it out, "
            "or use phase='train_and_inference'."
        )
    if workload.phase == "train" and workload.served_tokens_b is not None:
        raise ValueError(
            "served_tokens_b counts output tokens of a deployment, but phase is 'train': leave it out, "
            "or use phase='train_and_inference'."
        )
    _refuse_what_the_phase_has_not(workload)
    _refuse_two_batches(workload)
    if workload.latency == "none" and workload.token_ms is not None:
        raise ValueError(
            f"latency is 'none' but token_ms is {workload.token_ms:g}: either somebody waits for each token "
            "or nobody does; leave one of the two out."
        )
    years = workload.commitment_years
    if years is not None and years not in _COMMITMENTS:
        raise ValueError(
            f"commitment_years is {years}, but commitments of 1 or 3 years are sold; write 0 for on demand."
        )
    output, context = workload.output_len, workload.seq_len
    if output is not None and context is not None and output > context:
        raise ValueError(
            f"output_len is {output} but seq_len is {context}: seq_len counts prompt "
            "and output together; make it at least their sum."
        )
    if workload.framework == "cuda" and workload.custom_kernels == "pallas":
        raise ValueError(
            "framework is 'cuda' but custom_kernels is 'pallas': Pallas kernels belong to JAX; "
            "use framework='several' when both are in play."
        )


def _refuse_what_the_phase_has_not(workload: Workload) -> None:
    if workload.phase in ("train", "finetune"):
        for name, what in (("token_ms", "time between two tokens"), ("output_len", "length")):
            if getattr(workload, name) is not None:
                raise ValueError(
                    f"{name} is the {what} of an answer, but phase is {workload.phase!r}, in which nothing "
                    "is answered: leave it out, or use phase='train_and_inference'."
                )


def _refuse_two_batches(workload: Workload) -> None:
    sequences, word = workload.batch_size, workload.batch
    most = MOST_AT_ONCE.get(word, 0) if workload.phase == "inference" or word == "one" else 0
    if sequences is not None and 0 < most < sequences:
        raise ValueError(
            f"batch is {word!r}, which is at most {most} at once, but batch_size is {sequences}; leave one "
            "of the two out."
        )
    step = workload.global_batch
    if sequences is not None and step is not None and sequences > step:
        raise ValueError(
            f"batch_size is {sequences} but global_batch is {step}: no more sequences can be worked on at "
            "once than one optimiser step has; swap the two."
        )


def _refuse_impossible_shape(workload: Workload) -> None:
    active, total = workload.active_params_b, workload.params_b
    if active is not None and total is not None and active > total:
        raise ValueError(
            f"active_params_b is {active:g} but params_b is {total:g}: no more parameters can be active than "
            "there are; swap the two, or leave active_params_b out for a dense model."
        )
    heads, kv_heads = workload.heads, workload.kv_heads
    if heads is not None and kv_heads is not None and heads % kv_heads:
        raise ValueError(
            f"heads is {heads} but kv_heads is {kv_heads}: every KV head serves the same number of query "
            "heads, so heads must be a multiple of kv_heads."
        )
    experts, visited = workload.experts, workload.experts_per_token
    if experts is not None and visited is not None and visited > experts:
        raise ValueError(
            f"experts_per_token is {visited} but experts is {experts}: a token cannot visit more experts "
            "than there are; swap the two."
        )
    layers, width = workload.layers, workload.width
    if layers is not None and width is not None and total is not None and layers * width**2 > total * 1e9:
        raise ValueError(
            f"layers is {layers} and width is {width}, but params_b is {total:g}: one width x width matrix a "
            f"layer already has {layers * width**2 / 1e9:.3g} billion parameters; params_b is in billions."
        )


# Names round: "70B" has 70.6 billion parameters, "A3B" 3.4 billion active ones.
_ROUNDED = 0.2


def _refuse_another_model(workload: Workload, card: model_card.ModelShape) -> None:
    remedy = "leave it out, or leave model out and describe your own."
    for name in ("params_b", "active_params_b"):
        given, read = getattr(workload, name), getattr(card, name)
        if given is not None and abs(given - read) > _ROUNDED * read:
            raise ValueError(
                f"model is {card.id!r}, which has {name} {read:.4g}, but {name} is {given:g}; {remedy}"
            )
    shape = ("layers", "width", "heads", "kv_heads", "head_dim", "vocabulary", "experts", "experts_per_token")
    for name in shape:
        given, read = getattr(workload, name), getattr(card, name)
        if given is not None and given != read:
            has = f"has {name} {read}" if read is not None else f"has no {name}"
            raise ValueError(f"model is {card.id!r}, which {has}, but {name} is {given}; {remedy}")
    if workload.domain not in ("any", card.domain):
        raise ValueError(
            f"model is {card.id!r}, whose domain is {card.domain!r}, but domain is {workload.domain!r}; "
            f"{remedy}"
        )
