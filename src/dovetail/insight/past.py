"""The history of a job: columns computed from jobs that had ended when it was submitted."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappop, heappush
from math import log1p, nan

import numpy as np

RECENT, GAP = "recent past", "since the last"
_WEIGHT = 0.2  # of the newest; a mean over everything would mark the date, not the job


def past_of(
    keys: np.ndarray, submitted: np.ndarray, duration: np.ndarray
) -> Mapping[str, np.ndarray]:
    """Over jobs with the same key: the mean log duration of those that ended before, the newest
    weighing most, and the log of the time since the last submission. NaN: none yet."""
    recent: dict[float, float] = {}
    last: dict[float, float] = {}
    recent_of, gap_of = [], []
    running: list[tuple[float, float, float]] = []
    rows = zip(keys.tolist(), submitted.tolist(), duration.tolist(), strict=True)
    for key, at, seconds in rows:
        while running and running[0][0] <= at:
            _, whose, length = heappop(running)
            recent[whose] = (1 - _WEIGHT) * recent.get(whose, length) + _WEIGHT * length
        recent_of.append(recent.get(key, nan))
        gap_of.append(log1p(at - last[key]) if key in last else nan)
        last[key] = at
        heappush(running, (at + seconds, key, log1p(seconds)))
    return {RECENT: np.array(recent_of), GAP: np.array(gap_of)}
