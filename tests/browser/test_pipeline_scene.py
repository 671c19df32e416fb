"""The pipeline scene on a bare page: bars, boxes, words and counters are what the traces say."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scene_page import caption, opened, seek

from pulsewarp import systolic
from pulsewarp.systolic import PipelineTrace
from pulsewarp.widgets import pipeline as pipeline_module
from pulsewarp.widgets.pipeline import PipelinePlayer

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

Open = Callable[..., "Page"]
MACHINE: dict[str, Any] = {
    "rows": 2, "cols": 2, "clock_hz": 10**9, "bandwidth_bytes_per_second": 3 * 10**9, "vmem_bytes": 400,
    "dtype": "int8",
}  # fmt: skip


def small(buffers: int) -> PipelineTrace:
    return systolic.pipeline(m=4, k=4, n=6, tile=(2, 2, 2), buffers=buffers, **MACHINE)


def long(buffers: int) -> PipelineTrace:
    """A run that does not fit the picture: 64 steps, more of A than of B in a tile, the whole of k in one."""
    return systolic.pipeline(m=32, k=4, n=16, tile=(4, 4, 2), buffers=buffers, **MACHINE)


def both(make: Callable[[int], PipelineTrace] = small) -> list[PipelineTrace]:
    return [make(2), make(1)]


READ = """() => {
  const all = (selector, read) => [...document.querySelectorAll(selector)].map(read);
  const data = { ...document.querySelector(".pw-picture .pw-pipe").dataset };
  const line = document.querySelector(".pw-picture .pw-present-line").getBBox();
  return {
    data, here: line.x + line.width / 2,
    bars: all(".pw-picture [data-event]", (node) => {
      const { x, width } = node.getBBox();
      return [Number(node.dataset.run), Number(node.dataset.event), x, width, node.getAttribute("class")];
    }),
    active: all(".pw-picture .pw-active:not(.pw-chosen)", (node) => Number(node.dataset.now)),
    boxes: all(".pw-picture [data-state]", (node) =>
      [node.dataset.state, Number(node.dataset.share), node.querySelector("text").textContent]),
    ledger: all(".pw-compare tbody tr", (row) => [...row.children].map((cell) => cell.textContent)),
    table: all(".pw-drawer tbody tr", (row) => [...row.children].map((cell) => cell.textContent)),
    cells: all(".pw-product .pw-cell", (node) => node.getAttribute("class").split("-").pop()),
    phase: document.querySelector(".pw-phase").textContent,
    title: document.querySelector(".pw-cycle").textContent,
  };
}"""


def names(run: PipelineTrace, e: int) -> dict[str, str]:
    i, p, j = run.tiles[e].tolist()
    return {"a": f"A[{i},{p}]", "b": f"B[{p},{j}]", "c": f"C[{i},{j}]"}


def holds(run: PipelineTrace, t: int) -> list[tuple[str, str]]:
    """Return every tile that is in VMEM at a cycle and what it does, from the events alone."""
    found: list[tuple[str, str]] = []
    steps = np.flatnonzero(run.kind == 2)
    now = steps[(run.start[steps] <= t) & (t < run.end[steps])]
    for kind, letter in enumerate("ab"):
        fetches = np.flatnonzero(run.kind == kind).tolist()
        for place, e in enumerate(fetches):
            until = int(run.step[fetches[place + 1]]) if place + 1 < len(fetches) else run.steps
            if run.start[e] <= t < run.end[steps[until - 1]]:
                used = any(run.step[e] <= run.step[s] < until for s in now)
                state = "filling" if t < run.end[e] else "in use" if used else "ready"
                found.append((names(run, e)[letter], state))
    for e in np.flatnonzero(run.kind == 3).tolist():
        name = names(run, e)["c"]
        mine = [s for s in steps.tolist() if names(run, s)["c"] == name]
        if run.start[mine[0]] <= t < run.end[e]:
            waits = "complete" if all(run.end[s] <= t for s in mine) else "partial"
            state = "summing" if set(mine) & set(now.tolist()) else waits
            found.append((name, "leaving" if run.start[e] <= t else state))
    return sorted(found)


COUNTS = {
    "MXU waits (stalls), cycles": "stalled", "DMA waits (bubbles), cycles": "bubbles", "bytes in": "bytes_in",
    "bytes out": "bytes_out", "VMEM now, B": "vmem",
}  # fmt: skip
FULL = {"free": 0.0, "in use": 1.0, "ready": 1.0, "complete": 1.0}


def differences(page: Page, runs: list[PipelineTrace], frames: list[int]) -> list[str]:
    """Name everything on the page that is not as the traces say; empty when all agrees."""
    wrong: list[str] = []
    if page.locator("[id$=-table]").is_hidden():
        page.get_by_role("button", name="Table").click()
    times = sorted({0, *(int(t) for run in runs for t in (*run.start, *run.end))})
    for f in frames:
        t = times[f]
        seek(page, f)
        seen = page.evaluate(READ)

        def same(what: str, drawn: object, true: object, f: int = f) -> None:
            if drawn != true:
                wrong.append(f"event {f}, {what}: drawn {drawn!r}, in the trace {true!r}")

        told = [run.why(min(t, run.cycles)) for run in runs]
        leads = ["Two buffers: " if run.buffers == 2 else "One buffer: " for run in runs]
        leads = leads if len(runs) > 1 else [""]
        words = [lead + " ".join(pair) for lead, pair in zip(leads, told, strict=True)]
        same("caption", caption(page), words)
        same("title", seen["title"], f"event {f} (0 to {len(times) - 1})")
        same("phase", seen["phase"].split("cycle ")[1], f"{t:,}")

        # The line stands at the present cycle, and each bar where it belongs beside it.
        scale, first, label = (float(seen["data"][name]) for name in ("scale", "from", "label"))
        same("line", abs(seen["here"] - label - (t - first) * scale) < 0.02, True)
        same("bars", len(seen["bars"]), sum(run.kind.size for run in runs))
        for r, e, x, width, kind in seen["bars"]:
            run = runs[r]
            begins, lasts = float(run.start[e]) * scale, float(run.end[e] - run.start[e]) * scale - 1
            same(f"bar {e}", abs(x - begins) < 0.02 and abs(width - max(1, lasts)) < 0.02, True)
            same(f"kind of {e}", kind.split("-")[-1], ("a", "b", "mxu", "c")[run.kind[e]])

        busy = [e for run in runs for e in np.flatnonzero((run.start <= t) & (t < run.end)).tolist()]
        same("active", sorted(e for e in seen["active"] if e >= 0), sorted(busy))

        boxes = iter(seen["boxes"])
        for run in runs:
            mine = [next(boxes) for _ in range(3 * run.buffers)]
            same("boxes", sorted((name, state) for state, _, name in mine if state != "free"), holds(run, t))
            for state, share, name in mine:
                same(f"share of {name}", share if state in FULL else 0 <= share <= 1, FULL.get(state, True))

        tallies = [run.tally([min(t, run.cycles)]) for run in runs]
        counts = {row[0]: row[1:] for row in seen["ledger"]}
        for said, name in COUNTS.items():
            same(f"ledger {said}", counts[said], [f"{getattr(done, name).item():,}" for done in tallies])
        rows = [row[-1] for row in seen["table"] if row[-2] in ("MXU", "DMA")]
        same("table", rows, [sentence for pair in told for sentence in pair])
        written = sum(int(np.count_nonzero(run.end[run.kind == 3] <= t)) for run in runs)
        same("cells", seen["cells"].count("done"), written)
    return wrong


def frames_of(runs: list[PipelineTrace]) -> int:
    return len({0, *(int(t) for run in runs for t in (*run.start, *run.end))})


def test_every_frame_is_drawn_as_the_traces_say(open_html: Open) -> None:
    runs = both()
    page = opened(open_html, PipelinePlayer(runs))
    assert not differences(page, runs, list(range(0, frames_of(runs), 2)))


@pytest.mark.parametrize("width", [390, 760])
def test_other_widths_draw_the_same_run(open_html: Open, width: int) -> None:
    runs = both()
    page = opened(open_html, PipelinePlayer(runs), viewport=(width, 900))
    assert not differences(page, runs, [0, 9, frames_of(runs) - 1])


def test_a_run_that_does_not_fit_is_seen_through_a_window(open_html: Open) -> None:
    runs = both(long)
    page = opened(open_html, PipelinePlayer(runs))
    last = frames_of(runs) - 1
    assert not differences(page, runs, [0, last // 3, last // 2, last])
    at = page.evaluate(READ)
    assert float(at["data"]["from"]) > 0
    assert at["here"] <= 0.66 * 1280


def test_one_run_alone(open_html: Open) -> None:
    runs = [small(1)]
    page = opened(open_html, PipelinePlayer(runs))
    assert not differences(page, runs, [0, 7, frames_of(runs) - 1])


# --- planted faults: the check above must see them ---------------------------------------------------------


@pytest.mark.parametrize(
    "column, spoil, seen_in",
    [
        ("time", lambda time: np.append(time[1:], time[-1] + 1), "phase"),
        ("sentence0", lambda ids: np.roll(ids, 1, axis=0), "caption"),
        ("start1", lambda start: start + 1, "bar"),
        ("mxu0", lambda now: np.roll(now, 6), "active"),
        ("state0", lambda state: np.roll(state, 1, axis=0), "boxes"),
        ("held1", lambda held: np.roll(held, 1, axis=0), "boxes"),
        ("share0", lambda share: share * 0.5, "share"),
        ("tally1", lambda tally: np.roll(tally, 1, axis=0), "ledger"),
    ],
)
def test_mutant_a_wrong_column_turns_the_check_red(
    open_html: Open, monkeypatch: pytest.MonkeyPatch, column: str, spoil: Callable[[Any], Any], seen_in: str
) -> None:
    real = pipeline_module.pack
    monkeypatch.setattr(
        pipeline_module, "pack", lambda k, h, c, d: real(k, h, {**c, column: spoil(np.array(c[column]))}, d)
    )
    runs = both()
    page = opened(open_html, PipelinePlayer(runs), errors_expected=True)
    assert any(seen_in in line for line in differences(page, runs, [4, 9, 14]))


# --- using it ----------------------------------------------------------------------------------------------


def test_the_task_stands_under_the_rule(open_html: Open) -> None:
    page = opened(open_html, PipelinePlayer(both()))
    assert "first waits again" in page.locator(".pw-task").inner_text()


def test_the_cursor_walks_events_lanes_and_runs(open_html: Open) -> None:
    page = opened(open_html, PipelinePlayer(both()))
    seek(page, 0)
    page.focus(".pw-picture")
    page.keyboard.press("ArrowDown")
    step = page.locator(".pw-caption p").last
    assert step.inner_text().startswith("Two buffers, chosen: Step 0 multiplies A[0,0] by B[0,0]")
    page.keyboard.press("ArrowRight")
    assert step.inner_text().startswith("Two buffers, chosen: Step 1 multiplies A[0,1] by B[1,0]")
    assert "it could start when" in step.inner_text()
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    assert step.inner_text().startswith("One buffer, chosen: Step ")
    assert page.locator(".pw-picture .pw-chosen").get_attribute("data-now") is not None
    page.keyboard.press("Escape")
    assert len(caption(page)) == 2


def test_a_bar_is_chosen_by_a_click_and_says_what_let_it_start(open_html: Open) -> None:
    runs = both()
    page = opened(open_html, PipelinePlayer(runs))
    e = int(np.flatnonzero(runs[0].kind == 3)[0])
    page.locator(f'.pw-picture [data-run="0"][data-event="{e}"]').click()
    said = caption(page)[-1]
    source = int(runs[0].after[e])
    assert said.startswith("Two buffers, chosen: C[0,0] is written to HBM, cycles")
    kind = ("the fetch of", "the fetch of", f"step {runs[0].step[source]}", "the write of")[
        runs[0].kind[source]
    ]
    assert f"it could start when {kind}" in said
    page.wait_for_function("document.querySelector('.pw-picture .pw-chosen') !== null")


def test_the_future_may_be_hidden(open_html: Open) -> None:
    page = opened(open_html, PipelinePlayer(both(), future="hidden"))
    assert page.eval_on_selector(".pw-picture .pw-future", "(node) => getComputedStyle(node).opacity") == "1"
    page = opened(open_html, PipelinePlayer(both()))
    assert (
        page.eval_on_selector(".pw-picture .pw-future", "(node) => getComputedStyle(node).opacity") == "0.6"
    )


def test_words_fit_their_boxes(open_html: Open) -> None:
    wide = systolic.pipeline(
        m=260, k=20, n=260, tile=(2, 20, 260), buffers=2, **{**MACHINE, "vmem_bytes": 10**6}
    )
    for runs in (both(), [wide]):
        for width in (390, 1280):
            page = opened(open_html, PipelinePlayer(runs), viewport=(width, 900))
            for f in (0, frames_of(runs) // 2, frames_of(runs) - 2):
                seek(page, f)
                cut = page.evaluate(
                    """() => [...document.querySelectorAll(".pw-picture [data-state]")].flatMap((box) => {
                      const room = box.querySelector(".pw-box").getBBox().width;
                      return [...box.querySelectorAll("text")].filter((one) => one.getBBox().width > room)
                        .map((one) => one.textContent);
                    })"""
                )
                assert cut == [], (width, f)


def test_the_report_is_in_the_page(open_html: Open) -> None:
    page = opened(open_html, PipelinePlayer(both()))
    page.get_by_role("button", name="Verify this frame").click()
    report = page.locator(".pw-verify")
    report.wait_for()
    text = report.inner_text()
    assert "two buffers: closed form" in text and "one buffer: VMEM" in text and "FAILS" not in text
