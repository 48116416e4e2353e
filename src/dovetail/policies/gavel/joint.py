"""Shares of jobs alone and of pairs: a pair joins two jobs, so all are solved together."""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from dovetail.policies.gavel.central import Array
from dovetail.policies.gavel.lone import LoneColumns

Indices = NDArray[np.intp]
_FIRM: Final = 1e-13  # is added to the diagonal, in proportion, so that rounding leaves it positive


class PairColumns(NamedTuple):
    """Pairs on one kind each: the numbers of their jobs, and the rates of both, scaled as alone."""

    first: Indices
    second: Indices
    kind: Indices
    rates: tuple[Array, Array]
    gpus: Array

    def part(self, which: NDArray[np.bool_]) -> PairColumns:
        """Those of them."""
        rates = self.rates[0][which], self.rates[1][which]
        where = self.first[which], self.second[which], self.kind[which]
        return PairColumns(*where, rates, self.gpus[which])

    def prices(self, y: Array, jobs: int, kinds: int) -> Array:
        """What these prices of the constraints come to in every column."""
        own, cap, fair = y[:jobs], y[jobs : jobs + kinds], y[jobs + kinds :]
        found: Array = own[self.first] + own[self.second] + self.gpus * cap[self.kind]
        found += self.rates[0] * fair[self.first] + self.rates[1] * fair[self.second]
        return found


class JointColumns:
    """The columns of jobs alone, then those of pairs."""

    def __init__(self, lone: LoneColumns, pairs: PairColumns) -> None:
        self.lone: Final = lone
        self.pairs: Final = pairs
        self.jobs: Final = lone.jobs
        self.counts: Final = lone.counts
        self.width: Final = len(lone.able)
        self.able: Final = np.concatenate([lone.able, np.ones(len(pairs.first))])
        self.entries: Final = _Entries(lone, pairs)

    def begin(self) -> Array:
        """Pairs have a small part beside the others, which leave room for it."""
        jobs, pairs = self.jobs, self.pairs
        times = np.bincount(pairs.first, minlength=jobs) + np.bincount(pairs.second, minlength=jobs)
        on_kind = np.bincount(pairs.kind, pairs.gpus, minlength=len(self.counts))
        part = 0.25 / np.maximum(times[pairs.first], times[pairs.second])
        room = 0.25 * self.counts / np.maximum(on_kind, 1e-300)
        return np.concatenate([0.5 * self.lone.begin(), np.minimum(part, room[pairs.kind])])

    def sums(self, x: Array) -> Array:
        alone, own = x[: self.width], x[self.width :]
        pairs, jobs, kinds = self.pairs, self.jobs, len(self.counts)
        found = self.lone.sums(alone)
        found[:jobs] += np.bincount(pairs.first, own, jobs) + np.bincount(pairs.second, own, jobs)
        found[jobs : jobs + kinds] += np.bincount(pairs.kind, own * pairs.gpus, kinds)
        found[jobs + kinds :] += np.bincount(pairs.first, own * pairs.rates[0], jobs)
        found[jobs + kinds :] += np.bincount(pairs.second, own * pairs.rates[1], jobs)
        return found

    def prices(self, y: Array) -> Array:
        pairs = self.pairs.prices(y, self.jobs, len(self.counts))
        return np.concatenate([self.lone.prices(y), pairs])

    def system(
        self, d: Array, ratio: Array, slopes: Array, bend: float, moves: bool
    ) -> JointSystem:
        return JointSystem(self, d, ratio, slopes, bend, moves)


class _Entries:
    """Where the columns stand in the system, once for all steps: every column is a short list of
    constraints (jobs' times, a kind, jobs' needs), and adds to all of its pairs of them."""

    def __init__(self, lone: LoneColumns, pairs: PairColumns) -> None:
        jobs, kinds = lone.jobs, lone.kinds
        self.size: Final = 2 * jobs + kinds
        job, kind = np.repeat(np.arange(jobs), kinds), np.tile(np.arange(kinds), jobs)
        self.alone: Final = (job, jobs + kind, jobs + kinds + job)
        self.own: Final = job
        self.both: Final = (
            pairs.first,
            pairs.second,
            jobs + pairs.kind,
            jobs + kinds + pairs.first,
            jobs + kinds + pairs.second,
        )
        self.where: Final = np.concatenate(
            [self._crossings(self.alone), self._crossings(self.both)]
        )

    def _crossings(self, rows: tuple[Indices, ...]) -> Indices:
        pairs = combinations_with_replacement(rows, 2)
        return np.concatenate([one * self.size + other for one, other in pairs])


def _weights(values: tuple[Array, ...], d: Array) -> Array:
    return np.concatenate(
        [one * other * d for one, other in combinations_with_replacement(values, 2)]
    )


class JointSystem:
    """The whole system as one matrix. Needs are taken about the mean rate, as in `lone`."""

    def __init__(
        self,
        columns: JointColumns,
        d: Array,
        ratio: Array,
        slopes: Array,
        bend: float,
        moves: bool,
    ) -> None:
        self._columns, self._moves = columns, moves
        entries, pairs, lone = columns.entries, columns.pairs, columns.lone
        jobs, size = columns.jobs, entries.size
        needs = self._needs = size - jobs
        alone, own = d[: columns.width], d[columns.width :]
        self._mean = mean = _mean_rates(columns, alone, own)
        about = lone.rates.ravel() - mean[entries.own]
        gpus = lone.gpus[entries.own]
        beside = pairs.rates[0] - mean[pairs.first], pairs.rates[1] - mean[pairs.second]
        ones, each = np.ones(len(alone)), np.ones(len(own))
        weights = np.concatenate(
            [
                _weights((ones, gpus, about), alone),
                _weights((each, each, pairs.gpus, *beside), own),
            ]
        )
        # Every crossing stands above the diagonal, which is all that is read of the matrix.
        sums: Array = np.bincount(entries.where, weights, size * size).astype(float, copy=False)
        matrix = sums.reshape(size, size)
        diagonal: Array = matrix.ravel()[:: size + 1]
        diagonal += ratio
        diagonal[needs:] += mean * mean * ratio[:jobs]
        cross = np.arange(jobs)
        matrix[cross, needs + cross] -= mean * ratio[:jobs]
        diagonal *= 1.0 + _FIRM
        if not np.isfinite(diagonal).all():
            raise np.linalg.LinAlgError("no number")
        self._factor = cho_factor(matrix.T, lower=True, overwrite_a=True, check_finite=False)
        self._along = np.zeros(size)
        self._along[needs:] = slopes
        self._moved = cho_solve(self._factor, self._along, check_finite=False) if moves else None
        self._bend = bend

    def solve(self, right: Array, last: float) -> tuple[Array, Array, float]:
        jobs, needs = self._columns.jobs, self._needs
        known = right.copy()
        known[needs:] -= self._mean * right[:jobs]
        y, dt = cho_solve(self._factor, known, check_finite=False), 0.0
        if self._moved is not None:
            dt = (last - float(self._along @ y)) / (float(self._along @ self._moved) + self._bend)
            y += dt * self._moved
        y[:jobs] -= self._mean * y[needs:]
        return self._columns.prices(y), y, dt


def _mean_rates(columns: JointColumns, alone: Array, own: Array) -> Array:
    lone, pairs, jobs = columns.lone, columns.pairs, columns.jobs
    d = alone.reshape(lone.rates.shape)
    time, steps = d.sum(axis=1), (lone.rates * d).sum(axis=1)
    for job, rates in zip((pairs.first, pairs.second), pairs.rates, strict=True):
        time += np.bincount(job, own, jobs)
        steps += np.bincount(job, own * rates, jobs)
    found: Array = steps / time
    return found
