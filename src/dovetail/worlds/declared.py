"""Jobs, studies and services that stand in the world itself, as objects that users apply there.

A world that has such objects brings them in, and is told what became of each. They are levels, not
messages: what counts is which of them stand there now. Whether one was taken on already is a fact of the
journal, under its key, so that it is taken on once whoever was killed when.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from dovetail.core.model import Seconds

REFUSED: Final = "refused"
JOB: Final = "job"
STUDY: Final = "study"
SERVICE: Final = "service"


@dataclass(frozen=True, slots=True)
class Declared:
    """One of them, as it stands now."""

    key: str  # of it alone, also after it was deleted and another was made under its name
    kind: str  # JOB, STUDY or SERVICE
    name: str
    tenant: str  # who may have it, and where it runs
    spec: Mapping[str, Any] = field(repr=False)  # as in a file; it may hold secrets
    revision: int  # rises whenever the spec is edited
    is_told: bool = False  # does it say itself that it is over?
    known_as: str = ""  # the job, study or service of this journal that it says it is
    elsewhere: str = ""  # why it is not for this journal; "" as a rule


@dataclass(frozen=True, slots=True)
class Cost:
    """The seconds that giving way has taken so far, and took the last time."""

    preemptions: int = 0
    lost_gpu_s: float = 0.0
    rung: str = ""
    save_s: Seconds | None = None
    restore_s: Seconds | None = None
    parked_bytes: int = 0


@dataclass(frozen=True, slots=True)
class TrialsTold:
    """A study in figures."""

    planned: int
    by_state: Mapping[str, int]
    best: Mapping[str, Any] | None  # trial, value, step, settings
    gpu_hours: float
    switches: int


@dataclass(frozen=True, slots=True)
class DeclaredStatus:
    """The status of a declared job, study or service. Times are seconds since 1970."""

    phase: str
    why: str = ""
    id: str = ""  # of the job, study or service
    trouble: str = ""  # what of its spec is not followed, and the way out
    revision: int = 0  # of the spec that this is about
    placement: str = ""
    members: Mapping[str, int] = field(default_factory=dict)  # of an array or service, by phase
    address: str = ""  # of a service
    cost: Cost = Cost()
    trials: TrialsTold | None = None
    submitted_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    expected_start: float | None = None
    expected_end: float | None = None
    exit_code: int | None = None


class Declarations(Protocol):
    """Called on a thread of the daemon's, unless a method says otherwise."""

    def await_news(self, within_s: Seconds) -> None:
        """Returns when something was declared, edited or withdrawn, or `rouse` was called."""

    def rouse(self) -> None:
        """Wake up whoever waits for news; from any thread."""

    def standing(self) -> Sequence[Declared]:
        """All of them."""

    def tell(self, declared: Declared, status: DeclaredStatus) -> None:
        """It need not be written at once; of several only the last counts."""
