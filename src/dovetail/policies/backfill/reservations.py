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
from dovetail.policies.backfill.free_over_time import FreeOverTime, earliest_in_all
from dovetail.policies.narrowing import Narrowed
from dovetail.policies.outlook import Outlook, pool_of
from dovetail.predict.duration import Predictor


class Reservation(NamedTuple):
    start: Seconds
    end: Seconds
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
        self._pools: list[FreeOverTime] = []
        self._quotas: dict[str, FreeOverTime] = {}  # by tenant
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

    def due(self) -> list[tuple[Track, int]]:
        """The jobs to start now, in order of submission, and the pools that are reserved for them."""
        if self._outlook.extend() or self._changes != self._view.room.changes:
            self._stale = True
        if self._stale and not self._some_fit_now():
            return []  # they are made anew when it matters
        self._refresh()
        if self._reserved_up_to < 0:
            self._reserve_at_once()
        while (sequence := self._first_that_could_start()) >= 0:
            self._reserve_up_to(sequence)
        starts, made, now = self._starts, self._made, self._view.now
        while starts and starts[0][0] <= now:
            self._due.append(heappop(starts)[1])
        self._due = sorted([sequence for sequence in self._due if sequence in made])
        waiting = self._backlog.waiting
        return [(waiting[sequence], made[sequence].pool) for sequence in self._due]

    def shape_in(self, track: Track, pool: int) -> Shape:
        """The shape to place so that the job goes where it was reserved."""
        room = self._view.room
        return self._narrowed.to(room, track, room.pools[pool])

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

    def _some_fit_now(self) -> bool:
        """Is as much free, whatever is to be reserved, as any job needs?"""
        room = self._view.room
        free = [free_in(room, pool) for pool in room.pools]
        for lane in self._backlog.lanes.values():
            amount = lane.shape.gpus * lane.shape.share
            if any([free[pool.index] >= amount for pool in room.eligible(lane.shape)]):
                return True
        return False

    def _make_anew(self, room: Room, now: Seconds) -> None:
        self._stale = False
        self._changes = room.changes
        self._reserved_up_to = -1
        self._made.clear()
        self._starts.clear()
        self._due.clear()
        self._pools = [
            FreeOverTime(now, free_in(room, pool), self._releases(pool)) for pool in room.pools
        ]
        self._quotas = {
            tenant.name: FreeOverTime(
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

    def _reserve_at_once(self) -> None:
        """Those in front that can start now. Nothing else is reserved yet, so more and more is free
        later: who fits now fits for as long as it takes, and nobody need look at the profile."""
        now, left_s, eligible = self._view.now, self._backlog.left_s, self._view.room.eligible
        free = [pool.free_now for pool in self._pools]
        quotas = {name: quota.free_now for name, quota in self._quotas.items()}
        uses: list[list[tuple[Seconds, int]]] = [[] for _ in free]
        quota_uses: dict[str, list[tuple[Seconds, int]]] = {name: [] for name in quotas}
        for track in self._backlog.after(-1):
            shape = track.shape
            amount, tenant = shape.gpus * shape.share, shape.tenant
            if tenant in quotas and quotas[tenant] < amount:
                break
            pool = next((pool.index for pool in eligible(shape) if free[pool.index] >= amount), -1)
            if pool < 0:
                break
            made = Reservation(now, now + left_s[track.sequence], pool)
            self._note(track.sequence, made)
            if made.end > now:
                free[pool] -= amount
                uses[pool].append((made.end, amount))
                if tenant in quotas:
                    quotas[tenant] -= amount
                    quota_uses[tenant].append((made.end, amount))
        for profile, used in zip(self._pools, uses, strict=True):
            profile.take_from_now(used)
        for name, used in quota_uses.items():
            self._quotas[name].take_from_now(used)

    def _note(self, sequence: int, made: Reservation) -> None:
        self._reserved_up_to = sequence
        self._made[sequence] = made
        heappush(self._starts, (made.start, sequence))

    def _first_that_could_start(self) -> int:
        """The first job without a reservation that, by the profile, could start now; -1: none."""
        first, now = -1, self._view.now
        known: dict[tuple[int, int], Seconds] = {}
        for lane in self._backlog.lanes.values():
            until = self._lasts(lane.shape, known)
            if until > now and now + lane.shortest <= until:
                sequence = lane.first(self._reserved_up_to, now, until)
                if sequence >= 0 and (first < 0 or sequence < first):
                    first = sequence
        return first

    def _lasts(self, shape: Shape, known: dict[tuple[int, int], Seconds]) -> Seconds:
        """Until when what the shape needs is free in one of its pools; `known` by pool and amount."""
        until, amount = -inf, shape.gpus * shape.share
        for pool in self._view.room.eligible(shape):
            lasts = known.get((pool.index, amount))
            if lasts is None:
                lasts = known[pool.index, amount] = self._pools[pool.index].lasts(amount)
            until = max(until, lasts)
        return until

    def _reserve_up_to(self, sequence: int | None) -> None:
        """Reserve for all up to this one (None: for all), until one of them gets a place now or this
        one can no longer have one."""
        now = self._view.now
        for track in self._backlog.after(self._reserved_up_to):
            start = self._reserve(track)
            self._reserved_up_to = track.sequence
            if sequence is None:
                continue
            if start <= now or track.sequence >= sequence:
                return
            shape = self._backlog.waiting[sequence].shape
            if now + self._backlog.left_s[sequence] > self._lasts(shape, {}):
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
            self._note(track.sequence, made)
        return best


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
