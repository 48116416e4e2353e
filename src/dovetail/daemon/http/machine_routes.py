"""Endpoints about the daemon and its machine: health, policy, nodes, tenants, metrics."""

from __future__ import annotations

import os
from collections.abc import Sequence
from math import inf, isinf

from fastapi import Response
from starlette.background import BackgroundTask

from dovetail.api.machine_row import (
    Acknowledged,
    Counts,
    FindingRow,
    Findings,
    Health,
    Nodes,
    PolicyTold,
    SettingsTold,
    Stopping,
)
from dovetail.api.tenant_row import TenantRow, Tenants
from dovetail.core.model import Seconds, Tenant
from dovetail.core.view import View
from dovetail.daemon import metrics
from dovetail.daemon.http.error_answers import JsonAnswer, problems
from dovetail.daemon.http.request_models import (
    ClosingAsked,
    OpeningAsked,
    PolicyAsked,
    TenantAsked,
)
from dovetail.daemon.http.requests import AskedDaemon, Asking, router
from dovetail.daemon.node_rows import node_rows
from dovetail.daemon.refusals import NotAllowed
from dovetail.daemon.users import system_accounts as accounts

routes = router("machine")


@routes.get("/v1/health", response_model=Health, responses=problems())
async def health(daemon: AskedDaemon) -> Response:
    """Answered without asking the loop: it must tell also when that one cannot go on."""
    state = daemon.state
    running = len(state.running)
    return JsonAnswer(
        Health(
            version=daemon.version,
            uptime_s=daemon.uptime_s,
            pid=os.getpid(),
            jobs=Counts(running=running, waiting=len(state.tracks) - running),
            full=daemon.store.is_full,
            keep=daemon.keep.text(),
            notices=list(daemon.notices.all),
            system=daemon.home.system,
            power=list(daemon.world.power.notices),
            costs=daemon.costs_notice,
            threads=daemon.world.trouble,
            seq=daemon.store.last_seq,
            **vars(daemon.service.policy()),
        )
    )


@routes.get("/v1/policy", response_model=PolicyTold, responses=problems())
async def policy(daemon: AskedDaemon) -> Response:
    return JsonAnswer(daemon.service.policy())


@routes.put("/v1/policy", response_model=PolicyTold, responses=problems(400, 503, 507))
def set_policy(asked: PolicyAsked, daemon: AskedDaemon, caller: Asking) -> Response:
    """Decides from now on. No job is stopped for it."""
    daemon.service.set_policy(asked.policy, caller)
    return JsonAnswer(daemon.service.policy())


# ------------------------------------------------------------------------------------------- nodes


@routes.get("/v1/nodes", response_model=Nodes, responses=problems(503))
def nodes(daemon: AskedDaemon) -> Response:
    """Every GPU or slot, who has it, and whether strangers use it."""
    return _nodes_told(daemon)


@routes.post("/v1/nodes/close", response_model=Nodes, responses=problems(400, 503, 507))
def close_gpus(asked: ClosingAsked, daemon: AskedDaemon, caller: Asking) -> Response:
    """Nothing new starts there until they are opened; also after a restart."""
    daemon.service.close_gpus(asked.gpus, caller, asked.reason, asked.vacate)
    return _nodes_told(daemon)


@routes.post("/v1/nodes/open", response_model=Nodes, responses=problems(400, 503, 507))
def open_gpus(asked: OpeningAsked, daemon: AskedDaemon, caller: Asking) -> Response:
    """Jobs may start there again. No GPU named: all that are closed."""
    daemon.service.open_gpus(asked.gpus, caller)
    return _nodes_told(daemon)


def _nodes_told(daemon: AskedDaemon) -> Response:
    others = daemon.world.users_beside()
    return JsonAnswer(
        Nodes(nodes=daemon.service.look(lambda view, now: node_rows(view, others=others)))
    )


def _finite(value: float) -> float | None:
    return None if isinf(value) else value


@routes.get("/v1/settings", response_model=SettingsTold, responses=problems(503))
def settings(daemon: AskedDaemon) -> Response:
    """With what it runs, and where each setting comes from."""
    policy = daemon.service.policy().policy
    rows = daemon.service.look(lambda view, now: daemon.settings.told(policy))
    return JsonAnswer(SettingsTold(settings=rows))


@routes.get("/v1/findings", response_model=Findings, responses=problems())
def findings(daemon: AskedDaemon) -> Response:
    """The features that the machines offer to jobs, and those that they lack."""
    return JsonAnswer(
        Findings(findings=[FindingRow(**own._asdict()) for own in daemon.world.findings()])
    )


# ----------------------------------------------------------------------------------------- tenants


@routes.get("/v1/tenants", response_model=Tenants, responses=problems(503))
def tenants(daemon: AskedDaemon) -> Response:
    return _tenants_told(daemon, [])


def _tenants_told(daemon: AskedDaemon, unknown: Sequence[str]) -> Response:
    return JsonAnswer(Tenants(tenants=daemon.service.look(_tenants), unknown=list(unknown)))


@routes.put("/v1/tenants", response_model=Tenants, responses=problems(400, 503, 507))
def set_tenant(asked: TenantAsked, daemon: AskedDaemon, caller: Asking) -> Response:
    """A tenant that is known gets the new quota. Members may be users and groups that come later."""
    quota = inf if asked.gpu_quota is None else asked.gpu_quota
    users, groups = tuple(asked.users), tuple(asked.groups)
    tenant = Tenant(asked.name, quota, asked.weight, users=users, groups=groups)
    daemon.service.set_tenant(tenant, caller)
    return _tenants_told(daemon, accounts.unknown(users, groups))


def _tenants(view: View, now: Seconds) -> list[TenantRow]:
    return [
        TenantRow(
            name=tenant.name,
            gpu_quota=_finite(tenant.gpu_quota),
            weight=tenant.weight,
            gpus=view.room.held.get(tenant.name),
            users=list(tenant.users),
            groups=list(tenant.groups),
        )
        for tenant in view.room.tenants.values()
    ]


# --------------------------------------------------------------------------------- the daemon itself


@routes.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"application/openmetrics-text": {}}}, **problems(503)},
)
def openmetrics(daemon: AskedDaemon) -> Response:
    """In the OpenMetrics text format. Counters count since the daemon started."""
    return Response(metrics.exposition(daemon), headers={"content-type": metrics.TYPE})


@routes.post("/v1/notices/acknowledge", response_model=Acknowledged, responses=problems(503, 507))
def acknowledge(daemon: AskedDaemon, caller: Asking) -> Response:
    """Somebody has seen what the daemon had to say; it is not said again."""
    if not caller.admin:
        raise NotAllowed("only an administrator may acknowledge notices")
    known = daemon.service.change(lambda view, now: ((), daemon.notices.acknowledge()))
    return JsonAnswer(Acknowledged(notices=list(known)))


@routes.post("/v1/stop", response_model=Stopping, responses=problems())
async def stop(daemon: AskedDaemon, caller: Asking) -> Response:
    """The daemon stops; the jobs go on."""
    if not caller.admin:
        raise NotAllowed("only an administrator may stop the daemon")
    return JsonAnswer(Stopping(stopping=True), background=BackgroundTask(daemon.stop))
