"""Checks that any pipeline trace can be put to: each computes its own answer and compares."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pulsewarp.matmul import BYTES, DTYPES, Matmul
from pulsewarp.systolic.cost import gemm
from pulsewarp.systolic.pipeline_trace import MULTIPLY, WRITE, PipelineTrace, holdings, tile_sizes
from pulsewarp.systolic.registers import Check, Report
from pulsewarp.systolic.verification import multiply_integers


def verify(trace: PipelineTrace) -> Report:
    """Return the report of every check; the product only where factors were given."""
    product = [] if trace.result is None else [check_product(trace)]
    checks = (
        check_closed_form, check_lengths, check_engines, check_tiles, check_buffers, check_coverage,
        check_bytes, check_vmem,
    )  # fmt: skip
    return Report((*product, *(check(trace) for check in checks)))


def step_indices(trace: PipelineTrace) -> NDArray[np.int64]:
    """Return the tile indices (m, k, n) of each step: C's tiles row by row, k innermost; shape (S, 3)."""
    i, p, j = trace.grid
    return np.stack([axis.ravel() for axis in np.indices((i, j, p))], axis=1)[:, [0, 2, 1]].astype(np.int64)


def parts(trace: PipelineTrace) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the cycles of each step's fetches, multiplication and write, from sizes and rates alone."""
    at = step_indices(trace)
    sides = np.array(trace.tile)
    lengths = np.minimum(sides, np.array([trace.m, trace.k, trace.n]) - at * sides)

    def cycles(elements: NDArray[np.int64], dtype: str) -> NDArray[np.int64]:
        return transfer_cycles(trace, -(-elements * int(8 * BYTES[dtype]) // 8))

    def changed(axes: list[int]) -> NDArray[np.bool_]:
        return np.concatenate([[True], (at[1:, axes] != at[:-1, axes]).any(axis=1)])

    m, k, n = lengths.T
    fetch = np.where(changed([0, 1]), cycles(m * k, trace.dtype), 0)
    fetch += np.where(changed([1, 2]), cycles(k * n, trace.dtype), 0)
    write = np.where(at[:, 1] == trace.grid[1] - 1, cycles(m * n, DTYPES[trace.dtype].result), 0)
    shapes = {tuple(shape) for shape in lengths.tolist()}
    # Units are dealt columns of the array: along n for "ws" and "os", along m for "is".
    across_m, across_n = (trace.units, 1) if trace.dataflow == "is" else (1, trace.units)
    took = {
        (m, k, n): gemm(
            m=-(-m // across_m), k=k, n=-(-n // across_n), rows=trace.rows, cols=trace.cols,
            dataflow=trace.dataflow, overlap=trace.overlap,
        ).cycles
        for m, k, n in shapes
    }  # fmt: skip
    return fetch, np.array([took[tuple(shape)] for shape in lengths.tolist()], np.int64), write


def transfer_cycles(trace: PipelineTrace, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the whole cycles in which so many bytes cross; counted in Python's integers, of any length."""
    rate = Fraction(trace.bandwidth_bytes_per_second) / Fraction(trace.clock_hz)
    found = {size: -(-size * rate.denominator // rate.numerator) for size in set(sizes.tolist())}
    return np.array([found[size] for size in sizes.tolist()], np.int64)


def periods(trace: PipelineTrace) -> NDArray[np.int64]:
    """Return the cycles from each step's start to the next one's, the first with what comes before it."""
    fetch, multiply, write = parts(trace)
    if trace.buffers == 1:
        return fetch + multiply + write
    transfer = np.append(fetch[1:], 0) + np.insert(write[:-1], 0, 0)
    longer: NDArray[np.int64] = np.maximum(multiply, transfer)
    return longer


def closed_form(trace: PipelineTrace) -> int:
    """Return the cycles of the whole run by formula."""
    total = int(periods(trace).sum())
    if trace.buffers == 1:
        return total
    fetch, _, write = parts(trace)
    return int(fetch[0]) + total + int(write[-1])


def check_product(trace: PipelineTrace) -> Check:
    """Compare the result with NumPy: exactly for integers, within rounding for floats."""
    assert trace.a is not None and trace.b is not None and trace.result is not None
    size = trace.result.size
    if trace.result.dtype.kind == "i":
        expected = multiply_integers(trace.a, trace.b).astype(trace.result.dtype)
        equal = int(np.count_nonzero(trace.result == expected))
        return Check("product", equal == size, f"{equal} of {size} results equal NumPy's a @ b")
    a, b = trace.a.astype(np.float64), trace.b.astype(np.float64)
    # Sums of k terms in another order differ by at most about k roundings of the sum of the terms' sizes.
    allowed = 2 * trace.k * np.finfo(trace.result.dtype).eps * (np.abs(a) @ np.abs(b))
    far = np.abs(trace.result - a @ b)
    close = int(np.count_nonzero(far <= allowed))
    says = f"{close} of {size} results within rounding of a @ b in float64, at most {far.max():.2g} off"
    return Check("product", close == size, says)


def check_closed_form(trace: PipelineTrace) -> Check:
    """Compare the cycles counted, and the time from step to step, with the formula."""
    expected, wanted = closed_form(trace), periods(trace)
    begins = np.sort(trace.start[trace.kind == MULTIPLY])
    taken = np.diff(begins)
    if trace.buffers == 1:  # from the end of one step's write, the next step's fetches
        fetch, multiply, write = parts(trace)
        wanted = multiply[:-1] + write[:-1] + fetch[1:]
    else:
        wanted = wanted[:-1]
    right = int(np.count_nonzero(taken == wanted)) if taken.size == wanted.size else 0
    rule = "max(multiply, transfer)" if trace.buffers == 2 else "fetch + multiply + write"
    says = f"{trace.cycles} cycles counted, {expected} by formula; {right} of {taken.size} periods are {rule}"
    return Check("closed form", trace.cycles == expected and right == wanted.size, says)


def check_lengths(trace: PipelineTrace) -> Check:
    """Require that each transfer takes as long as its bytes, each multiplication as long as its tile."""
    took, steps = trace.end - trace.start, trace.kind == MULTIPLY
    wanted = np.empty(took.size, np.int64)
    wanted[~steps] = transfer_cycles(trace, trace.size[~steps])
    wanted[steps] = parts(trace)[1][trace.step[steps]]
    right = [int(np.count_nonzero((took == wanted) & which)) for which in (~steps, steps)]
    count = [int(np.count_nonzero(which)) for which in (~steps, steps)]
    says = (
        f"{right[0]} of {count[0]} transfers take the cycles of their bytes, {right[1]} of {count[1]} steps "
        f"those of their tile"
    )
    return Check("lengths", right == count, says)


def check_engines(trace: PipelineTrace) -> Check:
    """Require that the MXU multiplies one step at a time and the channel carries one tile at a time."""
    overlaps = []
    for which in (trace.kind == MULTIPLY, trace.kind != MULTIPLY):
        order = np.argsort(trace.start[which], kind="stable")
        start, end = trace.start[which][order], trace.end[which][order]
        overlaps.append(int(np.count_nonzero(start[1:] < end[:-1])))
    says = f"{overlaps[0]} steps and {overlaps[1]} transfers begin before the one before has ended"
    return Check("one at a time", not any(overlaps), says)


def check_tiles(trace: PipelineTrace) -> Check:
    """Require that each step finds the tiles it needs, whole, in the buffers it reads."""
    steps = np.flatnonzero(trace.kind == MULTIPLY)
    found = 0
    for kind, axes in ((0, [0, 1]), (1, [1, 2])):
        for slot in range(trace.buffers):
            here = np.flatnonzero((trace.kind == kind) & (trace.slot[:, kind] == slot))
            mine = steps[trace.slot[steps, kind] == slot]
            # The last to touch the buffer before the step ends; none at all is no tile in place.
            last = np.searchsorted(trace.start[here], trace.end[mine]) - 1
            mine, source = mine[last >= 0], here[last[last >= 0]]
            whole = trace.end[source] <= trace.start[mine]
            whole &= (trace.tiles[source][:, axes] == trace.tiles[mine][:, axes]).all(axis=1)
            found += int(np.count_nonzero(whole))
    total = 2 * steps.size
    return Check("tiles in place", found == total, f"{found} of {total} are whole when a step reads them")


def check_buffers(trace: PipelineTrace) -> Check:
    """Require that nothing enters a buffer before what was in it is no longer needed."""
    held = holdings(trace)
    clashes = pairs = 0
    for kind, letter in ((0, 0), (1, 1), (WRITE, 2)):
        mine = held[trace.kind[held[:, 0]] == kind]
        for slot in range(trace.buffers):
            same = mine[trace.slot[mine[:, 0], letter] == slot]
            same = same[np.argsort(same[:, 1], kind="stable")]
            pairs += max(0, len(same) - 1)
            clashes += int(np.count_nonzero(same[1:, 1] < same[:-1, 2]))
    return Check("buffers", clashes == 0, f"{clashes} of {pairs} buffers are filled again too early")


def check_coverage(trace: PipelineTrace) -> Check:
    """Require that each product is formed once, and each tile of C written once, after its last step."""
    steps = np.flatnonzero(trace.kind == MULTIPLY)
    writes = np.flatnonzero(trace.kind == WRITE)
    m, k, n = tile_sizes(trace, steps)
    formed, total = int((m * k * n).sum()), trace.m * trace.k * trace.n
    distinct = len({tuple(tile) for tile in trace.tiles[steps].tolist()})
    n_tiles = trace.grid[2]
    output = trace.tiles[:, 0] * n_tiles + trace.tiles[:, 2]  # which tile of C an event belongs to
    count = np.bincount(output[steps], minlength=trace.grid[0] * n_tiles)
    done = np.zeros(count.size, np.int64)
    np.maximum.at(done, output[steps], trace.end[steps])
    mine = output[writes]
    early = int(np.count_nonzero((done[mine] > trace.start[writes]) | (count[mine] != trace.grid[1])))
    outputs = trace.grid[0] * trace.grid[2]
    apart = len({tuple(tile) for tile in trace.tiles[writes].tolist()})
    holds = formed == total and distinct == steps.size and apart == writes.size == outputs and not early
    says = (
        f"{formed} of {total} products formed, {writes.size} of {outputs} tiles of C written, "
        f"{early} before they were complete"
    )
    return Check("each product once", holds, says)


def check_bytes(trace: PipelineTrace) -> Check:
    """Compare the bytes moved with those that loop order and reuse ask for."""
    m_tiles, k_tiles, n_tiles = trace.grid
    once = Matmul(trace.m, trace.k, trace.n, trace.dtype)
    bits = int(8 * BYTES[trace.dtype])
    # With the whole of k in one tile, a row's A stays; with the whole of B in one tile, B stays.
    again_a = n_tiles if k_tiles > 1 else 1
    again_b = m_tiles if k_tiles * n_tiles > 1 else 1
    least = (again_a * trace.m * trace.k + again_b * trace.k * trace.n) * bits / 8
    slack = np.count_nonzero(trace.kind < MULTIPLY)  # elements of less than a byte round up, tile by tile
    holds = least <= trace.bytes_in <= least + (slack if bits < 8 else 0)
    written = -(-trace.m * trace.n * int(8 * BYTES[once.result_dtype]) // 8)
    says = f"{trace.bytes_in} B in, by reuse {int(least)}; {trace.bytes_out} B out, C once is {written}"
    return Check("bytes", bool(holds and trace.bytes_out == written), says)


def check_vmem(trace: PipelineTrace) -> Check:
    """Require that VMEM never holds more than it can, and is empty in the end."""
    levels = trace.occupancy()[1].tolist()
    most, end = max(levels), levels[-1]
    says = f"at most {most} of {trace.vmem_bytes} B in use, {end} B at the end"
    return Check("VMEM", min(levels) >= 0 and most <= trace.vmem_bytes and end == 0, says)
