"""Jobs of one identity: what they took, and what the latest of them are doing."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from math import inf, log, log1p, nan
from statistics import fmean, pvariance
from typing import Final, NamedTuple, final

from dovetail.core.model import JobId, Seconds

# Of how many jobs the newer half of the weight lies on: judgement, neither was searched for.
FAST, SLOW = 4.0, 60.0
_HOUR, _BURST = 3600.0, 300.0
_FEW, _SOME = 6, 20  # of the latest submissions: judgement too
_TWICE = log(2.0)
_LOOKED_AT = 200  # of the latest, for how many are longer than a job has run


class Brief(NamedTuple):
    """Jobs of one identity, as evidence."""

    number: int
    middle: float  # of the logarithms, the newer counting more
    variance: float
    amount: float  # the logarithm of the epochs or steps of the usual one
    kinds: int = 0  # of the next finer identity that they have


NOTHING: Final = Brief(0, nan, 0.0, 0.0)


class _Mark(NamedTuple):
    """The group after one more has ended."""

    at: Seconds
    last: float
    brief: Brief


def _when(mark: _Mark) -> Seconds:
    return mark.at


@final
class LikeJobs:
    """All of them together; logarithms are of seconds plus one."""

    __slots__ = (
        "amount", "ended_at", "fast", "hour", "kinds", "last", "latest", "marks", "minutes", "number",
        "running", "slow", "submitted_at", "total", "variance",
    )  # fmt: skip

    def __init__(self) -> None:
        self.number = 0
        self.total = 0.0
        self.fast = self.slow = self.last = self.ended_at = self.submitted_at = nan
        self.variance = 0.0
        self.amount = 0.0
        self.kinds = 0
        self.marks: list[_Mark] = []  # where somebody looks back
        self.hour: deque[Seconds] = deque()
        self.minutes: deque[Seconds] = deque()
        self.running: dict[JobId, Seconds] = {}  # since when
        self.latest: Final = Latest()

    def ends(self, at: Seconds, seconds: Seconds) -> None:
        self.ended_at = at
        self.total += seconds
        self.adds(log1p(seconds))

    def adds(self, logarithm: float, amount: float = 0.0) -> None:
        """One more; of a group that goes by amounts, the logarithm for each epoch or step."""
        self.number += 1
        self.last = logarithm
        self.amount += _weight(self.number, SLOW) * (amount - self.amount)
        if self.number == 1:
            self.fast = self.slow = self.last
            return
        self.fast += _weight(self.number, FAST) * (self.last - self.fast)
        weight, off = _weight(self.number, SLOW), self.last - self.slow
        self.slow += weight * off
        self.variance = (1 - weight) * (self.variance + weight * off * off)

    @property
    def brief(self) -> Brief:
        middle = (self.fast + self.slow) / 2
        return Brief(self.number, middle, self.variance, self.amount, self.kinds)

    def mark(self, at: Seconds) -> None:
        """Remember how it is now, to be asked for later."""
        self.marks.append(_Mark(at, self.last, self.brief))

    def as_of(self, at: Seconds) -> Brief:
        """As it was then; nothing that ended at that time or later."""
        place = bisect_left(self.marks, at, key=_when)
        return self.marks[place - 1].brief if place else NOTHING

    def beyond(self, logarithm: float) -> Brief:
        """The latest jobs that took longer than that."""
        longer = [mark.last for mark in self.marks[-_LOOKED_AT:] if mark.last > logarithm]
        if not longer:
            return NOTHING
        return Brief(len(longer), fmean(longer), pvariance(longer), self.amount, self.kinds)

    def submits(self, at: Seconds) -> None:
        self.submitted_at = at
        self.hour.append(at)
        self.minutes.append(at)

    def lately(self, at: Seconds) -> tuple[float, float]:
        """Submissions within the hour and within a burst."""
        for times, length in ((self.hour, _HOUR), (self.minutes, _BURST)):
            while times and times[0] < at - length:
                times.popleft()
        return log1p(len(self.hour)), log1p(len(self.minutes))

    def ages(self, at: Seconds) -> tuple[float, float]:
        """The ages of the running jobs: of the oldest, and of the one in the middle."""
        if not self.running:
            return nan, nan
        since = list(self.running.values())
        return past(at, since[0]), past(at, since[len(since) // 2])


def past(at: Seconds, since: Seconds) -> float:
    """A job that was held back at first is told of late: then what it is compared with came after."""
    return log1p(max(at - since, 0.0))


def _weight(number: int, half: float) -> float:
    """Of the newest of so many: a plain mean at first."""
    return float(max(1 / number, 1 - 0.5 ** (1 / half)))


@final
class Latest:
    """The last to be submitted, whether they have ended or not.

    Of jobs that came together the short ones end first, so that those that ended lately are shorter
    than those that were begun lately. Here a job that runs counts too: as if it were half done.
    """

    __slots__ = ("_since", "_took")

    def __init__(self) -> None:
        self._took: Final[dict[JobId, float]] = {}  # not a number: it has not ended
        self._since: Final[dict[JobId, Seconds]] = {}  # of those that run

    def comes(self, job_id: JobId) -> None:
        self._took[job_id] = nan
        if len(self._took) > _SOME:
            self._drop(next(iter(self._took)))

    def sees(self, job_id: JobId, at: Seconds, seconds: Seconds) -> None:
        """As the chronicle tells it: minus infinity for a start, not a number for none."""
        if job_id not in self._took:
            return
        if seconds == -inf:
            self._since.setdefault(job_id, at)
        elif seconds >= 0:
            self._since.pop(job_id, None)
            self._took[job_id] = log1p(seconds)
        else:
            self._drop(job_id)

    def _drop(self, job_id: JobId) -> None:
        del self._took[job_id]
        self._since.pop(job_id, None)

    def of(self, at: Seconds) -> tuple[tuple[float, float], tuple[float, float]]:
        """The mean of the last few and of the last twenty, and the share of them that still run."""
        total, running, number, few = 0.0, 0, 0, (nan, nan)
        for job_id in reversed(self._took):
            took = self._took[job_id]
            if took != took:
                if job_id not in self._since:
                    continue  # it waits
                took, running = past(at, self._since[job_id]) + _TWICE, running + 1
            total, number = total + took, number + 1
            if number <= _FEW:
                few = total / number, running / number
        return few, (total / number, running / number) if number else few
