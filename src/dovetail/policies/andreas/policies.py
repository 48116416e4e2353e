"""The policies that plan everything anew whenever a job comes or ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from dovetail.core.entries import Action
from dovetail.core.plan import Place
from dovetail.core.view import View
from dovetail.models.cost import Costs
from dovetail.policies.andreas.drafting import BooksSpec, replanned
from dovetail.policies.andreas.filling import greedy
from dovetail.policies.placement import consolidated
from dovetail.predict.duration import Predictor, UserEstimate


@dataclass(frozen=True, kw_only=True)
class Replanning:
    """What they share: what things cost, and how long jobs without options are thought to take."""

    costs: Costs = Costs()
    predictor: Predictor = UserEstimate()
    place: Place = consolidated

    @cached_property
    def books(self) -> BooksSpec:
        return BooksSpec(self.costs, self.predictor)


@dataclass(frozen=True, kw_only=True)
class AndreasGreedy(Replanning):
    """ANDREAS' greedy: the most pressing job first, in the cheapest setting that meets its deadline."""

    def decide(self, view: View) -> Sequence[Action]:
        return replanned(view, self.books, greedy, self.place)
