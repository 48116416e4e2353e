"""AlpaServe: services as pipelines over groups of GPUs, placed by simulating the last requests."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from random import Random
from typing import NamedTuple

from dovetail.core.errors import BadInput
from dovetail.sdk.batching.forming import SLACK_S
from dovetail.serving.planners.alpaserve import (
    AskedModel,
    GpuGroup,
    PipedModel,
    PlacementQuestion,
    placed,
)
from dovetail.serving.request import Request
from dovetail.serving.rules.pooled import one_pool
from dovetail.serving.rules.rule import GroupBacklog
from dovetail.serving.server import Server, ServerGroup
from dovetail.serving.service import ServedModel
from dovetail.serving.site import ServingSite

FIRST_LOOK_S = 10.0
SAMPLE = 1000  # requests that a placement is tried on
_MOST_CUT = 64  # stages or operators that an overhead is told of


@dataclass(frozen=True)
class AlpaServeGroups:
    """AlpaServe: models are cut into pipelines over groups of GPUs that they share; of all ways to cut
    and place them, the one that would have answered most of the last requests in time. Each further
    stage costs `stage_overhead` of the model's time, each further GPU of a stage `operator_overhead`."""

    epoch_s: float = 300.0
    stage_overhead: float = 0.05
    operator_overhead: float = 0.15
    gpu_memory_gb: float = inf

    def __post_init__(self) -> None:
        if not (self.epoch_s > 0 and self.gpu_memory_gb > 0):
            raise BadInput("epoch_s and gpu_memory_gb are above 0")
        if min(self.stage_overhead, self.operator_overhead) < 0:
            raise BadInput("stage_overhead and operator_overhead are at least 0")

    def groups(
        self, services: Mapping[str, ServedModel], gpus: Sequence[str]
    ) -> Sequence[ServerGroup]:
        return one_pool(services)

    def controller(self, site: ServingSite) -> Pipelines:
        return Pipelines(self, site)


class GroupAtWork:
    """A group of GPUs: when each stage is free, and from when on it has each model."""

    __slots__ = ("free", "gpus", "ready_at", "stage_s")

    def __init__(self, gpus: tuple[Server, ...], stages: int) -> None:
        self.gpus = gpus
        self.free = [0.0] * stages
        self.ready_at: dict[str, float] = {}
        self.stage_s: dict[str, float] = {}

    def ends(self, service: str, now: float) -> list[float]:
        """Of each stage, for a request that comes now. One at a time, in order: that is exact."""
        at, took, found = max(now, self.ready_at[service]), self.stage_s[service], []
        for free in self.free:
            at = (at if at > free else free) + took
            found.append(at)
        return found


class _Answer(NamedTuple):
    service: str
    request: Request


class Pipelines:
    """The controller. A request goes to the group that is done with it first, or is refused at once."""

    def __init__(self, rule: AlpaServeGroups, site: ServingSite) -> None:
        self._rule = rule
        self._site = site
        self._engine = site.engine
        self._servers: list[Server] = []
        self._homes: dict[str, list[GroupAtWork]] = {name: [] for name in site.services}
        self._working: list[GroupAtWork] = []
        self._sample: deque[AskedModel] = deque(maxlen=SAMPLE)
        self._looks_at = 0.0
        self._in_flight = 0
        self._planned_for: tuple[int, ...] = ()

    def arrived(self, request: Request) -> None:
        now, service = self._engine.now, request[1]
        self._sample.append(AskedModel(now, service))
        if not self._looks_at:
            self._look_later(FIRST_LOOK_S)
        best, done = None, list[float]()
        for group in self._homes[service]:
            ends = group.ends(service, now)
            if ends[-1] <= request[2] + SLACK_S and (best is None or ends[-1] < done[-1]):
                best, done = group, ends
        if best is None:
            self._site.drop(service)
            return
        best.free = done
        self._in_flight += 1
        for server in best.gpus:
            server.busy_s += best.stage_s[service]
        self._engine.at(done[-1], self._answer, _Answer(service, request))

    def _answer(self, answer: _Answer) -> None:
        self._in_flight -= 1
        self._site.answered(answer.service, (answer.request,))

    def done(self, server: Server) -> None:
        """Servers are given no batches: their times are known when a request comes."""

    # ------------------------------------------------------------------------------------- planning

    def _look_later(self, after_s: float) -> None:
        self._looks_at = self._engine.now + after_s
        self._engine.at(self._looks_at, self._look, after_s)

    def _look(self, after_s: float) -> None:
        self._place()
        if self._engine.is_coming:
            self._look_later(min(after_s * 2.0, self._rule.epoch_s))

    def _place(self) -> None:
        if not self._servers:
            self._homes = {name: [] for name in self._site.services}
            return
        groups, _ = placed(self._question())
        now, before = self._engine.now, self._working
        self._working, self._homes = [], {name: [] for name in self._site.services}
        at = 0
        for group in groups:
            gpus = tuple(self._servers[at : at + group.cut.gpus])
            at += group.cut.gpus
            self._add(group, gpus, _as_before(before, gpus, group), now)

    def _add(
        self, group: GpuGroup, gpus: tuple[Server, ...], old: GroupAtWork | None, now: float
    ) -> None:
        work = GroupAtWork(gpus, group.cut.stages)
        if old is not None:
            work.free = old.free
        for name in group.models:
            own = self._site.services[name]
            is_there = (old is not None and name in old.ready_at) or now <= self._engine.began
            known = old.ready_at.get(name, now) if old is not None else now
            work.ready_at[name] = known if is_there else now + own.wake_s
            work.stage_s[name] = group.cut.stage_s(self._piped(own))
            self._homes[name].append(work)
        self._working.append(work)

    def _question(self) -> PlacementQuestion:
        rule, most = self._rule, range(1, _MOST_CUT + 1)
        return PlacementQuestion(
            [self._piped(own) for own in self._site.services.values()],
            list(self._sample) or self._expected(),
            len(self._servers),
            rule.gpu_memory_gb,
            {n: 1.0 + rule.stage_overhead * (n - 1) for n in most},
            {n: 1.0 + rule.operator_overhead * (n - 1) for n in most},
        )

    def _piped(self, own: ServedModel) -> PipedModel:
        seconds = self._servers[0].seconds[own.name]
        return PipedModel(own.name, seconds[1], own.slo_s, own.memory_gb)

    def _expected(self) -> list[AskedModel]:
        """Before any request has come: by chance, at the rates that are known, or all alike."""
        chance, found = Random("alpaserve"), []
        rates = {name: own.rate_per_s or 1.0 for name, own in self._site.services.items()}
        for name, rate in rates.items():
            at, share = 0.0, max(int(SAMPLE * rate / sum(rates.values())), 1)
            for _ in range(share):
                at += chance.expovariate(rate)
                found.append(AskedModel(at, name))
        return sorted(found)

    # ---------------------------------------------------------------------------- servers come and go

    def joined(self, server: Server) -> None:
        self._servers.append(server)
        self._place_soon()

    def left(self, server: Server) -> None:
        self._servers.remove(server)
        self._place_soon()

    def _place_soon(self) -> None:
        """Once for all servers that come or go at this instant."""
        numbers = tuple(own.number for own in self._servers)
        if not self._planned_for:
            self._engine.at(self._engine.now, lambda _: self._place_now())
        self._planned_for = numbers or (-1,)

    def _place_now(self) -> None:
        self._planned_for = ()
        self._place()

    def backlog(self, group: str) -> GroupBacklog:
        return GroupBacklog(self._in_flight, 0)

    def close(self) -> None:
        """Nothing waits: a request is refused or has its time."""


def _as_before(
    before: Sequence[GroupAtWork], gpus: tuple[Server, ...], group: GpuGroup
) -> GroupAtWork | None:
    """The same GPUs, cut in the same way: they have what they had."""
    for old in before:
        if old.gpus == gpus and len(old.free) == group.cut.stages:
            return old
    return None
