"""Fixed batches: full, or the first has waited long enough."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.sdk.batching.forming import SLACK_S, BadRule, BatchBounds, RequestLine, Step

MOST_WAIT_MS = 10**9


@dataclass(frozen=True, slots=True)
class Static:
    """A batch begins when it is full or its first request has waited `wait_ms`. Nothing is dropped."""

    wait_ms: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.wait_ms <= MOST_WAIT_MS:
            raise BadRule(f"wait_ms={self.wait_ms:g}: it is from 0 to {MOST_WAIT_MS:,} ms")

    def batcher(self, bounds: BatchBounds) -> FixedSize:
        return FixedSize(bounds.max_batch, self.wait_ms / 1e3)


class FixedSize:
    """Up to `most` at once."""

    __slots__ = ("most", "wait_s")

    def __init__(self, most: int, wait_s: float) -> None:
        self.most = most
        self.wait_s = wait_s

    def step(self, now: float, line: RequestLine) -> Step:
        waiting = len(line)
        if waiting >= self.most:
            return Step(self.most)
        if self.wait_s:
            due = line[0].at + self.wait_s
            if now < due - SLACK_S:
                return Step(again_at=due)
        return Step(waiting)

    def took(self, size: int, seconds: float) -> None:
        """Nothing is learned from it: the size is fixed."""
