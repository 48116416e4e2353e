"""A service in words: for `dovetail services`, and where a job is asked for and a service is meant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import quote

from dovetail.api.service_row import ReplicaRow, ServiceCost, ServiceRow
from dovetail.api.wire import read
from dovetail.client.connection import Client, RequestRefused
from dovetail.core.errors import BadInput
from dovetail.text.durations import latency_text
from dovetail.text.tables import Column, clean, has_colours, table


def path_of(name: str) -> str:
    if not name.strip():
        raise BadInput(f"there is no service {name!r}; `dovetail services` shows them")
    return f"/v1/services/{quote(name, safe='')}"


def service_called(client: Client, name: str) -> ServiceRow:
    return read(ServiceRow, client.get(path_of(name)))


def service_instead(client: Client, name: str, refused: RequestRefused) -> ServiceRow:
    """There is no such job: a service of that name may be meant."""
    if refused.status == 404:
        with suppress(RequestRefused):
            return service_called(client, name)
    raise refused


def replicas_text(row: ServiceRow) -> str:
    """3 ready, 1 asleep."""
    states = Counter(own.state for own in row.replicas)
    return ", ".join(f"{number} {state}" for state, number in states.items()) or "none"


def cost_text(cost: ServiceCost) -> str:
    """1.25 GPU-hours, 12.4 GPU-seconds and 0.031 for a thousand requests."""
    found = f"{cost.gpu_hours:.3g} GPU-hours"
    if cost.gpu_s_per_thousand is None or cost.per_thousand is None:
        return found
    paid = f"{cost.per_thousand:.3g} {cost.currency}".rstrip()
    money = f" and {paid}" if cost.per_thousand else ""
    seconds = cost.gpu_s_per_thousand
    told = f"{seconds:,.0f}" if seconds >= 100 else f"{seconds:.3g}"
    return f"{found}, {told} GPU-seconds{money} for a thousand requests"


def _latency_text(row: ServiceRow) -> str:
    if not row.p50_s:
        return "not known: no request was answered of late"
    return f"half within {latency_text(row.p50_s)}, 99 of 100 within {latency_text(row.p99_s)}"


def show_lines(row: ServiceRow) -> Iterator[str]:
    of = f" of {row.variant}" if row.variant else ""
    slo = f"{latency_text(row.slo_s)} for {row.percentile:g} of 100" if row.slo_s else "none"
    facts = {
        "service": f"{row.name} ({row.id}, {row.user}), {row.state}",
        "address": row.address + (", to who shows a token" if row.needs_token else ""),
        "replicas": f"{replicas_text(row)}; {row.wanted}{of} wanted of {row.least} to {row.most}",
        "why": row.why,
        "trouble": row.trouble,
        "load": f"{row.rate:.3g} requests a second, {row.in_flight} in work, {row.queued} wait",
        "latency": _latency_text(row),
        "slo": slo,
        "answered": f"{row.answered:,}, {row.late:,} late, {row.refused:,} refused, "
        f"{row.failed:,} failed",
        "cost": cost_text(row.cost),
    }
    yield from [clean(f"{key:<10}{value}") for key, value in facts.items() if value]
    columns = [own for own in _REPLICA_COLUMNS if row.variant or own is not _VARIANT]
    yield from ["", *table(columns, row.replicas, colours=has_colours())]


_VARIANT: Column[ReplicaRow] = Column("VARIANT", lambda own: own.variant)
_REPLICA_COLUMNS: list[Column[ReplicaRow]] = [
    Column("REPLICA", lambda own: str(own.number), right=True),
    Column("JOB", lambda own: own.job, right=True),
    _VARIANT,
    Column("STATE", lambda own: own.state),
    Column("PORT", lambda own: str(own.port), right=True),
    Column("IN WORK", lambda own: str(own.in_flight), right=True),
]


def why_lines(row: ServiceRow) -> Iterator[str]:
    number = f"{row.wanted} {'replica' if row.wanted == 1 else 'replicas'}"
    which = f" of {row.variant}" if row.variant else ""
    yield clean(f"{number}{which} because {row.why}.")
    if row.trouble:
        yield clean(f"Trouble: {row.trouble}.")


def logged(row: ServiceRow, replica: int | None = None) -> list[tuple[str, str]]:
    """The jobs whose logs are asked for, and what to call them: where there is no replica, the one that
    failed last."""
    chosen = [own for own in row.replicas if replica in (None, own.number)]
    if chosen:
        return [(own.job, f"replica {own.number} (job {own.job})") for own in chosen]
    if replica is None and row.failed_job:
        return [(row.failed_job, f"the replica that failed last (job {row.failed_job})")]
    what = "no replica" if replica is None else f"no replica {replica}"
    raise BadInput(f"service {row.name} has {what}")
