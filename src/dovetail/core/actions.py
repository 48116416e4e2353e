"""Actions: decisions taken. See `core.entry` for why these are plain classes."""

from __future__ import annotations

from typing import Any, ClassVar, Final, TypeAlias, final

from dovetail.core.entry import Entry
from dovetail.core.model import JobId, Placement, Seconds, Setting


@final
class Start(Entry):
    """Give the job these GPUs. They are its own from this moment; `Started` confirms."""

    __slots__ = ("job_id", "placement")
    tag: ClassVar[str] = "start"
    fields: ClassVar[tuple[str, ...]] = ("job_id", "placement")

    def __init__(self, job_id: JobId, placement: Placement) -> None:
        self.job_id: Final = job_id
        self.placement: Final = placement


@final
class Preempt(Entry):
    """Take the GPUs away and keep the progress. They may be given to another job at once: the
    backend lets that one begin when they are physically free."""

    __slots__ = ("job_id",)
    tag: ClassVar[str] = "preempt"
    fields: ClassVar[tuple[str, ...]] = ("job_id",)

    def __init__(self, job_id: JobId) -> None:
        self.job_id: Final = job_id


@final
class Resize(Entry):
    """Change a running job's share of its GPUs, or what they may draw, without stopping it; or let it
    go on with other GPUs, more or fewer or elsewhere, which costs what an interruption costs."""

    tag: ClassVar[str] = "resize"
    fields: ClassVar[tuple[str, ...]] = ("job_id", "placement")

    def __init__(self, job_id: JobId, placement: Placement) -> None:
        self.job_id: Final = job_id
        self.placement: Final = placement


@final
class Promote(Entry):
    """Forget the service a waiting job has had, so that it starts again at the top of the queues."""

    tag: ClassVar[str] = "promote"
    fields: ClassVar[tuple[str, ...]] = ("job_id",)

    def __init__(self, job_id: JobId) -> None:
        self.job_id: Final = job_id


@final
class Refuse(Entry):
    """End a job that can never run here, saying why."""

    tag: ClassVar[str] = "refuse"
    fields: ClassVar[tuple[str, ...]] = ("job_id", "reason")

    def __init__(self, job_id: JobId, reason: str) -> None:
        self.job_id: Final = job_id
        self.reason: Final = reason


@final
class Stop(Entry):
    """End the job, running or not, because of something it did or has had: it counts as failed, or
    as cancelled if it is only that nobody needs it any more."""

    tag: ClassVar[str] = "stop"
    fields: ClassVar[tuple[str, ...]] = ("job_id", "reason", "exit_code", "unneeded")

    def __init__(
        self, job_id: JobId, reason: str, exit_code: int | None = None, unneeded: bool | None = None
    ) -> None:
        self.job_id: Final = job_id
        self.reason: Final = reason
        self.exit_code: Final = exit_code  # what it is to be told by, e.g. 124 for a time limit
        self.unneeded: Final = unneeded  # true, or nothing


@final
class Branch(Entry):
    """End the job: a new one takes its place in its group, from the checkpoint of another job and
    with other settings (population-based training)."""

    tag: ClassVar[str] = "branch"
    fields: ClassVar[tuple[str, ...]] = ("job_id", "source", "settings")

    def __init__(
        self, job_id: JobId, source: JobId, settings: tuple[tuple[str, Setting], ...]
    ) -> None:
        self.job_id: Final = job_id
        self.source: Final = source
        self.settings: Final = settings


@final
class Note(Entry):
    """What a policy must still know after a restart: kept with the job until it ends, or for good.
    The value is one that JSON has; None forgets."""

    tag: ClassVar[str] = "note"
    fields: ClassVar[tuple[str, ...]] = ("key", "value", "job_id")

    def __init__(self, key: str, value: Any, job_id: JobId | None = None) -> None:
        self.key: Final = key  # begins with the policy's name
        self.value: Final = value
        self.job_id: Final = job_id


class GroupAction(Entry):
    """A decision about a group of jobs: a matter of their kind of workload, of no processes."""

    kind: ClassVar[str] = ""


@final
class Wake(Entry):
    """Ask to be called again at that time. Not journaled: whoever restarts asks anew."""

    tag: ClassVar[str] = "wake"
    fields: ClassVar[tuple[str, ...]] = ("at",)

    def __init__(self, at: Seconds) -> None:
        self.at: Final = at


Action: TypeAlias = (
    Start | Preempt | Resize | Promote | Refuse | Stop | Branch | Note | GroupAction | Wake
)
