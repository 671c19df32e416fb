"""How many chips of a kind can be had together: TPU slices by generation, parts and wholes of GPU nodes."""

from __future__ import annotations

import functools
import json
from importlib import resources
from typing import Any

from pulsewarp import chips
from pulsewarp._checks import names_keywords
from pulsewarp.chips import Source

_SLICES = 64  # of the largest size, beside each other over the data-centre network, where no limit was seen
_NODES = 2048


@names_keywords
def legal(chip_id: str) -> tuple[int, ...]:
    """Return the numbers of a chip that can be had together, ascending.

    Modelled: the single slices that Google Cloud lists for a TPU generation and, beyond the largest, several
    of these side by side; for GPUs 1, 2 and 4 of a node and whole nodes, whatever the cloud. Not modelled:
    what a region has today, slices of different sizes side by side.

    Parameters
    ----------
    chip_id : str
        Catalogue id.

    Returns
    -------
    tuple of int
        Counts of chips; empty where no list was seen.

    Raises
    ------
    ValueError
        When the catalogue has no such chip; the nearest id is named.

    Examples
    --------
    >>> legal("tpu_v6e")[:10]
    (1, 4, 8, 16, 32, 64, 128, 256, 512, 768)
    >>> legal("h100_sxm")[:6]
    (1, 2, 4, 8, 16, 24)
    """
    chip = chips.get(chip_id)
    listed = _data()["slices"].get(chip.id)
    if listed is not None:
        return _slices(tuple(listed["chips"]), listed.get("most"))
    if chip.family != "gpu":
        return ()
    node = _node(chip.id)
    return _nodes(tuple(node["parts"]), node["whole"])


@names_keywords
def source(chip_id: str) -> Source | None:
    """Return where the numbers of `legal` were read.

    Parameters
    ----------
    chip_id : str
        Catalogue id.

    Returns
    -------
    chips.Source or None
        None where no list was seen.

    Examples
    --------
    >>> source("tpu_v6e").address
    'https://docs.cloud.google.com/tpu/docs/v6e'
    """
    if not legal(chip_id):
        return None
    listed = _data()["slices"].get(chip_id) or _node(chip_id)
    return Source(listed["source"], **_data()["sources"][listed["source"]])


@functools.cache
def _data() -> Any:
    file = resources.files("pulsewarp.guide") / "data" / "slices.json"
    return json.loads(file.read_text(encoding="utf-8"))


def _node(chip_id: str) -> Any:
    nodes = _data()["nodes"]
    return nodes.get(chip_id, nodes["any"])


@functools.cache
def _slices(single: tuple[int, ...], most: int | None) -> tuple[int, ...]:
    largest = single[-1]
    return single + tuple(range(2 * largest, (most or _SLICES * largest) + 1, largest))


@functools.cache
def _nodes(parts: tuple[int, ...], whole: int) -> tuple[int, ...]:
    return parts + tuple(range(whole, _NODES * whole + 1, whole))
