"""Nexus: each GPU has the services that the plan gives it, and serves them in turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dovetail.core.errors import BadInput
from dovetail.sdk.batching.forming import Durations
from dovetail.sdk.batching.in_time import window_in_time
from dovetail.sdk.batching.nexus import Nexus
from dovetail.serving.request import Request
from dovetail.serving.rules.measured_rates import MeasuredRates
from dovetail.serving.rules.nexus_plan import DutyCycle, RateOfService, filled
from dovetail.serving.rules.pooled import WorkItem, one_pool
from dovetail.serving.rules.rule import GroupBacklog
from dovetail.serving.server import Server, ServerGroup
from dovetail.serving.service import ServedModel
from dovetail.serving.site import ServingSite


@dataclass(frozen=True)
class NexusPool(Nexus):
    """Nexus: GPUs are given to services by their rates, shared in duty cycles where one would not fill
    them; planned again every epoch_s. Who would make a batch late is dropped early."""

    epoch_s: float = 30.0

    def __post_init__(self) -> None:
        if not self.epoch_s > 0:
            raise BadInput(f"epoch_s={self.epoch_s:g}: it is above 0")

    def groups(
        self, services: Mapping[str, ServedModel], gpus: Sequence[str]
    ) -> Sequence[ServerGroup]:
        return one_pool(services)

    def controller(self, site: ServingSite) -> DutyCycles:
        return DutyCycles(self.epoch_s, site)


class LineInCycle:
    """The requests to one service that wait for one GPU."""

    __slots__ = ("line", "rate", "seconds", "sent", "server", "service", "wanted")

    def __init__(
        self, server: Server, service: str, wanted: int, rate: float, seconds: Durations
    ) -> None:
        self.server = server
        self.service = service
        self.wanted = wanted
        self.rate = rate
        self.seconds = seconds
        self.line: deque[Request] = deque()
        self.sent = 0.0  # requests over rate


class DutyCycles:
    """The controller."""

    def __init__(self, epoch_s: float, site: ServingSite) -> None:
        self._site = site
        self._engine = site.engine
        self._servers: list[Server] = []
        self._homes: dict[str, list[LineInCycle]] = {name: [] for name in site.services}
        self._rates = MeasuredRates(site, epoch_s, self._plan)
        self._homeless: list[Request] = []  # while there is no server

    def arrived(self, request: Request) -> None:
        self._rates.count(request[1])
        self._route(request)

    def _route(self, request: Request) -> None:
        """To the GPU that has had the least of its part."""
        homes = self._homes[request[1]]
        if not homes:
            self._homeless.append(request)
            return
        home = homes[0]
        if len(homes) > 1:
            for other in homes:
                if other.sent < home.sent:
                    home = other
        home.sent += 1.0 / home.rate
        line = home.line
        if line and request[2] < line[-1][2]:
            _insert(line, request)
        else:
            line.append(request)
        if home.server.batch is None:
            self._next(home.server)

    def _next(self, server: Server) -> None:
        """The lines in turn; whoever has been served goes to the end."""
        turns: deque[LineInCycle] = server.notes
        now = self._engine.now
        for home in list(turns):
            line = home.line
            if not line:
                continue
            dropped = window_in_time(now, line, home.seconds, home.wanted)
            if dropped:
                for _ in range(dropped):
                    line.popleft()
                self._site.drop(home.service, dropped)
            if line:
                size = min(home.wanted, len(line))
                batch = [line.popleft() for _ in range(size)]
                turns.remove(home)
                turns.append(home)
                self._site.start(server, WorkItem(home.service, batch), home.seconds[size])
                return

    def done(self, server: Server) -> None:
        service, requests = server.batch
        server.batch = None
        self._site.answered(service, requests)
        if server.notes is not None:
            self._next(server)

    # ------------------------------------------------------------------------------------- planning

    def _plan(self) -> None:
        waiting = [
            request for homes in self._homes.values() for own in homes for request in own.line
        ]
        waiting += self._homeless
        self._homeless = []
        self._homes = {name: [] for name in self._site.services}
        if self._servers:
            for server, cycle in zip(self._servers, self._cycles(), strict=True):
                self._give(server, cycle)
        for request in sorted(waiting):
            self._route(request)

    def _cycles(self) -> list[DutyCycle]:
        """GPUs of the first one's kind are planned for."""
        seconds, rates = self._servers[0].seconds, self._rates.latest  # at first all are alike
        asked = [
            RateOfService(name, rates.get(name, 1.0), seconds[name], own.slo_s, own.max_batch)
            for name, own in self._site.services.items()
        ]
        return filled(asked, len(self._servers))

    def _give(self, server: Server, cycle: DutyCycle) -> None:
        server.notes = deque()
        for own, size in cycle.batches:
            home = LineInCycle(server, own.service, size, own.rate, server.seconds[own.service])
            server.notes.append(home)
            self._homes[own.service].append(home)

    # ---------------------------------------------------------------------------- servers come and go

    def joined(self, server: Server) -> None:
        self._servers.append(server)
        self._plan()

    def left(self, server: Server) -> None:
        self._servers.remove(server)
        self._plan()
        server.notes = None

    def backlog(self, group: str) -> GroupBacklog:
        in_flight = sum(len(own.batch.requests) for own in self._servers if own.batch)
        waiting = sum(len(own.line) for homes in self._homes.values() for own in homes)
        return GroupBacklog(in_flight, waiting + len(self._homeless))

    def close(self) -> None:
        for request in self._homeless:
            self._site.drop(request.service)


def _insert(line: deque[Request], request: Request) -> None:
    place = next(at for at, other in enumerate(line) if request[2] < other[2])
    line.insert(place, request)
