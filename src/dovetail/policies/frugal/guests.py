"""Running jobs that could be stopped for others, and which of them are.

Thousands may ask in one decision, so nothing is counted twice: for each node it is known how many GPUs
there would be if all that are worth less than whoever asks were stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, final

from dovetail.core.inventory import Pool
from dovetail.core.room import Room
from dovetail.core.shape import Shape
from dovetail.core.track import Track


class Guest(NamedTuple):
    """A running job that could be stopped, its GPUs by node, and its worth where it is; 0 if it can
    wait."""

    track: Track
    gpus: Mapping[int, int]
    worth: float


@final
class Guests:
    """The guests that are worth less than whoever asks; nobody asks who is worth more than the last."""

    def __init__(self, room: Room, guests: Iterable[Guest]) -> None:
        self._room: Final = room
        self._weak: Final = sorted(guests, key=_worth)
        self._on: Final[dict[int, list[Guest]]] = {}  # by node, the least worth first
        self._gpus: Final[dict[int, int]] = {}  # by node: what these have there
        self._could: Final[dict[int, int]] = {}  # by open node: free, if all of them were stopped
        # By pool: the nodes with so many, as bits.
        self._by_could: Final[list[dict[int, int]]] = [{} for _ in room.pools]
        for guest in self._weak:
            for n, gpus in guest.gpus.items():
                self._on.setdefault(n, []).append(guest)
                self._gpus[n] = self._gpus.get(n, 0) + gpus
        self.recount(range(len(room.nodes)))

    def recount(self, nodes: Iterable[int]) -> None:
        """On these something was taken or given back."""
        room = self._room
        for n in nodes:
            if not room.open[n]:
                continue
            before, after = self._could.get(n, 0), room.count[n] + self._gpus.get(n, 0)
            if before != after:
                self._could[n] = after
                by_could, bit = self._by_could[room.pool_of[n].index], room.bit[n]
                by_could[before] = by_could.get(before, 0) & ~bit
                by_could[after] = by_could.get(after, 0) | bit

    def spare(self, worth: float) -> None:
        """Those of at least that worth stay: who asks now has no more, nor has any that comes later."""
        while self._weak and self._weak[-1].worth >= worth:
            self._leave(self._weak.pop())

    def stopped(self, guests: Iterable[Guest]) -> None:
        for guest in guests:
            self._weak.remove(guest)
            self._leave(guest)

    def _leave(self, guest: Guest) -> None:
        for n, gpus in guest.gpus.items():
            self._on[n].remove(guest)
            self._gpus[n] -= gpus
        self.recount(guest.gpus)

    def to_stop_for(self, shape: Shape) -> list[Guest]:
        """The fewest, pool by pool, that make room for its GPUs; none if there are too few."""
        found = [self._in_pool(pool, shape) for pool in self._room.eligible(shape)]
        return min([some for some in found if some], key=len, default=[])

    def _in_pool(self, pool: Pool, shape: Shape) -> list[Guest]:
        """The guests of least worth on the nodes that they leave the emptiest; none if that is not
        enough."""
        by_could, count = self._by_could[pool.index], self._room.count
        if (
            sum([counts(shape, k) * nodes.bit_count() for k, nodes in by_could.items()])
            < shape.gpus
        ):
            return []
        needed, victims, numbers = shape.gpus, list[Guest](), set[int]()
        freed: dict[int, int] = {}
        for n in _most_first(by_could):
            for guest in self._on.get(n, ()):
                if count[n] + freed.get(n, 0) >= min(needed, shape.each):
                    break
                if guest.track.sequence not in numbers:
                    numbers.add(guest.track.sequence)
                    victims.append(guest)
                    for other, more in guest.gpus.items():
                        freed[other] = freed.get(other, 0) + more
            needed -= counts(shape, count[n] + freed.get(n, 0))
            if needed <= 0:
                return victims
        return []


def counts(shape: Shape, gpus: int) -> int:
    """Of so many GPUs on a node, those that help the job: its part of them, if it has parts."""
    if not shape.nodes:
        return gpus
    return shape.each if gpus >= shape.each else 0


def _most_first(by_could: Mapping[int, int]) -> Iterator[int]:
    for could in sorted(by_could, reverse=True):
        nodes = by_could[could]
        while could and nodes:
            low = nodes & -nodes
            nodes ^= low
            yield low.bit_length() - 1


def _worth(guest: Guest) -> float:
    return guest.worth
