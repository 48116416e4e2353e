"""The workloads of Pollux: application, submission time and GPUs, but no duration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from dovetail.core.errors import BadInput
from dovetail.core.model import Job, JobId, Seconds
from dovetail.models.epochs import Training
from dovetail.models.workload import Arrival
from dovetail.traces.readers import cells
from dovetail.traces.readers.rows import Context, MakeArrival

COLUMNS = ("name", "time", "application", "num_replicas")


@dataclass(frozen=True)
class PolluxTrace:
    """A workload of Pollux, which needs --applications or --durations; `file.csv#2` is the second of a
    file."""

    columns: ClassVar[tuple[str, ...]] = COLUMNS
    has_parts: ClassVar[bool] = True

    def read(self, header: cells.Header, context: Context) -> MakeArrival:
        wanted = _of_part(header, context.part)
        submitted = cells.distinct_column(header, "time", context.clock)
        job_id = cells.distinct_column(header, "name", cells.given)
        gpus = cells.column(header, "num_replicas", cells.whole)
        model = cells.column(header, "application", cells.label)
        if context.training is not None:
            return _trained(header, context.training, wanted, context)
        lasting = _duration(header, context.durations)

        def arrival(row: cells.Row, _: int) -> Arrival | None:
            if not wanted(row):
                return None
            job = Job(JobId(job_id(row)), gpus(row), model=model(row))
            return Arrival(submitted(row), job, lasting(row))

        return arrival


def _trained(
    header: cells.Header,
    training: Training,
    wanted: Callable[[cells.Row], bool],
    context: Context,
) -> MakeArrival:
    """Jobs that train applications: how long they run follows from their epochs."""
    submitted = cells.distinct_column(header, "time", context.clock)
    name = cells.distinct_column(header, "name", cells.given)
    gpus = cells.column(header, "num_replicas", cells.positive(cells.whole))
    application = cells.column(header, "application", cells.given)
    batch = cells.column(header, "batch_size", cells.positive(cells.whole))

    def arrival(row: cells.Row, _: int) -> Arrival | None:
        if not wanted(row):
            return None
        run = training.run(application(row), batch(row), gpus(row))
        return training.arrival(JobId(name(row)), submitted(row), run)

    return arrival


def _of_part(header: cells.Header, part: str | None) -> Callable[[cells.Row], bool]:
    """Does a row belong to the workload asked for? Two workloads in one run make no sense."""
    if "workload" not in header:
        return lambda _: True
    workload = cells.column(header, "workload", cells.label)
    if part is not None:
        return lambda row: workload(row) == part
    found: set[str] = set()

    def only(row: cells.Row) -> bool:
        found.add(workload(row))
        if len(found) > 1:
            example = f"{header.source}#{min(found)}"
            raise BadInput(f"{header.source} holds several workloads; name one, as in {example}")
        return True

    return only


def _duration(header: cells.Header, durations: Mapping[str, Seconds] | None) -> cells.Read[Seconds]:
    for told in ("duration_s", "duration"):
        if told in header:
            return cells.distinct_column(header, told, cells.duration)
    if durations is None:
        raise BadInput(
            f"{header.source}: a Pollux workload does not say how long its jobs run; add a column "
            "duration_s, or give --applications FOLDER, what these train, or --durations FILE, a CSV "
            "with the columns application,seconds"
        )

    def seconds(application: str) -> Seconds:
        try:
            return durations[application.strip()]
        except KeyError:
            raise ValueError("is not among the durations given") from None

    return cells.column(header, "application", seconds)
