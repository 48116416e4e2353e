"""Completion times by job size, and the jobs that waited longest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from heapq import nlargest
from itertools import chain

from dovetail.core.model import Seconds
from dovetail.results.record import JobOutcome, RunRecord

SIZE_CLASSES = ("1 GPU", "2–4 GPUs", "5–8 GPUs", "> 8 GPUs")
CDF_POINTS = 200
SLOWEST = 20


def size_class(gpus: int) -> int:
    """The index in SIZE_CLASSES. Jobs that need CPUs only count with the smallest."""
    if gpus <= 1:
        return 0
    return 1 if gpus <= 4 else 2 if gpus <= 8 else 3


def completion_times(run: RunRecord) -> list[Mapping[str, object]]:
    """The CDF of all finished jobs, then one for each size class."""
    by_gpus: dict[int, list[Seconds]] = defaultdict(list)
    for row in run.jobs:
        if row.outcome == "finished":
            by_gpus[row.gpus].append(row.jct_s)
    by_class: list[list[Seconds]] = [[] for _ in SIZE_CLASSES]
    for gpus, times in by_gpus.items():
        by_class[size_class(gpus)] += times
    for times in by_class:
        times.sort()
    everyone = sorted(chain.from_iterable(by_class))
    return [_cdf(times) for times in (everyone, *by_class)]


def _cdf(ordered: Sequence[Seconds]) -> Mapping[str, object]:
    """Values at equally spaced ranks, the first and the last among them."""
    count = len(ordered)
    points = min(count, CDF_POINTS)
    last = max(points - 1, 1)
    ranks = [round(i * (count - 1) / last) for i in range(points)]
    return {"count": count, "at": [float(f"{ordered[rank]:.4g}") for rank in ranks]}


def waited(row: JobOutcome) -> Seconds:
    """Seconds until the first start; for a job that never started, until its end."""
    if row.wait_s is not None:
        return row.wait_s
    return 0.0 if row.outcome == "refused" else row.end_s - row.submit_s


def slowest(run: RunRecord) -> list[JobOutcome]:
    """The jobs that waited longest, the longest first."""
    return [row for row in nlargest(SLOWEST, run.jobs, key=waited) if waited(row) > 0]
