"""Gandiva as Gavel's simulator has it: random pairs while jobs want more GPUs than there are, and equal
parts for all pairs and all that are alone."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from dovetail.policies.gavel.greedy import equal_part
from dovetail.policies.gavel.problem import (
    Allocation,
    AllocationProblem,
    RateClaim,
    members,
    pair_of,
)

_ENOUGH: Final = 1.0  # what both together must do, as parts of what each does alone, over all kinds


def random_pairs(problem: AllocationProblem, seed: int) -> Allocation:
    """Pairs that pay are kept; each of the others is drawn by chance and tried until the next time."""
    claims = {claim.job_id: claim for claim in problem.claims}
    asked = sum(claim.gpus for claim in problem.claims)
    pairs: list[str] = []
    if asked > sum(problem.counts):
        there = [name for name in problem.paired if claims.keys() >= set(members(name))]
        pairs = [name for name in there if _pays(problem, *_both(claims, name))]
        paired = {job_id for name in pairs for job_id in members(name)}
        left = [claim for claim in problem.claims if claim.job_id not in paired]
        pairs += _drawn(problem, left, Random(f"{seed}/{problem.at!r}"))
    paired = {job_id for name in pairs for job_id in members(name)}
    alone = [job_id for job_id in claims if job_id not in paired]
    units = len(alone) + len(pairs)
    nothing = (0.0,) * len(problem.kinds)
    shares = dict.fromkeys(claims, nothing)
    for name in (*alone, *pairs):
        gpus = claims[members(name)[0]].gpus
        shares[name] = equal_part(gpus, problem.counts, units)
    return Allocation(shares)


def _both(claims: dict[str, RateClaim], name: str) -> tuple[RateClaim, RateClaim]:
    first, second = members(name)
    return claims[first], claims[second]


def _pays(problem: AllocationProblem, first: RateClaim, second: RateClaim) -> bool:
    rates = problem.side_by_side.get((first.sort, second.sort))
    if rates is None:
        return False
    total = 0.0
    for one, other, alone, its in zip(*rates, first.rates, second.rates, strict=True):
        if one <= 0.0 or other <= 0.0 or alone <= 0.0 or its <= 0.0:
            return False
        total += one / alone + other / its
    return total >= _ENOUGH


def _drawn(problem: AllocationProblem, left: Sequence[RateClaim], chance: Random) -> list[str]:
    """As many draws as there are jobs; two of different sizes are no pair."""
    waiting, found = [claim for claim in left if claim.sort], []
    order = {claim.job_id: number for number, claim in enumerate(problem.claims)}
    for _ in range(len(waiting)):
        if len(waiting) < 2:
            break
        one, other = chance.sample(waiting, 2)
        if one.gpus != other.gpus:
            continue
        waiting.remove(one)
        waiting.remove(other)
        first, second = sorted((one.job_id, other.job_id), key=order.__getitem__)
        found.append(pair_of(first, second))
    return found
