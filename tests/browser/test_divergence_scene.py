"""The divergence scene shows what the traces say: caption, lanes at lines and over time, stack, table."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scene_page import caption, opened, seek

from pulsewarp import simt, widgets
from pulsewarp.simt import DivergenceTrace
from pulsewarp.simt.divergence import RUNS
from pulsewarp.widgets import divergence as module

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser
Open = Callable[..., "Page"]

PROGRAM = """x = lane
if lane < 12:
    x = 3 * x
    x = x + 1
else:
    x = x + 100
syncwarp()
x = x + 1"""
SPIN = "busy = 1\nwhile busy == 1:\n    busy = exch(lock, 1)\nexch(lock, 0)"


def pair() -> list[DivergenceTrace]:
    how: dict[str, Any] = {"reconvergence": "independent", "schedule": "alternate"}
    return [simt.run_warp(PROGRAM, latency=1), simt.run_warp(PROGRAM, latency=1, **how)]


def spins() -> list[DivergenceTrace]:
    return [
        simt.run_warp(SPIN, reconvergence=kind, shared={"lock": 0}, lanes=3, latency=1)
        for kind in ("stack", "independent")
    ]


def wrong_captions(page: Page, runs: list[DivergenceTrace], names: list[str]) -> list[int]:
    """Return the cycles at which a sentence is not the trace's own."""
    wrong = []
    for t in range(max(run.cycles for run in runs)):
        seek(page, t)
        wanted = [
            f"{name}: {run.why(t) if t < run.cycles else run.deadlock or ended(run)}"
            for name, run in zip(names, runs, strict=True)
        ]
        if caption(page) != wanted:
            wrong.append(t)
    return wrong


def ended(run: DivergenceTrace) -> str:
    return f"All lanes have ended, after {run.cycles} cycles."


def test_the_caption_is_true_to_the_frame(open_html: Open) -> None:
    page = opened(open_html, widgets.DivergencePlayer(pair()))
    assert wrong_captions(page, pair(), ["Stack", "Alternating"]) == []
    page = opened(open_html, widgets.DivergencePlayer(spins()))
    assert wrong_captions(page, spins(), ["Stack", "Independent"]) == []


def late(monkeypatch: pytest.MonkeyPatch, column: str) -> None:
    real = module.pack
    monkeypatch.setattr(
        module, "pack", lambda k, h, c: real(k, h, {**c, column: np.roll(np.asarray(c[column]), 1, axis=0)})
    )


def test_mutant_a_caption_a_cycle_late_is_seen(open_html: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    late(monkeypatch, "sentence1")
    page = opened(open_html, widgets.DivergencePlayer(pair()))
    assert len(wrong_captions(page, pair(), ["Stack", "Alternating"])) > 4


INK, PAPER = [29, 39, 51, 255], [255, 255, 255, 255]


def colours(page: Page, points: list[tuple[float, float]]) -> list[list[int]]:
    """Return what is drawn at points, in CSS pixels of the canvas."""
    found: list[list[int]] = page.eval_on_selector(
        ".dv-canvas",
        """(canvas, points) => {
          const scale = canvas.width / parseFloat(canvas.style.width);
          const pen = canvas.getContext("2d");
          const at = (x, y) => pen.getImageData(Math.round(x * scale), Math.round(y * scale), 1, 1);
          return points.map(([x, y]) => [...at(x, y).data]);
        }""",
        points,
    )
    return found


def wrong_pictures(page: Page, runs: list[DivergenceTrace]) -> set[str]:
    """Name the parts of the picture in which other lanes are inked than those that run."""
    wrong = set()
    row = 17
    for t in range(min(run.cycles for run in runs)):
        seek(page, t)
        at = json.loads(page.get_attribute(".dv-canvas", "data-at") or "")
        for run, block in zip(runs, at["blocks"], strict=True):
            runs_now = [bool(one) for one in run.state[t] == RUNS]
            lines = run.lines_at(t)
            spots = [
                (
                    at["code"] + (lane + 0.4) * at["cell"],
                    block["top"] + ((lines[lane] or len(run.lines) + 1) - 0.5) * row,
                )
                for lane in range(32)
            ]
            if [one == INK for one in colours(page, spots)] != runs_now:
                wrong.add("lanes at lines")
            middle = at["label"] + at["plot"] * (t + 0.5) / at["cycles"]
            spots = [(middle, block["plotTop"] + (lane + 0.4) * block["lane"]) for lane in range(32)]
            if [one == INK for one in colours(page, spots)] != runs_now:
                wrong.add("lanes over time")
    return wrong


def test_lanes_that_run_are_inked_at_their_line_and_in_time(open_html: Open) -> None:
    assert wrong_pictures(opened(open_html, widgets.DivergencePlayer(pair())), pair()) == set()


@pytest.mark.parametrize("column, seen", [("state0", "lanes over time"), ("line1", "lanes at lines")])
def test_mutant_a_picture_a_cycle_late_is_seen(
    open_html: Open, monkeypatch: pytest.MonkeyPatch, column: str, seen: str
) -> None:
    late(monkeypatch, column)
    assert seen in wrong_pictures(opened(open_html, widgets.DivergencePlayer(pair())), pair())


def test_the_stack_stands_beside_the_program_with_its_masks(open_html: Open) -> None:
    page = opened(open_html, widgets.DivergencePlayer(pair()[0]))
    seek(page, 2)
    rows = page.locator(".dv-standing li")
    assert rows.locator("p").all_inner_texts() == [
        "Line 3, up to line 7: lanes 0 to 11",
        "Line 6, up to line 7: lanes 12 to 31, off",
        "Line 7, up to the end: all 32 lanes, later",
    ]
    strips = [str(one.get_attribute("d")).count("M") for one in rows.locator(".dv-in").all()]
    assert strips == [12, 20, 32]
    seek(page, 5)
    assert rows.locator("p").all_inner_texts() == ["Line 7, up to the end: all 32 lanes"]


def test_the_ledger_counts_lost_slots_and_the_table_holds_every_lanes_values(open_html: Open) -> None:
    run, turns = pair()
    page = opened(open_html, widgets.DivergencePlayer([run, turns]))
    page.get_by_role("button", name="Table", exact=True).click()
    for t in (2, run.cycles - 1):
        seek(page, t)
        bill = {
            row.split("\t")[0]: row.split("\t")[1:]
            for row in page.locator(".pw-compare tbody tr").all_inner_texts()
        }
        issued = int((run.issued[: t + 1] >= 0).sum())
        work = int(run.mask[: t + 1].sum())
        assert bill["instructions issued"][0] == str(issued)
        assert bill["lane slots used"][0] == str(work)
        assert bill["lane slots lost"][0] == str(32 * issued - work)
        assert bill["share used"][0] == f"{100 * work / (32 * issued):.1f} %"
        rows = [row.split("\t") for row in page.locator(".pw-drawer tbody tr").all_inner_texts()]
        assert [row[0] for row in rows] == [str(lane) for lane in range(32)] * 2
        assert [row[4] for row in rows[:32]] == [str(value) for value in run.values[t, 0].tolist()]
        assert [row[4] for row in rows[32:]] == [str(value) for value in turns.values[t, 0].tolist()]
    seek(page, 2)
    assert page.locator(".pw-drawer tbody tr").nth(12).inner_text().split("\t") == [
        "12", "stack", "is off", "6", "12",
    ]  # fmt: skip


def test_arrow_keys_and_a_click_pick_a_lane_and_the_caption_tells_its_values(open_html: Open) -> None:
    page = opened(open_html, widgets.DivergencePlayer(pair()))
    seek(page, 2)
    picture = page.locator(".pw-picture")
    picture.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        picture.press(key)
    assert caption(page)[-1] == "Alternating, chosen: Lane 1 runs line 3; after this cycle x = 3."
    at = json.loads(page.get_attribute(".dv-canvas", "data-at") or "")
    block = at["blocks"][0]
    where = {"x": at["label"] + 20, "y": block["plotTop"] + 20.5 * block["lane"]}
    page.locator(".dv-canvas").click(position=where)
    assert caption(page)[-1] == "Stack, chosen: Lane 20 is off, its next line is 6; after this cycle x = 20."


def test_what_comes_can_be_hidden(open_html: Open) -> None:
    page = opened(open_html, widgets.DivergencePlayer(pair(), future="hidden"))
    seek(page, 0)
    at = json.loads(page.get_attribute(".dv-canvas", "data-at") or "")
    spots = [
        (at["label"] + at["plot"] * share, one["plotTop"] + 60)
        for one in at["blocks"]
        for share in (0.3, 0.9)
    ]
    assert colours(page, spots) == [PAPER] * 4


def test_a_machine_that_never_ends_says_so_to_the_end(open_html: Open) -> None:
    page = opened(open_html, widgets.DivergencePlayer(spins()))
    seek(page, max(run.cycles for run in spins()) - 1)
    assert caption(page)[0] == f"Stack: {spins()[0].deadlock}"
    page.get_by_role("button", name="Table", exact=True).click()
    does = [row.split("\t")[2] for row in page.locator(".pw-drawer tbody tr").all_inner_texts()]
    assert does[:3] == ["waits where the branch ends", "runs", "runs"]
