"""Random programs, cycle by cycle against the naive stepper, and the laws of any trace."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from simt_programs import check_against_naive, check_laws, runs


@settings(max_examples=200)
@given(runs())
def test_every_cycle_equals_the_naive_stepper(arguments: dict[str, Any]) -> None:
    check_against_naive(arguments)


@settings(max_examples=50)
@given(runs())
def test_laws_hold(arguments: dict[str, Any]) -> None:
    check_laws(check_against_naive(arguments))
