"""Scenes share a page in a notebook, and so do their style sheets: no scene may dress another's parts."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import pytest

import pulsewarp.widgets

FOLDER = Path(pulsewarp.widgets.__file__).parent
SCENES = {path.stem: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.css"))}
KIT = (FOLDER / "kit" / "kit.css").read_text(encoding="utf-8")


def classes(style: str) -> set[str]:
    return set(re.findall(r"\.(pw[\w-]*)", style))


def shared(one: str, other: str) -> set[str]:
    """Return the classes that two scenes' style sheets both dress and that the kit does not own."""
    return classes(one) & classes(other) - classes(KIT)


@pytest.mark.parametrize(("one", "other"), list(combinations(SCENES, 2)))
def test_two_scenes_name_their_parts_apart(one: str, other: str) -> None:
    assert shared(SCENES[one], SCENES[other]) == set()


def test_there_are_scenes_and_a_collision_would_be_seen() -> None:
    assert len(SCENES) >= 2
    assert shared(".pw .pw-number { width: 11em; }", ".pw-list .pw-number { color: red; }") == {"pw-number"}
