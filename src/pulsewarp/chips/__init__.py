"""The catalogue: chips, prices, energy and stacks, each value with its source and date.

Files under `data/` are written for people to read and edit; `loader.py` says what they may hold and
refuses the rest. Nothing is read before it is asked for, and then once.
"""

from pulsewarp.chips.chip import FAMILIES, PEAK_DTYPES, Chip, Family, OtherValue, Source
from pulsewarp.chips.device_kind import identify
from pulsewarp.chips.energy_fact import EnergyFact, energy, energy_fact, joules_per_peak_flop
from pulsewarp.chips.loader import catalogue, get, ids
from pulsewarp.chips.price import PRICE_KINDS, Price, price_range, prices
from pulsewarp.chips.stack import PLATFORMS, Stack, Support, stacks

__all__ = [
    "FAMILIES",
    "PEAK_DTYPES",
    "PLATFORMS",
    "PRICE_KINDS",
    "Chip",
    "EnergyFact",
    "Family",
    "OtherValue",
    "Price",
    "Source",
    "Stack",
    "Support",
    "catalogue",
    "energy",
    "energy_fact",
    "get",
    "identify",
    "ids",
    "joules_per_peak_flop",
    "price_range",
    "prices",
    "stacks",
]
