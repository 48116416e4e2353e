"""Rows compared: means with intervals, the Pareto front of a load, ratios to the best."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import geometric_mean, mean, stdev

from benchmarks.leaderboard.rows import BoardRow
from dovetail.experiments.pareto import on_front

# Student's t for 95 %, two-sided, by degrees of freedom
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


def values(row: BoardRow, key: str) -> list[float]:
    return [run[key] for run in row.runs if key in run]


def middle(row: BoardRow, key: str) -> float | None:
    found = values(row, key)
    return mean(found) if found else None


def half_width(row: BoardRow, key: str) -> float:
    """Of the 95 % interval of the mean over seeds; 0 for a single run."""
    found = values(row, key)
    if len(found) < 2:
        return 0.0
    t = _T[len(found) - 2] if len(found) - 2 < len(_T) else 1.96
    return t * stdev(found) / sqrt(len(found))


def complete(rows: Sequence[BoardRow]) -> list[BoardRow]:
    """Those of one load whose figures are of all jobs that any policy finishes, on all seeds."""
    whole = [row for row in rows if row.runs and not row.reason]
    most = max((sum(values(row, "finished")) / len(row.runs) for row in whole), default=0.0)
    return [row for row in whole if mean(values(row, "finished")) >= most]


def front(rows: Sequence[BoardRow]) -> set[str]:
    """Policies of one load that nobody beats: as good in all of mean completion, fairness, deadlines
    kept and energy, and better in one."""
    known = complete(rows)
    points = [_point(row) for row in known]
    return {row.policy for row, is_on in zip(known, on_front(points), strict=True) if is_on}


def _point(row: BoardRow) -> tuple[float, ...]:
    less, more = ("mean_jct_s", "energy_kwh"), ("fairness", "on_time")
    return (
        *(middle(row, key) or 0.0 for key in less),
        *(-(middle(row, key) or 0.0) for key in more),
    )


def ratios(rows: Sequence[BoardRow]) -> dict[str, float]:
    """By policy: its mean completion time over that of the best, on one load."""
    means = {row.policy: middle(row, "mean_jct_s") or 0.0 for row in complete(rows)}
    best = min(means.values(), default=0.0)
    return {policy: value / best for policy, value in means.items()} if best else {}


def overall(found: Sequence[float | None]) -> float | None:
    """The geometric mean over loads; None if one is lacking."""
    there = [ratio for ratio in found if ratio is not None]
    return geometric_mean(there) if there and len(there) == len(found) else None
