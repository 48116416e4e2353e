"""How long jobs should run yet, for policies that compare places for them."""

from __future__ import annotations

from typing import Final, final

from dovetail.core.model import Seconds
from dovetail.core.track import Track
from dovetail.core.view import ENDS, PARKS, RUNS, WAITS, View
from dovetail.policies.backfill.backlog import Backlog
from dovetail.policies.narrowing import Narrowed
from dovetail.policies.outlook import time_left
from dovetail.predict.duration import Predictor

_LEAST_S: Final = 1.0  # what a running job is expected to need yet, whatever was predicted


@final
class Hopes:
    """How long each job was expected to run when it began to wait, at speed 1."""

    def __init__(self, view: View, predictor: Predictor) -> None:
        self.watches = WAITS | RUNS | ENDS | PARKS
        self._view: Final = view
        self._predictor: Final = predictor
        self.backlog: Final = Backlog()
        self.narrowed: Final = Narrowed()
        self._duration_s: Final[dict[int, Seconds]] = {}  # by sequence

    def waits(self, track: Track) -> None:
        self.backlog.add(track, time_left(track, self._expect(track)))

    def runs(self, track: Track) -> None:
        self.backlog.remove(track.sequence)
        if track.sequence not in self._duration_s:
            self._expect(track)

    def ends(self, track: Track) -> None:
        self.backlog.remove(track.sequence)
        self._duration_s.pop(track.sequence, None)

    def parks(self, track: Track) -> None:
        self.ends(track)

    def settle(self) -> None:
        """Nothing is ever tried out."""

    def _expect(self, track: Track) -> Seconds:
        found = self._predictor.duration_s(track.job, self._view)
        self._duration_s[track.sequence] = found
        return found

    def left_s(self, track: Track) -> Seconds:
        """What the running job has yet to do, at speed 1. One that has outlived its estimate is given
        as long again as it has had, since long jobs tend to be very long."""
        done = track.executed_by(self._view.now)
        left = self._duration_s[track.sequence] - done
        return max(left if left > 0 else done, _LEAST_S)


@final
class HopesBy:
    """The spec of the index."""

    def __init__(self, predictor: Predictor) -> None:
        self._predictor: Final = predictor

    def build(self, view: View) -> Hopes:
        return Hopes(view, self._predictor)

    def of(self, view: View) -> Hopes:
        hopes = view.index(self)
        assert isinstance(hopes, Hopes)
        return hopes
