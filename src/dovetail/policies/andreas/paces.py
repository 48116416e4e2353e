"""The observed speeds of jobs without timings on GPUs of a kind."""

from __future__ import annotations

from typing import Final, final

from dovetail.core.entries import Action, Note
from dovetail.core.model import WHOLE_GPU
from dovetail.core.track import Track
from dovetail.core.view import View

_SEEN: Final = "paces: seen"  # as it is noted
WEIGHT: Final = 0.2  # of the latest of several


@final
class SeenPaces:
    """By model and kind, on one node or several, else without the model: how much work of a second at
    speed 1 the last jobs did in a second."""

    def __init__(self, view: View) -> None:
        self._view: Final = view
        self._seen: Final[dict[tuple[str, str, bool], float]] = {}
        self.changes = 0  # how often any of them became another
        for model, kind, over_nodes, speed in view.notes.get(_SEEN, ()):
            self._seen[model, kind, over_nodes] = speed
        self.learns = not self._seen  # what runs already when this is made has been noted

    def notes(self) -> list[Action]:
        """What is to be known after a restart."""
        value = [[*key, speed] for key, speed in sorted(self._seen.items())]
        return [Note(_SEEN, value)] if value and self._view.notes.get(_SEEN) != value else []

    def of(self, model: str, kind: str, over_nodes: bool = False) -> float:
        own = self._seen.get((model, kind, over_nodes))
        return self._seen.get(("", kind, over_nodes), 1.0) if own is None else own

    def note(self, track: Track) -> None:
        """The job got GPUs, or runs on them at another speed than 1."""
        job, placement = track.job, track.placement
        if job.options or track.speed == 1.0 or placement is None or not self.learns:
            return
        if placement.limit or placement.share != WHOLE_GPU:  # then that may be why
            return
        kind, over_nodes = (
            self._view.room.nodes[placement.slices[0].node].kind,
            len(placement.slices) > 1,
        )
        for key in {(job.model, kind, over_nodes), ("", kind, over_nodes)}:
            known = self._seen.get(key)
            if known == track.speed:
                continue
            self.changes += 1
            self._seen[key] = (
                track.speed if known is None else known + WEIGHT * (track.speed - known)
            )
