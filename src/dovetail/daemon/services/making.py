"""From the description of a service to what the journal says of it, and to the jobs of its replicas."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

from dovetail.core.model import Seconds, Setting
from dovetail.core.view import View
from dovetail.daemon.clock import Clock
from dovetail.daemon.services.network import GatewayNetwork
from dovetail.daemon.submissions import Member, Opening, OpeningShell
from dovetail.daemon.users.callers import Caller
from dovetail.daemon.users.limits import PER_JOB
from dovetail.jobfiles import jobs as spec_jobs
from dovetail.jobfiles.job_model import dump
from dovetail.jobfiles.service_model import (
    HERE,
    ServiceSpec,
    place_of,
    read_service,
    replica_job,
    ways_of,
)
from dovetail.workloads.service.design import ServiceDesign
from dovetail.workloads.service.kind import services_of
from dovetail.worlds.gateway_settings import GatewayBounds
from dovetail.worlds.hosting import Endpoint, GatewayOrder
from dovetail.worlds.world import UserAccount


def design_of(
    spec: ServiceSpec, service_id: str, caller: Caller, port: int, tenant: str
) -> ServiceDesign:
    """`port`: of its address."""
    return ServiceDesign(
        id=service_id,
        name=spec.name,
        user=caller.name,
        tenant=tenant,
        port=port,
        host=HERE if spec.listen is None else place_of(spec.listen)[0],
        least=spec.replicas.min,
        most=spec.replicas.max,
        at_once=spec.at_once,
        slo_s=None if spec.slo_ms is None else spec.slo_ms / 1e3,
        percentile=spec.percentile,
        rule=spec.scaling,
        idle_s=spec.idle_s,
        spec=json.dumps(dump(spec.model_copy(update={"envs": {}}))),
    )


def size_of(design: ServiceDesign, declaring: Opening) -> float:
    """Bytes that are written for it; each replica is counted when it is submitted."""
    environment = sum(len(name) + len(text) for name, text in declaring.environment.items())
    return len(design.spec) + environment + PER_JOB


def spec_of(design: ServiceDesign, shell: OpeningShell) -> ServiceSpec:
    return read_service({**json.loads(design.spec), "envs": shell.envs})


def ports_of_replicas(view: View) -> set[int]:
    """The ports of the replicas of all open services, whether they run now or not."""
    services = services_of(view).open.values()
    return {own.port for service in services for own in service.replicas.values()}


def gateway_of(
    design: ServiceDesign,
    spec: ServiceSpec,
    network: GatewayNetwork,
    account_of: Callable[[], UserAccount | None],
) -> GatewayOrder:
    return GatewayOrder(
        id=design.id,
        service=design.name,
        port=design.port,
        tenant=design.tenant,
        slo_s=design.slo_s,
        percentile=design.percentile,
        bounds=GatewayBounds(
            queue=spec.queue,
            queue_s=spec.queue_s,
            at_once=spec.at_once,
            body_bytes=int(spec.body_mb * 1e6),
        ),
        account_of=account_of,
        host=design.host,
        network=network.stamp,
        tls=network.tls,
    )


def member_of(
    spec: ServiceSpec,
    design: ServiceDesign,
    number: int,
    variant: str,
    job_id: str,
    listens: Endpoint,
    now: Seconds,
    clock: Clock,
) -> Member:
    """The job of one replica, that listens there as it sees it."""
    own = next((way.spec for way in ways_of(spec) if way.name == variant), spec)
    job = replica_job(own, number, *listens)
    told = _told(design, number, variant)
    job = job.model_copy(update={"envs": {**job.envs, **told}, "group": design.id})
    asked = spec_jobs.to_job(job, job_id, design.user, clock.unix(now))
    settings: tuple[tuple[str, Setting], ...] = (("port", listens.port),)
    if variant:
        settings = (*settings, ("variant", variant))
    asked = replace(asked, member=number, settings=settings, alike=(), amount=None)
    asked = replace(asked, tenant=design.tenant or asked.tenant)
    return Member(asked, job, None)


def _told(design: ServiceDesign, number: int, variant: str) -> dict[str, str]:
    """What a server may know of its service."""
    told = {"DOVETAIL_SERVICE": design.name, "DOVETAIL_REPLICA": str(number)}
    if variant:
        told["DOVETAIL_VARIANT"] = variant
    return told if design.slo_s is None else {**told, "DOVETAIL_SLO_MS": f"{design.slo_s * 1e3:g}"}
