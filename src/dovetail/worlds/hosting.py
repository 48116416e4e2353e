"""Services as a world hosts them: where their replicas listen, and the gateways in front of them.

Replicas are jobs like all others. What is asked of a world beside: which port a replica listens on, at
which address it is reached, and that a gateway stands at the address of the service.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from dovetail.core.errors import DovetailError
from dovetail.core.model import JobId
from dovetail.worlds.gateway_settings import GatewayBounds

if TYPE_CHECKING:
    from dovetail.worlds.world import UserAccount


class GatewayLost(DovetailError):
    """There is none, and none can be started now."""


class Endpoint(NamedTuple):
    """Where somebody listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class GatewayOrder:
    """The gateway of one service: what it is for, not where it runs."""

    id: str  # of the service
    service: str  # its name
    port: int  # of its address
    tenant: str = ""  # whose it is; on Kubernetes its namespace
    slo_s: float | None = None
    percentile: float = 99.0  # of the answers that should keep it
    bounds: GatewayBounds = GatewayBounds()
    account_of: Callable[[], UserAccount | None] = lambda: None  # None: the daemon's own user
    host: str = "127.0.0.1"  # of its address, where a world is a machine
    network: str = ""  # how it is open to other machines, see `GatewaySettings`
    tls: tuple[str, str] | None = None


class GatewayDoor(Protocol):
    """The way to the gateway of one service. One thread at a time calls it."""

    def connect(self) -> socket.socket | None:
        """A line to the gateway that is there, which has proved that it is the one; None: there is
        none."""

    def start(self) -> None:
        """Start one where there is none; `GatewayLost` says why it cannot be."""

    def end(self) -> None:
        """Its service is over: it answers what it has, and nothing of it is left."""


class Hosting(Protocol):
    """From any thread."""

    @property
    def replica_host(self) -> str:
        """The address that a replica listens at, as it sees it: nobody else is to reach it."""

    def why_not(
        self, name: str, tenant: str, listen: int | None, port: int | None, most: int
    ) -> str:
        """Why a service of that name, with that address and that port of its replicas, of which there
        are so many at most, cannot be had here; "" if it can. None: any port will do."""

    def address_port(self, listen: int | None) -> int:
        """The port of a new service's address."""

    def replica_port(self, port: int | None, taken: Collection[int]) -> int:
        """The port of a new replica: `taken` are those of all others."""

    def address(self, service: str, tenant: str, port: int) -> str:
        """What clients are told: http://…"""

    def endpoint(self, job_id: JobId, port: int) -> Endpoint | None:
        """Where this replica is reached now; None: nowhere."""

    def waits_for(self, job_id: JobId) -> str:
        """What keeps the processes of a replica from beginning, such as an image that cannot be had;
        "" as a rule."""

    def stranger_at(self, endpoint: Endpoint, uid: int | None) -> str:
        """Who else than this user's process listens there; "" if nobody does."""

    def door(self, order: GatewayOrder) -> GatewayDoor: ...

    def end_all_but(self, known: Collection[str]) -> None:
        """After a restart: ends the gateways of services that are over, by the services' ids."""
