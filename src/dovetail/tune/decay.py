"""A learning curve as a Gaussian process that decays towards an asymptote (freeze-thaw, 2014).

The kernel b^a / (t + t' + b)^a is that of a mixture of exponential decays whose rates are drawn from
a gamma distribution: curves fall fast at first and flatten, each at its own pace. The asymptote has
a normal prior, which the study's trials share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, sqrt
from statistics import NormalDist, median, pstdev
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from dovetail.tune.study import Study, Trial

_POINTS = 24  # of a long curve, spread over the logarithm of age: more say hardly more


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a trial's loss will be at some later step: a normal distribution."""

    mean: float
    deviation: float

    def chance(self, target: float) -> float:
        """Of being at the target or below it."""
        return NormalDist(self.mean, self.deviation).cdf(target)

    def improvement(self, incumbent: float) -> float:
        """By how much it is expected to fall below the incumbent, where rising counts nothing."""
        normal = NormalDist()
        gap = (incumbent - self.mean) / self.deviation
        return self.deviation * (gap * normal.cdf(gap) + normal.pdf(gap))


@dataclass(frozen=True, slots=True)
class Decay:
    """What is believed of every curve of a study before a step of it is seen."""

    asymptote: float
    spread: float  # of the asymptotes
    height: float  # of the curves above them at first
    noise: float
    shape: float = 1.0  # of the kernel: a
    scale: float = 1.0  # and b

    def forecast(self, losses: Sequence[float], step: int) -> Forecast:
        """The loss at a later step of a trial with these losses so far."""
        told = [(age, loss) for age, loss in enumerate(losses, 1) if isfinite(loss)]
        if len(told) < len(losses) / 2:  # it diverges
            return Forecast(self.asymptote + 10 * self.height + self.spread, self.noise)
        alone = self._covariance(np.array([step], float), np.array([step], float))[0, 0]
        if not told:
            return Forecast(self.asymptote, sqrt(alone))
        ages, values = _thinned(told)
        known = self._covariance(ages, ages) + self.noise**2 * np.eye(len(ages))
        ahead = self._covariance(np.array([step], float), ages)[0]
        weights = np.linalg.solve(known, np.stack([values - self.asymptote, ahead], axis=1))
        mean = self.asymptote + float(ahead @ weights[:, 0])
        variance = max(float(alone - ahead @ weights[:, 1]), 0.0)
        return Forecast(mean, sqrt(variance + self.noise**2))

    def _covariance(
        self, ages: NDArray[np.float64], others: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        sums = ages[:, None] + others[None, :] + self.scale
        decay = (self.scale + 2) ** self.shape / sums**self.shape  # 1 between first steps
        return self.spread**2 + self.height**2 * decay


def _thinned(
    told: Sequence[tuple[int, float]],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    chosen = np.unique(np.geomspace(1, len(told), min(len(told), _POINTS)).round().astype(int)) - 1
    points = np.array(told, float)[chosen]
    return points[:, 0], points[:, 1]


def learned(study: Study) -> Decay:
    """The prior that the study's own curves suggest.

    Each is read up to the last power of two of its age, so that the prior changes now and then, and
    not with every step; what was forecast holds until then.
    """
    curves = [_told(trial) for trial in study.trials]
    curves = [curve for curve in curves if curve]
    if not curves:
        return Decay(0.0, 1.0, 1.0, 0.1)
    latest = [min(curve) for curve in curves]
    falls = [curve[0] - lowest for curve, lowest in zip(curves, latest, strict=True)]
    height = max(*falls, max(latest) - min(latest), 1e-09 * max(1.0, abs(latest[0])))
    spread = max(pstdev(latest), 0.1 * height)
    noise = max(median(_roughness(curve) for curve in curves), 0.01 * height)
    return Decay(median(latest), spread, height, noise)


def maturity(study: Study) -> tuple[int, ...]:
    """What the prior depends on: it is the same as long as this is."""
    return tuple(len(trial.losses).bit_length() for trial in study.trials)


def _told(trial: Trial) -> list[float]:
    age = len(trial.losses)
    return [loss for loss in trial.losses[: 1 << age.bit_length() >> 1] if isfinite(loss)]


def _roughness(losses: Sequence[float]) -> float:
    """How far the steps of a curve are from a straight line through their neighbours."""
    if len(losses) < 3:
        return 0.0
    return float(np.median(np.abs(np.diff(losses[-12:], 2)))) / 2


class Forecasts:
    """The forecasts for one study's trials, kept until the trial or the prior has moved on."""

    def __init__(self) -> None:
        self.learned_at: tuple[int, ...] | None = None
        self.prior = Decay(0.0, 1.0, 1.0, 0.1)
        self.known: dict[tuple[int, int], tuple[int, Forecast]] = {}

    def of(self, study: Study) -> Forecasts:
        """Brought up to date."""
        now = maturity(study)
        if now != self.learned_at:
            self.learned_at = now
            self.prior = learned(study)
            self.known.clear()
        return self

    def at(self, trial: Trial, step: int) -> Forecast:
        """Of the trial's loss at a later step."""
        age = len(trial.losses)
        known = self.known.get((trial.number, step))
        if known is None or known[0] != age:
            known = (age, self.prior.forecast(trial.losses, step))
            self.known[trial.number, step] = known
        return known[1]


_FORECASTS: WeakKeyDictionary[Study, Forecasts] = WeakKeyDictionary()


def forecasts(study: Study) -> Forecasts:
    """For this study as it stands. Kept as a cache only: they follow from the curves."""
    return _FORECASTS.setdefault(study, Forecasts()).of(study)
