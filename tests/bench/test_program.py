"""XLA's cost beside ours: a sentence for each way in which they differ, and none that is not true."""

from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pulsewarp.bench.hlo import read_program
from pulsewarp.bench.program import CompiledProgram
from pulsewarp.matmul import Matmul

PROGRAMS = Path(__file__).parent / "programs"
BARE = """HloModule jit_f
ENTRY %main (a: f32[8,16], b: f32[16,4]) -> f32[8,4] {
  %a = f32[8,16]{1,0} parameter(0)
  %b = f32[16,4]{1,0} parameter(1)
  ROOT %dot.1 = f32[8,4]{1,0} dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
PRODUCT = Matmul(8, 16, 4, "fp32")


def made(
    text: str = BARE,
    flops: float | None = PRODUCT.flops,
    moved: float | None = PRODUCT.bytes_moved,
    matmul: Matmul | None = PRODUCT,
    why_unknown: str | None = None,
) -> CompiledProgram:
    return CompiledProgram(
        read_program(text), "cpu", flops, moved, matmul, versions={"jax": "0.7.2"}, why_unknown=why_unknown
    )


def recorded(name: str) -> str:
    return (PROGRAMS / f"{name}.txt").read_text(encoding="utf-8")


def test_equal_counts_are_called_equal() -> None:
    assert made().flops_ratio == made().bytes_ratio == 1
    assert made().remarks == (
        "The FLOPs agree: 2 x 8 x 16 x 4.",
        "The bytes agree: each factor read once, the result written once.",
    )


def test_more_flops_are_explained_only_where_they_add_up() -> None:
    """The CPU program adds one to each of 32 values and takes a maximum: 64 more, if counted one each."""
    assert (
        "The 64 more are one for each value that these give: add, maximum."
        in made(recorded("cpu"), PRODUCT.flops + 64).remarks
    )
    unsure = made(recorded("cpu"), PRODUCT.flops + 192).remarks  # a GPU counts three for each
    assert "XLA counts 192 more: besides the product the program has add, maximum." in unsure
    assert "XLA counts 7 more; the program's text does not show why." in made(flops=PRODUCT.flops + 7).remarks


def test_a_reduction_takes_one_less_than_its_values() -> None:
    summed = "  %s.1 = f32[8] reduce(%a, %b), dimensions={1}, to_apply=%plus\n  ROOT"
    text = BARE.replace("  ROOT", summed)
    said = made(text, PRODUCT.flops + 8 * 16 - 8).remarks[0]
    assert said.startswith("The 120 more are one for each value") and "a reduction takes" in said
    assert made(text, PRODUCT.flops + 8 * 16).remarks[0].startswith("XLA counts 128 more")


def test_a_library_call_that_counts_as_minus_one_gives_no_ratio() -> None:
    partial = made(recorded("cpu_old"), flops=31, moved=400)
    assert partial.partial and partial.flops_ratio is None and partial.bytes_ratio is None
    assert partial.remarks[0] == (
        "XLA counts neither the FLOPs nor the bytes of a library's call: each adds -1 to its sums."
    )
    assert len(partial.remarks) == 1, "nothing may be said of bytes that lack the product"
    known = made(recorded("cpu_old"))  # a backend that knows the call counts it
    assert not known.partial and known.flops_ratio == 1


def test_unknown_counts_say_why() -> None:
    unknown = made(recorded("cpu_old"), None, None)
    assert unknown.flops_ratio is None and "unknown" in repr(unknown)
    assert "gives no FLOPs here: it does not know what __onednn$matmul does" in unknown.remarks[0]
    assert made(flops=None, moved=None).remarks[0].endswith("gives no FLOPs for this backend.")
    failed = made(flops=None, moved=None, why_unknown="NotImplementedError: no analysis")
    assert failed.remarks[0].endswith("here: NotImplementedError: no analysis")
    assert "no bytes for this backend" in made(moved=None).remarks[1]


def test_a_product_rewritten_as_a_sum_lacks_one_addition_each() -> None:
    text = BARE.replace("dot(%a, %b)", "reduce(%a, %b)")
    missing = PRODUCT.m * PRODUCT.n
    assert "takes k - 1 additions" in made(text, PRODUCT.flops - missing).remarks[0]
    assert "text does not show why" in made(text, PRODUCT.flops - missing - 1).remarks[0]
    assert "text does not show why" in made(flops=PRODUCT.flops - missing).remarks[0]


def test_a_loop_is_counted_once_and_said_to_be() -> None:
    assert (
        "XLA counts a loop's body once, however often it runs (here 5 times)."
        in made(recorded("loop"), matmul=None).remarks
    )


def test_more_bytes_are_laid_to_the_steps_between() -> None:
    assert "what each of the 2 steps reads" in made(recorded("cpu"), moved=5000).remarks[-1]
    assert "leaves some out" in made(moved=5).remarks[-1]


def test_without_a_product_to_compare_nothing_is_compared() -> None:
    alone = made(matmul=None)
    assert alone.rows() == (("FLOPs", "1,024", "-", "-"), ("bytes", "896", "-", "-"))
    assert alone.remarks == ()
    assert "its sums lack it" in made(recorded("cpu_old"), matmul=None).remarks[0]


class _Balance(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        assert tag != "ul" or not self.open or self.open[-1] == "li", "a list stands in an item"
        assert tag != "li" or self.open[-1] == "ul"
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("name", ["cpu", "cpu_old", "gpu", "tpu", "loop"])
def test_the_page_is_well_formed_and_says_what_the_text_says(name: str) -> None:
    program = made(recorded(name).replace("%a.1", "%a<b"))
    page = program._repr_html_()
    balance = _Balance()
    balance.feed(page)
    assert balance.open == []
    plain = re.sub(r"<[^>]+>", "\n", page).replace("&gt;", ">").replace("&lt;", "<").replace("&#x27;", "'")
    for sentence in (*program.remarks, *(step for _, step in program._listed())):
        assert sentence in plain
        assert sentence in repr(program)


def test_a_long_program_is_cut_and_says_so() -> None:
    lines = "".join(f"  %n.{i} = f32[2] negate(%n.{i - 1})\n" for i in range(1, 5000))
    long = made(BARE.replace("  ROOT", f"{lines}  ROOT"))
    assert len(repr(long)) < 10_000 and "and 4940 more" in repr(long)
    assert len(long._repr_html_()) < 40_000 and "the whole text is in .program.text" in long._repr_html_()
    assert long.program.text.count("negate") == 4999


def test_unread_lines_are_owned_up_to() -> None:
    assert made(BARE.replace("dot(", "?dot(")).remarks[-1] == "1 line could not be read; see .program.text."
    assert dataclasses.replace(made(), program=read_program(BARE)).remarks == made().remarks
