"""Two sets of measurements side by side: which rows match, how their times relate, what else differs."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp._checks import instance, names_keywords, several
from pulsewarp._text import counted
from pulsewarp.bench.measurement import Timed, with_prefix

RESAMPLES, COVERAGE, SEED, FEWEST = 2000, 0.95, 0, 5
"""How the interval of a ratio is made, see `compare`."""


@dataclass(frozen=True)
class ComparedRow:
    """The same work, timed in both sets by the same clock.

    Parameters
    ----------
    first, second : Timed
        The two measurements.
    ratio : float
        Median time of the second over that of the first; above 1 the second was slower.
    low, high : float or None
        Interval of the ratio from the repeats of both; None where one has fewer than 5 repeats.
    differences : tuple of str
        What differs besides the time and is not the same for all rows: precision, asked for and found.
    precision : str
        The precision of both, where the comparison has the same work in several; empty elsewhere.
    """

    first: Timed
    second: Timed
    ratio: float
    low: float | None
    high: float | None
    differences: tuple[str, ...] = ()
    precision: str = ""

    @property
    def verdict(self) -> str:
        """``"faster"``, ``"slower"``, ``"no difference seen"`` or ``"too few repeats"``, of the second."""
        if self.low is None or self.high is None:
            return "too few repeats"
        if self.low <= 1 <= self.high:
            return "no difference seen"
        return "slower" if self.ratio > 1 else "faster"

    @property
    def title(self) -> str:
        """The work and the clock in a few words, unlike those of every other row."""
        at = f" at {self.precision}" if self.precision else ""
        return f"{self.first.title}{at}, {self.first.clock} clock"


@dataclass(frozen=True, repr=False)
class Comparison:
    """What two sets of measurements have in common, and what they have not.

    Parameters
    ----------
    rows : tuple of ComparedRow
        Work that both have, in the order of the first.
    only_first, only_second : tuple of Timed
        Work that one of them has.
    differences : tuple of str
        Sentences on what differs for all rows: devices, versions, and what stood against comparing.
    names : (str, str)
        What the sets are called.
    """

    rows: tuple[ComparedRow, ...]
    only_first: tuple[Timed, ...]
    only_second: tuple[Timed, ...]
    differences: tuple[str, ...]
    names: tuple[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as what JSON holds."""
        return {
            "form": "pulsewarp-comparison/1",
            "names": list(self.names),
            "rows": [_row_to_dict(row) for row in self.rows],
            "only_first": [_in_words(run) for run in self.only_first],
            "only_second": [_in_words(run) for run in self.only_second],
            "differences": list(self.differences),
            "interval": {
                "coverage": COVERAGE,
                "resamples": RESAMPLES,
                "seed": SEED,
                "fewest_repeats": FEWEST,
            },
        }

    def __repr__(self) -> str:
        first, second = self.names
        lines = [f"{second} against {first}: {counted(len(self.rows), 'row')} in both", *_table(self)]
        for name, runs in zip(self.names, (self.only_first, self.only_second), strict=True):
            lines += [f"Only in {name}: {_in_words(run)}." for run in runs]
        if self.rows:
            lines += textwrap.wrap(
                f"Ratio: median time of {second} over {first}; in brackets {COVERAGE:.0%} of {RESAMPLES} "
                "draws from the repeats of both, which says how steady each run was, not how one day differs "
                "from the next.",
                100,  # as wide as a page without scrolling
            )
        return "\n".join([*lines, *self.differences])


@names_keywords
def compare(
    first: Iterable[Timed], second: Iterable[Timed], *, names: tuple[str, str] = ("the first", "the second")
) -> Comparison:
    """Match the rows of two sets of measurements and compare their times.

    Rows match when work, clock and asked precision are the same; what is left matches where only the
    precision differs and nothing else could be meant, and the row says so. A time by the call clock is never
    compared with one by the device clock. Of several measurements of one thing in a set the last is taken.

    The interval of a ratio is a percentile bootstrap: repeats of both are drawn with replacement 2000 times
    (seed 0) and the ratio of the medians is taken each time; the middle 95 % are kept. Not modelled: what is
    the same within each run and differs between runs, such as temperature, other programs and where memory
    lies; two runs of the same machine may lie outside the interval.

    Parameters
    ----------
    first, second : iterable of Timed
        The sets, such as what `bench.load` returns; the first is what the second is held against.
    names : (str, str)
        What to call them.

    Returns
    -------
    Comparison

    Raises
    ------
    ValueError
        When a set is empty.
    TypeError
        When an item is no measurement.

    Notes
    -----
    The bootstrap is B. Efron's (1979); K. Singh and M. Xie, "Bootstrap: A Statistical Method", Rutgers
    University, docslib.org/doc/5706056, read 2026-12-01, explain it.

    Examples
    --------
    >>> from pulsewarp import bench
    >>> run = bench.recorded()[0]
    >>> same = compare([run], [run])
    >>> same.rows[0].ratio, same.rows[0].verdict
    (1.0, 'no difference seen')
    """
    sets = [_checked(name, runs) for name, runs in zip(("first", "second"), (first, second), strict=True)]
    names = (str(names[0]), str(names[1]))
    latest = [{_key(run): run for run in runs} for runs in sets]
    sentences = [
        f"{name} has {counted(len(runs) - len(kept), 'row')} measured again later; the last one counts."
        for name, runs, kept in zip(names, sets, latest, strict=True)
        if len(kept) < len(runs)
    ]
    pairs = [(run, latest[1][key]) for key, run in latest[0].items() if key in latest[1]]
    left = [
        [run for key, run in mine.items() if key not in other]
        for mine, other in ((latest[0], latest[1]), (latest[1], latest[0]))
    ]
    pairs += _same_but_for_precision(*left)
    matched = {id(run) for pair in pairs for run in pair}
    only = [tuple(run for run in runs if id(run) not in matched) for runs in left]
    order = {id(run): i for i, run in enumerate(sets[0])}
    pairs.sort(key=lambda pair: order[id(pair[0])])
    return Comparison(
        rows=_told_apart([_compared(*pair) for pair in pairs]),
        only_first=only[0],
        only_second=only[1],
        differences=(*sentences, *_clocks(only, names), *_differences(pairs, names)),
        names=names,
    )


def _checked(name: str, runs: Iterable[Timed]) -> tuple[Timed, ...]:
    remedy = "pass what bench.load or bench.sweep returned"
    listed = several(name, runs, remedy)
    if not listed:
        raise ValueError(f"{name} is empty, but a comparison needs at least one measurement on each side.")
    # Timed is abstract, which mypy minds and isinstance does not.
    return tuple(instance("A measurement", each, Timed, remedy) for each in listed)  # type: ignore[type-abstract]


def _work(run: Timed) -> tuple[str, str, str]:
    return run.kind, run.title, run.clock


def _key(run: Timed) -> tuple[str, ...]:
    return *_work(run), str(getattr(run, "precision", ""))


def _same_but_for_precision(first: Sequence[Timed], second: Sequence[Timed]) -> list[tuple[Timed, Timed]]:
    """Pairs of the same work of which each side has just one left, whatever its precision."""
    pairs = []
    for run in first:
        mine, theirs = ([each for each in runs if _work(each) == _work(run)] for runs in (first, second))
        if len(mine) == len(theirs) == 1:
            pairs.append((run, theirs[0]))
    return pairs


def _compared(first: Timed, second: Timed) -> ComparedRow:
    low, high = _interval(first.seconds, second.seconds)
    differences = tuple(
        f"{words} {getattr(first, name)} against {getattr(second, name)}"
        for name, words in (("precision", "precision"), ("precision_in_program", "precision in the program"))
        if getattr(first, name, None) != getattr(second, name, None)
    )
    return ComparedRow(first, second, second.median / first.median, low, high, differences)


def _told_apart(rows: Sequence[ComparedRow]) -> tuple[ComparedRow, ...]:
    """Give those rows their precision that are alike without it."""
    times = Counter(row.title for row in rows)
    return tuple(
        replace(row, precision=getattr(row.first, "precision", "")) if times[row.title] > 1 else row
        for row in rows
    )


def _interval(first: Sequence[float], second: Sequence[float]) -> tuple[float | None, float | None]:
    """Return the ends of the middle of the ratios of medians, of repeats drawn with replacement."""
    if min(len(first), len(second)) < FEWEST:
        return None, None
    random = np.random.default_rng(SEED)
    ratios = 1 / _medians(random, first) * _medians(random, second)
    low, high = np.quantile(ratios, ((1 - COVERAGE) / 2, (1 + COVERAGE) / 2))
    return float(low), float(high)


def _medians(random: np.random.Generator, seconds: Sequence[float]) -> NDArray[np.float64]:
    values = np.asarray(seconds)
    at_once = max(1, 1_000_000 // len(values))  # 8 MB, however many repeats were kept
    parts = [
        np.median(random.choice(values, (min(at_once, RESAMPLES - start), len(values))), axis=1)
        for start in range(0, RESAMPLES, at_once)
    ]
    return np.concatenate(parts)


def _clocks(only: Sequence[Sequence[Timed]], names: tuple[str, str]) -> list[str]:
    """Sentences on work that both have, by different clocks."""
    clocks = [{(run.kind, run.title): run.clock for run in runs} for runs in only]
    return [
        f"{title} was timed by the {clock} clock in {names[0]} and by the {clocks[1][kind, title]} clock in "
        f"{names[1]}: not compared."
        for (kind, title), clock in clocks[0].items()
        if clocks[1].get((kind, title), clock) != clock
    ]


_DEVICE_WORDS = {
    "platform": "Platform",
    "kind": "Device",
    "chip": "Chip of the catalogue",
    "devices_per_chip": "Devices a chip",
    "cpu_model": "Processor of the host",
    "cores": "Cores of the host",
}


def _differences(pairs: Sequence[tuple[Timed, Timed]], names: tuple[str, str]) -> list[str]:
    """Sentences on devices and versions that differ between matched rows, each once."""
    found: dict[str, None] = {}
    for first, second in pairs:
        for name, words in _DEVICE_WORDS.items():
            mine, theirs = (str(getattr(run.device, name)) for run in (first, second))
            if mine != theirs:
                found[_contrast(words, names, mine, theirs)] = None
        for package in sorted({*first.versions, *second.versions}):
            mine, theirs = first.versions.get(package, "none"), second.versions.get(package, "none")
            if mine != theirs:
                found[_contrast(package, names, mine, theirs)] = None
    return list(found)


def _contrast(what: str, names: tuple[str, str], first: str, second: str) -> str:
    return f"{what}: {first} in {names[0]}, {second} in {names[1]}."


def _in_words(run: Timed) -> str:
    precision = getattr(run, "precision", None)
    at = f", precision {precision}" if precision else ""
    return f"{run.title}, {run.clock} clock{at}"


def _row_to_dict(row: ComparedRow) -> dict[str, Any]:
    return {
        "kind": row.first.kind,
        "title": row.first.title,
        "clock": row.first.clock,
        "precisions": [getattr(run, "precision", None) for run in (row.first, row.second)],
        "first_median_seconds": row.first.median,
        "second_median_seconds": row.second.median,
        "ratio": row.ratio,
        "low": row.low,
        "high": row.high,
        "verdict": row.verdict,
        "differences": list(row.differences),
    }


def _table(comparison: Comparison) -> list[str]:
    """Return the rows as text, columns aligned."""
    if not comparison.rows:
        return []
    head = ("work", comparison.names[0], comparison.names[1], "ratio", "", "")
    cells = [head, *(_cells(row) for row in comparison.rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(head))]
    return [
        "  " + "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    ]


def _cells(row: ComparedRow) -> tuple[str, ...]:
    first, second = (with_prefix(run.median, "s") for run in (row.first, row.second))
    between = "" if row.low is None or row.high is None else f"[{row.low:.3g}, {row.high:.3g}]"
    words = "; ".join((row.verdict, *row.differences))
    return row.title, first, second, f"{row.ratio:.3g}", between, words
