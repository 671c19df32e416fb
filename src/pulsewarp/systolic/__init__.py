"""The TPU side: a systolic array whose registers one can watch, and the closed form of what it costs."""

from __future__ import annotations

from pulsewarp.systolic.array import simulate
from pulsewarp.systolic.dataflow import DATAFLOWS, Dataflow
from pulsewarp.systolic.rules import Fold
from pulsewarp.systolic.trace import PHASES, REGISTERS, Probe, Registers, Schedule, SystolicTrace

__all__ = [
    "DATAFLOWS",
    "PHASES",
    "REGISTERS",
    "Dataflow",
    "Fold",
    "Probe",
    "Registers",
    "Schedule",
    "SystolicTrace",
    "simulate",
]
