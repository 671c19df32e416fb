"""The repository's address stands in pyproject.toml; every copy of it is held to that."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import address
import pytest

OTHER = "https://github.com/somebody-else/a-new.name"


def test_every_badge_link_and_setup_cell_holds_the_address() -> None:
    assert address.differing() == {}


def test_the_readme_has_its_badges() -> None:
    pair = address.address().removeprefix("https://github.com/")
    readme = (address.ROOT / "README.md").read_text(encoding="utf-8")
    start = "notebooks/00_start_here.ipynb"
    assert re.search(
        rf"https://mybinder\.org/v2/gh/{re.escape(pair)}/\w+\?urlpath=lab/tree/{start}\)", readme
    )
    assert re.search(
        rf"https://colab\.research\.google\.com/github/{re.escape(pair)}/blob/\w+/{start}\)", readme
    )


@pytest.fixture
def moved(tmp_path: Path) -> Path:
    """A checkout in which only pyproject.toml knows that the repository has moved."""
    (tmp_path / "notebooks").mkdir()
    for path in [address.ROOT / "pyproject.toml", *address.files()]:
        shutil.copy(path, tmp_path / path.relative_to(address.ROOT))
    settings = (tmp_path / "pyproject.toml").read_text(encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(settings.replace(address.address(), OTHER), encoding="utf-8")
    return tmp_path


def test_a_new_address_is_missed_wherever_a_copy_stands_and_then_written_there(moved: Path) -> None:
    wrong = address.differing(moved)
    names = {path.name for path in wrong}
    assert {"README.md", *(path.name for path in moved.glob("notebooks/*.ipynb"))} <= names
    for path, text in wrong.items():
        path.write_text(text, encoding="utf-8")
    assert address.differing(moved) == {}
    old = address.address().removeprefix("https://github.com/")
    assert [path.name for path in address.files(moved) if old in path.read_text(encoding="utf-8")] == []


def test_rewriting_changes_a_notebook_in_nothing_else(moved: Path) -> None:
    for path, text in address.differing(moved).items():
        if path.suffix == ".ipynb":
            before, after = json.loads(path.read_text(encoding="utf-8")), json.loads(text)
            old = address.address().removeprefix("https://github.com/")
            assert (
                json.loads(json.dumps(after).replace(OTHER.removeprefix("https://github.com/"), old))
                == before
            )


@pytest.mark.parametrize(
    "text",
    [
        "https://github.com/other/project/issues/3",
        "https://mybinder.org/badge_logo.svg",
        "https://colab.research.google.com/assets/colab-badge.svg",
        "https://github.com/other/pulsewarp-extras",
    ],
)
def test_what_is_not_ours_is_left_alone(text: str) -> None:
    assert address.rewrite(text, OTHER) == text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "[x](https://mybinder.org/v2/gh/a/b/main?urlpath=lab)",
            "https://mybinder.org/v2/gh/somebody-else/a-new.name/",
        ),
        (
            "https://colab.research.google.com/github/a/b/blob/main/x",
            "/github/somebody-else/a-new.name/blob/main/x",
        ),
        ('"pulsewarp @ git+https://github.com/a/b"', f'"pulsewarp @ git+{OTHER}"'),
        ("git clone https://github.com/a/b.git", f"git clone {OTHER}"),
        ("see https://github.com/a/pulsewarp/issues.", f"see {OTHER}/issues."),
    ],
)
def test_each_place_is_rewritten(old: str, new: str) -> None:
    assert new in address.rewrite(old, OTHER)


@pytest.mark.parametrize("bad", ["https://gitlab.com/a/b", "https://github.com/a", "git@github.com:a/b"])
def test_an_address_no_badge_could_use_is_refused(moved: Path, bad: str) -> None:
    settings = (moved / "pyproject.toml").read_text(encoding="utf-8")
    (moved / "pyproject.toml").write_text(settings.replace(OTHER, bad), encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(repr(bad))):
        address.address(moved)


def test_the_setup_cell_installs_only_where_the_package_is_missing_and_never_by_a_bare_name() -> None:
    cell = address.setup_cell(OTHER)
    assert cell.startswith("try:\n    import pulsewarp\nexcept ImportError:\n    %pip install")
    assert f"pulsewarp @ git+{OTHER}" in cell
    assert not re.search(r"jax|numpy|ipywidgets|anywidget|--upgrade|-U", cell)
