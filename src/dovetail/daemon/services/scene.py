"""One service in the state at one moment, as its keeper looks at it."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.core.model import JobId, Seconds
from dovetail.core.track import RUNNING, Track
from dovetail.core.view import View
from dovetail.daemon.holds import ASLEEP, SERVICE_PAUSED
from dovetail.workloads.service.design import ServiceDesign
from dovetail.workloads.service.kind import services_of
from dovetail.workloads.service.track import LiveReplica, ServiceTrack

AT_REST = (ASLEEP, SERVICE_PAUSED)  # why the keeper itself holds a replica


@dataclass(frozen=True, slots=True)
class SeenReplica:
    number: int
    job: JobId
    port: int
    runs: bool
    is_placed: bool  # it has its GPUs, or slot
    held: str
    up_s: Seconds  # how long it has been running

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
    )


def _replica(own: LiveReplica, track: Track, now: Seconds) -> SeenReplica:
    runs = track.phase is RUNNING and not track.held
    up_s = now - track.working_since if runs and track.working_since >= 0 else 0.0
    placed = track.placement is not None
    return SeenReplica(own.number, own.job, own.port, runs, placed, track.held, up_s)
