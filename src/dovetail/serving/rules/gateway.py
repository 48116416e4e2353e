"""What the gateway of a live service does: a replica has several requests at the same time."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from dovetail.core.errors import BadInput
from dovetail.serving.request import Request
from dovetail.serving.rules.routed import own_replicas
from dovetail.serving.rules.rule import GroupBacklog, HeldRequests
from dovetail.serving.server import Server, ServerGroup
from dovetail.serving.service import ServedModel
from dovetail.serving.site import ServingSite

_LOAD = attrgetter("load")
_SAME = 1e-9  # of a request's work: ends so near to each other are one


@dataclass(frozen=True)
class GatewayReplicas:
    """The gateway of a live service: each request goes to the replica with the fewest, which has up to
    max_batch at the same time; each then takes what a batch of so many takes. The others wait in one
    line; beyond `queue` of them, or after `queue_s`, they are refused."""

    queue: int = 512
    queue_s: float = 30.0

    def __post_init__(self) -> None:
        if self.queue < 1 or not self.queue_s > 0:
            raise BadInput(f"queue={self.queue}, queue_s={self.queue_s:g}: both are above 0")

    def groups(
        self, services: Mapping[str, ServedModel], gpus: Sequence[str]
    ) -> Sequence[ServerGroup]:
        return own_replicas(services)

    def controller(self, site: ServingSite) -> GatewayController:
        return GatewayController(self, site)


class SharedReplica:
    """Its requests advance at one speed, that of so many at once; so they end in the order they came."""

    __slots__ = ("_done", "_ends", "_since", "at_once", "requests", "seconds", "server")

    def __init__(self, server: Server, at_once: int) -> None:
        self.server = server
        self.seconds = server.seconds[server.seat.services[0]]
        self.at_once = at_once
        self.requests: deque[Request] = deque()
        self._ends: deque[tuple[float, float]] = deque()  # at which `_done`; since when it is here
        self._done = 0.0  # of a request's work, since it was ready
        self._since = 0.0

    @property
    def load(self) -> int:
        return len(self.requests)

    def _advance(self, now: float) -> None:
        if self.requests:
            more = (now - self._since) / self.seconds[len(self.requests)]
            self._done = min(self._done + more, self._ends[0][0])
        self._since = now

    def take(self, now: float, request: Request) -> None:
        self._advance(now)
        self.requests.append(request)
        self._ends.append((self._done + 1.0, now))

    def first_end(self, now: float) -> float:
        """When the next is answered, if nobody else comes."""
        return now + (self._ends[0][0] - self._done) * self.seconds[len(self.requests)]

    def pop_answered(self, now: float, held: HeldRequests) -> list[Request]:
        """It is the end of the first."""
        self._since, self._done = now, self._ends[0][0]
        answered = []
        while self._ends and self._ends[0][0] <= self._done + _SAME:
            held.answer(now, self._ends.popleft()[1])
            answered.append(self.requests.popleft())
        return answered


class _Line:
    """Of one service: who waits, and the replicas that may be given requests."""

    __slots__ = ("held", "replicas", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[Request] = deque()
        self.replicas: list[SharedReplica] = []
        self.held = HeldRequests()

    def least_loaded(self) -> SharedReplica | None:
        free = [own for own in self.replicas if own.load < own.at_once]
        return min(free, key=_LOAD) if free else None


class GatewayController:
    def __init__(self, rule: GatewayReplicas, site: ServingSite) -> None:
        self._rule = rule
        self._site = site
        self._engine = site.engine
        self._lines = {name: _Line() for name in site.services}

    def arrived(self, request: Request) -> None:
        line = self._lines[request.service]
        replica = None if line.waiting else line.least_loaded()
        if replica is not None:
            self._give(line, replica, request)
        elif len(line.waiting) >= self._rule.queue:
            self._site.drop(request.service)
        else:
            line.waiting.append(request)
            self._engine.at(self._engine.now + self._rule.queue_s, self._refuse, line)
            if not line.replicas:
                self._site.nobody_ready(request.service)

    def _refuse(self, line: _Line) -> None:
        """Those who have waited for too long: the first of the line, if any."""
        since = self._engine.now - self._rule.queue_s + _SAME
        while line.waiting and line.waiting[0].at <= since:
            self._site.drop(line.waiting.popleft().service)

    def _give(self, line: _Line, replica: SharedReplica, request: Request) -> None:
        now, server = self._engine.now, replica.server
        line.held.enter(now)
        replica.take(now, request)
        ends = replica.first_end(now)
        if server.batch is None:
            self._site.start(server, replica, ends - now)
        elif abs(server.ends - ends) > _SAME:
            self._site.preempt(server)
            self._site.start(server, replica, ends - now)

    def done(self, server: Server) -> None:
        """One has its answer; somebody who waits has its place."""
        replica: SharedReplica = server.notes
        (service,) = server.seat.services
        now, line = self._engine.now, self._lines[service]
        self._site.answered(service, replica.pop_answered(now, line.held))
        server.batch = None
        if replica.requests:
            self._site.start(server, replica, replica.first_end(now) - now)
        self._hand_on(line)

    def _hand_on(self, line: _Line) -> None:
        while line.waiting and (free := line.least_loaded()) is not None:
            self._give(line, free, line.waiting.popleft())

    # ---------------------------------------------------------------------------- servers come and go

    def joined(self, server: Server) -> None:
        (service,) = server.seat.services
        line = self._lines[service]
        replica = SharedReplica(server, self._site.services[service].max_batch)
        server.notes = replica
        line.replicas.append(replica)
        self._hand_on(line)

    def left(self, server: Server) -> None:
        (service,) = server.seat.services
        self._lines[service].replicas.remove(server.notes)

    def backlog(self, group: str) -> GroupBacklog:
        line = self._lines[group]
        return line.held.backlog(self._engine.now, len(line.waiting))

    def close(self) -> None:
        for name, line in self._lines.items():
            if line.waiting:
                self._site.drop(name, len(line.waiting))
                line.waiting.clear()
