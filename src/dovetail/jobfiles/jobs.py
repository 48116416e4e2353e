"""From a description to what the scheduler knows of the job. What it runs stays outside."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from dovetail.core.errors import BadInput
from dovetail.core.model import WHOLE_GPU, Estimate, Job, JobId, Option, Seconds
from dovetail.jobfiles import arrays
from dovetail.jobfiles.job_model import JobSpec
from dovetail.jobfiles.launch import short_name, words_of
from dovetail.jobfiles.profiles import late_cost_per_s
from dovetail.predict.commands import alike, amount


def expand(spec: JobSpec) -> list[tuple[int | None, JobSpec]]:
    """The members of an array with their indices; a job that is no array stands for itself."""
    if spec.array is None:
        return [(None, spec)]
    member = spec.model_copy(update={"array": None})
    return [(index, member) for index in arrays.parse(spec.array).indices]


def at_once(spec: JobSpec) -> int | None:
    """How many members of its array may run at the same time."""
    return arrays.parse(spec.array).limit if spec.array is not None else None


def to_job(spec: JobSpec, job_id: str, user: str, now: Seconds) -> Job:
    """`now` is the time of submission in seconds since 1970, as are all times of the job."""
    return Job(**job_fields(spec, job_id, user, now))


def job_fields(spec: JobSpec, job_id: str, user: str, now: Seconds) -> dict[str, Any]:
    asked, elastic = spec.resources, spec.elastic
    # Those that any policy may take stand first.
    options = sorted(spec.ways, key=lambda option: (option.gpus != spec.gpus, option))
    words = [*words_of(spec), *(f"{name}={value}" for name, value in sorted(spec.envs.items()))]
    return {
        "id": JobId(job_id),
        "gpus": spec.gpus * spec.nodes,
        "share": round(asked.share * WHOLE_GPU),
        "kinds": tuple([o.kind for o in options if o.gpus == spec.gpus]) or asked.kinds,
        "cpus": (asked.cpus or (0.0 if spec.gpus else 1.0)) * spec.nodes,  # it must use something
        "memory_gb": asked.memory * spec.nodes,
        "nodes": spec.nodes,  # what runs once runs on one
        "gpu_memory_gb": asked.gpu_memory,
        "user": user,
        "tenant": spec.tenant,
        "name": spec.name or short_name(spec),
        "group": spec.group,
        "model": spec.model,
        "priority": spec.priority,
        "deadline": due(spec.deadline, now),
        "min_gpus": elastic.min if elastic else None,
        "max_gpus": elastic.max if elastic else None,
        "estimate": _estimate(spec, options),
        "retries": spec.retries,
        "time_limit_s": spec.time_limit,
        "after": tuple(map(JobId, spec.after)),
        "after_any": tuple(map(JobId, spec.after_any)),
        "after_failed": tuple(map(JobId, spec.after_failed)),
        "preemptible": spec.preemptible is not False,
        "restartable": spec.preemptible == "restart",
        "late_cost_per_s": None if spec.late_cost is None else late_cost_per_s(spec.late_cost),
        "options": tuple(options),
        "settles": bool(options),
        "alike": alike(words, spec.run or "", user),
        "amount": amount(words),
    }


def _estimate(spec: JobSpec, options: Sequence[Option]) -> Estimate | None:
    seconds = spec.estimate or (options[0].seconds if options else None)
    return None if seconds is None else Estimate(seconds)


def due(deadline: str | None, now: Seconds) -> Seconds | None:
    if deadline is None:
        return None
    if deadline.startswith("+"):
        return now + float(deadline)
    return datetime.fromisoformat(deadline).timestamp()


def still_due(deadline: str | None, now: Seconds, field: str = "deadline") -> Seconds | None:
    """The same, for one that must not have passed."""
    found = due(deadline, now)
    if found is not None and found <= now:
        raise BadInput(f"{field}: {deadline} has passed; give a later one, or none")
    return found
