"""Events: facts observed. See `core.entry` for why these are plain classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, TypeAlias, final

from dovetail.core.entry import Entry
from dovetail.core.model import Job, JobId, Limit, Node, Placement, Seconds, Tenant


class JobEvent(Entry):
    """Something happened to a job."""

    __slots__ = ("at", "job_id")
    fields: ClassVar[tuple[str, ...]] = ("at", "job_id")

    def __init__(self, at: Seconds, job_id: JobId) -> None:
        self.at: Final = at
        self.job_id: Final = job_id


class ReasonedEvent(Entry):
    """Something happened to a job for a reason that its user is told."""

    fields: ClassVar[tuple[str, ...]] = ("at", "job_id", "reason")

    def __init__(self, at: Seconds, job_id: JobId, reason: str) -> None:
        self.at: Final = at
        self.job_id: Final = job_id
        self.reason: Final = reason


class NodeChange(Entry):
    """Something happened to a node."""

    fields: ClassVar[tuple[str, ...]] = ("at", "node_id")

    def __init__(self, at: Seconds, node_id: str) -> None:
        self.at: Final = at
        self.node_id: Final = node_id


@final
class Submitted(Entry):
    """A user has asked for a job to run."""

    __slots__ = ("at", "job")
    tag: ClassVar[str] = "submitted"
    fields: ClassVar[tuple[str, ...]] = ("at", "job")

    def __init__(self, at: Seconds, job: Job) -> None:
        self.at: Final = at
        self.job: Final = job

    def line(self, at: str) -> str:
        return f'{{"at":{at},"submitted":{self.job.text()}}}\n'


@final
class Started(JobEvent):
    """The job's processes are up (and restored): from now on it makes progress."""

    __slots__ = ()
    tag: ClassVar[str] = "started"


@final
class Finished(JobEvent):
    """The job has done all it had to do."""

    __slots__ = ()
    tag: ClassVar[str] = "finished"


@final
class Failed(Entry):
    """The job died by its own fault; it is queued again while it has retries left."""

    tag: ClassVar[str] = "failed"
    fields: ClassVar[tuple[str, ...]] = ("at", "job_id", "reason", "lost_s", "exit_code")

    def __init__(
        self,
        at: Seconds,
        job_id: JobId,
        reason: str,
        lost_s: Seconds = 0.0,
        exit_code: int | None = None,
    ) -> None:
        self.at: Final = at
        self.job_id: Final = job_id
        self.reason: Final = reason
        self.lost_s: Final = lost_s
        self.exit_code: Final = exit_code  # None: the world has no such thing, or nobody saw it


@final
class Interrupted(Entry):
    """The world took the job's GPUs away (a node died): it is queued again, some work lost."""

    tag: ClassVar[str] = "interrupted"
    fields: ClassVar[tuple[str, ...]] = ("at", "job_id", "reason", "lost_s")

    def __init__(self, at: Seconds, job_id: JobId, reason: str, lost_s: Seconds = 0.0) -> None:
        self.at: Final = at
        self.job_id: Final = job_id
        self.reason: Final = reason
        self.lost_s: Final = lost_s


@final
class Cancelled(Entry):
    """The user no longer wants the job."""

    tag: ClassVar[str] = "cancelled"
    fields: ClassVar[tuple[str, ...]] = ("at", "job_id", "reason")

    def __init__(self, at: Seconds, job_id: JobId, reason: str = "") -> None:
        self.at: Final = at
        self.job_id: Final = job_id
        self.reason: Final = reason


@final
class Paced(Entry):
    """The job is seen to make progress at this speed (1 = alone on the GPU kind it was timed on)."""

    tag: ClassVar[str] = "paced"
    fields: ClassVar[tuple[str, ...]] = ("at", "job_id", "speed")

    def __init__(self, at: Seconds, job_id: JobId, speed: float) -> None:
        self.at: Final = at
        self.job_id: Final = job_id
        self.speed: Final = speed


@final
class Reported(Entry):
    """The job itself told how far it is. `upto` is where the next report begins in its file, so that
    each one is taken exactly once, whoever dies in between; below zero: where it begins in what the
    job prints, for one that reports there. `left_out`: so many before it were put together with it."""

    tag: ClassVar[str] = "reported"
    fields: ClassVar[tuple[str, ...]] = ("at", "job_id", "step", "metrics", "upto", "left_out")

    def __init__(
        self,
        at: Seconds,
        job_id: JobId,
        step: float | None,
        metrics: Mapping[str, float | str],
        upto: int = 0,
        left_out: int | None = None,
    ) -> None:
        self.at: Final = at
        self.job_id: Final = job_id
        self.step: Final = step
        self.metrics: Final = (
            metrics  # JSON has no NaN: what is not a finite number is told as text
        )
        self.upto: Final = upto
        self.left_out: Final = left_out  # None: none


@final
class Saved(Entry):
    """A job that was to give way has left its GPUs: by which rung, in what time, how much of it lies
    in host memory now, and whether its processes still exist (parked) or have to be started anew.
    `tied`: it can go on only on the nodes where they are; None, as before there was such a word: no."""

    tag: ClassVar[str] = "saved"
    fields: ClassVar[tuple[str, ...]] = (
        *("at", "job_id", "rung", "seconds", "bytes", "parked", "lost_s", "tied"),
    )

    def __init__(
        self,
        at: Seconds,
        job_id: JobId,
        rung: str,
        seconds: Seconds,
        bytes: int,
        parked: bool,
        lost_s: Seconds = 0.0,
        tied: bool | None = None,
    ) -> None:
        self.at: Final = at
        self.job_id: Final = job_id
        self.rung: Final = rung
        self.seconds: Final = seconds
        self.bytes: Final = bytes
        self.parked: Final = parked
        self.lost_s: Final = lost_s
        self.tied: Final = tied


@final
class Restored(Entry):
    """A job that had given way is back at work: what that took. Follows its `Started`."""

    tag: ClassVar[str] = "restored"
    fields: ClassVar[tuple[str, ...]] = ("at", "job_id", "rung", "seconds")

    def __init__(self, at: Seconds, job_id: JobId, rung: str, seconds: Seconds) -> None:
        self.at: Final = at
        self.job_id: Final = job_id
        self.rung: Final = rung
        self.seconds: Final = seconds


@final
class Pinned(ReasonedEvent):
    """The running job cannot be made to give way for now."""

    tag: ClassVar[str] = "pinned"


@final
class Unpinned(JobEvent):
    """The job can be made to give way again."""

    tag: ClassVar[str] = "unpinned"


@final
class Stayed(Entry):
    """The job was to give way and could not: it still runs there, and is pinned."""

    tag: ClassVar[str] = "stayed"
    fields: ClassVar[tuple[str, ...]] = ("at", "job_id", "placement", "reason")

    def __init__(self, at: Seconds, job_id: JobId, placement: Placement, reason: str) -> None:
        self.at: Final = at
        self.job_id: Final = job_id
        self.placement: Final = placement
        self.reason: Final = reason


@final
class Displaced(ReasonedEvent):
    """The GPUs that the job was given are not to be had after all: it waits again, unharmed."""

    tag: ClassVar[str] = "displaced"


@final
class Held(ReasonedEvent):
    """The user does not want the job to run for now."""

    tag: ClassVar[str] = "held"


@final
class Released(JobEvent):
    """The user lets the job run again."""

    tag: ClassVar[str] = "released"


@final
class Requeued(ReasonedEvent):
    """The user wants the job to start over: it lines up again once its processes are gone, which an
    `Interrupted` tells."""

    tag: ClassVar[str] = "requeued"


@final
class Amended(Entry):
    """The user changed what the job asks for; its id and, while it runs, its size stay."""

    tag: ClassVar[str] = "amended"
    fields: ClassVar[tuple[str, ...]] = ("at", "job")

    def __init__(self, at: Seconds, job: Job) -> None:
        self.at: Final = at
        self.job: Final = job


@final
class Occupied(Entry):
    """Exactly these GPUs of the node, so many of its CPUs and so much of its memory are used by somebody
    else: left alone until they are free."""

    tag: ClassVar[str] = "occupied"
    fields: ClassVar[tuple[str, ...]] = ("at", "node_id", "mask", "cpus", "memory_gb")

    def __init__(
        self,
        at: Seconds,
        node_id: str,
        mask: int,
        cpus: float | None = None,
        memory_gb: float | None = None,
    ) -> None:
        self.at: Final = at
        self.node_id: Final = node_id
        self.mask: Final = mask
        self.cpus: Final = cpus  # None: none, or the world does not count them
        self.memory_gb: Final = memory_gb


@final
class GpusClosed(Entry):
    """An administrator closes these GPUs of the node: nothing new may start on them. Who is there ends
    in peace or, to `vacate` them, gives way. All GPUs of a node: the node is closed."""

    tag: ClassVar[str] = "gpus-closed"
    fields: ClassVar[tuple[str, ...]] = ("at", "node_id", "mask", "reason", "vacate")

    def __init__(self, at: Seconds, node_id: str, mask: int, reason: str, vacate: bool) -> None:
        self.at: Final = at
        self.node_id: Final = node_id
        self.mask: Final = mask
        self.reason: Final = reason
        self.vacate: Final = vacate


@final
class GpusOpened(Entry):
    """These GPUs of the node may be used again."""

    tag: ClassVar[str] = "gpus-opened"
    fields: ClassVar[tuple[str, ...]] = ("at", "node_id", "mask")

    def __init__(self, at: Seconds, node_id: str, mask: int) -> None:
        self.at: Final = at
        self.node_id: Final = node_id
        self.mask: Final = mask


@final
class PolicySet(Entry):
    """From now on this policy decides."""

    tag: ClassVar[str] = "policy"
    fields: ClassVar[tuple[str, ...]] = ("at", "policy")

    def __init__(self, at: Seconds, policy: str) -> None:
        self.at: Final = at
        self.policy: Final = policy


@final
class NodeJoined(Entry):
    tag: ClassVar[str] = "node-joined"
    fields: ClassVar[tuple[str, ...]] = ("at", "node")

    def __init__(self, at: Seconds, node: Node) -> None:
        self.at: Final = at
        self.node: Final = node


@final
class NodeDown(NodeChange):
    """The node has failed; its jobs are reported as interrupted one by one."""

    tag: ClassVar[str] = "node-down"


@final
class NodeUp(NodeChange):
    """The node is repaired, or no longer drained."""

    tag: ClassVar[str] = "node-up"


@final
class NodeDraining(NodeChange):
    """Nothing new may start on the node; what runs there may end."""

    tag: ClassVar[str] = "node-draining"


@final
class NodeLeft(NodeChange):
    """The node is no longer there. If one of its name joins again, that is another node."""

    tag: ClassVar[str] = "node-left"


@final
class NoMoreNodes(Entry):
    """No node will join any more: who waits for one that has left waits in vain."""

    tag: ClassVar[str] = "no-more-nodes"
    fields: ClassVar[tuple[str, ...]] = ("at",)

    def __init__(self, at: Seconds) -> None:
        self.at: Final = at


@final
class TenantSet(Entry):
    """A tenant and its quota are known from now on."""

    tag: ClassVar[str] = "tenant"
    fields: ClassVar[tuple[str, ...]] = ("at", "tenant")

    def __init__(self, at: Seconds, tenant: Tenant) -> None:
        self.at: Final = at
        self.tenant: Final = tenant


@final
class LimitSet(Entry):
    """A user may have so much from now on."""

    tag: ClassVar[str] = "limit"
    fields: ClassVar[tuple[str, ...]] = ("at", "limit")

    def __init__(self, at: Seconds, limit: Limit) -> None:
        self.at: Final = at
        self.limit: Final = limit


class GroupEvent(Entry):
    """Something happened to a group of jobs: a matter of their kind of workload."""

    kind: ClassVar[str] = ""  # which one, see `core.groups`

    def __init__(self, at: Seconds) -> None:
        self.at: Final = at


@final
class Woke(Entry):
    """The time that a policy asked to be woken at has come."""

    tag: ClassVar[str] = "woke"
    fields: ClassVar[tuple[str, ...]] = ("at",)

    def __init__(self, at: Seconds) -> None:
        self.at: Final = at


Event: TypeAlias = (
    Submitted | Started | Finished | Failed | Interrupted | Cancelled | Paced | Reported
    | Saved | Restored | Pinned | Unpinned | Stayed | Displaced | Held | Released | Requeued
    | Amended | Occupied | GpusClosed | GpusOpened | PolicySet | NodeJoined | NodeDown | NodeUp
    | NodeDraining | NodeLeft | NoMoreNodes | TenantSet | LimitSet | GroupEvent | Woke
)  # fmt: skip
