"""How much of something will be free at which time, and the earliest gap that is wide enough."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from math import frexp, inf
from typing import Final, final

from dovetail.core.model import Seconds

_CLASSES = 64  # of lengths: below 1 s, below 2 s, below 4 s and so on


@final
class Profile:
    """A step function of time, from now on. Only ever taken from: what is free can but shrink."""

    def __init__(self, now: Seconds, free: int, releases: Iterable[tuple[Seconds, int]]) -> None:
        self._times: Final = [now]
        self._free: Final = [free]
        # By amount, then by k: before that time it was not free for 2**(k - 1) seconds or longer.
        self._known: Final[dict[int, list[Seconds]]] = {}
        for at, amount in releases:
            if at == self._times[-1]:
                self._free[-1] += amount
            else:
                self._times.append(at)
                self._free.append(self._free[-1] + amount)

    def advance(self, now: Seconds) -> None:
        """Forget the past."""
        passed = bisect_right(self._times, now) - 1
        if passed > 0:
            del self._times[:passed]
            del self._free[:passed]
        self._times[0] = now

    def lasts(self, amount: int) -> Seconds:
        """Until when as much is free from now on without a break; minus infinity: it is not."""
        if self._free[0] < amount:
            return -inf
        for at, free in zip(self._times, self._free, strict=True):
            if free < amount:
                return at
        return inf

    def earliest(self, amount: int, length_s: Seconds, not_before: Seconds) -> Seconds:
        """The first time from which as much is free for that long."""
        known = self._known.get(amount)
        if known is None:
            known = self._known[amount] = [-inf] * _CLASSES
        length_class = min(max(frexp(length_s)[1], 0), _CLASSES - 1)
        hint = max(known[length_class], self._times[0])
        if not_before > hint:
            return self._search(amount, length_s, not_before)
        start = self._search(amount, length_s, hint)
        for longer in range(length_class + 1, _CLASSES):
            if known[longer] >= start:
                break
            known[longer] = start
        return start

    def _search(self, amount: int, length_s: Seconds, not_before: Seconds) -> Seconds:
        times, free = self._times, self._free
        number = len(times)
        i = bisect_right(times, not_before) - 1
        while True:
            while free[i] < amount:
                i += 1
                if i == number:
                    return inf
            start = max(times[i], not_before)
            end = start + length_s
            i += 1
            while i < number and times[i] < end and free[i] >= amount:
                i += 1
            if i == number or times[i] >= end:
                return start

    def take(self, start: Seconds, end: Seconds, amount: int) -> None:
        if start >= end or not amount:
            return
        first = self._step_at(start)
        last = self._step_at(end)
        free = self._free
        free[first:last] = [left - amount for left in free[first:last]]

    def _step_at(self, at: Seconds) -> int:
        """The step that begins at that time, made if there is none."""
        times = self._times
        i = bisect_left(times, at)
        if i == len(times) or times[i] != at:
            times.insert(i, at)
            self._free.insert(i, self._free[i - 1])
        return i


def earliest_in_all(
    profiles: Sequence[Profile], amount: int, length_s: Seconds, not_before: Seconds
) -> Seconds:
    """The first time from which as much is free in each of these."""
    at = profiles[0].earliest(amount, length_s, not_before)
    agreed = 1
    i = 0
    while agreed < len(profiles) and at < inf:
        i = (i + 1) % len(profiles)
        later = profiles[i].earliest(amount, length_s, at)
        agreed = agreed + 1 if later == at else 1
        at = later
    return at
