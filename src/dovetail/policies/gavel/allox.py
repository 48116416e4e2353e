"""AlloX (Le et al., EuroSys 2020): jobs of one GPU matched to machines and places in line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from scipy.optimize import linear_sum_assignment

from dovetail.policies.gavel.problem import Allocation, AllocationProblem, RateClaim

_CANNOT: Final = 1e-10  # stands for a rate of 0
_ROUNDING: Final = 1e-9


def allox(problem: AllocationProblem, oldest: float = 1.0) -> Allocation:
    """The least sum of completion times: a job that is the k-th from the last of a machine delays k
    jobs by its length. Who runs stays; of the others that part of the `oldest` is looked at, and the
    first of each machine's line has it.

    AlloX knows jobs of one GPU. Ours gives gangs, in order of arrival, what they need before that.
    """
    kept = {claim.job_id: claim.had for claim in problem.claims if sum(claim.had) == 1.0}
    nothing = (0.0,) * len(problem.kinds)
    shares = {claim.job_id: kept.get(claim.job_id, nothing) for claim in problem.claims}
    left = list(problem.counts)
    for claim in problem.claims:
        for kind, share in enumerate(shares[claim.job_id]):
            left[kind] -= share * claim.gpus
    _give_gangs(problem, shares, left)
    free = [
        kind
        for kind in sorted(range(len(left)), key=problem.kinds.__getitem__)
        for _ in range(int(left[kind] + _ROUNDING))
    ]
    waiting = [c for c in problem.claims if c.gpus <= 1.0 and not any(shares[c.job_id])]
    waiting.sort(key=lambda claim: -claim.age_s)
    waiting = waiting[: max(int(oldest * len(waiting)), len(free))]
    for machine, claim in _first_of_each(waiting, free).items():
        shares[claim.job_id] = _all_of(free[machine], len(left))
    return Allocation(shares)


def _give_gangs(
    problem: AllocationProblem, shares: dict[str, tuple[float, ...]], left: list[float]
) -> None:
    for claim in problem.claims:
        if claim.gpus > 1.0 and not any(shares[claim.job_id]):
            fitting = [
                k for k, gpus in enumerate(left) if gpus >= claim.gpus and claim.rates[k] > 0.0
            ]
            if fitting:
                best = max(fitting, key=claim.rates.__getitem__)
                left[best] -= claim.gpus
                shares[claim.job_id] = _all_of(best, len(left))


def _all_of(kind: int, kinds: int) -> tuple[float, ...]:
    return tuple([float(other == kind) for other in range(kinds)])


def _first_of_each(waiting: Sequence[RateClaim], free: Sequence[int]) -> dict[int, RateClaim]:
    """By machine: the job at the head of its line, which delays the most others."""
    if not waiting or not free:
        return {}
    rates = np.array([[claim.rates[kind] or _CANNOT for kind in free] for claim in waiting])
    length_s = np.array([claim.left for claim in waiting])[:, None] / rates
    ages = np.array([claim.age_s for claim in waiting])[:, None]
    costs = np.hstack([k * length_s for k in range(1, len(waiting) + 1)]) + ages
    heads: dict[int, tuple[int, RateClaim]] = {}
    costs -= costs.min()  # lets ties fall as they did in the solver that results were recorded with
    for row, column in zip(*linear_sum_assignment(costs), strict=True):
        place, machine = divmod(int(column), len(free))
        if machine not in heads or place > heads[machine][0]:
            heads[machine] = place, waiting[row]
    return {machine: claim for machine, (_, claim) in sorted(heads.items())}
