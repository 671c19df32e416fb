"""A measurement keeps what is true, loses nothing on disk, and refuses what cannot be."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsewarp import bench
from pulsewarp.bench import measurement as form
from pulsewarp.bench.measurement import (
    EARLIER_FORM,
    FORM,
    MeasuredDevice,
    Measurement,
    Timed,
    dumps,
    with_prefix,
)
from pulsewarp.matmul import DTYPES, Matmul

EXAMPLE = Measurement(
    matmul=Matmul(128, 256, 64, "fp32"),
    device=MeasuredDevice("tpu", "TPU v5 lite", "tpu_v5e", 1, "Example CPU", 8),
    clock="device",
    precision="highest",
    precision_in_program="highest",
    seconds=(2e-6, 1e-6, 4e-6),
    products_per_repeat=100,
    compile_seconds=0.25,
    warmup_calls=3,
    relative_error=1e-7,
    error_rows=64,
    error_bound=3e-7,
    seed=0,
    versions={"jax": "0.7.2", "python": "3.13.15"},
    when="2026-11-30T12:00:00+00:00",
    notes=("A note.",),
)

TEXT = st.text(min_size=1, max_size=20).filter(str.strip)
SECONDS = st.floats(min_value=1e-12, max_value=1e6)
MEASUREMENTS = st.builds(
    Measurement,
    matmul=st.builds(
        Matmul,
        m=st.integers(1, 2**40),
        k=st.integers(1, 2**40),
        n=st.integers(1, 2**40),
        dtype=st.sampled_from(sorted(DTYPES)),
    ),
    device=st.builds(
        MeasuredDevice,
        platform=TEXT,
        kind=TEXT,
        chip=st.none() | TEXT,
        devices_per_chip=st.integers(1, 4),
        cpu_model=TEXT,
        cores=st.integers(1, 512),
    ),
    clock=st.sampled_from(form.CLOCKS),
    precision=st.sampled_from(form.PRECISIONS),
    precision_in_program=TEXT,
    seconds=st.lists(SECONDS, min_size=1, max_size=20).map(tuple),
    products_per_repeat=st.integers(1, 10**6),
    compile_seconds=st.floats(0, 1e4),
    warmup_calls=st.integers(0, 100),
    relative_error=st.floats(0, 10),
    error_rows=st.integers(1, 64),
    seed=st.integers(0, 2**32),
    stored=TEXT,
    batch=st.integers(1, 2**20),
    transposed=st.sampled_from(form.TRANSPOSED),
    error_bound=st.none() | st.floats(0, 10),
    versions=st.dictionaries(TEXT, TEXT, max_size=4),
    when=st.datetimes(timezones=st.timezones()).map(lambda moment: moment.isoformat()),
    origin=st.sampled_from(form.ORIGINS),
    notes=st.lists(TEXT, max_size=3).map(tuple),
)


@given(st.lists(MEASUREMENTS, max_size=4))
def test_what_is_saved_is_what_is_loaded(
    tmp_path_factory: pytest.TempPathFactory, runs: list[Measurement]
) -> None:
    path = tmp_path_factory.mktemp("runs") / "run.json"
    bench.save(path, runs)
    assert bench.load(path) == tuple(runs)
    assert dumps(bench.load(path)) == path.read_text(encoding="utf-8")


@given(st.lists(SECONDS, min_size=2, max_size=60))
def test_the_statistics_are_the_usual_ones(seconds: list[float]) -> None:
    run = dataclasses.replace(EXAMPLE, seconds=tuple(seconds))
    low, middle, high = statistics.quantiles(seconds, n=4, method="inclusive")
    assert run.median == pytest.approx(middle)
    assert run.quartiles == pytest.approx((low, high))
    assert run.spread == pytest.approx((high - low) / middle, abs=1e-9)
    assert run.flops_per_second * run.median == pytest.approx(run.matmul.flops)


def test_every_repeat_is_kept_in_order() -> None:
    assert EXAMPLE.seconds == (2e-6, 1e-6, 4e-6)


def test_a_measurement_reads_as_sentences() -> None:
    assert repr(EXAMPLE) == (
        "Measurement(128 x 256 x 64 fp32 on TPU v5 lite, live 2026-11-30T12:00:00+00:00\n"
        "  device clock: median 2.00 \u00b5s, quartiles 1.50 \u00b5s to 3.00 \u00b5s, 3 repeats of 100\n"
        "  2.10 TFLOP/s, precision highest (program: highest), relative error 1.0e-07, "
        "expected at most 3.0e-07\n"
        "  compiled in 250 ms, apart from the times above\n"
        "  A note.)"
    )


def test_a_batch_counts_all_of_its_products_and_says_how_factors_lie() -> None:
    run = dataclasses.replace(EXAMPLE, batch=10, transposed="b")
    assert run.flops_per_second == 10 * EXAMPLE.flops_per_second
    assert (run.flops, run.bytes_moved) == (10 * run.matmul.flops, 10 * run.matmul.bytes_moved)
    assert "10 x (128 x 256 x 64) fp32, b transposed on TPU v5 lite" in repr(run)


def test_integers_count_operations_not_flops() -> None:
    run = dataclasses.replace(EXAMPLE, matmul=Matmul(8, 8, 8, "int8"))
    assert "OP/s" in repr(run)
    assert "FLOP/s" not in repr(run)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("clock", "wall", "Unknown clock 'wall'; use one of device, call."),
        ("precision", "medium", "Unknown precision 'medium'"),
        ("origin", "guessed", "Unknown origin 'guessed'"),
        ("seconds", (), "at least one repeat"),
        ("seconds", (1e-6, float("nan")), "seconds[1] is nan"),
        ("seconds", (0.0,), "seconds[0] is 0.0"),
        ("seconds", (-1.0,), "seconds[0] is -1.0"),
        ("seconds", (float("inf"),), "seconds[0] is inf"),
        ("products_per_repeat", 0, "products_per_repeat is 0"),
        ("compile_seconds", -0.1, "compile_seconds is -0.1"),
        ("warmup_calls", -1, "warmup_calls is -1"),
        ("relative_error", float("nan"), "relative_error is nan"),
        ("error_rows", 0, "error_rows is 0"),
        ("seed", -1, "seed is -1"),
        ("versions", {"jax": ""}, "versions['jax'] is ''"),
        ("when", "yesterday", "when is 'yesterday'"),
        ("when", "2026-11-30T12:00:00", "with offset"),
        ("notes", ("",), "notes[0] is ''"),
        ("precision_in_program", " ", "precision_in_program is ' '"),
        ("batch", 0, "batch is 0"),
        ("transposed", "ba", "Unknown transposed 'ba'"),
        ("error_bound", -1e-9, "error_bound is -1e-09"),
        ("stored", " ", "stored is ' '"),
    ],
)
def test_what_cannot_be_true_is_refused(field: str, value: Any, words: str) -> None:
    with pytest.raises(ValueError) as caught:
        dataclasses.replace(EXAMPLE, **{field: value})
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value"), [("kind", ""), ("chip", " "), ("devices_per_chip", 0), ("cores", 0)]
)
def test_a_device_without_a_name_or_count_is_refused(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=field):
        dataclasses.replace(EXAMPLE.device, **{field: value})


def document() -> dict[str, Any]:
    return json.loads(dumps([EXAMPLE, EXAMPLE]))  # type: ignore[no-any-return]  # json gives Any


def row(change: Callable[[dict[str, Any]], object]) -> str:
    data = document()
    change(data["measurements"][1])
    return json.dumps(data)


CORRUPT = {
    "cut short": (dumps([EXAMPLE])[:200], "not valid JSON"),
    "not JSON": ("seconds,1\n", "not valid JSON"),
    "foreign": ('{"results": []}', "no form field"),
    "a list": ("[]", "list"),
    "another version": (json.dumps({**document(), "form": "pulsewarp-measurements/3"}), FORM),
    "an earlier form with a later field": (json.dumps({**document(), "form": EARLIER_FORM}), "no field 'm'"),
    "nested without end": ("[" * 100_000, "is nested too deeply"),
    "no kind": (row(lambda r: r.pop("kind")), "measurement 1 has no field 'kind'"),
    "unknown kind": (row(lambda r: r.update(kind="matmull")), "Did you mean 'matmul'?"),
    "a list as kind": (row(lambda r: r.update(kind=[])), "Unknown kind []"),
    "missing size": (row(lambda r: r["matmul"].pop("k")), "measurement 1, matmul has no field 'k'"),
    "a number as device": (row(lambda r: r.update(device=5)), "measurement 1, device is int"),
    "a number as note": (row(lambda r: r.update(notes=[5])), "notes[0] is '5', but must be a text"),
    "batch as truth": (row(lambda r: r.update(batch=True)), "batch is 'True', but must be a whole"),
    "unknown field outside": (json.dumps({**document(), "host": "x"}), "the unknown field 'host'"),
    "no list": (json.dumps({"form": FORM}), "no list 'measurements'"),
    "a number as row": (json.dumps({"form": FORM, "measurements": [3]}), "measurement 0 is int"),
    "missing field": (row(lambda r: r.pop("when")), "measurement 1 has no field 'when'"),
    "unknown field": (row(lambda r: r.update(host="x")), "measurement 1 has the unknown field 'host'"),
    "missing device field": (
        row(lambda r: r["device"].pop("kind")),
        "measurement 1, device has no field 'kind'",
    ),
    "negative time": (
        row(lambda r: r["seconds"].__setitem__(1, -1e-6)),
        "measurement 1: seconds[1] is -1e-06",
    ),
    "NaN": (row(lambda r: r["seconds"].__setitem__(1, float("nan"))), "measurement 1: seconds[1] is nan"),
    "time as text": (
        row(lambda r: r["seconds"].__setitem__(0, "1e-6")),
        "seconds[0] is '1e-6', but must be a",
    ),
    "time as truth": (row(lambda r: r["seconds"].__setitem__(0, True)), "seconds[0] is 'True'"),
    "beyond floats": (row(lambda r: r.update(compile_seconds=10**400)), "compile_seconds is '1000"),
    "no times": (row(lambda r: r.update(seconds=[])), "measurement 1: seconds is empty"),
    "times as object": (row(lambda r: r.update(seconds={})), "seconds is '{}', but must be a list"),
    "versions as list": (row(lambda r: r.update(versions=[])), "versions is '[]', but must be an object"),
    "zero size": (row(lambda r: r["matmul"].update(m=0)), "measurement 1, matmul: m is 0"),
    "unknown dtype": (row(lambda r: r["matmul"].update(dtype="bf15")), "Unknown dtype 'bf15'"),
    "unknown clock": (row(lambda r: r.update(clock="wall")), "Unknown clock 'wall'"),
    "half a repeat": (row(lambda r: r.update(products_per_repeat=1.5)), "products_per_repeat is '1.5'"),
    "no date": (row(lambda r: r.update(when=None)), "when is 'None'"),
}


@pytest.mark.wrong_type
@pytest.mark.parametrize("case", CORRUPT)
def test_a_file_that_is_not_ours_gets_one_sentence_with_its_path(tmp_path: Path, case: str) -> None:
    text, words = CORRUPT[case]
    path = tmp_path / "run.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError) as caught:
        bench.load(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def earlier(run: Measurement) -> dict[str, Any]:
    """What form 1 had of a product."""
    row = json.loads(dumps([run]))["measurements"][0]
    later = ("kind", "stored", "batch", "transposed", "error_bound")
    return row.pop("matmul") | {name: value for name, value in row.items() if name not in later}  # type: ignore[no-any-return]  # json gives Any


def test_a_file_of_the_earlier_form_is_read(tmp_path: Path) -> None:
    rows = [earlier(EXAMPLE), earlier(EXAMPLE)]
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"form": EARLIER_FORM, "measurements": rows}), encoding="utf-8")
    assert bench.load(path) == (dataclasses.replace(EXAMPLE, error_bound=None),) * 2
    rows[1]["batch"] = 2
    path.write_text(json.dumps({"form": EARLIER_FORM, "measurements": rows}), encoding="utf-8")
    with pytest.raises(ValueError, match="measurement 1 has the unknown field 'batch'"):
        bench.load(path)


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Poured(Timed, kind="poured"):
    """A kind that the form does not know beforehand."""

    cups: tuple[int, ...]
    strengths: Mapping[str, float] = dataclasses.field(hash=False)
    hot: bool
    milk: float | None

    @property
    def title(self) -> str:
        return f"{len(self.cups)} cups"


def poured(**changes: Any) -> Poured:
    shared = {name.name: getattr(EXAMPLE, name.name) for name in dataclasses.fields(Timed)}
    return Poured(
        **{**shared, "cups": (1, 2), "strengths": {"mild": 0.5}, "hot": True, "milk": None} | changes
    )


def test_another_kind_is_saved_loaded_checked_and_shown_by_the_same_code(tmp_path: Path) -> None:
    tea = poured(milk=0.25)
    path = bench.save(tmp_path / "run.json", [EXAMPLE, tea, poured()])
    assert bench.load(path) == (EXAMPLE, tea, poured())
    assert bench.load(path, Measurement) == (EXAMPLE,)
    assert bench.load(path, only=Poured) == (tea, poured())
    assert repr(tea).startswith("Poured(2 cups on TPU v5 lite, live 2026-11-30")
    assert "device clock: median 2.00 \u00b5s" in repr(tea) and repr(tea).endswith("  A note.)")
    text = path.read_text(encoding="utf-8")
    for right, wrong, words in (
        ('"cups": [1, 2]', '"cups": [1, "2"]', "measurement 1: cups[1] is '2', but must be a whole number"),
        ('{"mild": 0.5}', '{"mild": null}', "strengths['mild'] is 'None', but must be a finite number"),
        ('"hot": true', '"hot": 1', "hot is '1', but must be true or false"),
        ('"milk": 0.25', '"milk": "much"', "milk is 'much', but must be a finite number"),
    ):
        path.write_text(text.replace(right, wrong), encoding="utf-8")
        with pytest.raises(ValueError, match=re.escape(words)):
            bench.load(path)


@pytest.mark.wrong_type
def test_what_to_load_must_be_a_class_of_measurements(tmp_path: Path) -> None:
    path = bench.save(tmp_path / "run.json", [EXAMPLE])
    with pytest.raises(TypeError, match="only is 'matmul', but must be a class of measurements"):
        bench.load(path, "matmul")  # type: ignore[call-overload]  # wrong on purpose


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"There is no file .*gone\.json"):
        bench.load(tmp_path / "gone.json")


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="not a text file"):
        bench.load(path)


@pytest.mark.wrong_type
def test_saving_something_else_leaves_the_earlier_file_whole(tmp_path: Path) -> None:
    path = bench.save(tmp_path / "run.json", [EXAMPLE])
    earlier = path.read_bytes()
    with pytest.raises(ValueError, match="Item 1 is int 3, but must be a Measurement"):
        bench.save(path, [EXAMPLE, 3])  # type: ignore[list-item]  # wrong on purpose
    assert path.read_bytes() == earlier
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_leaves_the_earlier_file_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = bench.save(tmp_path / "run.json", [EXAMPLE])

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        bench.save(path, [EXAMPLE, EXAMPLE])
    assert bench.load(path) == (EXAMPLE,)
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_is_followed_and_a_device_stays_one(tmp_path: Path) -> None:
    path, link = tmp_path / "run.json", tmp_path / "link.json"
    link.symlink_to(path)
    assert bench.save(link, [EXAMPLE]) == link
    assert link.is_symlink() and bench.load(path) == (EXAMPLE,)
    pipe = tmp_path / "pipe"  # a fake of /dev/null or /dev/stdout, which a rename would take from the machine
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    bench.save(pipe, [EXAMPLE])
    assert os.read(reader, 100_000).decode() == dumps([EXAMPLE])
    os.close(reader)
    assert pipe.is_fifo()


def test_a_mark_before_the_text_is_no_other_form(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(dumps([EXAMPLE]), encoding="utf-8-sig")  # as some editors and shells write text
    assert bench.load(path) == (EXAMPLE,)


def test_recorded_runs_say_that_they_are_recorded_and_on_what() -> None:
    assert bench.recordings()
    for name in bench.recordings():
        runs = bench.recorded(name)
        assert runs
        assert {run.origin for run in runs} == {"recorded"}
        assert len({run.device for run in runs}) == 1
        assert all({"python", "jax", "jaxlib", "numpy"} <= set(run.versions) for run in runs)
    assert bench.recorded() == tuple(run for name in bench.recordings() for run in bench.recorded(name))


def test_recorded_runs_name_no_machine() -> None:
    folder = Path(form.__file__).parent / "recorded"
    for path in folder.glob("*.json"):
        data = json.loads(path.read_text(encoding="utf-8"))
        for row in data["measurements"]:
            assert not any("/" in str(value) for value in row["device"].values() if value)


def test_no_recording_of_a_chip_that_was_never_here() -> None:
    assert all(run.device.platform == "cpu" for run in bench.recorded())


def test_an_unknown_recording_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="Unknown recording 'tpu_v9'; use one of cpu_"):
        bench.recorded("tpu_v9")


@given(st.floats(min_value=1e-12, max_value=9.9e17))
def test_a_prefix_leaves_a_number_from_1_to_999(value: float) -> None:
    number = with_prefix(value, "s").split()[0]
    assert 1 <= float(number) < 1000
    assert len(number.replace(".", "")) == 3


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0 s"),
        (1.0, "1.00 s"),
        (0.9999, "1.00 s"),
        (999.4, "999 s"),
        (999.6, "1.00 ks"),
        (1e-7, "100 ns"),
    ],
)
def test_prefixes_at_their_edges(value: float, text: str) -> None:
    assert with_prefix(value, "s") == text


def test_bench_needs_no_jax_until_it_measures() -> None:
    import subprocess
    import sys

    code = (
        "import sys; sys.modules['jax'] = None\n"
        "from pulsewarp import bench\n"
        "assert bench.recorded(); card = bench.devices()\n"
        "assert card.platform is None and card.problems, card\n"
        "try: bench.time_matmul(8, 8, 8)\n"
        "except ImportError as error: print(error)\n"
        "assert 'plotly' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "JAX" in done.stdout
    assert "pip install" in done.stdout or "matching pair" in done.stdout


def test_bench_lists_what_it_offers() -> None:
    assert set(bench.__all__) <= set(dir(bench))
    assert all(getattr(bench, name) for name in bench.__all__)
    with pytest.raises(AttributeError, match="no attribute 'tyme_matmul'"):
        bench.tyme_matmul  # noqa: B018  # the access is the test
