"""A job as the daemon tells it. Times are seconds since 1970, null where it has not happened."""

from __future__ import annotations

from dataclasses import field
from typing import Literal, TypeAlias

from dovetail.api.forecast_row import Change
from dovetail.api.wire import about, row

Phase: TypeAlias = Literal[
    "queued", "starting", "running", "suspended", "finished", "failed", "cancelled"
]
LIVE: tuple[Phase, ...] = ("queued", "starting", "running", "suspended")
ENDED: tuple[Phase, ...] = ("finished", "failed", "cancelled")
JOB_ID = r"^[0-9]{1,18}(\.[0-9]{1,10})?$"

# What jobs call the last step when they report it beside the present one.
TOTALS = ("total", "total_steps", "steps_total", "max_steps", "num_steps")


@row
class GpusHeld:
    """GPUs of one node."""

    node: int
    gpus: list[int] = field(metadata=about("Their numbers, as nvidia-smi counts."))
    power_limit_watts: int | None = field(
        default=None, metadata=about("That each may draw; null: no limit is set.")
    )


@row
class Report:
    """The last report of a job."""

    at: float
    step: float | None
    metrics: dict[str, float | str]
    left_out: int = field(default=0, metadata=about("Reports that were merged with others."))


@row
class MeasuredSpeed:
    """Steps a second by a job's own reports, with so many GPUs."""

    kind: str
    gpus: int
    nodes: int
    steps_per_s: float
    at: float = field(metadata=about("When it was last measured there."))


@row
class GivingWay:
    """How it was last preempted, and what that took."""

    rung: str
    save_s: float
    restore_s: float | None
    parked_bytes: int


@row
class UsedTold:
    """What the processes of a job have used, over all its runs."""

    cpu_s: float
    peak_memory_bytes: int = field(metadata=about("Of all its processes, as far as it was seen."))
    gpu_busy: float | None = field(
        default=None,
        metadata=about("The part of the time that its GPUs computed; null: not known."),
    )
    peak_gpu_memory_bytes: int | None = None


@row
class JobRow:
    """A job in a list."""

    id: str = field(metadata={"pattern": JOB_ID})
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
    failures: list[float] = field(
        default_factory=list,
        metadata=about("Seconds after which each attempt failed, once it has ended."),
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
    after_any: list[str] = field(default_factory=list)
    after_failed: list[str] = field(default_factory=list)
    group: str
    model: str = field(default="", metadata=about("What it trains, if its user said."))
    trial: int | None = field(
        default=None, metadata=about("Its number in the study that `group` names.")
    )
    alike: list[str] = field(
        default_factory=list,
        metadata=about("Digests of what it runs, from the exact command to its script."),
    )
    amount: float | None = field(
        default=None, metadata=about("Epochs or steps that its command names.")
    )
    speeds: list[MeasuredSpeed] = field(
        default_factory=list, metadata=about("As measured, the latest first.")
    )
    used: UsedTold | None = field(
        default=None, metadata=about("Of one job, or once it has ended; null: not known.")
    )


@row
class DeadlineTold:
    """What the policy has said to a job's deadline."""

    id: str
    deadline: float
    promised: bool | None = field(metadata=about("null: it has not decided yet."))
    refused: bool = field(metadata=about("It was turned away and does not run."))
    ends_by: float | None = field(metadata=about("Promised: the end by the policy's plan."))
    gpus: int | None = field(metadata=about("Promised: the most that the plan gives it."))
    why: str = field(metadata=about("Not promised: why, in the policy's words."))
    foreseen: bool | None = field(
        default=None,
        metadata=about("Not decided yet: would it be promised as things stand? null: unknown."),
    )
    would_do: list[Change] = field(
        default_factory=list, metadata=about("With each of these it would be promised now.")
    )


@row
class JobDetails(JobRow):
    """A job with its description."""

    spec: dict[str, object] | None = field(
        metadata=about("As submitted, without its variables; null if it is another user's."),
    )
    workdir: str | None
    log: str | None
    promise: DeadlineTold | None = field(
        default=None, metadata=about("null: no deadline, or a policy that promises none.")
    )
    terminal: bool = field(default=False, metadata=about("It runs in one: see its console."))
    commit: str | None = field(
        default=None, metadata=about("Of the folder it was submitted in, if Git keeps that.")
    )


@row
class Jobs:
    """The jobs that have not ended."""

    policy: str
    trouble: str = field(metadata=about("Why the policy asked for does not decide, if so."))
    jobs: list[JobRow]
    notices: int = field(metadata=about("How many nobody has acknowledged; see /v1/health."))
    total: int
    running: int
    waiting: int
    closed: list[str] = field(
        default_factory=list, metadata=about("GPUs that are closed, and why, in words.")
    )


@row
class Past:
    """Jobs that have ended."""

    jobs: list[JobRow]


@row
class Ids:
    """The jobs that were submitted or changed."""

    ids: list[str]
    problems: list[str] = field(
        default_factory=list, metadata=about("What could not be done, and why.")
    )


@row
class SubmittedJobs(Ids):
    """The jobs that were submitted."""

    deadlines: list[DeadlineTold] = field(
        default_factory=list,
        metadata=about("Of those with a deadline, where the policy promises some."),
    )


@row
class WouldBe:
    """A submission that was checked and not taken."""

    jobs: int
    gpus: int = field(metadata=about("That each of them asks for."))


@row
class StdinTaken:
    """How much of the standard input has arrived."""

    taken: int = field(metadata=about("Bytes in all; send what follows them."))
    open: bool = field(metadata=about("False: the job will read no more."))
