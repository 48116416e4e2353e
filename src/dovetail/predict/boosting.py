"""Gradient boosting by scikit-learn, read out so that one row is answered in microseconds.

scikit-learn answers thousands of rows at a time quickly and a single one slowly; a scheduler asks for
one job at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, final

from dovetail.core.errors import BadInput

# Small trees, each from a part of the features: durations are mostly noise. Other sizes did no better.
_TREES, _LEAVES, _LEAST_IN_LEAF, _PACE, _FEATURES = 60, 6, 100, 0.05, 0.3


class _Node(NamedTuple):
    feature: int  # -1: a leaf
    threshold: float
    missing_left: bool
    left: int
    right: int
    value: float


@final
class Trees:
    """A fitted model: the sum of what each tree says."""

    def __init__(self, base: float, trees: Sequence[Sequence[_Node]]) -> None:
        self._base: Final = base
        self._trees: Final = trees

    def of(self, row: Sequence[float]) -> float:
        total = self._base
        for nodes in self._trees:
            feature, threshold, missing_left, left, right, value = nodes[0]
            while feature >= 0:
                number = row[feature]
                goes_left = missing_left if number != number else number <= threshold
                feature, threshold, missing_left, left, right, value = nodes[
                    left if goes_left else right
                ]
            total += value
        return total


def missing() -> str:
    """How to get scikit-learn where it is not; "": it is."""
    try:
        import sklearn.ensemble  # noqa: F401
        import threadpoolctl  # noqa: F401
    except ImportError:
        return (
            "the predictors boosted and mixture need scikit-learn; pip install 'dovetail[predict]', "
            "or take recent-mean, which needs nothing"
        )
    return ""


def fitted(
    rows: Sequence[Sequence[float]], targets: Sequence[float], quantile: float | None
) -> Trees:
    """Trees for that quantile of the targets; None: for their mean."""
    if missing():
        raise BadInput(missing())
    import numpy as np
    from sklearn.ensemble import HistGradientBoostingRegressor
    from threadpoolctl import threadpool_limits

    model = HistGradientBoostingRegressor(
        loss="squared_error" if quantile is None else "quantile",
        quantile=quantile,
        max_iter=_TREES,
        learning_rate=_PACE,
        max_leaf_nodes=_LEAVES,
        min_samples_leaf=min(_LEAST_IN_LEAF, max(len(rows) // 10, 5)),
        max_features=_FEATURES,
        early_stopping=False,
        random_state=0,
    )
    table = np.array(rows, float)
    table[:, np.isnan(table).all(axis=0)] = 0.0  # scikit-learn cannot sort what is never known
    with threadpool_limits(1):  # a scheduler has one core; more threads than cores cost a lot
        model.fit(table, np.array(targets, float))
    return _read_out(model)


def _read_out(model: Any) -> Trees:
    """Not in scikit-learn's public face; a test holds this against its own predictions."""
    trees = []
    for (tree,) in model._predictors:
        nodes = tree.nodes
        columns = [
            nodes[name].tolist()
            for name in ("feature_idx", "num_threshold", "missing_go_to_left", "left", "right", "value")
        ]  # fmt: skip
        leaves = nodes["is_leaf"].tolist()
        trees.append(
            [
                _Node(-1 if leaf else feature, threshold, bool(missing), left, right, value)
                for leaf, feature, threshold, missing, left, right, value in zip(
                    leaves, *columns, strict=True
                )
            ]
        )
    return Trees(float(model._baseline_prediction.ravel()[0]), trees)
