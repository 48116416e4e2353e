"""Where a job goes. A gang stays on one GPU kind; every rule places whenever the GPUs are there."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dovetail.core.model import WHOLE_GPU, Placement, Shape, Slice, joined
from dovetail.core.plan import Place
from dovetail.core.room import Pool, Room

_Choose = Callable[[Room, Pool, int], Placement]


def count(room: Room, shape: Shape) -> Placement | None:
    """Any free GPUs."""
    return _place(room, shape, _any_nodes)


def consolidated(room: Room, shape: Shape) -> Placement | None:
    """The fewest nodes, and of those the tightest."""
    # The usual rule for the usual job, written out: it is asked for several times a decision.
    if not shape.plain or room.tenants:
        return _place(room, shape, _fewest_nodes)
    gpus = shape.gpus
    pools: list[Pool] | None = shape.pools
    for pool in pools or room.eligible(shape):
        if pool.free >= gpus:
            for nodes in pool.by_count[gpus:]:  # the tightest first
                if nodes:
                    n = (nodes & -nodes).bit_length() - 1
                    placement = room.first[n][gpus].get(room.free[n]) or room.first_gpus(n, gpus)
                    break
            else:
                placement = _fullest_first(room, pool, gpus, -1)
            room.found, room.found_for = placement, shape
            return placement
    return None


def spread(room: Room, shape: Shape) -> Placement | None:
    """The emptiest nodes, one GPU each."""
    return _place(room, shape, _most_nodes)


def topology(room: Room, shape: Shape) -> Placement | None:
    """As consolidated, and inside one rack and one island of fast links where it can."""
    return _place(room, shape, _nearest_nodes)


def _place(room: Room, shape: Shape, choose: _Choose) -> Placement | None:
    if room.tenants and not room.within_quota(shape):
        return None
    if not shape.plain:
        special = _place_special(room, shape)
        room.found, room.found_for = special, shape
        return special
    gpus = shape.gpus
    for pool in room.eligible(shape):
        if pool.free >= gpus:
            placement = choose(room, pool, gpus)
            room.found, room.found_for = placement, shape
            return placement
    return None


# ------------------------------------------------------------------------------- whole GPUs, no host


def _first_node(nodes: int) -> int:
    return (nodes & -nodes).bit_length() - 1


def _fewest_nodes(room: Room, pool: Pool, gpus: int) -> Placement:
    for nodes in pool.by_count[gpus:]:
        if nodes:
            return room.first_gpus(_first_node(nodes), gpus)
    return _fullest_first(room, pool, gpus, -1)


def _fullest_first(room: Room, pool: Pool, gpus: int, among: int) -> Placement:
    """All that is free on a node, the largest first; the last piece where it fits most tightly."""
    parts: list[Placement] = []
    by_count, free, bit, first = pool.by_count, room.free, room.bit, room.first
    for k in range(pool.width, 0, -1):
        nodes = by_count[k]
        if not nodes:
            continue
        nodes &= among
        while nodes and gpus >= k:
            n = (nodes & -nodes).bit_length() - 1
            nodes ^= bit[n]
            parts.append(first[n][k].get(free[n]) or room.first_gpus(n, k))
            gpus -= k
        if not gpus:
            break
        if nodes:
            tight = [by_count[size] & among for size in range(gpus, k) if by_count[size] & among]
            n = _first_node(tight[0] if tight else nodes)
            parts.append(room.first_gpus(n, gpus))
            break
    return joined(parts)


def _any_nodes(room: Room, pool: Pool, gpus: int) -> Placement:
    slices: list[Slice] = []
    for k in range(1, pool.width + 1):
        for n in _bits(pool.by_count[k]):
            taken = min(gpus, k)
            if not slices and taken == gpus:
                return room.single(n, room.lowest(n, taken))
            slices.append(Slice(n, room.lowest(n, taken)))
            gpus -= taken
            if not gpus:
                return Placement(tuple(slices))
    raise AssertionError("the pool promised more GPUs than it has")


def _most_nodes(room: Room, pool: Pool, gpus: int) -> Placement:
    """One GPU a node from the emptiest nodes, round after round."""
    given: dict[int, int] = {}
    for k in range(pool.width, 0, -1):
        for n in _bits(pool.by_count[k]):
            given[n] = 0
            if len(given) == gpus:
                break
        if len(given) == gpus:
            break
    while gpus:
        for n in given:
            if gpus and given[n] < room.count[n]:
                given[n] += 1
                gpus -= 1
    return Placement(tuple(Slice(n, room.lowest(n, taken)) for n, taken in given.items() if taken))


def _nearest_nodes(room: Room, pool: Pool, gpus: int) -> Placement:
    """One island, else one node, else the rack with the tightest room, else the fewest nodes."""
    for k in range(gpus, pool.width + 1):
        nodes = pool.by_count[k]
        if nodes:
            return _nearest_gpus(room, nodes, gpus)
    racks: dict[str, int] = {}
    free_in: dict[str, int] = {}
    for n in pool.members:
        if room.open[n]:
            rack = room.nodes[n].rack
            racks[rack] = racks.get(rack, 0) | room.bit[n]
            free_in[rack] = free_in.get(rack, 0) + room.count[n]
    enough = [(free, rack) for rack, free in free_in.items() if free >= gpus]
    return _fullest_first(room, pool, gpus, racks[min(enough)[1]] if enough else -1)


def _nearest_gpus(room: Room, nodes: int, gpus: int) -> Placement:
    """Among equally full nodes one whose islands need not be split, and there the tightest island."""
    for n in _bits(nodes):
        size = room.nodes[n].island
        if not size:
            return room.first_gpus(n, gpus)
        inside = [
            room.free[n] >> start & (1 << size) - 1 for start in range(0, room.nodes[n].gpus, size)
        ]
        fitting = [
            (mask.bit_count(), i, mask) for i, mask in enumerate(inside) if mask.bit_count() >= gpus
        ]
        if fitting:
            _, island, mask = min(fitting)
            return room.single(n, _lowest_bits(mask, gpus) << island * size)
    n = _first_node(nodes)
    return room.first_gpus(n, gpus)


# --------------------------------------------------------------------------- shares, CPUs and memory


def _place_special(room: Room, shape: Shape) -> Placement | None:
    if not shape.gpus:
        return _place_without_gpu(room, shape)
    if shape.share != WHOLE_GPU:
        return _place_share(room, shape)
    for pool in room.eligible(shape):
        placement = _place_with_host(room, pool, shape) if pool.free >= shape.gpus else None
        if placement is not None:
            return placement
    return None


def _place_without_gpu(room: Room, shape: Shape) -> Placement | None:
    """CPU-only jobs go where the fewest GPUs are free, to leave the others whole."""
    fitting = [
        (room.count[n], n)
        for pool in room.eligible(shape)
        for n in pool.members
        if room.open[n] and room.host_has(n, shape, 0)
    ]
    return room.single(min(fitting)[1], 0) if fitting else None


def _place_share(room: Room, shape: Shape) -> Placement | None:
    """Best fit: the shared GPU with the least left that is enough, else a whole one."""
    allowed = {pool.index for pool in room.eligible(shape)}
    fitting = [
        (left, n, gpu)
        for (n, gpu), left in room.shares.items()
        if left >= shape.share
        and room.open[n]
        and room.pool_of[n].index in allowed
        and room.host_has(n, shape, 1)
    ]
    if fitting:
        _, n, gpu = min(fitting)
        return Placement((Slice(n, 1 << gpu),), shape.share)
    for pool in room.eligible(shape):
        for k in range(1, pool.width + 1):
            for n in _bits(pool.by_count[k]):
                if room.host_has(n, shape, 1):
                    return Placement((Slice(n, room.lowest(n, 1)),), shape.share)
    return None


def _place_with_host(room: Room, pool: Pool, shape: Shape) -> Placement | None:
    """Whole GPUs where the CPUs and memory that go with them are free too: one node if possible."""
    gpus = shape.gpus
    for k in range(gpus, pool.width + 1):
        for n in _bits(pool.by_count[k]):
            if room.host_has(n, shape, gpus):
                return room.first_gpus(n, gpus)
    slices = []
    for k in range(pool.width, 0, -1):
        for n in _bits(pool.by_count[k]):
            taken = _most_with_host(room, n, shape, min(gpus, k))
            if taken:
                slices.append(Slice(n, room.lowest(n, taken)))
                gpus -= taken
            if not gpus:
                return Placement(tuple(slices))
    return None


def _most_with_host(room: Room, n: int, shape: Shape, most: int) -> int:
    while most and not room.host_has(n, shape, most):
        most -= 1
    return most


def _bits(nodes: int) -> Iterator[int]:
    while nodes:
        low = nodes & -nodes
        yield low.bit_length() - 1
        nodes ^= low


def _lowest_bits(mask: int, number: int) -> int:
    rest = mask
    for _ in range(number):
        rest &= rest - 1
    return mask ^ rest


PLACEMENTS: dict[str, Place] = {
    "count": count,
    "consolidated": consolidated,
    "spread": spread,
    "topology": topology,
}
