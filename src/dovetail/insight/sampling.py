"""Where to look in a box of factors, and what the looks say: Morris' screening and Sobol's indices.

Points are rows between 0 and 1. Written out with numpy alone; the Sobol indices are those of Saltelli
et al. 2010, table 2 (b) and (f).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dovetail.traces.sobol import shifted_point

if TYPE_CHECKING:
    import numpy as np

_LEVELS = 4  # of Morris' grid
_DRAWS = 1000


@dataclass(frozen=True)
class Trajectories:
    """Each starts anywhere on the grid and moves one factor after the other by a fixed step."""

    points: np.ndarray  # trajectory, point, factor
    moved: np.ndarray  # trajectory, step: which factor
    step: float

    def effects(self, values: np.ndarray) -> np.ndarray:
        """By trajectory and factor: the change of the value over that of the factor."""
        import numpy as np

        numbers = np.arange(len(self.points))[:, None]
        before, after = self.points[:, :-1], self.points[:, 1:]
        change = (after - before).sum(axis=2)  # one factor moves, up or down
        effects: np.ndarray = np.empty(self.moved.shape)
        effects[numbers, self.moved] = np.diff(values, axis=1) / change
        return effects


def trajectories(factors: int, number: int, seed: int) -> Trajectories:
    import numpy as np

    chance = np.random.default_rng(seed)
    step = _LEVELS / (2.0 * (_LEVELS - 1))
    lower = np.arange(_LEVELS // 2) / (_LEVELS - 1)
    points: np.ndarray = np.empty((number, factors + 1, factors))
    moved: np.ndarray = np.empty((number, factors), int)
    for one in range(number):
        start, up = chance.choice(lower, factors), chance.random(factors) < 0.5
        point = np.where(up, start, start + step)
        moved[one] = chance.permutation(factors)
        points[one, 0] = point
        for place, factor in enumerate(moved[one]):
            point[factor] += step if up[factor] else -step
            points[one, place + 1] = point
    return Trajectories(points, moved, step)


def saltelli(factors: int, number: int, seed: int) -> np.ndarray:
    """Blocks of points: A, B, then A with one column of B, for each factor."""
    import numpy as np

    both = np.array([shifted_point(seed, own, 2 * factors) for own in range(number)])
    a, b = both[:, :factors], both[:, factors:]
    blocks = [a, b]
    for factor in range(factors):
        mixed = a.copy()
        mixed[:, factor] = b[:, factor]
        blocks.append(mixed)
    stacked: np.ndarray = np.stack(blocks)
    return stacked


@dataclass(frozen=True)
class Indices:
    """By factor, with every redrawn sample along the last axis."""

    first: np.ndarray
    total: np.ndarray
    first_draws: np.ndarray
    total_draws: np.ndarray


def indices(values: np.ndarray, seed: int) -> Indices | None:
    """From values at the points of `saltelli`, blocks along the first axis. None: nothing varies."""
    import numpy as np

    if np.ptp(values) < 1e-12:
        return None
    chance = np.random.default_rng(seed)
    number = values.shape[1]
    first, total = _indices(values)
    draws = [_indices(values[:, chance.integers(number, size=number)]) for _ in range(_DRAWS)]
    firsts, totals = (np.stack(list(column), axis=-1) for column in zip(*draws, strict=True))
    return Indices(first, total, firsts, totals)


def _indices(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    import numpy as np

    a, b, mixed = values[0], values[1], values[2:]
    both = np.concatenate([a, b])
    variance = max(float(both.var()), 1e-300)
    centre = both.mean()  # the same expectation, and far less noise
    first: np.ndarray = ((b - centre) * (mixed - a)).mean(axis=1) / variance
    total: np.ndarray = ((a - mixed) ** 2).mean(axis=1) / (2.0 * variance)
    return first, total
