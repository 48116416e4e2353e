"""Whose jobs a job is compared with: by ever coarser identity."""

from __future__ import annotations

from typing import TypeAlias

from dovetail.core.model import Job

Identity: TypeAlias = tuple[object, ...]


def identities(job: Job) -> tuple[Identity, Identity, Identity, Identity]:
    """The same user, name and size; user and name; user; everyone. The length tells how coarse.

    Trials go by their study instead of their name; where no user is known, the tenant stands in.
    """
    who = job.user or job.tenant
    name = job.name if job.trial is None else (job.group,)  # never the same as a name
    return ((who, name, job.gpus), (who, name), (who,), ())


def described(job: Job, fineness: int, number: int) -> str:
    """So many jobs of that identity, to be read by people."""
    who = job.user or job.tenant
    by = f" by {who}" if who else ""
    if fineness >= 2 and job.name:
        size = "" if fineness == 3 else " with another number of GPUs"
        return f"{number:,} run{'' if number == 1 else 's'} of {job.name}{by}{size}"
    jobs = f"{number:,} job{'' if number == 1 else 's'}"
    return f"{jobs}{by}" if fineness and who else f"{jobs} of all users"
