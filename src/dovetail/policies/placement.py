"""Where a job goes. A gang stays on one GPU kind; every rule places whenever the GPUs are there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from dovetail.core.inventory import ROUNDING, Pool
from dovetail.core.model import WHOLE_GPU, Placement, Slice, joined
from dovetail.core.plan import Place, at_home
from dovetail.core.room import PlaceSearch, Room
from dovetail.core.shape import Shape

_Choose = Callable[[Room, Pool, int], Placement]
_Split = Callable[[Room, Pool, Shape], list[Placement]]  # a part a node, as many as there are


def count(room: Room, shape: Shape) -> Placement | None:
    """Any free GPUs."""
    return _place(room, shape, _any_nodes, _on_tightest)


def consolidated(room: Room, shape: Shape) -> Placement | None:
    """The fewest nodes, and of those the tightest."""
    # The usual rule for the usual job, written out: it is asked for several times a decision.
    if not shape.plain or room.tenants:
        return _place(room, shape, _fewest_nodes, _on_tightest)
    gpus = shape.gpus
    pools: list[Pool] | None = shape.pools
    for pool in pools or room.eligible(shape):
        if pool.free >= gpus:
            by_count, width, k = pool.by_count, pool.width, gpus
            while k <= width and not by_count[k]:
                k += 1
            if k <= width:  # the tightest first
                nodes = by_count[k]
                n = (nodes & -nodes).bit_length() - 1
                placement = room.first[n][gpus].get(room.free[n]) or room.first_gpus(n, gpus)
            else:
                placement = _fullest_first(room, pool, gpus, -1)
            room.found, room.found_for = placement, shape
            return placement
    return None


def emptiest(room: Room, shape: Shape) -> Placement | None:
    """All that the emptiest node has, then the next, until it is enough (Pollux' simulator)."""
    return _place(room, shape, _emptiest_nodes, _on_emptiest)


def spread(room: Room, shape: Shape) -> Placement | None:
    """The emptiest nodes, one GPU each."""
    return _place(room, shape, _most_nodes, _on_emptiest)


def topology(room: Room, shape: Shape) -> Placement | None:
    """As consolidated, and inside one rack and one island of fast links where it can."""
    return _place(room, shape, _nearest_nodes, _on_one_rack)


def _place(room: Room, shape: Shape, choose: _Choose, split: _Split) -> Placement | None:
    if room.tenants and not room.within_quota(shape):
        return None
    if not shape.plain:
        special = _place_special(room, shape, split)
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
            for size in range(gpus, k):
                tight = by_count[size] & among
                if tight:
                    nodes = tight
                    break
            n = _first_node(nodes)
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


def _emptiest_nodes(room: Room, pool: Pool, gpus: int) -> Placement:
    parts: list[Placement] = []
    for k in range(pool.width, 0, -1):
        for n in _bits(pool.by_count[k]):
            taken = min(gpus, k)
            parts.append(room.first_gpus(n, taken))
            gpus -= taken
            if not gpus:
                return parts[0] if len(parts) == 1 else joined(parts)
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


# ------------------------------------------------------------------------- exactly so many nodes


def _place_over_nodes(room: Room, shape: Shape, split: _Split) -> Placement | None:
    """All of its nodes or none. Each has the same part, so that a node has room for one or not."""
    for pool in room.eligible(shape):
        if pool.free >= shape.gpus:
            search = room.search(pool, shape)
            parts = [] if search.failed else split(room, pool, shape)
            if len(parts) == shape.nodes:
                return parts[0] if shape.nodes == 1 else joined(parts)
            search.failed = True
    return None


def _on_tightest(room: Room, pool: Pool, shape: Shape) -> list[Placement]:
    return _first_parts(room, shape, _fitting(room, pool, shape, range(shape.each, pool.width + 1)))


def _on_emptiest(room: Room, pool: Pool, shape: Shape) -> list[Placement]:
    counts = range(pool.width, shape.each - 1, -1)
    return _first_parts(room, shape, _fitting(room, pool, shape, counts))


def _on_one_rack(room: Room, pool: Pool, shape: Shape) -> list[Placement]:
    """The rack with the fewest nodes that are enough, else all racks; and islands left whole."""
    fitting = list(_fitting(room, pool, shape, range(shape.each, pool.width + 1)))
    racks: dict[str, list[int]] = {}
    for n in fitting:
        racks.setdefault(room.nodes[n].rack, []).append(n)
    enough = [(len(nodes), rack) for rack, nodes in racks.items() if len(nodes) >= shape.nodes]
    nodes = racks[min(enough)[1]] if enough else fitting
    return [_nearest_gpus(room, room.bit[n], shape.each) for n in nodes[: shape.nodes]]


def _first_parts(room: Room, shape: Shape, nodes: Iterator[int]) -> list[Placement]:
    return [room.first_gpus(n, shape.each) for n in islice(nodes, shape.nodes)]


def _fitting(room: Room, pool: Pool, shape: Shape, counts: Iterable[int]) -> Iterator[int]:
    """The nodes with so many free GPUs that also have the CPUs and memory of one part."""
    search = room.search(pool, shape)
    for k in counts:
        for n in _bits(_with_free(pool, k) & ~search.lacking):
            if room.host_has(n, shape, shape.each):
                yield n
            else:
                search.lacking |= room.bit[n]


def _with_free(pool: Pool, count: int) -> int:
    """The open nodes with exactly so many free GPUs."""
    if count:
        return pool.by_count[count]
    nodes = pool.opened
    for some in pool.by_count[1:]:
        nodes &= ~some
    return nodes


# --------------------------------------------------------------------------- shares, CPUs and memory


def _place_special(room: Room, shape: Shape, split: _Split) -> Placement | None:
    if shape.home:
        return at_home(room, shape.home, shape)
    if shape.nodes:
        return _place_over_nodes(room, shape, split)
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
    best: tuple[int, int] | None = None
    for pool in room.eligible(shape):
        found = _fewest_free(room, pool, shape)
        if found is not None and (best is None or found < best):
            best = found
    return None if best is None else room.single(best[1], 0)


def _fewest_free(room: Room, pool: Pool, shape: Shape) -> tuple[int, int] | None:
    """The free GPUs and the number of the first node that has the CPUs and memory."""
    search = room.search(pool, shape)
    for k in range(pool.width + 1):
        n = _first_with_host(room, search, shape, _with_free(pool, k))
        if n >= 0:
            return k, n
    return None


def _first_with_host(room: Room, search: PlaceSearch, shape: Shape, nodes: int) -> int:
    """The first of the nodes with CPUs and memory for all of the shape; -1: none of them. Those that
    have not are remembered."""
    nodes &= ~search.lacking
    if not nodes:
        return -1
    # As in `Room.host_has`, written out: a crowded cluster has many nodes without CPUs.
    room_cpus, room_gb, bit = room.cpus, room.memory_gb, room.bit
    cpus, memory_gb, found = shape.cpus, shape.memory_gb, -1
    while nodes:
        n = (nodes & -nodes).bit_length() - 1
        if room_cpus[n] + ROUNDING >= cpus and room_gb[n] + ROUNDING >= memory_gb:
            found = n
            break
        search.lacking |= bit[n]
        nodes ^= bit[n]
    return found


def _place_share(room: Room, shape: Shape) -> Placement | None:
    """Best fit: the shared GPU with the least left that is enough, else a whole one."""
    pools = room.eligible(shape)
    searches = [room.search(pool, shape) for pool in pools]
    if all([search.failed for search in searches]):
        return None
    allowed = {pool.index for pool in pools}
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
    for pool, search in zip(pools, searches, strict=True):
        for k in range(1, pool.width + 1):
            n = _first_with_host(room, search, shape, pool.by_count[k])
            if n >= 0:
                return Placement((Slice(n, room.lowest(n, 1)),), shape.share)
    for search in searches:
        search.failed = True
    return None


def _place_with_host(room: Room, pool: Pool, shape: Shape) -> Placement | None:
    """Whole GPUs where the CPUs and memory that go with them are free too: one node if possible."""
    search = room.search(pool, shape)
    if search.failed:
        return None
    gpus, able = shape.gpus, room.with_host(pool, shape.cpus, shape.memory_gb)
    for k in range(gpus, pool.width + 1):
        n = _first_with_host(room, search, shape, pool.by_count[k] & able)
        if n >= 0:
            return room.first_gpus(n, gpus)
    placement = _spread_with_host(room, pool, shape, search)
    search.failed = placement is None
    return placement


def _spread_with_host(
    room: Room, pool: Pool, shape: Shape, search: PlaceSearch
) -> Placement | None:
    """From the nodes with the most free GPUs, of each as many as its CPUs and memory allow."""
    slices: list[Slice] = []
    gpus, part, bit = shape.gpus, 1 / shape.gpus, room.bit
    room_cpus, room_gb = room.cpus, room.memory_gb
    cpus, memory_gb = shape.cpus * part, shape.memory_gb * part  # for one of them
    able = room.with_host(pool, cpus, memory_gb) & ~search.barren
    for k in range(pool.width, 0, -1):
        nodes = pool.by_count[k] & able
        while nodes:
            n = (nodes & -nodes).bit_length() - 1
            nodes ^= bit[n]
            if room_cpus[n] + ROUNDING < cpus or room_gb[n] + ROUNDING < memory_gb:
                search.barren |= bit[n]
                continue
            taken = room.most_with_host(n, shape, min(gpus, k))
            slices.append(Slice(n, room.lowest(n, taken)))
            gpus -= taken
            if not gpus:
                return Placement(tuple(slices))
    search.could = {n: mask.bit_count() for n, mask in slices}
    return None


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
    "emptiest": emptiest,
    "spread": spread,
    "topology": topology,
}
