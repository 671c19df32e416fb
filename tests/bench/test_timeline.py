"""A profiler's trace as a timeline: nothing counted twice, nothing claimed that was not recorded."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsewarp.bench import timeline
from pulsewarp.bench.timeline import Timeline, build_timeline, read_timeline


def lane(process: str, thread: str, pid: int = 1, tid: int = 1) -> list[dict[str, Any]]:
    return [
        {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": process}},
        {"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": thread}},
    ]


def span(
    name: str, start: float, lasts: float, pid: int = 1, tid: int = 1, **arguments: str
) -> dict[str, Any]:
    """One event, times in microseconds."""
    return {"ph": "X", "pid": pid, "tid": tid, "ts": start, "dur": lasts, "name": name, "args": arguments}


def op(name: str, start: float, lasts: float, run: str, tid: int) -> dict[str, Any]:
    return span(name, start, lasts, 1, tid, hlo_op=name, run_id=run)


# What JAX 0.7.2 recorded on a CPU for two calls of softmax(relu(a @ b) + 1), times rounded, short operations
# and the runtime left out (2026-12-01). The product's own event lasts 9 ms, but its result was there only
# after 52: the rest was done by threads that write no event. Its mark of call 1 came after call 2 had begun.
SLOW = [
    *lane("/host:CPU", "python", tid=1),
    *lane("/host:CPU", "tf_XLAPjRtCpuClient/5119068602482487400", tid=2),
    *lane("/host:CPU", "tf_XLAEigen/-7888080005186554641", tid=3),
    span("call 1 of 2", 560, 65_660),
    op("dot_general.1", 870, 8_690, "-65", 2),
    op("broadcast_add_fusion", 53_250, 7_350, "-65", 3),
    span("end: broadcast_add_fusion", 60_605, 2, 1, 3),
    op("subtract_exponential_fusion", 62_320, 2_270, "-65", 3),
    span("end: subtract_exponential_fusion", 64_595, 2, 1, 3),
    span("call 2 of 2", 66_260, 52_690),
    op("dot_general.1", 66_440, 5_900, "-64", 2),
    span("end: dot_general.1", 72_390, 2, 1, 3),
    op("broadcast_add_fusion", 112_340, 1_280, "-64", 3),
    span("end: broadcast_add_fusion", 113_625, 2, 1, 3),
    op("subtract_exponential_fusion", 115_200, 2_180, "-64", 3),
    span("end: subtract_exponential_fusion", 117_385, 2, 1, 3),
    span("end: dot_general.1", 118_550, 2, 1, 3),
]


def total(taken: Timeline, name: str, category: str) -> float:
    return sum(each.seconds for each in taken.totals if (each.name, each.category) == (name, category))


def check_handed_over() -> None:
    taken = build_timeline(SLOW)
    handed = {(each.start, each.seconds) for each in taken.events if each.name == "dot_general.1"}
    # From the end of its event (9.56 and 72.34 ms) to the next operation's start, since the first event.
    assert sorted(round(1e3 * seconds, 2) for _, seconds in handed) == [5.9, 8.69, 40.0, 43.69]
    assert total(taken, "dot_general.1", "handed over") == pytest.approx(83.69e-3)
    assert taken.busy_share is not None and 0.9 < taken.busy_share < 1
    assert any("shown as handed over" in note for note in taken.notes)


def test_a_product_handed_to_other_threads_lasts_until_the_next_operation() -> None:
    check_handed_over()


def test_the_check_sees_marks_taken_for_those_of_their_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A late mark of call 1 must not end the product of call 2, though it is the first that follows it."""
    monkeypatch.setattr(
        timeline, "_take_mark", lambda marks, end: min((m for m in marks if m >= end), default=float("inf"))
    )
    with pytest.raises(AssertionError):
        check_handed_over()


def test_an_operation_that_marked_its_end_at_once_was_not_handed_over() -> None:
    """Its caller woke up late: JAX 0.12.0, where the mark stood on another thread."""
    events = [
        *lane("/host:CPU", "python"),
        span("call 1 of 1", 0, 3_000),
        op("fusion.1", 100, 134, "1", 2),
        span("end: fusion.1", 280, 2, 1, 3),
    ]
    assert "handed over" not in {event.category for event in build_timeline(events).events}
    late = build_timeline([*events[:-1], span("end: fusion.1", 2_000, 2, 1, 3)])
    assert total(late, "fusion.1", "handed over") == pytest.approx(1766e-6)


def test_without_marks_nothing_is_said_about_other_threads() -> None:
    silent = [event for event in SLOW if not str(event["name"]).startswith("end:")]
    assert {event.category for event in build_timeline(silent).events} == {"call", "operation"}


DEVICE = [
    *lane("/host:CPU", "python", 7, 9),
    *lane("/device:TPU:0", "XLA Ops", 3, 1),
    *lane("/device:TPU:0", "XLA Modules", 3, 2),
    *lane("/device:GPU:1", "Stream #13(Compute)", 4, 1),
    *lane("/device:GPU:1", "Stream #14(MemcpyH2D)", 4, 2),
    span("call 1 of 1", 0, 100, 7, 9),
    span("PjitFunction(f)", 1, 10, 7, 9),
    span("Await", 20, 80, 7, 9),
    span("fusion.1", 10, 20, 3, 1),
    span("while.1", 40, 40, 3, 1),
    span("fusion.2", 45, 10, 3, 1),
    span("jit_f(1)", 10, 70, 3, 2),
    span("nvjet_128x256", 10, 50, 4, 1),
    span("MemcpyH2D", 2, 5, 4, 2),
]


def test_lanes_of_devices_and_hosts_are_told_apart() -> None:
    taken = build_timeline(DEVICE)
    found = {(event.name, event.category, taken.lanes[event.lane].process) for event in taken.events}
    assert found == {
        ("call 1 of 1", "call", "host"),
        ("PjitFunction(f)", "runtime", "host"),
        ("Await", "wait", "host"),
        ("fusion.1", "operation", "TPU:0"),
        ("while.1", "operation", "TPU:0"),
        ("fusion.2", "operation", "TPU:0"),
        ("jit_f(1)", "program", "TPU:0"),
        ("nvjet_128x256", "kernel", "GPU:1"),
        ("MemcpyH2D", "copy", "GPU:1"),
    }
    assert [each.process for each in taken.lanes] == ["host", "TPU:0", "GPU:1", "GPU:1", "TPU:0"]


def test_what_lies_inside_is_not_counted_twice() -> None:
    taken = build_timeline(DEVICE)
    own = {each.name: round(1e6 * each.own_seconds, 3) for each in taken.totals}
    assert (own["while.1"], own["fusion.2"], own["fusion.1"]) == (30, 10, 20)
    depth = {event.name: event.depth for event in taken.events}
    assert (depth["while.1"], depth["fusion.2"]) == (0, 1)
    # 2-7 copied, 10-60 a kernel, 60-80 still the loop: 75 of the call's 100 microseconds.
    assert taken.busy_share == pytest.approx(0.75)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30)), min_size=1, max_size=12))
def test_own_times_and_idle_times_fill_a_lane(pairs: list[tuple[int, int]]) -> None:
    """Events cut so that they nest: own times add up to the busy time, and busy and idle to the whole."""
    nested: list[tuple[int, int]] = []
    for start, lasts in pairs:
        end = start + lasts
        if all(
            end <= a or start >= b or (a <= start and end <= b) or (start <= a and b <= end)
            for a, b in nested
        ):
            nested.append((start, end))
    taken = build_timeline([span(f"n{i}", a, b - a) for i, (a, b) in enumerate(nested)])
    (only,) = taken.lanes
    assert sum(event.own_seconds for event in taken.events) == pytest.approx(only.busy_seconds)
    assert only.busy_seconds + sum(idle.seconds for idle in only.idle) == pytest.approx(taken.seconds)
    assert all(event.own_seconds >= 0 and event.start >= 0 for event in taken.events)


def test_the_check_sees_nested_events_counted_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "_nest", lambda spans: None)
    with pytest.raises(AssertionError):
        test_what_lies_inside_is_not_counted_twice()


def test_a_large_trace_keeps_its_longest_events_and_counts_them_all() -> None:
    many = [span("short", 10 * i, 1 + i % 5, tid=i % 30) for i in range(9000)] + [
        span("long", 0, 9e5, tid=99)
    ]
    taken = build_timeline(many, most_events=100)
    assert len(taken.events) == 100 and len(taken.lanes) <= 12 and taken.left_out == 9001 - 100
    assert {each.name: each.count for each in taken.totals} == {"short": 9000, "long": 1}
    assert "long" in {event.name for event in taken.events}
    assert len(repr(taken)) < 2000 and "8901 shorter ones are left out" in repr(taken)


def test_calls_are_kept_however_short() -> None:
    events = [span("call 1 of 1", 0, 5), *(span("x", 10 * i, 9) for i in range(50))]
    assert len(build_timeline(events, most_events=10).calls) == 1


@pytest.mark.parametrize(
    "bad",
    [
        None,
        5,
        {"ph": "X"},
        {"ph": "X", "ts": "1", "dur": 2, "name": "x"},
        {"ph": "X", "ts": 1, "dur": float("nan"), "name": "x"},
        {"ph": "X", "ts": 1, "dur": -5, "name": "x"},
        {"ph": "X", "ts": 1, "dur": 1e-6, "name": "a mark"},
        {"ph": "X", "ts": 1, "dur": 3, "name": 7},
        {"ph": "X", "ts": 1, "dur": 3, "name": "$file.py:3 function"},
        {"ph": "M", "name": "thread_name"},
        {},
    ],
    ids=str,
)
def test_what_is_malformed_or_no_stretch_of_time_is_left_out(bad: Any) -> None:
    plain = build_timeline([*DEVICE])
    assert build_timeline([*DEVICE, bad]).events == plain.events
    assert build_timeline([bad]).events == ()


def test_functions_of_python_are_counted_when_left_out() -> None:
    assert "1 event of Python's own functions are left out." in "".join(
        build_timeline([*DEVICE, span("$f.py:1 g", 1, 2)]).notes
    )


def test_names_do_not_change_from_run_to_run() -> None:
    """Threads carry a number that differs at each run; a repr must not."""
    other = json.loads(json.dumps(SLOW).replace("5119068602482487400", "17").replace("-65", "-99"))
    assert build_timeline(other) == build_timeline(SLOW)
    assert [each.name for each in build_timeline(SLOW).lanes] == [
        "python",
        "handed over",
        "XLAPjRtCpuClient",
        "XLAEigen",
    ]


def written(folder: Path, events: list[Any], run: str = "2026_12_01_00_00_00") -> Path:
    file = folder / "plugins" / "profile" / run / "vm.trace.json.gz"
    file.parent.mkdir(parents=True)
    file.write_bytes(gzip.compress(json.dumps({"traceEvents": events}).encode()))
    return file


def test_the_newest_run_of_a_folder_is_read(tmp_path: Path) -> None:
    new = written(tmp_path, SLOW, "b")
    old = written(tmp_path, DEVICE, "a")
    os.utime(old.parent, (1, 1))
    taken = read_timeline(tmp_path)
    assert taken.folder == str(tmp_path) and taken.events == build_timeline(SLOW).events
    assert read_timeline(old).events == build_timeline(DEVICE).events
    assert read_timeline(new, most_events=1).left_out == len(build_timeline(SLOW).events) - 1
    plain = tmp_path / "plain.json"
    plain.write_bytes(gzip.decompress(new.read_bytes()))
    assert read_timeline(plain).events == taken.events


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is no profiler's trace"),
        (b"\x1f\x8bgarbage", "is no profiler's trace"),
        (gzip.compress(b'{"traceEvents": []}', mtime=0)[:-9], "is cut short"),
        (gzip.compress(b'{"traceEvents": [', mtime=0)[:], "is no profiler's trace"),
        (b"\xff\xfe\x00", "is no profiler's trace"),
        (b"[1, 2]", "holds no list of traceEvents"),
        (b'{"traceEvents": 3}', "holds no list of traceEvents"),
    ],
)
def test_broken_files_are_refused_in_a_sentence(tmp_path: Path, content: bytes, sentence: str) -> None:
    file = tmp_path / "vm.trace.json.gz"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=sentence) as caught:
        read_timeline(file)
    assert str(file) in str(caught.value)


def test_a_file_too_large_to_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "_LARGEST_FILE", 1000)
    file = tmp_path / "vm.trace.json.gz"
    file.write_bytes(gzip.compress(json.dumps({"traceEvents": SLOW}).encode()))
    with pytest.raises(ValueError, match="too large to read here; profile fewer calls"):
        read_timeline(file)


def test_a_folder_without_a_trace_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="holds no"):
        read_timeline(tmp_path)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_timeline(tmp_path / "nowhere")


def test_an_empty_timeline_says_so() -> None:
    assert "Nothing was recorded." in repr(Timeline(notes=("Because.",)))
    assert "Because." in Timeline(notes=("Because.",))._repr_html_()
    assert build_timeline([]).notes == ("The trace holds no event.",)


def test_how_to_open_names_the_folder_only_if_there_is_one() -> None:
    assert "xprof --port 8791 runs/a" in Timeline(folder="runs/a").how_to_open
    assert "give folder=" in Timeline().how_to_open
