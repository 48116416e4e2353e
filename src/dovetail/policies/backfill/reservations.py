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
from typing import Final, NamedTuple, TypeAlias, final

from dovetail.core.inventory import Pool
from dovetail.core.model import WHOLE_GPU, JobId, Seconds, joined
from dovetail.core.plan import Place, Plan
from dovetail.core.room import Room
from dovetail.core.shape import Shape
from dovetail.core.track import Track
from dovetail.core.view import ENDS, PARKS, RUNS, WAITS, View
from dovetail.policies.backfill.backlog import Lane
from dovetail.policies.backfill.first_blocked import first_place
from dovetail.policies.backfill.free_over_time import FreeOverTime, earliest_in_all
from dovetail.policies.narrowing import Narrowed
from dovetail.policies.outlook import Outlook, pool_of
from dovetail.predict.duration import Predictor

_Uses: TypeAlias = list[tuple[Seconds, int]]  # until when, how much


class Reservation(NamedTuple):
    start: Seconds
    end: Seconds
    pool: int


@final
class Reservations:
    """The index behind conservative backfilling. Amounts are in thousandths of a GPU."""

    def __init__(self, view: View, predictor: Predictor, place: Place) -> None:
        self.watches = WAITS | RUNS | ENDS | PARKS
        self._view: Final = view
        self._place: Final = place
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

    # ---------------------------------------------------------------------------- asked by policies

    def due(self) -> list[tuple[Track, int]]:
        """The jobs to start now, in order of submission, and the pools that are reserved for them."""
        if self._outlook.extend() or self._changes != self._view.room.changes:
            self._stale = True
        if self._reserved_up_to < 0:
            self._stale = True
        lanes, without = self._lanes_by_place()
        if self._stale and not lanes:
            return []  # they are made anew when it matters
        self._refresh()
        while (sequence := self._first_that_could_start(lanes)) >= 0:
            self._reserve_up_to(sequence)
        if self._first_that_could_start(without) >= 0:
            self._stale = True  # its CPUs are in the way: nobody knows for how long
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

    def keep_nodes_for(self, track: Track, plan: Plan) -> None:
        """Let nobody else start on the nodes that it will have first: GPUs enough, but scattered, may
        never be all on one node otherwise."""
        room, shape = self._view.room, track.shape
        mark = room.mark()
        found = first_place(room, self._place, shape, self._outlook.ends, {})
        room.rollback_to(mark)
        if found is None:
            return
        free = [(n, mask & room.free[n]) for n, mask in found[1].slices]
        parts = [room.single(n, mask) for n, mask in free if mask]
        if parts:
            plan.reserve(joined(parts), track)

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

    def _lanes_by_place(self) -> tuple[list[Lane], list[Lane]]:
        """Those with a place for one of their jobs now, whatever is to be reserved; and the others."""
        room, place = self._view.room, self._place
        able, without = list[Lane](), list[Lane]()
        for lane in self._backlog.lanes.values():
            (without if place(room, lane.shape) is None else able).append(lane)
        return able, without

    def _make_anew(self, room: Room, now: Seconds) -> None:
        self._stale = False
        self._changes = room.changes
        self._reserved_up_to = -1
        self._made.clear()
        self._starts.clear()
        self._due.clear()
        free = [free_in(room, pool) for pool in room.pools]
        quotas = {
            tenant.name: round((tenant.gpu_quota - room.held[tenant.name]) * WHOLE_GPU)
            for tenant in room.tenants.values()
            if tenant.gpu_quota < inf
        }
        uses, quota_uses = self._reserve_at_once(free, quotas)
        self._pools = [
            FreeOverTime(now, free[pool.index], [*self._releases(pool), *uses[pool.index]])
            for pool in room.pools
        ]
        self._quotas = {
            name: FreeOverTime(now, left, [*self._quota_releases(name), *quota_uses[name]])
            for name, left in quotas.items()
        }

    def _releases(self, pool: Pool) -> Iterator[tuple[Seconds, int]]:
        """What the running jobs will give back to the pool; not what lies on closed nodes."""
        room = self._view.room
        sole, all_open = room.sole is pool, all(room.open) and not room.closed
        for end, _, track in self._outlook.ends:
            placement = track.placement
            assert placement is not None
            if sole or pool_of(room, placement) is pool:
                gpus = placement.gpus
                if not all_open:
                    gpus = sum([room.usable_by_others(n, mask) for n, mask in placement.slices])
                yield end, gpus * placement.share

    def _quota_releases(self, tenant: str) -> Iterator[tuple[Seconds, int]]:
        for end, _, track in self._outlook.ends:
            if track.shape.tenant == tenant:
                yield end, round(track.holds * WHOLE_GPU)

    # --------------------------------------------------------------------------------- reserving

    def _reserve_at_once(
        self, free: list[int], quotas: dict[str, int]
    ) -> tuple[list[_Uses], dict[str, _Uses]]:
        """Those in front that can start now. Nothing else is reserved yet, so more and more is free
        later: who fits now fits for as long as it takes, and nobody need look at the profile. What
        they take of what is free now is subtracted; by pool and by tenant, until when they take it."""
        now, left_s, eligible = self._view.now, self._backlog.left_s, self._view.room.eligible
        uses: list[_Uses] = [[] for _ in free]
        quota_uses: dict[str, _Uses] = {name: [] for name in quotas}
        made, due = self._made, self._due
        for track in self._backlog.after(-1):
            shape, sequence = track.shape, track.sequence
            amount = shape.gpus * shape.share
            if quotas and quotas.get(shape.tenant, amount) < amount:
                break
            number = -1
            for pool in eligible(shape):
                if free[pool.index] >= amount:
                    number = pool.index
                    break
            if number < 0:
                break
            end = now + left_s[sequence]
            made[sequence] = Reservation(now, end, number)
            due.append(sequence)
            self._reserved_up_to = sequence
            if end > now:
                free[number] -= amount
                uses[number].append((end, amount))
                if shape.tenant in quotas:
                    quotas[shape.tenant] -= amount
                    quota_uses[shape.tenant].append((end, amount))
        return uses, quota_uses

    def _note(self, sequence: int, made: Reservation) -> None:
        self._reserved_up_to = sequence
        self._made[sequence] = made
        heappush(self._starts, (made.start, sequence))

    def _first_that_could_start(self, lanes: list[Lane]) -> int:
        """The first of their jobs without a reservation that, by the profile, could start now; -1:
        none."""
        first, now = -1, self._view.now
        known: dict[tuple[int, int], Seconds] = {}
        for lane in lanes:
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

    def __init__(self, predictor: Predictor, place: Place) -> None:
        self._predictor: Final = predictor
        self._place: Final = place

    def build(self, view: View) -> Reservations:
        return Reservations(view, self._predictor, self._place)
