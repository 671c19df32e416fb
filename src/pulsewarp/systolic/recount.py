"""Counts a cost again, fold by fold and cell by cell, to hold its closed forms to."""

from __future__ import annotations

import itertools
import math

import numpy as np

from pulsewarp import _checks
from pulsewarp._text import counted
from pulsewarp.systolic.cost import GemmCost
from pulsewarp.systolic.dataflow import Letter
from pulsewarp.systolic.registers import Check, Report
from pulsewarp.systolic.rules import Fold


def recount(cost: GemmCost, cycle: int | None) -> Report:
    """Return what was found, with the frame of one cycle if it is given."""
    plan = cost.plan()
    checks = [_products(cost, plan), _end(cost, plan), _shares(cost, plan), _traffic(cost, plan)]
    checks.append(_distance(cost, plan))
    if cycle is not None:
        checks.append(recount_frame(cost, cycle))
    return Report(tuple(checks))


def recount_frame(cost: GemmCost, cycle: int) -> Check:
    """Return what was found in the frame of one cycle."""
    cycle = _checks.whole_number("cycle", cycle, least=0, most=cost.cycles - 1)
    return _frame(cost, cost.plan(), cycle)


def _products(cost: GemmCost, plan: tuple[Fold, ...]) -> Check:
    """Require that the tiles hold each element once and that the total is the product's."""
    elements = sum(fold.rows * fold.cols for fold in plan)
    total, closed = elements * cost.stream, cost.macs(cost.cycles - 1)
    says = (
        f"{counted(len(plan), 'fold')} hold {elements} elements, each meets {cost.stream} of the stream: "
        f"{total} products of {cost.m} x {cost.k} x {cost.n}; in closed form {closed}"
    )
    return Check("each product once", total == closed == cost.m * cost.k * cost.n, says)


def _end(cost: GemmCost, plan: tuple[Fold, ...]) -> Check:
    """Require that the last fold ends with the run."""
    end = plan[-1].start + plan[-1].cycles
    says = (
        f"{counted(len(plan), 'fold')} of {plan[0].cycles} cycles, one by one, end after {end} cycles; by "
        f"formula {cost.cycles}"
    )
    return Check("closed form", (end, len(plan)) == (cost.cycles, cost.folds), says)


def _shares(cost: GemmCost, plan: tuple[Fold, ...]) -> Check:
    """Require that the shares of cells and of cell-cycles in use are those of the tiles."""
    cells = cost.rows * cost.cols
    elements = sum(fold.rows * fold.cols for fold in plan)
    end = plan[-1].start + plan[-1].cycles
    useful, busy = elements / (len(plan) * cells), elements * cost.stream / (end * cells)
    says = (
        f"{elements} of {len(plan) * cells} cells hold an element, {100 * useful:.1f} %; "
        f"{100 * busy:.1f} % of {end * cells} cell-cycles form a product"
    )
    holds = math.isclose(useful, cost.mapping_efficiency) and math.isclose(busy, cost.utilization)
    return Check("shares", holds, says)


def _traffic(cost: GemmCost, plan: tuple[Fold, ...]) -> Check:
    """Require that what the edges of each fold let in and out adds up to the reads and writes."""
    crossed: dict[Letter, int] = {
        cost.flow.held: sum(fold.rows * fold.cols for fold in plan),
        cost.flow.right: sum(fold.rows * cost.stream for fold in plan),
        cost.flow.down: sum(fold.cols * cost.stream for fold in plan),
    }
    again = sum(fold.cols * cost.stream for fold in plan if fold.row0) if cost.flow.loads else 0
    says = (
        f"fold by fold {crossed['a']} elements of A, {crossed['b']} of B and {again} partial sums enter, "
        f"{crossed['c']} sums leave"
    )
    counts = cost.sram_reads_a, cost.sram_reads_b, cost.sram_reads_partial, cost.sram_writes_out
    return Check("traffic", (crossed["a"], crossed["b"], again, crossed["c"]) == counts, says)


def _distance(cost: GemmCost, plan: tuple[Fold, ...]) -> Check:
    """Require that no cell has to work for two folds at once."""
    starts = [fold.start for fold in plan]
    apart = min((late - early for early, late in itertools.pairwise(starts)), default=None)
    says = (
        f"streams of {cost.stream} steps begin at least {apart} cycles apart"
        if apart is not None
        else "one fold only"
    )
    return Check("one fold at a time in a cell", apart is None or apart >= cost.stream, says)


def _frame(cost: GemmCost, plan: tuple[Fold, ...], t: int) -> Check:
    """Require that as many cells work as are counted one by one in the folds under way."""
    found = 0
    for fold in plan:
        if fold.start <= t < fold.start + fold.cycles:
            row, col = np.ogrid[: fold.rows, : fold.cols]
            step = t - (fold.start + cost.load) - row - col
            found += int(np.count_nonzero((step >= 0) & (step < cost.stream)))
    closed = cost.busy(t)
    return Check(
        "cells of this frame",
        found == closed,
        f"{found} cells counted one by one in cycle {t}; in closed form {closed}",
    )
