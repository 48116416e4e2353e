"""Asynchronous successive halving (Li and others, MLSys 2020): nobody waits for a rung to fill."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from dovetail.quantiles import quantile
from dovetail.tune.rules import GiveUp, Verdict
from dovetail.tune.rules.rungs import (
    arrived,
    candidates,
    check,
    geometric,
    last_rung,
    lowest,
    whole,
)
from dovetail.tune.study import NEW, Study, Trial


def rungs_of(rungs: Sequence[float], first: int, eta: int, steps: int) -> tuple[int, ...]:
    return tuple(int(rung) for rung in rungs) or geometric(first, eta, steps)


@dataclass(frozen=True, slots=True)
class AshaPromote:
    """A free slot goes to a trial among the best 1/`eta` of its rung, the highest rung first; else to a
    new trial. All others wait there; when there is nobody to promote and none is new, the lowest loss
    goes on. Rungs at `first` steps, `first` * `eta`, … unless `rungs` names them.
    """

    eta: int = 3
    first: int = 1
    rungs: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        check(self.first, self.eta)
        whole(self.rungs)

    def verdict(self, study: Study, trial: Trial) -> Verdict:
        return None

    def pick(self, study: Study, leaving: Trial | None) -> Trial | None:
        rungs = rungs_of(self.rungs, self.first, self.eta, study.steps)
        return promoted(study, leaving, rungs, self.eta)


def promoted(
    study: Study, leaving: Trial | None, rungs: Sequence[int], eta: int, upto: float = inf
) -> Trial | None:
    """Who goes on after `leaving` has made a step; nobody is promoted from `upto` steps on."""
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
class AshaStop:
    """Trials run in order; at each rung a trial is given up unless it is among the best 1/`eta` of those
    recorded there so far (the form that Ray Tune has). It never comes back.
    """

    eta: int = 3
    first: int = 1
    rungs: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        check(self.first, self.eta)
        whole(self.rungs)

    def verdict(self, study: Study, trial: Trial) -> Verdict:
        rungs = rungs_of(self.rungs, self.first, self.eta, study.steps)
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
