"""The decision guide: a workload in, a verdict with reasons, numbers with bands, and what would flip it."""

from pulsewarp.guide.advice import VERDICTS, Advice, Flip, Reason, advise
from pulsewarp.guide.band import Band
from pulsewarp.guide.costs import ChipEstimate, Comparison, compare
from pulsewarp.guide.efficiency import TrainingEstimate, estimate_training
from pulsewarp.guide.gates import GATES, Gate
from pulsewarp.guide.memory import MemoryFit, fit_memory
from pulsewarp.guide.pilot import Pilot
from pulsewarp.guide.workload import VOCABULARY, Workload

__all__ = [
    "GATES",
    "VERDICTS",
    "VOCABULARY",
    "Advice",
    "Band",
    "ChipEstimate",
    "Comparison",
    "Flip",
    "Gate",
    "MemoryFit",
    "Pilot",
    "Reason",
    "TrainingEstimate",
    "Workload",
    "advise",
    "compare",
    "estimate_training",
    "fit_memory",
]
