"""HyperSched (Liaw and others, SoCC 2019): the best by a deadline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from dovetail.quantiles import quantile
from dovetail.tune.rules.rungs import GeometricRungs, candidates, geometric, lowest
from dovetail.tune.study import NEW, Study, Trial


@dataclass(frozen=True, slots=True)
class HyperSched(GeometricRungs):
    """ASHA whose cut is made again with every record, and no starts that come too late.

    A trial pauses as soon as, at any rung it has passed, it is no longer among the best 1/`eta` there,
    and comes back when it is again. A new one begins only if the time left to the deadline is at least
    `eta` times the longest training so far, or a whole trial; a paused one goes on only if it can come
    as far as the leader. Nobody is given up: without a deadline those that wait go on at last, the
    lowest loss first. A trial has one slot, so freed slots do not make the leaders faster.
    """

    def pick(self, study: Study, leaving: Trial | None) -> Trial | None:
        left = inf if study.deadline is None else study.deadline - study.now
        if left <= 0.0:
            return None
        cutoffs = self.cutoffs(study)
        if leaving is not None and passes(leaving, cutoffs):
            return leaving
        begun = self._in_time(study, leaving, left)
        passing = [trial for trial in begun if passes(trial, cutoffs)]
        return lowest(passing) or self._new(study, left) or lowest(begun)

    def cutoffs(self, study: Study) -> list[tuple[int, float]]:
        """Each rung with the loss that a trial needs there now."""
        found = []
        for rung in geometric(self.first, self.eta, study.steps):
            losses = [trial.best[rung - 1] for trial in study.trials if len(trial.losses) >= rung]
            if not losses:
                break
            losses.sort()
            found.append((rung, quantile(losses, 1 / self.eta)))
        return found

    def _new(self, study: Study, left: float) -> Trial | None:
        longest = max([len(trial.losses) for trial in study.trials], default=0)
        if left - study.switch_cost < min(self.eta * longest, study.steps):
            return None
        return next((trial for trial in study.trials if trial.standing is NEW), None)

    def _in_time(self, study: Study, leaving: Trial | None, left: float) -> list[Trial]:
        """Trials that have begun and can still come as far as the leader."""
        leader = lowest(study.trials)
        far = 0 if leader is None else leader.steps
        return [
            trial
            for trial in candidates(study, leaving)
            if trial.losses and far - trial.steps <= left - study.switch_cost
        ]


def passes(trial: Trial, cutoffs: Sequence[tuple[int, float]]) -> bool:
    """Is the trial among the best at every rung that it has passed?"""
    made = len(trial.losses)
    return all(rung > made or trial.best[rung - 1] <= cutoff for rung, cutoff in cutoffs)
