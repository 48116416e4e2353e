"""Pollux (Qiao et al., OSDI 2021): GPUs are shared out in rounds, for the fairest mean goodput."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from dovetail.core.entries import Action
from dovetail.core.model import JobId, Seconds
from dovetail.core.plan import Place, Plan
from dovetail.core.view import View
from dovetail.models.epochs import ADAPTIVE
from dovetail.policies.goodput.taking import Row, others_first, take
from dovetail.policies.placement import consolidated
from dovetail.policies.rounds import Turn, turn
from dovetail.policies.solving import SolverAnswer, solved_at_once
from dovetail.predict.speed import SameEverywhere, SpeedPredictor

if TYPE_CHECKING:
    from dovetail.policies.goodput.posing import Posed


@dataclass(frozen=True, kw_only=True)
class Pollux:
    """Elastic jobs share the GPUs in rounds of `round_s` so that the power mean of their goodputs,
    each as a multiple of that with a fair share, is highest; restarts are counted.

    Goodput is what jobs tell of themselves (step times, batch, noise of the gradients); of those that
    tell nothing it is their believed speed. A job begins with the least GPUs it needs and has at most
    twice as many as it has had. The search is genetic: `states` of them for so many `generations`, or
    until nothing got better for `patience` of them or `limit_s` is over; `seed` is of its chance. With
    `parts` above one, nodes and jobs are dealt out and each part is searched for itself.
    """

    batches: ClassVar[str] = ADAPTIVE
    place: Place = consolidated
    speeds: SpeedPredictor = SameEverywhere()
    round_s: Seconds = 60.0
    power: float = -1.0
    states: int = 100
    generations: int = 100
    patience: int = 30
    limit_s: Seconds = 0.8
    seed: int = 1
    parts: int = 1

    def __post_init__(self) -> None:
        if self.parts < 1:
            raise ValueError(f"parts={self.parts}: give 1 or more")
        if not self.round_s > 0:
            raise ValueError(f"round_s is {self.round_s:g}; give more than 0 seconds")
        if self.power == 0:
            raise ValueError("power is 0; give a number below 0 (fairer) or above it")

    def divided(self, parts: int) -> Pollux:
        """The same, in so many parts."""
        return replace(self, parts=parts)

    def decide(self, view: View) -> Sequence[Action]:
        return solved_at_once(self, view)

    def turn(self, view: View) -> Turn:
        return turn(view, "pollux", self.round_s)

    def pose(self, view: View) -> Posed | None:
        """What is to be shared out now, as plain data."""
        from dovetail.policies.goodput.posing import posed

        others_first(view, Plan(view, self.place))
        seed = self.seed * 1_000_003 + round(view.now)
        found = posed(view, self.speeds, self.power, seed, self.parts)
        view.settle()
        return found

    def solve(self, problem: Posed) -> SolverAnswer:
        """The best that the search finds in its time, an equal part of it for each part."""
        from dovetail.policies.goodput.genetic import SearchEffort, search
        from dovetail.policies.goodput.seeds import seeds

        limit_s, rows, late = self.limit_s / len(problem), dict[JobId, Row](), False
        effort = SearchEffort(self.states, self.generations, self.patience, limit_s)
        for part in problem:
            found = search(part.sharing, seeds(part.sharing), effort, part.seed)
            rows |= part.rows(found.state)
            late |= found.out_of_time
        return SolverAnswer(rows, out_of_time=late)

    def use(self, view: View, answer: Mapping[JobId, Row] | None) -> Sequence[Action]:
        """Shared out like this, as far as that is still possible."""
        plan = Plan(view, self.place)
        others_first(view, plan)
        take(view, plan, self.place, answer or {})
        return plan.actions
