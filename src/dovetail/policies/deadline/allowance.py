"""Waiting allowance (GENIE): how long a job may wait and still be on time."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.core.model import Seconds


def waiting_allowance_s(deadline: Seconds, now: Seconds, run_s: Seconds) -> Seconds:
    """Negative: it is too late already."""
    return deadline - now - run_s


def workers(run_s: Mapping[int, Seconds], free: int, due_in_s: Seconds) -> int | None:
    """How many workers it gets of those that are free, by how long it would run on each number: the
    fewest that are on time, else the fastest. None: not even the fewest are free."""
    possible = sorted([count for count in run_s if count <= free])
    if not possible:
        return None
    for count in possible:
        if run_s[count] <= due_in_s:
            return count
    return min(possible, key=lambda count: (run_s[count], count))
