"""GPUs that an administrator has closed: nothing new starts on them, who is there may stay.

What is free of them is put by, where no policy finds it. Before anything is taken or given there it is
fetched back, so that a draft can be undone and a job can keep what it has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dovetail.core.errors import IllegalEntry
from dovetail.core.inventory import Inventory
from dovetail.core.model import Node, Placement


class Closings(Inventory):
    """Every node, and what of it is closed."""

    __slots__ = ("vacated", "why_closed", "withheld")

    def __init__(self) -> None:
        super().__init__()
        self.vacated: Final[dict[int, int]] = {}  # per node: closed GPUs whose jobs give way
        self.why_closed: Final[dict[tuple[int, int], str]] = {}  # by (node, GPU)
        self.withheld: Final[
            dict[tuple[int, int], int]
        ] = {}  # of closed GPUs that are shared: the rest

    def close_gpus(self, n: int, mask: int, reason: str, vacate: bool) -> None:
        for gpu in bits(mask):
            self.why_closed[n, gpu] = reason
        self.closed[n] = self.closed.get(n, 0) | mask
        self.counts_more = True
        _set_mask(self.vacated, n, self.vacated.get(n, 0) & ~mask | (mask if vacate else 0))
        self.strangers.setdefault(n, 0)  # from now on what is given back there is looked at
        self._keep_off_strangers(n)
        self.put_by(n, mask)
        self._show_or_hide(n)

    def open_gpus(self, n: int, mask: int) -> None:
        self.fetch(n, mask)
        for gpu in bits(mask):
            self.why_closed.pop((n, gpu), None)
        _set_mask(self.closed, n, self.closed.get(n, 0) & ~mask)
        _set_mask(self.vacated, n, self.vacated.get(n, 0) & ~mask)
        self.strangers.setdefault(n, 0)
        self._keep_off_strangers(n)
        self._show_or_hide(n)

    def fetch(self, n: int, mask: int) -> None:
        """Who has closed GPUs, or had them before a draft, may be given them: to be followed by
        `put_by`."""
        closed = mask & self.closed.get(n, 0)
        back = closed & self.occupied.get(n, 0)
        if back:
            self.occupied[n] ^= back
            self._set_free(n, self.free[n] | back)
        for gpu in bits(closed):
            if (n, gpu) in self.withheld:
                self.shares[n, gpu] += self.withheld.pop((n, gpu))

    def put_by(self, n: int, mask: int) -> None:
        """What is free of closed GPUs is not found by anybody."""
        closed = mask & self.closed.get(n, 0)
        free = closed & self.free[n]
        if free:
            self.occupied[n] = self.occupied.get(n, 0) | free
            self._set_free(n, self.free[n] & ~free)
        for gpu in bits(closed):
            if self.shares.get((n, gpu)):
                self.withheld[n, gpu] = self.shares[n, gpu]
                self.shares[n, gpu] = 0

    def _free_or_put_by(self, n: int) -> int:
        """Who has closed GPUs may keep them. Who starts there is refused by `check`."""
        return self.free[n] | self.closed.get(n, 0) & self.occupied.get(n, 0)

    def _fetch_all(self, placement: Placement) -> None:
        for n, mask in placement.slices:
            self.fetch(n, mask)

    def _put_all_by(self, placement: Placement) -> None:
        for n, mask in placement.slices:
            self.put_by(n, mask)

    def check_open(self, n: int, mask: int) -> None:
        """Raise if nothing may start on these GPUs."""
        name, shut = self.nodes[n].id, mask & self.closed.get(n, 0)
        if shut:
            gpu = next(bits(shut))
            why = self.why_closed[n, gpu]
            raise IllegalEntry(f"GPU {gpu} of node {name!r} is closed {why}")
        if mask and not self.open[n]:
            raise IllegalEntry(f"node {name!r} is down, draining or gone")

    def usable_by_others(self, n: int, mask: int) -> int:
        """How many of these GPUs may be given to somebody else once they are free."""
        return (mask & ~self.closed.get(n, 0)).bit_count() if self.open[n] else 0

    def used_by_strangers(self, n: int) -> int:
        """The mask of GPUs that are kept from our jobs by others who use them."""
        return self.occupied.get(n, 0) & self.strangers.get(n, 0)

    def gpus_open(self, n: int) -> int:
        return self.usable_by_others(n, (1 << self.nodes[n].gpus) - 1)

    def is_open_at(self, placement: Placement) -> bool:
        """May others start where this job runs? Else it had better stay."""
        return all([self.open[n] and not self.closed.get(n, 0) & m for n, m in placement.slices])

    def told_closed(self) -> tuple[tuple[int, int, str, bool], ...]:
        """By node and GPU: why it is closed, and whether it is to be vacated."""
        return tuple(
            [
                (n, 1 << gpu, why, bool(self.vacated.get(n, 0) >> gpu & 1))
                for (n, gpu), why in sorted(self.why_closed.items())
            ]
        )

    def close_as_before(self, n: int, earlier: int) -> None:
        """A node has come back under its name: what was closed is closed again, known by its label or,
        without one, by its place."""
        places = {name_of_gpu(self.nodes[n], gpu): gpu for gpu in range(self.nodes[n].gpus)}
        for was, mask, why, vacate in self.told_closed():
            name = name_of_gpu(self.nodes[earlier], mask.bit_length() - 1)
            if was == earlier and name in places:
                self.close_gpus(n, 1 << places[name], why, vacate)
        self.open_gpus(earlier, self.closed.get(earlier, 0))


def bits(mask: int) -> Iterator[int]:
    """The numbers of the GPUs of a mask."""
    while mask:
        low = mask & -mask
        mask ^= low
        yield low.bit_length() - 1


def _set_mask(masks: dict[int, int], n: int, mask: int) -> None:
    if mask:
        masks[n] = mask
    else:
        masks.pop(n, None)


def name_of_gpu(node: Node, gpu: int) -> str:
    return node.labels[gpu][1] if gpu < len(node.labels) else str(gpu)
