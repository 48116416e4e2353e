"""The nodes as they are filled while a plan is made."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple, final


class Seats(NamedTuple):
    """A node: its kind, its GPUs, and how many of them are in hands that keep them."""

    kind: str
    gpus: int
    taken: int = 0


@final
class Floor:
    """Who is on which node. Nodes are told by their place in the list; only some may be for use."""

    def __init__(self, nodes: Sequence[Seats], only: Collection[int] | None = None) -> None:
        self.nodes: Final = nodes
        self.free: Final = [node.gpus - node.taken for node in nodes]
        self.guests: Final[list[dict[int, int]]] = [{} for _ in nodes]  # job: GPUs
        most = max([node.gpus for node in nodes], default=0)
        kinds = {node.kind for node in nodes}
        # By kind and free GPUs; dicts because they keep an order and let go of any entry at once.
        self._open: Final = {kind: [dict[int, None]() for _ in range(most + 1)] for kind in kinds}
        self._shut: Final = {kind: [dict[int, None]() for _ in range(most + 1)] for kind in kinds}
        self.most: Final = dict.fromkeys(kinds, 0)  # by kind: GPUs free at first
        for n in range(len(nodes)) if only is None else only:
            self._shelf(n)[n] = None
            self.most[nodes[n].kind] += self.free[n]
        self.all_free = sum(self.most.values())

    def room(self, kind: str, gpus: int, opening: bool = True, but: int = -1) -> int | None:
        """The node in use with the fewest sufficient free GPUs, or else one to switch on."""
        found = _first(self._open.get(kind, ()), gpus, but)
        if found is None and opening:
            found = _first(self._shut.get(kind, ()), gpus, but)
        return found

    def empty(self, kind: str) -> list[int]:
        """The nodes of that kind that nobody uses, the largest last."""
        return [n for shelf in self._shut.get(kind, ()) for n in shelf]

    def emptiest(self, kind: str, gpus: int) -> int | None:
        """The node in use with the most free GPUs, of those that have so many at all."""
        for shelf in reversed(self._open.get(kind, ())):
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
        return shelves[node.kind][free]


def _first(shelves: Sequence[dict[int, None]], gpus: int, but: int) -> int | None:
    for free in range(gpus, len(shelves)):
        for n in shelves[free]:
            if n != but:
                return n
    return None
