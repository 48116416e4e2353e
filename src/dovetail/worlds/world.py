"""The seam: all that a daemon knows of the world that its jobs run in, and all that a world is told.

A daemon decides and remembers; a world has machines. Jobs cross the seam as an `Order`, decisions as
entries of the journal, and what became of them comes back as events. Nothing here names a file, a
process or a user of a machine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

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
from dovetail.home import Home
from dovetail.models.power import NO_LIMITS, PowerTable
from dovetail.worlds.declared import Declarations
from dovetail.worlds.images import image_trouble

if TYPE_CHECKING:
    from dovetail.worlds.consoles import Consoles
    from dovetail.worlds.hosting import Hosting

GOOD, BAD, NOTE = "good", "bad", "note"
LIMITED: Final = "held by a limit: "  # how the reason of a hold begins that is let go by itself

# Entries of the journal that a world acts on, whoever made them: the policy, or a user.
Wanted = Start | Preempt | Resize | Stop | Refuse | Branch | Cancelled | Requeued


class Script(str):
    """A word of a command: the file of that name among the order's `scripts`, wherever a world has
    put it."""

    __slots__ = ()


class Volume(NamedTuple):
    """Storage that a cluster keeps under a name (a claim), and where a job finds it."""

    claim: str
    path: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Order:
    """What is to run, and how it may be treated. What, not where."""

    job_id: JobId
    argv: tuple[str, ...]
    env: Mapping[str, str]  # over those of `Ground.environment_of`, which may hold secrets
    workdir: str  # as its user names it
    owner: str  # the user's name
    tenant: str = ""  # whose it is; on Kubernetes its namespace
    image: str = ""  # "": as things are where it runs
    nodes: int = 1  # so many runs, one on each node, all or none
    volumes: tuple[Volume, ...] = ()
    service_account: str = ""  # of its owner's namespace; "": none
    gpus: int = 0  # that it asks for on each; which ones it has is decided later
    scripts: Mapping[str, str] = field(default_factory=dict)
    shared_by: JobId | None = None  # its array: scripts and environment are the same for all of it
    umask: int = 0o022
    streams_apart: bool = False  # output and errors are wanted each alone, too
    output: str = ""  # a file of its user's that what it prints is also written to,
    error: str = ""  # and one for its errors alone
    has_stdin: bool = False
    terminal: tuple[int, int] | None = None  # its rows and columns; None: it has no terminal
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
        if self.image and (trouble := image_trouble(self.image)):
            raise BadInput(f"image: {self.image!r} {trouble}")

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
    """The daemon's side for its world: the state, the clock, orders and accounts by job."""

    view: View
    clock: Callable[[], Seconds]  # as the journal counts
    ring: Callable[[], None]  # there is something to observe; from any thread
    order_for: Callable[[JobId], Order]
    account_of: Callable[[JobId], UserAccount | None]  # None: the daemon's own user
    environment_of: Callable[[JobId], Mapping[str, str]]  # of its `kept_under`
    power: PowerTable = NO_LIMITS  # how much slower models are under power limits


class JobLog(Protocol):
    """The output of a job. Positions count from its first byte, also after that byte is deleted."""

    @property
    def place(self) -> str:
        """The path of the file; "" if users must ask the daemon."""

    def end(self) -> int: ...

    def read(self, start: int, most: int) -> tuple[int, bytes]:
        """The bytes from `start` on, and the position of the first: later, if older ones are deleted."""


class Stdin(Protocol):
    """The standard input of a job: a ring buffer between the sender and the job's processes."""

    @property
    def name(self) -> str:
        """One name for each job."""

    @property
    def room_bytes(self) -> int: ...

    def put(self) -> tuple[int, bool]:
        """How many bytes the sender has written, and whether that is all."""

    def got(self) -> int:
        """How many bytes the job has read; below 0: the job reads no more."""

    def add(self, put: int, piece: bytes, is_all: bool) -> int:
        """Append a piece behind the first `put` bytes; returns the new number of bytes."""

    def is_there(self) -> bool: ...


class Power(Protocol):
    """Power limits of GPUs."""

    @property
    def notices(self) -> Sequence[str]:
        """Why GPUs run without the power limit that was decided."""

    @property
    def failed(self) -> bool:
        """Whether setting a limit has failed; then no more limits are set."""

    def notice(self, line: str) -> None: ...

    def try_out(self, nodes: Iterable[Node]) -> dict[str, tuple[float, float]]:
        """The lowest and the highest power limit in watts, by GPU kind."""

    def hold(self, wanted: Mapping[str, int]) -> bool:
        """From now on these GPUs, by UUID, may draw so many watts, and all others what they might
        before. False: one would not have its limit."""

    def is_held(self, placement: Placement, nodes: Sequence[Node]) -> bool:
        """Do the GPUs of the placement have its limit, whoever has set it?"""


class UsedByJob(NamedTuple):
    """What the processes of a job have used, over all its runs."""

    cpu_s: Seconds
    peak_memory_bytes: int
    gpu_busy: float | None = None  # the part of the time that its GPUs computed; None: not known
    peak_gpu_memory_bytes: int | None = None


class Gauge(NamedTuple):
    """One metric for /metrics: a value for each set of labels."""

    name: str
    told: str  # what it is
    values: Sequence[tuple[Mapping[str, object], float]]


class Finding(NamedTuple):
    """One line of `dovetail doctor`."""

    what: str
    state: str  # GOOD, NOTE or BAD
    text: str


class Shelf(Protocol):
    """The files of jobs: scripts, output, standard input, checkpoints. Any thread may call it."""

    @property
    def is_of_this_machine(self) -> bool:
        """Do jobs see the folders and programs of the machine that the daemon runs on?"""

    def take_on(self, order: Order, owner: UserAccount | None) -> None:
        """A place for a job that is not in the journal yet; see `settle` and `drop`. None: the
        daemon's own user."""

    def settle(self) -> None:
        """The jobs that were taken on are in the journal now."""

    def drop(self) -> list[JobId]:
        """Removes the jobs that were taken on and not settled; returns their ids."""

    def jobs(self) -> set[str]:
        """The jobs that have files here; an array counts under its own number."""

    def drop_unsettled(self, is_known: Callable[[str], bool]) -> set[str]:
        """After a restart: removes unsettled jobs that the journal does not know; returns their ids."""

    def repair(self, order: Order, owner: UserAccount | None) -> None:
        """Makes the files of a job again that were lost before its first start."""

    def leave_alone(self, job_id: str) -> str:
        """Ends and removes nothing of a job that the journal has lost; returns what still runs."""

    def log(self, job_id: str, stream: str = "") -> JobLog:
        """The log of both streams, or of `stdout` or `stderr` alone where they are kept apart."""

    def stdin(self, job_id: str) -> Stdin: ...

    def holds(self, job_id: str) -> bool:
        """Whether the job has files here."""

    def ended(self, job_id: str) -> None:
        """The job has ended: its standard input is deleted."""

    def all_ended_but(self, known: Collection[str]) -> None:
        """After a restart: deletes the standard input of all jobs but these."""

    def as_launched(self, job_id: str) -> tuple[Order, UserAccount | None] | None:
        """The order as it was last launched, for a job that the journal has lost."""

    def remove(self, job_id: str) -> None: ...

    def clear(self) -> None:
        """Finishes removals that a killed daemon left half done."""

    def bytes_of(self, job_id: str | None = None) -> int:
        """Disk space of one job, or of all jobs."""

    def free_bytes(self) -> int:
        """Free disk space for the files of jobs. It is asked often and must be quick."""

    def copy_checkpoint(
        self, sources: Sequence[JobId], name: str, owner: UserAccount | None
    ) -> bool:
        """Copy the checkpoint of the first of them that has one, under a new name. False: none has."""

    def hand_over(self, name: str, job_id: JobId) -> None:
        """The job begins with the copy of that name."""

    def drop_copy(self, name: str) -> None: ...


@dataclass(frozen=True, slots=True)
class MachineAsked:
    """What `dovetail up` was told of the machine; None: as the world has it."""

    home: Home
    slots: int | None = None
    suspended_gb: float | None = None  # that suspended jobs may take up
    gpus: str | None = None  # those that may be used, such as 0,2-3
    free_memory: str | None = None  # that others must leave of a GPU, such as 90%


class World(Protocol):
    """One for each daemon. The daemon's loop calls it on its thread, unless a method says otherwise."""

    @property
    def nodes(self) -> Sequence[Node]:
        """The nodes now. Nodes that join, leave or return are told as events."""

    @property
    def power(self) -> Power: ...

    @property
    def shelf(self) -> Shelf: ...

    @property
    def consoles(self) -> Consoles | None:
        """What people see and type of jobs that run; None: this world has no terminals."""

    @property
    def declarations(self) -> Declarations | None:
        """Jobs and studies that stand in the world itself; None: there are no such objects here."""

    @property
    def hosting(self) -> Hosting | None:
        """Where the replicas of services and their gateways live; None: services cannot run here."""

    def join(self, ground: Ground) -> None:
        """Called first. Refuses (BadInput) a journal that cannot go on in this world."""

    def catch_up(self) -> list[Event]:
        """Take up what an earlier daemon left: what runs is adopted, what came about while nobody
        looked is told, as far as can be at the time it did."""

    def begin(self) -> list[Event]:
        """Tells the nodes, and goes on with earlier decisions."""

    def observe(self) -> list[Event]:
        """The events since the last call. It never waits: see `Ground.ring`."""

    def carry_out(self, wanted: Sequence[Wanted]) -> None:
        """Carries out decisions and users' requests. They are on disk already."""

    def look_again_s(self) -> Seconds:
        """Seconds until the world wants to be observed even if it does not ring; as a rule infinite."""

    def stop(self) -> None:
        """Stops watching. The jobs go on."""

    # ----------------------------------------------------------------------- from any thread

    def why_not(self, order: Order) -> str:
        """Why this order could never run here; "" if it could. Its GPUs are another question."""

    def has_processes(self, job_id: JobId | None = None) -> bool:
        """Whether this job has processes; None: whether any job has."""

    def used_by(self, job_id: JobId) -> UsedByJob | None:
        """None: not known. Quick."""

    def gauges(self) -> Iterable[Gauge]: ...

    def users_beside(self) -> Mapping[str, list[str]]:
        """Who computes on which GPU, by UUID, outside Dovetail: one text each, such as `ann: python,
        3 GB`. As far as the world can tell."""

    def findings(self) -> Iterable[Finding]:
        """The features that work and those that are missing, for `dovetail doctor`."""

    @property
    def trouble(self) -> str:
        """Why the world's threads cannot work now; "" as a rule."""
