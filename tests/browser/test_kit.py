"""The kit's parts in a real browser, each on its own: clock with fake time, wire, labels, hosts, themes."""

import json
from pathlib import Path

import numpy as np
import pytest

from pulsewarp.widgets import _module

pytestmark = pytest.mark.browser
GOLDEN = Path(__file__).parents[1] / "reference" / "wire_golden.json"

PARTS = ["clock", "dom", "form", "host", "keyboard", "panels", "stage", "theme", "transport", "wire"]


@pytest.fixture
def kit(open_html):
    """A page that draws nothing and holds the kit's modules as `kit.clock`, `kit.wire`, ..."""
    parts = ", ".join(f"{name}: $kit_{name}" for name in PARTS)
    return open_html(
        f'<!doctype html><title>kit</title><link rel="icon" href="data:,"><main id="el"></main>'
        f'<script type="module">{_module.join("systolic.js")}\nwindow.kit = {{ {parts} }};</script>'
    )


CLOCK = """
(options) => {
  const controller = new AbortController();
  const waiting = new Map();
  let id = 0;
  window.frames_asked = waiting;
  const frames = {
    request: (callback) => { waiting.set(++id, callback); return id; },
    cancel: (which) => waiting.delete(which),
  };
  window.time = kit.clock.clock({ frames, signal: controller.signal, ...options });
  window.shown = []; window.rested = [];
  time.onShow(({ cycle }) => shown.push(cycle));
  time.onRest((cycle) => rested.push(cycle));
  window.close_clock = () => controller.abort();
  window.tick = (at) => {
    const due = [...waiting.values()];
    waiting.clear();
    due.forEach((callback) => callback(at));
  };
}
"""


def test_the_clock_counts_fake_time(kit):
    kit.evaluate(CLOCK, {"cycles": 10, "rate": 10})
    kit.evaluate("time.play(); [0, 100, 200, 300].forEach(tick)")
    assert kit.evaluate("shown") == [0, 1, 2, 3]
    assert kit.evaluate("rested") == []
    kit.evaluate("time.pause(); tick(400)")
    assert kit.evaluate("[time.now().cycle, rested, frames_asked.size]") == [3, [3], 0]


def test_the_clock_stops_at_the_end_and_starts_over(kit):
    kit.evaluate(CLOCK, {"cycles": 3, "rate": 10})
    kit.evaluate("time.play(); [0, 100, 200, 300, 400].forEach(tick)")
    assert kit.evaluate("[time.now().cycle, time.now().playing, rested]") == [2, False, [2]]
    kit.evaluate("time.play()")
    assert kit.evaluate("time.now().cycle") == 0


def test_a_long_absence_does_not_leap(kit):
    kit.evaluate(CLOCK, {"cycles": 1000, "rate": 10})
    kit.evaluate("time.play(); [0, 100, 60000].forEach(tick)")
    assert kit.evaluate("time.now().cycle") <= 4


def test_the_clock_stops_at_chapters_when_asked(kit):
    kit.evaluate(CLOCK, {"cycles": 10, "rate": 10, "chapters": [0, 2, 5]})
    kit.evaluate("time.setStops(true); time.play(); [0, 100, 200, 300].forEach(tick)")
    assert kit.evaluate("[time.now().cycle, time.now().playing]") == [2, False]


def test_steps_chapters_and_ends_stay_inside(kit):
    kit.evaluate(CLOCK, {"cycles": 10, "chapters": [0, 4, 7], "start": 99})
    moves = "home step(-1) step(1) chapter(1) chapter(1) chapter(1) chapter(-1) end step(1) seek(3)"
    calls = [m if "(" in m else f"{m}()" for m in moves.split()]
    assert kit.evaluate("time.now().cycle") == 9
    assert [kit.evaluate(f"(time.{c}, time.now().cycle)") for c in calls] == [0, 0, 1, 4, 7, 9, 7, 9, 9, 3]


def test_off_screen_no_frame_is_asked_for(kit):
    kit.evaluate(CLOCK, {"cycles": 10, "rate": 10})
    kit.evaluate("time.play(); tick(0); time.setVisible(false)")
    assert kit.evaluate("frames_asked.size") == 0
    kit.evaluate("time.setVisible(true)")
    assert kit.evaluate("[frames_asked.size, time.now().playing]") == [1, True]


def test_a_closed_clock_is_silent(kit):
    kit.evaluate(CLOCK, {"cycles": 10, "rate": 10})
    kit.evaluate("time.play(); close_clock(); shown.length = 0; time.play(); time.step(1); tick(500)")
    assert kit.evaluate("[shown, frames_asked.size]") == [[], 0]


def test_the_browser_reads_the_golden_wire(kit):
    golden = json.loads(GOLDEN.read_text())
    got = kit.evaluate(
        """async (text) => {
          const { header, columns } = await kit.wire.unpack(text);
          return { kind: header.kind, note: header.note,
                   columns: Object.fromEntries(Object.entries(columns).map(([name, c]) => [name, [...c]])) };
        }""",
        golden["text"],
    )
    assert got["kind"] == "golden" and got["note"] == json.loads('"minus one is silence: \\u22121"')
    for name, values in golden["columns"].items():
        assert got["columns"][name] == np.asarray(values).reshape(-1).tolist(), name


@pytest.mark.parametrize("text", ["AAAA", "eJwDAAAAAAE="])
def test_a_broken_wire_is_refused(kit, text):
    assert (
        kit.evaluate("(text) => kit.wire.unpack(text).then(() => 'read', () => 'refused')", text) == "refused"
    )


def test_chapter_labels_never_touch(kit):
    labels = [{"left": left, "width": 60} for left in (0, 10, 40, 69, 80, 150, 170, 400)]
    rows = kit.evaluate("(labels) => kit.transport.labelRows(labels, 3, 300)", labels)
    assert rows[-1] == -1, "beyond the room"
    for i, one in enumerate(labels):
        for j, other in enumerate(labels[:i]):
            if rows[i] == rows[j] != -1:
                assert other["left"] + other["width"] + 8 <= one["left"]


def test_no_stem_crosses_another_label_and_the_right_edge_keeps_its_labels(kit):
    stems = (0, 10, 40, 69, 80, 150, 170, 265, 270, 280)
    labels = [{"stem": stem, "width": 60, "left": stem - 60 * (stem > 240)} for stem in stems]
    rows = kit.evaluate("(labels) => kit.transport.labelRows(labels, 3, 300)", labels)
    assert all(row >= 0 for row in rows[-3:])
    for text, row in zip(labels, rows, strict=True):
        for other, below in zip(labels, rows, strict=True):
            if -1 < row < below:
                assert not text["left"] < other["stem"] < text["left"] + text["width"]


def test_the_page_model_tells_a_change_once(kit):
    assert kit.evaluate("""() => {
      const model = kit.host.pageModel({ cursor: 1 });
      let heard = 0;
      const listener = () => { heard += 1; };
      model.on("change:cursor", listener);
      model.set("cursor", 1); model.set("cursor", 2);
      model.off("change:cursor", listener);
      model.set("cursor", 3);
      return [heard, model.get("cursor")];
    }""") == [1, 3]


THEMES = [
    ("body", "data-jp-theme-light", "false", "dark"),
    ("body", "data-jp-theme-light", "true", "light"),
    ("documentElement", "theme", "dark", "dark"),
    ("documentElement", "theme", "light", "light"),
    ("body", "class", "vscode-dark", "dark"),
    ("body", "class", "vscode-high-contrast vscode-high-contrast-light", "light"),
    ("body", "class", "notebook_app", "light"),
]


@pytest.mark.parametrize("system", ["light", "dark"])
def test_the_hosts_theme_wins_over_the_systems(kit, system):
    kit.emulate_media(color_scheme=system)
    kit.evaluate("window.stop = new AbortController(); kit.theme.theme(el, stop.signal)")
    assert kit.evaluate("el.dataset.theme") == system
    for where, name, value, wanted in THEMES:
        kit.evaluate(f"document.{where}.setAttribute('{name}', '{value}')")
        kit.wait_for_function(f"el.dataset.theme === '{wanted}'")
        kit.evaluate(f"document.{where}.removeAttribute('{name}')")
        kit.wait_for_function(f"el.dataset.theme === '{system}'")
    kit.evaluate("stop.abort()")
    assert kit.evaluate("[left.observers.size, left.outside.length]") == [0, 0]


def test_a_host_without_signal_gets_a_closer(kit):
    assert kit.evaluate("""() => {
      const seen = [];
      const render = kit.host.hosted(({ signal }) => seen.push(signal));
      const own = new AbortController();
      const first = render({ model: null, el: null, signal: own.signal });
      const close = render({ model: null, el: null });
      const before = seen[1].aborted;
      close();
      return [first === undefined, seen[0] === own.signal, before, seen[1].aborted];
    }""") == [True, True, False, True]


# ------------------------------------------------------------------------------------------- what is asked

ASKED = """(patience) => {
  const model = kit.host.pageModel({});
  const heard = [], ends = [new AbortController(), new AbortController()];
  window.asked = { model, heard, ends, listeners: 0 };
  const [on, off] = [model.on, model.off];
  model.on = (...given) => { asked.listeners += 1; on(...given); };
  model.off = (...given) => { asked.listeners -= 1; off(...given); };
  asked.ids = ends.map((end, i) => {
    kit.host.ask(model, { kind: "verify", cycle: i }, {
      signal: end.signal, waiting: () => heard.push([i, "waits"]),
      answered: (reply) => heard.push([i, reply.report]),
    });
    return model.get("request").id;
  });
}"""


def test_each_who_asks_hears_the_own_answer_only_and_once(kit):
    kit.evaluate(ASKED)
    assert kit.evaluate("asked.ids[0] !== asked.ids[1]")
    kit.evaluate("asked.model.set('reply', { id: 'another', report: 'no' })")
    kit.evaluate("asked.model.set('reply', { id: asked.ids[1], report: 'second' })")
    assert kit.evaluate("[asked.heard, asked.listeners]") == [[[1, "second"]], 1]
    kit.evaluate("asked.model.set('reply', { id: asked.ids[0], report: 'first' })")
    kit.evaluate("asked.model.set('reply', { id: asked.ids[0], report: 'again' })")
    assert kit.evaluate("[asked.heard, asked.listeners]") == [[[1, "second"], [0, "first"]], 0]


def test_who_has_closed_hears_nothing_and_leaves_nothing(kit):
    kit.evaluate(ASKED)
    kit.evaluate("asked.ends.forEach((end) => end.abort())")
    kit.evaluate("asked.model.set('reply', { id: asked.ids[0], report: 'late' })")
    assert kit.evaluate("[asked.heard, asked.listeners]") == [[], 0]
