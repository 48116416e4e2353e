"""Freeze-thaw: go on with the trial that is expected to end furthest below the best."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.tune.decay import forecasts
from dovetail.tune.rules import Rule, rungs
from dovetail.tune.study import Study, Trial


@dataclass(frozen=True, slots=True)
class FreezeThaw(Rule):
    """Every curve is extrapolated to its end with uncertainty; the next `turn` steps go to the trial
    with the largest expected improvement on the lowest loss so far (after Swersky, Snoek and Adams
    2014; they search by entropy, and model the settings too, which we leave to the sampler)."""

    turn: int = 2

    def __post_init__(self) -> None:
        if self.turn < 1:
            raise ValueError(f"turn={self.turn}; give at least 1 step")

    def pick(self, study: Study, leaving: Trial | None) -> Trial | None:
        if leaving is not None and len(leaving.losses) % self.turn:
            return leaving
        incumbent = min(trial.loss for trial in study.trials)
        forecast = forecasts(study)
        return max(
            rungs.candidates(study, leaving),
            key=lambda trial: forecast.at(trial, study.steps).improvement(incumbent),
            default=None,
        )
