"""The fault scene on a bare page: both machines as traced, marks and sentences true, no answer shown."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scene_page import caption, cycle, opened, resize, seek, settle, spilt_texts, two_views

from pulsewarp import systolic
from pulsewarp.systolic import REGISTERS
from pulsewarp.widgets import _wire
from pulsewarp.widgets.fault import FaultPlayer

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

Trace = systolic.SystolicTrace
Open = Callable[..., "Page"]
TIMES = "\u00d7"  # as the scene writes it
RNG = np.random.default_rng(7)
A, B = RNG.integers(-9, 10, (4, 4)), RNG.integers(-9, 10, (4, 4))


def runs(kind: str, dataflow: str = "ws", side: int = 4, **cell: int) -> tuple[Trace, Trace]:
    options: dict[str, Any] = {"rows": side, "cols": side, "dataflow": dataflow}
    return (
        systolic.simulate(A, B, **options),
        systolic.simulate(A, B, **options, fault=systolic.Fault(kind, **cell)),
    )


def hidden() -> FaultPlayer:
    return FaultPlayer(*runs("stuck_cell", row=1, col=2), hide_fault=True)


def changed(player: FaultPlayer, change: Callable[[dict[str, Any]], dict[str, Any]]) -> FaultPlayer:
    """The player with other columns in its wire: what a mutant would have sent."""
    header, columns = _wire.unpack(player.trace)
    head = {key: value for key, value in header.items() if key not in ("form", "kind", "columns")}
    player.trace = _wire.pack("fault", head, {**columns, **change(columns)})
    return player


# ---------------------------------------------------------------------------- what is shown is the two traces

READ = """() => {
  const cells = (n) => [...document.querySelectorAll(`.ft-machine:nth-child(${n}) .sy-cell`)].map((cell) => ({
    state: cell.dataset.state, wrong: cell.dataset.wrong !== undefined,
    crossed: cell.querySelector(".sy-cross").getAttribute("visibility") === "visible",
    values: Object.fromEntries(["a", "b", "c"].map((letter) => {
      const text = cell.querySelector(`text.sy-${letter}`);
      const value = (text?.textContent ?? "").replace(/^(sum|[abc]) /, "");
      return [letter, [value, text?.dataset.wrong !== undefined]];
    })),
  }));
  const texts = (selector) => [...document.querySelectorAll(selector)].map((x) => x.textContent);
  return {
    machines: [cells(1), cells(2)],
    results: [...document.querySelectorAll(".ft-element")].map((box) => box.dataset.wrong !== undefined),
    values: texts(".ft-results .sy-c"),
    counted: texts(".pw-now"),
  };
}"""


def element(trace: Trace, t: int, register: str, r: int, c: int) -> tuple[int, Any]:
    """What a register holds: element (-1 for none) and value; nothing once the run has ended."""
    if t >= trace.cycles:
        return -1, 0
    index, values = getattr(trace, f"{register}_index"), getattr(trace, register)
    return int(index[t, r, c]), values[t, r, c].item()


def told(sound: Trace, broken: Trace) -> np.ndarray:
    """When each result of the broken machine is out, or should have been."""
    when = np.full((sound.m, sound.n), -1)
    for trace in (sound, broken):
        for t, _, m, n, final in trace.exits().tolist():
            if final:
                when[m, n] = t
    return when


def wrong_parts(page: Page, sound: Trace, broken: Trace, t: int) -> list[Any]:
    """Name every value and mark on the page that is not the two traces'."""
    seen = page.evaluate(READ)
    wrong: list[Any] = []
    for r, c in np.ndindex(sound.rows, sound.cols):
        off = {
            register
            for register in REGISTERS
            if element(sound, t, register, r, c) != element(broken, t, register, r, c)
        }
        works = [t < run.cycles and bool(run.active[t, r, c]) for run in (sound, broken)]
        for i, trace in enumerate((sound, broken)):
            cell = seen["machines"][i][r * sound.cols + c]
            if (cell["state"] == "working") != works[i]:
                wrong.append((t, i, r, c, "state"))
            marked = i == 1 and (bool(off) or works[0] != works[1])
            if not cell["wrong"] == cell["crossed"] == marked:
                wrong.append((t, i, r, c, "mark"))
            for register, letter in trace.roles.items():
                index, value = element(trace, t, register, r, c)
                there = index >= 0 or value != 0  # a broken machine may hold what belongs to no element
                wanted = [str(value) if there else "", i == 1 and register in off and there]
                if cell["values"][letter] != wanted:
                    wrong.append((t, i, r, c, letter, cell["values"][letter], wanted))
    when, bad = told(sound, broken), sound.result != broken.result
    if seen["results"] != [False] * bad.size + (bad & (when <= t)).ravel().tolist():
        wrong.append((t, "results marked"))
    due = np.stack([told(sound, sound), when])
    values = np.stack([sound.result, broken.result])
    if seen["values"] != [
        str(v) if d <= t else "·" for d, v in zip(due.ravel(), values.ravel(), strict=True)
    ]:
        wrong.append((t, "results"))
    if f"{(bad & (when <= t)).sum()} wrong of {(when <= t).sum()} so far" not in seen["counted"]:
        wrong.append((t, "count of results", seen["counted"]))
    return wrong


FAULTS = [
    runs("no_skew"),
    runs("load_reversed", "is"),
    runs("hop_of_two", "os"),
    runs("fold_dropped", side=2),
    runs("stuck_cell", row=1, col=2),
    runs("late_by_one", "is"),
]
NAMES = [f"{broken.fault.kind} {broken.dataflow}" for _, broken in FAULTS if broken.fault]


MUTANTS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "machines swapped": lambda columns: {
        name: columns[f"{other}.{name.partition('.')[2]}"]
        for machine, other in (("sound", "broken"), ("broken", "sound"))
        for name in columns
        if name.startswith(f"{machine}.")
    },
    "nothing marked": lambda columns: {"differ": np.zeros_like(columns["differ"])},
    "marks a cycle late": lambda columns: {"differ": np.roll(columns["differ"], 1, axis=0)},
    "results all right": lambda columns: {"wrong": np.zeros_like(columns["wrong"])},
    "broken a cycle late": lambda columns: {"broken.down": np.roll(columns["broken.down"], 1, axis=0)},
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_planted_fault_is_seen(mutant: str, open_html: Open) -> None:
    pair = runs("no_skew")
    page = opened(open_html, changed(FaultPlayer(*pair), MUTANTS[mutant]))
    seek(page, 9)
    assert wrong_parts(page, *pair, 9)


# ------------------------------------------------------------------------- sentences, against the traces

OPERANDS = (
    r"multiplies A\[(\d+),(\d+)\] = (-?\d+) by B\[(\d+),(\d+)\] = (-?\d+)|"
    r"multiplies B\[(\d+),(\d+)\] = (-?\d+) by A\[(\d+),(\d+)\] = (-?\d+)"
)


def untrue(words: list[str], sound: Trace, broken: Trace, t: int) -> list[str]:
    """Name what a frame's sentences claim and the traces do not; empty when all is true."""
    text, wrong = " ".join(words), []
    differing = sum(
        element(sound, t, register, r, c) != element(broken, t, register, r, c)
        for register in REGISTERS
        for r, c in np.ndindex(sound.rows, sound.cols)
    )
    count = re.search(r"(\d+) of (\d+) registers differ", text)
    if (int(count[1]) if count else 0) != differing:
        wrong.append("number of registers")
    if (cell := re.search(r"Cell \((\d+),(\d+)\)", text)) is not None:
        r, c = int(cell[1]), int(cell[2])
    if (found := re.search(OPERANDS, text)) is not None:
        numbers = [int(x) for x in found.groups() if x is not None]
        if found[1] is None:
            numbers = numbers[3:] + numbers[:3]
        am, ak, a, bk, bn, b = numbers
        holds = {letter: element(broken, t, register, r, c) for register, letter in broken.roles.items()}
        if holds["a"] != (am * broken.k + ak, a) or holds["b"] != (bk * broken.n + bn, b):
            wrong.append("operands")
        if ("their k differ" in text) != (ak != bk):
            wrong.append("k")
        if belongs := re.search(r"it is that of C\[(\d+),(\d+)\]", text):
            at = int(belongs[1]) * broken.n + int(belongs[2])
            if holds["c"][0] != at or at == am * broken.n + bn:
                wrong.append("whose sum")
            line = re.search(r"belongs to (row|column) (\d+)", text)
            if not line or int(line[2]) != int(belongs[1 if line[1] == "row" else 2]):
                wrong.append("line of the sum")
        if "no sum has come" in text:
            place = re.search(
                r"that of C\[(\d+),(\d+)\] is (?:in cell \((\d+),(\d+)\)|not in the array)", text
            )
            at = am * broken.n + bn
            rows = [i for i in range(broken.rows) if broken.down_index[t, i, c] == at]
            if holds["c"][0] >= 0 or not place or ([int(place[3])] if place[3] else []) != rows[:1]:
                wrong.append("where the sum is")
        if zero := re.search(r"adds 0 instead of (-?\d+)", text):
            above = int(broken.down[t - 1, r - 1, c]) if r else 0
            if int(zero[1]) != a * b or int(broken.down[t, r, c]) != above:
                wrong.append("product of the faulty cell")
    if moved := re.search(
        r"([AB])\[(\d+),(\d+)\] is in cell \((\d+),(\d+)\); one cycle ago it was in cell \((\d+),(\d+)\)",
        text,
    ):
        register = next(name for name, letter in broken.roles.items() if letter == moved[1].lower())
        index = int(moved[2]) * {"A": broken.k, "B": broken.n}[moved[1]] + int(moved[3])
        here, before = (int(moved[4]), int(moved[5])), (int(moved[6]), int(moved[7]))
        indices = getattr(broken, f"{register}_index")
        if indices[(t, *here)] != index or indices[(t - 1, *before)] != index:
            wrong.append("where it was")
        if "two cells at once" in text and abs(sum(here) - sum(before)) != 2:
            wrong.append("how far")
    if late := re.search(r"([AB])\[(\d+),(\d+)\] should be in cell \((\d+),(\d+)\)", text):
        register = next(name for name, letter in sound.roles.items() if letter == late[1].lower())
        index = int(late[2]) * {"A": sound.k, "B": sound.n}[late[1]] + int(late[3])
        place = (t, int(late[4]), int(late[5]))
        if (
            getattr(sound, f"{register}_index")[place] != index
            or getattr(broken, f"{register}_index")[place] == index
        ):
            wrong.append("what should be there")
    for m, n, given, due in re.findall(r"C\[(\d+),(\d+)\] leaves as (-?\d+) instead of (-?\d+)", text):
        at = int(m), int(n)
        if (broken.result[at], sound.result[at]) != (int(given), int(due)) or told(sound, broken)[at] != t:
            wrong.append("result")
    for m, n, value in re.findall(r"(?:Right: |; )C\[(\d+),(\d+)\] = (-?\d+)", text):
        if not sound.result[int(m), int(n)] == broken.result[int(m), int(n)] == int(value):
            wrong.append("right result")
    when, bad = told(sound, broken), sound.result != broken.result
    number = int((bad & (when <= t)).sum()), int((when <= t).sum())
    score = re.search(r"(?:(\d+) of the|All) (\d+) results due by now (?:is|are) (wrong|right)", text)
    if score:
        said = int(score[1] or (score[2] if score[3] == "wrong" else 0)), int(score[2])
    else:
        said = (int("is wrong" in text), 1) if "The one result" in text else (0, 0)
    if said != number:
        wrong.append("score")
    return wrong


@pytest.mark.parametrize("pair", FAULTS, ids=NAMES)
def test_every_frame_shows_both_machines_marks_what_differs_and_tells_why(
    pair: tuple[Trace, Trace], open_html: Open
) -> None:
    page = opened(open_html, FaultPlayer(*pair))
    told_apart = set()
    for t in range(0, pair[0].cycles, 1 if pair[0].cycles < 20 else 3):
        seek(page, t)
        assert wrong_parts(page, *pair, t) == []
        assert untrue(caption(page), *pair, t) == [], caption(page)
        told_apart.add(caption(page)[0])
    assert len(told_apart) >= (2 if pair[1].cycles < pair[0].cycles else 5)


@pytest.mark.parametrize("column", ["broken.right", "differing", "told", "wrong_so_far"])
def test_a_sentence_about_another_cycle_is_seen(column: str, open_html: Open) -> None:
    pair = runs("no_skew")
    player = FaultPlayer(*pair)
    late = {"told": lambda x: x + 1}.get(column, lambda x: np.roll(x, 1, axis=0))
    page = opened(open_html, changed(player, lambda columns: {column: late(columns[column])}))
    found: list[str] = []
    for t in range(pair[0].cycles):
        if not found:
            seek(page, t)
            found = untrue(caption(page), *pair, t)
    assert found


def test_the_first_frame_is_the_first_difference_and_says_why(open_html: Open) -> None:
    sound, broken = runs("no_skew")
    player = FaultPlayer(sound, broken)
    page = opened(open_html, player)
    differs = [t for t in range(sound.cycles) if wrong_frame(sound, broken, t)]
    assert cycle(page) == player.cursor == differs[0]
    assert caption(page)[0] == (
        "Cell (1,0) multiplies A[0,1] = 2 by B[1,0] = 6, but no sum has come from above to take the product: "
        "that of C[0,0] is in cell (0,0)."
    )
    page.get_by_role("button", name="first wrong result").press("Enter")
    assert cycle(page) == told(sound, broken)[sound.result != broken.result].min()


def wrong_frame(sound: Trace, broken: Trace, t: int) -> bool:
    return any(
        element(sound, t, register, r, c) != element(broken, t, register, r, c)
        for register in REGISTERS
        for r, c in np.ndindex(sound.rows, sound.cols)
    )


def test_a_sum_added_twice_is_told_where_it_happens(open_html: Open) -> None:
    page = opened(open_html, FaultPlayer(*runs("added_twice", side=2)))
    words = caption(page)
    assert words[0].startswith("C[0,0] leaves as -32, but is added to the earlier sum once more: -76.")
    assert words[1].startswith("No register ever differs")


def test_pointing_at_a_cell_tells_both_machines(open_html: Open) -> None:
    pair = runs("stuck_cell", row=1, col=2)
    page = opened(open_html, FaultPlayer(*pair))
    page.focus(".pw-picture")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    assert caption(page)[1] == (
        "Cell (1,2), sound: B[1,2] = -3, A[0,1] = 2, C[0,2] = -62. "
        "Broken: B[1,2] = -3, A[0,1] = 2, C[0,2] = -56."
    )
    page.keyboard.press("ArrowLeft")
    assert caption(page)[0] == "The same in both machines."


# ------------------------------------------------------------------------------------- the puzzle


def pick(page: Page, r: int, c: int) -> None:
    page.locator(".ft-machine:nth-child(2) .sy-cell .sy-box").nth(4 * r + c).click(force=True)
    page.get_by_role("button", name=f"Pick cell ({r},{c})").click()
    page.hover(".pw-head")


def leaks(page: Page) -> list[str]:
    """Name what a covered machine shows of its inside, in any frame; empty when nothing."""
    found = []
    for t in range(14):
        seek(page, t)
        inside = page.eval_on_selector_all(
            ".ft-machine:nth-child(2) .sy-cell, .pw-still .ft-machine:nth-child(2) .sy-cell",
            "(cells) => cells.flatMap((cell) => [cell.textContent, cell.dataset.state, cell.dataset.wrong])",
        )
        if set(inside) != {"", "empty", None}:
            found.append(f"cells at {t}")
        words = page.inner_text(".pw-shell")
        if re.search(r"\(1, ?2\)|row=1|col=2", words):
            found.append(f"words at {t}")
    return found


def test_a_covered_machine_shows_only_what_enters_and_leaves(open_html: Open) -> None:
    page = opened(open_html, hidden(), reduced_motion=True)
    for name in ("Table", "Help", "Copy as Python"):
        page.get_by_role("button", name=name).click()
    assert leaks(page) == []
    seek(page, 9)
    assert page.locator(".ft-machine:nth-child(2) .sy-out").all_text_contents() == ["16", "-44", "-13 ✗", ""]


def test_a_leak_is_seen(open_html: Open) -> None:
    player = hidden()
    page = open_html(player.to_html().replace("const dark = covered?.() ?? false;", "const dark = false;"))
    page.wait_for_selector(".pw-shell")
    assert leaks(page)


def test_the_faulty_cell_is_found_by_picking(open_html: Open) -> None:
    pair = runs("stuck_cell", row=1, col=2)
    found = systolic.suspects(*pair)
    page = opened(open_html, hidden())
    bad = pair[0].result != pair[1].result
    assert caption(page)[0].startswith(
        f"{bad.sum()} of the 15 results due by now are wrong. C[0,2] is -13 instead of -19;"
    )
    for r, c in ((0, 1), (0, 2)):
        pick(page, r, c)
        assert caption(page) == [found.verdict(r, c)]
        crossed = page.locator(".ft-machine:nth-child(2) .sy-cell").nth(4 * r + c)
        assert crossed.get_attribute("data-wrong") is not None
    pick(page, 1, 2)
    assert caption(page)[0] == f"Right. {found.verdict(1, 2)}".replace("] x ", f"] {TIMES} ")
    assert not page.locator(".ft-choice").is_visible()
    page.keyboard.press("Escape")
    seek(page, 7)
    assert wrong_parts(page, *pair, 7) == [], "the cover is off"
    assert caption(page)[0].startswith(
        "Cell (1,2) multiplies A[0,1] = 2 by B[1,2] = -3, but adds 0 instead of -6"
    )


def test_pointing_at_a_covered_cell_tells_what_it_adds_in_the_sound_machine(open_html: Open) -> None:
    sound, _ = runs("stuck_cell", row=1, col=2)
    page = opened(open_html, hidden())
    page.hover(".ft-machine:nth-child(2) .sy-cell:nth-of-type(10) .sy-box", force=True)
    words = caption(page)[0]
    r, c = map(int, re.findall(r"cell \((\d),(\d)\)", words)[0])
    for m, k, k2, n, value in re.findall(rf"A\[(\d),(\d)\] {TIMES} B\[(\d),(\d)\] = (-?\d+) to C", words):
        assert k == k2 and A[int(m), int(k)] * B[int(k), int(n)] == int(value)
        macs = sound.macs()
        assert [r, c, int(m), int(n), int(k)] in macs[:, 1:].tolist()
    page.hover(".pw-head")
    assert page.get_by_role("button", name="Choose a cell").is_disabled(), "pointing is no choice"


def test_where_two_cells_fit_the_answer_says_so(open_html: Open) -> None:
    weights = np.array([[3, 1], [3, 2]])
    sound = systolic.simulate([[1, 1]], weights, rows=2, cols=2)
    broken = systolic.simulate(
        [[1, 1]], weights, rows=2, cols=2, fault=systolic.Fault("stuck_cell", row=1, col=0)
    )
    page = opened(open_html, FaultPlayer(sound, broken, hide_fault=True))
    cells = page.locator(".ft-machine:nth-child(2) .sy-cell .sy-box")
    for i, name, end in (
        (0, "(0,0)", "It is another of these: here one can only guess."),
        (2, "(1,0)", "It is the one."),
    ):
        cells.nth(i).click(force=True)
        page.get_by_role("button", name=f"Pick cell {name}").click()
        page.hover(".pw-head")
        assert "this product cannot tell them apart" in caption(page)[0]
        assert caption(page)[1].startswith(end)


def test_a_cell_is_picked_by_keys_alone(open_html: Open) -> None:
    page = opened(open_html, hidden())
    page.focus(".pw-picture")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "Tab"):
        page.keyboard.press(key)
    page.keyboard.press("ArrowLeft")  # the button is in the picture, so arrows still move the cursor
    assert page.evaluate("document.activeElement.textContent") == "Pick cell (1,1)"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert caption(page)[0].startswith("Right. Cell (1,2):")


def test_the_answer_can_be_asked_for(open_html: Open) -> None:
    page = opened(open_html, hidden())
    page.get_by_role("button", name="Show the answer").click()
    assert caption(page)[0].startswith(f"It is cell (1,2). Cell (1,2): without A[0,1] {TIMES} B[1,2]")
    assert not page.locator(".ft-choice").is_visible()


def test_python_hears_the_cell_and_the_pick(open_html: Open) -> None:
    page = two_views(open_html, hidden())
    page.locator("#one .ft-machine:nth-child(2) .sy-cell .sy-box").nth(6).click(force=True)
    page.wait_for_function("String(model.get('selected')) === '1,2'")
    page.locator("#one").get_by_role("button", name="Pick cell (1,2)").click()
    page.wait_for_function("String(model.get('selected')) === '1,2,1'")
    assert page.locator("#two .ft-choice").is_visible(), "another view is another reader's"


# ------------------------------------------------------------------------------------- widths


LARGEST = np.full((4, 4), 65504, np.float16)
LEAST = np.full((4, 4), -128, np.int8)


@pytest.mark.parametrize("operands", [(LARGEST, -LARGEST), (LEAST, -1 - LEAST)], ids=["65504", "-128"])
def test_the_widest_values_stay_in_their_cells(
    operands: tuple[np.ndarray, np.ndarray], open_html: Open
) -> None:
    sound = systolic.simulate(*operands, rows=4, cols=4)
    broken = systolic.simulate(*operands, rows=4, cols=4, fault=systolic.Fault("no_skew"))
    page = opened(open_html, FaultPlayer(sound, broken))
    seek(page, 9)
    for wide in (1280, 960, 640, 390):
        resize(page, wide)
        assert spilt_texts(page, ".ft .sy-cell, .ft-results") == [], wide
        both = page.eval_on_selector_all(
            ".ft-machine",
            "(all) => all.map((x) => [x.getBoundingClientRect().left, x.getBoundingClientRect().right])",
        )
        assert all(right <= wide for _, right in both)


def test_on_a_phone_both_machines_and_the_sentence_are_seen_at_once(open_html: Open) -> None:
    page = opened(open_html, FaultPlayer(*runs("no_skew")), viewport=(390, 844))
    settle(page)
    boxes = [
        page.eval_on_selector(
            selector, "(x) => [x.getBoundingClientRect().top, x.getBoundingClientRect().bottom]"
        )
        for selector in (".ft-machine:nth-child(1)", ".ft-machine:nth-child(2)", ".pw-caption p")
    ]
    assert boxes[0][0] == boxes[1][0], "side by side"
    assert boxes[2][1] <= 844 - 110, "above the bar that sticks to the edge"
