"""A service as the daemon tells it."""

from __future__ import annotations

from dataclasses import field
from typing import Literal, TypeAlias

from dovetail.api.wire import about, row

ServiceState: TypeAlias = Literal["serving", "starting", "asleep", "paused", "troubled"]
ReplicaState: TypeAlias = Literal["ready", "starting", "waiting", "draining", "asleep", "sick"]


@row
class ReplicaRow:
    """One replica."""

    number: int
    job: str
    port: int
    variant: str = field(metadata=about("Of the service; empty if it has none."))
    state: ReplicaState
    in_flight: int = field(metadata=about("Requests that it answers now."))


@row
class ServiceCost:
    """What its replicas have had since it was declared. Money is in the unit of the prices given."""

    name: str
    user: str
    gpu_hours: float
    answered: int = field(metadata=about("Requests."))
    cost: float
    per_thousand: float | None = field(
        metadata=about("Cost of a thousand requests; null before the first answer.")
    )
    gpu_s_per_thousand: float | None
    currency: str = ""


@row
class ServiceRow:
    """A service and its replicas."""

    id: str
    name: str
    user: str
    address: str = field(metadata=about("Where requests go."))
    needs_token: bool = field(metadata=about("There: it can be reached from other machines."))
    state: ServiceState
    least: int
    most: int
    wanted: int = field(metadata=about("Replicas that should be awake now."))
    variant: str = field(metadata=about("Of those; empty if the service has none."))
    why: str = field(metadata=about("Why so many."))
    trouble: str = field(metadata=about("What is wrong with it; empty if nothing is."))
    slo_s: float | None
    percentile: float
    rate: float = field(metadata=about("Requests a second, lately."))
    p50_s: float
    p99_s: float
    in_flight: int
    queued: int
    answered: int = field(metadata=about("Since this daemon began to look, as the next three."))
    late: int
    refused: int
    failed: int
    failed_job: str = field(metadata=about("Of the replica that failed last; empty if none has."))
    cost: ServiceCost
    replicas: list[ReplicaRow]


@row
class ServicesTold:
    services: list[ServiceRow]
