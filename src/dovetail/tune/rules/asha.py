"""Asynchronous successive halving (Li and others, MLSys 2020): nobody waits for a rung to fill.

Progressive ASHA (PASHA; Bohdal and others, ICLR 2023) unlocks the highest rung only if need be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import inf

from dovetail.quantiles import quantile
from dovetail.tune.rules import GiveUp, Verdict
from dovetail.tune.rules.rungs import (
    GeometricRungs,
    arrived,
    candidates,
    geometric,
    last_rung,
    lowest,
    whole,
)
from dovetail.tune.study import NEW, Study, Trial


@dataclass(frozen=True, slots=True)
class _Asha(GeometricRungs):
    """The parameters of both forms; `rungs` replaces the geometric ones."""

    rungs: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        GeometricRungs.__post_init__(self)
        whole(self.rungs)

    def rungs_below(self, steps: int) -> tuple[int, ...]:
        return tuple(int(rung) for rung in self.rungs) or geometric(self.first, self.eta, steps)


@dataclass(frozen=True, slots=True)
class AshaPromote(_Asha):
    """A free slot goes to a trial among the best 1/`eta` of its rung, the highest rung first; else to a
    new trial. All others wait there; when there is nobody to promote and none is new, the lowest loss
    goes on. Rungs at `first` steps, `first` * `eta`, … unless `rungs` names them."""

    def pick(self, study: Study, leaving: Trial | None) -> Trial | None:
        rungs = self.rungs_below(study.steps)
        return promoted(study, leaving, rungs, self.eta)


def promoted(
    study: Study, leaving: Trial | None, rungs: Sequence[int], eta: int, upto: float = inf
) -> Trial | None:
    """The trial that gets the slot after `leaving` has made a step; no promotion from `upto` steps
    on."""
    if leaving is not None and len(leaving.losses) not in rungs:
        return leaving
    waiting = candidates(study, leaving)
    for rung in reversed(rungs):
        here = [trial for trial in waiting if last_rung(trial, rungs) == rung < upto]
        if here:
            seen = arrived(study.trials, rung)
            for trial in seen[: len(seen) // eta]:
                if trial in here:
                    return trial
    return next((trial for trial in waiting if trial.standing is NEW), None) or lowest(waiting)


@dataclass(frozen=True, slots=True)
class AshaStop(_Asha):
    """Trials run in order; at each rung a trial is given up unless it is among the best 1/`eta` of
    those recorded there so far (the form that Ray Tune has). It never comes back."""

    def verdict(self, study: Study, trial: Trial) -> Verdict:
        rungs = self.rungs_below(study.steps)
        rung = len(trial.losses)
        if rung not in rungs:
            return None
        others = [
            other.best[rung - 1] for other in arrived(study.trials, rung) if other is not trial
        ]
        if not others or trial.loss <= quantile(others, 1 / self.eta):
            return None
        return GiveUp(f"not among the best 1/{self.eta} after {rung} steps")

    def pick(self, study: Study, leaving: Trial | None) -> Trial | None:
        return leaving or next(iter(study.waiting()), None)


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
