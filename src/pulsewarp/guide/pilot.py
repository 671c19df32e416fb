"""The small experiment that settles what published numbers cannot."""

from __future__ import annotations

from dataclasses import dataclass

from pulsewarp.guide.band import short
from pulsewarp.guide.costs import Comparison
from pulsewarp.guide.workload import Workload

# The model's typical error on sources it has not seen is about this factor: a measured difference below
# it is no reason to move.
WORTH_MOVING = 1.25


@dataclass(frozen=True)
class Pilot:
    """A question, what to measure, when to stop, and the steps.

    Attributes
    ----------
    question, metric, stop_ratio : str
        Written down before anything is measured.
    steps : tuple of str
        In order, each small enough to be the last.
    """

    question: str
    metric: str
    stop_ratio: str
    steps: tuple[str, ...]

    def __repr__(self) -> str:
        return f"Pilot({self.question!r}, steps={len(self.steps)})"


def plan_pilot(workload: Workload, verdict: str, comparison: Comparison) -> Pilot:
    """Plan the pilot that would settle, or confirm, a verdict.

    Parameters
    ----------
    workload : Workload
        What is to run.
    verdict : str
        "gpu", "tpu", "either" or "neither".
    comparison : Comparison
        The cost comparison behind it.

    Returns
    -------
    Pilot
        Question, metric, stop ratio and steps.
    """
    serves = workload.phase == "inference"
    unit = "a million output tokens at your latency" if serves else "a billion training tokens"
    if workload.domain not in ("llm", "any"):
        unit = "a thousand results" if serves else "an epoch to the same quality"
    metric = f"US dollars for {unit}, port included, on the same model, data, precision and quality"
    if verdict == "neither":
        return Pilot(
            "Does an accelerator help at all?",
            "Seconds for a fixed piece of work on the CPU, and on one small GPU",
            "Stop if the GPU is less than twice as fast as the CPU.",
            (
                "Time 100 steps on the CPU and note what share is arithmetic and what share waits.",
                "Time the same on one GPU at hand or by the hour.",
                "Ask the guide again when the model, the batch or the number of requests has grown.",
            ),
        )
    known = comparison.ratio
    ratio = "unknown today" if known is None else f"{short(known.value)} by published numbers"
    return Pilot(
        f"Is a TPU or a GPU cheaper for this work (TPU over GPU: {ratio})?",
        metric,
        f"Stop at {WORTH_MOVING:g} times cheaper in three repeats, or when the port exceeds its budget.",
        (
            "Paper day: gates, memory, estimates, compilation ahead of time; write down what would stop you.",
            "One chip of each: forward and backward on synthetic data; list unsupported operations and "
            "recompilations; compare with float32.",
            "One host of each: 20 steps of warm-up dropped, 100 timed, 3 repeats, median and range; "
            "compile time apart; the command pulsewarp bench for the bare products.",
            "Your real input pipeline, then eight times the chips with one preemption injected.",
            "Put measured speed and real quotes into the workload, ask again, decide; keep a way back.",
        ),
    )
