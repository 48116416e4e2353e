"""Symphony: a batch waits for company until one request more would make it late."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from dovetail.sdk.batching.clockwork import LargestInTime
from dovetail.sdk.batching.forming import SLACK_S, BatchBounds, Durations, RequestLine, Step
from dovetail.sdk.batching.in_time import largest_in_time


def window(deadline: float, size: int, seconds: Durations, most: int) -> tuple[float, float]:
    """When a batch of that size, of which this is the first deadline, may begin: not while a larger one
    could still be in time, and not when it would be late itself."""
    if deadline == inf:
        return -inf, inf
    opens = -inf if size >= most else deadline - seconds[size + 1]
    return opens, deadline - seconds[size]


@dataclass(frozen=True, slots=True)
class Symphony:
    """Symphony: a batch begins when it is full, or when with one request more it would be late (deferred
    batching). Requests that cannot be in time are dropped."""

    def batcher(self, bounds: BatchBounds) -> Deferred:
        return Deferred(bounds)


class Deferred(LargestInTime):
    """For one line and one server."""

    __slots__ = ()

    def step(self, now: float, line: RequestLine) -> Step:
        skipped, size = largest_in_time(now, line, self._seconds, self._most)
        if not size:
            return Step(drop=len(line))
        opens, _ = window(line[skipped].deadline, size, self._seconds, self._most)
        if now < opens - SLACK_S:
            return Step(drop=skipped, again_at=opens)
        return Step(size, skipped)
