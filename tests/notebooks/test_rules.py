"""The lessons keep the rules below, and each rule can fail."""

from __future__ import annotations

import ast
import copy
import re
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import address
import keep_outputs
import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
LESSONS = keep_outputs.paths()
SETUP = address.setup_cell(address.address())

KERNEL = "kernel"  # the tag of a cell that holds a kernel
LONGEST_CELL = 12  # lines; a typical cell has at most three
TYPICAL_CELL = 3
LONGEST_ARRAY = 1000  # elements; beyond that NumPy abbreviates, and a comparison compares dots
HEADINGS = ["Objectives", "Key points", "Next"]
DRAWING = {"go", "px", "plt", "fig", "figure", "figures"}  # names through which a cell could draw for itself

Notebook = Any  # nbformat's own nodes are untyped
Rule = Callable[[Notebook], Iterator[str]]


# --- the rules: each yields one sentence for each breach ----------------------------------------------------


def form(notebook: Notebook) -> Iterator[str]:
    """A notebook is in the form with cell ids, is run by python3, and carries nothing an editor left."""
    if (notebook.nbformat, notebook.nbformat_minor) < (4, 5):
        yield f"is in form {notebook.nbformat}.{notebook.nbformat_minor}; cell ids need 4.5"
    if notebook.metadata.get("kernelspec", {}).get("name") != "python3":
        yield "kernelspec is not python3"
    for key in sorted(set(notebook.metadata) - {"kernelspec"}):
        yield f"holds metadata {key!r}, which an editor or a widget left there"
    ids = [cell.get("id") for cell in notebook.cells]
    if None in ids or len(set(ids)) != len(ids):
        yield "has cells without an id of their own"
    for cell in notebook.cells:
        for key in sorted(set(cell.metadata) - {"tags"}):
            yield f"{place(cell)} holds metadata {key!r}, which an editor left there"
        # A tag with a typo in it would quietly take a cell out of the comparison.
        for tag in sorted(set(cell.metadata.get("tags", ())) - {keep_outputs.KEEP, KERNEL}):
            yield f"{place(cell)} has the unknown tag {tag!r}"


def kept(notebook: Notebook) -> Iterator[str]:
    """A cell tagged keep_output has an output and a count; every other cell has neither."""
    for cell in code_cells(notebook):
        has = (bool(cell.outputs), cell.execution_count is not None)
        if keep_outputs.is_kept(cell) and has != (True, True):
            yield f"{place(cell)} is tagged {keep_outputs.KEEP} but lacks its output or its execution count"
        if not keep_outputs.is_kept(cell) and has != (False, False):
            yield f"{place(cell)} holds an output or an execution count and is not tagged {keep_outputs.KEEP}"


def comparable(notebook: Notebook) -> Iterator[str]:
    """A kept output is text that comes out the same in every environment."""
    for cell in code_cells(notebook):
        for output in cell.outputs:
            if output.output_type == "stream":
                if output.name != "stdout":
                    yield f"{place(cell)} keeps {output.name}"
                text = output.text
            elif output.output_type in ("execute_result", "display_data"):
                for kind in sorted(set(output.data) - {"text/plain"}):
                    yield f"{place(cell)} keeps an output of the kind {kind}"
                text = output.data.get("text/plain", "")
            else:
                yield f"{place(cell)} keeps an output of the type {output.output_type}"
                continue
            if re.search(r"\b0x[0-9a-fA-F]{6,}", text):
                yield f"{place(cell)} keeps an address in memory"
            if shows_set(text):
                yield f"{place(cell)} keeps a set, whose order is nobody's"
            if len(re.findall(r"\d[\d_.]*", text)) > LONGEST_ARRAY or re.search(r"\.\.\.[,\]]", text):
                yield f"{place(cell)} keeps an array of more than {LONGEST_ARRAY} elements"


def short(notebook: Notebook) -> Iterator[str]:
    """Code cells are short: they call the library."""
    lengths = [sum(bool(line.strip()) for line in cell.source.splitlines()) for cell in code_cells(notebook)]
    for cell, lines in zip(code_cells(notebook), lengths, strict=True):
        if lines > LONGEST_CELL:
            yield f"{place(cell)} has {lines} lines; {LONGEST_CELL} are the most"
    if lengths and statistics.median(lengths) > TYPICAL_CELL:
        yield f"half of the code cells have more than {TYPICAL_CELL} lines"


def calls_only(notebook: Notebook) -> Iterator[str]:
    """A lesson imports, calls, looks and talks; it defines nothing and draws nothing for itself.

    But for a cell tagged `kernel`: what the lesson on kernels teaches is to write one, with def, in a cell of
    one's own. Such a cell holds the kernel and nothing else, so that no helper hides behind the tag.
    """
    for cell in code_cells(notebook):
        tree = ast.parse(without_magics(cell.source))
        tagged = KERNEL in cell.metadata.get("tags", ())
        if tagged and not holds_one_kernel(tree):
            yield f"{place(cell)} is tagged {KERNEL}, but does not hold one kernel and nothing else"
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and not tagged:
                yield f"{place(cell)} defines {node.name}; that belongs in the library"
            if isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.path":
                yield f"{place(cell)} uses sys.path"
            if isinstance(node, (ast.For, ast.While)) and draws(node):
                yield f"{place(cell)} draws in a loop; that belongs in figures"


def sets_up(notebook: Notebook) -> Iterator[str]:
    """The first code cell is the setup cell, the same bytes everywhere."""
    first = next(iter(code_cells(notebook)), None)
    if first is None or first.source != SETUP:
        yield "does not begin with the setup cell; run `make address`"
    for cell in code_cells(notebook)[1:]:
        if re.search(r"^\s*[%!]+\s*(pip|conda|apt|uv)\b", cell.source, re.MULTILINE):
            yield f"{place(cell)} installs something"


def contract(notebook: Notebook) -> Iterator[str]:
    """A lesson says at its top what it takes and asks, then what one will learn, and ends in a summary."""
    top = "" if not notebook.cells else notebook.cells[0].source
    if not top.startswith("# "):
        yield "does not begin with a title"
    if minutes(notebook) is None:
        yield "has no table at its top with minutes, question and whether an accelerator is needed"
    headings = [
        heading for cell in prose(notebook) for heading in re.findall(r"^## (.+)$", cell, re.MULTILINE)
    ]
    missing = [heading for heading in HEADINGS if heading not in headings]
    if missing:
        yield f"lacks the headings {', '.join(missing)}"
    elif sorted(HEADINGS, key=headings.index) != HEADINGS or headings[-1] != HEADINGS[-1]:
        yield f"has its headings in another order than {', '.join(HEADINGS)}"
    exercises = "\n".join(prose(notebook)).partition("\n## Exercises")[2]
    if exercises and "<details>" not in exercises:
        yield "has exercises without a folded answer"


def links(notebook: Notebook) -> Iterator[str]:
    """Every link to something of ours leads there."""
    for cell in prose(notebook):
        yield from broken_links(cell, ROOT / "notebooks")


RULES: tuple[Rule, ...] = (form, kept, comparable, short, calls_only, sets_up, contract, links)


# --- what the rules look at ---------------------------------------------------------------------------------


def code_cells(notebook: Notebook) -> list[Notebook]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def prose(notebook: Notebook) -> list[str]:
    return [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]


def place(cell: Notebook) -> str:
    return f"cell {cell.get('id')} ({cell.source.splitlines()[0] if cell.source else 'empty'!r})"


def without_magics(source: str) -> str:
    return re.sub(r"^(\s*)[%!].*$", r"\1pass", source, flags=re.MULTILINE)


def holds_one_kernel(tree: ast.Module) -> bool:
    """Tell whether a cell is one function that asks `cuda` which thread it is."""
    return [type(node) for node in tree.body] == [ast.FunctionDef] and any(
        isinstance(node, ast.Attribute) and ast.unparse(node.value) == "cuda" for node in ast.walk(tree)
    )


def draws(loop: ast.AST) -> bool:
    calls = (ast.unparse(node.func) for node in ast.walk(loop) if isinstance(node, ast.Call))
    return any(name.partition(".")[0] in DRAWING for name in calls)


def shows_set(text: str) -> bool:
    """Tell whether text shows braces around something without a colon, which is how a set is printed."""
    return bool(re.search(r"\b(frozen)?set\(|\{[^{}:]+\}", text))


def minutes(notebook: Notebook) -> int | None:
    """Return how long the lesson takes, from the table at its top; None where there is no such table."""
    top = notebook.cells[0].source if notebook.cells else ""
    row = re.search(
        r"^\| Minutes \| Question \| Accelerator needed\? \|\n\|[-| ]+\|\n\| (\d+) \| .+\? \| .+ \|$",
        top,
        re.M,
    )
    return int(row[1]) if row else None


def anchors(page: Path) -> set[str]:
    """Return the anchors of a Markdown file's headings, as GitHub names them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def broken_links(text: str, folder: Path) -> Iterator[str]:
    for target in re.findall(r"\]\(([^)\s]+)\)|<img[^>]+src=\"([^\"]+)\"", text):
        link = target[0] or target[1]
        if re.match(r"[a-z]+:", link):
            continue  # somebody else's; nothing here may need a network
        path, _, anchor = link.partition("#")
        there = (folder / path) if path else None
        if there is not None and not there.exists():
            yield f"links to {link}, which does not exist"
        elif there is not None and anchor and there.suffix == ".md" and anchor not in anchors(there):
            yield f"links to {link}, which has no such heading"


# --- the lessons keep them ----------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.stem)
def test_a_lesson_keeps_the_rule(lesson: Path, rule: Rule) -> None:
    assert list(rule(nbformat.read(lesson, as_version=4))) == []


def test_there_are_lessons() -> None:
    assert [lesson.stem for lesson in LESSONS][:1] == ["00_start_here"]


def test_the_readme_lists_every_lesson_with_its_minutes() -> None:
    listed = re.findall(
        r"\[[^]]+\]\(notebooks/(\w+)\.ipynb\) \| .+ \| (\d+) \|", (ROOT / "README.md").read_text("utf-8")
    )
    here = [(lesson.stem, str(minutes(nbformat.read(lesson, as_version=4)))) for lesson in LESSONS]
    assert listed == here


@pytest.mark.parametrize(
    "page", sorted([*ROOT.glob("*.md"), *ROOT.glob("notebooks/*.md")]), ids=lambda page: page.name
)
def test_a_page_links_to_what_exists(page: Path) -> None:
    assert list(broken_links(page.read_text(encoding="utf-8"), page.parent)) == []


# --- and each rule can fail ---------------------------------------------------------------------------------

TOP = "# A lesson\n\n| Minutes | Question | Accelerator needed? |\n|---|---|---|\n| 10 | Why? | no |"


def good() -> Notebook:
    """Return a small notebook that keeps every rule."""
    new = nbformat.v4
    told = new.new_output("execute_result", {"text/plain": "4"}, execution_count=2)
    notebook = new.new_notebook(
        cells=[
            new.new_markdown_cell(TOP),
            new.new_code_cell(SETUP),
            new.new_markdown_cell("## Objectives\n\nCount."),
            new.new_code_cell(
                "2 + 2", outputs=[told], execution_count=2, metadata={"tags": [keep_outputs.KEEP]}
            ),
            new.new_code_cell("import math"),
            new.new_markdown_cell("## Key points\n\n- It counts."),
            new.new_markdown_cell(
                "## Exercises\n\n1. Count.\n\n<details><summary>Answer</summary>4</details>"
            ),
            new.new_markdown_cell("## Next\n\nSee the [glossary](GLOSSARY.md)."),
        ]
    )
    notebook.metadata["kernelspec"] = dict(keep_outputs.KERNELSPEC)
    return notebook


def told(**changes: Any) -> Callable[[Notebook], None]:
    """Replace the kept output."""

    def change(notebook: Notebook) -> None:
        notebook.cells[3].outputs = [nbformat.v4.new_output(**changes)]

    return change


def shown(text: str) -> Callable[[Notebook], None]:
    return told(output_type="execute_result", data={"text/plain": text}, execution_count=2)


def source(index: int, text: str) -> Callable[[Notebook], None]:
    return lambda notebook: notebook.cells[index].update(source=text)


def tagged(text: str) -> Callable[[Notebook], None]:
    """Put a text into a cell for kernels."""

    def change(notebook: Notebook) -> None:
        notebook.cells[4].update(source=text)
        notebook.cells[4].metadata.update(tags=[KERNEL])

    return change


FAULTS: list[tuple[Rule, str, Callable[[Notebook], None]]] = [
    (form, "cell ids need 4.5", lambda n: n.update(nbformat_minor=4)),
    (form, "kernelspec is not python3", lambda n: n.metadata.kernelspec.update(name="julia")),
    (form, "'widgets'", lambda n: n.metadata.update(widgets={})),
    (form, "'colab'", lambda n: n.metadata.update(colab={})),
    (form, "'scrolled'", lambda n: n.cells[3].metadata.update(scrolled=True)),
    (form, "without an id of their own", lambda n: n.cells[1].update(id=n.cells[0].id)),
    (form, "unknown tag 'keep-output'", lambda n: n.cells[4].metadata.update(tags=["keep-output"])),
    (kept, "lacks its output", lambda n: n.cells[3].update(outputs=[])),
    (kept, "lacks its output", lambda n: n.cells[3].update(execution_count=None)),
    (kept, "is not tagged", lambda n: n.cells[4].update(execution_count=3)),
    (kept, "is not tagged", lambda n: n.cells[3].metadata.update(tags=[])),
    (comparable, "stderr", told(output_type="stream", name="stderr", text="late")),
    (comparable, "image/png", told(output_type="display_data", data={"image/png": ""})),
    (comparable, "error", told(output_type="error", ename="E", evalue="", traceback=[])),
    (comparable, "address in memory", shown("<object at 0x7f04900ea990>")),
    (comparable, "a set", shown("{'tpu', 'gpu'}")),
    (comparable, "a set", shown("[1, {2, 3}]")),
    (comparable, "a set", told(output_type="stream", name="stdout", text="chips: frozenset({'tpu'})\n")),
    (comparable, "an array", shown(str(list(range(1001))))),
    (comparable, "an array", shown("array([0, 1, 2, ..., 1, 2, 3])")),
    (short, "has 13 lines", source(4, "\n".join(["import math"] * 13))),
    (short, "half of the code cells", source(4, "a = 1\n\nb = 2\nc = 3\nd = 4\n")),
    (calls_only, "defines helper", source(4, "def helper(): ...")),
    (calls_only, "defines Helper", source(4, "class Helper: ...")),
    (calls_only, "defines k", source(4, "def k(x):\n    x[cuda.grid(1)] = 1")),
    (calls_only, "does not hold one kernel", tagged("def helper(): ...")),
    (calls_only, "does not hold one kernel", tagged("def k(x):\n    x[cuda.grid(1)] = 1\nk")),
    (calls_only, "uses sys.path", source(4, "import sys\nsys.path.insert(0, '..')")),
    (calls_only, "draws in a loop", source(4, "for x in range(3):\n    fig.add_trace(x)")),
    (sets_up, "setup cell", source(1, SETUP + "\n")),
    (sets_up, "setup cell", source(1, SETUP.replace("pulsewarp @ git+", ""))),
    (sets_up, "installs something", source(4, "%pip install jax")),
    (contract, "title", source(0, TOP.removeprefix("# "))),
    (contract, "table", source(0, TOP.replace("10", "ten"))),
    (contract, "lacks the headings Key points", source(5, "## Summary")),
    (contract, "another order", lambda n: n.cells.insert(2, n.cells.pop(5))),
    (contract, "folded answer", source(6, "## Exercises\n\n1. Count.")),
    (links, "NOWHERE.md", source(7, "See [there](NOWHERE.md).")),
    (links, "no such heading", source(7, "See [there](GLOSSARY.md#no-such-heading).")),
]  # fmt: skip


def test_the_good_notebook_keeps_every_rule() -> None:
    assert [sentence for rule in RULES for sentence in rule(good())] == []
    writes_a_kernel = good()
    tagged("def k(x):\n    x[cuda.grid(1)] = 1")(writes_a_kernel)
    assert [sentence for rule in RULES for sentence in rule(writes_a_kernel)] == []


@pytest.mark.parametrize(("rule", "words", "spoil"), FAULTS, ids=lambda part: getattr(part, "__name__", part))
def test_a_breach_is_named(rule: Rule, words: str, spoil: Callable[[Notebook], None]) -> None:
    spoilt = copy.deepcopy(good())
    spoil(spoilt)
    assert words in "\n".join(rule(spoilt))
