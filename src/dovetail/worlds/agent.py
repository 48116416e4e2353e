"""Below a world: an agent is one machine, a group is the processes of one run on it.

The local world has one agent, in the daemon's own process. What passes between the two is data: wants
go down and may be repeated, facts come up with numbers, so that whoever was away asks for what follows
the last one it has seen.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, Protocol

from dovetail.core.model import JobId, Node, Placement
from dovetail.worlds.ranks import ALONE, Rank
from dovetail.worlds.world import JobLog, Order


class RunId(NamedTuple):
    """One launch of a job's processes."""

    job_id: JobId
    number: int


class Work(Enum):
    """What is to be done to the processes, by one thread at a time."""

    BRING_UP = "bring up"  # start them, or let parked ones go on
    GIVE_WAY = "give way"
    END = "end"
    DROP = "drop"  # there are none, and none are wanted: forget the job


class WorkOutcome(Enum):
    """What came of work, or of the processes by themselves."""

    UP = "up"
    CALLED_OFF = "called off"  # it never began, and is not wanted any more
    NO_ROOM = "no room"  # it stays parked, unharmed
    NOT_STARTED = "not started"
    PARKED = "parked"
    GONE = "gone"  # it gave way by ending
    STAYED = "stayed"  # it could not give way
    ENDED = "ended"  # as was wanted
    OVER = "over"  # by itself


@dataclass(frozen=True, slots=True)
class Errand:
    """Work on a run, with all that its machine must know for it."""

    run: RunId
    work: Work
    order: Order
    gpus: tuple[str, ...]  # by UUID; none on processor slots
    placement: Placement | None
    attempts: int
    room_bytes: int  # what is left of the memory for suspended jobs
    rank: Rank = ALONE


class Agent(Protocol):
    """One machine. From any thread."""

    def inventory(self) -> Sequence[Node]: ...

    def want(self, errand: Errand) -> None:
        """Have it done; what comes of it is a fact. Repeated, it is done once. Short: not now."""

    def call_off(self, run: RunId) -> None:
        """It need not be brought up any more, if it has not begun."""

    def facts(self, after: int) -> Sequence[tuple[int, object]]:
        """Those that follow that number; what was asked for before may be forgotten."""

    def log(self, job_id: str) -> JobLog: ...


class FactLog:
    """Facts in the order in which they came, from any thread, until somebody has seen them."""

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
        """That it holds in main memory: what suspending it would keep from others."""

    def freeze(self) -> int:
        """Stop every process where it is; the bytes that it holds meanwhile. If that cannot be, none
        is stopped, and NotFrozen raised."""

    def thaw(self) -> None: ...

    def is_frozen(self) -> bool: ...

    def ask_to_stop(self) -> None:
        """As the system asks (SIGTERM). A frozen one hears it when it is thawed."""

    def kill(self) -> None: ...
