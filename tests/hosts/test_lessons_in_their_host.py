"""Every lesson opens, runs to its end, draws and answers the keyboard, as a reader would see it."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

import nbformat
import pytest
from keep_outputs import paths, source_of

if TYPE_CHECKING:
    from pathlib import Path

    from notebook_hosts import Desk, Host

pytestmark = pytest.mark.lab


def shown_by(lesson: Path) -> set[str]:
    """Return what a lesson asks of an application: its kinds of widgets, its interactive functions, figures.

    Every figure is a value of Plotly's, which an application draws by one and the same renderer whatever it
    shows; all of them are one kind here. A scene and a form bring JavaScript of their own.
    """
    cells = [cell for cell in nbformat.read(lesson, as_version=4).cells if cell.cell_type == "code"]
    code = "\n".join(source_of(cell) for cell in cells if "%pip" not in source_of(cell))
    read = [
        (each.value.id, each.attr)
        for each in ast.walk(ast.parse(code))
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name)
    ]
    named = {f"{module}.{name}" for module, name in read if module in ("widgets", "lesson")}
    return named | {"a figure" for module, _ in read if module == "figures"}


def smallest_cover(shown: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """Return the fewest lessons that between them show all that any lesson shows; the first such in order."""
    everything = set().union(*shown.values())
    return next(
        chosen
        for count in range(len(shown) + 1)
        for chosen in itertools.combinations(shown, count)
        if everything <= set().union(*(shown[name] for name in chosen))
    )


SHOWN = {path.name: shown_by(path) for path in paths()}
# JupyterLab opens every lesson. Classic Notebook of Colab's age opens as many as it takes to show there all
# that lessons show: that each cell of each lesson runs with those versions is for nbval to prove, which runs
# them all in the same environment.
COVER = smallest_cover(SHOWN)
# The last lessons take longest: they come first, or one worker would end long after the other.
LESSONS = [
    pytest.param(name, marks=() if name in COVER else pytest.mark.exhaustive) for name in reversed(SHOWN)
]


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_runs_to_its_end_and_nothing_goes_wrong(
    host: Host, desk: Desk, lesson: str, record_property: Callable[[str, object], None]
) -> None:
    from notebook_hosts import answers_keyboard

    name = host.add(next(path for path in paths() if path.name == lesson))
    with desk.visit(name) as (page, visit):
        answers = [answers_keyboard(page, scene) for scene in host.scenes(page, visit)]
        page.wait_for_timeout(500)  # what a scene saves when its playhead rests must not err either
    seconds = f"opened in {visit.open_seconds:.1f} s, ran in {visit.run_seconds:.1f} s"
    memory = f"at most {visit.peak_bytes / 2**20:.0f} MiB"
    row = f"{visit.host:<8} {lesson:<24} {seconds}, {len(visit.views)} widgets, {memory}"
    record_property("notebook visit", row)
    assert visit.problems() == []
    assert all(answers), answers


def test_there_are_lessons_and_what_they_show_is_found() -> None:
    assert len(SHOWN) > 1, "notebooks/ holds no lessons, so nothing was shown to work"
    everything = set().union(*SHOWN.values())
    assert {"a figure", "lesson.predict", "lesson.exercise", "widgets.SystolicPlayer"} <= everything
    assert everything == set().union(*(SHOWN[name] for name in COVER))


@pytest.mark.parametrize("left_out", COVER)
def test_no_lesson_of_the_cover_can_be_left_out(left_out: str) -> None:
    rest = set().union(*(SHOWN[name] for name in COVER if name != left_out))
    assert SHOWN[left_out] - rest


def test_the_cover_is_the_smallest_and_grows_with_what_lessons_show() -> None:
    shown = {"one": {"a", "b"}, "two": {"b", "c"}, "three": {"a", "b", "c"}}
    assert smallest_cover(shown) == ("three",)
    assert smallest_cover({**shown, "one": {"a", "b", "d"}}) == ("one", "two")
