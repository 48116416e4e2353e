"""One period of a rolling measurement: train on its past, predict it, shuffle groups of features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dovetail.insight.features import HISTORY, LEVELS, Features
from dovetail.insight.learners import (
    ADDITIVE,
    BOOSTED,
    GROUP_MEAN,
    can_boost,
    group_mean,
    learned,
    matrix,
    one_thread,
)
from dovetail.insight.periods import Pairs, Period

_MOST_SHUFFLED, _MOST_SHUFFLED_QUICK = 1500, 500  # jobs of a period
_PAIRS_SHUFFLED = 20_000


@dataclass(frozen=True)
class Round:
    """The arguments of one task."""

    features: Features
    period: Period
    groups: Mapping[str, tuple[str, ...]]
    repeats: int
    seed: int
    quick: bool


@dataclass(frozen=True)
class Errors:
    jobs: int
    mae_log: float
    mape: float
    mdape: float
    order: float
    side: float


@dataclass(frozen=True)
class PeriodResult:
    """The results of one period. `rises` and `losses`: by group, of every shuffle."""

    errors: Mapping[tuple[str, str], Errors]  # by model and level
    rises: Sequence[Sequence[float]] = ()
    losses: Sequence[Sequence[float]] = ()
    shuffled_jobs: int = 0


def measured_in(own: Round) -> PeriodResult:
    """Every model and level, and the loss from shuffling each group."""
    features, rows = own.features, own.period.rows
    judge = _Judge(features, own.period, own.seed)
    errors = {(GROUP_MEAN, HISTORY): judge.errors(group_mean(features, rows))}
    if not can_boost():
        return PeriodResult(errors)
    with one_thread():
        for level in LEVELS:
            names = features.upto(level)
            model = learned(BOOSTED, features, names, own.period.past, own.quick)
            errors[BOOSTED, level] = judge.errors(model.predict(matrix(features, names, rows)))
            if level == HISTORY:
                rises, losses, jobs = _shuffled(own, model)
        names = features.upto(HISTORY)
        model = learned(ADDITIVE, features, names, own.period.past, own.quick)
        errors[ADDITIVE, HISTORY] = judge.errors(model.predict(matrix(features, names, rows)))
    return PeriodResult(errors, rises, losses, jobs)


def dropped_in(work: tuple[Round, tuple[str, ...]]) -> list[Errors]:
    """The result of a model trained without a group, for each of these groups."""
    own, groups = work
    judge = _Judge(own.features, own.period, own.seed)
    found = []
    with one_thread():
        for group in groups:
            gone = own.groups[group]
            names = [name for name in own.features.upto(HISTORY) if name not in gone]
            model = learned(BOOSTED, own.features, names, own.period.past, own.quick)
            found.append(judge.errors(model.predict(matrix(own.features, names, own.period.rows))))
    return found


class _Judge:
    """Compares predictions with the true durations of a period's jobs."""

    def __init__(self, features: Features, period: Period, seed: int) -> None:
        self._duration = features.duration[period.rows]
        self._truth = np.log1p(self._duration)
        self._pairs = Pairs(self._truth, seed)
        self._middle = np.log1p(np.median(features.duration[period.past]))

    def errors(self, predicted: np.ndarray) -> Errors:
        real = self._duration >= 1.0
        off = np.abs(np.expm1(predicted[real]) - self._duration[real]) / self._duration[real]
        return Errors(
            len(predicted),
            float(np.abs(predicted - self._truth).mean()),
            float(off.mean()) if len(off) else 0.0,
            float(np.median(off)) if len(off) else 0.0,
            self._pairs.accuracy(predicted),
            float(((predicted > self._middle) == (self._truth > self._middle)).mean()),
        )


def _shuffled(own: Round, model: Any) -> tuple[list[list[float]], list[list[float]], int]:
    """The rise of the error and the loss of order, by group, of every shuffle of its columns."""
    features, names = own.features, own.features.upto(HISTORY)
    chance = np.random.default_rng(own.seed)
    most = _MOST_SHUFFLED_QUICK if own.quick else _MOST_SHUFFLED
    rows = own.period.rows
    if len(rows) > most:
        rows = np.sort(chance.choice(rows, most, replace=False))
    known = matrix(features, names, rows)
    truth = np.log1p(features.duration[rows])
    pairs = Pairs(truth, own.seed, _PAIRS_SHUFFLED)
    right = model.predict(known)
    error, order = np.abs(right - truth).mean(), pairs.accuracy(right)
    rises, losses = [], []
    for group in own.groups.values():
        places = [names.index(name) for name in group]
        spoilt = np.tile(known, (own.repeats, 1, 1))
        for copy in spoilt:
            copy[:, places] = known[chance.permutation(len(rows))][:, places]
        guesses = model.predict(spoilt.reshape(-1, len(names))).reshape(own.repeats, -1)
        rises.append([float(np.abs(guess - truth).mean() - error) for guess in guesses])
        losses.append([order - pairs.accuracy(guess) for guess in guesses])
    return rises, losses, len(rows)
