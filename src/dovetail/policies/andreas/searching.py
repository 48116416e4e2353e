"""The policies that plan everything anew whenever a job comes or ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from random import Random
from typing import Final, Self

from dovetail.core.entries import Action
from dovetail.core.model import Seconds
from dovetail.core.plan import Place, Plan
from dovetail.core.view import View
from dovetail.models.cost import Costs
from dovetail.policies.andreas.drafting import BooksSpec, ProblemDraft, actions_of, replanned
from dovetail.policies.andreas.filling import greedy
from dovetail.policies.andreas.improving import local_search, path_relinking
from dovetail.policies.andreas.problem import Assignment, Problem
from dovetail.policies.andreas.random_greedy import MOST_PASSES, SearchResult, random_greedy
from dovetail.policies.placement import consolidated
from dovetail.predict.duration import Predictor, UserEstimate


@dataclass(frozen=True, kw_only=True)
class Replanning:
    """The shared fields: costs, and a predictor for jobs without options."""

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


@dataclass(frozen=True, kw_only=True)
class AndreasRandomGreedy(Replanning):
    """ANDREAS' randomised greedy: the best of many greedy passes with chance in the order of jobs.

    Literally as published, chance in the settings is almost never felt; `repaired=true` mends that.
    A decision takes at most `limit_s` seconds and is never worse than the greedy one by what it
    minimises: the cost until the first job ends.
    """

    repaired: bool = False
    passes: int = MOST_PASSES
    limit_s: Seconds = inf
    seed: int = 4010

    def __post_init__(self) -> None:
        if not self.limit_s > 0:
            raise ValueError(f"limit_s={self.limit_s:g}: give a positive number of seconds")

    def decide(self, view: View) -> Sequence[Action]:
        return replanned(view, self.books, self.solve, self.place)

    def decide_and_tell(self, view: View) -> tuple[Sequence[Action], str]:
        """One decision from scratch, and a sentence on how much was searched."""
        draft = ProblemDraft(view, self.books.of(view), movable=True)
        found = self.search(draft.problem)
        return actions_of(draft, found.best, Plan(view, self.place)), str(found)

    def within(self, limit_s: Seconds) -> Self:
        """The same policy with at most so many seconds for a decision."""
        return replace(self, limit_s=min(limit_s, self.limit_s))

    def counting(self) -> Counting:
        """The same policy with counters."""
        return Counting(self)

    def solve(self, problem: Problem) -> Assignment:
        return self.search(problem).best

    def search(self, problem: Problem) -> SearchResult:
        """The solutions found, and the number of passes."""
        return self._searched(problem, elite=1)

    def _searched(self, problem: Problem, elite: int) -> SearchResult:
        chance = Random(f"{self.seed} {problem.now!r}")  # the same question, the same answer
        return random_greedy(
            problem,
            chance,
            repaired=self.repaired,
            passes=self.passes,
            limit_s=self.limit_s,
            elite=elite,
        )


@dataclass(frozen=True, kw_only=True)
class AndreasLocalSearch(AndreasRandomGreedy):
    """ANDREAS' local search: the ten best of the randomised greedy, improved by exchanging jobs."""

    elite: int = 10

    def search(self, problem: Problem) -> SearchResult:
        found = self._searched(problem, self.elite)
        return replace(found, elite=[local_search(problem, found.elite)])


@dataclass(frozen=True, kw_only=True)
class AndreasPathRelinking(AndreasRandomGreedy):
    """ANDREAS' path relinking: walks from the best of the randomised greedy to the nine next best."""

    elite: int = 10

    def search(self, problem: Problem) -> SearchResult:
        found = self._searched(problem, self.elite)
        return replace(found, elite=[path_relinking(problem, found.elite)])


class Counting:
    """Wraps the policy and decides as it does."""

    def __init__(self, inner: AndreasRandomGreedy) -> None:
        self._inner: Final = inner
        self._searches = 0
        self._passes = 0
        self._cut = 0

    def decide(self, view: View) -> Sequence[Action]:
        return replanned(view, self._inner.books, self._solve, self._inner.place)

    def _solve(self, problem: Problem) -> Assignment:
        found = self._inner.search(problem)
        self._searches += 1
        self._passes += found.passes
        self._cut += found.passes < found.wanted
        return found.best

    def figures(self) -> Mapping[str, int]:
        return {
            "searches": self._searches,
            "search_passes": self._passes,
            "searches_cut": self._cut,
        }
