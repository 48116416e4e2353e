"""The nodes of the jobs once it is known which run and how: as many jobs as possible stay."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from dovetail.policies.frugal.floor import Floor, Seats

Seating: TypeAlias = dict[int, tuple[int, int]]  # by task: way and node


class Seat(NamedTuple):
    """A task, the way and the node it has in the draft, its GPUs, and the node where it could just
    continue (-1: none)."""

    task: int
    way: int
    node: int
    gpus: int
    home: int


def settled(nodes: Sequence[Seats], draft: Iterable[Seat]) -> Seating:
    """The draft with the same ways on no more nodes, but with fewer moves."""
    by_pool: dict[int, list[Seat]] = {}
    for seat in draft:
        by_pool.setdefault(nodes[seat.node].pool, []).append(seat)
    result: Seating = {}
    for seats in by_pool.values():
        result.update(_settled(nodes, seats))
    return result


def _settled(nodes: Sequence[Seats], seats: Sequence[Seat]) -> Seating:
    drafted = {seat.task: (seat.way, seat.node) for seat in seats}
    kept = _kept(seats)
    if not kept:
        return drafted
    used = {seat.node for seat in seats}
    order = sorted(kept.keys() | used, key=lambda n: (not nodes[n].taken, -kept.get(n, 0), n))
    return _seating(nodes, seats, order[: len(used)]) or drafted


def _kept(seats: Iterable[Seat]) -> dict[int, int]:
    """By node, the GPUs of tasks that could stay there."""
    kept: dict[int, int] = {}
    for seat in seats:
        if seat.home >= 0:
            kept[seat.home] = kept.get(seat.home, 0) + seat.gpus
    return kept


def _seating(
    nodes: Sequence[Seats], seats: Sequence[Seat], homes: Collection[int]
) -> Seating | None:
    """On these nodes alone, as many tasks as possible at home; None if they do not fit."""
    floor, allowed = Floor(nodes, only=homes), set(homes)
    result: Seating = {}
    others = []
    for seat in seats:
        if seat.home in allowed and floor.free[seat.home] >= seat.gpus:
            floor.put(seat.task, seat.home, seat.gpus)
            result[seat.task] = seat.way, seat.home
        else:
            others.append(seat)
    for seat in sorted(others, key=lambda seat: -seat.gpus):
        n = floor.room(nodes[seat.node].pool, seat.gpus)
        if n is None:
            return None
        floor.put(seat.task, n, seat.gpus)
        result[seat.task] = seat.way, n
    return result
