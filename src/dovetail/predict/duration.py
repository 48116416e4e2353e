"""Beliefs about how long a job runs in all, at speed 1 and undisturbed."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Final, Protocol, final

from dovetail.core.model import Job, JobId, Seconds
from dovetail.core.state import View
from dovetail.core.track import Phase, Track


class Predictor(Protocol):
    def duration_s(self, job: Job, view: View) -> Seconds: ...


@final
class Oracle:
    """Knows every duration. What other simulators assume silently stands here at the call site."""

    def __init__(self, durations: Mapping[JobId, Seconds]) -> None:
        self._durations: Final = durations

    def duration_s(self, job: Job, view: View) -> Seconds:
        return self._durations[job.id]
