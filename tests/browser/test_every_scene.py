"""What holds for every scene: widths, keys, table, film strip, access, two views, nothing left behind.

A new player is added to `SCENES`; its own file then tests only what it alone shows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scene_page import caption, cycle, opened, resize, seek, settle, two_views

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


# -------------------------------------------------------------------------------------- the first frame


@every_scene
def test_the_first_frame_teaches_and_sentence_and_table_follow_the_playhead(
    make: Make, open_html: Open
) -> None:
    player = make()
    page = opened(open_html, player)
    assert cycle(page) == player.cursor
    for part in ("h3", ".pw-rule", ".pw-cycle", ".pw-phase", ".pw-simplified"):
        assert page.locator(part).first.inner_text().strip(), part
    assert page.locator(".pw-rule").first.inner_text().startswith("Rule: ")
    assert all(sentence.endswith(".") for sentence in caption(page)) and caption(page)
    assert page.locator(".pw-legend").first.is_visible()
    assert page.evaluate("left.frames.size") == 0
    assert page.get_attribute(".pw", "data-playing") == "false"
    the_sentence_changes_with_the_frame(page)
    the_table_is_the_frame_in_words(page)


def the_sentence_changes_with_the_frame(page: Page) -> None:
    told = set()
    for t in np.unique(np.linspace(0, last(page), 9).astype(int)):
        seek(page, int(t))
        assert all(sentence.endswith(".") for sentence in caption(page)), (t, caption(page))
        assert "undefined" not in " ".join(caption(page)) and "NaN" not in " ".join(caption(page))
        told.add(" ".join(caption(page)))
    assert len(told) >= 3, told


def the_table_is_the_frame_in_words(page: Page) -> None:
    page.get_by_role("button", name="Table").click()
    said = set()
    for t in (0, last(page) // 2, last(page)):
        seek(page, t)
        assert page.locator(".pw-drawer table tbody tr").count() >= 1
        assert page.locator(".pw-drawer table caption").inner_text().strip()
        said.add(page.locator(".pw-drawer table").inner_text())
    assert len(said) >= 2, "the table follows the playhead"


# -------------------------------------------------------------------------------------- widths


def overflow(page: Page) -> list[str]:
    """Name what reaches beyond the page's edge, unless it scrolls by itself; empty when all fits."""
    wide: list[str] = page.evaluate(
        """() => {
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
        }"""
    )
    return wide


@every_scene
def test_the_transport_stays_where_it_is_while_frames_change(make: Make, open_html: Open) -> None:
    page = opened(open_html, make())
    for wide in (1280, 700):
        resize(page, wide)
        seen = set()
        for t in np.unique(np.linspace(0, last(page), 17).astype(int)):
            seek(page, int(t))
            seen.add(
                round(page.eval_on_selector(".pw-scrub", "bar => bar.getBoundingClientRect().top + scrollY"))
            )
        assert max(seen) - min(seen) <= 1, (wide, sorted(seen))


def small_words(page: Page) -> list[str]:
    """Name what is written smaller than 11 px: it cannot be read at the back of a room."""
    small: list[str] = page.evaluate(
        """() => [...document.querySelectorAll(".pw *")].filter((one) => one.getClientRects().length
            && [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim())
            && parseFloat(getComputedStyle(one).fontSize) < 11)
          .map((one) => `${one.tagName} ${one.getAttribute("class")}: ${one.textContent}`)"""
    )
    return small


@every_scene
def test_nothing_overflows_or_is_too_small_to_read_at_any_width(make: Make, open_html: Open) -> None:
    page = opened(open_html, make())
    for wide in (1280, 960, 640, 390):
        resize(page, wide)
        for t in (0, last(page) // 2, last(page)):
            seek(page, t)
            assert overflow(page) == [], (wide, t)
            assert small_words(page) == [], (wide, t)


def test_what_is_too_wide_is_seen(open_html: Open) -> None:
    page = opened(open_html, SCENES["systolic"](), viewport=(390, 800))
    page.add_style_tag(content=".pw .pw-caption { width: 500px !important }")
    settle(page)
    assert overflow(page) != []


def test_what_is_too_small_is_seen(open_html: Open) -> None:
    page = opened(open_html, SCENES["systolic"]())
    page.add_style_tag(content=".pw .pw-caption p { font-size: 10px !important }")
    settle(page)
    assert small_words(page) != []


# -------------------------------------------------------------------------------------- hands and keys


@every_module
def test_keys_step_jump_play_and_pause(make: Make, open_html: Open) -> None:
    page = opened(open_html, make())
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


@every_module
def test_tab_reaches_every_control_and_shows_where_it_is(make: Make, open_html: Open) -> None:
    page = opened(open_html, make())
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


@every_module
def test_reduced_motion_steps_and_shows_the_film(make: Make, open_html: Open) -> None:
    page = opened(open_html, make(), reduced_motion=True)
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


# -------------------------------------------------------------------------------------- access and lifetime


@every_scene
@pytest.mark.parametrize(("dark", "width"), [(False, 1280), (True, 390)], ids=["light", "dark phone"])
def test_no_serious_accessibility_finding(
    make: Make, dark: bool, width: int, open_html: Open, serious: Callable[[Page], list[Any]]
) -> None:
    page = opened(open_html, make(), dark=dark, viewport=(width, 900), reduced_motion=True)
    for name in ("Table", "Help"):
        page.get_by_role("button", name=name).click()
    assert serious(page) == []


@every_scene
def test_a_page_brings_the_checks_of_its_run_and_of_the_frame_shown(make: Make, open_html: Open) -> None:
    player = make()
    written = player._written_report()
    page = opened(open_html, player)
    page.get_by_role("button", name="Verify this frame").click()
    page.wait_for_selector(".pw-verify .pw-checks li")
    shown = page.locator(".pw-verify li b").all_text_contents()
    rows = [*written["run"], *written["frames"].get(player.cursor, [])]
    assert shown == [f"{'✓ holds' if holds else '✗ FAILS'}: {name}" for name, holds, _ in rows]
    assert all(holds or name.startswith("broken: ") for name, holds, _ in rows), rows


@every_module
def test_views_move_apart_share_no_id_and_leave_nothing(make: Make, open_html: Open) -> None:
    page = two_views(open_html, make())
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


@every_module
def test_nothing_crosses_while_it_plays(make: Make, open_html: Open) -> None:
    page = two_views(open_html, make())
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
