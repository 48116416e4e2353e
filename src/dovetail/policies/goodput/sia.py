"""Sia (Jayaram Subramanya et al., SOSP 2023): counts and kinds of GPUs by an integer program."""

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
    from dovetail.policies.goodput.choosing import PosedChoice


@dataclass(frozen=True, kw_only=True)
class Sia:
    """Elastic jobs on several GPU kinds get, in rounds of `round_s`, powers of two within a node or
    whole nodes of one kind, by an integer program: the sum of their goodputs, each as a multiple of
    the job's least and to the `power`, is made smallest.

    Goodput is what jobs tell of themselves; on a kind where a job has never been it is that of another
    kind, as much faster as `speeds` believes one GPU to be. A job without GPUs costs `without`, a
    change `change` and what restarting costs. The solver stops after `limit_s`; with `parts` above one
    it solves as many smaller programs, each for a part of the jobs and of the GPUs.
    """

    batches: ClassVar[str] = ADAPTIVE
    place: Place = consolidated
    speeds: SpeedPredictor = SameEverywhere()
    round_s: Seconds = 60.0
    power: float = -0.5
    without: float = 1.1
    change: float = 0.01
    limit_s: Seconds = 0.8
    parts: int = 1

    def __post_init__(self) -> None:
        if self.parts < 1:
            raise ValueError(f"parts={self.parts}: give 1 or more")
        if not self.round_s > 0:
            raise ValueError(f"round_s is {self.round_s:g}; give more than 0 seconds")
        if not self.power < 0:
            raise ValueError(f"power is {self.power:g}; give a number below 0")

    def divided(self, parts: int) -> Sia:
        """The same, with a program that is solved in so many parts."""
        return replace(self, parts=parts)

    def decide(self, view: View) -> Sequence[Action]:
        return solved_at_once(self, view)

    def turn(self, view: View) -> Turn:
        return turn(view, "sia", self.round_s)

    def pose(self, view: View) -> PosedChoice | None:
        """What is to be chosen now, as plain data."""
        from dovetail.policies.goodput.choosing import posed_choice

        others_first(view, Plan(view, self.place))
        found = posed_choice(view, self.speeds, self.power, self.without, self.change)
        view.settle()
        return found

    def solve(self, problem: PosedChoice) -> SolverAnswer:
        """The cheapest choice that the solver finds in its time, on nodes."""
        from dovetail.policies.goodput.dividing import solved_in_parts

        found = solved_in_parts(problem.program, self.parts, self.limit_s)
        return SolverAnswer(problem.rows(found), found.gap, found.out_of_time)

    def use(self, view: View, answer: Mapping[JobId, Row] | None) -> Sequence[Action]:
        """The actions that give jobs the GPUs of this solution, as far as that is still
        possible."""
        plan = Plan(view, self.place)
        others_first(view, plan)
        take(view, plan, self.place, answer or {})
        return plan.actions
