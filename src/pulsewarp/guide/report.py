"""An `Advice` as text, Markdown, HTML and plain data: one set of rows, four faces."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pulsewarp.chips import Source
from pulsewarp.guide.advice import Advice, Reason
from pulsewarp.guide.band import Band, short
from pulsewarp.guide.costs import ChipEstimate

FORM = "pulsewarp-advice/1"

_KINDS = {
    "neither": "rules out both",
    "conflict": "conflict",
    "gate": "rules out the other",
    "favours": "speaks for",
    "cost": "cost",
    "fit": "memory",
    "time": "time",
    "energy": "energy",
    "unknown": "not known",
}
_MACHINES = {"gpu": "GPU", "tpu": "TPU", "": "–"}  # noqa: RUF001 - an en dash is what an empty cell shows


@dataclass(frozen=True)
class _Table:
    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    links: Mapping[str, str] = field(default_factory=dict)  # text of a cell to the address it leads to


def as_dict(advice: Advice) -> dict[str, Any]:
    """Return plain dictionaries, lists, numbers and text, ready for JSON."""
    return {
        "form": FORM,
        "verdict": advice.verdict,
        "summary": advice.summary,
        "workload": advice.workload.to_dict(),
        "reasons": [
            {
                "kind": reason.kind,
                "name": reason.name,
                "for": reason.machine or None,
                "text": reason.text,
                "source": _source_dict(reason.source),
                "way_round": reason.way_round or None,
                "way_round_cost": reason.way_round_cost or None,
                "contested": reason.contested or None,
            }
            for reason in advice.reasons
        ],
        "cost_ratio_tpu_over_gpu": _band_dict(advice.cost_ratio),
        "estimates": [_estimate_dict(estimate) for estimate in advice.estimates],
        "flips": [
            {"field": f.field, "now": f.now, "to": f.to, "verdict": f.verdict, "because": f.because}
            for f in advice.flips
        ],
        "pilot": {
            "question": advice.pilot.question,
            "metric": advice.pilot.metric,
            "stop_ratio": advice.pilot.stop_ratio,
            "steps": list(advice.pilot.steps),
        },
        "as_of": advice.as_of,
        "version": advice.version,
    }


def as_text(advice: Advice) -> str:
    """Return a report for a terminal."""
    lines = [advice.summary, ""]
    lines += ["You said: " + _workload(advice), ""]
    lines.append("Reasons")
    for number, reason in enumerate(advice.reasons, 1):
        machine = f", {_MACHINES[reason.machine]}" if reason.machine else ""
        lines.append(f" {number}. [{_KINDS[reason.kind]}{machine}] {reason.text}")
        for label, value in _details(reason):
            lines.append(f"    {label}: {value}")
    for table in (_estimates(advice), _flips(advice)):
        if table.rows:
            lines += ["", table.title, *_columns(table)]
    lines += ["", "Pilot", f" Question: {advice.pilot.question}", f" Metric: {advice.pilot.metric}."]
    lines += [f" {advice.pilot.stop_ratio}"]
    lines += [f" {number}. {step}" for number, step in enumerate(advice.pilot.steps, 1)]
    lines += ["", _footer(advice)]
    return "\n".join(lines)


def as_markdown(advice: Advice) -> str:
    """Return a report in Markdown."""
    parts = [f"**{advice.summary}**", f"You said: {_workload(advice)}"]
    for table in (_reasons(advice), _estimates(advice), _flips(advice)):
        if table.rows:
            rows = [table.head, tuple("---" for _ in table.head), *table.rows]
            body = "\n".join("| " + " | ".join(_cell(c, table.links) for c in row) + " |" for row in rows)
            parts.append(f"### {table.title}\n\n{body}")
    steps = "\n".join(f"{number}. {step}" for number, step in enumerate(advice.pilot.steps, 1))
    parts.append(
        f"### Pilot\n\n{advice.pilot.question}\n\nMetric: {advice.pilot.metric}. "
        f"{advice.pilot.stop_ratio}\n\n{steps}"
    )
    parts.append(f"*{_footer(advice)}*")
    return "\n\n".join(parts) + "\n"


def as_html(advice: Advice) -> str:
    """Return a report in plain HTML: headings, tables with captions and scopes, no script, no request."""
    parts = [
        "<div>",
        f"<p><strong>{_text(advice.summary)}</strong></p>",
        f"<p>You said: {_text(_workload(advice))}</p>",
    ]
    parts += [_html_table(t) for t in (_reasons(advice), _estimates(advice), _flips(advice)) if t.rows]
    parts += [
        f"<p><strong>Pilot</strong></p><p>{_text(advice.pilot.question)}</p>",
        f"<p>Metric: {_text(advice.pilot.metric)}. {_text(advice.pilot.stop_ratio)}</p>",
        "<ol>" + "".join(f"<li>{_text(step)}</li>" for step in advice.pilot.steps) + "</ol>",
        f"<p><small>{_text(_footer(advice))}</small></p>",
        "</div>",
    ]
    return "\n".join(parts)


# --- rows ------------------------------------------------------------------------------------------------


def _reasons(advice: Advice) -> _Table:
    return _Table(
        "Reasons, strongest first",
        (
            "What it does",
            "For",
            "Why",
            "The way round, and its cost",
            "Who says so, when",
            "What speaks against it",
        ),
        tuple(
            (
                _KINDS[reason.kind],
                _MACHINES[reason.machine],
                reason.text,
                _way_round(reason),
                _source_text(reason),
                reason.contested,
            )
            for reason in advice.reasons
        ),
        {
            _source_text(reason): reason.source.address
            for reason in advice.reasons
            if reason.source is not None and reason.source.address.startswith("https://")
        },
    )


def _estimates(advice: Advice) -> _Table:
    columns: dict[str, tuple[str, ...]] = {
        "Chip": tuple(e.name for e in advice.estimates),
        "Chips": tuple(f"{e.n_chips:,}" for e in advice.estimates),
    }
    bands: dict[str, tuple[list[Band | None], str]] = {
        "Tokens/s a chip": (
            [e.training.tokens_per_second_per_chip if e.training else None for e in advice.estimates],
            "unknown",
        ),
        "$ a chip-hour": ([e.usd_per_chip_hour for e in advice.estimates], "no price seen"),
        "$ a billion tokens": ([e.usd_per_billion_tokens for e in advice.estimates], "unknown"),
        "Days in all": ([e.days for e in advice.estimates], "unknown"),
        "kWh a billion tokens": ([e.kwh_per_billion_tokens for e in advice.estimates], "not published"),
    }
    for title, (values, otherwise) in bands.items():
        if any(value is not None for value in values):
            columns[title] = tuple(otherwise if value is None else str(value) for value in values)
    if any(e.training for e in advice.estimates):
        runs = [len(e.training.cases) if e.training else 0 for e in advice.estimates]
        columns["Published runs"] = tuple(str(count) for count in runs)
    floors = [e.decode_floor_seconds for e in advice.estimates]
    if any(floor is not None for floor in floors):
        columns["Decode step, ms, at least"] = tuple(
            "unknown" if floor is None else short(1e3 * floor) for floor in floors
        )
    return _Table("Numbers, with 80 % bands", tuple(columns), tuple(zip(*columns.values(), strict=True)))


def _flips(advice: Advice) -> _Table:
    return _Table(
        "What would change the verdict",
        ("Input", "Now", "If it were", "Verdict", "Because"),
        tuple((flip.field, flip.now, flip.to, flip.verdict, flip.because) for flip in advice.flips),
    )


def _details(reason: Reason) -> Iterable[tuple[str, str]]:
    if reason.source is not None:
        yield "source", f"{_source_text(reason)} <{reason.source.address}>"
    if reason.way_round:
        yield "way round", _way_round(reason)
    if reason.contested:
        yield "against it", reason.contested


def _workload(advice: Advice) -> str:
    known = advice.workload.known()
    return ", ".join(f"{name} {value}" for name, value in known.items()) or "nothing (every field unknown)"


def _footer(advice: Advice) -> str:
    return (
        f"pulsewarp {advice.version}, catalogue as of {advice.as_of}. "
        f"To reproduce: guide.advise(guide.{advice.workload!r})"
    )


def _way_round(reason: Reason) -> str:
    return f"{reason.way_round} Cost: {reason.way_round_cost}." if reason.way_round_cost else reason.way_round


def _source_text(reason: Reason) -> str:
    if reason.source is not None:
        return f"{reason.source.title} ({reason.source.date})"
    formula = reason.kind in ("cost", "fit", "time", "energy")
    return f"your own inputs, by the formula {reason.name}" if formula else ""


def _source_dict(source: Source | None) -> dict[str, str] | None:
    return None if source is None else {"title": source.title, "address": source.address, "date": source.date}


def _band_dict(band: Band | None) -> dict[str, float] | None:
    return None if band is None else band.to_dict()


def _estimate_dict(estimate: ChipEstimate) -> dict[str, Any]:
    training = estimate.training
    return {
        "chip": estimate.chip_id,
        "name": estimate.name,
        "family": estimate.family,
        "n_chips": estimate.n_chips,
        "smallest_chips_that_hold_it": None if estimate.memory is None else estimate.memory.chips,
        "bytes_needed": None if estimate.memory is None else estimate.memory.bytes_needed,
        "tokens_per_second_per_chip": _band_dict(training.tokens_per_second_per_chip if training else None),
        "model_flops_per_second_per_chip": _band_dict(
            training.model_flops_per_second_per_chip if training else None
        ),
        "fitted_on_cases": [] if training is None else list(training.cases),
        "usd_per_chip_hour": _band_dict(estimate.usd_per_chip_hour),
        "price_sources": [
            {
                "provider": row.provider,
                "region": row.region,
                "usd_per_chip_hour": row.usd_per_chip_hour,
                "date": row.date,
                "source": _source_dict(row.source),
            }
            for row in estimate.price_rows
        ],
        "usd_per_billion_tokens": _band_dict(estimate.usd_per_billion_tokens),
        "days": _band_dict(estimate.days),
        "kwh_per_billion_tokens": _band_dict(estimate.kwh_per_billion_tokens),
        "decode_floor_seconds": estimate.decode_floor_seconds,
    }


# --- faces -----------------------------------------------------------------------------------------------


def _columns(table: _Table) -> list[str]:
    rows = [table.head, *table.rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(table.head))]
    return [" " + "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows]


def _cell(text: str, links: Mapping[str, str]) -> str:
    shown = text.replace("|", "\\|").replace("\n", " ")
    return f"[{shown}]({links[text]})" if text in links else shown


def _text(text: str) -> str:
    return html.escape(text)


def _html_table(table: _Table) -> str:
    head = "".join(f'<th scope="col" {_LEFT}>{_text(cell)}</th>' for cell in table.head)
    body = "".join(f"<tr>{_html_row(row, table.links)}</tr>" for row in table.rows)
    title = _text(table.title)
    return (
        f'<div style="overflow-x:auto" tabindex="0" role="group" aria-label="{title}">'
        '<table style="min-width:40rem">'
        f'<caption style="text-align:left;font-weight:bold">{title}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


# Notebook front ends align table cells to the right, which is for numbers, not for sentences.
_LEFT = 'style="text-align:left;vertical-align:top"'


def _html_row(row: tuple[str, ...], links: Mapping[str, str]) -> str:
    first, *rest = row
    cells = "".join(f"<td {_LEFT}>{_linked(cell, links)}</td>" for cell in rest)
    return f'<th scope="row" {_LEFT}>{_text(first)}</th>{cells}'


def _linked(cell: str, links: Mapping[str, str]) -> str:
    if cell not in links:
        return _text(cell)
    return f'<a href="{_text(links[cell])}">{_text(cell)}</a>'
