"""The traces of Gavel: lines of ten tab-separated cells, no header, and steps instead of durations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dovetail.core.errors import BadInput
from dovetail.core.model import Job, JobId, Seconds
from dovetail.models.speed_table import Hardware, model_type
from dovetail.models.workload import Arrival
from dovetail.traces.readers.cells import (
    CellError,
    Header,
    Row,
    amount,
    clipped,
    column,
    distinct_column,
    given,
    seconds,
    whole,
)
from dovetail.traces.readers.rows import Context, MakeArrival

COLUMNS = (
    *("job_type", "command", "working_directory", "num_steps_arg", "needs_data_dir"),
    *("total_steps", "scale_factor", "priority_weight", "slo", "arrival_time"),
)


def without_header(first: str) -> bool:
    """Does this line belong to a file of Gavel?"""
    cells = first.rstrip("\r\n").split("\t")
    return len(cells) == len(COLUMNS) and cells[5].isdecimal() and cells[6].isdecimal()


@dataclass(frozen=True)
class GavelTrace:
    """The traces of Gavel: steps instead of durations, so they need --speed-table."""

    columns: ClassVar[tuple[str, ...]] = COLUMNS

    def read(self, header: Header, context: Context) -> MakeArrival:
        table = context.speeds
        if table is None:
            raise BadInput(
                f"{header.source}: a trace of Gavel tells steps, not how long its jobs run; give "
                "--speed-table FILE, Gavel's throughputs"
            )
        model = column(header, "job_type", given)
        gpus = column(header, "scale_factor", whole)
        steps = distinct_column(header, "total_steps", amount)
        weight = column(header, "priority_weight", amount)
        submitted = distinct_column(header, "arrival_time", seconds)

        def arrival(row: Row, number: int) -> Arrival:
            own = Job(JobId(str(number)), gpus(row), model=model(row), weight=weight(row))
            return Arrival(submitted(row), own, lasting(own, steps(row)))

        def lasting(job: Job, number: float) -> Seconds:
            rows = table.speeds.get(model_type(job.model), {})
            speed = rows.get(Hardware(table.reference, job.gpus))
            if speed is None:
                raise CellError(
                    f"the speed table has no {clipped(job.model)!r} on {job.gpus} {table.reference}"
                )
            return number / speed

        return arrival
