"""The variant that answers, and how many replicas of it: INFaaS, as in simulations (`rules/bought.py`).

How long requests take is what the file says, corrected by what they took here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf
from time import monotonic
from typing import Any, Final

from dovetail.core.errors import BadInput
from dovetail.core.model import WHOLE_GPU, Seconds
from dovetail.core.view import View
from dovetail.jobfiles.jobs import to_job
from dovetail.jobfiles.service_model import ServiceSpec, ServiceWay, replica_job, ways_of
from dovetail.models.cost import Costs
from dovetail.serving.planners.demand import ShareDemand, largest_batch
from dovetail.serving.planners.infaas import (
    AnswerNeeds,
    Serving,
    Variant,
    VariantChoice,
    replicas_for,
)
from dovetail.text.durations import latency_text
from dovetail.workloads.service.design import ServiceDesign
from dovetail.workloads.service.scaling import SeenLoad, Wish

HOUR_S: Final = 3600.0
CHECK_S: Final = 1.0
SLACK: Final = 1.25  # the load may grow by that until the next replica is there
_ENOUGH: Final = 5  # answers between two checks, for what they took to count
_NEW_WEIGHT: Final = 0.3
_MOST_WRONG: Final = 1000.0  # times that a file may be off


@dataclass
class LiveVariant:
    """One way to answer, and what was measured of it."""

    way: ServiceWay
    kind: str
    usd_per_s: float  # of one replica
    gpus: float  # of one replica
    factor: float = 1.0  # what requests take here, by what the file says

    @property
    def name(self) -> str:
        return self.way.name

    def seconds(self, at_once: int) -> Seconds:
        return self.way.seconds(at_once, self.kind) * self.factor

    def believed(self, slo_s: Seconds, has_prices: bool) -> Variant:
        """Where nobody has said prices, GPUs stand for money."""
        most = self.way.spec.at_once
        demand = ShareDemand(self.name, 1.0, slo_s, lambda size, _: self.seconds(size), most)
        size = largest_batch(demand) or 1
        capacity = size / self.seconds(size)
        cost = self.usd_per_s if has_prices else self.gpus
        return Variant(self.name, self.way.accuracy, self.seconds(1), capacity, cost)

    def measured(self, answered: int, took_s: Seconds, replicas: int, since_s: Seconds) -> None:
        """By so many replicas, in so many seconds."""
        if answered < _ENOUGH or not took_s > 0:
            return
        at_once = max(round(took_s / since_s / max(replicas, 1)), 1)  # Little's law
        said = self.way.seconds(min(at_once, self.way.spec.at_once), self.kind)
        found = min(max(took_s / answered / said, 1 / _MOST_WRONG), _MOST_WRONG)
        self.factor += _NEW_WEIGHT * (found - self.factor)


class VariantWish:
    """Of one service: in the place of a scaling rule and its patience."""

    def __init__(
        self,
        variants: Sequence[LiveVariant],
        least_accuracy: float,
        patience_s: Seconds,
        first: Wish,
    ) -> None:
        self._variants: Final = {own.name: own for own in variants}
        self._least_accuracy: Final = least_accuracy
        self._patience: Final = ceil(patience_s / CHECK_S)
        self._choice: VariantChoice | None = None
        self._told = first
        self._checked_at = -inf
        self._idle_since: float | None = None
        self._patience_s: Final = patience_s
        self._took: dict[str, tuple[int, float]] = {}  # by replica, so far
        self._heard_at = 0.0

    def at(
        self, now: Seconds, load: SeenLoad, design: ServiceDesign, least: int, most: int
    ) -> Wish:
        needed_now = load.queued and not self._told.replicas
        if now - self._checked_at >= CHECK_S or needed_now:
            self._checked_at = now
            self._told = self._found(now, load, design, least, most)
        replicas = min(max(self._told.replicas, least), most)
        return Wish(replicas, self._told.reason, None, self._told.variant)

    def _found(
        self, now: Seconds, load: SeenLoad, design: ServiceDesign, least: int, most: int
    ) -> Wish:
        needs = AnswerNeeds(design.slo_s or inf, self._least_accuracy, most)
        variants = self._variants.values()
        has_prices = all(own.usd_per_s for own in variants if own.gpus)
        believed = [own.believed(needs.slo_s, has_prices) for own in variants]
        rate = load.rate + load.queued  # who waits counts as if it came this second
        if self._choice is None:
            self._choice = VariantChoice(self._first(believed, least), SLACK, self._patience)
        is_idle, found = self._is_idle(now, load), self._choice.standing
        if rate or least:
            found = self._choice.check(believed, needs, rate)
        name = found.variant.name
        if not rate:
            told = f"nobody asks; {name} answers the next one"
            return Wish(0 if is_idle else found.replicas, told, None, name)
        return Wish(found.replicas, self._reason(found, believed, needs, rate), None, name)

    def _first(self, believed: Sequence[Variant], least: int) -> Serving:
        """What an earlier daemon has left; else the cheapest."""
        own = [one for one in believed if one.name == self._told.variant]
        able = [one for one in believed if one.accuracy >= self._least_accuracy]
        chosen = own or [min(able or believed, key=lambda one: one.usd_per_s)]
        return Serving(chosen[0], max(self._told.replicas if own else least, 1))

    def _is_idle(self, now: Seconds, load: SeenLoad) -> bool:
        if load.rate or load.in_flight or load.queued:
            self._idle_since = None
            return False
        if self._idle_since is None:
            self._idle_since = now
        return now - self._idle_since >= self._patience_s

    def _reason(
        self, found: Serving, believed: Sequence[Variant], needs: AnswerNeeds, rate: float
    ) -> str:
        own = found.variant
        told = (
            f"{rate:.3g} requests a second need {rate * SLACK / own.capacity:.1f} of {own.name}: one "
            f"answers {own.capacity:.3g} a second in time ({latency_text(own.latency_s)} for one alone)"
        )
        others = [
            _compared(one, found, needs, rate * SLACK) for one in believed if one.name != own.name
        ]
        return "; ".join([told, *others])

    # ------------------------------------------------------------------------------------ measuring

    def hear(self, took: Mapping[str, Sequence[Any]], variants: Mapping[str, str]) -> None:
        """Of each replica what its gateway has counted so far, and its variant."""
        since_s, self._heard_at = monotonic() - self._heard_at, monotonic()
        sums: dict[str, list[tuple[int, float]]] = {}
        for replica, (answered, took_s) in took.items():
            before = self._took.get(replica, (answered, took_s))
            if replica in variants:
                new = (answered - before[0], took_s - before[1])
                sums.setdefault(variants[replica], []).append(new)
        self._took = {replica: (own[0], own[1]) for replica, own in took.items()}
        for name, rows in sums.items():
            if name in self._variants:
                answered, seconds = sum(own[0] for own in rows), sum(own[1] for own in rows)
                self._variants[name].measured(answered, seconds, len(rows), since_s)


def _compared(other: Variant, found: Serving, needs: AnswerNeeds, rate: float) -> str:
    """Why it is not this one."""
    if other.accuracy < needs.accuracy:
        return f"{other.name} is less accurate than {needs.accuracy:g}"
    if other.latency_s > needs.slo_s:
        return f"{other.name} takes {latency_text(other.latency_s)} for one alone"
    number = replicas_for(other, rate)
    told = f"of {other.name} it would take {number}"
    if needs.most is not None and number > needs.most:
        return f"{told}, and {needs.most} are the most"
    cost = number * other.usd_per_s, found.replicas * found.variant.usd_per_s
    if cost[0] < cost[1]:
        return f"{told}, which costs less: it is changed if it stays so"
    return f"{told}, at {cost[0] / cost[1]:.3g} times the cost" if cost[1] else told


def live_variants(spec: ServiceSpec, view: View, costs: Costs) -> list[LiveVariant]:
    """Each on the first of the GPU kinds here that it may have."""
    found = []
    for way in ways_of(spec):
        job = to_job(replica_job(way.spec, 0, "", 1), "0", "", 0.0)
        fits = [node for node in view.room.nodes if not job.kinds or node.kind in job.kinds]
        node = (fits or view.room.nodes)[0]
        gpus = max(node.gpus, 1)
        parts = job.gpus * job.share / WHOLE_GPU
        money = costs.per_hour(node.kind, gpus) / gpus / HOUR_S * parts
        try:
            way.seconds(1, node.kind)
        except BadInput as error:
            raise BadInput(f"{way.name}: {error}") from None
        found.append(LiveVariant(way, node.kind, money, parts))
    return found
