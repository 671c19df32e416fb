"""The TPU side: a systolic array whose registers one can watch, and the closed form of what it costs."""

from __future__ import annotations

from pulsewarp.systolic.array import simulate
from pulsewarp.systolic.convolution import Im2col, im2col
from pulsewarp.systolic.cost import CONVENTIONS, ConventionCount, GemmCost, conv, gemm
from pulsewarp.systolic.dataflow import DATAFLOWS, Dataflow
from pulsewarp.systolic.diagnosis import Clue, Suspects, suspects
from pulsewarp.systolic.faults import FAULTS, Fault
from pulsewarp.systolic.matrix_units import MatrixUnits, MatrixUnitsCost, matrix_units
from pulsewarp.systolic.pipeline_trace import PipelineTally, PipelineTrace
from pulsewarp.systolic.registers import PHASES, REGISTERS, Check, Probe, Registers, Report, Schedule
from pulsewarp.systolic.rules import Fold
from pulsewarp.systolic.tile_pipeline import pipeline
from pulsewarp.systolic.trace import SystolicTrace

__all__ = [
    "CONVENTIONS",
    "DATAFLOWS",
    "FAULTS",
    "PHASES",
    "REGISTERS",
    "Check",
    "Clue",
    "ConventionCount",
    "Dataflow",
    "Fault",
    "Fold",
    "GemmCost",
    "Im2col",
    "MatrixUnits",
    "MatrixUnitsCost",
    "PipelineTally",
    "PipelineTrace",
    "Probe",
    "Registers",
    "Report",
    "Schedule",
    "Suspects",
    "SystolicTrace",
    "conv",
    "gemm",
    "im2col",
    "matrix_units",
    "pipeline",
    "simulate",
    "suspects",
]
