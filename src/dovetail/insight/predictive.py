"""What predicts durations: rolling over time, by groups of features, by when features are known, and the
effect of one feature alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dovetail.insight.blocks import middle_95
from dovetail.insight.features import HISTORY, LEVELS, Features
from dovetail.insight.learners import (
    ADDITIVE,
    BOOSTED,
    GROUP_MEAN,
    MISSING,
    can_boost,
    learned,
    matrix,
    one_thread,
)
from dovetail.insight.period_tasks import PeriodResult, Round, dropped_in, measured_in
from dovetail.insight.periods import Period, interval, period_length, periods_of
from dovetail.insight.work import Crew, Map, Progress
from dovetail.text.counting import counted

_POINTS = 9
_SAMPLE = 500
# each carries the other's information: shuffled alone, neither shows its worth
_JOINED = ("user", "name")
_AS_ONE = " and ".join(_JOINED)
_MOST_DROPPED = 8


@dataclass(frozen=True)
class FeatureShape:
    """The effect of one feature alone on the prediction of the additive model, as a factor."""

    feature: str
    group: str
    values: tuple[float | str, ...]
    factors: tuple[float, ...]  # times the typical duration
    reach: float  # the largest factor over the least


def shapes_of(own: Round) -> list[FeatureShape]:
    """For every feature known before the start, learnt from the past of this period."""
    features, names, past = own.features, own.features.upto(HISTORY), own.period.past
    rows = np.random.default_rng(own.seed).choice(past, min(_SAMPLE, len(past)), replace=False)
    known = matrix(features, names, rows)
    with one_thread():
        model = learned(ADDITIVE, features, names, past, own.quick)
        shapes = [_shape(features, own, model, known, place) for place in range(len(names))]
    return sorted(shapes, key=lambda shape: -shape.reach)


def _shape(
    features: Features, own: Round, model: Any, known: np.ndarray, place: int
) -> FeatureShape:
    name = features.upto(HISTORY)[place]
    values = _values(known[:, place], name in features.categorical)
    usual = np.tile(known[0], (len(known), 1))
    usual[:, place] = known[:, place]
    moved = np.tile(known[0], (len(values), 1))
    moved[:, place] = values
    factors = np.exp(model.predict(moved) - model.predict(usual).mean())
    labels = features.labels.get(name)
    shown = tuple(labels[int(v)] for v in values) if labels else tuple(float(v) for v in values)
    group = next(group for group, columns in features.groups.items() if name in columns)
    reach = float(factors.max() / factors.min()) if len(factors) else 1.0
    return FeatureShape(name, group, shown, tuple(float(f) for f in factors), reach)


def _values(column: np.ndarray, categorical: bool) -> np.ndarray:
    """The values to evaluate: the most frequent of few, or evenly spread over many."""
    there = column[~np.isnan(column)]
    values, counts = np.unique(there, return_counts=True)
    if categorical or len(values) <= _POINTS:
        values = values[np.sort(np.argsort(-counts, kind="stable")[:_POINTS])]
    else:
        values = np.unique(np.quantile(there, np.linspace(0.05, 0.95, _POINTS)))
    found: np.ndarray = values
    return found


@dataclass(frozen=True)
class Score:
    """The quality of one model with the features known at one level, over all test periods."""

    model: str  # "group mean", "boosted", "additive"
    level: str  # everything known up to then: "submit", "history", "profile", "run"
    periods: int  # weeks (or shorter periods, see Predictive.period_s) predicted from their past
    jobs: int
    mae_log: float  # mean absolute error of log(1 + seconds)
    mape: float  # mean absolute error relative to the true duration, of jobs of a second or more
    mdape: float  # the same, median
    order_accuracy: (
        float  # part of the pairs of jobs that it puts in the right order; 0.5 is chance
    )
    low: float  # 95 % interval of the order accuracy, over the periods
    high: float
    by_period: tuple[float, ...]  # the order accuracy of each period
    side: float  # share of the jobs rightly called longer, or not, than the median of the past


@dataclass(frozen=True)
class Importance:
    """The loss when a group of features carries no information, with a 95 % interval."""

    group: str
    mean: float  # rise of the mean absolute error of log(1 + seconds)
    low: float
    high: float
    share: float  # of the rises of all groups together, each at least 0
    order_mean: float  # loss of order accuracy
    order_low: float
    order_high: float


@dataclass(frozen=True)
class Predictive:
    period_s: float  # length of the periods that the trace was split into
    scores: tuple[Score, ...]  # of every model, with all features known before the start
    by_level: tuple[Score, ...]  # of the boosted model, as more becomes known
    importance: tuple[Importance, ...]  # by permutation: the figure to rank by
    # by training again without the group: information the other groups cannot replace
    dropped: tuple[Importance, ...]
    shapes: tuple[FeatureShape, ...]
    not_measured: tuple[str, ...]


def predictive(
    features: Features,
    *,
    repeats: int = 30,
    seed: int = 0,
    quick: bool = False,
    map: Map = map,
    progress: Progress | None = None,
) -> Predictive:
    """Every period is predicted by models trained only on jobs that had ended before it."""
    periods = periods_of(features, quick)
    missing = [f"{group} as a predictor: {why}" for group, why in features.left_out.items()]
    obstacle = _obstacle(features, periods)
    if obstacle:
        return Predictive(period_length(features), (), (), (), (), (), (obstacle, *missing))
    crew = Crew(map, progress, 2 * len(periods) + 1)
    groups = shuffled_together(features)
    rounds = [
        Round(features, period, groups, repeats, seed + number, quick)
        for number, period in enumerate(periods)
    ]
    trials = crew.each(measured_in, rounds)
    scores = [_score(model, HISTORY, trials) for model in (BOOSTED, ADDITIVE, GROUP_MEAN)]
    by_level = [_score(BOOSTED, level, trials) for level in LEVELS]
    importance = _importance(list(groups), trials, seed)
    dropped: list[Importance] = []
    shapes: list[FeatureShape] = []
    if can_boost():
        dropped = _dropped(crew, rounds, trials, importance, seed)
        shapes = crew.each(shapes_of, rounds[-1:])[0]
    else:
        missing.append(MISSING)
    return Predictive(
        period_length(features),
        tuple(score for score in scores if score is not None),
        tuple(score for score in by_level if score is not None),
        tuple(importance),
        tuple(dropped),
        tuple(shapes),
        tuple(missing),
    )


def _obstacle(features: Features, periods: Sequence[Period]) -> str:
    what = "what predicts durations"
    jobs = len(features.duration)
    if jobs < 2:
        return f"{what}: the trace has {counted(jobs, 'job')}"
    if (features.duration == features.duration[0]).all():
        return f"{what}: all durations are equal"
    if not periods:
        return f"{what}: too few jobs end before others come ({jobs} jobs); bring a longer trace"
    return ""


def shuffled_together(features: Features) -> Mapping[str, tuple[str, ...]]:
    """The groups known before the start, user and name as one (see `_JOINED`)."""
    known = set(features.upto(HISTORY))
    groups = {
        group: tuple(name for name in features.groups[group] if name in known)
        for group in features.known_before_start()
    }
    if all(group in groups for group in _JOINED):
        joined = {_AS_ONE: tuple(n for g in _JOINED for n in groups.pop(g))}
        groups = {**joined, **groups}
    return groups


def members(group: str) -> tuple[str, ...]:
    """The groups of features that were shuffled together under this name."""
    return _JOINED if group == _AS_ONE else (group,)


def _score(model: str, level: str, trials: Sequence[PeriodResult]) -> Score | None:
    found = [trial.errors[model, level] for trial in trials if (model, level) in trial.errors]
    if not found:
        return None
    jobs = [errors.jobs for errors in found]
    order = [errors.order for errors in found]

    def mean(name: str) -> float:
        return sum(float(getattr(e, name)) * e.jobs for e in found) / sum(jobs)

    low, high = interval(order, jobs)
    return Score(
        *(model, level, len(found), sum(jobs)),
        *(mean("mae_log"), mean("mape"), mean("mdape"), mean("order")),
        *(low, high, tuple(order), mean("side")),
    )


def _importance(
    groups: Sequence[str], trials: Sequence[PeriodResult], seed: int
) -> list[Importance]:
    """The resampled blocks are periods, each with one of its shuffles."""
    jobs = [trial.shuffled_jobs for trial in trials]
    found = []
    for number, group in enumerate(groups):
        if not all(trial.rises for trial in trials):
            return []
        rises = [_of_shuffles([t.rises[number] for t in trials], jobs, seed)]
        rises.append(_of_shuffles([t.losses[number] for t in trials], jobs, seed))
        found.append((group, rises[0], rises[1]))
    return _ranked(found)


def _of_shuffles(
    by_period: Sequence[Sequence[float]], jobs: Sequence[int], seed: int
) -> tuple[float, float, float]:
    """Mean and 95 % interval over both sources of chance: the shuffle, and the periods."""
    table, weight = np.array(by_period), np.array(jobs, float)
    chance = np.random.default_rng(seed)
    periods = chance.integers(len(table), size=(2000, len(table)))
    shuffles = chance.integers(table.shape[1], size=periods.shape)
    means = (table[periods, shuffles] * weight[periods]).sum(1) / weight[periods].sum(1)
    return float(np.average(table.mean(1), weights=weight)), *middle_95(means, "linear")


def _dropped(
    crew: Crew,
    rounds: Sequence[Round],
    trials: Sequence[PeriodResult],
    importance: Sequence[Importance],
    seed: int,
) -> list[Importance]:
    """The top groups, each left out of training in turn."""
    top = [one.group for one in importance[:_MOST_DROPPED]]
    without = crew.each(dropped_in, [(own, tuple(top)) for own in rounds])
    with_all = [trial.errors[BOOSTED, HISTORY] for trial in trials]
    jobs = [errors.jobs for errors in with_all]
    found = []
    for number, group in enumerate(top):
        pairs = list(zip([errors[number] for errors in without], with_all, strict=True))
        rise = [less.mae_log - full.mae_log for less, full in pairs]
        loss = [full.order - less.order for less, full in pairs]
        found.append((group, _of_periods(rise, jobs, seed), _of_periods(loss, jobs, seed)))
    return _ranked(found)


def _of_periods(
    values: Sequence[float], jobs: Sequence[int], seed: int
) -> tuple[float, float, float]:
    return float(np.average(values, weights=jobs)), *interval(values, jobs, seed)


Spread = tuple[float, float, float]


def _ranked(found: Sequence[tuple[str, Spread, Spread]]) -> list[Importance]:
    total = sum(max(rise[0], 0.0) for _, rise, _ in found)
    rows = [
        Importance(group, *rise, max(rise[0], 0.0) / total if total else 0.0, *loss)
        for group, rise, loss in found
    ]
    return sorted(rows, key=lambda row: -row.mean)
