"""A watcher of finished jobs, for figures that need nothing but their ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from dovetail.core.track import FINISHED, Track
from dovetail.core.view import ENDS, View


@final
class FinishedJobs:
    """An index of the state that calls `note` with each job that finishes."""

    def __init__(self, note: Callable[[Track], object]) -> None:
        self.watches = ENDS
        self._note: Final = note

    def build(self, view: View) -> FinishedJobs:
        return self

    def ends(self, track: Track) -> None:
        if track.phase is FINISHED:
            self._note(track)
