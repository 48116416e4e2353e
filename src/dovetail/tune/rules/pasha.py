"""Progressive ASHA (Bohdal and others, ICLR 2023): the highest rung is unlocked only if need be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from dovetail.quantiles import quantile
from dovetail.tune.rules.asha import promoted
from dovetail.tune.rules.rungs import GeometricRungs, arrived, geometric
from dovetail.tune.study import Study, Trial


@dataclass(frozen=True, slots=True)
class Pasha(GeometricRungs):
    """ASHA that promotes, at first with two rungs. The next rung is unlocked when the two highest rank
    their trials differently, beyond what criss-crossing curves explain. Nobody is given up: when there
    is no more to promote, the lowest loss goes on."""

    def pick(self, study: Study, leaving: Trial | None) -> Trial | None:
        rungs = geometric(self.first, self.eta, study.steps)
        if leaving is not None and len(leaving.losses) not in rungs:
            return leaving
        highest = rungs[unlocked(study.trials, rungs) - 1] if rungs else 0
        return promoted(study, leaving, rungs, self.eta, upto=highest)


def unlocked(trials: Sequence[Trial], rungs: Sequence[int]) -> int:
    """The number of open rungs: two, and one more for every rung whose ranking was not settled."""
    number = min(2, len(rungs))
    while number < len(rungs):
        higher, lower = rungs[number - 1], rungs[number - 2]
        there = arrived(trials, higher)
        if len(there) < 2 or is_settled(there, lower, higher):
            break
        number += 1
    return number


def is_settled(trials: Sequence[Trial], lower: int, higher: int) -> bool:
    """Do both rungs rank the trials alike, except for pairs that are closer than noise?"""
    furthest = 0.0
    for one, other in combinations(trials, 2):
        before = one.best[lower - 1] - other.best[lower - 1]
        after = one.best[higher - 1] - other.best[higher - 1]
        if before * after < 0:
            furthest = max(furthest, abs(before))
    return furthest == 0 or furthest <= spread_of_noise(trials, higher)


def spread_of_noise(trials: Sequence[Trial], upto: int) -> float:
    """The 90th percentile of distances between trials whose curves cross more than once."""
    distances = sorted(
        abs(one.losses[upto - 1] - other.losses[upto - 1])
        for one, other in combinations(trials, 2)
        if _crossings(one, other, upto) > 1
    )
    return quantile(distances, 0.9) if distances else 0.0


def _crossings(one: Trial, other: Trial, upto: int) -> int:
    signs = [a > b for a, b in zip(one.losses[:upto], other.losses[:upto], strict=True) if a != b]
    return sum(before != after for before, after in pairwise(signs))
