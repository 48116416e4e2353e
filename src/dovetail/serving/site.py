"""What a controller has at hand: time, services, servers; and what it can do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import Any

from dovetail.serving.engine import RequestEngine
from dovetail.serving.fleet import Fleet
from dovetail.serving.request import Request
from dovetail.serving.rules.rule import Controller
from dovetail.serving.server import Server, ServerStage
from dovetail.serving.service import ServedModel
from dovetail.serving.tally import ServingTally


class ServingSite:
    """Of one run."""

    def __init__(
        self,
        engine: RequestEngine,
        services: Mapping[str, ServedModel],
        fleet: Fleet,
        tally: ServingTally,
        price: Callable[[str], float] = lambda kind: 1.0,
    ) -> None:
        self.engine = engine
        self.services = services
        self.fleet = fleet
        self.tally = tally
        self.price = price  # of a GPU-hour, by kind
        self.controller: Controller  # set before anything happens
        self.nobody_ready: Callable[[str], None] = lambda group: (
            None
        )  # somebody waits, no server is
        # Whoever makes one answer of several is told them instead of the tally.
        self.told: Callable[[str, Iterable[Request]], None] | None = None
        self._is_slowed = any(own.sensitivity for own in fleet.services.values())

    def start(self, server: Server, batch: Any, seconds: float) -> None:
        """It does the batch for so long; then the controller is told `done`."""
        server.batch = batch
        if self._is_slowed:
            seconds *= self._slowdown(server)
        server.ends = ends = self.engine.now + seconds
        server.busy_s += seconds
        self.engine.at(ends, self._ended, server)

    def _slowdown(self, server: Server) -> float:
        """By what others do on the same GPU as the batch begins."""
        pressure = sum(
            self.fleet.services[doing(other)].pressure
            for servers in self.fleet.servers.values()
            for other in servers
            if other.gpu == server.gpu and other is not server and other.batch is not None
        )
        return 1.0 + self.fleet.services[doing(server)].sensitivity * pressure

    def preempt(self, server: Server) -> Any:
        """It stops at once; what it did is lost. Returns its batch."""
        batch, server.batch = server.batch, None
        server.busy_s -= server.ends - self.engine.now
        server.ends = inf
        return batch

    def answered(self, service: str, requests: Iterable[Request]) -> None:
        if self.told is None:
            self.tally.answered(service, requests, self.engine.now)
        else:
            self.told(service, requests)

    def drop(self, service: str, count: int = 1) -> None:
        """They get no answer: they could not be in time."""
        self.tally.dropped(service, self.engine.now, count)

    def _ended(self, server: Server) -> None:
        if server.ends != self.engine.now:  # it was preempted meanwhile
            return
        server.ends = inf  # one that was preempted may have begun, and would end, at the same times
        self.controller.done(server)
        if server.batch is None and server.stage is ServerStage.DRAINING:
            self.fleet.drained(server)


def doing(server: Server) -> str:
    """The service whose batch it does."""
    service: str = getattr(server.batch, "service", server.seat.services[0])
    return service
