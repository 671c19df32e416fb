"""Promises of the project as a whole: what Binder builds, and what importing it costs."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pulsewarp.cli import _build_parser

pytestmark = pytest.mark.exhaustive

ROOT = Path(__file__).resolve().parent.parent
LIGHT = ("chips", "matmul", "numerics", "roofline", "systolic", "simt", "ledger", "guide", "bench")
HEAVY = ("jax", "jaxlib", "plotly", "ipywidgets", "anywidget", "IPython", "numba")


def print_dockerfile(checkout: Path) -> str:
    """Return what repo2docker would build from a checkout, and what it says while it makes that out."""
    pytest.importorskip(
        "repo2docker", reason="jupyter-repo2docker is in the group check, not in this environment"
    )
    command = [sys.executable, "-m", "repo2docker", "--no-build", "--debug", "."]
    printed = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    assert printed.returncode == 0, printed.stderr
    return printed.stdout + printed.stderr


def python_asked_for() -> str:
    """Return what repo2docker says when it uses the Python of binder/runtime.txt."""
    asked = (ROOT / "binder" / "runtime.txt").read_text(encoding="utf-8").strip()
    return f"Building conda environment for {asked.replace('-', '=', 1)}\n"


def test_binder_gets_the_python_asked_for_and_the_package() -> None:
    dockerfile = print_dockerfile(ROOT)
    assert python_asked_for() in dockerfile
    # The package comes from the checkout, so the checkout must be there before it is installed.
    copied = dockerfile.index(" src/ ${REPO_DIR}/")
    installed = dockerfile.index('pip install --no-cache-dir -r "binder/requirements.txt"')
    assert copied < installed
    assert "-e .[lab]" in (ROOT / "binder" / "requirements.txt").read_text(encoding="utf-8").splitlines()


def test_without_runtime_txt_binder_would_take_another_python(tmp_path: Path) -> None:
    (tmp_path / "binder").mkdir()
    shutil.copy(ROOT / "binder" / "requirements.txt", tmp_path / "binder")
    assert python_asked_for() not in print_dockerfile(tmp_path)


def loaded_by(statement: str) -> set[str]:
    """Return the top-level modules that are loaded in a fresh interpreter after a statement."""
    ask = f"{statement}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    answer = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    return set(answer.stdout.split())


@pytest.mark.parametrize(
    "statement",
    [
        "import pulsewarp",
        *(f"from pulsewarp import {name}" for name in LIGHT),
    ],
)
def test_nothing_heavy_is_loaded_before_it_is_needed(statement: str) -> None:
    assert loaded_by(statement).isdisjoint(HEAVY)


def test_importing_the_package_does_not_even_load_numpy() -> None:
    assert "numpy" not in loaded_by("import pulsewarp")


def test_a_heavy_import_would_be_seen() -> None:
    assert not loaded_by("import pulsewarp, ipywidgets").isdisjoint(HEAVY)


def benchmarks_of(path: Path) -> list[str]:
    """Return the functions of a file that benchmarks/run.py finds: it goes by their names."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    return [name for name in names if name.startswith("bench_")]


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("bench_*.py")), ids=lambda path: path.stem)
def test_every_benchmark_file_is_run(path: Path) -> None:
    assert benchmarks_of(path)


def test_a_file_without_a_benchmark_would_be_seen(tmp_path: Path) -> None:
    path = tmp_path / "bench_nothing.py"
    path.write_text("def scheduling(): ...\n", encoding="utf-8")
    assert benchmarks_of(path) == []


# --- what the pages for people name ------------------------------------------------------------------------

PAGES = ("README.md", "CONTRIBUTING.md")
# Where a path in a page may start; NAME stands for a file that a contributor adds.
ROOTS = (ROOT, ROOT / "src" / "pulsewarp", ROOT / "src" / "pulsewarp" / "chips")
NOT_BUILT_YET = {"stacks/"}


def named_in(text: str) -> tuple[set[str], set[str]]:
    """Return the make targets and the paths that a page names in code or links to."""
    targets = set(re.findall(r"^make (\w+)|`make (\w+)`", text, flags=re.MULTILINE))
    spans = {*re.findall(r"`([\w./*-]+)`", text), *re.findall(r"\]\((?!https?:)([^)#]+)\)", text)}
    paths = {span for span in spans if "/" in span and "NAME" not in span and not span.startswith(".")}
    return {word for pair in targets for word in pair if word}, paths - NOT_BUILT_YET


def not_there(text: str) -> set[str]:
    """Return what a page names and the checkout does not have."""
    targets, paths = named_in(text)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    missing = {target for target in targets if f"\n{target}:" not in makefile}
    return missing | {path for path in paths if not any(any(root.glob(path)) for root in ROOTS)}


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_only_what_is_there(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert all(named_in(text))
    assert not_there(text) == set()


def test_a_page_that_names_what_is_gone_would_be_seen() -> None:
    text = "`make tset`, [a lesson](notebooks/00_start.ipynb), `widgets/kti/`, `make test`, `widgets/kit/`"
    assert not_there(text) == {"tset", "notebooks/00_start.ipynb", "widgets/kti/"}


def test_the_readme_shows_commands_that_parse() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = [line.partition("#")[0].split() for line in text.splitlines() if line.startswith("pulsewarp ")]
    assert {words[1] for words in shown} == {"doctor", "bench", "compare", "advise", "export"}
    for words in shown:
        options = _build_parser().parse_all(words[1:])
        assert options.command == words[1]


# --- docstrings --------------------------------------------------------------------------------------------

#: A heading that a careless line break has run into its text: no reader of the docstring finds the section.
RUN_IN = re.compile(r"^ +(?:Parameters|Returns|Raises|Notes|Examples) -{3,}", re.MULTILINE)


@pytest.mark.parametrize("path", sorted((ROOT / "src").rglob("*.py")), ids=lambda path: path.name)
def test_headings_of_docstrings_stand_alone(path: Path) -> None:
    assert RUN_IN.findall(path.read_text(encoding="utf-8")) == []


def test_a_heading_run_into_its_text_would_be_seen() -> None:
    assert RUN_IN.findall("    Notes ----- A product of two values") != []
