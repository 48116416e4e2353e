"""Points in a box of factors and their evaluation: Morris' screening and Sobol's indices.

Points are rows between 0 and 1. SciPy estimates the Sobol indices and resamples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np

from dovetail.sobol import shifted_point

_LEVELS = 4  # of Morris' grid
_DRAWS = 999
_MAY_LEAD = 0.05  # of the resamples
MISSING = (
    "how much of the gain's variance each factor explains: SciPy is not installed; "
    "pip install 'dovetail[predict]'"
)


def can_estimate() -> bool:
    return find_spec("scipy") is not None


@dataclass(frozen=True)
class Trajectories:
    """Each starts at a random point of the grid and moves one factor after the other by a fixed step."""

    points: np.ndarray  # trajectory, point, factor
    moved: np.ndarray  # trajectory, step: which factor
    step: float

    def effects(self, values: np.ndarray) -> np.ndarray:
        """By trajectory and factor: the change of the value over the change of the factor."""
        numbers = np.arange(len(self.points))[:, None]
        before, after = self.points[:, :-1], self.points[:, 1:]
        change = (after - before).sum(axis=2)  # one factor moves, up or down
        effects: np.ndarray = np.empty(self.moved.shape)
        effects[numbers, self.moved] = np.diff(values, axis=1) / change
        return effects


def trajectories(factors: int, number: int, seed: int) -> Trajectories:
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
    """By factor, with every resample along the last axis. No first index is above its total: where
    chance put it there, both are replaced by their joint estimate."""

    first: np.ndarray
    total: np.ndarray
    first_draws: np.ndarray
    total_draws: np.ndarray


def indices(values: np.ndarray, seed: int) -> Indices | None:
    """From values at the points of `saltelli`, blocks along the first axis. None: no variance."""
    from scipy.stats import bootstrap

    if np.ptp(values) < 1e-12:
        return None
    columns = np.arange(values.shape[1])
    drawn = bootstrap(
        (columns,),
        lambda chosen: _estimated(values[:, chosen]),
        n_resamples=_DRAWS,
        vectorized=False,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).bootstrap_distribution
    first, total = _estimated(values)
    spread = drawn.std(axis=-1)
    first, total = _ordered(first, total, spread)
    firsts, totals = _ordered(drawn[0], drawn[1], spread[:, :, None])
    return Indices(first, total, firsts, totals)


def _estimated(values: np.ndarray) -> np.ndarray:
    """First and total indices, by factor."""
    from scipy.stats import sobol_indices

    a, b, mixed = values[0], values[1], values[2:]
    blocks = {"f_A": a[None], "f_B": b[None], "f_AB": mixed[:, None]}
    found = sobol_indices(func=blocks, n=len(a))
    both: np.ndarray = np.stack([found.first_order, found.total_order])
    return both


def _ordered(
    first: np.ndarray, total: np.ndarray, spread: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A first index is at most the total. Two estimates that contradict this are replaced by their
    weighted mean, the more precise one weighing more: the nearest possible pair."""
    weight = 1.0 / np.maximum(spread, 1e-12) ** 2
    both = (weight[0] * first + weight[1] * total) / (weight[0] + weight[1])
    turned = first > total
    return np.where(turned, both, first), np.where(turned, both, total)


def whole_power_of_two(values: np.ndarray) -> np.ndarray:
    """SciPy's estimator requires it: missing columns repeat the first ones."""
    wanted = 1 << (values.shape[1] - 1).bit_length()
    repeated: np.ndarray = values[:, np.arange(wanted) % values.shape[1]]
    return repeated


def leading(names: Sequence[str], draws: np.ndarray) -> tuple[str, ...]:
    """The factors that come first in the resamples (along the last axis), most often first; a
    single name: beyond chance."""
    often = np.bincount(draws.argmax(axis=0), minlength=len(names)) / draws.shape[-1]
    order = np.argsort(-often, kind="stable")
    return tuple(names[place] for place in order if often[place] > _MAY_LEAD)
