"""The access player: one warp's request taken apart, 32 lanes to sectors or 32 lanes to banks."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pulsewarp import _checks
from pulsewarp.simt import Access, BankAccess
from pulsewarp.widgets import _source
from pulsewarp.widgets._player import FUTURES, HidingPlayer, first_frame
from pulsewarp.widgets._wire import pack

#: So many requests can stand one after the other; each is a chapter and a row of the panel.
MOST_REQUESTS = 8
#: Addresses cross as numbers of the browser, exact up to here.
MOST_ADDRESS = 2**53
#: A name stands as a chapter and in a panel.
MOST_LETTERS = 40

Requests = Access | BankAccess | Mapping[str, Access] | Mapping[str, BankAccess]

_TASKS = {
    "sectors": "before you step through a request, say which lanes share a sector; then step, and check.",
    "banks": "before you step through a request, say which lanes want the same bank; then step, and check.",
}


class AccessPlayer(HidingPlayer):
    """Play what one warp's request costs: 32 lanes to 32-byte sectors, or 32 lanes to 32 banks.

    Shown as counted by `simt.sectors` or `simt.wavefronts`: a frame is one sector moved or one wavefront
    served, and the first frame of each request shows what its lanes ask for. Nothing is counted in the
    browser. A frame is no cycle, and the order of sectors is not documented: they come in ascending order.

    Synced traits, beside those of every player: ``selected`` <-> ``[lane]``, or ``[]``.

    Parameters
    ----------
    requests : Access or BankAccess, or a mapping of names to them
        One request, or up to 8 by name, all of one kind, played one after the other.
    start : int, optional
        Frame shown at first, from 0. Left out: one of the first request that wastes bytes or has a bank
        conflict (the last frame, if none does), from which "play" goes back to frame 0.
    rate : float
        Frames a second at first.
    future : str
        What is shown of later requests: ``"dimmed"`` (all counts) or ``"hidden"`` until a prediction is made.
    title : str, optional
        Instead of the scene's own.
    task : str, optional
        What the reader is asked to do; left out, the scene's own task.

    Raises
    ------
    TypeError
        When a request is none, or sectors and banks are mixed.
    ValueError
        Without a request or with more than 8, for a name that is empty or long, for an address that is no
        multiple of the bytes a lane asks for (a GPU ends such a kernel) or beyond 2**53, and when `start`
        lies outside the run.

    Examples
    --------
    >>> from pulsewarp import simt
    >>> AccessPlayer({f"stride {n}": simt.sectors(simt.pattern(f"{4 * n} * lane"), 4) for n in (1, 2, 8)})
    AccessPlayer(sectors, 3 requests of 4, 8, 32, 47 steps)
    >>> AccessPlayer(simt.wavefronts(simt.pattern("128 * lane"), 4))
    AccessPlayer(banks, 1 request of 32 wavefronts, 33 steps)
    """

    _scene = "access.js"

    @_checks.names_keywords
    def __init__(
        self,
        requests: Requests,
        *,
        start: int | None = None,
        rate: float = 1,
        future: str = "dimmed",
        title: str | None = None,
        task: str | None = None,
    ) -> None:
        self._shown = run = _read(requests)
        self._own_task = task is None
        cursor, poster = first_frame(start, run.poster, run.steps)
        super().__init__(
            run.pack(),
            cycles=run.steps,
            cursor=cursor,
            options={
                "poster": poster,
                "rate": _checks.positive_number("rate", rate),
                "future": _checks.choice("future", future, FUTURES),
                "title": title,
            },
            task=_TASKS[run.mode] if task is None else task,
            shows=run.requests,
        )

    def show(self, requests: Requests) -> None:
        """Replace the requests in every view, for instance by one whose pattern the reader typed."""
        run = _read(requests)
        self._shown = run
        with self.hold_sync():
            self.replace(run.pack(), cycles=run.steps, cursor=run.poster, shows=run.requests)
            if self._own_task:
                self.options = {**self.options, "task": _TASKS[run.mode]}

    def __repr__(self) -> str:
        run = self._shown
        unit = "sectors" if run.mode == "sectors" else "wavefronts"
        several = len(run.requests) > 1
        counts = ", ".join(str(len(served)) for served in run.served)
        return (
            f"AccessPlayer({run.mode}, {len(run.requests)} request{'s' * several} of {counts}"
            f"{'' if several else f' {unit}'}, {run.steps} steps)"
        )


@dataclass(frozen=True)
class _Run:
    """The requests of one scene, by name, and when each is played."""

    requests: Mapping[str, Access | BankAccess]

    @property
    def mode(self) -> str:
        return "banks" if isinstance(next(iter(self.requests.values())), BankAccess) else "sectors"

    @property
    def served(self) -> list[Sequence[Any]]:
        """What each request is taken apart into, one part a frame."""
        return [
            one.served if isinstance(one, BankAccess) else one.sector_addresses
            for one in self.requests.values()
        ]

    @property
    def firsts(self) -> list[int]:
        """The first frame of each request, in which nothing is served yet."""
        return [0, *np.cumsum([1 + len(served) for served in self.served])[:-1].tolist()]

    @property
    def steps(self) -> int:
        return sum(1 + len(served) for served in self.served)

    @property
    def poster(self) -> int:
        """A frame of the first request that wastes bytes or has a conflict; without one, the last frame."""
        costly = [
            bool(one.conflicts) if isinstance(one, BankAccess) else (one.efficiency or 1) < 1
            for one in self.requests.values()
        ]
        i = costly.index(True) if True in costly else len(costly) - 1
        if self.mode == "banks" and costly[i]:  # half-way: what waits is the point
            return self.firsts[i] + (1 + len(self.served[i])) // 2
        return self.firsts[i] + len(self.served[i])

    def pack(self) -> str:
        header: dict[str, Any] = {
            "mode": self.mode,
            "steps": self.steps,
            "python": self._python(),
            "requests": [
                {"name": name, "first": first, "bytes": one.element_bytes, "lanes": one.active_lanes}
                | (_bank_counts(one) if isinstance(one, BankAccess) else _sector_counts(one))
                for (name, one), first in zip(self.requests.items(), self.firsts, strict=True)
            ],
        }
        asked = np.array(
            [
                [
                    -1 if at is None else at
                    for at in (one.offsets if isinstance(one, BankAccess) else one.addresses)
                ]
                for one in self.requests.values()
            ],
            np.int64,
        )
        columns = {
            "asked": asked,
            **(_bank_columns if self.mode == "banks" else _sector_columns)(self.requests),
        }
        return pack("access", header, columns)

    def _python(self) -> str:
        """Return code that makes the scene again, with the addresses themselves."""
        call = "wavefronts" if self.mode == "banks" else "sectors"
        lines = []
        for name, one in self.requests.items():
            given = one.offsets if isinstance(one, BankAccess) else one.addresses
            lines += _source.broken(f"    {name!r}: simt.{call}({_addresses(given)}, {one.element_bytes}),")
        head = ["from pulsewarp import simt, widgets", "widgets.AccessPlayer({"]
        return "\n".join([*head, *lines, "})"])


def _addresses(given: Sequence[int | None]) -> str:
    """Return 32 addresses as code: equal steps as a range, else a list in which repeats are written once."""
    whole = [at for at in given if at is not None]
    steps = {after - at for at, after in itertools.pairwise(whole)}
    if len(whole) == len(given) and len(steps) == 1 and (step := steps.pop()):
        return f"range({whole[0]}, {whole[0] + step * len(whole)}, {step})"
    return _source.total([str(at) for at in given])


def _sector_counts(one: Access) -> dict[str, Any]:
    return {
        "parts": one.sectors,
        "lines": one.lines,
        "requested": one.requested_bytes,
        "unique": one.unique_bytes,
        "moved": one.moved_bytes,
        "efficiency": one.efficiency,
    }


def _bank_counts(one: BankAccess) -> dict[str, Any]:
    return {
        "parts": one.wavefronts,
        "phases": one.phases,
        "ways": one.ways,
        "conflicts": one.conflicts,
        "paired": one.paired_wavefronts,
    }


def _sector_columns(requests: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row for each sector of each request, and for each lane the sector it asks for."""
    accesses: Iterable[Access] = requests.values()
    rows = [row for one in accesses for row in zip(one.sector_addresses, one.used, strict=True)]
    lanes = [[own[0] if own else -1 for own in one.lane_sectors] for one in requests.values()]
    return {
        "address": np.array([address for address, _ in rows], np.int64),
        "used": np.array([bits for _, bits in rows], np.int64),
        "useful": np.array([bits.bit_count() for _, bits in rows], np.int64),
        "sector": np.array(lanes, np.int64),
    }


def _bank_columns(requests: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row for each wavefront of each request, and one for each word it gives."""
    waves: list[tuple[int, ...]] = []
    words: list[tuple[int, ...]] = []
    accesses: Iterable[BankAccess] = requests.values()
    for one in accesses:
        for wavefront in one.served:
            mates = [other for other in one.served if other.phase == wavefront.phase]
            busiest = (
                mates[-1].words[0].bank
            )  # only a bank with the most words is still asked in the last one
            waves.append((wavefront.phase, mates.index(wavefront), len(mates), busiest, len(words)))
            for bank, word, lanes in wavefront.words:
                words.append((bank, word, sum(1 << lane for lane in lanes)))
    shape = np.array(waves, np.int64).reshape(-1, 5)
    each = np.array(words, np.int64).reshape(-1, 3)
    return {"wave": shape, "bank": each[:, 0], "word": each[:, 1], "wanted": each[:, 2]}


def _read(requests: Requests) -> _Run:
    given: Mapping[str, Any] = requests if isinstance(requests, Mapping) else {"the request": requests}
    if not 1 <= len(given) <= MOST_REQUESTS:
        raise ValueError(
            f"{len(given)} requests were given, but from 1 to {MOST_REQUESTS} can be shown; give fewer, or "
            f"one at least."
        )
    for name, one in given.items():
        if not isinstance(one, Access | BankAccess):
            raise TypeError(
                f"Request {name!r} is {type(one).__name__}, but must be counted; make it with simt.sectors "
                f"or simt.wavefronts."
            )
        if not isinstance(name, str) or not 1 <= len(name.strip()) <= MOST_LETTERS:
            raise ValueError(
                f"A request is called {name!r}, but its name must have from 1 to {MOST_LETTERS} characters; "
                f"shorten it."
            )
        asked = one.offsets if isinstance(one, BankAccess) else one.addresses
        if one.misaligned:
            lane = one.misaligned[0]
            raise ValueError(
                f"Lane {lane} of {name!r} asks for {one.element_bytes} bytes at {asked[lane]}, which is no "
                f"multiple of {one.element_bytes}, but a GPU ends a kernel that does so; change the pattern."
            )
        far = max((at for at in asked if at is not None), default=0)
        if far > MOST_ADDRESS:
            raise ValueError(
                f"{name!r} reaches address {far}, but a browser counts exactly only up to {MOST_ADDRESS}; "
                f"take an offset from all addresses."
            )
    kinds = {type(one).__name__ for one in given.values()}
    if len(kinds) > 1:
        raise TypeError("Sectors and banks are mixed, but a scene shows one kind; make two players.")
    return _Run(dict(given))
