"""Our own rule: the trials most likely to be the best have the slots, and no trial is thrown away."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf, log1p

from dovetail.tune.extrapolation import LENGTH, promise
from dovetail.tune.rules import Verdict
from dovetail.tune.study import NEW, PAUSED, Study, Trial


@dataclass(frozen=True, slots=True)
class Default:
    """Runs whoever looks most likely to become the best, the young a little sooner than that; the
    others wait with their progress kept."""

    # A first turn shows a trial's start and one step from there: on recorded curves the first value
    # alone says next to nothing, and a third step costs more than it tells.
    first_turn: int = 2
    # The young are looked at sooner than their odds alone say, since they tell more per step: what
    # the odds lose with the logarithm of a trial's age.
    curiosity: float = 0.3
    # How much better the odds of another must be before a slot changes hands, and how much more per
    # step that the change costs, up to a factor of e.
    patience: float = 0.1
    patience_per_cost: float = 0.5
    # A turn is at least this share of the trial's age, so that the old are not moved about.
    turn_share: float = 0.25
    # What a whole study may lose in switching, first starts included.
    lost: float = 0.03

    def __post_init__(self) -> None:
        if self.first_turn < 1:
            raise ValueError(f"first_turn={self.first_turn}; give at least 1 step")
        for name in ("curiosity", "patience", "patience_per_cost", "turn_share", "lost"):
            if not 0 <= getattr(self, name) < inf:
                raise ValueError(f"{name}={getattr(self, name)}; give a number from 0 on")

    def verdict(self, study: Study, trial: Trial) -> Verdict:
        return None

    def pick(self, study: Study, leaving: Trial | None) -> Trial | None:
        if leaving is not None and not self._may_leave(study, leaving):
            return leaving
        odds = promise(study).tolist()
        best, chosen = -inf, None
        for trial, standing in zip(study.trials, odds, strict=True):
            if trial is leaving:
                merit = self._merit(study, trial, standing) + self._patience(study)
            elif trial.standing is NEW or trial.standing is PAUSED:
                merit = self._merit(study, trial, standing)
            else:
                continue
            if chosen is None or merit > best:
                best, chosen = merit, trial
        return chosen

    def _merit(self, study: Study, trial: Trial, odds: float) -> float:
        return odds - self.curiosity * log1p(len(trial.losses) * LENGTH / study.steps)

    def _patience(self, study: Study) -> float:
        return min(1.0, self.patience + self.patience_per_cost * study.switch_cost)

    def _may_leave(self, study: Study, trial: Trial) -> bool:
        """Its turn was long enough, and the study can still afford the change."""
        age = len(trial.losses)
        if age < self._first_turn(study):
            return False
        if trial.turn < max(self._short_turn(study), self.turn_share * age):
            return False
        return self._changes_left(study) >= 1

    def _first_turn(self, study: Study) -> int:
        """Of a short trial already the first step is a good part; of a long one two steps are none."""
        return max(1, min(self.first_turn, study.steps // 5), self._short_turn(study))

    def _short_turn(self, study: Study) -> int:
        return ceil(study.steps / LENGTH)

    def _changes_left(self, study: Study) -> float:
        """Pauses that the study can still afford. Where switching is so dear that the first starts
        take up what may be lost, half of the trials may still be paused once."""
        if study.switch_cost <= 0:
            return inf
        trials = max(study.planned, len(study.trials))
        affordable = self.lost * trials * study.steps / study.switch_cost - trials
        started = paused = 0
        for trial in study.trials:
            started += trial.standing is not NEW
            paused += trial.standing is PAUSED
        return max(affordable, trials / 2) - (study.switches - started) - paused
