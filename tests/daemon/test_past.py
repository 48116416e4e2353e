"""The history as a trace: how jobs ended is in it, and the simulator lets them end so again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest

from dovetail.core.model import Estimate, Job, JobId
from dovetail.core.track import Phase
from dovetail.daemon.history.as_trace import trace
from dovetail.daemon.history.usage import WantedJobs
from dovetail.models.workload import Arrival
from dovetail.store import Filter
from dovetail.testing import nodes, run_trace
from dovetail.traces import read
from dovetail.traces.writing import write_text
from live_box import ME, Box, box


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    with box(tmp_path_factory.mktemp("box"), policy="fifo-skip", slots=6) as made:
        yield made


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_failures_retries_cancellations_and_limits_are_written_and_read(
    here: Box, tmp_path: Path, form: str
) -> None:
    jobs = {
        "well": here.submit("sleep 0.2", name="well"),
        "again": here.submit(
            "sleep 0.2; test $DOVETAIL_ATTEMPT = 1", name="again", retries=3, estimate="1h"
        ),
        "never": here.submit("sleep 0.1; exit 3", name="never", retries=1),
        "late": here.submit("sleep 60", name="late", time_limit="1s", retries=2),
        "away": here.submit("sleep 60", name="away"),
    }
    here.wait_until(jobs["away"], "running")
    here.service.cancel([jobs["away"]], ME)
    here.wait(*jobs.values())
    path = tmp_path / f"jobs.{form}"
    path.write_text(trace(here.service, WantedJobs(Filter()), form))
    found = {own.job.name: own for own in read(path).arrivals}
    assert set(found) >= set(jobs)
    well, again, never, late, away = (found[name] for name in jobs)
    assert (well.failures, well.cancel_at, well.job.retries) == ((), None, 0)
    assert (len(again.failures), again.job.retries, again.job.estimate) == (1, 3, Estimate(3600.0))
    assert 0.2 <= again.failures[0] < again.failures[0] + again.work_s < 5
    assert (len(never.failures), never.job.retries) == (2, 1)
    assert never.work_s > max(never.failures)
    assert (late.job.time_limit_s, late.job.estimate, len(late.failures)) == (1.0, None, 1)
    assert 1.0 <= late.failures[0] < late.work_s
    assert late.job.retries == 0  # it was not tried again
    assert away.cancel_at is not None
    assert away.at + away.work_s >= away.cancel_at - 1.0
    assert simulated(list(found.values())) == {
        **dict.fromkeys(("well", "again"), Phase.FINISHED),
        **dict.fromkeys(("never", "late"), Phase.FAILED),
        "away": Phase.CANCELLED,
    }


def test_a_cancelled_job_is_cancelled_also_where_a_simulation_starts_it_sooner(
    here: Box, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    wide = {"gpus": 6}
    first = here.submit(f"while ! test -e {gate}; do sleep 0.05; done", name="f", resources=wide)
    job = here.submit("sleep 60", name="given up", resources=wide)
    here.wait_until(first, "running")
    time.sleep(0.5)
    gate.touch()
    here.wait_until(job, "running")
    here.service.cancel([job], ME)
    here.wait(first, job)
    path = tmp_path / "jobs.csv"
    path.write_text(trace(here.service, WantedJobs(Filter(name="given up")), "csv"))
    found = read(path).arrivals
    assert [own.cancel_after_s is not None for own in found] == [True]
    assert simulated(found) == {"given up": Phase.CANCELLED}


def simulated(arrivals: list[Arrival]) -> dict[str, Phase]:
    """How each ends when all have room."""
    done = run_trace("fifo-skip", sorted(arrivals, key=lambda own: own.at), nodes(1, 8))
    return {track.job.name: track.phase for track in done.ended.values()}


def test_the_attempts_of_a_job_are_known_after_a_restart(tmp_path: Path) -> None:
    first = Box(tmp_path, policy="fifo-skip")
    script = "test $DOVETAIL_ATTEMPT = 0 && exit 1; sleep 1; exit 1"
    job = first.submit(script, retries=1)
    first.wait_for(lambda: first.job(job)["attempts"] == 2)
    first.leave()
    with box(tmp_path, policy="fifo-skip") as second:
        second.wait(job)
        row = second.job(job)
    assert len(row["failures"]) == 2
    assert row["failures"][0] < 1 <= row["failures"][1]
    assert sum(row["failures"]) == pytest.approx(row["run_s"])


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_limit_is_no_estimate_where_estimates_are_told(tmp_path: Path, form: str) -> None:
    jobs = [
        Arrival(0.0, Job(JobId("a"), time_limit_s=60.0), 5.0),
        Arrival(0.0, Job(JobId("b"), estimate=Estimate(7.0)), 5.0, (1.0, 2.0), 9.0),
    ]
    text = StringIO()
    write_text(text, jobs, form)
    path = tmp_path / f"jobs.{form}"
    path.write_text(text.getvalue())
    assert read(path).arrivals == jobs
    alone = tmp_path / "alone.csv"
    alone.write_text("submit_s,duration_s,time_limit_s\n0,5,60\n0,5,0\n0,5,\n")
    found = [(own.job.time_limit_s, own.job.estimate) for own in read(alone).arrivals]
    assert found == [(60.0, Estimate(60.0)), (None, None), (None, None)]
