"""A notebook becomes one page that loads nothing; what a browser makes of it is in tests/browser."""

from __future__ import annotations

import builtins
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from pulsewarp.cli import main
from pulsewarp.cli.notebook_page import find_loads, notebook_page

nbformat = pytest.importorskip("nbformat", reason="notebooks are made and read with it")
pytest.importorskip("nbconvert", reason="exporting a notebook needs it; the lab extra brings it")


def write_notebook(path: Path, *cells: str) -> Path:
    """Write a notebook; a cell that begins with "#" or "[" or "!" is Markdown."""
    notebook = nbformat.v4.new_notebook()
    for text in cells:
        make = nbformat.v4.new_markdown_cell if text[0] in "#[!" else nbformat.v4.new_code_cell
        notebook.cells.append(make(text))
    nbformat.write(notebook, path)
    return path


def test_a_notebook_becomes_a_page_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_notebook(
        tmp_path / "lesson.ipynb",
        "# Sums & products",
        "print(6 * 7)",
        "import os; os.path.basename(os.getcwd())",
        "[Next](other.ipynb) and [a part](other.ipynb#part), [abroad](https://example.org/x.ipynb)",
    )
    before = path.read_bytes()
    target = tmp_path / "page.html"
    assert main(["export", str(path), "-o", str(target)]) == 0
    page = target.read_text(encoding="utf-8")
    assert "<title>Sums &amp; products</title>" in page
    assert ">42\n" in page.replace("<pre>42", "<pre>42").replace("<pre>", ">")
    assert tmp_path.name in page  # executed in its own folder
    assert 'href="other.html"' in page and 'href="other.html#part"' in page
    assert 'href="https://example.org/x.ipynb"' in page  # a link that a reader may follow stays as it is
    assert list(find_loads(page)) == []
    assert path.read_bytes() == before


class Folds(HTMLParser):
    """Texts by whether they stand inside a closed fold."""

    def __init__(self) -> None:
        super().__init__()
        self.depth, self.inside, self.outside = 0, "", ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag != "details" or not attrs, "a fold is closed at first"
        self.depth += tag == "details"

    def handle_endtag(self, tag: str) -> None:
        self.depth -= tag == "details"

    def handle_data(self, data: str) -> None:
        if self.depth:
            self.inside += data
        else:
            self.outside += data


def test_a_folded_answer_is_folded_on_the_page_too(tmp_path: Path) -> None:
    answers = "\n\n".join(
        f"{n}. Ask.\n\n<details><summary>Answer</summary>\n\nIt is `secret {n}`.\n\n</details>"
        for n in (1, 2)
    )
    path = write_notebook(tmp_path / "lesson.ipynb", f"# Exercises\n\n{answers}\n\nAnd on.")
    folds = Folds()
    folds.feed(notebook_page(path))
    assert "secret 1" in folds.inside and "secret 2" in folds.inside and folds.depth == 0
    assert "secret" not in folds.outside and "And on." in folds.outside and "Ask." in folds.outside


def test_a_cell_that_raises_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_notebook(tmp_path / "broken.ipynb", "# Broken", "x = 1", "x / 0")
    target = tmp_path / "page.html"
    assert main(["export", str(path), "-o", str(target)]) == 2
    said = capsys.readouterr().err
    assert "broken.ipynb, cell 3 raised ZeroDivisionError: division by zero" in said
    assert not target.exists()


def test_a_page_that_would_load_something_is_refused(tmp_path: Path) -> None:
    path = write_notebook(tmp_path / "picture.ipynb", "![far](https://example.org/far.png)")
    with pytest.raises(ValueError, match=r"would load https://example.org/far.png when its page is opened"):
        notebook_page(path)


@pytest.mark.parametrize(
    ("markup", "found"),
    [
        ('<script src="https://a.example/x.js"></script>', ["https://a.example/x.js"]),
        ('<link rel="stylesheet" href="x.css">', ["x.css"]),
        ('<img src="//a.example/x.png">', ["//a.example/x.png"]),
        ("<style>@import 'https://a.example/x.css';</style>", ["https://a.example/x.css"]),
        ("<style>a { background: url(https://a.example/x.png) }</style>", ["https://a.example/x.png"]),
        ('<p style="background: url(x.png)">', ["x.png"]),
        ('<iframe srcdoc="&lt;img src=&quot;x.png&quot;&gt;"></iframe>', ["x.png"]),
        ('<a href="https://a.example">link</a><img src="data:,">', []),
        ("<script>fetch_later = 'url(x.png)'</script>", []),
    ],
)
def test_what_a_page_loads_is_found(markup: str, found: list[str]) -> None:
    assert list(find_loads(markup)) == found


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cells": 3}'])
def test_what_is_no_notebook_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "no.ipynb"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"no.ipynb is not a Jupyter notebook"):
        notebook_page(path)


@pytest.mark.parametrize("missing", ["nbformat", "nbclient", "ipykernel", "nbconvert"])
def test_a_missing_library_names_the_remedy(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_notebook(tmp_path / "lesson.ipynb", "# Nothing to run")
    for name in [name for name in sys.modules if name.split(".")[0] == missing]:
        monkeypatch.delitem(sys.modules, name)
    original = builtins.__import__

    def refuse(name: str, *rest: Any, **more: Any) -> Any:
        if name.split(".")[0] == missing:
            raise ImportError(name)
        return original(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    monkeypatch.setitem(sys.modules, missing, None)
    assert main(["export", str(path), "-o", str(tmp_path / "page.html")]) == 2
    said = capsys.readouterr().err
    assert f"Exporting a notebook needs {missing}; install what it needs with: pip install" in said
