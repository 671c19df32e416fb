"""What notebooks call: ask before showing, reveal what was computed, check or run what a reader wrote."""

from __future__ import annotations

from pulsewarp.lesson.claims import Claim, claim
from pulsewarp.lesson.decisions import Decision, decision, decisions
from pulsewarp.lesson.exercises import Exercise, Verdict, exercise
from pulsewarp.lesson.own_kernels import KernelExercise, kernel_exercise, own_kernel
from pulsewarp.lesson.own_launches import own_access, own_occupancy
from pulsewarp.lesson.own_products import own_product, own_sizes
from pulsewarp.lesson.own_workloads import OwnWorkload, own_workload
from pulsewarp.lesson.prediction import Prediction, predict, reveal, skip_predictions

__all__ = [
    "Claim",
    "Decision",
    "Exercise",
    "KernelExercise",
    "OwnWorkload",
    "Prediction",
    "Verdict",
    "claim",
    "decision",
    "decisions",
    "exercise",
    "kernel_exercise",
    "own_access",
    "own_kernel",
    "own_occupancy",
    "own_product",
    "own_sizes",
    "own_workload",
    "predict",
    "reveal",
    "skip_predictions",
]
