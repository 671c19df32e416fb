"""What checks of a run found, in sentences."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """One check: whether it holds, and its numbers in a sentence."""

    name: str
    passed: bool
    says: str


@dataclass(frozen=True, repr=False)
class Report:
    """What a `verify` found.

    Parameters
    ----------
    checks : tuple of Check
        In the order in which they were made.
    """

    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether every check holds."""
        return all(check.passed for check in self.checks)

    def __repr__(self) -> str:
        held = sum(check.passed for check in self.checks)
        lines = [
            f"{'holds' if check.passed else 'FAILS'}  {check.name}: {check.says}" for check in self.checks
        ]
        return "\n".join([f"{held} of {len(self.checks)} checks hold", *lines])
