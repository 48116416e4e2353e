"""Allocations without a program: an equal part for everybody, or one job after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dovetail.policies.gavel.problem import (
    Allocation,
    AllocationProblem,
    RateClaim,
    Shares,
    pair_of,
)

_GAINS_ENOUGH: Final = 1.5  # Gavel packs in order of arrival where two do more than this together


def isolated(problem: AllocationProblem) -> Allocation:
    """Everybody has an equal part of every kind."""
    return Allocation(equal_parts(problem))


def equal_parts(problem: AllocationProblem) -> Shares:
    jobs = len(problem.claims)
    return {claim.job_id: equal_part(claim.gpus, problem.counts, jobs) for claim in problem.claims}


def equal_part(gpus: float, counts: Sequence[float], jobs: int) -> tuple[float, ...]:
    """Of one of so many; no more than all of its time."""
    parts = [count / jobs / gpus for count in counts]
    whole = max(sum(parts), 1.0)
    return tuple([part / whole for part in parts])


def in_order_of_arrival(problem: AllocationProblem) -> Allocation:
    """Each job in turn has the free kind on which it is fastest; the first that fits nowhere holds up
    those behind it, unless it gains enough by sharing the GPUs of one before it."""
    found = _one_by_one(problem, problem.claims)
    return _packed_onto(problem, found) if problem.side_by_side else found


def _packed_onto(problem: AllocationProblem, found: Allocation) -> Allocation:
    """Those that wait, in order, each with the one beside which both together do most."""
    shares = dict(found.shares)
    hosts = [claim for claim in problem.claims if any(shares[claim.job_id])]
    for claim in problem.claims:
        if claim in hosts or not claim.sort:
            continue
        gains = [_together(problem, host, claim, shares[host.job_id]) for host in hosts]
        most = max(gains, default=0.0)
        if most <= _GAINS_ENOUGH:
            break  # nobody overtakes it
        host = hosts.pop(gains.index(most))
        shares[pair_of(host.job_id, claim.job_id)] = shares[host.job_id]
        shares[host.job_id] = (0.0,) * len(problem.kinds)
    return Allocation(shares)


def _together(
    problem: AllocationProblem, host: RateClaim, guest: RateClaim, share: Sequence[float]
) -> float:
    """What both do there, as parts of what each does alone."""
    rates = problem.side_by_side.get((host.sort, guest.sort))
    kind = share.index(1.0)
    if rates is None or not host.rates[kind] or not guest.rates[kind]:
        return 0.0
    one, other = rates[0][kind], rates[1][kind]
    return one / host.rates[kind] + other / guest.rates[kind] if one and other else 0.0


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
