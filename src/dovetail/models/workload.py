"""The true workload: when jobs come and how much work they really are."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from dovetail.core.model import Job, Placement, Seconds, remade
from dovetail.models.course import CourseMaker


@dataclass(frozen=True, slots=True)
class Arrival:
    """One job of a trace with its truth. Policies never see this, only the `Job` inside."""

    at: Seconds
    job: Job
    work_s: Seconds  # how long it runs at speed 1, undisturbed
    failures: tuple[Seconds, ...] = ()  # attempt i dies after that many seconds of running
    cancel_at: Seconds | None = None  # the user gives up then, if it has not ended
    cancel_after_s: Seconds | None = None  # or when so much of the work is done
    course: CourseMaker | None = None  # where its speed depends on more than its GPUs

    def __post_init__(self) -> None:
        if not (isfinite(self.at) and self.at >= 0):
            raise ValueError(
                f"job {self.job.id!r} is submitted at {self.at}; give 0 or more seconds"
            )
        if not (isfinite(self.work_s) and self.work_s >= 0):
            raise ValueError(f"job {self.job.id!r} runs for {self.work_s} s; give 0 or more")
        if self.course is not None and (self.failures or self.cancel_after_s is not None):
            raise ValueError(f"job {self.job.id!r} has a course: give it no failures in advance")

    def __reduce__(self) -> tuple[object, ...]:
        return remade(self)


@dataclass(frozen=True, slots=True)
class Going:
    """A job in the middle of its life, and the truth about the rest of it."""

    job: Job
    left_s: Seconds  # work to be done yet, at speed 1
    has_run: bool = False  # so that its next start must restore something
    placement: Placement | None = None  # None while it waits
    works_from: Seconds | None = None  # when it will be at work on its GPUs; None: it is already
    speed: float = 1.0
