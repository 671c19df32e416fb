"""The fault player: a sound and a broken machine on one clock, and a faulty cell to be found from outside."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp import _checks
from pulsewarp._arrays import equal_values
from pulsewarp.systolic import FAULTS, REGISTERS, SystolicTrace, suspects
from pulsewarp.widgets._player import Player, first_frame
from pulsewarp.widgets.systolic import (
    MOST_CELL_CYCLES,
    VALUES_UP_TO,
    encode,
    one_line,
    operand_lines,
    pack_runs,
    telling_cycle,
)

#: Results are shown one by one, up to so many rows and columns of C.
MOST_RESULTS = 16

TASKS = {
    False: "step on and say, before you read the sentence, which value is wrong or in the wrong place.",
    True: "find the cell of the broken machine whose product is always 0. Which results are wrong, and by "
    "how much?",
}


class FaultPlayer(Player):
    """Play a sound and a broken machine side by side: the same product, the same clock, what differs marked.

    Shown as recorded: every register of both machines; a register that differs is marked, and so is a wrong
    result from the cycle in which it leaves. With `hide_fault` the registers of the broken machine are
    covered and the reader finds the faulty cell from its results. Nothing about time or faults is decided in
    the browser: what differs, what is wrong and which cells explain it is computed here and travels along.

    Synced traits: ``trace`` -> browser, ``options`` -> browser, ``cursor`` <-> the cycle at which the
    playhead rests, ``selected`` <-> ``[row, col]`` of the cell pointed at, ``[row, col, 1]`` once the reader
    has picked it as the faulty one, ``[row, col, 2]`` when the answer was asked for, or ``[]``; ``request``
    and ``reply`` as for every player.

    Parameters
    ----------
    sound, broken : SystolicTrace
        The same product on the same array by the same dataflow, `broken` simulated with ``fault=``.
    hide_fault : bool
        True covers the broken machine's registers and lets the reader pick a cell; for "stuck_cell" only.
    start : int, optional
        Cycle shown at first, from 0. Left out: the first cycle in which the machines differ; with
        `hide_fault` the one in which the last wrong result has left.
    rate : float, optional
        Cycles a second at first; left out: one a second, faster for long runs.
    title : str, optional
        Instead of the scene's own.
    task : str, optional
        What the reader is asked to do, instead of the scene's own.

    Raises
    ------
    ValueError
        When the traces are not of the same product, array and dataflow, `sound` has a fault or `broken` has
        none, a trace lacks its registers or has overlapping folds, the array is larger than 8 x 8 or the
        result than 16 x 16; when the fault to be hidden is not in one cell.

    Examples
    --------
    >>> from pulsewarp import systolic
    >>> a, b = [[1, 2], [3, 4]], [[5, 6], [7, 8]]
    >>> sound = systolic.simulate(a, b, rows=2, cols=2)
    >>> broken = systolic.simulate(a, b, rows=2, cols=2, fault=systolic.Fault("no_skew"))
    >>> FaultPlayer(sound, broken)
    FaultPlayer(no_skew, ws, 2x2 cells, 6 cycles)
    """

    _scene = "fault.js"

    @_checks.names_keywords
    def __init__(
        self,
        sound: SystolicTrace,
        broken: SystolicTrace,
        *,
        hide_fault: bool = False,
        start: int | None = None,
        rate: float | None = None,
        title: str | None = None,
        task: str | None = None,
    ) -> None:
        header, shared = compare_runs(sound, broken, hide_fault=hide_fault)
        cycles = header["cycles"]
        cursor, poster = first_frame(start, header["poster"], cycles)
        self._repr = (
            f"FaultPlayer({'hidden fault' if hide_fault else header['fault']['kind']}, {sound.dataflow}, "
            f"{sound.rows}x{sound.cols} cells, {cycles} cycles)"
        )
        super().__init__(
            pack_runs("fault", header, {"sound": sound, "broken": broken}, shared),
            cycles=cycles,
            cursor=cursor,
            options={
                "poster": poster,
                "rate": None if rate is None else _checks.positive_number("rate", rate),
                "title": title,
            },
            task=TASKS[hide_fault] if task is None else task,
            # Checks of the broken machine would tell where it is broken.
            shows={"sound": sound} if hide_fault else {"sound": sound, "broken": broken},
        )

    @property
    def picked(self) -> tuple[int, int] | None:
        """The cell the reader has picked as the faulty one, or None."""
        return (self.selected[0], self.selected[1]) if self.selected[2:] == [1] else None

    def __repr__(self) -> str:
        return self._repr


def compare_runs(
    sound: SystolicTrace, broken: SystolicTrace, *, hide_fault: bool
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return what the scene knows of two runs beside their registers: header and columns.

    Columns: "differ" (T, R, C), one bit for each register that differs (1, 2, 4 in the order of `REGISTERS`)
    and 8 where only one cell multiplies; "wrong" (m, n), results that differ; "told" (m, n), the cycle in
    which the broken machine's result leaves, or should have left; "differing", "wrong_so_far" (T).
    """
    found = suspects(sound, broken)  # refuses what does not belong together
    _refuse(sound, broken, hide_fault)
    fault = broken.fault
    assert fault is not None  # refused before
    cycles = max(sound.cycles, broken.cycles)
    differ = compare_registers(sound, broken)
    wrong = np.zeros(sound.result.shape, bool)
    wrong[tuple(np.array(found.wrong, int).reshape(-1, 2).T)] = True
    due, told = (encode(run)[1]["final"] for run in (sound, broken))
    told = np.where(told < 0, due, told)
    so_far = np.array([np.count_nonzero(wrong & (told <= t)) for t in range(cycles)])
    registers = sum(((differ >> bit) & 1).sum(axis=(1, 2), dtype=np.int64) for bit in range(len(REGISTERS)))
    first = int(np.argmax(differ.any(axis=(1, 2)))) if differ.any() else -1
    first_wrong = int(told[wrong].min()) if wrong.any() else -1
    if hide_fault:
        poster = int(told[wrong].max()) if wrong.any() else cycles - 1
    else:
        poster = min((t for t in (first, first_wrong) if t >= 0), default=telling_cycle(sound))
    every_cell = [(r, c) for r in range(sound.rows) for c in range(sound.cols)]
    puzzle = {
        "near": found.clues[0].cells,
        "fits": found.cells,
        "clues": [clue.says for clue in found.clues],
        "verdicts": [found.verdict(r, c) for r, c in every_cell],
    }
    header = {
        "cycles": cycles,
        "fault": {"kind": fault.kind, "says": FAULTS[fault.kind], "row": fault.row, "col": fault.col},
        "hidden": hide_fault,
        "first": first,
        "first_wrong": first_wrong,
        "poster": poster,
        "puzzle": puzzle if hide_fault else None,
        "python": _python(sound, broken, hide_fault),
    }
    shared = {
        "differ": differ,
        "wrong": wrong,
        "told": told,
        "differing": np.asarray(registers),
        "wrong_so_far": so_far,
    }
    return header, shared


def compare_registers(sound: SystolicTrace, broken: SystolicTrace) -> NDArray[np.uint8]:
    """Return which registers of two runs differ in each cycle and cell; see `compare_runs`.

    A register differs when it holds another element or another value, be it one that belongs to no element.
    A machine that has ended holds nothing.
    """
    cycles, shape = max(sound.cycles, broken.cycles), (sound.rows, sound.cols)
    differ = np.zeros((cycles, *shape), np.uint8)

    def lengthened(values: NDArray[Any], empty: int) -> NDArray[Any]:
        after = np.full((cycles - len(values), *shape), empty, values.dtype)
        return np.concatenate([values, after])

    for bit, name in enumerate(REGISTERS):
        index = [lengthened(getattr(run, f"{name}_index"), -1) for run in (sound, broken)]
        value = [lengthened(getattr(run, name), 0) for run in (sound, broken)]
        differ |= ((index[0] != index[1]) | ~equal_values(*value)).astype(np.uint8) << np.uint8(bit)
    active = [lengthened(run.active, 0) for run in (sound, broken)]
    differ |= (active[0] != active[1]).astype(np.uint8) << np.uint8(len(REGISTERS))
    return differ


def _refuse(sound: SystolicTrace, broken: SystolicTrace, hide_fault: bool) -> None:
    """Refuse what the scene cannot show."""
    _checks.instance("hide_fault", hide_fault, bool, "write True to let the reader find it, or False")
    if broken.fault is None:
        raise ValueError(
            "broken has no fault; simulate it with fault=, such as fault=systolic.Fault('no_skew')."
        )
    if hide_fault and broken.fault.kind != "stuck_cell":
        raise ValueError(
            f"hide_fault needs a fault in one cell, but broken has {broken.fault.kind!r}; "
            f"use fault=systolic.Fault('stuck_cell', row=..., col=...)."
        )
    if sound.overlap or broken.overlap:
        raise ValueError(
            "A trace has overlapping folds, whose shadow registers are not compared here; simulate both with "
            "overlap=False."
        )
    if not (sound.has_registers and broken.has_registers):
        raise ValueError("A trace does not keep its registers; simulate both with trace=True.")
    if max(sound.rows, sound.cols) > VALUES_UP_TO:
        raise ValueError(
            f"The array has {sound.rows} x {sound.cols} cells, but values are shown for at most "
            f"{VALUES_UP_TO} x {VALUES_UP_TO}; use a smaller array."
        )
    if max(sound.m, sound.n) > MOST_RESULTS:
        raise ValueError(
            f"The result is {sound.m} x {sound.n}, but results are shown one by one for at most "
            f"{MOST_RESULTS} x {MOST_RESULTS}; use a smaller product."
        )
    if sound.cycles * sound.rows * sound.cols > MOST_CELL_CYCLES:
        raise ValueError(
            f"The run has {sound.cycles} cycles of {sound.rows} x {sound.cols} cells, above the limit of "
            f"{MOST_CELL_CYCLES} cell-cycles whose registers travel; use a smaller product."
        )


def _python(sound: SystolicTrace, broken: SystolicTrace, hide_fault: bool) -> str:
    """Return one line of Python that makes both runs again; a hidden fault's cell is the reader's guess."""
    fault = broken.fault
    assert fault is not None  # refused before
    lines = operand_lines(sound.a, sound.b)
    size = f"a, b, rows={sound.rows}, cols={sound.cols}, dataflow={sound.dataflow!r}"
    place = "row=0, col=0" if hide_fault else f"row={fault.row}, col={fault.col}"
    kind = f"{fault.kind!r}, {place}" if fault.row is not None else f"{fault.kind!r}"
    lines += [
        f"sound = systolic.simulate({size})",
        f"broken = systolic.simulate({size}, fault=systolic.Fault({kind}))",
    ]
    if hide_fault:
        lines.append("# row and col are your guess; the results of the right cell are those of the scene")
    return one_line(lines, "broken.result" if hide_fault else "widgets.FaultPlayer(sound, broken)")
