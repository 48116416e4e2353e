"""What the API takes and gives, as its published schema tells it. Times are seconds since 1970."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    PlainValidator,
    StrictBool,
    StringConstraints,
    WithJsonSchema,
)

from dovetail.jobfiles.complaint import Complaint
from dovetail.jobfiles.fields import LARGEST_PRIORITY, Deadline
from dovetail.jobfiles.job_model import JobSpec
from dovetail.jobfiles.texts import LONGEST_NAME, label

JOB_ID = r"^[0-9]{1,18}(\.[0-9]{1,10})?$"
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
Phase = Literal["queued", "starting", "running", "suspended", "finished", "failed", "cancelled"]


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


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SubmissionAsked(_Asked):
    spec: JobSpec
    environment: Environment = Field(
        default={}, repr=False, description="Kept in a private file, told to nobody."
    )
    workdir: Workdir = Field(description="The folder it was submitted in.")
    umask: int = Field(default=0o022, ge=0, le=0o777, strict=True)
    apart: bool = Field(default=False, description="Output and errors can be read each alone, too.")
    stdin: bool = Field(default=False, description="Its standard input will be sent.")


class StdinTaken(BaseModel):
    taken: int = Field(description="Bytes in all; send what follows them.")
    open: bool = Field(description="False: the job will read no more.")


class SubmissionsAsked(_Asked):
    jobs: list[SubmissionAsked] = Field(min_length=1, max_length=MOST_SUBMISSIONS)


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


class PolicyAsked(_Asked):
    policy: str = Field(min_length=1, max_length=500, examples=["srtf"])


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


# ----------------------------------------------------------------------------------------- answers


class ProblemTold(BaseModel):
    error: str = Field(description="One line: what could not be done, why, and the way out.")


class Ids(BaseModel):
    ids: list[str]
    problems: list[str] = Field(default=[], description="What could not be done, and why.")


class GpusHeld(BaseModel):
    """GPUs of one node."""

    node: int
    gpus: list[int]
    power_limit_watts: int | None = Field(description="That each may draw; null: no limit chosen.")


class Report(BaseModel):
    at: FiniteFloat
    step: float | None
    metrics: dict[str, float | str]
    left_out: int = Field(default=0, description="Reports that were put together with others.")


class GivingWay(BaseModel):
    """How it last gave way, and what that took."""

    rung: str
    save_s: float
    restore_s: float | None
    parked_bytes: int


class JobRow(BaseModel):
    id: JobId
    name: str
    user: str
    tenant: str
    phase: Phase
    exit_code: int | None
    gpus: int
    share: float
    kinds: list[str]
    priority: float
    preemptions: int
    attempts: int
    failures: list[float] = Field(
        default=[], description="Seconds after which each attempt failed, once it has ended."
    )
    submitted_at: float
    started_at: float | None
    ended_at: float | None
    run_s: float
    lost_gpu_s: float
    placement: list[GpusHeld]
    last_report: Report | None
    preemption: GivingWay | None
    reason: str
    time_limit_s: float | None
    deadline: float | None
    after: list[str]
    group: str
    trial: int | None = Field(
        default=None, description="Which one of the study that `group` names."
    )
    alike: list[str] = Field(
        default=[], description="Digests of what it runs, from the very command to its script."
    )
    amount: float | None = Field(
        default=None, description="Epochs or steps that its command names."
    )


class JobDetails(JobRow):
    spec: dict[str, Any] | None = Field(
        description="As submitted, without its variables; null if it is somebody else's."
    )
    workdir: str | None
    log: str | None


class PolicyTold(BaseModel):
    policy: str
    trouble: str = Field(description="Why the one that was asked for does not decide, if so.")


class Acknowledged(BaseModel):
    notices: list[str] = Field(description="Those that are known now, and no longer shown.")


class Jobs(PolicyTold):
    jobs: list[JobRow]
    notices: int = Field(description="How many nobody has acknowledged; see /v1/health.")
    total: int
    running: int
    waiting: int


class Past(BaseModel):
    jobs: list[JobRow]


class CostsTold(BaseModel):
    """Money is in the unit of the prices that the daemon was given."""

    energy_cost: float
    tardiness_cost: float
    move_cost: float
    total_cost: float
    tardiness_s: float
    deadline_misses: int
    energy_kwh: float
    co2_kg: float
    migrations: int
    switch_ons: int
    since: float
    file: str = Field(description="Where prices and watts were read; none if nowhere.")


class Counts(BaseModel):
    running: int
    waiting: int


class Health(PolicyTold):
    version: str
    uptime_s: float
    pid: int
    jobs: Counts
    full: bool = Field(description="Is the disk full, so that nothing new is taken on?")
    keep: str = Field(description="How long what is over is kept.")
    notices: list[str] = Field(description="What nobody has acknowledged yet; as a rule nothing.")
    system: bool = Field(description="Is it for everybody on this machine?")
    power: list[str] = Field(description="Why GPUs run without power limits; as a rule nothing.")
    costs: str = Field(description="What is counted as 0 for want of watts; as a rule nothing.")
    threads: str = Field(description="What keeps the daemon from its work; as a rule nothing.")
    seq: int = Field(description="Of the last entry of the journal.")


class Why(BaseModel):
    model_config = ConfigDict(extra="allow")
    text: str


class SpanTold(BaseModel):
    expected: float | None
    low: float | None
    high: float | None


class Forecast(BaseModel):
    made_at: float
    limited: str = Field(description="What it does not take into account.")
    starts: dict[str, SpanTold | None] = Field(description="null: unknown.")
    ends: dict[str, SpanTold | None] = Field(description="null: unknown.")


class CostTold(BaseModel):
    """Money that is spent because of the job, and would not be without it."""

    energy: float
    lateness: float = Field(description="Its own.")
    others: float = Field(description="What other jobs cost more by being late or moved.")
    total: float


class OthersTold(BaseModel):
    later: int = Field(description="How many other jobs end later because of it.")
    most_s: float = Field(description="By how much at most.")
    job: str | None = Field(description="Which one that is.")


class OutcomeTold(BaseModel):
    change: str = Field(description="As asked, or what is different.")
    field: str = Field(
        description="Of the job, or two; or at (handed in then), or pause (another job)."
    )
    value: Any
    start: SpanTold | None = Field(description="null: it cannot be told.")
    end: SpanTold | None
    late_s: float | None = Field(description="After its deadline, else after `by`.")
    in_time: Literal["yes", "likely", "perhaps", "no", "unknown"] | None = Field(
        description="For `by`: the whole interval, the expected end, its beginning, nothing of it, "
        "or nothing is known."
    )
    cost: CostTold | None = Field(description="null: `uncosted` says why.")
    others: OthersTold
    rests_on: str = Field(description="What is believed about its duration, and why.")


class WhatIf(BaseModel):
    policy: str
    now: float
    name: str
    gpus: int
    priority: float
    deadline: float | None
    by: float | None = Field(description="The time asked about, else its deadline.")
    as_asked: OutcomeTold
    alternatives: list[OutcomeTold] = Field(description="Those that gain something, best first.")
    tried: int = Field(description="Alternatives that were looked at.")
    uncosted: str = Field(description="Why costs cannot be told.")
    limited: str = Field(description="What it does not take into account.")


class Occupant(BaseModel):
    job: str
    name: str
    user: str
    share: float


class Gpu(BaseModel):
    index: int
    uuid: str | None = Field(description="null for a processor slot.")
    jobs: list[Occupant]
    strangers: bool = Field(description="Do processes use it that are not ours?")


class NodeRow(BaseModel):
    id: str
    kind: str
    gpus: list[Gpu]
    free: int
    up: bool
    open: bool
    gpu_memory_gb: float
    gpu_watts: float
    cpus: float | None
    memory_gb: float | None


class Nodes(BaseModel):
    nodes: list[NodeRow]


class FindingRow(BaseModel):
    what: str
    state: str = Field(description="good, note or bad.")
    text: str


class Findings(BaseModel):
    findings: list[FindingRow]


class TenantRow(BaseModel):
    name: str
    gpu_quota: float | None
    weight: float
    gpus: float | None = Field(description="GPUs it holds now.")
    users: list[str]
    groups: list[str]


class Tenants(BaseModel):
    tenants: list[TenantRow]
    unknown: list[str] = Field(
        default=[], description="Users and groups just named that the system does not know."
    )


class Stopping(BaseModel):
    stopping: bool


# ----------------------------------------------------------------------------------------- studies


class StudyOpen(BaseModel):
    study: str
    name: str
    planned: int = Field(description="Trials in all; they may share jobs, or come one by one.")
    trials: list[str] = Field(description="The jobs submitted so far.")


class BestTrial(BaseModel):
    trial: int
    value: float
    step: float
    settings: dict[str, Any]


class QuietTrials(BaseModel):
    trials: list[int] = Field(description="The one that has been quiet longest first.")
    job: str = Field(description="Of the first of them.")
    seconds: float = Field(description="For how long nothing has come from it.")
    usual_s: float | None = Field(description="Between two reports here; null: nobody reported.")
    told: list[str] = Field(description="What it reports instead of the metric.")
    printed: list[str] = Field(
        default=[], description="What it printed last, if no trial was ever understood."
    )
    pattern: str = Field(default="", description="A metric_pattern that may find the metric there.")


class _StudyHead(BaseModel):
    id: str
    name: str
    user: str
    policy: str = Field(description="The rule that says whose turn it is.")
    state: Literal["open", "stopped", "closed"]
    reason: str = Field(description="Why it is closed, or what is wrong with its rule.")
    done: int
    running: int
    paused: int
    failed: int
    stopped: int
    best: BestTrial | None
    target: float | None
    reached_s: float | None = Field(description="When the target was reached, from its opening.")
    age_s: float = Field(description="Since its opening, while it was not stopped.")
    gpu_hours: float
    switches: int
    quiet: QuietTrials | None = Field(
        default=None, description="Trials that hold a slot and have not reported for too long."
    )


class StudyRow(_StudyHead):
    trials: int


class StudiesTold(BaseModel):
    studies: list[StudyRow]
    more: int = Field(description="Closed ones that are not told; a higher limit tells them.")


class TrialRow(BaseModel):
    number: int
    job: str
    state: Literal["new", "running", "paused", "done", "stopped", "failed"]
    settings: dict[str, Any]
    steps: int
    value: float | None
    best: float | None
    points: list[tuple[float, float | None, float]] = Field(
        description="Step, value (null if it was no finite number), seconds from the opening."
    )
    stints: list[tuple[float, float | None, str]] = Field(
        description="From and until when, in seconds from the opening, and where."
    )
    reason: str


class SwitchCost(BaseModel):
    seconds: float
    rung: str


class BudgetTold(BaseModel):
    time: float | None = Field(description="Seconds.")
    gpu_hours: float | None


class StudyPage(_StudyHead):
    trials: list[TrialRow] = Field(description="Those submitted so far.")
    planned: int
    metric: str
    direction: Literal["min", "max"]
    steps: int
    report_every: int
    sampler: str
    seed: int
    at_once: int | None
    deadline: float | None
    budget: BudgetTold | None
    opened_at: float
    switch: SwitchCost
    suspended_bytes: int
