"""The nodes there are, in pools: which are open, who may use them, and what could ever run there."""

from __future__ import annotations

from typing import Final, final

from dovetail.core.model import WHOLE_GPU, Job, Node, Placement, Tenant
from dovetail.core.shape import Home, Shape

_RETURNED_KEPT: Final = 128  # nodes: who has not looked for longer looks everywhere
_LEVELS: Final = 64  # of CPUs and memory; more is as good as that
_GB_A_LEVEL: Final = 8.0
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
        # The nodes, open or not, with so many free CPUs; with so much memory, in steps.
        self.by_cpus: Final = [0] * (_LEVELS + 1)
        self.by_memory: Final = [0] * (_LEVELS + 1)
        # Nodes on which more is free than before, in that order, if anybody wants to know.
        self.returned: list[int] = []
        self.forgotten = 0  # how many before these are no longer known
        # See `Room.search`: by how many were returned before, as long as no others are.
        self.counted: Final[dict[int, tuple[int, list[tuple[float, int]]]]] = {}
        self.counted_upto = 0


class Inventory:
    """Every node, and what is free on it. `Room` takes and gives it."""

    __slots__ = (  # with more than thirty attributes, each would be looked up in a dictionary
        *("_asked", "_given", "_lowest", "_single", "_sites", "bit", "changes", "count", "cpus"),
        *(
            "down",
            "first",
            "keeping",
            "found",
            "found_for",
            "free",
            "gone",
            "gpus_up",
            "held",
            "index",
        ),
        *("closed", "counts_more", "drained"),
        *("memory_gb", "nodes", "occupied", "open", "partitioned", "pool_of", "pools", "prompt"),
        *("_levels", "shares", "sole", "strangers", "strangers_host", "tenants"),
        *("tenants_matter", "watched"),
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
        self._levels: Final[list[tuple[int, int]]] = []  # where these are counted in the pool
        self.open: Final[list[bool]] = []  # may anything start here?
        # Per open node: where it is counted, that is its pool, the pool's `by_count`, and its bit.
        self._sites: Final[list[tuple[Pool, list[int], int] | None]] = []
        self.down: Final[set[int]] = set()  # failed or gone
        self.strangers: Final[dict[int, int]] = {}  # per node: GPUs that somebody else uses
        # Per node: CPUs and memory that somebody else uses, where they are counted.
        self.strangers_host: Final[dict[int, tuple[float, float]]] = {}
        self.occupied: Final[
            dict[int, int]
        ] = {}  # of these GPUs: those that are not free for that reason
        self.drained: Final[set[int]] = set()  # nodes that the world does not let anything start on
        self.closed: Final[dict[int, int]] = {}  # per node: GPUs that an administrator has closed
        self._given: Final[set[int]] = set()  # nodes to be looked at for strangers
        self.gpus_up = 0  # GPUs on nodes that are not down
        self.gone: Final[set[int]] = set()
        self.tenants: Final[dict[str, Tenant]] = {}
        self.held: Final[dict[str, float]] = {}  # GPUs in use by tenants with a quota
        self.partitioned = False  # do some nodes belong to one tenant?
        self.tenants_matter = False
        self.keeping = False  # do suspended jobs keep CPUs and memory on any node?
        self.prompt = False  # are all nodes such that jobs work at once?
        self.changes = 0  # how often a node opened or closed, or a quota was set
        self._asked: list[Shape] = []  # shapes that remember their pools
        # What was last found for a job of which shape, as long as nothing has changed since:
        self.found: Placement | None = None
        self.found_for: Shape | None = None
        self.watched = False  # does anybody want to know where more is free than before?
        # Are there closed GPUs, quotas, or somebody who wants to know that, or were there ever?
        self.counts_more = False
        self._lowest: dict[tuple[int, int], int] = {}
        self._single: list[dict[int, Placement]] = []  # per node: by the mask
        # Per node and number of GPUs: the placement on the first of those that are free.
        self.first: list[list[dict[int, Placement]]] = []

    def add(self, node: Node) -> int:
        n = len(self.nodes)
        self.index[node.id] = n
        self.prompt = node.prompt and (self.prompt or n == 0)
        self.keeping = self.keeping or node.keeps
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
        self._levels.append(levels(node.cpus + ROUNDING, node.memory_gb + ROUNDING))
        pool.by_cpus[self._levels[n][0]] |= self.bit[n]
        pool.by_memory[self._levels[n][1]] |= self.bit[n]
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
        """The world lets jobs start on the node, or no longer."""
        if is_open:
            self.drained.discard(n)
        else:
            self.drained.add(n)
        self._show_or_hide(n)

    def _show_or_hide(self, n: int) -> None:
        """Let the node's free GPUs be found, or hide them."""
        gpus = (1 << self.nodes[n].gpus) - 1
        is_open = n not in self.drained and (not gpus or self.closed.get(n, 0) != gpus)
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

    def set_strangers(self, n: int, mask: int, cpus: float = 0.0, memory_gb: float = 0.0) -> None:
        """Exactly these GPUs, CPUs and memory are used by somebody else. GPUs that jobs of ours hold
        stay theirs until they give them back."""
        had = self.strangers_host.pop(n, (0.0, 0.0))
        if cpus or memory_gb:
            self.strangers_host[n] = (cpus, memory_gb)
        self._add_host(n, had[0] - cpus, had[1] - memory_gb)
        self.strangers[n] = mask
        self._keep_off_strangers(n)

    def told_strangers(self) -> tuple[tuple[int, int, float, float], ...]:
        """By node: the GPUs, CPUs and memory that somebody else uses."""
        host = self.strangers_host
        return tuple([(n, mask, *host.get(n, (0.0, 0.0))) for n, mask in self.strangers.items()])

    def keep_off_strangers(self, placement: Placement) -> None:
        """These GPUs were given back, and nothing is drafted; somebody else may be on them, or on some
        that were given back in a draft."""
        self._given.update([n for n, _ in placement.slices])
        for n in self._given:
            if n in self.strangers:
                self._keep_off_strangers(n)
        self._given.clear()

    def _keep_off_strangers(self, n: int) -> None:
        mask, before = self.denied(n), self.occupied.get(n, 0)
        taken = mask & self.free[n]
        self._set_free(n, (self.free[n] | before & ~mask) & ~taken)
        self._note_returned(n)
        self.occupied[n] = before & mask | taken
        self.changes += 1

    def denied(self, n: int) -> int:
        """The GPUs that are not to be given to anybody anew: others use them, or they are closed."""
        return self.strangers.get(n, 0) | self.closed.get(n, 0)

    def set_tenant(self, tenant: Tenant) -> None:
        self.tenants[tenant.name] = tenant
        self.held.setdefault(tenant.name, 0.0)
        self.counts_more = True
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
            and (shape.plain or self._most_in(pool, shape) >= _enough(shape))
        ]

    def _forget_eligible(self) -> None:
        for shape in self._asked:
            shape.pools = None
        self._asked.clear()

    def _may_use(self, pool: Pool, shape: Shape, gpus: int) -> bool:
        if not shape.options:
            return pool in self.eligible(shape.sized(gpus))
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
        self,
        lane: int,
        job: Job,
        tenant: str,
        settled: tuple[str, int] | None = None,
        full: Shape | None = None,
        home: Home = (),
    ) -> tuple[Shape, str]:
        """What must be free for the job to start: what it asked for or, where that can never be, the
        first of its other ways that can (unless it has settled on one), of an elastic job the largest;
        and why none ever can."""
        usual = Shape(lane, job, tenant, settled, settled is not None, full, home)
        why = self.why_never(usual)
        if why:
            fewer = range(job.gpus - 1, job.least_gpus - 1, -1)
            for kind, gpus in usual.options or [("", gpus) for gpus in fewer if gpus]:
                other = usual.sized(gpus, kind)
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
        if largest >= _enough(shape):
            return ""
        kinds = sorted({pool.kind for pool in self.pools})
        if shape.kinds and not set(shape.kinds) & set(kinds):
            return f"it needs {shape}, and there is none of that kind; there is {', '.join(kinds)}"
        if shape.nodes > 1:
            able = largest // max(shape.each, 1)
            return f"it needs {shape}, and of all that it may use {able or 'none'} can have as much"
        if not shape.gpus:
            return f"it needs {shape}, and no node that it may use has as much"
        limit = " with the CPUs and memory it needs beside them" if not shape.bare else ""
        return f"it needs {shape}, and the largest possible placement is {largest} GPUs{limit}"

    def _most_in(self, pool: Pool, shape: Shape) -> int:
        """How many of the shape's GPUs the empty pool could carry; of one without GPUs, how many of
        its nodes."""
        most = [self._most_gpus(n, shape) for n in pool.members if n not in self.gone]
        if shape.nodes == 1:
            return max(most, default=0)
        if not shape.nodes:
            return sum(most)
        each = max(shape.each, 1)
        return sum([each for gpus in most if gpus >= each])

    def _most_gpus(self, n: int, shape: Shape) -> int:
        """How many of the shape's GPUs the empty node could carry (1 for a CPU-only job that fits)."""
        node = self.nodes[n]
        if not shape.gpus:
            nodes = max(shape.nodes, 1)
            return int(
                shape.cpus <= node.cpus * nodes and shape.memory_gb <= node.memory_gb * nodes
            )
        most = float(node.gpus)
        if shape.cpus:
            most = min(most, node.cpus * shape.gpus / shape.cpus + ROUNDING)
        if shape.memory_gb:
            most = min(most, node.memory_gb * shape.gpus / shape.memory_gb + ROUNDING)
        return int(most)

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

    def _add_host(self, n: int, cpus: float, memory_gb: float) -> None:
        """So many more CPUs and so much more memory are free on the node; below zero: fewer."""
        cpus = self.cpus[n] = self.cpus[n] + cpus
        memory_gb = self.memory_gb[n] = self.memory_gb[n] + memory_gb
        before, after = self._levels[n], levels(cpus + ROUNDING, memory_gb + ROUNDING)
        if after != before:
            self._levels[n] = after
            pool, bit = self.pool_of[n], self.bit[n]
            pool.by_cpus[before[0]] ^= bit
            pool.by_cpus[after[0]] ^= bit
            pool.by_memory[before[1]] ^= bit
            pool.by_memory[after[1]] ^= bit

    def _note_returned(self, n: int) -> None:
        if not self.watched or not self.open[n]:
            return
        pool = self.pool_of[n]
        returned = pool.returned
        returned.append(n)
        if len(returned) > 2 * _RETURNED_KEPT:
            del returned[:_RETURNED_KEPT]
            pool.forgotten += _RETURNED_KEPT


def _enough(shape: Shape) -> int:
    """What `_most_in` must be for a job of the shape to fit."""
    return max(shape.gpus, shape.nodes, 1)


def levels(cpus: float, memory_gb: float) -> tuple[int, int]:
    """Where so many CPUs and so much memory are counted. Who has as much is not below that. Less than
    none is free where somebody else takes what jobs of ours have."""
    steps = memory_gb / _GB_A_LEVEL
    return (
        (int(cpus) if cpus > 0 else 0) if cpus < _LEVELS else _LEVELS,
        (int(steps) if steps > 0 else 0) if steps < _LEVELS else _LEVELS,
    )


def _gpus_counted(shape: Shape) -> float:
    return shape.gpus * shape.share / WHOLE_GPU
