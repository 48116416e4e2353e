"""How many servers each group has: the scaling rules of services, asked every second of the run."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Final

from dovetail.core.model import Seconds
from dovetail.sdk.batching.nexus import batch_of_half
from dovetail.serving.scaling_rules import make_rule
from dovetail.serving.server import ServerGroup
from dovetail.serving.site import ServingSite
from dovetail.serving.tally import TimeHistogram
from dovetail.workloads.service.design import ServiceDesign
from dovetail.workloads.service.recent_load import RecentLoad
from dovetail.workloads.service.scaling import SeenLoad, Wish
from dovetail.workloads.service.steady import SteadyWish

EVERY_S = 1.0
SCALE_DOWN_S = 60.0  # patience, where replicas do not sleep


class Scaler:
    """Asks the rule of each group that may have more or fewer servers."""

    def __init__(self, site: ServingSite) -> None:
        self._site = site
        self._groups: dict[str, ScaledGroup] = {}

    def begin(self) -> None:
        groups = self._site.fleet.groups.values()
        scaled = [ScaledGroup(self._site, own) for own in groups if own.least < own.most]
        self._groups = {own.name: own for own in scaled}
        if self._groups:
            self._site.nobody_ready = self._soon
            self._again()

    def _again(self) -> None:
        self._site.engine.at(self._site.engine.now + EVERY_S, self._look)

    def _look(self, _: object) -> None:
        changed = [own.look() for own in self._groups.values()]
        engine = self._site.engine
        if engine.is_coming or any(changed) or engine.has_more:
            self._again()

    def _soon(self, name: str) -> None:
        """A request has found nobody: its group is not let wait for the next look."""
        if name in self._groups and not self._site.fleet.awake(name):
            self._site.engine.at(self._site.engine.now, self._wake, self._groups[name])

    def _wake(self, group: ScaledGroup) -> None:
        if not self._site.fleet.awake(group.name):
            group.wake()


class ScaledGroup:
    """What was seen of one group, and what its rule wants."""

    def __init__(self, site: ServingSite, group: ServerGroup) -> None:
        self._site = site
        self._group = group
        self.name: Final = group.seat.group
        self._does_batches = site.controller.backlog(self.name).held_s is None
        services = [site.services[name] for name in group.seat.services]
        first = services[0]
        self._own = services
        self._patience_s = max(
            SCALE_DOWN_S if own.idle_s is None else own.idle_s for own in services
        )
        self._design = ServiceDesign(
            self.name,
            self.name,
            least=group.least,
            most=group.most,
            at_once=1 if self._does_batches else first.max_batch,
            slo_s=min(own.slo_s for own in services),
            percentile=max(own.percentile for own in services),
        )
        begin = Wish(group.begin, "so it began")
        self._wish = SteadyWish(make_rule(first.scaling), self._patience_s, begin, site.engine.now)
        self._load = RecentLoad(self._patience_s)
        self._at = site.engine.now  # of the last look
        self._came = self._answered = self._dropped = 0  # by then
        self._held_s = self._took_s = 0.0
        self._before = [TimeHistogram() for _ in services]

    def look(self) -> bool:
        """Whether anything was changed."""
        self._load.add(self._summary(), self._site.engine.now)
        return self._decide()

    def wake(self) -> None:
        """Somebody waits, and nobody is ready."""
        self._load.waiting = self._site.controller.backlog(self.name).queued
        self._decide()

    def _decide(self) -> bool:
        fleet = self._site.fleet
        wish = self._wish.at(
            self._site.engine.now, self._seen(), self._design, self._group.least, self._group.most
        )
        awake = fleet.awake(self.name)
        if wish.replicas != awake:
            fleet.want(self.name, wish.replicas)
        return fleet.awake(self.name) != awake

    def _summary(self) -> dict[str, float]:
        """Of the time since the last look: what the gateway of a live service tells."""
        tallies = [self._site.tally.by_service[own.name] for own in self._own]
        backlog = self._site.controller.backlog(self.name)
        answered = sum(own.served for own in tallies)
        dropped = sum(own.dropped for own in tallies)
        came = answered + dropped + backlog.in_flight + backlog.queued
        now, held_s = self._site.engine.now, backlog.held_s or 0.0
        told = {
            "seconds": now - self._at,
            "arrived": came - self._came,
            "answered": answered - self._answered,
            "failed": 0,
            "refused": dropped - self._dropped,
            "late": 0,
            "service_s": (backlog.took_s - self._took_s) / max(answered - self._answered, 1),
            "in_flight": backlog.in_flight,
            "mean_in_flight": (held_s - self._held_s) / (now - self._at),
            "queued": backlog.queued,
            "tail_s": self._tail_s(dropped - self._dropped),
        }
        self._at, self._came, self._answered = now, came, answered
        self._dropped, self._held_s, self._took_s = dropped, held_s, backlog.took_s
        return told

    def _seen(self) -> SeenLoad:
        fleet, seat = self._site.fleet, self._group.seat
        displaced = fleet.lender.loss(seat) if fleet.lender and not fleet.has_room(seat) else 0.0
        seen = self._load.seen(
            self._site.engine.now, fleet.ready(self.name), fleet.ready_in_s(self.name), displaced
        )
        if not self._does_batches:
            return seen
        busy = sum(own.batch is not None for own in fleet.servers[self.name])
        in_flight = 0.0 if seen.rate else float(busy)
        return replace(seen, service_s=self._service_s(), in_flight=in_flight)

    def _service_s(self) -> Seconds:
        """Of a server that does batches, for one request, where these are as large as the SLO lets them;
        of all services of the group as they are asked for."""
        asked, total = 0.0, 0.0
        for own in self._own:
            seconds = own.seconds(self._group.seat.kind or self._site.fleet.gpus[0])
            size = max(batch_of_half(seconds, own.slo_s, own.max_batch), 1)
            weight = self._site.tally.by_service[own.name].requests + 1
            asked += weight
            total += weight * seconds[size] / size
        return total / asked

    def _tail_s(self, dropped: int) -> Seconds:
        """At the percentile, of the answers since the last look; dropped requests never came back."""
        fresh = TimeHistogram()
        for place, own in enumerate(self._own):
            latency = self._site.tally.by_service[own.name].latency
            fresh.merge(latency.since(self._before[place]))
            self._before[place] = latency.copy()
        if not fresh.count + dropped:
            return 0.0
        part = self._design.percentile / 100
        if dropped > (1 - part) * (fresh.count + dropped):
            return inf
        return fresh.quantile(part)
