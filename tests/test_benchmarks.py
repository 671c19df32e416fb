"""The benchmarks' runner: what it calls kept, broken and not measured."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "benchmarks"


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(rows: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run the runner over one benchmark that returns these rows; its file goes under `tmp_path`."""
    runner = loaded("run")
    monkeypatch.setattr(runner, "HERE", tmp_path / "benchmarks")
    monkeypatch.setattr(runner, "find_benchmarks", lambda parts: iter([("part", lambda: rows)]))
    status: int = runner.main()
    assert json.loads((tmp_path / ".cache" / "bench.json").read_text(encoding="utf-8")) == [
        {"part": "part", **row} for row in rows
    ]
    return status


@pytest.mark.parametrize(
    ("row", "status", "said"),
    [
        ({"value": 3, "limit": 3}, 0, "holds"),
        ({"value": 3.1, "limit": 3}, 1, "BROKEN"),
        ({"value": 30, "limit": 30, "better": "higher"}, 0, "holds"),
        ({"value": 29, "limit": 30, "better": "higher"}, 1, "BROKEN"),
        ({"value": 1e9}, 0, "0 promises broken"),
        ({"value": None, "limit": 3, "why": "no network"}, 0, "NOT MEASURED no network"),
    ],
)
def test_a_promise_is_kept_or_broken_or_could_not_be_measured(
    row: dict[str, Any],
    status: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run([{"name": "one", "unit": "s", **row}], tmp_path, monkeypatch) == status
    printed = capsys.readouterr().out
    assert said in printed
    assert f"{int(row['value'] is None)} of them not measured" in printed


def fails(*_: object, **__: object) -> object:
    raise subprocess.CalledProcessError(1, "pip", stderr="looking\n  no such host\n")


def ends_late(*_: object, **__: object) -> object:
    raise subprocess.TimeoutExpired("pip", 180)


@pytest.mark.parametrize(
    ("fault", "said"), [(fails, "no such host"), (ends_late, "it took over three minutes")]
)
def test_a_package_that_cannot_be_fetched_is_a_row_that_says_so(
    fault: Callable[..., object], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = loaded("bench_scalesim")
    monkeypatch.setattr(part, "ENVIRONMENT", tmp_path / "environment")
    monkeypatch.setattr(part.subprocess, "run", fault)
    (row,) = part.bench_scalesim()
    assert row["value"] is None and row["why"] == f"SCALE-Sim was not fetched: {said}"
    assert not (tmp_path / "environment" / "ready").exists()
