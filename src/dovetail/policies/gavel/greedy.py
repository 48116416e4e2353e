"""Allocations without a program: an equal part for everybody, or one job after the other."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.policies.gavel.problem import Allocation, AllocationProblem, RateClaim, Shares


def isolated(problem: AllocationProblem) -> Allocation:
    """Everybody has an equal part of every kind."""
    return Allocation(equal_parts(problem))


def equal_parts(problem: AllocationProblem) -> Shares:
    jobs = len(problem.claims)
    return {claim.job_id: _equal_part(claim, problem.counts, jobs) for claim in problem.claims}


def _equal_part(claim: RateClaim, counts: Sequence[float], jobs: int) -> tuple[float, ...]:
    """No more than all of its time."""
    parts = [count / jobs / claim.gpus for count in counts]
    whole = max(sum(parts), 1.0)
    return tuple([part / whole for part in parts])


def in_order_of_arrival(problem: AllocationProblem) -> Allocation:
    """Each job in turn has the free kind on which it is fastest; the first that fits nowhere holds up
    those behind it."""
    return _one_by_one(problem, problem.claims)


def shortest_first(problem: AllocationProblem) -> Allocation:
    """The same in order of the time that is left on the kind on which it is fastest."""

    def left_s(claim: RateClaim) -> float:
        return claim.left / max(claim.rates) if any(claim.rates) else 0.0

    return _one_by_one(problem, sorted(problem.claims, key=left_s))


def _one_by_one(problem: AllocationProblem, claims: Sequence[RateClaim]) -> Allocation:
    free = list(problem.counts)
    nothing = (0.0,) * len(free)
    shares = {claim.job_id: nothing for claim in problem.claims}
    by_name = sorted(range(len(free)), key=problem.kinds.__getitem__)
    for claim in claims:
        fitting = [kind for kind in by_name if free[kind] >= claim.gpus]
        if not fitting:
            break
        best = max(fitting, key=claim.rates.__getitem__)  # the first by name of equals
        if claim.rates[best] > 0.0:
            shares[claim.job_id] = tuple([float(kind == best) for kind in range(len(free))])
            free[best] -= claim.gpus
    return Allocation(shares)
