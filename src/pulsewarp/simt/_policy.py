"""Which of its eligible warps a scheduler issues: the whole difference between the policies.

A scheduler's own warps are numbered 0, 1, 2, ... from the oldest (the lowest warp id). `eligible` has
one bit for each of them and is never 0; `last` is the one it issued last, -1 before the first.
"""

from __future__ import annotations

from collections.abc import Callable


def oldest(eligible: int, last: int) -> int:
    """Return the oldest eligible warp."""
    return (eligible & -eligible).bit_length() - 1


def youngest(eligible: int, last: int) -> int:
    """Return the youngest eligible warp."""
    return eligible.bit_length() - 1


def loose_round_robin(eligible: int, last: int) -> int:
    """Return the first eligible warp after the last issued one, going round."""
    after = eligible >> (last + 1) << (last + 1)
    first = after or eligible
    return (first & -first).bit_length() - 1


def greedy_then_oldest(eligible: int, last: int) -> int:
    """Return the last issued warp if it is eligible, else the oldest."""
    if last >= 0 and eligible >> last & 1:
        return last
    return (eligible & -eligible).bit_length() - 1


def greedy_then_youngest(eligible: int, last: int) -> int:
    """Return the last issued warp if it is eligible, else the youngest."""
    if last >= 0 and eligible >> last & 1:
        return last
    return eligible.bit_length() - 1


Policy = Callable[[int, int], int]

POLICIES: dict[str, Policy] = {
    "lrr": loose_round_robin,
    "gto": greedy_then_oldest,
    "gty": greedy_then_youngest,
    "oldest": oldest,
}

POLICY_NAMES = {
    "lrr": "loose round robin",
    "gto": "greedy then oldest",
    "gty": "greedy then youngest",
    "oldest": "oldest first",
}
