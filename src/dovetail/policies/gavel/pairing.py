"""Which pairs of jobs are worth a place in a program: found by prices, a few at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dovetail.policies.gavel.central import Array, Central, CentralProgram, solve
from dovetail.policies.gavel.joint import JointColumns, PairColumns
from dovetail.policies.gavel.lone import LoneColumns
from dovetail.policies.gavel.problem import AllocationProblem, RateClaim, pair_of

_GAIN: Final = 1e-9  # two that do no more together than by turns are no pair
_EACH: Final = 6  # pairs of every job to begin with
_MORE: Final = 4  # and those that are added at a time, for each job
_WORTH: Final = 1e-7  # what a pair must be worth above its price
_LOOKS: Final = 30
_LEAST: Final = 1e-6  # shares below are none


class Pairing:
    """All pairs that gain by sharing the GPUs of one, and those of them that are in the program."""

    def __init__(
        self,
        problem: AllocationProblem,
        claims: Sequence[RateClaim],
        lone: LoneColumns,
        fastest: Array,
    ) -> None:
        self._lone: Final = lone
        self.all: Final = _worthwhile(problem, claims, lone, fastest)
        self._inside = _best_of_each(self.all, lone)

    @property
    def columns(self) -> JointColumns:
        return JointColumns(self._lone, self.inside)

    @property
    def inside(self) -> PairColumns:
        return self.all.part(self._inside)

    def shares(
        self, claims: Sequence[RateClaim], found: Central, clipped: Array
    ) -> dict[str, tuple[float, ...]]:
        """By name; only of those that have a share worth a turn."""
        assert isinstance(found.columns, JointColumns)
        rows: dict[str, list[float]] = {}
        inside, own = found.columns.pairs, clipped[found.columns.width :]
        for number in np.nonzero(own > _LEAST)[0].tolist():
            first, second = int(inside.first[number]), int(inside.second[number])
            name = pair_of(claims[first].job_id, claims[second].job_id)
            row = rows.setdefault(name, [0.0] * self._lone.kinds)
            row[int(inside.kind[number])] = float(own[number])
        return {name: tuple(row) for name, row in rows.items()}

    def solve(self, program: CentralProgram, worth: Array | None, until: float) -> Central:
        """The optimum over all pairs: those that would gain at the prices found are added, until none
        would. `worth`: of every job's best rate, by kind."""
        most, solved = len(self._lone.gpus), False
        none = np.zeros((self._lone.jobs, self._lone.kinds))
        worth = none if worth is None else worth
        for _ in range(_LOOKS):
            costs = program.costs
            if costs is not None:
                costs = np.concatenate([costs, -self._worth(self.inside, worth)])
            found = solve(replace(program, columns=self.columns, costs=costs), until)
            gains = self._gains(found, worth)
            better = gains > _WORTH
            if not found.solved or not better.any():
                solved = found.solved
                break
            self._add(gains, better, _MORE * most)
        gap = max(found.gap, float(gains.max(initial=0.0)))
        return replace(found, gap=gap, solved=solved)

    def _worth(self, pairs: PairColumns, worth: Array) -> Array:
        found: Array = (
            pairs.rates[0] * worth[pairs.first, pairs.kind]
            + pairs.rates[1] * worth[pairs.second, pairs.kind]
        )
        return found

    def _gains(self, found: Central, worth: Array) -> Array:
        """Of those outside, by a unit of share."""
        y = np.concatenate([found.limits, -found.prices])
        gains = self._worth(self.all, worth) - self.all.prices(y, self._lone.jobs, self._lone.kinds)
        outside: Array = np.where(self._inside, 0.0, gains)
        return outside

    def _add(self, gains: Array, better: NDArray[np.bool_], most: int) -> None:
        if np.count_nonzero(better) > most:
            better &= gains >= np.partition(gains, -most)[-most]
        self._inside |= better


def _worthwhile(
    problem: AllocationProblem, claims: Sequence[RateClaim], lone: LoneColumns, fastest: Array
) -> PairColumns:
    """Those that do more side by side than by turns: the others are in no optimum that could not do
    without them."""
    sorts = list(dict.fromkeys(claim.sort for claim in claims))
    number = {sort: i for i, sort in enumerate(sorts)}
    own = np.array([number[claim.sort] for claim in claims])
    sides = np.zeros((2, len(sorts), len(sorts), lone.kinds))
    for (one, other), both_rates in problem.side_by_side.items():
        if one in number and other in number:
            sides[:, number[one], number[other]] = both_rates
    earlier, later = np.triu_indices(len(claims), 1)
    rates = sides[:, own[earlier], own[later]]
    rates[0] /= fastest[earlier, None]
    rates[1] /= fastest[later, None]
    alone = lone.rates[earlier], lone.rates[later]
    with np.errstate(divide="ignore", invalid="ignore"):
        both = rates[0] / alone[0] + rates[1] / alone[1]
    gain = (rates > 0.0).all(axis=0) & (both > 1.0 + _GAIN) & (lone.counts > 0.0)
    gain &= (lone.gpus[earlier] == lone.gpus[later])[:, None]
    which, kind = np.nonzero(gain)
    first, second = earlier[which], later[which]
    found = rates[0][which, kind], rates[1][which, kind]
    return PairColumns(first, second, kind, found, lone.gpus[first])


def _best_of_each(pairs: PairColumns, lone: LoneColumns) -> NDArray[np.bool_]:
    """For every job those in which both together gain most."""
    inside = np.zeros(len(pairs.first), dtype=bool)
    alone = lone.rates
    gain = pairs.rates[0] / alone[pairs.first, pairs.kind]
    gain += pairs.rates[1] / alone[pairs.second, pairs.kind]
    for job in (pairs.first, pairs.second):
        order = np.lexsort((-gain, job))
        place = np.arange(len(order)) - np.searchsorted(job[order], job[order])
        inside[order[place < _EACH]] = True
    return inside
