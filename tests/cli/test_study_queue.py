"""A study is one in the queue that people see."""

from __future__ import annotations

from dovetail.api.job_row import JobRow
from dovetail.cli.jobs.job_columns import as_entities
from job_samples import a_job


def row(job_id: str, trial: int | None = None, runs: bool = False) -> JobRow:
    placement = [{"node": 0, "gpus": [0]}] if runs else []
    return a_job(id=job_id, trial=trial, group="" if trial is None else "s1", placement=placement)


def test_of_the_trials_that_wait_the_first_is_shown_and_says_how_many() -> None:
    rows = [row("1", 0, runs=True), *(row(str(n), n) for n in range(2, 60)), row("60")]
    told = as_entities(rows)
    assert [own.id for own in told] == ["1", "2", "60"]
    assert told[1].reason == "and 57 more trials of its study"
    assert as_entities([row("1"), row("2")]) == [row("1"), row("2")]
