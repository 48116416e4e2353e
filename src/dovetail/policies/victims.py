"""The running jobs that might give way to a waiting one, the worst first."""

from __future__ import annotations

from collections.abc import Collection
from math import inf
from typing import Final, final

from dovetail.core.freed import Freed
from dovetail.core.inventory import ROUNDING, Pool
from dovetail.core.model import Seconds, Shape
from dovetail.core.orders import KeyOrder, RunningRow
from dovetail.core.room import Room, most_beside
from dovetail.core.track import Track


@final
class Victims:
    """The jobs of one pool that could give way, for one decision; looked up once, as far as needed."""

    def __init__(self, order: KeyOrder, room: Room, pool: Pool) -> None:
        self._order: Final = order
        self._room: Final = room
        self.pool: Final = pool
        self._rows: list[RunningRow] = []
        self._spared: list[RunningRow] = []  # that give way to nobody who comes now
        self._counted = 0  # how many rows are in the sums below
        # By open node: the GPUs, CPUs and memory that these would give back.
        self._freed: dict[int, tuple[int, float, float]] = {}
        self._taken: Final[set[int]] = set()  # numbers of rows that have given way
        self._gone: Final[set[int]] = set()  # of these: still among the rows
        # Jobs that free GPUs together, in the order in which the last of each gives way: see `bundle`.
        self._bundles: list[list[RunningRow]] = []
        self._looked_at = 0  # how many rows these are made of
        self._together = Freed(room)
        self._on: dict[tuple[int, int], list[RunningRow]] = {}  # by shared GPU
        self._shared: list[RunningRow] = []  # those of them that share, in order
        self._share_changes = room.share_changes
        self.within_reach: float = inf  # GPUs, free or to be made free: no more were found
        self.in_vain: Final[list[Shape]] = []  # no stops make room for these

    def at(self, place: int) -> RunningRow | None:
        """The one at that place in the order of giving way."""
        if self._gone:
            self._drop_gone(place)
        while place >= len(self._rows):
            if not self._look_up_next():
                return None
        return self._rows[place]

    def _look_up_next(self) -> bool:
        worst = None if self._spared else self._order.worst(self.pool)
        if worst is None:
            return False
        self._order.lend(self.pool, worst)
        self._rows.append(worst)
        return True

    @property
    def known(self) -> int:
        """How many have been looked up."""
        if self._gone:
            self._drop_gone(len(self._rows))
        return len(self._rows)

    @property
    def last(self) -> RunningRow | None:
        """The best of these."""
        return self._rows[-1] if self._rows else None

    def spare_last(self) -> None:
        """It gives way neither to the one that is looked at nor to any that comes after."""
        row = self._rows.pop()
        self._spared.append(row)
        if self._counted > len(self._rows):
            self._counted -= 1
            self._count(row[4], -1)

    def take(self, taken: Collection[RunningRow]) -> None:
        """These have given way, and nothing else has changed since they were looked up."""
        numbers = [row[2] for row in taken]
        self._gone.update(numbers)
        self._taken.update(numbers)
        if self._bundles:
            self._bundles = [left for some in self._bundles if (left := self._without_gone(some))]
            self._share_changes = self._room.share_changes

    def _without_gone(self, rows: list[RunningRow]) -> list[RunningRow]:
        taken = self._taken
        return [row for row in rows if row[2] not in taken]

    def _drop_gone(self, place: int) -> None:
        """Those that have given way; to know the first of the others, only those in front."""
        gone, rows = self._gone, self._rows
        upto = len(rows)
        if not place:
            upto = next((i for i, row in enumerate(rows) if row[2] not in gone), upto)
        for row in rows[: min(upto, self._counted)]:
            if row[2] in gone:
                self._counted -= 1
                self._count(row[4], -1)
        self._looked_at -= len(
            [row for row in rows[: min(upto, self._looked_at)] if row[2] in gone]
        )
        rows[:upto] = self._without_gone(rows[:upto])
        if place:
            gone.clear()

    # ------------------------------------------------------------------------------ shared GPUs

    def bundle(self, place: int) -> list[RunningRow] | None:
        """Jobs that free GPUs together, if so many bundles are known; the last one gives way last."""
        if self._share_changes != self._room.share_changes:
            self._share_changes = self._room.share_changes
            self._bundles, self._on, self._shared, self._looked_at = [], {}, [], 0
            self._together = Freed(self._room)
        return self._bundles[place] if place < len(self._bundles) else None

    def next_in_bundles(self) -> RunningRow | None:
        """The next one that has joined none yet."""
        rows, gone = self._rows, self._gone
        while self._looked_at < len(rows) or self._look_up_next():
            if rows[self._looked_at][2] not in gone:
                return rows[self._looked_at]
            self._looked_at += 1
        return None

    def look_at_next(self) -> None:
        """Let it join those on its GPUs; it may be the last of a bundle."""
        row = self._rows[self._looked_at]
        self._looked_at += 1
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
            self._bundles.append([*self._without_gone(list(members.values())), row])

    def shares_before(self, last: RunningRow, now: Seconds) -> bool:
        """Is any of those up to this one on a shared GPU?"""
        shared = self._shared
        while shared and shared[0][2] in self._taken:
            shared.pop(0)
        return bool(shared) and place_in_order(shared[0], now) <= place_in_order(last, now)

    def give_back(self) -> None:
        """The decision is over."""
        self._drop_gone(len(self._rows))
        self._order.take_back([*self._rows, *self._spared])

    def may_make_room(self, shape: Shape) -> bool:
        """Could a job of the shape start if all that have been looked up gave way? None of them is on
        a shared GPU. It may be said of some that could not, never the other way round."""
        room, gpus = self._room, shape.gpus
        search = room.search(self.pool, shape)
        if not search.failed or search.could is None:
            return True
        for row in self._rows[self._counted :]:
            self._count(row[4], 1)
        self._counted = len(self._rows)
        could, freed = search.could, self._freed
        cpus, memory_gb = shape.cpus / gpus, shape.memory_gb / gpus  # for one of them
        total = sum([most for n, most in could.items() if n not in freed])
        for n, (more_gpus, more_cpus, more_gb) in freed.items():
            # Some more than there is: sums of parts are not exact.
            has_cpus = room.cpus[n] + more_cpus + ROUNDING
            has_gb = room.memory_gb[n] + more_gb + ROUNDING
            if has_cpus + ROUNDING >= cpus and has_gb + ROUNDING >= memory_gb:
                total += most_beside(has_cpus, has_gb, shape, min(room.count[n] + more_gpus, gpus))
                if total >= gpus:
                    return True
        return total >= gpus

    def _count(self, track: Track, sign: int) -> None:
        """Add what it would give back to the sums, or subtract it."""
        placement, shape, freed = track.placement, track.shape, self._freed
        assert placement is not None
        for n, mask in placement.slices:
            if self._room.open[n]:
                number = mask.bit_count()
                part = sign * (
                    number / placement.gpus if placement.gpus else 1 / len(placement.slices)
                )
                gpus, cpus, memory_gb = freed.get(n, (0, 0.0, 0.0))
                freed[n] = (
                    gpus + sign * number,
                    cpus + shape.cpus * part,
                    memory_gb + shape.memory_gb * part,
                )


def place_in_order(row: RunningRow, now: Seconds) -> tuple[float, float, float, int]:
    """Smaller gives way first; as `KeyOrder.worst` has it."""
    return row[0] - row[5] * now, row[0], row[1], row[2]
