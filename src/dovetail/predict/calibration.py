"""Keeping an interval honest: as wide as the latest jobs have shown that it must be."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from math import ceil, log
from typing import Final, final

_JUDGED = 4_000  # the latest jobs, that the interval is held against: more than one busy day's
_UNKNOWN = log(24.0)  # how far off an answer may be that nothing has confirmed yet
ENOUGH = 9  # jobs to be held against, for a tail of a tenth
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
        self._widths: Final[list[float]] = [_UNKNOWN]  # after each job

    @property
    def width(self) -> float:
        """By how much to move this side outwards."""
        return self._widths[-1]

    @property
    def judged(self) -> int:
        """The latest jobs, that the width rests on."""
        return len(self._latest)

    def judge(self, far: float, after: int) -> None:
        """A job that lay so far beyond what was believed (negative: within), and was submitted when
        so many had been judged (negative: before the first)."""
        if after >= ENOUGH:  # else the width at its submission was none of ours
            missed = far > self._widths[after]
            self._aim = min(max(self._aim + _PACE * (self._tail - missed), _LEAST), _MOST)
        self._latest.append(far)
        insort(self._sorted, far)
        if len(self._latest) > _JUDGED:
            del self._sorted[bisect_left(self._sorted, self._latest.popleft())]
        self._widths.append(self._needed())

    def _needed(self) -> float:
        number = len(self._sorted)
        if number < ENOUGH:
            return max(self._sorted[-1], 0.0) + _UNKNOWN * (1 - number / ENOUGH)
        return self._sorted[min(ceil((1 - self._aim) * (number + 1)), number) - 1]
