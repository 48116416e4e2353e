"""A time that is expected, with an interval around it."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.core.model import Seconds


@dataclass(frozen=True, slots=True)
class Span:
    """A time, in seconds since 1970: four times of five between low and high (None: open)."""

    expected: float
    low: float
    high: float | None

    def moved(self, by: Seconds) -> Span:
        high = None if self.high is None else self.high + by
        return Span(self.expected + by, self.low + by, high)

    def not_before(self, start: Span) -> Span:
        """The end of what starts so: nothing ends before it has begun, nor sooner than it may begin."""
        expected, low = max(self.expected, start.expected), max(self.low, start.low)
        if self.high is None or start.high is None:
            return Span(expected, low, None)
        return Span(expected, low, max(self.high, start.high))

    def row(self) -> dict[str, float | None]:
        return {"expected": self.expected, "low": self.low, "high": self.high}
