"""A trace in memory: jobs in order of submission, with their truth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from operator import attrgetter

from dovetail.core.model import Seconds
from dovetail.models.workload import Arrival


@dataclass(frozen=True, slots=True)
class Trace:
    """The contents of one file. `bad_rows` are the messages of the rows that were skipped."""

    arrivals: list[Arrival]
    source: str = ""
    format: str = "dovetail"
    bad_rows: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # assumptions and skipped parts, for the owner of the file
    began_at: Seconds | None = None  # the date of time 0, in seconds since 1970, if it has dates
    steps_back: int = 0  # rows submitted before the row above them
    columns: tuple[str, ...] = ()  # as the file names them
    lacking: tuple[str, ...] = ()  # required columns that were not read; they are 0 for every job


def put_in_order(arrivals: list[Arrival]) -> None:
    """Sort in place by time; at equal times by job number, or in file order where ids are names."""
    if not _numbers_ascend(arrivals) and all(_is_number(arrival.job.id) for arrival in arrivals):
        arrivals.sort(key=_job_number)
    arrivals.sort(key=attrgetter("at"))  # stable, so the order made above decides between equals


def steps_back(arrivals: list[Arrival]) -> int:
    """The number of rows submitted before the row above them."""
    return sum(after.at < before.at for before, after in pairwise(arrivals))


def count_from_first(arrivals: list[Arrival]) -> Seconds:
    """Turn dates into seconds since the first submission, in place; return that date."""
    first = min((arrival.at for arrival in arrivals), default=0.0)
    for index, arrival in enumerate(arrivals):
        arrivals[index] = _earlier(arrival, first)
    return first


def _earlier(arrival: Arrival, by: Seconds) -> Arrival:
    job, cancel_at = arrival.job, arrival.cancel_at
    if job.deadline is not None:
        job = replace(job, deadline=job.deadline - by)
    if cancel_at is not None:
        cancel_at -= by
    return replace(arrival, at=arrival.at - by, job=job, cancel_at=cancel_at)


def _numbers_ascend(arrivals: list[Arrival]) -> bool:
    """True for most files; checking costs no list of a million numbers."""
    last = -1
    for arrival in arrivals:
        if not _is_number(arrival.job.id) or _job_number(arrival) < last:
            return False
        last = _job_number(arrival)
    return True


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) < 4000  # Python refuses to convert longer ones


def _job_number(arrival: Arrival) -> int:
    return int(arrival.job.id)
