"""Microsoft's Philly log as a table: dates in local time, a virtual cluster, no job names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dovetail.core.model import Job, JobId
from dovetail.models.workload import Arrival
from dovetail.traces.readers import cells
from dovetail.traces.readers.rows import Context, MakeArrival

COLUMNS = ("timestamp", "duration", "num_gpus", "cluster")


@dataclass(frozen=True)
class PhillyTrace:
    """Microsoft's Philly log as a table: dates in local time, a virtual cluster."""

    columns: ClassVar[tuple[str, ...]] = COLUMNS

    def read(self, header: cells.Header, context: Context) -> MakeArrival:
        submitted = cells.distinct_column(header, "timestamp", context.clock)
        lasting = cells.column(header, "duration", cells.duration)
        gpus = cells.column(header, "num_gpus", cells.whole)
        tenant = cells.column(header, "cluster", cells.label)

        def arrival(row: cells.Row, number: int) -> Arrival:
            job = Job(JobId(str(number)), gpus(row), tenant=tenant(row))
            return Arrival(submitted(row), job, lasting(row))

        return arrival
