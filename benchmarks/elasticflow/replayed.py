"""The jobs of ElasticFlow's trace, its tables of speeds, and its book of events."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import log2
from pathlib import Path

SLOT = 60
NODES, PER_NODE = 16, 4
TOTAL = NODES * PER_NODE
_MOST = {"bert": 16, "cifar10": 16, "yolov3": 4, "ncf": 1}


@dataclass(slots=True, eq=False)
class ReplayedJob:
    """One row of the trace, and what has become of it."""

    number: int
    submit: int
    left: float  # iterations
    deadline: int
    gpus_asked: int
    duration: int  # on as many
    rates: Mapping[int, float]  # iterations a second by GPUs
    most: int  # GPUs that ElasticFlow gives it
    gpus: int = 0
    end: float = 0  # of the slot in which it ends, or of its work
    done_at: float = 0
    overhead: float = 0
    outcome: str = ""
    ended: float = 0

    def finish(self, end: float, judged_by: float) -> None:
        self.ended = end
        self.outcome = "met" if judged_by <= self.deadline else "missed"


def read(folder: Path) -> list[ReplayedJob]:
    """From the artifact's folder `ElasticFlow`."""
    speeds = _speeds(folder / "scheduler/throughputs_T4")
    with (folder / "traces_for_ElasticFlow/elasticVpollux_e.csv").open() as file:
        return [_job(i, row, speeds) for i, row in enumerate(csv.DictReader(file))]


def _speeds(folder: Path) -> dict[tuple[str, int], dict[int, float]]:
    found = {}
    for path in sorted(folder.glob("*.csv")):
        with path.open() as file:
            for row in csv.DictReader(file):
                batch = int(row.pop("global_batch_size"))
                found[path.stem, batch] = {int(n): float(v) for n, v in row.items() if v != "nan"}
    return found


def _job(
    number: int, row: Mapping[str, str], speeds: Mapping[tuple[str, int], dict[int, float]]
) -> ReplayedJob:
    model, batch = row["model_name"], int(row["batch_size"])
    most = 32 if (model, batch) == ("deepspeech2", 320) else _MOST.get(model, TOTAL)
    return ReplayedJob(
        number,
        int(row["submit_time"]),
        int(row["iteration"]),
        int(row["ddl"]),
        int(row["num_gpu"]),
        int(row["duration"]),
        speeds[model, batch],
        most,
    )


def restart_s(gpus: int, of_all: bool) -> float:
    return 2 + (27 if of_all else 0) + 2 * (log2(gpus) + 1)


@dataclass(slots=True)
class Event:
    starts: list[ReplayedJob] = field(default_factory=list)
    ends: list[ReplayedJob] = field(default_factory=list)


class Book:
    """What is to come, by time. All that lies within a slot happens together at its end."""

    def __init__(self, jobs: list[ReplayedJob]) -> None:
        self.events: dict[float, Event] = {}
        for job in jobs:
            self.at(job.submit).starts.append(job)

    def at(self, when: float) -> Event:
        return self.events.setdefault(when, Event())

    def move_end(self, job: ReplayedJob, before: float, after: float) -> None:
        if before == after:
            return
        event = self.events.get(before)
        if event is not None and job in event.ends:
            event.ends.remove(job)
            if not event.starts and not event.ends:
                del self.events[before]
        ends = self.at(after).ends
        if job not in ends:
            ends.append(job)

    def next(self, now: float) -> float:
        """The time of the next event, after those of one slot were put together."""
        times = sorted(self.events)
        soon = [when for when in times if when - now <= SLOT]
        if not soon or len(times) == 1:
            return times[0]
        together = Event()
        for when in soon:
            event = self.events.pop(when)
            together.starts += event.starts
            together.ends += event.ends
        self.events[now + SLOT] = together
        return now + SLOT


def advance(jobs: list[ReplayedJob], book: Book, now: float, passed: float) -> None:
    """Iterations done since the last event. Whoever is through before its time ends now."""
    for job in jobs:
        if not job.gpus:
            continue
        seconds = passed - max(now - job.done_at, 0)
        seconds = max(seconds - job.overhead, 0)
        rate = job.rates[job.gpus]
        if job.left <= seconds * rate and job.end > now:
            seconds = job.end - now + passed
            book.move_end(job, job.end, now)
            job.end = now - passed + -(-job.left // rate)
        job.left -= seconds * rate
        job.overhead = 0
