"""Several models of a service answer: one of them, chosen by what is learned, or several, who vote."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from random import Random
from typing import Protocol

from dovetail.core.errors import BadInput
from dovetail.sdk.batching.static import Static
from dovetail.serving.planners.bandits import Exp3, Exp4
from dovetail.serving.planners.cocktail import fewest
from dovetail.serving.request import Request
from dovetail.serving.rules.routed import Routed
from dovetail.serving.rules.rule import GroupBacklog
from dovetail.serving.server import Server, ServerGroup, ServerSeat
from dovetail.serving.service import ServedModel
from dovetail.serving.site import ServingSite

CHOICES = ("exp3", "exp4", "cocktail")


@dataclass(frozen=True)
class VotedModels:
    """A service and its variants, each with replicas of its own. choose: one of them for each request,
    learned from whether answers are right (exp3); all, whose votes count by how often they were right
    (exp4), both Clipper; or the fewest whose majority is as accurate as least_accuracy (cocktail). Who
    has not answered by the deadline does not vote."""

    choose: str = "cocktail"
    gamma: float = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        if self.choose not in CHOICES:
            raise BadInput(f"choose={self.choose}: it is one of {', '.join(CHOICES)}")
        if not 0 < self.gamma < 1:
            raise BadInput(f"gamma={self.gamma:g} is not between 0 and 1")

    def groups(
        self, services: Mapping[str, ServedModel], gpus: Sequence[str]
    ) -> Sequence[ServerGroup]:
        asked = [
            (way, model)
            for name, own in services.items()
            for way, model in ways_of(name, own).items()
            if way in self.members(own)
        ]
        return [
            ServerGroup.fixed(ServerSeat(way, (way,), own.share, own.kind), max(own.least, 1))
            for way, own in asked
        ]

    def members(self, service: ServedModel) -> list[str]:
        """Which of its models are ever asked."""
        ways = ways_of(service.name, service)
        if self.choose != "cocktail":
            return list(ways)
        accuracies = {name: own.accuracy for name, own in ways.items()}
        return fewest(accuracies, service.least_accuracy)

    def controller(self, site: ServingSite) -> VotingController:
        return VotingController(self, site)


def ways_of(name: str, service: ServedModel) -> dict[str, ServedModel]:
    """By the names that the fleet knows them by."""
    return {name: service, **{f"{name}/{own.name}": own for own in service.variants}}


class Electing(Protocol):
    """What differs between the choices; of one service."""

    def asked(self) -> Sequence[str]:
        """The models that are to answer the next request."""

    def weight(self, model: str) -> float: ...

    def heard(self, was_right: Mapping[str, bool]) -> None:
        """It has turned out which of their answers were right."""


class OneLearned:
    def __init__(self, models: Sequence[str], gamma: float, chance: Random) -> None:
        self._learner = Exp3(models, gamma, chance)

    def asked(self) -> Sequence[str]:
        return [self._learner.chosen()]

    def weight(self, model: str) -> float:
        return 1.0

    def heard(self, was_right: Mapping[str, bool]) -> None:
        for model, right in was_right.items():
            self._learner.heard(model, float(right))


class AllWeighed:
    def __init__(self, models: Sequence[str], eta: float) -> None:
        self._learner = Exp4(models, eta)

    def asked(self) -> Sequence[str]:
        return list(self._learner.weights)

    def weight(self, model: str) -> float:
        return self._learner.weights[model]

    def heard(self, was_right: Mapping[str, bool]) -> None:
        self._learner.heard(was_right)


class AllAlike:
    def __init__(self, models: Sequence[str]) -> None:
        self._models = models

    def asked(self) -> Sequence[str]:
        return self._models

    def weight(self, model: str) -> float:
        return 1.0

    def heard(self, was_right: Mapping[str, bool]) -> None:
        """They are chosen for good."""


class Ballot:
    """One request, and who has answered it."""

    __slots__ = ("is_over", "models", "request", "votes")

    def __init__(self, request: Request, models: Sequence[str]) -> None:
        self.request = request
        self.models = models
        self.votes: dict[str, bool] = {}  # right?
        self.is_over = False


class VotingController:
    """Each model's requests are routed to its replicas; a ballot collects the answers."""

    def __init__(self, rule: VotedModels, site: ServingSite) -> None:
        self._site = site
        self._engine = site.engine
        self._chance = Random(f"right {rule.seed}")
        self._models = {
            way: model
            for name, own in site.services.items()
            for way, model in ways_of(name, own).items()
        }
        # Where the models are services of their own; whoever has answered votes.
        inner = ServingSite(site.engine, self._models, site.fleet, site.tally, site.price)
        inner.told = self._vote
        inner.controller = self._routed = Routed(Static(), inner)
        self._voters: dict[int, Ballot] = {}  # by the identity of what a model was asked
        self._electing = {name: _electing(rule, own) for name, own in site.services.items()}

    def arrived(self, request: Request) -> None:
        ballot = Ballot(request, self._electing[request.service].asked())
        if len(ballot.models) > 1 and request.deadline < inf:
            self._engine.at(request.deadline, self._due, ballot)
        for model in ballot.models:
            asked = request._replace(service=model)
            self._voters[id(asked)] = ballot
            self._routed.arrived(asked)

    def _vote(self, model: str, requests: Iterable[Request]) -> None:
        for request in requests:
            self._count(model, self._voters.pop(id(request)))

    def _count(self, model: str, ballot: Ballot) -> None:
        if ballot.is_over:
            return
        ballot.votes[model] = self._chance.random() < self._models[model].accuracy
        if len(ballot.votes) == len(ballot.models) or self._engine.now >= ballot.request.deadline:
            self._decide(ballot)

    def _due(self, ballot: Ballot) -> None:
        """Those who have answered decide; if nobody has, the first who does."""
        if ballot.votes and not ballot.is_over:
            self._decide(ballot)

    def _decide(self, ballot: Ballot) -> None:
        service = ballot.request.service
        electing = self._electing[service]
        ballot.is_over = True
        sides = {True: 0.0, False: 0.0}
        for model, right in ballot.votes.items():
            sides[right] += electing.weight(model)
        best = max(ballot.votes, key=lambda own: self._models[own].accuracy)
        is_right = ballot.votes[best] if sides[True] == sides[False] else sides[True] > sides[False]
        self._site.answered(service, (ballot.request,))
        self._site.tally.by_service[service].judge(is_right)
        electing.heard(ballot.votes)

    def done(self, server: Server) -> None:
        """Servers are started on the site of the models, which tells its own controller."""
        self._routed.done(server)

    def joined(self, server: Server) -> None:
        self._routed.joined(server)

    def left(self, server: Server) -> None:
        self._routed.left(server)

    def backlog(self, group: str) -> GroupBacklog:
        return self._routed.backlog(group)

    def close(self) -> None:
        """Every model has replicas from the beginning to the end: nobody waits for one."""


def _electing(rule: VotedModels, service: ServedModel) -> Electing:
    models = rule.members(service)
    if rule.choose == "exp3":
        return OneLearned(models, rule.gamma, Random(f"exp3 {rule.seed} {service.name}"))
    return AllWeighed(models, rule.gamma) if rule.choose == "exp4" else AllAlike(models)
