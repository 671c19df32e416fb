"""The Python side of every player: traits, seek, the page, the bundle an output keeps."""

import inspect
import json
import re
import sys
import types

import ipywidgets
import numpy as np
import pytest

from pulsewarp import systolic
from pulsewarp.widgets import _player
from pulsewarp.widgets._player import Player, first_frame
from pulsewarp.widgets.systolic import SystolicPlayer


@pytest.fixture
def trace():
    return systolic.simulate(np.arange(6).reshape(2, 3), np.arange(6).reshape(3, 2), rows=3, cols=2)


@pytest.fixture
def player(trace):
    return SystolicPlayer(trace)


def test_a_start_wants_no_poster():
    assert first_frame(None, 3, 9) == (3, 3)
    assert first_frame(0, 3, 9) == (0, None)
    assert first_frame(None, 0, 9) == (0, None)
    with pytest.raises(
        ValueError, match="start is 9, but must be a whole number of at least 0 and at most 8"
    ):
        first_frame(9, 3, 9)


def test_the_trace_travels_as_text(player):
    state = player.get_state()
    assert isinstance(state["trace"], str) and state["trace"].isascii()
    assert set(state) >= {"trace", "options", "cursor", "selected", "_esm", "_css"}


def test_any_front_end_may_take_it(player):
    assert player._model_module_version == "*" and player._view_module_version == "*"


def test_on_colab_the_front_end_is_asked_for_by_its_version(trace, monkeypatch):
    output = types.ModuleType("google.colab.output")
    output.enable_custom_widget_manager = lambda: None
    monkeypatch.setitem(sys.modules, "google.colab", types.ModuleType("google.colab"))
    monkeypatch.setitem(sys.modules, "google.colab.output", output)
    assert SystolicPlayer(trace)._model_module_version != "*"


def test_seek_moves_the_playhead(player):
    player.seek(3)
    assert player.cursor == 3


def test_each_seek_is_sent_even_to_where_the_cursor_already_is(player):
    player.seek(3)
    sent = []
    player.observe(lambda change: sent.append(change["name"]), ["cursor", "seeks"])
    player.seek(3)
    assert sent == ["seeks"]


@pytest.mark.parametrize("cycle", [-1, 10_000])
def test_seek_outside_the_run_names_the_limit(player, cycle):
    with pytest.raises(ValueError, match=rf"cycle is {cycle}.*at most {player._cycles - 1}"):
        player.seek(cycle)


@pytest.mark.wrong_type
def test_seek_to_half_a_cycle_is_refused(player):
    with pytest.raises(ValueError, match="whole number"):
        player.seek(1.5)


def test_a_front_end_cannot_push_the_cursor_outside(player):
    with pytest.raises(ValueError, match="cycle is 99"):
        player.cursor = 99


def test_unknown_keywords_raise(trace):
    with pytest.raises(
        TypeError, match=r"SystolicPlayer does not know the keyword 'rates'. Did you mean 'rate'\?"
    ):
        SystolicPlayer(trace, rates=2)


def test_repr_is_the_same_everywhere(player):
    assert repr(player) == "SystolicPlayer(ws, 3x2 cells, 8 cycles)"


def test_the_bundle_holds_the_widget_a_page_and_words(player):
    data, _ = player._repr_mimebundle_()
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == player.model_id
    assert data["text/plain"] == repr(player)
    assert data["text/html"].startswith("<iframe") and "srcdoc=" in data["text/html"]


def test_display_does_not_go_around_the_bundle(player):
    """ipywidgets 7 displays through `_ipython_display_`, which would leave the page out."""
    assert player._ipython_display_ is None


def test_the_page_names_nothing_outside_itself(player):
    page = player.to_html()
    addresses = set(re.findall(r"https?://[^\s\"'<>)]+", page))
    assert addresses <= {"http://www.w3.org/2000/svg"}
    assert "src=" not in page and "@import" not in page


def test_nothing_in_the_state_can_end_the_pages_script(trace):
    page = SystolicPlayer(trace, title="</script><!-- odd").to_html()
    assert page.count("</script>") == 1
    assert "&lt;/script&gt;" in page


def test_the_page_holds_the_state(player):
    player.seek(5)
    found = re.search(r'getElementById\("player"\), (\{.*\})\);', player.to_html())
    assert found
    state = json.loads(found[1])
    assert state["cursor"] == 5 and state["trace"] == player.trace


def test_showing_another_run_keeps_the_widget(player):
    other = systolic.simulate([[1]], [[2]], rows=1, cols=1)
    before = player.model_id
    player.show(other)
    assert player.model_id == before and player._cycles == other.cycles and player.cursor < other.cycles
    assert repr(player) == f"SystolicPlayer(ws, 1x1 cells, {other.cycles} cycles)"


def test_two_players_share_one_module_text(player, trace):
    assert SystolicPlayer(trace)._esm is player._esm
    assert isinstance(player, Player) and isinstance(player, ipywidgets.DOMWidget)


# --- what a reader asks for ---------------------------------------------------------------------------------


def asked(player, **request):
    player.request = {"id": str(request), **request}
    assert player.reply["id"] == str(request)
    return player.reply


def test_verify_is_answered_with_the_traces_report(player, trace):
    rows = asked(player, kind="verify", cycle=4)["report"]
    wanted = trace.verify(cycle=4).checks if "cycle" in inspect.signature(trace.verify).parameters else None
    assert rows == [[check.name, check.passed, check.says] for check in wanted or trace.verify().checks]


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"kind": "verify", "cycle": 99}, "cycle is 99, but must be a whole number"),
        ({"kind": "verify"}, "cycle is None"),
        ({"kind": "paint"}, "Nothing in this notebook answers a request for 'paint'."),
        ({}, "Nothing in this notebook answers a request for None."),
    ],
)
def test_what_cannot_be_answered_is_a_sentence(player, request_, words):
    assert asked(player, **request_)["error"].startswith(words)


def test_a_page_brings_the_report_and_the_check_of_each_frame(player, trace):
    state = json.loads(json.dumps(player._page_state()))
    assert state["written"]["run"] == [[c.name, c.passed, c.says] for c in trace.verify().checks]
    if "cycle" in inspect.signature(trace.verify).parameters:
        assert list(state["written"]["frames"]) == [str(t) for t in range(trace.cycles)]
        every = [row for rows in state["written"]["frames"].values() for row in rows]
        assert len(every) >= trace.cycles and all(passed for _, passed, _ in every)


def test_a_frame_checked_alone_says_what_the_whole_report_says_of_it(player, trace):
    for t in range(trace.cycles):
        alone = [[c.name, c.passed, c.says] for c in trace.verify(t).checks[len(trace.verify().checks) :]]
        assert len(alone) == 1 and player._frame_alone(t) == alone


@pytest.mark.exhaustive
def test_a_run_of_64_x_64_cells_brings_every_frame_and_checks_the_whole_run_once(monkeypatch):
    ones = np.ones((64, 64), np.int8)
    run = systolic.simulate(ones, ones, rows=64, cols=64)
    whole = []
    verify = systolic.SystolicTrace.verify

    def count(run, cycle=None):
        whole.append(cycle)
        return verify(run, cycle)

    monkeypatch.setattr(systolic.SystolicTrace, "verify", count)
    assert len(SystolicPlayer(run)._written_report()["frames"]) == run.cycles
    assert len(whole) == 1


@pytest.mark.parametrize("limit", ["MOST_CYCLES_VERIFIED", "MOST_BYTES_OF_FRAMES"])
def test_a_page_of_a_long_run_says_that_its_frames_were_not_checked(player, monkeypatch, limit):
    monkeypatch.setattr(_player, limit, -1)
    written = player._page_state()["written"]
    assert written["frames"] == {} and written["run"]
    assert written["no_frames"] == "Of a run this long, single frames are checked by a kernel only."


def test_a_page_of_a_large_run_says_that_it_was_not_checked(player, monkeypatch):
    monkeypatch.setattr(_player, "MOST_BYTES_VERIFIED", len(player.trace) - 1)
    assert player._page_state()["written"] == {
        "left_out": "This run is too large to have been checked with the page; in Python, trace.verify() "
        "checks it."
    }


def test_several_traces_are_verified_by_name(trace):
    class Two(Player):
        _scene = "systolic.js"

    two = Two("", cycles=trace.cycles, shows={"sound": trace, "of nothing": object()})
    assert {row[0] for row in two._report()} == {f"sound: {check.name}" for check in trace.verify().checks}
    assert "verify" not in Two("", cycles=1, shows=object()).options


def test_a_task_reaches_the_browser_and_must_be_a_sentence(trace):
    assert SystolicPlayer(trace, task="Look.").options["task"] == "Look."
    assert SystolicPlayer(trace).options["task"].startswith("before you step")


@pytest.mark.wrong_type
def test_a_task_that_is_no_sentence_is_refused(trace):
    with pytest.raises(TypeError, match="task is 3"):
        SystolicPlayer(trace, task=3)


def test_showing_another_run_moves_the_poster_and_the_report(player):
    other = systolic.simulate([[1]], [[2]], rows=1, cols=1)
    player.show(other)
    assert player.options["poster"] == player.cursor and player.options["verify"] is True
    assert asked(player, kind="verify", cycle=0)["report"][0][2].startswith("1 of 1 results")
