"""Checks that any trace can be put to: each computes its own answer and compares."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp._arrays import add_up, equal_values
from pulsewarp._text import counted
from pulsewarp.systolic.cost import cost_of
from pulsewarp.systolic.dataflow import Axis, Letter, coordinates
from pulsewarp.systolic.frame import check_frame
from pulsewarp.systolic.registers import Check, Report
from pulsewarp.systolic.trace import SystolicTrace


def verify(trace: SystolicTrace, cycle: int | None = None) -> Report:
    """Return the report of every check that the trace keeps enough for, and of one frame if asked."""
    checks = [check_product(trace), check_closed_form(trace)]
    if trace.has_registers:
        checks += [check_hops(trace), check_meetings(trace), check_products(trace), check_schedule(trace)]
    elif trace.has_schedule:
        checks += [check_wavefront(trace), check_coverage(trace)]
    if cycle is not None:
        checks.append(check_frame(trace, cycle))
    return Report(tuple(checks))


def multiply_integers(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.int64]:
    """Return NumPy's a @ b, wrapping around at 64 bits; in float64, which is faster, where that is exact."""
    largest = [max(-int(operand.min()), int(operand.max())) for operand in (a, b)]
    if largest[0] * largest[1] * a.shape[1] < 2**53:
        return (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64)
    product: NDArray[np.int64] = a.astype(np.int64) @ b.astype(np.int64)
    return product


def check_product(trace: SystolicTrace) -> Check:
    """Compare the result with NumPy: exactly for integers, for floats bit for bit in the order of k."""
    result, size = trace.result, trace.result.size
    if result.dtype.kind == "i":
        expected = multiply_integers(trace.a, trace.b).astype(result.dtype)
        right = result == expected
        says = f"equal NumPy's a @ b in {result.dtype}"
    else:
        expected = add_up(trace.a, trace.b, result.dtype)
        right = equal_values(result, expected)  # NaN: where sums beyond the type's range cancelled
        far = np.abs(result - trace.a.astype(np.float64) @ trace.b.astype(np.float64)).max()
        says = f"equal NumPy's sum over k in {result.dtype}, at most {far:.2g} from a @ b in float64"
    equal = int(np.count_nonzero(right))
    says = f"{equal} of {size} results {says}"
    if equal < size:
        says += f"; {_wrong_results(result, expected, ~right)}"
    return Check("product", equal == size, says)


def _wrong_results(result: NDArray[Any], expected: NDArray[Any], wrong: NDArray[np.bool_]) -> str:
    """Return a sentence's part that says where results are wrong, with the first of them."""
    m, n = np.argwhere(wrong)[0].tolist()
    where = [np.flatnonzero(wrong.any(axis=axis)) for axis in (1, 0)]
    rows, cols = (
        f"{name} {places[0]}" if places.size == 1 else f"{name}s {places[0]} to {places[-1]}"
        for name, places in zip(("row", "column"), where, strict=True)
    )
    return (
        f"{np.count_nonzero(wrong)} wrong within {rows} and {cols}, "
        f"the first result[{m}, {n}] = {result[m, n]} instead of {expected[m, n]}"
    )


def check_closed_form(trace: SystolicTrace) -> Check:
    """Compare the cycles counted with the formula."""
    cost = cost_of(trace)
    count = len(trace.folds)
    formula = f"{cost.folds} x {cost.cycles_per_fold}"
    if trace.overlap:
        formula = f"{cost.cycles_per_fold} + {cost.folds - 1} x {cost.interval}"
    says = f"{trace.cycles} cycles counted in {counted(count, 'fold')}; by formula {formula} = {cost.cycles}"
    return Check("closed form", (trace.cycles, count) == (cost.cycles, cost.folds), says)


def check_hops(trace: SystolicTrace) -> Check:
    """Require that each value was in its cell or next to it one clock edge ago, or enters at an edge."""
    right, down, held = trace.right_index, trace.down_index, trace.held_index
    hops = int(np.count_nonzero(right[1:, :, 1:] >= 0) + np.count_nonzero(down[1:, 1:] >= 0))
    stray = np.zeros(held.shape, np.int64)  # by cycle and cell
    stray[1:, :, 1:] += (right[1:, :, 1:] >= 0) & (right[1:, :, 1:] != right[:-1, :, :-1])
    stray[1:, 1:] += (down[1:, 1:] >= 0) & (down[1:, 1:] != down[:-1, :-1])
    stray[1:, :, 1:] += (right[1:, :, 1:] >= 0) & (trace.right[1:, :, 1:] != trace.right[:-1, :, :-1])
    if trace.overlap:
        stray[1:] += _shadow_strays(trace)
    else:
        came = (held[1:, 1:] == held[:-1, 1:]) | (held[1:, 1:] == held[:-1, :-1])
        if not trace.flow.loads:  # a sum comes into being where its first product is formed
            came |= trace.active[1:, 1:] & (held[:-1, 1:] < 0)
        stray[1:, 1:] += (held[1:, 1:] >= 0) & ~came
    says = f"{hops} hops to a neighbour, {stray.sum()} values from elsewhere"
    return Check("one hop a cycle", not stray.any(), says + _first(stray))


def _first(wrong: NDArray[Any]) -> str:
    """Return a sentence's part that names the first cycle and cell of those that are wrong, if any is."""
    if not wrong.any():
        return ""
    t, r, c = np.argwhere(wrong)[0].tolist()
    return f", the first at cycle {t} in cell ({r}, {c})"


def _shadow_strays(trace: SystolicTrace) -> NDArray[np.bool_]:
    """Tell from cycle 1 on where a held or shadow register has what was in no register it may come from."""
    held, shadow = trace.held_index, trace.shadow_index
    stayed, sank = held[1:] == held[:-1], shadow[1:] == shadow[:-1]
    sank[:, 1:] |= shadow[1:, 1:] == shadow[:-1, :-1]
    if trace.flow.loads:  # in from the top, and over into the cell
        stayed |= held[1:] == shadow[:-1]
        sank[:, 0] = True
        came_as = np.where(held[1:] == held[:-1], trace.held[:-1], trace.shadow[:-1])
        changed = stayed & (held[1:] >= 0) & (trace.held[1:] != came_as)
    else:  # into being in the cell, and over into its shadow
        stayed |= trace.active[1:]
        sank |= shadow[1:] == held[:-1]
        own = shadow[1:] == held[:-1]
        changed = own & (shadow[1:] >= 0) & (trace.shadow[1:] != trace.held[:-1])
    strays: NDArray[np.bool_] = ((held[1:] >= 0) & ~stayed) | ((shadow[1:] >= 0) & ~sank) | changed
    return strays


def check_meetings(trace: SystolicTrace) -> Check:
    """Require that in every working cell both operands share k and the sum is that of their m and n."""
    where = trace.active
    at: dict[Letter, dict[Axis, NDArray[Any]]] = {}
    for register, letter in trace.roles.items():
        at[letter] = coordinates(letter, getattr(trace, f"{register}_index")[where], trace.sizes)
    fits = at["a"]["k"] == at["b"]["k"]
    fits &= (at["a"]["m"] == at["c"]["m"]) & (at["b"]["n"] == at["c"]["n"])
    met = int(np.count_nonzero(fits))
    wrong = np.zeros_like(where)
    wrong[where] = ~fits
    says = f"{met} of {fits.size} products join the k, m and n they belong to"
    return Check("operands meet", met == fits.size, says + _first(wrong))


def check_products(trace: SystolicTrace) -> Check:
    """Require that each product (m, n, k) is formed exactly once."""
    macs = trace.macs().astype(np.int64)
    flat = (macs[:, 3] * trace.n + macs[:, 4]) * trace.k + macs[:, 5]
    total = trace.m * trace.n * trace.k
    times = np.bincount(flat[(flat >= 0) & (flat < total)], minlength=total)
    once = int(np.count_nonzero(times == 1))
    says = f"{once} of {total} formed once, {len(macs)} multiply-adds in all"
    if once < total:
        m, n, k = (int(i) for i in np.unravel_index(np.argmax(times != 1), (trace.m, trace.n, trace.k)))
        says += f", a[{m}, {k}] * b[{k}, {n}] {times[(m * trace.n + n) * trace.k + k]} times"
    return Check("each product once", once == total == len(macs), says)


def check_schedule(trace: SystolicTrace) -> Check:
    """Require that `start` and `length` say exactly when each cell worked."""
    said = np.zeros_like(trace.active)
    for fold in trace.folds:
        cycle = np.arange(fold.start, fold.start + fold.cycles)[:, None, None]
        start, length = trace.start[fold.index], trace.length[fold.index]
        said[fold.start : fold.start + fold.cycles] |= (
            (start >= 0) & (cycle >= start) & (cycle < start + length)
        )
    wrong = int(np.count_nonzero(said != trace.active))
    return Check("schedule", wrong == 0, f"{wrong} of {said.size} cell-cycles differ from start and length")


def check_wavefront(trace: SystolicTrace) -> Check:
    """Require that each cell starts one cycle after its left and its upper neighbour."""
    late = pairs = 0
    for fold in trace.folds:
        start = trace.start[fold.index, : fold.rows, : fold.cols]
        for step in (np.diff(start, axis=0), np.diff(start, axis=1)):
            pairs += step.size
            late += int(np.count_nonzero(step != 1))
    says = f"{pairs} pairs of neighbours start one cycle apart, {late} do not"
    return Check("one hop a cycle", late == 0, says)


def check_coverage(trace: SystolicTrace) -> Check:
    """Require that the working cells of all folds form as many products as there are, each cell its share."""
    total, stream = trace.m * trace.n * trace.k, trace.sizes[trace.flow.stream_axis]
    wrong = 0
    for fold in trace.folds:
        share = np.zeros((trace.rows, trace.cols), np.int32)
        share[: fold.rows, : fold.cols] = stream
        wrong += int(np.count_nonzero(trace.length[fold.index] != share))
    macs = int(trace.schedule.busy.sum(dtype=np.int64))
    says = f"{macs} multiply-adds counted for {total} products, {wrong} cells with a wrong share"
    return Check("each product once", macs == total and wrong == 0, says)
