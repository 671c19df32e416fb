"""A matrix typed or pasted is read as it was meant, or refused in a sentence that says where it is wrong."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from pulsewarp._paste import read_matrix

SHAPES = st.tuples(st.integers(1, 8), st.integers(1, 8))
WHOLE = arrays.arrays(np.int64, SHAPES, elements=st.integers(-(2**53) + 1, 2**53 - 1))
FLOATS = arrays.arrays(np.float64, SHAPES, elements=st.floats(-1e300, 1e300))


def spreadsheet(matrix):
    return "\r\n".join("\t".join(map(str, row)) for row in matrix.tolist()) + "\r\n"


def matlab(matrix):
    return "[" + "; ".join(" ".join(map(str, row)) for row in matrix.tolist()) + "]"


def typed(matrix):
    return "\n".join(", ".join(map(str, row)) for row in matrix.tolist())


WRITINGS = {
    "a list": lambda matrix: str(matrix.tolist()),
    "code": lambda matrix: f"a = np.array({matrix.tolist()}, dtype=np.int64)",
    "numpy's repr": lambda matrix: repr(matrix),
    "numpy's print": lambda matrix: str(matrix),
    "a spreadsheet": spreadsheet,
    "matlab": matlab,
    "lines with commas": typed,
    "tuples": lambda matrix: str(tuple(map(tuple, matrix.tolist()))),
    "a list of NumPy's numbers": lambda matrix: str(
        [[f"np.int64({value})" for value in row] for row in matrix.tolist()]
    ).replace("'", ""),
    "pytorch's print": lambda matrix: f"tensor({matrix.tolist()}, device='cuda:0', dtype=torch.int64)",
    "a file's first bytes": lambda matrix: "\N{ZERO WIDTH NO-BREAK SPACE}" + spreadsheet(matrix),
    "a true minus": lambda matrix: str(matrix.tolist()).replace("-", "\N{MINUS SIGN}"),
}


@pytest.mark.parametrize("write", WRITINGS.values(), ids=WRITINGS)
@settings(max_examples=40)
@given(matrix=WHOLE)
def test_whole_numbers_come_back_as_they_were_in_every_writing(write, matrix):
    again = read_matrix("A", write(matrix), most=8)
    assert again.dtype == np.int64 and again.tolist() == matrix.tolist()


@pytest.mark.parametrize("write", [WRITINGS["a list"], spreadsheet, matlab, typed])
@settings(max_examples=40)
@given(matrix=FLOATS)
def test_floats_come_back_as_they_were(write, matrix):
    again = read_matrix("A", write(matrix), most=8)
    assert again.dtype == np.float64 and again.tolist() == matrix.tolist()


def test_one_float_makes_all_floats():
    assert read_matrix("A", "1 2.5\n3 4", most=8).dtype == np.float64
    assert read_matrix("A", "1. 2", most=8).dtype == np.float64


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "A is empty; type a row of numbers on each line, such as 1 2 3."),
        (" \n ;", "A is empty"),
        ("[]", "A is empty"),
        ("[[], []]", "A is empty"),
        ("1,5 2,5\n3 4", "A has commas beside spaces in row 1; write decimals with a point"),
        ("1 2\n3", "A has 2 numbers in row 1 but 1 in row 2; give every row the same number."),
        ("1 x", "A has 'x' in row 1, which is not a finite number"),
        ("1\nnan", "A has 'nan' in row 2"),
        ("inf 1", "A has 'inf' in row 1"),
        ("1e999 1", "A has 1e999 in row 1, beyond the largest float64"),
        ("0x10", "A has '0x10' in row 1"),
        ("1_000", "A has '1_000' in row 1"),
        ("1\t\t3", "A has an empty cell in row 1; write 0 where nothing stands."),
        ("1,,3", "A has an empty cell in row 1"),
        ("\t2", "A has an empty cell in row 1"),
        ("[[1, 2], [3, 4]", "A has 3 opening and 2 closing brackets; close each."),
        ("[[1, 2] 3]", "A has '3' outside its rows' brackets"),
        (
            "9007199254740992 1",
            "A has 9007199254740992 in row 1, but whole numbers are exact here only below",
        ),
        ("1 2 3 4 5 6 7 8 9", "A is 1 x 9, but at most 8 x 8 fit here; cut it down."),
        ("1\n" * 9, "A is 9 x 1, but at most 8 x 8 fit here"),
        ("1 " * 3000, "A has 6000 characters, but at most 4096 are read; shorten it."),
    ],
)
def test_what_cannot_be_read_is_said_in_one_sentence(text, words):
    with pytest.raises(ValueError) as refused:
        read_matrix("A", text, most=8)
    said = str(refused.value)
    assert said.startswith(words) and said.endswith(".") and "\n" not in said


@given(st.text(max_size=60))
def test_any_text_gives_a_matrix_or_a_sentence(text):
    try:
        matrix = read_matrix("A", text, most=8)
    except ValueError as refused:
        assert str(refused).startswith("A ")
    else:
        assert matrix.ndim == 2 and max(matrix.shape) <= 8 and np.isfinite(matrix).all()
