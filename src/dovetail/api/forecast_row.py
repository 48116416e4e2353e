"""What is expected of jobs, and of a job that is not submitted. Times are seconds since 1970."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias

from dovetail.api.wire import about, row

InTime: TypeAlias = Literal["yes", "likely", "perhaps", "no", "unknown"]


@dataclass
class Span:
    """A time that is expected; in four of five cases it lies between low and high (null: open)."""

    expected: float
    low: float
    high: float | None
    guess: bool = field(
        default=False, metadata=about("It rests on a job of which none like it has finished.")
    )

    def moved(self, by: float) -> Span:
        high = None if self.high is None else self.high + by
        return replace(self, expected=self.expected + by, low=self.low + by, high=high)

    def not_before(self, start: Span) -> Span:
        """The end of a job that starts then: it ends after its start, at the earliest and at best."""
        expected, low = max(self.expected, start.expected), max(self.low, start.low)
        if self.high is None or start.high is None:
            return replace(self, expected=expected, low=low, high=None)
        return replace(self, expected=expected, low=low, high=max(self.high, start.high))


class Expected(NamedTuple):
    """When a job is expected to start and to end; null where that is unknown."""

    expected_start: Span | None
    expected_end: Span | None


@row
class Forecast:
    """When jobs are expected to start and to end."""

    made_at: float
    limited: str = field(metadata=about("What it does not take into account."))
    starts: dict[str, Span | None] = field(metadata=about("null: unknown."))
    ends: dict[str, Span | None] = field(metadata=about("null: unknown."))


@dataclass
class Change:
    """Told as text, and as the field of the job (or `pause`) with its value."""

    change: str = field(metadata=about("As asked, or what is different."))
    field: str = field(
        metadata=about("Of the job, or two; or at (submitted then), or pause (another job).")
    )
    value: Any


@row
class CostTold:
    """Money that is spent because of the job, and would not be without it."""

    energy: float
    lateness: float = field(metadata=about("Its own."))
    others: float = field(metadata=about("What other jobs cost more by being late or moved."))
    total: float


@row
class OthersTold:
    """The consequences for other jobs."""

    later: int = field(metadata=about("How many other jobs end later because of it."))
    most_s: float = field(metadata=about("By how much at most."))
    job: str | None = field(metadata=about("Which one that is."))


@row
class OutcomeTold(Change):
    """The outcome of the job, with that change."""

    start: Span | None = field(metadata=about("null: it is unknown."))
    end: Span | None
    late_s: float | None = field(metadata=about("After its deadline, else after `by`."))
    in_time: InTime | None = field(
        metadata=about(
            "For `by`: the whole interval, the expected end, its beginning, nothing "
            "of it, or nothing is known."
        )
    )
    cost: CostTold | None = field(metadata=about("null: `uncosted` says why."))
    others: OthersTold
    rests_on: str = field(metadata=about("The source of the expected duration."))


@row
class WhatIf:
    """The outcome of a job that is not submitted."""

    policy: str
    now: float
    name: str
    gpus: int
    priority: float
    deadline: float | None
    by: float | None = field(metadata=about("The time asked about, else its deadline."))
    as_asked: OutcomeTold
    alternatives: list[OutcomeTold] = field(
        metadata=about("Those that gain something, best first.")
    )
    tried: int = field(metadata=about("How many alternatives were looked at."))
    uncosted: str = field(metadata=about("Why costs are unknown."))
    currency: str = ""
    limited: str = field(metadata=about("What it does not take into account."))
