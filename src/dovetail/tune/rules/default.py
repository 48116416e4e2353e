"""Our own rule: the trials most likely to be the best have the slots, and no trial is thrown away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from math import ceil, inf, log1p

import numpy as np

from dovetail.tune.extrapolation import LENGTH, promise
from dovetail.tune.rules import Rule
from dovetail.tune.study import DONE, NEW, PAUSED, RUNNING, Study, Trial

_MANY = 8  # trials per slot
_TELLING = 8  # steps: in fewer, half of a trial's life is not more than its youth


@dataclass(frozen=True, slots=True)
class Default(Rule):
    """Runs whoever is most likely to become the best, the young a little sooner than that; the
    others wait with their progress kept, and come back if those disappoint."""

    # A trial makes a second step at once, unless the first losses of this study have been found to
    # rank the trials (Kendall's tau): often they are the losses of an untrained model.
    telling: float = 0.5
    # Below this tau from one step to the next, only noise tells the trials apart: then a trial
    # keeps its slot.
    steady: float = 0.35
    # Young trials run sooner than their odds alone say, since a step of theirs tells more: the odds
    # lost per unit of the logarithm of age.
    curiosity: float = 0.3
    # By how much (in the logarithm of odds) another trial must be better before a slot changes
    # hands, and by how much more for each step that a switch costs; 1 at most.
    patience: float = 0.1
    dearness: float = 0.4
    # A turn is at least this share of the trial's age: an old trial is not replaced for a step or
    # two.
    turn: float = 0.25
    # The share of the time of a whole study that switching may use.
    lost: float = 0.03
    # After this share of the time of a whole study, this share of the slots runs the trials in order
    # of creation, each to its end: whatever the curves do, the best is found in bounded time, and
    # these trials show whether early losses mislead. Starts that take long do not count: a rule that
    # looks at all trials has paid for them by then, and has learnt nothing meanwhile. Sooner if there
    # are few trials per slot, since there is little to gain over first come, first served.
    trusted: float = 0.125
    in_order: float = 0.5
    # Below this constancy the study's own trials have shown that early losses mislead (-1: the
    # order is reversed): then no trial gives way any more, and the trials that look worst come
    # first.
    misled: float = 0.15

    def __post_init__(self) -> None:
        for name in ("curiosity", "patience", "dearness", "turn", "lost", "trusted"):
            if not 0 <= getattr(self, name) < inf:
                raise ValueError(f"{name}={getattr(self, name)}; give a number from 0 on")
        if not 0 <= self.in_order <= 1:
            raise ValueError(f"in_order={self.in_order}; give a share of the slots, 0 to 1")

    def pick(self, study: Study, leaving: Trial | None) -> Trial | None:
        misled = promise(study).constancy < self.misled
        stays = leaving is not None and (misled or not self.may_leave(study, leaving))
        if stays:
            return leaving
        due = self._due(study, leaving)
        if due is not None and (due is leaving or not self._leads(study, leaving)):
            return due
        return _worst(study, study.waiting()) if misled else self._most_promising(study, leaving)

    def _due(self, study: Study, leaving: Trial | None) -> Trial | None:
        """The trial that gets this slot in order of creation, so that as many such trials run as
        should; until a few are done, the trial that looks worst comes before them."""
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

    def _leads(self, study: Study, leaving: Trial | None) -> bool:
        """Is it among the most promising, as many as there are slots for them? Then it stays, and one of
        the others makes room for a trial in order: that one comes as soon, and a leader would have to
        find another slot, which must be on its own node once it is suspended."""
        if leaving is None:
            return False
        odds = promise(study).odds
        ahead = sum(
            (trial.waits or trial.standing is RUNNING) and odds[trial.number] > odds[leaving.number]
            for trial in study.trials
        )
        return ahead < study.slots - self._wanted_in_order(study)

    def _wanted_in_order(self, study: Study) -> int:
        """Slots for trials in order of creation, now: a fraction of a slot is alternately one more
        and one less."""
        waves = max(study.planned, len(study.trials)) / study.slots
        worked = study.now - study.starting
        if worked < self.trusted * min(1.0, waves / _MANY) * waves * study.steps:
            return 0
        turn, slots = int(worked // study.steps), self.in_order * study.slots
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
        """Was its turn long enough to be informative, and can the study afford the switch?"""
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
        """First starts, which every rule pays for, count as switching as long as one pause per
        trial remains. If switching is so expensive that not even those fit, half as many pauses as
        trials are allowed: without any, nothing would be learnt."""
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
    """The trial that looks worst shows soonest whether early losses mislead."""
    done = sum(trial.standing is DONE for trial in study.trials)
    if done >= study.slots or study.steps < _TELLING:
        return []
    going_on = [trial for trial in study.trials if trial.waits or trial.standing is RUNNING]
    worst = _worst(study, going_on)
    return [] if worst is None else [worst]


def _worst(study: Study, among: Sequence[Trial]) -> Trial | None:
    """Ranked by how many trials of the same age were lower then; an unseen trial is in the middle,
    and a diverged trial comes last."""
    curves = promise(study).curves
    ages = curves.ages
    others = len(ages) - 1 - np.searchsorted(np.sort(ages), ages)
    looks = np.where(ages > 0, curves.beaten / np.maximum(others, 1), 0.5)
    looks[(ages > 0) & (curves.last == inf)] = -1.0
    return max(among, key=lambda trial: float(looks[trial.number]), default=None)
