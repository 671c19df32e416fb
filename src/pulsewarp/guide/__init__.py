"""The decision guide: a workload in, a verdict with reasons, numbers with bands, and what would flip it."""

from pulsewarp.guide.advice import VERDICTS, Advice, Flip, Reason, advise
from pulsewarp.guide.band import Band
from pulsewarp.guide.break_even import BreakEven, PriceRange
from pulsewarp.guide.costs import ChipEstimate, Comparison, compare
from pulsewarp.guide.efficiency import TrainingEstimate, estimate_training
from pulsewarp.guide.errors import ErrorTable, errors_table
from pulsewarp.guide.gates import GATES, Gate
from pulsewarp.guide.inputs import CostInput, cost_inputs
from pulsewarp.guide.measured import Evidence, OwnRun
from pulsewarp.guide.memory import MemoryFit, fit_memory
from pulsewarp.guide.pilot import Pilot
from pulsewarp.guide.serving import Serving, ServingPoint, serve
from pulsewarp.guide.workload import VOCABULARY, Workload

__all__ = [
    "GATES",
    "VERDICTS",
    "VOCABULARY",
    "Advice",
    "Band",
    "BreakEven",
    "ChipEstimate",
    "Comparison",
    "CostInput",
    "ErrorTable",
    "Evidence",
    "Flip",
    "Gate",
    "MemoryFit",
    "OwnRun",
    "Pilot",
    "PriceRange",
    "Reason",
    "Serving",
    "ServingPoint",
    "TrainingEstimate",
    "Workload",
    "advise",
    "compare",
    "cost_inputs",
    "errors_table",
    "estimate_training",
    "fit_memory",
    "serve",
]
