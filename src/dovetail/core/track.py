"""One job's history in brief, as far as a scheduler knows it."""

from __future__ import annotations

from enum import Enum
from typing import Final, final

from dovetail.core.model import Job, Placement, Seconds, Shape


class Phase(Enum):
    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    SUSPENDED = "suspended"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REFUSED = "refused"


@final
class Track:
    """Changed by the state alone. Seconds and GPU-seconds are as of the last change of phase."""

    def __init__(self, job: Job, shape: Shape, sequence: int, at: Seconds) -> None:
        self.job: Final = job
        self.shape: Final = shape
        self.sequence: Final = sequence  # order of submission: the last word in every tie
        self.submitted_at: Final = at
        self.phase = Phase.QUEUED
        self.placement: Placement | None = None  # None while it waits
        self.holds = 0.0  # GPUs in its hands now, a share counted as a part
        self.waiting_since = at
        self.first_start_at: Seconds = -1.0
        self.started_at: Seconds = -1.0  # when it was last given GPUs
        self.working_since: Seconds = -1.0  # when it last began to make progress; -1 if not yet
        self.ended_at: Seconds = -1.0
        self.executed_s: Seconds = 0.0  # progress so far, in seconds of running
        self.held_gpu_s: float = 0.0  # GPU-seconds it had in its hands
        self.lost_gpu_s: float = 0.0  # of these: saving, restoring, and work done twice
        self.preemptions = 0
        self.attempts = 0  # how often it died by its own fault
        self.turn = 0  # changes whenever it begins or ceases to wait; marks stale index rows
        self.ticket = sequence  # its place in the order of beginning to wait
        self.reason = ""

    @property
    def waiting(self) -> bool:
        return self.placement is None

    @property
    def resumed(self) -> bool:
        """Has it run before, so that a start must restore something?"""
        return self.first_start_at >= 0

    def executed_by(self, now: Seconds) -> Seconds:
        """Seconds of progress at that time."""
        if self.placement is None or self.working_since < 0:
            return self.executed_s
        return self.executed_s + (now - self.working_since)

    def service_by(self, now: Seconds) -> float:
        """GPU-seconds held up to that time."""
        if self.placement is None:
            return self.held_gpu_s
        return self.held_gpu_s + self.holds * (now - self.started_at)
