"""The occupancy scene: what each bar shows, what is said and what runs out is the count's, in every frame."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scene_page import caption, resize, seek, settle, two_views

from pulsewarp import lesson, simt
from pulsewarp.widgets import OccupancyPlayer, _wire
from pulsewarp.widgets.occupancy import _packed

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser
Open = Callable[..., "Page"]
Launches = tuple[simt.Occupancy, ...]

ONE = simt.occupancy("9.0", 256, 40, dynamic_shared=20_000)
TIED = simt.occupancy("8.6", 128, 64, dynamic_shared=11_000)
SLOTS = simt.occupancy("12.0", 32, 16)
CARVED = simt.occupancy("8.0", 96, 24, static_shared=500, carveout=20)
NONE = simt.occupancy("8.0", 1025, 64)
NO_REGISTERS = simt.occupancy("7.0", 100, 0)
THREE = tuple(simt.occupancy(registers_per_thread=count) for count in (32, 64, 128))
ALL: list[Launches] = [(ONE,), (TIED,), (SLOTS,), (CARVED,), (NONE,), (NO_REGISTERS,), THREE, (CARVED, SLOTS)]
NAMES = {
    "warps": "warp slots",
    "registers": "registers",
    "shared_memory": "shared memory",
    "blocks": "block slots",
    "barriers": "barriers",
}


def exposed(change: tuple[str, str] | None = None) -> str:
    """Return a page with the scene's functions in reach as `scene`; `change` edits the module first."""
    page = OccupancyPlayer(ONE).to_html()
    if change:
        assert change[0] in page
        page = page.replace(*change)
    return page.replace(
        "\nmountPage(", "\nwindow.scene = { ...$occupancy, unpack: $kit_wire.unpack }; mountPage("
    )


def ask(page: Page, text: str, script: str) -> Any:
    """Return what a script makes of `lanes`, read from a packed run, and of its number of frames `T`."""
    page.wait_for_selector(".pw-shell")
    return page.evaluate(
        "async (text) => { const packed = await scene.unpack(text); const T = packed.header.frames; "
        f"const lanes = scene.readLaunches(packed); {script} }}",
        text,
    )


@pytest.fixture(scope="module")
def scene(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """One page for all that is asked of the scene's functions and leaves no trace in it."""
    path = tmp_path_factory.mktemp("occupancy") / "page.html"
    path.write_text(exposed(), encoding="utf-8")
    page = browser.new_page()
    page.goto(path.as_uri())
    yield page
    page.close()


def shifted(held: Launches) -> str:
    """The packed launches with what is taken a block late."""
    header, columns = _wire.unpack(_packed(held))
    keep = {key: value for key, value in header.items() if key not in ("form", "kind", "columns")}
    return _wire.pack("occupancy", keep, {name: np.roll(taken, 1, axis=0) for name, taken in columns.items()})


# -------------------------------------------------------------------------------------- what is said

WORDS = "return Array.from({ length: T }, (_, t) => scene.frameWords(lanes, t));"


def untrue(page: Page, held: Launches, text: str | None = None) -> list[str]:
    """Name what is said of a frame and was not counted."""
    wrong = []
    for t, sentences in enumerate(ask(page, text or _packed(held), WORDS)):
        said = " ".join(sentences)
        if not all(sentence.endswith(".") for sentence in sentences) or "undefined" in said:
            wrong.append(f"{t}: {said}")
        if t == 0:
            if not all(f"{one.device.max_warps} warp slots" in said for one in held):
                wrong.append(f"{t}: {said}")
            continue
        for i, one in enumerate(held):
            mine = sentences[i] if len(held) > 1 else said
            placed = min(t, one.blocks_per_sm)
            if one.blocks_per_sm == 0:
                if "cannot start" not in mine:
                    wrong.append(f"{t}: {mine}")
                continue
            warps = placed * one.warps_per_block
            share = 100 * warps / one.device.max_warps
            resident = re.search(r"([\d,]+) blocks?, ([\d,]+) of (\d+) warps \(([\d.]+) %\)\.", mine)
            if (
                not resident
                or (int(resident[1]), int(resident[2])) != (placed, warps)
                or abs(float(resident[4]) - share) > 0.051  # one digit, halves rounded either way
            ):
                wrong.append(f"{t}: {mine}")
            full = t > one.blocks_per_sm
            if full != (" not fit" in mine):
                wrong.append(f"{t}: {mine}")
            told = {name for name, words in NAMES.items() if re.search(f"{words}.* r[ua]ns? out", mine, re.I)}
            if full and not set(one.limiting) <= told:
                wrong.append(f"{t}: {mine}")
    return wrong


def test_every_caption_is_true_to_its_frame(scene: Page) -> None:
    for held in ALL:
        assert untrue(scene, held) == [], held


@pytest.mark.parametrize("held", [(ONE,), THREE], ids=["one", "three"])
def test_a_caption_of_a_shifted_run_is_seen_to_be_untrue(scene: Page, held: Launches) -> None:
    assert untrue(scene, held, shifted(held))


@pytest.mark.parametrize(
    "change",
    [
        ("placed: (t) => Math.min(t, n)", "placed: (t) => Math.min(t, n + 1)"),
        ("full: (t) => t > n", "full: (t) => t >= n"),
        ("filter(({ limiting }) => limiting)", "filter(({ limiting }) => limiting).slice(0, 1)"),
    ],
    ids=["a block too many", "full a block early", "only the first of tied limits"],
)
def test_a_fault_in_the_words_is_seen(open_html: Open, change: tuple[str, str]) -> None:
    faulty = open_html(exposed(change))
    assert any(untrue(faulty, held) for held in ALL)


# -------------------------------------------------------------------------------------- what is drawn

PARTS = """(root) => [...root.querySelectorAll(".oc-lane")].map((lane) =>
  [...lane.querySelectorAll(".oc-bar")].map((bar) => { const count = { placed: 0, now: 0, asked: 0, free: 0 };
    for (const part of bar.querySelectorAll("[data-block]")) {
      for (const state of Object.keys(count)) if (part.classList.contains(`oc-${state}`)) count[state] += 1;
    }
    return { ...count, out: Boolean(bar.closest("[data-out]")) }; }))"""


def misdrawn(page: Page, held: Launches, t: int) -> list[str]:
    """Name the bars whose parts are not what the count says of a frame."""
    wrong = []
    lanes = page.eval_on_selector(".pw-picture", PARTS)
    for one, bars in zip(held, lanes, strict=True):
        names = [name for name in NAMES if name != "barriers" or one.device.max_barriers]
        placed, full = min(t, one.blocks_per_sm), t > one.blocks_per_sm
        each = {"warps": one.warps_per_block, "registers": one.warps_per_block}
        for name, bar in zip(names, bars, strict=True):
            asks = {"registers": one.registers_per_thread, "shared_memory": one.shared_memory_per_block}
            if not asks.get(name, 1):
                expected = (0, 0)
            else:
                expected = (each.get(name, 1) * placed, 0 if full or not t else each.get(name, 1))
            if (bar["placed"] + bar["now"], bar["now"]) != expected:
                wrong.append(f"{t}: {name} shows {bar} instead of {expected} of {one}")
            if bar["out"] != (full and name in one.limiting):
                wrong.append(f"{t}: {name} of {one} runs out: {bar['out']}")
            if not full and bar["asked"]:
                wrong.append(f"{t}: {name} of {one} refuses a block early")
    return wrong


@pytest.mark.parametrize("held", ALL, ids=[repr(held[-1]) for held in ALL])
def test_every_bar_shows_the_blocks_that_are_there(on_stage: Open, held: Launches) -> None:
    page = on_stage(OccupancyPlayer(held))
    last = max(one.blocks_per_sm for one in held) + 1
    for t in sorted({0, 1, last // 2, last - 1, last}):
        seek(page, t)
        assert misdrawn(page, held, t) == []


def test_a_picture_of_another_frame_is_seen(on_stage: Open) -> None:
    page = on_stage(OccupancyPlayer(THREE))
    seek(page, 3)
    assert misdrawn(page, THREE, 4) and misdrawn(page, THREE, 2)


def test_a_register_file_is_drawn_to_scale_with_what_is_left_over(on_stage: Open) -> None:
    page = on_stage(OccupancyPlayer(ONE))  # 12 warps of 1,280 in each 16,384, 1,024 left
    ground = page.locator(".oc-bar").nth(1).locator(".oc-ground").first.bounding_box()
    rest = page.locator(".oc-bar").nth(1).locator(".oc-rest").first.bounding_box()
    assert ground and rest
    assert rest["width"] / ground["width"] == pytest.approx(1024 / 16384, rel=0.1)
    assert rest["x"] + rest["width"] == pytest.approx(ground["x"] + ground["width"], abs=1.5)
    assert "too small for a warp" in page.inner_text(".pw-legend")


def test_a_carve_out_leaves_the_rest_to_the_cache(on_stage: Open) -> None:
    page = on_stage(OccupancyPlayer(CARVED))
    bar = page.locator(".oc-bar").nth(2)
    ground, cache = bar.locator(".oc-ground").bounding_box(), bar.locator(".oc-cache").bounding_box()
    assert ground and cache
    share = CARVED.shared_memory_capacity / CARVED.device.shared_memory
    assert ground["width"] / (ground["width"] + cache["width"]) == pytest.approx(share, abs=0.01)
    assert "L1 cache" in page.inner_text(".pw-legend")


# -------------------------------------------------------------------------------------- the page


def test_panels_give_limits_changes_and_the_caveat(on_stage: Open) -> None:
    page = on_stage(OccupancyPlayer(TIED))
    rows = page.eval_on_selector_all(
        ".pw-compare tbody tr", "(rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    assert rows == [
        ["by warp slots", "12"],
        ["by registers", "✗ 8"],
        ["by shared memory", "✗ 8"],
        ["by block slots", "16"],
        ["blocks placed", "8"],
        ["warps resident", "32 of 48"],
        ["occupancy", "66.7 %"],
    ]
    advice = page.inner_text(".oc-advice")
    assert all(sentence in " ".join(advice.split()) for sentence in TIED.advice())
    assert "More occupancy is not more speed" in advice
    seek(page, 3)
    assert page.locator(".pw-compare tbody td").all_text_contents()[1] == "8"  # not yet known to run out


def test_the_table_holds_what_is_taken(on_stage: Open) -> None:
    page = on_stage(OccupancyPlayer(THREE))
    page.get_by_role("button", name="Table").click()
    seek(page, 3)
    rows = page.eval_on_selector_all(
        ".pw-drawer table tbody tr",
        "(rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent))",
    )
    registers = [row for row in rows if row[1] == "Registers"]
    assert [row[3] for row in registers] == ["24,576", "49,152", "65,536"]
    assert [row[6:] for row in registers] == [["8", "no"], ["4", "no"], ["2", "yes"]]


def test_a_block_is_picked_by_hand_and_by_key(on_stage: Open) -> None:
    page = on_stage(OccupancyPlayer(THREE))
    page.locator(".oc-lane").nth(1).locator(".oc-bar").nth(3).locator("[data-block='2']").click()
    assert caption(page) == [
        "64 registers a thread, block 2 holds warp slots 8 to 15, 2,048 registers for each warp, 16,384 in "
        "all, shared memory from 1 KiB to 2 KiB, 1 KiB of it reserved by the system, and block slot 1."
    ]
    page.mouse.move(5, 5)
    page.locator(".pw-picture").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert caption(page)[0].startswith("64 registers a thread, block 4 will hold warp slots 24 to 31,")
    page.keyboard.press("ArrowRight")
    assert caption(page)[0] == "64 registers a thread, block 5 does not fit."
    page.keyboard.press("ArrowUp")
    assert caption(page)[0].startswith("32 registers a thread, block 5 ")
    page.keyboard.press("Escape")
    assert caption(page)[0].startswith("32 registers a thread: block 3 is placed;")


def test_words_of_the_picture_keep_to_their_own_lane(on_stage: Open) -> None:
    page = on_stage(OccupancyPlayer(THREE))
    for wide in (1280, 960, 700, 390):
        resize(page, wide)
        for t in (1, 9):
            seek(page, t)
            out = page.eval_on_selector_all(
                ".oc-label, .oc-head",
                """(all) => all.filter((one) => one.scrollWidth > one.clientWidth + 1)
                  .map((one) => one.textContent)""",
            )
            assert out == [], (wide, t)


def test_an_own_launch_is_shown_beside_the_one_before(open_html: Open) -> None:
    player = lesson.own_occupancy()
    page = two_views(open_html, player)
    view = page.locator("#one")
    view.get_by_label("Registers a thread").fill("128")
    view.get_by_role("button", name="Run").click()
    page.wait_for_function("saved.includes('request')")
    player.request = page.evaluate("model.get('request')")  # what the kernel would hear, and its answer
    for name in ("options", "cursor", "trace", "reply"):
        page.evaluate("([name, value]) => model.set(name, value)", [name, getattr(player, name)])
    page.wait_for_function("document.querySelectorAll('#one .pw-picture .oc-lane').length === 2")
    settle(page)
    assert view.locator("h4").first.inner_text() == "64 registers a thread"
    assert "128 registers a thread: block 3 does not fit" in view.locator(".pw-caption").inner_text()
    assert view.get_by_label("Registers a thread").input_value() == "128"
    assert "2 blocks, 16 of 64 warps" in view.locator(".pw-form").inner_text()
