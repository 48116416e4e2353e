"""The traces of Gavel: lines of ten tab-separated cells, no header, and steps instead of durations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from dovetail.core.errors import BadInput
from dovetail.core.model import Job, JobId, Seconds
from dovetail.models.speed_table import Hardware, model_type
from dovetail.models.workload import Arrival
from dovetail.predict.commands import alike
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

_COUNT = (
    "--num_steps"  # what follows it is the number of steps; each script has its own word for it
)
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
        lasting = _lasting(header, context)
        model = column(header, "job_type", given)
        runs = column(header, "command", given)
        gpus = column(header, "scale_factor", whole)
        steps = distinct_column(header, "total_steps", amount)
        weight = column(header, "priority_weight", amount)
        submitted = distinct_column(header, "arrival_time", seconds)

        def arrival(row: Row, number: int) -> Arrival:
            words = [*runs(row).split(), _COUNT, f"{steps(row):g}"]
            own = Job(
                JobId(str(number - 1)), gpus(row), model=model(row), weight=weight(row),
                alike=alike(words, "", ""), amount=steps(row),
            )  # fmt: skip
            return Arrival(submitted(row), own, lasting(own, steps(row)))  # numbered as Gavel does

        return arrival


@dataclass(frozen=True)
class GavelShortTrace:
    """The same in six columns with a header: job,arrival,job_type,gpus,total_steps,weight."""

    columns: ClassVar[tuple[str, ...]] = ("job", "arrival", "job_type", "gpus", "total_steps")

    def read(self, header: Header, context: Context) -> MakeArrival:
        lasting = _lasting(header, context)
        name, model = column(header, "job", given), column(header, "job_type", given)
        gpus = column(header, "gpus", whole)
        steps = distinct_column(header, "total_steps", amount)
        weight = column(header, "weight", amount) if "weight" in header else _one
        submitted = distinct_column(header, "arrival", seconds)

        def arrival(row: Row, number: int) -> Arrival:
            own = Job(JobId(name(row)), gpus(row), model=model(row), weight=weight(row))
            return Arrival(submitted(row), own, lasting(own, steps(row)))

        return arrival


def _one(row: Row) -> float:
    return 1.0


def _lasting(header: Header, context: Context) -> Callable[[Job, float], Seconds]:
    """How long so many steps take on the kind on which durations are told."""
    table = context.speeds
    if table is None:
        raise BadInput(
            f"{header.source}: a trace of Gavel tells steps, not how long its jobs run; give "
            "--speed-table FILE, Gavel's throughputs"
        )

    def lasting(job: Job, number: float) -> Seconds:
        rows = table.speeds.get(model_type(job.model), {})
        speed = rows.get(Hardware(table.reference, job.gpus))
        if speed is None:
            raise CellError(
                f"the speed table has no {clipped(job.model)!r} on {job.gpus} {table.reference}"
            )
        return number / speed

    return lasting
