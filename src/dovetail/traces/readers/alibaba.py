"""Alibaba's GPU trace of 2023: pods that ask for GPUs, for a part of one, or for none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from dovetail.core.model import WHOLE_GPU, Job, JobId, Seconds
from dovetail.models.workload import Arrival
from dovetail.traces.readers.cells import (
    CellError,
    Header,
    Read,
    Row,
    amount,
    blank_or,
    column,
    distinct_column,
    given,
    labels,
    seconds,
    whole,
)
from dovetail.traces.readers.rows import Context, MakeArrival

COLUMNS = ("name", "num_gpu", "gpu_milli", "creation_time", "deletion_time")
CPU_UNIT = 1000.0  # cpu_milli
MEMORY_UNIT = 1024.0  # memory_mib


@dataclass(frozen=True)
class AlibabaTrace:
    """Alibaba's GPU trace of 2023: pods that ask for GPUs, for a part of one, or for none."""

    columns: ClassVar[tuple[str, ...]] = COLUMNS

    def read(self, header: Header, context: Context) -> MakeArrival:
        """How a pod ended (`pod_phase`) is left out: most were stopped from outside."""
        del context  # its times are plain seconds
        job_id = distinct_column(header, "name", given)
        gpus = column(header, "num_gpu", whole)
        share = column(header, "gpu_milli", blank_or(whole))
        kinds = column(header, "gpu_spec", labels) if "gpu_spec" in header else None
        cpus = _optional(header, "cpu_milli")
        memory = _optional(header, "memory_mib")
        created = distinct_column(header, "creation_time", seconds)
        duration = _duration(header, created)

        def arrival(row: Row, _: int) -> Arrival:
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
    header: Header, column_name: str, parse: Callable[[str], float] = amount
) -> Read[float | None]:
    if column_name not in header:
        return lambda _: None
    return column(header, column_name, blank_or(parse))


def _duration(header: Header, created: Read[Seconds]) -> Read[Seconds]:
    """From when it was scheduled, or created where that is missing, until it was deleted."""
    scheduled = _optional(header, "scheduled_time", seconds)
    deleted = distinct_column(header, "deletion_time", seconds)

    def lasting(row: Row) -> Seconds:
        start = scheduled(row)
        duration = deleted(row) - (created(row) if start is None else start)
        if duration < 0:
            raise CellError(
                f"column 'deletion_time': the pod is deleted {-duration:g} s before it starts"
            )
        return duration

    return lasting
