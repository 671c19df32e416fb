"""The TPU side: a systolic array whose registers one can watch, and the closed form of what it costs."""

from __future__ import annotations

from pulsewarp.systolic.array import simulate
from pulsewarp.systolic.cost import CONVENTIONS, GemmCost, conv, gemm
from pulsewarp.systolic.dataflow import DATAFLOWS, Dataflow
from pulsewarp.systolic.faults import FAULTS, Fault
from pulsewarp.systolic.registers import PHASES, REGISTERS, Check, Probe, Registers, Report, Schedule
from pulsewarp.systolic.rules import Fold
from pulsewarp.systolic.trace import SystolicTrace

__all__ = [
    "CONVENTIONS",
    "DATAFLOWS",
    "FAULTS",
    "PHASES",
    "REGISTERS",
    "Check",
    "Dataflow",
    "Fault",
    "Fold",
    "GemmCost",
    "Probe",
    "Registers",
    "Report",
    "Schedule",
    "SystolicTrace",
    "conv",
    "gemm",
    "simulate",
]
