"""What each machine is charged for its work: by cycle, by level of memory, in energy."""

from __future__ import annotations

from pulsewarp.ledger.by_cycle import SystolicLedger, WarpLedger, systolic, warp
from pulsewarp.ledger.by_level import LEVELS, WAYS, LevelLedger, Traffic, levels
from pulsewarp.ledger.energies import MEMORIES, PARTS, EnergyLedger, EnergyPart, Reuse, energy

__all__ = [
    "LEVELS",
    "MEMORIES",
    "PARTS",
    "WAYS",
    "EnergyLedger",
    "EnergyPart",
    "LevelLedger",
    "Reuse",
    "SystolicLedger",
    "Traffic",
    "WarpLedger",
    "energy",
    "levels",
    "systolic",
    "warp",
]
