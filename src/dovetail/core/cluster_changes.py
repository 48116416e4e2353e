"""What happens to nodes, tenants and the cluster as a whole."""

from __future__ import annotations

from dovetail.core.entries import (
    GpusClosed,
    GpusOpened,
    NodeDown,
    NodeDraining,
    NodeJoined,
    NodeLeft,
    NodeUp,
    NoMoreNodes,
    Occupied,
    TenantSet,
)
from dovetail.core.errors import IllegalEntry
from dovetail.core.lifecycle import Lifecycle
from dovetail.core.model import JobId, Node
from dovetail.core.shape import Shape
from dovetail.core.track import Track
from dovetail.core.view import ShapeKey


class ClusterChanges(Lifecycle):
    """The steps of a job's life, and what its nodes go through."""

    __slots__ = ()

    def _change_node(
        self, entry: Occupied | NodeDown | NodeUp | NodeDraining | GpusClosed | GpusOpened
    ) -> None:
        room, n = self.room, self._node(entry.node_id)
        if isinstance(entry, Occupied):
            room.set_strangers(n, entry.mask, entry.cpus or 0.0, entry.memory_gb or 0.0)
            return
        if isinstance(entry, GpusClosed | GpusOpened):
            self._close_or_open(n, entry)
            return
        room.set_open(n, isinstance(entry, NodeUp))
        if not isinstance(entry, NodeDraining):
            room.set_up(n, isinstance(entry, NodeUp))
        self.capacity.append((self.now, room.gpus_up))

    def _close_or_open(self, n: int, entry: GpusClosed | GpusOpened) -> None:
        node = self.room.nodes[n]
        if not entry.mask or entry.mask >> node.gpus:
            raise IllegalEntry(
                f"node {node.id!r} has {node.gpus} GPUs, and not these: {entry.mask:b}"
            )
        if isinstance(entry, GpusClosed):
            self.room.close_gpus(n, entry.mask, entry.reason, entry.vacate)
        else:
            self.room.open_gpus(n, entry.mask)

    def _change_cluster(self, entry: NodeJoined | NodeLeft | NoMoreNodes | TenantSet) -> None:
        room = self.room
        tenants_mattered, had_quotas = room.tenants_matter, set(room.held)
        if isinstance(entry, NodeJoined):
            self._join(entry.node)
        elif isinstance(entry, TenantSet):
            room.set_tenant(entry.tenant)
        elif isinstance(entry, NodeLeft):
            room.remove(self._node(entry.node_id))
        else:
            self.complete = True
        self.capacity.append((self.now, room.gpus_up))
        if room.tenants_matter and not tenants_mattered:
            self._give_shapes_their_tenants()
        for tenant in room.held.keys() - had_quotas:
            self._count_held_by(tenant)
        self._judge_shapes_again()

    def _join(self, node: Node) -> None:
        """One of a name that has left may join: it has a number of its own."""
        known = self.room.index.get(node.id)
        if known is not None and known not in self.room.gone:
            raise IllegalEntry(f"node {node.id!r} joins twice; node ids must differ")
        n = self.room.add(node)
        if known in self.room.closed:
            self.room.close_as_before(n, known)
        if known is not None:
            self._go_along(known, n)
        self.complete = False

    def _node(self, node_id: str) -> int:
        n = self.room.index.get(node_id)
        if n is None or n in self.room.gone:
            raise IllegalEntry(f"there is no node {node_id!r}")
        return n

    def _give_shapes_their_tenants(self) -> None:
        """From now on jobs of two tenants are no longer interchangeable: shape them all anew."""
        self._shapes.clear()
        self._simple_shapes.clear()
        for track in self._tracks.values():
            self._shape_anew(track)

    def _count_held_by(self, tenant: str) -> None:
        """Its jobs may have GPUs before it has a quota."""
        running = [track for track in self._running.values() if track.shape.tenant == tenant]
        self.room.held[tenant] = sum([track.holds for track in running], 0.0)

    def _judge_shapes_again(self) -> None:
        """What fits the cluster at all has changed: judge the known shapes and the waiting jobs."""
        self._simple_shapes.clear()
        if not self._shapes:
            return
        reshaped = [
            key for key, (shape, _) in self._shapes.items() if self._is_reshaped(key, shape)
        ]
        if reshaped:
            for key in reshaped:
                del self._shapes[key]
            for track in self._tracks.values():
                if track.shape.options or track.job.elastic:
                    self._shape_anew(track)
        never = {shape.lane: why for shape, why in self._shapes.values() if why}
        for job_id, track in self._tracks.items():
            if track.placement is None:
                self._judge(job_id, track, never.get(track.shape.lane, ""))

    def _is_reshaped(self, key: ShapeKey, shape: Shape) -> bool:
        """Judge the shape again. Is there another way to run its jobs now than before?"""
        settled = shape.options[0] if shape.settled else None
        full = None if shape.full is shape else shape.full
        what = (shape.lane, shape.job, shape.tenant, settled, full, shape.home)
        found, why = self.room.shaped(*what)
        self._shapes[key] = (shape, why)
        return (found.gpus, found.kinds) != (shape.gpus, shape.kinds)

    def _judge(self, job_id: JobId, track: Track, why: str) -> None:
        """A job that was let in waits for a node that can run it, unless there will never be one."""
        if why and (self.complete or job_id in self.unplaceable):
            self.unplaceable[job_id] = why
        elif job_id in self.unplaceable and not track.awaits:  # else it comes after one that failed
            del self.unplaceable[job_id]
        elif why != track.stranded:
            self._set_stranded(track, why)
