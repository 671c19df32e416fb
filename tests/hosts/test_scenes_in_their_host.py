"""Both players in an application: drawn, moved by keys, and silent towards the kernel while they play."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from notebook_hosts import Host, Visit
    from playwright.sync_api import ElementHandle, Page

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("scenes")]  # one visit for all of them

CELLS = [
    "from pulsewarp import simt, systolic, widgets",
    "widgets.SystolicPlayer(systolic.simulate([[1, 2], [3, 4]], [[5, 6], [7, 8]], rows=2, cols=2))",
    "kernel = simt.matmul_kernel([[1, 2], [3, 4]], [[5, 6], [7, 8]])\n"
    'widgets.WarpPlayer(kernel.simulate(schedulers=1, policy="lrr"))',
    'print("the end")',
]


def scenes_of(opened: tuple[Host, Page, Visit]) -> Iterator[ElementHandle]:
    host, page, visit = opened
    return host.scenes(page, visit)


def test_both_players_draw(opened: tuple[Host, Page, Visit]) -> None:
    assert opened[2].problems() == []
    assert len(list(scenes_of(opened))) == 2


def test_a_focused_scene_answers_the_keyboard(opened: tuple[Host, Page, Visit]) -> None:
    from notebook_hosts import answers_keyboard

    assert [answers_keyboard(opened[1], scene) for scene in scenes_of(opened)] == [True, True]


def test_nothing_crosses_to_the_kernel_while_a_scene_plays(opened: tuple[Host, Page, Visit]) -> None:
    from notebook_hosts import messages_while_playing

    _, page, visit = opened
    assert [messages_while_playing(page, visit, scene) for scene in scenes_of(opened)] == [[], []]


def test_where_the_playhead_rests_does_reach_the_kernel(opened: tuple[Host, Page, Visit]) -> None:
    # The counter of the test above, seen to count: without this it could be deaf.
    from notebook_hosts import wait_for_message, wait_until_quiet

    _, page, visit = opened
    for scene in scenes_of(opened):
        scene.focus()
        page.keyboard.press("End")
        wait_until_quiet(page, visit)
        before = len(visit.messages)
        page.keyboard.press("Home")
        assert wait_for_message(page, visit, "to kernel: comm_msg", since=before)


def test_the_ledger_keeps_its_two_columns(opened: tuple[Host, Page, Visit]) -> None:
    # JupyterLab floats every list of an output; without our own rule labels and numbers scatter.
    scene = next(scenes_of(opened))
    rows = scene.eval_on_selector_all(
        ".pw-ledger dt",
        "labels => labels.map(label => [label, label.nextSibling].map(part => part.getBoundingClientRect()))"
        ".map(([label, number]) => [number.top - label.top, number.left - label.right])",
    )
    assert len(rows) >= 5
    assert all(abs(lower) < 3 and gap >= 0 for lower, gap in rows)
