"""The nodes while a plan fills them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple, final


class Seats(NamedTuple):
    """A node: its pool, its GPUs, and how many of them the plan may not use."""

    pool: int
    gpus: int
    taken: int = 0


@final
class Floor:
    """Which tasks are on which node. Nodes are numbered by their place in the list; `only`
    restricts them."""

    def __init__(self, nodes: Sequence[Seats], only: Collection[int] | None = None) -> None:
        self.nodes: Final = nodes
        self.free: Final = [node.gpus - node.taken for node in nodes]
        self.guests: Final[list[dict[int, int]]] = [{} for _ in nodes]  # job: GPUs
        most = max([node.gpus for node in nodes], default=0)
        pools = {node.pool for node in nodes}
        # By pool and free GPUs; dicts because they keep an order and let go of any entry at once.
        self._open: Final = {pool: [dict[int, None]() for _ in range(most + 1)] for pool in pools}
        self._shut: Final = {pool: [dict[int, None]() for _ in range(most + 1)] for pool in pools}
        self.most: Final = dict.fromkeys(pools, 0)  # by pool: GPUs free at first
        for n in range(len(nodes)) if only is None else only:
            self._shelf(n)[n] = None
            self.most[nodes[n].pool] += self.free[n]
        self.all_free = sum(self.most.values())

    def room(self, pool: int, gpus: int, opening: bool = True, but: int = -1) -> int | None:
        """The used node with the fewest sufficient free GPUs, else one to switch on."""
        found = _first(self._open.get(pool, ()), gpus, but)
        if found is None and opening:
            found = _first(self._shut.get(pool, ()), gpus, but)
        return found

    def empty(self, pool: int) -> list[int]:
        """The unused nodes of that pool, the largest last."""
        return [n for shelf in self._shut.get(pool, ()) for n in shelf]

    def emptiest(self, pool: int, gpus: int) -> int | None:
        """The used node with the most free GPUs, of those with at least so many in all."""
        for shelf in reversed(self._open.get(pool, ())):
            for n in shelf:
                if self.nodes[n].gpus - self.nodes[n].taken >= gpus:
                    return n
        return None

    def busy(self, n: int) -> int:
        return self.nodes[n].gpus - self.free[n]

    def put(self, job: int, n: int, gpus: int) -> None:
        self.guests[n][job] = gpus
        self._change(n, -gpus)

    def take(self, job: int, n: int) -> None:
        self._change(n, self.guests[n].pop(job))

    def _change(self, n: int, more: int) -> None:
        del self._shelf(n)[n]
        self.free[n] += more
        self.all_free += more
        self._shelf(n)[n] = None

    def _shelf(self, n: int) -> dict[int, None]:
        node, free = self.nodes[n], self.free[n]
        shelves = self._shut if free == node.gpus else self._open
        return shelves[node.pool][free]


def _first(shelves: Sequence[dict[int, None]], gpus: int, but: int) -> int | None:
    for free in range(gpus, len(shelves)):
        for n in shelves[free]:
            if n != but:
                return n
    return None
