"""Greedy, repeated with some randomness: in the order of jobs, in their ways, in their nodes.

As published, the randomness in the ways has almost no effect: one is drawn among the best `round(0.05 *
number of ways)`, which is none or one below thirty ways. `repaired` draws among at least two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from math import floor, inf
from random import Random
from time import perf_counter
from typing import Final, NamedTuple, final

from dovetail.core.model import Seconds
from dovetail.policies.andreas.filling import FreeNodes, filled
from dovetail.policies.andreas.problem import Assignment, Problem, Proxy, Spot, Way

MOST_PASSES: Final = 1000
SWAPPED: Final = 0.5  # how often neighbours in the order change places,
BY_WEIGHT: Final = 0.05  # and how much more often if the first would cost more when late
AMONG_WAYS: Final = 0.05
AMONG_WAYS_REPAIRED: Final = 0.5


class Solution(NamedTuple):
    """An assignment and what it costs by the proxy."""

    cost: float
    assignment: Assignment


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The best solutions found, the very best first; the number of passes made, and the number it
    would have made with more time."""

    elite: Sequence[Solution]
    passes: int
    wanted: int

    @property
    def best(self) -> Assignment:
        return self.elite[0].assignment

    def __str__(self) -> str:
        if self.passes < self.wanted:
            return f"time is up after {self.passes:,} of {self.wanted:,} passes; the best so far"
        return f"the best of {self.passes:,} passes"


def random_greedy(
    problem: Problem,
    chance: Random,
    *,
    repaired: bool = False,
    passes: int = MOST_PASSES,
    limit_s: Seconds = inf,
    elite: int = 1,
) -> SearchResult:
    """The best of greedy and of as many random passes as there is time for."""
    tries = Tries(problem, chance, repaired)
    order = problem.by_pressure()
    first = filled(problem, order, tries.ranked)
    found = [Solution(tries.cost(first), first)]
    nodes, jobs, gpus = problem.sizes
    until = perf_counter() + limit_s
    made, wanted = 0, min(passes, nodes * jobs * gpus)
    for solution in tries.solutions(order, wanted):
        made += 1
        if len(found) < elite or solution.cost < found[-1].cost:
            found = _with(found, solution, elite)
        if perf_counter() > until:
            break
    return SearchResult(found, made, wanted)


def _with(found: list[Solution], solution: Solution, elite: int) -> list[Solution]:
    if any(solution.assignment == other.assignment for other in found):
        return found
    return nsmallest(elite, [*found, solution], key=lambda one: one.cost)


@final
class Tries:
    """Random assignments for one problem; figures that do not change between them are kept."""

    def __init__(self, problem: Problem, chance: Random, repaired: bool) -> None:
        now, demands = problem.now, problem.demands
        self._problem: Final = problem
        self._chance: Final = chance
        self._repaired: Final = repaired
        self.cost: Final = Proxy(problem)
        self._nodes: Final = FreeNodes.of(problem.pools)
        self.ranked: Final = [demand.ranked(now) for demand in demands]
        self._in_time: Final = [
            sum([now + way.seconds * demand.left <= demand.deadline for way in ways])
            for demand, ways in zip(demands, self.ranked, strict=True)
        ]

    def solutions(self, order: Sequence[int], number: int) -> Iterator[Solution]:
        """So many solutions; if only the order is random, an order is evaluated once."""
        draws_more = self._repaired or max([*map(len, self.ranked), 0]) * AMONG_WAYS >= 1.5
        seen: dict[tuple[int, ...], Solution] = {}
        for _ in range(number):
            tried = self._swapped(order)
            key = tuple(tried)
            found = None if draws_more else seen.get(key)
            if found is None:
                assignment = self._filled(tried)
                found = seen[key] = Solution(self.cost(assignment), assignment)
            yield found

    def _swapped(self, order: Sequence[int]) -> list[int]:
        """Neighbours swap at random, no job more than once."""
        tried, demands, draw = list(order), self._problem.demands, self._chance.random
        i = 0
        while i < len(tried) - 1:
            one, other = tried[i], tried[i + 1]
            dearer = demands[one].late_per_s > demands[other].late_per_s
            if draw() < (SWAPPED + BY_WEIGHT if dearer else SWAPPED - BY_WEIGHT):
                tried[i], tried[i + 1] = other, one
                i += 1
            i += 1
        return tried

    def _filled(self, order: Sequence[int]) -> Assignment:
        nodes = self._nodes.copy()
        spots: dict[int, Spot] = {}
        for i in order:
            if not nodes.free:
                break
            for way in self._drawn(i):
                node = nodes.take(way.pool, way.gpus)
                if node >= 0:
                    spots[i] = Spot(way, node)
                    break
        return spots

    def _drawn(self, i: int) -> Sequence[Way]:
        """The job's ways, those in time before the others, each part in a partly random order."""
        ways, in_time = self.ranked[i], self._in_time[i]
        if not self._repaired and len(ways) * AMONG_WAYS < 1.5:
            return ways
        return [*self._shuffled(ways[:in_time]), *self._shuffled(ways[in_time:])]

    def _shuffled(self, ways: Sequence[Way]) -> Iterator[Way]:
        left = list(ways)
        while left:
            yield left.pop(self._index(len(left)))

    def _index(self, number: int) -> int:
        if self._repaired:
            among = min(number, max(2, _rounded(AMONG_WAYS_REPAIRED * number)))
        else:
            among = max(1, _rounded(AMONG_WAYS * number))
        return int(self._chance.random() * among) if among > 1 else 0


def _rounded(value: float) -> int:
    """Halves round up, as in the authors' language."""
    return floor(value + 0.5)
