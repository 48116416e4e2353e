"""The bare loops that we measure ourselves against do the same work: the same schedule, job by job."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dovetail import traces
from dovetail.experiments.experiment import Experiment, simulate
from dovetail.models.workload import Arrival
from dovetail.traces.clusters.cluster_text import read_cluster

sys.path.insert(0, str(Path(__file__).parent.parent))
from benchmarks import bare


def whole_seconds(seed: int) -> list[Arrival]:
    """A busy trace with many things happening at one instant."""
    drawn = traces.generate(
        traces.Recipe(jobs=400, gpus=32, load=1.1, mean_duration_s=20.0, users=0, seed=seed)
    )
    return [Arrival(float(int(a.at)), a.job, float(int(a.work_s) + 1)) for a in drawn]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", ["fifo", "srtf"])
def test_the_yardstick_gives_the_same_schedule(name: str, seed: int) -> None:
    arrivals = whole_seconds(seed)
    record = simulate(Experiment(arrivals, read_cluster("4x8"), placement="count"), name, rows=True)
    ours = {row.job_id: (row.start_s, row.end_s) for row in record.jobs}
    jobs = [(a.at, a.job.gpus, a.work_s) for a in arrivals]
    started, ended = {"fifo": bare.fifo, "srtf": bare.srtf}[name](jobs, 32)
    theirs = {a.job.id: (started[n], ended[n]) for n, a in enumerate(arrivals)}
    assert theirs == ours
