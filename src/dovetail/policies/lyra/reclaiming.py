"""Nodes are taken back for replicas where fewest training jobs have to stop for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dovetail.core.entries import Action
from dovetail.core.model import WHOLE_GPU, Placement, Slice
from dovetail.core.plan import Place, Plan
from dovetail.core.shape import Shape
from dovetail.core.track import RUNNING, Track
from dovetail.core.view import View
from dovetail.policies.losses import loss_gpu_s
from dovetail.policies.services_first import make_room


class NodeBack(NamedTuple):
    """What it takes to free enough of a node; the smaller goes first."""

    spans: float  # of each job that stops, the part of its nodes that is freed by it: summed up
    stops: int
    lost_gpu_s: float
    node: int
    shrunk: tuple[tuple[Track, Placement], ...] = ()
    stopped: tuple[Track, ...] = ()


@dataclass(slots=True)
class Reclaiming:
    """Drafts starts of replicas, and what gives way to them."""

    view: View
    place: Place
    training: Sequence[Track]  # those that run and can give way
    plan: Plan = field(init=False)
    _gone: set[int] = field(default_factory=set)  # that have given way, or become smaller

    def __post_init__(self) -> None:
        self.plan = Plan(self.view, self.place)

    def start(self, replica: Track, may_reclaim: bool) -> None:
        """On what is free; else, if it is time for that, on what is taken back."""
        if self.plan.start(replica) or not may_reclaim:
            return
        if not self._take_node(replica):
            left = sorted(self._left(), key=lambda track: (self._loss(track), -track.sequence))
            make_room(self.plan, replica, left, self._gone)

    @property
    def actions(self) -> list[Action]:
        return self.plan.actions

    def _left(self) -> Iterator[Track]:
        return (track for track in self.training if track.sequence not in self._gone)

    def _take_node(self, replica: Track) -> bool:
        """Of the nodes that could be made free for it, the one that stops fewest."""
        shape = replica.shape
        if shape.share != WHOLE_GPU or not shape.gpus or shape.nodes > 1:
            return False
        for back in sorted(self._ways_back(shape), key=lambda back: back[:4]):
            found = self._tried(back, shape)
            if found is not None:
                self._take(back)
                self.plan.start_at(replica, found)
                return True
        return False

    def _ways_back(self, shape: Shape) -> Iterator[NodeBack]:
        room, on = self.plan.room, dict[int, list[Track]]()
        for track in self._left():
            placement = track.placement
            assert placement is not None
            for n, _, _ in placement.uses if placement.whole else ():
                if room.open[n]:
                    on.setdefault(n, []).append(track)
        pools = room.eligible(shape)
        for n, tracks in on.items():
            needed = shape.gpus - room.count[n]
            if room.pool_of[n] in pools and sum(_gpus_on(own, n) for own in tracks) >= needed:
                yield self._way_back(n, tracks, needed)

    def _way_back(self, n: int, tracks: Sequence[Track], needed: int) -> NodeBack:
        """Elastic jobs have fewer GPUs first, which stops nobody; then jobs stop, those first that are
        spread over most nodes: they take the least part with them."""
        shrunk: list[tuple[Track, Placement]] = []
        for track in tracks:
            mask = _spare_on(track, n, needed)
            if mask:
                needed -= mask.bit_count()
                shrunk.append((track, _without(track, n, mask)))
        smaller = {track.sequence for track, _ in shrunk}
        stopped = self._fewest(n, [own for own in tracks if own.sequence not in smaller], needed)
        if stopped is None:
            stopped, shrunk = list(tracks), []
        return NodeBack(
            sum(_part(track) for track in stopped),
            len(stopped),
            sum(self._loss(track) for track in [*stopped, *[track for track, _ in shrunk]]),
            n,
            tuple(shrunk),
            tuple(stopped),
        )

    def _fewest(self, n: int, tracks: Sequence[Track], needed: int) -> list[Track] | None:
        """Those that stop for so many GPUs there; None: they have too few."""
        stopped: list[Track] = []
        for track in sorted(tracks, key=lambda own: (_part(own), self._loss(own), -own.sequence)):
            if needed > 0:
                needed -= _gpus_on(track, n)
                stopped.append(track)
        for track in reversed(stopped):  # who turns out not to be needed
            if _gpus_on(track, n) <= -needed:
                needed += _gpus_on(track, n)
                stopped = [other for other in stopped if other is not track]
        return stopped if needed <= 0 else None

    def _loss(self, track: Track) -> float:
        return loss_gpu_s(track, self.view.now)

    def _tried(self, back: NodeBack, shape: Shape) -> Placement | None:
        """Where the replica would be; its CPUs and memory have to be there too."""
        room = self.plan.room
        mark = room.mark()
        for track, smaller in back.shrunk:
            assert track.placement is not None
            room.draft_move(track.placement, smaller, track.shape)
        for track in back.stopped:
            assert track.placement is not None
            room.draft_give(track.placement, track.shape)
        found = self.place(room, shape)
        room.rollback_to(mark)
        return found

    def _take(self, back: NodeBack) -> None:
        for track, smaller in back.shrunk:
            self.plan.resize(track, smaller)
        for track in back.stopped:
            self.plan.stop(track)
        self._gone |= {track.sequence for track, _ in back.shrunk}
        self._gone |= {track.sequence for track in back.stopped}


def _part(track: Track) -> float:
    """Of its nodes, that one of them is."""
    assert track.placement is not None
    return 1.0 / len(track.placement.slices)


def _gpus_on(track: Track, n: int) -> int:
    assert track.placement is not None
    return dict(track.placement.slices)[n].bit_count()


def _spare_on(track: Track, n: int, needed: int) -> int:
    """GPUs there that it can do without and go on."""
    job, placement = track.job, track.placement
    assert placement is not None
    if needed <= 0 or job.options or job.nodes or track.phase is not RUNNING:
        return 0
    there = dict(placement.slices)[n]
    return _lowest(there, min(placement.gpus - job.least_gpus, needed, there.bit_count()))


def _without(track: Track, n: int, mask: int) -> Placement:
    placement = track.placement
    assert placement is not None
    slices = [Slice(m, own & ~mask if m == n else own) for m, own in placement.slices]
    return Placement(tuple([piece for piece in slices if piece.mask]), limit=placement.limit)


def _lowest(mask: int, count: int) -> int:
    found = 0
    for _ in range(count):
        low = mask & -mask
        found |= low
        mask ^= low
    return found
