"""The book of what is free: whole GPUs as bit masks, shares of GPUs, CPUs, memory and quotas.

Nodes that can stand in for each other form a pool, and a pool keeps, for every number k, one integer
whose bits are the nodes with exactly k free GPUs. Finding a place is then a lowest-set-bit.

A policy tries things out on the book itself and the book is put back afterwards (`rollback`): that is
cheaper than any copy, and the state does it by itself before it records anything.
"""

from __future__ import annotations

from typing import final

from dovetail.core.closings import Closings
from dovetail.core.errors import IllegalEntry
from dovetail.core.inventory import ROUNDING, Pool, levels
from dovetail.core.model import WHOLE_GPU, Placement, Slice
from dovetail.core.shape import Shape
from dovetail.core.track import KeptHost


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
        # Then, by node: the most of its GPUs that fit there, where any do, all together too few;
        # None: nobody has counted.
        self.could: dict[int, int] | None = None


@final
class Room(Closings):
    """Every node's free resources. Changed by the state alone, or in draft by a plan."""

    __slots__ = ("_confirmed", "_draft", "drafted", "share_changes", "unsettled")

    def __init__(self) -> None:
        super().__init__()
        # Taken or given, what, for whom, and whether it may be recorded as it is.
        self._draft: list[tuple[bool, Placement, Shape, bool]] = []
        self._confirmed = 0  # how many of the drafts have become real
        self.drafted = False
        self.share_changes = 0  # how often a part of a GPU was taken or given
        self.unsettled = False  # has anybody tried out something that is to be put back?

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
            if self.free[n] & mask != mask and self._free_or_put_by(n) & mask != mask:
                return False
        return True

    def _left(self, n: int, mask: int) -> int:
        """The least that is left of any of these GPUs, in thousandths."""
        least = WHOLE_GPU
        while mask:
            low = mask & -mask
            mask ^= low
            whole = WHOLE_GPU if self._free_or_put_by(n) & low else 0
            gpu = (n, low.bit_length() - 1)
            least = min(least, self.withheld.get(gpu, 0) or self.shares.get(gpu, whole))
        return least

    def take(self, placement: Placement, shape: Shape) -> None:
        self.found = None
        more = self.counts_more
        if more and self.closed:
            self._fetch_all(placement)
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
        if more or not shape.plain:
            self._count_more(placement, shape, 1.0)

    def give(self, placement: Placement, shape: Shape) -> None:
        self.found = None
        more = self.counts_more
        if more and self.closed:
            self._fetch_all(placement)
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
        if more or not shape.plain:
            self._count_more(placement, shape, -1.0)
            if self.watched:
                for n, _ in placement.slices:
                    self._note_returned(n)

    def _count_more(self, placement: Placement, shape: Shape, sign: float) -> None:
        """What is taken (1.0) or given back (-1.0) beside the GPUs: CPUs, memory, part of a quota."""
        if not shape.plain:
            self._charge(placement, shape.gpus, shape.cpus * -sign, shape.memory_gb * -sign)
        if self.held:
            self._charge_quota(placement, shape, sign)
        if self.closed:
            self._put_all_by(placement)

    def search(self, pool: Pool, shape: Shape) -> PlaceSearch:
        """What is known of the pool's places for the shape, brought up to date."""
        searches: dict[int, PlaceSearch] | None = shape.searches
        if searches is None:
            searches = shape.searches = {}
            self.watched = self.counts_more = True
        search = searches.get(pool.index)
        upto = pool.forgotten + len(pool.returned)
        if search is None or search.upto < pool.forgotten:
            search = searches[pool.index] = PlaceSearch(upto)
        elif search.upto < upto:
            others, returned = self._returned_since(pool, search.upto)
            search.upto = upto
            search.lacking &= others
            search.barren &= others
            search.failed = search.failed and not self._may_fit(search, shape, returned)
        return search

    def _returned_since(self, pool: Pool, since: int) -> tuple[int, list[tuple[float, int]]]:
        """The nodes on which no more is free than then; of the others those that have a free GPU, with
        their CPUs, the most first. Shapes that were last searched at the same time ask for the same."""
        upto = pool.forgotten + len(pool.returned)
        if pool.counted_upto != upto:
            pool.counted_upto = upto
            pool.counted.clear()
        found = pool.counted.get(since)
        if found is None:
            nodes, given = 0, set(pool.returned[since - pool.forgotten :])
            for n in given:
                nodes |= self.bit[n]
            able = sorted([(self.cpus[n], n) for n in given if self.count[n]], reverse=True)
            found = pool.counted[since] = (~nodes, able)
        return found

    def _may_fit(
        self, search: PlaceSearch, shape: Shape, returned: list[tuple[float, int]]
    ) -> bool:
        """Now that more is free on these nodes, may there be a place? Elsewhere less may be free than
        when it was counted, never more."""
        gpus, could = shape.gpus, search.could
        if could is None:
            return True
        cpus = shape.cpus / gpus - ROUNDING
        for had, n in returned:
            if had < cpus:
                break
            most = self.most_with_host(n, shape, min(gpus, self.count[n]))
            if most:
                could[n] = most
        return sum(could.values()) >= gpus

    def with_host(self, pool: Pool, cpus: float, memory_gb: float) -> int:
        """The nodes that may have as many free CPUs and as much memory; the others have not."""
        least_cpus, least_memory = levels(cpus, memory_gb)
        with_cpus = with_memory = 0
        for nodes in pool.by_cpus[least_cpus:]:
            with_cpus |= nodes
        for nodes in pool.by_memory[least_memory:]:
            with_memory |= nodes
        return with_cpus & with_memory

    def able(self, pool: Pool, shape: Shape) -> list[int]:
        """The nodes that may have room for some of the shape's GPUs; the others have none."""
        search, able, nodes = self.search(pool, shape), list[int](), 0
        if search.failed and search.could is not None:
            return list(search.could)
        for some in pool.by_count[1:]:
            nodes |= some
        nodes &= self.with_host(pool, shape.cpus / shape.gpus, shape.memory_gb / shape.gpus)
        nodes &= ~search.barren
        while nodes:
            low = nodes & -nodes
            nodes ^= low
            able.append(low.bit_length() - 1)
        return able

    def _charge_quota(self, placement: Placement, shape: Shape, sign: float) -> None:
        if shape.tenant in self.held:
            self.held[shape.tenant] += sign * placement.holds

    def _take_share(self, n: int, mask: int, share: int) -> None:
        self.share_changes += 1
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
        self.share_changes += 1
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

    def charge_kept(self, keep: KeptHost, sign: float) -> None:
        """What a job keeps whether it runs or not: -1.0 from now on, 1.0 no longer."""
        placement = keep.placement
        self.found = None
        self._charge(placement, placement.gpus, keep.cpus * sign, keep.memory_gb * sign)
        if self.watched and sign > 0:
            for n, _ in placement.slices:
                self._note_returned(n)

    def _charge(self, placement: Placement, gpus: int, cpus: float, memory_gb: float) -> None:
        for n, mask in placement.slices:
            part = mask.bit_count() / gpus if gpus else 1.0 / len(placement.slices)
            self._add_host(n, cpus * part, memory_gb * part)

    def check(self, placement: Placement, shape: Shape, before: Placement | None = None) -> None:
        """Raise if the placement cannot be taken as it stands. Who is on a closed node may stay, on
        the GPUs it has."""
        at_home = {} if before is None else dict(before.slices)
        used = [piece.node for piece in placement.slices]
        if not used or len(set(used)) < len(used):
            raise IllegalEntry(f"it needs {shape}, and {placement} names no node, or one twice")
        if shape.nodes or not shape.gpus:
            _check_nodes(placement, shape)
        for n, mask in placement.slices:
            if not 0 <= n < len(self.nodes):
                raise IllegalEntry(f"there is no node number {n}")
            if mask >> self.nodes[n].gpus:
                raise IllegalEntry(f"node {self.nodes[n].id!r} has only {self.nodes[n].gpus} GPUs")
            self.check_open(n, mask & ~at_home.get(n, 0))
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

    def draft_move(self, before: Placement, after: Placement, shape: Shape) -> None:
        """Give one placement back and take another, for the same job."""
        mark = self.mark()
        self.draft_give(before, shape)
        try:
            self.check(after, shape, before)
        except IllegalEntry:
            self.rollback_to(mark)
            raise
        self.take(after, shape)
        self._draft.append((True, after, shape, True))

    def draft_give(self, placement: Placement, shape: Shape) -> None:
        self.give(placement, shape)
        self._draft.append((False, placement, shape, True))
        self.drafted = self.unsettled = True

    def confirm(self, taken: bool, placement: Placement, shape: Shape) -> bool:
        """Make the next draft real if it is this one. If it is another, or one that is to be checked
        first, all drafts are undone.

        Decisions are usually recorded just as they were drafted: then nothing is done twice.
        """
        draft, confirmed = self._draft, self._confirmed
        if not draft:
            return False
        was_taken, where, whose, trusted = draft[confirmed]
        if where is not placement or was_taken is not taken or whose is not shape or not trusted:
            self.rollback()
            return False
        if self.strangers and not taken:
            self._given.update([n for n, _ in placement.slices])
        confirmed += 1
        if confirmed == len(draft):
            draft.clear()
            confirmed = 0
            self.drafted = False
        self._confirmed = confirmed
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


def _check_nodes(placement: Placement, shape: Shape) -> None:
    """Is the placement on as many nodes as the job is to have, and the same on each?"""
    parts = [mask.bit_count() for _, mask in placement.slices]
    if len(parts) != max(shape.nodes, 1):
        raise IllegalEntry(f"it needs {shape}, and gets {len(parts)} of the nodes")
    if min(parts) != max(parts):
        raise IllegalEntry(
            f"it needs {shape}, and gets {' and '.join(map(str, parts))} on its nodes"
        )


def is_enough(cpus: float, memory_gb: float, shape: Shape, gpus: int) -> bool:
    """Is that enough for so many of the shape's GPUs?"""
    part = gpus / shape.gpus if shape.gpus else 1.0 / max(shape.nodes, 1)
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
