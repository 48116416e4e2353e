"""The objectives of Gavel (Narayanan et al., OSDI 2020): shares of GPU kinds from rates.

Where several allocations are equally good, ours is the one in the middle of them (`central`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from dovetail.policies.gavel.central import Array
from dovetail.policies.gavel.problem import Allocation
from dovetail.policies.gavel.table import RateTable

_CLOSE_ENOUGH: Final = 1.05  # Gavel's search for a makespan ends with bounds so near to each other
_SHORTEST_S: Final = 100.0
_LONGEST_S: Final = 1e6
_AT_MOST: Final = 1e-6  # the price from which on a job is taken to be at its most
_FILLINGS: Final = 16  # levels that are told apart; the jobs above them have what is left
_LEEWAY: Final = 1e-9  # what was found is asked for again with so much less


def max_min(table: RateTable) -> Allocation:
    """The smallest share is as large as can be; a share is what a job does against what it would do
    on the cluster's mixture of kinds, counted for its GPUs and divided by its weight."""
    found = table.most(table.usual_part() * table.column("weight"))
    return table.allocation(found, found.figure)


def water_filling(table: RateTable) -> Allocation:
    """Max-min; then the smallest share of those that can have more, and so on."""
    return _filled(table, lambda able: np.where(able, table.column("weight"), 0.0))


def hierarchical(table: RateTable) -> Allocation:
    """Water-filling in two levels: users are equal, and what a job cannot use goes to the other jobs
    of its user, by their weights."""
    owners = [claim.owner for claim in table.claims]
    member = np.array([[owner == own for own in dict.fromkeys(owners)] for owner in owners])
    weights = table.column("weight")

    def growth(able: Array) -> Array:
        still = np.where(able, weights, 0.0)
        by_owner = np.maximum(still @ member, 1e-300)
        growing: Array = still / (member @ by_owner)
        return growing

    return _filled(table, growth)


def _filled(table: RateTable, growth: Callable[[Array], Array]) -> Allocation:
    part, able = table.usual_part(), np.ones(len(table.claims), dtype=bool)
    level = np.zeros(len(able))
    best, first = None, 0.0
    for _ in range(_FILLINGS):
        speed = growth(able)
        found = table.most(part * speed, part * level * (1.0 - _LEEWAY))
        if best is not None and not found.solved:
            return table.allocation(best, first)
        first = found.figure if best is None else first
        best = found
        level = level + speed * max(found.figure, 0.0)
        full = able & (found.prices * part * speed > _AT_MOST)
        able &= ~full
        if not able.any() or not full.any() or not found.solved:
            break
    assert best is not None
    return table.allocation(best, first)


def makespan(table: RateTable) -> Allocation:
    """All jobs end as early as can be: as Gavel searches for it, within a twentieth, and then in the
    middle of what is allowed."""
    work = table.column("left") / table.fastest
    longest = _searched(1.0 / table.most(work).figure)
    return table.allocation(table.within(work / longest), longest)


def _searched(least: float) -> float:
    """The bisection of Gavel, whose answers are known once the least makespan is."""
    low, high = _SHORTEST_S, _LONGEST_S
    while least > high:
        low, high = high, high * 10.0
    while _CLOSE_ENOUGH * low < high:
        middle = (low + high) / 2.0
        low, high = (low, middle) if least <= middle else (middle, high)
    return high


def finish_time(table: RateTable) -> Allocation:
    """The largest ratio of a job's time in all to its time with an equal part of the cluster is as
    small as can be (Themis' fairness)."""
    left, alone = table.column("left"), table.alone()
    spans = table.column("isolated_s") + left / alone
    found = table.least(left / table.fastest, spans, table.column("age_s"))
    standings = {
        claim.job_id: (claim.left, rate, claim.isolated_s)
        for claim, rate in zip(table.claims, alone.tolist(), strict=True)
    }
    return replace(table.allocation(found, found.figure), standings=standings)


def max_sum(table: RateTable) -> Allocation:
    """The most steps a second in all."""
    return _most_worth(table, np.ones(len(table.counts)), np.zeros(len(table.claims)))


def least_cost(table: RateTable) -> Allocation:
    """The most steps a second for each unit of money an hour, summed over jobs."""
    return _most_worth(table, 1.0 / _prices(table), np.zeros(len(table.claims)))


def least_cost_in_time(table: RateTable) -> Allocation:
    """The same; jobs with a deadline have at least what keeps it, if all can."""
    due = np.array([np.inf if c.due_in_s is None else c.due_in_s for c in table.claims])
    needed = table.column("left") / table.fastest / np.maximum(due, 1e-9)
    if not needed.any() or table.most(needed).figure < 1.0:
        needed = np.zeros(len(due))
    return _most_worth(table, 1.0 / _prices(table), needed * (1.0 - _LEEWAY))


def _prices(table: RateTable) -> Array:
    return np.array(table.problem.prices or [1.0] * len(table.counts), dtype=float)


def _most_worth(table: RateTable, worth: Array, needed: Array) -> Allocation:
    """Of steps a second on each kind."""
    found = table.within(needed, worth)
    return table.allocation(found, found.figure)
