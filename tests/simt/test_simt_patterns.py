"""Patterns typed as expressions of `lane`: Python's own values, and a sentence for everything else."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsewarp import simt

GOOD = [
    "4 * lane",
    "lane",
    "0",
    "128 * (lane % 4) + 4 * (lane // 4)",
    "4 * (lane ^ (lane >> 3))",
    "(lane << 2) | 128 & ~3",
    "4 * (31 - lane)",
    "+lane * 4 if lane < 16 else 1024 + 4 * lane",
    "4 * lane if 4 <= lane < 8 or lane == 31 else None",
    "None if not lane % 2 and lane != 4 else 16 * lane",
    "(lane > 3) * 64",
    "4 if 0 else 8",
]


@pytest.mark.parametrize("text", GOOD)
def test_a_pattern_has_pythons_value(text: str) -> None:
    assert simt.pattern(text) == tuple(eval(text, {"__builtins__": {}}, {"lane": lane}) for lane in range(32))
    assert simt.pattern(f"  {text}  ") == simt.pattern(text)


@st.composite
def expressions(draw: st.DrawFn, depth: int = 3) -> str:
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from(["lane", "lane", "4", "128", "3", "0", "31"]))
    inner = expressions(depth=depth - 1)
    kind = draw(st.sampled_from(["+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>", "if", "<", "==", "~"]))
    left, right = draw(inner), draw(inner)
    if kind == "if":
        return f"({left} if {draw(inner)} and not {right} or {left} > 3 else {right})"
    if kind in ("<<", ">>"):
        right = draw(st.sampled_from(["0", "2", "7"]))  # by more, Python would fill the memory
    return f"(~{left})" if kind == "~" else f"({left} {kind} {right})"


@given(expressions())
def test_any_expression_has_pythons_value_or_is_refused(text: str) -> None:
    wanted: list[Any] = []
    for lane in range(32):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Python advises against ~ on a yes or no
                wanted.append(eval(text, {"lane": lane}))
        except ZeroDivisionError:
            wanted.append(-1)
    good = all(type(value) is int and 0 <= value <= 2**62 for value in wanted)
    if good:
        assert simt.pattern(text) == tuple(wanted)
    else:
        with pytest.raises(ValueError, match="lane"):
            simt.pattern(text)


def test_painted_lanes_are_taken_as_they_are() -> None:
    painted = [4 * lane if lane % 3 else None for lane in range(32)]
    assert simt.pattern(painted) == tuple(painted)
    assert simt.sectors(simt.pattern(painted), 4).active_lanes == 21


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("lane / 2", ("'/'", "write '//'")),
        ("2 ** lane", ("'**'", "lane, whole numbers")),
        ("tid * 4", ("the name 'tid'", "lane")),
        ("abs(lane)", ("a call of 'abs'",)),
        ("__import__('os').system('true')", ("a call of",)),
        ("lane.real", ("a dot",)),
        ("[4][0]", ("square brackets",)),
        ("1, 2", ("a comma",)),
        ("lambda: 0", ("'lambda'",)),
        ("(x := 3)", ("':='",)),
        ("f'{lane}'", ("a text",)),
        ("'a'", ("'a'", "whole number")),
        ("0.5 * lane", ("0.5", "whole number")),
        ("True", ("True", "whole number")),
        ("lane if lane is 3 else 0", ("'is'",)),
        ("lane if lane in (1, 2) else 0", ("uses",)),
        ("{lane}", ("braces",)),
        ("[l for l in lane]", ("a ListComp",)),
        ("4 * lane if lane < 99 else foo", ("the name 'foo'",)),  # also where no lane comes to it
        ("", ("cannot be read", "'4 * lane'")),
        ("4 * (lane", ("cannot be read",)),
        ("4 * lane; lane", ("cannot be read",)),
        ("lane < 4", ("lane 0", "yes or no", "4 * lane if")),
        ("-4 * lane", ("lane 1", "-4", "at least 0")),
        ("lane << 64", ("shifts by 64", "63")),
        ("lane << (0 - 1)", ("shifts by -1",)),
        ("lane * 2000000000000000000", ("lane 3", "beyond")),
        ("4 % lane", ("lane 0", "divides by 0")),
        ("4 // (lane - 5)", ("lane 0", "the address -1")),
        ("4 // (5 - lane) if lane == 5 else 0", ("lane 5", "divides by 0")),
        ("4 + None", ("calculates with None",)),
        ("lane " * 80, ("400 characters", "at most 300")),
        ("(" * 140 + "1" + ")" * 139, ("cannot be read", "...")),
    ],
)
def test_what_is_not_taken_is_named(text: str, parts: tuple[str, ...]) -> None:
    with pytest.raises(ValueError) as caught:
        simt.pattern(text)
    said = str(caught.value)
    assert said.endswith(".") and "\n" not in said
    for part in parts:
        assert part in said


def test_an_expression_is_read_up_to_a_depth() -> None:
    assert simt.pattern("-" * 38 + "4")[0] == 4
    assert simt.pattern("+".join(["1"] * 38))[0] == 38
    for deep in ("-" * 280 + "4", "+".join(["1"] * 140)):
        with pytest.raises(ValueError, match="nested more than 40 deep"):
            simt.pattern(deep)
