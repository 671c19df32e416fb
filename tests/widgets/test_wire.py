"""The wire carries header and columns exactly, and a second reader written from its description agrees."""

import base64
import json
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from pulsewarp.widgets import _wire

GOLDEN = Path(__file__).parents[1] / "reference" / "wire_golden.json"


def read_again(text: str) -> tuple[dict, dict[str, list]]:
    """Decode by hand, value by value, from what `_wire` says of its bytes; shares no code with it."""
    data = zlib.decompress(base64.b64decode(text))
    assert data[:4] == b"PWT1"
    length = int.from_bytes(data[4:8], "little")
    header = json.loads(data[8 : 8 + length])
    begin = (8 + length + 7) // 8 * 8
    letters = {"i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "f4": "f", "f8": "d"}
    columns = {}
    for entry in header["columns"]:
        count = 1
        for side in entry["shape"]:
            count *= side
        width = int(entry["type"][1])
        part = data[begin + entry["offset"] :][: count * width]
        if entry["coding"] == "planes":
            part = bytes(part[plane * count + i] for i in range(count) for plane in range(width))
        values = list(struct.unpack(f"<{count}{letters[entry['type']]}", part))
        if entry["coding"] == "delta":
            row = count // entry["shape"][0] if entry["shape"][0] else 0
            for i in range(row, count):
                values[i] += values[i - row]
        columns[entry["name"]] = values
    return header, columns


whole = st.one_of(
    *(
        arrays.arrays(kind, arrays.array_shapes(max_dims=3, max_side=5))
        for kind in (np.int8, np.uint8, np.int16, np.int32)
    )
)
floats = st.one_of(
    *(
        arrays.arrays(
            kind,
            arrays.array_shapes(max_dims=2, max_side=5),
            elements=st.floats(allow_nan=False, width=8 * np.dtype(kind).itemsize),
        )
        for kind in (np.float16, np.float32, np.float64)
    )
)


@given(st.dictionaries(st.text("abc", min_size=1), whole | floats, max_size=3), st.data())
def test_both_readers_get_back_what_was_packed(columns, data):
    codings = {
        name: data.draw(
            st.sampled_from(["plain", "planes", "delta"] if v.dtype.kind in "iu" else ["plain", "planes"])
        )
        for name, v in columns.items()
        if v.dtype != np.int32  # differences of extreme int32 values leave int32: see the refusal below
    }
    text = _wire.pack("test", {"word": "é"}, columns, codings)
    header, unpacked = _wire.unpack(text)
    header_again, by_hand = read_again(text)
    assert header == header_again and header["word"] == "é" and header["form"] == _wire.FORM
    for name, values in columns.items():
        np.testing.assert_array_equal(unpacked[name], values)
        assert by_hand[name] == values.astype(unpacked[name].dtype).reshape(-1).tolist()


def test_golden_file_reads_as_it_did():
    golden = json.loads(GOLDEN.read_text())
    header, columns = _wire.unpack(golden["text"])
    assert {name: column.tolist() for name, column in columns.items()} == golden["columns"]
    assert header["kind"] == golden["kind"]
    assert _wire.unpack(_wire.pack(header["kind"], {}, columns))[1].keys() == columns.keys()


def test_whole_numbers_travel_in_the_narrowest_type():
    _, columns = _wire.unpack(
        _wire.pack(
            "t", {}, {"small": np.array([0, 255]), "signed": np.array([-1, 1]), "wide": np.array([2**40])}
        )
    )
    assert {k: v.dtype.str for k, v in columns.items()} == {"small": "|u1", "signed": "|i1", "wide": "<f8"}
    assert columns["wide"].tolist() == [2**40]


def test_whole_numbers_beyond_the_browser_are_refused():
    with pytest.raises(ValueError, match=r"9007199254740993.*exact.*2\*\*53"):
        _wire.pack("t", {}, {"x": np.array([2**53 + 1])})


def test_differences_beyond_int32_are_refused():
    with pytest.raises(ValueError, match=r"2147483648"):
        _wire.pack("t", {}, {"x": np.array([2**31])}, {"x": "delta"})


def test_a_trace_too_large_is_refused_with_size_and_remedy(monkeypatch):
    monkeypatch.setattr(_wire, "MOST_BYTES", 100)
    with pytest.raises(ValueError, match=r"MB.*at most.*smaller product"):
        _wire.pack("t", {}, {"x": np.random.default_rng(0).integers(0, 255, 1000)})


@pytest.mark.parametrize(
    "text", ["", "not base64!", base64.b64encode(zlib.compress(b"other bytes")).decode()]
)
def test_foreign_text_is_refused(text):
    with pytest.raises(ValueError, match="text"):
        _wire.unpack(text)


def test_a_shifted_offset_is_noticed_by_the_second_reader():
    """A mutant: what holds packer and reader together must see a column that begins one byte late."""
    text = _wire.pack("t", {}, {"x": np.arange(5), "y": np.arange(5, 10)})
    data = zlib.decompress(base64.b64decode(text))
    wrong = data.replace(b'"offset":8', b'"offset":9')
    assert wrong != data
    _, columns = read_again(base64.b64encode(zlib.compress(wrong + b"\0")).decode())
    assert columns["y"] != [5, 6, 7, 8, 9]
