"""Jobs that have waited too long for the service they got: the promotion knob of Tiresias."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Final, final

from dovetail.core.entries import Wake
from dovetail.core.model import Seconds
from dovetail.core.track import Track
from dovetail.core.view import WAITS, View


@final
class _Patience:
    """When each waiting job's patience ends: `factor` times what it has run since it was forgiven."""

    def __init__(self, factor: float) -> None:
        self.watches = WAITS
        self._factor: Final = factor
        self.ends_at: Final[list[tuple[Seconds, int, int, Track]]] = []

    def waits(self, track: Track) -> None:
        ran = (track.held_gpu_s - track.forgiven_gpu_s) / max(track.job.gpus, 1)
        if ran > 0:
            at = track.waiting_since + self._factor * ran
            heappush(self.ends_at, (at, track.sequence, track.turn, track))


@final
class Starving:
    """Asks the view who is due for promotion."""

    def __init__(self, factor: float) -> None:
        self._factor: Final = factor

    def build(self, view: View) -> _Patience:
        return _Patience(self._factor)

    def due(self, view: View) -> tuple[Sequence[Track], Sequence[Wake]]:
        """The jobs to be promoted now, and when to ask again if there are none."""
        patience = view.index(self)
        assert isinstance(patience, _Patience)
        rows, due = patience.ends_at, []
        while rows and (rows[0][0] <= view.now or rows[0][3].turn != rows[0][2]):
            row = heappop(rows)
            if row[3].turn == row[2]:
                due.append(row)
        for row in due:  # they leave for good only when their promotion is recorded
            heappush(rows, row)
        if due:
            return [row[3] for row in due], ()
        return (), (Wake(rows[0][0]),) if rows else ()
