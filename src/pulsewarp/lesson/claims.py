"""Claims that people repeat about GPUs and TPUs, held against what the catalogue and the guide know."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pulsewarp import chips, guide, roofline
from pulsewarp._checks import choice, names_keywords
from pulsewarp.lesson.decisions import decisions
from pulsewarp.lesson.prediction import Prediction, predict


@dataclass(frozen=True, repr=False)
class Claim:
    """A claim, a question that tests it, and the evidence; every number of it is computed.

    Attributes
    ----------
    said : str
        The claim.
    question, unit : str
        What the reader predicts first.
    choices : tuple
        To choose from; empty where a number is asked for.
    answer : str, int or float
        The computed answer.
    head, rows : tuple
        The evidence as a table.
    finding : str
        What follows, and until when.
    sources : tuple of chips.Source
        Who says so.

    Examples
    --------
    >>> from pulsewarp import lesson
    >>> lesson.claim("pilot").said
    'Start with a pilot'
    """

    said: str
    question: str
    answer: str | float
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    finding: str
    sources: tuple[chips.Source, ...]
    choices: tuple[str, ...] = ()
    unit: str = ""
    within: float = 1.0

    def __repr__(self) -> str:
        return f"Claim({self.said!r}, {len(self.rows)} rows)"

    def __str__(self) -> str:
        rows = [self.head, *self.rows]
        widths = [max(len(row[i]) for row in rows) for i in range(len(self.head))]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        read = [f"Source: {s.title} ({s.date}) <{s.address}>" for s in self.sources]
        return "\n".join([f'"{self.said}"', *lines, self.finding, *read])

    def _repr_html_(self) -> str:
        cells = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in self.rows)
        head = "".join(
            f'<th scope="col" style="text-align:left">{html.escape(cell)}</th>' for cell in self.head
        )
        read = "; ".join(map(_link, self.sources))
        return (
            f"<div><p><strong>“{html.escape(self.said)}”</strong></p>"
            f'<div style="overflow-x:auto" tabindex="0" role="group" aria-label="{html.escape(self.said)}">'
            f"<table><thead><tr>{head}</tr></thead><tbody>{cells}</tbody></table></div>"
            f"<p>{html.escape(self.finding)}</p><p><small>Sources: {read}.</small></p></div>"
        )

    def ask(self) -> Prediction:
        """Ask the question before the evidence is shown."""
        return predict(
            self.question,
            choices=list(self.choices),
            unit=self.unit,
            answer=lambda: self.answer,
            explain=self.finding,
            within=self.within,
        )


def _cell(text: str) -> str:
    return f'<td style="text-align:left;vertical-align:top">{html.escape(text)}</td>'


def _link(source: chips.Source) -> str:
    text = html.escape(f"{source.title} ({source.date})")
    if not source.address.startswith("https://"):
        return f"{text}, {html.escape(source.address)}"
    return f'<a href="{html.escape(source.address)}">{text}</a>'


def _power() -> Claim:
    compared = [chips.energy_fact(name) for name in ("tpu_v1_vs_gpu_perf_per_watt", "tpu_v4_vs_a100_power")]
    rows, sources, last = [], [fact.source for fact in compared], 0
    for chip in sorted(chips.catalogue(), key=lambda chip: (chip.year or 0, chip.id)):
        dtype = next((name for name in ("bf16", "fp16") if chip.peak_flops_per_second.get(name)), None)
        if chip.family not in ("gpu", "tpu") or chip.year is None or dtype is None:
            continue
        for kind, field in (("design", "tdp"), ("measured mean", "measured_power_mean")):
            joules = chips.joules_per_peak_flop(
                chip, dtype, "tdp" if field == "tdp" else "measured_power_mean"
            )
            if joules is None:
                continue
            sources.append(chip.source(f"{field}_watts"))
            rows.append((str(chip.year), chip.name, kind, dtype, f"{1e12 * joules:.3g}"))
            if chip.family == "tpu":
                last = max(last, chip.year)
    paper = compared[1]
    after = [chip for chip in chips.catalogue() if chip.family == "tpu" and (chip.year or 0) > last]
    return Claim(
        said="GPUs draw more power per matrix operation",
        question="What is the year of the newest TPU for which a power per chip is published, so that the "
        "claim can be checked at all?",
        answer=last,
        unit="(a year)",
        head=("Year", "Chip", "Power", "Peak", "pJ for one FLOP of the peak"),
        rows=tuple(rows),
        finding=f"As their makers report it, a GPU of its day did {_spread(compared[0])} times less per watt "
        f"than TPU v1 ({compared[0].source.date}), and an A100 drew {_spread(paper)} times the power of a "
        f"TPU v4 ({paper.source.date}). By design power over peak, though, TPU v2 needs {_pj('tpu_v2')} pJ "
        f"and TPU v3 {_pj('tpu_v3')} where a V100 needs {_pj('v100_sxm2_16')}. The claim can be checked up "
        f"to the TPUs of {last}; for the {len(after)} since then no power per chip is published, while GPUs "
        f"went from {_pj('a100_sxm_80')} (A100) to {_pj('b200')} (B200). Design power and measured power are "
        "different columns: compare within one. Neither is energy at load, which one has to measure.",
        sources=tuple(dict.fromkeys(sources)),
    )


def _pj(chip_id: str) -> str:
    chip = chips.get(chip_id)
    joules = chips.joules_per_peak_flop(chip, "bf16" if chip.peak_flops_per_second.get("bf16") else "fp16")
    return "unknown" if joules is None else f"{1e12 * joules:.3g}"


def _spread(fact: chips.EnergyFact) -> str:
    if fact.low is None or fact.high is None or fact.low == fact.high:
        return f"{fact.high:g}"
    return f"{fact.low:g} to {fact.high:g}"


_BATCH_CHIPS = (
    *("v100_sxm2_16", "tpu_v4", "a100_sxm_80", "h100_sxm", "tpu_v5e", "tpu_v5p", "b200", "tpu_v6e", "tpu_v7"),
)


def _batches() -> Claim:
    found = [chips.get(name) for name in _BATCH_CHIPS]
    batch = {
        chip.name: roofline.ridge_point(chip, "bf16" if "bf16" in chip.peak_flops_per_second else "fp16")
        for chip in found
    }
    ordered = sorted(found, key=lambda chip: batch[chip.name])
    tpus = [round(batch[chip.name]) for chip in found if chip.family == "tpu"]
    gpus = [round(batch[chip.name]) for chip in found if chip.family == "gpu"]
    asked = [chips.get(name).name for name in ("tpu_v5p", "h100_sxm", "tpu_v6e", "b200")]
    return Claim(
        said="TPUs for large batches",
        question="Which of these needs the largest batch before 16-bit weights, read once for all rows, keep "
        "its arithmetic busy?",
        choices=tuple(asked),
        answer=max(asked, key=batch.__getitem__),
        head=("Year", "Chip", "Rows from which arithmetic, not memory, is the limit"),
        rows=tuple((str(chip.year), chip.name, str(round(batch[chip.name]))) for chip in ordered),
        finding=f"It belongs to the chip, not to the family: {min(tpus)} to {max(tpus)} rows on TPUs, "
        f"{min(gpus)} to {max(gpus)} on GPUs. Both need large batches to be used well; what is special to a "
        "TPU is that a shape has to stay the same, not that the batch has to be larger.",
        sources=tuple(dict.fromkeys(chip.source("bandwidth_bytes_per_second") for chip in found)),
    )


def _flexible() -> Claim:
    stops = {machine: [g for g in guide.GATES if g.blocks == (machine,)] for machine in ("tpu", "gpu")}
    ends = [gate for gate in stops["tpu"] if gate.holds_until]
    return Claim(
        said="TPUs are less flexible",
        question=f"{len(stops['tpu'])} of the guide's rules rule out the TPU alone. How many rule out the "
        "GPU alone?",
        answer=len(stops["gpu"]),
        unit="rules",
        head=("Rule that rules out a TPU", "Evidence of", "What would end it"),
        rows=tuple(
            (
                gate.name.replace("_", " "),
                gate.source.date,
                gate.holds_until or "none is in sight",
            )
            for gate in stops["tpu"]
        ),
        finding=f"True today: nothing that was collected is impossible on a GPU. But {len(ends)} of the "
        f"{len(stops['tpu'])} are about software of a date and name what would end them; for the rest no "
        "end is in sight.",
        sources=tuple(dict.fromkeys(gate.source for gate in stops["tpu"])),
    )


def _pilot() -> Claim:
    table = guide.errors_table("training")
    settled = [(each.name, each.advice.reasons[0].kind, each.advice.verdict) for each in decisions()]
    either = sum(verdict == "either" for _, _, verdict in settled)
    return Claim(
        said="Start with a pilot",
        question="The guide estimates training speed from published runs. By which factor is it typically "
        "off for a source that it has not seen?",
        answer=table.errors.typical,
        unit="times (1 is exact)",
        within=1.1,
        head=("Decision", "What decides in the guide", "Its verdict"),
        rows=tuple((name.replace("_", " "), kind, verdict) for name, kind, verdict in settled),
        finding=f"An estimate from paper is typically off by a factor of {table.errors.typical:.3g} on "
        f"{table.errors.cases} published runs, so a smaller difference in cost needs a pilot. But only "
        f"{either} of these {len(settled)} decisions asks for one: where a gate decides, begin with a day of "
        "reading, not with rented chips.",
        sources=tuple(chips.Source("decision", each.told, each.address, each.date) for each in decisions()),
    )


_CLAIMS: Mapping[str, Callable[[], Claim]] = {
    "power": _power,
    "large_batches": _batches,
    "flexible": _flexible,
    "pilot": _pilot,
}


@names_keywords
def claim(name: str) -> Claim:
    """Return a claim with the evidence for and against it, computed now.

    Parameters
    ----------
    name : str
        ``"power"``, ``"large_batches"``, ``"flexible"`` or ``"pilot"``.

    Returns
    -------
    Claim
        Shows itself as the last line of a cell; `.ask()` asks first.

    Raises
    ------
    ValueError
        For an unknown name.

    Examples
    --------
    >>> from pulsewarp import lesson
    >>> lesson.claim("flexible").answer  # nothing that was collected is impossible on a GPU
    0
    """
    return _CLAIMS[choice("name", name, list(_CLAIMS))]()
