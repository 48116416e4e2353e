"""Large problems in parts (POP, Narayanan et al., SOSP 2021): each has an equal part of the cluster.

Jobs are dealt out by what they ask for and where they are fast, so that the parts are alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dovetail.policies.gavel.problem import Allocation, AllocationProblem, RateClaim


def divided(problem: AllocationProblem, parts: int) -> list[AllocationProblem]:
    """At most as many as there are jobs."""
    parts = min(parts, len(problem.claims))
    if parts < 2:
        return [problem]
    alike = sorted(problem.claims, key=_likeness)
    counts = tuple(count / parts for count in problem.counts)
    return [
        replace(problem, counts=counts, claims=tuple(alike[number::parts]))
        for number in range(parts)
    ]


def _likeness(claim: RateClaim) -> tuple[float, ...]:
    fastest = max(claim.rates, default=0.0) or 1.0
    return (claim.gpus, claim.weight, *[round(rate / fastest, 1) for rate in claim.rates])


def joined(found: Sequence[Allocation]) -> Allocation:
    """The shares of all parts; worth what they are worth together is not known but for one."""
    if len(found) == 1:
        return found[0]
    shares = {job_id: row for part in found for job_id, row in part.shares.items()}
    standings = {job_id: row for part in found for job_id, row in part.standings.items()}
    gap, timed_out = max(part.gap for part in found), any(part.timed_out for part in found)
    return Allocation(shares, None, gap, timed_out, standings)
