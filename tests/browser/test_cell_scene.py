"""The cell scene on a bare page: its words and numbers are the trace's, and three zooms share one clock."""

import re

import ml_dtypes
import numpy as np
import pytest
from scene_page import caption, opened, resize, seek, settle

from pulsewarp import numerics, systolic
from pulsewarp.widgets import _wire
from pulsewarp.widgets.cell import CellPlayer, round_each

pytestmark = pytest.mark.browser


def example(dataflow="ws", kind="bfloat16", *, m=5, k=4, n=4, rows=4, cols=4):
    rng = np.random.default_rng(1)
    if kind == "int8":
        a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((m, k), (k, n)))
    else:
        a, b = (rng.standard_normal(shape) * 10.0 ** rng.integers(-1, 3, shape) for shape in ((m, k), (k, n)))
        a, b = (x.astype(ml_dtypes.bfloat16 if kind == "bfloat16" else np.float32) for x in (a, b))
    return systolic.simulate(a, b, rows=rows, cols=cols, dataflow=dataflow)


def choose(page, row, col):
    page.locator(f'.ce-square[data-place="{row},{col}"]').click()
    page.wait_for_function(
        "([r, c]) => document.querySelector('.ce-map p').textContent.startsWith(`cell (${r},${c})`)",
        arg=[row, col],
    )


def zoom(page, name):
    page.locator(f'.ce-zoom input[value="{name}"]').check()
    settle(page)


def zoomed(page):
    return page.get_attribute(".ce", "data-zoom")


def numbers(text):
    """The decimal numbers of a sentence, without those in the names of cells and elements."""
    bare = re.sub(r"[ABC]\[[\d,]+\]|\(\d+,\d+\)|float32|int32|int64", "", text)
    return [float(x) for x in re.findall(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?", bare)]


def told(page, trace, mac):
    """Name what the sentences and the drawing say otherwise than the trace, for one multiply-add on show."""
    t, r, c, m, n, k = mac
    each = round_each(trace)
    steps = {name: float(values[k, m, n]) for name, values in each.items()}
    earlier = float(each["total"][k - 1, m, n]) if k else 0.0
    x, y = float(trace.a[m, k]), float(trace.b[k, n])
    if trace.dataflow == "is":
        x, y = y, x
    first, second, _ = caption(page)
    lost = [steps["product"], steps["product_lost"]] if steps["product_lost"] else []
    wanted = [x, y, x, y, steps["exact_product"], *lost]
    wrong = [] if numbers(first) == wanted else [(first, wanted)]
    lost = [steps["total"], steps["total_lost"]] if steps["total_lost"] else []
    wanted = [earlier, steps["product"], steps["exact_total"], *lost, k + 1, trace.k]
    wrong += [] if numbers(second) == wanted else [(second, wanted)]
    if steps["total"] != float(trace.partial[t, r, c]):
        wrong.append(("register", steps["total"]))
    shown = page.locator(".ce-path .ce-value.sy-c").all_text_contents()
    wrong += [] if sorted(map(float, shown)) == sorted([earlier, steps["total"]]) else [(shown, earlier)]
    marked = page.locator(".ce-path .ce-operator[data-lost]").count()
    wrong += (
        [] if marked == (steps["product_lost"] != 0) + (steps["total_lost"] != 0) else [("marks", marked)]
    )
    return wrong


@pytest.mark.parametrize(
    ("dataflow", "kind"),
    [("ws", "bfloat16"), ("os", "bfloat16"), ("is", "bfloat16"), ("os", "int8"), ("ws", "float32")],
)
def test_words_and_drawing_are_true_to_the_frame(on_stage, dataflow, kind):
    trace = example(dataflow, kind)
    page = on_stage(CellPlayer(trace))
    for mac in trace.macs().tolist()[::9]:
        seek(page, mac[0])
        choose(page, mac[1], mac[2])
        assert told(page, trace, mac) == []


def shifted(trace, name):
    """The packed run with one column a step late."""
    header, columns = _wire.unpack(CellPlayer(trace).trace)
    columns = {**columns, name: np.roll(columns[name], 1, axis=0)}
    keep = {key: value for key, value in header.items() if key not in ("form", "kind", "columns")}
    return _wire.pack("cell", keep, columns)


@pytest.mark.parametrize("column", ["each_total", "each_exact_product", "each_total_lost", "right_index"])
def test_a_column_one_step_late_is_seen(on_stage, column):
    """A mutant of the wire."""
    trace = example()
    player = CellPlayer(trace)
    player.trace = shifted(trace, column)
    page = on_stage(player)
    wrong = []
    for mac in trace.macs().tolist()[20::9]:
        if not wrong:
            seek(page, mac[0])
            choose(page, mac[1], mac[2])
            wrong = told(page, trace, mac) if len(caption(page)) == 3 else ["idle"]
    assert wrong


def test_an_idle_cell_says_why_and_draws_nothing(on_stage):
    trace = example()
    page = on_stage(CellPlayer(trace))
    for t in (0, trace.cycles - 1):
        seek(page, t)
        assert caption(page)[-1].startswith("In row ") and "0 of 4 cells multiply" in caption(page)[-1]
        assert page.get_attribute(".ce-path", "data-state") == "idle"
        assert "Nothing is added" in page.inner_text(".ce-binary")


def test_the_binary_digits_are_the_numbers(on_stage):
    """Every bit on show, weighed by its place, gives the number back; what float32 drops is struck."""
    trace = example()
    page = on_stage(CellPlayer(trace))
    drawn = 0
    for mac in trace.macs().tolist()[::7]:
        seek(page, mac[0])
        choose(page, mac[1], mac[2])
        if page.locator(".ce-bits:visible").count() == 0:
            continue
        drawn += 1
        step = {name: float(values[mac[5], mac[3], mac[4]]) for name, values in round_each(trace).items()}
        parts = page.eval_on_selector_all(
            ".ce-bits code", "(all) => all.map((code) => [...code.children].map((part) => part.textContent))"
        )
        assert len(parts) == 4
        place = int(np.floor(np.log2(abs(step["total"]))))
        values = [value(lead, kept, away, place) for lead, kept, away in parts]
        assert values[1:] == [step["product"], step["exact_total"], step["total"]]
        assert bool(parts[2][2]) == (step["total_lost"] != 0)
        assert parts[3][2] == ""
    assert drawn >= 5


def value(lead, kept, away, place):
    """The number that digits stand for, when the first of `kept` is worth 2**place."""
    text, top = lead + kept + away, place + len(lead)
    size = sum(2.0 ** (top - i) for i, digit in enumerate(text) if digit == "1")
    return -size if "\u2212" in text else size


def test_three_zooms_show_the_same_cycle(on_stage):
    trace = example()
    page = on_stage(CellPlayer(trace, cell=(1, 1)))
    t = int(trace.start[0, 1, 1]) + 1
    seek(page, t)
    words = caption(page)
    for name, part in (("row", ".ce-row"), ("array", ".sy-array"), ("cell", ".ce-path")):
        zoom(page, name)
        assert zoomed(page) == name and page.locator(part).is_visible()
        assert caption(page) == words
    zoom(page, "row")
    shown = page.eval_on_selector_all(
        ".ce-row .sy-cell", "(cells) => cells.map((cell) => cell.querySelector('text.sy-a').textContent)"
    )
    for col, text in enumerate(shown):
        there = trace.right_index[t, 1, col] >= 0
        assert bool(text) == there
        if there:
            assert float(text.removeprefix("a ")) == pytest.approx(float(trace.right[t, 1, col]), rel=1e-3)
    # The operand of the chosen cell, followed along the row: the cycles are those of the trace.
    index = trace.right_index[t, 1, 1]
    cycles = page.locator(".ce-row .ce-cycle").all_text_contents()
    for col, text in enumerate(cycles):
        assert trace.right_index[int(text), 1, col] == index


def test_the_first_zoom_is_the_one_asked_for(on_stage):
    for name in ("cell", "row", "array"):
        page = on_stage(CellPlayer(example(), zoom=name))
        assert zoomed(page) == name
        assert page.locator(f'.ce-zoom input[value="{name}"]').is_checked()


def test_zoom_and_cell_are_chosen_by_keys(on_stage):
    page = on_stage(CellPlayer(example(), cell=(1, 1)))
    page.locator('.ce-zoom input[value="cell"]').focus()
    page.keyboard.press("ArrowRight")
    assert zoomed(page) == "row"
    page.keyboard.press("ArrowRight")
    assert zoomed(page) == "array"
    page.locator(".pw-picture").focus()
    moves = {"ArrowRight": "(1,2)", "ArrowDown": "(2,2)", "ArrowLeft": "(2,1)", "ArrowUp": "(1,1)"}
    for key, place in moves.items():
        page.keyboard.press(key)
        assert caption(page)[0].startswith(f"Cell {place}: "), key
    for _ in range(5):
        page.keyboard.press("ArrowUp")
    assert caption(page)[0].startswith("Cell (0,1): ")  # no cell above the first row
    page.keyboard.press("Escape")
    assert caption(page)[0].startswith("Cell (1,1): ")


def test_a_click_chooses_in_every_zoom(on_stage):
    page = on_stage(CellPlayer(example(), cell=(1, 1)))
    choose(page, 2, 3)
    assert caption(page)[0].startswith("Cell (2,3): ")
    zoom(page, "row")
    page.locator(".ce-row .sy-cell").first.click(position={"x": 20, "y": 20})
    assert caption(page)[0].startswith("Cell (2,0): ")
    zoom(page, "array")
    page.locator(".sy-array .sy-cell").nth(4 * 3 + 1).click(position={"x": 20, "y": 20})
    assert caption(page)[0].startswith("Cell (3,1): ")


def outside(page):
    """Texts of the picture that reach beyond its edges or beyond the cell's frame."""
    return page.evaluate(
        """() => {
          const svg = document.querySelector(".ce-view svg");
          const box = svg.getBoundingClientRect();
          return [...svg.querySelectorAll("text")].filter((text) => text.textContent).filter((text) => {
            const own = text.getBoundingClientRect();
            return own.left < box.left - 0.5 || own.right > box.right + 0.5;
          }).map((text) => text.textContent);
        }"""
    )


def overlaps(page):
    """Pairs of texts of the drawing that touch."""
    return page.evaluate(
        """() => {
          const all = [...document.querySelectorAll(".ce-view svg text")].filter((text) => text.textContent
            && getComputedStyle(text).visibility !== "hidden");
          const boxes = all.map((text) => text.getBoundingClientRect());
          const found = [];
          for (let i = 0; i < all.length; i++) for (let j = 0; j < i; j++) {
            const [p, q] = [boxes[i], boxes[j]];
            if (p.left < q.right - 1 && q.left < p.right - 1 && p.top < q.bottom - 3 && q.top < p.bottom - 3)
              found.push([all[j].textContent, all[i].textContent]);
          }
          return found;
        }"""
    )


@pytest.mark.parametrize(("dataflow", "kind"), [("ws", "float32"), ("os", "float32"), ("ws", "int8")])
def test_the_widest_numbers_find_room(on_stage, dataflow, kind):
    rng = np.random.default_rng(3)
    if kind == "int8":
        a = b = np.full((8, 8), -128, np.int8)
    else:
        a, b = (-65504 * rng.random((8, 8)).astype(np.float32) for _ in "ab")
    trace = systolic.simulate(a, b, rows=8, cols=8, dataflow=dataflow)
    page = on_stage(CellPlayer(trace))
    for wide in (1280, 640, 390):
        resize(page, wide)
        for name in ("cell", "row"):
            zoom(page, name)
            assert outside(page) == [], (wide, name)
            assert overlaps(page) == [], (wide, name)


def test_a_text_too_wide_is_seen(open_html):
    page = opened(open_html, CellPlayer(example()), viewport=(390, 800))
    page.add_style_tag(content=".ce-value { font-size: 30px !important }")
    settle(page)
    assert outside(page) or overlaps(page)


def test_precisions_and_cells_agree(on_stage):
    """One pass of `numerics.multiply` is what the cells of the scene add up."""
    trace = example()
    product = numerics.multiply(trace.a, trace.b, "default")
    page = on_stage(CellPlayer(trace))
    mac = trace.macs().tolist()[-1]
    seek(page, mac[0])
    choose(page, mac[1], mac[2])
    term = product.terms(mac[3], mac[4])[mac[5]]
    assert numbers(caption(page)[1])[1] == term.product
    assert float(page.locator(".ce-path .ce-value.sy-c").all_text_contents()[0]) in (
        term.total,
        *[each.total for each in product.terms(mac[3], mac[4])],
    )
