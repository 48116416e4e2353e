"""What pages for browsers are told: at first, and while things change. Times are since 1970."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from dovetail.api.forecast_row import Span
from dovetail.api.job_row import GpusHeld, JobRow, Phase
from dovetail.api.machine_row import Counts, NodeRow
from dovetail.api.study_row import BestTrial, State
from dovetail.api.wire import about, row


@row
class PageUpdate:
    """What has changed since the update before."""

    seq: int = field(metadata=about("Of the last entry of the journal that it tells of."))
    at: float = field(metadata=about("Seconds since 1970."))
    counts: Counts
    jobs: list[JobRow] = field(
        metadata=about("Those that were submitted, have changed or have ended, as they are now.")
    )
    nodes: list[NodeRow] = field(metadata=about("Those whose GPUs have changed hands."))
    studies: list[str] = field(metadata=about("Ids of those that have changed."))
    services: list[str] = field(metadata=about("Ids of those that have changed."))
    settings: bool = field(metadata=about("Policy, tenants or limits have changed."))
    complete: bool = field(
        metadata=about("False: more has changed than is told here; read the page anew.")
    )
    pages: int = field(
        default=1,
        metadata=about("That are open, of all users: the more, the less often each asks."),
    )


@row
class Me:
    """Who asks, and of whom."""

    user: str
    admin: bool
    version: str
    system: bool = field(metadata=about("Is the daemon for everybody on this machine?"))
    network: bool = field(metadata=about("Did they come by a token, so that they can log out?"))
    now: float = field(metadata=about("The daemon's clock."))


@row
class LaneNode:
    """A node, with what its GPUs do besides our jobs."""

    id: str
    number: int = field(metadata=about("By which placements name it."))
    kind: str
    gpus: list[int] = field(metadata=about("Their numbers, as nvidia-smi counts."))
    up: bool
    open: bool
    strangers: list[int] = field(metadata=about("GPUs that processes use which are not ours."))
    closed: list[str] = field(
        metadata=about("By whom and why each GPU is, empty where it is open; none: all are open.")
    )
    watts: list[float | None] = field(
        metadata=about("Drawn by each GPU, null where it is unknown; none: not measured.")
    )


@row
class Runner:
    """A job that holds GPUs."""

    id: str
    name: str
    user: str
    phase: Phase
    gpus: int
    share: float
    group: str
    trial: int | None
    since: float = field(metadata=about("When it was given the GPUs that it holds."))
    on: list[GpusHeld]
    step: float | None


@row
class NowTold:
    """Who runs where, the same for everybody. `seq` is the entry of the journal that it follows."""

    seq: int
    at: float
    policy: str
    trouble: str
    notices: int
    waiting: int
    nodes: list[LaneNode]
    running: list[Runner]


@row
class QueuedRow:
    """A job in the queue."""

    id: str
    name: str
    user: str
    phase: Phase
    gpus: int
    share: float
    priority: float
    group: str
    trial: int | None
    submitted_at: float
    preemptions: int
    held: bool = field(metadata=about("Is it kept out of the queue, by its user or by others?"))
    note: str = field(metadata=about("Why, if it is the caller's."))


@row
class QueueLine:
    """A part of the queue, in the order of the policy."""

    seq: int
    total: int
    first: int = field(metadata=about("The place in the queue of the first row."))
    exact: bool = field(metadata=about("False: the policy does not tell its order."))
    rows: list[QueuedRow]


@row
class PastStint:
    """A job's stay on its GPUs that has ended."""

    id: str
    name: str
    user: str
    since: float
    until: float
    share: float
    on: list[GpusHeld]
    end: str = field(metadata=about("finished, failed, cancelled, preempted, interrupted, moved."))


@row
class PastHour:
    """The stints that ended within the last hour, and which entry of the journal they follow."""

    seq: int
    begin: float
    stints: list[PastStint]


@row
class FutureStint:
    """A stay on GPUs that is foreseen."""

    id: str
    name: str
    user: str
    since: float
    until: float | None = field(metadata=about("null: it cannot be told."))
    guess: bool = field(
        metadata=about("`until` rests on a job of which none like it has finished.")
    )
    share: float
    on: list[GpusHeld]


@row
class HourAhead:
    """The hour to come, if all goes as expected, and when the jobs asked for are expected to start."""

    made_at: float
    limited: str = field(metadata=about("What it does not take into account."))
    stints: list[FutureStint]
    starts: dict[str, Span | None] = field(metadata=about("null: unknown."))


@row
class HourCost:
    """What jobs have cost since the present hour began, in the unit of the prices."""

    since: float
    file: str = field(metadata=about("Where the prices stand; none: they are not known."))
    total_cost: float
    energy_kwh: float
    currency: str = ""


@row
class LogPlace:
    """A line of a log."""

    at: int = field(metadata=about("Bytes before it."))
    line: str


@row
class LogFound:
    """Lines that contain a text."""

    found: list[LogPlace]
    upto: int = field(metadata=about("How far it has looked; go on from there."))
    end: int = field(metadata=about("Of the log, for now."))


@row
class StintCost:
    """One stay of a job on its GPUs, and what giving way took at its end."""

    since: float
    until: float | None = field(metadata=about("null: it goes on."))
    on: list[GpusHeld]
    share: float
    end: str
    rung: str = field(metadata=about("How it gave way."))
    save_s: float | None
    restore_s: float | None = field(metadata=about("To come back, at its beginning."))
    lost_s: float = field(metadata=about("Work that had to be done again."))


@row
class MetricCurve:
    """The values of a metric, thinned if there are many."""

    name: str
    at: list[float]
    steps: list[float | None]
    values: list[float]
    odd: int = field(metadata=about("Values that were no finite numbers, such as nan."))


@row
class LiveStudy:
    """A study, as its page draws it."""

    id: str
    name: str
    user: str
    state: State
    owned: bool = field(metadata=about("May the caller change it?"))
    found: str = field(metadata=about("The best value, in words."))
    best: BestTrial | None
    facts: list[str]
    data: dict[str, Any] = field(metadata=about("What its charts are drawn from."))


@row
class JobStory:
    """A job from its submission on, as the journal tells it."""

    seq: int
    facts: list[tuple[str, str]] = field(metadata=about("As `dovetail show` tells them."))
    stints: list[StintCost]
    metrics: list[MetricCurve]
    owned: bool = field(metadata=about("May the caller change it?"))


@row
class UsageRow:
    """What the ended jobs of one user, tenant, model, name or day have used."""

    key: str
    jobs: int
    finished: int
    failed: int
    cancelled: int
    gpu_hours: float
    busy_gpu_hours: float | None = field(
        default=None,
        metadata=about("Of those the ones in which the GPUs computed; null: of no job known."),
    )
    cpu_hours: float = 0.0
    lost_gpu_hours: float
    mean_wait_s: float
    p90_wait_s: float
    preemptions: int
    energy_kwh: float | None = field(metadata=about("Of all, by GPU-hours; null: unknown."))
    money: float | None = field(metadata=about("The same."))


@row
class UsageTold:
    """Ended jobs, and what they have used."""

    groups: list[UsageRow]
    jobs: list[JobRow] = field(metadata=about("The newest."))
    total: int
    all: bool = field(metadata=about("False: only the newest were looked at."))
    uncosted: str = field(metadata=about("Why energy and money are unknown, if so."))
    currency: str = ""


@row
class ReplayTold:
    """The caller's replay of the past."""

    part: float = field(metadata=about("That is done, from 0 to 1."))
    state: str = field(metadata=about("none, running, done or failed."))
    text: str
    jobs: int
    policies: list[str]


@row
class PolicyNames:
    """The policies and predictors there are."""

    policies: list[str]
    predictors: list[str]


@row
class JobUnderPolicies:
    """When a job is expected to start and end under the policy that decides, and under another."""

    id: str
    name: str
    user: str
    start: Span | None
    end: Span | None
    start_then: Span | None
    end_then: Span | None


@row
class PolicyPreview:
    """What is expected to change if another policy decided from now on."""

    policy: str
    instead_of: str
    jobs: int
    sooner: int = field(metadata=about("Jobs that are expected to end sooner than they will now."))
    later: int
    mean_end_s: float | None = field(metadata=about("From now, over the jobs known under both."))
    mean_end_then_s: float | None
    rows: list[JobUnderPolicies] = field(metadata=about("Those that change most, first."))
    limited: str
