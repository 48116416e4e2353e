"""Deadlines met against those that ElasticFlow's own simulator recorded, job by job.

Its trace and its tables are not ours to ship: `DOVETAIL_ELASTICFLOW` names the folder `ElasticFlow`
of its public repository.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.elasticflow import by_deadline
from benchmarks.elasticflow.by_queues import ByQueuesReplay
from benchmarks.elasticflow.by_shares import BySharesReplay
from benchmarks.elasticflow.by_slices import BySlicesReplay
from benchmarks.elasticflow.replayed import ReplayedJob, read
from benchmarks.lines import Line

GOLDEN = Path(__file__).parent.parent.parent / "shared/golden/allocation/elasticflow"
REPLAYS: dict[str, Callable[[list[ReplayedJob]], None]] = {
    "edf": by_deadline.replay,
    "gandiva": lambda jobs: BySlicesReplay(jobs).run(),
    "dlas-gpu": lambda jobs: ByQueuesReplay(jobs).run(),
    "ef-accessctrl": lambda jobs: BySharesReplay(jobs).run(),
}


def measured() -> Iterator[Line]:
    """ElasticFlow's four recorded runs: outcomes and ends of all jobs."""
    folder = os.environ.get("DOVETAIL_ELASTICFLOW", "")
    if not folder or not GOLDEN.exists():
        print("     ElasticFlow's artifact is not here (DOVETAIL_ELASTICFLOW=FOLDER): left out")
        return
    for name, replay in REPLAYS.items():
        jobs = read(Path(folder))
        replay(jobs)
        with (GOLDEN / f"{name}.jobs.csv").open() as file:
            rows = list(csv.DictReader(file))
        met = sum(job.outcome == "met" for job in jobs)
        same = sum(_is_same(job, row) for job, row in zip(jobs, rows, strict=True))
        yield Line(
            f"ElasticFlow's {name}: met, jobs as recorded",
            f"{met}, {same} of {len(jobs)}",
            f"{sum(row['outcome'] == 'met' for row in rows)}, {len(rows)}",
            same == len(rows),
        )


def _is_same(job: ReplayedJob, row: dict[str, str]) -> bool:
    if job.number != int(row["job"]) or job.outcome != row["outcome"]:
        return False
    return not row["end"] or job.ended == float(row["end"])
