"""Finish-time fairness, worked out by hand."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

import dovetail as dt
from dovetail.core.errors import BadInput
from dovetail.results.fairness import finish_time_fairness
from dovetail.results.record import JobOutcome


def _rows(found: Any) -> list[dict[str, Any]]:
    if isinstance(found, list):
        return found
    rows: list[dict[str, Any]] = (
        found.to_dicts() if hasattr(found, "to_dicts") else found.to_dict("records")
    )
    return rows


def row(name: str, gpus: int, submit: float, end: float, wait: float | None) -> JobOutcome:
    start = None if wait is None else submit + wait
    jct = end - submit
    return JobOutcome(name, "", "", gpus, submit, start, end, wait, jct, 0, "finished")


def test_a_job_alone_is_treated_fairly() -> None:
    assert finish_time_fairness([row("a", 2, 0.0, 10.0, 0.0)], gpus=4) == [1.0]


def test_who_waits_behind_an_equal_is_worse_off_than_with_half_of_the_cluster() -> None:
    """Two jobs ask for all GPUs for 10 s each. The first has them from 0 to 10: twice the competition
    while it works, so half as long as on its half. The second stays 20 s, with a mean of 1.5."""
    rows = [row("a", 4, 0.0, 10.0, 0.0), row("b", 4, 0.0, 20.0, 10.0)]
    assert finish_time_fairness(rows, gpus=4) == [pytest.approx(0.5), pytest.approx(20 / 15)]


def test_a_job_that_never_worked_has_none() -> None:
    assert finish_time_fairness([row("a", 1, 0.0, 5.0, None)], gpus=1) == [None]


def test_it_is_a_column_of_jobs_a_mean_of_users_and_any_column_becomes_csv(tmp_path: Path) -> None:
    run = dt.simulate(dt.generate_trace(jobs=20, gpus=4, seed=1), "1x8", "fifo")
    means: Any = run.by("user")  # a frame where pandas or polars is installed
    assert all(fair > 0 for fair in [own["mean_fairness"] for own in _rows(means)])
    path = run.csv(tmp_path / "some.csv", "job_id", "fairness")
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 20
    assert set(rows[0]) == {"job_id", "fairness"}
    with pytest.raises(BadInput, match="there is no column 'nose'; there are job_id, user"):
        run.csv(path, "nose")
