"""Clockwork and Shepherd: the largest batch that is in time; who cannot be is told at once."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.sdk.batching.forming import BatchBounds, RequestLine, Step
from dovetail.sdk.batching.in_time import largest_in_time


@dataclass(frozen=True, slots=True)
class Clockwork:
    """Clockwork: the largest batch whose requests are all in time, at once. Requests that cannot be in
    time are dropped before they take any."""

    def batcher(self, bounds: BatchBounds) -> LargestInTime:
        return LargestInTime(bounds)


@dataclass(frozen=True, slots=True)
class Shepherd:
    """Shepherd: as Clockwork where there is one line and one server; a function that runs is not
    preempted."""

    def batcher(self, bounds: BatchBounds) -> LargestInTime:
        return LargestInTime(bounds)


class LargestInTime:
    """Whoever is left out would be late after this batch."""

    __slots__ = ("_most", "_seconds")

    def __init__(self, bounds: BatchBounds) -> None:
        self._most = bounds.max_batch
        self._seconds = bounds.seconds

    def step(self, now: float, line: RequestLine) -> Step:
        skipped, size = largest_in_time(now, line, self._seconds, self._most)
        return Step(size, skipped if size else len(line))

    def took(self, size: int, seconds: float) -> None:
        """It knows how long batches take."""
