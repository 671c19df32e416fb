"""The public scenarios and cases as the guide's tests share them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

REFERENCE = Path(__file__).resolve().parents[1] / "reference"


def read_lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (REFERENCE / name).read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="session")
def scenarios() -> list[dict[str, Any]]:
    return read_lines("decision_scenarios.jsonl")


@pytest.fixture(scope="session")
def recorded_score() -> dict[str, Any]:
    return json.loads((REFERENCE / "decision_score.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def public_cases() -> list[dict[str, Any]]:
    return read_lines("decision_training_cases.jsonl")
