"""A report as one HTML page: self-contained, without script or request, for a screen, a phone and A4.

On paper the front of one sheet holds what is decided by, and the back how each number came by and how to
reproduce it; a report without costs fits the front alone.
"""

from __future__ import annotations

import functools
import math
from importlib import resources

from pulsewarp.guide import report_rows as rows
from pulsewarp.guide.advice import Advice
from pulsewarp.guide.break_even import PriceRange
from pulsewarp.guide.report import COMMAND, as_yaml, escape
from pulsewarp.guide.report_rows import KINDS, MACHINES, Cell, Table


def as_page(advice: Advice, *, made: str = "") -> str:
    """Return the report as a page.

    Every number in it stands in an element whose ``data-from`` says what it traces to, an input, a source, a
    formula or a value of the advice, so that nothing on it is only said.

    Parameters
    ----------
    advice : Advice
        What to report.
    made : str
        The day it is made on, as it is to stand there; left out when empty.

    Returns
    -------
    str
        A whole document.
    """
    verdict, because = rows.headline(advice)
    sections = [
        _header(advice, verdict, because, made),
        _asked(advice),
        _price_line(advice),
        _reasons(advice),
        _section(rows.estimates(advice), "numbers", rows.remarks(advice)),
        _section(rows.flips(advice)),
        _pilot(advice),
        _evidence(advice),
        _footer(advice),
    ]
    title = escape(verdict.text.rstrip("."))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>Which chip? {title}</title>\n<link rel="icon" href="data:,">\n<style>\n{_style()}</style>\n'
        "</head>\n<body>\n<main>\n" + "\n".join(filter(None, sections)) + "\n</main>\n</body>\n</html>\n"
    )


# --- sections -----------------------------------------------------------------------------------------------


def _header(advice: Advice, verdict: Cell, because: Cell, made: str) -> str:
    day = f"{_shown(Cell(made, 'made'))} · " if made else ""
    return (
        f'<header class="{advice.verdict}"><p class="stamp">Which chip? · {day}'
        f"{_shown(Cell(f'pulsewarp {advice.version}', 'version'))} · "
        f"catalogue of {_shown(Cell(advice.as_of, 'as_of'))}</p>"
        f'<h1>{escape(verdict.text)}</h1><p class="because">{_shown(because)}</p></header>'
    )


def _asked(advice: Advice) -> str:
    fields = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{_shown(cell)}</dd></div>" for name, cell in rows.asked(advice)
    )
    body = f"<dl>{fields}</dl>" if fields else "<p>Nothing: every field is unknown.</p>"
    return f'<section class="asked"><h2>What was asked</h2>{body}</section>'


def _price_line(advice: Advice) -> str:
    table = rows.price_line(advice)
    if not table.rows:
        return ""
    sentences = " ".join(_shown(cell) for cell in rows.break_even(advice))
    return (
        f'<section class="line"><h2>{table.title}</h2><p>{sentences}</p>{_bar(advice.price_line)}'
        f"{_table(table)}</section>"
    )


def _bar(line: tuple[PriceRange, ...]) -> str:
    """Draw the line on a logarithmic scale that holds today's prices and every edge with room beside them."""
    edges = [piece.low for piece in line[1:]] + [1.0]
    low, high = math.log(min(edges) / 2), math.log(max(edges) * 2)

    def place(factor: float) -> float:
        inside = 0.0 if factor == 0 else 100 * (math.log(min(factor, 1e300)) - low) / (high - low)
        return min(100.0, inside)

    parts = "".join(
        f'<span class="{piece.verdict}" style="width:{place(piece.high) - place(piece.low):.2f}%">'
        f"{rows.VERDICTS[piece.verdict]}</span>"
        for piece in line
    )
    return (
        f'<div class="bar" aria-hidden="true">{parts}<i style="left:{place(1.0):.2f}%"></i></div>'
        f'<p class="today" aria-hidden="true"><span style="margin-left:{place(1.0):.2f}%">today</span></p>'
    )


def _reasons(advice: Advice) -> str:
    items = []
    for reason, cells in zip(advice.reasons, rows.reasons(advice).rows, strict=True):
        _, _, text, around, source, against, shown = cells
        side = f" · {MACHINES[reason.machine]}" if reason.machine else ""
        details = [
            f'<p class="{kind}">{label}{_shown(cell)}</p>'
            for kind, label, cell in (
                ("source", "Source: ", source),
                ("more", "Way round: ", around),
                ("more", "Against it: ", against),
                ("more shown", "Shown in: ", shown),
            )
            if cell.text
        ]
        items.append(
            f'<li><p><b class="kind">{KINDS[reason.kind]}{side}</b> {_shown(text)}</p>'
            f"{' '.join(details)}</li>"
        )
    measured = "".join(f"<p>You measured: {_shown(Cell(m.text, 'measured'))}</p>" for m in advice.measured)
    listed = f"<ol>{''.join(items)}</ol>{measured}"
    return f'<section class="reasons"><h2>Reasons, strongest first</h2>{listed}</section>'


def _pilot(advice: Advice) -> str:
    pilot = advice.pilot
    texts = [rows.pilot_cost(advice), *(Cell(text, "pilot") for text in pilot.remarks)]
    remarks = "".join(f"<p>{_shown(cell)}</p>" for cell in texts if cell.text)
    watch = "".join(f"<li>{_shown(Cell(text, 'pilot'))}</li>" for text in pilot.watch)
    sources = dict.fromkeys(command.source for command in pilot.commands if command.source is not None)
    read_in = "; ".join(
        _shown(Cell(f"{source.title} ({source.date})", f"source {source.key}", source.address))
        for source in sources
    )
    return (
        '<section class="pilot"><h2>The pilot</h2>'
        f"<p><b>Question.</b> {_shown(Cell(pilot.question, 'pilot'))}</p>"
        f"<p><b>Metric.</b> {_shown(Cell(pilot.metric, 'pilot'))}.</p>"
        f"<p><b>Stop.</b> {_shown(Cell(pilot.stop_ratio, 'pilot'))}</p>"
        f"{_days(advice)}{remarks}"
        + (
            f'<p class="source commands">The words of these commands were read in: {read_in}.</p>'
            if read_in
            else ""
        )
        + (f"<h3>What to watch</h3><ul>{watch}</ul>" if watch else "")
        + "</section>"
    )


def _days(advice: Advice) -> str:
    """Return the days as a table, each with what is typed on it."""
    table = rows.days(advice)
    cells = []
    for day, (name, does, stop_if) in zip(advice.pilot.days, table.rows, strict=True):
        typed = "".join(
            f"<li><code>{_shown(Cell(command.text, 'pilot'))}</code> "
            f'<span class="why">{_shown(Cell(command.why, "pilot"))}</span></li>'
            for command in day.commands
        )
        listed = f'<ul class="typed">{typed}</ul>' if typed else ""
        cells.append(
            f'<tr><th scope="row">{escape(name.text)}</th><td>{_shown(does)}{listed}</td>'
            f'<td data-head="{escape(table.head[-1])}">{_shown(stop_if)}</td></tr>'
        )
    return _framed(table, "".join(cells))


def _evidence(advice: Advice) -> str:
    if not advice.estimates:
        return ""
    formulas = "".join(
        f"<div><dt>{name.replace('_', ' ')}</dt><dd>{_shown(Cell(text, f'formula {name}'))}</dd></div>"
        for name, text in rows.formulas(advice).items()
    )
    prices = rows.prices(advice)
    return (
        '<section class="evidence"><h2>How each number came by</h2>'
        f"<dl>{formulas}</dl>{_inputs(advice)}{_table(prices) if prices.rows else ''}"
        "</section>"
    )


def _inputs(advice: Advice) -> str:
    """List what the costs depend on besides; what is taken as nothing in one sentence."""
    values = {item.name: item for item in advice.inputs}
    cells, nothing = [], []
    for name, value, origin, why in rows.inputs(advice).rows:
        if values[name.text].value == 0 and not values[name.text].given:
            nothing.append(name.text.replace("_", " "))
            continue
        cells.append(
            f"<div><dt>{escape(name.text.replace('_', ' '))}</dt><dd>{_shown(value)} · {_shown(origin)}. "
            f"{_shown(why)}.</dd></div>"
        )
    left = f"<p>Taken as nothing until you give it: {escape(', '.join(nothing))}.</p>" if nothing else ""
    return f"<h3>What the costs depend on besides</h3><dl>{''.join(cells)}</dl>{left}"


def _footer(advice: Advice) -> str:
    lines = "\n".join(
        _shown(Cell(line, f"input {line.partition(':')[0]}")) for line in as_yaml(advice).splitlines()
    )
    return (
        "<footer><h2>To reproduce</h2>"
        f"<p>Save as <code>workload.yaml</code> and run <code>{COMMAND}</code> with "
        f"{_shown(Cell(f'pulsewarp {advice.version}', 'version'))}; another version or catalogue may answer "
        f"otherwise.</p><pre>{lines}</pre></footer>"
    )


@functools.cache
def _style() -> str:
    return resources.files("pulsewarp.guide").joinpath("data/report.css").read_text(encoding="utf-8")


# --- parts --------------------------------------------------------------------------------------------------


def _section(table: Table, kind: str = "table", below: tuple[Cell, ...] = ()) -> str:
    if not table.rows:
        return ""
    said = "".join(f'<p class="more">{_shown(cell)}</p>' for cell in below)
    return f'<section class="{kind}"><h2>{escape(table.title)}</h2>{_table(table)}{said}</section>'


def _table(table: Table) -> str:
    return _framed(
        table,
        "".join(
            f'<tr><th scope="row">{_shown(first)}</th>'
            + "".join(
                f'<td data-head="{escape(head)}">{_shown(cell)}</td>'
                for head, cell in zip(table.head[1:], rest, strict=True)
            )
            + "</tr>"
            for first, *rest in table.rows
        ),
    )


def _framed(table: Table, body: str) -> str:
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in table.head)
    title = escape(table.title)
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="{title}"><table>'
        f'<caption class="hidden">{title}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody>'
        "</table></div>"
    )


def _shown(cell: Cell) -> str:
    text = escape(cell.text)
    trace = f' data-from="{escape(cell.trace)}"' if cell.trace else ""
    if cell.href:
        return f'<a href="{escape(cell.href)}"{trace}>{text}</a>'
    return f"<span{trace}>{text}</span>" if trace else text
