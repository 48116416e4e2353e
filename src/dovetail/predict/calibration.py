"""Keeping an interval honest: as wide as the latest jobs have shown that it must be."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Sequence
from math import ceil, log
from typing import Final, final

_JUDGED = 1_000  # the latest jobs, that the interval is held against
_UNKNOWN = log(24.0)  # how far off an answer may be that nothing has confirmed yet
_ENOUGH = 9  # jobs to be held against, for a tail of a tenth


@final
class Calibration:
    """Conformal prediction, one side at a time: a tenth of the jobs may lie beyond each."""

    def __init__(self, tail: float) -> None:
        self._tail: Final = tail
        self._latest: Final[deque[tuple[float, float]]] = deque()
        self._sides: Final[tuple[list[float], list[float]]] = ([], [])

    def judge(self, below: float, above: float) -> None:
        """A job that was so far outside of what was believed, on each side; negative: inside."""
        self._latest.append((below, above))
        for side, far in zip(self._sides, (below, above), strict=True):
            insort(side, far)
        if len(self._latest) > _JUDGED:
            for side, far in zip(self._sides, self._latest.popleft(), strict=True):
                del side[bisect_left(side, far)]

    def widening(self) -> tuple[float, float]:
        """By how much to move each side outwards."""
        low, high = (self._needed(side) for side in self._sides)
        return low, high

    def _needed(self, side: Sequence[float]) -> float:
        if len(side) < _ENOUGH:
            return max([_UNKNOWN, *side])
        return side[min(ceil((1 - self._tail) * (len(side) + 1)), len(side)) - 1]
