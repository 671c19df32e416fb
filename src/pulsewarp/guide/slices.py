"""How many chips of a kind can be had together: TPU slices by generation, parts and wholes of GPU nodes."""

from __future__ import annotations

import functools
import json
from importlib import resources

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
    return _listed(chips.get(chip_id).id)[0]


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
    return _listed(chips.get(chip_id).id)[1]


@functools.cache
def _listed(chip_id: str) -> tuple[tuple[int, ...], Source | None]:
    file = resources.files("pulsewarp.guide") / "data" / "slices.json"
    data = json.loads(file.read_text(encoding="utf-8"))
    row = data["slices"].get(chip_id)
    if row is not None:
        single = tuple(row["chips"])
        most = row.get("most", _SLICES * single[-1])
        counts = single + tuple(range(2 * single[-1], most + 1, single[-1]))
    elif chips.get(chip_id).family == "gpu":
        row = data["nodes"].get(chip_id, data["nodes"]["any"])
        counts = tuple(row["parts"]) + tuple(range(row["whole"], _NODES * row["whole"] + 1, row["whole"]))
    else:
        return (), None
    return counts, Source(row["source"], **data["sources"][row["source"]])
