"""A study is one in the queue that people see."""

from __future__ import annotations

from typing import Any

from dovetail.cli.job_columns import as_entities


def row(job_id: str, trial: int | None = None, runs: bool = False) -> dict[str, Any]:
    placement = [{"node": 0, "gpus": [0]}] if runs else []
    group = "" if trial is None else "s1"
    return {"id": job_id, "trial": trial, "group": group, "placement": placement, "reason": ""}


def test_of_the_trials_that_wait_the_first_is_shown_and_says_how_many() -> None:
    rows = [row("1", 0, runs=True), *(row(str(n), n) for n in range(2, 60)), row("60")]
    told = as_entities(rows)
    assert [own["id"] for own in told] == ["1", "2", "60"]
    assert told[1]["reason"] == "and 57 more trials of its study"
    assert as_entities([row("1"), row("2")]) == [row("1"), row("2")]
