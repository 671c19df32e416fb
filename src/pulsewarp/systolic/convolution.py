"""A convolution as the matrix product a systolic array runs: im2col, with the pixel behind each element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pulsewarp import _checks
from pulsewarp._arrays import freeze
from pulsewarp._text import counted

TABLE_LIMIT = 400
"""Elements of `a` up to which `Im2col.table` writes them all."""


@dataclass(frozen=True, eq=False, repr=False)
class Im2col:
    """The two factors of the product that a convolution is, and where each element comes from.

    Parameters
    ----------
    a : ndarray, shape (m, k)
        The patches: row i is the pixels under the filter at output pixel i, all channels.
    b : ndarray, shape (k, n)
        The filters: column j is filter j.
    pixel : ndarray of int32, shape (m, k, 3)
        Row, column and channel of the image for each element of `a`.
    reads : ndarray of int32, shape (height, width)
        How often each pixel stands in `a`, by channel: in how many patches it lies.
    out_h, out_w : int
        Height and width of the output; m is their product.
    """

    a: NDArray[Any]
    b: NDArray[Any]
    pixel: NDArray[np.int32]
    reads: NDArray[np.int32]
    out_h: int
    out_w: int

    @property
    def reuse(self) -> float:
        """How often a pixel that is read at all is read on average: what im2col multiplies the traffic by."""
        return int(self.reads.sum()) / int(np.count_nonzero(self.reads))

    @_checks.names_keywords
    def image(self, product: ArrayLike) -> NDArray[Any]:
        """Return the product `a @ b` as the output image it is.

        Parameters
        ----------
        product : array_like, shape (m, n)
            For instance the `result` of a simulated run.

        Returns
        -------
        ndarray, shape (out_h, out_w, n)

        Raises
        ------
        ValueError
            For a product of another shape.

        Examples
        --------
        >>> import numpy as np
        >>> patches = im2col(np.arange(9).reshape(3, 3, 1), np.ones((2, 2, 1, 1), int))
        >>> patches.image(patches.a @ patches.b)[:, :, 0].tolist()
        [[8, 12], [20, 24]]
        """
        found = np.asarray(product)
        wanted = (self.a.shape[0], self.b.shape[1])
        if found.shape != wanted:
            raise ValueError(
                f"The product has shape {found.shape}, but a @ b has shape {wanted}; pass the result of that."
            )
        return freeze(found.reshape(self.out_h, self.out_w, wanted[1]))

    def table(self) -> str:
        """Return `a` as text: one line for each output pixel, each element as row,column of its pixel.

        With several channels an element is row,column,channel.

        Returns
        -------
        str

        Raises
        ------
        ValueError
            When `a` has more than 400 elements.

        Examples
        --------
        Pixel 1,1 lies under the filter in all four places:

        >>> import numpy as np
        >>> print(im2col(np.arange(9).reshape(3, 3, 1), np.ones((2, 2, 1, 1), int)).table())
        output 0,0 | 0,0  0,1  1,0  1,1
        output 0,1 | 0,1  0,2  1,1  1,2
        output 1,0 | 1,0  1,1  2,0  2,1
        output 1,1 | 1,1  1,2  2,1  2,2
        """
        if self.a.size > TABLE_LIMIT:
            raise ValueError(
                f"The patches have {self.a.size} elements, but a table of at most {TABLE_LIMIT} can be read; "
                f"look up a few in pixel[i, j] instead."
            )
        several = bool(self.pixel[..., 2].any())
        words = [
            [",".join(map(str, element if several else element[:2])) for element in row]
            for row in self.pixel.tolist()
        ]
        wide = max(len(word) for row in words for word in row)
        places = [f"output {i // self.out_w},{i % self.out_w}" for i in range(len(words))]
        lead = max(map(len, places))
        return "\n".join(
            f"{place.ljust(lead)} | {'  '.join(word.ljust(wide) for word in row)}".rstrip()
            for place, row in zip(places, words, strict=True)
        )

    def __repr__(self) -> str:
        (m, k), n = self.a.shape, self.b.shape[1]
        height, width = self.reads.shape
        return (
            f"Im2col({height}x{width} pixels, {counted(n, 'filter')}: {m}x{k} by {k}x{n}, "
            f"each pixel in use stands {self.reuse:.4g} times in the patches)"
        )


@_checks.names_keywords
def im2col(image: ArrayLike, filters: ArrayLike, *, stride: int = 1) -> Im2col:
    """Write a convolution of one image as a matrix product: patches by filters.

    Output pixel (y, x) of filter j is row y * out_w + x of `a` times column j of `b`: the patch of the image
    whose upper left corner lies at (y * stride, x * stride), rows first, channels last. As in machine
    learning the filter is not flipped. Not modelled: padding (pad the image first), dilation, and hardware
    that reads a pixel once for all the patches it lies in; here it is read as often as it stands in `a`.

    Parameters
    ----------
    image : array_like, shape (height, width, channels)
        One image, channels last.
    filters : array_like, shape (filter_h, filter_w, channels, n)
        The filters, in the order JAX and TensorFlow call HWIO.
    stride : int
        Pixels from one patch to the next.

    Returns
    -------
    Im2col
        `systolic.conv` counts the cost of exactly this product.

    Raises
    ------
    ValueError
        For other numbers of dimensions, different numbers of channels, a filter larger than the image, a
        stride below 1, or values that are no finite numbers.

    Notes
    -----
    K. Chellapilla, S. Puri and P. Simard, "High performance convolutional neural networks for document
    processing", IWFHR 2006, unroll convolutions into matrix products this way.

    Examples
    --------
    A 3 x 3 image under a 2 x 2 filter has four patches of four pixels:

    >>> patches = im2col(np.arange(9).reshape(3, 3, 1), np.ones((2, 2, 1, 1), int))
    >>> patches
    Im2col(3x3 pixels, 1 filter: 4x4 by 4x1, each pixel in use stands 1.778 times in the patches)
    >>> patches.reads.tolist()
    [[1, 2, 1], [2, 4, 2], [1, 2, 1]]
    """
    pixels = _tensor("image", image, ("height", "width", "channels"))
    kernels = _tensor("filters", filters, ("filter_h", "filter_w", "channels", "n"))
    stride = _checks.whole_number("stride", stride)
    (height, width, channels), (filter_h, filter_w, depth, n) = pixels.shape, kernels.shape
    if depth != channels:
        raise ValueError(
            f"The image has {counted(channels, 'channel')} and the filters have {depth}, but both must have "
            f"as many; filters have the shape (filter_h, filter_w, channels, n)."
        )
    remedy = "A filter fits into its image; pad the image first."
    _checks.whole_number("filter_h", filter_h, most=height, remedy=remedy)
    _checks.whole_number("filter_w", filter_w, most=width, remedy=remedy)
    out_h, out_w = (height - filter_h) // stride + 1, (width - filter_w) // stride + 1
    # Row, column and channel of the image for output y, x and, under the filter, i, j and channel.
    y, x, i, j, channel = np.ogrid[:out_h, :out_w, :filter_h, :filter_w, :channels]
    where = np.broadcast_arrays(y * stride + i, x * stride + j, channel)
    shape = (out_h * out_w, filter_h * filter_w * channels)
    pixel = np.stack([axis.reshape(shape) for axis in where], axis=-1).astype(np.int32)
    reads = np.zeros((height, width), np.int32)
    first = pixel[pixel[..., 2] == 0]  # every channel is read alike
    np.add.at(reads, (first[:, 0], first[:, 1]), 1)
    return Im2col(
        a=freeze(pixels[pixel[..., 0], pixel[..., 1], pixel[..., 2]]),
        b=freeze(kernels.reshape(shape[1], n)),
        pixel=freeze(pixel),
        reads=freeze(reads),
        out_h=out_h,
        out_w=out_w,
    )


def _tensor(name: str, value: ArrayLike, axes: tuple[str, ...]) -> NDArray[Any]:
    """Return `value` as an array with these axes, none of them empty, of finite numbers."""
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError(f"{name} has rows of different lengths; give every row the same length.") from None
    if array.ndim != len(axes) or 0 in array.shape:
        raise ValueError(
            f"{name} has shape {array.shape}, but must have the shape ({', '.join(axes)}), none of them 0; "
            f"a grey image has one channel."
        )
    _checks.matrix(name, array.reshape(array.shape[0], -1))
    return array
