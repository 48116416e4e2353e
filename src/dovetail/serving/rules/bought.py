"""INFaaS and MArk: which models on which GPUs, for the load that is or for the one that comes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dovetail.core.errors import BadInput
from dovetail.serving.planners.infaas import AnswerNeeds, Serving, Variant, VariantChoice
from dovetail.serving.planners.mark import InstanceKind, planned
from dovetail.serving.rules.chosen import SortsController, SortUse, groups_of
from dovetail.serving.server import ServerGroup
from dovetail.serving.service import ServedModel
from dovetail.serving.site import ServingSite

Services = Mapping[str, ServedModel]


@dataclass(frozen=True)
class InfaasVariants:
    """INFaaS: of the variants that are good and fast enough, the one with which the present load costs
    least, and as many replicas as it needs. Upgraded at once, downgraded after `patience` checks."""

    check_s: float = 5.0
    slack: float = 1.25
    patience: int = 6

    def __post_init__(self) -> None:
        if not (self.check_s > 0 and self.slack >= 1 and self.patience >= 0):
            raise BadInput("check_s is above 0, slack at least 1, patience at least 0")

    def groups(self, services: Services, gpus: Sequence[str]) -> Sequence[ServerGroup]:
        return groups_of(services, gpus)

    def controller(self, site: ServingSite) -> SortsController:
        return SortsController(_CheapestVariant(self, self.check_s), site)


@dataclass
class _CheapestVariant:
    """What it remembers of a run, by service."""

    rule: InfaasVariants
    period_s: float
    choices: dict[str, VariantChoice] = field(default_factory=dict)

    def wanted(
        self, service: ServedModel, rates: Sequence[float], now: Sequence[SortUse]
    ) -> Mapping[str, int]:
        needs = AnswerNeeds(service.slo_s, service.least_accuracy)
        variants = [
            Variant(
                use.sort.group,
                use.sort.accuracy,
                use.sort.seconds[1],
                use.sort.capacity,
                use.usd_per_s,
                use.sort.start_s,
            )
            for use in now
        ]
        choice = self.choices.get(service.name)
        if choice is None:
            first = self._first(variants, now)
            choice = VariantChoice(first, self.rule.slack, self.rule.patience)
            self.choices[service.name] = choice
        found = choice.check(variants, needs, rates[-1])
        return {found.variant.name: found.replicas}

    @staticmethod
    def _first(variants: Sequence[Variant], now: Sequence[SortUse]) -> Serving:
        i = max(range(len(now)), key=lambda i: (now[i].awake, -i))
        return Serving(variants[i], max(now[i].awake, 1))


@dataclass(frozen=True)
class MarkInstances:
    """MArk: every step_s the load of the next steps is forecast (level and trend), and GPUs are bought
    where a request is cheapest for as long as it is needed; `headroom` times the forecast."""

    step_s: float = 60.0
    steps: int = 12
    headroom: float = 1.2

    def __post_init__(self) -> None:
        if not (self.step_s > 0 and self.steps >= 1 and self.headroom >= 1):
            raise BadInput("step_s is above 0, steps and headroom are at least 1")

    def groups(self, services: Services, gpus: Sequence[str]) -> Sequence[ServerGroup]:
        return groups_of(services, gpus)

    def controller(self, site: ServingSite) -> SortsController:
        return SortsController(_CheapestAhead(self, self.step_s), site)


@dataclass
class _CheapestAhead:
    rule: MarkInstances
    period_s: float

    def wanted(
        self, service: ServedModel, rates: Sequence[float], now: Sequence[SortUse]
    ) -> Mapping[str, int]:
        able = [use for use in now if use.sort.accuracy >= service.least_accuracy]
        kinds = [
            InstanceKind(
                use.sort.group, use.sort.capacity, use.usd_per_s, use.usd_per_s * use.sort.start_s
            )
            for use in able
        ]
        coming = [rate * self.rule.headroom for rate in forecast(rates, self.rule.steps)]
        running = {use.sort.group: use.awake for use in able if use.awake}
        found = dict(planned(coming, kinds, running, self.rule.step_s).running)
        if sum(found.values()) < service.least and kinds:  # as few as its user allows
            cheapest = min(kinds, key=lambda own: (own.usd_per_s, own.kind)).kind
            found[cheapest] = found.get(cheapest, 0) + service.least - sum(found.values())
        return found


def forecast(
    rates: Sequence[float], steps: int, level_weight: float = 0.6, trend_weight: float = 0.3
) -> list[float]:
    """Level and trend, each smoothed (Holt); the trend is damped, so that a rise does not go on for
    ever, and the present load counts as the first of them."""
    level, trend = rates[0], 0.0
    for rate in rates[1:]:
        before = level
        level = level_weight * rate + (1.0 - level_weight) * (level + trend)
        trend = trend_weight * (level - before) + (1.0 - trend_weight) * trend
    found, ahead = [max(rates[-1], 0.0)], level
    for n in range(1, steps):
        ahead += trend * 0.85**n
        found.append(max(ahead, 0.0))
    return found
