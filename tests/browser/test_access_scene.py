"""The access scene on a bare page: every sentence, mark and row is what `simt` counted for that frame."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from live_page import live
from scene_page import caption, cycle, opened, resize, seek, settle

from pulsewarp import lesson, simt, widgets

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from pulsewarp.widgets._player import Player

pytestmark = pytest.mark.browser
Open = Callable[..., "Page"]

SECTORS = {
    "stride 2": simt.sectors(simt.pattern("8 * lane"), 4),
    "some lanes off": simt.sectors(simt.pattern("4 * lane + 4 if lane % 5 else None"), 4),
    "far apart": simt.sectors(simt.pattern("65504 * lane"), 16),
}
BANKS = {
    "stride 8": simt.wavefronts(simt.pattern("32 * lane"), 4),
    "8 bytes, mixed": simt.wavefronts(simt.pattern("24 * (lane ^ 3) if lane != 7 else None"), 8),
    "broadcast": simt.wavefronts(simt.pattern("128"), 4),
}


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


def numbers(sentence: str) -> list[int]:
    return [int(text.replace(",", "")) for text in re.findall(r"\d[\d,]*", sentence)]


def lanes_named(sentence: str) -> list[int] | int:
    """Return the lanes that a sentence names before it says that they use something, or how many they are."""
    subject = sentence.split(" use")[0]
    if "the first:" in subject:
        return numbers(subject)[0]
    found: list[int] = []
    for first, last in re.findall(r"(\d+)(?: to (\d+))?", subject):
        found += range(int(first), int(last or first) + 1)
    return found


def wrong_words(page: Page, requests: dict[str, Any]) -> list[Any]:
    """Name the frames whose sentences, ledger or picture say otherwise than the counts."""
    wrong: list[Any] = []
    t = 0
    for name, one in requests.items():
        banks = isinstance(one, simt.BankAccess)
        parts = one.wavefronts if banks else one.sectors
        seek(page, t)
        if not caption(page)[0].startswith(f"Request \u201c{name}\u201d: "):
            wrong.append((t, caption(page)))
        if page.locator("[data-state=now]").count():
            wrong.append((t, "something is served before anything is"))
        for k in range(parts):
            t += 1
            seek(page, t)
            told = caption(page)
            states = page.eval_on_selector_all(".ac-lane", "all => all.map((x) => x.dataset.state)")
            if banks:
                wave = one.served[k]
                lanes = sorted({lane for word in wave.words for lane in word.lanes})
                idle = 32 - len(wave.words)
                said = [f"Wavefront {k + 1} of {parts}", f"{idle} bank" if idle else "no bank is idle"]
                good = all(part in told[0] for part in said)
                ways = one.ways_by_phase[wave.phase]
                good &= (f"{ways}-way conflict" in told[1]) == (ways > 1)
                drawn = page.locator(".ac-wave[data-state=now] .ac-word").count()
                good &= drawn == len(wave.words)
            else:
                lanes = list(one.lanes_in(k))
                start, used = one.sector_addresses[k], one.used[k].bit_count()
                good = numbers(told[0])[:4] == [k + 1, parts, start, start + 31]
                good &= lanes_named(told[1]) in (lanes, len(lanes) if len(lanes) > 5 else lanes)
                good &= f"{used} of its 32" in told[1] if used < 32 else "all its 32" in told[1]
                if k < parts - 1:
                    moved = sum(bits.bit_count() for bits in one.used[: k + 1])
                    good &= numbers(told[2]) == [32 * (k + 1), moved]
            good &= [lane for lane, state in enumerate(states) if state == "now"] == lanes
            done = page.locator(f"{'.ac-wave' if banks else '.ac-sector'}[data-state=done]").count()
            if not good or done != k:
                wrong.append((t, told))
        if not caption(page)[-1].startswith(f"Complete: {parts} "):
            wrong.append((t, caption(page)))
        t += 1
    return wrong


@pytest.mark.parametrize("requests", [SECTORS, BANKS], ids=["sectors", "banks"])
def test_every_frame_says_and_shows_what_was_counted(requests: Any, open_html: Open) -> None:
    page = page_of(open_html, widgets.AccessPlayer(requests))
    assert wrong_words(page, requests) == []


@pytest.mark.parametrize(
    ("requests", "change"),
    [
        (SECTORS, ("run.sector(q, i - 1);", "run.sector(q, Math.max(0, i - 2));")),
        (SECTORS, ('if (by.includes(i - 1)) return "now";', 'if (by.includes(i)) return "now";')),
        (
            BANKS,
            (
                "const { phase, turn, ways, busiest, words } = run.wave(q, i - 1);",
                "const { phase, turn, ways, busiest, words } = run.wave(q, Math.max(0, i - 2));",
            ),
        ),
        (BANKS, ('part === i - 1 ? "now"', 'part === i - 2 ? "now"')),
    ],
    ids=["sentence late", "lanes early", "wavefront late", "picture late"],
)
def test_a_frame_shifted_by_one_is_seen(requests: Any, change: tuple[str, str], open_html: Open) -> None:
    page = page_of(open_html, widgets.AccessPlayer(requests), change)
    assert wrong_words(page, requests)


def test_the_table_has_a_row_for_each_lane(open_html: Open) -> None:
    one = SECTORS["some lanes off"]
    page = opened(open_html, widgets.AccessPlayer({"x": one}))
    page.get_by_role("button", name="Table").click()
    seek(page, 2)
    rows = [row.split("\t") for row in page.locator(".pw-drawer tbody").inner_text().split("\n")]
    assert len(rows) == 32
    for lane, row in enumerate(rows):
        address = one.addresses[lane]
        if address is None:
            assert row[-1] == "is off"
            continue
        (own,) = one.lane_sectors[lane]
        state = "moves" if own == 1 else "has moved" if own < 1 else "waits"
        assert row[1:] == [str(address), str(one.sector_addresses[own]), str(own + 1), state]


def test_a_lane_is_chosen_by_click_and_by_keys(open_html: Open) -> None:
    page = opened(open_html, widgets.AccessPlayer(BANKS, start=3))
    page.locator(".ac-lane").nth(20).click()
    page.mouse.move(0, 0)
    page.wait_for_function("document.querySelector('.pw-caption').textContent.includes('lane 20 asks')")
    assert caption(page)[0].endswith("lane 20 asks for bytes 640 to 643, word 160 in bank 0.")
    assert caption(page)[1] == "It waits: wavefront 6."
    page.locator(".pw-picture").focus()
    for key, lane in (("ArrowRight", 21), ("ArrowLeft", 20), ("ArrowDown", 28), ("ArrowUp", 20)):
        page.keyboard.press(key)
        assert f"lane {lane} asks" in caption(page)[0]
    page.keyboard.press("Escape")
    assert caption(page)[0].startswith("Wavefront 3 of ")


def test_what_comes_later_is_kept_until_the_prediction(open_html: Open) -> None:
    hidden = {"lane after lane": simt.wavefronts(simt.pattern("4 * lane"), 4), "column": BANKS["stride 8"]}
    page = opened(open_html, widgets.AccessPlayer(hidden, start=0, future="hidden"))
    for t in (0, 1, 2, 3):
        seek(page, t)
        assert "8 wavefronts" not in page.inner_text(".pw-shell") and "8-way" not in page.inner_text(".pw")
        assert page.locator(".ac-compared li").nth(1).inner_text().split("\n")[1] != "8 wavefronts, 8 ways"
    seek(page, 10)
    assert caption(page)[-1].startswith("Complete: 8 wavefronts")
    assert "8 wavefronts, 8 ways" in page.inner_text(".ac-compared")


def overlaps(page: Page) -> list[Any]:
    """Pairs of texts of the picture that touch, and texts that leave it."""
    found: list[Any] = page.evaluate(
        """() => {
          const svg = document.querySelector(".ac-picture"), edge = svg.getBoundingClientRect();
          const all = [...svg.querySelectorAll("text")].filter((x) => x.textContent
            && getComputedStyle(x).visibility !== "hidden");
          const boxes = all.map((x) => x.getBoundingClientRect());
          const bad = [];
          boxes.forEach((p, i) => {
            if (p.left < edge.left - 1 || p.right > edge.right + 1) bad.push(["out", all[i].textContent]);
            boxes.slice(0, i).forEach((q, j) => {
              if (p.left < q.right - 1 && q.left < p.right - 1 && p.top < q.bottom - 3
                && q.top < p.bottom - 3)
                bad.push([all[j].textContent, all[i].textContent]);
            });
          });
          return bad;
        }"""
    )
    return found


WIDEST = {
    "far": simt.sectors(simt.pattern("16000000112 * lane"), 16),
    "near": simt.sectors(simt.pattern("1000000 * 128 + 4 * lane"), 4),
}
NARROW = {
    "16 bytes": simt.wavefronts(simt.pattern("16 * lane"), 16),
    "8 bytes": simt.wavefronts(simt.pattern("8 * lane"), 8),
    "32 ways": simt.wavefronts(simt.pattern("65536 * lane"), 4),
}


@pytest.mark.parametrize("requests", [WIDEST, NARROW], ids=["sectors", "banks"])
def test_the_widest_numbers_find_room(requests: Any, open_html: Open) -> None:
    page = opened(open_html, widgets.AccessPlayer(requests))
    last = int(page.get_attribute(".pw-scrub", "max") or 0)
    for wide in (1280, 640, 390):
        resize(page, wide)
        for t in (0, last // 2, last):
            seek(page, t)
            assert overlaps(page) == [], (wide, t)


def test_a_text_too_wide_is_seen(open_html: Open) -> None:
    page = opened(open_html, widgets.AccessPlayer(NARROW))
    page.add_style_tag(content=".ac-picture text { font-size: 30px !important }")
    settle(page)
    assert overlaps(page)


# ------------------------------------------------------------------------------------ the reader's own


def run(page: Page, begins: str) -> None:
    page.get_by_role("button", name="Run").click()
    page.wait_for_function(
        "text => document.querySelector('.pw-fields > [role=status]').textContent.startsWith(text)",
        arg=begins,
    )
    settle(page)


def test_a_typed_pattern_is_counted_and_shown(open_html: Open) -> None:
    page = live(open_html, lesson.own_access())
    page.get_by_label("Byte address").fill("128 * lane")
    page.get_by_label("In", exact=True).select_option("shared")
    run(page, "Now shown: 32 wavefronts")
    assert page.inner_text("h3").startswith("Shared memory")
    assert "128 * lane" in page.inner_text(".ac-compared")
    assert page.get_by_label("Byte address").input_value() == "128 * lane"  # nothing typed is lost
    before = cycle(page)
    page.get_by_label("Byte address").fill("4 * tid")
    run(page, "Nothing was run")
    assert "the name 'tid'" in page.inner_text(".pw-problem")
    assert cycle(page) == before


def test_painted_lanes_are_the_pattern(open_html: Open) -> None:
    page = live(open_html, lesson.own_access("4 * lane"))
    page.get_by_text("Paint the lanes instead").click()
    page.locator(".pw-paint").focus()
    for key in ("ArrowRight", "ArrowUp", "ArrowRight", "Delete"):  # lane 1 to element 0, lane 2 off
        page.keyboard.press(key)
    typed = page.get_by_label("Byte address").input_value().split(", ")
    assert typed[:4] == ["0", "0", "-", "12"] and len(typed) == 32
    box = page.locator(".pw-paint").bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] * 31.5 / 32, box["y"] + box["height"] * 0.5 / 32)
    typed = page.get_by_label("Byte address").input_value().split(", ")
    assert typed[31] == "0"
    run(page, "Now shown: 4 sectors")
    seek(page, 5)
    assert caption(page)[0].startswith("Request \u201cyour pattern\u201d: 31 lanes ask for 4 bytes each")
    assert page.get_attribute('[data-lane="2"]', "data-state") == "off"


def test_painting_without_a_kernel_changes_nothing(open_html: Open) -> None:
    page = opened(open_html, lesson.own_access("4 * lane"))
    page.get_by_text("Paint the lanes instead").click()
    page.locator(".pw-paint").focus()
    page.keyboard.press("Delete")
    assert page.get_by_label("Byte address").input_value() == "4 * lane"
