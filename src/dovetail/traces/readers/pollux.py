"""The workloads of Pollux: which application, when and on how many GPUs, but not for how long."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from dovetail.core.errors import BadInput
from dovetail.core.model import Job, JobId, Seconds
from dovetail.models.workload import Arrival
from dovetail.traces.readers.cells import (
    Header,
    Read,
    Row,
    column,
    distinct_column,
    duration,
    given,
    label,
    whole,
)
from dovetail.traces.readers.rows import Context, MakeArrival

COLUMNS = ("name", "time", "application", "num_replicas")


@dataclass(frozen=True)
class PolluxTrace:
    """A workload of Pollux, which needs --durations; `file.csv#2` is the second of a file."""

    columns: ClassVar[tuple[str, ...]] = COLUMNS
    has_parts: ClassVar[bool] = True

    def read(self, header: Header, context: Context) -> MakeArrival:
        wanted = _of_part(header, context.part)
        submitted = distinct_column(header, "time", context.clock)
        job_id = distinct_column(header, "name", given)
        gpus = column(header, "num_replicas", whole)
        model = column(header, "application", label)
        lasting = _duration(header, context.durations)

        def arrival(row: Row, _: int) -> Arrival | None:
            if not wanted(row):
                return None
            job = Job(JobId(job_id(row)), gpus(row), model=model(row))
            return Arrival(submitted(row), job, lasting(row))

        return arrival


def _of_part(header: Header, part: str | None) -> Callable[[Row], bool]:
    """Whether a row belongs to the workload asked for. Two workloads in one run make no sense."""
    if "workload" not in header:
        return lambda _: True
    workload = column(header, "workload", label)
    if part is not None:
        return lambda row: workload(row) == part
    found: set[str] = set()

    def only(row: Row) -> bool:
        found.add(workload(row))
        if len(found) > 1:
            example = f"{header.source}#{min(found)}"
            raise BadInput(f"{header.source} holds several workloads; name one, as in {example}")
        return True

    return only


def _duration(header: Header, durations: Mapping[str, Seconds] | None) -> Read[Seconds]:
    for told in ("duration_s", "duration"):
        if told in header:
            return distinct_column(header, told, duration)
    if durations is None:
        raise BadInput(
            f"{header.source}: a Pollux workload does not say how long its jobs run; add a column "
            "duration_s, or give --durations FILE, a CSV with the columns application,seconds"
        )

    def seconds(application: str) -> Seconds:
        try:
            return durations[application.strip()]
        except KeyError:
            raise ValueError("is not among the durations given") from None

    return column(header, "application", seconds)
