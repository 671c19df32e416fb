"""im2col on the array is the convolution, and each element is the pixel that it is said to be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsewarp import systolic
from pulsewarp.systolic import convolution
from pulsewarp.systolic.convolution import im2col


@st.composite
def layers(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int]:
    """A small image, filters that fit into it, and a stride."""
    height, width, channels, n = (draw(st.integers(1, top)) for top in (7, 7, 3, 3))
    filter_h, filter_w = draw(st.integers(1, height)), draw(st.integers(1, width))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    image = rng.integers(-9, 10, (height, width, channels))
    return image, rng.integers(-9, 10, (filter_h, filter_w, channels, n)), draw(st.integers(1, 4))


def convolved(image: np.ndarray, filters: np.ndarray, stride: int) -> np.ndarray:
    """The convolution by its definition, one product at a time."""
    (height, width, channels), (filter_h, filter_w, _, n) = image.shape, filters.shape
    out = np.zeros(((height - filter_h) // stride + 1, (width - filter_w) // stride + 1, n), np.int64)
    for y, x, f in np.ndindex(out.shape):
        for i, j, channel in np.ndindex(filter_h, filter_w, channels):
            out[y, x, f] += image[y * stride + i, x * stride + j, channel] * filters[i, j, channel, f]
    return out


@given(layers(), st.sampled_from(["ws", "os", "is"]), st.booleans())
def test_the_array_convolves(layer: tuple[np.ndarray, np.ndarray, int], dataflow: str, tall: bool) -> None:
    image, filters, stride = layer
    patches = im2col(image, filters, stride=stride)
    rows, cols = (4, 2) if tall else (2, 3)
    run = systolic.simulate(patches.a, patches.b, rows=rows, cols=cols, dataflow=dataflow)
    assert np.array_equal(patches.image(run.result), convolved(image, filters, stride))


@given(layers())
def test_each_element_is_the_pixel_it_is_said_to_be(layer: tuple[np.ndarray, np.ndarray, int]) -> None:
    image, filters, stride = layer
    patches = im2col(image, filters, stride=stride)
    _, filter_w, channels, _ = filters.shape
    reads = np.zeros(image.shape, int)
    for place, element in np.ndindex(patches.a.shape):
        y, x, channel = patches.pixel[place, element]
        i, rest = divmod(element, filter_w * channels)
        j, deep = divmod(rest, channels)
        assert (y, x) == (place // patches.out_w * stride + i, place % patches.out_w * stride + j)
        assert channel == deep and patches.a[place, element] == image[y, x, channel]
        reads[y, x, channel] += 1
    assert all(np.array_equal(reads[..., channel], patches.reads) for channel in range(channels))
    assert patches.reuse == pytest.approx(patches.a.size / np.count_nonzero(reads))


@given(layers(), st.sampled_from(["ws", "os", "is"]), st.booleans())
def test_conv_counts_this_product(
    layer: tuple[np.ndarray, np.ndarray, int], dataflow: str, overlap: bool
) -> None:
    image, filters, stride = layer
    patches = im2col(image, filters, stride=stride)
    array: dict[str, Any] = {"rows": 4, "cols": 3, "dataflow": dataflow, "overlap": overlap}
    (m, k), n = patches.a.shape, patches.b.shape[1]
    assert systolic.conv(
        in_h=image.shape[0], in_w=image.shape[1], channels=image.shape[2],
        filter_h=filters.shape[0], filter_w=filters.shape[1], filters=n, stride=stride, **array,
    ) == systolic.gemm(m=m, k=k, n=n, **array)  # fmt: skip


def test_a_pixel_in_the_middle_is_read_by_every_patch_around_it() -> None:
    patches = im2col(np.zeros((6, 6, 2)), np.zeros((3, 3, 2, 4)))
    assert patches.reads.max() == 9 and patches.reads[0, 0] == 1
    assert patches.reuse == 16 * 9 / 36
    assert im2col(np.zeros((6, 6, 1)), np.zeros((3, 3, 1, 1)), stride=3).reuse == 1


def test_the_table_shows_which_pixel_is_where() -> None:
    lines = im2col(np.arange(8).reshape(2, 2, 2), np.ones((1, 2, 2, 1))).table().splitlines()
    assert lines == [
        "output 0,0 | 0,0,0  0,0,1  0,1,0  0,1,1",
        "output 1,0 | 1,0,0  1,0,1  1,1,0  1,1,1",
    ]


def test_the_kind_of_number_is_kept_and_nothing_can_be_written() -> None:
    patches = im2col(np.ones((4, 4, 1), np.int8), np.ones((2, 2, 1, 2), np.float32))
    assert (patches.a.dtype, patches.b.dtype) == (np.int8, np.float32)
    for name in ("a", "b", "pixel", "reads"):
        array = getattr(patches, name)
        assert not array.flags.writeable and array.flags.c_contiguous


@pytest.mark.parametrize("fault", ["transposed patch", "flipped filter", "stride forgotten"])
def test_a_fault_in_the_patches_is_seen(fault: str) -> None:
    """What the comparison with the definition would say of it."""
    rng = np.random.default_rng(0)
    image, filters = rng.integers(-9, 10, (6, 6, 1)), rng.integers(-9, 10, (3, 3, 1, 2))
    patches = im2col(image, filters, stride=2)
    a, b = patches.a, patches.b
    if fault == "transposed patch":
        a = a.reshape(-1, 3, 3).swapaxes(1, 2).reshape(a.shape)
    elif fault == "flipped filter":
        b = b[::-1]
    else:
        a = im2col(image, filters).a[: len(a)]
    assert not np.array_equal(patches.image(a @ b), convolved(image, filters, 2))


IMAGE, FILTERS = np.zeros((5, 5, 2)), np.zeros((3, 3, 2, 4))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: im2col(np.zeros((5, 5)), FILTERS), r"image has shape \(5, 5\).*\(height, width, channels\)"),
        (lambda: im2col(IMAGE, np.zeros((3, 3, 2))), r"filters has shape \(3, 3, 2\).*filter_h, filter_w"),
        (lambda: im2col(IMAGE, np.zeros((3, 3, 1, 4))), "image has 2 channels and the filters have 1"),
        (lambda: im2col(IMAGE, np.zeros((6, 3, 2, 4))), "filter_h is 6.*at most 5.*pad the image first"),
        (lambda: im2col(IMAGE, FILTERS, stride=0), "stride is 0, but must be a whole number of at least 1"),
        (lambda: im2col(np.full((5, 5, 2), np.nan), FILTERS), r"image\[0, 0\] is nan, but every element"),
        (lambda: im2col([[[1]], [[1], [2]]], FILTERS), "image has rows of different lengths"),
        (lambda: im2col(IMAGE, FILTERS).image(np.zeros((9, 3))), r"shape \(9, 3\).*shape \(9, 4\)"),
        (lambda: im2col(np.zeros((99, 99, 1)), np.zeros((2, 2, 1, 1))).table(), "at most 400"),
    ],
)
def test_bad_input_gets_one_sentence(call: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        call()


@pytest.mark.wrong_type
def test_an_unknown_keyword_names_the_nearest() -> None:
    with pytest.raises(TypeError, match=r"'strid'.*Did you mean 'stride'"):
        im2col(IMAGE, FILTERS, strid=2)  # type: ignore[call-arg]  # on purpose


def test_the_limit_of_the_table_is_the_documented_one() -> None:
    assert str(convolution.TABLE_LIMIT) in (convolution.Im2col.table.__doc__ or "")
