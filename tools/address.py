"""Hold every badge, link and setup cell to the one address in pyproject.toml.

    python tools/address.py           # say what differs
    python tools/address.py --write   # write the address wherever a copy stands (`make address`)

The public address of the repository stands in pyproject.toml, [project.urls] Repository; nobody types it
anywhere else. A copy is found by the place it stands in: a Binder link, a Colab link, an install or a clone
from git, or a link to a repository that is called like this project.

Needs nothing but Python: it runs before any environment exists.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

# Never by a bare package name: nobody owns that name on an index. It touches no other package.
SETUP = """\
try:
    import pulsewarp
except ImportError:
    %pip install --quiet "pulsewarp @ git+{address}\""""

_WORD = r"[\w-]+(?:\.[\w-]+)*"
_PAIR = rf"{_WORD}/{_WORD}"
_WHOLE = rf"https://{_WORD}/{_PAIR}"


def project(root: Path = ROOT) -> dict[str, Any]:
    """Return the [project] table of pyproject.toml."""
    table: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return table


def address(root: Path = ROOT) -> str:
    """Return the repository's address; Binder and Colab links exist for GitHub, so it must be there."""
    found = str(project(root)["urls"]["Repository"]).rstrip("/")
    if not re.fullmatch(rf"https://github\.com/{_PAIR}", found):
        raise ValueError(
            f"[project.urls] Repository is {found!r}; the Binder and Colab links need the form "
            "https://github.com/OWNER/NAME, without .git."
        )
    return found


def setup_cell(repository: str) -> str:
    """Return the text of every notebook's first code cell."""
    return SETUP.format(address=repository)


def places(name: str) -> Iterator[tuple[re.Pattern[str], bool]]:
    """Yield where copies stand: a pattern with the copy as its one group; whether it is the whole address."""
    yield re.compile(rf"mybinder\.org/v2/gh/({_PAIR})/"), False
    yield re.compile(rf"colab\.research\.google\.com/github/({_PAIR})/"), False
    yield re.compile(rf"git\+({_WHOLE})"), True
    yield re.compile(rf"git clone ({_WHOLE})"), True
    yield re.compile(rf"(https://{_WORD}/{_WORD}/{re.escape(name)})(?![\w-])"), True


def rewrite(text: str, repository: str, name: str = "pulsewarp") -> str:
    """Return the text with every copy of the address replaced by `repository`."""
    pair = repository.removeprefix("https://github.com/")
    for pattern, whole in places(name):
        right = repository if whole else pair
        text = pattern.sub(partial(_with_copy, right), text)
    return text


def _with_copy(right: str, found: re.Match[str]) -> str:
    """Return what was found with its one group, the copy, replaced."""
    return found[0].replace(found[1], right)


def rewrite_notebook(text: str, repository: str) -> str:
    """Return a notebook's JSON with its addresses and its setup cell rewritten."""
    text = rewrite(text, repository)
    notebook = json.loads(text)
    first = next((cell for cell in notebook["cells"] if cell["cell_type"] == "code"), None)
    right = setup_cell(repository)
    if first is None or "".join(first["source"]) == right:
        return text
    if "import pulsewarp" not in "".join(first["source"]):
        return text  # no setup cell to rewrite; that one is missing is for tests/notebooks to say
    first["source"] = right.splitlines(keepends=True)
    return json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True) + "\n"  # nbformat's own layout


def files(root: Path = ROOT) -> list[Path]:
    """Return the files in which the address may stand."""
    return sorted([*root.glob("*.md"), *root.glob("notebooks/*.md"), *root.glob("notebooks/*.ipynb")])


def differing(root: Path = ROOT) -> dict[Path, str]:
    """Return the files whose copies differ from pyproject.toml, and what each should hold."""
    repository = address(root)
    right = {}
    for path in files(root):
        text = path.read_text(encoding="utf-8")
        new = rewrite_notebook(text, repository) if path.suffix == ".ipynb" else rewrite(text, repository)
        if new != text:
            right[path] = new
    return right


def main() -> int:
    options = argparse.ArgumentParser(description="Hold every copy of the address to pyproject.toml.")
    options.add_argument("--write", action="store_true", help="write the address wherever a copy stands")
    write = options.parse_args().write
    wrong = differing()
    for path, text in wrong.items():
        if write:
            path.write_text(text, encoding="utf-8")
        print(f"{path.relative_to(ROOT)}: {'rewritten' if write else 'differs; run make address'}")
    return 1 if wrong and not write else 0


if __name__ == "__main__":
    sys.exit(main())
