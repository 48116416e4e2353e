"""Requests that the API takes, checked. Its answers are in `dovetail.api`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    StrictBool,
    StringConstraints,
    WithJsonSchema,
)

from dovetail.api.job_row import JOB_ID
from dovetail.jobfiles.complaint import Complaint
from dovetail.jobfiles.fields import LARGEST_PRIORITY, Deadline, NotifyEvents, NotifyWays
from dovetail.jobfiles.job_model import JobSpec
from dovetail.jobfiles.study_fields import MOST_TRIALS
from dovetail.jobfiles.texts import LONGEST_NAME, label

MOST_SUBMISSIONS = 10_000
MOST_IDS = 10_000
LARGEST_NUMBER = 1e15
_MOST_ENVIRONMENT_CHARACTERS = 4_000_000


def _text(**limits: object) -> dict[str, object]:
    return {"type": "string", **limits}


def _job_id(text: str) -> str:
    if not re.fullmatch(JOB_ID[1:-1], text, re.ASCII):
        raise ValueError("is not a job id, such as 12 or 12.3")
    return text


def _wanted(text: str) -> str:
    """Ids, the number of an array for all its members, or a pattern for the caller's own jobs."""
    if not 1 <= len(text) <= LONGEST_NAME or not text.isprintable():
        raise ValueError("is neither a job id nor a pattern, such as 12, 12.3 or 'train-*'")
    return text


JobId = Annotated[str, AfterValidator(_job_id), WithJsonSchema(_text(pattern=JOB_ID))]
Wanted = Annotated[
    str, AfterValidator(_wanted), WithJsonSchema(_text(minLength=1, maxLength=LONGEST_NAME))
]


def _environment(given: object) -> dict[str, str]:
    """Its values may be secrets: no message shows one. They may also be no proper text, as the system
    allows, and must reach the job as they are."""
    if not isinstance(given, Mapping):
        raise Complaint("environment: a table of names and texts is needed")
    for name, value in given.items():
        if not (name and "=" not in name and "\0" not in name):
            raise Complaint("environment: a variable has a name that no process can be given")
        if not isinstance(value, str) or "\0" in value:
            raise Complaint("environment: a variable has a value that is not a text without NUL")
    if sum(len(name) + len(value) for name, value in given.items()) > _MOST_ENVIRONMENT_CHARACTERS:
        raise Complaint("environment: it is larger than any process can be given")
    return dict(given)


def _absolute(path: str) -> str:
    if not path.startswith("/") or "\0" in path:
        raise ValueError("is not an absolute path")
    return path


def one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("is not one line of printable text")
    return text


def _tenant_name(name: str) -> str:
    found = label(name)
    if not found:
        raise ValueError("is empty; a tenant needs a name")
    return found


TenantName = Annotated[
    str,
    AfterValidator(_tenant_name),
    WithJsonSchema(_text(minLength=1, maxLength=LONGEST_NAME)),
]
UserName = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_NAME)]
Environment = Annotated[
    dict[str, str],
    PlainValidator(_environment),
    WithJsonSchema({"type": "object", "additionalProperties": {"type": "string"}}),
]
Workdir = Annotated[
    str,
    StringConstraints(max_length=4096),
    AfterValidator(_absolute),
    WithJsonSchema(_text(pattern="^/", maxLength=4096)),
]


Commit = Annotated[str, StringConstraints(pattern="^[0-9a-f]{40,64}$")]


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TerminalAsked(_Asked):
    """The job runs in a terminal of this size."""

    rows: int = Field(default=24, ge=1, le=1000, strict=True)
    columns: int = Field(default=80, ge=1, le=1000, strict=True)
    linger_s: float = Field(
        default=600.0, ge=1, le=1e9, description="Nobody has looked at it for so long: it is ended."
    )


class SizeAsked(_Asked):
    """The size of a terminal."""

    rows: int = Field(ge=1, le=1000, strict=True)
    columns: int = Field(ge=1, le=1000, strict=True)


class CommandAsked(_Asked):
    """A command to run beside a job."""

    argv: list[Annotated[str, StringConstraints(max_length=100_000)]] = Field(
        min_length=1, max_length=10_000
    )
    size: SizeAsked | None = Field(default=None, description="Of its terminal; null: it has none.")
    cwd: Workdir | None = Field(default=None, description="null: the job's folder.")


class SignalAsked(_Asked):
    signal: Literal[1, 2, 3, 9, 15]


class SubmissionAsked(_Asked):
    spec: JobSpec
    environment: Environment = Field(
        default={}, repr=False, description="Kept in a private file, told to nobody."
    )
    workdir: Workdir = Field(description="The folder it was submitted in.")
    umask: int = Field(default=0o022, ge=0, le=0o777, strict=True)
    apart: bool = Field(default=False, description="Output and errors can be read each alone, too.")
    stdin: bool = Field(default=False, description="Its standard input will be sent.")
    terminal: TerminalAsked | None = Field(default=None, description="null: it has none.")
    commit: Commit | None = Field(
        default=None, description="Of the folder it is submitted in, if Git keeps that."
    )


class SubmissionsAsked(_Asked):
    jobs: list[SubmissionAsked] = Field(min_length=1, max_length=MOST_SUBMISSIONS)


class AgainAsked(_Asked):
    """Another run of a job that has ended."""

    changes: dict[str, Any] = Field(
        default={}, description="Fields of its description to change: {resources: {gpus: 2}}."
    )


class WhatIfAsked(_Asked):
    """A job that is not submitted, and the time that it is wanted by."""

    spec: JobSpec
    by: Deadline | None = Field(
        default=None,
        description="As a deadline is written: +2h, 18:00, friday, 2026-12-01 18:00.",
        examples=["friday"],
    )


class JobsAsked(_Asked):
    """Some jobs: by `ids`, names or patterns, or all of the caller's that have not ended."""

    ids: list[Wanted] = Field(default=[], max_length=MOST_IDS)
    mine: StrictBool = False
    partly: StrictBool = Field(
        default=False, description="What can be done is; what cannot is told. Else all or nothing."
    )


class PriorityAsked(JobsAsked):
    priority: float = Field(ge=-LARGEST_PRIORITY, le=LARGEST_PRIORITY, strict=True)


class NotifyAsked(JobsAsked):
    """Empty: nobody is told any more."""

    notify: NotifyWays
    notify_on: NotifyEvents = ()


class PolicyAsked(_Asked):
    policy: str = Field(min_length=1, max_length=500, examples=["srtf"])


_GpuName = Annotated[str, StringConstraints(min_length=1, max_length=300)]
_Why = Annotated[str, AfterValidator(one_line), StringConstraints(max_length=200)]


class ClosingAsked(_Asked):
    gpus: list[_GpuName] = Field(
        min_length=1,
        max_length=MOST_IDS,
        description="2, 0,2-3, NODE, NODE/2 or the beginning of a UUID.",
        examples=[["2"]],
    )
    reason: _Why = Field(default="", description="Shown to everybody who asks why they wait.")
    vacate: bool = Field(default=False, description="Do the jobs there give way?")


class OpeningAsked(_Asked):
    gpus: list[_GpuName] = Field(
        default=[], max_length=MOST_IDS, description="As for closing; empty: all."
    )


class TextAsked(_Asked):
    """A job file that is not submitted, and the time that it is wanted by."""

    text: str = Field(min_length=1, max_length=200_000, description="YAML, or a script.")
    by: Deadline | None = Field(default=None, examples=["friday"])


class ReplayAsked(_Asked):
    """What was submitted from then to then, under these policies."""

    policies: list[Annotated[str, StringConstraints(min_length=1, max_length=500)]] = Field(
        min_length=1, max_length=6, examples=[["fifo", "fair-share"]]
    )
    since: float | None = Field(default=None, ge=0, le=LARGEST_NUMBER, strict=True)
    until: float | None = Field(default=None, ge=0, le=LARGEST_NUMBER, strict=True)


class TenantAsked(_Asked):
    name: TenantName
    gpu_quota: float | None = Field(
        default=None,
        ge=0,
        le=LARGEST_NUMBER,
        strict=True,
        description="GPUs at once; null for no limit.",
    )
    weight: float = Field(default=1.0, gt=0, le=LARGEST_NUMBER, strict=True)

    users: list[UserName] = Field(default=[], max_length=1000, description="Who may use it.")
    groups: list[UserName] = Field(
        default=[], max_length=1000, description="Whose members may; neither said: everybody."
    )


class StudyAsked(_Asked):
    spec: dict[str, Any] = Field(description="As docs/study.schema.json describes it.")
    environment: Environment = Field(
        default={}, repr=False, description="Kept in a private file, told to nobody."
    )
    workdir: Workdir = Field(description="The folder it was opened in.")
    umask: int = Field(default=0o022, ge=0, le=0o777, strict=True)


class MoreTrials(_Asked):
    trials: int = Field(ge=1, le=MOST_TRIALS, strict=True, description="Beside those it has.")


class ServiceAsked(_Asked):
    spec: dict[str, Any] = Field(description="As docs/services.md describes it.")
    environment: Environment = Field(
        default={}, repr=False, description="Kept in a private file, told to nobody."
    )
    workdir: Workdir = Field(description="The folder it was declared in.")
    umask: int = Field(default=0o022, ge=0, le=0o777, strict=True)


class ScaleAsked(_Asked):
    """So many replicas at least and at most."""

    least: int = Field(ge=0, le=1000, strict=True)
    most: int = Field(ge=1, le=1000, strict=True)
