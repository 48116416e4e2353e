"""From reports and their times to a speed: what one copy of the job told while it was watched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

from dovetail.core.model import Seconds

FEWEST_STEPS = 3  # reports after the first: fewer say nothing of a speed


@dataclass
class WatchedCopy:
    """One process of the job. Times are seconds since the first of them was launched."""

    launched_at: Seconds = 0.0
    reports: list[tuple[Seconds, float]] = field(default_factory=list)  # when, and which step
    ended_at: Seconds | None = None

    def hear(self, at: Seconds, step: float | None) -> None:
        before = self.reports[-1][1] if self.reports else 0.0
        self.reports.append((at, before + 1.0 if step is None else step))

    def within(self, start: Seconds, end: Seconds) -> list[tuple[Seconds, float]]:
        return [(at, step) for at, step in self.reports if start <= at <= end]


@dataclass(frozen=True, slots=True)
class MeasuredPace:
    """How fast copies of the job ran side by side, and what starting and ending them took."""

    steps_per_s: float
    startup_s: Seconds  # until the first step began
    shutdown_s: Seconds  # from the last step to the end of the process; 0 if that was not seen
    reports: int


def window(copies: Sequence[WatchedCopy]) -> tuple[Seconds, Seconds] | None:
    """While all of them were at work: from the last first report until the first of them ended."""
    if not all(copy.reports for copy in copies):
        return None
    start = max(copy.reports[0][0] for copy in copies)
    ends = [copy.reports[-1][0] for copy in copies if copy.ended_at is not None]
    return start, min(ends, default=max(copy.reports[-1][0] for copy in copies))


def enough(copies: Sequence[WatchedCopy], seconds: Seconds, now: Seconds) -> bool:
    """Has each told enough, for long enough?"""
    span = window(copies)
    if span is None or now - span[0] < seconds:
        return False
    return all(len(copy.within(*span)) > FEWEST_STEPS for copy in copies)


def pace(copies: Sequence[WatchedCopy]) -> MeasuredPace | None:
    """The mean over the copies; None if they told too little."""
    span = window(copies)
    if span is None:
        return None
    heard = [copy.within(*span) for copy in copies]
    speeds = [_speed(own) for own in heard]
    known = [speed for speed in speeds if speed is not None]
    if len(known) < len(copies) or any(len(own) <= FEWEST_STEPS for own in heard):
        return None
    startups = [_startup(copy, speed) for copy, speed in zip(copies, known, strict=True)]
    shutdowns = [
        copy.ended_at - copy.reports[-1][0] for copy in copies if copy.ended_at is not None
    ]
    return MeasuredPace(
        fmean(known), fmean(startups), fmean(shutdowns or [0.0]), sum(len(own) for own in heard)
    )


def _speed(heard: Sequence[tuple[Seconds, float]]) -> float | None:
    if len(heard) < 2:
        return None
    (began, first), (ended, last) = heard[0], heard[-1]
    return (last - first) / (ended - began) if ended > began and last > first else None


def _startup(copy: WatchedCopy, speed: float) -> Seconds:
    """The first report tells of steps that took their time, too: as many as lie between others."""
    (first_at, first), (_, last) = copy.reports[0], copy.reports[-1]
    between = (last - first) / (len(copy.reports) - 1)
    return max(first_at - copy.launched_at - between / speed, 0.0)
