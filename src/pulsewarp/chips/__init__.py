"""The catalogue: chips, prices, energy and stacks, each value with its source and date.

Files under `data/` are written for people to read and edit; `loader.py` says what they may hold and
refuses the rest. Nothing is read before it is asked for, and then once.
"""

from pulsewarp.chips.chip import FAMILIES, PEAK_DTYPES, Chip, Family, OtherValue, Source
from pulsewarp.chips.device_kind import identify
from pulsewarp.chips.loader import catalogue, get, ids

__all__ = [
    "FAMILIES",
    "PEAK_DTYPES",
    "Chip",
    "Family",
    "OtherValue",
    "Source",
    "catalogue",
    "get",
    "identify",
    "ids",
]
