"""The rate at which work arrives, from the last submissions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias, final

from dovetail.core.model import Seconds
from dovetail.core.track import Track
from dovetail.core.view import RECALLS, WAITS, View

Work: TypeAlias = Callable[[Track, View], float]  # GPU-seconds that a job is believed to take
FEW: Final = 8  # so many jobs say nothing yet
MANY: Final = 40  # and more than that are of the past


@final
class Tide:
    """The last submissions: when, and how much work each was."""

    def __init__(self, work: Work, view: View) -> None:
        self.watches = WAITS | RECALLS
        self._work: Final = work
        self._view: Final = view
        self._last = -1  # the order of submission of the latest
        self._new: Final[deque[Track]] = deque(maxlen=MANY)  # whose work nobody has asked for yet
        self._came: Final[deque[tuple[Seconds, float]]] = deque(maxlen=MANY)

    def waits(self, track: Track) -> None:
        if track.sequence > self._last:
            self._last = track.sequence
            self._new.append(track)

    def recall(self, track: Track) -> None:
        """Those that came before this index was made: the last of them, in their order."""
        known = {own.sequence: own for own in (*self._new, track)}
        self._new.clear()
        self._new.extend([known[sequence] for sequence in sorted(known)])
        self._last = max(self._last, track.sequence)

    def gpus(self, now: Seconds) -> float:
        """GPUs that would do the work as fast as it arrives."""
        came = self._came
        while self._new:
            track = self._new.popleft()
            came.append((track.submitted_at, self._work(track, self._view)))
        if len(came) < FEW or now <= came[0][0]:
            return 0.0
        return sum([work for _, work in came]) / (now - came[0][0]) * (1 - 1 / len(came))
