"""Where jobs sit, once it is known who runs and how: as many as possible where they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dovetail.policies.frugal_floor import Floor, Seats

Seating = dict[int, tuple[int, int]]  # by task: way and node


def settled(
    nodes: Sequence[Seats],
    at: Mapping[int, tuple[int, int] | None],
    gpus: Mapping[int, int],
    draft: Mapping[int, tuple[int, int]],
) -> Seating:
    """The draft with the same ways and no more nodes of a pool, but fewer moves.

    `at` has each task's present way and node, `gpus` how many it is to have.
    """
    by_pool: dict[int, Seating] = {}
    for i, seat in draft.items():
        by_pool.setdefault(nodes[seat[1]].pool, {})[i] = seat
    result: Seating = {}
    for pool, seating in by_pool.items():
        stays = {i: seat for i, seat in seating.items() if at[i] is not None}
        result.update(_with_fewer_moves(nodes, pool, at, gpus, seating) if stays else seating)
    return result


def _with_fewer_moves(
    nodes: Sequence[Seats],
    pool: int,
    at: Mapping[int, tuple[int, int] | None],
    gpus: Mapping[int, int],
    seating: Seating,
) -> Seating:
    staying = {i: seat for i, (way, _) in seating.items() if (seat := at[i]) and seat[0] == way}
    homes = _homes(nodes, pool, gpus, seating, staying)
    floor = Floor(nodes, only=homes)
    result: Seating = {}
    for i, (way, n) in staying.items():
        if n in homes and floor.free[n] >= gpus[i]:
            floor.put(i, n, gpus[i])
            result[i] = way, n
    others = [i for i in seating if i not in result]
    for i in sorted(others, key=lambda i: -gpus[i]):
        way = seating[i][0]
        n_or_none = floor.room(pool, gpus[i])
        if n_or_none is None:
            return seating
        floor.put(i, n_or_none, gpus[i])
        result[i] = way, n_or_none
    return result


def _homes(
    nodes: Sequence[Seats],
    pool: int,
    gpus: Mapping[int, int],
    seating: Seating,
    staying: Seating,
) -> set[int]:
    """As many nodes as the draft uses, those first where most GPUs stay as they are."""
    used = {n for _, n in seating.values()}
    kept = dict.fromkeys(used, 0)
    for i, (_, n) in staying.items():
        kept[n] = kept.get(n, 0) + gpus[i]
    order = sorted(kept, key=lambda n: (not nodes[n].taken, -kept[n], n not in used, n))
    return set(order[: len(used)])
