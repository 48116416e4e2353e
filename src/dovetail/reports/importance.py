"""The settings of a study that decide how good a trial is."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import ceil, inf, isfinite, sqrt
from typing import Any

from dovetail.api.study_row import TrialRow
from dovetail.client.study_rows import value_of

LEAST_TRIALS = 10  # with fewer, chance alone explains most of a ranking
_BINS = 4  # of a parameter that is a number
_FEWEST = 2  # trials in each group


def importance(trials: Sequence[TrialRow], minimise: bool) -> list[tuple[str, float | None]]:
    """By parameter: the part of the trials' ranking that it explains alone (the epsilon squared of
    Kruskal and Wallis), 0 if chance may explain it. None: too few different values."""
    names = dict.fromkeys(name for trial in trials for name in trial.settings)
    step = _common_step(trials)
    losses = [(trial, _loss(trial, step, minimise)) for trial in trials]
    known = [(trial, loss) for trial, loss in losses if isfinite(loss)]
    ranks = _ranks([loss for _, loss in known])
    return [
        (name, _explained([trial.settings.get(name) for trial, _ in known], ranks))
        for name in names
    ]


def _common_step(trials: Sequence[TrialRow]) -> float:
    """The last step that half of the reporting trials, and enough of them, have reached: a trial
    that was trained longer is not compared with one that was paused early."""
    reached = sorted((trial.points[-1][0] for trial in trials if trial.points), reverse=True)
    enough = max(LEAST_TRIALS, ceil(len(reached) / 2))
    return float(reached[min(enough, len(reached)) - 1]) if reached else 0.0


def _loss(trial: TrialRow, step: float, minimise: bool) -> float:
    """The best loss up to that step; infinite if the trial has not reached it."""
    points = trial.points
    if not points or points[-1][0] < step:
        return inf
    sign = 1.0 if minimise else -1.0
    values = (sign * value_of(told) for at, told, _ in points if at <= step)
    return min((value for value in values if isfinite(value)), default=inf)


def importance_note(shares: Sequence[tuple[str, float | None]]) -> str:
    told = sorted((row for row in shares if row[1] is not None), key=lambda row: -(row[1] or 0.0))
    if not told:
        return (
            f"Which setting matters cannot be told: that takes {LEAST_TRIALS} trials with a value, "
            "and settings that differ."
        )
    texts = ", ".join(f"{name} {100 * (share or 0.0):.0f} %" for name, share in told[:6])
    return (
        f"Part of the ranking of trials that each setting explains alone: {texts}. 0 %: no more "
        "than chance would; settings that work only together with others do not show here."
    )


def _explained(values: Sequence[Any], ranks: Sequence[float]) -> float | None:
    groups = _groups(values, ranks)
    total, number = sum(map(len, groups)), len(groups)
    if total < LEAST_TRIALS or number < 2 or total <= number:
        return None
    mean = sum(map(sum, groups)) / total
    between = sum(len(own) * (sum(own) / len(own) - mean) ** 2 for own in groups)
    spread = sum((rank - mean) ** 2 for own in groups for rank in own)
    if not spread:
        return None
    statistic = (total - 1) * between / spread
    if statistic < _by_chance(number - 1):
        return 0.0
    return min(1.0, (statistic - number + 1) / (total - number))


def _by_chance(freedom: int) -> float:
    """The value that the statistic of a setting without effect exceeds in 5 of 100 studies (chi
    squared, by Wilson and Hilferty's approximation)."""
    part = 2 / (9 * freedom)
    return float(freedom * (1 - part + 1.645 * sqrt(part)) ** 3)


def _groups(values: Sequence[Any], ranks: Sequence[float]) -> list[list[float]]:
    """Trials with the same value or, for many numbers, with values of the same quarter."""
    rows = [(value, rank) for value, rank in zip(values, ranks, strict=True) if value is not None]
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value, _ in rows):
        distinct = sorted({value for value, _ in rows})
        if len(distinct) > _BINS:
            order = _ranks([value for value, _ in rows])
            rows = [
                (int(_BINS * (place - 0.5) / len(rows)), rank)
                for place, (_, rank) in zip(order, rows, strict=True)
            ]
    rows.sort(key=lambda row: str(row[0]))
    groups = [[rank for _, rank in own] for _, own in groupby(rows, key=lambda row: str(row[0]))]
    return [own for own in groups if len(own) >= _FEWEST]


def _ranks(values: Sequence[Any]) -> list[float]:
    """From 1 on; equal values share their mean rank."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    place = 0
    for _, own in groupby(order, key=values.__getitem__):
        tied = list(own)
        for index in tied:
            ranks[index] = place + (len(tied) + 1) / 2
        place += len(tied)
    return ranks
