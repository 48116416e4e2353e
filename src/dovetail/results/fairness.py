"""Finish-time fairness (Themis, 2020): how long a job took, by what it would have taken on its fair part
of the cluster. 1 is fair; above 1 the job was worse off than with a part of its own.

The fair part is one of as many as jobs compete for the cluster: the GPUs that all present jobs ask for,
by the GPUs there are, averaged over the job's stay, and 1 at least. As in the simulator of Gavel, time
on that part is taken to grow with the competition.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from dovetail.core.model import Seconds
from dovetail.results.record import JobOutcome


def finish_time_fairness(rows: Sequence[JobOutcome], gpus: int) -> list[float | None]:
    """None for a job that never worked."""
    competition = _Competition(rows, gpus)
    found: list[float | None] = []
    for own in rows:
        at_work = own.jct_s - (own.wait_s or 0.0)
        if own.wait_s is None or at_work <= 0:
            found.append(None)
        else:
            found.append(own.jct_s / (at_work * competition.mean(own.submit_s, own.end_s)))
    return found


class _Competition:
    """Asked GPUs by those that there are, at least 1, summed over time."""

    def __init__(self, rows: Sequence[JobOutcome], gpus: int) -> None:
        changes = sorted(
            [(own.submit_s, own.gpus) for own in rows] + [(own.end_s, -own.gpus) for own in rows]
        )
        self._times: list[Seconds] = []
        self._sums: list[float] = []  # up to that time
        self._rates: list[float] = []  # from then on
        asked, total = 0, 0.0
        for at, change in changes:
            if self._times:
                total += self._rates[-1] * (at - self._times[-1])
            asked += change
            self._times.append(at)
            self._sums.append(total)
            self._rates.append(max(asked / max(gpus, 1), 1.0))

    def mean(self, since: Seconds, until: Seconds) -> float:
        return (self._upto(until) - self._upto(since)) / (until - since) if until > since else 1.0

    def _upto(self, at: Seconds) -> float:
        i = bisect_right(self._times, at) - 1
        return self._sums[i] + self._rates[i] * (at - self._times[i])
