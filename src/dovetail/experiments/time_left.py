"""The remaining time of several pieces of work that run side by side, from their progress so far."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from heapq import heapify, heapreplace
from statistics import fmean

from dovetail.text.durations import duration_text


class WorkPace:
    """When each piece began and how much of it is done, and the remaining time that follows."""

    def __init__(
        self, sizes: Sequence[int], at_once: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._sizes = [max(size, 1) for size in sizes]
        self._at_once = at_once
        self._clock = clock
        self._began: dict[int, float] = {}
        self._took: dict[int, float] = {}  # pieces that are done
        self._done: dict[int, int] = {}
        self._start = clock()

    def begin(self, number: int) -> None:
        self._began[number] = self._clock()

    def tell(self, number: int, done: int) -> None:
        self._done[number] = done

    def end(self, number: int) -> None:
        self._took[number] = self._clock() - self._began[number]

    def left_s(self) -> float | None:
        """The remaining seconds: running pieces at their speed so far, waiting ones as long as the
        others take on average, as many at once as allowed. None: no progress yet."""
        whole = {number: self._expected_s(number) for number in self._began}
        known = [seconds for seconds in whole.values() if seconds is not None]
        if not known:
            return None
        usual, now = fmean(known), self._clock()
        under_way = [
            max((seconds if seconds is not None else usual) - (now - self._began[number]), 0.0)
            for number, seconds in whole.items()
            if number not in self._took
        ]
        lanes = (under_way + [0.0] * self._at_once)[: max(self._at_once, len(under_way))]
        heapify(lanes)
        for _ in range(len(self._sizes) - len(self._began)):
            heapreplace(lanes, lanes[0] + usual)
        return max(lanes)

    def _expected_s(self, number: int) -> float | None:
        """The total seconds of a piece that has begun."""
        if number in self._took:
            return self._took[number]
        done = self._done.get(number, 0)
        if not done:
            return None
        so_far = self._clock() - self._began[number]
        return so_far * max(self._sizes[number] / done, 1.0)

    def part(self) -> float:
        """The part of the total time that has passed."""
        left = self.left_s()
        if left is None:
            return 0.0
        passed = self._clock() - self._start
        return passed / (passed + left) if passed + left > 0 else 1.0

    def left_text(self) -> str:
        """The text beside a progress bar; empty before any progress."""
        left = self.left_s()
        return "" if left is None else f"{duration_text(left)} left"
