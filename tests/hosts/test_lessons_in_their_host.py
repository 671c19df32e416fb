"""Every lesson opens, runs to its end, draws and answers the keyboard, as a reader would see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from keep_outputs import paths

if TYPE_CHECKING:
    from notebook_hosts import Host
    from playwright.sync_api import Browser

pytestmark = pytest.mark.lab

LESSONS = [path.name for path in paths()]


@pytest.fixture(scope="module")
def host(start_host: Callable[..., Any]) -> Iterator[Host]:
    with start_host(paths()) as running:
        yield running


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_runs_to_its_end_and_nothing_goes_wrong(
    host: Host, browser: Browser, lesson: str, record_property: Callable[[str, object], None]
) -> None:
    from notebook_hosts import answers_keyboard

    with host.visit(browser, lesson) as (page, visit):
        answers = [answers_keyboard(page, scene) for scene in host.scenes(page, visit)]
        page.wait_for_timeout(500)  # what a scene saves when its playhead rests must not err either
    seconds = f"opened in {visit.open_seconds:.1f} s, ran in {visit.run_seconds:.1f} s"
    memory = f"at most {visit.peak_bytes / 2**20:.0f} MiB"
    row = f"{visit.host:<8} {lesson:<24} {seconds}, {len(visit.views)} widgets, {memory}"
    record_property("notebook visit", row)
    assert visit.problems() == []
    assert all(answers), answers


def test_there_are_lessons() -> None:
    assert LESSONS, "notebooks/ holds no lesson, so nothing was shown to work"
