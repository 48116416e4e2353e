"""How long batches of each size take, as measured."""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import Final

_LATEST = 9  # of a size: their median forgets a slow first one


class BatchTimes(list[float]):
    """The seconds by batch size: the measured ones, and between and beyond them a line. All zero until
    something was measured, so that nobody is given up for a guess."""

    def __init__(self, max_batch: int) -> None:
        super().__init__([0.0] * (max_batch + 1))
        self._measured: Final[dict[int, deque[float]]] = {}

    def took(self, size: int, seconds: float) -> None:
        self._measured.setdefault(size, deque(maxlen=_LATEST)).append(seconds)
        known = sorted((own, median(times)) for own, times in self._measured.items())
        for number in range(1, len(self)):
            self[number] = _at(known, number)


def _at(known: list[tuple[int, float]], size: int) -> float:
    """A smaller batch than any that is known takes no longer; a larger one as much more as it is larger
    when one size alone is known."""
    least, most = known[0], known[-1]
    if size <= least[0]:
        return least[1]
    if len(known) == 1:
        return least[1] * size / least[0]
    above = next((one for one in known if one[0] >= size), most)
    below = known[known.index(above) - 1]
    slope = max(above[1] - below[1], 0.0) / (above[0] - below[0])
    return below[1] + slope * (size - below[0])
