"""The replicas of services that wait, kept up to date: at most events there are none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from dovetail.core.track import Track
from dovetail.core.view import ENDS, PARKS, RUNS, WAITS, View


@final
class WaitingReplicas:
    """The index: by sequence, those that may start now."""

    def __init__(self, is_replica: Callable[[Track], bool]) -> None:
        self.watches = WAITS | RUNS | ENDS | PARKS
        self._is_replica: Final = is_replica
        self.tracks: Final[dict[int, Track]] = {}

    def waits(self, track: Track) -> None:
        if self._is_replica(track):
            self.tracks[track.sequence] = track
        else:
            self._forget(track)  # it was one before its user amended it

    def runs(self, track: Track) -> None:
        self._forget(track)

    def ends(self, track: Track) -> None:
        self._forget(track)

    def parks(self, track: Track) -> None:
        self._forget(track)

    def _forget(self, track: Track) -> None:
        self.tracks.pop(track.sequence, None)

    def in_order(self) -> list[Track]:
        """The highest priority first, then who was submitted first."""
        return sorted(self.tracks.values(), key=lambda own: (-own.job.priority, own.sequence))


@final
class ReplicasBy:
    """The spec of the index."""

    def __init__(self, is_replica: Callable[[Track], bool]) -> None:
        self._is_replica: Final = is_replica

    def build(self, view: View) -> WaitingReplicas:
        return WaitingReplicas(self._is_replica)
