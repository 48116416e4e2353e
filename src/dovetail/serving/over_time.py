"""Counts over time in a bounded number of bins: when a run grows longer, the bins grow wider."""

from __future__ import annotations

MOST_BINS = 400


class OverTime:
    """Two counts in each bin."""

    __slots__ = ("began", "counts", "parts", "width")

    def __init__(self, began: float = 0.0, width: float = 1.0) -> None:
        self.began = began
        self.width = width
        self.counts = [0] * MOST_BINS
        self.parts = [0] * MOST_BINS

    def add(self, when: float, count: int, part: int) -> None:
        place = int((when - self.began) / self.width)
        while place >= MOST_BINS:
            self._widen()
            place = int((when - self.began) / self.width)
        self.counts[place] += count
        self.parts[place] += part

    def _widen(self) -> None:
        self.width *= 2
        for values in (self.counts, self.parts):
            joined = [a + b for a, b in zip(values[::2], values[1::2], strict=True)]
            values[:] = [*joined, *[0] * (MOST_BINS - len(joined))]
