from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pulsewarp import bench, cli, guide
from pulsewarp.cli import main


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Run, expect status 2 and one line on stderr, and return it."""
    try:
        status = main(words)
    except SystemExit as end:
        status = int(end.code or 0)
    said = capsys.readouterr()
    assert status == 2, said
    assert "Traceback" not in said.err
    assert len(said.err.strip().splitlines()) == 1
    return said.err.strip()


@pytest.mark.parametrize("words", [[], ["doctor"], ["bench"], ["advise"], ["export"]])
def test_help_names_each_option_and_ends_well(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([*words, "--help"])
    assert end.value.code == 0
    said = capsys.readouterr().out
    assert said.startswith("usage: pulsewarp")
    assert not words or "example: pulsewarp" in " ".join(said.split())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["advice"], "invalid choice: 'advice'"),
        (["advise", "--framwork", "jax"], "unknown argument '--framwork'. Did you mean '--framework'?"),
        (["advise", "--framework", "jaxx"], "Unknown framework 'jaxx'.*Did you mean 'jax'?"),
        (["advise", "--params-b", "seven"], "params_b is 'seven', but must be a finite number above 0"),
        (["advise", "--chips", "-8"], "expected one argument|chips is -8"),
        (["advise", "--gpu-chip", "h100"], "Unknown gpu_chip 'h100'"),
        (["advise", "none.json"], "none.json: No such file"),
        (["advise", "one.yaml"], "one.yaml: No such file"),
        (["advise", "--json", "--short"], "not allowed with"),
        (["export", "sistolic"], "'sistolic' is neither a notebook .* nor a scene.*Did you mean 'systolic'"),
        (["export", "none.ipynb"], "There is no notebook at none.ipynb"),
        (["export", "systolic", "--policy", "gto"], "--policy belongs to the warp scene, not to systolic"),
        (["export", "none.ipynb", "--m", "4"], "--m belongs to a scene, not to a notebook"),
        (["export", "systolic", "--m", "0"], "m is 0, but must be a whole number of at least 1"),
        (["export", "systolic", "--rows", "0"], "0"),
        (["export", "systolic", "--dataflow", "wz"], "Unknown dataflow 'wz'"),
        (["export", "warp", "--policy", "gta"], "Unknown policy 'gta'"),
        (
            ["export", "systolic", "-o", "no/such/folder/x.html"],
            "There is no folder .*folder to write x.html",
        ),
        (["bench", "--size", "64", "--out", "no/such/folder/x.json"], "There is no folder"),
        (["bench", "--size", "0"], "0"),
        (["bench", "--size", "many"], "invalid int value: 'many'"),
    ],
)
def test_bad_input_gets_one_sentence(
    words: list[str],
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert re.search(sentence, refused(words, capsys))
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_is_no_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(guide, "advise", stop)
    assert main(["advise"]) == 130
    assert capsys.readouterr().err == "pulsewarp advise: interrupted.\n"
    monkeypatch.setattr(cli, "_build_parser", stop)  # which reads the guide, and with it NumPy: a long moment
    assert main(["advise"]) == 130
    assert capsys.readouterr().err == "pulsewarp: interrupted.\n"


def test_what_takes_long_to_import_is_imported_where_an_interrupt_is_caught() -> None:
    code = "import sys, pulsewarp.cli; print(sorted({'numpy', 'jax', 'plotly'} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


# --- advise ------------------------------------------------------------------------------------------------

ASKED = {"domain": "llm", "phase": "train", "params_b": 70, "framework": "jax", "chips": 512}
WORDS = [word for name, value in ASKED.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def test_advise_says_what_the_guide_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", *WORDS, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data == json.loads(json.dumps(guide.advise(guide.Workload(**ASKED)).to_dict()))
    assert main(["advise", *WORDS]) == 0
    assert capsys.readouterr().out == f"{guide.advise(guide.Workload(**ASKED))}\n"
    assert main(["advise", *WORDS, "--short"]) == 0
    assert capsys.readouterr().out == f"{guide.advise(guide.Workload(**ASKED)).summary}\n"


def test_a_file_is_read_and_options_change_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "workload.json"
    path.write_text(json.dumps(guide.Workload(**ASKED).to_dict()), encoding="utf-8")
    assert main(["advise", str(path), "--precision", "fp64", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["verdict"] == "gpu"
    assert data["workload"] == {"form": "pulsewarp-workload/1", **ASKED, "precision": "fp64"}


def test_yaml_says_the_same_and_its_sentence_names_the_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "workload.yaml"
    path.write_text("".join(f"{name}: {value}\n" for name, value in ASKED.items()), encoding="utf-8")
    assert main(["advise", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["workload"] == {"form": "pulsewarp-workload/1", **ASKED}
    path.write_text("phase: train\nparam_b: 7\n", encoding="utf-8")
    said = refused(["advise", str(path)], capsys)
    assert f"{path}, line 2: Workload does not know the keyword 'param_b'. Did you mean 'params_b'?" in said


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "is not valid JSON"),
        (
            '{"form": "pulsewarp-measurements/1"}',
            "holds 'pulsewarp-measurements/1', not 'pulsewarp-workload/1'",
        ),
        ('{"param_b": 7}', "does not know the keyword 'param_b'. Did you mean 'params_b'"),
        ('{"params_b": -7}', "params_b is -7"),
        ('{"params_b": 7, "active_params_b": 9}', "active_params_b is 9 but params_b is 7"),
    ],
)
def test_bad_files_get_one_sentence(
    text: str, sentence: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "workload.json"
    path.write_text(text, encoding="utf-8")
    assert re.search(sentence, refused(["advise", str(path)], capsys))


def test_every_field_of_a_workload_is_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    values: dict[str, Any] = {name: words[0] for name, words in guide.VOCABULARY.items()}
    values |= {"model_type": "12", "date": "2026", "gpu_chip": "h100_sxm", "tpu_chip": "tpu_v5p"}
    values |= {
        "params_b": 8,
        "active_params_b": 2,
        "chips": 4,
        "seq_len": 10,
        "global_batch": 3,
        "tokens_b": 1,
    }
    values |= {"usd_per_gpu_hour": 3, "usd_per_tpu_hour": 4, "port_weeks": 2, "usd_per_engineer_week": 5000}
    words = [word for name, value in values.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    assert main(["advise", *words, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["workload"] == {**guide.Workload(**values).to_dict()}
    assert set(data["workload"]) - {"form"} == set(values)


# --- doctor and bench --------------------------------------------------------------------------------------


def test_doctor_shows_the_card_the_versions_and_the_browser(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli.shutil, "which", lambda name: None)
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(str(bench.devices()).splitlines()[0])
    for word in ("anywidget", "ipywidgets", "plotly", "Browser:   none on the search path"):
        assert word in said


def test_doctor_measures_only_when_asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[bool] = []
    monkeypatch.setattr(bench, "ceilings", lambda: measured.append(True), raising=False)
    assert main(["doctor"]) == 0 and measured == []
    assert main(["doctor", "--measure"]) == 0 and measured == [True]
    capsys.readouterr()


def test_doctor_says_whether_energy_can_be_read(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pulsewarp.bench import host, nvml

    plain = host.Host(python="3.13.0", cpu_model="Example CPU", cores=2)
    monkeypatch.setattr(host, "look", lambda: plain)
    assert cli._energy() == "not measurable here: this machine shows no NVIDIA GPU."
    monkeypatch.setattr(host, "look", lambda: dataclasses.replace(plain, device_files=("/dev/nvidia0",)))
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert "nvidia-ml-py is not installed" in cli._energy()
    monkeypatch.setattr(nvml, "open_library", lambda: SimpleNamespace(close=lambda: None))
    assert cli._energy() == "measurable: bench.energy_of_matmul(m, k, n)"


def test_doctor_works_without_jax(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jax", None)  # what an import of a missing package meets
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert "JAX" in said and "Remedy:" in said


def test_bench_measures_prints_and_keeps(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("jax", reason="bench needs JAX, which is optional")
    path = tmp_path / "runs.json"
    assert main(["bench", "--size", "16", "32", "--repeats", "2", "--out", str(path)]) == 0
    said = capsys.readouterr().out
    assert said.count("Measurement(") == 2 and f"wrote {path}" in said
    assert [run.matmul.m for run in bench.load(path)] == [16, 32]


# --- export ------------------------------------------------------------------------------------------------


def test_a_scene_is_written_as_its_players_own_page(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "scene.html"
    words = [*("--m", "2", "--k", "3", "--n", "2"), *("--rows", "2", "--cols", "2"), "--dataflow", "os"]
    assert main(["export", "systolic", *words, "--title", "Mine & yours", "-o", str(path)]) == 0
    assert f"wrote {path}" in capsys.readouterr().out
    page = path.read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") and "<title>Mine &amp; yours</title>" in page


def test_scenes_get_a_name_of_their_own_and_the_same_seed_the_same_page(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["export", "warp", "--schedulers", "2", "--policy", "gto", "--max-outstanding", "2"]) == 0
    first = (tmp_path / "warp.html").read_text(encoding="utf-8")
    assert main(["export", "warp", "--schedulers", "2", "--policy", "gto", "--max-outstanding", "2"]) == 0
    assert (tmp_path / "warp.html").read_text(encoding="utf-8") == first
    assert main(["export", "warp", "--seed", "7"]) == 0
    assert (tmp_path / "warp.html").read_text(encoding="utf-8") != first
    assert capsys.readouterr().out.count("wrote warp.html") == 3
