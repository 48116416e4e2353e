"""One run: services, a cluster, a rule and requests put together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dovetail.core.errors import DovetailError
from dovetail.core.model import Node
from dovetail.models.workload import Arrival
from dovetail.serving.engine import RequestEngine
from dovetail.serving.fleet import Fleet
from dovetail.serving.request import Request
from dovetail.serving.rules import make
from dovetail.serving.rules.rule import ServingRule, check_suits
from dovetail.serving.scaler import Scaler
from dovetail.serving.service import ServedModel, with_parts
from dovetail.serving.site import ServingSite
from dovetail.serving.tally import ServingTally
from dovetail.serving.training import TrainingFloor

HOUR_S = 3600.0


@dataclass(frozen=True)
class ServingScene:
    """All parts of a run except its rule."""

    services: Mapping[str, ServedModel]
    nodes: Sequence[Node]
    prices: Mapping[str, float] = field(default_factory=dict)  # of a GPU-hour, by kind
    usual_price: float = 1.0  # of kinds without one
    training: Sequence[Arrival] = ()  # jobs that run where no server is

    @property
    def gpus(self) -> tuple[str, ...]:
        """The kind of each."""
        return tuple(node.kind for node in self.nodes for _ in range(node.gpus))

    def price(self, kind: str) -> float:
        return self.prices.get(kind, self.usual_price)


@dataclass(frozen=True)
class ServingOutcome:
    """What became of the requests under one rule."""

    policy: str
    tally: ServingTally
    fleet: Fleet
    began: float
    ended: float
    cost: float
    floor: TrainingFloor | None = None

    @property
    def gpu_hours(self) -> float:
        return sum(self.fleet.gpu_seconds.values()) / HOUR_S

    def summary(self) -> dict[str, Any]:
        """One row of the results."""
        whole, span = self.tally.whole(), self.ended - self.began
        times, first = whole.latency, whole.first_token
        row: dict[str, Any] = {
            "policy": self.policy,
            "requests": whole.requests,
            "served": whole.served,
            "dropped": whole.dropped,
            "slo_attainment": whole.good / whole.requests if whole.requests else 0.0,
            "goodput_per_s": whole.good / span if span else 0.0,
            "mean_latency_s": times.mean,
            "p50_latency_s": times.quantile(0.5),
            "p99_latency_s": times.quantile(0.99),
            "gpu_hours": self.gpu_hours,
            "cost": self.cost,
        }
        if whole.judged:
            row["accuracy"] = whole.right / whole.judged
        if whole.too_long:
            row["too_long"] = whole.too_long
        if first.count:
            row |= {"p50_first_token_s": first.quantile(0.5)}
            row |= {"p99_first_token_s": first.quantile(0.99)}
            row |= {"p50_between_tokens_s": whole.between_tokens.quantile(0.5)}
            row |= {"p99_between_tokens_s": whole.between_tokens.quantile(0.99)}
            row |= {"tokens_per_s": whole.tokens / span if span else 0.0}
        return row | self._training()

    def _training(self) -> dict[str, Any]:
        """What became of the training beside."""
        if self.floor is None:
            return {}
        every = len(self.fleet.gpus) * (self.ended - self.began)
        idle_s = every - sum(self.fleet.gpu_seconds.values())
        return {
            "training_done": self.floor.done,
            "training_gpu_hours": self.floor.trained_s / HOUR_S,
            "training_of_idle": self.floor.trained_s / idle_s if idle_s > 0 else 0.0,
            "training_gave_way": self.floor.gave_way,
            "training_lost_gpu_hours": self.floor.lost_s / HOUR_S,
        }


def simulate(
    scene: ServingScene,
    policy: str,
    requests: Iterable[Request],
    tell: Callable[[float], None] | None = None,
) -> ServingOutcome:
    """Run the requests under the rule of that name."""
    return simulate_rule(scene, make(policy), requests, policy, tell)


def simulate_rule(
    scene: ServingScene,
    rule: ServingRule,
    requests: Iterable[Request],
    name: str = "",
    tell: Callable[[float], None] | None = None,
) -> ServingOutcome:
    """The same with a rule that was made already."""
    check_suits(rule, scene.services)
    engine, tally = RequestEngine(), ServingTally(scene.services)
    fleet = Fleet(engine, with_parts(scene.services), scene.gpus)
    site = ServingSite(engine, scene.services, fleet, tally, scene.price)
    site.controller = controller = rule.controller(site)
    fleet.joined, fleet.left = controller.joined, controller.left
    floor = TrainingFloor(engine, fleet, scene.training) if scene.training else None
    fleet.lender = floor
    scaler = Scaler(site)

    def begin() -> None:
        tally.over_time.began = engine.now
        fleet.open(rule.groups(scene.services, scene.gpus))
        scaler.begin()
        if floor:
            floor.begin()

    engine.run(requests, controller.arrived, begin, tell, lambda came: tally.ended == came)
    controller.close()
    fleet.close()
    if floor:
        floor.close()
    _check_all_ended(tally, engine)
    cost = sum(seconds / HOUR_S * scene.price(kind) for kind, seconds in fleet.gpu_seconds.items())
    return ServingOutcome(name, tally, fleet, engine.began, engine.now, cost, floor)


def _check_all_ended(tally: ServingTally, engine: RequestEngine) -> None:
    """Nothing is lost silently."""
    if tally.ended != engine.came:
        raise DovetailError(
            f"{engine.came - tally.ended:,} of {engine.came:,} requests were neither answered nor "
            "dropped: the serving policy forgot them"
        )
