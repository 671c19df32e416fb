"""The tiling scene: what each cell does, what is counted and what is said is the cost's, in every frame."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scene_page import caption, opened, seek

from pulsewarp import systolic
from pulsewarp.widgets import _wire
from pulsewarp.widgets.tiling import TilingPlayer, pack_cost

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser
Open = Callable[..., "Page"]
FLOWS = ("ws", "os", "is")
SHAPES = [
    {"m": 5, "k": 7, "n": 6, "rows": 3, "cols": 4},
    {"m": 2, "k": 5, "n": 9, "rows": 4, "cols": 2},
    {"m": 9, "k": 3, "n": 2, "rows": 4, "cols": 5},
]


def cost_of(shape: dict[str, int], dataflow: str = "ws", overlap: bool = False) -> systolic.GemmCost:
    return systolic.gemm(**shape, dataflow=dataflow, overlap=overlap)


ALL = [
    cost_of(shape, dataflow, overlap) for shape in SHAPES for dataflow in FLOWS for overlap in (False, True)
]


def trace_of(cost: systolic.GemmCost) -> systolic.SystolicTrace:
    a, b = np.ones((cost.m, cost.k), np.int8), np.ones((cost.k, cost.n), np.int8)
    return systolic.simulate(
        a, b, rows=cost.rows, cols=cost.cols, dataflow=cost.dataflow, overlap=cost.overlap
    )


def exposed(change: tuple[str, str] | None = None) -> str:
    """Return a page with the scene's functions in reach as `scene`; `change` edits the module first."""
    page = TilingPlayer(ALL[0]).to_html()
    if change:
        assert change[0] in page
        page = page.replace(*change)
    return page.replace(
        "\nmountPage(", "\nwindow.scene = { ...$tiling, unpack: $kit_wire.unpack }; mountPage("
    )


def ask(page: Page, text: str, script: str) -> Any:
    """Return what a script makes of `cost`, read from a packed one."""
    page.wait_for_selector(".pw-shell")
    return page.evaluate(
        f"async (text) => {{ const cost = scene.readCost(await scene.unpack(text)); {script} }}", text
    )


@pytest.fixture(scope="module")
def scene(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """One page for all that is asked of the scene's functions and leaves no trace in it."""
    path = tmp_path_factory.mktemp("tiling") / "page.html"
    path.write_text(exposed(), encoding="utf-8")
    page = browser.new_page()
    page.goto(path.as_uri())
    yield page
    page.close()


COUNTS = """return Array.from({ length: cost.T }, (_, t) =>
    [cost.busy(t), cost.done(t), cost.done(t, true), cost.ended(t), cost.phase(t)]);"""


def miscounted(scene: Page, cost: systolic.GemmCost, text: str | None = None) -> list[str]:
    """Name the counts of the browser that are not the cost's, over all cycles."""
    busy, done, full, ended, phase = zip(*ask(scene, text or pack_cost(cost), COUNTS), strict=True)
    t = np.arange(cost.cycles)
    ends = np.array([fold.start + fold.cycles for fold in cost.plan()])
    checks = {
        "busy": np.array_equal(busy, cost.busy(t)),
        "done": np.array_equal(done, cost.macs(t)),
        "full": np.array_equal(full, cost.padded.macs(t)),
        "ended": np.array_equal(ended, (ends[:, None] <= t + 1).sum(axis=0)),
        "phase": list(phase) == [systolic.PHASES[i] for i in trace_of(cost).phase],
    }
    return [name for name, holds in checks.items() if not holds]


def test_every_count_is_the_costs(scene: Page) -> None:
    for cost in ALL:
        assert miscounted(scene, cost) == [], cost


def shifted(cost: systolic.GemmCost, column: str) -> str:
    """The packed cost with one column a line late."""
    header, columns = _wire.unpack(pack_cost(cost))
    keep = {key: value for key, value in header.items() if key not in ("form", "kind", "columns")}
    return _wire.pack("tiling", keep, columns | {column: np.roll(columns[column], 1, axis=0)})


@pytest.mark.parametrize("column", ["profile", "folds"])
def test_a_shifted_column_is_seen(scene: Page, column: str) -> None:
    assert miscounted(scene, ALL[0], shifted(ALL[0], column))


CELLS = """return Array.from({ length: cost.T }, (_, t) => Array.from({ length: cost.cells }, (_, i) => {
    const { state, fold, there, step } = cost.cell(t, Math.floor(i / cost.C), i % cost.C);
    return [state, fold.index, there, step];
}));"""


def misplaced(scene: Page, cost: systolic.GemmCost) -> list[tuple[Any, ...]]:
    """Name the cells whose state in the browser is not what the registers of a run say."""
    trace, wrong = trace_of(cost), []
    folds = cost.plan()
    for t, cells in enumerate(ask(scene, pack_cost(cost), CELLS)):
        for i, (state, index, there, step) in enumerate(cells):
            r, c = divmod(i, cost.cols)
            if (state == "works") != bool(trace.active[t, r, c]):
                wrong.append((t, r, c, state))
            if state == "works" and trace.start[index, r, c] + step != t:
                wrong.append((t, r, c, "step", step))
            if (state == "padding") != (r >= folds[index].rows or c >= folds[index].cols):
                wrong.append((t, r, c, "padding", index))
            # Where folds overlap, an element that waits is in the shadow register.
            if state == "waits" and not cost.overlap and there != (trace.held_index[t, r, c] >= 0):
                wrong.append((t, r, c, "there", there))
    return wrong


def test_every_cell_does_what_its_registers_say(scene: Page) -> None:
    for cost in ALL:
        assert misplaced(scene, cost) == [], cost


@pytest.mark.parametrize(
    "change",
    [
        ("const step = t - own.begin - r - c;", "const step = t - own.begin - r - c - 1;"),
        ("const i = overlap ? begun(t - r - c) :", "const i = overlap ? begun(t) :"),
        ("load - 1 - (t - one.first)", "load - (t - one.first)"),
    ],
    ids=["a cycle late", "no skew between folds", "loaded a row late"],
)
def test_a_fault_in_the_look_up_is_seen(open_html: Open, change: tuple[str, str]) -> None:
    """Mutants of the browser's own look-up."""
    faulty = open_html(exposed(change))
    assert any(misplaced(faulty, cost) for cost in ALL[:2])


PIXELS = """const q = %d, seen = [];
const pixels = new Uint32Array(cost.cells * q * q);
for (let t = 0; t < cost.T; t += %d) {
    scene.fillArray(pixels, cost, t, "light", q);
    const count = (...tones) => pixels.reduce((sum, one) => sum + tones.includes(one), 0) / (q * q);
    const tone = (r, g, b) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
    seen.push([t, count(tone(0, 114, 178), tone(125, 190, 224), tone(176, 84, 0))]);
}
return seen;"""


def test_as_many_pixels_work_as_cells(scene: Page) -> None:
    large = [
        systolic.gemm(m=64, k=129, n=129, rows=128, cols=128),
        systolic.gemm(m=300, k=200, n=300, rows=128, cols=64, overlap=True),
        systolic.gemm(m=40, k=50, n=300, rows=256, cols=256, dataflow="os"),
    ]
    for cost in large:
        for t, working in ask(scene, pack_cost(cost), PIXELS % (1, 61)):
            assert working == cost.busy(t), (cost, t)
    small = cost_of(SHAPES[0])
    for t, working in ask(scene, pack_cost(small), PIXELS % (3, 1)):
        assert working == small.busy(t), t


# -------------------------------------------------------------------------------------- what is said

WORDS = "return Array.from({ length: cost.T }, (_, t) => scene.frameWords(cost, t).join(' '));"


def counted(words: str) -> int:
    """Return how many cells a sentence says are at work."""
    if "o cell multiplies" in words:
        return 0
    found = re.search(r"([\d,]+)(?: of (?:the )?[\d,]+)? cells(?: in use)? multipl(?:y|ies)\b", words)
    assert found, words
    return int(found[1].replace(",", ""))


def untrue(scene: Page, cost: systolic.GemmCost, text: str | None = None) -> list[str]:
    """Name what is said of a frame and does not hold in the run."""
    wrong, trace = [], trace_of(cost)
    for t, words in enumerate(ask(scene, text or pack_cost(cost), WORDS)):
        now = [fold for fold in trace.folds if trace.start[fold.index, 0, 0] - cost.load <= t][-1]
        if cost.overlap and cost.folds > 1:
            now = [f for f in trace.folds if trace.start[f.index, 0, 0] <= t or f.index == 0][-1]
            per_fold = re.findall(r"([\d,]+) for fold (\d+)", words)
            for count, number in per_fold:
                start = trace.start[int(number) - 1]
                working = (start >= 0) & (start <= t) & (t < start + trace.length[int(number) - 1])
                if int(count.replace(",", "")) != np.count_nonzero(working):
                    wrong.append(f"{t}: {words}")
        elif not words.startswith(systolic.PHASES[trace.phase[t]].capitalize()):
            wrong.append(f"{t}: {words}")
        used = now.rows * now.cols
        fills = (
            f"all {used} cells"
            if used == cost.rows * cost.cols
            else f"{used} of {cost.rows * cost.cols} cells"
        )
        if counted(words) != trace.schedule.busy[t] or f"fills {fills}" not in words:
            wrong.append(f"{t}: {words}")
    return wrong


def test_every_caption_is_true_to_its_frame(scene: Page) -> None:
    for cost in ALL:
        assert untrue(scene, cost) == [], cost


@pytest.mark.parametrize("column", ["profile", "folds"])
def test_a_caption_of_a_shifted_run_is_seen_to_be_untrue(scene: Page, column: str) -> None:
    assert untrue(scene, ALL[0], shifted(ALL[0], column))


@pytest.mark.parametrize("dataflow", FLOWS)
def test_each_cells_sentence_names_the_product_it_forms(scene: Page, dataflow: str) -> None:
    cost = cost_of(SHAPES[0], dataflow)
    macs = trace_of(cost).macs()
    scene.wait_for_selector(".pw-shell")
    said = scene.evaluate(
        """async ([text, places]) => { const cost = scene.readCost(await scene.unpack(text));
          return places.map(([t, r, c]) => scene.describe(cost, t, r, c).join(" ")); }""",
        [pack_cost(cost), macs[:, :3].tolist()],
    )
    for (_, r, c, m, n, k), words in zip(macs.tolist(), said, strict=True):
        assert words.startswith(f"Cell ({r},{c}) multiplies: "), words
        assert f"A[{m},{k}]" in words and f"B[{k},{n}]" in words and f"C[{m},{n}]" in words, words


def test_every_cell_has_a_sentence_in_every_frame(scene: Page) -> None:
    script = """return Array.from({ length: cost.T }, (_, t) => Array.from({ length: cost.cells }, (_, i) =>
        scene.describe(cost, t, Math.floor(i / cost.C), i % cost.C).join(" "))).flat();"""
    for cost in ALL:
        for words in ask(scene, pack_cost(cost), script):
            assert words.endswith(".") and "undefined" not in words and "NaN" not in words, words


# -------------------------------------------------------------------------------------- the page

WASTE = systolic.gemm(m=64, k=129, n=129, rows=128, cols=128)


def test_a_quarter_is_useful_one_above_the_array(open_html: Open) -> None:
    page = opened(open_html, TilingPlayer(WASTE))
    assert page.inner_text(".ti-share") == "25.4 % useful, 74.6 % padding."
    assert page.locator(".ti-percent").all_text_contents() == ["100 %", "0.8 %", "0.8 %", "0.006 %"]
    assert "SCALE-Sim 3.0.0 counts 1,783" in page.inner_text(".pw-given")


def test_what_is_on_screen_follows_the_playhead(open_html: Open) -> None:
    page = opened(open_html, TilingPlayer(WASTE))
    for t in (0, 256, 700, 1150, 1783):
        seek(page, t)
        busy = WASTE.busy(t)
        assert page.locator(".pw-now").all_text_contents()[1] == f"now {busy:,} of 16,384"
        assert counted(" ".join(caption(page))) == busy
        bill = page.locator(".pw-ledger dd").all_text_contents()
        done, full = WASTE.macs(t), WASTE.padded.macs(t)
        assert bill[0] == f"{t + 1:,} of 1,784"
        for text, wanted in zip(bill[3:], (done, full - done, 16384 * (t + 1) - full), strict=True):
            assert text.startswith(f"{wanted:,} ("), text


def test_the_table_names_the_folds_under_way(open_html: Open) -> None:
    cost = systolic.gemm(m=40, k=64, n=64, rows=32, cols=32, overlap=True)
    page = opened(open_html, TilingPlayer(cost))
    page.get_by_role("button", name="Table").click()
    for t in (10, 90, 130, cost.cycles - 1):
        seek(page, t)
        rows = page.eval_on_selector_all(
            ".pw-drawer table tbody tr",
            "(rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent))",
        )
        assert sum(int(row[4]) for row in rows) == cost.busy(t)
        for row in rows:
            fold = cost.plan()[int(row[0]) - 1]
            assert fold.start <= t < fold.start + fold.cycles
            assert (int(row[5]), int(row[6])) == (fold.start + cost.load, fold.start + fold.cycles - 1)


def test_a_cell_is_picked_by_hand_and_by_key(open_html: Open) -> None:
    page = opened(open_html, TilingPlayer(WASTE, start=600))
    box = page.locator(".ti-array canvas").bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] * 0.5 / 128, box["y"] + box["height"] * 5.5 / 128)
    assert caption(page)[0].startswith("Cell (5,0) is padding in fold 2")
    page.mouse.move(5, 5)
    page.locator(".pw-picture").focus()
    page.keyboard.press("ArrowUp")
    assert caption(page)[0].startswith("Cell (4,0) ")
    page.keyboard.press("Escape")
    assert caption(page)[0].startswith("Fill of fold 2 of 4: ")


def test_a_run_of_millions_of_cycles_opens_and_moves(open_html: Open) -> None:
    cost = systolic.gemm(m=4096, k=4096, n=4096, rows=128, cols=128, overlap=True)
    page = opened(open_html, TilingPlayer(cost))
    for t in (0, 2_600_705, cost.cycles - 1):
        seek(page, t)
        assert counted(" ".join(caption(page))) == cost.busy(t)
    assert "mean of every 512 cycles" in page.inner_text(".pw-panels")
