"""The placement scene shows what the placements say: caption, table, squares, lines, ledger."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scene_page import caption, cycle, opened, seek

from pulsewarp import chips, simt, widgets
from pulsewarp.simt import Placement
from pulsewarp.widgets import _wire
from pulsewarp.widgets import placement as module

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser
Open = Callable[..., "Page"]

PAIR = [simt.place_blocks(count, chips.get("h100_sxm"), block_cycles=1000) for count in (132, 133)]
UNEVEN = simt.place_blocks(60, 8, 4, np.random.default_rng(4).integers(20, 90, 60).tolist(), "most_room")


def times(player: widgets.PlacementPlayer) -> list[int]:
    found: list[int] = _wire.unpack(player.trace)[1]["time"].tolist()
    return found


def told(run: Placement, t: int) -> str:
    if t <= run.cycles:
        return " ".join(run.why(t))
    return f"The grid has been done since cycle {run.cycles:,}. {run.why(run.cycles)[1]}"


def wrong_captions(page: Page, player: widgets.PlacementPlayer, runs: list[Placement]) -> list[int]:
    """Return the frames at which a sentence is not the placement's own."""
    wrong = []
    frames = times(player)
    for f in np.unique(np.linspace(0, len(frames) - 1, 9).astype(int)).tolist():
        seek(page, f)
        names = [f"Grid of {run.blocks}: " if len(runs) > 1 else "" for run in runs]
        if caption(page) != [name + told(run, frames[f]) for name, run in zip(names, runs, strict=True)]:
            wrong.append(f)
    return wrong


@pytest.mark.parametrize("runs", [PAIR, [UNEVEN]], ids=["pair", "uneven"])
def test_the_caption_is_true_to_the_frame(runs: list[Placement], open_html: Open) -> None:
    player = widgets.PlacementPlayer(runs)
    assert wrong_captions(opened(open_html, player), player, runs) == []


def test_mutant_a_caption_a_frame_late_is_seen(open_html: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    real = module.pack

    def late(k: str, h: Any, c: Any, d: Any) -> str:
        return real(k, h, {**c, "sentence0": np.roll(c["sentence0"], 1, axis=0)}, d)

    monkeypatch.setattr(module, "pack", late)
    player = widgets.PlacementPlayer(UNEVEN)
    assert len(wrong_captions(opened(open_html, player), player, [UNEVEN])) > 5


def colours(page: Page, points: list[tuple[float, float]]) -> list[list[int]]:
    """Return what is drawn at points, in CSS pixels of the canvas."""
    found: list[list[int]] = page.eval_on_selector(
        ".pl-canvas",
        """(canvas, points) => {
          const scale = canvas.width / parseFloat(canvas.style.width);
          const pen = canvas.getContext("2d");
          const at = (x, y) => pen.getImageData(Math.round(x * scale), Math.round(y * scale), 1, 1);
          return points.map(([x, y]) => [...at(x, y).data]);
        }""",
        points,
    )
    return found


def squares(page: Page, runs: list[Placement]) -> list[list[list[int]]]:
    """Return the colour in the middle of every SM's square; of several slots, of its first one's middle."""
    blocks = json.loads(page.get_attribute(".pl-canvas", "data-blocks") or "")
    found = []
    for run, one in zip(runs, blocks, strict=True):
        inner = one["cell"] - 3
        half = (inner / one["parts"] - 1) / 2, (inner / one["deep"] - 1) / 2
        found.append(
            colours(
                page,
                [
                    (
                        s % one["cols"] * one["cell"] + 1 + half[0],
                        one["top"] + s // one["cols"] * one["cell"] + 1 + half[1],
                    )
                    for s in range(run.sms)
                ],
            )
        )
    return found


FIRST_WAVE = [211, 221, 230, 255]  # as placement.css says; the only shade without a texture


def test_squares_hold_the_blocks_that_run(open_html: Open) -> None:
    player = widgets.PlacementPlayer(PAIR)
    page = opened(open_html, player)
    for f in (0, 5, 12, 13, 24):
        seek(page, f)
        t = times(player)[f]
        for run, seen in zip(PAIR, squares(page, PAIR), strict=True):
            here = (run.start <= t) & (t < run.end) & (run.wave == 0)
            wanted = set(run.sm[here].tolist())
            assert {s for s, colour in enumerate(seen) if colour == FIRST_WAVE} == wanted, (f, t)


def test_mutant_a_block_on_another_sm_is_seen(open_html: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    real = module.pack
    crowded = {"sm0": np.zeros(132, int)}
    monkeypatch.setattr(module, "pack", lambda k, h, c, d: real(k, h, {**c, **crowded}, d))
    page = opened(open_html, widgets.PlacementPlayer(PAIR))
    seek(page, 0)
    assert [s for s, colour in enumerate(squares(page, PAIR)[0]) if colour == FIRST_WAVE] == [0]


def test_the_table_groups_sms_that_stand_alike(open_html: Open) -> None:
    page = opened(open_html, widgets.PlacementPlayer(PAIR))
    page.get_by_role("button", name="Table", exact=True).click()
    seek(page, 13)
    rows = [row.split("\t") for row in page.locator(".pw-drawer tbody tr").all_inner_texts()]
    assert rows == [
        ["grid of 132", "SM 0 to 131", "0 of 1", "none"],
        ["grid of 133", "SM 0", "1 of 1", "2nd"],
        ["grid of 133", "SM 1 to 131", "0 of 1", "none"],
    ]


def test_the_ledger_counts_to_the_end(open_html: Open) -> None:
    player = widgets.PlacementPlayer(PAIR)
    page = opened(open_html, player)
    seek(page, 24)
    rows = {
        row.split("\t")[0]: row.split("\t")[1:]
        for row in page.locator(".pw-compare tbody tr").all_inner_texts()
    }
    assert rows["idle slot-cycles"] == ["0", f"{PAIR[1].idle_slot_cycles:,}"]
    assert rows["slots used so far"] == ["100.0 %", f"{100 * PAIR[1].utilisation:.1f} %"]
    assert rows["waves"] == ["1", "2"] and rows["blocks done"] == ["132", "133"]


def test_arrow_keys_pick_an_sm_and_the_caption_names_its_block(open_html: Open) -> None:
    page = opened(open_html, widgets.PlacementPlayer(PAIR))
    seek(page, 13)
    picture = page.locator(".pw-picture")
    picture.focus()
    for key in ("ArrowRight", "ArrowDown"):
        picture.press(key)
    assert (
        caption(page)[-1]
        == "Grid of 133, chosen: SM 0 holds 1 of 1: b132 until cycle 2,000 (the 2nd in its slot)."
    )
    picture.press("ArrowRight")
    assert caption(page)[-1] == "Grid of 133, chosen: SM 1 holds no block."


def test_a_click_on_a_line_picks_its_sm(open_html: Open) -> None:
    page = opened(open_html, widgets.PlacementPlayer(UNEVEN))
    seek(page, 0)
    (block,) = json.loads(page.get_attribute(".pl-canvas", "data-blocks") or "")
    left = float(page.get_attribute(".pl-canvas", "data-label") or 0)
    y = block["plotTop"] + block["lane"] * 4 * 5 + 2  # the first line of SM 5
    page.locator(".pl-canvas").click(position={"x": left + 30, "y": y})
    assert caption(page)[-1].startswith("SM 5 holds 4 of 4: b5 until cycle")


def test_what_comes_can_be_hidden(open_html: Open) -> None:
    page = opened(open_html, widgets.PlacementPlayer(PAIR, future="hidden"))
    seek(page, 0)
    blocks = json.loads(page.get_attribute(".pl-canvas", "data-blocks") or "")
    left, plot = (float(page.get_attribute(".pl-canvas", f"data-{name}") or 0) for name in ("label", "plot"))
    middle = [(left + plot * share, one["plotTop"] + 60) for one in blocks for share in (0.2, 0.7)]
    assert colours(page, middle) == [[255, 255, 255, 255]] * 4
    below = blocks[-1]["bottom"]
    axis = [(left + 6 + x, below + y) for x in range(0, int(plot) - 6, 3) for y in range(4, 22, 2)]
    assert {tuple(colour) for colour in colours(page, axis)} == {(255, 255, 255, 255)}
    said = page.inner_text("body")
    assert "blocks waiting" in said and "waves" not in said and "blocks resident\nnow" not in said
    assert cycle(page) == 0
