"""The jobs that have run as a trace for the simulator: no commands, no environment."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from sys import maxsize

from dovetail.api.job_row import JobRow
from dovetail.core.model import WHOLE_GPU, Job, JobId, Seconds
from dovetail.daemon.history.usage import WantedJobs, rows_of
from dovetail.daemon.service import Service
from dovetail.jobfiles import jobs
from dovetail.jobfiles.job_model import read
from dovetail.models.workload import Arrival
from dovetail.traces.writing import write_text

_LITTLE_S = 0.001  # more than it did: else it would have been done


def trace(service: Service, wanted: WantedJobs, form: str) -> str:
    """CSV or JSON lines. Time begins with the first submission."""
    rows = sorted(
        (row for row in rows_of(service, wanted, maxsize) if row.started_at is not None),
        key=lambda row: (row.submitted_at, row.id),
    )
    start = rows[0].submitted_at if rows else 0.0
    text = StringIO()
    write_text(text, [_arrival(service, row, start) for row in rows], form)
    return text.getvalue()


def _arrival(service: Service, row: JobRow, start: Seconds) -> Arrival:
    """It lasted as long as it worked: what saving, restoring and repeating took is not its own. Of a job
    that failed or was given up nobody knows how long it would have lasted: a little longer."""
    job = _job(service, row)
    if job.deadline is not None:
        job = replace(job, deadline=max(job.deadline - start, 0.0))
    at, speed = row.submitted_at - start, _speed(job, row.gpus)
    failed = [own * speed for own in row.failures]
    last_s = max(row.run_s - sum(row.failures), 0.0) * speed  # of its last attempt
    if row.phase == "finished":
        held = row.gpus * job.share / WHOLE_GPU
        lost_s = row.lost_gpu_s / held if held else 0.0
        job = replace(job, retries=max(job.retries, len(failed)))
        return Arrival(at, job, max(row.run_s - lost_s, 0.0) * speed, tuple(failed))
    if row.phase == "cancelled":
        job = replace(job, retries=max(job.retries, len(failed)))
        work_s = max(*failed, last_s) if failed else last_s
        given_up_at = (row.ended_at or start) - start
        return Arrival(at, job, work_s + _LITTLE_S, tuple(failed), given_up_at, last_s)
    if len(failed) < row.attempts or not failed:  # the last was ended by its time limit
        failed.append(last_s)
    job = replace(job, retries=len(failed) - 1)
    return Arrival(at, job, max(failed) + _LITTLE_S, tuple(failed))


def _speed(job: Job, gpus: int) -> float:
    """Of the option that it had, against that of the first, which the duration is counted by."""
    taken = next((option for option in job.options if option.gpus == gpus), None)
    return 1.0 if taken is None else job.options[0].seconds / taken.seconds


def _job(service: Service, row: JobRow) -> Job:
    """As its user described it; by what the history tells if that is no longer known."""
    record = service.record(row.id)
    if record is not None:
        job = jobs.to_job(read(record.spec), row.id, row.user, row.submitted_at)
        return replace(job, name=row.name, priority=row.priority, after=(), settles=False)
    return Job(
        JobId(row.id),
        gpus=row.gpus,
        share=round(row.share * WHOLE_GPU),
        kinds=tuple(row.kinds),
        cpus=0.0 if row.gpus else 1.0,
        user=row.user,
        tenant=row.tenant,
        name=row.name,
        group=row.group,
        priority=row.priority,
        deadline=row.deadline,
        time_limit_s=row.time_limit_s,
    )
