"""When the first job that does not fit could start, and what would be left over then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import merge
from itertools import groupby
from math import inf
from typing import Final, final

from dovetail.core.model import WHOLE_GPU, Placement, Seconds, Shape
from dovetail.core.plan import Place
from dovetail.core.room import Room
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


@final
class Spare:
    """What jobs that outlast the shadow time may still take without being in the head's way."""

    def __init__(self, shadow: Shadow) -> None:
        self.at: Final = shadow.at
        self._extra: Final = list(shadow.extra)
        self._tenant: Final = shadow.tenant
        self._quota_left = shadow.quota_left

    def most(self) -> int:
        return max(self._extra, default=0)

    def has(self, pool: int, shape: Shape) -> bool:
        if shape.tenant == self._tenant and _counted(shape) > self._quota_left:
            return False
        return shape.gpus <= self._extra[pool]

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

    def settle(self) -> None:
        """Nothing is ever tried out."""

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
        for at, group in groupby(self._all_ends(started), key=_end):
            for _, sequence, track in group:
                placement = track.placement or started[sequence]
                room.draft_give(placement, track.shape)
            found = self._place(room, shape)
            if found is not None:
                room.draft_take(found, shape)
                shadow = _left_over(room, shape, at)
                break
        room.rollback_to(mark)
        return shadow

    def _all_ends(self, started: Mapping[int, Placement]) -> Iterable[EndRow]:
        if not started:
            return self._outlook.ends
        now, backlog = self._view.now, self.backlog
        rows = [(now + backlog.left_s[s], s, backlog.waiting[s]) for s in started]
        return merge(self._outlook.ends, sorted(rows))


def _left_over(room: Room, shape: Shape, at: Seconds) -> Shadow:
    extra = tuple([pool.free for pool in room.pools])
    tenant = room.tenants.get(shape.tenant)
    if tenant is None:
        return Shadow(at, extra)
    return Shadow(at, extra, tenant.name, tenant.gpu_quota - room.held[tenant.name])


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
