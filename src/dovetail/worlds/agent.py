"""Below a world: an agent has the machines, a group is the processes of one run on one of them.

The local world has one agent, in the daemon's own process; that of Kubernetes is a cluster behind its
API server. What passes between the two is data: wants go down and may be repeated, facts come up with
numbers, so that whoever was away asks for what follows the last one it has seen.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from dovetail.core.model import JobId, Node, Placement, Seconds
from dovetail.worlds.endings import Ending
from dovetail.worlds.printed import Sought
from dovetail.worlds.ranks import ALONE, Rank
from dovetail.worlds.world import JobLog, Order

# How a job has given way, the gentlest first.
SUSPEND: Final = "cuda-suspend"
FREEZE: Final = "freeze"
COOPERATE: Final = "cooperative"
KILL: Final = "kill"


class RunId(NamedTuple):
    """One launch of a job's processes."""

    job_id: JobId
    number: int


class Work(Enum):
    """Work on a job's processes; one thread at a time does it."""

    BRING_UP = "bring up"  # start them, or let parked ones go on
    GIVE_WAY = "give way"
    MOVE = "move"  # let them save themselves and end: they go on with other GPUs
    END = "end"
    DROP = "drop"  # there are none, and none are wanted: forget the job


class WorkOutcome(Enum):
    """The outcome of work, or of the processes by themselves."""

    UP = "up"
    CALLED_OFF = "called off"  # it never began, and is not wanted any more
    NO_ROOM = "no room"  # it stays parked, unharmed
    NO_SEAT = "no seat"  # it never began: what it was given was taken after all
    NOT_STARTED = "not started"
    PARKED = "parked"
    GONE = "gone"  # it gave way by ending
    STAYED = "stayed"  # it could not give way
    ENDED = "ended"  # as was wanted
    OVER = "over"  # by itself


@dataclass(frozen=True, slots=True)
class Errand:
    """Work on a run, with everything that the machine must know for it."""

    run: RunId
    work: Work
    order: Order
    gpus: tuple[str, ...]  # by UUID; none on processor slots
    placement: Placement | None
    attempts: int
    room_bytes: int  # what is left of the memory for suspended jobs
    rank: Rank = ALONE


@dataclass(frozen=True, slots=True)
class Used:
    """A rung of the ladder and its cost. `parked`: the processes still exist; `tied`: and can go on
    only on the nodes where they are."""

    rung: str
    seconds: Seconds
    bytes: int
    parked: bool
    tied: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """The work on a job's processes is over."""

    job_id: JobId
    outcome: WorkOutcome
    used: Used | None = None  # None: started afresh, or ended
    trouble: str = ""


class Run(Protocol):
    """One launch of a job's processes. Its answers are the same for the next daemon."""

    @property
    def id(self) -> RunId: ...

    def begun(self) -> bool:
        """Whether it has begun. A run that has begun is never begun again."""

    def is_alive(self) -> bool: ...

    def is_frozen(self) -> bool: ...

    def ending(self) -> Ending | None:
        """How it ended; None while that is unknown."""

    def over_since(self) -> float:
        """When it ended (Unix time); where nobody has said so, its last sign of life."""

    @property
    def stop_asked(self) -> bool: ...

    def pidfd(self) -> int:
        """A descriptor that can be read once it has ended. Yours to close; ProcessLookupError: it
        has."""


@dataclass(frozen=True, slots=True)
class ProcessEnded:
    """The processes of a run have ended by themselves."""

    job_id: JobId
    run: Run


@dataclass(frozen=True, slots=True)
class ThinnedReport:
    """A report of a job, and those before it that were not kept by themselves."""

    step: float | None
    metrics: dict[str, float | str]
    upto: int
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class JobTold:
    """A job has reported its progress."""

    job_id: JobId
    reports: Sequence[ThinnedReport]


@dataclass(frozen=True, slots=True)
class Tells:
    """The place where a job reports its progress."""

    reports: Path
    log: Path | None = None  # if its output is looked at, too
    pattern: str = ""  # for it
    sought: Sought | None = None  # else, of a trial: the metric


class RunFiles(Protocol):
    """The files of jobs on the daemon's own disk, which outlive a daemon."""

    @property
    def runs(self) -> Path: ...

    def live(self) -> Sequence[JobId]:
        """The jobs that may have processes."""

    def live_run(self, job_id: JobId) -> RunId:
        """Of one of these: its launch."""

    def forget_live(self, job_id: JobId) -> None:
        """It has none any more."""

    def reports(self, job_id: str) -> Path: ...

    def log_path(self, job_id: str) -> Path: ...


class Agent(Protocol):
    """One machine, or a cluster of them. From any thread."""

    @property
    def folders(self) -> RunFiles: ...

    def post(self, fact: object) -> None: ...

    def run(self, run: RunId) -> Run: ...

    def watch(self, run: Run, tells: Tells, upto: int, step: float) -> None:
        """Tell the job's reports and its end from now on."""

    def gpus_of(self, placement: Placement) -> tuple[str, ...]:
        """The UUIDs of a placement's GPUs; none where they are processor slots."""

    def drop(self, job_id: JobId) -> None:
        """It has no processes, and none are wanted: forget it."""

    def kill(self, run: RunId) -> None:
        """Kill the processes. Unsaved progress is lost. It blocks until they are gone."""

    def clean_up_after(self, run: RunId) -> None:
        """Kill what is left of a run whose processes were killed from outside."""

    def nodes(self) -> Sequence[Node]: ...

    def want(self, errand: Errand) -> None:
        """Start this work; a fact tells its outcome. A repeated want is done once. Short: not now."""

    def call_off(self, run: RunId) -> None:
        """The run is not wanted any more, if it has not begun."""

    def facts(self, after: int) -> Sequence[tuple[int, object]]:
        """The facts after that number; the agent may forget earlier ones."""

    def log(self, job_id: str) -> JobLog: ...


class FactLog:
    """Facts in the order of their arrival, from any thread, kept until the world has seen them."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring: Final = ring
        self._lock: Final = threading.Lock()
        self._facts: Final[deque[tuple[int, object]]] = deque()
        self._last = 0

    def post(self, fact: object) -> None:
        with self._lock:
            self._last += 1
            self._facts.append((self._last, fact))
        self._ring()

    def after(self, number: int) -> list[tuple[int, object]]:
        with self._lock:
            while self._facts and self._facts[0][0] <= number:
                self._facts.popleft()
            return list(self._facts)


class ProcessGroup(Protocol):
    """A keeper's tree; elsewhere a container or a Slurm step. All of it or none."""

    def pids(self) -> Sequence[int]: ...

    def memory_bytes(self) -> int:
        """The main memory that it holds, and would hold while it is suspended."""

    def freeze(self) -> int:
        """Stop every process where it is; the bytes that it holds meanwhile. If that cannot be, none
        is stopped, and NotFrozen raised."""

    def thaw(self) -> None: ...

    def is_frozen(self) -> bool: ...

    def ask_to_stop(self) -> None:
        """Send SIGTERM. A frozen group receives it when it is thawed."""

    def kill(self) -> None: ...
