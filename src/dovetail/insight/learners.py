"""Models that learn log(1 + duration) from columns: boosted trees, and an interpretable additive one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import Any

import numpy as np

from dovetail.insight.features import RECENT, Features

BOOSTED, ADDITIVE, GROUP_MEAN = "boosted", "additive", "group mean"
MISSING = (
    "what boosted trees predict: scikit-learn is not installed; pip install 'dovetail[predict]'"
)
# In a full measurement, and in a quick one.
_MOST_ROWS = (30_000, 10_000)  # to learn from, the newest
_TREES, _LEAVES, _RATE = (100, 50), (31, 15), (0.05, 0.1)


def can_boost() -> bool:
    return find_spec("sklearn") is not None


def matrix(features: Features, names: Sequence[str], rows: np.ndarray) -> np.ndarray:
    if not names:
        return np.zeros((len(rows), 1))  # no feature known: one constant column
    known: np.ndarray = np.column_stack([features.columns[name][rows] for name in names])
    return known


def learned(
    model: str, features: Features, names: Sequence[str], rows: np.ndarray, quick: bool
) -> Any:
    """The model trained on those rows. The same input gives the same model."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    rows = rows[-_MOST_ROWS[quick] :]
    regressor = HistGradientBoostingRegressor(
        max_iter=_TREES[quick],
        max_leaf_nodes=_LEAVES[quick],
        learning_rate=_RATE[quick],
        min_samples_leaf=max(1, min(40, len(rows) // 20)),
        categorical_features=[name in features.categorical for name in names] or None,
        interaction_cst="no_interactions" if model == ADDITIVE else None,
        early_stopping=False,
        random_state=0,
    )
    with one_thread():
        target = np.log1p(features.duration[rows])
        return regressor.fit(matrix(features, names, rows), target)


def one_thread() -> AbstractContextManager[Any]:
    """The tasks already keep every core busy; more threads would only compete."""
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[Any] = threadpool_limits(1)
    return limits


def group_mean(features: Features, rows: np.ndarray) -> np.ndarray:
    """The mean of jobs of the same name before, else of the same user, tenant, size, else all."""
    best = np.full(len(rows), np.nan)
    for group in ("name", "user", "tenant", "size", "recent jobs"):
        column = features.columns.get(f"{group}: {RECENT}")
        if column is not None:
            best = np.where(np.isnan(best), column[rows], best)
    filled: np.ndarray = np.nan_to_num(best, nan=float(np.log1p(3600.0)))
    return filled
