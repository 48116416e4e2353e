"""Each service has replicas of its own; a request goes to the one with the fewest, and waits there."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from dovetail.sdk.batching.clipper import Clipper
from dovetail.sdk.batching.forming import BatchBounds, Batcher, BatchRule
from dovetail.sdk.batching.kept_answers import KeptAnswers
from dovetail.sdk.batching.static import Static
from dovetail.serving.request import Request
from dovetail.serving.rules.rule import GroupBacklog
from dovetail.serving.server import Server, ServerGroup, ServerSeat
from dovetail.serving.service import ServedModel
from dovetail.serving.site import ServingSite


def own_replicas(services: Mapping[str, ServedModel]) -> list[ServerGroup]:
    """A group for each service, of replicas that have only its model."""
    return [
        ServerGroup(
            ServerSeat(one.name, (one.name,), one.share, one.kind),
            max(one.least, 1),
            one.least,
            one.most,
        )
        for one in services.values()
    ]


@dataclass(frozen=True)
class StaticReplicas(Static):
    """Batches of up to max_batch; one begins when it is full or its first request has waited
    wait_ms. Each request goes to the replica with the fewest; nothing is dropped."""

    def groups(
        self, services: Mapping[str, ServedModel], gpus: Sequence[str]
    ) -> Sequence[ServerGroup]:
        return own_replicas(services)

    def controller(self, site: ServingSite) -> Routed:
        return Routed(self, site)


@dataclass(frozen=True)
class ClipperReplicas(Clipper):
    """Clipper: the largest batch grows by 1 while a batch takes no longer than `share` of the SLO, and
    is multiplied by `backoff` when one does. Each request goes to the replica with the fewest. Who asks
    for one of the last `cache` inputs of its service is answered at once."""

    def groups(
        self, services: Mapping[str, ServedModel], gpus: Sequence[str]
    ) -> Sequence[ServerGroup]:
        return own_replicas(services)

    def controller(self, site: ServingSite) -> Routed:
        return Routed(self, site)


class ReplicaLine:
    """A replica's own line."""

    __slots__ = ("asked_at", "batcher", "line", "load", "seconds", "server", "service")

    def __init__(self, server: Server, service: str, batcher: Batcher) -> None:
        self.server = server
        self.service = service
        self.seconds = server.seconds[service]
        self.batcher = batcher
        self.line: deque[Request] = deque()
        self.load = 0  # waiting and in work
        self.asked_at = inf  # when it wants to be asked again


class Routed:
    """The controller: any rule of batching, replica by replica."""

    def __init__(self, rule: BatchRule, site: ServingSite) -> None:
        self._rule = rule
        self._site = site
        self._engine = site.engine
        self._replicas: dict[str, list[ReplicaLine]] = {name: [] for name in site.services}
        self._waiting: dict[str, deque[Request]] = {name: deque() for name in site.services}
        kept = getattr(rule, "cache", 0)
        self._kept = {name: KeptAnswers(kept) for name in site.services if kept}

    def arrived(self, request: Request) -> None:
        if self._kept and self._is_known(request):
            self._site.answered(request.service, (request,))
            return
        replicas = self._replicas[request[1]]
        if not replicas:
            self._waiting[request[1]].append(request)
            self._site.nobody_ready(request[1])
            return
        replica = replicas[0]
        if len(replicas) > 1:
            least = replica.load
            for other in replicas:
                if other.load < least:
                    replica, least = other, other.load
        replica.load += 1
        replica.line.append(request)
        if replica.server.batch is None:
            self._next(replica)

    def _is_known(self, request: Request) -> bool:
        return bool(request.input and self._kept[request.service].get(request.input))

    def _next(self, replica: ReplicaLine) -> None:
        """Its server is free: the batcher is asked."""
        line, now = replica.line, self._engine.now
        if not line:
            return
        take, drop, again_at = replica.batcher.step(now, line)
        if drop:
            self._drop(replica, drop)
        if take:
            if take == 1:
                batch = [line.popleft()]
            elif take == len(line):
                batch = list(line)
                line.clear()
            else:
                batch = [line.popleft() for _ in range(take)]
            self._site.start(replica.server, batch, replica.seconds[take])
        elif again_at < replica.asked_at and line:
            replica.asked_at = again_at
            self._engine.at(again_at, self._asked_again, replica)

    def _asked_again(self, replica: ReplicaLine) -> None:
        if replica.asked_at == self._engine.now:
            replica.asked_at = inf
            if replica.server.batch is None:
                self._next(replica)

    def _drop(self, replica: ReplicaLine, count: int) -> None:
        for _ in range(count):
            replica.line.popleft()
        replica.load -= count
        self._site.drop(replica.service, count)

    def done(self, server: Server) -> None:
        replica: ReplicaLine = server.notes
        size = len(server.batch)
        self._site.answered(replica.service, server.batch)
        if self._kept:
            self._keep(replica.service, server.batch)
        server.batch = None
        replica.load -= size
        replica.batcher.took(size, replica.seconds[size])
        if replica.line:
            self._next(replica)

    def _keep(self, service: str, answered: Sequence[Request]) -> None:
        for request in answered:
            if request.input:
                self._kept[service].keep(request.input, True)

    # ---------------------------------------------------------------------------- servers come and go

    def joined(self, server: Server) -> None:
        (service,) = server.seat.services
        own = self._site.services[service]
        bounds = BatchBounds(own.max_batch, server.seconds[service], own.slo_s)
        server.notes = replica = ReplicaLine(server, service, self._rule.batcher(bounds))
        self._replicas[service].append(replica)
        waiting, self._waiting[service] = self._waiting[service], deque()
        for request in waiting:
            self.arrived(request)

    def left(self, server: Server) -> None:
        replica: ReplicaLine = server.notes
        self._replicas[replica.service].remove(replica)
        moved, replica.line = replica.line, deque()
        for request in moved:
            self.arrived(request)

    def backlog(self, group: str) -> GroupBacklog:
        replicas = self._replicas[group]
        in_flight = sum(len(replica.server.batch or ()) for replica in replicas)
        queued = sum(len(replica.line) for replica in replicas) + len(self._waiting[group])
        return GroupBacklog(in_flight, queued)

    def close(self) -> None:
        for service, waiting in self._waiting.items():
            if waiting:
                self._site.drop(service, len(waiting))
                waiting.clear()
