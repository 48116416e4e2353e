"""How many steps a job still needs until its loss is down to a target, judged by its curve so far.

A curve is a Gaussian process that decays towards an asymptote (freeze-thaw, 2014). The kernel
b^a / (t + t' + b)^a is that of a mixture of exponential decays whose rates are drawn from a gamma
distribution: curves fall fast at first and flatten, each at its own pace. The asymptote has a normal
prior.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import isfinite, sqrt
from statistics import NormalDist, median, pstdev

import numpy as np
from numpy.typing import NDArray

_POINTS = 24  # of a long curve, spread over the logarithm of age: more say hardly more
_AHEAD = 64  # steps ahead that are looked at, spread likewise
# Paces at which curves may fall, and heights that they may have fallen from beyond what was seen.
_SCALES, _SHAPES, _HEIGHTS = (4.0, 16.0, 64.0, 256.0), (1.0, 4.0), (2.0, 8.0, 32.0)
_NOTHING_KNOWN = (0.0, 1.0, 1.0, 0.1)


@dataclass(frozen=True, slots=True)
class LossForecast:
    """The loss at some later step: a normal distribution."""

    mean: float
    deviation: float

    def chance(self, target: float) -> float:
        """The chance of being at the target or below it."""
        return NormalDist(self.mean, self.deviation).cdf(target)

    def improvement(self, incumbent: float) -> float:
        """By how much it is expected to fall below the incumbent, where rising counts nothing."""
        normal = NormalDist()
        gap = (incumbent - self.mean) / self.deviation
        return self.deviation * (gap * normal.cdf(gap) + normal.pdf(gap))


@dataclass(frozen=True, slots=True)
class Decay:
    """The prior of a curve before a step of it is seen."""

    asymptote: float
    spread: float  # of the asymptotes
    height: float  # of the curves above them at first
    noise: float
    shape: float = 1.0  # of the kernel: a
    scale: float = 1.0  # and b

    def forecast(self, losses: Sequence[float], step: int) -> LossForecast:
        """The loss at a later step of a curve with these losses so far."""
        return self.forecasts(losses, [step])[0]

    def forecasts(self, losses: Sequence[float], steps: Sequence[int]) -> list[LossForecast]:
        told = _told(losses)
        if len(told) < len(losses) / 2:  # it diverges
            hopeless = LossForecast(self.asymptote + 10 * self.height + self.spread, self.noise)
            return [hopeless] * len(steps)
        later = np.array(steps, float)
        alone = self.spread**2 + self.height**2 * self._decay(2 * later)
        if not told:
            return [LossForecast(self.asymptote, sqrt(variance)) for variance in alone.tolist()]
        ages, values = _thinned(told)
        known = self._covariance(ages, ages) + self.noise**2 * np.eye(len(ages))
        ahead = self._covariance(later, ages)
        sides = np.column_stack([values - self.asymptote, ahead.T])
        weights = np.linalg.solve(known, sides)
        means = self.asymptote + ahead @ weights[:, 0]
        variances = np.maximum(alone - np.einsum("ij,ji->i", ahead, weights[:, 1:]), 0.0)
        deviations = np.sqrt(variances + self.noise**2)
        return [
            LossForecast(*pair) for pair in zip(means.tolist(), deviations.tolist(), strict=True)
        ]

    def evidence(self, losses: Sequence[float]) -> float:
        """The logarithm of how likely these losses were, but for a constant."""
        ages, values = _thinned(_told(losses))
        known = self._covariance(ages, ages) + self.noise**2 * np.eye(len(ages))
        off = values - self.asymptote
        return float(-off @ np.linalg.solve(known, off) - np.linalg.slogdet(known)[1]) / 2

    def _covariance(
        self, ages: NDArray[np.float64], others: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        decay: NDArray[np.float64] = self._decay(ages[:, None] + others[None, :])
        return self.spread**2 + self.height**2 * decay

    def _decay(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        decay: NDArray[np.float64] = (self.scale + 2) ** self.shape / (
            sums + self.scale
        ) ** self.shape
        return decay  # 1 between first steps


def _told(losses: Sequence[float]) -> list[tuple[int, float]]:
    return [(age, loss) for age, loss in enumerate(losses, 1) if isfinite(loss)]


def _thinned(
    told: Sequence[tuple[int, float]],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    chosen = np.unique(np.geomspace(1, len(told), min(len(told), _POINTS)).round().astype(int)) - 1
    points = np.array(told, float)[chosen]
    return points[:, 0], points[:, 1]


def suggested_by(curves: Sequence[Sequence[float]]) -> Decay:
    """The prior that curves of the same kind suggest."""
    curves = [[loss for loss in curve if isfinite(loss)] for curve in curves]
    curves = [curve for curve in curves if curve]
    if not curves:
        return Decay(*_NOTHING_KNOWN)
    latest = [min(curve) for curve in curves]
    falls = [curve[0] - lowest for curve, lowest in zip(curves, latest, strict=True)]
    height = max(*falls, max(latest) - min(latest), 1e-09 * max(1.0, abs(latest[0])))
    spread = max(pstdev(latest), 0.1 * height)
    noise = max(median(_roughness(curve) for curve in curves), 0.01 * height)
    return Decay(median(latest), spread, height, noise)


def _roughness(losses: Sequence[float]) -> float:
    """How far the steps of a curve are from a straight line through their neighbours."""
    if len(losses) < 3:
        return 0.0
    return float(np.median(np.abs(np.diff(losses[-12:], 2)))) / 2


@dataclass(frozen=True, slots=True)
class StepsLeft:
    """In four of five cases between low and high; None: more than were looked at."""

    expected: int | None
    low: int | None
    high: int | None
    chance: float  # that the target is reached within the steps that were looked at


def steps_left(
    losses: Sequence[float],
    target: float,
    most: int,
    others: Sequence[Sequence[float]] = (),
) -> StepsLeft:
    """Until the loss is at the target or below, within so many steps from now. `others` are curves
    of the same kind; without them where this one will end is wide open."""
    if any(isfinite(loss) and loss <= target for loss in losses):
        return StepsLeft(0, 0, 0, 1.0)
    ahead = np.unique(np.geomspace(1, max(most, 1), _AHEAD).round().astype(int)).tolist()
    reached = np.maximum.accumulate(_chances(losses, target, ahead, others)).tolist()
    found = [_first(ahead, reached, part) for part in (0.1, 0.5, 0.9)]
    return StepsLeft(found[1], found[0], found[2], reached[-1])


def _chances(
    losses: Sequence[float], target: float, ahead: Sequence[int], others: Sequence[Sequence[float]]
) -> NDArray[np.float64]:
    """Of being down at the target after so many steps more: over all paces at which curves fall,
    each weighed by how well it explains what was seen."""
    prior = suggested_by([*others, losses])
    if not others:
        prior = replace(prior, spread=2 * prior.height)
    if not any(map(isfinite, losses)):
        paces, weights = [prior], np.ones(1)
    else:
        choices = product(_SCALES, _SHAPES, _HEIGHTS)
        paces = [replace(prior, scale=b, shape=a, height=h * prior.height) for b, a, h in choices]
        evidence = np.array([pace.evidence(losses) for pace in paces])
        weights = np.exp(evidence - evidence.max())
    steps = [len(losses) + step for step in ahead]
    each = [[one.chance(target) for one in pace.forecasts(losses, steps)] for pace in paces]
    return np.asarray(weights @ np.array(each) / weights.sum())


def _first(steps: Sequence[int], chances: Sequence[float], part: float) -> int | None:
    return next((s for s, chance in zip(steps, chances, strict=True) if chance >= part), None)
