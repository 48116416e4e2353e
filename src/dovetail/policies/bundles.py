"""Running jobs that free GPUs only together, because they share them."""

from __future__ import annotations

from typing import Final, final

from dovetail.core.freed import Freed
from dovetail.core.orders import RunningRow
from dovetail.core.room import Room


@final
class Bundles:
    """Of the running jobs in the order of giving way, as far as somebody has looked. A bundle stands
    where the last of its jobs does. All of it holds until parts of GPUs are taken or given."""

    def __init__(self, room: Room) -> None:
        self._room: Final = room
        self.share_changes = room.share_changes
        self.looked_at = 0  # how many rows these are made of
        self._made: list[list[RunningRow]] = []
        self._together: Final = Freed(room)
        self._on: Final[dict[tuple[int, int], list[RunningRow]]] = {}  # by shared GPU
        self._shared: Final[list[RunningRow]] = []  # those of them that share, in order

    def at(self, place: int) -> list[RunningRow] | None:
        return self._made[place] if place < len(self._made) else None

    def look_at(self, row: RunningRow, taken: set[int]) -> None:
        """Let it join those on its GPUs; it may be the last of a bundle."""
        self.looked_at += 1
        track = row[4]
        assert track.placement is not None
        shared = track.placement.shared
        if shared:
            self._shared.append(row)
        for gpu in shared:
            self._on.setdefault(gpu, []).append(row)
        if self._together.add(track):
            members = {row[2]: row}
            for gpu in self._together.freed_of(shared):
                members.update([(other[2], other) for other in self._on[gpu]])
            del members[row[2]]
            self._made.append([*_without(taken, list(members.values())), row])

    def first_that_shares(self, taken: set[int]) -> RunningRow | None:
        shared = self._shared
        while shared and shared[0][2] in taken:
            shared.pop(0)
        return shared[0] if shared else None

    def leave_out(self, taken: set[int]) -> None:
        """Those that have given way."""
        if self._made:
            self._made = [left for some in self._made if (left := _without(taken, some))]
            self.share_changes = self._room.share_changes

    def forget(self, rows: list[RunningRow], taken: set[int]) -> None:
        """Those of the first rows that have given way are no longer among them."""
        self.looked_at -= len([row for row in rows[: self.looked_at] if row[2] in taken])


def _without(taken: set[int], rows: list[RunningRow]) -> list[RunningRow]:
    return [row for row in rows if row[2] not in taken]
