"""Those who wait, one behind the other: for policies where a job that does not fit blocks all behind it.

Jobs that come in the order of the key, as all do under first come, first served, stand in a row; the
others stand in a heap beside it. As in `orders`, a job that moves on leaves a stale row behind, known
by its old turn, dropped when it surfaces.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, final

from dovetail.core.entries import Action, Start
from dovetail.core.orders import Key, WaitingRow, heappop, heappush
from dovetail.core.plan import Place
from dovetail.core.track import Track
from dovetail.core.view import SETTLES, WAITS, View


@final
class Line:
    """The index behind it."""

    def __init__(self, view: View, key: Key) -> None:
        self._view: Final = view
        self._room: Final = view.room
        self._key: Final = key
        self.watches = SETTLES | WAITS
        self._row: Final[deque[WaitingRow]] = deque()
        self._beside: Final[list[WaitingRow]] = []
        self._lent: Final[list[WaitingRow]] = []

    def waits(self, track: Track) -> None:
        key, tie = self._key.waiting(track, self._view)
        place: WaitingRow = (key, tie, track.turn, track)
        row = self._row
        if not row or row[-1] < place:
            row.append(place)
        else:
            heappush(self._beside, place)

    def settle(self) -> None:
        row = self._row
        while self._lent:
            place = self._lent.pop()
            if place[3].turn != place[2]:
                continue
            if not row or place < row[0]:
                row.appendleft(place)
            else:
                heappush(self._beside, place)

    def places(self) -> list[WaitingRow]:
        """All that wait, as they stand, stale places among them."""
        return [*self._row, *self._beside]

    def starts(self, first: Track | None, place: Place) -> Iterator[Action]:
        """Whom to start: one after the other from the first, until one does not fit."""
        view, room = self._view, self._room
        while first is not None:
            shape = first.shape
            placement = place(room, shape)
            if placement is None:
                return
            yield Start(first.job.id, placement)
            if first.placement is None:  # nobody has recorded it yet: it is only tried out
                room.draft_take(placement, shape)
                self._pass_over(first)
            first = self.first() if view.waiting_count else None

    def first(self) -> Track | None:
        """Who is first, unless it asks for more whole GPUs than there are free."""
        row = self._row
        while row:
            _, _, turn, first = row[0]
            if first.turn == turn:
                break
            row.popleft()
        if not row or self._beside:
            found = self._first_of_both()
            if found is None:
                return None
            first = found
        shape, sole = first.shape, self._room.sole
        free = self._room.most_free() if sole is None else sole.free
        return first if shape.gpus <= free or not shape.plain else None

    def _first_of_both(self) -> Track | None:
        row, beside = self._row, self._beside
        while beside and beside[0][3].turn != beside[0][2]:
            heappop(beside)
        heads = [places[0] for places in (row, beside) if places]
        return min(heads)[3] if heads else None

    def _pass_over(self, first: Track) -> None:
        """Set the first aside until the decision is over."""
        row = self._row
        place = row.popleft() if row and row[0][3] is first else heappop(self._beside)
        self._lent.append(place)
        self._room.unsettled = True


@final
class LineBy:
    """The spec of a line: asked of the view, answered with the same index every time."""

    def __init__(self, key: Key) -> None:
        self.key: Final = key

    def build(self, view: View) -> Line:
        return Line(view, self.key)
