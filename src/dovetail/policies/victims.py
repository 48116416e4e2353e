"""The running jobs that might give way to a waiting one, the worst first."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import inf
from typing import Final, final

from dovetail.core.freed import Freed
from dovetail.core.inventory import ROUNDING, Pool
from dovetail.core.model import WHOLE_GPU, Seconds
from dovetail.core.orders import KeyOrder, RunningRow
from dovetail.core.room import Room, most_beside
from dovetail.core.shape import Home, Shape
from dovetail.core.track import Track
from dovetail.policies.bundles import Bundles

_MANY: Final = 64  # jobs: who wants more of them has all put in order at once


@final
class Victims:
    """The jobs of one pool that could give way, for one decision: looked up once, as far as needed.

    The last one that was looked up stays in the order until the next is asked for, or it gives way: in
    most decisions nobody does.
    """

    __slots__ = (
        *(
            "_bundles",
            "_given_back",
            "_has_gone",
            "_is_lent",
            "_order",
            "_rest",
            "_room",
            "_rows",
            "_spared",
        ),
        *("_taken", "in_vain", "pool", "within_reach"),
    )

    def __init__(self, order: KeyOrder, room: Room, pool: Pool) -> None:
        self._order: Final = order
        self._room: Final = room
        self.pool: Final = pool
        self._rows: list[RunningRow] = []
        self._is_lent = True  # the last of them, as all before it
        self._rest: Iterator[RunningRow] | None = None  # those after many; they are lent to nobody
        self._spared: list[RunningRow] = []  # that give way to nobody who comes now
        self._taken: Final[set[int]] = set()  # numbers of rows that have given way
        self._has_gone = False  # are any of these still among the rows?
        self._given_back: GivenBack | None = None
        self._bundles: Bundles | None = None
        self.within_reach: float = inf  # GPUs, free or to be made free: no more were found
        self.in_vain: Final[list[Shape]] = []  # no stops make room for these

    def at(self, place: int) -> RunningRow | None:
        """The one at that place in the order of giving way."""
        if self._has_gone:
            self._drop_gone(place)
        rows = self._rows
        if place < len(rows):
            return rows[place]
        while (worst := self._look_up_next()) is not None:
            if place < len(rows):
                return worst
        return None

    def _look_up_next(self) -> RunningRow | None:
        if not self._is_lent:
            self._lend_last()
        if self._spared:
            return None
        if self._rest is None and len(self._rows) >= _MANY:
            self._rest = iter(self._order.all_from_worst(self.pool))
        if self._rest is not None:
            worst = next(self._rest, None)
        else:
            worst = self._order.worst(self.pool)
            self._is_lent = worst is None
        if worst is not None:
            self._rows.append(worst)
        return worst

    def _lend_last(self) -> None:
        self._is_lent = True
        self._order.lend(self.pool, self._rows[-1])

    @property
    def known(self) -> int:
        """How many have been looked up."""
        if self._has_gone:
            self._drop_gone(len(self._rows))
        return len(self._rows)

    @property
    def last(self) -> RunningRow | None:
        """The best of these."""
        return self._rows[-1] if self._rows else None

    def spare_last(self) -> None:
        """It gives way neither to the one that is looked at nor to any that comes after."""
        row = self._rows.pop()
        self._is_lent = True  # nobody asks for another now
        self._spared.append(row)
        if self._given_back is not None:
            self._given_back.remove_from(len(self._rows), row)

    def take(self, taken: Collection[RunningRow]) -> None:
        """These have given way, and nothing else has changed since they were looked up."""
        if not self._is_lent:
            self._lend_last()
        self._has_gone = True
        for row in taken:
            self._taken.add(row[2])
        if self._bundles is not None:
            self._bundles.leave_out(self._taken)

    def _drop_gone(self, place: int) -> None:
        """Those that have given way; to know the first of the others, only those in front."""
        taken, rows = self._taken, self._rows
        upto = len(rows)
        if not place:
            upto = 0
            while upto < len(rows) and rows[upto][2] in taken:
                upto += 1
        if self._given_back is not None:
            self._given_back.remove(rows[:upto], taken)
        if self._bundles is not None:
            self._bundles.forget(rows[:upto], taken)
        if place:
            rows[:] = [row for row in rows if row[2] not in taken]
            self._has_gone = False
        else:
            del rows[:upto]
            self._has_gone = bool(rows)

    def is_in_vain(self, shape: Shape) -> bool:
        """Has one looked in vain that stands before this one, and asks for no more?"""
        return any([_asks_no_less(shape, other) for other in self.in_vain])

    def give_back(self) -> None:
        """The decision is over."""
        self._drop_gone(len(self._rows))
        self._order.take_back([*self._rows, *self._spared])

    # ------------------------------------------------------------------------------ shared GPUs

    def bundle(self, place: int) -> list[RunningRow] | None:
        """Jobs that free GPUs together, if so many bundles are known; the last one gives way last."""
        bundles = self._bundles
        if bundles is None or bundles.share_changes != self._room.share_changes:
            bundles = self._bundles = Bundles(self._room)
        return bundles.at(place)

    def next_in_bundles(self) -> RunningRow | None:
        """The next one that has joined none yet."""
        bundles, rows, taken = self._bundles, self._rows, self._taken
        assert bundles is not None
        while bundles.looked_at < len(rows) or self._look_up_next() is not None:
            row = rows[bundles.looked_at]
            if row[2] not in taken:
                return row
            bundles.looked_at += 1
        return None

    def look_at_next(self) -> None:
        """Let it join those on its GPUs; it may be the last of a bundle."""
        assert self._bundles is not None
        self._bundles.look_at(self._rows[self._bundles.looked_at], self._taken)

    def shares_before(self, last: RunningRow, now: Seconds) -> bool:
        """Is any of those up to this one on a shared GPU?"""
        assert self._bundles is not None
        first = self._bundles.first_that_shares(self._taken)
        return first is not None and place_in_order(first, now) <= place_in_order(last, now)

    # ------------------------------------------------------------------------- CPUs and memory

    def may_make_room(self, shape: Shape) -> bool:
        """Could a job of the shape start if all that have been looked up gave way? None of them is on
        a shared GPU. It may be said of some that could not, never the other way round."""
        room = self._room
        search = room.search(self.pool, shape)
        if not search.failed or search.could is None:
            return True
        if self._given_back is None:
            self._given_back = GivenBack(room)
        self._given_back.add(self._rows)
        return self._given_back.may_be_enough(shape, search.could)


@final
class GivenBack:
    """The GPUs, CPUs and memory that running jobs would give back, by open node."""

    def __init__(self, room: Room) -> None:
        self._room: Final = room
        self._counted = 0  # how many rows are in the sums below
        self._on: Final[dict[int, tuple[int, float, float]]] = {}

    def add(self, rows: list[RunningRow]) -> None:
        """All of these are counted from now on; the first of them may be already."""
        for row in rows[self._counted :]:
            self._count(row[4], 1)
        self._counted = len(rows)

    def remove(self, rows: list[RunningRow], taken: set[int]) -> None:
        """Those of the first rows that have given way are no longer counted."""
        for row in rows[: self._counted]:
            if row[2] in taken:
                self._counted -= 1
                self._count(row[4], -1)

    def remove_from(self, place: int, row: RunningRow) -> None:
        """The last row, which stood there, is no longer counted."""
        if self._counted > place:
            self._counted -= 1
            self._count(row[4], -1)

    def may_be_enough(self, shape: Shape, could: dict[int, int]) -> bool:
        """With what is free, and what it could have of that by node."""
        room, on, gpus = self._room, self._on, shape.gpus
        cpus, memory_gb = shape.cpus / gpus, shape.memory_gb / gpus  # for one of them
        total = sum([most for n, most in could.items() if n not in on])
        for n, (more_gpus, more_cpus, more_gb) in on.items():
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
        placement, shape, on = track.placement, track.shape, self._on
        assert placement is not None
        for n, mask in placement.slices:
            if self._room.open[n]:
                number, more = mask.bit_count(), self._room.usable_by_others(n, mask)
                part = sign * (
                    number / placement.gpus if placement.gpus else 1 / len(placement.slices)
                )
                gpus, cpus, memory_gb = on.get(n, (0, 0.0, 0.0))
                on[n] = (
                    gpus + sign * more,
                    cpus + shape.cpus * part,
                    memory_gb + shape.memory_gb * part,
                )


def _asks_no_less(shape: Shape, other: Shape) -> bool:
    """Is there no place for the first wherever there is none for the other?"""
    if other.share != WHOLE_GPU or not other.gpus or other.home not in ((), shape.home):
        return False
    if other.nodes and not _parts_ask_no_less(shape, other):
        return False
    part = shape.gpus / other.gpus
    return (
        shape.share == WHOLE_GPU
        and part >= 1.0
        and shape.cpus >= other.cpus * part
        and shape.memory_gb >= other.memory_gb * part
    )


def _parts_ask_no_less(shape: Shape, other: Shape) -> bool:
    """Does the first need at least as many nodes, with at least as much on each?"""
    part = shape.nodes / other.nodes
    return (
        part >= 1.0
        and shape.each >= other.each
        and shape.cpus >= other.cpus * part
        and shape.memory_gb >= other.memory_gb * part
    )


def place_in_order(row: RunningRow, now: Seconds) -> tuple[float, float, float, int]:
    """Smaller gives way first; as `KeyOrder.worst` has it."""
    return row[0] - row[5] * now, row[0], row[1], row[2]


def is_on(track: Track, home: Home) -> bool:
    """Has it something of one of these nodes?"""
    assert track.placement is not None
    nodes = [n for n, _ in home]
    return any([n in nodes for n, _ in track.placement.slices])


def really_needed(found: list[RunningRow], surplus: float, freed: Freed) -> list[RunningRow]:
    """Of the worst running jobs those whose GPUs are really needed: the better of them are spared
    first, as long as enough remains."""
    needed = [found[-1]]
    for row in reversed(found[:-1]):
        lost = freed.loses(row[4])
        if lost <= surplus:
            surplus -= lost
            freed.remove(row[4])
        else:
            needed.append(row)
    return needed
