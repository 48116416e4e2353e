"""Means over jobs, with intervals that respect that neighbours in a queue are not independent."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

_Method: TypeAlias = Literal["closest_observation", "linear"]
_BLOCKS = 20
_DRAWS = 2000


class Blocks:
    """Stretches of consecutive jobs, resampled with replacement. The same draws serve every
    quantity, so that differences are paired."""

    def __init__(self, jobs: int, seed: int) -> None:
        number = max(1, min(_BLOCKS, jobs))
        self._edges = np.linspace(0, jobs, number + 1).astype(int)[:-1]
        self._sizes = np.diff([*self._edges, jobs])
        self._drawn = np.random.default_rng(seed).integers(number, size=(_DRAWS, number))

    def means(self, values: np.ndarray) -> np.ndarray:
        """The mean of the values (by job, along the last axis) in every draw, along the last axis."""
        sums = np.add.reduceat(values, self._edges, axis=-1)
        sizes = self._sizes[self._drawn].sum(1)
        means: np.ndarray = sums[..., self._drawn].sum(-1) / sizes
        return means

    def interval(self, values: np.ndarray) -> tuple[float, float]:
        """The 95 % interval of the mean."""
        return middle_95(self.means(values))


def middle_95(draws: np.ndarray, method: _Method = "closest_observation") -> tuple[float, float]:
    """Between which two values the middle 95 % of the draws lie."""
    low, high = np.quantile(draws, [0.025, 0.975], method=method)
    return float(low), float(high)
