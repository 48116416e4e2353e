"""What is expected of jobs, as the daemon tells it. Times are seconds since 1970."""

from __future__ import annotations

from dataclasses import dataclass, field

from dovetail.api.wire import about, row


@dataclass
class Span:
    """A time that is expected; in four of five cases it lies between low and high (null: open)."""

    expected: float
    low: float
    high: float | None

    def moved(self, by: float) -> Span:
        high = None if self.high is None else self.high + by
        return Span(self.expected + by, self.low + by, high)

    def not_before(self, start: Span) -> Span:
        """The end of a job that starts then: it ends after its start, at the earliest and at best."""
        expected, low = max(self.expected, start.expected), max(self.low, start.low)
        if self.high is None or start.high is None:
            return Span(expected, low, None)
        return Span(expected, low, max(self.high, start.high))


@row
class Forecast:
    """When jobs are expected to start and to end."""

    made_at: float
    limited: str = field(metadata=about("What it does not take into account."))
    starts: dict[str, Span | None] = field(metadata=about("null: unknown."))
    ends: dict[str, Span | None] = field(metadata=about("null: unknown."))
