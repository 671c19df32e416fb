"""The systolic scene on a bare page: what it shows is the trace, and it behaves in every hand."""

import re

import numpy as np
import pytest
from scene_page import resize, spilt_texts

from pulsewarp import systolic
from pulsewarp.widgets import _wire
from pulsewarp.widgets.systolic import SystolicPlayer, chosen, pack_trace

pytestmark = pytest.mark.browser
FLOWS = ("ws", "os", "is")
TIMES, NOTHING = "\u00d7", "\u2013"  # as the scene writes them


def product(dataflow="ws", *, m=5, k=4, n=4, rows=4, cols=4, kind=np.int64, seed=1, **more):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(-9, 10, (m, k)).astype(kind), rng.integers(-9, 10, (k, n)).astype(kind)
    return systolic.simulate(a, b, rows=rows, cols=cols, dataflow=dataflow, **more)


def exposed(player, change=None):
    """The player's page with the scene's module in reach as `scene`; `change` edits the module first."""
    page = player.to_html()
    if change:
        before, after = change
        assert before in page
        page = page.replace(before, after)
    return page.replace(
        "\nmountPage(",
        "\nwindow.scene = { ...$kit_array, ...$systolic, unpack: $kit_wire.unpack }; "
        "window.host = $kit_host; mountPage(",
    )


@pytest.fixture
def show(open_html, on_stage):
    """Show a player on the page of this module, or on one of its own where the test leaves its mark."""

    def open_player(player, *, change=None, own=False, **settings):
        if not (change or own):
            return on_stage(player, exposed, **settings)
        page = open_html(exposed(player, change), **settings)
        page.wait_for_selector(".pw-shell")
        page.wait_for_function("document.querySelector('.pw').dataset.cycle !== undefined")
        return page

    return open_player


def cycle(page):
    return int(page.get_attribute(".pw", "data-cycle"))


def seek(page, t):
    """Move the scrub bar as a hand does."""
    page.eval_on_selector(
        ".pw-scrub", "(bar, t) => { bar.value = t; bar.dispatchEvent(new Event('input')); }", t
    )
    assert cycle(page) == t


def test_a_player_on_the_page_of_others_is_as_on_its_own(show, stage):
    """Nothing of the player before it is left, and what goes wrong on that page is heard."""
    player = SystolicPlayer(product("os"), start=4)
    alone = show(player, own=True).inner_text(".pw")
    page = show(SystolicPlayer(product(m=9), start=3, future="hidden"), dark=True)
    page.get_by_role("button", name="Help").click()
    page.focus(".pw-picture")
    page.keyboard.press("ArrowDown")
    assert page.inner_text(".pw") != alone
    page = show(player)
    assert page.inner_text(".pw") == alone and page.locator(".pw").count() == 1
    assert page.get_attribute(".pw", "data-theme") == "light"
    assert stage.wrong == []
    page.evaluate("console.error('planted'); fetch('http://127.0.0.1:9/planted').catch(() => 0)")
    page.wait_for_function("performance.getEntriesByName('http://127.0.0.1:9/planted').length > 0")
    heard, stage.wrong[:] = list(stage.wrong), []
    assert "planted" in heard and "request: http://127.0.0.1:9/planted" in heard


# ------------------------------------------------------------------------------ what is shown is the trace


def shown_cells(page):
    """Texts of each cell by kind of operand, row by row."""
    return page.eval_on_selector_all(
        ".pw-picture .sy-cell",
        """(cells) => cells.map((cell) => ({
          state: cell.dataset.state,
          values: Object.fromEntries(["a", "b", "c"].map((letter) => [letter,
            (cell.querySelector(`text.sy-${letter}`)?.textContent ?? "").replace(/^(sum|[abc]) /, "")])),
        }))""",
    )


def wrong_cells(page, trace, t):
    """Name the cells whose values on screen are not the trace's registers after cycle t."""
    registers = trace.registers(t)
    wrong = []
    for i, cell in enumerate(shown_cells(page)):
        r, c = divmod(i, trace.cols)
        for register, letter in trace.roles.items():
            present = getattr(registers, f"{register}_index")[r, c] >= 0
            wanted = str(getattr(registers, register)[r, c]) if present else ""
            if cell["values"][letter] != wanted:
                wrong.append((t, r, c, letter, cell["values"][letter], wanted))
        if (cell["state"] == "working") != bool(registers.active[r, c]):
            wrong.append((t, r, c, "state"))
    return wrong


@pytest.mark.parametrize("dataflow", FLOWS)
def test_every_frame_shows_the_registers(show, dataflow):
    trace = product(dataflow, m=3, k=5, n=3, rows=3, cols=2)
    page = show(SystolicPlayer(trace))
    for t in range(trace.cycles):
        seek(page, t)
        assert wrong_cells(page, trace, t) == []


def shifted(trace, name):
    """The packed trace with one column a cycle late."""
    header, columns = _wire.unpack(pack_trace(trace))
    columns = {**columns, name: np.roll(columns[name], 1, axis=0)}
    keep = {key: value for key, value in header.items() if key not in ("form", "kind", "columns")}
    return _wire.pack("systolic", keep, columns)


@pytest.mark.parametrize(("column", "t"), [("right", 7), ("down", 7), ("held_index", 2), ("active", 7)])
def test_a_column_one_cycle_late_is_seen(show, column, t):
    """A mutant of the wire."""
    trace = product()
    player = SystolicPlayer(trace)
    player.trace = shifted(trace, column)
    page = show(player)
    seek(page, t)
    assert wrong_cells(page, trace, t)


def test_results_fill_in_as_they_leave_and_not_before(show):
    trace = product("ws")
    page = show(SystolicPlayer(trace))
    final = {(m, n): t for t, _, m, n, last in trace.exits().tolist() if last}
    for t in range(trace.cycles):
        seek(page, t)
        texts = page.eval_on_selector_all(
            ".sy-matrices text.sy-c:not(.sy-letter)", "(all) => all.map((x) => x.textContent)"
        )
        wanted = [
            str(trace.result[m, n]) if final[m, n] <= t else "·"
            for m in range(trace.m)
            for n in range(trace.n)
        ]
        assert texts == wanted


def test_what_leaves_is_named_with_its_value(show):
    trace = product("ws")
    page = show(SystolicPlayer(trace))
    for t in sorted({int(t) for t in trace.exits()[:, 0]}):
        seek(page, t)
        leaving = [(m, n) for cycle, _, m, n, _ in trace.exits().tolist() if cycle == t]
        names = [
            x
            for x in page.eval_on_selector_all(".sy-out-name", "(all) => all.map((x) => x.textContent)")
            if x
        ]
        values = [
            x for x in page.eval_on_selector_all(".sy-out", "(all) => all.map((x) => x.textContent)") if x
        ]
        assert sorted(zip(names, values, strict=True)) == sorted(
            (f"C[{m},{n}]", str(trace.result[m, n])) for m, n in leaving
        )
        words = page.inner_text(".pw-caption")
        assert all(f"C[{m},{n}] = {trace.result[m, n]}" in words for m, n in leaving[:4])


@pytest.mark.parametrize("dataflow", FLOWS)
def test_the_caption_is_true_to_the_frame(show, dataflow):
    trace = product(dataflow)
    page = show(SystolicPlayer(trace))
    for t in range(0, trace.cycles, 2):
        seek(page, t)
        words = page.inner_text(".pw-caption")
        assert words.startswith(("Load", "Fill", "Steady", "Drain")[trace.phase[t]])
        count = re.search(r"(?:all )?(\d+)(?: of (?:the )?\d+)?(?: cells)?(?: in use)? multiply", words)
        busy = int(trace.schedule.busy[t])
        assert (int(count[1]) if count else 0) == busy, words


@pytest.mark.parametrize("dataflow", ["ws", "is"])
def test_where_folds_overlap_the_caption_tells_complete_sums_from_those_that_grow(show, dataflow):
    """Some columns still give the sums of one fold while others already give those of the next."""
    trace = product(dataflow, m=5, k=8, n=5, rows=4, cols=4, overlap=True)
    page = show(SystolicPlayer(trace))
    exits = trace.exits()
    mixed = 0
    for t in np.unique(exits[:, 0]).tolist():
        seek(page, t)
        words = page.locator(".pw-caption p").last.inner_text()
        whole, _, partial = words.partition("not yet complete")
        named = exits[exits[:, 0] == t][:4]
        assert re.findall(r"C\[(\d+),(\d+)\]", whole) == [(str(m), str(n)) for _, _, m, n, f in named if f]
        assert re.findall(r"C\[(\d+),(\d+)\]", partial) == [
            (str(m), str(n)) for _, _, m, n, f in named if not f
        ]
        mixed += len(set(named[:, 4].tolist())) == 2
    assert mixed, "a run in which both leave at once"


@pytest.mark.parametrize("column", ["busy", "phase"])
def test_a_caption_one_cycle_late_is_seen(show, column):
    """A mutant of the wire, which the comparison of caption and trace above must see."""

    def late(player):
        player.trace = shifted(product("ws"), column)
        return show(player)

    with pytest.raises(AssertionError):
        test_the_caption_is_true_to_the_frame(late, "ws")


@pytest.mark.parametrize("dataflow", FLOWS)
def test_each_cells_sentence_is_true_to_the_trace(show, dataflow):
    trace = product(dataflow, m=4, k=6, n=3, rows=3, cols=2)
    page = show(SystolicPlayer(trace))
    sentences = described(page, trace, trace.macs()[:, :3].tolist())
    for (_, r, c, m, n, k), words in zip(trace.macs().tolist(), sentences, strict=True):
        a, b = trace.a[m, k], trace.b[k, n]
        assert words.startswith(f"Cell ({r},{c}): "), words
        assert f"{a} {TIMES} {b} = {a * b}" in words or f"{b} {TIMES} {a} = {a * b}" in words, words
        assert f"A[{m},{k}] = {a}" in words and f"B[{k},{n}] = {b}" in words, words
        after = int(sum(int(trace.a[m, j]) * int(trace.b[j, n]) for j in range(k + 1)))
        assert re.search(rf"C\[{m},{n}\] is now {after}\b", words), words


def described(page, trace, places):
    return page.evaluate(
        """async ([text, places]) => {
          const run = scene.readRun(await scene.unpack(text));
          return places.map(([t, r, c]) => scene.describe(run, t, r, c).join(" "));
        }""",
        [pack_trace(trace), places],
    )


def test_every_idle_cell_has_a_sentence(show):
    page = show(SystolicPlayer(product()))
    for dataflow in FLOWS:
        trace = product(dataflow, m=2, k=3, n=2, rows=4, cols=3)
        places = [(t, r, c) for t in range(trace.cycles) for r in range(4) for c in range(3)]
        for words in described(page, trace, places):
            assert words.endswith(".") and "undefined" not in words and "NaN" not in words, words


@pytest.mark.parametrize("dataflow", FLOWS)
def test_the_table_is_the_frame(show, dataflow):
    trace = product(dataflow, m=3, k=3, n=3, rows=3, cols=3)
    page = show(SystolicPlayer(trace))
    page.get_by_role("button", name="Table").click()
    for t in range(0, trace.cycles, 3):
        seek(page, t)
        registers = trace.registers(t)
        rows = page.eval_on_selector_all(
            ".pw-drawer table tbody tr",
            "(rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent))",
        )
        assert len(rows) == 9
        for i, (name, state, *values, result) in enumerate(rows):
            r, c = divmod(i, 3)
            assert name == f"({r},{c})" and (state == "multiplies") == bool(registers.active[r, c])
            for (register, letter), text in zip(trace.roles.items(), values, strict=True):
                index = int(getattr(registers, f"{register}_index")[r, c])
                wide = {"a": trace.k, "b": trace.n, "c": trace.n}[letter]
                name = (
                    f"{letter.upper()}[{index // wide},{index % wide}] = {getattr(registers, register)[r, c]}"
                )
                assert text == (name if index >= 0 else NOTHING)
            if registers.active[r, c]:
                other = registers.held if trace.flow.loads else registers.down
                assert result == str(registers.right[r, c] * other[r, c])


# ------------------------------------------------------------- large arrays: looked up, summed in order


def recomputed(page, text, cycles):
    """All registers of some cycles of a packed run as the browser recomputes them."""
    return page.evaluate(
        """async ([text, cycles]) => {
          const packed = await scene.unpack(text);
          for (const name of ["held", "right", "down"]) delete packed.columns[name];
          const run = scene.readRun(packed);
          return cycles.map((t) => {
            const all = [];
            for (let r = 0; r < run.R; r++) for (let c = 0; c < run.C; c++) {
              const cell = run.cell(t, r, c);
              all.push([cell.held, cell.right, cell.down, cell.heldIndex, cell.rightIndex, cell.downIndex,
                        +cell.active, cell.shadow, cell.shadowIndex]);
            }
            return all;
          });
        }""",
        [text, cycles],
    )


def not_bit_for_bit(page, trace, cycles):
    wrong = []
    for t, got in zip(cycles, recomputed(page, pack_trace(trace), cycles), strict=True):
        table = np.array(got, np.float64).reshape(trace.rows, trace.cols, 9)
        registers = trace.registers(t)
        names = ["held", "right", "down", "held_index", "right_index", "down_index", "active"]
        for i, name in enumerate(names + ["shadow", "shadow_index"] * trace.overlap):
            if not np.array_equal(table[..., i], getattr(registers, name).astype(np.float64)):
                wrong.append((t, name))
    return wrong


SHAPES = [
    {"m": 5, "k": 7, "n": 6, "rows": 3, "cols": 4},
    {"m": 9, "k": 2, "n": 3, "rows": 4, "cols": 5},
    {"m": 4, "k": 9, "n": 5, "rows": 2, "cols": 2},
]


def floats(dataflow, shape, kind, **more):
    rng = np.random.default_rng(3)
    m, k, n, rows, cols = (shape[x] for x in ("m", "k", "n", "rows", "cols"))
    a, b = rng.standard_normal((m, k)).astype(kind), rng.standard_normal((k, n)).astype(kind)
    return systolic.simulate(a * 1e3, b, rows=rows, cols=cols, dataflow=dataflow, **more)


@pytest.mark.parametrize("dataflow", FLOWS)
def test_registers_looked_up_equal_the_stepped_ones_bit_for_bit(show, dataflow):
    page = show(SystolicPlayer(product()))
    for shape in SHAPES:
        for kind in (np.float32, np.float64, np.float16):
            trace = floats(dataflow, shape, kind)
            assert trace.has_registers
            assert not_bit_for_bit(page, trace, list(range(trace.cycles))) == [], (shape, kind)
        trace = product(dataflow, kind=np.int8, **shape)
        assert not_bit_for_bit(page, trace, list(range(trace.cycles))) == []


@pytest.mark.parametrize("dataflow", FLOWS)
def test_overlapping_registers_looked_up_equal_the_stepped_ones_bit_for_bit(show, dataflow):
    page = show(SystolicPlayer(product()))
    for shape in SHAPES:
        for kind in (np.float32, np.float64):
            trace = floats(dataflow, shape, kind, overlap=True)
            assert trace.has_registers and trace.overlap
            assert not_bit_for_bit(page, trace, list(range(trace.cycles))) == [], (shape, kind)


@pytest.mark.parametrize(
    "change",
    [
        ("const step = t - origins[fold.index] - r - c;", "const step = t - origins[fold.index] - r;"),
        ("begun(t - r - c, R)", "begun(t - r - c, R - 1)"),
        ("since + r - R + 2, 0", "since + r - R + 1, 0"),
        ("now.heldIndex = loads || flows ?", "now.heldIndex = flows ?"),
    ],
    ids=["no skew", "loaded late", "sinks early", "tile gone early"],
)
def test_a_fault_in_the_look_up_of_overlapping_folds_is_seen(show, change):
    page = show(SystolicPlayer(product()), change=change)
    assert any(
        not_bit_for_bit(page, trace, list(range(trace.cycles)))
        for trace in (floats(flow, SHAPES[0], np.float32, overlap=True) for flow in ("ws", "os"))
    )


@pytest.mark.parametrize("dataflow", FLOWS)
def test_frames_with_shadow_registers_show_the_registers_and_say_who_takes_over(show, dataflow):
    trace = product(dataflow, m=5, k=5, n=5, rows=3, cols=2, overlap=True)
    page = show(SystolicPlayer(trace))
    for t in range(0, trace.cycles, 3):
        seek(page, t)
        registers = trace.registers(t)
        cells = page.eval_on_selector_all(
            ".pw-picture .sy-cell", "(all) => all.map((x) => x.querySelector('.sy-small')?.textContent ?? '')"
        )
        word = "next" if trace.flow.loads else "out"
        wanted = [
            f"{word} {value}" if index >= 0 else ""
            for value, index in zip(registers.shadow.flat, registers.shadow_index.flat, strict=True)
        ]
        assert cells == wanted, t
        words = page.inner_text(".pw-caption")
        working = re.search(r"(\d+) of 6 cells multiply", words)
        assert int(working[1] if working else 0) == int(trace.schedule.busy[t]), words
        later = [int(np.count_nonzero(trace.start[f] == t)) for f in range(1, len(trace.folds))]
        taking = re.search(r"(one|\d+) cells? begins? fold (\d+)", words)
        assert (taking is not None) == any(later), words
        if taking:
            fold = int(taking[2])
            assert int(taking[1].replace("one", "1")) == later[fold - 2], words


@pytest.mark.parametrize("dataflow", FLOWS)
def test_each_cells_sentence_tells_what_its_shadow_register_does(show, dataflow):
    trace = product(dataflow, m=4, k=5, n=5, rows=3, cols=2, overlap=True)
    page = show(SystolicPlayer(product()))
    places = [(t, r, c) for t in range(trace.cycles) for r in range(3) for c in range(2)]
    for (t, r, c), words in zip(places, described(page, trace, places), strict=True):
        registers = trace.registers(t)
        assert words.endswith(".") and "undefined" not in words and "NaN" not in words, words
        index = int(registers.shadow_index[r, c])
        assert ("shadow register" in words) >= (index >= 0), (t, r, c, words)
        if index < 0:
            continue
        wide = {"a": trace.k, "b": trace.n, "c": trace.n}[trace.roles["held"]]
        name = f"{trace.roles['held'].upper()}[{index // wide},{index % wide}] = {registers.shadow[r, c]}"
        assert name in words, (t, r, c, words)
        if found := re.search(r"takes it over in cycle (\d+)", words):
            assert int(trace.held_index[int(found[1]), r, c]) == index
            assert int(trace.held_index[int(found[1]) - 1, r, c]) != index
        if "takes " in words and "over from its shadow" in words:
            assert trace.held_index[t, r, c] == trace.shadow_index[t - 1, r, c]


def test_the_activity_picture_of_overlapping_folds_is_the_schedule(show):
    trace = systolic.simulate(
        np.ones((20, 60), np.int8), np.ones((60, 40), np.int8), rows=30, cols=40, overlap=True
    )
    page = show(SystolicPlayer(trace))
    start, length = trace.start, trace.length
    for t in (0, 40, 65, 80, 100, trace.cycles - 1):
        seek(page, t)
        tones = drawn_tones(page).reshape(30, 40)
        working = ((start >= 0) & (t >= start) & (t < start + length)).any(axis=0)
        shown = np.isin(tones, ["0,114,178", "125,190,224", "176,84,0"])
        np.testing.assert_array_equal(shown, working)
        np.testing.assert_array_equal(tones == "176,84,0", (start[1:] == t).any(axis=0))


@pytest.mark.parametrize(
    "change",
    [
        ("const step = t - origin - r - c;", "const step = t - origin - r - c - 1;"),
        (
            "let total = 0;\n    for (let k = 0; k < terms; k++)",
            "let total = 0;\n    for (let k = terms - 1; k >= 0; k--)",
        ),
        ("float32: Math.fround,", "float32: (x) => x,"),
        ("const row = loads ? r + columns.sunk[t]", "const row = loads ? r - columns.sunk[t]"),
    ],
    ids=["one cycle late", "summed backwards", "not rounded", "loaded upside down"],
)
def test_a_fault_in_the_look_up_is_seen(show, change):
    """Mutants of the browser's own look-up."""
    page = show(SystolicPlayer(product()), change=change)
    trace = floats("ws", SHAPES[0], np.float32)
    assert not_bit_for_bit(page, trace, list(range(trace.cycles)))


@pytest.mark.parametrize("dataflow", FLOWS)
def test_a_window_of_a_large_array_shows_the_traces_values(show, dataflow):
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-128, 128, (64, 64)).astype(np.int8) for _ in "ab")
    trace = systolic.simulate(a, b, rows=64, cols=64, dataflow=dataflow)
    player = SystolicPlayer(trace)
    player.selected = [40, 20]
    page = show(player)
    for t in (70, 130, 180):
        seek(page, t)
        registers = trace.registers(t, slice(38, 43), slice(18, 23))
        for i, cell in enumerate(shown_cells(page)):
            r, c = divmod(i, 5)
            for register, letter in trace.roles.items():
                present = getattr(registers, f"{register}_index")[r, c] >= 0
                assert cell["values"][letter] == (str(getattr(registers, register)[r, c]) if present else "")


def drawn_tones(page):
    """Colour of every cell in the activity picture, in one row."""
    return np.array(
        page.eval_on_selector(
            ".sy-activity",
            """(canvas) => {
              const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
              const tone = (_, i) => [...data.slice(4 * i, 4 * i + 3)].join();
              return Array.from({ length: data.length / 4 }, tone);
            }""",
        )
    )


def test_the_activity_picture_is_the_schedule(show):
    trace = systolic.simulate(np.ones((20, 30), np.int8), np.ones((30, 40), np.int8), rows=30, cols=40)
    page = show(SystolicPlayer(trace))
    start, length = trace.start[0], trace.length[0]
    for t in (0, 40, 75, trace.cycles - 1):
        seek(page, t)
        working = np.isin(drawn_tones(page).reshape(30, 40), ["0,114,178", "125,190,224"])
        np.testing.assert_array_equal(working, (start >= 0) & (t >= start) & (t < start + length))


# ----------------------------------------------------------------------------------------- hands and keys


def test_it_opens_paused_at_the_telling_cycle_and_plays_from_the_beginning(show):
    trace = product()
    player = SystolicPlayer(trace)
    page = show(player)
    assert cycle(page) == player.cursor > 0
    page.wait_for_timeout(300)
    assert cycle(page) == player.cursor
    page.select_option(".pw-select", "15")
    page.get_by_role("button", name="Play from 0").click()
    assert cycle(page) < player.cursor
    page.wait_for_function("document.querySelector('.pw').dataset.cycle !== '0'")
    page.get_by_role("button", name="Pause").click()
    stopped = cycle(page)
    page.wait_for_timeout(200)
    assert cycle(page) == stopped


def test_it_plays_to_its_end(show):
    trace = product(m=2, k=2, n=2, rows=2, cols=2)
    page = show(SystolicPlayer(trace, start=0, rate=30))
    page.get_by_role("button", name="Play").click()
    page.wait_for_function(f"document.querySelector('.pw').dataset.cycle === '{trace.cycles - 1}'")
    assert page.get_attribute(".pw", "data-playing") == "false"


def test_buttons_step_both_ways(show):
    page = show(SystolicPlayer(product(), start=5))
    for name, wanted in [
        ("One cycle on", 6),
        ("One cycle back", 5),
        ("First cycle", 0),
        ("One cycle back", 0),
        ("Last cycle", product().cycles - 1),
    ]:
        page.get_by_role("button", name=name).click()
        assert cycle(page) == wanted


def test_keys_play_step_and_jump(show):
    trace = product()
    page = show(SystolicPlayer(trace, start=5))
    page.focus(".pw")
    starts = [0, *(t for t in range(1, trace.cycles) if trace.phase[t] != trace.phase[t - 1])]
    for key, wanted in [
        ("ArrowRight", 6),
        ("ArrowLeft", 5),
        (".", 6),
        (",", 5),
        ("Shift+ArrowRight", min(t for t in starts if t > 5)),
        ("Home", 0),
        ("Shift+ArrowRight", starts[1]),
        ("End", trace.cycles - 1),
        ("Shift+ArrowLeft", starts[-1]),
    ]:
        page.keyboard.press(key)
        assert cycle(page) == wanted, key
    page.keyboard.press("Home")
    page.keyboard.press(" ")
    assert page.get_attribute(".pw", "data-playing") == "true"
    page.keyboard.press(" ")
    assert page.get_attribute(".pw", "data-playing") == "false"


def test_keys_elsewhere_on_the_page_are_left_alone(show):
    page = show(SystolicPlayer(product(), start=5), own=True)
    page.evaluate(
        "window.heard = []; addEventListener('keydown', (e) => heard.push([e.key, e.defaultPrevented]))"
    )
    page.focus(".pw")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("x")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("heard") == [["x", False], ["ArrowRight", False]]
    assert cycle(page) == 6


def test_the_cell_cursor_moves_by_arrows_and_speaks(show):
    trace = product()
    page = show(SystolicPlayer(trace, start=9))
    page.focus(".pw-picture")
    for _ in range(2):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert page.inner_text(".pw-caption").startswith("Cell (1,1):")
    assert cycle(page) == 9
    page.keyboard.press(".")
    assert cycle(page) == 10
    page.keyboard.press("Escape")
    assert not page.inner_text(".pw-caption").startswith("Cell")


def test_pointing_speaks_and_leaving_ends_it(show):
    page = show(SystolicPlayer(product(), start=9))
    page.hover(".pw-picture .sy-cell:nth-of-type(6) .sy-box", force=True)
    assert page.inner_text(".pw-caption").startswith("Cell (1,1):")
    page.hover(".pw-head")
    assert not page.inner_text(".pw-caption").startswith("Cell")


def test_tapping_selects(show):
    page = show(SystolicPlayer(product(), start=9), viewport=(390, 844), touch=True, own=True)
    page.locator(".pw-picture .sy-cell .sy-box").nth(5).tap(force=True)
    assert page.inner_text(".pw-caption").startswith("Cell (1,1):")


def test_a_chapter_is_a_place_to_go(show):
    trace = product()
    page = show(SystolicPlayer(trace))
    page.get_by_role("button", name="drain", exact=True).click()
    assert cycle(page) == int(np.flatnonzero(trace.phase == 3)[0])


def test_chapter_labels_do_not_touch_and_stand_at_their_cycles(show):
    trace = product(m=9)
    for wide in (1280, 390):
        page = show(SystolicPlayer(trace), viewport=(wide, 800))
        seek(page, 4)
        boxes = page.eval_on_selector_all(
            ".pw-chapter:not(.pw-unlabelled)",
            """(all) => all.map((x) => {
              const box = x.getBoundingClientRect();
              return [box.left, box.right, box.bottom];
            })""",
        )
        for i, (left, _, bottom) in enumerate(boxes):
            assert all(left >= right or bottom != low for _, right, low in boxes[:i])
        bar = page.eval_on_selector(".pw-scrub", "(x) => [x.getBoundingClientRect().left, x.offsetWidth]")
        thumb = bar[0] + 9 + (bar[1] - 18) * 4 / (trace.cycles - 1)
        assert abs(boxes[1][0] - thumb) < 1.5, "fill begins at cycle 4"


def test_many_folds_stand_in_one_row_each_with_a_tick(show):
    page = show(SystolicPlayer(systolic.simulate(FOLDED, FOLDED.T, rows=4, cols=4)), viewport=(700, 800))
    rows = page.eval_on_selector_all(
        ".pw-chapter:not(.pw-unlabelled)", "(all) => all.map((x) => x.style.getPropertyValue('--row'))"
    )
    assert len(rows) >= 3 and set(rows) == {"0"}
    assert page.locator(".pw-tick").count() == 9


# ------------------------------------------------------------------------------------- views and lifetimes

TWO_VIEWS = """
(text) => {
  window.saved = [];
  const model = host.pageModel({ trace: text, cursor: 3, selected: [], options: {} });
  const save = model.save_changes;
  model.save_changes = () => { saved.push(model.get("cursor")); save(); };
  const heard = new Set();
  const { on, off } = model;
  model.on = (event, listener) => { heard.add(listener); on(event, listener); };
  model.off = (event, listener) => { heard.delete(listener); off(event, listener); };
  model.heard = () => heard.size;
  window.model = model;
  window.controllers = [new AbortController(), new AbortController()];
  document.body.replaceChildren();
  window.views = controllers.map(({ signal }) => {
    const el = document.createElement("div");
    document.body.append(el);
    scene.default.render({ model, el, signal });
    return el;
  });
}
"""
CYCLES = "[...document.querySelectorAll('.pw')].map((x) => Number(x.dataset.cycle))"


def open_two_views(open_html, change=None):
    page = open_html(
        exposed(SystolicPlayer(product()), change).replace(
            "; mountPage(", "; window.not_called = () => mountPage("
        )
    )
    page.evaluate(TWO_VIEWS, pack_trace(product()))
    page.wait_for_function("document.querySelectorAll('.pw-shell').length === 2 && left.frames.size === 0")
    return page


@pytest.fixture
def two_views(open_html):
    return open_two_views(open_html)


def test_two_views_of_one_model_are_independent(two_views):
    page = two_views
    page.locator(".pw").nth(0).focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("saved.length === 1")
    assert page.evaluate(CYCLES) == [4, 3]
    assert page.evaluate("model.get('cursor')") == 4


def test_python_seeks_in_every_view(two_views):
    two_views.evaluate("model.set('cursor', 7)")
    assert two_views.evaluate(CYCLES) == [7, 7]


def test_python_seeks_a_view_that_plays_to_where_the_cursor_already_is(two_views):
    two_views.locator(".pw-select").nth(0).select_option("15")
    two_views.get_by_role("button", name="Play").nth(0).click()
    two_views.wait_for_function(CYCLES + "[0] > 6")
    two_views.get_by_role("button", name="Pause").nth(0).click()
    assert two_views.evaluate("model.get('cursor')") == 3  # what is saved comes later
    two_views.evaluate("model.set('seeks', 1)")
    assert two_views.evaluate(CYCLES) == [3, 3]


def test_two_players_on_one_page_are_independent(open_html):
    one, other = (SystolicPlayer(product(flow), start=2) for flow in ("ws", "os"))
    frames = "".join(
        p._repr_mimebundle_()[0]["text/html"].replace(' loading="lazy"', "") for p in (one, other)
    )
    page = open_html(f'<!doctype html><title>two</title><link rel="icon" href="data:,">{frames}')
    first, second = (page.frame_locator("iframe").nth(i) for i in (0, 1))
    first.get_by_role("button", name="One cycle on").click()
    assert first.locator(".pw").get_attribute("data-cycle") == "3"
    assert second.locator(".pw").get_attribute("data-cycle") == "2"
    assert "Output-stationary" in second.locator("h3").inner_text()
    for i in (0, 1):  # each frame is as tall as its scene
        tall = page.frame_locator("iframe").nth(i).locator(".pw").evaluate("(x) => x.offsetHeight")
        outer = f"document.querySelectorAll('iframe')[{i}].offsetHeight"
        page.wait_for_function(f"Math.abs({outer} - {tall}) < 4")


def leftovers(page):
    """What two views leave behind when they are closed while one of them plays; empty when nothing."""
    assert page.evaluate("left.observers.size") > 0
    page.get_by_role("button", name="Play").nth(0).click()
    page.evaluate("controllers.forEach((each) => each.abort())")
    drawn = page.evaluate("left.drawn")
    page.evaluate("model.set('cursor', 1); model.set('trace', model.get('trace') + ' ')")
    page.wait_for_timeout(300)
    after = page.evaluate(
        """(drawn) => ({
          elements: views.reduce((sum, el) => sum + el.childElementCount, 0), frames: left.frames.size,
          observers: left.observers.size, drawn: left.drawn - drawn, outside: left.outside.length,
          saved: saved.length, listeners: model.heard(),
        })""",
        drawn,
    )
    return {name: count for name, count in after.items() if count}


def test_a_closed_view_leaves_nothing(two_views):
    assert leftovers(two_views) == {}


@pytest.mark.parametrize(
    ("left", "change"),
    [
        ("elements", ('signal.addEventListener("abort", () => root.remove(), { once: true });', "")),
        ("observers", ('signal.addEventListener("abort", () => repaint.disconnect(), { once: true });', "")),
        ("outside", ('prefers.addEventListener("change", apply, { signal });',
                     'prefers.addEventListener("change", apply);')),
        ("listeners", ("() => model.off(event, heard)", "() => {}")),
    ],
)  # fmt: skip
def test_what_a_faulty_kit_leaves_is_found(open_html, left, change):
    assert left in leftovers(open_two_views(open_html, change))


def test_closing_one_of_the_views_leaves_the_other(two_views):
    two_views.evaluate("controllers[0].abort()")
    two_views.get_by_role("button", name="One cycle on").click()
    assert two_views.evaluate(CYCLES) == [4]


def test_pausing_saves_the_cursor_once(two_views):
    page = two_views
    page.locator(".pw-select").nth(0).select_option("15")
    page.get_by_role("button", name="Play").nth(0).click()
    page.wait_for_function("Number(document.querySelector('.pw').dataset.cycle) > 8")
    assert page.evaluate("saved") == []
    page.get_by_role("button", name="Pause").nth(0).click()
    page.wait_for_function("saved.length === 1")


def test_another_trace_is_shown_in_the_same_view(two_views):
    other = product("os")
    two_views.evaluate("(text) => model.set('trace', text)", pack_trace(other))
    two_views.wait_for_function("document.querySelector('h3')?.textContent.startsWith('Output')")
    assert two_views.locator(".pw-shell").count() == 2


def test_off_screen_it_stops_drawing(show):
    page = show(SystolicPlayer(product(m=40), start=0, rate=30), own=True)
    page.evaluate("document.body.style.paddingBottom = '5000px'")
    page.get_by_role("button", name="Play").click()
    page.wait_for_function("Number(document.querySelector('.pw').dataset.cycle) > 2")
    page.evaluate("scrollTo(0, 5000)")
    page.wait_for_function("left.frames.size === 0")
    stood = cycle(page)
    page.wait_for_timeout(300)
    assert cycle(page) == stood and page.get_attribute(".pw", "data-playing") == "true"
    page.evaluate("scrollTo(0, 0)")
    page.wait_for_function(f"Number(document.querySelector('.pw').dataset.cycle) > {stood}")


def test_a_trace_that_cannot_be_read_says_so(open_html):
    player = SystolicPlayer(product())
    page = open_html(player.to_html().replace(player.trace[:40], "A" * 40), errors_expected=True)
    page.wait_for_selector("[role=alert]")
    assert page.inner_text("[role=alert]").startswith("This scene cannot be drawn.")


# -------------------------------------------------------------------------------------- widths and readers


RNG = np.random.default_rng(2)
EIGHT = RNG.integers(-128, 128, (8, 8)).astype(np.int8)
LARGEST = np.full((4, 4), 65504, np.float16)
MANY = np.ones((32, 32), np.int8)
WIDE = np.full((16, 8), -128, np.int8)
FOLDED = np.full((12, 12), -128, np.int8)


@pytest.mark.parametrize(
    "trace",
    [
        systolic.simulate(EIGHT, EIGHT, rows=8, cols=8),
        systolic.simulate(LARGEST, -LARGEST, rows=4, cols=4, dataflow="is"),
        systolic.simulate(MANY, MANY, rows=32, cols=32),
        systolic.simulate(FOLDED, FOLDED.T, rows=4, cols=4),
        systolic.simulate(WIDE, WIDE.T, rows=8, cols=8, overlap=True),
    ],
    ids=["8x8", "65504", "32x32", "folds", "overlapping folds"],
)
def test_nothing_overflows_at_any_width(show, trace):
    page = show(SystolicPlayer(trace))
    seek(page, trace.cycles // 2 + 1)
    for wide in (1280, 960, 640, 390):
        resize(page, wide)
        assert page.evaluate("document.documentElement.scrollWidth") <= wide
        assert spilt_texts(page, ".pw-picture .sy-cell") == [], wide
        touching = page.eval_on_selector_all(
            ".pw-picture .sy-out-name, .pw-picture .sy-out",
            """(texts) => texts.filter((x) => x.textContent).map((x) => x.getBoundingClientRect())
              .filter((one, i, all) => all.some((other, j) => j < i && one.left < other.right + 1
                && other.left < one.right + 1 && one.top < other.bottom - 4
                && other.top < one.bottom - 4)).length""",
        )
        assert touching == 0, wide
        cut = page.eval_on_selector_all(
            ".sy-matrices text",
            """(all) => all.filter((x) => x.getBoundingClientRect().right
              > x.closest("svg").getBoundingClientRect().right + 0.5).map((x) => x.textContent)""",
        )
        assert cut == [], wide
        outside = page.evaluate(
            """() => { const edge = document.documentElement.clientWidth;
              return [...document.querySelectorAll(".pw button, .pw select, .pw-panel, .pw-caption")]
                .filter((x) => x.offsetWidth && x.getBoundingClientRect().right > edge + 0.5)
                .map((x) => x.className); }"""
        )
        assert outside == [], wide


def test_a_still_of_the_film_is_a_place_to_go(show):
    trace = product()
    page = show(SystolicPlayer(trace, start=0), reduced_motion=True)
    page.locator(".pw-film .pw-link").last.click()
    assert cycle(page) == trace.cycles - 1


def test_without_reduced_motion_there_is_no_film_but_print_has_it(show):
    page = show(SystolicPlayer(product()))
    assert not page.locator(".pw-film").is_visible()
    page.emulate_media(media="print")
    page.wait_for_selector(".pw-film figure", state="visible")
    assert not page.locator(".pw-transport").is_visible()


def test_a_dark_scene_is_printed_on_white(show):
    page = show(SystolicPlayer(product()), dark=True)
    paper = "getComputedStyle(document.querySelector('.pw')).backgroundColor"
    assert page.evaluate(paper) == "rgb(20, 25, 31)"
    page.emulate_media(media="print")
    page.wait_for_function("document.querySelector('.pw').dataset.theme === 'light'")
    assert page.evaluate(paper) == "rgb(255, 255, 255)"


def test_the_time_says_first_and_last_cycle_in_head_bar_and_film(show):
    trace = product()
    page = show(SystolicPlayer(trace, start=5), reduced_motion=True)
    words = f"cycle 5 (0 to {trace.cycles - 1})"
    assert page.inner_text(".pw-cycle") == words
    assert page.get_attribute(".pw-scrub", "aria-valuetext") == f"{words}, {page.inner_text('.pw-phase')}"
    assert page.locator(".pw-link").first.inner_text() == f"cycle 0 (0 to {trace.cycles - 1})"


@pytest.mark.parametrize("wide", [1280, 700, 390])
def test_stills_fill_their_figures_and_none_is_cut(show, wide):
    page = show(SystolicPlayer(product()), reduced_motion=True, viewport=(wide, 800))
    cut = page.eval_on_selector_all(
        ".pw-still", "(all) => all.filter((x) => x.scrollWidth > x.clientWidth).length"
    )
    assert cut == 0
    edges = page.eval_on_selector_all(
        ".pw-still .sy-cell:first-of-type .sy-box",
        """(all) => all.map((x) => x.getBoundingClientRect().left
          - x.closest('svg').getBoundingClientRect().left)""",
    )
    assert min(edges) >= 1, "half of the frame's line would lie outside the picture"


def test_on_a_phone_the_sentence_stands_under_the_picture_and_the_buttons_at_the_thumb(show):
    page = show(SystolicPlayer(product()), viewport=(390, 800))
    bottom = "(x) => x.getBoundingClientRect().bottom"
    top = "(x) => x.getBoundingClientRect().top"
    assert 0 <= page.eval_on_selector(".pw-caption", top) - page.eval_on_selector(".pw-picture", bottom) < 30
    page.evaluate("scrollTo(0, document.querySelector('.pw-picture').getBoundingClientRect().top)")
    play = page.eval_on_selector(".pw-play", bottom)
    assert 740 < play <= 800
    assert page.eval_on_selector(".pw-track", bottom) < page.eval_on_selector(".pw-play", top)
    assert page.eval_on_selector(".pw-caption", bottom) < page.eval_on_selector(".pw-track", top)


def test_the_live_region_is_silent_while_playing(show):
    page = show(SystolicPlayer(product(m=30), start=0, rate=8))
    assert page.get_attribute(".pw-caption", "aria-live") == "polite"
    page.get_by_role("button", name="Play").click()
    assert page.get_attribute(".pw-caption", "aria-live") == "off"
    page.get_by_role("button", name="Pause").click()
    assert page.get_attribute(".pw-caption", "aria-live") == "polite"


def test_copy_as_python_shows_the_line(show):
    page = show(SystolicPlayer(product()))
    page.get_by_role("button", name="Copy as Python").click()
    page.wait_for_selector(".pw-python", state="visible")
    assert "systolic.simulate(a, b, rows=4, cols=4, dataflow='ws')" in page.inner_text(".pw-python")


def test_the_scan_sees_what_is_faint_in_the_dark_alone(show, serious):
    page = show(SystolicPlayer(product()), own=True)
    fault = ".pw .pw-rule { color: #333 !important }"
    page.add_style_tag(content=f"@media (prefers-color-scheme: dark) {{ {fault} }}")
    assert serious(page) == []
    assert {name for name, _ in serious(page, dark_too=True)} == {"color-contrast"}


def test_the_scan_sees_a_planted_fault(show, serious):
    page = show(SystolicPlayer(product()), own=True)
    page.evaluate("document.querySelector('.pw-scrub').removeAttribute('aria-label')")
    page.add_style_tag(content=".pw .pw-rule { color: #ccc !important }")
    assert {name for name, _ in serious(page)} >= {"color-contrast"}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_operands_pass_contrast_on_paper_panel_and_working_cells(show, dark):
    """The scan does not read text in SVG: here are its colours against every ground they stand on."""
    page = show(SystolicPlayer(product()), dark=dark)
    names = ["ink", "muted", "blue", "violet", "orange", "green", "paper", "panel", "working"]
    colours = page.eval_on_selector(
        ".pw",
        "(el, names) => names.map((n) => getComputedStyle(el).getPropertyValue(`--${n}`).trim())",
        names,
    )
    light = {name: luminance(value) for name, value in zip(names, colours, strict=True)}
    for text in names[:6]:
        for ground in names[6:]:
            high, low = max(light[text], light[ground]), min(light[text], light[ground])
            assert (high + 0.05) / (low + 0.05) >= 4.5, (text, ground)


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


# ----------------------------------------------------- what others count; a part; a hidden future


@pytest.mark.parametrize(("dataflow", "tool"), [("ws", "SCALE-Sim 3.0.0"), ("os", "STONNE")])
def test_the_scene_says_by_which_count_its_cycles_go_and_what_others_count(show, dataflow, tool):
    trace = product(dataflow)
    page = show(SystolicPlayer(trace))
    rows = systolic.gemm(m=5, k=4, n=4, rows=4, cols=4, dataflow=dataflow).conventions()
    counts = {row.convention: row.cycles for row in rows}
    said = page.inner_text(".pw-given")
    assert said.startswith(f"{counts['register']} cycles, counting each in which a register changes. ")
    key = {"SCALE-Sim 3.0.0": "scalesim", "STONNE": "stonne"}[tool]
    assert f"{tool} counts {counts[key]}" in said
    assert "it prints the number of the last cycle, counted from 0" in said
    page.get_by_role("button", name="Help").click()
    told = page.inner_text("[aria-label=Help]")
    assert all(row.reason in told for row in rows)


def test_chosen_folds_are_shown_by_their_own_numbers(show):
    trace = product(m=3, k=6, n=5, rows=2, cols=2)
    page = show(SystolicPlayer(trace, folds=(2, 3), start=0))
    first = trace.folds[2].start
    assert page.inner_text(".pw-given").startswith(
        f"Shown: folds 3 to 4 of 9; cycle 0 here is cycle {first} of the run. {trace.cycles} cycles"
    )
    assert page.get_attribute(".pw-scrub", "max") == str(2 * trace.folds[0].cycles - 1)
    for t in range(0, 2 * trace.folds[0].cycles, 3):
        seek(page, t)
        assert f"fold {3 + t // trace.folds[0].cycles} of 9" in page.inner_text(".pw-phase")
        fold = f"of fold {3 + t // trace.folds[0].cycles}:"
        assert fold in page.inner_text(".pw-caption")
        cells = shown_cells(page)
        registers = trace.registers(first + t)
        working = [cell["state"] == "working" for cell in cells]
        assert working == registers.active.reshape(-1).tolist()
        held = [cell["values"]["b"] for cell in cells]
        assert held == [
            str(value) if index >= 0 else ""
            for value, index in zip(registers.held.flat, registers.held_index.flat, strict=True)
        ]
        assert page.locator(".pw-ledger dd").first.inner_text() == f"{first + t + 1} of {trace.cycles}"


def test_registers_looked_up_in_chosen_folds_of_a_large_product_are_the_traces(show):
    """Operands cross with zeros where the folds shown never look; what is looked up must not miss them."""
    rng = np.random.default_rng(7)
    for flow in FLOWS:
        a, b = (rng.integers(-9, 10, (70, 70)).astype(np.int8) for _ in "ab")
        trace = systolic.simulate(a, b, rows=10, cols=10, dataflow=flow)
        part = chosen(trace, (9, 10))
        page = show(SystolicPlayer(trace, folds=(9, 10)))
        cycles = [3, part.cycles // 3, part.cycles // 2, part.cycles - 4]
        text = pack_trace(trace, part)
        for t, got in zip(cycles, recomputed(page, text, cycles), strict=True):
            table = np.array(got).reshape(10, 10, 9)
            registers = trace.registers(part.first + t)
            for i, name in enumerate(("held", "right", "down", "held_index", "right_index", "down_index")):
                np.testing.assert_array_equal(table[..., i], getattr(registers, name), f"{flow} {t} {name}")


def test_a_hidden_future_says_no_total_and_names_no_phase_to_come(show):
    trace = product(m=9)  # 19 cycles, a number that nothing else has
    player = SystolicPlayer(trace, start=3, future="hidden")
    page = show(player)
    assert page.inner_text(".pw-cycle") == "cycle 3"
    total = re.compile(rf"\b({trace.cycles}|{trace.cycles - 1})\b")
    shown = [page.inner_text(part) for part in (".pw-head", ".pw-ledger", ".pw-caption")]
    shown += page.locator(".pw-chart text").all_text_contents()
    shown.append(page.get_attribute(".pw-scrub", "aria-valuetext"))
    assert not [text for text in shown if total.search(text)], shown
    assert page.locator(".pw-chapter").count() == 0 and page.locator(".pw-given").count() == 0
    player.future = "dimmed"
    page = show(player)
    assert page.inner_text(".pw-cycle") == f"cycle 3 (0 to {trace.cycles - 1})"
    assert page.locator(".pw-chapter").count() > 2 and total.search(page.inner_text(".pw-given"))
