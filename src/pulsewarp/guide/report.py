"""An `Advice` as text, Markdown, HTML and plain data: one set of rows, four faces."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable
from typing import Any

from pulsewarp.chips import Source
from pulsewarp.guide import report_rows as rows
from pulsewarp.guide.advice import Advice, Reason
from pulsewarp.guide.band import Band
from pulsewarp.guide.costs import ChipEstimate
from pulsewarp.guide.pilot import Pilot
from pulsewarp.guide.report_rows import KINDS, MACHINES, Cell, Table

FORM = "pulsewarp-advice/1"
COMMAND = "pulsewarp advise workload.yaml --html report.html"


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
                "holds_until": reason.holds_until or None,
                "shown_in": None if reason.shown_in is None else str(reason.shown_in),
            }
            for reason in advice.reasons
        ],
        "cost_ratio_tpu_over_gpu": _band_dict(advice.cost.ratio),
        "cost_ratio_at_these_batches": _band_dict(advice.cost.ratio_at_these_batches),
        "estimates": [_estimate_dict(estimate) for estimate in advice.estimates],
        "price_line": [
            {
                "gpu_price_factor_from": piece.low,
                "gpu_price_factor_to": None if math.isinf(piece.high) else piece.high,
                "verdict": piece.verdict,
                "because": piece.because,
            }
            for piece in advice.price_line
        ],
        "break_even": _break_even_dict(advice),
        "cost_inputs": [
            {
                "name": item.name,
                "value": item.value,
                "unit": item.unit or None,
                "given": item.given,
                "source": _source_dict(item.source),
                "text": item.text,
            }
            for item in advice.inputs
        ],
        "measured": [item.text for item in advice.measured],
        "flips": [
            {"field": f.field, "now": f.now, "to": f.to, "verdict": f.verdict, "because": f.because}
            for f in advice.flips
        ],
        "pilot": _pilot_dict(advice.pilot),
        "as_of": advice.as_of,
        "version": advice.version,
    }


def as_text(advice: Advice) -> str:
    """Return a report for a terminal."""
    lines = [advice.summary, ""]
    lines += ["You said: " + _workload(advice), ""]
    lines.append("Reasons")
    for number, reason in enumerate(advice.reasons, 1):
        machine = f", {MACHINES[reason.machine]}" if reason.machine else ""
        lines.append(f" {number}. [{KINDS[reason.kind]}{machine}] {reason.text}")
        for label, value in _details(reason):
            lines.append(f"    {label}: {value}")
    lines += [f" [measured] {item.text}" for item in advice.measured]
    for table in tables(advice):
        lines += ["", table.title, *_columns(table)]
    lines += [f" {cell.text}" for cell in rows.remarks(advice)]
    lines += [f" {cell.text}" for cell in rows.break_even(advice)]
    lines += ["", "Pilot", f" Question: {advice.pilot.question}", f" Metric: {advice.pilot.metric}."]
    lines += [f" {advice.pilot.stop_ratio}"]
    for number, day in enumerate(advice.pilot.days, 1):
        lines.append(f" {number}. {day.name}: {day.does}")
        lines += [f"    $ {command.text}" for command in day.commands]
    lines += [f" {text}" for text in (rows.pilot_cost(advice).text, *advice.pilot.remarks) if text]
    lines += ["", _footer(advice)]
    return "\n".join(lines)


def as_markdown(advice: Advice) -> str:
    """Return a report in Markdown."""
    parts = [f"**{advice.summary}**", f"You said: {_workload(advice)}"]
    parts += [f"You measured: {item.text}" for item in advice.measured]
    parts += [_markdown_table(table) for table in (rows.reasons(advice), *tables(advice)) if table.rows]
    parts += [cell.text for cell in (*rows.remarks(advice), *rows.break_even(advice))]
    pilot = advice.pilot
    parts.append(
        f"### Pilot\n\n{pilot.question}\n\nMetric: {pilot.metric}. {pilot.stop_ratio}\n\n"
        + "\n".join(f"{number}. {step}" for number, step in enumerate(pilot.steps, 1))
    )
    parts += [_markdown_table(table) for table in (rows.commands(advice),) if table.rows]
    parts += [text for text in (rows.pilot_cost(advice).text, *pilot.remarks) if text]
    if pilot.watch:
        parts.append("What to watch:\n\n" + "\n".join(f"- {text}" for text in pilot.watch))
    if advice.estimates:
        parts.append(
            "### How each number came by\n\n"
            + "\n".join(f"- {name}: {text}" for name, text in rows.formulas(advice).items())
        )
        parts += [_markdown_table(table) for table in (rows.prices(advice),) if table.rows]
    parts.append(f"To reproduce, save as `workload.yaml`:\n\n```yaml\n{as_yaml(advice)}```\n\n`{COMMAND}`")
    parts.append(f"*{_stamp(advice)}*")
    return "\n\n".join(parts) + "\n"


def tables(advice: Advice) -> tuple[Table, ...]:
    """Return the tables that a face shows besides the reasons: numbers, price line, flips, inputs.

    Parameters
    ----------
    advice : Advice
        What to show.

    Returns
    -------
    tuple of Table
        Those that have rows.
    """
    found = (rows.estimates(advice), rows.price_line(advice), rows.flips(advice), rows.inputs(advice))
    return tuple(table for table in found if table.rows)


def as_html(advice: Advice) -> str:
    """Return a report in plain HTML for a notebook: tables with captions, no script, no request."""
    pilot = advice.pilot
    shown = (rows.reasons(advice), rows.estimates(advice), rows.flips(advice))
    parts = [
        "<div>",
        f"<p><strong>{escape(advice.summary)}</strong></p>",
        f"<p>You said: {escape(_workload(advice))}</p>",
        *(_html_table(table) for table in shown if table.rows),
        f"<p><strong>Pilot</strong></p><p>{escape(pilot.question)}</p>",
        f"<p>Metric: {escape(pilot.metric)}. {escape(pilot.stop_ratio)}</p>",
        "<ol>" + "".join(f"<li>{escape(step)}</li>" for step in pilot.steps) + "</ol>",
        f"<p><small>{escape(_footer(advice))}</small></p>",
        "</div>",
    ]
    return "\n".join(parts)


def as_yaml(advice: Advice) -> str:
    """Return the workload as lines that ``pulsewarp advise`` reads back.

    Parameters
    ----------
    advice : Advice
        What to reproduce.

    Returns
    -------
    str
        One field a line; text in quotes, so that YAML guesses nothing.
    """
    return "".join(f"{name}: {json.dumps(value)}\n" for name, value in advice.workload.to_dict().items())


def escape(text: str) -> str:
    """Return text that HTML shows as it is.

    Parameters
    ----------
    text : str
        Anything.

    Returns
    -------
    str
        With its marks escaped.
    """
    return html.escape(text)


# --- plain data ---------------------------------------------------------------------------------------------


def _source_dict(source: Source | None) -> dict[str, str] | None:
    return None if source is None else {"title": source.title, "address": source.address, "date": source.date}


def _band_dict(band: Band | None) -> dict[str, float] | None:
    return None if band is None else band.to_dict()


def _break_even_dict(advice: Advice) -> dict[str, Any]:
    breaks = advice.break_even
    return {
        "gpu_price_factor": _band_dict(breaks.gpu_price_factor),
        "gpu_chip": breaks.gpu_chip or None,
        "gpu_usd_per_chip_hour": _band_dict(breaks.gpu_usd_per_chip_hour),
        "batch": breaks.batch,
        "compute_bound_batch": dict(breaks.compute_bound_batch),
        "port_weeks": _band_dict(breaks.port_weeks),
        "missing": list(breaks.missing),
    }


def _pilot_dict(pilot: Pilot) -> dict[str, Any]:
    return {
        "question": pilot.question,
        "metric": pilot.metric,
        "stop_ratio": pilot.stop_ratio,
        "steps": list(pilot.steps),
        "days": [
            {
                "name": day.name,
                "does": day.does,
                "stop_if": day.stop_if,
                "commands": [
                    {
                        "text": c.text,
                        "why": c.why,
                        "source": _source_dict(c.source),
                        "unverified": c.unverified,
                    }
                    for c in day.commands
                ],
            }
            for day in pilot.days
        ],
        "watch": list(pilot.watch),
        "machines": [{"chip": m.chip_id, "smallest": m.smallest, "host": m.host} for m in pilot.machines],
        "remarks": list(pilot.remarks),
        "cost_usd": _band_dict(pilot.cost_usd),
    }


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
        "usd_per_million_output_tokens": _band_dict(estimate.usd_per_million_output_tokens),
        "usd_at_this_batch_per_million_output_tokens": _band_dict(estimate.usd_at_this_batch),
        "batch": None if estimate.point is None else estimate.point.batch,
        "step_seconds": None if estimate.point is None else _band_dict(estimate.point.step_seconds),
        "served_tokens_per_second_per_chip": None
        if estimate.point is None
        else _band_dict(estimate.point.served_tokens_per_second_per_chip),
        "days": _band_dict(estimate.days),
        "weeks_until_done": _band_dict(estimate.weeks_until_done),
        "kwh_per_billion_tokens": _band_dict(estimate.kwh_per_billion_tokens),
        "kwh_per_million_output_tokens": _band_dict(estimate.kwh_per_million_output_tokens),
        "measured": list(estimate.measured),
        "remarks": list(estimate.remarks),
        "decode_floor_seconds": estimate.decode_floor_seconds,
    }


# --- faces --------------------------------------------------------------------------------------------------


def _details(reason: Reason) -> Iterable[tuple[str, str]]:
    if reason.source is not None:
        yield "source", f"{reason.source.title} ({reason.source.date}) <{reason.source.address}>"
    if reason.way_round:
        yield "way round", rows.way_round(reason)
    if reason.contested:
        yield "against it", reason.contested
    if reason.holds_until:
        yield "until", reason.holds_until
    if reason.shown_in is not None:
        yield "shown in", str(reason.shown_in)


def _workload(advice: Advice) -> str:
    known = advice.workload.known()
    return ", ".join(f"{name} {value}" for name, value in known.items()) or "nothing (every field unknown)"


def _stamp(advice: Advice) -> str:
    return f"pulsewarp {advice.version}, catalogue as of {advice.as_of}."


def _footer(advice: Advice) -> str:
    return f"{_stamp(advice)} To reproduce: guide.advise(guide.{advice.workload!r})"


def _columns(table: Table) -> list[str]:
    lines = [table.head, *(tuple(cell.text for cell in row) for row in table.rows)]
    widths = [max(len(row[i]) for row in lines) for i in range(len(table.head))]
    return [" " + "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in lines]


def _markdown_table(table: Table) -> str:
    lines = [
        " | ".join(table.head),
        " | ".join("---" for _ in table.head),
        *(" | ".join(_markdown_cell(cell) for cell in row) for row in table.rows),
    ]
    return f"### {table.title}\n\n" + "\n".join(f"| {line} |" for line in lines)


def _markdown_cell(cell: Cell) -> str:
    shown = cell.text.replace("|", "\\|").replace("\n", " ")
    return f"[{shown}]({cell.href})" if cell.href else shown


def _html_table(table: Table) -> str:
    head = "".join(f'<th scope="col" {_LEFT}>{escape(cell)}</th>' for cell in table.head)
    body = "".join(f"<tr>{_html_row(row)}</tr>" for row in table.rows)
    title = escape(table.title)
    return (
        f'<div style="overflow-x:auto" tabindex="0" role="group" aria-label="{title}">'
        '<table style="min-width:40rem">'
        f'<caption style="text-align:left;font-weight:bold">{title}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


# Notebook front ends align table cells to the right, which is for numbers, not for sentences.
_LEFT = 'style="text-align:left;vertical-align:top"'


def _html_row(row: tuple[Cell, ...]) -> str:
    first, *rest = row
    cells = "".join(f"<td {_LEFT}>{_linked(cell)}</td>" for cell in rest)
    return f'<th scope="row" {_LEFT}>{escape(first.text)}</th>{cells}'


def _linked(cell: Cell) -> str:
    return f'<a href="{escape(cell.href)}">{escape(cell.text)}</a>' if cell.href else escape(cell.text)
