"""The kernel scene on a bare page: lines, warps, scores and memory of every frame are the trace's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scene_page import caption, opened, resize, seek, settle

from pulsewarp import ledger, simt, widgets

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser
Open = Callable[..., "Page"]
LESSONS = simt.lesson_kernels


def products(side: int = 8) -> dict[str, simt.KernelTrace]:
    kernels = {"naive": LESSONS.naive_product, "tiled": LESSONS.tiled_product}
    return {name: LESSONS.product(k, m=side, k=side, n=side).trace() for name, k in kernels.items()}


def page_of(open_html: Open, player: Any, change: tuple[str, str] = ("", "")) -> Page:
    """Open a player's page, its module edited as a careless hand would."""
    html = player.to_html()
    if change[0]:
        assert html.count(change[0]) == 1, change
        html = html.replace(*change)
    page = open_html(html)
    page.wait_for_function("document.querySelector('.pw')?.dataset.cycle !== undefined")
    settle(page)
    return page


SHOWN = """() => [...document.querySelectorAll(".kn-kernel")].map((one) => ({
  line: Number(one.querySelector("li[aria-current]")?.dataset.line ?? -1),
  issues: one.querySelector("li[data-issues]") !== null,
  warps: Object.fromEntries([...one.querySelectorAll("li[data-warps]")]
    .filter((li) => li.dataset.warps).map((li) => [li.dataset.line, li.dataset.warps])),
  cost: Object.fromEntries([...one.querySelectorAll("li[data-costs]")]
    .map((li) => [li.dataset.line, li.dataset.cost])),
  touched: Object.fromEntries([...one.querySelectorAll(".kn-array")]
    .map((f) => [f.dataset.array, f.querySelector("canvas").dataset])
    .map(([array, { touched, written }]) => [array, [Number(touched), Number(written)]])),
}))"""


class Told:
    """What a frame must show of one kernel, worked out from the trace without the player."""

    def __init__(self, kernel: simt.KernelTrace, **timing: Any) -> None:
        self.kernel, self.trace = kernel, kernel.simulate(**timing)
        self.programs = [kernel.warps[w].instructions for w in kernel.resident_warps()]

    def at(self, t: int) -> dict[str, Any]:
        trace = self.trace
        done = t >= trace.cycles
        pcs = [len(p) for p in self.programs] if done else trace.pc[t].tolist()
        warps: dict[str, list[str]] = {}
        for w, pc in enumerate(pcs):
            if pc < len(self.programs[w]):
                warps.setdefault(str(self.programs[w][pc].line), []).append(str(w))
        issuing = [] if done else [w for w in trace.issued[t].tolist() if w >= 0]
        now = [self.programs[w][pcs[w]] for w in issuing]
        cost: dict[str, list[int]] = {}
        written: dict[str, set[int]] = {}
        for u in range(min(t, trace.cycles - 1) + 1):
            for w in (w for w in trace.issued[u].tolist() if w >= 0):
                i = self.programs[w][trace.pc[u, w]]
                row = cost.setdefault(str(i.line), [0] * 4)
                row[0] += 1
                row[1] += 32 - i.lanes
                row[2] += i.sectors or 0
                row[3] += i.wavefronts or 0
                if i.what == "store" and i.memory is not None and i.elements is not None:
                    written.setdefault(i.memory.name, set()).update(i.elements[i.elements >= 0].tolist())
        return {
            "line": now[0].line if now else None,
            "warps": {line: " ".join(who) for line, who in warps.items()},
            "cost": cost,
            "touched": {now[0].memory.name: len(set(now[0].elements.tolist()) - {-1})}
            if now and now[0].memory is not None and now[0].elements is not None
            else {},
            "written": {name: len(elements) for name, elements in written.items()},
        }


def frames(told: dict[str, Told]) -> list[int]:
    """Return the cycles of the scene's frames."""
    busy = {t for one in told.values() for t in np.flatnonzero((one.trace.issued >= 0).any(axis=1)).tolist()}
    total = max(one.trace.cycles for one in told.values())
    marks = busy | {t + 1 for t in busy} | {0, total - 1} | {one.trace.cycles for one in told.values()}
    return sorted(t for t in marks if t < total)


def wrong_frames(page: Page, told: dict[str, Told], every: int) -> list[Any]:
    """Name the frames that show otherwise than the trace."""
    wrong: list[Any] = []
    cycles = frames(told)
    assert int(page.get_attribute(".pw-scrub", "max") or 0) == len(cycles) - 1
    for f in range(0, len(cycles), every):
        seek(page, f)
        for shown, (name, one), sentence in zip(
            page.evaluate(SHOWN), told.items(), caption(page), strict=True
        ):
            want = one.at(cycles[f])
            good = shown["warps"] == want["warps"] and shown["issues"] == (want["line"] is not None)
            if want["line"] is not None:
                good &= shown["line"] == want["line"] and f"issues line {want['line']}, " in sentence
            good &= sentence.startswith(
                f"{name.capitalize()}: " if cycles[f] < one.trace.cycles else name.capitalize()
            )
            good &= ("has ended" in sentence) == (cycles[f] >= one.trace.cycles)
            for line, cost in shown["cost"].items():
                issued, off, sectors, _, wavefronts, _ = map(int, cost.split())
                good &= [issued, off, sectors, wavefronts] == want["cost"].get(line, [0] * 4)
            for array, (touched, written) in shown["touched"].items():
                good &= touched == want["touched"].get(array, 0) and written == want["written"].get(array, 0)
            if not good:
                wrong.append((f, name, shown, want, sentence))
    return wrong


def test_every_frame_shows_lines_warps_scores_and_memory_of_the_trace(open_html: Open) -> None:
    kernels = products()
    page = page_of(open_html, widgets.KernelPlayer(kernels, load_latency=40))
    told = {name: Told(kernel, load_latency=40) for name, kernel in kernels.items()}
    assert wrong_frames(page, told, 7) == []


@pytest.mark.parametrize(
    "change",
    [
        (
            "if (row !== null) return table.line[row];",
            "if (row !== null) return table.line[rows[w][Math.max(0, pc[t * W + w] - 1)]];",
        ),
        (
            'column("line_score")[(t * L + at) * 6 + i]',
            'column("line_score")[(Math.max(0, t - 1) * L + at) * 6 + i]',
        ),
        ("next < frame.length && frame[next] <= t", "next < frame.length && frame[next] < t"),
        ("issuing: (t, w) => (!kernel.ended(t) &&", "issuing: (t, w) => (!kernel.ended(t++) &&"),
    ],
    ids=["line late", "score late", "memory late", "issue early"],
)  # fmt: skip
def test_a_frame_shifted_by_one_is_seen(change: tuple[str, str], open_html: Open) -> None:
    kernels = {"tiled": products()["tiled"]}
    page = page_of(
        open_html, widgets.KernelPlayer({**kernels, "same": kernels["tiled"]}, load_latency=40), change
    )
    told = {name: Told(kernels["tiled"], load_latency=40) for name in ("tiled", "same")}
    assert wrong_frames(page, told, 23) != []


def test_the_score_is_the_ledgers_and_the_ratio_its_quotient(open_html: Open) -> None:
    kernels = products()
    page = opened(open_html, widgets.KernelPlayer(kernels, load_latency=40))
    seek(page, int(page.get_attribute(".pw-scrub", "max") or 0))
    rows = {
        cells[0].strip(): cells[1:]
        for cells in (row.split("\t") for row in page.locator(".pw-compare tbody").inner_text().split("\n"))
        if len(cells) > 1
    }
    bills = [ledger.warp(k.simulate(load_latency=40), kernel=k).at(-1) for k in kernels.values()]
    assert [int(text.replace(",", "")) for text in rows["instructions"][:2]] == [b["issued"] for b in bills]
    assert [int(text.split(" ")[0].replace(",", "")) for text in rows["sectors (least)"][:2]] == [
        b["sectors"] for b in bills
    ]
    ratio = bills[0]["sectors"] / bills[1]["sectors"]
    assert float(rows["sectors (least)"][2].split("\N{NO-BREAK SPACE}")[0]) == pytest.approx(ratio, rel=0.05)
    assert [b["lost_memory"] for b in bills] == [int(t.replace(",", "")) for t in rows["for memory"][:2]]


def test_a_warp_is_kept_by_click_and_keys_and_followed_again(open_html: Open) -> None:
    page = opened(open_html, widgets.KernelPlayer(products(), load_latency=40, start=20))
    page.locator(".pw-picture").focus()
    for key, place in (("ArrowDown", ["1", "0"]), ("ArrowRight", ["0", "1"])):
        before = page.eval_on_selector_all(".kn-kernel", "all => all.map((one) => Number(one.dataset.warp))")
        page.keyboard.press(key)
        after = page.eval_on_selector_all(".kn-kernel", "all => all.map((one) => Number(one.dataset.warp))")
        assert (after[0] == before[0] + 1) if place[0] == "1" else (after[1] == before[0])
    page.locator(".kn-strip").first.click(position={"x": 60, "y": 15 + 11 * 6 + 5})
    page.mouse.move(0, 0)
    assert page.get_attribute(".kn-kernel", "data-warp") == "6"
    assert "arp 6 of block 0" in caption(page)[0]
    page.locator(".pw-picture").focus()
    page.keyboard.press("Escape")
    seek(page, 0)
    assert page.get_attribute(".kn-kernel", "data-warp") == "0"


def test_a_kernel_that_stops_opens_and_says_where(open_html: Open) -> None:
    kernel = LESSONS.LESSONS["divergent_barrier"].trace()
    page = opened(open_html, widgets.KernelPlayer(kernel, load_latency=40))
    told = " ".join(page.inner_text(".kn-problems").split())
    assert told.endswith(" ".join(str(kernel.problems[0]).split())) and "divergent barrier" in told
    line = kernel.problems[0].line
    assert page.locator(f'li[data-line="{line}"][data-wrong]').count() == 1
    page.locator(".pw").focus()
    page.keyboard.press("End")
    assert "waits at a barrier that never opens: line" in caption(page)[0]
    assert page.get_attribute(f'li[data-line="{line}"]', "data-warps") == "0 1"


def test_long_lines_wrap_and_nothing_leaves_a_phone(open_html: Open) -> None:
    page = opened(open_html, widgets.KernelPlayer(products(), load_latency=40))
    resize(page, 390)
    assert page.evaluate(
        """() => [...document.querySelectorAll(".kn code, .kn canvas")]
          .every((one) => one.getBoundingClientRect().right <= document.documentElement.clientWidth)"""
    )
