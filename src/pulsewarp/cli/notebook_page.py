"""A notebook as one HTML file: executed here, then readable and playable anywhere without a network."""

from __future__ import annotations

import copy
import html
import importlib
import json
import os
import re
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pulsewarp
from pulsewarp._text import script_safe

_WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
_PLOTLY = "application/vnd.plotly.v1+json"
# Attributes that make a browser fetch something by itself; a link that a reader may click is not one.
_FETCHING = ("src", "srcset", "data", "poster", "background")
_REMEDY = "install what it needs with: pip install nbconvert ipykernel"


def notebook_page(path: str | os.PathLike[str], *, timeout_seconds: int = 600) -> str:
    """Execute a notebook and return it as one self-contained HTML page.

    Scenes are replaced by the page that each of them carries as its fallback, so they play without a
    kernel or a widget manager; Plotly figures are drawn by one copy of plotly.js inside the page. Links to
    other notebooks lead to pages of the same name. Not done: formulas in TeX, which stay as written.

    Parameters
    ----------
    path : path
        The notebook. It is read, executed in its own folder, and not changed.
    timeout_seconds : int
        Longest time for one cell, seconds.

    Returns
    -------
    str
        A complete HTML document that loads nothing from anywhere.

    Raises
    ------
    ImportError
        When nbconvert, nbclient or ipykernel is missing; names the remedy.
    ValueError
        When the file is not a notebook, a cell raises, or the page would load something from a network.
    """
    source = Path(path)
    for name in ("nbformat", "nbclient", "ipykernel", "nbconvert"):
        _import(name)  # all of them before a minute of execution, not after
    notebook = _read(source)
    _execute(notebook, source, timeout_seconds)
    figures = _make_outputs_self_contained(notebook)
    page = _page(_title(notebook, source), _body(notebook, source), figures=figures, name=source.name)
    loads = sorted(set(find_loads(page)))
    if loads:
        raise ValueError(
            f"{source} would load {loads[0]} when its page is opened, so the page would not work offline; "
            "put a copy beside the notebook or take it out."
        )
    return page


def _read(source: Path) -> Any:
    nbformat = _import("nbformat")
    if not source.is_file():
        raise ValueError(f"There is no notebook at {source}; check the path.")
    try:
        return nbformat.read(source, as_version=4)
    except Exception as error:
        # nbformat raises whatever its JSON reader or its validator raises, differently in each version.
        raise ValueError(f"{source} is not a Jupyter notebook; it may have been cut short.") from error


def _execute(notebook: Any, source: Path, timeout_seconds: int) -> None:
    nbclient = _import("nbclient")
    client = nbclient.NotebookClient(
        notebook,
        timeout=timeout_seconds,
        kernel_name="python3",
        resources={"metadata": {"path": str(source.resolve().parent)}},
    )
    # One renderer, whatever the notebook's host would use: the figure as data, drawn by the page itself.
    # Predictions answer in the page, which has no kernel to ask: their answers are computed now.
    environment = {**os.environ, "PLOTLY_RENDERER": "plotly_mimetype", "PULSEWARP_EXPORT": "1"}
    try:
        # The kernel's own start-up log would land between our lines; errors in cells come as outputs.
        client.execute(env=environment, stderr=subprocess.DEVNULL)
    except nbclient.exceptions.CellExecutionError as error:
        raise ValueError(
            f"{source}, {_failed_cell(notebook)} raised {error.ename}: {error.evalue}"
        ) from error
    except nbclient.exceptions.CellTimeoutError as error:
        raise ValueError(f"{source}: a cell took more than {timeout_seconds} s; raise --timeout.") from error
    except nbclient.exceptions.DeadKernelError as error:
        raise ValueError(f"{source}: the kernel died, perhaps for want of memory; run it by hand.") from error


def _failed_cell(notebook: Any) -> str:
    for number, cell in enumerate(notebook.cells, 1):
        if any(output.output_type == "error" for output in cell.get("outputs", ())):
            return f"cell {number}"
    return "a cell"


def _make_outputs_self_contained(notebook: Any) -> bool:
    """Take the parts that need a manager out of the outputs; tell whether there is a Plotly figure."""
    notebook.metadata.pop("widgets", None)
    figures = 0
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            data = output.get("data")
            if data is None:
                continue
            data.pop(_WIDGET_VIEW, None)
            if _PLOTLY in data:
                figures += 1
                data["text/html"] = _figure(data.pop(_PLOTLY), f"figure-{figures}")
    return figures > 0


def _figure(figure: Any, name: str) -> str:
    from pulsewarp.figures import ON_PAPER, is_on_paper

    config = {key: value for key, value in figure.get("config", {}).items() if key != "plotlyServerURL"}
    parts = (figure.get("data", []), figure.get("layout", {}), {**config, "responsive": True})
    arguments = ", ".join(script_safe(json.dumps(part)) for part in parts)
    kind = f' class="{ON_PAPER}"' if is_on_paper(figure.get("layout", {})) else ""
    return f'<div id="{name}"{kind}></div><script>Plotly.newPlot("{name}", {arguments});</script>'


def _body(notebook: Any, source: Path) -> str:
    nbconvert = _import("nbconvert")
    # "basic" is the notebook alone: the full templates pull require.js, MathJax and more from the network.
    exporter = nbconvert.HTMLExporter(template_name="basic", embed_images=True)
    body, _ = exporter.from_notebook_node(
        _with_folds_as_comments(notebook), resources={"metadata": {"path": str(source.resolve().parent)}}
    )
    body = re.sub(r"<!--fold:(.*?)-->", r"<details><summary>\1</summary>", body).replace(
        "<!--folded-->", "</details>"
    )
    return re.sub(r'(href="(?![a-z]+:)[^"#]*)\.ipynb(["#])', r"\1.html\2", body)


def _with_folds_as_comments(notebook: Any) -> Any:
    """Return the notebook with its folded answers between comments.

    Where images are embedded, nbconvert parses each piece of HTML by itself, which closes a fold before the
    answer that stands in it; a comment has no end to be closed.
    """
    held = copy.deepcopy(notebook)
    for cell in held.cells:
        if cell.cell_type == "markdown":
            opened = re.sub(r"<details>\s*<summary>(.*?)</summary>", r"<!--fold:\1-->", cell.source)
            cell.source = opened.replace("</details>", "<!--folded-->")
    return held


def _title(notebook: Any, source: Path) -> str:
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            for line in cell.source.splitlines():
                if line.startswith("# "):
                    return str(line[2:].strip())
    return source.stem


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"Exporting a notebook needs {name.split('.')[0]}; {_REMEDY}") from error


# --- what a page loads -------------------------------------------------------------------------------------


class _Loads(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in_style = tag == "style"
        for name, value in attrs:
            if value is None:
                continue
            if name == "srcdoc":
                self.found += find_loads(value)
            if name in _FETCHING or (tag == "link" and name == "href"):
                self.found += [value] if _is_elsewhere(value) else []
            if name == "style":
                self.found += _style_loads(value)

    def handle_endtag(self, tag: str) -> None:
        self._in_style = False

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.found += _style_loads(data)


def find_loads(page: str) -> Iterator[str]:
    """Yield the addresses that a browser would fetch on opening a page, frames inside it included.

    Read from the markup and the style sheets; what a script asks for later is not seen.
    """
    parser = _Loads()
    parser.feed(page)
    yield from parser.found


def _style_loads(style: str) -> list[str]:
    addresses = re.findall(r"(?:url\(|@import)\s*[\"']?([^\"')\s;]+)", style)
    return [address for address in addresses if _is_elsewhere(address)]


def _is_elsewhere(address: str) -> bool:
    return bool(address.strip()) and not address.strip().lower().startswith(("data:", "blob:", "about:", "#"))


# --- the page ----------------------------------------------------------------------------------------------


def _page(title: str, body: str, *, figures: bool, name: str) -> str:
    return _PAGE.format(
        title=html.escape(title),
        style=_STYLE + _code_colours() + (_figure_style() if figures else ""),
        plotly=_plotly_script() if figures else "",
        body=body,
        fit_page=_FIT_PAGE,
        footer=html.escape(f"Made from {name} by pulsewarp {pulsewarp.__version__}; it needs no network."),
    )


def _code_colours() -> str:
    """Return the style rules for highlighted code: two of Pygments' styles with contrast of 4.5 and more."""
    make = _import("pygments.formatters").HtmlFormatter
    light, dark = (make(style=style).get_style_defs(".highlight") for style in ("xcode", "monokai"))
    dark = f"@media (prefers-color-scheme: dark) {{\n{dark}\n}}"
    return f"{light}\n{dark}\n.highlight, .highlight * {{ background: none; }}\n"


def _figure_style() -> str:
    from pulsewarp.figures import PAGE_STYLE

    return PAGE_STYLE


def _plotly_script() -> str:
    from plotly.offline import get_plotlyjs

    script = str(get_plotlyjs()).replace("</script", "<\\/script")
    return f"<script>window.PlotlyConfig = {{ MathJaxConfig: 'local' }};</script>\n<script>{script}</script>"


_STYLE = """
:root { color-scheme: light dark; --ink: #1d2733; --muted: #5f6b78; --line: #d5dbe1; --panel: #f6f8fa;
  --paper: #ffffff; --link: #0072b2; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6ebf0; --muted: #a3afbb; --line: #36424e; --panel: #1b222a; --paper: #14191f;
    --link: #6cb6e8; }
}
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
main, footer { max-width: 68rem; margin: 0 auto; padding: 1rem; box-sizing: border-box; }
footer { color: var(--muted); font-size: 13px; }
a { color: var(--link); }
.anchor-link { visibility: hidden; text-decoration: none; }
:is(h1, h2, h3, h4):hover .anchor-link, .anchor-link:focus { visibility: visible; }
.prompt { color: var(--muted); font: 13px/1.6 ui-monospace, monospace; }
.input_area { background: var(--panel); border: 1px solid var(--line); padding: 0 0.75rem; overflow-x: auto; }
pre { font: 14px/1.5 ui-monospace, monospace; font-variant-numeric: tabular-nums; white-space: pre; }
.output_subarea, .text_cell_render pre { overflow-x: auto; }
:not(pre) > code { overflow-wrap: anywhere; }
.output_stderr pre { color: var(--muted); }
table { border-collapse: collapse; margin: 0.75rem 0; }
th, td { border: 1px solid var(--line); padding: 0.25rem 0.6rem; text-align: left; vertical-align: top; }
iframe { width: 100%; }
"""

# A scene stands in a frame of a height that no page can know beforehand; here it takes what it needs. What is
# too wide scrolls, and must then be reachable by keyboard.
_FIT_PAGE = """
for (const wide of document.querySelectorAll(".output_subarea, .input_area, .text_cell_render pre")) {
  new ResizeObserver(() => {
    if (wide.scrollWidth > wide.clientWidth) wide.tabIndex = 0;
    else wide.removeAttribute("tabindex");
  }).observe(wide);
}
for (const frame of document.querySelectorAll("iframe[srcdoc]")) {
  const follow = () => {
    const body = frame.contentDocument?.body;
    if (!body?.firstElementChild) return;
    const fit = () => { frame.style.height = `${body.scrollHeight + 4}px`; };
    new ResizeObserver(fit).observe(body);
  };
  frame.addEventListener("load", follow);
  follow();
}
""".strip()

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
{style}
</style>
{plotly}
</head>
<body>
<main>
{body}
</main>
<footer>{footer}</footer>
<script>
{fit_page}
</script>
</body>
</html>
"""
