"""How far beliefs about lengths and speeds were off: promises leave that much room."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil
from typing import Final, NamedTuple, final

from dovetail.core.room import Room
from dovetail.core.track import FINISHED, Track
from dovetail.core.view import ENDS, RECALLS, View
from dovetail.policies.flex.promises import believed_then
from dovetail.policies.flex.speeds_seen import slower_than_believed

_ENOUGH: Final = 10  # jobs, to go by what has happened
_KEPT: Final = 200
_SURE: Final = 0.98  # of the jobs are to be no longer than is allowed for
_ROUNDING: Final = 1e-6


class Doubt(NamedTuple):
    """By which parts jobs may be longer than believed, and believed to be faster than they are."""

    lengths: float
    speeds: float


@final
class _Ratios:
    """Of the last jobs with a deadline: how long they were to how long they were believed to be, and
    how fast they were believed to be to how fast they were, wherever they ran."""

    def __init__(self, room: Room) -> None:
        self._room: Final = room
        self.watches = ENDS | RECALLS
        self.lengths: Final[deque[float]] = deque(maxlen=_KEPT)
        self.speeds: Final[deque[float]] = deque(maxlen=_KEPT)

    def recall(self, track: Track) -> None:
        if track.ended_at >= 0:
            self.ends(track)

    def ends(self, track: Track) -> None:
        self.speeds.extend(slower_than_believed(track, self._room))
        believed = believed_then(track)
        if track.phase is FINISHED and believed is not None and believed > 0:
            self.lengths.append(track.executed_s / believed)


@final
@dataclass(frozen=True, eq=False)
class Surprises:
    """Asks the view for what has become of beliefs."""

    def build(self, view: View) -> _Ratios:
        return _Ratios(view.room)

    def doubt(self, view: View, prior: Doubt) -> Doubt:
        """As nearly all were off, or `prior` while too few are known."""
        ratios = view.index(self)
        assert isinstance(ratios, _Ratios)
        going = view.tracks.values()
        speeds = [one for track in going for one in slower_than_believed(track, view.room)]
        return Doubt(
            _nearly_all(ratios.lengths, prior.lengths),
            _nearly_all([*ratios.speeds, *speeds], prior.speeds),
        )


def _nearly_all(ratios: Iterable[float], prior: float) -> float:
    by_size = sorted(ratios)
    if len(by_size) < _ENOUGH:
        return prior
    most = by_size[ceil(_SURE * len(by_size)) - 1] - 1.0
    return most if most > _ROUNDING else 0.0
