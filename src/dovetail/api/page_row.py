"""What pages for browsers are told: at first, and while things change. Times are since 1970."""

from __future__ import annotations

from dataclasses import field

from dovetail.api.forecast_row import Span
from dovetail.api.job_row import GpusHeld, JobRow, Phase
from dovetail.api.machine_row import Counts, NodeRow
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


@row
class Me:
    """Who asks, and of whom."""

    user: str
    admin: bool
    version: str
    system: bool = field(metadata=about("Is the daemon for everybody on this machine?"))
    now: float = field(metadata=about("The daemon's clock."))


@row
class LaneNode:
    """A node, with what its GPUs do besides our jobs."""

    id: str
    number: int = field(metadata=about("By which placements name it."))
    kind: str
    gpus: int
    up: bool
    open: bool
    strangers: list[int] = field(metadata=about("GPUs that processes use which are not ours."))
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
    share: float
    on: list[GpusHeld]


@row
class HourAhead:
    """The hour to come, if all goes as expected, and when the jobs asked for are expected to start."""

    made_at: float
    limited: str = field(metadata=about("What it does not take into account."))
    stints: list[FutureStint]
    starts: dict[str, Span | None] = field(metadata=about("null: unknown."))
