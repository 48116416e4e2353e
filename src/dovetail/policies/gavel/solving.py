"""From a problem to shares: the objectives by name, each with or without an eye for GPU kinds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from math import inf
from operator import mul
from time import monotonic
from typing import Final

from dovetail.policies.gavel.gandiva import random_pairs
from dovetail.policies.gavel.greedy import in_order_of_arrival, isolated, shortest_first
from dovetail.policies.gavel.problem import Allocation, AllocationProblem

# By name: the function in `objectives`, and what the kind-blind take for every rate: 1, or the usual.
PROGRAMS: Final[Mapping[str, tuple[str, bool]]] = {
    "max-min": ("max_min", True),
    "water-filling": ("water_filling", True),
    "hierarchical": ("hierarchical", True),
    "finish-time": ("finish_time", False),
    "makespan": ("makespan", False),
    "max-sum": ("max_sum", False),
    "cost": ("least_cost", False),
    "cost-slo": ("least_cost_in_time", False),
}
GREEDY: Final = {
    "isolated": isolated,
    "fifo": in_order_of_arrival,
    "shortest": shortest_first,
}
GANDIVA: Final = "gandiva"  # shares by chance, so it takes a seed
OBJECTIVES: Final = (*PROGRAMS, *GREEDY, GANDIVA)
WITH_PAIRS: Final = (*PROGRAMS, "fifo", GANDIVA)  # that can pack


def kind_blind(problem: AllocationProblem, all_alike: bool) -> AllocationProblem:
    """The same, with one rate on all kinds: 1 for everybody, or the job's usual one."""
    claims = [
        claim._replace(rates=(1.0 if all_alike else claim.usual,) * len(problem.kinds))
        for claim in problem.claims
    ]
    return replace(problem, claims=tuple(claims))


def _equally_fast(problem: AllocationProblem) -> AllocationProblem:
    """Where a job can run at all, it is taken to run equally fast."""
    claims = [
        claim._replace(rates=tuple([float(rate > 0.0) for rate in claim.rates]))
        for claim in problem.claims
    ]
    return replace(problem, claims=tuple(claims))


def allocated(
    problem: AllocationProblem, objective: str, aware: bool, limit_s: float = inf, seed: int = 0
) -> Allocation:
    """The shares by that objective, within the time."""
    if objective == GANDIVA:
        return random_pairs(problem, seed)
    if objective in GREEDY:
        return GREEDY[objective](problem if aware else _equally_fast(problem))
    name, all_alike = PROGRAMS[objective]
    seen = problem if aware else kind_blind(problem, all_alike)
    if not any(any(map(mul, claim.rates, seen.counts)) for claim in seen.claims):
        return isolated(seen)
    # Imported here, so that who needs no program needs no numpy.
    objectives = import_module("dovetail.policies.gavel.objectives")
    table = import_module("dovetail.policies.gavel.table")
    found: Allocation = getattr(objectives, name)(table.RateTable(seen, monotonic() + limit_s))
    return found
