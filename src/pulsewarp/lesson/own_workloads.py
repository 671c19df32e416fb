"""The reader's own workload in a form, and the guide's report on it."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from pulsewarp import chips, guide
from pulsewarp._checks import instance, names_keywords
from pulsewarp.guide import models, report, report_rows
from pulsewarp.guide.workload import checked
from pulsewarp.widgets.workload import WorkloadForm

# Free words that no rule reads; a form has no room for what changes nothing.
LEFT_OUT = ("model_type", "date")

# The first group is what most verdicts turn on; the others are folded.
_GROUPS: Mapping[str, Mapping[str, str]] = {
    "What, in which software, where": {
        "domain": "Domain",
        "phase": "Phase",
        "model": "Model card",
        "params_b": "or parameters, billions",
        "framework": "Framework",
        "custom_kernels": "Own kernels",
        "location": "Where it runs",
        "chips": "How many chips",
    },
    "The work": {
        "precision": "Precision",
        "batch": "Batch",
        "shapes": "Shapes",
        "non_matrix_share": "Share beside matrix products",
        "non_matrix_kind": "Of which kind",
        "finetune_method": "Fine-tuning",
        "latency": "Latency",
        "seq_len": "Context, tokens",
        "output_len": "Of these generated",
        "batch_size": "Sequences at once",
        "global_batch": "Sequences in a step",
        "tokens_b": "Training tokens, billions",
        "served_tokens_b": "Output tokens in all, billions",
        "token_ms": "Longest time between tokens, ms",
    },
    "The team and its money": {
        "team_skill": "Team's skill",
        "budget": "Budget",
        "port_weeks": "Weeks to port the code",
        "leave_weeks": "Weeks to leave again",
        "usd_per_engineer_week": "US dollars an engineer-week",
    },
    "Chips and prices": {
        "gpu_chip": "GPU",
        "usd_per_gpu_hour": "US dollars a GPU-hour",
        "gpu_discount": "Discount on GPUs, 0 to 1",
        "gpu_lead_weeks": "Weeks until GPUs are there",
        "tpu_chip": "TPU",
        "usd_per_tpu_hour": "US dollars a TPU chip-hour",
        "tpu_discount": "Discount on TPUs, 0 to 1",
        "tpu_lead_weeks": "Weeks until TPUs are there",
        "commitment_years": "Years of commitment",
        "host_usd_per_chip_hour": "Host, US dollars a chip-hour",
        "goodput": "Goodput, 0 to 1",
        "egress_tb": "Terabytes to move out",
        "usd_per_egress_gb": "US dollars to move a gigabyte",
        "pue": "PUE of the building",
    },
    "A model of your own": {
        "active_params_b": "Active parameters, billions",
        "layers": "Layers",
        "width": "Width",
        "heads": "Query heads",
        "kv_heads": "KV heads",
        "head_dim": "Elements of a head",
        "vocabulary": "Tokens in the vocabulary",
        "experts": "Experts in a layer",
        "experts_per_token": "Experts a token visits",
    },
}

# Words that do not speak for themselves; the others are shown as they are written.
_WORDS: Mapping[str, str] = {
    "any": "unknown",
    "llm": "language model (llm)",
    "recsys": "recommender (recsys)",
    "gnn": "graph network (gnn)",
    "rl": "reinforcement learning (rl)",
    "gcp_ok": "rented, Google Cloud possible (gcp_ok)",
    "gcp_only": "Google Cloud only (gcp_only)",
    "on_prem": "our own data centre (on_prem)",
    "donated_tpu": "donated TPUs (donated_tpu)",
    "donated_other": "donated, other (donated_other)",
}

#: What a reader may start from, and what a page without a kernel has worked out.
EXAMPLES: Mapping[str, guide.Workload] = {
    "Train a 70B language model in JAX on rented chips": guide.Workload(
        domain="llm", phase="train", framework="jax", custom_kernels="none", shapes="static", batch="large",
        precision="bf16", location="gcp_ok", model="llama-3.1-70b", chips=512, seq_len=8192, tokens_b=1000,
    ),
    "Serve a 70B language model with vLLM to people who chat": guide.Workload(
        domain="llm", phase="inference", framework="vllm", custom_kernels="none", shapes="bucketed",
        precision="bf16", location="gcp_ok", latency="interactive", model="llama-3.1-70b", chips=8,
        seq_len=4096, output_len=512,
    ),
    "Fine-tune an 8B model in PyTorch by LoRA for a small sum": guide.Workload(
        domain="llm", phase="finetune", finetune_method="lora", framework="pytorch", custom_kernels="none",
        shapes="bucketed", batch="small", location="gcp_ok", budget="small", model="llama-3.1-8b",
    ),
    "Try out ideas with Triton kernels on a machine of one's own": guide.Workload(
        domain="vision", phase="research", framework="pytorch", custom_kernels="triton", shapes="dynamic",
        location="own_machine",
    ),
    "Learn to act in a simulator that runs on the host": guide.Workload(
        domain="rl", phase="train", params_b=0.01, non_matrix_share="high", non_matrix_kind="simulation",
    ),
    "Train a recommender with large embedding tables in JAX": guide.Workload(
        domain="recsys", phase="train", framework="jax", custom_kernels="none", shapes="static",
        batch="large", non_matrix_share="medium", non_matrix_kind="embedding", location="gcp_ok",
    ),
}  # fmt: skip


class OwnWorkload(WorkloadForm):
    """What :func:`own_workload` returns: the form, and in Python what it was last asked.

    Attributes
    ----------
    workload : guide.Workload or None
        What the report is about.
    advice : guide.Advice or None
        The guide's advice on it.
    """

    workload: guide.Workload | None = None
    advice: guide.Advice | None = None

    def __init__(self, workload: guide.Workload | None, *, task: str) -> None:
        given = {} if workload is None else _texts(workload)
        super().__init__(
            _groups(given),
            [{"label": label, "values": _texts(each)} for label, each in EXAMPLES.items()],
            report=None if workload is None else self._advise(workload),
            task=task,
        )
        self.answer("advise", lambda request: self._on_asked(request.get("values") or {}))

    def _advise(self, workload: guide.Workload) -> dict[str, Any]:
        self.workload, self.advice = workload, guide.advise(workload)
        return report_of(self.advice)

    def _on_asked(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            workload = read(values)
        except (TypeError, ValueError) as error:
            return {"error": str(error), "field": _field_of(values, str(error))}
        return {"report": self._advise(workload)}

    def _page_state(self) -> dict[str, Any]:
        worked_out = [
            {**example, "report": report_of(_advice(each))}
            for example, each in zip(self.examples, EXAMPLES.values(), strict=True)
        ]
        return {**super()._page_state(), "examples": worked_out}


@names_keywords
def own_workload(workload: guide.Workload | None = None, *, task: str = "") -> OwnWorkload:
    """Let the reader describe a workload of their own in a form, and show the guide's report on it.

    When the reader presses the button, the kernel reads the fields and asks `guide.advise`; what it refuses
    is said in one sentence at its field, and nothing typed is lost. A field left empty is unknown. On a page
    without a kernel the form shows workloads that were worked out when the page was made. What is typed
    stays out of the saved notebook.

    Parameters
    ----------
    workload : guide.Workload, optional
        What the fields say at first, with its report; left out, everything is unknown.
    task : str
        What the reader is asked to do, one sentence.

    Returns
    -------
    OwnWorkload
        Shows itself as the last line of a cell; `.workload` and `.advice` are what it was last asked.

    Raises
    ------
    TypeError
        When `workload` is not a Workload, or `task` no text.

    Examples
    --------
    >>> from pulsewarp import guide, lesson
    >>> form = lesson.own_workload(guide.Workload(phase="research", custom_kernels="triton"))
    >>> form.advice.verdict
    'gpu'
    """
    task = instance("task", task, str, "write one sentence that says what to do")
    return OwnWorkload(None if workload is None else checked(workload), task=task)


# --- from fields to a workload, and back -----------------------------------------------------------------


def _groups(given: Mapping[str, str]) -> list[dict[str, Any]]:
    placed = {name for group in _GROUPS.values() for name in group}
    names = {field.name: field.name.replace("_", " ") for field in fields(guide.Workload)}
    rest = {name: label for name, label in names.items() if name not in {*placed, *LEFT_OUT}}
    groups = {**_GROUPS, **({"More": rest} if rest else {})}
    return [
        {
            "title": title,
            "open": number == 0,
            "fields": [_field(name, label, given) for name, label in group.items() if name in names],
        }
        for number, (title, group) in enumerate(groups.items())
    ]


def _field(name: str, label: str, given: Mapping[str, str]) -> dict[str, Any]:
    choices = _choices(name)
    if choices is None:
        return {"name": name, "label": label, "kind": "number", "value": given.get(name, "")}
    value = given.get(name, choices[0][0])
    return {"name": name, "label": label, "kind": "choice", "value": value, "choices": choices}


def _choices(name: str) -> list[list[str]] | None:
    """Return what a field can be chosen from, unknown first; None for a number."""
    if name in guide.VOCABULARY:
        words = [word for word in guide.VOCABULARY[name] if word != "any"]
        return [[word, _WORDS.get(word, word.replace("_", " "))] for word in ("any", *words)]
    if name == "model":
        return [["", "none of these"], *([card.id, card.name] for card in models.cards())]
    if name in ("gpu_chip", "tpu_chip"):
        ids = chips.ids(name[:3])
        return [["", "the cheapest"], *([chip_id, chips.get(chip_id).name] for chip_id in ids)]
    return None


def _texts(workload: guide.Workload) -> dict[str, str]:
    return {
        name: f"{value:g}" if isinstance(value, float) else str(value)
        for name, value in workload.known().items()
        if name not in LEFT_OUT
    }


def read(values: Mapping[str, Any]) -> guide.Workload:
    """Return the workload that the fields' texts describe; an empty one is unknown."""
    given = {name: str(text).strip() for name, text in values.items()}
    return guide.Workload(**{name: _typed(name, text) for name, text in given.items() if text})


def _typed(name: str, text: str) -> Any:
    if _choices(name) is None:
        for kind in (int, float):
            with contextlib.suppress(ValueError):
                return kind(text)
    return text


def _field_of(values: Mapping[str, Any], sentence: str) -> str | None:
    """Return the field that a refusal is about: the one that is refused alone, or the one it begins with."""
    for name, text in values.items():
        try:
            read({name: text})
        except (TypeError, ValueError) as error:
            if str(error) == sentence:
                return name
    first = re.match(r"\w+", sentence)
    return first[0] if first and first[0] in values else None


# --- from advice to what the form shows ------------------------------------------------------------------


@functools.lru_cache(maxsize=len(EXAMPLES))
def _advice(workload: guide.Workload) -> guide.Advice:
    return guide.advise(workload)


def report_of(advice: guide.Advice) -> dict[str, Any]:
    """Return a report as text that a form shows: nothing in it is left for the browser to compute."""
    verdict, because = report_rows.headline(advice)
    known = advice.workload.known()
    shown = (report_rows.estimates(advice), report_rows.flips(advice))
    folds = (report_rows.inputs(advice), report_rows.prices(advice))
    line = _tables(report_rows.price_line(advice), notes=report_rows.break_even(advice))
    return {
        "verdict": advice.verdict,
        "headline": verdict.text,
        "because": because.text,
        "reasons": [_reason(reason) for reason in advice.reasons],
        "tables": [*line, *_tables(*shown), *_tables(*folds, fold=True)],
        "pilot": _pilot(advice),
        "python": "from pulsewarp import guide\n\nguide.advise(guide.Workload(\n"
        + "".join(f"    {name}={value!r},\n" for name, value in known.items())
        + "))",
        "yaml": report.as_yaml(advice),
        "footer": f"pulsewarp {advice.version}, catalogue as of {advice.as_of}. Bands hold 80 %.",
    }


def _tables(
    *tables: report_rows.Table, fold: bool = False, notes: tuple[report_rows.Cell, ...] = ()
) -> list[dict[str, Any]]:
    return [
        {
            "title": table.title,
            "head": list(table.head),
            "rows": [[[cell.text, cell.href] for cell in row] for row in table.rows],
            "fold": fold,
            "notes": [note.text for note in notes],
        }
        for table in tables
        if table.rows
    ]


def _pilot(advice: guide.Advice) -> dict[str, Any]:
    pilot = advice.pilot
    cost = report_rows.pilot_cost(advice).text
    lines = [pilot.question, f"Metric: {pilot.metric}.", pilot.stop_ratio, cost, *pilot.remarks]
    return {
        "lines": [line for line in lines if line],
        "tables": _tables(report_rows.days(advice), report_rows.commands(advice)),
        "watch": list(pilot.watch),
        "terraform": pilot.terraform() if pilot.machines else "",
    }


def _reason(reason: guide.Reason) -> dict[str, Any]:
    more = {
        "the way round": report_rows.way_round(reason),
        "what speaks against it": reason.contested,
        "until when it holds": getattr(reason, "holds_until", ""),
        "where a lesson shows it": str(getattr(reason, "shown_in", None) or ""),
    }
    source = reason.source
    return {
        "kind": report_rows.KINDS[reason.kind],
        "machine": reason.machine.upper(),
        "text": reason.text,
        "source": "" if source is None else f"{source.title} ({source.date})",
        "address": "" if source is None else source.address,
        "more": [[label, text] for label, text in more.items() if text],
    }
