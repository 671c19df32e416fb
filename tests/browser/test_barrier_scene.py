"""The barrier scene shows what the barriers say: caption, lanes, gates, who is late, rounds, ledger."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scene_page import caption, opened, seek

from pulsewarp import ledger, simt, widgets
from pulsewarp.widgets import barrier as module

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser
Open = Callable[..., "Page"]
BARRIER = simt.STATES.index("barrier")
NONE = "\N{EN DASH}"

LATE, OTHER = simt.chain_and_barrier(3, 12), simt.chain_and_barrier(3, 4)
PAIR = {"one late": simt.simulate([LATE] + [OTHER] * 3), "none late": simt.simulate([OTHER] * 4)}
HALF, ADD = simt.Instruction("bar", lanes=16), simt.Instruction(dst="r0", srcs=("r0",))
FULL = [*[ADD] * 3, simt.bar()]
STUCK = simt.simulate(
    [[*FULL, ADD, simt.bar(), ADD], [*FULL, *[ADD] * 4, HALF, ADD], FULL * 3], blocks=[0, 0, 1]
)


def wanted(runs: dict[str, simt.WarpTrace], t: int) -> list[str]:
    """Return the caption of cycle t with nothing chosen."""
    told, costs = [], []
    for name, trace in runs.items():
        lead = f"{name.capitalize()}: " if len(runs) > 1 else ""
        found, bill = simt.barriers(trace), ledger.warp(trace)
        u = min(t, trace.cycles - 1)
        if t >= trace.cycles:
            told.append(f"{lead}all has been done since cycle {trace.cycles - 1}.")
        else:
            told += [f"{lead}{found.why(t, block)}" for block in found.blocks]
        whose = f" ({name})" if len(runs) > 1 else ""
        costs.append(f"{bill.lost['barrier'][u]:,} of {bill.slots[u]:,} issue slots{whose}")
    return [*told, f"Waiting at barriers has cost {' and '.join(costs)} so far."]


def wrong_captions(page: Page, runs: dict[str, simt.WarpTrace]) -> list[int]:
    wrong = []
    cycles = max(run.cycles for run in runs.values())
    for t in np.unique(np.linspace(0, cycles - 1, 13).astype(int)).tolist():
        seek(page, t)
        if caption(page) != wanted(runs, t):
            wrong.append(t)
    return wrong


@pytest.mark.parametrize("runs", [PAIR, {"": STUCK}], ids=["pair", "deadlock"])
def test_the_caption_is_true_to_the_frame(runs: dict[str, simt.WarpTrace], open_html: Open) -> None:
    page = opened(open_html, widgets.BarrierPlayer(runs.get("", runs)))
    assert wrong_captions(page, runs) == []


def moved(monkeypatch: pytest.MonkeyPatch, column: str, by: int = 1) -> None:
    real = module.pack

    def shifted(kind: str, header: Any, columns: Any, codings: Any) -> str:
        return real(kind, header, {**columns, column: np.roll(columns[column], by, axis=0)}, codings)

    monkeypatch.setattr(module, "pack", shifted)


@pytest.mark.parametrize("column", ["sentence0", "lost0"])
def test_mutant_a_caption_a_frame_late_is_seen(
    column: str, open_html: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved(monkeypatch, column)
    assert len(wrong_captions(opened(open_html, widgets.BarrierPlayer(PAIR)), PAIR)) > 3


def colours(page: Page, points: list[tuple[float, float]]) -> list[list[int]]:
    """Return what is drawn at points, in CSS pixels of the canvas."""
    found: list[list[int]] = page.eval_on_selector(
        "canvas.pw-lanes-of-time",
        """(canvas, points) => {
          const scale = canvas.width / parseFloat(canvas.style.width);
          const pen = canvas.getContext("2d");
          const at = (x, y) => pen.getImageData(Math.round(x * scale), Math.round(y * scale), 1, 1);
          return points.map(([x, y]) => [...at(x, y).data].slice(0, 3));
        }""",
        points,
    )
    return found


def reddish(colour: list[int]) -> bool:
    """Tell the ground or the stripes of the barrier's texture; neither paper, ink, grey nor orange is."""
    red, green, blue = colour
    return red - green > 6 and abs(green - blue) < 0.25 * (red - green)


def wrong_lanes(page: Page, runs: dict[str, simt.WarpTrace], t: int) -> list[tuple[int, int, int]]:
    """Return (run, warp, cycle) up to t whose colour does not say whether that warp stands at the barrier."""
    seek(page, t)
    of = {
        name: page.get_attribute("canvas.pw-lanes-of-time", f"data-{name}")
        for name in ("first", "cell", "label")
    }
    first, cell, label = (float(of[name] or 0) for name in ("first", "cell", "label"))
    rows = json.loads(page.get_attribute("canvas.pw-lanes-of-time", "data-rows") or "")
    pitch = float(page.get_attribute("canvas.pw-lanes-of-time", "data-pitch") or 0)
    traces = list(runs.values())
    places = [
        (row, u)
        for row in rows
        for u in range(int(first), min(t, traces[row["run"]].cycles))  # before the playhead
    ]
    # Near the upper edge of a lane: no mark of an instruction and no base line is drawn there.
    points = [(label + (u - first + 0.3) * cell, row["y"] + 0.22 * pitch) for row, u in places]
    wrong = []
    for (row, u), colour in zip(places, colours(page, points), strict=True):
        stands = traces[row["run"]].state[u, row["warp"]] == BARRIER
        if reddish(colour) != stands:
            wrong.append((row["run"], row["warp"], u))
    return wrong


def beside_gates(
    runs: dict[str, simt.WarpTrace], wrong: list[tuple[int, int, int]]
) -> list[tuple[int, int, int]]:
    """Leave out cycles in which a gate or a mark of arrival covers the lane's colour."""
    covered = set()
    for r, trace in enumerate(runs.values()):
        for one in simt.barriers(trace).rounds:
            covered |= {(r, t) for t, _ in one.arrivals} | {(r, one.opens), (r, (one.opens or 0) - 1)}
    return [place for place in wrong if (place[0], place[2]) not in covered]


def test_lanes_are_striped_where_warps_stand_at_the_barrier(open_html: Open) -> None:
    page = opened(open_html, widgets.BarrierPlayer(PAIR))
    for t in (30, 90, max(run.cycles for run in PAIR.values()) - 1):
        assert beside_gates(PAIR, wrong_lanes(page, PAIR, t)) == []


def test_mutant_lanes_a_few_cycles_late_are_seen(open_html: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    moved(monkeypatch, "state0", 2)
    page = opened(open_html, widgets.BarrierPlayer(PAIR))
    assert len(beside_gates(PAIR, wrong_lanes(page, PAIR, 90))) > 2


def gates(
    page: Page, r: int, w: int, t: int, hue: Callable[[list[int]], bool], before: float = 0
) -> list[int]:
    """Return the cycles at whose left edge, or so many pixels before it, a lane has a line of a colour."""
    seek(page, t)
    rows = json.loads(page.get_attribute("canvas.pw-lanes-of-time", "data-rows") or "")
    (y,) = [row["y"] for row in rows if (row["run"], row["warp"]) == (r, w)]
    first, cell, label = (
        float(page.get_attribute("canvas.pw-lanes-of-time", f"data-{name}") or 0)
        for name in ("first", "cell", "label")
    )
    cycles = range(int(first), t + 1)
    seen = colours(page, [(label + (u - first) * cell - before, y + 1.5) for u in cycles])
    return [u for u, colour in zip(cycles, seen, strict=True) if hue(colour)]


def green(colour: list[int]) -> bool:
    return colour[1] - colour[0] > 60 and colour[1] - colour[2] > 15


def test_gates_stand_where_barriers_open_and_only_in_their_block(open_html: Open) -> None:
    page = opened(open_html, widgets.BarrierPlayer(STUCK, start=0))
    found = simt.barriers(STUCK)
    last = STUCK.cycles - 1
    for w, block in enumerate(STUCK.blocks):
        own = [one.opens for one in found.rounds if one.block == block and one.opens is not None]
        assert gates(page, 0, w, last, green) == [t for t in own if t <= last], w


def orange(colour: list[int]) -> bool:
    return colour[0] - colour[1] > 60 and colour[1] - colour[2] > 30


def test_an_orange_mark_stands_where_the_warp_arrives_for_which_the_others_waited(open_html: Open) -> None:
    page = opened(open_html, widgets.BarrierPlayer(PAIR["one late"]))
    trace = PAIR["one late"]
    for w in range(trace.warps):
        # The mark ends where its cycle does; the last barrier's lies under the playhead.
        own = [t for one in simt.barriers(trace).rounds[:2] for t, v in one.arrivals if v == w]
        wanted = [] if w else own
        seen = gates(page, 0, w, trace.cycles - 1, orange, before=3)
        assert [t - 1 for t in seen if t < trace.cycles - 4] == wanted, w


def test_who_is_late_is_named_in_lane_and_table(open_html: Open) -> None:
    page = opened(open_html, widgets.BarrierPlayer(PAIR["one late"]))
    page.get_by_role("button", name="Table", exact=True).click()
    found = simt.barriers(PAIR["one late"])
    for t in (5, 30, 49, 50, found.trace.cycles - 1):
        seek(page, t)
        rows = [row.split("\t") for row in page.locator(".pw-drawer tbody tr").all_inner_texts()]
        for w, row in enumerate(rows):
            told = [text for cycle, text in found.of_warp(w) if cycle <= t][-1]
            late = "yes" if found.late[t, w] else "no"
            assert row == [f"w{w}", "0", late, told, str(found.waited[t, w])]


def test_rounds_and_ledger_count_up_to_the_frame(open_html: Open) -> None:
    page = opened(open_html, widgets.BarrierPlayer(PAIR))
    found, bill = simt.barriers(PAIR["one late"]), ledger.warp(PAIR["one late"])
    first = found.rounds[0]
    assert first.opens is not None
    for t in (first.last_event - 1, first.last_event, first.opens):
        seek(page, t)
        row = page.locator(".pw-rounds tbody tr").first.inner_text().split("\t")
        full, is_open = t >= first.last_event, t >= first.opens
        assert row == [
            "1", str(first.arrivals[0][0]), str(first.last_event) if full else NONE, "w0" if full else NONE,
            str(first.opens) if is_open else NONE, f"{first.waited(t):,}" if is_open else NONE,
        ]  # fmt: skip
        rows = {
            line.split("\t")[0]: line.split("\t")[1:]
            for line in page.locator(".pw-compare:not(.pw-rounds) tbody tr").all_inner_texts()
        }
        assert rows["issue slots lost to it"][0] == f"{bill.lost['barrier'][t]:,}"
        assert rows["lost, %"][0] == f"{100 * bill.lost['barrier'][t] / bill.slots[t]:.1f}"
        opened_by_now = sum(one.opens is not None and one.opens <= t for one in found.rounds)
        assert rows["barriers opened"][0] == f"{opened_by_now} of {len(found.rounds)}"
        assert rows["warps at a barrier"][0] == f"{(PAIR['one late'].state[t] == BARRIER).sum()} of 4"
        assert rows["warp-cycles waited"][0] == f"{found.waited[t].sum():,}"


def test_arrow_keys_pick_a_warp_across_runs_and_the_caption_says_what_it_has_to_do(open_html: Open) -> None:
    page = opened(open_html, widgets.BarrierPlayer(PAIR))
    seek(page, 30)
    picture = page.locator(".pw-picture")
    picture.focus()
    for _ in range(4):
        picture.press("ArrowDown")
    told = [text for cycle, text in simt.barriers(PAIR["one late"]).of_warp(3) if cycle <= 30][-1]
    assert caption(page)[-1] == f"One late: {told}"
    picture.press("ArrowDown")
    assert caption(page)[-1].startswith("None late: w0 ")


def test_what_comes_can_be_hidden(open_html: Open) -> None:
    page = opened(open_html, widgets.BarrierPlayer(PAIR, future="hidden", start=0))
    assert page.locator(".pw-to-come").count() == 0, "the curve would tell what comes"
    at = {
        n: float(page.get_attribute("canvas.pw-lanes-of-time", f"data-{n}") or 0) for n in ("cell", "label")
    }
    rows = json.loads(page.get_attribute("canvas.pw-lanes-of-time", "data-rows") or "")
    points = [(at["label"] + u * at["cell"], row["y"] + 6) for row in rows for u in (20, 51, 100)]
    assert colours(page, points) == [[255, 255, 255]] * len(points)
