"""Nexus: a batch that leaves time for the one before it, and early drop."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.sdk.batching.forming import SLACK_S, BatchBounds, Durations, RequestLine, Step
from dovetail.sdk.batching.in_time import window_in_time


def batch_of_half(seconds: Durations, slo_s: float, most: int) -> int:
    """The largest batch that keeps the SLO although its first request just missed the batch before: two
    of them one after the other. 0: not even one request at a time does."""
    size = 0
    while size < most and 2 * seconds[size + 1] <= slo_s + SLACK_S:
        size += 1
    return size


@dataclass(frozen=True, slots=True)
class Nexus:
    """Nexus: batches as large as two of them one after the other keep the SLO. Who would make such a
    batch late is dropped early."""

    def batcher(self, bounds: BatchBounds) -> EarlyDrop:
        return EarlyDrop(bounds)


class EarlyDrop:
    """Batches up to `wanted`."""

    __slots__ = ("_seconds", "wanted")

    def __init__(self, bounds: BatchBounds) -> None:
        self._seconds = bounds.seconds
        self.wanted = max(batch_of_half(bounds.seconds, bounds.slo_s, bounds.max_batch), 1)

    def step(self, now: float, line: RequestLine) -> Step:
        dropped = window_in_time(now, line, self._seconds, self.wanted)
        return Step(min(self.wanted, len(line) - dropped), dropped)

    def took(self, size: int, seconds: float) -> None:
        """It knows how long batches take."""
