"""Beliefs about how much longer a job runs, with an interval and with what they rest on.

The interval is meant to hold in four of five cases: a tenth of the jobs end before `low`, a tenth
after `high`. Few samples make it wide: with n of them the next one lies between the least and the
largest with a chance of (n-1)/(n+1), so that nine are needed for four in five, whatever their
distribution; fewer are widened.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, log
from statistics import NormalDist
from typing import Final, final

from dovetail.core.model import Job, JobId, Seconds
from dovetail.core.track import Phase, Track
from dovetail.predict.identity import described, identities

_NORMAL = NormalDist()
_TENTH = _NORMAL.inv_cdf(0.9)
_ENOUGH = 9  # samples for an interval without widening
_LEAST_S = 1e-3
_GUESS_S = 3600.0
_SURE = 0.98  # a job that outlives that part of what was believed has outlived the belief

# How far off single figures may be, as factors below and above: judgement, not measurement. Users
# say more than they need (Mu'alem and Feitelson 2001), so that the lower side is the wider one.
_USERS_ESTIMATE = (3.0, 1.5)
_TIME_LIMIT = (10.0, 2.0)  # around half of the limit
_GUESS = (60.0, 24.0)
_OUTLIVED = (10.0, 4.0)
_PROGRESS = 0.25  # of the time left, either way

# What jobs call the last step when they report it beside the present one.
TOTALS = ("total", "total_steps", "steps_total", "max_steps", "num_steps")
_LEAST_PART = 0.01  # of its steps a job must have done before they tell anything


@dataclass(frozen=True, slots=True)
class Belief:
    """So many seconds more, a tenth sooner than `low`, a tenth later than `high`."""

    seconds: Seconds
    low: Seconds
    high: Seconds
    source: str  # what it rests on, to be read by people

    @property
    def exact(self) -> bool:
        return self.low == self.high

    def at(self, z: float) -> Seconds:
        """The time it takes if it turns out so many standard deviations longer than the middle."""
        if self.exact or self.seconds <= 0:
            return self.seconds
        far = self.high / self.seconds if z > 0 else self.seconds / max(self.low, _LEAST_S)
        return float(self.seconds * max(far, 1.0) ** (z / _TENTH))


def stretched(belief: Belief, factor: float, source: str) -> Belief:
    """The same, so many times as long."""
    return Belief(belief.seconds * factor, belief.low * factor, belief.high * factor, source)


def exactly(seconds: Seconds, source: str = "known") -> Belief:
    return Belief(seconds, seconds, seconds, source)


@final
class Experience:
    """What jobs that finished have taken, by ever coarser identity."""

    def __init__(self, past: Iterable[Track], told: Mapping[JobId, Belief] | None = None) -> None:
        """`told`: how long jobs are believed to take in all, by who knows better than history."""
        self._told: Final[Mapping[JobId, Belief]] = told or {}
        samples: dict[tuple[object, ...], list[Seconds]] = {}
        for track in past:
            if track.phase is Phase.FINISHED:
                for key in identities(track.job):
                    samples.setdefault(key, []).append(track.executed_s)
        for found in samples.values():
            found.sort()
        self._samples: Final[Mapping[tuple[object, ...], Sequence[Seconds]]] = samples

    def remaining(self, track: Track, now: Seconds) -> Belief:
        """How much longer it works, given what it has done already. Restoring is not counted."""
        done = track.executed_by(now)
        belief = self._by_progress(track, now) or self._by_history(track.job, done)
        limit = track.job.time_limit_s
        if limit is None:
            return belief
        return at_most(belief, max(limit - track.held_by(now), 0.0))

    def whole(self, job: Job) -> Belief:
        """How long a job takes that has not begun."""
        belief = self._by_history(job, 0.0)
        return belief if job.time_limit_s is None else at_most(belief, job.time_limit_s)

    def knows(self, job: Job) -> bool:
        """Has one of the same name, owner and number of GPUs finished?"""
        return identities(job)[0] in self._samples

    def _by_progress(self, track: Track, now: Seconds) -> Belief | None:
        """The job says itself how far it is."""
        total = _total_of(track)
        if total is None or track.step is None or not 0 < track.step <= total:
            return None
        part = track.step / total
        done_then = track.executed_by(track.reported_at)
        if part < _LEAST_PART or done_then <= 0 or track.reported_at < track.working_since:
            return None
        left = max(done_then / part - track.executed_by(now), 0.0)
        source = f"its own reports: step {track.step:g} of {total:g}"
        return Belief(left, left * (1 - _PROGRESS), left * (1 + _PROGRESS), source)

    def _by_history(self, job: Job, done: Seconds) -> Belief:
        if job.id in self._told:
            return _left_of(self._told[job.id], done)
        same_size, same_name, same_user, everyone = identities(job)
        for key in (same_size, same_name):
            if key in self._samples:
                return self._of_samples(key, job, done)
        if job.estimate is not None:
            return _from_estimate(job, done)
        for key in (same_user, everyone):
            if key in self._samples:
                return self._of_samples(key, job, done)
        if job.time_limit_s is not None:
            limit = job.time_limit_s
            return _left_of(_around(limit / 2, _TIME_LIMIT, "its time limit"), done)
        return _left_of(_around(_GUESS_S, _GUESS, "a guess: no job has finished yet"), done)

    def _of_samples(self, key: tuple[object, ...], job: Job, done: Seconds) -> Belief:
        samples = self._samples[key]
        source = described(job, len(key), len(samples))
        first = bisect_right(samples, done) if done > 0 else 0
        if first == len(samples):
            return _outlived(done, f"{source}, all of which it has outlived")
        middle = _quantile(samples, first, 0.5)
        low, high = _quantile(samples, first, 0.1), _quantile(samples, first, 0.9)
        return Belief(middle - done, max(min(low, middle) - done, 0.0), high - done, source)


def _quantile(samples: Sequence[Seconds], first: int, part: float) -> Seconds:
    """Of the sorted samples from the first one on; beyond what few of them can tell, widened."""
    number = len(samples) - first
    place = part * (number + 1) - 1
    widening = 1.0 if number >= _ENOUGH else 1.0 + (_ENOUGH - number) / ((_ENOUGH - 1) * number)
    if place < 0:
        return samples[first] / widening
    if place > number - 1:
        return samples[-1] * widening
    below = int(place)
    lower = samples[first + below]
    upper = samples[first + min(below + 1, number - 1)]
    return lower + (place - below) * (upper - lower)


def _from_estimate(job: Job, done: Seconds) -> Belief:
    estimate = job.estimate
    assert estimate is not None
    belief = _around(estimate.seconds, _USERS_ESTIMATE, "its user's estimate")
    if estimate.low is not None:
        belief = replace(belief, low=estimate.low)
    if estimate.high is not None:
        belief = replace(belief, high=estimate.high)
    return _left_of(belief, done)


def _around(seconds: Seconds, factors: tuple[float, float], source: str) -> Belief:
    return Belief(seconds, seconds / factors[0], seconds * factors[1], source)


def _outlived(done: Seconds, source: str) -> Belief:
    """As long again, by half, and nobody knows: what has lasted, lasts."""
    return _around(max(done, 1.0) / 2, _OUTLIVED, source)


def _left_of(whole: Belief, done: Seconds) -> Belief:
    """What is left of the whole, given that so much of it is done and it has not ended."""
    if done <= 0:
        return whole
    if whole.exact and done < whole.seconds:
        return exactly(whole.seconds - done, whole.source)
    over = _NORMAL.cdf(_deviations(whole, done))
    if over > _SURE:
        return _outlived(done, f"{whole.source}, which it has outlived")
    low, middle, high = [
        max(whole.at(_NORMAL.inv_cdf(over + part * (1 - over))) - done, 0.0)
        for part in (0.1, 0.5, 0.9)
    ]
    return Belief(middle, low, high, whole.source)


def _deviations(belief: Belief, seconds: Seconds) -> float:
    """The inverse of `Belief.at`."""
    if seconds >= belief.seconds:
        far, wide = log(seconds / belief.seconds), log(belief.high / belief.seconds)
        return _TENTH * far / wide if wide > 0 else inf
    far, wide = log(belief.seconds / seconds), log(belief.seconds / max(belief.low, _LEAST_S))
    return -_TENTH * far / wide if wide > 0 else -inf


def at_most(belief: Belief, left: Seconds) -> Belief:
    """It is stopped when its time limit is over."""
    if belief.high <= left:
        return belief
    source = belief.source
    if belief.seconds > left and "time limit" not in source:
        source = f"its time limit, since {source} would be longer"
    return Belief(min(belief.seconds, left), min(belief.low, left), left, source)


def _total_of(track: Track) -> float | None:
    for name in TOTALS:
        total = track.metrics.get(name)
        if isinstance(total, float | int) and total > 0:
            return float(total)
    return None
