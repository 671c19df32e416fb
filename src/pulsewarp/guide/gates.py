"""Gates: what rules a machine out, or speaks for one, before any number is compared.

One rule is one function. It reads a Workload and returns a sentence about that workload, or None when it
has nothing to say; a field that is unknown ("any", None) never makes a rule speak. What a rule blocks or
speaks for, who says so and when, the way round it and what that way costs stand in the decorator above it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

from pulsewarp import chips
from pulsewarp.chips import Source
from pulsewarp.guide.workload import Workload

Rule = Callable[[Workload], str | None]


@dataclass(frozen=True, repr=False)
class Gate:
    """A rule with its evidence.

    Attributes
    ----------
    name : str
        The rule's name.
    blocks : tuple of str
        Machines that it rules out, "tpu" and "gpu"; empty for a gate that only speaks for one.
    favours : str or None
        The machine it speaks for without ruling the other out.
    rule : callable
        Workload to a sentence, or None.
    source : chips.Source
        Who says so, where, when.
    way_round, way_round_cost : str
        How one gets past it, and what that costs.
    contested : str
        What speaks against the evidence; empty where nothing was seen.
    """

    name: str
    blocks: tuple[str, ...]
    favours: str | None
    rule: Rule
    source: Source
    way_round: str
    way_round_cost: str
    contested: str = ""

    def __repr__(self) -> str:
        effect = f"blocks={self.blocks!r}" if self.blocks else f"favours={self.favours!r}"
        return f"Gate({self.name!r}, {effect}, source={self.source.title!r}, date={self.source.date!r})"


@dataclass(frozen=True)
class Finding:
    """A gate that had something to say about a workload, and the sentence."""

    gate: Gate
    text: str


_registry: list[Gate] = []


def _gate(
    *,
    source: tuple[str, str, str],
    way_round: str,
    way_round_cost: str,
    blocks: tuple[str, ...] = (),
    favours: str | None = None,
    contested: str = "",
) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        title, address, date = source
        name = rule.__name__
        _registry.append(
            Gate(
                name=name,
                blocks=blocks,
                favours=favours,
                rule=rule,
                source=Source(key=name, title=title, address=address, date=date),
                way_round=way_round,
                way_round_cost=way_round_cost,
                contested=contested,
            )
        )
        return rule

    return register


_WHEN_TO_USE_TPUS = (
    "Google Cloud documentation, When to use TPUs",
    "https://docs.cloud.google.com/tpu/docs/intro-to-tpu.md.txt",
    "2026",
)
_TUNED = ("train", "finetune")
_XLA = ("jax", "tensorflow")
_PYTORCH = ("pytorch", "pytorch_xla")


# --- neither machine is the answer ------------------------------------------------------------------------


@_gate(
    blocks=("tpu", "gpu"),
    source=(
        "OpenAI Baselines, issue 726: the CPU simulator is the limit",
        "https://github.com/openai/baselines/issues/726",
        "2018-11",
    ),
    way_round="Move the simulator onto the accelerator (a vectorised simulator in JAX), then ask again.",
    way_round_cost="a rewrite of the environment",
)
def host_simulation(w: Workload) -> str | None:
    """Block both where a simulator on the CPU sets the pace."""
    # A simulator written in JAX runs on the accelerator itself.
    if w.non_matrix_kind == "simulation" and w.framework != "jax":
        return "A simulator on the CPU sets the pace: either accelerator would wait for it."
    return None


@_gate(
    blocks=("tpu", "gpu"),
    source=_WHEN_TO_USE_TPUS,
    way_round="Stay on the CPU, or on any small GPU at hand, until the model or the batch has grown.",
    way_round_cost="none",
    contested="many teams would use one GPU all the same",
)
def too_small(w: Workload) -> str | None:
    """Block both where launching the arithmetic takes longer than doing it."""
    if w.params_b is None or w.batch not in ("one", "small"):
        return None
    parameters = w.params_b * 1e6
    if w.phase == "prototype" and w.params_b <= 0.01:
        return (
            f"A prototype of {parameters:g} thousand parameters in small batches keeps no accelerator busy."
        )
    if w.params_b <= 0.0005:
        return f"{parameters:g} thousand parameters in small batches: launching takes longer than computing."
    return None


@_gate(
    blocks=("tpu", "gpu"),
    source=(
        "google-coral/edgetpu, issue 668: op and tensor limits",
        "https://github.com/google-coral/edgetpu/issues/668",
        "2022-10",
    ),
    way_round="Take a model from the device's supported list, or a small GPU module or the CPU instead.",
    way_round_cost="another model, or another board",
    contested="small detectors often end on a small GPU module; newer exports map more operations",
)
def edge_operation_limits(w: Workload) -> str | None:
    """Block both where an edge accelerator lacks the model's operations."""
    if w.location == "edge_device" and w.non_matrix_kind == "unsupported_ops":
        return "The edge accelerator lacks operations of this model, so most of it would run on the host CPU."
    return None


@_gate(
    blocks=("tpu", "gpu"),
    source=(
        "RunPod documentation, serverless pricing: billed by the second of use",
        "https://docs.runpod.io/serverless/pricing",
        "undated, read 2026-11-30",
    ),
    way_round="Use an endpoint that is billed by use; ask again when requests fill a batch.",
    way_round_cost="a price a token above that of a full chip of your own",
)
def too_few_requests(w: Workload) -> str | None:
    """Block both where single requests leave a chip idle that is paid by the hour."""
    rented = w.location in ("any", "gcp_ok", "gcp_only", "multi_cloud")
    waits = w.latency in ("none", "relaxed", "interactive")
    if w.phase == "inference" and w.batch == "one" and w.budget in ("free", "small") and rented and waits:
        return "One request at a time leaves a chip idle that is paid by the hour."
    return None


# --- what a TPU cannot do ---------------------------------------------------------------------------------


@_gate(
    blocks=("tpu",),
    source=(
        "Triton 3.9.0 on PyPI: the wheel holds an NVIDIA and an AMD backend only; CUDA is NVIDIA's",
        "pypi:triton==3.9.0",
        "2026-10",
    ),
    way_round="Write the kernel in Pallas (JAX's kernel language, TPUs included), or do without it.",
    way_round_cost="an expert's weeks for each kernel, and a second copy to maintain",
    contested="Pallas has existed since 2023; older advice against TPUs for this reason predates it",
)
def gpu_kernels(w: Workload) -> str | None:
    """Block TPUs where kernels are written for GPUs."""
    if w.custom_kernels in ("cuda", "triton"):
        name = {"cuda": "CUDA", "triton": "Triton"}[w.custom_kernels]
        return f"The work depends on {name} kernels, which no TPU runs."
    if w.framework == "cuda":
        return "The code itself is CUDA, which no TPU runs."
    return None


@_gate(
    blocks=("tpu",),
    source=(
        "Google Cloud documentation, workloads not suited to TPUs: high-precision arithmetic",
        "https://docs.cloud.google.com/docs/compute-area/tpus.md.txt",
        "2026",
    ),
    way_round="Reformulate in float32 with error-compensated products, where the error can be shown to hold.",
    way_round_cost="numerical analysis, and several products in place of one",
)
def double_precision(w: Workload) -> str | None:
    """Block TPUs where the arithmetic is fp64."""
    if w.precision == "fp64":
        return "The arithmetic is fp64; no TPU publishes an fp64 peak, data-centre GPUs do."
    return None


@_gate(
    blocks=("tpu",),
    source=(
        "PyTorch/XLA, issue 2473: custom graph operations have no lowering and fall back to the host",
        "https://github.com/pytorch/xla/issues/2473",
        "2020-08",
    ),
    way_round="Pad graphs to a few sizes, write gathers as dense products, put embeddings on SparseCore.",
    way_round_cost="wasted padding, and a rewrite of the data path",
    contested="the comparisons are of 2020 to 2022, on TPU v2 and v3",
)
def gather_and_scatter(w: Workload) -> str | None:
    """Block TPUs where irregular memory access decides."""
    if w.non_matrix_share == "high" and w.non_matrix_kind in ("gather_scatter", "sparse"):
        kind = {"gather_scatter": "gathers and scatters", "sparse": "sparse operations"}[w.non_matrix_kind]
        return f"Most of the time goes into {kind}, for which a systolic array has no use."
    return None


@_gate(
    blocks=("tpu",),
    source=(
        "PyTorch/XLA, issue 2473: operations without a lowering fall back to the host",
        "https://github.com/pytorch/xla/issues/2473",
        "2020-08",
    ),
    way_round="Move those operations into preprocessing, or rewrite them from operations that XLA lowers.",
    way_round_cost="a rewrite of the operations",
)
def unsupported_operations(w: Workload) -> str | None:
    """Block TPUs where XLA does not lower the model's operations for them."""
    if w.non_matrix_kind == "unsupported_ops" and w.location != "edge_device":
        return "Some operations have no lowering for TPUs and would fall back to the host at every step."
    return None


@_gate(
    blocks=("tpu",),
    source=(
        "fairseq, issues 2622 and 3695: XLA recompiles whenever a length changes",
        "https://github.com/facebookresearch/fairseq/issues/2622",
        "2020-09",
    ),
    way_round="Crop or pad to a few fixed lengths (bucketing), or pack sequences.",
    way_round_cost="days of work on the input pipeline; padding wastes arithmetic",
    contested="bucketing has fixed it for many",
)
def changing_shapes_in_pytorch(w: Workload) -> str | None:
    """Block TPUs where PyTorch's tensor shapes change from step to step."""
    if w.shapes in ("dynamic", "ragged") and w.framework in _PYTORCH:
        return f"Shapes are {w.shapes} and the code is PyTorch: each new shape is compiled anew on a TPU."
    return None


@_gate(
    blocks=("tpu",),
    source=(
        "torch_xla 2.9.0 on PyPI, its last release; torch_tpu 0.2.0 (beta, 2026-10) is to follow it",
        "pypi:torch-xla==2.9.0",
        "2025-11",
    ),
    way_round="Use the model's JAX trainer, or try torch_tpu on your own model in a pilot.",
    way_round_cost="a port to JAX, or the risk of a beta",
    contested="runs that already work on torch_xla keep working; the rule weakens once torch_tpu is stable",
)
def pytorch_xla_superseded(w: Workload) -> str | None:
    """Block TPUs by the route from PyTorch that is being given up."""
    if w.framework == "pytorch_xla":
        return "PyTorch/XLA has had no release since 2025-11 and is being replaced: not a base to start on."
    return None


@_gate(
    blocks=("tpu",),
    source=(
        "EconoTimes on TPUs at customers' sites: so far rented in one cloud only",
        "https://econotimes.com/Google-Intensifies-AI-Chip-Battle-as-Meta-Considers-Multibillion-Dollar-TPU-Deal-1726846",
        "2025-11",
    ),
    way_round="Have the vendor confirm an on-site TPU for you, or move the work to Google Cloud.",
    way_round_cost="a contract of its own kind, or moving the data",
    contested="press reports of pilots at customers' sites in 2026 and 2027, unverified",
)
def not_for_sale(w: Workload) -> str | None:
    """Block TPUs where the machine has to be bought: they are rented."""
    if w.location == "on_prem":
        return "It must run in your own room, and TPUs are rented in one cloud rather than sold."
    if w.location == "own_machine":
        return "It must run on your own machine, and no TPU can be bought for it."
    return None


@_gate(
    blocks=("tpu",),
    source=(
        "gsoc-wav2vec2, issue 11: days without TPU capacity in the quota's zone",
        "https://github.com/thevasudevgupta/gsoc-wav2vec2/issues/11",
        "2021-07",
    ),
    way_round="A flexible date, quota in several zones, or a paid reservation.",
    way_round_cost="time, or the price of the reservation",
    contested="spot GPUs run out too",
)
def capacity_by_a_date(w: Workload) -> str | None:
    """Block TPUs where a deadline meets capacity that nobody guarantees."""
    unpaid = w.budget in ("free", "small", "academic")
    if w.latency == "deadline" and unpaid and w.location != "donated_tpu":
        return "There is a deadline, and free or small TPU quota can be without capacity for days."
    return None


# --- what speaks for a GPU --------------------------------------------------------------------------------


@_gate(
    favours="gpu",
    source=(
        "Migrating from NVIDIA GPU to Google TPU, by a former TPU-adoption engineer",
        "https://qihqi.github.io/posts/migrating-nvidia-gpu-to-google-tpu",
        "2026-03",
    ),
    way_round="Port to JAX, or try torch_tpu 0.2.0 (beta, 2026-10) on your own model; give port_weeks and "
    "usd_per_engineer_week with tokens_b and the guide counts the port instead.",
    way_round_cost="weeks of port",
    contested="torch_tpu was announced 2026-04 and is in beta: this rule is about today's date",
)
def pytorch_port(w: Workload) -> str | None:
    """Speak for a GPU where the code is PyTorch and its port has not been priced."""
    priced = None not in (w.port_weeks, w.usd_per_engineer_week, w.tokens_b)
    if w.framework == "pytorch" and not priced:
        return "The code is PyTorch: it runs on GPUs today, and on TPUs after a port."
    return None


@_gate(
    favours="gpu",
    source=(
        "The Grand Illusion, the myth of software portability: 44 % of PyTorch functions failed on TPU",
        "https://liner.com/review/the-grand-illusion-the-myth-of-software-portability-and-implications",
        "2023-09",
    ),
    way_round="Restrict the research to JAX, which ported far better in the same study.",
    way_round_cost="a change of habits and libraries",
    contested="2023 versions",
)
def exploring_outside_jax(w: Workload) -> str | None:
    """Speak for a GPU where research tries many functions outside JAX."""
    if w.phase in ("research", "prototype") and w.framework in (*_PYTORCH, "several", "custom"):
        return "Exploration needs many functions and new kernels; outside JAX those arrive on GPUs first."
    return None


@_gate(
    favours="gpu",
    source=(
        "verl, issue 5192: TPU support is an open request",
        "https://github.com/verl-project/verl/issues/5192",
        "2026-08",
    ),
    way_round="Use a post-training stack written for JAX (Tunix, MaxText).",
    way_round_cost="another library",
    contested="changing fast",
)
def post_training_library(w: Workload) -> str | None:
    """Speak for a GPU where reinforcement-learning libraries, which target GPUs, are used."""
    if w.phase == "rl_posttrain" and w.framework in (*_PYTORCH, "vllm", "several"):
        return "The common open post-training libraries pair PyTorch with vLLM and support GPUs first."
    return None


@_gate(
    favours="gpu",
    source=(
        "vLLM on TPU (tpu-inference), support matrix: new large mixtures listed as untested or too large",
        "https://github.com/vllm-project/tpu-inference/tree/b8692ff01/support_matrices/nightly",
        "2026-08",
    ),
    way_round="Serve in bf16 or int8, or wait for a TPU with 4-bit floating point.",
    way_round_cost="two to four times the memory for the weights",
)
def four_bit_floats(w: Workload) -> str | None:
    """Speak for a GPU where the model is in 4-bit floats, which no TPU that can be rented publishes."""
    rentable = [c for c in chips.catalogue() if c.family == "tpu" and c.status.startswith("available")]
    if w.precision == "fp4" and not any(c.peak_flops_per_second.get("fp4") for c in rentable):
        return "The model is in fp4; no TPU that can be rented publishes an fp4 peak, current GPUs do."
    return None


@_gate(
    favours="gpu",
    source=_WHEN_TO_USE_TPUS,
    way_round="Raise the batch until the sides of the products reach the array's 128 or 256.",
    way_round_cost="retuning the optimiser",
    contested="only where the model is small too; a large model fills the array at any batch",
)
def small_batch_of_a_small_model(w: Workload) -> str | None:
    """Speak for a GPU where the products are too small for the array."""
    small = w.params_b is not None and w.params_b <= 1
    if w.phase in _TUNED and w.batch in ("one", "small") and small:
        return "A small model in small batches leaves a systolic array partly empty."
    return None


@_gate(
    favours="gpu",
    source=(
        "fairseq, issues 2622 and 3695: XLA recompiles whenever a length changes",
        "https://github.com/facebookresearch/fairseq/issues/2622",
        "2020-09",
    ),
    way_round="Pad to a few fixed lengths (bucketing); JAX then compiles once for each.",
    way_round_cost="days of work on the input pipeline",
    contested="routine in JAX code; serving engines bucket by themselves",
)
def changing_shapes_in_xla(w: Workload) -> str | None:
    """Speak for a GPU where shapes change in code that XLA compiles and no engine buckets them."""
    engine = w.domain == "llm" and w.phase in ("inference", "train_and_inference")
    if (
        w.shapes in ("dynamic", "ragged")
        and w.framework in _XLA
        and w.non_matrix_kind != "embedding"  # the TPU's embedding units take ragged lookups
        and not engine
    ):
        return f"Shapes are {w.shapes}: until they are bucketed, XLA compiles each new one."
    return None


@_gate(
    favours="gpu",
    source=(
        "EleutherAI, GPT-Neo and GPT-NeoX: the donor of the compute decided",
        "https://www.eleuther.ai/research/projects/gpt-neo/",
        "2022",
    ),
    way_round="Find a TPU donor (TPU Research Cloud).",
    way_round_cost="an application, and quota where it is granted",
)
def donated_gpus(w: Workload) -> str | None:
    """Speak for a GPU where capacity is given that is not a TPU."""
    if w.location == "donated_other":
        return "The capacity is donated or contracted, and it is not TPUs."
    return None


# --- what speaks for a TPU --------------------------------------------------------------------------------


@_gate(
    favours="tpu",
    source=(
        "OpenLLaMA: trained on TPU v4 from the TPU Research Cloud",
        "https://github.com/openlm-research/open_llama/blob/6e7f73e/README.md",
        "2023-07",
    ),
    way_round="Pay for GPUs.",
    way_round_cost="the whole bill",
)
def donated_tpus(w: Workload) -> str | None:
    """Speak for a TPU where TPU capacity is given."""
    if w.location == "donated_tpu":
        return "TPU capacity is donated; a GPU would have to be paid for."
    return None


@_gate(
    favours="tpu",
    source=(
        "Google tpu-recipes: published training runs on v5p, v6e and Ironwood",
        "https://github.com/AI-Hypercomputer/tpu-recipes",
        "2026-08",
    ),
    way_round="The same JAX code runs on GPUs: compare quotes, and choose by cost a step.",
    way_round_cost="none to the code",
    contested="a win on price and capacity more than on speed: the same code trained 70B in 9.2 s a step on "
    "512 H100 and in 11.6 s on 512 v5p (arXiv 2507.05411); TensorFlow is not supported on TPU7x",
)
def matrix_work_in_xla(w: Workload) -> str | None:
    """Speak for a TPU where XLA code is mostly matrix products of fixed shapes, and TPUs can be had."""
    framework = w.framework in _XLA
    embedding = w.non_matrix_kind == "embedding" and w.non_matrix_share in ("low", "medium")
    regular = w.shapes in ("static", "bucketed") and w.non_matrix_share == "low"
    reachable = w.location in ("gcp_ok", "gcp_only", "donated_tpu", "kaggle", "colab")
    settled = w.phase not in ("research", "prototype")
    fills = w.batch not in ("one", "small")
    if framework and (regular or embedding) and reachable and settled and fills:
        name = {"jax": "JAX", "tensorflow": "TensorFlow"}[w.framework]
        return (
            f"{name} code, mostly matrix products in fixed shapes, where TPUs are at hand: no port is needed."
        )
    return None


@_gate(
    favours="tpu",
    source=(
        "ultralytics, issue 4719: what a USB edge TPU runs is decided by its supported list",
        "https://github.com/ultralytics/ultralytics/issues/4719",
        "2023-09",
    ),
    way_round="A small GPU module, at more power.",
    way_round_cost="another board",
)
def edge_model_that_fits(w: Workload) -> str | None:
    """Speak for an edge TPU where the model is 8-bit and all its operations are supported."""
    if w.location == "edge_device" and w.precision == "int8" and w.non_matrix_kind == "none":
        return "An 8-bit model of supported operations is what an edge TPU is made for."
    return None


GATES: tuple[Gate, ...] = tuple(_registry)


@functools.lru_cache(maxsize=4096)
def check(workload: Workload, gates: tuple[Gate, ...] = GATES) -> tuple[Finding, ...]:
    """Ask every gate about a workload.

    Parameters
    ----------
    workload : Workload
        What is to run.
    gates : tuple of Gate
        The gates to ask, in order; all of them by default.

    Returns
    -------
    tuple of Finding
        Those that had something to say: first those that block both machines, then those that block one,
        then those that speak for one; within each kind in the registry's order.

    Examples
    --------
    >>> [finding.gate.name for finding in check(Workload(custom_kernels="triton"))]
    ['gpu_kernels']
    """
    found = [Finding(gate, text) for gate in gates if (text := gate.rule(workload)) is not None]
    return tuple(sorted(found, key=lambda finding: -len(finding.gate.blocks)))
