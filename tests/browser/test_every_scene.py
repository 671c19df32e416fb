"""What holds for every scene: widths, keys, table, film strip, access, two views, nothing left behind.

A new player is added to `SCENES`; its own file then tests only what it alone shows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scene_page import caption, cycle, opened, resize, scan, settle, two_views

from pulsewarp import simt, systolic, widgets

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from pulsewarp.widgets._player import Player

pytestmark = pytest.mark.browser

RNG = np.random.default_rng(3)
A, B = RNG.integers(-128, 128, (6, 4)).astype(np.int8), RNG.integers(-128, 128, (4, 4)).astype(np.int8)
REALS = RNG.standard_normal((5, 4)).astype(np.float32)
MANY = np.ones((40, 32), np.int8)


def warps() -> simt.WarpTrace:
    return simt.simulate([simt.load_compute(2, 3, load_latency=20)] * 8, policy="lrr")


def machines() -> list[simt.DivergenceTrace]:
    program = "x = lane\nif x % 2:\n    x = x + 1\n    x = 3 * x\nelse:\n    x = 0\nx = x + 1"
    kinds: list[dict[str, Any]] = [{}, {"reconvergence": "independent", "schedule": "alternate"}]
    return [simt.run_warp(program, latency=2, **kind) for kind in kinds]


def broken(fault: systolic.Fault, **options: bool) -> Player:
    sound = systolic.simulate(A, B, rows=4, cols=4)
    return widgets.FaultPlayer(sound, systolic.simulate(A, B, rows=4, cols=4, fault=fault), **options)


def flows(a: Any, b: Any, side: int) -> list[systolic.SystolicTrace]:
    return [systolic.simulate(a, b, rows=side, cols=side, dataflow=flow) for flow in ("ws", "os", "is")]


def products(side: int) -> dict[str, simt.KernelTrace]:
    lessons = simt.lesson_kernels
    kernels = {"naive": lessons.naive_product, "tiled": lessons.tiled_product}
    return {name: lessons.product(k, m=side, k=side, n=side).trace() for name, k in kernels.items()}


def pipelined(sizes: tuple[int, int, int], tile: tuple[int, int, int]) -> list[systolic.PipelineTrace]:
    m, k, n = sizes
    return [systolic.pipeline(m=m, k=k, n=n, tile=tile, chip="tpu_v5e", buffers=count) for count in (1, 2)]


def tiled(stages: int, *, ffma: bool = False, rows: int = 32) -> simt.TiledTrace:
    """One product through shared memory, by mma or by FFMA; with more rows, of real numbers."""
    a, b = np.arange(rows * 64).reshape(rows, 64) % 9 - 4, np.arange(64 * 16).reshape(64, 16) % 7 - 3
    if rows > 32:
        a, b = a / 7, b / 11
    kernel = (simt.ffma_kernel if ffma else simt.tensor_kernel)(
        a, b, tile=(rows, 16, 16), warps=(2, 2), stages=stages, load="LDG.L2"
    )
    return kernel.simulate()


#: One run of ordinary size for every scene, made when a test needs it.
SCENES: dict[str, Callable[[], Player]] = {
    "systolic": lambda: widgets.SystolicPlayer(systolic.simulate(A, B, rows=4, cols=4)),
    "systolic, large": lambda: widgets.SystolicPlayer(systolic.simulate(MANY, MANY.T, rows=32, cols=32)),
    "cell": lambda: widgets.CellPlayer(systolic.simulate(REALS, REALS.T, rows=4, cols=4)),
    "cell, int8": lambda: widgets.CellPlayer(systolic.simulate(A, B, rows=4, cols=4, dataflow="os")),
    "cell, row": lambda: widgets.CellPlayer(systolic.simulate(A, B, rows=4, cols=4), zoom="row"),
    "tiling": lambda: widgets.TilingPlayer(systolic.gemm(m=64, k=129, n=129, rows=128, cols=128)),
    "tiling, overlap": lambda: widgets.TilingPlayer(
        systolic.gemm(m=7, k=9, n=11, rows=4, cols=3, dataflow="is", overlap=True)
    ),
    "dataflows": lambda: widgets.DataflowsPlayer(flows(A, B, 4)),
    "batches": lambda: widgets.BatchesPlayer(systolic.simulate(A, B, rows=4, cols=4), batches=(2, 3, 1)),
    "batches, lanes": lambda: widgets.BatchesPlayer(
        [systolic.simulate(rows, MANY.T, rows=32, cols=32) for rows in (MANY[:1], MANY)]
    ),
    "pipeline": lambda: widgets.PipelinePlayer(pipelined((512, 512, 512), (256, 256, 256))),
    "pipeline, long": lambda: widgets.PipelinePlayer(pipelined((64, 4096, 8192), (64, 512, 1024))[1]),
    "occupancy": lambda: widgets.OccupancyPlayer(simt.occupancy("9.0", 256, 40, dynamic_shared=20_000)),
    "occupancy, launches": lambda: widgets.OccupancyPlayer(
        [simt.occupancy(registers_per_thread=count) for count in (32, 64, 128)]
    ),
    "access, sectors": lambda: widgets.AccessPlayer(
        {f"stride {n}": simt.sectors(simt.pattern(f"{4 * n} * lane + 4"), 4) for n in (1, 2, 32)}
    ),
    "access, banks": lambda: widgets.AccessPlayer(
        {
            f"{size} B, {n} apart": simt.wavefronts(simt.pattern(f"{n} * lane if lane != 5 else None"), size)
            for size, n in ((4, 8), (4, 128), (16, 65536))
        }
    ),
    "placement": lambda: widgets.PlacementPlayer(
        [simt.place_blocks(count, 132, block_cycles=1000) for count in (132, 133)]
    ),
    "placement, uneven": lambda: widgets.PlacementPlayer(
        simt.place_blocks(90, 16, 4, [20 + 37 * b % 71 for b in range(90)], "most_room")
    ),
    "divergence": lambda: widgets.DivergencePlayer(machines()),
    "divergence, one": lambda: widgets.DivergencePlayer(
        simt.run_warp("for i in range(lane % 3):\n    if lane > 8:\n        syncthreads()", lanes=20)
    ),
    "warp": lambda: widgets.WarpPlayer(warps()),
    "kernel": lambda: widgets.KernelPlayer(products(8), load_latency=40),
    "kernel, race": lambda: widgets.KernelPlayer(
        simt.lesson_kernels.LESSONS["missing_barrier"].trace(), load_latency=40
    ),
    "barrier": lambda: widgets.BarrierPlayer(
        {
            name: simt.simulate([simt.chain_and_barrier(3, n), *[simt.chain_and_barrier(3, 4)] * 7])
            for name, n in (("one late", 12), ("none late", 4))
        }
    ),
    "barrier, blocks": lambda: widgets.BarrierPlayer(
        simt.simulate(
            [simt.chain_and_barrier(2, w % 5) for w in range(16)], blocks=[w // 4 for w in range(16)]
        )
    ),
    "tensor": lambda: widgets.TensorPlayer([tiled(3), tiled(3, ffma=True)]),
    "tensor, stages": lambda: widgets.TensorPlayer([tiled(1, rows=64), tiled(2, rows=64)]),
    "fault": lambda: broken(systolic.Fault("no_skew")),
    "fault, hidden": lambda: broken(systolic.Fault("stuck_cell", row=1, col=2), hide_fault=True),
}

#: What a scene's file does for every run alike is tried on one of its runs.
MODULES = {name.partition(",")[0]: make for name, make in reversed(SCENES.items())}

every_scene = pytest.mark.parametrize("make", SCENES.values(), ids=SCENES)
every_module = pytest.mark.parametrize("make", MODULES.values(), ids=MODULES)
Open = Callable[..., "Page"]
Make = Callable[[], "Player"]


def last(page: Page) -> int:
    return int(page.get_attribute(".pw-scrub", "max") or -1)


def spread(page: Page, count: int) -> list[int]:
    """Return so many cycles from the first to the last."""
    return [int(t) for t in np.unique(np.linspace(0, last(page), count).astype(int))]


# -------------------------------------------------------------------------------------- frame by frame


@every_scene
def test_a_scene_teaches_follows_its_playhead_and_fits(make: Make, open_html: Open) -> None:
    # One page for all of it: opening it is what takes the time.
    player = make()
    written = player._written_report()
    page = opened(open_html, player)
    the_first_frame_teaches(page, player.cursor)
    the_page_brings_the_checks_of_run_and_frame(page, written, player.cursor)
    the_sentence_changes_with_the_frame(page)
    the_transport_stays_where_it_is(page)
    the_table_is_the_frame_in_words(page)
    nothing_overflows_or_is_too_small(page)


def the_first_frame_teaches(page: Page, cursor: int) -> None:
    assert cycle(page) == cursor
    for part in ("h3", ".pw-rule", ".pw-cycle", ".pw-phase", ".pw-simplified"):
        assert page.locator(part).first.inner_text().strip(), part
    assert page.locator(".pw-rule").first.inner_text().startswith("Rule: ")
    assert all(sentence.endswith(".") for sentence in caption(page)) and caption(page)
    assert page.locator(".pw-legend").first.is_visible()
    assert page.evaluate("left.frames.size") == 0
    assert page.get_attribute(".pw", "data-playing") == "false"


def the_page_brings_the_checks_of_run_and_frame(page: Page, written: dict[str, Any], cursor: int) -> None:
    page.get_by_role("button", name="Verify this frame").click()
    page.wait_for_selector(".pw-verify .pw-checks li")
    shown = page.locator(".pw-verify li b").all_text_contents()
    rows = [*written["run"], *written["frames"].get(cursor, [])]
    assert shown == [f"{'✓ holds' if holds else '✗ FAILS'}: {name}" for name, holds, _ in rows]
    assert all(holds or name.startswith("broken: ") for name, holds, _ in rows), rows


def the_sentence_changes_with_the_frame(page: Page) -> None:
    told = scan(page, spread(page, 9), 'words(".pw-caption p")')
    assert all(sentence.endswith(".") for sentences in told for sentence in sentences), told
    assert not any(wrong in " ".join(sentences) for sentences in told for wrong in ("undefined", "NaN")), told
    assert len({" ".join(sentences) for sentences in told}) >= 3, told


def the_transport_stays_where_it_is(page: Page) -> None:
    for wide in (1280, 700):
        resize(page, wide)
        seen = scan(page, spread(page, 17), "bar.getBoundingClientRect().top + scrollY")
        assert max(seen) - min(seen) <= 1, (wide, seen)


def the_table_is_the_frame_in_words(page: Page) -> None:
    page.get_by_role("button", name="Table").click()
    look = '["tbody tr", "caption", ""].map((part) => words(`.pw-drawer table ${part}`))'
    tables = scan(page, (0, last(page) // 2, last(page)), look)
    assert all(rows and all(captions) for rows, captions, _ in tables), tables
    assert len({str(table) for *_, table in tables}) >= 2, "the table follows the playhead"
    page.get_by_role("button", name="Table").click()


def nothing_overflows_or_is_too_small(page: Page) -> None:
    for wide in (1280, 960, 640, 390):
        resize(page, wide)
        frames = (0, last(page) // 2, last(page))
        for t, too_wide, too_small in zip(
            frames, scan(page, frames, TOO_WIDE), scan(page, frames, TOO_SMALL), strict=True
        ):
            assert too_wide == [], (wide, t)
            assert too_small == [], (wide, t)


#: What reaches beyond the page's edge, unless it scrolls by itself; empty when all fits.
TOO_WIDE = """(() => {
  const edge = document.documentElement.clientWidth + 0.5;
  const { scrollWidth } = document.documentElement;
  const out = scrollWidth > edge ? [`page ${scrollWidth}`] : [];
  const parts = ["button", "select", "input", ".pw-panel", ".pw-caption", "h3", "svg", "canvas"];
  for (const one of document.querySelectorAll(parts.map((part) => `.pw ${part}`).join())) {
    const { width, right } = one.getBoundingClientRect();
    if (!width || right <= edge || one.closest(".pw-scrolls")) continue;
    out.push(`${one.tagName} ${one.className?.baseVal ?? one.className}`);
  }
  return out;
})()"""

#: What is written smaller than 11 px: it cannot be read at the back of a room.
TOO_SMALL = """[...document.querySelectorAll(".pw *")].filter((one) => one.getClientRects().length
    && [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim())
    && parseFloat(getComputedStyle(one).fontSize) < 11)
  .map((one) => `${one.tagName} ${one.getAttribute("class")}: ${one.textContent}`)"""


def test_what_is_too_wide_is_seen(open_html: Open) -> None:
    page = opened(open_html, SCENES["systolic"](), viewport=(390, 800))
    page.add_style_tag(content=".pw .pw-caption { width: 500px !important }")
    settle(page)
    assert page.evaluate(TOO_WIDE) != []


def test_what_is_too_small_is_seen(open_html: Open) -> None:
    page = opened(open_html, SCENES["systolic"]())
    page.add_style_tag(content=".pw .pw-caption p { font-size: 10px !important }")
    settle(page)
    assert page.evaluate(TOO_SMALL) != []


# -------------------------------------------------------------------------------------- hands and keys


@every_module
def test_keys_step_jump_play_and_pause_and_tab_reaches_every_control(make: Make, open_html: Open) -> None:
    page = opened(open_html, make())
    tab_reaches_every_control_and_shows_where_it_is(page)
    page.focus(".pw")
    for key, wanted in [
        ("Home", 0),
        ("ArrowRight", 1),
        ("ArrowRight", 2),
        ("ArrowLeft", 1),
        ("End", last(page)),
    ]:
        page.keyboard.press(key)
        assert cycle(page) == wanted, key
    page.keyboard.press("Home")
    page.keyboard.press("Shift+ArrowRight")
    assert cycle(page) > 0, "a chapter to go to"
    page.keyboard.press("Home")
    page.keyboard.press(" ")
    page.wait_for_function("Number(document.querySelector('.pw').dataset.cycle) > 0")
    page.keyboard.press(" ")
    assert page.get_attribute(".pw", "data-playing") == "false"


def tab_reaches_every_control_and_shows_where_it_is(page: Page) -> None:
    controls = page.evaluate(
        """() => [...document.querySelectorAll(".pw button, .pw select, .pw input")]
          .filter((one) => one.checkVisibility({ visibilityProperty: true }) && !one.disabled
            && !(one.type === "radio" && !one.checked) && one.tabIndex >= 0).length"""
    )
    reached = set()
    for _ in range(controls + 12):
        page.keyboard.press("Tab")
        state = page.evaluate(
            """() => { const one = document.activeElement;
              if (!one?.closest(".pw") || !one.matches("button, select, input")) return null;
              const style = getComputedStyle(one);
              const shown = style.outlineStyle !== "none" || style.boxShadow !== "none";
              return [[...document.querySelectorAll(".pw *")].indexOf(one), shown]; }"""
        )
        if state:
            assert state[1], "focus that cannot be seen"
            reached.add(state[0])
    assert len(reached) >= controls


# -------------------------------------------------------------------------------------- access and lifetime


@every_module
def test_reduced_motion_steps_and_no_serious_accessibility_finding(
    make: Make, open_html: Open, serious: Callable[[Page], list[Any]]
) -> None:
    page = opened(open_html, make(), reduced_motion=True)
    reduced_motion_steps_and_shows_the_film(page)
    for name in ("Table", "Help"):
        page.get_by_role("button", name=name).click()
    assert serious(page) == []
    page.emulate_media(color_scheme="dark")
    resize(page, 390, 900)
    assert serious(page) == [], "dark, on a phone"


def reduced_motion_steps_and_shows_the_film(page: Page) -> None:
    stills = page.locator(".pw-film figure")
    assert stills.count() >= 3
    before = cycle(page)
    if before == last(page):
        page.get_by_role("button", name="First").first.click()
        before = 0
    page.get_by_role("button", name="Step", exact=True).click()
    assert cycle(page) == before + 1
    assert page.evaluate("left.frames.size") == 0
    assert (
        page.eval_on_selector_all(
            ".pw-still", "(all) => all.filter((x) => x.scrollWidth > x.clientWidth + 1).length"
        )
        == 0
    )


@every_module
def test_two_views_are_apart_and_nothing_crosses_while_one_plays(make: Make, open_html: Open) -> None:
    page = two_views(open_html, make())
    nothing_crosses_while_it_plays(page)
    views_move_apart_share_no_id_and_leave_nothing(page)


def views_move_apart_share_no_id_and_leave_nothing(page: Page) -> None:
    page.locator("#one .pw").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.locator("#two .pw").focus()
    page.keyboard.press("Home")
    shown = page.eval_on_selector_all(".pw", "all => all.map((one) => one.dataset.cycle)")
    assert shown == ["1", "0"]
    ids = page.eval_on_selector_all("[id]", "all => all.map((one) => one.id)")
    assert len(ids) == len(set(ids))
    page.keyboard.press(" ")
    page.wait_for_function("left.frames.size > 0")
    page.evaluate("ends.forEach((end) => end.abort())")
    assert page.evaluate("[left.frames.size, left.observers.size, left.outside.length, heard()]") == [
        0,
        0,
        0,
        0,
    ]
    assert page.locator(".pw").count() == 0


def nothing_crosses_while_it_plays(page: Page) -> None:
    page.locator("#one .pw").focus()
    page.keyboard.press("Home")
    page.wait_for_function("saved.length > 0 || model.get('cursor') === 0")
    page.locator("#one .pw-select").first.select_option(index=3)
    page.evaluate("saved.length = 0")
    page.keyboard.press(" ")
    # What has crossed is read in the moment in which it is seen to play: a short run may end right after.
    page.wait_for_function(
        """() => {
          const { cycle, playing } = document.querySelector("#one .pw").dataset;
          window.crossed = playing === "true" ? [...saved] : null;
          return Number(cycle) >= 2;
        }"""
    )
    assert page.evaluate("crossed") in ([], None)
    page.locator("#one .pw").focus()
    page.keyboard.press("Home")  # still, whether it plays on or has ended
