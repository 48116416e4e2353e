"""Better assignments from good ones: exchanging jobs (local search), and walking from one good
assignment towards another (path relinking)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from dovetail.policies.andreas.problem import Assignment, Problem, Proxy, Spot, Way, busy_by_node
from dovetail.policies.andreas.random_greedy import Solution

LOOKED_AT: Final = 10  # jobs on each side of an exchange


def local_search(problem: Problem, elite: Sequence[Solution]) -> Solution:
    """Improve every one of them by exchanges until none helps; the best of all."""
    proxy = Proxy(problem)
    return min([_improved(problem, proxy, one) for one in elite], key=lambda one: one.cost)


def _improved(problem: Problem, proxy: Proxy, solution: Solution) -> Solution:
    while True:
        for one, other in _pairs(problem, solution.assignment):
            changed = exchanged(problem, solution.assignment, one, other)
            if changed is not None:
                cost = proxy(changed)
                if cost < solution.cost:
                    solution = Solution(cost, changed)
                    break
        else:
            return solution


def _pairs(problem: Problem, assignment: Assignment) -> Iterator[tuple[int, int]]:
    """The most tardy with the most expensive, with the least pressing, and with the most pressing of
    those that are postponed. Where nobody is tardy there is nothing to exchange."""
    demands, running = problem.demands, list(assignment)
    late_costs = {i: _late_cost(problem, assignment, i) for i in running}
    tardy = sorted([i for i in running if late_costs[i] > 0], key=lambda i: -late_costs[i])
    if not tardy:
        return
    dear = sorted(running, key=lambda i: -assignment[i].way.cost * demands[i].left)
    relaxed = sorted(running, key=lambda i: demands[i].pressure)
    waiting = [i for i in range(len(demands)) if i not in assignment]
    pressing = sorted(waiting, key=lambda i: -demands[i].pressure)
    for others in (dear, relaxed, pressing):
        for one in tardy[:LOOKED_AT]:
            yield from ((one, other) for other in others[:LOOKED_AT] if one != other)


def _late_cost(problem: Problem, assignment: Assignment, i: int) -> float:
    demand = problem.demands[i]
    ends_at = problem.now + assignment[i].way.seconds * demand.left
    return demand.late_per_s * max(0.0, ends_at - demand.deadline)


def exchanged(problem: Problem, assignment: Assignment, one: int, other: int) -> Assignment | None:
    """Each on the other's node in its best way that fits there; nothing if there is none."""
    here, there = assignment[one], assignment.get(other)
    if there is not None and there.node == here.node:
        return None
    rest = {i: spot for i, spot in assignment.items() if i not in (one, other)}
    busy = busy_by_node(rest)
    places = _places(problem)
    pairs = [(other, here.node)] if there is None else [(other, here.node), (one, there.node)]
    for i, node in pairs:
        pool, free = places[node]
        way = _best_way(problem, i, pool, free - busy.get(node, 0))
        if way is None:
            return None
        rest[i] = Spot(way, node)
    return rest


def _places(problem: Problem) -> dict[int, tuple[int, int]]:
    """By node, its pool and the GPUs to be given out."""
    return {
        node: (number, free)
        for number, pool in enumerate(problem.pools)
        for node, free in zip(pool.nodes, pool.free, strict=True)
    }


def _best_way(problem: Problem, i: int, pool: int, free: int) -> Way | None:
    for way in problem.demands[i].ranked(problem.now):
        if way.pool == pool and way.gpus <= free:
            return way
    return None


# ---------------------------------------------------------------------------------- path relinking


def path_relinking(problem: Problem, elite: Sequence[Solution]) -> Solution:
    """Walk from the best towards each of the others; the best of all that was met."""
    best, proxy = elite[0], Proxy(problem)
    for guide in elite[1:]:
        best = min(best, _walked(problem, proxy, elite[0], guide), key=lambda one: one.cost)
    return best


def _walked(problem: Problem, proxy: Proxy, start: Solution, guide: Solution) -> Solution:
    """At each step the move that costs least, up to as many steps as there are nodes."""
    here, best = start, start
    for _ in range(problem.sizes[0]):
        steps = [
            Solution(proxy(moved), moved)
            for i in _different(here.assignment, guide.assignment)
            if (moved := _moved(problem, here.assignment, i, guide.assignment.get(i))) is not None
        ]
        if not steps:
            break
        here = min(steps, key=lambda one: one.cost)
        best = min(best, here, key=lambda one: one.cost)
    return best


def _different(one: Assignment, other: Assignment) -> list[int]:
    return sorted(i for i in one.keys() | other.keys() if _way(one, i) != _way(other, i))


def _way(assignment: Assignment, i: int) -> Way | None:
    return assignment[i].way if i in assignment else None


def _moved(
    problem: Problem, assignment: Assignment, i: int, towards: Spot | None
) -> Assignment | None:
    """The job run as the other solution has it, on the tightest node; nothing if there is no room."""
    rest = {j: spot for j, spot in assignment.items() if j != i}
    if towards is None:
        return rest or None
    busy, way = busy_by_node(rest), towards.way
    pool = problem.pools[way.pool]
    fitting = [
        (free - busy.get(node, 0), node)
        for node, free in zip(pool.nodes, pool.free, strict=True)
        if free - busy.get(node, 0) >= way.gpus
    ]
    if not fitting:
        return None
    rest[i] = Spot(way, min(fitting)[1])
    return rest
