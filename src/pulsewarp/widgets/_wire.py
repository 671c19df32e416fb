"""Pack a trace into one text: what crosses to the browser, once.

The bytes, before zlib and base64: ``PWT1``, the header's length as uint32, the header as JSON in UTF-8,
then the columns, each beginning at a multiple of 8 bytes counted from the first; all little-endian.
The header's ``columns`` lists for each its ``name``, ``type`` (``i1 u1 i2 u2 i4 u4 f4 f8``), ``shape``,
``offset`` and ``coding``:

``plain``
    the values in C order;
``delta``
    first differences along the first axis (whole numbers within int32 only), which compress better;
``planes``
    all lowest bytes, then all second bytes, and so on, which compresses operands better.

Whole numbers travel in the narrowest type that holds them; those beyond 2**53 are refused, because the
browser's numbers end there. `kit/wire.js` is the reader; a golden file and a second reader in the tests
hold the two together. It travels as text because Colab drops binary buffers when a widget opens.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

FORM = "pulsewarp-trace/1"
MAGIC = b"PWT1"
MOST_BYTES = 5_000_000
_SAFE = 2**53

Coding = Literal["plain", "delta", "planes"]


def pack(
    kind: str,
    header: Mapping[str, Any],
    columns: Mapping[str, NDArray[Any]],
    codings: Mapping[str, Coding] | None = None,
) -> str:
    """Return header and columns as one text for a `trace` trait.

    Parameters
    ----------
    kind : str
        Which scene reads it, such as ``"systolic"``.
    header : mapping
        Anything JSON can hold; the names ``form``, ``kind`` and ``columns`` are taken.
    columns : mapping of str to array
        Whole numbers, booleans, or floats; float16 travels as float32.
    codings : mapping, optional
        Coding by column name; ``"plain"`` where left out.

    Returns
    -------
    str
        Base64 of the zlib-compressed buffer.

    Raises
    ------
    ValueError
        When a whole number exceeds 2**53, a ``delta`` column exceeds int32, or the text would be larger
        than 5 MB.

    Examples
    --------
    >>> import numpy as np
    >>> text = pack("demo", {"cycles": 3}, {"busy": np.array([0, 4, 4])}, {"busy": "delta"})
    >>> header, columns = unpack(text)
    >>> header["cycles"], columns["busy"].tolist()
    (3, [0, 4, 4])
    """
    codings = codings or {}
    entries, pieces, offset = [], [], 0
    for name, values in columns.items():
        coding = codings.get(name, "plain")
        array = _narrow(name, _differences(name, values) if coding == "delta" else np.asarray(values))
        raw = _planes(array) if coding == "planes" else array.tobytes()
        entries.append(
            {
                "name": name,
                "type": f"{array.dtype.kind}{array.dtype.itemsize}",
                "shape": list(array.shape),
                "offset": offset,
                "coding": coding,
            }
        )
        raw += b"\0" * (-len(raw) % 8)
        pieces.append(raw)
        offset += len(raw)
    head = json.dumps(
        {"form": FORM, "kind": kind, **header, "columns": entries}, separators=(",", ":"), allow_nan=False
    ).encode()
    lead = MAGIC + struct.pack("<I", len(head)) + head
    buffer = lead + b"\0" * (-len(lead) % 8) + b"".join(pieces)
    # The strongest compression takes seconds on megabytes of noise, and wins two per cent there.
    text = base64.b64encode(zlib.compress(buffer, 9 if len(buffer) < 2**22 else 6)).decode("ascii")
    if len(text) > MOST_BYTES:
        raise ValueError(
            f"This trace needs {len(text) / 1e6:.1f} MB on its way to the browser, but at most "
            f"{MOST_BYTES / 1e6:.0f} MB are sent; show a smaller product, fewer folds or a narrower dtype."
        )
    return text


def unpack(text: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the header and the columns of a packed text.

    Raises
    ------
    ValueError
        When the text is not a packed trace of this form.

    Examples
    --------
    >>> import numpy as np
    >>> _, columns = unpack(pack("demo", {}, {"a": np.eye(2, dtype=np.float32)}, {"a": "planes"}))
    >>> columns["a"].tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    try:
        buffer = zlib.decompress(base64.b64decode(text, validate=True))
    except (ValueError, zlib.error) as error:
        raise ValueError(f"The text is not a packed trace ({error}); was it cut short?") from error
    if buffer[:4] != MAGIC:
        raise ValueError(
            f"The text begins with {buffer[:4]!r}, not with {MAGIC!r}; was it written by another program?"
        )
    (length,) = struct.unpack_from("<I", buffer, 4)
    header = json.loads(buffer[8 : 8 + length])
    start = 8 + length + (-(8 + length) % 8)
    return header, {entry["name"]: _column(buffer, start, entry) for entry in header["columns"]}


def _column(buffer: bytes, start: int, entry: Mapping[str, Any]) -> NDArray[Any]:
    dtype = np.dtype(f"<{entry['type']}")
    count = int(np.prod(entry["shape"], dtype=np.int64))
    raw = np.frombuffer(buffer, np.uint8, count * dtype.itemsize, start + entry["offset"])
    if entry["coding"] == "planes":
        raw = np.ascontiguousarray(raw.reshape(dtype.itemsize, count).T).reshape(-1)
    values = raw.view(dtype).reshape(entry["shape"])
    return np.cumsum(values, axis=0, dtype=np.int32) if entry["coding"] == "delta" else values


def _differences(name: str, values: NDArray[Any]) -> NDArray[Any]:
    whole = np.asarray(values).astype(np.int64)
    if whole.size and np.abs(whole).max() >= 2**31:
        raise ValueError(
            f"Column {name!r} reaches {np.abs(whole).max()}, but sums of differences end at 2**31 - 1."
        )
    return np.diff(whole, axis=0, prepend=np.zeros_like(whole[:1]))


def _narrow(name: str, values: NDArray[Any]) -> NDArray[Any]:
    """Return the values in the narrowest type of the wire that holds every one of them exactly."""
    if values.dtype.kind == "b":
        return np.ascontiguousarray(values, "u1")
    if values.dtype.kind in "iu":
        least, most = (int(values.min()), int(values.max())) if values.size else (0, 0)
        for code in ("u1", "i1", "u2", "i2", "u4", "i4"):
            if np.iinfo(code).min <= least and most <= np.iinfo(code).max:
                return np.ascontiguousarray(values, f"<{code}")
        if max(-least, most) <= _SAFE:
            return np.ascontiguousarray(values, "<f8")
        raise ValueError(
            f"Column {name!r} holds {max(-least, most, key=abs)}, but whole numbers are exact in the "
            f"browser only up to 2**53; show smaller values, or float64."
        )
    if values.dtype.itemsize <= 4:
        return np.ascontiguousarray(values.astype(np.float32), "<f4")
    return np.ascontiguousarray(values, "<f8")


def _planes(values: NDArray[Any]) -> bytes:
    return values.view(np.uint8).reshape(values.size, values.dtype.itemsize).T.tobytes()
