"""Microsoft's Philly log as a table: dates in local time, a virtual cluster, no job names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dovetail.core.model import Job, JobId
from dovetail.models.workload import Arrival
from dovetail.traces.readers.cells import (
    Header,
    Row,
    column,
    distinct_column,
    duration,
    label,
    whole,
)
from dovetail.traces.readers.rows import Context, MakeArrival

COLUMNS = ("timestamp", "duration", "num_gpus", "cluster")


@dataclass(frozen=True)
class PhillyTrace:
    """Microsoft's Philly log as a table: dates in local time, a virtual cluster."""

    columns: ClassVar[tuple[str, ...]] = COLUMNS

    def read(self, header: Header, context: Context) -> MakeArrival:
        submitted = distinct_column(header, "timestamp", context.clock)
        lasting = column(header, "duration", duration)
        gpus = column(header, "num_gpus", whole)
        tenant = column(header, "cluster", label)

        def arrival(row: Row, number: int) -> Arrival:
            job = Job(JobId(str(number)), gpus(row), tenant=tenant(row))
            return Arrival(submitted(row), job, lasting(row))

        return arrival
