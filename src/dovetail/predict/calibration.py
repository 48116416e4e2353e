"""Keeping an interval honest: as wide as the latest jobs have shown that it must be."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Sequence
from math import ceil, log, sqrt
from typing import Final, NamedTuple, final

from dovetail.core.model import Seconds

_JUDGED = 4_000  # the latest jobs, that the interval is held against: more than one busy day's
UNKNOWN: Final = log(24.0)  # how far off an answer may be that nothing has confirmed yet
ENOUGH = 9  # jobs to be held against, for a tail of a tenth
_MANY = 100  # of them may make it narrower than the jobs that an answer rests on differ
_PACE = 0.0005  # how much one job moves what is aimed at
_LEAST, _MOST = 0.01, 0.2  # that can be aimed at


@final
class Side:
    """One side of the interval: so many may lie beyond it.

    Conformal prediction takes the width that would have held for the latest jobs; it holds for the
    next ones if they are like these. Where they drift, more lie beyond than was aimed at, and less is
    aimed at (adaptive conformal inference, Gibbs and Candès 2021). What counts is the width that was
    in force when a job was submitted, since that is when the answer is given. Misses come in bursts
    and become known late: a quick pace or a short memory widens it when the burst is over.
    """

    def __init__(self, tail: float) -> None:
        self._tail: Final = tail
        self._aim = tail
        self._latest: Final[deque[float]] = deque()
        self._sorted: Final[list[float]] = []
        self._widths: Final[list[float]] = [UNKNOWN]  # after each job

    @property
    def judged(self) -> int:
        """The latest jobs, that the width rests on."""
        return len(self._latest)

    def judge(self, far: float, after: int) -> None:
        """A job that lay so far beyond what was believed (negative: within), and was submitted when
        so many had been judged."""
        if after >= ENOUGH:  # else the width at its submission was none of ours
            missed = far > self._widths[after]
            self._aim = min(max(self._aim + _PACE * (self._tail - missed), _LEAST), _MOST)
        self._latest.append(far)
        insort(self._sorted, far)
        if len(self._latest) > _JUDGED:
            del self._sorted[bisect_left(self._sorted, self._latest.popleft())]
        self._widths.append(self.width())

    def width(self) -> float:
        """By how much to move this side outwards."""
        number = len(self._sorted)
        if number < ENOUGH:
            farthest = max(self._sorted[-1], 0.0) if number else 0.0
            return farthest + UNKNOWN * (1 - number / ENOUGH)
        needed = self._sorted[min(ceil((1 - self._aim) * (number + 1)), number) - 1]
        return needed if number >= _MANY else max(needed, 0.0)


@final
class Band:
    """Both sides, for answers of one sort: other sorts are off by more, or to the other side."""

    def __init__(self, tail: float) -> None:
        self.below: Final = Side(tail)
        self.above: Final = Side(tail)
        self._ended: Final[list[Seconds]] = []  # when, for each job that was judged

    @property
    def judged(self) -> int:
        return self.above.judged

    def judge(self, under: float, over: float, submitted_at: Seconds, ended_at: Seconds) -> None:
        """A job that lay so far under and so far over what was believed; in order of their ends."""
        after = bisect_left(self._ended, submitted_at)
        self.below.judge(under, after)
        self.above.judge(over, after)
        self._ended.append(ended_at)

    def widths(self) -> tuple[float, float]:
        return self.below.width(), self.above.width()


_LATEST_SHOWN = 300
_PACE_SHOWN = 0.01  # how much one of them moves what is aimed at: a day has a few hundred
_LEAST_SHOWN = 0.02  # that is aimed at
# What stands for jobs that have not ended yet: tails as heavy as those of Student's t with three degrees
# of freedom, at the middles of ten parts of equal chance.
A_TENTH: Final = 1.638  # so many deviations from the middle a tenth lies beyond
_BEFOREHAND: Final = (-2.353, -1.250, -0.765, -0.424, -0.137, 0.137, 0.424, 0.765, 1.250, 2.353)

_LEAST_AIMED = 0.005
_NOTHING = 1e-9  # that numbers are rounded by


class Reach(NamedTuple):
    """In deviations from the middle."""

    low: float
    high: float


@final
class Shown:
    """How far the answers of one sort were off, in the deviations that they themselves told: the
    interval reaches as far as the latest of them would have needed (conformal prediction). Where they
    drift, more lie beyond than was aimed at, and less is aimed at, as in `Side`.

    Of jobs that came together the short ones are judged first. Those that are not over yet count too:
    they are off by so much at least (the estimate of Kaplan and Meier).
    """

    def __init__(self, tail: float, unit: float = 1.0, errors: float = 0.0) -> None:
        """`unit`: of the deviations in which answers tell how far off they may be. `errors`: so many
        standard errors of the tail less is aimed at, where the few latest hang together."""
        self._tail: Final = tail
        self._errors: Final = errors
        self._aims: Final = [tail, tail]  # below, above
        self._latest: Final[deque[float]] = deque()
        self._sorted: Final[list[float]] = [off / unit for off in _BEFOREHAND]
        self._open: Sequence[float] = ()
        self._reach: Reach | None = None  # as long as nothing is new

    @property
    def judged(self) -> int:
        return len(self._latest)

    def judge(self, off: float) -> None:
        low, high = self.reach()
        if self.judged >= ENOUGH:
            for side, missed in enumerate((off < low, off > high)):
                aim = self._aims[side] + _PACE_SHOWN * (self._tail - missed)
                self._aims[side] = min(max(aim, _LEAST_SHOWN), self._tail)
        self._latest.append(off)
        insort(self._sorted, off)
        if len(self._latest) > _LATEST_SHOWN:
            del self._sorted[bisect_left(self._sorted, self._latest.popleft())]
        self._reach = None

    def waits_for(self, bounds: Iterable[float]) -> None:
        """Answers that are not to be judged yet: at least so far off."""
        found = sorted(bounds)
        if found != self._open:
            self._open, self._reach = found, None

    def reach(self) -> Reach:
        if self._reach is None:
            below, above = [self._surely(aim) for aim in self._aims]
            low = _least_beyond(self._sorted, self._open, below)
            high = _least_within(self._sorted, self._open, above)
            self._reach = Reach(min(low, 0.0), max(high, 0.0))
        return self._reach

    def _surely(self, aim: float) -> float:
        error = sqrt(aim * (1.0 - aim) / len(self._sorted))
        return max(aim - self._errors * error, _LEAST_AIMED)


def _least_within(judged: Sequence[float], waiting: Sequence[float], tail: float) -> float:
    """Beyond which no more lie than that. One more, of which nothing is known, may lie anywhere."""
    left, later, passed = 1.0, 1 + len(judged) + len(waiting), 0
    for off in judged:
        before, passed = passed, bisect_left(waiting, off)
        later -= passed - before
        left *= 1.0 - 1.0 / later
        later -= 1
        if left <= tail + _NOTHING:
            return off
    if passed == len(waiting):
        return judged[-1]
    return waiting[-1] + log(left / tail)  # what has lasted, lasts: by each deviation e times fewer


def _least_beyond(judged: Sequence[float], waiting: Sequence[float], tail: float) -> float:
    """Below which no more lie than that."""
    later, passed = len(judged) + len(waiting), 0
    left = 1.0 - 1.0 / (1 + later)
    for off in judged:
        before, passed = passed, bisect_left(waiting, off)
        later -= passed - before
        left *= 1.0 - 1.0 / later
        later -= 1
        if 1.0 - left > tail + _NOTHING:
            return off
    return judged[-1]
