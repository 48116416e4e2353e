"""From a report of a running job to its steps a second where it runs."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.core.model import Node, Seconds
from dovetail.core.paces import Pace, heard, with_pace
from dovetail.core.track import RUNNING, Track


def measure(track: Track, step: float, now: Seconds, nodes: Sequence[Node]) -> None:
    """Beside others and under a power limit it is slower than it would be by itself: that is another
    matter (see `worlds.pacing`)."""
    placement = track.placement
    if track.phase is not RUNNING or placement is None or not placement.slices:
        return
    if not placement.whole or placement.limit:
        return
    where = f"{track.run} {placement.text}"
    track.window = window = heard(track.window, where, now, step)
    rate = window.rate
    if rate is not None:
        kind = nodes[placement.slices[0].node].kind
        pace = Pace(kind, placement.gpus, len(placement.slices), rate, now)
        track.paces = with_pace(track.paces, pace)
