"""The effect of one feature alone on a prediction, read from an additive model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dovetail.insight.features import HISTORY, Features
from dovetail.insight.learners import ADDITIVE, learned, matrix, one_thread
from dovetail.insight.period_tasks import Round

_POINTS = 9
_SAMPLE = 500


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
