"""GPUs in parts that a plan sizes again and again: each part serves its services in turn."""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple, Protocol

from dovetail.core.model import WHOLE_GPU
from dovetail.sdk.batching.in_time import window_in_time
from dovetail.serving.request import Request
from dovetail.serving.rules.measured_rates import MeasuredRates
from dovetail.serving.rules.pooled import WorkItem, one_pool
from dovetail.serving.rules.rule import GroupBacklog
from dovetail.serving.server import Server, ServerGroup
from dovetail.serving.service import ServedModel
from dovetail.serving.site import ServingSite

_MORE, _FEWER = 1.15, 0.85  # times the rates, again and again
_STEPS = 40
_AT = itemgetter(0)


class PartUse(NamedTuple):
    """A service on a part: the requests a second that it is to have there, and its largest batch."""

    service: str
    rate: float
    batch: int


class GpuPart(NamedTuple):
    """A part of a GPU, both counted from 0."""

    gpu: int
    share: int
    uses: tuple[PartUse, ...]


class PartPlanner(Protocol):
    """What differs between rules."""

    def parts(self, rates: Mapping[str, float], gpus: int, kind: str) -> Sequence[GpuPart] | None:
        """How so many GPUs are cut for these rates; None: they are too few."""


def parts_of_pool(
    services: Mapping[str, ServedModel], gpus: Sequence[str], most: int
) -> list[ServerGroup]:
    """As many GPUs as the replicas of all services may have, each able to be cut into `most` parts.
    How large the parts are is the controller's matter; together they hold the whole GPU."""
    (pool,) = one_pool(services)
    count = max(min(pool.most, len(gpus)), pool.begin) * most
    return [ServerGroup.fixed(pool.seat._replace(share=WHOLE_GPU // most), count)]


class LineOfPart:
    """The requests to one service that wait for one part."""

    __slots__ = ("batch", "line", "rate", "ready_at", "seconds", "sent", "server", "service")

    def __init__(self, server: Server, use: PartUse, seconds: Sequence[float], ready_at: float):
        self.server = server
        self.service = use.service
        self.rate = max(use.rate, 1e-9)
        self.batch = max(use.batch, 1)
        self.seconds = seconds
        self.ready_at = ready_at
        self.line: deque[Request] = deque()
        self.sent = 0.0  # requests over rate


class PartsController:
    """Rates are measured, the plan is made again every epoch; a service that is new on a part answers
    there once it is loaded."""

    def __init__(self, planner: PartPlanner, epoch_s: float, site: ServingSite) -> None:
        self._planner = planner
        self._site = site
        self._engine = site.engine
        self._on_gpu: dict[int, list[Server]] = {}
        self._homes: dict[str, list[LineOfPart]] = {name: [] for name in site.services}
        self._homeless: dict[str, deque[Request]] = {name: deque() for name in site.services}
        self._rates = MeasuredRates(site, epoch_s, self._plan_again)
        self._tables: dict[tuple[str, str, int], list[float]] = {}
        self._plan: Sequence[GpuPart] | None = ()  # None: it is to be made

    def arrived(self, request: Request) -> None:
        self._rates.count(request[1])
        self._route(request)

    def _route(self, request: Request) -> None:
        """To the part that has had the least of what it is to have."""
        homes = self._homes[request[1]]
        if not homes:
            self._homeless[request[1]].append(request)
            return
        home = min(homes, key=lambda own: own.sent) if len(homes) > 1 else homes[0]
        home.sent += 1.0 / home.rate
        line = home.line
        if line and request[2] < line[-1][2]:
            insort(line, request, key=lambda own: own[2])
        else:
            line.append(request)
        if home.server.batch is None:
            self._next(home.server)

    def _next(self, server: Server) -> None:
        """The service whose first request has to be answered first."""
        homes: list[LineOfPart] = server.notes
        now, best = self._engine.now, None
        for home in homes:
            if home.line and home.ready_at <= now:
                self._give_up(home, now)
                if home.line and (best is None or home.line[0][2] < best.line[0][2]):
                    best = home
        if best is None:
            return
        size = min(best.batch, len(best.line))
        batch = [best.line.popleft() for _ in range(size)]
        self._site.start(server, WorkItem(best.service, batch), best.seconds[size])

    def _give_up(self, home: LineOfPart, now: float) -> None:
        dropped = window_in_time(now, home.line, home.seconds, home.batch)
        for _ in range(dropped):
            home.line.popleft()
        if dropped:
            self._site.drop(home.service, dropped)

    def done(self, server: Server) -> None:
        service, requests = server.batch
        server.batch = None
        self._site.answered(service, requests)
        if server.notes:
            self._next(server)

    # ------------------------------------------------------------------------------------- planning

    def _expected(self) -> Mapping[str, float]:
        """As measured; before that as said, or all alike."""
        return {
            name: self._rates.latest.get(name, 1.0 if own.rate_per_s is None else own.rate_per_s)
            for name, own in self._site.services.items()
        }

    def _plan_soon(self) -> None:
        """Once for all servers that come or go at this instant."""
        if self._plan is not None:
            self._plan = None
            self._engine.at(self._engine.now, lambda _: self._plan_again())

    def _plan_again(self) -> None:
        gpus = sorted(self._on_gpu)
        if not gpus:
            return
        plan = self._parts_for(len(gpus), self._on_gpu[gpus[0]][0].kind)
        if plan == self._plan:
            return
        self._plan = plan
        waiting = [own for homes in self._homes.values() for home in homes for own in home.line]
        waiting += [own for line in self._homeless.values() for own in line]
        before = {
            (home.server.number, home.service) for row in self._homes.values() for home in row
        }
        self._homes = {name: [] for name in self._site.services}
        self._homeless = {name: deque() for name in self._site.services}
        self._give([part for part in plan if part.gpu < len(gpus)], gpus, before)
        for request in sorted(waiting, key=_AT):
            self._route(request)

    def _parts_for(self, gpus: int, kind: str) -> Sequence[GpuPart]:
        """All that these GPUs can answer in time: room for bursts, or as much of the rates as there is
        room for."""
        rates, found = self._expected(), None
        for step in (_MORE, _FEWER):
            for n in range(_STEPS):
                scaled = {name: rate * step**n for name, rate in rates.items()}
                plan = self._planner.parts(scaled, gpus, kind)
                if plan is None and (step == _MORE or n + 1 == _STEPS):
                    break
                found = plan
                if found is not None and step == _FEWER:
                    break
            if found is not None:
                return tuple(found)
        return ()

    def _give(
        self, plan: Sequence[GpuPart], gpus: Sequence[int], before: set[tuple[int, str]]
    ) -> None:
        free = {gpu: list(self._on_gpu[gpu]) for gpu in gpus}
        for servers in free.values():
            for server in servers:
                server.notes = []
        for part in plan:
            servers = free[gpus[part.gpu]]
            if not servers:
                continue
            known = {use.service for use in part.uses}
            server = max(
                servers, key=lambda own: sum((own.number, name) in before for name in known)
            )
            servers.remove(server)
            for use in part.uses:
                self._add(server, part, use, (server.number, use.service) in before)

    def _add(self, server: Server, part: GpuPart, use: PartUse, was_there: bool) -> None:
        own, now = self._site.services[use.service], self._engine.now
        is_loaded = was_there or now <= self._engine.began
        home = LineOfPart(
            server,
            use,
            self._seconds(own, server.kind, part.share),
            now if is_loaded else now + own.wake_s,
        )
        if not is_loaded:
            self._engine.at(home.ready_at, self._loaded, server)
        server.notes.append(home)
        self._homes[use.service].append(home)

    def _loaded(self, server: Server) -> None:
        if server.batch is None and server.notes:
            self._next(server)

    def _seconds(self, own: ServedModel, kind: str, share: int) -> list[float]:
        key = (own.name, kind, share)
        if key not in self._tables:
            self._tables[key] = own.seconds(kind, share)
        return self._tables[key]

    # ---------------------------------------------------------------------------- servers come and go

    def joined(self, server: Server) -> None:
        server.notes = []
        self._on_gpu.setdefault(server.gpu, []).append(server)
        self._plan_soon()

    def left(self, server: Server) -> None:
        self._on_gpu[server.gpu].remove(server)
        if not self._on_gpu[server.gpu]:
            del self._on_gpu[server.gpu]
        for home in server.notes:
            self._homes[home.service].remove(home)
            self._homeless[home.service].extend(home.line)
        server.notes = []
        self._plan_soon()

    def backlog(self, group: str) -> GroupBacklog:
        servers = [own for row in self._on_gpu.values() for own in row]
        in_flight = sum(len(own.batch.requests) for own in servers if own.batch)
        queued = sum(len(home.line) for row in self._homes.values() for home in row)
        return GroupBacklog(in_flight, queued + sum(map(len, self._homeless.values())))

    def close(self) -> None:
        for service, line in self._homeless.items():
            if line:
                self._site.drop(service, len(line))
                line.clear()
        for service, homes in self._homes.items():
            for home in homes:
                if home.line:
                    self._site.drop(service, len(home.line))
                    home.line.clear()
