"""The seam: all that a daemon knows of the world that its jobs run in, and all that a world is told.

A daemon decides and remembers; a world has machines. Jobs cross the seam as an `Order`, decisions as
entries of the journal, and what became of them comes back as events. Nothing here names a file, a
process or a user of a machine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from dovetail.core.entries import (
    Branch,
    Cancelled,
    Event,
    Preempt,
    Refuse,
    Requeued,
    Resize,
    Start,
    Stop,
)
from dovetail.core.errors import BadInput
from dovetail.core.model import JobId, Node, Placement, Seconds
from dovetail.core.view import View
from dovetail.models.power import NO_LIMITS, PowerTable

GOOD, BAD, NOTE = "good", "bad", "note"

# Entries of the journal that a world acts on, whoever made them: the policy, or a user.
Wanted = Start | Preempt | Resize | Stop | Refuse | Branch | Cancelled | Requeued


class Script(str):
    """A word of a command: the file of that name among the order's `scripts`, wherever a world has
    put it."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Order:
    """What is to run, and how it may be treated. What, not where."""

    job_id: JobId
    argv: tuple[str, ...]
    env: Mapping[str, str]  # over those of `Ground.environment_of`, which may hold secrets
    workdir: str  # as its user names it
    owner: str  # the user's name
    image: str = ""  # "": as things are where it runs
    nodes: int = 1  # so many runs, one on each node, all or none
    scripts: Mapping[str, str] = field(default_factory=dict)
    shared_by: JobId | None = None  # its array: scripts and environment are the same for all of it
    umask: int = 0o022
    streams_apart: bool = False  # output and errors are wanted each alone, too
    has_stdin: bool = False
    is_slurm: bool = False  # a batch script, which looks for `srun`
    # the manner of giving way
    grace_s: Seconds = 60.0
    preemptible: bool = True
    restartable: bool = False
    saves_itself: bool = False  # its user says so; its SDK may say so too
    checkpoint_dir: str = ""  # in its working folder; "": one that the world makes
    begins_from: JobId | None = None  # whose checkpoints it begins with
    # what it tells
    reads_output: bool = False  # its metrics may be in what it prints
    metric_pattern: str = ""  # and are found there by this expression, else in lines of JSON

    def __post_init__(self) -> None:
        if not self.argv or not self.argv[0]:
            raise BadInput("there is no command to run; give one after --")

    @property
    def kept_under(self) -> JobId:
        """The number under which its scripts and its environment are kept."""
        return self.shared_by or self.job_id


@dataclass(frozen=True, slots=True)
class UserAccount:
    """A user as a machine knows them, that shares its users with the daemon's machine."""

    uid: int
    gid: int
    groups: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ground:
    """What a daemon gives its world to stand on."""

    view: View
    clock: Callable[[], Seconds]  # as the journal counts
    ring: Callable[[], None]  # there is something to observe; from any thread
    order_for: Callable[[JobId], Order]
    account_of: Callable[[JobId], UserAccount | None]  # None: the daemon's own user
    environment_of: Callable[[JobId], Mapping[str, str]]  # of its `kept_under`
    power: PowerTable = NO_LIMITS  # how much slower models are under power limits


class JobLog(Protocol):
    """What a job has printed. Places count from the first byte ever, also after some are gone."""

    @property
    def place(self) -> str:
        """Where people find it; "" if they must ask us."""

    def end(self) -> int: ...

    def read(self, start: int, most: int) -> tuple[int, bytes]:
        """What follows, and where that really begins: later, if the oldest is gone."""


class Stdin(Protocol):
    """What a job reads, in a ring of so many bytes between its sender and its processes."""

    @property
    def name(self) -> str:
        """The same for the same job."""

    @property
    def room_bytes(self) -> int: ...

    def put(self) -> tuple[int, bool]:
        """So many bytes have come, and whether those are all."""

    def got(self) -> int:
        """So many were read; below 0: nobody will read more."""

    def add(self, put: int, piece: bytes, is_all: bool) -> int:
        """Put in what follows those; how many bytes that makes."""

    def is_there(self) -> bool: ...


class Power(Protocol):
    """Power limits of GPUs."""

    @property
    def notices(self) -> Sequence[str]:
        """Why some run without a limit that they were to have."""

    @property
    def failed(self) -> bool:
        """One could not be set after all: no more are."""

    def notice(self, line: str) -> None: ...

    def try_out(self, nodes: Iterable[Node]) -> dict[str, tuple[float, float]]:
        """By GPU kind, from how many watts to how many a limit may be."""

    def is_held(self, placement: Placement, nodes: Sequence[Node]) -> bool:
        """Do the GPUs of the placement have its limit, whoever has set it?"""


class Gauge(NamedTuple):
    """A figure of now, for /metrics: by labels, of as many things as there are."""

    name: str
    told: str  # what it is
    values: Sequence[tuple[Mapping[str, object], float]]


class Finding(NamedTuple):
    """One line of `dovetail doctor`."""

    what: str
    state: str  # GOOD, NOTE or BAD
    text: str


class Shelf(Protocol):
    """What is kept of jobs: scripts, what they print and read, what they save. From any thread."""

    def take_on(self, order: Order, owner: UserAccount | None) -> None:
        """A place for a job that is not in the journal yet; see `settle` and `drop`. None: the
        daemon's own user."""

    def settle(self) -> None:
        """Those that were taken on are in the journal."""

    def drop(self) -> list[JobId]:
        """They are not taken on after all. Returns who they were."""

    def jobs(self) -> set[str]:
        """Of whom something is kept; also arrays, under their number."""

    def drop_unsettled(self, is_known: Callable[[str], bool]) -> set[str]:
        """After a restart: jobs that nobody was told of go. Returns which they were."""

    def repair(self, order: Order, owner: UserAccount | None) -> None:
        """Its place was lost before it ever ran."""

    def leave_alone(self, job_id: str) -> str:
        """A job that the journal has lost: nothing of it is ended or removed. What still runs."""

    def log(self, job_id: str, stream: str = "") -> JobLog:
        """Of both streams, or of `stdout` or `stderr` where they are kept apart."""

    def stdin(self, job_id: str) -> Stdin: ...

    def holds(self, job_id: str) -> bool:
        """Is anything kept of it?"""

    def ended(self, job_id: str) -> None:
        """Nobody reads its standard input any more."""

    def all_ended_but(self, known: Collection[str]) -> None:
        """The same after a restart, of all the others."""

    def as_launched(self, job_id: str) -> tuple[Order, UserAccount | None] | None:
        """What the journal has lost may be known here: the order as it was last carried out."""

    def remove(self, job_id: str) -> None: ...

    def clear(self) -> None:
        """What was being removed when a daemon was killed."""

    def bytes_of(self, job_id: str | None = None) -> int:
        """Of one, or of all."""

    def copy_checkpoint(
        self, sources: Sequence[JobId], name: str, owner: UserAccount | None
    ) -> bool:
        """Of the first of them that has saved anything, under a name of its own. False: none has."""

    def hand_over(self, name: str, job_id: JobId) -> None:
        """That copy is what the job begins with."""

    def drop_copy(self, name: str) -> None: ...


class World(Protocol):
    """One for each daemon. Called on the thread of the daemon's loop unless it says otherwise."""

    @property
    def nodes(self) -> Sequence[Node]:
        """As they are now; those that join, leave or return are told as events."""

    @property
    def power(self) -> Power: ...

    @property
    def shelf(self) -> Shelf: ...

    def join(self, ground: Ground) -> None:
        """Before anything else. Refuses (BadInput) a journal that cannot go on here."""

    def catch_up(self) -> list[Event]:
        """Take up what an earlier daemon left: what runs is adopted, what came about while nobody
        looked is told, as far as can be at the time it did."""

    def begin(self) -> list[Event]:
        """Tell which nodes there are, and go on with what was decided before."""

    def observe(self) -> list[Event]:
        """What came about since the last time. Never waits: see `Ground.ring`."""

    def carry_out(self, wanted: Sequence[Wanted]) -> None:
        """What was decided, and what users asked for. It is on disk."""

    def look_again_s(self) -> Seconds:
        """So soon it wants to be observed even if it does not ring; as a rule never."""

    def stop(self) -> None:
        """Watch no longer. The jobs go on."""

    # ----------------------------------------------------------------------- from any thread

    def why_not(self, order: Order) -> str:
        """Why this order could never run here; "" if it could. Its GPUs are another question."""

    def has_processes(self, job_id: JobId | None = None) -> bool:
        """The job; or, of None, any."""

    def gauges(self) -> Iterable[Gauge]: ...

    def findings(self) -> Iterable[Finding]:
        """What keeps it from its work, for the doctor."""

    @property
    def trouble(self) -> str:
        """What keeps its threads from their work; "" as a rule."""
