"""The tensor-core scene on a bare page: units, sums, lanes and words are the trace's of the frame's cycle."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scene_page import caption, opened, resize, seek, settle

from pulsewarp import simt, widgets
from pulsewarp.widgets import _wire

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from pulsewarp.widgets._player import Player

pytestmark = pytest.mark.browser
Open = Callable[..., "Page"]

A = np.arange(32 * 48).reshape(32, 48) % 9 - 4
B = np.arange(48 * 16).reshape(48, 16) % 7 - 3
SETTINGS: dict[str, Any] = {"tile": (32, 16, 16), "load": "LDG.L2"}
MMA = simt.tensor_kernel(A, B, stages=3, **SETTINGS).simulate()
FFMA = simt.ffma_kernel(A, B, stages=3, **SETTINGS).simulate()

#: What a frame shows: the mma in each unit and the one below, C as written in its boxes, the count of pieces.
_SHOWN = """() => ({
  units: [...document.querySelectorAll(".tc-time [data-now]")].map((x) => +x.dataset.now),
  c: [...document.querySelectorAll(".tc-box-c")].map((x) =>
    [+x.dataset.lane, ...[...x.querySelectorAll(".tc-value")].map((y) => y.textContent)]),
  complete: +document.querySelector(".tc-product").dataset.complete,
})"""


def page_of(open_html: Open, player: Player, change: tuple[str, str] = ("", "")) -> Page:
    """Open a player's page, its module edited as a careless hand would."""
    html = player.to_html()
    if change[0]:
        assert html.count(change[0]) == 1, change
        html = html.replace(*change)
    page = open_html(html)
    page.wait_for_function("document.querySelector('.pw')?.dataset.cycle !== undefined")
    settle(page)
    return page


def whole(text: str) -> float:
    return float(text.replace("\N{MINUS SIGN}", "-") or 0)


def wrong_frames(page: Page, player: Player, trace: simt.TiledTrace) -> list[Any]:
    """Name what some frames show or say otherwise than the trace of their cycle."""
    header, columns = _wire.unpack(player.trace)
    c = simt.fragment(trace.kernel.shape or "", "c")
    wrong: list[Any] = []
    for f in np.unique(np.linspace(0, len(columns["time"]) - 1, 24).astype(int)).tolist():
        seek(page, f)
        t = int(columns["time"][f])
        own = min(t, trace.cycles - 1)
        shown = page.evaluate(_SHOWN)
        held = trace.unit[t].tolist() if t < trace.cycles else [-1] * 4
        if shown["units"][:4] != held:
            wrong.append((f, "units", shown["units"]))
        row, col = trace.work[shown["units"][4], 4:6].tolist()
        sums, begun = trace.sums_at(own), trace.progress_at(own)
        values = {lane: sums[row + c.rows[lane], col + c.columns[lane]] for lane in range(32)}
        boxes: dict[int, list[float]] = {lane: [] for lane in range(32)}
        for lane, *texts in shown["c"]:
            boxes[lane] += map(whole, texts)
        # Boxes of a lane in the order of rows are the order of its registers; the chosen lane's come last.
        if any(sorted(boxes[lane]) != sorted(values[lane].tolist()) for lane in range(32)):
            wrong.append((f, "sums"))
        if shown["complete"] != int((begun == trace.kernel.steps).sum()):
            wrong.append((f, "pieces"))
        said = " ".join(caption(page))
        told = [header["sentences"][i] for i in columns["told0"][f] if header["sentences"][i]]
        lane0 = [round(float(value), 3) for value in values[0]]
        there = begun[row // 16, col // 8] > 0
        now = [whole(x) for x in re.findall(r"now ([^.]*)\.$", said)[0].split(", ")] if there else None
        if not all(sentence in said for sentence in told) or (
            now != lane0 if there else "no sums yet" not in said
        ):
            wrong.append((f, "words", said))
    return wrong


def test_frames_show_and_say_what_the_trace_says_of_their_cycle(open_html: Open) -> None:
    player = widgets.TensorPlayer([MMA, FFMA])
    assert wrong_frames(page_of(open_html, player), player, MMA) == []


#: What a careless hand writes for what is there, each a frame or a few beside it, and what is then wrong.
MUTANTS = {
    "sentence late": (
        "run.told.subarray(count * f, count * (f + 1))",
        "run.told.subarray(count * Math.max(0, f - 1), count * Math.max(1, f))",
        "words",
    ),
    "sums late": (
        "const e = run.sums[f * pieces + p];",
        "const e = run.sums[Math.max(0, f - 1) * pieces + p];",
        "sums",
    ),
    "units early": (
        "(_, u) => one.now[f * one.units + u]);",
        "(_, u) => one.now[(f + 1) * one.units + u] ?? -1);",
        "units",
    ),
    "pieces late": (
        "const last = run.sums[f * fills.length + p];",
        "const last = run.sums[Math.max(0, f - 3) * fills.length + p];",
        "pieces",
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_frame_shifted_is_seen(name: str, open_html: Open) -> None:
    *change, what = MUTANTS[name]
    player = widgets.TensorPlayer([MMA, FFMA])
    found = wrong_frames(page_of(open_html, player, (change[0], change[1])), player, MMA)
    assert what in {each[1] for each in found}


def held(page: Page) -> list[list[str]]:
    rows = page.locator(".tc-registers tbody tr")
    return [row.split("\t") for row in rows.all_inner_texts()]


def test_a_lane_and_an_mma_are_chosen_by_click_and_by_keys(open_html: Open) -> None:
    page = opened(open_html, widgets.TensorPlayer(MMA))
    c = simt.fragment("m16n8k16", "c")
    (lane,) = {c.lane_of(8, 3)[0]}
    page.locator(f".tc-box-a[data-lane='{lane}']").first.click()
    page.mouse.move(0, 0)
    page.wait_for_function(
        f"document.querySelector('.pw-caption').textContent.includes('Lane {lane} brings')"
    )
    names = [f"C[{r},{n}]" for r, n in zip(c.rows[lane], c.columns[lane], strict=True)]
    assert [row[1] for row in held(page) if row[0].startswith("C")] == names and "C[8,3]" in names
    assert page.locator("[data-chosen]").count() == 4 + 2 + 2  # boxes of A, B and C that the lane holds
    page.locator(".pw-picture").focus()
    for key, moved in (("ArrowRight", 1), ("ArrowDown", 5), ("ArrowLeft", 4), ("ArrowUp", 0)):
        page.keyboard.press(key)
        assert f"Lane {lane + moved} brings" in caption(page)[-1]
    page.locator(".tc-mma[data-event='0']").click()
    page.mouse.move(0, 0)
    for _ in range(12):
        page.keyboard.press(".")
    assert f"Mma 1 of {len(MMA.work)}, by w{MMA.work[0, 2]}" in caption(page)[-1]
    page.keyboard.press("Escape")
    assert "Lane 0 brings" in caption(page)[-1] and "Mma 1 of" not in caption(page)[-1]


def test_the_table_has_units_stages_and_what_each_lane_holds(open_html: Open) -> None:
    page = opened(open_html, widgets.TensorPlayer([MMA, FFMA]))
    page.get_by_role("button", name="Table").click()
    rows = [row.split("\t") for row in page.locator(".pw-drawer tbody").inner_text().split("\n")]
    assert [row[0] for row in rows][:7] == [
        *(f"tensor unit {u}" for u in range(4)),
        *(f"stage {i}" for i in range(3)),
    ]
    assert len(rows) == 4 + 3 + 32
    e = int(page.get_attribute(".tc-time", "data-event") or -1)
    _, _, _, _, row, col, step, _, _ = MMA.work[e].tolist()
    a, b = (simt.fragment("m16n8k16", letter) for letter in "ab")
    for lane in (0, 13, 31):
        told = rows[7 + lane]
        first = row + a.rows[lane, 0], 16 * step + a.columns[lane, 0]
        assert told[1].startswith(f"A[{first[0]},{first[1]}] = {A[first]}".replace("-", "\N{MINUS SIGN}"))
        last = 16 * step + b.rows[lane, -1], col + b.columns[lane, -1]
        assert told[2].endswith(f"B[{last[0]},{last[1]}] = {B[last]}".replace("-", "\N{MINUS SIGN}"))


def test_the_end_is_kept_until_the_prediction(open_html: Open) -> None:
    page = opened(open_html, widgets.TensorPlayer([MMA, FFMA], start=0, future="hidden"))
    text = page.inner_text(".pw-shell")
    assert f"{FFMA.cycles:,}" not in text and "whole run" not in text
    assert page.locator(".tc-future.tc-hidden").count() == 1


def overlaps(page: Page) -> list[Any]:
    """Pairs of texts in the fragments that touch, and texts that leave the picture."""
    found: list[Any] = page.evaluate(
        """() => {
          const svg = document.querySelector(".tc-fragments"), edge = svg.getBoundingClientRect();
          const all = [...svg.querySelectorAll("text")].filter((x) => x.textContent);
          const boxes = all.map((x) => x.getBoundingClientRect());
          const bad = [];
          boxes.forEach((p, i) => {
            if (p.left < edge.left - 1 || p.right > edge.right + 1) bad.push(["out", all[i].textContent]);
            boxes.slice(0, i).forEach((q, j) => {
              if (p.left < q.right - 0.5 && q.left < p.right - 0.5
                && p.top < q.bottom - 4 && q.top < p.bottom - 4)
                bad.push([all[j].textContent, all[i].textContent]);
            });
          });
          return bad;
        }"""
    )
    return found


@pytest.mark.parametrize(
    "trace",
    [
        MMA,
        simt.tensor_kernel(A * 16000.5, B / 7, tile=(32, 16, 16), dtype="bf16").simulate(),
        simt.tensor_kernel(A * 30, B * 40, tile=(32, 16, 32), dtype="int8").simulate(),
        simt.tensor_kernel(A / 7, B / 7, tile=(16, 16, 16), dtype="fp64").simulate(),
    ],
    ids=["small", "large", "int8", "fp64"],
)
def test_the_widest_numbers_find_room(trace: simt.TiledTrace, open_html: Open) -> None:
    page = opened(open_html, widgets.TensorPlayer(trace))
    last = int(page.get_attribute(".pw-scrub", "max") or 0)
    for wide in (1280, 1000, 640, 390):
        resize(page, wide)
        seek(page, last)
        assert overlaps(page) == [], wide
