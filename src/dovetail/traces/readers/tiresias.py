"""The traces of Tiresias, in seconds, and of Muri, the same columns in milliseconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dovetail.core.model import Job, JobId
from dovetail.models.workload import Arrival
from dovetail.traces.readers import cells
from dovetail.traces.readers.rows import Context, MakeArrival

COLUMNS = ("job_id", "num_gpu", "submit_time", "duration", "iterations")
MURI_COLUMNS = (*COLUMNS, "iteration_time")


@dataclass(frozen=True)
class TiresiasTrace:
    """The trace of Tiresias: times in seconds."""

    columns: ClassVar[tuple[str, ...]] = COLUMNS

    def read(self, header: cells.Header, context: Context) -> MakeArrival:
        """Muri's `priority` is not read: it marks AntMan's two classes, not an order."""
        del context  # its times are plain seconds
        read = cells.counted_in(1.0, 1000.0) if "iteration_time" in header else cells.duration
        job_id = cells.distinct_column(header, "job_id", cells.given)
        gpus = cells.column(header, "num_gpu", cells.whole)
        submitted = cells.distinct_column(header, "submit_time", read)
        lasting = cells.distinct_column(header, "duration", read)
        model = cells.column(header, "model_name", cells.label) if "model_name" in header else None

        def arrival(row: cells.Row, _: int) -> Arrival:
            job = Job(JobId(job_id(row)), gpus(row), model=model(row) if model else "")
            return Arrival(submitted(row), job, lasting(row))

        return arrival


@dataclass(frozen=True)
class MuriTrace(TiresiasTrace):
    """The trace of Muri: the columns of Tiresias, and times in milliseconds."""

    columns: ClassVar[tuple[str, ...]] = MURI_COLUMNS
