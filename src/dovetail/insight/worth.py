"""The joint results of simulations on the same jobs: outcomes, worths, noise, where it stops paying."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import TypeAlias

import numpy as np

from dovetail.insight.blocks import Blocks, middle_95
from dovetail.insight.shapley import coalitions, shapley

ArmKey: TypeAlias = tuple[str, object, int]  # kind, value, draw
FIFO, NOTHING, ALL, ORACLE = "fifo", "nothing known", "all known", "oracle"
AS_IT_IS, NOISY, SHUFFLED = "as it is", "noisy", "shuffled"
SIGMAS = (0.0, 0.25, 0.5, 1.0, 2.0)
_SAME = 1e-6  # seconds; smaller differences are rounding


@dataclass(frozen=True)
class Worth:
    """The part of the mean completion time that a group of features saves, with a 95 % interval."""

    group: str
    seconds: float
    low: float
    high: float


@dataclass(frozen=True)
class MeanJct:
    """The mean completion time under one policy, with a 95 % interval."""

    name: str
    mean_jct_s: float
    low: float
    high: float


@dataclass(frozen=True)
class Noise:
    """The mean completion time when durations are believed with lognormal errors, with a 95 %
    interval."""

    sigma: float
    mean_jct_s: float
    low: float
    high: float


@dataclass(frozen=True)
class Shuffled:
    """One column shuffled over the jobs: the mean completion time relative to the unchanged trace."""

    column: str
    ratio: float
    low: float
    high: float


@dataclass(frozen=True)
class DecisionWorth:
    policy: str  # the policy that needs durations
    unaware: str  # the policy that needs none
    jobs: int  # simulated
    groups: tuple[str, ...]
    outcomes: tuple[MeanJct, ...]  # "fifo", unaware, "nothing known", "all known", "oracle"
    ablation: tuple[Worth, ...]  # all known, except this group, trained again
    shapley: tuple[Worth, ...]  # they add up to "nothing known" less "all known"
    noise: tuple[Noise, ...]
    stops_paying_at: float | None  # sigma from which the unaware policy is better; None: never seen
    stops_paying_between: tuple[float | None, float | None]  # its 95 % interval
    shuffled: tuple[Shuffled, ...]
    not_measured: tuple[str, ...]


@dataclass(frozen=True)
class Measured:
    """Completion times by job: of every arm, and of every coalition of the groups."""

    policy: str
    unaware: str
    groups: tuple[str, ...]
    arms: Mapping[ArmKey, np.ndarray]
    known: Sequence[np.ndarray]
    seed: int
    notes: Sequence[str] = field(default=())

    def decision(self) -> DecisionWorth:
        notes = list(self.notes)
        if not self._finished.any():
            notes.insert(0, "what knowledge is worth: no job could run on this cluster")
            where = (None, (None, None))
            return DecisionWorth(
                *(self.policy, self.unaware, 0, self.groups, (), (), (), ()), *where, (), (*notes,)
            )
        stops, between = self._stops_paying()
        if self._nobody_waits():
            stops, between = None, (None, None)
            notes.insert(0, "what knowledge is worth: hardly a job waits, so any order will do")
        return DecisionWorth(
            self.policy,
            self.unaware,
            len(self._finished),
            self.groups,
            tuple(self._outcomes()),
            tuple(self._ablation()),
            tuple(self._shapley()),
            tuple(Noise(sigma, *self._spread(self._noise(sigma))) for sigma in SIGMAS),
            stops,
            between,
            tuple(self._shuffled()),
            tuple(notes),
        )

    @cached_property
    def _finished(self) -> np.ndarray:
        """Jobs that finish in every arm: only those can be compared."""
        same = [times for (what, _, _), times in self.arms.items() if what != SHUFFLED]
        everywhere: np.ndarray = ~np.isnan(np.stack([*same, *self.known])).any(axis=0)
        return everywhere

    @cached_property
    def _blocks(self) -> Blocks:
        return Blocks(int(self._finished.sum()), self.seed)

    def _of(self, *key: object) -> np.ndarray:
        times: np.ndarray = self.arms[key][self._finished]  # type: ignore[index]
        return times

    def _spread(self, values: np.ndarray) -> tuple[float, float, float]:
        return (float(values.mean()), *self._blocks.interval(values))

    def _noise(self, sigma: float) -> np.ndarray:
        """By job, the mean over the draws."""
        draws = [key for key in self.arms if key[0] == NOISY and key[1] == sigma]
        mean: np.ndarray = np.mean([self._of(*key) for key in draws], axis=0)
        return mean

    def _nobody_waits(self) -> bool:
        gain = self._of(FIFO, "", 0).mean() - self._noise(0.0).mean()
        return bool(abs(gain) < _SAME)

    def _outcomes(self) -> list[MeanJct]:
        rows = {FIFO: self._of(FIFO, "", 0), self.unaware: self._of(self.unaware, "", 0)}
        if len(self.known):
            rows[NOTHING] = self.known[0][self._finished]
            rows[ALL] = self.known[-1][self._finished]
        rows[ORACLE] = self._noise(0.0)
        return [MeanJct(name, *self._spread(times)) for name, times in rows.items()]

    def _ablation(self) -> list[Worth]:
        """The rise of the mean when one group is removed and the others must replace it."""
        every = coalitions(self.groups) if len(self.known) else []
        full = frozenset(self.groups)
        rows = []
        for group in self.groups if every else ():
            lost = self.known[every.index(full - {group})] - self.known[-1]
            rows.append(Worth(group, *self._spread(lost[self._finished])))
        return sorted(rows, key=lambda row: -row.seconds)

    def _shapley(self) -> list[Worth]:
        """Linear in the completion times, so it is computed job by job."""
        if not len(self.known):
            return []
        worth = -np.stack(self.known)[:, self._finished]  # less time is more worth
        shares = shapley(self.groups, worth.mean(axis=1))
        by_job = shapley(self.groups, worth)
        rows = [
            Worth(group, float(share), *self._blocks.interval(own))
            for group, share, own in zip(self.groups, shares, by_job, strict=True)
        ]
        return sorted(rows, key=lambda row: -row.seconds)

    def _stops_paying(self) -> tuple[float | None, tuple[float | None, float | None]]:
        curves = np.stack([self._noise(sigma) for sigma in SIGMAS])
        rival = self._of(self.unaware, "", 0)
        drawn = self._blocks.means(curves - rival)
        low, high = middle_95(np.array([_crossing(list(gaps)) for gaps in drawn.T]))
        at = _crossing([float(gap) for gap in (curves - rival).mean(axis=1)])
        return _seen(at), (_seen(low), _seen(high))

    def _shuffled(self) -> list[Shuffled]:
        columns = dict.fromkeys(key[1] for key in self.arms if key[0] == SHUFFLED)
        base = _filled(self.arms[AS_IT_IS, "", 0])
        blocks = Blocks(len(base), self.seed)
        rows = []
        for column in columns:
            draws = [_filled(t) for key, t in self.arms.items() if key[:2] == (SHUFFLED, column)]
            usual = blocks.means(base)
            drawn = np.concatenate([blocks.means(t)[usual > 0] / usual[usual > 0] for t in draws])
            if len(drawn):  # else all durations are 0, and so are all completion times
                ratio = float(np.mean([t.mean() for t in draws]) / base.mean())
                rows.append(Shuffled(str(column), ratio, *middle_95(drawn)))
        return sorted(rows, key=lambda row: -abs(row.ratio - 1.0))


def _crossing(gaps: Sequence[float]) -> float:
    """The sigma at which predictions are no better any more (gap 0); infinite if not seen."""
    for number, gap in enumerate(gaps):
        if gap >= 0:
            if number == 0:
                return SIGMAS[0]
            before, low, high = gaps[number - 1], SIGMAS[number - 1], SIGMAS[number]
            return low + (high - low) * -before / (gap - before)
    return inf


def _seen(sigma: float) -> float | None:
    return sigma if sigma < inf else None


def _filled(times: np.ndarray) -> np.ndarray:
    """Jobs that did not finish count as the mean of the others."""
    there = ~np.isnan(times)
    mean = times[there].mean() if there.any() else 1.0
    filled: np.ndarray = np.where(there, times, mean)
    return filled
