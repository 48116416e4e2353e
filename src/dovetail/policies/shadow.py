"""When the first job that does not fit could start, and what would be left over then."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from math import inf
from typing import Final, TypeAlias, final

from dovetail.core.model import WHOLE_GPU, Placement, Seconds, Shape
from dovetail.core.plan import Place
from dovetail.core.room import Room
from dovetail.core.state import ENDS, RUNS, WAITS, View
from dovetail.core.track import Track
from dovetail.policies.outlook import Outlook
from dovetail.predict.duration import Predictor

Release: TypeAlias = tuple[Seconds, int, Placement, Shape]  # expected end, sequence


@dataclass(frozen=True, slots=True)
class Shadow:
    """The head could start `at` that time; so many GPUs would still be free beside it."""

    at: Seconds
    extra: tuple[int, ...] = ()  # by pool
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
        self.watches = WAITS | RUNS | ENDS
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

    def settle(self) -> None:
        """Nothing is ever tried out."""

    def of(self, head: Track, started: list[tuple[Track, Placement]]) -> Shadow:
        """The shadow of the head, once these jobs are started."""
        if self._outlook.extend():
            self._known = None
        changes = self._view.room.changes
        if not started and self._known is not None and self._known[:2] == (head.sequence, changes):
            return self._known[2]
        shadow = self._cast(head.shape, self._releases(started))
        if not started:
            self._known = (head.sequence, changes, shadow)
        return shadow

    def _releases(self, started: list[tuple[Track, Placement]]) -> list[Release]:
        """The GPUs that will be given back, in order of expected end."""
        now, left_s = self._view.now, self.backlog.left_s
        releases = []
        for end, sequence, track in self._outlook.ends:
            assert track.placement is not None
            releases.append((end, sequence, track.placement, track.shape))
        for track, placement in started:
            end = now + left_s[track.sequence]
            releases.append((end, track.sequence, placement, track.shape))
        if started:
            releases.sort(key=_end_and_sequence)
        return releases

    def _cast(self, shape: Shape, releases: list[Release]) -> Shadow:
        """Give back GPUs, tentatively, until there is a place for the shape."""
        room = self._view.room
        mark = room.mark()
        shadow = Shadow(inf)  # never by itself: nothing that runs is in its way
        for at, group in groupby(releases, key=_end):
            for _, _, placement, released in group:
                room.draft_give(placement, released)
            found = self._place(room, shape)
            if found is not None:
                room.draft_take(found, shape)
                shadow = _left_over(room, shape, at)
                break
        room.rollback_to(mark)
        return shadow


def _left_over(room: Room, shape: Shape, at: Seconds) -> Shadow:
    extra = tuple([pool.free for pool in room.pools])
    tenant = room.tenants.get(shape.tenant)
    if tenant is None:
        return Shadow(at, extra)
    return Shadow(at, extra, tenant.name, tenant.gpu_quota - room.held[tenant.name])


def _end(release: Release) -> Seconds:
    return release[0]


def _end_and_sequence(release: Release) -> tuple[Seconds, int]:
    return release[:2]


@final
class ShadowsBy:
    """The spec of the index."""

    def __init__(self, predictor: Predictor, place: Place) -> None:
        self._predictor: Final = predictor
        self._place: Final = place

    def build(self, view: View) -> Shadows:
        return Shadows(view, self._predictor, self._place)
