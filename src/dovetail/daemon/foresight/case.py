"""One job that has not ended, and all that is known around it, on a copy of the live state: there
changes can be tried without consequences."""

from __future__ import annotations

from typing import Final, TypedDict

from dovetail.api.forecast_row import Span
from dovetail.api.job_row import DeadlineTold
from dovetail.core.model import JobId
from dovetail.core.state import State
from dovetail.core.track import Track
from dovetail.daemon.foresight.copy import Asked, Likeness
from dovetail.daemon.foresight.forecast import QueueForecast
from dovetail.daemon.foresight.promising import PromiseTrial
from dovetail.daemon.foresight.wording import shortened
from dovetail.daemon.history.job_rows import phase_of
from dovetail.daemon.promises import promise_of


class CaseHead(TypedDict):
    """The fields that every live job has."""

    id: str
    phase: str
    policy: str
    limited: str
    end: Span | None
    rests_on: str
    promise: DeadlineTold | None


class Case:
    def __init__(
        self,
        service: Asked,
        likeness: Likeness,
        state: State,
        track: Track,
        forecast: QueueForecast,
    ) -> None:
        self.unix: Final = service.clock.unix
        self.likeness: Final = likeness
        self.state: Final = state
        self.track: Final = track
        self.forecast: Final = forecast
        self.now: Final = self.unix(likeness.now)
        self.policy: Final = likeness.policy_on(state)

    def head(self) -> CaseHead:
        job_id = self.track.job.id
        return {
            "id": job_id,
            "phase": phase_of(self.track),
            "policy": self.likeness.policy,
            "limited": self.forecast.limited,
            "end": self.forecast.end(job_id),
            "rests_on": self.source(job_id),
            "promise": self._promise(),
        }

    def _promise(self) -> DeadlineTold | None:
        told = promise_of(self.policy, self.state, self.track, self.unix)
        if told is None or told.promised:
            return told
        return PromiseTrial(self.likeness, self.track.job, self.unix(0.0)).completed(told)

    def source(self, job_id: str) -> str:
        """The evidence behind the duration that is expected of a job."""
        belief = self.forecast.beliefs.get(JobId(job_id))
        return belief.source if belief is not None else ""

    def name(self, job_id: str, word: str = "job ") -> str:
        """Job 41 (train.py, ana)."""
        track = self.state.tracks.get(JobId(job_id))
        if track is None:
            track = next((t for t in self.state.past if t.job.id == job_id), None)
        if track is None:
            return f"{word}{job_id}"
        names = [shortened(track.job.name, 24), shortened(track.job.user, 16)]
        known = ", ".join(name for name in names if name)
        return f"{word}{job_id} ({known})" if known else f"{word}{job_id}"
