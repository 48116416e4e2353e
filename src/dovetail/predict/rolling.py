"""How good predictors are on a trace, rolled through it as it happened.

Every job is predicted at its submission from what had ended by then; a job is taken to start at once,
so that what is measured does not depend on a scheduler. Weeks are counted from the first submission.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dovetail.core.model import Seconds
from dovetail.models.workload import Arrival
from dovetail.predict.boosting import missing
from dovetail.predict.learner import (
    BOOSTED,
    HISTORY_MEAN,
    LEVEL,
    MIXTURE,
    RECENT_MEAN,
    Learner,
)
from dovetail.predict.memory import JobMemory

Numbers: TypeAlias = NDArray[np.float64]
Said: TypeAlias = Mapping[str, Numbers]  # by predictor: a row of low, middle, high for each job

WEEK_S = 604_800.0
_DAY_S = 86_400.0
_PARTNERS = 20  # that each job is compared with
_RESAMPLES = 1_000
_FEWEST_DAYS = 5  # for an interval by resampling


@dataclass(frozen=True)
class Week:
    """One week's jobs; figures by the name of the predictor."""

    number: int  # 1 is the first
    jobs: int
    order: Mapping[str, float]  # the share of pairs of this week's jobs put in the right order
    error: Mapping[str, float]  # median of |log(predicted / true)|
    coverage: Mapping[str, float]  # the share of jobs that ended within the interval
    width: Mapping[str, float]  # median of high / low


@dataclass(frozen=True)
class Gain:
    """How much more of the pairs one predictor orders rightly than another, on the same pairs."""

    of: str
    over: str
    mean: float
    low: float  # 95 % interval, by resampling days
    high: float


@dataclass(frozen=True)
class Rolling:
    """All weeks together, and each. `history-mean` is the mean of the group (Helios' rule); the
    parts of the mixture are `recent-mean` and `boosted`."""

    level: float  # what the intervals promise to cover
    whole: Week | None  # all weeks as one; its number is 0
    weeks: tuple[Week, ...]
    gains: tuple[Gain, ...]  # of the mixture over each of the others
    not_measured: tuple[str, ...]  # what could not be measured, and why


def evaluate(
    arrivals: Sequence[Arrival],
    *,
    first_week: int = 3,
    seed: int = 0,
    progress: Callable[[int], object] | None = None,
) -> Rolling:
    """From that week on, which the weeks before it teach; `progress` is told jobs done so far."""
    without = missing()
    ways = (HISTORY_MEAN, RECENT_MEAN) if without else (HISTORY_MEAN, RECENT_MEAN, BOOSTED, MIXTURE)
    if not arrivals:
        return Rolling(LEVEL, None, (), (), ("the trace has no jobs",))
    arrivals = sorted(arrivals, key=lambda arrival: arrival.at)
    since = np.array([arrival.at - arrivals[0].at for arrival in arrivals])
    first = int(np.searchsorted(since, (first_week - 1) * WEEK_S))
    truth = np.log1p(np.array([arrival.work_s for arrival in arrivals[first:]]))
    since = since[first:]
    reasons = [without] if without else []
    if not len(since):
        return Rolling(LEVEL, None, (), (), (*reasons, _too_short(first_week)))
    judged = _Judged(since, truth, _said(arrivals, ways, first, progress), seed)
    days = np.unique(judged.days)
    if len(days) < _FEWEST_DAYS:
        reasons.append(f"paired intervals: {len(days)} days with jobs, {_FEWEST_DAYS} are needed")
    if not judged.pairs:
        reasons.append("order: no two jobs of a week differ in duration")
    compared = not without and len(days) >= _FEWEST_DAYS and judged.pairs
    return Rolling(
        LEVEL,
        judged.week(0),
        tuple(judged.week(int(number)) for number in np.unique(judged.weeks)),
        tuple(judged.gain(MIXTURE, way) for way in ways if way != MIXTURE) if compared else (),
        tuple(reasons),
    )


def kept(fifo_s: Seconds, predicted_s: Seconds, oracle_s: Seconds) -> float | None:
    """The share of the oracle's gain over FIFO that a predictor keeps; None: there is none."""
    gain = fifo_s - oracle_s
    return (fifo_s - predicted_s) / gain if gain > 0 else None


def _too_short(first_week: int) -> str:
    return f"predictors: the trace has no jobs from week {first_week} on, where judging begins"


def _said(
    arrivals: Sequence[Arrival],
    ways: Sequence[str],
    first: int,
    progress: Callable[[int], object] | None,
) -> Said:
    """What each would have said at the submission of each job from the first on."""
    memory = JobMemory()
    learners = [Learner(way, memory) for way in ways]
    said: dict[str, list[tuple[float, float, float]]] = {way: [] for way in ways}
    running: list[tuple[Seconds, int]] = []  # by end
    for number, arrival in enumerate(arrivals):
        job, at = arrival.job, arrival.at
        while running and running[0][0] < at:
            end, other = heappop(running)
            memory.ends(arrivals[other].job, end, arrivals[other].work_s)
        known = memory.submits(job, at)
        if number >= first:
            for way, learner in zip(ways, learners, strict=True):
                said[way].append(learner.at(at).interval(known))
        memory.chronicle.starts(job, at)
        memory.chronicle.finishes(job, at + arrival.work_s, arrival.work_s)
        heappush(running, (at + arrival.work_s, number))
        if progress is not None:
            progress(number + 1)
    return {way: np.array(rows) for way, rows in said.items()}


class _Judged:
    """The predictions beside the truth. Each job is compared with some others of its week."""

    def __init__(self, since: Numbers, truth: Numbers, said: Said, seed: int) -> None:
        self.weeks = (since // WEEK_S).astype(int) + 1
        self.days = (since // _DAY_S).astype(int)
        self._truth = truth
        self._said = said
        self._seed = seed
        one, other = _pairs(self.weeks, np.random.default_rng(seed))
        differ = truth[one] != truth[other]
        self._one, self._other = one[differ], other[differ]
        self._right = {way: self._ordered(rows[:, 1]) for way, rows in said.items()}

    @property
    def pairs(self) -> int:
        return len(self._one)

    def _ordered(self, predicted: Numbers) -> Numbers:
        """For each pair: 1 if in the right order, a half if it could not be told."""
        truth, one, other = self._truth, self._one, self._other
        agree = np.sign(predicted[one] - predicted[other]) * np.sign(truth[one] - truth[other])
        return np.asarray((agree + 1) / 2)

    def week(self, number: int) -> Week:
        """The figures of one week; 0: of all."""
        jobs = self.weeks == number if number else np.ones(len(self.weeks), bool)
        pairs, truth = jobs[self._one], self._truth[jobs]
        said = {way: rows[jobs] for way, rows in self._said.items()}
        inside = {way: (rows[:, 0] <= truth) & (truth <= rows[:, 2]) for way, rows in said.items()}
        return Week(
            number,
            int(jobs.sum()),
            {w: float(r[pairs].mean()) for w, r in self._right.items()} if pairs.any() else {},
            {w: float(np.median(np.abs(rows[:, 1] - truth))) for w, rows in said.items()},
            {way: float(covered.mean()) for way, covered in inside.items()},
            {w: float(np.exp(np.median(rows[:, 2] - rows[:, 0]))) for w, rows in said.items()},
        )

    def gain(self, of: str, over: str) -> Gain:
        """Days are resampled whole, since the jobs of a day resemble each other."""
        better = self._right[of] - self._right[over]
        days, day = np.unique(self.days[self._one], return_inverse=True)
        total, pairs = np.bincount(day, better), np.bincount(day)
        chance = np.random.default_rng(self._seed)
        drawn = chance.multinomial(len(days), np.full(len(days), 1 / len(days)), _RESAMPLES)
        means = (drawn @ total) / np.maximum(drawn @ pairs, 1)
        low, high = np.quantile(means, (0.025, 0.975))
        return Gain(of, over, float(better.mean()), float(low), float(high))


def _pairs(
    weeks: NDArray[np.intp], chance: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    one: list[NDArray[np.intp]] = []
    other: list[NDArray[np.intp]] = []
    for number in np.unique(weeks):
        jobs = np.flatnonzero(weeks == number)
        one.append(np.repeat(jobs, _PARTNERS))
        other.append(chance.choice(jobs, len(jobs) * _PARTNERS))
    return np.concatenate(one), np.concatenate(other)
