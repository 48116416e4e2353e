"""The course of a job that counts its steps: once it has worked for a while it says how far it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final, final

from dovetail.core.model import Job, Node, Placement, Seconds
from dovetail.models.course import Course, Milestone, Told
from dovetail.models.speed import Speed
from dovetail.models.workload import Arrival

FIRST_REPORT_S: Final = 60.0  # of work in one place


@dataclass(frozen=True)
class Counted:
    """Makes the course of a job of so much work, which is `amount` steps of equal length."""

    job: Job
    work_s: Seconds
    amount: float
    truth: Speed

    def __call__(self) -> CountedCourse:
        return CountedCourse(self)


@final
class CountedCourse:
    """Tells its steps once in each place: from then on they follow from the time."""

    heeds_leaving: Final = True

    def __init__(self, terms: Counted) -> None:
        self._terms: Final = terms
        self._left_s = terms.work_s
        self._began = 0.0
        self._beside = 1.0  # how fast it is beside those that it has just met, next to alone
        self.speed = 0.0

    def meet(self, others: Sequence[Course | None], rate: float) -> None:
        self._beside = rate

    def begin(self, at: Seconds, placement: Placement, nodes: Sequence[Node]) -> Milestone:
        self.speed = self._terms.truth(self._terms.job, placement, nodes) * self._beside
        self._beside = 1.0
        self._began = at
        end = self._end()
        tells_at = at + FIRST_REPORT_S
        return Milestone(tells_at, False) if tells_at < end else Milestone(end, True)

    def reach(self, at: Seconds) -> tuple[Told, Milestone]:
        done_s = self._terms.work_s - self._left_s + self._worked_s(at)
        step = self._terms.amount * done_s / self._terms.work_s
        return Told(step, {}), Milestone(self._end(), True)

    def halt(self, at: Seconds) -> Seconds:
        worked_s = self._worked_s(at)
        self._left_s -= worked_s
        self._began = at
        return worked_s

    def lose(self, work_s: Seconds) -> None:
        self._left_s += work_s

    def _worked_s(self, at: Seconds) -> Seconds:
        return min(max(at - self._began, 0.0) * self.speed, self._left_s)

    def _end(self) -> Seconds:
        return self._began + self._left_s / self.speed if self.speed > 0 else inf


def counting(arrivals: Sequence[Arrival], truth: Speed) -> list[Arrival]:
    """The same jobs; those whose command names their steps tell them."""

    def told(arrival: Arrival) -> Arrival:
        job = arrival.job
        simple = arrival.course is None and not arrival.failures and not arrival.work_s <= 0
        if job.amount is None or not simple or arrival.cancel_after_s is not None:
            return arrival
        return replace(arrival, course=Counted(job, arrival.work_s, job.amount, truth))

    return [told(arrival) for arrival in arrivals]
