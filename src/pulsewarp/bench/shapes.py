"""Which products to time: squares, thin ones, staircases, and the products that real models are made of.

Dimensions of models are those of the sources that each list carries; a convolution is the product that
`pulsewarp.systolic.conv` says it becomes. Nothing here is measured, and JAX is not needed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from pulsewarp import systolic
from pulsewarp._checks import choice, names_keywords, several, whole_number
from pulsewarp._text import counted
from pulsewarp.chips import Source
from pulsewarp.matmul import Matmul


@dataclass(frozen=True)
class Shape:
    """One product of a list: its sizes, what it is there for, and how often it occurs.

    Parameters
    ----------
    m, k, n : int
        Of the m x k by k x n product.
    name : str
        What it does in its model; empty where it is only a size.
    batch : int
        Products of this size that are made at once, each with factors of its own.
    count : int
        How often the list's whole makes it.

    Examples
    --------
    >>> Shape(128, 64, 128, "attention scores", batch=32).flops
    67108864
    """

    m: int
    k: int
    n: int
    name: str = ""
    batch: int = 1
    count: int = 1

    def __post_init__(self) -> None:
        for field in ("m", "k", "n", "batch", "count"):
            object.__setattr__(self, field, whole_number(field, getattr(self, field)))

    @property
    def flops(self) -> int:
        """Multiplications and additions of one occurrence, the whole batch."""
        return self.batch * Matmul(self.m, self.k, self.n).flops

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """(batch, m, k, n): shapes with the same sizes take the same time."""
        return self.batch, self.m, self.k, self.n

    def __str__(self) -> str:
        product = f"{self.m} x {self.k} x {self.n}"
        return product if self.batch == 1 else f"{self.batch} x ({product})"


@dataclass(frozen=True, repr=False)
class ShapeList:
    """Products that belong together, such as those of one block of a model.

    Parameters
    ----------
    title : str
        What they are.
    shapes : tuple of Shape
        In the order in which they are made.
    sources : tuple of Source
        Where the dimensions come from; empty for lists that are only sizes.

    Examples
    --------
    >>> squares([256, 512])
    squares of 256 to 512: 2 shapes, 302 MFLOP
      1 of 256 x 256 x 256
      1 of 512 x 512 x 512
    """

    title: str
    shapes: tuple[Shape, ...]
    sources: tuple[Source, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "shapes", several("shapes", self.shapes, "write (Shape(64, 64, 64),)"))
        if not self.shapes:
            raise ValueError(f"{self.title} has no shapes, but a list needs at least one.")

    def __iter__(self) -> Iterator[Shape]:
        return iter(self.shapes)

    def __len__(self) -> int:
        return len(self.shapes)

    @property
    def flops(self) -> int:
        """Multiplications and additions of all products, each as often as it occurs."""
        return sum(shape.count * shape.flops for shape in self.shapes)

    def __repr__(self) -> str:
        words = [f"{shape.count} of {shape}" for shape in self.shapes]
        wide = max(map(len, words))
        return "\n".join(
            [
                f"{self.title}: {len(self.shapes)} shapes, {_flops(self.flops)}",
                *(
                    f"  {word.ljust(wide)}  {shape.name}".rstrip()
                    for word, shape in zip(words, self.shapes, strict=True)
                ),
            ]
        )


def _flops(number: int) -> str:
    for power, prefix in ((15, "P"), (12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if number >= 10**power:
            return f"{number / 10**power:.3g} {prefix}FLOP"
    return f"{number} FLOP"


# --- sizes ------------------------------------------------------------------------------------------------


@names_keywords
def squares(sides: Iterable[int]) -> ShapeList:
    """Return square products of these sides.

    Parameters
    ----------
    sides : iterable of int
        In the order to keep.

    Returns
    -------
    ShapeList

    Examples
    --------
    >>> [shape.m for shape in squares([64, 128])]
    [64, 128]
    """
    each = [whole_number("a size", side) for side in several("sides", sides, "write [256, 512]")]
    title = f"squares of {min(each)} to {max(each)}" if each else "squares"
    return ShapeList(title, tuple(Shape(side, side, side) for side in each))


@names_keywords
def thin(side: int, most: int = 4096) -> ShapeList:
    """Return products with one thin dimension: batches of 1, 2, 4, ... rows times one square matrix.

    What a linear layer does as its batch grows: few rows read the whole matrix for little work.

    Parameters
    ----------
    side : int
        Rows and columns of the square matrix.
    most : int
        Largest batch.

    Returns
    -------
    ShapeList

    Examples
    --------
    >>> thin(1024, most=8)
    batches of 1 to 8 through 1024 x 1024: 4 shapes, 31.5 MFLOP
      1 of 1 x 1024 x 1024
      1 of 2 x 1024 x 1024
      1 of 4 x 1024 x 1024
      1 of 8 x 1024 x 1024
    """
    side, most = whole_number("side", side), whole_number("most", most)
    batches = [1 << power for power in range(most.bit_length())]
    title = f"batches of 1 to {batches[-1]} through {side} x {side}"
    return ShapeList(title, tuple(Shape(rows, side, side) for rows in batches))


@names_keywords
def staircase(unit: int = 128, multiples: Iterable[int] = (1, 2, 4, 8)) -> ShapeList:
    """Return squares whose sides are multiples of a unit, each followed by the one that is larger by 1.

    Where a machine pads each side to whole units, the second of each pair costs as much as the next step.

    Parameters
    ----------
    unit : int
        Side of a matrix unit or of a tile.
    multiples : iterable of int
        Which multiples.

    Returns
    -------
    ShapeList

    Examples
    --------
    >>> [shape.m for shape in staircase(128, [1, 2])]
    [128, 129, 256, 257]
    """
    unit = whole_number("unit", unit)
    steps = [whole_number("a multiple", each) for each in several("multiples", multiples, "write [1, 2]")]
    sides = [unit * step + above for step in steps for above in (0, 1)]
    return ShapeList(f"multiples of {unit} and one above", tuple(Shape(side, side, side) for side in sides))


@names_keywords
def waves(
    sms: int, tile: tuple[int, int] = (256, 128), k: int = 4096, rounds: Iterable[int] = (1, 2, 4)
) -> ShapeList:
    """Return products whose result tiles fill a GPU's cores for whole rounds, each followed by one row more.

    One row more is one tile more, and where each core makes one tile at a time that takes a round of its own.
    `pulsewarp.roofline.wave_quantisation` counts them. Not modelled: libraries that choose other tiles, split
    along k or keep kernels on their cores; the measurement then shows a smaller step, or none.

    Parameters
    ----------
    sms : int
        Cores.
    tile : (int, int)
        Rows and columns of the result that one block makes.
    k : int
        The shared side.
    rounds : iterable of int
        How many whole rounds.

    Returns
    -------
    ShapeList

    Examples
    --------
    >>> [(shape.m, shape.n) for shape in waves(108, rounds=[1])]
    [(27648, 128), (27649, 128)]
    """
    sms, k = whole_number("sms", sms), whole_number("k", k)
    rows, columns = (whole_number("tile", side) for side in tile)
    each = [whole_number("a round", number) for number in several("rounds", rounds, "write [1, 2]")]
    heights = [number * sms * rows + above for number in each for above in (0, 1)]
    return ShapeList(
        f"whole rounds of {rows} x {columns} tiles on {sms} cores and one row more",
        tuple(Shape(height, k, columns) for height in heights),
    )


# --- transformers -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Llama:
    """What the shapes of a Llama block follow from, as the model's own files have it.

    Parameters
    ----------
    dim : int
        Width of the model.
    heads, kv_heads : int
        Heads of the queries, and of the keys and values.
    multiplier : float
        By which the published code widens the hidden layer, ``ffn_dim_multiplier``.
    multiple_of : int
        To a multiple of which it rounds that up.
    layers : int
        Blocks of the model.
    vocabulary : int
        Words it can answer with.
    """

    dim: int
    heads: int
    kv_heads: int
    multiplier: float
    multiple_of: int
    layers: int
    vocabulary: int

    @property
    def head(self) -> int:
        """Width of one head."""
        return self.dim // self.heads

    @property
    def hidden(self) -> int:
        """Width of the feed-forward layer: two thirds of 4 dim, widened, then rounded up."""
        widened = int(self.multiplier * int(2 * (4 * self.dim) / 3))
        return -(-widened // self.multiple_of) * self.multiple_of


LLAMA: Mapping[str, Llama] = MappingProxyType(
    {
        "llama-3.1-8b": Llama(4096, 32, 8, 1.3, 1024, 32, 128256),
        "llama-3.1-70b": Llama(8192, 64, 8, 1.3, 4096, 80, 128256),
        "llama-3.1-405b": Llama(16384, 128, 8, 1.2, 4096, 126, 128256),
    }
)
_META = "https://github.com/meta-llama/llama-models/blob"
_LLAMA_SOURCES = (
    Source(
        "llama-sku-list",
        "Meta, llama-models, models/llama3_1/api/sku_list.py: dimensions of each model",
        f"{_META}/1768925a9d343b19459b5bc2acc893c842874179/models/llama3_1/api/sku_list.py",
        "read 2026-12-01",
    ),
    Source(
        "llama-reference",
        "Meta, llama-models, models/llama3/reference_impl/model.py: the products and the rule of the "
        "hidden width",
        f"{_META}/1bb54864e10c8d007edf2e651f35ec75b3c1cd78/models/llama3/reference_impl/model.py",
        "read 2026-12-01",
    ),
)


@names_keywords
def llama_block(
    model: str = "llama-3.1-8b", tokens: int = 2048, *, sequences: int = 1, context: int | None = None
) -> ShapeList:
    """Return the products of one block of a Llama model in a forward pass.

    Keys and values have fewer heads than queries; each is repeated for the queries that share it, so scores
    are one product a query head. All of them are counted, those too that the causal mask throws away, as in
    the reference code. Not modelled: embedding, norms, rotation, softmax, and the layer after the last block.

    Parameters
    ----------
    model : str
        One of `LLAMA`.
    tokens : int
        New tokens of each sequence; 1 is a step of generation.
    sequences : int
        Sequences at once.
    context : int, optional
        Tokens that attention looks at, the new ones included. Left out: as many as are new.

    Returns
    -------
    ShapeList

    Raises
    ------
    ValueError
        For an unknown model, a count that is no whole number above 0, or a context shorter than the tokens.

    Examples
    --------
    >>> llama_block("llama-3.1-8b", tokens=2048)
    one block of llama-3.1-8b, 1 x 2048 tokens: 7 shapes, 962 GFLOP
      1 of 2048 x 4096 x 4096        queries
      2 of 2048 x 4096 x 1024        keys and values
      1 of 32 x (2048 x 128 x 2048)  scores
      1 of 32 x (2048 x 2048 x 128)  weighted values
      1 of 2048 x 4096 x 4096        attention output
      2 of 2048 x 4096 x 14336       gate and up
      1 of 2048 x 14336 x 4096       down
    """
    size = LLAMA[choice("model", model, LLAMA)]
    rows, attention = _attention(size.heads, size.head, tokens, sequences, context)
    narrow = size.kv_heads * size.head
    shapes = (
        Shape(rows, size.dim, size.dim, "queries"),
        Shape(rows, size.dim, narrow, "keys and values", count=2),
        *attention,
        Shape(rows, size.dim, size.dim, "attention output"),
        Shape(rows, size.dim, size.hidden, "gate and up", count=2),
        Shape(rows, size.hidden, size.dim, "down"),
    )
    return ShapeList(_title("block", model, tokens, sequences, context), shapes, _LLAMA_SOURCES)


@dataclass(frozen=True)
class Bert:
    """What the shapes of a BERT layer follow from.

    Parameters
    ----------
    hidden, heads, intermediate, layers : int
        Width, attention heads, width of the feed-forward layer, and how many layers the model has.
    """

    hidden: int
    heads: int
    intermediate: int
    layers: int


BERT: Mapping[str, Bert] = MappingProxyType(
    {"bert-base": Bert(768, 12, 3072, 12), "bert-large": Bert(1024, 16, 4096, 24)}
)
_GOOGLE_BERT = "https://github.com/google-research/bert/blob"
_BERT_SOURCES = (
    Source(
        "bert-modeling",
        "Google, bert, modeling.py: the products, and the sizes of BERT-Base as defaults",
        f"{_GOOGLE_BERT}/0017e7ecb4aa6b40e6d21ab7d46d2b055f88f236/modeling.py",
        "read 2026-12-01",
    ),
    Source(
        "bert-readme",
        "Google, bert, README.md: layers, hidden size and heads of BERT-Base and BERT-Large",
        f"{_GOOGLE_BERT}/04f9e5d15d85f85a8deff9f53442b8a54abab5ea/README.md",
        "read 2026-12-01",
    ),
    Source(
        "bert-large-config",
        "bert_config.json of BERT-Large: its intermediate size",
        f"{_GOOGLE_BERT}/2194f53295f8b05a18d2af8d8217903a614fad97/configs/bert_large/bert_config.json",
        "read 2026-12-01",
    ),
)


@names_keywords
def bert_layer(model: str = "bert-base", tokens: int = 512, *, sequences: int = 1) -> ShapeList:
    """Return the products of one encoder layer of BERT in a forward pass.

    Not modelled: embeddings, norms, softmax, the pooler, and what stands after the last layer.

    Parameters
    ----------
    model : str
        One of `BERT`.
    tokens : int
        Tokens of each sequence.
    sequences : int
        Sequences at once.

    Returns
    -------
    ShapeList

    Raises
    ------
    ValueError
        For an unknown model or a count that is no whole number above 0.

    Examples
    --------
    >>> bert_layer("bert-base", tokens=128)
    one layer of bert-base, 1 x 128 tokens: 6 shapes, 1.86 GFLOP
      3 of 128 x 768 x 768        queries, keys and values
      1 of 12 x (128 x 64 x 128)  scores
      1 of 12 x (128 x 128 x 64)  weighted values
      1 of 128 x 768 x 768        attention output
      1 of 128 x 768 x 3072       intermediate
      1 of 128 x 3072 x 768       output
    """
    size = BERT[choice("model", model, BERT)]
    rows, attention = _attention(size.heads, size.hidden // size.heads, tokens, sequences, None)
    shapes = (
        Shape(rows, size.hidden, size.hidden, "queries, keys and values", count=3),
        *attention,
        Shape(rows, size.hidden, size.hidden, "attention output"),
        Shape(rows, size.hidden, size.intermediate, "intermediate"),
        Shape(rows, size.intermediate, size.hidden, "output"),
    )
    return ShapeList(_title("layer", model, tokens, sequences, None), shapes, _BERT_SOURCES)


def _attention(
    heads: int, head: int, tokens: int, sequences: int, context: int | None
) -> tuple[int, tuple[Shape, Shape]]:
    """Rows of the linear layers, and the two products of attention, one for each head and sequence."""
    tokens, sequences = whole_number("tokens", tokens), whole_number("sequences", sequences)
    context = tokens if context is None else whole_number("context", context)
    if context < tokens:
        raise ValueError(
            f"context is {context}, but must be at least tokens = {tokens}: the new ones are looked at too."
        )
    batch = sequences * heads
    return sequences * tokens, (
        Shape(tokens, head, context, "scores", batch),
        Shape(tokens, context, head, "weighted values", batch),
    )


def _title(part: str, model: str, tokens: int, sequences: int, context: int | None) -> str:
    seen = "" if context is None else f", context {context}"
    return f"one {part} of {model}, {sequences} x {tokens} tokens{seen}"


# --- convolutions -----------------------------------------------------------------------------------------

# Blocks of each stage, and whether a block is a bottleneck.
RESNET: Mapping[str, tuple[tuple[int, int, int, int], bool]] = MappingProxyType(
    {
        "resnet-18": ((2, 2, 2, 2), False),
        "resnet-34": ((3, 4, 6, 3), False),
        "resnet-50": ((3, 4, 6, 3), True),
        "resnet-101": ((3, 4, 23, 3), True),
        "resnet-152": ((3, 8, 36, 3), True),
    }
)
_RESNET_SOURCES = (
    Source(
        "torchvision-resnet",
        "PyTorch, torchvision, models/resnet.py: stages, blocks, strides and channels",
        "https://github.com/pytorch/vision/blob/054e54c573ba46e5b9c63f1eea3ad4d103afbea2/"
        "torchvision/models/resnet.py",
        "read 2026-12-01",
    ),
)


@names_keywords
def resnet(model: str = "resnet-50", images: int = 1, *, side: int = 224) -> ShapeList:
    """Return the products that the layers of a ResNet become in a forward pass.

    Each convolution is the product of `pulsewarp.systolic.conv`: patches by filters, those of all images in
    one. Equal products of one stage stand in one row with their count. As in torchvision the 3 x 3 filter of
    a bottleneck has the stride. Not modelled: norms, activations, pooling, and the copying into patches.

    Parameters
    ----------
    model : str
        One of `RESNET`.
    images : int
        Images at once.
    side : int
        Height and width of each, pixels.

    Returns
    -------
    ShapeList

    Raises
    ------
    ValueError
        For an unknown model or a count that is no whole number above 0.

    Examples
    --------
    >>> print(*list(resnet("resnet-50"))[:4], sep=", ")
    12544 x 147 x 64, 3136 x 64 x 256, 3136 x 64 x 64, 3136 x 576 x 64
    """
    blocks, bottleneck = RESNET[choice("model", model, RESNET)]
    images, pixels = whole_number("images", images), whole_number("side", side)
    stem = _Convolution(pixels, 7, 3, 64, 2)
    named = [("stem", stem)]
    inside = _Convolution(stem.out_side, 3, 1, 1, 2).out_side  # pooling takes 3 x 3 windows, two apart
    channels = 64
    for stage, number in enumerate(blocks):
        for block in range(number):
            parts = _block(inside, channels, 64 << stage, 2 if stage and not block else 1, bottleneck)
            named += [(f"stage {stage + 1}", part) for part in parts]
            inside, channels = parts[-1].out_side, parts[-1].filters
    counts = Counter((name, *part.product(images)) for name, part in named)
    counts["classes", images, channels, 1000] = 1
    shapes = tuple(Shape(m, k, n, name, count=count) for (name, m, k, n), count in counts.items())
    return ShapeList(
        f"{model}, {counted(images, 'image')} of {pixels} x {pixels} pixels", shapes, _RESNET_SOURCES
    )


class _Convolution(NamedTuple):
    """A convolution of a square image, padded so that a stride of 1 keeps its size."""

    side: int
    window: int
    channels: int
    filters: int
    stride: int

    def product(self, images: int) -> tuple[int, int, int]:
        """Sizes of the product it becomes, the patches of all images in one."""
        padded = self.side + 2 * (self.window // 2)
        cost = systolic.conv(
            in_h=padded,
            in_w=padded,
            filter_h=self.window,
            filter_w=self.window,
            channels=self.channels,
            filters=self.filters,
            stride=self.stride,
            rows=1,
            cols=1,
        )
        return images * cost.m, cost.k, cost.n

    @property
    def out_side(self) -> int:
        return math.isqrt(self.product(1)[0])


def _block(side: int, channels: int, width: int, stride: int, bottleneck: bool) -> tuple[_Convolution, ...]:
    """Convolutions of one residual block, the one that leads out of it last."""
    first = _Convolution(side, 3, width if bottleneck else channels, width, stride)
    wide = width * (4 if bottleneck else 1)
    same = stride == 1 and channels == wide
    shortcut = () if same else (_Convolution(side, 1, channels, wide, stride),)
    if bottleneck:
        narrow = _Convolution(side, 1, channels, width, 1)
        return *shortcut, narrow, first, _Convolution(first.out_side, 1, width, wide, 1)
    return *shortcut, first, _Convolution(first.out_side, 3, width, width, 1)


# --- by name ----------------------------------------------------------------------------------------------

MODELS: tuple[str, ...] = (*LLAMA, *BERT, *RESNET)
"""Names that `of_model` knows."""


@names_keywords
def of_model(model: str, rows: int | None = None) -> ShapeList:
    """Return the products of a model by its name alone.

    Parameters
    ----------
    model : str
        One of `MODELS`.
    rows : int, optional
        Tokens of one sequence for a language model, images for a ResNet. Left out: 2048 and 512 tokens for a
        Llama and a BERT, one image for a ResNet.

    Returns
    -------
    ShapeList
        Of `llama_block`, `bert_layer` or `resnet`.

    Raises
    ------
    ValueError
        For an unknown model or a number of rows that is no whole one above 0.

    Examples
    --------
    >>> of_model("bert-large", rows=64).title
    'one layer of bert-large, 1 x 64 tokens'
    """
    choice("model", model, MODELS)
    if model in LLAMA:
        return llama_block(model, 2048 if rows is None else rows)
    if model in BERT:
        return bert_layer(model, 512 if rows is None else rows)
    return resnet(model, 1 if rows is None else rows)
