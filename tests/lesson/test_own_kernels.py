"""The reader's own kernel: what was typed is traced and shown, or refused in a sentence at its field."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from pulsewarp import lesson, simt
from pulsewarp.simt import lesson_kernels as kernels

ADD = "def add(x, out):\n    i = cuda.grid(1)\n    if i < out.size:\n        out[i] = x[i] + 1\n"
ARGS = "np.arange(40, dtype=np.float32), np.zeros(40, np.float32)"


def field_values(player: Any) -> dict[str, str]:
    return {field["name"]: field["value"] for field in player.options["form"]["fields"]}


def run(player: Any, **values: str) -> dict[str, Any]:
    """What comes back to the browser for these fields, over those that the scene opened with."""
    number = str(int(player.reply.get("id", "0")) + 1)
    player.request = {"id": number, "kind": "own", "values": {**field_values(player), **values}}
    assert player.reply["id"] == number
    return {key: value for key, value in player.reply.items() if key != "id"}


def opened() -> Any:
    return lesson.own_kernel(ADD, grid=2, block=32, args=ARGS)


# --- what runs ----------------------------------------------------------------------------------------------


def test_what_was_typed_is_traced_and_shown() -> None:
    player = opened()
    before = player.trace
    said = run(player, kernel=ADD.replace("+ 1", "* x[i]"), grid="1", block="64")
    assert said == {"done": "Now shown: 2 warps, 14 instructions, 15 sectors."}
    assert player.trace != before
    assert repr(player).startswith("KernelPlayer(add: 2 warps, ")


def test_what_opens_is_what_pressing_run_gives() -> None:
    player = opened()
    before = player.trace
    run(player)
    assert player.trace == before


def test_a_function_is_written_out_with_what_it_needs_and_runs_again() -> None:
    case = kernels.product(kernels.tiled_product, m=16, k=16, n=16)
    player = lesson.own_kernel(case.kernel, grid=case.grid, block=case.block, args=case.args)
    values = field_values(player)
    assert values["kernel"].startswith("TILE = 16\n\ndef tiled_product(a, b, c):\n")
    assert "type: ignore" not in values["kernel"]
    assert (values["grid"], values["block"], values["args"]) == ("1, 1", "16, 16", "a, b, c")
    assert "Now shown: 8 warps" in run(player)["done"]
    assert "already there: a (16 x 16 float32), b (16 x 16 float32)" in player.options["form"]["hint"]


def test_each_run_gets_the_arrays_as_they_were_given() -> None:
    x = np.zeros(32, np.float32)
    player = lesson.own_kernel("def k(x):\n    x[cuda.grid(1)] += 1\n", grid=1, block=32, args=(x,))
    run(player)
    assert not x.any()


def test_numbers_among_the_arguments_are_typed_as_numbers() -> None:
    x = np.ones(32, np.float32)
    player = lesson.own_kernel(kernels.strided_copy, grid=1, block=16, args=(x, x, np.int64(2)))
    assert field_values(player)["args"] == "x, out, 2"
    assert "Now shown" in run(player, args="x, np.zeros(16, np.float32), 1")["done"]


def test_the_function_defined_last_is_the_kernel_and_may_call_the_others() -> None:
    text = "def twice(v):\n    return 2 * v\n\ndef k(x):\n    i = cuda.grid(1)\n    x[i] = twice(x[i])\n"
    player = lesson.own_kernel(text, grid=1, block=32, args="np.ones(32)")
    assert repr(player).startswith("KernelPlayer(k: ")


def test_a_launch_too_large_to_be_shown_shows_its_first_blocks_and_says_so() -> None:
    player = lesson.own_kernel(ADD, grid=1, block=1024, args="np.zeros(9000), np.zeros(9000)")
    said = run(player, grid="8")
    assert said["done"].startswith("Now shown: 256 warps, ")
    assert said["done"].endswith(" The scene plays the first 64 warps.")
    assert repr(player).startswith("KernelPlayer(add: 64 warps, ")


# --- what does not run --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "field", "line", "words"),
    [
        ({"kernel": "def f(x:\n  x[0] = 1"}, "kernel", 1, "Line 1 is no Python: "),
        ({"kernel": "x = 1"}, "kernel", 0, "The text defines no function; write the kernel with def"),
        ({"kernel": "a = 1 / 0\n" + ADD}, "kernel", 1, "Line 1 does not run: ZeroDivisionError: division"),
        ({"kernel": "\nraise SystemExit\n" + ADD}, "kernel", 2, "Line 2 does not run: SystemExit"),
        ({"kernel": "import not_there\n" + ADD}, "kernel", 1, "not_there is not installed here; leave"),
        ({"kernel": "# " + "x" * 20_000}, "kernel", 0, "The kernel has 20002 characters, but at most 20000"),
        (
            {"kernel": ADD.replace("x[i] + 1", "sum([x[i], 1])")},
            "kernel",
            4,
            "Line 4 of add uses a list, which is not traced; write cuda.local.array(shape, dtype).",
        ),
        ({"kernel": ADD.replace("x[i] + 1", "z + 1")}, "kernel", 4, "Line 4 of add uses z, which is defined"),
        ({"kernel": "def f(x, y):\n  while True:\n    x[0] = 1\n"}, "kernel", 2, "Line 2 of f is reached"),
        ({"grid": "0"}, "grid", 0, "Grid: blocks is '0', but must be one to three whole numbers"),
        ({"grid": "1, 2, 3, 4"}, "grid", 0, "Grid: blocks is '1, 2, 3, 4'"),
        ({"grid": "5000", "block": "512"}, "grid", 0, "The launch has 2560000 threads, but at most 65536"),
        ({"block": "many"}, "block", 0, "Block: threads is 'many'"),
        ({"block": "2000"}, "block", 0, "block is (2000,), 2000 threads, but a block holds at most 1024"),
        ({"args": "np.zeros(3),, 4"}, "args", 0, "The arguments are no Python: invalid syntax; write"),
        ({"args": "here, there"}, "args", 0, "The arguments do not run: NameError: name"),
        ({"args": "np.zeros(3)"}, "args", 0, "add has 2 parameters (x, out), but args holds 1"),
        ({"args": "[1], np.zeros(3)"}, "args", 0, "Argument x is a list; pass np.array(x) instead."),
        ({"args": "np.zeros(3), 'abc'"}, "args", 0, "Argument out holds <U3 values"),
    ],
)  # fmt: skip
def test_what_does_not_run_is_a_sentence_at_its_field_with_its_line(
    values: dict[str, str], field: str, line: int, words: str
) -> None:
    player = opened()
    before = player.trace
    said = run(player, **values)
    assert said["error"].startswith(words)
    assert (said["field"], said["line"]) == (field, line)
    assert player.trace == before, "what is shown is the run before"


@pytest.mark.parametrize("name", [name for name, case in kernels.LESSONS.items() if case.mistake])
def test_a_mistake_of_the_kernel_is_shown_and_said_with_its_line(name: str) -> None:
    case, player = kernels.LESSONS[name], opened()
    own = lesson.own_kernel(case.kernel, grid=case.grid, block=case.block, args=case.args)
    said = run(player, **{**field_values(own), "args": _as_text(case)})
    assert said["done"].startswith("Now shown: ") and said["field"] == "kernel"
    lines = field_values(own)["kernel"].splitlines()
    problem = case.trace().problems[0]
    source = case.trace().source[problem.line - case.trace().first_line]
    assert lines[said["line"] - 1].strip() == source.split("  #")[0].strip()
    assert re.sub(r"line \d+", "", said["problem"], flags=re.I) == re.sub(
        r"line \d+", "", str(problem), flags=re.I
    )


def _as_text(case: kernels.Lesson) -> str:
    return ", ".join(f"np.array({a.tolist()}, np.{a.dtype})" for a in case.args)


def test_opening_with_what_cannot_be_traced_raises_the_same_sentence() -> None:
    with pytest.raises(ValueError, match=r"^Line 1 of k uses a lambda, which is not traced"):
        lesson.own_kernel("def k(x): x[0] = (lambda: 1)()", grid=1, block=32, args="np.zeros(1)")
    with pytest.raises(ValueError, match=r"The kernel has 3 parameters \(x, y, out\), but args holds 1"):
        lesson.own_kernel(kernels.vector_add, args=(np.zeros(3),))


# --- a task whose answer is a kernel ------------------------------------------------------------------------


def straight(**settings: Any) -> lesson.KernelExercise:
    given = {
        "cases": [kernels.transpose(rows=32, columns=columns) for columns in (32, 64)],
        "limits": {"sectors": 1.0, "wavefronts": 1.0},
        "start": kernels.tiled_transpose,
        **settings,
    }
    return lesson.kernel_exercise("Transpose without a bank conflict.", **given)


def test_the_solution_solves_it() -> None:
    assert straight().solved()
    assert repr(straight().solved()).startswith("Right: the results of 2 launches agree")


def constants(x, out):  # type: ignore[no-untyped-def]  # a kernel, as a reader writes it
    column, row = cuda.grid(2)
    out[column, row] = 1.0


def first_block_only(x, out):  # type: ignore[no-untyped-def]
    column, row = cuda.grid(2)
    if column < 32:
        out[column, row] = x[row, column]


cuda = simt.cuda


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (kernels.tiled_transpose, "it takes 1056 passes through shared memory, and 64 do; most are for out["),
        (kernels.naive_transpose, "it takes 1152 sectors of global memory, and 256 do; most are for out["),
        (constants, "with grid (1, 1) and block (32, 32), out[0, 0] is 1.0, but must be -5.0."),
        (first_block_only, "with grid (2, 1) and block (32, 32), out[32, 0] is 0.0, but must be "),
        (kernels.vector_add, "vector_add has 3 parameters (x, y, out), but args holds 2"),
        (lambda x, out: None, "kernel is a lambda, but must be a function; write it with def."),
        (7, "a kernel is asked for, but you gave 7."),
    ],
)  # fmt: skip
def test_a_wrong_kernel_is_rejected_with_what_is_wrong(kernel: object, words: str) -> None:
    verdict = straight().check(kernel)
    assert not verdict and verdict.sentence.startswith("Not yet: ") and words in verdict.sentence


def test_a_race_is_rejected_even_where_its_result_is_right() -> None:
    cases = [kernels.LESSONS["missing_barrier"], kernels.LESSONS["divergent_barrier"]]
    assert cases[0].trace().problems[0].kind == "race"
    task = lesson.kernel_exercise("Reverse.", cases=cases)
    assert "Race on tile" in task.check(cases[0].kernel).sentence


def test_a_hint_is_said_and_an_untouched_task_lets_the_notebook_go_on() -> None:
    assert straight(hint="Look at the banks.").check(constants).sentence.endswith("Hint: Look at the banks.")
    assert repr(straight().check(...)).startswith("Not answered yet")


def test_looser_limits_are_limits_too() -> None:
    assert not straight(limits={"wavefronts": 16}).check(kernels.tiled_transpose)
    assert straight(limits={"wavefronts": 16.5}).check(kernels.tiled_transpose)
    assert straight(limits={}).check(kernels.naive_transpose)


def test_a_task_that_proves_nothing_is_refused() -> None:
    one = kernels.transpose(rows=32, columns=32)
    with pytest.raises(ValueError, match="a kernel that writes constants would pass"):
        lesson.kernel_exercise("Transpose.", cases=[one, one])
    idle = kernels.Lesson("idle", one.kernel, (1, 1), (32, 32), one.args, "out", one.args[1])
    with pytest.raises(ValueError, match="A kernel that does nothing would solve idle"):
        lesson.kernel_exercise("Transpose.", cases=[idle, one])
    with pytest.raises(ValueError, match=r"Unknown limit 'wavefront'.*Did you mean 'wavefronts'"):
        straight(limits={"wavefront": 1.0})


def test_solution_and_hint_are_folded_and_escaped() -> None:
    shown = straight(hint="r < c?")._repr_html_()
    assert shown.count("<details>") == 2 and "r &lt; c?" in shown and "PADDED = 33" in shown


def test_every_run_in_the_scene_is_checked_against_the_task() -> None:
    player = lesson.own_kernel(exercise=straight())
    assert player.options["task"] == "Transpose without a bank conflict."
    said = run(player)
    assert said["problem"].startswith("Not yet: the results are right, but it takes 1056 passes")
    text = field_values(player)["kernel"].replace("WIDE_TILE, WIDE_TILE", "WIDE_TILE, 33")
    assert run(player, kernel=text)["done"].endswith(
        "✓ Right: the results of 2 launches agree, and nothing costs more than it must."
    )


def test_mutant_a_check_of_the_first_launch_alone_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    task = straight()
    monkeypatch.setattr(task, "cases", task.cases[:1])
    assert task.check(first_block_only).sentence.find("out[32, 0]") == -1
    assert "out[32, 0]" in straight().check(first_block_only).sentence
