"""How many servers each group has: the scaling rules of services, asked every second of the run."""

from __future__ import annotations

from collections import deque
from math import inf

from dovetail.core.model import Seconds
from dovetail.sdk.batching.nexus import batch_of_half
from dovetail.serving.scaling_rules import make_rule
from dovetail.serving.server import ServerGroup
from dovetail.serving.site import ServingSite
from dovetail.serving.tally import TimeHistogram
from dovetail.workloads.service.design import ServiceDesign
from dovetail.workloads.service.scaling import SeenLoad, Wish
from dovetail.workloads.service.steady import SteadyWish

EVERY_S = 1.0
WINDOW = 10  # looks over which the rate is taken
STEPS = 17_280  # of history: two days
SCALE_DOWN_S = 60.0  # patience, where replicas do not sleep


class Scaler:
    """Asks the rule of each group that may have more or fewer servers."""

    def __init__(self, site: ServingSite) -> None:
        self._site = site
        self._groups: list[ScaledGroup] = []

    def begin(self) -> None:
        groups = self._site.fleet.groups.values()
        self._groups = [ScaledGroup(self._site, own) for own in groups if own.least < own.most]
        if self._groups:
            self._again()

    def _again(self) -> None:
        self._site.engine.at(self._site.engine.now + EVERY_S, self._look)

    def _look(self, _: object) -> None:
        changed = [own.look() for own in self._groups]
        engine = self._site.engine
        if engine.is_coming or any(changed) or engine.has_more:
            self._again()


class ScaledGroup:
    """What was seen of one group, and what its rule wants."""

    def __init__(self, site: ServingSite, group: ServerGroup) -> None:
        self._site = site
        self._group = group
        services = [site.services[name] for name in group.seat.services]
        first = services[0]
        self._own = services
        self._patience_s = max(
            SCALE_DOWN_S if own.idle_s is None else own.idle_s for own in services
        )
        self._design = ServiceDesign(
            group.seat.group,
            group.seat.group,
            least=group.least,
            most=group.most,
            at_once=1,
            slo_s=min(own.slo_s for own in services),
            percentile=max(own.percentile for own in services),
        )
        begin = Wish(group.begin, "so it began")
        self._wish = SteadyWish(make_rule(first.scaling), self._patience_s, begin, site.engine.now)
        self._came: deque[float] = deque([0.0] * (WINDOW + 1), WINDOW + 1)  # so many, at each look
        self._history: list[float] = []
        self._looks = 0
        self._before = [TimeHistogram() for _ in services]
        self._late = 0

    def look(self) -> bool:
        """Whether anything was changed."""
        fleet, name = self._site.fleet, self._group.seat.group
        self._looks += 1
        wish = self._wish.at(
            self._site.engine.now, self._seen(), self._design, self._group.least, self._group.most
        )
        awake = fleet.awake(name)
        if wish.replicas != awake:
            fleet.want(name, wish.replicas)
        return fleet.awake(name) != awake

    def _seen(self) -> SeenLoad:
        name, fleet = self._group.seat.group, self._site.fleet
        backlog = self._site.controller.backlog(name)
        tallies = [self._site.tally.by_service[own.name] for own in self._own]
        self._came.append(sum(own.requests for own in tallies) + sum(backlog))
        looks = min(self._looks, WINDOW)
        rate = (self._came[-1] - self._came[-1 - looks]) / (looks * EVERY_S)
        if self._looks % WINDOW == 0:
            self._history.append(rate)
            del self._history[:-STEPS]
        service_s = self._service_s()
        busy = sum(own.batch is not None for own in fleet.servers[name])
        seat = self._group.seat
        return SeenLoad(
            rate=rate,
            service_s=service_s,
            in_flight=0.0 if rate else float(busy),
            queued=backlog.queued * min(service_s, 1.0),
            tail_s=self._tail_s(),
            awake=fleet.awake(name),
            history=self._history,
            step_s=WINDOW * EVERY_S,
            ready_in_s=fleet.ready_in_s(name),
            displaced=fleet.lender.loss(seat) if fleet.lender and not fleet.has_room(seat) else 0.0,
        )

    def _service_s(self) -> Seconds:
        """Of a server for one request, where batches are as large as the SLO lets them; of all services
        of the group as they are asked for."""
        asked, total = 0.0, 0.0
        for own in self._own:
            seconds = own.seconds(self._group.seat.kind or self._site.fleet.gpus[0])
            size = max(batch_of_half(seconds, own.slo_s, own.max_batch), 1)
            weight = self._site.tally.by_service[own.name].requests + 1
            asked += weight
            total += weight * seconds[size] / size
        return total / asked

    def _tail_s(self) -> Seconds:
        """At the percentile, of the answers since the last look; dropped requests never came back."""
        fresh, late = TimeHistogram(), 0
        for place, own in enumerate(self._own):
            tally = self._site.tally.by_service[own.name]
            fresh.merge(tally.latency.since(self._before[place]))
            self._before[place] = tally.latency.copy()
            late += tally.dropped
        dropped, self._late = late - self._late, late
        if not fresh.count + dropped:
            return 0.0
        part = self._design.percentile / 100
        if dropped > (1 - part) * (fresh.count + dropped):
            return inf
        return fresh.quantile(part)
