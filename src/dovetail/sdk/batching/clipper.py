"""Clipper: batches grow while they are fast enough, and shrink when one was too slow."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from dovetail.sdk.batching.forming import SLACK_S, BadRule, BatchBounds
from dovetail.sdk.batching.static import FixedSize


@dataclass(frozen=True, slots=True)
class Clipper:
    """Clipper: the largest batch grows by 1 while a batch takes no longer than `share` of the SLO, and
    is multiplied by `backoff` when one does (AIMD). A batch waits up to `wait_ms` to be full. Answers
    to the last `cache` inputs are kept."""

    wait_ms: float = 0.0
    share: float = 1.0
    backoff: float = 0.9
    cache: int = 0

    def __post_init__(self) -> None:
        if self.wait_ms < 0:
            raise BadRule(f"wait_ms={self.wait_ms:g}: nobody can wait less than 0 ms")
        if not 0 < self.share <= 1:
            raise BadRule(f"share={self.share:g} is not above 0 and at most 1")
        if not 0 <= self.cache < inf:
            raise BadRule(f"cache={self.cache:g}: it is at least 0")
        if not 0 < self.backoff < 1:
            raise BadRule(f"backoff={self.backoff:g} is not between 0 and 1")

    def batcher(self, bounds: BatchBounds) -> Probing:
        return Probing(self, bounds)


class Probing(FixedSize):
    """Searches for the largest batch by trying."""

    __slots__ = ("_backoff", "_bound", "_target_s")

    def __init__(self, rule: Clipper, bounds: BatchBounds) -> None:
        super().__init__(1, rule.wait_ms / 1e3)
        self._backoff = rule.backoff
        self._bound = bounds.max_batch
        self._target_s = bounds.slo_s * rule.share

    def took(self, size: int, seconds: float) -> None:
        """A batch that was not full says nothing about a larger one."""
        if seconds > self._target_s + SLACK_S:
            self.most = max(int(size * self._backoff), 1)
        elif size >= self.most:
            self.most = min(self.most + 1, self._bound)
