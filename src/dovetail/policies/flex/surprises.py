"""How far beliefs about lengths were off: promises leave that much room."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import ceil
from typing import Final, final

from dovetail.core.track import FINISHED, Track
from dovetail.core.view import ENDS, RECALLS, View
from dovetail.policies.flex.promises import believed_then

_ENOUGH: Final = 10  # jobs, to go by what has happened
_KEPT: Final = 200
_SURE: Final = 0.98  # of the jobs are to be no longer than is allowed for
_ROUNDING: Final = 1e-6


@final
class _Ratios:
    """Of the last jobs with a deadline: how long they were to how long they were believed to be."""

    def __init__(self) -> None:
        self.watches = ENDS | RECALLS
        self.last: Final[deque[float]] = deque(maxlen=_KEPT)

    def waits(self, track: Track) -> None:
        """Nothing to learn yet."""

    def runs(self, track: Track) -> None:
        """Nothing to learn yet."""

    def settle(self) -> None:
        """Nothing is ever tried out."""

    def recall(self, track: Track) -> None:
        self.ends(track)

    def ends(self, track: Track) -> None:
        believed = believed_then(track)
        if track.phase is FINISHED and believed is not None and believed > 0:
            self.last.append(track.executed_s / believed)


@final
@dataclass(frozen=True, eq=False)
class Surprises:
    """Asks the view for what has become of beliefs."""

    def build(self, view: View) -> _Ratios:
        return _Ratios()

    def margin(self, view: View, doubt: float) -> float:
        """By which part jobs may be longer than believed: as nearly all of the last were, or `doubt`
        while too few are known."""
        ratios = view.index(self)
        assert isinstance(ratios, _Ratios)
        if len(ratios.last) < _ENOUGH:
            return doubt
        by_size = sorted(ratios.last)
        longest = by_size[ceil(_SURE * len(by_size)) - 1] - 1.0
        return longest if longest > _ROUNDING else 0.0
