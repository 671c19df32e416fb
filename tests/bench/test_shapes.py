"""Lists of products: a model's must add up to what others count for that model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pulsewarp import roofline
from pulsewarp.bench import shapes
from pulsewarp.bench.shapes import BERT, LLAMA, MODELS, RESNET, Shape, ShapeList
from pulsewarp.matmul import Matmul

# Parameters as published with the weights: Hugging Face lists them for each of Meta's models (safetensors
# total), torchvision for each ResNet (num_params, and _ops in 10**9 multiply-accumulates); BertModel's is
# printed in many places. Read 2026-12-01 in public repositories.
LLAMA_PARAMETERS = {
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.1-70b": 70_553_706_496,
    "llama-3.1-405b": 405_853_388_800,
}
BERT_PARAMETERS = {"bert-base": 109_482_240}
RESNET_GIGA_MACS = {"resnet-50": 4.089, "resnet-152": 11.514}
RESNET_PARAMETERS = {"resnet-50": 25_557_032, "resnet-152": 60_192_808}


def weights(listed: ShapeList) -> int:
    """Count the elements of the right factors that are weights: those of attention are not."""
    return sum(shape.count * shape.k * shape.n for shape in listed if shape.batch == 1)


@pytest.mark.parametrize("model", LLAMA_PARAMETERS)
def test_a_llama_has_the_parameters_that_its_weights_have(model: str) -> None:
    size = LLAMA[model]
    block = weights(shapes.llama_block(model, tokens=1)) + 2 * size.dim  # two norms
    assert size.layers * block + 2 * size.vocabulary * size.dim + size.dim == LLAMA_PARAMETERS[model]


@pytest.mark.parametrize("model", BERT_PARAMETERS)
def test_a_bert_has_the_parameters_that_its_weights_have(model: str) -> None:
    size, listed = BERT[model], shapes.bert_layer(model, tokens=1)
    biases = sum(shape.count * shape.n for shape in listed if shape.batch == 1)
    layer = weights(listed) + biases + 2 * 2 * size.hidden  # two norms with scale and shift
    embeddings = (30522 + 512 + 2) * size.hidden + 2 * size.hidden
    pooler = size.hidden * size.hidden + size.hidden
    assert size.layers * layer + embeddings + pooler == BERT_PARAMETERS[model]


@pytest.mark.parametrize("model", RESNET_GIGA_MACS)
def test_a_resnet_does_the_work_and_has_the_parameters_that_are_published(model: str) -> None:
    listed = shapes.resnet(model)
    assert round(listed.flops / 2e9, 3) == RESNET_GIGA_MACS[model]
    *layers, classes = listed
    norms = sum(2 * shape.count * shape.n for shape in layers)  # scale and shift of each filter
    assert weights(listed) + norms + classes.n == RESNET_PARAMETERS[model]


@pytest.mark.parametrize("model", RESNET)
def test_the_depth_of_a_resnet_is_the_number_of_its_layers(model: str) -> None:
    listed, (_, bottleneck) = shapes.resnet(model), RESNET[model]
    shortcuts = 4 if bottleneck else 3  # where a stage changes size or width
    assert sum(shape.count for shape in listed) - shortcuts == int(model.removeprefix("resnet-"))


def test_more_images_make_taller_patches_and_nothing_else() -> None:
    one, four = shapes.resnet(images=1), shapes.resnet(images=4)
    assert [(4 * s.m, s.k, s.n, s.count) for s in one] == [(s.m, s.k, s.n, s.count) for s in four]


def test_generation_looks_at_the_whole_context_with_one_token() -> None:
    scores, values = (s for s in shapes.llama_block(tokens=1, sequences=3, context=900) if s.batch > 1)
    assert scores.sizes == (96, 1, 128, 900) and values.sizes == (96, 1, 900, 128)


def test_one_above_a_multiple_pads_to_the_next_and_wastes_most_just_there() -> None:
    listed = list(shapes.staircase(128, [1, 3]))
    assert [s.m for s in listed] == [128, 129, 384, 385]
    used = [roofline.tile_padding(Matmul(s.m, s.k, s.n), (128, 128)).efficiency for s in listed]
    assert used[0] == used[2] == 1.0 and used[1] < 0.3 and used[3] < 0.6


def test_one_row_above_whole_rounds_takes_a_round_more() -> None:
    listed = list(shapes.waves(108, rounds=[1, 2]))
    counts = [roofline.wave_quantisation(Matmul(s.m, s.k, s.n), 108).waves for s in listed]
    assert counts == [1, 2, 2, 3]


def test_thin_products_go_from_one_row_to_4096() -> None:
    listed = list(shapes.thin(64))
    assert [s.m for s in listed] == [2**power for power in range(13)]
    assert {(s.k, s.n) for s in listed} == {(64, 64)}


@pytest.mark.parametrize("model", MODELS)
def test_each_model_says_where_its_dimensions_come_from(model: str) -> None:
    listed = shapes.of_model(model, rows=2)
    assert listed.sources
    for source in listed.sources:
        assert source.address.startswith("https://") and source.date and source.title
    assert all(shape.name for shape in listed) and model in listed.title


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: shapes.llama_block("llama-3-8b"), "Did you mean 'llama-3.1-8b'?"),
        (lambda: shapes.bert_layer(tokens=0), "tokens is 0"),
        (lambda: shapes.llama_block(tokens=8, context=4), "context is 4, but must be at least tokens = 8"),
        (lambda: shapes.resnet("resnet-51"), "Unknown model 'resnet-51'"),
        (lambda: shapes.of_model("gpt"), "Unknown model 'gpt'"),
        (lambda: shapes.thin(0), "side is 0"),
        (lambda: shapes.squares([]), "has no shapes"),
        (lambda: shapes.staircase(multiples=[0]), "a multiple is 0"),
        (lambda: Shape(1, 2, 0), "n is 0"),
    ],
)
def test_what_cannot_be_listed_gets_one_sentence(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(ValueError) as caught:
        call()
    assert words in str(caught.value) and "\n" not in str(caught.value)
