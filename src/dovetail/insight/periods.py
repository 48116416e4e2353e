"""A trace split into periods, each predicted from jobs that ended before it; intervals over periods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.insight.blocks import middle_95
from dovetail.insight.features import Features

# a week, or the longest of which there are enough
_LENGTHS_S = (604_800.0, 86_400.0, 21_600.0, 3600.0)
_FEWEST_PERIODS = 4
_MOST_PERIODS, _MOST_PERIODS_QUICK = 12, 6
_FEWEST_TO_LEARN, _FEWEST_TO_TEST = 30, 10
_DRAWS = 2000


@dataclass(frozen=True)
class Period:
    """The rows submitted in it, and the rows that had ended when it began."""

    past: np.ndarray
    rows: np.ndarray


def period_length(features: Features) -> float:
    """A week; in a short trace a day, six hours, an hour, or an eighth of the trace."""
    span = _span(features)
    return next((s for s in _LENGTHS_S if span >= _FEWEST_PERIODS * s), span / 8)


def periods_of(features: Features, quick: bool = False) -> list[Period]:
    """The periods with enough jobs to learn from and to test on; of many, the last ones."""
    length = period_length(features)
    if not length > 0:
        return []
    first = features.submitted[0]
    ended = features.submitted + features.duration
    number = np.floor((features.submitted - first) / length)
    found = []
    for this in np.unique(number):
        rows = np.flatnonzero(number == this)
        past = np.flatnonzero(ended <= first + this * length)
        if len(rows) >= _FEWEST_TO_TEST and len(past) >= _FEWEST_TO_LEARN:
            found.append(Period(past, rows))
    return found[-(_MOST_PERIODS_QUICK if quick else _MOST_PERIODS) :]


def _span(features: Features) -> float:
    submitted = features.submitted
    return float(submitted[-1] - submitted[0]) if len(submitted) else 0.0


def interval(
    values: Sequence[float] | np.ndarray,
    weights: Sequence[float] | np.ndarray | None,
    seed: int = 0,
) -> tuple[float, float]:
    """The 95 % interval of the (weighted) mean of blocks, by the bootstrap."""
    return middle_95(redrawn(np.asarray(values, float), weights, seed), "linear")


def redrawn(
    values: np.ndarray, weights: Sequence[float] | np.ndarray | None, seed: int = 0
) -> np.ndarray:
    """Means of blocks drawn with replacement."""
    weight = np.ones(len(values)) if weights is None else np.asarray(weights, float)
    drawn = np.random.default_rng(seed).integers(len(values), size=(_DRAWS, len(values)))
    means: np.ndarray = (values * weight)[drawn].sum(1) / weight[drawn].sum(1)
    return means


class Pairs:
    """Pairs of jobs with different durations: all pairs of few jobs, a sample of many. The same
    pairs judge every prediction, so that differences are not sampling noise."""

    def __init__(self, truth: np.ndarray, seed: int, most: int = 100_000) -> None:
        if len(truth) * (len(truth) - 1) // 2 <= most:
            one, two = np.triu_indices(len(truth), 1)
        else:
            one, two = np.random.default_rng(seed).integers(len(truth), size=(2, most))
        differ = truth[one] != truth[two]
        self._one, self._two = one[differ], two[differ]
        self._sign = np.sign(truth[self._one] - truth[self._two])

    def accuracy(self, predicted: np.ndarray) -> float:
        """The share of pairs in the right order; ties count half. Kendall's tau is 2 x - 1."""
        if not len(self._one):
            return 0.5
        order = np.sign(predicted[self._one] - predicted[self._two])
        return float((1.0 + (order * self._sign).mean()) / 2.0)
