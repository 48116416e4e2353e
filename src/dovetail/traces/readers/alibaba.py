"""Alibaba's GPU trace of 2023: pods that ask for GPUs, for a part of one, or for none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from dovetail.core.model import WHOLE_GPU, Job, JobId, Seconds
from dovetail.models.workload import Arrival
from dovetail.traces.readers import cells
from dovetail.traces.readers.rows import Context, MakeArrival

COLUMNS = ("name", "num_gpu", "gpu_milli", "creation_time", "deletion_time")
CPU_UNIT = 1000.0  # cpu_milli
MEMORY_UNIT = 1024.0  # memory_mib


@dataclass(frozen=True)
class AlibabaTrace:
    """Alibaba's GPU trace of 2023: pods that ask for GPUs, for a part of one, or for none."""

    columns: ClassVar[tuple[str, ...]] = COLUMNS

    def read(self, header: cells.Header, context: Context) -> MakeArrival:
        """The end of a pod (`pod_phase`) is not read: most were stopped from outside."""
        del context  # its times are plain seconds
        job_id = cells.distinct_column(header, "name", cells.given)
        gpus = cells.column(header, "num_gpu", cells.whole)
        share = cells.column(header, "gpu_milli", cells.blank_or(cells.whole))
        kinds = cells.column(header, "gpu_spec", cells.labels) if "gpu_spec" in header else None
        cpus = _optional(header, "cpu_milli")
        memory = _optional(header, "memory_mib")
        created = cells.distinct_column(header, "creation_time", cells.seconds)
        duration = _duration(header, created)

        def arrival(row: cells.Row, _: int) -> Arrival:
            count = gpus(row)
            job = Job(
                JobId(job_id(row)),
                count,
                (share(row) or WHOLE_GPU) if count == 1 else WHOLE_GPU,
                kinds(row) if kinds else (),
                (cpus(row) or 0.0) / CPU_UNIT,
                (memory(row) or 0.0) / MEMORY_UNIT,
            )
            return Arrival(created(row), job, duration(row))

        return arrival


def _optional(
    header: cells.Header, column_name: str, parse: Callable[[str], float] = cells.amount
) -> cells.Read[float | None]:
    if column_name not in header:
        return lambda _: None
    return cells.column(header, column_name, cells.blank_or(parse))


def _duration(header: cells.Header, created: cells.Read[Seconds]) -> cells.Read[Seconds]:
    """From its scheduling, or its creation if that is missing, to its deletion."""
    scheduled = _optional(header, "scheduled_time", cells.seconds)
    deleted = cells.distinct_column(header, "deletion_time", cells.seconds)

    def lasting(row: cells.Row) -> Seconds:
        start = scheduled(row)
        duration = deleted(row) - (created(row) if start is None else start)
        if duration < 0:
            raise cells.CellError(
                f"column 'deletion_time': the pod is deleted {-duration:g} s before it starts"
            )
        return duration

    return lasting
