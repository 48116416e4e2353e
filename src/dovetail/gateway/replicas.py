"""The replicas of a service as its gateway knows them: who is next, and who waits for one."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil, inf
from typing import Final

from dovetail.gateway.answers import Refusal
from dovetail.gateway.load import LoadMeter
from dovetail.gateway.upstream import Upstream
from dovetail.worlds.gateway_settings import GatewayBounds

READY: Final = "ready"
DRAINING: Final = "draining"  # gets no more requests; those it has are answered
ASLEEP: Final = "asleep"

_REST_S = 0.5  # after a replica could not be reached
_MOST_RETRY_S = 60


@dataclass(frozen=True, slots=True)
class ReplicaTold:
    """As the daemon names it."""

    id: str
    host: str
    port: int
    standing: str = READY
    at_once: int = 0  # requests at the same time; 0: as the service has it


@dataclass(slots=True)
class Replica:
    told: ReplicaTold
    in_flight: int = 0
    answered: int = 0
    took_s: float = 0.0  # for these, in all
    resting: bool = False
    idle: list[Upstream] = field(default_factory=list)  # connections to use again

    @property
    def is_ready(self) -> bool:
        return self.told.standing == READY and not self.resting

    def close_idle(self) -> None:
        for upstream in self.idle:
            upstream.close()
        self.idle.clear()


class ReplicaPool:
    """Gives each request to the replica that has the fewest; the others wait in order."""

    def __init__(self, service: str, bounds: GatewayBounds, meter: LoadMeter) -> None:
        self.replicas: Final[dict[str, Replica]] = {}
        self.on_wait: Callable[[], None] = lambda: None  # somebody waits who did not before
        self.wake_s = 5.0  # what the daemon thinks that waking or starting one takes
        self.why_none = "no replica of it is ready yet"
        self.ready_since = 0.0  # a request that waited before for one to wake is not late by that
        self._service: Final = service
        self._bounds: Final = bounds
        self._meter: Final = meter
        self.is_paused: bool = False
        self._is_over = False
        self._waiting: Final[deque[asyncio.Future[Replica]]] = deque()

    # ------------------------------------------------------------------------- what the daemon tells

    def pause(self, is_paused: bool) -> None:
        """Who waits is refused, and so is who comes; what was begun is answered."""
        self.is_paused = is_paused
        while is_paused and self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_exception(self._paused())

    def tell(self, told: Sequence[ReplicaTold]) -> None:
        """Those that are not named are gone."""
        named, had_ready = {one.id: one for one in told}, self.has_ready
        for gone in self.replicas.keys() - named.keys():
            self.replicas.pop(gone).close_idle()
        for one in told:
            known = self.replicas.get(one.id)
            if known is None or (known.told.host, known.told.port) != (one.host, one.port):
                self.replicas[one.id] = Replica(one)
                continue
            known.told = one
            if one.standing != READY:
                known.close_idle()
        if self.has_ready and not had_ready:
            self.ready_since = asyncio.get_running_loop().time()
        self._hand_on()

    def stop(self) -> None:
        """Nobody waits any more; what replicas have begun they may end."""
        self._is_over = True
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(self._stopped())

    def _stopped(self) -> Refusal:
        return Refusal(503, f"service {self._service!r} has been stopped")

    @property
    def has_ready(self) -> bool:
        return any([replica.is_ready for replica in self.replicas.values()])

    # --------------------------------------------------------------------------- taking, giving back

    async def take(self, deadline: float) -> Replica:
        """A replica for one request; `give_back` is owed."""
        if self._is_over:
            raise self._stopped()
        if self.is_paused:
            raise self._paused()
        replica = None if self._waiting else self._least_loaded()
        if replica is not None:
            return self._taken(replica)
        if len(self._waiting) >= self._bounds.queue:
            raise self._too_busy(f"{len(self._waiting)} requests wait already")
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Replica] = loop.create_future()
        self._waiting.append(waiter)
        self._count()
        self._meter.now_there()
        self.on_wait()
        timer = loop.call_at(deadline, self._expire, waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self.give_back(waiter.result())
            raise
        finally:
            timer.cancel()
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            self._count()

    def give_back(self, replica: Replica) -> None:
        replica.in_flight -= 1
        self._meter.work(-1, asyncio.get_running_loop().time())
        self._hand_on()

    def rest(self, replica: Replica) -> None:
        """It could not be reached: others are asked for a moment, unless the daemon removes it."""
        replica.close_idle()
        if not replica.resting:
            replica.resting = True
            asyncio.get_running_loop().call_later(_REST_S, self._rested, replica)

    def _rested(self, replica: Replica) -> None:
        replica.resting = False
        self._hand_on()

    def _least_loaded(self) -> Replica | None:
        best, fewest = None, inf
        for replica in self.replicas.values():
            number = replica.in_flight
            if number < fewest and number < self._at_once(replica) and replica.is_ready:
                best, fewest = replica, number
        return best

    def _at_once(self, replica: Replica) -> int:
        return replica.told.at_once or self._bounds.at_once

    def _taken(self, replica: Replica) -> Replica:
        replica.in_flight += 1
        self._meter.work(1, asyncio.get_running_loop().time())
        self._meter.now_there()
        return replica

    def _hand_on(self) -> None:
        while self._waiting and (replica := self._least_loaded()) is not None:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(self._taken(replica))

    def _expire(self, waiter: asyncio.Future[Replica]) -> None:
        if not waiter.done():
            waiter.set_exception(self._too_late())

    def _count(self) -> None:
        self._meter.queued = len(self._waiting)

    # ------------------------------------------------------------------------------------- refusals

    def _paused(self) -> Refusal:
        told = f"service {self._service!r} takes no requests now: it is paused"
        return Refusal(503, told, _MOST_RETRY_S)

    def _too_late(self) -> Refusal:
        waited = f"none was free within {self._bounds.queue_s:g} s"
        return self._too_busy(waited if self.has_ready else self.why_none)

    def _too_busy(self, why: str) -> Refusal:
        retry_s = self._retry_s()
        told = f"service {self._service!r} is too busy: {why}; try again in {retry_s} s"
        return Refusal(503, told, retry_s)

    def _retry_s(self) -> int:
        """The time in which those who wait now are served; never less than a second."""
        ready = [self._at_once(own) for own in self.replicas.values() if own.is_ready]
        if not ready:
            return min(max(ceil(self.wake_s), 1), _MOST_RETRY_S)
        each_s = self._meter.mean_service_s or 1.0
        found = len(self._waiting) * each_s / sum(ready)
        return min(max(ceil(found), 1), _MOST_RETRY_S)
