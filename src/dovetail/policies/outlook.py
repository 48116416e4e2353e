"""The expected durations of waiting jobs, and the expected ends of running ones."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Final, TypeAlias, final

from dovetail.core.inventory import Pool
from dovetail.core.model import Placement, Seconds
from dovetail.core.room import Room
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.policies.backfill.backlog import Backlog
from dovetail.predict.duration import Predictor

_EXTENSION = 1.5  # an estimate that has proved too short is taken that many times
_LEAST_S = 1.0  # and so is at least this: nothing times 1.5 is nothing

EndRow: TypeAlias = tuple[Seconds, int, Track]  # expected end, sequence


def time_left(track: Track, duration_s: Seconds) -> Seconds:
    """How long the waiting job would hold its GPUs."""
    left = _believable(track, duration_s) - track.executed_s
    return left + track.restore_s if track.resumed else left


def expected_end(track: Track, duration_s: Seconds) -> Seconds:
    return begins_at(track) + (_believable(track, duration_s) - track.executed_s) / track.speed


def begins_at(track: Track) -> Seconds:
    """When the running job began, or is expected to begin, to make progress."""
    begins = track.working_since
    if begins < 0:
        begins = track.started_at
        if 0 <= track.first_start_at < begins:
            begins += track.restore_s
    return begins


def _believable(track: Track, duration_s: Seconds) -> Seconds:
    """The estimate, extended if the job has done more already."""
    if track.executed_s > 0:
        while duration_s <= track.executed_s:
            duration_s = _extended(duration_s)
    return duration_s


def _extended(duration_s: Seconds) -> Seconds:
    return max(duration_s, _LEAST_S) * _EXTENSION


@final
class Outlook:
    """Each job's estimate is asked for when it begins to wait, and holds until it waits again."""

    def __init__(self, view: View, predictor: Predictor) -> None:
        self._view: Final = view
        self._predictor: Final = predictor
        self._duration_s: Final[dict[int, Seconds]] = {}  # by sequence
        self._end: Final[dict[int, Seconds]] = {}  # by sequence
        self.backlog: Final = Backlog()
        self.ends: Final[list[EndRow]] = []  # the running jobs by expected end

    def waits(self, track: Track) -> None:
        self.forget_end(track)
        duration_s = self._predictor.duration_s(track.job, self._view)
        self._duration_s[track.sequence] = duration_s
        self.backlog.add(track, time_left(track, duration_s))

    def runs(self, track: Track) -> Seconds:
        """The job was given GPUs; when it is expected to end."""
        self.forget_end(track)
        self.backlog.remove(track.sequence)
        duration_s = self._duration_s.get(track.sequence)
        if duration_s is None:
            duration_s = self._predictor.duration_s(track.job, self._view)
            self._duration_s[track.sequence] = duration_s
        return self._expect(track, duration_s)

    def leaves(self, track: Track) -> None:
        self.forget_end(track)
        self.backlog.remove(track.sequence)
        self._duration_s.pop(track.sequence, None)

    def end_of(self, track: Track) -> Seconds | None:
        """When the job was expected to end; None if it does not run."""
        return self._end.get(track.sequence)

    def extend(self) -> bool:
        """Extend the estimates of running jobs that should have ended; were there any?"""
        now, ends = self._view.now, self.ends
        if not ends or ends[0][0] > now:
            return False
        while ends[0][0] <= now:
            track = ends[0][2]
            duration_s = self._duration_s[track.sequence]
            self.forget_end(track)
            while expected_end(track, duration_s) <= now:
                duration_s = _extended(duration_s)
            self._expect(track, duration_s)
        return True

    def _expect(self, track: Track, duration_s: Seconds) -> Seconds:
        end = expected_end(track, duration_s)
        self._end[track.sequence] = end
        insort(self.ends, (end, track.sequence, track))
        return end

    def forget_end(self, track: Track) -> None:
        end = self._end.pop(track.sequence, None)
        if end is not None:
            del self.ends[bisect_left(self.ends, (end, track.sequence, track))]


def pool_of(room: Room, placement: Placement) -> Pool:
    """A gang stays in one pool: that of its first node."""
    return room.pool_of[placement.slices[0].node]
