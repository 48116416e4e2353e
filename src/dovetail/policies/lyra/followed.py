"""The jobs that Lyra looks for at each event, kept up to date: at most events there are none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from dovetail.core.track import Track
from dovetail.core.view import ENDS, PARKS, RUNS, WAITS, View


@final
class FollowedJobs:
    """The index: replicas that may start now, and elastic training jobs that run, by sequence."""

    def __init__(self, is_replica: Callable[[Track], bool]) -> None:
        self.watches = WAITS | RUNS | ENDS | PARKS
        self._is_replica: Final = is_replica
        self.replicas: Final[dict[int, Track]] = {}
        self.elastic: Final[dict[int, Track]] = {}

    def waits(self, track: Track) -> None:
        self._forget(track)
        if self._is_replica(track):
            self.replicas[track.sequence] = track

    def runs(self, track: Track) -> None:
        self._forget(track)
        if track.job.elastic and not self._is_replica(track):
            self.elastic[track.sequence] = track

    def ends(self, track: Track) -> None:
        self._forget(track)

    def parks(self, track: Track) -> None:
        self._forget(track)

    def _forget(self, track: Track) -> None:
        self.replicas.pop(track.sequence, None)
        self.elastic.pop(track.sequence, None)

    def in_order(self) -> list[Track]:
        """The replicas: the highest priority first, then who was submitted first."""
        return sorted(self.replicas.values(), key=lambda own: (-own.job.priority, own.sequence))


@final
class FollowedBy:
    """The spec of the index."""

    def __init__(self, is_replica: Callable[[Track], bool]) -> None:
        self._is_replica: Final = is_replica

    def build(self, view: View) -> FollowedJobs:
        return FollowedJobs(self._is_replica)
