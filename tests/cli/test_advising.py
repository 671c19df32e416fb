"""The command ``pulsewarp advise`` writes a report, a script and a Terraform file, whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pulsewarp import bench, guide
from pulsewarp.cli import main

FILES = {
    "html": "<!doctype html>",
    "markdown": "**",
    "terraform": "# One host",
    "gcloud": "#!/usr/bin/env bash",
}
WORDS = ["--domain", "llm", "--phase", "train", "--params-b", "70", "--chips", "64"]


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    try:
        status = main(words)
    except SystemExit as stop:
        status = int(str(stop.code))
    err = capsys.readouterr().err
    assert status == 2 and err.count("\n") == 1 and "Traceback" not in err
    return err


def test_every_file_is_written_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = {name: tmp_path / f"report.{name}" for name in FILES}
    options = [word for name, path in paths.items() for word in (f"--{name}", str(path))]
    assert main(["advise", *WORDS, "--json", *options]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["verdict"] in guide.VERDICTS  # nothing else on stdout
    for name, path in paths.items():
        assert path.read_text(encoding="utf-8").startswith(FILES[name])
        assert f"wrote {path}" in said.err
    assert sorted(tmp_path.iterdir()) == sorted(paths.values())  # and no temporary is left


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--html", "none/report.html"], "There is no folder"),
        (["--html", "a.html", "--markdown", "./a.html"], "Two files would be written to"),
        (["--location", "own_machine", "--gcloud", "a.sh"], "This pilot has no gcloud script: With location"),
        (["--measured", "none.json"], "There is no file none.json"),
        (["--own-run", "tpu_v6e"], "'tpu_v6e' is no run; write chip and rate as tpu_v6e:919"),
        (["--own-run", "tpu_v9:900"], "Unknown chip 'tpu_v9'"),
        pytest.param(
            ["--own-run", "tpu_v6e:fast"],
            "tokens_per_second_per_chip is 'fast'",
            marks=pytest.mark.wrong_type,
        ),
        (["--htm", "a.html"], "unknown argument '--htm'. Did you mean '--html'?"),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(
    words: list[str],
    sentence: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert sentence in refused(["advise", *WORDS, *words], capsys)
    assert list(tmp_path.iterdir()) == []


def test_an_earlier_report_stays_where_a_new_one_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.html"
    report.write_text("earlier", encoding="utf-8")
    words = ["--location", "own_machine", "--html", str(report), "--gcloud", str(tmp_path / "pilot.sh")]
    refused(["advise", *WORDS, *words], capsys)
    assert report.read_text(encoding="utf-8") == "earlier"


def test_own_runs_take_the_place_of_published_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs.json"
    bench.save(path, bench.recorded(bench.recordings()[0]))
    assert main(["advise", *WORDS, "--json"]) == 0
    before = json.loads(capsys.readouterr().out)
    assert main(["advise", *WORDS, "--json", "--own-run", "tpu_v6e:5000:64", "--measured", str(path)]) == 0
    after = json.loads(capsys.readouterr().out)
    speeds = [
        next(e for e in said["estimates"] if e["chip"] == "tpu_v6e")["usd_per_billion_tokens"]["value"]
        for said in (before, after)
    ]
    assert speeds[1] < speeds[0] / 2
    assert before["measured"] == [] and any("as you measured" in text for text in after["measured"])
    assert len(after["measured"]) == 1 + len(bench.load(path, only=bench.Measurement))
