"""How the users, tenants, … of a run have fared, as a table for terminals."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.results.job_table import grouped
from dovetail.results.record import RunRecord
from dovetail.text.durations import in_unit, unit_of
from dovetail.text.tables import figures_table

_TITLES = ("jobs", "done", "mean JCT", "wait", "slow-down", "fairness", "GPU-hours")


def group_tables(runs: Sequence[RunRecord], column: str) -> list[str]:
    """One for each policy. Slow-down: the time in the system by the time at work; fairness: by the time
    that a fair part of the cluster would have taken, above 1 worse off."""
    lines: list[str] = []
    for run in runs:
        rows = grouped(run, column)
        jct = _times([row["mean_jct_s"] for row in rows])
        wait = _times([row["mean_wait_s"] for row in rows])
        cells = [[f"{run.policy}, by {column}", *_TITLES]]
        for row, took, waited in zip(rows, jct, wait, strict=True):
            counts = [str(row["jobs"]), str(row["finished"]), took, waited]
            parts = [f"{row[name]:.2f}" for name in ("mean_slowdown", "mean_fairness")]
            cells.append([str(row[column]) or "-", *counts, *parts, f"{row['gpu_hours']:,.1f}"])
        lines += ["", *figures_table(cells)]
    return lines


def _times(seconds: Sequence[float]) -> list[str]:
    """In the unit of the longest: some groups may not have waited at all."""
    unit = unit_of(max(seconds, default=0.0))
    return [in_unit(own, unit) for own in seconds]
