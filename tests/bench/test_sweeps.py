"""Sweeps keep what they measured, whatever happens and whenever it happens."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import io
import json
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from pulsewarp import bench
from pulsewarp.bench import shapes
from pulsewarp.bench.live import _bar, _interrupts, _runs, sweeps
from pulsewarp.bench.live._clock import Interrupted, Repeats
from pulsewarp.bench.measurement import Measurement, dumps
from pulsewarp.matmul import Matmul

Call = Callable[..., Any]
Said = Callable[[], list[str]]
Asked = list[dict[str, Any]]


@pytest.fixture(scope="module")
def example() -> Measurement:
    return dataclasses.replace(bench.recorded()[0], seconds=(1e-3, 2e-3))


@pytest.fixture
def asked(example: Measurement, monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Let a product take no time: what was asked for, in order; each m tells its measurement."""
    seen: Asked = []

    def measure(m: int, k: int, n: int, **options: Any) -> Measurement:
        seen.append({"m": m, "k": k, "n": n, **options})
        return dataclasses.replace(example, matmul=Matmul(m, k, n, "fp32"))

    monkeypatch.setattr(sweeps, "time_matmul", measure)
    return seen


@pytest.fixture
def said() -> Iterator[Said]:
    """Return the sentences of the warnings since the test began."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield lambda: [str(each.message) for each in caught]


def sizes_of(runs: list[Measurement]) -> list[int]:
    return [run.matmul.m for run in runs]


# --- interrupts -------------------------------------------------------------------------------------------

WATCHED = {_runs.__file__, sweeps.__file__, _interrupts.__file__, _bar.__file__}


class InterruptAt:
    """Send a real SIGINT at the n-th line that the sweep's own code executes, and one some lines later."""

    def __init__(self, line: int, again: int | None = None) -> None:
        self.lines, self.at = 0, {line} if again is None else {line, line + again}
        self.sent = False

    def __call__(self, frame: FrameType, event: str, _: Any) -> Call | None:
        if frame.f_code.co_filename not in WATCHED:
            return None
        if event == "line":
            if self.lines in self.at:
                self.sent = True
                signal.raise_signal(signal.SIGINT)
            self.lines += 1
        return self


def swept_with(
    interrupt: InterruptAt, measured: Asked, path: Path, told: list[Measurement]
) -> list[Measurement] | None:
    """Sweep three products; None when the interrupt got out, as it may before the first one."""
    measured.clear()
    told.clear()
    path.unlink(missing_ok=True)
    before = sys.gettrace()
    sys.settrace(interrupt)
    try:
        return bench.sweep([2, 4, 8], progress=told.append, out=path, bar=False)
    except KeyboardInterrupt:
        return None
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("again", [None, 1, 4])
def test_an_interrupt_at_any_line_and_another_soon_after_lose_nothing(
    again: int | None, asked: Asked, tmp_path: Path, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # hundreds of files are written
    handler, path, line, ended = signal.getsignal(signal.SIGINT), tmp_path / "run.json", 0, 0
    told: list[Measurement] = []
    while True:
        interrupt = InterruptAt(line, again)
        found = swept_with(interrupt, asked, path, told)
        assert signal.getsignal(signal.SIGINT) is handler
        if not interrupt.sent:
            break
        if found is None:
            assert asked == [], f"line {line}: something was measured, and the interrupt took it along"
        else:
            assert sizes_of(found) == [each["m"] for each in asked]
            assert told == found, f"line {line}: each is told, and once"
            assert not found or path.read_text(encoding="utf-8") == dumps(found)
            ended += len(found) < 3
        line += 1
    assert line > 60 and ended > 20 and found is not None and len(found) == 3
    assert any(sentence.startswith("Interrupted: 1 of 3 products") for sentence in said())


def test_the_check_of_every_line_sees_a_sweep_that_loses(
    asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Said
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(_interrupts.Interrupts, "_answer", lambda *_: signal.default_int_handler(2, None))
    for line in range(500):
        interrupt = InterruptAt(line, 2)
        found = swept_with(interrupt, asked, tmp_path / "run.json", [])
        assert interrupt.sent, "no line was found at which that sweep loses"
        if asked and (found is None or len(found) < len(asked)):
            return


def test_the_check_of_every_line_sees_a_sweep_that_does_not_tell(
    asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Said
) -> None:
    def forgetful(self: Any, bar: Any, within: Any) -> None:
        run = self.untold.pop() if self.untold else None
        with within:
            if run:
                self.progress(run)

    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(_runs.Runs, "_tell", forgetful)
    told: list[Measurement] = []
    for line in range(500):
        interrupt = InterruptAt(line)
        found = swept_with(interrupt, asked, tmp_path / "run.json", told)
        assert interrupt.sent, "no line was found at which that sweep does not tell"
        if found is not None and told != found:
            return


@pytest.mark.parametrize("answer", [None, ValueError("no"), KeyboardInterrupt()])
def test_a_product_that_an_interrupt_cut_short_is_kept_and_told(
    answer: BaseException | None, asked: Asked, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure, told = sweeps.time_matmul, []

    def cut_short(m: int, k: int, n: int, **options: Any) -> Measurement:
        run = measure(m, k, n, **options)
        return Repeats(run.seconds, None, Interrupted(2) if m == 4 else None).hand_over(run)

    def tell(run: Measurement) -> None:
        told.append(run)
        if answer is not None and len(told) == 2:
            raise answer

    monkeypatch.setattr(sweeps, "time_matmul", cut_short)
    runs = bench.sweep([2, 4, 8], progress=tell)
    assert sizes_of(runs) == [2, 4] and told == runs
    assert said()[-1] == "Interrupted: 2 of 3 products were measured and are kept."
    assert len(said()) == 1 + isinstance(answer, ValueError)


def test_an_interrupt_while_compiling_keeps_the_products_before(
    monkeypatch: pytest.MonkeyPatch, said: Said
) -> None:
    pytest.importorskip("jax")
    from pulsewarp.bench.live import timing

    compile_for, calls = timing.compile_for, []

    def interrupted(*arguments: Any) -> Any:
        calls.append(arguments)
        if (
            len(calls) == 3
        ):  # the second product; by the call clock each compiles once, by the other twice or more
            signal.raise_signal(signal.SIGINT)
        return compile_for(*arguments)

    monkeypatch.setattr(timing, "compile_for", interrupted)
    runs = bench.sweep([2, 4, 8, 16], repeats=1, clock="call")
    assert sizes_of(runs) == [2, 4, 8, 16][: len(runs)] and 1 <= len(runs) < 4
    assert said() == [f"Interrupted: {len(runs)} of 4 products were measured and are kept."]


def test_an_interrupt_that_the_readers_function_swallows_ends_the_sweep_all_the_same(
    asked: Asked, said: Said
) -> None:
    def swallow(_: Measurement) -> None:
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)

    assert sizes_of(bench.sweep([2, 4, 8], progress=swallow)) == [2]
    assert said() == ["Interrupted: 1 of 3 products were measured and are kept."]


def test_a_sweep_in_another_thread_leaves_interrupts_alone(asked: Asked) -> None:
    found: list[list[Measurement]] = []
    thread = threading.Thread(target=lambda: found.append(bench.sweep([2, 4])))
    thread.start()
    thread.join()
    assert sizes_of(found[0]) == [2, 4]


def test_where_interrupts_are_ignored_they_stay_so(asked: Asked) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert sizes_of(bench.sweep([2, 4], progress=lambda _: signal.raise_signal(signal.SIGINT))) == [2, 4]
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


KILLED = """
import dataclasses, os, signal, sys
from pulsewarp import bench
from pulsewarp.bench.live import sweeps
from pulsewarp.matmul import Matmul
example = bench.recorded()[0]
def measure(m, k, n, **_):
    if m == 8:
        os.kill(os.getpid(), signal.SIGKILL)
    return dataclasses.replace(example, matmul=Matmul(m, k, n, "fp32"))
sweeps.time_matmul = measure
bench.sweep([2, 4, 8], out=sys.argv[1])
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="Windows kills without a signal")
def test_a_killed_process_leaves_what_it_measured(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], capture_output=True)
    assert done.returncode == -signal.SIGKILL
    assert [run.matmul.m for run in bench.load(path, bench.Measurement)] == [2, 4]
    assert list(tmp_path.iterdir()) == [path]


# --- disks, memory, devices -------------------------------------------------------------------------------


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_takes_nothing_and_is_said_once(
    asked: Asked,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    said: Said,
) -> None:
    path = bench.save(tmp_path / "run.json", bench.recorded()[:2])
    before = path.read_bytes()
    monkeypatch.setattr(os, "fsync", full)
    assert sizes_of(bench.sweep([2, 4, 8], out=path)) == [2, 4, 8]
    (sentence,) = said()
    assert f"{path} could not be written (No space left on device)" in sentence and "bench.save" in sentence
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_room_that_comes_back_is_used(
    asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Said
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: full() if len(asked) < 3 else None)
    path = tmp_path / "run.json"
    runs = bench.sweep([2, 4, 8], out=path)
    assert bench.load(path) == tuple(runs) and sizes_of(runs) == [2, 4, 8]
    assert said() == []


@pytest.mark.parametrize(
    ("out", "error", "words"),
    [
        ("none/run.json", FileNotFoundError, "There is no folder"),
        (".", IsADirectoryError, "is a folder; name a file in it"),
    ],
)
def test_where_nothing_can_be_written_nothing_is_measured(
    out: str, error: type[Exception], words: str, asked: Asked, tmp_path: Path
) -> None:
    with pytest.raises(error, match=words):
        bench.sweep([2], out=tmp_path / out)
    assert asked == []


def test_a_product_above_the_memory_budget_is_named_and_left_out(asked: Asked, said: Said) -> None:
    runs = bench.sweep([16, 4096, 32], memory_bytes=10 * 2**20)
    assert sizes_of(runs) == [16, 32] and [each["m"] for each in asked] == [16, 32]
    (sentence,) = said()
    assert sentence.startswith("Left out: Timing 4096 x 4096 x 4096 float32 needs about ")
    assert "but memory_bytes is 10 MiB" in sentence


def test_running_out_of_memory_names_the_product_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, asked: Asked, said: Said
) -> None:
    measure = sweeps.time_matmul

    def short(m: int, k: int, n: int, **options: Any) -> Measurement:
        if m == 4:
            raise MemoryError("Unable to allocate 64.0 GiB for an array")
        return measure(m, k, n, **options)

    monkeypatch.setattr(sweeps, "time_matmul", short)
    assert sizes_of(bench.sweep([2, 4, 8])) == [2, 8]
    assert said() == ["Left out: 4 x 4 x 4 float32: Unable to allocate 64.0 GiB for an array"]


def refuses(measure: Call, dtype: str, error: Exception) -> Call:
    def refuse(m: int, k: int, n: int, **options: Any) -> Any:
        if options["dtype"] == dtype:
            raise error
        return measure(m, k, n, **options)

    return refuse


@pytest.mark.parametrize(
    "error",
    [ValueError("bfloat16 is not for this device."), RuntimeError("UNIMPLEMENTED: bfloat16 is not here.")],
)
def test_a_refused_dtype_is_named_and_the_others_are_timed(
    error: Exception,
    monkeypatch: pytest.MonkeyPatch,
    asked: Asked,
    said: Said,
) -> None:
    monkeypatch.setattr(sweeps, "time_matmul", refuses(sweeps.time_matmul, "bfloat16", error))
    runs = bench.sweep([2, 4], dtype=["float32", "bfloat16", "float16"])
    assert [(each["m"], each["dtype"]) for each in asked] == [
        (2, "float32"),
        (2, "float16"),
        (4, "float32"),
        (4, "float16"),
    ]
    assert len(runs) == 4
    assert said() == [f"Left out: {size} x {size} x {size} bfloat16: {error}" for size in (2, 4)]


def test_a_dtype_that_nothing_can_be_timed_in_raises(
    monkeypatch: pytest.MonkeyPatch, asked: Asked, said: Said
) -> None:
    error = ValueError("bfloat16 is not for this device.")
    monkeypatch.setattr(sweeps, "time_matmul", refuses(sweeps.time_matmul, "bfloat16", error))
    with pytest.raises(ValueError, match="not for this device"):
        bench.sweep([2, 4], dtype="bfloat16")
    assert said() == []


def test_a_function_of_the_reader_that_fails_costs_no_measurement(asked: Asked, said: Said) -> None:
    calls: list[Measurement] = []

    def broken(run: Measurement) -> None:
        calls.append(run)
        raise AttributeError("no such field")

    assert sizes_of(bench.sweep([2, 4, 8], progress=broken)) == [2, 4, 8]
    assert len(calls) == 1
    assert said() == ["progress raised AttributeError: no such field; it was not called again."]


# --- what is timed ----------------------------------------------------------------------------------------


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let the sweep believe that it is on another device."""

    def believe(platform: str, chip: str | None = None, devices_per_chip: int = 1) -> None:
        changes = {"platform": platform, "chip": chip, "devices_per_chip": devices_per_chip}
        seen = dataclasses.replace(bench.devices(), **changes)
        monkeypatch.setattr(sweeps, "devices", lambda: seen)

    return believe


def test_thin_is_batches_of_1_to_4096(asked: Asked, on: Call) -> None:
    on("tpu", "tpu_v5e")
    bench.sweep("thin")
    assert [each["m"] for each in asked] == [2**power for power in range(13)]
    assert {(each["k"], each["n"]) for each in asked} == {(4096, 4096)}


@pytest.mark.parametrize(
    ("platform", "chip", "unit", "waves"),
    [
        ("cpu", None, 128, 0),
        ("tpu", "tpu_v5e", 128, 0),
        ("tpu", "tpu_v6e", 256, 0),
        ("gpu", "a100_sxm_80", 128, 108),
        ("gpu", None, 128, 0),
    ],
)
def test_a_staircase_has_the_steps_of_its_chip(
    platform: str, chip: str | None, unit: int, waves: int, asked: Asked, on: Call
) -> None:
    on(platform, chip)
    bench.sweep("staircase")
    squares = [each["m"] for each in asked if each["m"] == each["n"] == each["k"]]
    assert squares[:4] == [unit, unit + 1, 2 * unit, 2 * unit + 1]
    tall = [each["m"] for each in asked if each["m"] != each["n"]]
    assert tall == [256 * waves * number + above for number in (1, 2, 3) for above in (0, 1) if waves]


def test_dtypes_is_one_size_in_each_and_float32_in_each_precision(asked: Asked, on: Call) -> None:
    on("gpu", "h100_sxm")
    bench.sweep("dtypes")
    assert {(each["m"], each["k"], each["n"]) for each in asked} == {(4096, 4096, 4096)}
    pairs = [(each["dtype"], each["precision"]) for each in asked]
    assert pairs[:3] == [("float32", level) for level in ("default", "high", "highest")]
    assert {"bfloat16", "float16", "int8"} <= {dtype for dtype, _ in pairs[3:]}
    assert {precision for _, precision in pairs[3:]} == {"default"} and len(set(pairs)) == len(pairs)


@pytest.mark.parametrize("model", shapes.MODELS)
def test_a_model_is_timed_by_its_shapes_each_once(model: str, asked: Asked, on: Call) -> None:
    on("gpu", "h100_sxm")
    bench.sweep(model)
    timed = [(each["batch"], each["m"], each["k"], each["n"]) for each in asked]
    assert len(set(timed)) == len(timed)
    assert set(timed) == {shape.sizes for shape in shapes.of_model(model)}


def test_a_model_is_small_enough_for_a_cpu(asked: Asked, on: Call) -> None:
    on("cpu")
    bench.sweep("llama-3.1-8b")
    assert max(2 * each["m"] * each["k"] * each["n"] for each in asked) < 2 * 2048**3


def test_the_readers_own_list_is_taken_as_it_is_in_each_dtype_and_precision(
    asked: Asked,
) -> None:
    own = [8, (4, 2, 6), shapes.Shape(2, 3, 4, "mine", batch=5), 8]
    bench.sweep(own, dtype=["float32", "int8"], precision=["high", "highest"])
    assert len(asked) == 4 * 2 * 2
    assert [(each["dtype"], each["precision"]) for each in asked[:4]] == [
        ("float32", "high"),
        ("float32", "highest"),
        ("int8", "high"),
        ("int8", "highest"),
    ]
    assert [each["batch"] for each in asked[::4]] == [1, 1, 5, 1]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: bench.sweep("thinn"), "Unknown sweep 'thinn'"),
        (lambda: bench.sweep([2], dtype=[]), "dtype is empty"),
        (lambda: bench.sweep([2], memory_bytes=0), "memory_bytes is 0"),
        (lambda: bench.sweep([2], budget_seconds=0), "budget_seconds is 0"),
    ],
)
def test_what_cannot_be_swept_gets_one_sentence(call: Call, words: str, asked: Asked) -> None:
    with pytest.raises(ValueError) as caught:
        call()
    assert words in str(caught.value) and asked == []


# --- the bar ----------------------------------------------------------------------------------------------


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away what says that this is a test."""
    for name in _bar._UNWATCHED:
        monkeypatch.delenv(name, raising=False)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.usefixtures("watched")
def test_a_terminal_shows_a_bar_and_takes_it_away(
    asked: Asked, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    bench.sweep([2, 4], progress=lambda run: print(f"measured {run.matmul.m}"))
    assert "4 x 4 x 4 float32" in screen.getvalue() and "/2" in screen.getvalue()
    assert screen.getvalue().rsplit("\r", 1)[-1].strip() == ""
    assert capsys.readouterr().out == "measured 2\nmeasured 4\n"


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize("quiet", ["pipe", *_bar._UNWATCHED, "argument"])
def test_where_nobody_watches_there_is_no_bar(
    quiet: str, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen: io.StringIO = io.StringIO() if quiet == "pipe" else Terminal()
    if quiet in _bar._UNWATCHED:
        monkeypatch.setenv(quiet, "1")
    monkeypatch.setattr(sys, "stderr", screen)
    bench.sweep([2, 4], bar=False if quiet == "argument" else None)
    assert screen.getvalue() == ""


def test_without_stderr_at_all_a_sweep_goes_on(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert sizes_of(bench.sweep([2])) == [2]


@pytest.mark.usefixtures("watched")
def test_a_notebooks_kernel_shows_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert _bar._is_watched()
    del shell.kernel
    assert not _bar._is_watched()


def test_what_is_written_on_the_way_is_what_load_reads(asked: Asked, tmp_path: Path) -> None:
    path, lengths = tmp_path / "run.json", []
    runs = bench.sweep([2, 4, 8], out=path, progress=lambda _: lengths.append(len(bench.load(path))))
    assert lengths == [1, 2, 3] and bench.load(path) == tuple(runs)
    assert json.loads(path.read_text(encoding="utf-8"))["form"] == "pulsewarp-measurements/2"
