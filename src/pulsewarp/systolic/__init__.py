"""The TPU side: a systolic array whose registers one can watch, and the closed form of what it costs."""

from __future__ import annotations

from pulsewarp.systolic.array import simulate
from pulsewarp.systolic.convolution import Im2col, im2col
from pulsewarp.systolic.cost import CONVENTIONS, ConventionCount, GemmCost, conv, gemm
from pulsewarp.systolic.dataflow import DATAFLOWS, Dataflow
from pulsewarp.systolic.faults import FAULTS, Fault
from pulsewarp.systolic.matrix_units import MatrixUnits, MatrixUnitsCost, matrix_units
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
    "ConventionCount",
    "Dataflow",
    "Fault",
    "Fold",
    "GemmCost",
    "Im2col",
    "MatrixUnits",
    "MatrixUnitsCost",
    "Probe",
    "Registers",
    "Report",
    "Schedule",
    "SystolicTrace",
    "conv",
    "gemm",
    "im2col",
    "matrix_units",
    "simulate",
]
