"""How long several pieces of work that are done side by side will take yet, by what they show."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from heapq import heapify, heapreplace
from statistics import fmean

from dovetail.text.durations import duration_text


class WorkPace:
    """Who has begun when, how much of each is done, and what that says about the rest."""

    def __init__(
        self, sizes: Sequence[int], at_once: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._sizes = [max(size, 1) for size in sizes]
        self._at_once = at_once
        self._clock = clock
        self._began: dict[int, float] = {}
        self._took: dict[int, float] = {}  # those that are over
        self._done: dict[int, int] = {}
        self._start = clock()

    def begin(self, number: int) -> None:
        self._began[number] = self._clock()

    def tell(self, number: int, done: int) -> None:
        self._done[number] = done

    def end(self, number: int) -> None:
        self._took[number] = self._clock() - self._began[number]

    def left_s(self) -> float | None:
        """What remains: those under way at the speed they have shown, those that wait as long as the
        others take on average, as many at once as may be. None: nobody has shown anything yet."""
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
        """What one that has begun takes in all."""
        if number in self._took:
            return self._took[number]
        done = self._done.get(number, 0)
        if not done:
            return None
        so_far = self._clock() - self._began[number]
        return so_far * max(self._sizes[number] / done, 1.0)

    def part(self) -> float:
        """Of all the time that it will have taken."""
        left = self.left_s()
        if left is None:
            return 0.0
        passed = self._clock() - self._start
        return passed / (passed + left) if passed + left > 0 else 1.0

    def left_text(self) -> str:
        """What stands beside a bar; nothing while nothing is known."""
        left = self.left_s()
        return "" if left is None else f"{duration_text(left)} left"
