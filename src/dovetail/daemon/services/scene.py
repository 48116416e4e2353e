"""One service in the state at one moment, as its keeper looks at it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from dovetail.core.model import JobId, Node, Seconds
from dovetail.core.track import RUNNING, Track
from dovetail.core.view import View
from dovetail.daemon.holds import ASLEEP, SERVICE_PAUSED
from dovetail.policies.losses import loss_gpu_s
from dovetail.workloads.service.design import ServiceDesign
from dovetail.workloads.service.kind import services_of
from dovetail.workloads.service.track import LiveReplica, ServiceTrack

_LOOKED_AT = 64  # jobs that run
IS_PAUSED = "it is paused"
AT_REST = (ASLEEP, SERVICE_PAUSED)  # why the keeper itself holds a replica


@dataclass(frozen=True, slots=True)
class SeenReplica:
    number: int
    job: JobId
    port: int
    runs: bool
    is_placed: bool  # it has its GPUs, or slot
    leaves: bool  # in the book its GPUs are free, and its processes are still being suspended
    held: str
    up_s: Seconds  # how long it has been running
    variant: str = ""  # empty: the service itself

    @property
    def rests(self) -> bool:
        return self.held in AT_REST


@dataclass(frozen=True, slots=True)
class ServiceScene:
    design: ServiceDesign
    least: int
    most: int
    wanted: int
    reason: str
    is_paused: bool
    failures: int
    failed_s: Seconds  # how long ago
    failure: str
    next_number: int
    replicas: tuple[SeenReplica, ...]
    variant: str = ""  # of those that are wanted; empty: the service itself
    failed_job: str = ""
    answered: float = 0.0  # requests, as far as the journal knows
    gpu_s: float = 0.0  # GPU-seconds that its replicas have had
    kind: str = ""  # of their GPUs
    node_gpus: int = 1  # of a node of that kind
    displaced: float = 0.0  # GPU-seconds that training would lose by one more replica


class LastWords:
    """What the replica that failed last has printed, read once."""

    def __init__(self, read: Callable[[str], str]) -> None:
        self._read: Final = read
        self._known = ("", "")  # job, and what it said

    def of(self, job_id: str) -> str:
        if self._known[0] != job_id:
            self._known = (job_id, self._read(job_id))
        return f" ({self._known[1]})" if self._known[1] else ""


def scene_of(view: View, now: Seconds, service_id: str) -> ServiceScene | None:
    """None: there is no such service any more."""
    service = services_of(view).open.get(service_id)
    return None if service is None else _seen(service, view, now)


def _seen(service: ServiceTrack, view: View, now: Seconds) -> ServiceScene:
    replicas = [
        _replica(own, view.tracks[own.job], now)
        for own in service.replicas.values()
        if own.job in view.tracks
    ]
    node = _node(service, view)
    return ServiceScene(
        design=service.design,
        least=service.least,
        most=service.most,
        wanted=service.wanted,
        reason=service.reason,
        is_paused=service.is_paused,
        failures=service.failures,
        failed_s=now - service.failed_at,
        failure=service.failure,
        next_number=service.next_number,
        replicas=tuple(replicas),
        variant=service.variant,
        failed_job=service.failed_job,
        answered=service.answered,
        gpu_s=service.ended_gpu_s + _gpu_seconds(service, view, now),
        kind=node.kind,
        node_gpus=max(node.gpus, 1),
        displaced=_displaced(service, view, now),
    )


def _node(service: ServiceTrack, view: View) -> Node:
    """Where one of its replicas is; before, any."""
    placed = [
        track.placement
        for own in service.replicas.values()
        if (track := view.tracks.get(own.job)) is not None and track.placement is not None
    ]
    return view.room.nodes[placed[0].slices[0].node if placed else 0]


def _gpu_seconds(service: ServiceTrack, view: View, now: Seconds) -> float:
    """Of the replicas that are there."""
    live = [own.job for own in service.replicas.values()]
    return sum([view.tracks[job].service_by(now) for job in live if job in view.tracks])


def _displaced(service: ServiceTrack, view: View, now: Seconds) -> float:
    """The least of what jobs below it would lose; some of them are looked at. 0: there is room."""
    own = [view.tracks[one.job] for one in service.replicas.values() if one.job in view.tracks]
    if not own or view.room.most_free() >= own[0].job.gpus:
        return 0.0
    priority = own[0].job.priority
    some = islice(view.running.values(), _LOOKED_AT)
    below = [other for other in some if other.job.priority < priority and not other.pinned]
    return min([loss_gpu_s(other, now) for other in below], default=0.0)


def _replica(own: LiveReplica, track: Track, now: Seconds) -> SeenReplica:
    runs = track.phase is RUNNING and not track.held
    up_s = now - track.working_since if runs and track.working_since >= 0 else 0.0
    placed = track.placement is not None
    leaves = track.process and not placed and track.parked_at is None
    return SeenReplica(
        *(own.number, own.job, own.port, runs, placed, leaves, track.held, up_s, own.variant)
    )
