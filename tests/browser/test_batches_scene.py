"""Batches on a bare page: stream, cells, curve, sentence and numbers are the traces' own."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scene_page import caption, cycle, resize, seek

from pulsewarp import systolic
from pulsewarp.systolic import PHASES, SystolicTrace
from pulsewarp.widgets import _wire
from pulsewarp.widgets.batches import BatchesPlayer

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser
Open = Callable[..., "Page"]
SIZES = (4, 3, 5)


def run(m: int = 12, k: int = 4, n: int = 4, rows: int = 4, cols: int = 4, **options: Any) -> SystolicTrace:
    return systolic.simulate(np.ones((m, k)), np.ones((k, n)), rows=rows, cols=cols, **options)


def shifted(player: BatchesPlayer, column: str) -> BatchesPlayer:
    """The same player with one column of the wire a cycle late: a mutant."""
    header, columns = _wire.unpack(player.trace)
    keep = {key: value for key, value in header.items() if key not in ("form", "kind", "columns")}
    late = np.roll(columns[column], 1, axis=0)
    if column.endswith("start"):
        late = np.where(columns[column] >= 0, columns[column] + 1, -1)
    player.trace = _wire.pack("batches", keep, {**columns, column: late})
    return player


# ------------------------------------------------------------------------------------------- the picture


def painted(page: Page, lane: int = 0) -> tuple[np.ndarray[Any, Any], int]:
    """Return the kind of batch (0 to 3, -1 for none) painted at each place of a lane, and the queue's length.

    A place has the kind whose colour most of its pixels have, so that textures and numbers do not matter.
    """
    kinds, queue = page.evaluate(
        """(lane) => {
          const holder = document.querySelectorAll(".ba-holder")[lane];
          const [canvas, array] = [holder.querySelector("canvas"), holder.querySelector(".ba-array")];
          const root = getComputedStyle(document.querySelector(".pw"));
          const rgb = (name) => root.getPropertyValue(name).match(/[0-9a-f]{2}/g).map((x) => parseInt(x, 16));
          const light = rgb("--batch-light");
          const plain = [0, 1, 2, 3].map((kind) => rgb(`--batch-${kind}`));
          const marked = plain.map((tone) => tone.map((x, i) => Math.round(x + (light[i] - x) * 0.45)));
          const [box, frame] = [canvas.getBoundingClientRect(), array.getBoundingClientRect()];
          const rows = Number(array.dataset.rows), cols = Number(array.dataset.cols);
          const side = (frame.width / cols) * (canvas.width / box.width);
          const { data, width } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          const across = Math.round(canvas.width / side);
          const kindAt = (x, y) => {
            const at = (y * width + x) * 4;
            const near = (tone) => tone.every((v, i) => Math.abs(v - data[at + i]) <= 2);
            const kind = plain.findIndex(near);
            return kind >= 0 ? kind : marked.findIndex(near);
          };
          const grid = [];
          for (let r = 0; r < rows; r++) {
            const line = [];
            for (let c = 0; c < across; c++) {
              const votes = [0, 0, 0, 0];
              for (let y = Math.floor(r * side); y < (r + 1) * side; y++) {
                for (let x = Math.floor(c * side); x < (c + 1) * side; x++) {
                  const kind = kindAt(x, y);
                  if (kind >= 0) votes[kind] += 1;
                }
              }
              const most = Math.max(...votes);
              line.push(most ? votes.indexOf(most) : -1);
            }
            grid.push(line);
          }
          return [grid, across - cols];
        }""",
        lane,
    )
    return np.array(kinds), int(queue)


def wrong_places(page: Page, trace: SystolicTrace, sizes: Sequence[int], t: int, lane: int = 0) -> int:
    """Count the places of stream and array that are not painted as the multiply-adds of the trace say."""
    kinds, queue = painted(page, lane)
    batch_of = np.repeat(np.arange(len(sizes)), sizes) % 4
    wanted = np.full(kinds.shape, -1)
    if t < trace.cycles:
        macs = trace.macs()
        for _, r, c, m, _, _ in macs[macs[:, 0] == t].tolist():
            wanted[r, queue + c] = batch_of[m]
        ahead = macs[(macs[:, 2] == 0) & (macs[:, 0] > t) & (macs[:, 0] <= t + queue)]
        for later, r, _, m, _, _ in ahead.tolist():  # what will be in the first column so many cycles on
            wanted[r, queue - (later - t)] = batch_of[m]
    return int((kinds != wanted).sum())


@pytest.mark.parametrize(
    "trace", [run(), run(k=8, n=6), run(k=8, n=8, overlap=True)], ids=["one fold", "folds", "overlap"]
)
def test_stream_and_cells_are_painted_in_the_colour_of_their_batch(on_stage: Open, trace: Any) -> None:
    page = on_stage(BatchesPlayer(trace, batches=SIZES))
    for t in np.linspace(0, trace.cycles - 1, 7).astype(int).tolist():
        seek(page, t)
        assert wrong_places(page, trace, SIZES, t) == 0, t


def test_cells_of_a_large_array_are_painted_too(on_stage: Open) -> None:
    trace = run(m=40, k=32, n=32, rows=32, cols=32)
    page = on_stage(BatchesPlayer(trace, batches=(8,) * 5), dark=True)
    for t in (20, 60, 90):
        seek(page, t)
        assert wrong_places(page, trace, (8,) * 5, t) == 0, t


def test_cells_painted_a_cycle_late_are_seen(on_stage: Open) -> None:
    page = on_stage(shifted(BatchesPlayer(run(), batches=SIZES), "0.start"))
    seek(page, 9)
    assert wrong_places(page, run(), SIZES, 9)


def curve_error(page: Page, trace: SystolicTrace) -> float:
    """Return by how many cells the top of the stacked areas is away from the cells at work, at most."""
    paths = page.eval_on_selector_all(".ba-to-come .ba-area", "(all) => all.map((x) => x.getAttribute('d'))")
    curve = page.locator(".ba-curve")
    wide, high = float(curve.get_attribute("width") or 0), float(curve.get_attribute("height") or 0) - 50
    tops = np.full(trace.cycles, high)
    for path in paths:
        for x, y, end in re.findall(r"[ML]([\d.]+) ([\d.]+)H([\d.]+)", path):
            if float(end) > float(x):  # on the way out; back along the floor x falls
                t = round(float(x) / wide * trace.cycles)
                tops[t] = min(tops[t], float(y))
    cells = trace.rows * trace.cols
    return float(np.abs((high - tops) / high * cells - trace.schedule.busy).max())


def test_the_curve_is_as_high_as_cells_work(on_stage: Open) -> None:
    """The areas of the batches stand on each other; the top of the last is the number of busy cells."""
    page = on_stage(BatchesPlayer(run(), batches=SIZES))
    assert curve_error(page, run()) < 0.01


def test_a_curve_one_cycle_late_is_seen(on_stage: Open) -> None:
    page = on_stage(shifted(BatchesPlayer(run(), batches=SIZES), "0.busy"))
    assert curve_error(page, run()) > 0.5


# ------------------------------------------------------------------------------------------- words


def wrong_words(page: Page, lanes: Sequence[tuple[SystolicTrace, Sequence[int]]], t: int) -> list[str]:
    """Return the sentences that are not true to their lane."""
    sentences = caption(page)
    wrong = []
    if len(lanes) == 1:
        sentences = [" ".join(sentences)]
    for number, ((trace, sizes), words) in enumerate(zip(lanes, sentences, strict=True)):
        macs = trace.macs()
        now = macs[macs[:, 0] == t]
        batches = np.bincount(np.repeat(np.arange(len(sizes)), sizes)[now[:, 3]], minlength=len(sizes))
        cells, done = trace.rows * trace.cols, int((macs[:, 0] <= t).sum())
        share = re.search(r"tilisation (?:so far )?([\d.]+)\s%", words)
        expected = 100 * done / ((min(t, trace.cycles - 1) + 1) * cells)
        holds = share is not None and abs(float(share[1]) - expected) <= max(0.05 * expected, 1e-9) + 0.5
        if t >= trace.cycles:
            holds = holds and f"ended in cycle {trace.cycles - 1};" in words
        else:
            phase = PHASES[trace.phase[t]]
            count = re.search(r"([\d,]+) of [\d,]+ cells work", words)
            told = {int(b): int(n) for n, b in re.findall(r"(\d+) on batch (\d+)", words)}
            one = re.search(r"(?:all )?on batch (\d+)", words)
            working = {b + 1: int(n) for b, n in enumerate(batches) if n}
            holds = holds and phase in words.lower()
            holds = holds and (int(count[1].replace(",", "")) if count else 0) == now.shape[0]
            if len(sizes) > 1 and len(working) > 1:
                holds = holds and told == working
            elif len(sizes) > 1 and working:
                holds = holds and one is not None and {int(one[1])} == set(working)
        if not holds:
            wrong.append(f"lane {number}, cycle {t}: {words}")
    return wrong


@pytest.mark.parametrize("overlap", [False, True])
def test_the_sentence_is_true_to_the_frame(on_stage: Open, overlap: bool) -> None:
    trace = run(k=8, overlap=overlap)
    page = on_stage(BatchesPlayer(trace, batches=SIZES))
    for t in range(0, trace.cycles, 3):
        seek(page, t)
        assert wrong_words(page, [(trace, SIZES)], t) == []


def test_each_lane_has_its_own_true_sentence(on_stage: Open) -> None:
    lanes = [(run(1), (1,)), (run(12), (12,))]
    page = on_stage(BatchesPlayer([trace for trace, _ in lanes]))
    for t in range(0, 22, 3):
        seek(page, t)
        assert wrong_words(page, lanes, t) == []
    assert "ended" in caption(page)[0] and page.locator(".ba-lane[data-ended]").count() == 1


@pytest.mark.parametrize("column", ["0.busy", "0.phase", "0.macs"])
def test_a_sentence_one_cycle_late_is_seen(on_stage: Open, column: str) -> None:
    page = on_stage(shifted(BatchesPlayer(run(), batches=SIZES), column))
    wrong: list[str] = []
    for t in range(4, 12):
        seek(page, t)
        wrong = wrong or wrong_words(page, [(run(), SIZES)], t)
    assert wrong


def test_loading_meanwhile_is_told_where_it_happens(on_stage: Open) -> None:
    trace = run(k=8, overlap=True)
    page = on_stage(BatchesPlayer(trace, batches=SIZES))
    held = trace.schedule.entered[:, 0]
    for t in (9, 11, 13, 15):
        seek(page, t)
        told = re.search(r"meanwhile (\d+) weights? comes? in", caption(page)[0])
        assert (int(told[1]) if told else 0) == held[t]


def test_a_cells_sentence_is_true_to_the_trace(on_stage: Open) -> None:
    trace = run(k=8, n=6)
    page = on_stage(BatchesPlayer(trace, batches=SIZES, start=0))
    bounds = np.cumsum((0, *SIZES))
    page.focus(".pw-picture")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):  # the first one places the cursor
        page.keyboard.press(key)
    r, c = 1, 1
    by_cycle = {t: (m, n, k) for t, row, col, m, n, k in trace.macs().tolist() if (row, col) == (r, c)}
    for t in range(0, trace.cycles, 4):
        seek(page, t)
        words = " ".join(caption(page))
        if t in by_cycle:
            m, n, k = by_cycle[t]
            batch = int(np.searchsorted(bounds, m, side="right"))
            assert (
                f"works on batch {batch}, its row {m - bounds[batch - 1]} (0 to {SIZES[batch - 1] - 1})"
                in words
            )
            assert f"A[{m},{k}] meets B[{k},{n}]" in words
            since, until = map(int, re.findall(r"since cycle (\d+) and goes on to cycle (\d+)", words)[0])
            assert all(u in by_cycle for u in range(since, until + 1))
            assert since - 1 not in by_cycle and until + 1 not in by_cycle
        elif later := [u for u in by_cycle if u > t]:
            assert words.endswith(f"from cycle {min(later)}."), words
        else:
            assert words == "Cell (1,1) is idle; its work is done."


# ----------------------------------------------------------------------------------- numbers and hands


def test_numbers_of_batch_1_and_batch_256(on_stage: Open) -> None:
    """The contrast the scene is there for, by the closed form: 2R + C + T - 2 cycles, T rows of A."""
    lanes = [run(m, k=16, n=16, rows=16, cols=16) for m in (1, 256)]
    page = on_stage(BatchesPlayer(lanes, start=0))
    page.keyboard.press("Tab")
    seek(page, lanes[1].cycles - 1)
    shown = {
        name: values
        for name, *values in page.eval_on_selector_all(
            ".pw-compare tbody tr", "(rows) => rows.map((row) => [...row.cells].map((x) => x.textContent))"
        )
    }
    cycles = [2 * 16 + 16 + rows - 2 for rows in (1, 256)]
    assert shown["cycles"] == [f"{c} / {c}" for c in cycles]
    assert shown["cycles per row"] == ["47", "1.18"]
    assert shown["weights per row"] == ["256", "1"]
    assert [x.split(" / ")[1] for x in shown["utilisation"]] == ["2.1\u00a0%", "85\u00a0%"]


def test_arrows_go_from_one_lane_into_the_next(on_stage: Open) -> None:
    page = on_stage(BatchesPlayer([run(1), run(4)], start=6))
    page.focus(".pw-picture")
    for _ in range(5):
        page.keyboard.press("ArrowDown")
    assert caption(page)[0].startswith("Lane 2, cell (0,0)")
    page.keyboard.press("ArrowUp")
    assert caption(page)[0].startswith("Lane 1, cell (3,0)")
    assert cycle(page) == 6


def test_pointing_at_a_cell_speaks_and_leaving_ends_it(on_stage: Open) -> None:
    page = on_stage(BatchesPlayer(run(), batches=SIZES, start=9))
    box = page.locator(".ba-array").bounding_box()
    assert box is not None
    side = box["width"] / 4
    page.mouse.move(box["x"] + 2.5 * side, box["y"] + 1.5 * side)
    page.wait_for_function("document.querySelector('.pw-caption').textContent.startsWith('Cell (1,2)')")
    page.mouse.move(5, 5)
    page.wait_for_function("!document.querySelector('.pw-caption').textContent.startsWith('Cell')")


@pytest.mark.parametrize("wide", [1280, 390])
def test_the_array_stands_whole_beside_its_stream(on_stage: Open, wide: int) -> None:
    weights = run(40, 64, 64, 64, 64)
    for player in (BatchesPlayer(run(), batches=SIZES), BatchesPlayer([run(1, 64, 64, 64, 64), weights])):
        page = on_stage(player, viewport=(wide, 900))
        resize(page, wide, 900)
        room = page.locator(".pw-picture").bounding_box()
        assert room is not None
        for i in range(page.locator(".ba-array").count()):
            box = page.locator(".ba-array").nth(i).bounding_box()
            assert box is not None
            assert box["x"] >= room["x"] and box["x"] + box["width"] <= room["x"] + room["width"]
