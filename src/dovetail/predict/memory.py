"""The jobs that a predictor learns from: what was known of each at its submission, and what it took."""

from __future__ import annotations

from collections.abc import Mapping
from math import log1p
from typing import Final, NamedTuple, final

from dovetail.core.model import Job, JobId, Seconds
from dovetail.predict.chronicle import Chronicle, Known


class Lesson(NamedTuple):
    """A job that finished: the logarithm is of its seconds plus one."""

    known: Known
    log_seconds: float


@final
class Memory:
    """Told of jobs in order of submission and of their ends in order of time."""

    def __init__(self) -> None:
        self.chronicle: Final = Chronicle()
        self.lessons: Final[list[Lesson]] = []
        self.ended: Final[list[Seconds]] = []  # when, for each lesson
        self._open: Final[dict[JobId, Known]] = {}

    @property
    def open(self) -> Mapping[JobId, Known]:
        """What was known at their submission of the jobs that have not ended."""
        return self._open

    def submits(self, job: Job, at: Seconds) -> Known:
        known = self._open[job.id] = self.chronicle.submits(job, at)
        return known

    def ends(self, job: Job, at: Seconds, seconds: Seconds | None) -> None:
        """None: it did not finish, and teaches nothing. The chronicle is told apart from this."""
        known = self._open.pop(job.id)
        if seconds is not None:
            self.lessons.append(Lesson(known, log1p(seconds)))
            self.ended.append(at)
