"""How much a policy that searches did search: counted beside it, told with the figures of its run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from dovetail.core.entries import Action
from dovetail.core.loop import Policy
from dovetail.core.view import View
from dovetail.policies.andreas.drafting import replanned
from dovetail.policies.andreas.policies import AndreasRandomGreedy
from dovetail.policies.andreas.problem import Assignment, Problem


class Counting:
    """Stands where the policy stands, and decides as it does."""

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


def counting(policy: Policy) -> Counting | None:
    """For policies that search; None for all others."""
    return Counting(policy) if isinstance(policy, AndreasRandomGreedy) else None
