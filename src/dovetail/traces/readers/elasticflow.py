"""The traces of ElasticFlow: iterations, deadlines, and GPUs that may be more or fewer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dovetail.core.errors import BadInput
from dovetail.core.model import Job, JobId
from dovetail.models.speed_table import ModelType, SpeedTable, model_type
from dovetail.models.workload import Arrival
from dovetail.traces.readers.cells import (
    CellError,
    Header,
    Row,
    amount,
    column,
    distinct_column,
    given,
    positive,
    seconds,
    whole,
)
from dovetail.traces.readers.rows import Context, MakeArrival

COLUMNS = ("job_id", "submit_time", "iteration", "model_name", "ddl", "batch_size", "num_gpu")


@dataclass(frozen=True)
class ElasticFlowTrace:
    """The traces of ElasticFlow: iterations and deadlines; they need --speed-table."""

    columns: ClassVar[tuple[str, ...]] = COLUMNS

    def read(self, header: Header, context: Context) -> MakeArrival:
        table = context.speeds
        if table is None:
            raise BadInput(
                f"{header.source}: a trace of ElasticFlow tells iterations, not how long its jobs run; "
                "give --speed-table FOLDER, such as its throughputs_T4"
            )
        job_id = distinct_column(header, "job_id", given)
        model = column(header, "model_name", given)
        batch, gpus = (
            column(header, "batch_size", whole),
            column(header, "num_gpu", positive(whole)),
        )
        iterations = distinct_column(header, "iteration", amount)
        submitted = distinct_column(header, "submit_time", seconds)
        due = distinct_column(header, "ddl", seconds)

        def arrival(row: Row, _: int) -> Arrival:
            name, asked = f"{model(row)}@{batch(row)}", gpus(row)
            speeds = _speeds(table, model_type(name))
            if asked not in speeds:
                raise CellError(f"the speed table has no {name!r} on {asked} GPUs")
            fastest = max(speeds, key=lambda count: speeds[count])
            job = Job(
                JobId(job_id(row)),
                asked,
                model=name,
                deadline=due(row),
                min_gpus=min(speeds),
                max_gpus=max(fastest, asked),
            )
            return Arrival(submitted(row), job, iterations(row) / speeds[asked])

        return arrival


def _speeds(table: SpeedTable, model: ModelType) -> dict[int, float]:
    """Steps a second by GPUs, on the kind on which durations are told."""
    rows = table.speeds.get(model, {})
    return {own.gpus: speed for own, speed in rows.items() if own.kind == table.reference}
