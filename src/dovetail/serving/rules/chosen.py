"""Each service has servers of several sorts (models, GPU kinds); how many of each is decided again and
again from the requests that came."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from dovetail.core.model import WHOLE_GPU
from dovetail.sdk.batching.in_time import window_in_time
from dovetail.serving.planners.demand import BatchLatency, ShareDemand, largest_batch
from dovetail.serving.request import Request
from dovetail.serving.rules.rule import GroupBacklog
from dovetail.serving.server import Server, ServerGroup, ServerSeat, ServerStage
from dovetail.serving.service import ServedModel
from dovetail.serving.site import ServingSite

HOUR_S = 3600.0
_LEAST_RATE = 1e-9


class Sort(NamedTuple):
    """Servers that are alike: a model on a share of GPUs of a kind."""

    group: str
    model: str  # as the fleet calls it
    service: str
    kind: str
    share: int
    batch: int  # the largest of which two are in time
    seconds: Sequence[float]
    accuracy: float
    start_s: float

    @property
    def capacity(self) -> float:
        """Requests a second that one of them answers in time."""
        return self.batch / self.seconds[self.batch] if self.batch else 0.0

    @property
    def seat(self) -> ServerSeat:
        return ServerSeat(self.group, (self.model,), self.share, self.kind)


def sorts_of(service: ServedModel, gpus: Sequence[str]) -> list[Sort]:
    """Every way of the service on every kind of GPU on which it may run. Those that are never in time
    are left out, unless there are no others."""
    found = []
    for way in service.ways:
        kinds = [way.kind] if way.kind else sorted(set(gpus))
        for kind in kinds:
            model = service.name if way is service else f"{service.name}/{way.name}"
            seconds = way.seconds(kind, way.share)
            demand = ShareDemand(model, 1.0, service.slo_s, _looked_up(seconds), way.max_batch)
            found.append(
                Sort(
                    f"{model}@{kind}",
                    model,
                    service.name,
                    kind,
                    way.share,
                    largest_batch(demand),
                    seconds,
                    way.accuracy,
                    way.start_s,
                )
            )
    able = [sort for sort in found if sort.batch]
    return able or [sort._replace(batch=1) for sort in found]


def _looked_up(seconds: Sequence[float]) -> BatchLatency:
    return lambda batch, share: seconds[batch]


def groups_of(services: Mapping[str, ServedModel], gpus: Sequence[str]) -> list[ServerGroup]:
    """At first the replicas of the first sort for which there is room; then as it is decided."""
    seats = [
        ([sort.seat for sort in sorts_of(own, gpus)], max(own.least, 1))
        for own in services.values()
    ]
    return begun(seats, gpus)


def begun(
    seats: Sequence[tuple[Sequence[ServerSeat], int]], gpus: Sequence[str]
) -> list[ServerGroup]:
    """Of each row of seats, so many servers of the first for which there is room; none of the others."""
    free = {kind: WHOLE_GPU * count for kind, count in Counter(gpus).items()}
    groups = []
    for row, count in seats:
        fits = [seat for seat in row if free.get(seat.kind, 0) >= seat.share * count]
        first = fits[0] if fits else row[0]
        free[first.kind] = free.get(first.kind, 0) - first.share * count
        groups += [ServerGroup.fixed(seat, count if seat is first else 0) for seat in row]
    return groups


class SortUse(NamedTuple):
    """Of a sort: servers awake, and the money that one of them costs in a second."""

    sort: Sort
    awake: int
    usd_per_s: float


class Deciding(Protocol):
    """What differs between rules."""

    period_s: float

    def wanted(
        self, service: ServedModel, rates: Sequence[float], now: Sequence[SortUse]
    ) -> Mapping[str, int]:
        """Servers of each group, given the requests a second in all periods so far. Groups that are
        not named are to go."""


class SortedReplica:
    """A server's own line."""

    __slots__ = ("line", "server", "sort")

    def __init__(self, server: Server, sort: Sort) -> None:
        self.server = server
        self.sort = sort
        self.line: deque[Request] = deque()


class SortsController:
    """A request goes to the replica that is soonest done with all it has; batches are as large as are in
    time."""

    def __init__(self, deciding: Deciding, site: ServingSite) -> None:
        self._deciding = deciding
        self._site = site
        self._engine = site.engine
        gpus = site.fleet.gpus
        self._sorts = {name: sorts_of(own, gpus) for name, own in site.services.items()}
        self._by_group = {sort.group: sort for row in self._sorts.values() for sort in row}
        self._replicas: dict[str, list[SortedReplica]] = {name: [] for name in site.services}
        self._waiting: dict[str, deque[Request]] = {name: deque() for name in site.services}
        self._came = dict.fromkeys(site.services, 0)
        self._rates: dict[str, list[float]] = {name: [] for name in site.services}
        self._targets: dict[str, Mapping[str, int]] = {}
        self._looks = False

    def arrived(self, request: Request) -> None:
        self._came[request[1]] += 1
        if not self._looks:
            self._looks = True
            self._engine.at(self._engine.now + self._deciding.period_s, self._look)
        self._route(request)

    def _route(self, request: Request) -> None:
        replicas = self._replicas[request[1]]
        if not replicas:
            self._waiting[request[1]].append(request)
            return
        replica = min(replicas, key=_backlog_s) if len(replicas) > 1 else replicas[0]
        replica.line.append(request)
        if replica.server.batch is None:
            self._next(replica)

    def _next(self, replica: SortedReplica) -> None:
        line, sort = replica.line, replica.sort
        late = window_in_time(self._engine.now, line, sort.seconds, sort.batch) if line else 0
        for _ in range(late):
            line.popleft()
        if late:
            self._site.drop(sort.service, late)
        if line:
            size = min(sort.batch, len(line))
            batch = [line.popleft() for _ in range(size)]
            self._site.start(replica.server, batch, sort.seconds[size])

    def done(self, server: Server) -> None:
        replica: SortedReplica = server.notes
        service, size = replica.sort.service, len(server.batch)
        self._site.answered(service, server.batch)
        if self._site.services[service].variants:
            self._site.tally.by_service[service].judge(replica.sort.accuracy * size, size)
        server.batch = None
        if replica.line:
            self._next(replica)

    # ------------------------------------------------------------------------------------- deciding

    def _look(self, _: object) -> None:
        for name, service in self._site.services.items():
            self._rates[name].append(max(self._came[name] / self._deciding.period_s, _LEAST_RATE))
            self._came[name] = 0
            self._targets[name] = self._deciding.wanted(service, self._rates[name], self._use(name))
            self._settle(name)
        if self._engine.is_coming:
            self._engine.at(self._engine.now + self._deciding.period_s, self._look)

    def _use(self, service: str) -> list[SortUse]:
        return [
            SortUse(
                sort,
                self._site.fleet.awake(sort.group),
                self._site.price(sort.kind) / HOUR_S * sort.share / WHOLE_GPU,
            )
            for sort in self._sorts[service]
        ]

    def _settle(self, service: str) -> None:
        """Those that are wanted start; the others go when these are ready, or to make room for them."""
        fleet, targets = self._site.fleet, self._targets.get(service)
        if targets is None:
            return
        groups = [sort.group for sort in self._sorts[service]]
        for group in groups:
            if targets.get(group, 0) > fleet.awake(group):
                fleet.want(group, targets[group])
        ready = all(self._ready(group) >= count for group, count in targets.items())
        short = any(fleet.awake(group) < count for group, count in targets.items())
        for group in groups:
            surplus = fleet.awake(group) - targets.get(group, 0)
            if surplus > 0 and (ready or short):
                fleet.want(group, fleet.awake(group) - (surplus if ready else 1))

    def _ready(self, group: str) -> int:
        return sum(own.stage is ServerStage.READY for own in self._site.fleet.servers[group])

    # ---------------------------------------------------------------------------- servers come and go

    def joined(self, server: Server) -> None:
        sort = self._by_group[server.group]
        server.notes = SortedReplica(server, sort)
        self._replicas[sort.service].append(server.notes)
        waiting, self._waiting[sort.service] = self._waiting[sort.service], deque()
        for request in waiting:
            self._route(request)
        if self._targets:
            self._settle(sort.service)

    def left(self, server: Server) -> None:
        replica: SortedReplica = server.notes
        self._replicas[replica.sort.service].remove(replica)
        moved, replica.line = replica.line, deque()
        for request in moved:
            self._route(request)

    def backlog(self, group: str) -> GroupBacklog:
        service = self._by_group[group].service
        replicas = self._replicas[service]
        in_flight = sum(len(own.server.batch or ()) for own in replicas)
        return GroupBacklog(in_flight, sum(len(own.line) for own in replicas))

    def close(self) -> None:
        for name, line in self._waiting.items():
            if line:
                self._site.drop(name, len(line))
                line.clear()


def _backlog_s(replica: SortedReplica) -> float:
    """How long it takes for what it has, and one more."""
    sort, waiting = replica.sort, len(replica.line) + 1
    busy = 0 if replica.server.batch is None else len(replica.server.batch)
    return (waiting + busy) * sort.seconds[sort.batch] / sort.batch
