"""What a cost depends on beside speed and price: own numbers, or defaults that say who says so."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pulsewarp._checks import names_keywords
from pulsewarp.chips import Source
from pulsewarp.guide.efficiency import ASSUMED_CONTEXT
from pulsewarp.guide.workload import Workload, checked

ASSUMED = "assumption of the guide"

_LLAMA_3 = Source(
    key="llama_3",
    title="The Llama 3 Herd of Models, section 3.3.4, as reported by Data Center Dynamics: more than 90 % "
    "effective training time on 16,384 H100s",
    address="https://arxiv.org/abs/2407.21783",
    date="2024-07",
)
_MLPERF = Source(
    key="mlperf_latency",
    title="MLPerf Inference, loadgen/mlperf.conf: time per output token of llama2-70b server (200 ms), "
    "llama2-70b-interactive (40 ms) and deepseek-r1-interactive (15 ms)",
    address="https://github.com/mlcommons/inference/blob/001712e9daf80386e0dda43f97b8f36981d792c4/"
    "loadgen/mlperf.conf",
    date="2025, read 2026-12-01",
)
_COMMITTED = Source(
    key="commitment",
    title="Neowin on Trillium's general availability: 2.70 US dollars a chip-hour, 1.89 with one year's "
    "commitment, 1.22 with three",
    address="https://neowin.net/amp/google-takes-on-nvidia-blackwell-gpus-with-the-new-trillium-tpus",
    date="2024-12",
)
_EGRESS = Source(
    key="egress",
    title="Google Cloud network pricing, premium tier to the internet, first TiB a month, as transcribed by "
    "API Evangelist",
    address="https://cloud.google.com/vpc/network-pricing",
    date="2026-09-20",
)

# One year 1 - 1.89/2.70, three years 1 - 1.22/2.70.
_COMMITMENT_DISCOUNT = {0: 0.0, 1: 0.30, 3: 0.55}
_TOKEN_MS = {"relaxed": 200.0, "interactive": 40.0, "mixed": 40.0, "any": 40.0, "real_time": 15.0}


@dataclass(frozen=True)
class CostInput:
    """One number that a cost depends on, with where it is from.

    Attributes
    ----------
    name : str
        The field of `Workload` that replaces it.
    value : float
        In `unit`.
    unit : str
        Such as "US dollars a GB"; empty for a share.
    given : bool
        Whether the reader gave it.
    source : chips.Source or None
        Who says so; None for the reader's own number and for an assumption of the guide.
    text : str
        What it is, and why it is what it is where nobody gave it.
    """

    name: str
    value: float
    unit: str
    given: bool
    source: Source | None
    text: str

    @property
    def origin(self) -> str:
        """In words: "given", the source's title and date, or "assumption of the guide"."""
        if self.given:
            return "given"
        return ASSUMED if self.source is None else f"{self.source.title} ({self.source.date})"


@dataclass(frozen=True)
class _Default:
    value: float
    why: str
    source: Source | None = None


_Rule = Callable[[Workload], _Default | None]


def _goodput(w: Workload) -> _Default:
    if w.phase == "inference":
        return _Default(0.5, "requests come by day, and replicas stay by night")
    return _Default(0.9, "failures and restarts take the rest", _LLAMA_3)


def _host(w: Workload) -> _Default:
    return _Default(0.0, "price rows are for whole machines, unless their note says otherwise")


def _discount(w: Workload) -> _Default:
    years = w.commitment_years or 0
    if years == 0:
        return _Default(0.0, "none without a commitment")
    return _Default(
        _COMMITMENT_DISCOUNT[years],
        f"for {years} year{'s' if years > 1 else ''} as published for TPU v6e; the same is assumed for every "
        "chip, so that it favours neither side",
        _COMMITTED,
    )


def _lead(w: Workload) -> _Default:
    return _Default(0.0, "no dated figure was seen, so none is counted")


def _leave(w: Workload) -> _Default | None:
    return None if w.port_weeks is None else _Default(w.port_weeks, "as many as for coming")


def _egress_tb(w: Workload) -> _Default:
    return _Default(0.0, "none is counted")


def _egress_price(w: Workload) -> _Default:
    return _Default(0.12, "the list price of one large cloud", _EGRESS)


def _pue(w: Workload) -> _Default:
    return _Default(1.0, "cooling is not counted")


def _token_ms(w: Workload) -> _Default | None:
    if w.latency not in _TOKEN_MS:
        return None  # without a bound: the largest batch that fits
    word = "latency is not given, so as if interactive" if w.latency == "any" else f"latency is {w.latency}"
    return _Default(_TOKEN_MS[w.latency], word, _MLPERF)


def _seq_len(w: Workload) -> _Default:
    return _Default(ASSUMED_CONTEXT, "not given")


def _output_len(w: Workload) -> _Default:
    return _Default(max(1, (w.seq_len or ASSUMED_CONTEXT) // 2), "half of the context")


_RULES: Mapping[str, tuple[str, _Rule]] = {
    "goodput": ("", _goodput),
    "host_usd_per_chip_hour": ("US dollars a chip and hour", _host),
    "gpu_discount": ("", _discount),
    "tpu_discount": ("", _discount),
    "gpu_lead_weeks": ("weeks", _lead),
    "tpu_lead_weeks": ("weeks", _lead),
    "leave_weeks": ("weeks", _leave),
    "egress_tb": ("TB", _egress_tb),
    "usd_per_egress_gb": ("US dollars a GB", _egress_price),
    "pue": ("", _pue),
    "token_ms": ("ms", _token_ms),
    "seq_len": ("tokens", _seq_len),
    "output_len": ("tokens", _output_len),
}
_WHAT = {
    "goodput": "Share of paid hours that make progress",
    "host_usd_per_chip_hour": "The host beside one chip",
    "gpu_discount": "Taken off every GPU's on-demand price",
    "tpu_discount": "Taken off every TPU's on-demand price",
    "gpu_lead_weeks": "Until quota, a contract or delivery of GPUs",
    "tpu_lead_weeks": "Until quota, a contract or delivery of TPUs",
    "leave_weeks": "One engineer's weeks for going back, in the high edge only",
    "egress_tb": "Data to be moved to reach TPUs, counted once, and once more in the high edge",
    "usd_per_egress_gb": "Moving data out of a cloud",
    "pue": "Power of the whole building over that of its computers",
    "token_ms": "Longest time between two tokens of one answer",
    "seq_len": "Context: prompt and answer together",
    "output_len": "Tokens of an answer",
}

COST_FIELDS = (*_RULES, "commitment_years", "served_tokens_b")
"""Fields of `Workload` that only costs read."""


@names_keywords
def cost_inputs(workload: Workload) -> tuple[CostInput, ...]:
    """List what the costs of a workload depend on, given or by default.

    Parameters
    ----------
    workload : Workload
        What is to run.

    Returns
    -------
    tuple of CostInput
        What does not matter to this workload (the length of an answer, in training) is left out.

    Raises
    ------
    TypeError
        When `workload` is not a Workload.

    Examples
    --------
    >>> for one in cost_inputs(Workload(phase="train", goodput=0.8))[:2]:
    ...     print(one.name, one.value, one.origin)
    goodput 0.8 given
    host_usd_per_chip_hour 0.0 assumption of the guide
    """
    return _resolved(checked(workload))


@functools.lru_cache(maxsize=4096)
def _resolved(workload: Workload) -> tuple[CostInput, ...]:
    serves = workload.phase == "inference"
    beside_the_point = set() if serves else {"token_ms", "output_len"}
    if not workload.egress_tb:
        beside_the_point.add("usd_per_egress_gb")
    out = []
    for name, (unit, rule) in _RULES.items():
        default, given = rule(workload), getattr(workload, name)
        if name in beside_the_point:
            continue
        if given is not None:
            out.append(CostInput(name, float(given), unit, True, None, _WHAT[name]))
        elif default is not None:
            text = f"{_WHAT[name]}: {default.why}"
            out.append(CostInput(name, float(default.value), unit, False, default.source, text))
    return tuple(out)


# What the rules above read, and all that the numbers depend on.
_READ = (*_RULES, "phase", "latency", "port_weeks", "commitment_years")
_read = operator.attrgetter(*_READ)
_known: dict[tuple[object, ...], Mapping[str, float]] = {}


def values(workload: Workload) -> Mapping[str, float]:
    """Return the numbers of `cost_inputs` by name; asked so often that they are kept by what they read."""
    read = _read(workload)
    if read not in _known:
        if len(_known) > 4096:
            _known.clear()
        _known[read] = MappingProxyType({one.name: one.value for one in _resolved(workload)})
    return _known[read]
