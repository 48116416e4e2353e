"""Keeping forecasts honest: intervals reach as far as those that were shown before have needed.

What a forecast cannot know (jobs that come later and go first, failures, times that go wrong together)
shows in how far the first that was said of each job was off, in the reaches of its own interval.
Intervals are stretched by what the latest of these would have needed, each side by itself (conformal
prediction). Nothing of this is stored: after a restart it begins anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import Final, NamedTuple, final

from dovetail.core.model import JobId, Seconds
from dovetail.core.state import State
from dovetail.core.track import Phase, Track
from dovetail.daemon.foresight.intervals import Span
from dovetail.predict.calibration import Shown

_TAIL = 0.1
_LEAST_REACH = 0.02  # of the time until then: an interval without any width could not be stretched
_MOST_OPEN = 10_000  # jobs that are waited for
START, END = 0, 1


class _Promise(NamedTuple):
    """The first that was said of a job's start and end."""

    at: Seconds
    spans: tuple[Span | None, Span | None]


@final
class Record:
    """What was said first of jobs that waited, under one policy, and how far off it was."""

    def __init__(self) -> None:
        self._lock: Final = Lock()
        self._policy = ""
        self._open: Final[dict[JobId, _Promise]] = {}
        self._off = (Shown(_TAIL), Shown(_TAIL))

    def judge(self, state: State, policy: str) -> None:
        """See what has become of those that something was said of."""
        with self._lock:
            if policy != self._policy:
                self._policy, self._off = policy, (Shown(_TAIL), Shown(_TAIL))
                self._open.clear()
            if not self._open:
                return
            past = {track.job.id: track for track in state.past if track.job.id in self._open}
            for job_id, promise in [*self._open.items()]:
                track = past.get(job_id) or state.tracks.get(job_id)
                kept = None if track is None else self._judged(promise, track)
                if kept is None:
                    del self._open[job_id]
                else:
                    self._open[job_id] = kept

    def _judged(self, promise: _Promise, track: Track) -> _Promise | None:
        """What is yet to be seen of it; None: nothing."""
        start, end = promise.spans
        if start is not None and track.first_start_at >= 0:
            self._off[START].judge(_off(start, promise.at, track.first_start_at))
            start = None
        if end is not None and track.phase is Phase.FINISHED:
            self._off[END].judge(_off(end, promise.at, track.ended_at))
            end = None
        if track.ended_at >= 0 or (start is None and end is None):
            return None
        return promise._replace(spans=(start, end))

    def note(self, state: State, starts: Mapping[JobId, Span], ends: Mapping[JobId, Span]) -> None:
        """What is said of jobs that wait, before it is stretched; only the first time counts."""
        with self._lock:
            for job_id, track in state.tracks.items():
                if (
                    track.first_start_at < 0
                    and track.placement is None
                    and len(self._open) < _MOST_OPEN
                ):
                    spans = (starts.get(job_id), ends.get(job_id))
                    self._open.setdefault(job_id, _Promise(state.now, spans))

    def stretched(self, span: Span, now: Seconds, which: int) -> Span:
        """As wide as it must be."""
        off = self._off[which]
        if not off.judged:
            return span
        low, high = off.reach()
        below, above = _reaches(span, now)
        latest = None if span.high is None else max(span.expected + high * above, span.expected)
        return Span(span.expected, max(span.expected + low * below, min(now, span.low)), latest)


def _reaches(span: Span, now: Seconds) -> tuple[Seconds, Seconds]:
    least = _LEAST_REACH * max(span.expected - now, 0.0) + 1e-9
    above = least if span.high is None else max(span.high - span.expected, least)
    return max(span.expected - span.low, least), above


def _off(span: Span, now: Seconds, truth: Seconds) -> float:
    """In the reaches of its own interval; within an open one it is not off."""
    below, above = _reaches(span, now)
    if truth < span.expected:
        return (truth - span.expected) / below
    return 0.5 if span.high is None else (truth - span.expected) / above
