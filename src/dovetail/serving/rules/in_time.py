"""Clockwork, Shepherd and Symphony over all servers: the rules know how long batches take, and begin
none that would be late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from dovetail.core.errors import BadInput
from dovetail.sdk.batching.clockwork import Clockwork, Shepherd
from dovetail.sdk.batching.forming import SLACK_S
from dovetail.sdk.batching.in_time import largest_in_time
from dovetail.sdk.batching.symphony import Symphony, window
from dovetail.serving.rules.loading import GpuMemories
from dovetail.serving.rules.pooled import Lines, NextBatch, ServerPool, one_pool
from dovetail.serving.server import Server, ServerGroup
from dovetail.serving.service import ServedModel
from dovetail.serving.site import ServingSite


class NeverDisplaces:
    """A batch that has begun is ended."""

    is_alike = True

    def __init__(self, services: Mapping[str, ServedModel]) -> None:
        self._most = {name: own.max_batch for name, own in services.items()}

    def displaced(
        self, now: float, service: str, lines: Lines, busy: Sequence[Server]
    ) -> Server | None:
        return None


@dataclass(frozen=True)
class ClockworkPool(Clockwork):
    """Clockwork: for each service the largest batch that ends in time is looked at, and a free GPU
    takes the one that must begin first. Requests that cannot be answered in time are dropped before
    they take any GPU time. The decision is taken ahead_ms before the GPU is free. Models that do
    not fit into memory together are loaded in wake_s."""

    ahead_ms: float = 5.0
    gpu_memory_gb: float = inf

    def __post_init__(self) -> None:
        if not 0 <= self.ahead_ms < inf:
            raise BadInput(f"ahead_ms={self.ahead_ms:g}: it is at least 0")

    def groups(
        self, services: Mapping[str, ServedModel], gpus: Sequence[str]
    ) -> Sequence[ServerGroup]:
        return one_pool(services)

    def controller(self, site: ServingSite) -> ServerPool:
        return ServerPool(MostUrgent(site.services, self.gpu_memory_gb), site, self.ahead_ms / 1e3)


class MostUrgent(NeverDisplaces):
    """The largest batch of each service whose model is there; of those the one that must begin first.
    Models that are not there are loaded, the one with most to do first."""

    def __init__(self, services: Mapping[str, ServedModel], gpu_memory_gb: float) -> None:
        super().__init__(services)
        self._memories = GpuMemories(services, gpu_memory_gb)
        self.is_alike = self._memories.holds_all

    def choose(self, now: float, server: Server, lines: Lines) -> NextBatch | float:
        best: NextBatch | None = None
        first, again_at = inf, inf
        missing: list[tuple[float, str]] = []
        for service, line in lines.items():
            if not line:
                continue
            seconds = server.seconds[service]
            if not self.is_alike:
                ready_at = self._memories.ready_at(server, service)
                if ready_at > now:
                    missing.append((len(line) * seconds[1], service))
                    continue
            skipped, size = largest_in_time(now, line, seconds, self._most[service])
            if size:
                starts = line[skipped][2] - seconds[size]
                if best is None or starts < first:
                    best, first = NextBatch(service, skipped, size), starts
        if missing:
            again_at = self._load(now, server, missing)
        if best is None:
            return again_at
        if not self.is_alike:
            self._memories.used(server, best.service)
        return best

    def _load(self, now: float, server: Server, missing: list[tuple[float, str]]) -> float:
        """When the next of them will be there."""
        work_s, service = max(missing)
        if self._memories.ready_at(server, service) == inf:
            self._memories.load(now, server, service, work_s)
        return min(self._memories.ready_at(server, own) for _, own in missing)


@dataclass(frozen=True)
class ShepherdPool(Shepherd):
    """Shepherd: a free GPU takes the largest batch of all services that is in time; a batch is preempted
    for one at least `gain` times as large. Services are one group."""

    gain: float = 3.03

    def __post_init__(self) -> None:
        if not self.gain > 1:
            raise BadInput(f"gain={self.gain:g}: it is above 1")

    def groups(
        self, services: Mapping[str, ServedModel], gpus: Sequence[str]
    ) -> Sequence[ServerGroup]:
        return one_pool(services)

    def controller(self, site: ServingSite) -> ServerPool:
        return ServerPool(LargestFirst(self, site.services), site)


class LargestFirst(NeverDisplaces):
    """Size is all that counts."""

    def __init__(self, rule: ShepherdPool, services: Mapping[str, ServedModel]) -> None:
        super().__init__(services)
        self._gain = rule.gain

    def choose(self, now: float, server: Server, lines: Lines) -> NextBatch | float:
        best: NextBatch | None = None
        for service, line in lines.items():
            if line and (best is None or len(line) > best.size):
                skipped, size = largest_in_time(
                    now, line, server.seconds[service], self._most[service]
                )
                if size and (best is None or size > best.size):
                    best = NextBatch(service, skipped, size)
        return inf if best is None else best

    def displaced(
        self, now: float, service: str, lines: Lines, busy: Sequence[Server]
    ) -> Server | None:
        """The server with the smallest batch, if the new one is worth so much more."""
        line, gain = lines[service], self._gain
        server = min(busy, key=_size)
        needed = gain * _size(server)
        if min(len(line), self._most[service]) < needed:
            return None
        _, size = largest_in_time(now, line, server.seconds[service], self._most[service])
        return server if size >= needed else None


def _size(server: Server) -> int:
    return len(server.batch.requests)


@dataclass(frozen=True)
class SymphonyPool(Symphony):
    """Symphony: a batch begins when it is full, or when with one request more it would be late (deferred
    batching), on the free GPU of the lowest number. Requests that cannot be in time are dropped."""

    def groups(
        self, services: Mapping[str, ServedModel], gpus: Sequence[str]
    ) -> Sequence[ServerGroup]:
        return one_pool(services)

    def controller(self, site: ServingSite) -> ServerPool:
        return ServerPool(OpenWindow(site.services), site)


class OpenWindow(NeverDisplaces):
    """Of the batches whose window is open, the largest; of those the one whose window closes first."""

    def choose(self, now: float, server: Server, lines: Lines) -> NextBatch | float:
        best: NextBatch | None = None
        first, again_at = inf, inf
        for service, line in lines.items():
            if not line:
                continue
            seconds, most = server.seconds[service], self._most[service]
            skipped, size = largest_in_time(now, line, seconds, most)
            if not size:
                continue
            opens, closes = window(line[skipped][2], size, seconds, most)
            if now < opens - SLACK_S:
                again_at = min(again_at, opens)
            elif best is None or (best.size, -first) < (size, -closes):
                best, first = NextBatch(service, skipped, size), closes
        return again_at if best is None else best
