"""The warp scene on a bare page: what is drawn is what the trace says, and every way to use it works."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scene_page import settle

from pulsewarp import ledger, simt, widgets
from pulsewarp.widgets import warp as warp_module
from pulsewarp.widgets._wire import unpack

pytestmark = pytest.mark.browser

Instruction = simt.Instruction


def mixed() -> simt.WarpTrace:
    """Eight warps, one of them slow: every state but the limit occurs."""

    def program(load: int) -> list[Instruction]:
        return [
            Instruction("mem", load, 1, "r4", (), "LDG r4, [A]"),
            Instruction("alu", 4, 1, "r5", ("r4", "r5"), "FFMA r5, r4, r5, r5"),
            Instruction("alu", 4, 1, "r5", ("r5",), "FFMA r5, r5, r5, r5"),
            Instruction("sfu", 9, 4, "r7", ("r5",), "MUFU r7, r5"),
            simt.bar(),
            Instruction("mem", 3, 2, None, ("r7",), "STG [C], r7"),
        ]

    return simt.simulate([program(36 if w == 3 else 18) for w in range(8)], policy="lrr")


def limited() -> simt.WarpTrace:
    programs = [simt.load_stream(3, latency=12)] * 5
    return simt.simulate(programs, schedulers=2, policy="gty", max_outstanding=3, blocks=[0, 0, 1, 1, 2])


def barriers() -> simt.WarpTrace:
    late, others = simt.chain_and_barrier(2, 9), simt.chain_and_barrier(2, 2)
    return simt.simulate([late] + [others] * 6, schedulers=2, policy="gto", blocks=[0, 0, 0, 0, 0, 1, 1])


def kernel(m: int = 4, k: int = 3, n: int = 4, schedulers: int = 2) -> simt.WarpTrace:
    rng = np.random.default_rng(5)
    a, b = rng.integers(-128, 128, (m, k)), rng.integers(-128, 128, (k, n))
    return simt.matmul_kernel(a, b, load_latency=6).simulate(schedulers=schedulers, policy="oldest")


def many() -> simt.WarpTrace:
    program = simt.load_compute(8, 5, load_latency=120, load_interval=2)
    return simt.simulate([program] * 64, policy="gto")


def pools() -> simt.WarpTrace:
    """Nine warps of one scheduler, of which six can be in its pool; a scheduler beside it has one warp."""
    program = simt.load_compute(2, 2, architecture="volta", load="LDS")
    return simt.simulate(
        [program if w % 2 == 0 else program[:1] for w in range(18)], schedulers=2, policy="two_level"
    )


def stuck() -> simt.WarpTrace:
    """A barrier that half a warp misses, in a block of three; another block's warp exits before its mate."""
    add, half = Instruction(dst="r0", srcs=("r0",)), Instruction("bar", lanes=16)
    programs = [[add, half, add], [simt.bar(), add], [add, simt.bar()], [simt.bar()], [add, add, add]]
    return simt.simulate(programs, blocks=[0, 0, 0, 1, 1], schedulers=4)


TRACES = [mixed, limited, barriers, kernel, pools, stuck]


def caption(trace: simt.WarpTrace, t: int) -> list[str]:
    """The schedulers' sentences; those of schedulers with nothing to do share a line."""
    told = [trace.why(t, s) for s in range(trace.schedulers)]
    for one, several in (
        ("it has no warps.", "they have no warps."),
        ("all its warps have finished.", "all their warps have finished."),
    ):
        same = [s for s, sentence in enumerate(told) if sentence.endswith(f"issues nothing: {one}")]
        if len(same) > 1:
            names = f"{', '.join(map(str, same[:-1]))} and {same[-1]}"
            told[same[0]] = f"Schedulers {names} issue nothing: {several}"
            for s in same[1:]:
                told[s] = ""
    return [sentence for sentence in told if sentence]


# --- what is on the page -----------------------------------------------------------------------------------

READ = """(cycle) => {
  const scrub = document.querySelector('.pw-scrub');
  scrub.value = cycle;
  scrub.dispatchEvent(new Event('input'));
  const texts = (selector) => [...document.querySelectorAll(selector)].map((node) => node.textContent);
  const canvas = document.querySelector('.pw-warps'), data = canvas.dataset;
  const scale = canvas.width / parseFloat(canvas.style.width);
  const image = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const colour = getComputedStyle(canvas).getPropertyValue('--ink');
  const ink = colour.match(/[0-9a-f]{2}/gi).map((x) => parseInt(x, 16));
  const inked = (x, y) => {
    const i = (Math.floor(y * scale) * image.width + Math.floor(x * scale)) * 4;
    return ink.every((value, c) => Math.abs(value - image.data[i + c]) < 6);
  };
  const names = ['first', 'count', 'cell', 'label', 'mark'];
  const [first, count, cell, label, mark] = names.map((name) => Number(data[name]));
  const all = (selector, read) => [...document.querySelectorAll(selector)].map(read);
  const issues = [];
  data.rows.split(' ').map(Number).forEach((top, w) => {
    for (let t = first; t < Math.min(first + count, cycle + 1); t++) {
      const x = label + (t - first + 0.5) * cell, y = top + mark - 2;
      if ([x - cell / 4, x - cell / 8, x].every((at) => inked(at, y))) issues.push([t, w]);
    }
  });
  return {
    first, until: cycle + 1, issues,
    cycle: document.querySelector('.pw-cycle').textContent,
    sentences: texts('.pw-caption p'),
    table: all('.pw-drawer tbody tr', (row) => [...row.children].map((cell) => cell.textContent)),
    listing: all('.pw-program li:not([hidden])', (row) => [row.dataset.pc, row.dataset.warps]),
    slots: { ...document.querySelector('[data-total]').dataset },
    now: texts('.pw-now'),
    lanes: all('.pw-lanes li', (cell) => cell.dataset.value ?? null),
    stored: document.querySelector('.pw-matrix')?.dataset.stored ?? null,
    matrix: all('.pw-matrix li', (cell) => [cell.textContent, cell.className.split('-')[1]]),
  };
}"""


def differences(page: Any, trace: simt.WarpTrace, cycles: list[int]) -> list[str]:
    """Name everything on the page that is not as the trace says; empty when all agrees."""
    wrong: list[str] = []
    if page.locator("[id$=-table]").is_hidden():
        page.get_by_role("button", name="Table").click()
    bill = ledger.warp(trace)
    for t in cycles:
        seen = page.evaluate(READ, t)
        expected: dict[str, Any] = {"cycle": f"cycle {t} (0 to {trace.cycles - 1})"}
        expected["issues"] = sorted(
            [u, int(w)] for u in range(seen["first"], t + 1) for w in trace.issued[u] if w >= 0
        )
        seen["issues"].sort()
        expected["sentences"] = [*caption(trace, t), trace.why_warp(t, 0)]
        order = [w for s in range(trace.schedulers) for w in range(s, trace.warps, trace.schedulers)]
        several = len(set(trace.blocks)) > 1
        expected["table"] = [
            [
                f"w{w}",
                *([str(trace.blocks[w])] if several else []),
                str(w % trace.schedulers),
                next_text(trace, t, w),
                trace.why_warp(t, w),
            ]
            for w in order
        ]
        mates = [w for w in range(trace.warps) if trace.programs[w] is trace.programs[0]]
        expected["listing"] = [
            [pc, " ".join(str(w) for w in mates if trace.pc[t, w] == int(pc))] for pc, _ in seen["listing"]
        ]
        lost = {reason: int(column[t]) for reason, column in bill.lost.items() if column[t]}
        told = dict(part.split(":") for part in seen["slots"]["lost"].split())
        seen["slots"] = [
            int(seen["slots"]["used"]),
            int(seen["slots"]["total"]),
            {k: int(v) for k, v in told.items()},
        ]
        expected["slots"] = [int(bill.issued[t]), int(bill.slots[t]), lost]
        expected["now"] = [f"now {int((trace.issued[t] >= 0).sum())} of {trace.schedulers}"]
        if trace.kernel is not None:
            expected |= kernel_frame(trace, t)
            seen["now"] = [text for text in seen["now"] if text.startswith("now")]
            seen["lanes"] = [value and float(value) for value in seen["lanes"]]
        wrong += [
            f"cycle {t}, {name}: drawn {seen[name]!r}, in the trace {value!r}"
            for name, value in expected.items()
            if seen[name] != value
        ]
    return wrong


def next_text(trace: simt.WarpTrace, t: int, w: int) -> str:
    pc = int(trace.pc[t, w])
    return trace.programs[w][pc].text if pc < len(trace.programs[w]) else "none left"


def kernel_frame(trace: simt.WarpTrace, t: int) -> dict[str, Any]:
    """Return lanes of w0 and C as they must stand after cycle `t`, from the trace's arrays alone."""
    assert trace.kernel is not None
    values, on = trace.kernel.lane_values, trace.kernel.active_lanes
    m, n = trace.kernel.result.shape
    issued = [np.flatnonzero((trace.issued[: t + 1] == w).any(axis=1)) for w in range(trace.warps)]
    last = len(issued[0]) - 1
    lanes = [float(values[0][last, lane]) if last >= 0 and lane < on[0] else None for lane in range(32)]
    matrix, stored = [], 0
    for i in range(m * n):
        w, lane = divmod(i, 32)
        program = trace.programs[w]
        landed = [
            pc for pc, u in enumerate(issued[w]) if program[pc].unit == "alu" and u + program[pc].latency <= t
        ]
        done = len(issued[w]) == len(program)
        stored += done
        text = str(int(values[w][landed[-1], lane])) if landed else ""
        matrix.append([text, "stored" if done else "partial" if landed else "empty"])
    return {"lanes": lanes, "stored": str(stored), "matrix": matrix}


@pytest.fixture
def scene(open_html: Callable[..., Any]) -> Callable[..., Any]:
    """Open a player's page and wait for its scene."""

    def show(trace: simt.WarpTrace, options: dict[str, Any] | None = None, **view: Any) -> Any:
        page = open_html(widgets.WarpPlayer(trace, **(options or {})).to_html(), **view)
        page.locator(".pw-shell").wait_for()
        return page

    return show


@pytest.mark.parametrize("make", TRACES)
def test_every_cycle_is_drawn_as_the_trace_says(scene: Any, make: Callable[[], simt.WarpTrace]) -> None:
    trace = make()
    assert not differences(scene(trace), trace, list(range(trace.cycles)))


def test_64_warps_are_drawn_as_the_trace_says(scene: Any) -> None:
    trace = many()
    cycles = [0, 1, 119, 120, trace.cycles // 2, trace.cycles - 1]
    page = scene(trace)
    assert not differences(page, trace, cycles)
    rows = [float(y) for y in page.locator(".pw-warps").get_attribute("data-rows").split()]
    assert len(rows) == 64
    assert min(np.diff(sorted(rows))) >= 9  # labels of 11 px stand in two columns, so 9 px a row is enough


@pytest.mark.parametrize("scale_to", [390, 700, 1600])
def test_every_width_draws_the_same_run(scene: Any, scale_to: int) -> None:
    trace = mixed()
    page = scene(trace, viewport=(scale_to, 900))
    assert not differences(page, trace, [0, 18, 40, trace.cycles - 1])
    assert page.evaluate("document.documentElement.scrollWidth") <= scale_to


def test_8x8_values_fit_their_cells(scene: Any) -> None:
    a = np.full((8, 8), -128)
    trace = simt.matmul_kernel(a, a * 32, load_latency=6).simulate()
    for width in (390, 700, 1280):
        page = scene(trace, viewport=(width, 900))
        page.evaluate(READ, trace.cycles - 1)
        cut = page.evaluate(
            """() => [...document.querySelectorAll('.pw-lanes li, .pw-matrix li')]
                 .filter((cell) => cell.scrollWidth > cell.clientWidth + 1).map((cell) => cell.textContent)"""
        )
        assert not cut


# --- planted faults: the check above must see them ---------------------------------------------------------


def planted(monkeypatch: pytest.MonkeyPatch, name: str, spoil: Callable[[Any], Any]) -> None:
    real = warp_module.pack

    def pack(kind: str, header: Any, columns: Any, codings: Any) -> str:
        return real(kind, header, {**columns, name: spoil(np.array(columns[name]))}, codings)

    monkeypatch.setattr(warp_module, "pack", pack)


def one_issue_moved(issued: Any) -> Any:
    t, s = np.argwhere(issued >= 0)[3]
    issued[t, s] = -1
    return issued


def a_second_issue_in_one_cycle(state: Any) -> Any:
    t, w = np.argwhere(state == simt.STATES.index("issues"))[3]
    state[t, (w + 4) % 8] = state[t, w]
    return state


@pytest.mark.parametrize(
    "column, spoil, seen_in",
    [
        ("issued", one_issue_moved, "now:"),
        ("state", lambda state: np.roll(state, 1, axis=0), "issues:"),
        ("state", a_second_issue_in_one_cycle, "issues:"),
        ("sentence", lambda ids: np.roll(ids, 1, axis=0), "sentences:"),
        ("pc", lambda pc: np.maximum(pc - 1, 0), "listing:"),
        ("until", lambda until: until + (until >= 0), "table:"),
        ("lost", lambda lost: lost[:, ::-1], "slots:"),
        ("values", lambda values: values + 1, "lanes:"),
    ],
)
def test_mutant_a_wrong_column_turns_the_check_red(
    scene: Any, monkeypatch: pytest.MonkeyPatch, column: str, spoil: Callable[[Any], Any], seen_in: str
) -> None:
    trace = kernel() if column == "values" else mixed()
    planted(monkeypatch, column, spoil)
    page = scene(trace, errors_expected=True)  # a spoilt run may name an instruction that does not exist
    found = differences(page, trace, [*range(8), *range(8, trace.cycles, 5), trace.cycles - 1])
    assert any(seen_in in line for line in found)


# --- the first frame, the legend, the rule -----------------------------------------------------------------


def test_the_first_frame_tells_before_anything_is_pressed(scene: Any) -> None:
    trace = mixed()
    page = scene(trace)
    cycle = int(page.locator(".pw").get_attribute("data-cycle"))
    assert cycle > 0
    assert page.locator(".pw").get_attribute("data-playing") == "false"
    assert page.locator(".pw-rule").inner_text().startswith("Rule: one instruction per scheduler and cycle")
    assert page.locator("h3").inner_text() == "One SM: 8 warps, 4 schedulers, loose round robin"
    assert (
        "(illustrative): LDG 18 or 36, FFMA 4, MUFU 9 (unit busy 4), STG"
        in page.locator(".pw-given").inner_text()
    )
    assert "not documented by NVIDIA" in page.locator(".pw-simplified").inner_text()
    words = page.locator(".pw-caption").inner_text()
    assert "issues" in words and "waits for memory" in words
    page.wait_for_timeout(400)
    assert int(page.locator(".pw").get_attribute("data-cycle")) == cycle


def test_the_legend_names_the_states_that_occur_and_no_other(scene: Any) -> None:
    page = scene(limited())
    shown = page.eval_on_selector_all(".pw-swatch", "all => all.map((one) => one.dataset.state)")
    assert set(shown) == {simt.STATES[code] for code in np.unique(limited().state)}


def test_a_real_sms_four_schedulers_are_said_where_the_picture_has_fewer(scene: Any) -> None:
    assert (
        "An SM since Volta has 4 schedulers; this one has 2"
        in scene(limited()).locator(".pw-simplified").inner_text()
    )


def test_schedulers_without_warps_are_shown_idle(scene: Any) -> None:
    trace = kernel(schedulers=4)
    assert not differences(scene(trace), trace, [0, trace.cycles - 1])


# --- using it ----------------------------------------------------------------------------------------------


def cycle_of(page: Any) -> int:
    return int(page.locator(".pw").get_attribute("data-cycle"))


def test_keys_step_jump_and_go_to_chapters(scene: Any) -> None:
    trace = mixed()
    page = scene(trace)
    page.locator(".pw").focus()
    page.keyboard.press("Home")
    assert cycle_of(page) == 0
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    assert cycle_of(page) == 1
    page.keyboard.press("Shift+ArrowRight")
    assert cycle_of(page) == next(cycle for cycle, _ in trace.events() if cycle > 1)
    page.keyboard.press("End")
    assert cycle_of(page) == trace.cycles - 1


def test_the_cell_cursor_walks_warps_and_cycles(scene: Any) -> None:
    trace = mixed()
    page = scene(trace, {"start": 10})
    page.locator(".pw-picture").focus()
    page.keyboard.press("ArrowDown")  # rows stand by scheduler: below w0 is w4
    assert page.locator(".pw-caption p").last.inner_text() == trace.why_warp(10, 4)
    page.keyboard.press("ArrowLeft")
    assert page.locator(".pw-caption p").last.inner_text() == f"At cycle 9: {trace.why_warp(9, 4)}"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.locator(".pw-caption p").last.inner_text() == f"At cycle 11: {trace.why_warp(11, 4)}"
    assert cycle_of(page) == 10
    page.keyboard.press(".")
    assert (cycle_of(page), page.locator(".pw-caption p").last.inner_text()) == (11, trace.why_warp(11, 4))


def place(page: Any, t: int, w: int) -> dict[str, float]:
    data = page.evaluate("() => ({...document.querySelector('.pw-warps').dataset})")
    x = float(data["label"]) + (t - int(data["first"]) + 0.5) * float(data["cell"])
    return {"x": x, "y": float(data["rows"].split()[w]) + float(data["mark"]) / 2}


def test_pointing_says_what_is_there_and_goes_away(scene: Any) -> None:
    trace = mixed()
    page = scene(trace, {"start": 20})
    canvas = page.locator(".pw-warps")
    canvas.hover(position=place(page, 14, 6))
    assert page.locator(".pw-tip").inner_text() == f"Cycle 14: {trace.why_warp(14, 6)}"
    assert page.locator(".pw-caption p").last.inner_text() == f"At cycle 14: {trace.why_warp(14, 6)}"
    page.locator("h3").hover()
    assert page.locator(".pw-tip").is_hidden()
    assert page.locator(".pw-caption p").last.inner_text() == trace.why_warp(20, 0)


def test_a_tap_picks_a_warp_and_its_program(scene: Any) -> None:
    trace = mixed()
    page = scene(trace, {"start": 20}, viewport=(390, 844), touch=True)
    page.locator(".pw-warps").tap(position=place(page, 20, 3))
    assert page.locator(".pw-program h4").inner_text() == "program of w3 alone"
    assert page.locator(".pw-caption p").last.inner_text() == trace.why_warp(20, 3)


def test_a_bar_by_turns_tells_the_warps_of_a_block(scene: Any) -> None:
    trace = limited()
    page = scene(trace)
    seen = page.eval_on_selector(
        "canvas.pw-warps",
        """(canvas) => {
          const scale = canvas.width / parseFloat(canvas.style.width), pen = canvas.getContext("2d");
          const x = Math.round((Number(canvas.dataset.label) - 3) * scale);
          const ys = canvas.dataset.rows.split(" ").map(Number);
          return ys.map((y) => [...pen.getImageData(x, Math.round((y + 4) * scale), 1, 1).data].join());
        }""",
    )
    shades = [seen[w] for w in range(trace.warps)]
    assert shades[0] == shades[1] == shades[4], "blocks 0 and 2"
    assert shades[2] == shades[3] != shades[0]
    assert "a bar by turns" in page.locator(".pw-legend").inner_text()


def test_play_runs_and_pause_rests(scene: Any) -> None:
    page = scene(mixed())
    page.locator(".pw-select").select_option("30")
    page.get_by_role("button", name="Play from 0").click()
    page.wait_for_function("Number(document.querySelector('.pw').dataset.cycle) > 3")
    page.get_by_role("button", name="Pause").click()
    page.wait_for_selector(".pw[data-playing=false]")
    assert page.evaluate("left.frames.size") == 0, "nothing is left that could move it"


def test_a_scene_off_screen_asks_for_no_frame(scene: Any) -> None:
    page = scene(mixed(), viewport=(1280, 700))
    page.evaluate("document.body.style.paddingBottom = '4000px'")
    page.get_by_role("button", name="Play from 0").click()
    page.wait_for_function("Number(document.querySelector('.pw').dataset.cycle) > 0")
    page.evaluate("window.scrollTo(0, 3500)")
    page.wait_for_function("left.frames.size === 0")
    stood = cycle_of(page)
    page.wait_for_timeout(600)
    assert cycle_of(page) == stood
    page.evaluate("window.scrollTo(0, 0)")
    page.wait_for_function(f"Number(document.querySelector('.pw').dataset.cycle) > {stood}")


def test_a_hidden_future_cannot_be_read(scene: Any) -> None:
    trace = mixed()
    page = scene(trace, {"start": 10, "future": "hidden"})
    paper = """([x, y]) => {
      const canvas = document.querySelector('.pw-warps');
      const scale = canvas.width / parseFloat(canvas.style.width);
      const [left, top, wide, high] = [x, y, 300, 60].map((length) => length * scale);
      const { data } = canvas.getContext('2d').getImageData(left, top, wide, high);
      const pixels = Array.from({ length: data.length / 4 }, (_, i) => data.slice(4 * i, 4 * i + 3).join());
      return new Set(pixels).size;
    }"""
    later = place(page, 12, 4)
    assert page.evaluate(paper, [later["x"], later["y"] + 14]) == 1
    page.locator(".pw-warps").hover(position=place(page, 30, 5))
    assert page.locator(".pw-tip").is_hidden()
    page.locator(".pw-picture").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(".pw-caption p").last.inner_text() == trace.why_warp(10, 0)


def test_a_scene_that_was_out_of_the_page_comes_back_as_it_was(scene: Any) -> None:
    page = scene(mixed(), dark=True)
    wide = "document.querySelector('.pw-slots').style.width"
    before = page.evaluate(wide)
    page.evaluate(
        "window.held = document.querySelector('.pw'); window.home = held.parentElement; held.remove()"
    )
    page.emulate_media(color_scheme="light")  # a change of theme draws while nothing has a width
    page.wait_for_function("held.dataset.theme === 'light'")
    page.evaluate("home.append(held)")
    settle(page)
    assert page.evaluate(wide) == before != "120px"


def test_lanes_and_result_stand_below_the_transport(scene: Any) -> None:
    page = scene(kernel(), viewport=(830, 800))
    foot = page.locator(".pw-foot").bounding_box()
    lanes = page.locator(".pw-lanes").bounding_box()
    assert foot["y"] + foot["height"] <= lanes["y"]


def test_reduced_motion_shows_the_film_strip_and_steps(scene: Any) -> None:
    trace = mixed()
    page = scene(trace, reduced_motion=True)
    stills = page.locator(".pw-film figure")
    assert stills.count() >= 4
    assert trace.why(0, 0) in stills.first.inner_text()
    before = cycle_of(page)
    page.get_by_role("button", name="Step", exact=True).click()
    assert cycle_of(page) == before + 1
    assert page.evaluate("left.frames.size") == 0


def test_what_is_copied_is_the_python_that_recreates_the_run(scene: Any) -> None:
    player = widgets.WarpPlayer(kernel())
    assert scene(kernel()).locator(".pw-python").text_content() == unpack(player.trace)[0]["python"]


# --- access and lifetime -----------------------------------------------------------------------------------


def test_lanes_and_results_have_no_serious_accessibility_finding(scene: Any, serious: Any) -> None:
    page = scene(kernel())
    page.get_by_role("button", name="Table").click()
    page.get_by_role("button", name="Help").click()
    assert serious(page, dark_too=True) == []
