"""Gavel (Narayanan et al., OSDI 2020) as a policy: shares by an objective, given in rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Final

from dovetail.core.entries import Action, Wake
from dovetail.core.model import Seconds
from dovetail.core.plan import Place, Plan
from dovetail.core.view import View
from dovetail.models.cost import Costs
from dovetail.policies.gavel.beliefs import RoundBeliefs
from dovetail.policies.gavel.choosing import (
    KindOrder,
    RoundChoice,
    RoundContender,
    Together,
    choose,
)
from dovetail.policies.gavel.claiming import prices
from dovetail.policies.gavel.dividing import divided, joined
from dovetail.policies.gavel.ledger import RoundLedger
from dovetail.policies.gavel.problem import Allocation, AllocationProblem
from dovetail.policies.gavel.recorded import recorded
from dovetail.policies.gavel.rounds import RoundTurn, started_without_gpus, under_way
from dovetail.policies.gavel.solving import GANDIVA, OBJECTIVES, WITH_PAIRS, allocated
from dovetail.policies.gavel.trading import fair_with_trades, in_strides
from dovetail.policies.placement import consolidated
from dovetail.policies.rounds import Turn
from dovetail.policies.solving import SolverAnswer
from dovetail.predict.duration import Predictor
from dovetail.predict.speed import SameEverywhere, SpeedPredictor

_BLIND: Final = ("isolated",)  # objectives that see no difference between kinds anyway


@dataclass(frozen=True, kw_only=True)
class InRounds:
    """What policies of Gavel's rounds have in common: shares for all jobs, and rounds that give them."""

    place: Place = consolidated
    predictor: Predictor
    speeds: SpeedPredictor = SameEverywhere()
    round_s: Seconds = 360.0
    reset_s: Seconds = 1920.0
    whole_steps: bool = False

    name: ClassVar[str]

    def __post_init__(self) -> None:
        if not self.round_s > 0.0:
            raise ValueError(f"round_s={self.round_s:g}: give more than 0")

    @cached_property
    def _beliefs(self) -> RoundBeliefs:
        return RoundBeliefs(self.predictor, self.speeds, self.round_s, self.whole_steps)

    def decide(self, view: View) -> Sequence[Action]:
        due, notes = self.turn(view)
        if not due:
            return notes
        turn = RoundTurn(view, self._beliefs, self.name)
        if turn.is_due(self.reset_s):
            turn.take(self.shares(self._problem(turn)))
        return turn.actions(self.choose, self.place)

    # The same in parts, for a daemon that lets the solver think beside its loop (`policies.solving`):

    def turn(self, view: View) -> Turn:
        until = under_way(view, self.name)
        if until is None:
            return Turn(True, [])
        plan = Plan(view, self.place)
        started_without_gpus(view, plan)
        return Turn(False, [*plan.actions, Wake(until)])

    def pose(self, view: View) -> AllocationProblem | None:
        turn = RoundTurn(view, self._beliefs, self.name)
        due = turn.is_due(self.reset_s)
        return self._problem(turn) if due else None

    def _problem(self, turn: RoundTurn) -> AllocationProblem:
        return turn.problem(self.prices(turn.claimants.kinds), self.packs)

    @property
    def packs(self) -> bool:
        """May two jobs share the GPUs of one?"""
        return False

    def solve(self, problem: AllocationProblem) -> SolverAnswer:
        found = self.shares(problem)
        return SolverAnswer(found, found.gap, found.timed_out)

    def use(self, view: View, answer: Allocation | None) -> Sequence[Action]:
        turn = RoundTurn(view, self._beliefs, self.name)
        if answer is not None:
            turn.take(answer)
        return turn.actions(self.choose, self.place)

    def shares(self, problem: AllocationProblem) -> Allocation:
        raise NotImplementedError

    def prices(self, kinds: Sequence[str]) -> tuple[float, ...]:
        """Of GPUs, where the shares depend on them."""
        return ()

    def choose(
        self,
        ledger: RoundLedger,
        contenders: Sequence[RoundContender],
        free: Sequence[float],
        together: Together,
    ) -> list[RoundChoice]:
        return choose(ledger, contenders, free, range(len(ledger.kinds)))


@dataclass(frozen=True, kw_only=True)
class Gavel(InRounds):
    """Every job has the share of time on each GPU kind that an objective gives it, in rounds.

    `objective` is max-min (fairness in normalised throughput), water-filling, hierarchical (users,
    then their jobs), finish-time, makespan, max-sum, cost, cost-slo, isolated, fifo, shortest or
    gandiva (random pairs, as Gavel's simulator has Gandiva);
    `aware=false` is the form that sees no difference between kinds, `packing=true` the one in which two
    jobs of one size may share the GPUs of one, where the speed table says how fast such pairs are.
    A round ends with its slowest job, after `round_s` at most; shares are worked out anew when jobs
    have come or gone, at most every `reset_s`, and until then who came waits. Where several
    allocations are equally good it takes the one in the middle of them. `allocations` names a file of
    shares to be used instead; `parts` solves for so many equal parts of cluster and jobs (see `pop`).
    """

    name = "gavel"
    costs: Costs = Costs()
    objective: str = "max-min"
    aware: bool = True
    limit_s: Seconds = 10.0
    seed: int = 0
    allocations: str = ""
    parts: int = 1
    packing: bool = False

    def __post_init__(self) -> None:
        InRounds.__post_init__(self)
        if self.parts < 1:
            raise ValueError(f"parts={self.parts}: give 1 or more")
        if self.objective not in OBJECTIVES:
            raise ValueError(f"objective={self.objective}: give one of {', '.join(OBJECTIVES)}")
        if self.packing and not (self.aware and self.objective in WITH_PAIRS):
            what = ", ".join(WITH_PAIRS)
            raise ValueError(f"packing=true: give an objective that packs ({what}), and aware=true")

    @property
    def packs(self) -> bool:
        return self.packing or self.objective == GANDIVA

    @cached_property
    def _orders(self) -> dict[int, KindOrder]:
        return {}

    def shares(self, problem: AllocationProblem) -> Allocation:
        if self.allocations:
            return recorded(self.allocations, problem)
        problems = divided(problem, self.parts)
        limit_s = self.limit_s / len(problems)
        return joined(
            [allocated(part, self.objective, self.aware, limit_s, self.seed) for part in problems]
        )

    def divided(self, parts: int) -> Gavel:
        """The same, with a program that is solved in so many parts."""
        return replace(self, parts=parts)

    def prices(self, kinds: Sequence[str]) -> tuple[float, ...]:
        return prices(self.costs, kinds) if self.objective.startswith("cost") else ()

    def choose(
        self,
        ledger: RoundLedger,
        contenders: Sequence[RoundContender],
        free: Sequence[float],
        together: Together,
    ) -> list[RoundChoice]:
        idle_too = self.objective != "fifo"
        pairs, order = together if self.packs else None, self._order(ledger)
        return choose(ledger, contenders, free, order, idle_too, pairs, self._least_of_pairs)

    @property
    def _least_of_pairs(self) -> float:
        """What a pair must do to be given idle GPUs: more than by turns; anything where what Gavel did
        is to be done again."""
        return 0.0 if self.allocations or self.objective == GANDIVA else 1.0

    def _order(self, ledger: RoundLedger) -> Sequence[int]:
        """As the nodes joined; shuffled for who sees no difference, or the first would be full."""
        kinds = len(ledger.kinds)
        if self.aware and self.objective not in _BLIND:
            return range(kinds)
        if kinds not in self._orders:
            self._orders[kinds] = KindOrder(range(kinds), self.seed)
        return self._orders[kinds].at(ledger.choices)


@dataclass(frozen=True, kw_only=True)
class AlloX(InRounds):
    """The least sum of completion times on several GPU kinds: jobs are matched to GPUs and to places
    in their lines, and who runs is not moved.

    `oldest` is the part of the waiting jobs that is looked at, those that came first (AlloX' alpha).
    Made for jobs of one GPU; gangs are given what they need before, in order of arrival. Rounds and
    resets are Gavel's.
    """

    name = "allox"
    oldest: float = 1.0

    def __post_init__(self) -> None:
        InRounds.__post_init__(self)
        if not 0.0 < self.oldest <= 1.0:
            raise ValueError(f"oldest={self.oldest:g}: give more than 0, at most 1")

    def shares(self, problem: AllocationProblem) -> Allocation:
        from dovetail.policies.gavel.allox import allox

        return allox(problem, self.oldest)


@dataclass(frozen=True, kw_only=True)
class GandivaFair(InRounds):
    """Users share every GPU kind by their tickets (the largest weight of their jobs), in strides; who
    gains less from fast GPUs trades them for more slow ones (Gandiva_fair, EuroSys 2020).

    A gang that does not fit waits without losing its place. Rounds and resets are Gavel's.
    """

    name = "gandiva-fair"

    def shares(self, problem: AllocationProblem) -> Allocation:
        return fair_with_trades(problem)

    def choose(
        self,
        ledger: RoundLedger,
        contenders: Sequence[RoundContender],
        free: Sequence[float],
        together: Together,
    ) -> list[RoundChoice]:
        return in_strides(ledger, contenders, free)
