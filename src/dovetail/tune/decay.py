"""Forecasts of the learning curves of a study, each made with a prior that all its curves suggest."""

from __future__ import annotations

from math import isfinite
from weakref import WeakKeyDictionary

from dovetail.predict.convergence import Decay, LossForecast, suggested_by
from dovetail.tune.study import Study, Trial


def learned(study: Study) -> Decay:
    """The prior that the study's own curves suggest.

    Each curve is read up to the last power of two of its age, so that the prior changes only now
    and then; forecasts are valid until it does.
    """
    return suggested_by([_told(trial) for trial in study.trials])


def maturity(study: Study) -> tuple[int, ...]:
    """The figures that the prior depends on: the prior changes only if they do."""
    return tuple(len(trial.losses).bit_length() for trial in study.trials)


def _told(trial: Trial) -> list[float]:
    age = len(trial.losses)
    return [loss for loss in trial.losses[: 1 << age.bit_length() >> 1] if isfinite(loss)]


class Forecasts:
    """The forecasts for one study's trials, kept until the trial or the prior has moved on."""

    def __init__(self) -> None:
        self.learned_at: tuple[int, ...] | None = None
        self.prior = suggested_by(())
        self.known: dict[tuple[int, int], tuple[int, LossForecast]] = {}

    def of(self, study: Study) -> Forecasts:
        """The forecasts for the study as it is now."""
        now = maturity(study)
        if now != self.learned_at:
            self.learned_at = now
            self.prior = learned(study)
            self.known.clear()
        return self

    def at(self, trial: Trial, step: int) -> LossForecast:
        """The forecast of the trial's loss at a later step."""
        age = len(trial.losses)
        known = self.known.get((trial.number, step))
        if known is None or known[0] != age:
            known = (age, self.prior.forecast(trial.losses, step))
            self.known[trial.number, step] = known
        return known[1]


_FORECASTS: WeakKeyDictionary[Study, Forecasts] = WeakKeyDictionary()


def forecasts(study: Study) -> Forecasts:
    """The forecasts for this study as it is now. A cache only: they follow from the curves."""
    return _FORECASTS.setdefault(study, Forecasts()).of(study)
