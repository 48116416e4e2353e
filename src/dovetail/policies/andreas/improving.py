"""Better assignments from good ones: exchanging jobs (local search), and walking from one good
assignment towards another (path relinking)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from dovetail.policies.andreas.problem import Assignment, Problem, Proxy, Spot, Way, busy_by_node
from dovetail.policies.andreas.random_greedy import Solution

LOOKED_AT: Final = 10  # jobs on each side of an exchange


def local_search(problem: Problem, elite: Sequence[Solution]) -> Solution:
    """Improve every solution by one exchange of each sort; return the best of all."""
    proxy = Proxy(problem)
    return min([_improved(problem, proxy, one) for one in elite], key=lambda one: one.cost)


def _improved(problem: Problem, proxy: Proxy, solution: Solution) -> Solution:
    """Make the first exchange of each sort that helps. The proxy looks only as far as the first
    finish, so a lower proxy is not enough: the two jobs must not end later, weighted by cost."""
    for partners in (_dear, _relaxed, _postponed):
        solution = _exchanged_once(problem, proxy, solution, partners)
    return solution


Partners: TypeAlias = Callable[[Problem, Assignment], list[int]]


def _exchanged_once(
    problem: Problem, proxy: Proxy, solution: Solution, partners: Partners
) -> Solution:
    plan, pressure = solution.assignment, problem.pressure
    others = partners(problem, plan)[:LOOKED_AT]
    for one in _tardy(problem, plan)[:LOOKED_AT]:
        for other in others:
            if other not in plan and pressure[other] <= pressure[one]:
                break
            changed = exchanged(problem, plan, one, other) if one != other else None
            if changed is None or _later(problem, plan, changed, (one, other)):
                continue
            cost = proxy(changed)
            if cost < solution.cost:
                return Solution(cost, changed)
    return solution


def _later(problem: Problem, before: Assignment, after: Assignment, two: tuple[int, int]) -> bool:
    """Does the lateness of the two jobs cost more than before? A waiting job counts at its slowest."""
    return sum([_late_cost(problem, after, i) for i in two]) > sum(
        [_late_cost(problem, before, i) for i in two]
    )


def _tardy(problem: Problem, plan: Assignment) -> list[int]:
    """The running jobs that will be late, the most expensive first."""
    late = {i: _late_cost(problem, plan, i) for i in plan}
    return sorted([i for i in plan if late[i] > 0], key=lambda i: -late[i])


def _dear(problem: Problem, plan: Assignment) -> list[int]:
    return sorted(plan, key=lambda i: -plan[i].way.cost * problem.demands[i].left)


def _relaxed(problem: Problem, plan: Assignment) -> list[int]:
    return sorted(plan, key=lambda i: problem.pressure[i])


def _postponed(problem: Problem, plan: Assignment) -> list[int]:
    waiting = [i for i in range(len(problem.demands)) if i not in plan]
    return sorted(waiting, key=lambda i: -problem.pressure[i])


def _late_cost(problem: Problem, plan: Assignment, i: int) -> float:
    demand, spot = problem.demands[i], plan.get(i)
    seconds = demand.menu.slowest_s if spot is None else spot.way.seconds
    ends_at = problem.now + seconds * demand.left
    return demand.late_per_s * max(0.0, ends_at - demand.deadline)


def exchanged(problem: Problem, assignment: Assignment, one: int, other: int) -> Assignment | None:
    """Each job on the other's node in its best way that fits there; None if there is none."""
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
    """Walk from the best solution towards each of the others; return the best one met."""
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
    """The job in the way that the other solution has, on the tightest node; None without room."""
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
