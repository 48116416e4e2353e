"""What becomes of every field of a service when the state is kept: see `core.kept`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dovetail.core.journal import with_infinity
from dovetail.core.model import JobId, own_fields
from dovetail.workloads.service.design import ServiceDesign
from dovetail.workloads.service.track import LiveReplica, ServiceTrack

MADE_OF: Final = ("design", "declared_at")
KEPT: Final = (
    *("least", "most", "wanted", "reason", "paused_at", "next_number", "failures", "failed_at"),
    *("failure", "load", "failed_job", "answered", "ended_gpu_s", "variant"),
)
PARTS: Final = ("replicas",)
DERIVED: Final = ("group",)  # from the jobs around it


def copy_of(service: ServiceTrack) -> ServiceTrack:
    other = ServiceTrack(service.design, service.declared_at)
    for name in KEPT:
        setattr(other, name, getattr(service, name))
    other.replicas.update(service.replicas)
    return other


def row_of(service: ServiceTrack) -> dict[str, Any]:
    return {
        "design": own_fields(service.design),
        "declared_at": service.declared_at,
        **{name: getattr(service, name) for name in KEPT},
        "replicas": list(service.replicas.values()),
    }


def restored(row: Mapping[str, Any]) -> ServiceTrack:
    service = ServiceTrack(ServiceDesign(**with_infinity(row["design"])), row["declared_at"])
    for name in KEPT:
        if name in row:  # some came later
            setattr(service, name, row[name])
    for number, job, port, *later in row["replicas"]:
        service.replicas[number] = LiveReplica(number, JobId(job), port, *later)
    return service


def values_of(service: ServiceTrack) -> tuple[Any, ...]:
    return (
        *[getattr(service, name) for name in (*MADE_OF, *KEPT)],
        list(service.replicas.values()),
        sorted(service.group.line),
    )
