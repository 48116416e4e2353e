"""A reserved start for every waiting job, in order of submission.

Reservations are made as late as possible: a job is passed over until somebody at or behind it could
start now, for by then everything before it must be known. That changes no decision. As long as jobs
end when expected, a reservation made late is the same as one made at once, and none is ever moved.
Otherwise, or when the cluster changes, all are made anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from math import inf
from typing import Final, NamedTuple, final

from dovetail.core.model import WHOLE_GPU, JobId, Seconds, Shape
from dovetail.core.room import Pool, Room
from dovetail.core.track import Track
from dovetail.core.view import ENDS, PARKS, RUNS, WAITS, View
from dovetail.policies.backfill.free_over_time import Profile, earliest_in_all
from dovetail.policies.narrowing import Narrowed
from dovetail.policies.outlook import Outlook, pool_of
from dovetail.predict.duration import Predictor


class Reservation(NamedTuple):
    start: Seconds
    end: Seconds
    pool: int


class Due(NamedTuple):
    """A job whose time has come, and the shape to place so that it goes where it was reserved."""

    track: Track
    shape: Shape
    pool: int


@final
class Reservations:
    """The index behind conservative backfilling. Amounts are in thousandths of a GPU."""

    def __init__(self, view: View, predictor: Predictor) -> None:
        self.watches = WAITS | RUNS | ENDS | PARKS
        self._view: Final = view
        self._outlook: Final = Outlook(view, predictor)
        self._backlog: Final = self._outlook.backlog
        self._stale = True  # must all be made anew?
        self._changes = -1  # of the room, when they were made
        self._reserved_up_to = -1  # the sequence of the last job that was considered
        self._made: Final[dict[int, Reservation]] = {}  # by sequence
        self._starts: Final[list[tuple[Seconds, int]]] = []  # a heap: start, sequence
        self._due: list[int] = []  # sequences of those whose start has come
        self._pools: list[Profile] = []
        self._quotas: dict[str, Profile] = {}  # by tenant
        self._narrowed: Final = Narrowed()

    # ------------------------------------------------------------------------- kept by the state

    def waits(self, track: Track) -> None:
        if self._outlook.end_of(track) is not None or track.sequence <= self._reserved_up_to:
            self._stale = True
        self._outlook.waits(track)

    def runs(self, track: Track) -> None:
        end = self._outlook.runs(track)
        made = self._made.pop(track.sequence, None)
        if made is None or not self._as_reserved(track, made, end):
            self._stale = True

    def _as_reserved(self, track: Track, made: Reservation, end: Seconds) -> bool:
        placement = track.placement
        assert placement is not None
        return (
            made == (self._view.now, end, pool_of(self._view.room, placement).index)
            and placement.gpus == track.shape.gpus
        )

    def ends(self, track: Track) -> None:
        expected = self._outlook.end_of(track)
        if expected is not None:
            self._stale = self._stale or expected != self._view.now
        elif self._made.pop(track.sequence, None) is not None:
            self._stale = True
        self._outlook.leaves(track)

    def parks(self, track: Track) -> None:
        self.ends(track)  # for what is kept here it is as good as gone

    def settle(self) -> None:
        """What was worked out holds for the state as it is, whatever was tried."""

    # ---------------------------------------------------------------------------- asked by policies

    def due(self) -> list[Due]:
        """The jobs to start now, in order of submission."""
        self._refresh()
        while (sequence := self._first_that_could_start()) >= 0:
            self._reserve_up_to(sequence)
        starts, made, now = self._starts, self._made, self._view.now
        while starts and starts[0][0] <= now:
            self._due.append(heappop(starts)[1])
        self._due = sorted([sequence for sequence in self._due if sequence in made])
        return [self._due_now(sequence) for sequence in self._due]

    def is_stuck(self) -> None:
        """There was no place for one that is due: think again when something has happened."""
        self._stale = True

    def next_end(self, started: Sequence[Track]) -> Seconds:
        """When the next job should end, once these are started."""
        ends, now, left_s = self._outlook.ends, self._view.now, self._backlog.left_s
        at = ends[0][0] if ends else inf
        for track in started:
            at = min(at, now + left_s[track.sequence])
        return at

    def all_starts(self) -> dict[JobId, Seconds]:
        """The reserved start of every waiting job; infinity if the open nodes are too few."""
        self._refresh()
        self._reserve_up_to(None)
        return {
            track.job.id: self._made[sequence].start if sequence in self._made else inf
            for sequence, track in self._backlog.waiting.items()
        }

    # -------------------------------------------------------------------------------- made anew

    def _refresh(self) -> None:
        room, now = self._view.room, self._view.now
        expired = self._outlook.extend()
        if self._stale or expired or self._changes != room.changes:
            self._make_anew(room, now)
            return
        for profile in self._pools:
            profile.advance(now)
        for profile in self._quotas.values():
            profile.advance(now)

    def _make_anew(self, room: Room, now: Seconds) -> None:
        self._stale = False
        self._changes = room.changes
        self._reserved_up_to = -1
        self._made.clear()
        self._starts.clear()
        self._due.clear()
        self._pools = [
            Profile(now, free_in(room, pool), self._releases(pool)) for pool in room.pools
        ]
        self._quotas = {
            tenant.name: Profile(
                now,
                round((tenant.gpu_quota - room.held[tenant.name]) * WHOLE_GPU),
                self._quota_releases(tenant.name),
            )
            for tenant in room.tenants.values()
            if tenant.gpu_quota < inf
        }

    def _releases(self, pool: Pool) -> Iterator[tuple[Seconds, int]]:
        """What the running jobs will give back to the pool; not what lies on closed nodes."""
        room = self._view.room
        for end, _, track in self._outlook.ends:
            placement = track.placement
            assert placement is not None
            if pool_of(room, placement) is pool:
                gpus = sum([mask.bit_count() for n, mask in placement.slices if room.open[n]])
                yield end, gpus * placement.share

    def _quota_releases(self, tenant: str) -> Iterator[tuple[Seconds, int]]:
        for end, _, track in self._outlook.ends:
            if track.shape.tenant == tenant:
                yield end, round(track.holds * WHOLE_GPU)

    # --------------------------------------------------------------------------------- reserving

    def _first_that_could_start(self) -> int:
        """The first job without a reservation that, by the profile, could start now; -1: none."""
        first, now, room = -1, self._view.now, self._view.room
        for lane in self._backlog.lanes.values():
            shape = lane.shape
            amount = shape.gpus * shape.share
            pools = [self._pools[pool.index] for pool in room.eligible(shape)]
            until = max([pool.lasts(amount) for pool in pools], default=-inf)
            if until > now:
                sequence = lane.first(self._reserved_up_to, now, until)
                if sequence >= 0 and (first < 0 or sequence < first):
                    first = sequence
        return first

    def _reserve_up_to(self, sequence: int | None) -> None:
        """Reserve for all up to this one (None: for all), or until one of them gets a place now."""
        now = self._view.now
        for track in self._backlog.after(self._reserved_up_to):
            self._reserved_up_to = track.sequence
            start = self._reserve(track)
            if sequence is not None and (start <= now or track.sequence >= sequence):
                return

    def _reserve(self, track: Track) -> Seconds:
        shape, now = track.shape, self._view.now
        amount, length_s = shape.gpus * shape.share, self._backlog.left_s[track.sequence]
        quota = self._quotas.get(shape.tenant)
        best, best_pool = inf, -1
        for pool in self._view.room.eligible(shape):
            profile = self._pools[pool.index]
            profiles = [profile] if quota is None else [profile, quota]
            start = earliest_in_all(profiles, amount, length_s, now)
            if start < best:
                best, best_pool = start, pool.index
        if best_pool >= 0:
            made = Reservation(best, best + length_s, best_pool)
            self._pools[best_pool].take(best, made.end, amount)
            if quota is not None:
                quota.take(best, made.end, amount)
            self._made[track.sequence] = made
            heappush(self._starts, (best, track.sequence))
        return best

    def _due_now(self, sequence: int) -> Due:
        track, pool = self._backlog.waiting[sequence], self._made[sequence].pool
        room = self._view.room
        return Due(track, self._narrowed.to(room, track, room.pools[pool]), pool)


def free_in(room: Room, pool: Pool) -> int:
    """What is free in the pool, with the rests of shared GPUs."""
    rests = [
        left for (n, _), left in room.shares.items() if room.pool_of[n] is pool and room.open[n]
    ]
    return pool.free * WHOLE_GPU + sum(rests)


@final
class ReservationsBy:
    """The spec of the index."""

    def __init__(self, predictor: Predictor) -> None:
        self._predictor: Final = predictor

    def build(self, view: View) -> Reservations:
        return Reservations(view, self._predictor)
