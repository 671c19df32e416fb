"""The reader's own products: what was typed is run, or refused in a sentence at its field."""

from __future__ import annotations

import pytest

from pulsewarp import chips, lesson, systolic

TYPED = {"a": "1 2\n3 4", "b": "5 6\n7 8", "rows": "2", "cols": "2", "dataflow": "ws", "overlap": False}


def run_own(player, **values):
    """What comes back to the browser for these fields."""
    asked = str(len(player.reply.get("id", "")) + 1)
    player.request = {"id": asked + str(values), "kind": "own", "values": {**TYPED, **values}}
    assert player.reply["id"] == player.request["id"]
    return {key: value for key, value in player.reply.items() if key != "id"}


def test_own_product_runs_what_was_typed():
    player = lesson.own_product()
    before = player.trace
    said = run_own(player, dataflow="os", overlap=True, a="1 2\n3 4\n5 6")
    assert said == {"done": "Now shown: 3 x 2 by 2 x 2, 8 cycles in 2 folds."}
    trace = player._shown
    assert player.trace != before and trace.overlap and trace.dataflow == "os"
    assert trace.result.tolist() == [[19, 22], [43, 50], [67, 78]]


@pytest.mark.parametrize(
    ("values", "field", "words"),
    [
        ({"a": "1 x"}, "a", "A has 'x' in row 1"),
        ({"b": "1 2 3"}, "b", "B has 1 row, but A has 2 columns; give B as many rows as A has columns."),
        ({"rows": "9"}, "rows", "Array rows is 9, but must be a whole number of at least 1 and at most 8."),
        ({"cols": "two"}, "cols", "Array columns is 'two'"),
        ({"cols": ""}, "cols", "Array columns is ''"),
        ({"dataflow": "diagonal"}, None, "Unknown dataflow 'diagonal'"),
    ],
)
def test_own_numbers_that_do_not_run_come_back_as_a_sentence_with_their_field(values, field, words):
    player = lesson.own_product()
    before = player.trace
    said = run_own(player, **values)
    assert said["error"].startswith(words) and said.get("field") == field
    assert player.trace == before


@pytest.mark.parametrize(
    ("dtype", "text", "words"),
    [
        ("int8", "1 200", "A[0,1] is 200, but int8 holds whole numbers from -128 to 127; change it."),
        ("int8", "1.5 2", "A[0,0] is 1.5, but int8 holds whole numbers"),
        ("int32", "1 3000000000", "A[0,1] is 3000000000, but int32 holds"),
        ("float16", "1 65520", "A[0,1] is 65520, beyond what float16 holds; write a smaller one."),
    ],
)
def test_own_numbers_must_fit_their_dtype(dtype, text, words):
    player = lesson.own_product([[1, 2]], [[3], [4]], dtype=dtype)
    said = run_own(player, a=text)
    assert said["error"].startswith(words) and said["field"] == "a"


def test_own_numbers_are_held_in_their_dtype():
    player = lesson.own_product([[1, 2]], [[3], [4]], dtype="bfloat16")
    run_own(player, a="1.001 257", b="1\n1")
    assert player._shown.a.astype(float).tolist() == [[1.0, 256.0]]
    assert str(player._shown.a.dtype) == "bfloat16"


def test_own_product_refuses_what_does_not_fit_the_fields():
    with pytest.raises(ValueError, match=r"a is 1 x 9, but at most 8 x 8 fit"):
        lesson.own_product([range(9)], [[1]] * 9)
    with pytest.raises(ValueError, match=r"Unknown dtype 'int7'.*Did you mean"):
        lesson.own_product(dtype="int7")


SIZES = {"m": "64", "k": "256", "n": "256", "array": "tpu_v6e", "dataflow": "os", "overlap": False}


def test_own_sizes_counts_what_was_typed_on_the_array_chosen():
    player = lesson.own_sizes()
    player.request = {"id": "1", "kind": "own", "values": SIZES}
    cost = systolic.gemm(m=64, k=256, n=256, rows=256, cols=256, dataflow="os")
    used = f"{100 * cost.utilization:.1f} % of cell-cycles form a product"
    assert player.reply["done"] == f"Now shown: 1 fold, {cost.cycles:,} cycles, {used}."
    assert player._shown == cost


def test_own_sizes_offers_every_tpu_array_of_the_catalogue_by_its_name():
    fields = {field["name"]: field for field in lesson.own_sizes().options["form"]["fields"]}
    units = {chip.id: chip.matrix_unit_shape for chip in chips.catalogue() if chip.family == "tpu"}
    assert {key: label.split(": ")[1] for key, label in fields["array"]["choices"]} == {
        key: f"{shape[0]} x {shape[1]}" for key, shape in units.items() if shape
    }


@pytest.mark.parametrize(
    ("values", "field", "words"),
    [
        ({"m": "0"}, "m", "M is 0, but must be a whole number of at least 1 and at most 1000000."),
        ({"k": "many"}, "k", "K is 'many'"),
        ({"n": ""}, "n", "N is ''"),
        ({"array": "abacus"}, None, "Unknown array 'abacus'"),
        ({"k": "999999", "n": "999999"}, None, "This run has"),
    ],
)
def test_own_sizes_that_do_not_run_come_back_as_a_sentence(values, field, words):
    player = lesson.own_sizes()
    before = player.trace
    player.request = {"id": "1", "kind": "own", "values": {**SIZES, **values}}
    assert player.reply["error"].startswith(words) and player.reply.get("field") == field
    assert player.trace == before


@pytest.mark.parametrize(
    ("dtype", "a", "b", "kind"),
    [
        ("as typed", "1e308 1e308", "1e308\n-1e308", "float64, which ends at 1.8e+308"),
        ("float32", "3e38 3e38", "3e38\n-3e38", "float32, which ends at 3.4e+38"),
        ("bfloat16", "3e38 1", "3e38\n1", "float32, which ends at 3.4e+38"),
    ],
)
def test_sums_beyond_their_accumulator_are_refused_instead_of_shown_as_nan(dtype, a, b, kind):
    player = lesson.own_product([[1, 2]], [[3], [4]], dtype=dtype)
    before = player.trace
    said = run_own(player, a=a, b=b)
    assert said == {
        "error": f"C[0,0] adds up products that can leave the range of {kind}; write smaller numbers."
    }
    assert player.trace == before


def test_the_largest_sums_that_fit_are_shown():
    player = lesson.own_product([[1.0]], [[1.0]])
    run_own(player, a="1e154", b="1e154")
    assert player._shown.result.tolist() == [[1e154 * 1e154]]
