"""Optimised programs of a CPU, a GPU and a TPU are read from their text, whatever stands in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsewarp.bench import hlo
from pulsewarp.bench.hlo import read_program

PROGRAMS = {
    file.stem: file.read_text(encoding="utf-8")
    for file in sorted((Path(__file__).parent / "programs").glob("*.txt"))
}
CPU, CPU_OLD, TPU, LOOP = (PROGRAMS[name] for name in ("cpu", "cpu_old", "tpu", "loop"))


def check_products() -> None:
    """What multiplies, where, by whose code, how exactly: on each machine."""
    found = {
        name: [
            (
                each.operation.name,
                *(outer.name for outer in each.inside),
                each.run_by,
                each.operation.precision,
            )
            for each in read_program(text).products
        ]
        for name, text in PROGRAMS.items()
    }
    own = "code of XLA's own choice: the program names no library"
    assert found == {
        "cpu": [("dot_general.0", "ynn_fusion", "YNNPACK", "highest")],
        "cpu_old": [("custom-call.1", "oneDNN", None)],
        "gpu": [
            ("dot.2", "gemm_fusion_dot.1", "Triton", "dot_bf16_bf16_f32"),
            ("cublas-gemm.1", "cuBLAS, or rocBLAS on an AMD GPU", "high"),
        ],
        "tpu": [("convolution.1", "convolution_convert_fusion", own, "default")],
        "loop": [("dot.9", "while.1", own, "default")],
    }


def test_products_are_found_with_what_runs_them() -> None:
    check_products()


@pytest.mark.parametrize(
    ("name", "faulty"),
    [
        ("_closing", lambda text, opening: text.find(")", opening)),  # knows no bracket in a bracket
        ("_outside_quotes", lambda text, start: enumerate(text[start:], start)),  # knows no quotes
        ("_plain", lambda config: config),  # a configuration in quotes stays one
        ("_fusion_target", lambda config: None),
        ("_name", lambda operand: operand),
    ],
    ids=["nesting", "quotes", "old configurations", "kinds of fusions", "typed operands"],
)
def test_the_checks_see_a_wrong_reader(name: str, faulty: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hlo, name, faulty)
    with pytest.raises(AssertionError):  # either check may be the one that sees it
        check_products()
        check_operations()


def check_operations() -> None:
    program = read_program(CPU_OLD)
    (call,) = program.steps
    assert call.operands == ("Arg_0.1", "Arg_1.2")
    assert (call.shape, call.elements) == ("(f32[8,4], u8[1152])", None)
    assert call.source == "jit(<lambda>)/jit(main)/add"
    assert program.entry.operations[-1].operands == ("custom-call.1",)
    assert [each.shape for each in read_program(TPU).steps] == [
        "(bf16[256,512], bf16[256,512], u32[])",
        "bf16[256,512]",
        "bf16[256,128]",
    ]


def test_operations_have_their_operands_shapes_and_origins() -> None:
    check_operations()


def test_fusions_name_what_was_fused() -> None:
    fused = {fusion.name: [each.opcode for each in inner] for fusion, inner in read_program(CPU).fusions}
    assert fused == {
        "ynn_fusion": ["dot"],
        "broadcast_add_fusion": ["broadcast", "maximum", "broadcast", "add"],
    }
    assert [fusion.kind for fusion, _ in read_program(CPU).fusions] == ["custom", "loop"]
    assert [fusion.kind for fusion, _ in read_program(TPU).fusions] == ["output"]


def test_a_loop_has_its_trips_and_its_body() -> None:
    (loop,) = read_program(LOOP).steps
    assert loop.trips == 5
    assert {each.name for each in read_program(LOOP).inner(loop)} == {"add.3", "dot.9", "compare.1"}


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_every_line_of_a_computation_is_read_and_every_name_is_defined_once(text: str) -> None:
    program = read_program(text)
    assert program.unread == 0 and program.text == text
    assert sum(len(each.operations) for each in program.computations) == text.count("\n  ")
    for computation in program.computations:
        names = [each.name for each in computation.operations]
        assert len(set(names)) == len(names)
        for operation in computation.operations:
            assert set(operation.operands) <= set(names)
        assert [each.is_root for each in computation.operations] == [False] * (len(names) - 1) + [True]


def test_a_line_that_is_not_understood_is_counted() -> None:
    assert read_program(CPU.replace("maximum(", "?? maximum(")).unread == 1


def test_a_text_that_calls_itself_ends() -> None:
    program = read_program(
        CPU.replace("maximum(%param_0.2, %max.5)", "call(%param_0.2), to_apply=%fused_computation.1")
    )
    assert len(list(program.walk())) < 50


@given(st.text(alphabet='ab(){}[],=% "\\', max_size=12))
def test_what_stands_in_quotes_changes_nothing(inside: str) -> None:
    quoted = inside.replace("\\", "\\\\").replace('"', '\\"')
    program = read_program(CPU.replace('op_name="jit(f)/add"', f'op_name="{quoted}"'))
    assert program.steps[-1].calls == ("fused_computation.1",)
    assert program.inner(program.steps[-1])[-1].opcode == "add"


@pytest.mark.parametrize("text", ["", "HloModule empty", "module @jit_f { func.func public @main() }"])
def test_no_program_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no ENTRY computation.*as_text"):
        read_program(text)
