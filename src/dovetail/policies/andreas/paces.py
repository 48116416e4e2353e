"""How fast jobs that nobody timed were seen to run on GPUs of a kind."""

from __future__ import annotations

from typing import Final, final

from dovetail.core.model import WHOLE_GPU, Placement
from dovetail.core.track import Track
from dovetail.core.view import View

WEIGHT: Final = 0.2  # of the latest of several


@final
class Paces:
    """By model and kind, else by kind: what the last jobs made of a second of theirs at speed 1."""

    def __init__(self, view: View) -> None:
        self._view: Final = view
        self._seen: Final[dict[tuple[str, str], float]] = {}

    def of(self, model: str, kind: str) -> float:
        own = self._seen.get((model, kind))
        return self._seen.get(("", kind), 1.0) if own is None else own

    def note(self, track: Track) -> None:
        """It was given GPUs, or was seen to run at another speed than 1 on them."""
        job, placement = track.job, track.placement
        if job.options or track.speed == 1.0 or placement is None or not _is_alone(placement):
            return
        kind = self._view.room.nodes[placement.slices[0].node].kind
        for key in {(job.model, kind), ("", kind)}:
            known = self._seen.get(key, track.speed)
            self._seen[key] = known + WEIGHT * (track.speed - known)


def _is_alone(placement: Placement) -> bool:
    """Nothing but the kind of its GPUs says how fast it is."""
    one = len(placement.slices) == 1
    return one and placement.share == WHOLE_GPU and not placement.limit
