"""A question knows no answer: it asks, and shows what it is given."""

from __future__ import annotations

import ast
import inspect

import pytest

from pulsewarp.widgets import question as module
from pulsewarp.widgets.question import Question


def test_everything_asked_travels_as_traits() -> None:
    question = Question("How many?", choices=["1", "2"], unit="cycles", within=2)
    state = question.get_state()
    names = ("question", "choices", "unit", "within", "given", "asked", "outcome")
    assert [state[name] for name in names] == ["How many?", ["1", "2"], "cycles", 2.0, "", False, {}]


def test_it_imports_no_simulator() -> None:
    imported = [
        node.module
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.ImportFrom)
    ]
    assert {name for name in imported if name and name.startswith("pulsewarp")} == {
        "pulsewarp._checks",
        "pulsewarp.widgets._player",
    }


@pytest.mark.parametrize(
    "settings, expected",
    [
        ({}, "Question('How many?')"),
        ({"unit": "ms"}, "Question('How many?', unit='ms')"),
        ({"choices": ["a", "b"]}, "Question('How many?', choices=['a', 'b'])"),
    ],
)
def test_the_repr_is_stable(settings: dict[str, object], expected: str) -> None:
    question = Question("How many?", **settings)  # type: ignore[arg-type]  # a table of settings
    question.given, question.asked = "a", True
    assert repr(question) == expected


def test_a_page_says_that_it_has_no_kernel() -> None:
    assert '"live": false' in Question("How many?").to_html()


def test_text_from_a_lesson_cannot_end_the_script_it_stands_in() -> None:
    page = Question("What is </script><b>this</b>?").to_html()
    assert "</script><b>" not in page
