"""Our own rule: the trials most likely to be the best have the slots, and no trial is thrown away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from math import ceil, inf, log1p

import numpy as np

from dovetail.tune.extrapolation import LENGTH, promise
from dovetail.tune.rules import Verdict
from dovetail.tune.study import DONE, NEW, PAUSED, RUNNING, Study, Trial

_MANY = 8  # trials for each slot
_TELLING = 8  # steps: in fewer, half of a trial's life is not more than its youth


@dataclass(frozen=True, slots=True)
class Default:
    """Runs whoever is most likely to become the best, the young a little sooner than that; the
    others wait with their progress kept, and come back if those disappoint."""

    # A trial makes a second step at once, unless in this study the first losses have been found to
    # rank the trials (Kendall's tau): often they are those of an untrained model.
    telling: float = 0.5
    # Below this tau from one step to the next, noise alone tells the trials apart: then a trial that
    # has a slot keeps it.
    steady: float = 0.35
    # The young are looked at sooner than their odds alone say, since a step of theirs tells more:
    # what the odds lose with the logarithm of the age.
    curiosity: float = 0.3
    # By how much (in the logarithm of odds) another must be better before a slot changes hands, and
    # by how much more for each step that a change costs; 1 at most.
    patience: float = 0.1
    dearness: float = 0.4
    # A turn is at least this share of the trial's age: an old one is not moved for a step or two.
    turn: float = 0.25
    # Of the time of a whole study, what may be lost in switching.
    lost: float = 0.03
    # After this share of the time of a whole study, this share of the slots runs the trials in order
    # of creation, each to its end: whatever the curves do, the best is then found in a time that can
    # be told. And those tell whether early losses mislead. Sooner where slots have few trials each,
    # since there is little to gain over first come, first served.
    trusted: float = 0.125
    in_order: float = 0.5
    # Below this constancy the study's own trials have shown that early losses mislead (-1: the last
    # become the first): then nobody gives way any more, and those that look worst come first.
    misled: float = 0.15

    def __post_init__(self) -> None:
        for name in ("curiosity", "patience", "dearness", "turn", "lost", "trusted"):
            if not 0 <= getattr(self, name) < inf:
                raise ValueError(f"{name}={getattr(self, name)}; give a number from 0 on")
        if not 0 <= self.in_order <= 1:
            raise ValueError(f"in_order={self.in_order}; give a share of the slots, 0 to 1")

    def verdict(self, study: Study, trial: Trial) -> Verdict:
        return None

    def pick(self, study: Study, leaving: Trial | None) -> Trial | None:
        misled = promise(study).constancy < self.misled
        stays = leaving is not None and (misled or not self.may_leave(study, leaving))
        if stays:
            return leaving
        due = self._due(study, leaving)
        if due is not None:
            return due
        return _worst(study, study.waiting()) if misled else self._most_promising(study, leaving)

    def _due(self, study: Study, leaving: Trial | None) -> Trial | None:
        """Who of the first that are not done has this slot, so that as many of them run as should;
        until a few are done the one that looks worst is put before them."""
        wanted = self._wanted_in_order(study)
        if not wanted:
            return None
        for trial in chain(_probe(study), study.trials):
            if trial is leaving or trial.standing is NEW or trial.standing is PAUSED:
                return trial
            wanted -= trial.standing is RUNNING
            if not wanted:
                return None
        return None

    def _wanted_in_order(self, study: Study) -> int:
        """Slots, now: of a share that is no whole number, more and fewer by turns."""
        waves = max(study.planned, len(study.trials)) / study.slots
        if study.now < self.trusted * min(1.0, waves / _MANY) * waves * study.steps:
            return 0
        turn, slots = int(study.now // study.steps), self.in_order * study.slots
        return int(slots * (turn + 1)) - int(slots * turn)

    def _most_promising(self, study: Study, leaving: Trial | None) -> Trial | None:
        highest, chosen = -inf, None
        aged = LENGTH / study.steps
        for trial, odds in zip(study.trials, promise(study).odds, strict=True):
            if trial is leaving:
                odds += min(1.0, self.patience + self.dearness * study.switch_cost)
            elif trial.standing is not NEW and trial.standing is not PAUSED:
                continue
            merit = odds - self.curiosity * log1p(len(trial.losses) * aged)
            if chosen is None or merit > highest:
                highest, chosen = merit, trial
        return chosen

    def may_leave(self, study: Study, trial: Trial) -> bool:
        """Its turn was long enough to tell something, and the study can afford the change."""
        age = len(trial.losses)
        if trial.turn < max(ceil(study.steps / LENGTH), self.turn * age):
            return False
        if self._pauses_left(study) < 1:
            return False
        known = promise(study)
        if age == 1 and known.curves.concord < self.telling:
            return False
        return known.curves.steadiness >= self.steady and not known.curves.all_alike

    def _pauses_left(self, study: Study) -> float:
        """First starts, which every rule has to pay for, count among what may be lost as long as one
        pause for each trial remains. Where switching is so dear that not even those would do, half as
        many pauses as there are trials: without any, nothing would be found out."""
        if study.switch_cost <= 0:
            return inf
        trials = max(study.planned, len(study.trials))
        affordable = self.lost * trials * study.steps / study.switch_cost
        begun = paused = 0
        for trial in study.trials:
            begun += trial.standing is not NEW
            paused += trial.standing is PAUSED
        resumed = study.switches - begun
        return max(affordable - trials, min(affordable, trials), trials / 2) - resumed - paused


def _probe(study: Study) -> list[Trial]:
    """Nobody tells sooner whether early losses mislead than the one that looks worst."""
    done = sum(trial.standing is DONE for trial in study.trials)
    if done >= study.slots or study.steps < _TELLING:
        return []
    going_on = [trial for trial in study.trials if trial.waits or trial.standing is RUNNING]
    worst = _worst(study, going_on)
    return [] if worst is None else [worst]


def _worst(study: Study, among: Sequence[Trial]) -> Trial | None:
    """By how many of those that have come as far were lower then; who was never seen is of the
    middle, and who diverged comes last."""
    curves = promise(study).curves
    ages = curves.ages
    others = len(ages) - 1 - np.searchsorted(np.sort(ages), ages)
    looks = np.where(ages > 0, curves.beaten / np.maximum(others, 1), 0.5)
    looks[(ages > 0) & (curves.last == inf)] = -1.0
    return max(among, key=lambda trial: float(looks[trial.number]), default=None)
