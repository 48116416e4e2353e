"""A tournament tree: the first of many numbers that is small enough, in logarithmic time."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Final, final

_LEAST_SIZE = 8
_LATEST = 1e308  # a bound of infinity would let the empty places in


@final
class Tournament:
    """Every inner node holds the lesser of its two children; an empty place holds infinity."""

    def __init__(self, values: Sequence[float] = ()) -> None:
        size = _LEAST_SIZE
        while size < 2 * len(values):
            size *= 2
        self.size: Final = size
        self.least: Final = [inf] * size + list(values) + [inf] * (size - len(values))
        for i in range(size - 1, 0, -1):
            self.least[i] = min(self.least[2 * i], self.least[2 * i + 1])

    def set(self, place: int, value: float) -> None:
        least = self.least
        i = self.size + place
        least[i] = value
        while i > 1:
            other = least[i ^ 1]
            if other < value:
                value = other
            i >>= 1
            if least[i] == value:
                return
            least[i] = value

    def first(self, place: int, plus: float, most: float) -> int:
        """The first place, from this one on, whose value and `plus` are at most `most`; else -1."""
        if place >= self.size:
            return -1
        least, most = self.least, min(most, _LATEST)
        i = self.size + place
        while plus + least[i] > most:
            while i & 1:  # the right child: all that its parent holds lies behind us
                i >>= 1
            if not i:
                return -1
            i += 1
        while i < self.size:
            i <<= 1
            if plus + least[i] > most:
                i += 1
        return i - self.size
