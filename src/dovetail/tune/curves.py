"""The learning curves of a study as arrays, brought up to date step by step."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, inf, isfinite, log
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dovetail.tune.study import Trial

Numbers: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.intp]
Truths: TypeAlias = NDArray[np.bool_]


# the parts of all its steps at which a trial is called young
_YOUNG: Final = (4 / 52, 8 / 52, 16 / 52)
_APART: Final = 3.0  # two trials drawn at random out of many are a third of all ranks apart
_ENOUGH: Final = 64  # trials that are enough to tell whether they keep their order
_CREDIT: Final = 2.0  # pairs assumed to have kept their order before any pair is known


class Curves:
    """One row per trial. Figures of a trial's own curve are computed when it has made a step;
    figures that compare it with the others are computed when they are asked for."""

    def __init__(self, steps: int) -> None:
        self.steps: Final = steps
        self.ages: NDArray[np.intp] = np.zeros(0, np.intp)
        self._ages = np.arange(1.0, steps + 1)
        self._logs = np.log(self._ages)
        self._room(0)

    def _room(self, rows: int) -> None:
        self.lowest = np.full((rows, self.steps), inf)  # up to each age; infinite: not reached
        # [i, j]: j is lower at the age that both have reached
        self.above: Truths = np.zeros((rows, rows), np.bool_)
        # by trial: the number of trials that are lower
        self.beaten: Indices = np.zeros(rows, np.intp)
        # at each age: the lowest loss of all trials, and the second lowest
        self.leaders = np.full((2, self.steps), inf)
        # has made at least two steps, not all of them diverged
        self.grown: Truths = np.zeros(rows, np.bool_)
        self.concordant = (
            0  # pairs of those that first losses rank as the lowest so far do, less others
        )
        self.told = np.zeros((rows, self.steps))  # the losses as reported
        # pairs that a step left in their order, less the others; all pairs
        self.agreeing, self.pairs = 0, 0
        self.first = np.zeros(rows)
        self.last = np.full(rows, inf)  # the lowest loss so far
        self.latest = np.zeros(rows)  # the last loss reported
        self.projected = np.zeros(rows)  # where the lowest loss is projected to end
        self.tendency = np.zeros(rows)  # where the reported losses tend
        self.slope = np.zeros(rows)  # of the losses in the second half of its steps, over that half
        self.rises = np.zeros(rows)  # the share of steps in that half whose loss rose
        self.halved = np.zeros(rows)  # the fall of the lowest loss in that half
        self.bend = np.zeros(rows)  # the fall in the last step less the fall in the step before
        self.stalled = np.zeros(rows)  # steps since the last improvement

    def follow(self, trials: Sequence[Trial]) -> bool:
        """Take in new steps; True if there were any."""
        news = len(trials) != len(self.ages)
        if news:  # rare: start again with room for all trials
            self.ages = np.zeros(len(trials), np.intp)
            self._room(len(trials))
        for row, (known, trial) in enumerate(zip(self.ages.tolist(), trials, strict=True)):
            made = min(len(trial.losses), self.steps)
            if made > known:
                for age in range(known + 1, made + 1):
                    self.told[row, age - 1] = trial.losses[age - 1]
                    self._compare(row, age, trial.best)
                self._describe(row, trial.best[:made], trial.losses[:made])
                news = True
        return news

    def _compare(self, row: int, age: int, best: Sequence[float]) -> None:
        """Compare with all trials that have reached this age; trials behind it are not affected."""
        loss = best[age - 1]
        improved = age > 1 and loss < best[age - 2]
        self.stalled[row] = 0 if improved or age == 1 else self.stalled[row] + 1
        self.lowest[row, age - 1] = loss
        self.ages[row] = age
        others = (self.ages >= age).nonzero()[0]
        there = self.lowest[others, age - 1]
        self._stand(row, others, there < loss, there > loss)
        self.leaders[:, age - 1] = sorted((*self.leaders[:, age - 1].tolist(), loss))[:2]
        if age > 2:
            self._agree(row, age, others)

    def _stand(self, row: int, others: Indices, lower: Truths, higher: Truths) -> None:
        self.beaten[others] += higher.astype(np.intp) - self.above[others, row]
        self.above[others, row] = higher
        self.above[row, others] = lower
        self.beaten[row] = np.count_nonzero(self.above[row])

    def _agree(self, row: int, age: int, others: Indices) -> None:
        """Count the pairs that are in the same order as one step before."""
        before = _order(float(self.told[row, age - 2]), self.told[others, age - 2])
        now = _order(float(self.told[row, age - 1]), self.told[others, age - 1])
        self.agreeing += int(before @ now)
        self.pairs += int((before | now).astype(np.bool_).sum())

    @property
    def steadiness(self) -> float:
        """Kendall's tau of the losses from one step to the next, shrunk towards 1 while few pairs
        are known; about 0 where only noise tells the trials apart."""
        return (self.agreeing + 10) / (self.pairs + 10)

    @property
    def all_alike(self) -> bool:
        """Several trials were seen and none was lower than another at the same age."""
        return int(np.count_nonzero(self.ages)) > 1 and not self.beaten.any()

    @property
    def concord(self) -> float:
        """Do first losses rank the trials as their lowest losses do? Kendall's tau, shrunk towards
        0 while few pairs are known."""
        grown = int(np.count_nonzero(self.grown))
        return self.concordant / (grown * (grown - 1) / 2 + 10)

    def _concordant(self, row: int) -> int:
        if not self.grown[row]:
            return 0
        first, last = self.first[self.grown], self.last[self.grown]
        return int(_order(float(self.first[row]), first) @ _order(float(self.last[row]), last))

    @property
    def constancy(self) -> float:
        """Do trials keep the order they had when young? 1 if they do, -1 if the order is reversed.
        The lower of two figures, one for trials that are half way and one for trials that are done:
        slow starters show half way, late overtakers only at the end."""
        return min(self._order_kept(self.steps // 2), self._order_kept(self.steps))

    def _order_kept(self, until: int) -> float:
        """The same figure for trials that have come at least this far. Pairs that were close to
        each other count less; shrunk towards 1 as by `_CREDIT` pairs."""
        far = (self.ages >= until).nonzero()[0]
        if len(far) < 2 or self.steps < 2:  # a trial of one step was never young
            return 1.0
        far = far[:: ceil(len(far) / _ENOUGH)]
        lower = self.above[np.ix_(far, far)].astype(np.float64)
        kept, told = _CREDIT, _CREDIT
        for share in _YOUNG:
            young = self.lowest[:, max(1, round(share * self.steps) - 1)]
            known = np.sort(young[young < inf])
            place = np.searchsorted(known, young[far]) / max(len(known) - 1, 1)
            apart = np.clip(_APART * np.subtract.outer(place, place), -1, 1)
            kept += float((apart * (lower - lower.T)).sum()) / 2 / len(_YOUNG)
            told += float(np.abs(apart).sum()) / 2 / len(_YOUNG)
        return kept / told

    def _describe(self, row: int, best: list[float], losses: list[float]) -> None:
        if not isfinite(best[-1]):
            return
        best, losses = _finite(best), _finite(losses)
        age, last = len(best), best[-1]
        half = age // 2
        before = self._concordant(row)
        self.first[row] = best[0]
        self.last[row] = last
        self.grown[row] = age >= 2
        self.concordant += self._concordant(row) - before
        self.latest[row] = losses[-1]
        self.projected[row] = projected(best, self.steps)
        self.halved[row] = best[max(half, 1) - 1] - last
        self.bend[row] = 2 * best[max(age - 2, 0)] - last - best[max(age - 3, 0)]
        told = np.array(losses)
        self.tendency[row] = self._tendency(told)
        if age >= 2:
            later = told[max(half, 1) - 1 :]
            self.rises[row] = np.count_nonzero(later[1:] > later[:-1]) / (len(later) - 1)
        if age >= 3:
            self.slope[row] = _slope(self._ages[half:age], told[half:]) * (age - half)

    def _tendency(self, losses: Numbers) -> float:
        """The line through the second half of the losses over the logarithm of age, followed half
        of the way to the end: all of the way promises too much."""
        age = len(losses)
        if age < 2:
            return float(losses[-1])
        since = min(age - 2, age // 2)
        logs = self._logs[since:age]
        slope = _slope(logs, losses[since:])
        ahead = logs[-1] - logs.sum() / len(logs) + log(self.steps / age) / 2
        return float(losses[since:].sum() / len(logs)) + slope * float(ahead)


def projected(best: Sequence[float], steps: int) -> float:
    """The end of a curve of lowest losses that goes on as a hyperbola c + k / age.

    The fall over the last quarter of its steps sets the pace.
    """
    age = len(best)
    if age < 2:
        return best[-1]
    window = max(1, age // 4)
    fall = best[-1 - window] - best[-1]
    return best[-1] - fall * (1 - age / steps) * (age - window) / window


def _order(loss: float, others: Numbers) -> Indices:
    """1 where the value is higher, -1 where it is lower."""
    return np.subtract(loss > others, loss < others, dtype=np.intp)


def _slope(at: Numbers, values: Numbers) -> float:
    centred = at - at.sum() / len(at)
    return float(centred @ values / (centred @ centred))


def _finite(losses: list[float]) -> list[float]:
    """The losses, with the worst finite one in place of values that are not finite."""
    if all(map(isfinite, losses)):
        return losses
    worst = max(loss for loss in losses if isfinite(loss))
    return [loss if isfinite(loss) else worst for loss in losses]
