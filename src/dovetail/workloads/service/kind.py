"""Services in the state: folded from entries of their own and from what their replicas do as jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast, final

from dovetail.core.entries import GroupAction, GroupEvent, Reported
from dovetail.core.errors import IllegalEntry
from dovetail.core.journal import with_infinity
from dovetail.core.model import JobId, Setting
from dovetail.core.track import SERVES, Track
from dovetail.workloads.service import keeping
from dovetail.workloads.service.design import ServiceDesign
from dovetail.workloads.service.entries import (
    KIND,
    ServiceBounded,
    ServiceDeclared,
    ServiceLoaded,
    ServicePaused,
    ServiceResumed,
    ServiceScaled,
    ServiceStopped,
)
from dovetail.workloads.service.track import ServiceTrack

if TYPE_CHECKING:
    from dovetail.core.groups import Reader
    from dovetail.core.state import State
    from dovetail.core.view import View

READERS: Final[Mapping[str, Reader]] = {
    ServiceDeclared.tag: lambda at, value, _: ServiceDeclared(
        at, ServiceDesign(**with_infinity(value))
    ),
    ServiceScaled.tag: lambda at, value, row: ServiceScaled(
        at, value, row["replicas"], row["reason"], row.get("variant", "")
    ),
    ServiceBounded.tag: lambda at, value, row: ServiceBounded(at, value, row["least"], row["most"]),
    ServiceLoaded.tag: lambda at, value, row: ServiceLoaded(at, value, row["load"]),
    ServicePaused.tag: lambda at, value, _: ServicePaused(at, value),
    ServiceResumed.tag: lambda at, value, _: ServiceResumed(at, value),
    ServiceStopped.tag: lambda at, value, row: ServiceStopped(at, value, row["reason"]),
}


def services_of(view: View) -> Workload:
    """The services of a state."""
    return cast(Workload, view.kind(KIND))


@final
class Workload:
    """The services by id."""

    pins = SERVES

    def __init__(self) -> None:
        self.watches = 0  # the state tells it, whatever others ask for
        self.open: Final[dict[str, ServiceTrack]] = {}

    def of(self, track: Track) -> ServiceTrack | None:
        """The service that the job is a replica of."""
        return self.open.get(track.job.group) if track.job.member is not None else None

    # ------------------------------------------------------------------------ entries of its own

    def record(self, state: State, entry: GroupEvent | GroupAction) -> None:
        if isinstance(entry, ServiceDeclared):
            self._declare(state, entry.design)
            return
        assert isinstance(
            entry,
            ServiceScaled
            | ServiceBounded
            | ServiceLoaded
            | ServicePaused
            | ServiceResumed
            | ServiceStopped,
        )
        service = self._service(state, entry.service_id)
        if isinstance(entry, ServiceScaled):
            service.wanted, service.reason = entry.replicas, entry.reason
            service.variant = entry.variant
        elif isinstance(entry, ServiceBounded):
            service.least, service.most = entry.least, entry.most
        elif isinstance(entry, ServiceLoaded):
            service.hear(entry.load)
        elif isinstance(entry, ServicePaused):
            service.paused_at = state.now
        elif isinstance(entry, ServiceResumed):
            service.paused_at = -1.0
            service.stays_well()  # the next one is tried at once
        else:
            self._stop(state, service)

    def _service(self, state: State, service_id: str) -> ServiceTrack:
        service = self.open.get(service_id)
        if service is None:
            raise IllegalEntry(f"there is no service {service_id!r} at t={state.now:g}")
        return service

    def _declare(self, state: State, design: ServiceDesign) -> None:
        if design.id in state.groups:
            raise IllegalEntry(f"service {design.id!r} is declared twice; ids must differ")
        self._follow(state, ServiceTrack(design, state.now))

    def _follow(self, state: State, service: ServiceTrack) -> None:
        self.open[service.id] = service
        state.groups[service.id] = service.group

    def _stop(self, state: State, service: ServiceTrack) -> None:
        left = [own.job for own in service.replicas.values() if own.job in state.tracks]
        if left:
            raise IllegalEntry(
                f"cannot stop service {service.design.name!r} at t={state.now:g}: jobs {left} of it "
                "have not ended"
            )
        del self.open[service.id]
        del state.groups[service.id]

    # ---------------------------------------------------------------------- what its replicas do

    def joins(self, track: Track) -> None:
        self.open[track.job.group].join(track)

    def branches(
        self, track: Track, source: JobId, settings: tuple[tuple[str, Setting], ...]
    ) -> None:
        raise IllegalEntry(f"job {track.job.id!r} is a replica: it goes on from no other job")

    def why_not_after(self, track: Track) -> str:
        return ""

    def runs(self, track: Track) -> None:
        pass

    def waits(self, track: Track) -> None:
        pass

    def parks(self, track: Track) -> None:
        pass

    def reports(self, track: Track, entry: Reported) -> bool:
        return False

    def ends(self, track: Track) -> None:
        service = self.of(track)
        if service is not None:
            service.end_job(track)

    # ---------------------------------------------------------------------------------- keeping

    def kept(self) -> Mapping[str, Any]:
        return {"services": [keeping.row_of(service) for service in self.open.values()]}

    def restore(self, state: State, saved: Mapping[str, Any]) -> None:
        for row in saved.get("services", ()):
            self._take_up(state, keeping.restored(row))

    def copies(self) -> tuple[ServiceTrack, ...]:
        return tuple([keeping.copy_of(service) for service in self.open.values()])

    def take_up(self, state: State, copies: tuple[ServiceTrack, ...]) -> None:
        for service in copies:
            self._take_up(state, keeping.copy_of(service))

    def _take_up(self, state: State, service: ServiceTrack) -> None:
        """Follow it from now on; its jobs are there already."""
        self._follow(state, service)
        for own in service.replicas.values():
            service.group.take_up(state.tracks, own.job)
            track = state.tracks.get(own.job)
            if track is not None and not track.pinned:  # it was kept by a daemon of before
                track.pinned = self.pins

    def fingerprint(self) -> Mapping[str, Any]:
        return {"services": [keeping.values_of(service) for service in self.open.values()]}
