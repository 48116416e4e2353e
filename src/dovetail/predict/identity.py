"""The jobs that a job is compared with: by ever coarser identity."""

from __future__ import annotations

from typing import Final, TypeAlias

from dovetail.core.model import Job
from dovetail.text.counting import counted

Identity: TypeAlias = tuple[object, ...]

# How fine an identity is. Jobs whose command is not known, as in most traces, have the last four.
COMMAND: Final = 7  # the same command, to the last argument
AMOUNT: Final = 6  # the same, with another number of epochs or steps
FLAGS: Final = 5  # the same flags, with other values
SCRIPT: Final = 4
SIZE: Final = 3  # the same name and number of GPUs
NAME: Final = 2
USER: Final = 1
EVERYONE: Final = 0
NOBODY: Final = -1

_SAME = {
    COMMAND: "this very command",
    **dict.fromkeys((AMOUNT, FLAGS, SCRIPT), "this program"),  # whatever the job is called
}
_LIKE = {
    AMOUNT: " with another number of epochs or steps",
    FLAGS: " with other values",
    SCRIPT: " with other arguments",
    NAME: " with another number of GPUs",
}


def identities(job: Job) -> tuple[Identity, ...]:
    """The finest first: the command and those coarser than it, then the same user, name and size;
    user and name; user; everyone.

    Trials go by their study instead of their command and name; where no user is known, the tenant
    stands in.
    """
    who = job.user or job.tenant
    if job.member is not None:
        name: object = (job.group,)  # never the same as a name
        return ((who, name, job.gpus), (who, name), (who,), ())
    by_name: tuple[Identity, ...] = ((who, job.name, job.gpus), (who, job.name), (who,), ())
    if not job.alike:
        return by_name
    command, other_amount, flags, script = job.alike
    return (
        (who, command, job.gpus),
        (who, other_amount, job.gpus),
        (who, flags, job.gpus),
        (who, script, job.gpus),
        *by_name,
    )


def described(job: Job, fineness: int, number: int) -> str:
    """So many jobs of that identity, to be read by people."""
    who = job.user or job.tenant
    by = f" by {who}" if who else ""
    if fineness >= NAME and job.name:
        runs = counted(number, "run")
        same = _SAME.get(fineness, job.name)
        return f"{runs} of {same}{by}{_LIKE.get(fineness, '')}"
    jobs = counted(number, "job")
    return f"{jobs}{by}" if fineness >= USER and who else f"{jobs} of all users"
