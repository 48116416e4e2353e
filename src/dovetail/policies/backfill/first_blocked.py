"""When the first job that does not fit could start, and what would be left over then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import merge
from itertools import groupby
from math import inf
from typing import Final, final

from dovetail.core.model import WHOLE_GPU, Placement, Seconds
from dovetail.core.plan import Place
from dovetail.core.room import Room
from dovetail.core.shape import Shape
from dovetail.core.track import Track
from dovetail.core.view import ENDS, PARKS, RUNS, WAITS, View
from dovetail.policies.outlook import EndRow, Outlook
from dovetail.predict.duration import Predictor


@dataclass(frozen=True, slots=True)
class Shadow:
    """The head could start `at` that time; so many GPUs would still be free beside it."""

    at: Seconds
    extra: tuple[int, ...]  # by pool
    tenant: str = ""  # the head's
    quota_left: float = inf
    kept: Placement | None = None  # where it would start, if it must be on nodes of its own


@final
class Spare:
    """What jobs that outlast the shadow time may still take without being in the head's way."""

    def __init__(self, shadow: Shadow) -> None:
        self.at: Final = shadow.at
        self._extra: Final = list(shadow.extra)
        self._tenant: Final = shadow.tenant
        self._quota_left = shadow.quota_left
        kept = () if shadow.kept is None else shadow.kept.slices
        self._kept: Final = {piece.node: piece.mask for piece in kept}

    def most(self) -> int:
        return max(self._extra, default=0)

    def has(self, pool: int, shape: Shape, placement: Placement) -> bool:
        if shape.tenant == self._tenant and _counted(shape) > self._quota_left:
            return False
        return shape.gpus <= self._extra[pool] and self._leaves_kept(shape, placement)

    def _leaves_kept(self, shape: Shape, placement: Placement) -> bool:
        """Does it leave the head's own nodes alone? Their CPUs and memory too, if it needs any."""
        for n, mask in placement.slices if self._kept else ():
            if n in self._kept and (self._kept[n] & mask or not shape.bare):
                return False
        return True

    def take(self, pool: int, shape: Shape) -> None:
        self._extra[pool] -= shape.gpus
        if shape.tenant == self._tenant:
            self._quota_left -= _counted(shape)


def _counted(shape: Shape) -> float:
    return shape.gpus * shape.share / WHOLE_GPU


@final
class Shadows:
    """The index behind EASY: what is expected of the jobs, and the last shadow while it holds."""

    def __init__(self, view: View, predictor: Predictor, place: Place) -> None:
        self.watches = WAITS | RUNS | ENDS | PARKS
        self._view: Final = view
        self._place: Final = place
        self._outlook: Final = Outlook(view, predictor)
        self.backlog: Final = self._outlook.backlog
        self._known: tuple[int, int, Shadow] | None = None  # whose, at which change of the room

    def waits(self, track: Track) -> None:
        if self._outlook.end_of(track) is not None:
            self._known = None
        self._outlook.waits(track)

    def runs(self, track: Track) -> None:
        self._known = None
        self._outlook.runs(track)

    def ends(self, track: Track) -> None:
        if self._outlook.end_of(track) is not None:
            self._known = None
        self._outlook.leaves(track)

    def parks(self, track: Track) -> None:
        self.ends(track)  # for what is kept here it is as good as gone

    def of(self, head: Track, started: Mapping[int, Placement]) -> Shadow:
        """The shadow of the head, once these jobs are started (by sequence)."""
        if self._outlook.extend():
            self._known = None
        changes = self._view.room.changes
        if started:
            return self._cast(head.shape, started)
        if self._known is None or self._known[:2] != (head.sequence, changes):
            self._known = (head.sequence, changes, self._cast(head.shape, started))
        return self._known[2]

    def _cast(self, shape: Shape, started: Mapping[int, Placement]) -> Shadow:
        """Give back GPUs in order of expected end, in draft, until there is a place for the shape."""
        room = self._view.room
        mark = room.mark()
        shadow = Shadow(inf, (0,) * len(room.pools))  # nothing that runs is in its way
        found = first_place(room, self._place, shape, self._all_ends(started), started)
        if found is not None:
            at, placement = found
            room.draft_take(placement, shape)
            shadow = _left_over(room, shape, at, placement if shape.nodes else None)
        room.rollback_to(mark)
        return shadow

    def _all_ends(self, started: Mapping[int, Placement]) -> Iterable[EndRow]:
        if not started:
            return self._outlook.ends
        now, backlog = self._view.now, self.backlog
        rows = [(now + backlog.left_s[s], s, backlog.waiting[s]) for s in started]
        return merge(self._outlook.ends, sorted(rows))


def first_place(
    room: Room,
    place: Place,
    shape: Shape,
    ends: Iterable[EndRow],
    started: Mapping[int, Placement],
) -> tuple[Seconds, Placement] | None:
    """When and where there will be room for the shape. What ends until then is given back in draft."""
    for at, group in groupby(ends, key=_end):
        for _, sequence, track in group:
            room.draft_give(track.placement or started[sequence], track.shape)
        found = place(room, shape)
        if found is not None:
            return at, found
    return None


def _left_over(room: Room, shape: Shape, at: Seconds, kept: Placement | None) -> Shadow:
    extra = tuple([pool.free for pool in room.pools])
    tenant = room.tenants.get(shape.tenant)
    if tenant is None:
        return Shadow(at, extra, kept=kept)
    return Shadow(at, extra, tenant.name, tenant.gpu_quota - room.held[tenant.name], kept)


def _end(row: EndRow) -> Seconds:
    return row[0]


@final
class ShadowsBy:
    """The spec of the index."""

    def __init__(self, predictor: Predictor, place: Place) -> None:
        self._predictor: Final = predictor
        self._place: Final = place

    def build(self, view: View) -> Shadows:
        return Shadows(view, self._predictor, self._place)
