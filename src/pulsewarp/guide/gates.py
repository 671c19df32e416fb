"""Gates: what rules a machine out, or speaks for one, before any number is compared.

One rule is one function. It reads a Workload and returns a sentence about that workload, or None when it
has nothing to say; a field that is unknown ("any", None) never makes a rule speak. What a rule blocks or
speaks for, who says so and when, until when it holds, the way round it and what that way costs, and the
lesson that shows its mechanism stand in the decorator above it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

from pulsewarp import chips, matmul
from pulsewarp.chips import Source
from pulsewarp.guide import models
from pulsewarp.guide.workload import Workload

Rule = Callable[[Workload], str | None]


@dataclass(frozen=True)
class Shown:
    """Where a gate's mechanism can be seen: a section of a lesson, and the scene in it.

    Attributes
    ----------
    notebook, section : str
        The notebook's name without its ending, and the section's heading.
    scene : str
        The player in that notebook that shows it; empty where it is told, measured or computed there.
    """

    notebook: str
    section: str
    scene: str = ""

    def __str__(self) -> str:
        return f"{self.notebook}, {self.section!r}" + (f" ({self.scene})" if self.scene else "")


@dataclass(frozen=True, repr=False, eq=False)  # one of a kind; each question looks up what all of them said
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
    holds_until : str
        What would end the rule, where it is about today's software or offers; empty where it is about the
        machines themselves.
    shown_in : Shown or None
        The lesson that shows the mechanism; None where none does.
    """

    name: str
    blocks: tuple[str, ...]
    favours: str | None
    rule: Rule
    source: Source
    way_round: str
    way_round_cost: str
    contested: str = ""
    holds_until: str = ""
    shown_in: Shown | None = None

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
    holds_until: str = "",
    shown_in: Shown | None = None,
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
                holds_until=holds_until,
                shown_in=shown_in,
            )
        )
        return rule

    return register


# --- sources that several rules share -----------------------------------------------------------------------

_WHEN_TO_USE_TPUS = (
    "Google Cloud documentation, About TPUs: when to use TPUs, and what they are not suited to",
    "https://docs.cloud.google.com/compute/docs/tpus/overview.md.txt",
    "undated, read 2026-12-01",
)
_CPU_GPU_OR_TPU = (
    "Google Cloud documentation, Introduction to Cloud TPU: which models belong on CPUs, GPUs and TPUs",
    "https://docs.cloud.google.com/tpu/docs/intro-to-tpu.md.txt",
    "undated, read 2026-12-01",
)
_RECOMPILATION = (
    "PyTorch/XLA 2.8 documentation, Troubleshooting recompilations",
    "https://docs.pytorch.org/xla/release/r2.8/perf/recompilation.html",
    "release 2.8, read 2026-12-01",
)
_EDGE_TPU = (
    "Axis developer documentation, ARTPEC-7 (Edge TPU): 8-bit operators, constant sizes, one partition",
    "https://developer.axis.com/computer-vision/on-device/system-on-chip/artpec-7/optimization-tips/",
    "undated, read 2026-12-01",
)

# --- words that several rules share -------------------------------------------------------------------------

_TUNED = ("train", "finetune")
_XLA = ("jax", "tensorflow")
_PYTORCH = ("pytorch", "pytorch_xla")
_PYTORCH_SERVED = (*_PYTORCH, "vllm", "several")  # stacks that meet TPUs through PyTorch
_FIXED = ("static", "bucketed")
_CHANGING = ("dynamic", "ragged")
_RENTED = ("any", "gcp_ok", "gcp_only", "multi_cloud")
_TPUS_AT_HAND = ("gcp_ok", "gcp_only", "donated_tpu", "kaggle", "colab")
_GPU_KERNELS = ("cuda", "triton")

_SMALL_B = 1.0  # billions of parameters, up to which a few rows leave the array partly empty
_NARROW_B = 4 * 256**2 / 1e9  # four layers as wide as the widest array: below, no batch fills it


def _bucketed_by_an_engine(w: Workload) -> bool:
    """Say whether an engine pads requests to sizes it has compiled, as in serving and in rollouts."""
    return w.domain == "llm" and w.phase in ("inference", "train_and_inference", "rl_posttrain")


def _params_b(w: Workload) -> float | None:
    if w.model is None:
        return w.params_b
    shape = models.shape_of(w)
    return None if shape is None else shape.params_b


def _fills_the_array(w: Workload) -> bool:
    """Say whether nothing known makes the products smaller than the array."""
    params_b = _params_b(w)
    if params_b is not None and params_b < _NARROW_B:
        return False
    # A batch of sequences is many rows in training, so that a large model needs no large batch.
    many_rows = w.domain == "llm" and w.phase in _TUNED and params_b is not None and params_b > _SMALL_B
    return w.batch not in ("one", "small") or many_rows


# --- neither machine is the answer ------------------------------------------------------------------------


@_gate(
    blocks=("tpu", "gpu"),
    source=(
        "MuJoCo 3.7 documentation, MJX: the simulator written anew in JAX, for GPUs and TPUs",
        "https://mujoco.readthedocs.io/en/3.7.0/_sources/mjx.rst.txt",
        "release 3.7, read 2026-12-01",
    ),
    way_round="Move the simulator onto the accelerator (MJX or Brax in JAX, Isaac Lab or MuJoCo Warp in "
    "CUDA), then ask again.",
    way_round_cost="a rewrite of the environment",
)
def host_simulation(w: Workload) -> str | None:
    """Block both where a simulator on the CPU sets the pace."""
    # A simulator written in JAX or CUDA runs on the accelerator itself.
    on_the_chip = w.framework in ("jax", "cuda") or w.custom_kernels in _GPU_KERNELS
    if w.non_matrix_kind == "simulation" and w.non_matrix_share == "high" and not on_the_chip:
        return "A simulator on the CPU sets the pace: either accelerator would wait for it."
    return None


# What a word says in numbers, for the question whether a CPU is done before an accelerator has begun.
_ITEMS = {"one": 1, "small": 32, "medium": 256, "large": 4096}  # in one step
# How often one item uses a weight: a filter at every position, a layer at every token. Where the domain is
# not known, as if weights were used often: the rule then stays silent.
_USED_ONCE = ("recsys", "rl")
_USES = 100
_CPU_FLOPS_PER_SECOND = 5e11  # a server's cores on small matrices
_LAUNCHES_SECONDS = 150e-6  # some tens of kernel launches, a few microseconds each


@_gate(
    blocks=("tpu", "gpu"),
    source=(
        "Stable-Baselines3 documentation, PPO: meant to be run primarily on the CPU unless there is a CNN",
        "https://github.com/DLR-RM/stable-baselines3/blob/334ecd9ce628779b26250d671a1a473eaaea9e92/docs/modules/ppo.md",
        "undated, read 2026-12-01",
    ),
    way_round="Stay on the CPU, or run many copies at once in one program (jax.vmap over seeds or agents).",
    way_round_cost="none, or a rewrite in JAX",
    contested="many teams would use one GPU all the same",
    shown_in=Shown("04_measure_it", "Two clocks"),
)
def too_small(w: Workload) -> str | None:
    """Block both where a CPU has done the step before kernels have been launched."""
    params_b, items = _params_b(w), w.batch_size or _ITEMS.get(w.batch)
    if params_b is None or items is None or w.location == "edge_device":
        return None  # on a device it is power that counts
    per_weight = 2 if w.phase == "inference" else 6  # FLOPs an item; a backward pass costs twice the forward
    uses = 1 if w.domain in _USED_ONCE else _USES
    flops = per_weight * params_b * 1e9 * items * uses
    if flops <= _CPU_FLOPS_PER_SECOND * _LAUNCHES_SECONDS:
        return (
            f"A step is about {flops / 1e6:.2g} MFLOP: a CPU is done before an accelerator's kernels have "
            "been launched."
        )
    return None


@_gate(
    blocks=("tpu", "gpu"),
    source=_CPU_GPU_OR_TPU,
    way_round="Stay on the CPU, or on any small GPU at hand, until the model or the batch has grown.",
    way_round_cost="none",
    contested="many teams would use one GPU all the same",
)
def small_prototype(w: Workload) -> str | None:
    """Block both where a small model in small batches is only tried out."""
    params_b = _params_b(w)
    small = params_b is not None and params_b <= 0.01 and w.batch in ("one", "small")
    if w.phase == "prototype" and small and params_b is not None:
        return (
            f"A prototype of {params_b * 1e3:g} million parameters in small batches needs no accelerator "
            "of its own."
        )
    return None


@_gate(
    blocks=("tpu", "gpu"),
    source=_EDGE_TPU,
    way_round="Take a model from the device's supported list, or a small GPU module or the CPU instead.",
    way_round_cost="another model, or another board",
    contested="small detectors often end on a small GPU module; newer exports map more operations",
)
def edge_operation_limits(w: Workload) -> str | None:
    """Block both where an edge accelerator lacks the model's operations."""
    if w.location == "edge_device" and w.non_matrix_kind == "unsupported_ops":
        return "The edge accelerator lacks operations of this model, so most of it would run on the host CPU."
    return None


_ONE_CHIP = "h100_sxm"  # the most widely rented one


@_gate(
    blocks=("tpu", "gpu"),
    source=(
        "RunPod documentation, serverless pricing: billed by the second of use",
        "https://docs.runpod.io/serverless/pricing",
        "undated, read 2026-11-30",
    ),
    way_round="Use an endpoint that is billed by use; ask again when requests fill a batch.",
    way_round_cost="a price a token above that of a full chip of your own",
    contested="data that must not leave the house may force a machine of one's own",
    shown_in=Shown("01_why_matmul", "Twist: batch 1"),
)
def too_few_requests(w: Workload) -> str | None:
    """Block both where few requests leave chips idle that are paid by the hour."""
    thrifty = w.budget in ("free", "small", "academic", "cost_driven")
    waits = w.latency in ("none", "relaxed", "interactive")
    few = w.batch == "one" or (w.batch == "small" and thrifty)
    # Work that nobody waits for comes one piece after another; outside language models, which compute little
    # for each weight that they read, a piece fills the chip while it lasts.
    filled = w.latency == "none" and w.domain not in ("llm", "any")
    if not (w.phase == "inference" and few and waits and w.location in _RENTED) or filled:
        return None
    if w.batch == "one" and thrifty:
        return "One request at a time leaves a chip idle that is paid by the hour."
    weights = (_params_b(w) or 0) * 1e9 * matmul.BYTES.get(w.precision, 2)
    one_chip = chips.get(_ONE_CHIP).memory_bytes
    counts_money = thrifty or w.budget == "medium"
    if counts_money and one_chip is not None and weights > one_chip:
        return (
            f"{weights / 1e9:.0f} GB of weights need several chips, and few requests at a time leave them "
            "idle."
        )
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
    holds_until="each kernel has a Pallas twin that is as fast",
    shown_in=Shown("03b_your_own_kernel", "A kernel is what one thread does", "KernelPlayer"),
)
def gpu_kernels(w: Workload) -> str | None:
    """Block TPUs where kernels are written for GPUs."""
    if w.custom_kernels in _GPU_KERNELS:
        name = {"cuda": "CUDA", "triton": "Triton"}[w.custom_kernels]
        return f"The work depends on {name} kernels, which no TPU runs."
    if w.framework == "cuda":
        return "The code itself is CUDA, which no TPU runs."
    return None


@_gate(
    blocks=("tpu",),
    source=_WHEN_TO_USE_TPUS,
    way_round="Reformulate in float32 with error-compensated products, where the error can be shown to hold.",
    way_round_cost="numerical analysis, and several products in place of one",
    contested="dense linear algebra of a large quantum-chemistry run was done so on TPUs (arXiv 2202.01255)",
    shown_in=Shown("02b_a_whole_tpu", "Numbers as the hardware has them"),
)
def double_precision(w: Workload) -> str | None:
    """Block TPUs where the arithmetic is fp64."""
    if w.precision == "fp64":
        return "The arithmetic is fp64; no TPU publishes an fp64 peak, data-centre GPUs do."
    return None


@_gate(
    blocks=("tpu",),
    source=(
        "PyTorch/XLA, issue 8720: scatter_reduce on TPUs, and the same scatter in JAX, against a GPU",
        "https://github.com/pytorch/xla/issues/8720",
        "2025-03",
    ),
    way_round="Pad graphs to a few sizes, write gathers as dense products, put embeddings on SparseCore.",
    way_round_cost="wasted padding, and a rewrite of the data path",
    contested="measured on TPU v2 and v3; in JAX the same scatter is slower than a GPU's, yet usable",
    shown_in=Shown("03_the_warp", "What a warp asks of memory"),
)
def gather_and_scatter(w: Workload) -> str | None:
    """Block TPUs where irregular memory access decides, unless XLA code has given it fixed shapes."""
    padded = w.framework in _XLA and w.shapes in _FIXED
    if w.non_matrix_share == "high" and w.non_matrix_kind in ("gather_scatter", "sparse") and not padded:
        kind = {"gather_scatter": "gathers and scatters", "sparse": "sparse operations"}[w.non_matrix_kind]
        return f"Most of the time goes into {kind}, for which a systolic array has no use."
    return None


@_gate(
    blocks=("tpu",),
    source=(
        "PyTorch/XLA 2.8 documentation, Op lowering guide: what is not lowered runs on the CPU",
        "https://docs.pytorch.org/xla/release/r2.8/contribute/op_lowering.html",
        "release 2.8, read 2026-12-01",
    ),
    way_round="Move those operations into preprocessing, or rewrite them from operations that XLA lowers.",
    way_round_cost="a rewrite of the operations",
    holds_until="the operations are lowered: ask each release",
    shown_in=Shown("04_measure_it", "What the compiler did"),
)
def unsupported_operations(w: Workload) -> str | None:
    """Block TPUs where XLA does not lower the model's operations for them."""
    if w.non_matrix_kind == "unsupported_ops" and w.location != "edge_device":
        return "Some operations have no lowering for TPUs and would fall back to the host at every step."
    return None


@_gate(
    blocks=("tpu",),
    source=_RECOMPILATION,
    way_round="Crop or pad to a few fixed lengths (bucketing), or pack sequences.",
    way_round_cost="days of work on the input pipeline; padding wastes arithmetic",
    contested="bucketing has fixed it for many; bounded dynamic shapes are experimental",
    shown_in=Shown("04_measure_it", "What the compiler did"),
)
def changing_shapes_in_pytorch(w: Workload) -> str | None:
    """Block TPUs where PyTorch's tensor shapes change from step to step."""
    if w.shapes in _CHANGING and w.framework in _PYTORCH:
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
    contested="runs that already work on torch_xla keep working; its README has pointed to the native way "
    "since 2025-10 (RFC 9684)",
    holds_until="torch_tpu leaves beta and takes this code over",
)
def pytorch_xla_superseded(w: Workload) -> str | None:
    """Block TPUs by the route from PyTorch that is being given up."""
    if w.framework == "pytorch_xla":
        return "PyTorch/XLA has had no release since 2025-11 and is being replaced: not a base to start on."
    return None


@_gate(
    blocks=("tpu",),
    source=(
        "bitsandbytes 0.50.2 documentation, installation: NVIDIA, AMD and Intel GPUs, Apple, Gaudi, CPUs",
        "https://huggingface.co/docs/bitsandbytes/v0.50.2/en/installation.md",
        "release 0.50.2, read 2026-12-01",
    ),
    way_round="Tune adapters over bf16 or int8 weights in JAX (Tunix, MaxText) on a slice that holds them.",
    way_round_cost="another library, and up to four times the memory for the weights",
    holds_until="a 4-bit training library lists TPUs",
)
def four_bit_tuning(w: Workload) -> str | None:
    """Block TPUs where a model is tuned over 4-bit weights outside JAX: the libraries for it list no TPU."""
    if w.precision == "int4" and w.phase in _TUNED and w.framework in _PYTORCH_SERVED:
        return "Tuning over 4-bit weights rests on libraries whose lists of hardware hold no TPU."
    return None


@_gate(
    blocks=("tpu",),
    source=(
        "9to5Google's report of Alphabet's first quarter of 2026: TPUs sold to a select group of customers",
        "https://www.wesearch.press/s/sundar-pichai-teases-io-2026-as-google-starts-selling-tpus-a-194dfb44",
        "2026-04",
    ),
    way_round="Have the vendor confirm an on-site TPU for you, or move the work to Google Cloud.",
    way_round_cost="a contract of its own kind, or moving the data",
    contested="AI laboratories and capital-market firms have been named as buyers; no price list was seen",
    holds_until="TPUs can be ordered by anyone",
)
def not_for_sale(w: Workload) -> str | None:
    """Block TPUs where the machine has to be bought: they are rented, and sold to few."""
    if w.location == "on_prem":
        return (
            "It must run in your own room; TPUs are rented in one cloud, and sold to selected customers only."
        )
    if w.location == "own_machine":
        return "It must run on your own machine, and no TPU can be bought for it."
    return None


@_gate(
    blocks=("tpu",),
    source=_EDGE_TPU,
    way_round="Quantise the model to 8 bits, with training that allows for it.",
    way_round_cost="some accuracy, and a calibration set",
)
def edge_takes_eight_bits(w: Workload) -> str | None:
    """Block an edge TPU where the model is not in 8-bit integers."""
    if w.location == "edge_device" and w.precision not in ("int8", "any"):
        return f"The model is in {w.precision}, and edge TPUs take 8-bit integers only."
    return None


@_gate(
    blocks=("tpu",),
    source=(
        "Google Cloud documentation, Manage queued resources: on-demand quota does not guarantee capacity",
        "https://docs.cloud.google.com/tpu/docs/queued-resources",
        "undated, read 2026-12-01",
    ),
    way_round="A flexible date, quota in several zones, or a paid reservation.",
    way_round_cost="time, or the price of the reservation",
    contested="spot GPUs run out too, but more clouds rent them",
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
    contested="torch_tpu is in beta since 2026-10; Google's page PyTorch on Cloud TPU (read 2026-12-01) "
    "names Hugging Face, TorchTitan, TorchRec, vLLM and SGLang on it",
    holds_until="torch_tpu leaves beta",
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
        "The Grand Illusion (arXiv 2309.07181): frameworks lose over 40 % of key functions on other hardware",
        "https://huggingface.co/papers/2309.07181",
        "2023-09",
    ),
    way_round="Restrict the research to JAX, which ported far better in the same study.",
    way_round_cost="a change of habits and libraries",
    contested="2023 versions",
    holds_until="the study is repeated with torch_tpu",
)
def exploring_outside_jax(w: Workload) -> str | None:
    """Speak for a GPU where research tries many functions outside JAX."""
    if w.phase in ("research", "prototype") and w.framework in (*_PYTORCH, "several", "custom"):
        return "Exploration needs many functions and new kernels; outside JAX those arrive on GPUs first."
    return None


@_gate(
    favours="gpu",
    source=(
        "verl, issue 5192 (TPU support, open) and pull request 7229: native for NVIDIA, AMD and Ascend",
        "https://github.com/verl-project/verl/issues/5192",
        "2026-08",
    ),
    way_round="Use a post-training stack written for JAX (Tunix, MaxText).",
    way_round_cost="another library",
    contested="changing fast: TPU pull requests are open or merged into a plugin",
    holds_until="the library you use lists TPUs as supported",
)
def post_training_library(w: Workload) -> str | None:
    """Speak for a GPU where reinforcement-learning libraries, which target GPUs, are used."""
    if w.phase == "rl_posttrain" and w.framework in _PYTORCH_SERVED:
        return "The common open post-training libraries pair PyTorch with vLLM and support GPUs first."
    return None


@_gate(
    favours="gpu",
    source=_WHEN_TO_USE_TPUS,
    way_round="Name the kernels' language; what has a Pallas twin, or none but XLA's own operations, is no "
    "obstacle.",
    way_round_cost="a look at the code, and an expert's weeks for each kernel that has no twin",
    contested="Pallas runs on TPUs and GPUs, and some operations called custom are compositions",
    shown_in=Shown("03b_your_own_kernel", "A kernel is what one thread does", "KernelPlayer"),
)
def some_custom_kernels(w: Workload) -> str | None:
    """Speak for a GPU where some operations are custom ones, in a language not named."""
    # In JAX they are compositions that XLA compiles, or Pallas.
    if w.custom_kernels == "some" and w.framework != "jax":
        return "Some operations are custom ones: such kernels exist for GPUs first."
    return None


@_gate(
    favours="gpu",
    source=_CPU_GPU_OR_TPU,
    way_round="Rewrite it in JAX, or lower it to StableHLO, which the TPU's compiler takes.",
    way_round_cost="a rewrite, or a compiler team",
    contested="a laboratory with compiler engineers of its own has such a route: say in_house or pallas",
)
def no_route_through_xla(w: Workload) -> str | None:
    """Speak for a GPU where code of one's own does not pass through XLA, the only way onto a TPU."""
    if w.framework == "custom" and w.custom_kernels not in ("in_house", "pallas"):
        return "The framework is your own: TPUs run only what XLA compiles, GPUs run most languages."
    return None


@_gate(
    favours="gpu",
    source=_CPU_GPU_OR_TPU,
    way_round="Write the differentiable part as dense products in JAX, as radiance fields were.",
    way_round_cost="a rewrite, and no rasteriser, texture unit or ray tracing",
)
def rendering(w: Workload) -> str | None:
    """Speak for a GPU where pictures are drawn outside XLA: rasterisers and ray tracing are GPU hardware."""
    if w.domain == "graphics" and w.framework not in _XLA:
        return "It is graphics: a GPU has rasterisers, texture units and graphics APIs, a TPU has none."
    return None


@_gate(
    favours="gpu",
    source=(
        "vLLM on TPU (tpu-inference), support matrix: FP4 and INT4 untested",
        "https://github.com/vllm-project/tpu-inference/blob/5c1bf4d3920ccd68c30ac41fb6af6a817fc31ba8/"
        "support_matrices/nightly/v7x/flax_nnx/quantization_support_matrix.csv",
        "undated, read 2026-12-01",
    ),
    way_round="Serve in bf16 or int8, or wait for a TPU with 4-bit floating point.",
    way_round_cost="two to four times the memory for the weights",
    contested="vllm-torchtpu names MXFP4 products written in Pallas (2026): they save memory, not arithmetic",
    holds_until="a TPU that can be rented publishes an fp4 peak",
    shown_in=Shown("02b_a_whole_tpu", "Numbers as the hardware has them"),
)
def four_bit_floats(w: Workload) -> str | None:
    """Speak for a GPU where the model is in 4-bit floats, which no TPU that can be rented publishes."""
    if w.precision != "fp4":
        return None
    rentable = [c for c in chips.catalogue() if c.family == "tpu" and c.status.startswith("available")]
    if not any(c.peak_flops_per_second.get("fp4") for c in rentable):
        return "The model is in fp4; no TPU that can be rented publishes an fp4 peak, current GPUs do."
    return None


@_gate(
    favours="gpu",
    source=(
        "vLLM 0.11.2 documentation, quantisation: AWQ, GPTQ and bitsandbytes on GPUs, not on Google TPUs",
        "https://docs.vllm.ai/en/v0.11.2/features/quantization/",
        "release 0.11.2, read 2026-12-01",
    ),
    way_round="Serve int8 (W8A8), which the same table lists for TPUs, or quantise in JAX.",
    way_round_cost="twice the memory for the weights",
    contested="tpu-inference lists INT4 (AWQ) for v5 and v6 in 2026, untested",
    holds_until="the table lists TPUs for 4-bit weights",
)
def four_bit_weights(w: Workload) -> str | None:
    """Speak for a GPU where 4-bit weights are served from PyTorch or vLLM."""
    if w.precision == "int4" and w.phase == "inference" and w.framework in _PYTORCH_SERVED:
        return "4-bit weights are served by kernels that exist for GPUs and are untested on TPUs."
    return None


@_gate(
    favours="gpu",
    source=(
        "JAX, discussion 42116: a Pallas kernel on TPU v5e 411 times as fast as jax.lax.associative_scan",
        "https://github.com/jax-ml/jax/discussions/42116",
        "undated, read 2026-12-01",
    ),
    way_round="Take the chunked form made of matrix products (as Mamba-2 has), or write a Pallas kernel.",
    way_round_cost="another layer, or an expert's weeks",
    contested="one author's measurement, of a layer of its own kind",
    holds_until="the layer has a Pallas kernel",
    shown_in=Shown("04_measure_it", "What is not a matrix product"),
)
def scan_without_a_kernel(w: Workload) -> str | None:
    """Speak for a GPU where a recurrence dominates and no TPU kernel for it is at hand."""
    has_kernel = w.custom_kernels in ("pallas", "in_house")
    if w.non_matrix_kind == "scan" and w.non_matrix_share == "high" and not has_kernel:
        return "A scan takes most of the time; its fast kernels are written for GPUs first."
    return None


@_gate(
    favours="gpu",
    source=_WHEN_TO_USE_TPUS,
    way_round="Write it in JAX, where XLA fuses the chain, and measure.",
    way_round_cost="a port",
    contested="a radiative-transfer code in JAX ran unmodified on a v5e (exojax, issue 682, 2026-03), so "
    "this is not said of JAX code",
    shown_in=Shown("04_measure_it", "What is not a matrix product"),
)
def elementwise_arithmetic(w: Workload) -> str | None:
    """Speak for a GPU where elementwise arithmetic dominates outside JAX."""
    known = w.framework not in ("jax", "any")
    if w.non_matrix_kind == "elementwise" and w.non_matrix_share == "high" and known:
        return "Most of the time goes into elementwise arithmetic, which leaves a matrix unit idle."
    return None


@_gate(
    favours="gpu",
    source=(
        "NVIDIA DALI 2.4 on PyPI: data loading on the CPU is a bottleneck, and can move onto the GPU",
        "https://pypi.org/project/nvidia-dali-nightly-cuda120/2.4.0.dev20260917/",
        "2026-09",
    ),
    way_round="Store decoded records, cache, or feed from more hosts (tf.data service); then ask again.",
    way_round_cost="work on the input pipeline, storage, more CPUs",
    contested="Google's own list sends models limited by the host's input to CPUs; mend the input first",
)
def starved_by_input(w: Workload) -> str | None:
    """Speak for a GPU where the input pipeline sets the pace: it can decode, and smaller ones are rented."""
    if w.non_matrix_kind == "input_pipeline" and w.non_matrix_share == "high":
        return "The input pipeline sets the pace: a fast chip waits, and only a GPU can help decoding."
    return None


@_gate(
    favours="gpu",
    source=_WHEN_TO_USE_TPUS,
    way_round="Raise the batch until the sides of the products reach the array's 128 or 256.",
    way_round_cost="retuning the optimiser",
    contested="only where the model is small too; a large model fills the array at any batch",
    shown_in=Shown("02_the_pulse", "Twist: a batch of one", "BatchesPlayer"),
)
def small_batch_of_a_small_model(w: Workload) -> str | None:
    """Speak for a GPU where the products are too small for the array, and the array is paid for."""
    params_b = _params_b(w)
    small = params_b is not None and params_b <= _SMALL_B
    given = w.location == "donated_tpu"
    if w.phase in _TUNED and w.batch in ("one", "small") and small and not given:
        return "A small model in small batches leaves a systolic array partly empty."
    return None


@_gate(
    favours="gpu",
    source=_WHEN_TO_USE_TPUS,
    way_round="Serve several streams in one batch.",
    way_round_cost="the wait until a batch is full",
    contested="one row at a time is limited by memory on either chip; what counts is the smallest chip that "
    "holds the model, and more sizes of GPU are rented",
    shown_in=Shown("01_why_matmul", "Twist: batch 1"),
)
def few_streams_in_real_time(w: Workload) -> str | None:
    """Speak for a GPU where few streams at a time must be answered at once."""
    few = w.phase == "inference" and w.batch in ("one", "small")
    if few and w.latency == "real_time" and w.location != "edge_device":
        return "Few streams at a time, in real time: no batch to fill a systolic array with."
    return None


@_gate(
    favours="gpu",
    source=_RECOMPILATION,
    way_round="Pad to a few fixed lengths (bucketing); JAX then compiles once for each.",
    way_round_cost="days of work on the input pipeline",
    contested="routine in JAX code; serving engines bucket by themselves",
    shown_in=Shown("04_measure_it", "What the compiler did"),
)
def changing_shapes_in_xla(w: Workload) -> str | None:
    """Speak for a GPU where shapes change in code that XLA compiles and no engine buckets them."""
    if (
        w.shapes in _CHANGING
        and w.framework in _XLA
        and w.non_matrix_kind != "embedding"  # the TPU's embedding units take ragged lookups
        and not _bucketed_by_an_engine(w)
    ):
        return f"Shapes are {w.shapes}: until they are bucketed, XLA compiles each new one."
    return None


@_gate(
    favours="gpu",
    source=(
        "PyTorch/XLA, issue 8720: the same scatter in JAX on TPU v2 and v3, slower than on a GPU",
        "https://github.com/pytorch/xla/issues/8720",
        "2025-03",
    ),
    way_round="Write gathers over a fixed graph as dense products, or as a Pallas kernel on SparseCore.",
    way_round_cost="a rewrite of the layer, and memory for the dense form",
    contested="weather models on fixed meshes are written in JAX and were trained on TPUs by their authors",
    shown_in=Shown("03_the_warp", "What a warp asks of memory"),
)
def gathers_in_fixed_shapes(w: Workload) -> str | None:
    """Speak for a GPU where gathers dominate although XLA code has given them fixed shapes."""
    padded = w.framework in _XLA and w.shapes in _FIXED
    irregular = w.non_matrix_kind in ("gather_scatter", "sparse") and w.non_matrix_share == "high"
    if padded and irregular and w.custom_kernels not in ("pallas", "in_house"):
        return "Shapes are fixed, so a TPU runs it; most of the time still goes into gathers, not products."
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
    contested="the programme's GitHub page was archived in 2026-04: ask whether it still takes applications",
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
    shown_in=Shown("02_the_pulse", "Why fill stops mattering", "BatchesPlayer"),
)
def matrix_work_in_xla(w: Workload) -> str | None:
    """Speak for a TPU where XLA code is mostly matrix products of fixed shapes, and TPUs can be had."""
    regular = w.shapes in _FIXED or (w.shapes in _CHANGING and _bucketed_by_an_engine(w))
    # Trying things out needs functions; JAX has nearly all of them on TPUs, TensorFlow does not.
    settled = w.phase not in ("research", "prototype") or (w.phase == "research" and w.framework == "jax")
    at_hand = w.framework in _XLA and w.location in _TPUS_AT_HAND
    if at_hand and regular and w.non_matrix_share == "low" and settled and _fills_the_array(w):
        name = {"jax": "JAX", "tensorflow": "TensorFlow"}[w.framework]
        return (
            f"{name} code, mostly matrix products in fixed shapes, where TPUs are at hand: no port is needed."
        )
    return None


@_gate(
    favours="tpu",
    source=(
        "KerasRS, DistributedEmbedding using TPU SparseCore and JAX: embedding tables on v5p and v6e",
        "https://keras.io/keras_rs/examples/distributed_embedding_jax",
        "2025-09",
    ),
    way_round="Shard the tables over GPUs (TorchRec, HugeCTR).",
    way_round_cost="a port to PyTorch or CUDA, and an optimiser's care",
    contested="every DLRM-DCNv2 result of MLPerf Training v3.0 to v5.1 that was seen ran on GPUs",
)
def embedding_units(w: Workload) -> str | None:
    """Speak for a TPU where XLA code spends its time on embedding tables, for which TPUs have units."""
    settled = w.phase not in ("research", "prototype")
    at_hand = w.framework in _XLA and w.location in _TPUS_AT_HAND
    if at_hand and w.non_matrix_kind == "embedding" and settled and w.batch not in ("one", "small"):
        return (
            "Large embedding tables in XLA code, where TPUs are at hand: their SparseCores are made for them."
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
