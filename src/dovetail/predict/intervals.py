"""Beliefs about how much longer a job runs, with an interval and with what they rest on.

The interval is meant to hold in four of five cases: a tenth of the jobs end before `low`, a tenth
after `high`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from math import expm1, inf, log
from statistics import NormalDist
from threading import Lock
from typing import Final, final

from dovetail.api.job_row import TOTALS
from dovetail.core.model import Job, JobId, Seconds
from dovetail.core.track import Phase, Track
from dovetail.predict.evidence import Opinion, by_reports
from dovetail.predict.identity import AMOUNT, COMMAND, NAME, described
from dovetail.predict.lore import Lore, LoreAnswer

_NORMAL = NormalDist()
_TENTH = _NORMAL.inv_cdf(0.9)
_LEAST_S = 1e-3
_SURE = 0.98  # a job that outlives that part of what was believed has outlived the belief
_OUTLIVED = (10.0, 6.0)  # how far off "as long again, by half" may be, below and above: judgement
# Of the median: in a tenth of the cases what may end at any time, whatever it has lasted, ends sooner.
_MEMORYLESS = log(1 / 0.9) / log(2)

_EPOCH = "epoch"  # reported, and counted in what the command names
_FORGOTTEN = 4  # times as many jobs as are remembered: then it begins anew with those
_LEAST_PART = 0.01  # of its steps a job must have done before they tell anything


@dataclass(frozen=True, slots=True)
class Belief:
    """So many seconds more, a tenth sooner than `low`, a tenth later than `high`."""

    seconds: Seconds
    low: Seconds
    high: Seconds
    source: str  # what it rests on, to be read by people
    guess: bool = False  # it rests on jobs that have little in common with this one

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
    seconds, low, high = [own * factor for own in (belief.seconds, belief.low, belief.high)]
    return replace(belief, seconds=seconds, low=low, high=high, source=source)


def exactly(seconds: Seconds, source: str = "known") -> Belief:
    return Belief(seconds, seconds, seconds, source)


@final
class Experience:
    """The lessons of jobs that finished. It may be kept, and told of jobs that have ended since."""

    def __init__(self, past: Sequence[Track] = ()) -> None:
        self._lock: Final = Lock()
        self._lore = Lore(looks_back=True)
        self._last: Track | None = None  # that it was told of
        self._learned = 0
        self.take_in(past)

    def take_in(self, past: Sequence[Track]) -> Experience:
        """Learn from the jobs of the past that are new to it; the past is in order of the ends."""
        with self._lock:
            if self._learned > _FORGOTTEN * len(past) + 1000:
                self._lore, self._last, self._learned = Lore(looks_back=True), None, 0
            news = [*takewhile(lambda track: track is not self._last, reversed(past))]
            for track in reversed(news):
                self._last = track
                if track.phase is Phase.FINISHED:
                    self._learn(track)
        return self

    def see(self, tracks: Iterable[Track], now: Seconds) -> Experience:
        """Take note of jobs that have begun and are not over."""
        with self._lock:
            begun = [track for track in tracks if track.executed_by(now) > 0]
            self._lore.waits_for(
                (opinion, track.executed_by(now))
                for track in begun
                if (opinion := self._lore.as_of(track.job, track.submitted_at)) is not None
            )
        return self

    def _learn(self, track: Track) -> None:
        """Judged by what was known when it came: that is what its user was shown."""
        opinion = self._lore.as_of(track.job, track.submitted_at)
        if opinion is not None:
            self._lore.judge(opinion, track.executed_s)
        self._lore.learn(track.job, track.ended_at, track.executed_s)
        self._learned += 1

    def remaining(
        self, track: Track, now: Seconds, told: Mapping[JobId, Belief] | None = None
    ) -> Belief | None:
        """How much longer it works, given what it has done already; None: nothing is known of it.
        Restoring is not counted. `told`: how long jobs take in all, by who knows better."""
        done, job = track.executed_by(now), track.job
        whole = told.get(job.id) if told else None
        belief = self._by_progress(track, now) or self._by_history(job, done, whole)
        if belief is None or job.time_limit_s is None:
            return belief
        return at_most(belief, max(job.time_limit_s - track.held_by(now), 0.0))

    def whole(self, job: Job) -> Belief | None:
        """How long a job takes that has not begun."""
        belief = self._by_history(job, 0.0, None)
        if belief is None or job.time_limit_s is None:
            return belief
        return at_most(belief, job.time_limit_s)

    def knows(self, job: Job) -> bool:
        """Has one finished that ran the same on as many GPUs, or one of the same name?"""
        group, fineness = self._lore.finest(job)
        return bool(group.number) and fineness >= _SAME

    def _by_progress(self, track: Track, now: Seconds) -> Belief | None:
        """The job says itself how far it is."""
        found = _progress_of(track)
        if found is None:
            return None
        step, total = found
        part = step / total
        done_then = track.executed_by(track.reported_at)
        if part < _LEAST_PART or done_then <= 0 or track.reported_at < track.working_since:
            return None
        done = track.executed_by(now)
        known = self._lore.beyond(track.job, done)
        opinion = by_reports(known and known.opinion, done_then / part, part)
        low, middle, high = [
            max(expm1(opinion.middle + z * opinion.deviation) - done, 0.0)
            for z in (-_TENTH, 0.0, _TENTH)
        ]
        return Belief(middle, low, high, f"its own reports: step {step:g} of {total:g}")

    def _by_history(self, job: Job, done: Seconds, whole: Belief | None) -> Belief | None:
        if whole is None:
            whole = _as_said(job, self._lore)
        if whole is not None:
            return _left_of(whole, done)
        if self._lore.is_strange(job):
            return None
        if done <= 0:
            known = self._lore.of(job)
            return None if known is None else _belief(job, known)
        return self._after(job, done)

    def _after(self, job: Job, done: Seconds) -> Belief | None:
        """From those that lasted longer; what a user says of the whole is left when that is done."""
        known = self._lore.beyond(job, done)
        if known is not None and known.opinion.fineness < 0:
            return _left_of(_belief(job, known), done)
        whole = None if known is None else _belief(job, known)
        if whole is not None and whole.seconds > done:
            middle = whole.seconds - done
            low = max(whole.low - done, _MEMORYLESS * middle)
            return replace(whole, seconds=middle, low=low, high=whole.high - done)
        before = self._lore.of(job)
        if before is None:
            return None
        source = f"{rests_on(job, before.opinion)}, all of which it has outlived"
        return replace(_outlived(done, source), guess=_is_guess(before.opinion))


_SAME = 3  # in fineness: the same name and number of GPUs, or finer


def _as_said(job: Job, lore: Lore) -> Belief | None:
    """A user who gives bounds is believed, unless that very command has run."""
    said = job.estimate
    if said is None or said.low is None or said.high is None or lore.finest(job)[1] >= COMMAND:
        return None
    return Belief(said.seconds, said.low, said.high, "its user's estimate")


def _belief(job: Job, known: LoreAnswer) -> Belief:
    low, middle, high = (max(expm1(logarithm), 0.0) for logarithm in known[:3])
    return Belief(middle, low, high, rests_on(job, known.opinion), _is_guess(known.opinion))


def _is_guess(opinion: Opinion) -> bool:
    return opinion.fineness < NAME and not opinion.by_word


def rests_on(job: Job, opinion: Opinion) -> str:
    """The evidence, the strongest first."""
    said = "its user's estimate" if job.estimate is not None else "its time limit"
    if opinion.fineness < 0:
        return said
    runs = described(job, opinion.fineness, opinion.number)
    if _is_guess(opinion):
        return f"{runs}, none like it"
    if not opinion.by_word or (job.estimate is None and opinion.fineness >= NAME):
        return runs  # beside these a limit only bounds
    return f"{runs}, and {said}" if opinion.fineness >= AMOUNT else f"{said}, and {runs}"


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
    over = _NORMAL.cdf(_deviations(whole, done)) if whole.seconds > 0 else 1.0
    if over > _SURE:
        return _outlived(done, f"{whole.source}, which it has outlived")
    low, middle, high = [
        max(whole.at(_NORMAL.inv_cdf(over + part * (1 - over))) - done, 0.0)
        for part in (0.1, 0.5, 0.9)
    ]
    return replace(whole, seconds=middle, low=low, high=high)


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
    seconds, low = min(belief.seconds, left), min(belief.low, left)
    return replace(belief, seconds=seconds, low=low, high=left, source=source)


def _progress_of(track: Track) -> tuple[float, float] | None:
    """How far it is, of how much: as it reports, or of the epochs that its command names."""
    step: float | str | None = track.step
    total = next((own for name in TOTALS if (own := track.metrics.get(name)) is not None), None)
    if total is None and track.job.amount is not None:
        step, total = track.metrics.get(_EPOCH), track.job.amount
    if isinstance(step, str) or isinstance(total, str) or step is None or total is None:
        return None
    return (step, total) if 0 < step <= total else None
