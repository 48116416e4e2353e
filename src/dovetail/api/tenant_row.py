"""Tenants, and the limits of users on a shared box, as the daemon tells them."""

from __future__ import annotations

from dataclasses import field

from dovetail.api.wire import about, row

_UNKNOWN = "Users and groups just named that the system does not know."


@row
class TenantRow:
    """A tenant and its quota."""

    name: str
    gpu_quota: float | None
    weight: float
    gpus: float | None = field(metadata=about("GPUs it holds now."))
    users: list[str]
    groups: list[str]


@row
class Tenants:
    """All tenants."""

    tenants: list[TenantRow]
    unknown: list[str] = field(default_factory=list, metadata=about(_UNKNOWN))


@row
class Use:
    """How much of the limits a user has used."""

    queued: float
    running: float
    gpus: float
    gpu_hours: float | None = field(metadata=about("null where there is no limit."))
    megabytes: float


@row
class LimitRow:
    """null: no limit."""

    user: str
    queued: float | None
    running: float | None
    gpus: float | None
    gpu_hours: float | None
    priority: float | None
    megabytes: float | None
    used: Use | None = field(metadata=about("null for everybody."))


@row
class LimitsTold:
    """The limits of users."""

    limits: list[LimitRow]
    shared: bool = field(metadata=about("On a box of one user there are none."))
    ask: str = field(metadata=about("Who may be asked for more."))
    unknown: list[str] = field(default_factory=list, metadata=about(_UNKNOWN))
