"""Which of its eligible warps a scheduler issues: the whole difference between the policies.

A scheduler's own warps are bits of a number, the warp preferred on equal terms lowest. `eligible` has the
bits of those that could issue and is never 0; `favoured` the bits of those that go before all others. What
is issued is the lowest bit that is favoured, or the lowest of all; `follow` then says who is favoured next.
"""

from __future__ import annotations

from dataclasses import dataclass

# Warps a scheduler of `two_level` holds in its active pool, as in Accel-Sim's `two_level_active:6:0:1`.
ACTIVE_WARPS = 6


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy as numbers, so that the loop over cycles has one form for all of them.

    Parameters
    ----------
    follow : int
        The bit just issued times this is favoured next: -2 makes it every bit above (round robin), 1 the
        same bit (greedy), 0 none.
    youngest_first : bool
        The youngest warp has the lowest bit, not the oldest.
    pools : bool
        Only warps of an active pool can be issued (`two_level`).
    """

    follow: int
    youngest_first: bool = False
    pools: bool = False


POLICIES: dict[str, Policy] = {
    "lrr": Policy(follow=-2),
    "gto": Policy(follow=1),
    "gty": Policy(follow=1, youngest_first=True),
    "oldest": Policy(follow=0),
    "two_level": Policy(follow=-2, pools=True),
}

POLICY_NAMES = {
    "lrr": "loose round robin",
    "gto": "greedy then oldest",
    "gty": "greedy then youngest",
    "oldest": "oldest first",
    "two_level": "two levels, round robin",
}
