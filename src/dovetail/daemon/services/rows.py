"""A service and its replicas as the daemon tells them, and what they cost."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.api.service_row import (
    ReplicaRow,
    ReplicaState,
    ServiceCost,
    ServiceRow,
    ServiceState,
)
from dovetail.daemon.services.keeper import ServiceKeeper
from dovetail.daemon.services.network import is_here
from dovetail.daemon.services.scene import IS_PAUSED, SeenReplica, ServiceScene
from dovetail.models.cost import Costs


def cost_of(scene: ServiceScene, keeper: ServiceKeeper | None, costs: Costs) -> ServiceCost:
    """At the usual price of a node's busy GPUs; their kind is that of the first replica."""
    answered = scene.answered + (keeper.load.untold_answers if keeper else 0)
    money = scene.gpu_s / 3600 * costs.per_hour(scene.kind, scene.node_gpus) / scene.node_gpus
    return ServiceCost(
        name=scene.design.name,
        user=scene.design.user,
        gpu_hours=scene.gpu_s / 3600,
        answered=int(answered),
        cost=money,
        per_thousand=money / answered * 1e3 if answered else None,
        gpu_s_per_thousand=scene.gpu_s / answered * 1e3 if answered else None,
        currency=costs.currency,
    )


def _why(scene: ServiceScene, keeper: ServiceKeeper | None) -> str:
    """How many replicas it has, and why."""
    if scene.is_paused:
        return IS_PAUSED
    return keeper.told.reason if keeper else scene.reason


def service_row(
    scene: ServiceScene, keeper: ServiceKeeper | None, cost: ServiceCost, address: str
) -> ServiceRow:
    design = scene.design
    rows = [_replica_row(own, keeper) for own in scene.replicas]
    load = keeper.load if keeper else None
    total = load.total if load else {}
    return ServiceRow(
        id=design.id,
        name=design.name,
        user=design.user,
        address=address,
        needs_token=not is_here(design.host),
        state=_state(scene, rows, keeper),
        least=scene.least,
        most=scene.most,
        wanted=scene.wanted,
        variant=scene.variant,
        why=_why(scene, keeper),
        trouble=keeper.trouble_now(scene) if keeper else "nobody looks after it",
        slo_s=design.slo_s,
        percentile=design.percentile,
        rate=load.rate if load else 0.0,
        p50_s=load.last_answers["p50_s"] if load else 0.0,
        p99_s=load.last_answers["p99_s"] if load else 0.0,
        in_flight=load.last["in_flight"] if load else 0,
        queued=load.last["queued"] if load else 0,
        answered=total.get("answered", 0),
        late=total.get("late", 0),
        refused=total.get("refused", 0),
        failed=total.get("failed", 0),
        failed_job=scene.failed_job,
        cost=cost,
        replicas=rows,
    )


def _replica_row(own: SeenReplica, keeper: ServiceKeeper | None) -> ReplicaRow:
    return ReplicaRow(
        number=own.number,
        job=str(own.job),
        port=own.port,
        variant=own.variant,
        state=keeper.state_of(own) if keeper else "starting",
        in_flight=keeper.busy.get(str(own.number), 0) if keeper else 0,
    )


def _state(
    scene: ServiceScene, rows: Sequence[ReplicaRow], keeper: ServiceKeeper | None
) -> ServiceState:
    states: set[ReplicaState] = {own.state for own in rows}
    if scene.is_paused:
        return "paused"
    if "ready" in states:
        return "serving"
    if keeper is None or keeper.trouble_now(scene):
        return "troubled"
    return "asleep" if rows and states <= {"asleep"} else "starting"
