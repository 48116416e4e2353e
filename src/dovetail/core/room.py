"""The book of what is free: whole GPUs as bit masks, shares of GPUs, CPUs, memory and quotas.

Nodes that can stand in for each other form a pool, and a pool keeps, for every number k, one integer
whose bits are the nodes with exactly k free GPUs. Finding a place is then a lowest-set-bit.

A policy tries things out on the book itself and the book is put back afterwards (`rollback`): that is
cheaper than any copy, and the state does it by itself before it records anything.
"""

from __future__ import annotations

from typing import Final, final

from dovetail.core.errors import IllegalEntry
from dovetail.core.model import WHOLE_GPU, Job, Node, Placement, Shape, Slice, Tenant

_RETURNED_KEPT: Final = 4000  # nodes: who has not looked for longer looks everywhere
ROUNDING: Final = 1e-9  # CPUs and memory are floats: sums of parts may miss the whole by that much


@final
class Pool:
    """Nodes of one GPU kind and memory that the same tenants may use."""

    def __init__(self, index: int, kind: str, tenant: str, gpu_memory_gb: float) -> None:
        self.index: Final = index
        self.kind: Final = kind
        self.tenant: Final = tenant
        self.gpu_memory_gb: Final = gpu_memory_gb
        self.width = 0  # GPUs of its largest node
        self.free = 0  # whole free GPUs on its open nodes
        # by_count[k]: the open nodes with exactly k free GPUs; those with none are not looked for.
        self.by_count: list[int] = [0]
        self.members: list[int] = []
        self.opened = 0  # the open nodes
        # Nodes on which more is free than before, in that order, if anybody wants to know.
        self.returned: list[int] = []
        self.forgotten = 0  # how many before these are no longer known


@final
class PlaceSearch:
    """What is known of the places that a pool has for a shape, once so many nodes were `returned`.

    What did not fit a node does not fit it until something is given back there.
    """

    def __init__(self, upto: int) -> None:
        self.upto = upto
        self.lacking = 0  # nodes without the CPUs and memory for all of its GPUs
        self.barren = 0  # nodes without those for even one of them
        self.failed = False  # was there no place, all nodes together?


@final
class Room:
    """Every node's free resources. Changed by the state alone, or in draft by a plan."""

    __slots__ = (  # with more than thirty attributes, each would be looked up in a dictionary
        *("_asked", "_confirmed", "_draft", "_given", "_lowest", "_single", "_sites", "bit"),
        *(
            "changes",
            "count",
            "cpus",
            "down",
            "drafted",
            "first",
            "found",
            "found_for",
            "free",
            "gone",
        ),
        *("gpus_up", "held", "index", "memory_gb", "nodes", "occupied", "open", "partitioned"),
        *(
            "pool_of",
            "pools",
            "prompt",
            "shares",
            "sole",
            "strangers",
            "tenants",
            "tenants_matter",
            "unsettled",
            "watched",
        ),
    )

    def __init__(self) -> None:
        self.nodes: Final[list[Node]] = []
        self.index: Final[dict[str, int]] = {}
        self.pools: Final[list[Pool]] = []
        self.sole: Pool | None = None  # if there is but one
        self.pool_of: Final[list[Pool]] = []
        self.bit: Final[list[int]] = []  # bit[n] == 1 << n; made once, it is long for large n
        self.free: Final[list[int]] = []  # per node: the mask of GPUs nobody uses
        self.count: Final[list[int]] = []  # per node: how many these are
        self.shares: Final[
            dict[tuple[int, int], int]
        ] = {}  # (node, GPU): what is left of a shared one
        self.cpus: Final[list[float]] = []
        self.memory_gb: Final[list[float]] = []
        self.open: Final[list[bool]] = []  # may anything start here?
        # Per open node: where it is counted, that is its pool, the pool's `by_count`, and its bit.
        self._sites: Final[list[tuple[Pool, list[int], int] | None]] = []
        self.down: Final[set[int]] = set()  # failed or gone
        self.strangers: Final[dict[int, int]] = {}  # per node: GPUs that somebody else uses
        self.occupied: Final[
            dict[int, int]
        ] = {}  # of these: those that are not free for that reason
        self._given: Final[set[int]] = set()  # nodes to be looked at for strangers
        self.gpus_up = 0  # GPUs on nodes that are not down
        self.gone: Final[set[int]] = set()
        self.tenants: Final[dict[str, Tenant]] = {}
        self.held: Final[dict[str, float]] = {}  # GPUs in use by tenants with a quota
        self.partitioned = False  # do some nodes belong to one tenant?
        self.tenants_matter = False
        self.prompt = False  # are all nodes such that jobs work at once?
        self.changes = 0  # how often a node opened or closed, or a quota was set
        self._asked: list[Shape] = []  # shapes that remember their pools
        # Taken or given, what, for whom, and whether it may be recorded as it is.
        self._draft: list[tuple[bool, Placement, Shape, bool]] = []
        self._confirmed = 0  # how many of the drafts have become real
        self.drafted = False
        self.unsettled = False  # has anybody tried out something that is to be put back?
        # What was last found for a job of which shape, as long as nothing has changed since:
        self.found: Placement | None = None
        self.found_for: Shape | None = None
        self.watched = False  # does anybody want to know where more is free than before?
        self._lowest: dict[tuple[int, int], int] = {}
        self._single: list[dict[int, Placement]] = []  # per node: by the mask
        # Per node and number of GPUs: the placement on the first of those that are free.
        self.first: list[list[dict[int, Placement]]] = []

    # ------------------------------------------------------------------------------ what there is

    def add(self, node: Node) -> int:
        n = len(self.nodes)
        self.index[node.id] = n
        self.prompt = node.prompt and (self.prompt or n == 0)
        self.nodes.append(node)
        pool = self._pool_for(node)
        pool.members.append(n)
        if node.gpus > pool.width:
            pool.by_count.extend([0] * (node.gpus - pool.width))
            pool.width = node.gpus
        self.pool_of.append(pool)
        self.bit.append(1 << n)
        self.free.append((1 << node.gpus) - 1)
        self.count.append(node.gpus)
        self.cpus.append(node.cpus)
        self.memory_gb.append(node.memory_gb)
        self.open.append(False)
        self._sites.append(None)
        self._single.append({})
        self.first.append([{} for _ in range(node.gpus + 1)])
        self.partitioned = self.partitioned or bool(node.tenant)
        self.tenants_matter = self.tenants_matter or self.partitioned
        self.set_open(n, True)
        self.gpus_up += node.gpus
        self._forget_eligible()
        return n

    def _pool_for(self, node: Node) -> Pool:
        for pool in self.pools:
            if (
                pool.kind == node.kind
                and pool.tenant == node.tenant
                and pool.gpu_memory_gb == node.gpu_memory_gb
            ):
                return pool
        pool = Pool(len(self.pools), node.kind, node.tenant, node.gpu_memory_gb)
        self.pools.append(pool)
        self.sole = pool if len(self.pools) == 1 else None
        return pool

    def set_open(self, n: int, is_open: bool) -> None:
        """Let the node's free GPUs be found, or hide them."""
        if self.open[n] == is_open:
            return
        self.open[n] = is_open
        self.changes += 1
        self.found = None
        pool, count, bit = self.pool_of[n], self.count[n], self.bit[n]
        self._sites[n] = (pool, pool.by_count, bit) if is_open else None
        pool.opened ^= bit
        if count:
            pool.by_count[count] ^= bit
        pool.free += count if is_open else -count
        if is_open:
            self._note_returned(n)

    def remove(self, n: int) -> None:
        self.set_open(n, False)
        self.set_up(n, False)
        self.gone.add(n)
        self._forget_eligible()

    def set_up(self, n: int, is_up: bool) -> None:
        """Count the node's GPUs among those of the cluster, or no longer."""
        if is_up == (n in self.down):
            self.gpus_up += self.nodes[n].gpus if is_up else -self.nodes[n].gpus
            if is_up:
                self.down.discard(n)
            else:
                self.down.add(n)

    def set_strangers(self, n: int, mask: int) -> None:
        """Exactly these GPUs are used by somebody else. Those that jobs of ours hold stay theirs until
        they give them back."""
        self.strangers[n] = mask
        self._keep_off_strangers(n)

    def keep_off_strangers(self, placement: Placement) -> None:
        """These GPUs were given back, and nothing is drafted; somebody else may be on them, or on some
        that were given back in a draft."""
        self._given.update([n for n, _ in placement.slices])
        for n in self._given:
            if n in self.strangers:
                self._keep_off_strangers(n)
        self._given.clear()

    def _keep_off_strangers(self, n: int) -> None:
        mask, before = self.strangers[n], self.occupied.get(n, 0)
        taken = mask & self.free[n]
        self._set_free(n, (self.free[n] | before & ~mask) & ~taken)
        self._note_returned(n)
        self.occupied[n] = before & mask | taken
        self.changes += 1

    def set_tenant(self, tenant: Tenant) -> None:
        self.tenants[tenant.name] = tenant
        self.held.setdefault(tenant.name, 0.0)
        self.tenants_matter = True
        self.changes += 1
        self.found = None

    def eligible(self, shape: Shape) -> list[Pool]:
        """The pools that a job of this shape may use, in the order the nodes joined. A share of a
        GPU has that part of its memory: so those on one card never ask for more than it has."""
        pools: list[Pool] | None = shape.pools
        if pools is None:
            pools = shape.pools = self._find_eligible(shape)
            self._asked.append(shape)
        return pools

    def _find_eligible(self, shape: Shape) -> list[Pool]:
        return [
            pool
            for pool in self.pools
            if (not shape.kinds or pool.kind in shape.kinds)
            and self.admits(pool, shape)
            and (shape.plain or self._most_in(pool, shape) >= max(shape.gpus, 1))
        ]

    def _forget_eligible(self) -> None:
        for shape in self._asked:
            shape.pools = None
        self._asked.clear()

    def _may_use(self, pool: Pool, shape: Shape, gpus: int) -> bool:
        if not shape.options:
            return pool in self.eligible(shape)
        return (pool.kind, gpus) in shape.options and self.admits(pool, shape)

    def admits(self, pool: Pool, shape: Shape) -> bool:
        """May jobs of this shape use the pool, whatever its kind?"""
        return shape.gpu_memory_gb <= pool.gpu_memory_gb * shape.share / WHOLE_GPU and (
            not pool.tenant or pool.tenant == shape.tenant
        )

    def within_quota(self, shape: Shape) -> bool:
        return self._quota_has(shape.tenant, _gpus_counted(shape))

    def _quota_has(self, name: str, gpus: float) -> bool:
        tenant = self.tenants.get(name)
        return tenant is None or self.held[name] + gpus <= tenant.gpu_quota + ROUNDING

    def shaped(
        self, lane: int, job: Job, tenant: str, settled: tuple[str, int] | None = None
    ) -> tuple[Shape, str]:
        """What must be free for the job to start: what it asked for or, where that can never be, the
        first of its other ways that can (unless it has settled on one); and why none ever can."""
        usual = Shape(lane, job, tenant, settled, settled is not None)
        why = self.why_never(usual)
        if why:
            for kind, gpus in usual.options:
                other = Shape(lane, job, tenant, (kind, gpus), usual.settled)
                if not self.why_never(other):
                    return other, ""
        return usual, why

    def why_never(self, shape: Shape) -> str:
        """Why a job of this shape could not even start on the empty cluster; "" if it could."""
        tenant = self.tenants.get(shape.tenant)
        if tenant is not None and _gpus_counted(shape) > tenant.gpu_quota:
            return f"it needs {shape}, and the tenant's quota is {tenant.gpu_quota:g} GPUs"
        largest = 0
        for pool in self.pools:
            if (not shape.kinds or pool.kind in shape.kinds) and self.admits(pool, shape):
                largest = max(largest, self._most_in(pool, shape))
        if largest >= max(shape.gpus, 1):
            return ""
        kinds = sorted({pool.kind for pool in self.pools})
        if shape.kinds and not set(shape.kinds) & set(kinds):
            return f"it needs {shape}, and there is none of that kind; there is {', '.join(kinds)}"
        if not shape.gpus:
            return f"it needs {shape}, and no node that it may use has as much"
        limit = " with the CPUs and memory it needs beside them" if not shape.plain else ""
        return f"it needs {shape}, and the largest possible placement is {largest} GPUs{limit}"

    def _most_in(self, pool: Pool, shape: Shape) -> int:
        """How many of the shape's GPUs the empty pool could carry."""
        return sum([self._most_gpus(n, shape) for n in pool.members if n not in self.gone])

    def _most_gpus(self, n: int, shape: Shape) -> int:
        """How many of the shape's GPUs the empty node could carry (1 for a CPU-only job that fits)."""
        node = self.nodes[n]
        if not shape.gpus:
            return int(shape.cpus <= node.cpus and shape.memory_gb <= node.memory_gb)
        most = float(node.gpus)
        if shape.cpus:
            most = min(most, node.cpus * shape.gpus / shape.cpus + ROUNDING)
        if shape.memory_gb:
            most = min(most, node.memory_gb * shape.gpus / shape.memory_gb + ROUNDING)
        return int(most)

    # ------------------------------------------------------------------------------- finding room

    def host_has(self, n: int, shape: Shape, gpus: int) -> bool:
        """Are there CPUs and memory on the node for that many of the shape's GPUs?"""
        return is_enough(self.cpus[n], self.memory_gb[n], shape, gpus)

    def most_with_host(self, n: int, shape: Shape, most: int) -> int:
        """For how many of the shape's GPUs, `most` at the most, the node has CPUs and memory."""
        return most_beside(self.cpus[n], self.memory_gb[n], shape, most)

    def allows(self, placement: Placement, shape: Shape) -> bool:
        """Are the quota, the CPUs and the memory there that this placement needs beside its GPUs?"""
        if self.tenants and not self._quota_has(shape.tenant, placement.holds):
            return False
        return shape.plain or all(
            [self.host_has(n, shape, mask.bit_count()) for n, mask in placement.slices]
        )

    def most_free(self) -> int:
        """No job of whole GPUs that asks for more than this can start."""
        if self.sole is not None:
            return self.sole.free
        return max([pool.free for pool in self.pools], default=0)

    def lowest(self, n: int, count: int) -> int:
        """The mask of the node's first `count` free GPUs."""
        free = self.free[n]
        key = (free, count)
        mask = self._lowest.get(key)
        if mask is None:
            rest = free
            for _ in range(count):
                rest &= rest - 1
            mask = free ^ rest
            self._lowest[key] = mask
        return mask

    def first_gpus(self, n: int, count: int) -> Placement:
        """The placement on the node's first `count` free GPUs."""
        kept, free = self.first[n][count], self.free[n]
        placement = kept.get(free)
        if placement is None:
            placement = kept[free] = self.single(n, self.lowest(n, count))
        return placement

    def single(self, n: int, mask: int) -> Placement:
        """The placement on one node; the same few come up again and again, so they are kept."""
        kept = self._single[n]
        placement = kept.get(mask)
        if placement is None:
            placement = kept[mask] = Placement((Slice(n, mask),))
        return placement

    # ---------------------------------------------------------------------------- taking and giving

    def is_free(self, placement: Placement) -> bool:
        """Could this very placement be taken now?"""
        if placement.share != WHOLE_GPU:
            return all([self._left(n, mask) >= placement.share for n, mask in placement.slices])
        for n, mask in placement.slices:
            if self.free[n] & mask != mask:
                return False
        return True

    def _left(self, n: int, mask: int) -> int:
        """The least that is left of any of these GPUs, in thousandths."""
        least = WHOLE_GPU
        while mask:
            low = mask & -mask
            mask ^= low
            whole = WHOLE_GPU if self.free[n] & low else 0
            least = min(least, self.shares.get((n, low.bit_length() - 1), whole))
        return least

    def take(self, placement: Placement, shape: Shape) -> None:
        self.found = None
        if placement.whole:
            # Written out here and in `give`: a call for every slice shows in the profile.
            free, count, sites = self.free, self.count, self._sites
            for n, mask, number in placement.uses:
                before = count[n]
                count[n] = after = before - number
                free[n] = free[n] ^ mask
                site = sites[n]
                if site is not None:
                    pool, by_count, bit = site
                    by_count[before] = by_count[before] ^ bit
                    if after:
                        by_count[after] = by_count[after] ^ bit
                    pool.free -= number
        else:
            for n, mask in placement.slices:
                self._take_share(n, mask, placement.share)
        if not shape.plain:
            self._charge_host(placement, shape, -1.0)
        if self.held:
            self._charge_quota(placement, shape, 1.0)

    def give(self, placement: Placement, shape: Shape) -> None:
        self.found = None
        if placement.whole:
            free, count, sites = self.free, self.count, self._sites
            for n, mask, number in placement.uses:
                before = count[n]
                count[n] = after = before + number
                free[n] = free[n] ^ mask
                site = sites[n]
                if site is not None:
                    pool, by_count, bit = site
                    if before:
                        by_count[before] = by_count[before] ^ bit
                    by_count[after] = by_count[after] ^ bit
                    pool.free += number
        else:
            for n, mask in placement.slices:
                self._give_share(n, mask, placement.share)
        if not shape.plain:
            self._charge_host(placement, shape, 1.0)
        if self.held:
            self._charge_quota(placement, shape, -1.0)
        if self.watched:
            for n, _ in placement.slices:
                self._note_returned(n)

    def _note_returned(self, n: int) -> None:
        if not self.watched or not self.open[n]:
            return
        pool = self.pool_of[n]
        returned = pool.returned
        returned.append(n)
        if len(returned) > 2 * _RETURNED_KEPT:
            del returned[:_RETURNED_KEPT]
            pool.forgotten += _RETURNED_KEPT

    def search(self, pool: Pool, shape: Shape) -> PlaceSearch:
        """What is known of the pool's places for the shape, brought up to date."""
        searches: dict[int, PlaceSearch] | None = shape.searches
        if searches is None:
            searches = shape.searches = {}
            self.watched = True
        search = searches.get(pool.index)
        upto = pool.forgotten + len(pool.returned)
        if search is None or search.upto < pool.forgotten:
            search = searches[pool.index] = PlaceSearch(upto)
        elif search.upto < upto:
            nodes = 0
            for n in pool.returned[search.upto - pool.forgotten :]:
                nodes |= self.bit[n]
            search.upto = upto
            search.lacking &= ~nodes
            search.barren &= ~nodes
            search.failed = False
        return search

    def able(self, pool: Pool, shape: Shape) -> int:
        """The nodes that may have room for some of the shape's GPUs; the others have none."""
        search, nodes = self.search(pool, shape), 0
        for some in pool.by_count[1:]:
            nodes |= some
        return nodes & ~search.barren

    def _charge_quota(self, placement: Placement, shape: Shape, sign: float) -> None:
        if shape.tenant in self.held:
            self.held[shape.tenant] += sign * placement.holds

    def _set_free(self, n: int, mask: int) -> None:
        self.found = None
        before, after = self.count[n], mask.bit_count()
        self.free[n] = mask
        self.count[n] = after
        site = self._sites[n]
        if site is not None:
            pool, by_count, bit = site
            if before:
                by_count[before] ^= bit
            if after:
                by_count[after] ^= bit
            pool.free += after - before

    def _take_share(self, n: int, mask: int, share: int) -> None:
        while mask:
            low = mask & -mask
            mask ^= low
            gpu = (n, low.bit_length() - 1)
            left = self.shares.get(gpu)
            if left is None:
                self._set_free(n, self.free[n] & ~low)
                left = WHOLE_GPU
            self.shares[gpu] = left - share

    def _give_share(self, n: int, mask: int, share: int) -> None:
        while mask:
            low = mask & -mask
            mask ^= low
            gpu = (n, low.bit_length() - 1)
            left = self.shares.get(gpu, 0) + share
            if left >= WHOLE_GPU:
                del self.shares[gpu]
                self._set_free(n, self.free[n] | low)
            else:
                self.shares[gpu] = left

    def _charge_host(self, placement: Placement, shape: Shape, sign: float) -> None:
        gpus = placement.gpus
        for n, mask in placement.slices:
            part = sign * (mask.bit_count() / gpus if gpus else 1.0)
            self.cpus[n] += shape.cpus * part
            self.memory_gb[n] += shape.memory_gb * part

    def check(self, placement: Placement, shape: Shape, before: Placement | None = None) -> None:
        """Raise if the placement cannot be taken as it stands. Who is on a closed node may stay."""
        at_home = [] if before is None else [piece.node for piece in before.slices]
        used = [piece.node for piece in placement.slices]
        if not used or len(set(used)) < len(used):
            raise IllegalEntry(f"it needs {shape}, and {placement} names no node, or one twice")
        for n, mask in placement.slices:
            if not 0 <= n < len(self.nodes):
                raise IllegalEntry(f"there is no node number {n}")
            if mask >> self.nodes[n].gpus:
                raise IllegalEntry(f"node {self.nodes[n].id!r} has only {self.nodes[n].gpus} GPUs")
            if not self.open[n] and n not in at_home:
                raise IllegalEntry(f"node {self.nodes[n].id!r} is down, draining or gone")
            if not self._may_use(self.pool_of[n], shape, placement.gpus):
                pool = self.pool_of[n]
                whose = f", for tenant {pool.tenant!r} alone" if pool.tenant else ""
                raise IllegalEntry(
                    f"it needs {shape}, and node {self.nodes[n].id!r} is of kind {pool.kind!r}{whose}"
                )
            if not shape.plain and not self.host_has(n, shape, mask.bit_count()):
                raise IllegalEntry(
                    f"node {self.nodes[n].id!r} lacks the CPUs or memory for {shape}"
                )
        if not self.is_free(placement):
            n, mask = placement.slices[0]
            raise IllegalEntry(
                f"it needs {shape} on node {self.nodes[n].id!r}, which has "
                f"{self.free[n].bit_count()} free"
            )
        tenant = self.tenants.get(shape.tenant)
        if tenant and self.held[shape.tenant] + placement.holds > tenant.gpu_quota + ROUNDING:
            raise IllegalEntry(
                f"it needs {shape}, and the tenant holds {self.held[shape.tenant]:g} of its quota "
                f"of {tenant.gpu_quota:g} GPUs"
            )

    # -------------------------------------------------------------------------------------- drafts

    def draft_take(self, placement: Placement, shape: Shape, own: bool = False) -> None:
        """What our rules have just found can be taken; what others chose is checked. Its `own` GPUs a
        job may keep even on a node that is closed, but not start there anew."""
        if not own and (placement is not self.found or shape is not self.found_for):
            self.check(placement, shape)
        self.take(placement, shape)
        self._draft.append((True, placement, shape, not own))
        self.drafted = self.unsettled = True

    def draft_give(self, placement: Placement, shape: Shape) -> None:
        self.give(placement, shape)
        self._draft.append((False, placement, shape, True))
        self.drafted = self.unsettled = True

    def confirm(self, taken: bool, placement: Placement, shape: Shape) -> bool:
        """Make the next draft real if it is this one. If it is another, or one that is to be checked
        first, all drafts are undone.

        Decisions are usually recorded just as they were drafted: then nothing is done twice.
        """
        if not self._draft:
            return False
        was_taken, where, whose, trusted = self._draft[self._confirmed]
        if where is not placement or was_taken is not taken or whose is not shape or not trusted:
            self.rollback()
            return False
        if self.strangers and not taken:
            self._given.update([n for n, _ in placement.slices])
        self._confirmed += 1
        if self._confirmed == len(self._draft):
            self._draft.clear()
            self._confirmed = 0
            self.drafted = False
        return True

    def mark(self) -> int:
        """Where the drafts stand now, for `rollback_to`."""
        return len(self._draft)

    def rollback_to(self, mark: int) -> None:
        """Undo every draft made since the mark, newest first."""
        draft = self._draft
        while len(draft) > mark:
            taken, placement, shape, _ = draft.pop()
            if taken:
                self.give(placement, shape)
            else:
                self.take(placement, shape)
        self.drafted = bool(draft)

    def rollback(self) -> None:
        """Undo every draft that has not become real, newest first."""
        self.rollback_to(self._confirmed)
        self._draft.clear()
        self._confirmed = 0
        self.drafted = False


def is_enough(cpus: float, memory_gb: float, shape: Shape, gpus: int) -> bool:
    """Is that enough for so many of the shape's GPUs?"""
    part = gpus / shape.gpus if shape.gpus else 1.0
    return cpus + ROUNDING >= shape.cpus * part and memory_gb + ROUNDING >= shape.memory_gb * part


def most_beside(cpus: float, memory_gb: float, shape: Shape, most: int) -> int:
    """For how many of the shape's GPUs that is enough, `most` at the most."""
    if is_enough(cpus, memory_gb, shape, most):
        return most
    fits = 0  # a bisection: where there is enough for some there is enough for fewer
    while most - fits > 1:
        middle = (fits + most) // 2
        if is_enough(cpus, memory_gb, shape, middle):
            fits = middle
        else:
            most = middle
    return fits


def _gpus_counted(shape: Shape) -> float:
    return shape.gpus * shape.share / WHOLE_GPU
