"""What the journal is made of: events (facts observed) and actions (decisions taken).

Plain slotted classes rather than dataclasses: they are created several times per job, and a frozen
dataclass costs three times as much interpreted and ten times as much compiled. `Final` keeps them
read-only to the type checker. See docs/decisions/0002-plain-classes-for-entries.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import is_dataclass
from json.encoder import encode_basestring_ascii
from typing import Any, ClassVar, Final, TypeAlias, final

from dovetail.core.model import (
    Job,
    JobId,
    Limit,
    Node,
    Placement,
    Seconds,
    Setting,
    Tenant,
    own_fields,
)

quote: Final = encode_basestring_ascii  # final, so that compiled code need not look it up


class Entry:
    """Compares and prints by its fields, like a dataclass."""

    __slots__ = ()
    tag: ClassVar[str] = ""
    fields: ClassVar[tuple[str, ...]] = ()

    def values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.fields)

    def line(self, at: str) -> str:
        """This entry in the journal, at a time that is text already. The frequent ones override it
        with what `json` would say, at a fifth of the time."""
        names = [name for name in self.fields if name != "at"]
        row: dict[str, Any] = {self.tag: _plain(getattr(self, names[0])) if names else True}
        for name in names[1:]:
            value = _plain(getattr(self, name))
            if value is not None:
                row["on" if name == "placement" else name] = value
        return f'{{"at":{at},{json.dumps(row, separators=(",", ":"))[1:]}\n'

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.values() == other.values()

    def __hash__(self) -> int:
        return hash((self.tag, self.values()))

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.fields)
        return f"{type(self).__name__}({inside})"


def _plain(value: object) -> object:
    if isinstance(value, Placement):
        return value.row()
    if is_dataclass(value):
        return own_fields(value)
    return value


# ------------------------------------------------------------------------------------------ events


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
        job = self.job
        if job.simple and not job.user and not job.tenant:
            return f'{{"at":{at},"submitted":{{"id":{quote(job.id)},"gpus":{job.gpus}}}}}\n'
        return f'{{"at":{at},"submitted":{job.text()}}}\n'


@final
class Started(Entry):
    """The job's processes are up (and restored): from now on it makes progress."""

    __slots__ = ("at", "job_id")
    tag: ClassVar[str] = "started"
    fields: ClassVar[tuple[str, ...]] = ("at", "job_id")

    def __init__(self, at: Seconds, job_id: JobId) -> None:
        self.at: Final = at
        self.job_id: Final = job_id

    def line(self, at: str) -> str:
        return f'{{"at":{at},"started":{quote(self.job_id)}}}\n'


@final
class Finished(Entry):
    """The job has done all it had to do."""

    __slots__ = ("at", "job_id")
    tag: ClassVar[str] = "finished"
    fields: ClassVar[tuple[str, ...]] = ("at", "job_id")

    def __init__(self, at: Seconds, job_id: JobId) -> None:
        self.at: Final = at
        self.job_id: Final = job_id

    def line(self, at: str) -> str:
        return f'{{"at":{at},"finished":{quote(self.job_id)}}}\n'


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
    in host memory now, and whether its processes still exist (parked) or have to be started anew."""

    tag: ClassVar[str] = "saved"
    fields: ClassVar[tuple[str, ...]] = (
        *("at", "job_id", "rung", "seconds", "bytes", "parked", "lost_s"),
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
    ) -> None:
        self.at: Final = at
        self.job_id: Final = job_id
        self.rung: Final = rung
        self.seconds: Final = seconds
        self.bytes: Final = bytes
        self.parked: Final = parked
        self.lost_s: Final = lost_s


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
class Pinned(Entry):
    """The running job cannot be made to give way for now."""

    tag: ClassVar[str] = "pinned"
    fields: ClassVar[tuple[str, ...]] = ("at", "job_id", "reason")

    def __init__(self, at: Seconds, job_id: JobId, reason: str) -> None:
        self.at: Final = at
        self.job_id: Final = job_id
        self.reason: Final = reason


@final
class Unpinned(Entry):
    """The job can be made to give way again."""

    tag: ClassVar[str] = "unpinned"
    fields: ClassVar[tuple[str, ...]] = ("at", "job_id")

    def __init__(self, at: Seconds, job_id: JobId) -> None:
        self.at: Final = at
        self.job_id: Final = job_id


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
class Displaced(Entry):
    """The GPUs that the job was given are not to be had after all: it waits again, unharmed."""

    tag: ClassVar[str] = "displaced"
    fields: ClassVar[tuple[str, ...]] = ("at", "job_id", "reason")

    def __init__(self, at: Seconds, job_id: JobId, reason: str) -> None:
        self.at: Final = at
        self.job_id: Final = job_id
        self.reason: Final = reason


@final
class Held(Entry):
    """The user does not want the job to run for now."""

    tag: ClassVar[str] = "held"
    fields: ClassVar[tuple[str, ...]] = ("at", "job_id", "reason")

    def __init__(self, at: Seconds, job_id: JobId, reason: str) -> None:
        self.at: Final = at
        self.job_id: Final = job_id
        self.reason: Final = reason


@final
class Released(Entry):
    """The user lets the job run again."""

    tag: ClassVar[str] = "released"
    fields: ClassVar[tuple[str, ...]] = ("at", "job_id")

    def __init__(self, at: Seconds, job_id: JobId) -> None:
        self.at: Final = at
        self.job_id: Final = job_id


@final
class Requeued(Entry):
    """The user wants the job to start over: it lines up again once its processes are gone, which an
    `Interrupted` tells."""

    tag: ClassVar[str] = "requeued"
    fields: ClassVar[tuple[str, ...]] = ("at", "job_id", "reason")

    def __init__(self, at: Seconds, job_id: JobId, reason: str) -> None:
        self.at: Final = at
        self.job_id: Final = job_id
        self.reason: Final = reason


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
    """Exactly these GPUs of the node are used by somebody else: left alone until they are free."""

    tag: ClassVar[str] = "occupied"
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
class NodeDown(Entry):
    """The node has failed; its jobs are reported as interrupted one by one."""

    tag: ClassVar[str] = "node-down"
    fields: ClassVar[tuple[str, ...]] = ("at", "node_id")

    def __init__(self, at: Seconds, node_id: str) -> None:
        self.at: Final = at
        self.node_id: Final = node_id


@final
class NodeUp(Entry):
    """The node is repaired, or no longer drained."""

    tag: ClassVar[str] = "node-up"
    fields: ClassVar[tuple[str, ...]] = ("at", "node_id")

    def __init__(self, at: Seconds, node_id: str) -> None:
        self.at: Final = at
        self.node_id: Final = node_id


@final
class NodeDraining(Entry):
    """Nothing new may start on the node; what runs there may end."""

    tag: ClassVar[str] = "node-draining"
    fields: ClassVar[tuple[str, ...]] = ("at", "node_id")

    def __init__(self, at: Seconds, node_id: str) -> None:
        self.at: Final = at
        self.node_id: Final = node_id


@final
class NodeLeft(Entry):
    """The node is no longer there. If one of its name joins again, that is another node."""

    tag: ClassVar[str] = "node-left"
    fields: ClassVar[tuple[str, ...]] = ("at", "node_id")

    def __init__(self, at: Seconds, node_id: str) -> None:
        self.at: Final = at
        self.node_id: Final = node_id


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


# ----------------------------------------------------------------------------------------- actions


@final
class Start(Entry):
    """Give the job these GPUs. They are its own from this moment; `Started` confirms."""

    __slots__ = ("job_id", "placement")
    tag: ClassVar[str] = "start"
    fields: ClassVar[tuple[str, ...]] = ("job_id", "placement")

    def __init__(self, job_id: JobId, placement: Placement) -> None:
        self.job_id: Final = job_id
        self.placement: Final = placement

    def line(self, at: str) -> str:
        return f'{{"at":{at},"start":{quote(self.job_id)},"on":{self.placement.text}}}\n'


@final
class Preempt(Entry):
    """Take the GPUs away and keep the progress. They may be given to another job at once: the
    backend lets that one begin when they are physically free."""

    __slots__ = ("job_id",)
    tag: ClassVar[str] = "preempt"
    fields: ClassVar[tuple[str, ...]] = ("job_id",)

    def __init__(self, job_id: JobId) -> None:
        self.job_id: Final = job_id

    def line(self, at: str) -> str:
        return f'{{"at":{at},"preempt":{quote(self.job_id)}}}\n'


@final
class Resize(Entry):
    """Change a running job's share of its GPUs, or what they may draw, without stopping it. Other
    GPUs take a `Preempt` and a `Start`, which cost what an interruption costs."""

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


Event: TypeAlias = (
    Submitted
    | Started
    | Finished
    | Failed
    | Interrupted
    | Cancelled
    | Paced
    | Reported
    | Saved
    | Restored
    | Pinned
    | Unpinned
    | Stayed
    | Displaced
    | Held
    | Released
    | Requeued
    | Amended
    | Occupied
    | PolicySet
    | NodeJoined
    | NodeDown
    | NodeUp
    | NodeDraining
    | NodeLeft
    | NoMoreNodes
    | TenantSet
    | LimitSet
    | GroupEvent
    | Woke
)
Action: TypeAlias = (
    Start | Preempt | Resize | Promote | Refuse | Stop | Branch | Note | GroupAction | Wake
)
JournalEntry: TypeAlias = Event | Action
