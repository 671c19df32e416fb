"""The commands bench and compare: what they pass on, what they print, and what a full disk cannot take."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pulsewarp import bench
from pulsewarp.bench.live import sweeps
from pulsewarp.bench.measurement import Measurement
from pulsewarp.cli import main
from pulsewarp.cli.notebook_page import find_loads
from pulsewarp.matmul import Matmul


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Let a product take no time, and remember what was asked for."""
    seen: list[dict[str, Any]] = []

    def measure(m: int, k: int, n: int, **options: Any) -> Measurement:
        seen.append({"m": m, "k": k, "n": n, **options})
        return dataclasses.replace(bench.recorded()[0], matmul=Matmul(m, k, n, "fp32"))

    monkeypatch.setattr(sweeps, "time_matmul", measure)
    return seen


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(words) == 2
    said = capsys.readouterr()
    assert said.out == "" and len(said.err.strip().splitlines()) == 1 and "Traceback" not in said.err
    return said.err


def test_bench_passes_every_option_on(asked: list[dict[str, Any]], tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    options = ["--precision", "high", "highest", "--clock", "call", "--repeats", "7", "--budget", "9"]
    options += ["--memory", "64", "--out", str(path)]
    assert main(["bench", "--shape", "1x64x32", "2X3X4", "--dtype", "float32", "bfloat16", *options]) == 0
    assert len(asked) == 2 * 2 * 2 and {each["clock"] for each in asked} == {"call"}
    assert {each["repeats"] for each in asked} == {7}
    assert [(each["m"], each["k"], each["n"]) for each in asked[::4]] == [(1, 64, 32), (2, 3, 4)]
    assert {(each["dtype"], each["precision"]) for each in asked} == {
        (dtype, precision) for dtype in ("float32", "bfloat16") for precision in ("high", "highest")
    }
    assert len(bench.load(path)) == 8


def test_bench_leaves_out_what_needs_more_memory_and_says_so_in_a_sentence(
    asked: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.warns(RuntimeWarning, match="memory_bytes is 1 MiB"):
        assert main(["bench", "--size", "8", "4096", "--memory", "1"]) == 0
    assert [each["m"] for each in asked] == [8]


@pytest.mark.parametrize("out", [[], ["--out", "run.json"]])
def test_a_bench_that_measures_nothing_does_not_end_well(
    out: list[str],
    asked: list[dict[str, Any]],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.warns(RuntimeWarning, match="memory_bytes is 1 MiB"):
        assert "Nothing was measured" in refused(["bench", "--size", "4096", "--memory", "1", *out], capsys)
    assert asked == [] and list(tmp_path.iterdir()) == []


def test_a_folder_that_may_not_be_written_to_is_refused_before_measuring(
    asked: list[dict[str, Any]],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # the owner of everything may write everywhere
    said = refused(["bench", "--size", "8", "--out", str(tmp_path / "run.json")], capsys)
    assert f"The folder {tmp_path} may not be written to" in said and asked == []


STOPPED = """
import dataclasses, os, signal, sys
from pulsewarp import bench, cli
from pulsewarp.bench.live import sweeps
from pulsewarp.matmul import Matmul
def measure(m, k, n, **_):
    if m == 8:
        os.kill(os.getpid(), signal.SIGINT)
    return dataclasses.replace(bench.recorded()[0], matmul=Matmul(m, k, n, "fp32"))
sweeps.time_matmul = measure
sys.exit(cli.main(["bench", "--size", "2", "4", "8", "16", "--out", sys.argv[1]]))
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows ends a process that is sent this signal")
def test_an_interrupted_bench_says_what_it_kept_and_ends_as_interrupted(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    silent = {**os.environ, "PYTHONWARNINGS": "ignore"}  # of other warnings, not of this one
    words = [sys.executable, "-c", STOPPED, str(path)]
    done = subprocess.run(words, capture_output=True, text=True, env=silent)
    sentence = "pulsewarp bench: Interrupted: 2 of 4 products were measured and are kept.\n"
    assert (done.returncode, done.stderr) == (130, sentence)
    assert [run.matmul.m for run in bench.load(path, Measurement)] == [2, 4]
    assert done.stdout.count("Measurement(") == 2 and f"wrote {path}" in done.stdout


def test_a_bench_interrupted_in_its_first_product_ends_as_interrupted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sweeps, "time_matmul", stop)
    with pytest.warns(bench.InterruptedWarning, match="0 of 1 product"):
        assert main(["bench", "--size", "8", "--out", str(tmp_path / "run.json")]) == 130
    said = capsys.readouterr()
    assert (said.out, said.err, list(tmp_path.iterdir())) == ("", "", [])


def test_bench_takes_a_sweep_by_its_name(asked: list[dict[str, Any]]) -> None:
    assert main(["bench", "--sweep", "bert-base"]) == 0
    assert len(asked) == 5  # four layers of 768 x 768 are one shape


def test_on_a_full_disk_the_measurements_stand_on_stdout(
    asked: list[dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    path = tmp_path / "run.json"
    with pytest.warns(RuntimeWarning, match="could not be written"):
        assert main(["bench", "--size", "8", "16", "--out", str(path)]) == 2
    said = capsys.readouterr()
    assert f"{path} could not be written (No space left on device)" in said.err
    monkeypatch.undo()
    kept = tmp_path / "kept.json"
    kept.write_text(said.out[said.out.index('{"form"') :], encoding="utf-8")
    assert [run.matmul.m for run in bench.load(kept, Measurement)] == [8, 16]


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[str, str]]:
    runs = bench.recorded()[:3]
    slower = [
        dataclasses.replace(run, seconds=tuple(3 * second for second in run.seconds)) for run in runs[1:]
    ]
    before = bench.save(tmp_path / "before.json", runs)
    after = bench.save(tmp_path / "after.json", slower)
    yield str(before), str(after)


def test_compare_prints_the_table(two: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *two]) == 0
    said = capsys.readouterr().out
    assert said.startswith("after.json against before.json: 2 rows in both\n")
    assert said.count("slower") == 2 and "Only in before.json" in said


def test_compare_prints_json_alone(
    two: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    assert main(["compare", *two, "--json", "--html", str(page)]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["names"] == ["before.json", "after.json"]
    assert [row["ratio"] for row in data["rows"]] == pytest.approx([3.0, 3.0])
    assert page.exists()


def test_compare_writes_a_page_that_needs_no_network(two: tuple[str, str], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert main(["compare", *two, "--html", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert list(find_loads(text)) == []
    assert "<title>after.json against before.json</title>" in text
    assert "2 rows in both" in text and "Plotly.newPlot" in text


def test_files_of_one_name_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        paths.append(str(bench.save(tmp_path / folder / "run.json", bench.recorded()[:1])))
    assert main(["compare", *paths]) == 0
    assert capsys.readouterr().out.startswith(f"{paths[1]} against {paths[0]}: 1 row in both")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "There is no file"),
        ("{", "not valid JSON"),
        ('{"form": "other/1"}', "'other/1'"),
        ('{"form": "pulsewarp-measurements/2", "measurements": []}', "holds no measurements"),
        ('{"form": "pulsewarp-measurements/2", "measurements": [3]}', "measurement 0"),
    ],
)
def test_a_file_that_cannot_be_compared_gets_one_sentence(
    text: str | None, words: str, two: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "other.json"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    for pair in ((two[0], str(path)), (str(path), two[0])):
        said = refused(["compare", *pair], capsys)
        assert words in said and str(path) in said


def test_a_figure_of_nothing_in_common_is_refused_and_no_page_written(
    tmp_path: Path, two: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    other = str(bench.save(tmp_path / "other.json", bench.recorded()[-1:]))
    assert main(["compare", two[0], other]) == 0
    assert "0 rows in both" in capsys.readouterr().out
    page = tmp_path / "page.html"
    assert main(["compare", two[0], other, "--html", str(page)]) == 2
    assert "no row in common" in capsys.readouterr().err and not page.exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["bench", "--sweep", "thinn"], "Unknown sweep 'thinn'"),
        (["bench", "--budget", "0"], "budget_seconds is 0"),
        (["bench", "--memory", "0"], "memory_bytes is 0"),
        (["compare", "a.json", "b.json", "--html", "no/such/page.html"], "There is no folder"),
    ],
)
def test_bad_input_gets_one_sentence(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str], asked: list[dict[str, Any]]
) -> None:
    assert sentence in refused(words, capsys)
    assert asked == []


@pytest.mark.parametrize(
    "words", [["--shape", "1x2"], ["--shape", "axbxc"], ["--size", "8", "--sweep", "thin"]]
)
def test_what_argparse_refuses_is_one_sentence_too(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["bench", *words])
    said = capsys.readouterr().err
    assert end.value.code == 2 and len(said.strip().splitlines()) == 1
    assert "128x4096x4096" in said or "not allowed with" in said
