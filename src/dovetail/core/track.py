"""One job's history in brief, as far as a scheduler knows it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, NamedTuple, final

from dovetail.core.model import Job, JobId, Placement, Seconds
from dovetail.core.paces import Pace, ReportWindow
from dovetail.core.shape import Shape

SERVES: Final = "it is a replica of a service"
_NOTHING: Final[dict[str, float | str]] = {}


class KeptHost(NamedTuple):
    """What the processes of a job keep of the nodes where they are, see `core.keeping`."""

    placement: Placement
    cpus: float
    memory_gb: float


class Phase(Enum):
    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    SUSPENDED = "suspended"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REFUSED = "refused"


# The frequent ones by name: a lookup in an Enum costs as much as a call.
QUEUED: Final = Phase.QUEUED
STARTING: Final = Phase.STARTING
RUNNING: Final = Phase.RUNNING
SUSPENDED: Final = Phase.SUSPENDED
FINISHED: Final = Phase.FINISHED


@final
class Track:
    """Changed by the state alone. Seconds and GPU-seconds are as of the last change of phase."""

    __slots__ = (
        "__dict__",  # for what most jobs never have: see the defaults below
        "barred",
        "ended_at",
        "executed_s",
        "first_start_at",
        "held_gpu_s",
        "held_s",
        "idle_s",
        "job",
        "left",
        "lost_gpu_s",
        "migrations",
        "moves_from",
        "phase",
        "placement",
        "preemptions",
        "process",
        "reason",
        "resizes",
        "run",
        "sequence",
        "shape",
        "speed",
        "started_at",
        "submitted_at",
        "ticket",
        "turn",
        "waiting_since",
        "working_since",
    )

    attempts: int = 0  # how often it died by its own fault
    exit_code: int | None = None
    forgiven_gpu_s: float = 0.0  # GPU-seconds that are not held against it any more (see Promote)
    pinned: str = ""  # why policies leave it where it is
    requeued: str = ""  # why it is to start over, until its processes are gone
    held: str = ""  # why its user does not let it run now
    awaits: tuple[JobId, ...] = ()  # jobs that must finish before it may start
    stranded: str = ""  # why the cluster as it is now could never run it
    benched: bool = False  # has its group as many others in the queue as it may?
    rung: str = ""  # how it gave way the last time
    parked_bytes: int = 0  # of it that lie in host memory meanwhile
    parked_at: Placement | None = None  # where its processes are suspended, until they go on
    tied: bool = False  # can it go on only there?
    keeps: KeptHost | None = None  # CPUs and memory that are its own, whether it runs or not
    saved_in_s: Seconds = -1.0  # what giving way took the last time, -1 if it never has
    restored_in_s: Seconds = -1.0  # and coming back
    step: float | None = None  # its last report
    metrics: Mapping[str, float | str] = _NOTHING
    reported_at: Seconds = -1.0
    reported_upto: int = 0
    reports_left_out: int = 0  # that were put together with others
    paces: tuple[Pace, ...] = ()  # steps a second as measured, by where it ran
    window: ReportWindow | None = None  # the reports that the last of these is measured by
    notes: Mapping[str, Any] = _NOTHING  # of policies, see `Note`

    def __init__(self, job: Job, shape: Shape, sequence: int, at: Seconds, ticket: int) -> None:
        self.job = job
        self.shape = shape
        self.sequence: Final = sequence  # order of submission: the last word in every tie
        self.submitted_at: Final = at
        self.phase = QUEUED
        self.waiting_since = at
        self.ticket = ticket  # its place in the order of beginning to wait
        self.placement: Placement | None = None  # None while it waits
        self.left: Placement | None = None  # where it was before
        # Where its processes are until they have saved themselves, if it goes on elsewhere.
        self.moves_from: Placement | None = None
        self.first_start_at = -1.0
        self.started_at = -1.0  # when it was last given GPUs
        self.working_since = -1.0  # when it last began to make progress; -1 if not yet
        self.idle_s = 0.0  # of its present turn: with GPUs in hand, before it was at work
        self.ended_at = -1.0
        self.speed = 1.0  # how fast it was last seen to make progress on its present GPUs
        self.executed_s = 0.0  # progress so far, in seconds at speed 1
        self.held_s = 0.0  # time it had GPUs in its hands
        self.held_gpu_s = 0.0  # GPU-seconds it had in its hands
        self.lost_gpu_s = 0.0  # of these: saving, restoring, and work done twice
        self.preemptions = 0
        self.migrations = 0  # how often it went on on other nodes than before
        self.resizes = 0  # how often it went on with other GPUs without having to wait
        self.turn = 0  # changes whenever its place in an order does; marks stale index rows
        self.reason = ""
        self.barred = False  # is it kept out of the queue? See `bar`
        self.process = False  # are there processes of its last launch, as far as we know?
        self.run = 0  # which launch of its processes is the last

    def bar(self) -> None:
        """Keep it out of the queue while there is any reason for that."""
        self.barred = bool(self.held or self.awaits or self.benched or self.stranded)

    @property
    def holds(self) -> float:
        """GPUs in its hands now, a share counted as a part."""
        return 0.0 if self.placement is None else self.placement.holds

    @property
    def stays(self) -> str:
        """Why it cannot be made to give way. A replica can: to other replicas, and where nobody asks."""
        return "" if self.pinned == SERVES else self.pinned

    @property
    def waiting(self) -> bool:
        return self.placement is None

    @property
    def home(self) -> Placement | None:
        """Where its suspended processes are, if there are any."""
        return self.parked_at if self.placement is None else None

    @property
    def save_s(self) -> Seconds:
        """What giving way is expected to cost: as last measured, else as its user said."""
        return self.saved_in_s if self.saved_in_s >= 0 else self.job.interruption.save_s

    @property
    def restore_s(self) -> Seconds:
        """What the next start is expected to cost: as last measured, else as its user said."""
        return self.restored_in_s if self.restored_in_s >= 0 else self.job.interruption.restore_s

    @property
    def resumed(self) -> bool:
        """Has it run before, so that a start must restore something?"""
        return self.first_start_at >= 0

    def executed_by(self, now: Seconds) -> Seconds:
        """Progress at that time, in seconds at speed 1."""
        if self.placement is None or self.working_since < 0:
            return self.executed_s
        return self.executed_s + (now - self.working_since) * self.speed

    def idle_by(self, now: Seconds) -> Seconds:
        """Time of its present turn before it was at work."""
        return self.idle_s + now - self.started_at if self.phase is STARTING else self.idle_s

    def held_by(self, now: Seconds) -> Seconds:
        """Time with GPUs in its hands, up to then."""
        return self.held_s if self.placement is None else self.held_s + (now - self.started_at)

    def service_by(self, now: Seconds) -> float:
        """GPU-seconds held up to that time."""
        if self.placement is None:
            return self.held_gpu_s
        return self.held_gpu_s + self.placement.holds * (now - self.started_at)
