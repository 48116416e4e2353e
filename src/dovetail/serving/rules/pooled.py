"""Every server has the models of all services; requests wait in one line for each service."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import deque
from collections.abc import Mapping, Sequence
from math import ceil, inf
from operator import attrgetter, itemgetter
from typing import NamedTuple, Protocol

from dovetail.core.model import WHOLE_GPU
from dovetail.sdk.batching.in_time import too_late
from dovetail.serving.request import Request
from dovetail.serving.rules.rule import GroupBacklog
from dovetail.serving.server import Server, ServerGroup, ServerSeat, ServerStage
from dovetail.serving.service import ServedModel
from dovetail.serving.site import ServingSite

POOL = "all services"
_NUMBER, _DEADLINE = attrgetter("number"), itemgetter(2)

Lines = Mapping[str, deque[Request]]


def one_pool(services: Mapping[str, ServedModel]) -> list[ServerGroup]:
    """As many whole GPUs as the replicas of all services would have."""
    kinds = {one.kind for one in services.values()}
    seat = ServerSeat(POOL, tuple(services), WHOLE_GPU, kinds.pop() if len(kinds) == 1 else "")

    def gpus(counts: Sequence[int]) -> int:
        shares = [one.share * n for one, n in zip(services.values(), counts, strict=True)]
        return max(ceil(sum(shares) / WHOLE_GPU), 1)

    begin = gpus([max(one.least, 1) for one in services.values()])
    least, most = (
        gpus([getattr(own, end) for own in services.values()]) for end in ("least", "most")
    )
    return [ServerGroup(seat, begin, least, most)]


class NextBatch(NamedTuple):
    """The next batch of a server: of this service, `size` requests after the first `skipped`."""

    service: str
    skipped: int
    size: int


class Choosing(Protocol):
    """What differs between rules over a pool."""

    is_alike: bool  # what one free server cannot begin, no other of its kind can

    def choose(self, now: float, server: Server, lines: Lines) -> NextBatch | float:
        """The batch that a free server begins now, or the time at which to ask again (infinite: when a
        request comes)."""

    def displaced(
        self, now: float, service: str, lines: Lines, busy: Sequence[Server]
    ) -> Server | None:
        """All servers are busy and a request has come: the one whose batch gives way, if any."""


class WorkItem(NamedTuple):
    """What a server does."""

    service: str
    requests: list[Request]


class ServerPool:
    """The controller: lines in the order of deadlines, and free servers, the lowest number first. A
    server's next batch is decided up to `ahead_s` before it is free."""

    def __init__(self, choosing: Choosing, site: ServingSite, ahead_s: float = 0.0) -> None:
        self._choosing = choosing
        self._ahead_s = ahead_s
        self._site = site
        self._engine = site.engine
        self.lines: dict[str, deque[Request]] = {name: deque() for name in site.services}
        self._free: list[Server] = []
        self._servers: list[Server] = []
        self._quickest: dict[str, list[float]] = {}
        self._asked_at = inf
        self._is_alike = True

    def arrived(self, request: Request) -> None:
        line = self.lines[request[1]]
        if line and request[2] < line[-1][2]:
            line.insert(bisect_right(line, request[2], key=_DEADLINE), request)
        else:
            line.append(request)
        if self._free:
            self._offer()
        elif self._servers:
            self._displace(request[1])

    def _displace(self, service: str) -> None:
        server = self._choosing.displaced(self._engine.now, service, self.lines, self._servers)
        if server is not None:
            own, requests = self._site.preempt(server)
            self.lines[own] = deque(sorted((*requests, *self.lines[own]), key=_DEADLINE))
            insort(self._free, server, key=_NUMBER)
            self._offer()

    def _offer(self) -> None:
        """Free servers are given work until there is none for them."""
        now, place = self._engine.now, 0
        while place < len(self._free):
            server = self._free[place]
            begins = now if server.batch is None else server.ends
            found = self._choosing.choose(begins, server, self.lines)
            if isinstance(found, NextBatch):
                del self._free[place]
                self._begin(server, found)
                continue
            if found < self._asked_at:
                self._asked_at = found
                self._engine.at(found, self._asked_again)
            if self._is_alike:
                return
            place += 1

    def _asked_again(self, _: object) -> None:
        if self._asked_at == self._engine.now:
            self._asked_at = inf
            self._offer()

    def _begin(self, server: Server, found: NextBatch) -> None:
        service, skipped, size = found
        line = self.lines[service]
        line.rotate(-skipped)
        requests = [line.popleft() for _ in range(size)]
        line.rotate(skipped)
        item = WorkItem(service, requests)
        if server.batch is None:
            self._start(server, item)
        else:
            server.notes = item

    def _start(self, server: Server, item: WorkItem) -> None:
        seconds = server.seconds[item.service][len(item.requests)]
        self._site.start(server, item, seconds)
        if self._ahead_s:
            self._engine.at(
                self._engine.now + max(seconds - self._ahead_s, 0.0), self._open, server
            )

    def _open(self, server: Server) -> None:
        """It may be given its next batch."""
        if server.stage is ServerStage.READY:
            insort(self._free, server, key=_NUMBER)
            self._offer()

    def done(self, server: Server) -> None:
        service, requests = server.batch
        server.batch = None
        self._site.answered(service, requests)
        self._give_up()
        if server.notes is not None:
            item, server.notes = server.notes, None
            self._start(server, item)
        elif not self._ahead_s:
            self._open(server)

    def _give_up(self) -> None:
        """Requests that no server could answer in time."""
        now = self._engine.now
        for service, line in self.lines.items():
            if line:
                late = too_late(now, line, self._quickest[service])
                for _ in range(late):
                    line.popleft()
                if late:
                    self._site.drop(service, late)

    # ---------------------------------------------------------------------------- servers come and go

    def joined(self, server: Server) -> None:
        self._servers.append(server)
        insort(self._free, server, key=_NUMBER)
        self._quickest = {
            service: min((own.seconds[service] for own in self._servers), key=itemgetter(1))
            for service in self.lines
        }
        kinds = {own.kind for own in self._servers}
        self._is_alike = self._choosing.is_alike and len(kinds) == 1
        self._offer()

    def left(self, server: Server) -> None:
        self._servers.remove(server)
        if server in self._free:
            self._free.remove(server)

    def backlog(self, group: str) -> GroupBacklog:
        items = [item for own in self._servers for item in (own.batch, own.notes) if item]
        in_flight = sum(len(item.requests) for item in items)
        return GroupBacklog(in_flight, sum(map(len, self.lines.values())))

    def close(self) -> None:
        for service, line in self.lines.items():
            if line:
                self._site.drop(service, len(line))
                line.clear()
