"""Mixed GPU kinds: each job goes where it is expected to end first.

Our reading of the model-similarity policy (Thanapol et al., ACIIDS 2023; Appl. Sci. 2024): in order
of submission, to the free GPU kind on which models like this one run fastest; if a faster one is
taken, the job waits for it exactly if that is expected to cost less than running on the slower one.
Their later version also moves jobs, round by round; ours moves one when a faster kind is free that
nobody waits for, since nothing changes between events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Final, NamedTuple, final

from dovetail.core.entries import Action, Wake
from dovetail.core.inventory import Pool
from dovetail.core.model import Placement, Seconds
from dovetail.core.plan import Place, Plan
from dovetail.core.shape import Shape
from dovetail.core.track import STARTING, Track
from dovetail.core.view import ENDS, PARKS, RUNS, WAITS, View
from dovetail.policies.backfill.backlog import Backlog
from dovetail.policies.backfill.free_over_time import FreeOverTime
from dovetail.policies.backfill.reservations import free_in
from dovetail.policies.keys import BySubmission
from dovetail.policies.listing import ListScheduler
from dovetail.policies.narrowing import Narrowed
from dovetail.policies.outlook import pool_of, time_left
from dovetail.policies.placement import consolidated
from dovetail.predict.duration import Predictor
from dovetail.predict.speed import SameEverywhere, SpeedPredictor

# Jobs in front whose wait is worked out; who stands behind them is taken to wait as long as the last.
_AHEAD: Final = 200


class PlaceChoice(NamedTuple):
    """One way to run a job; the least is the best."""

    end: Seconds
    waits: bool
    number: int  # of the pool, in the order in which they are to be tried
    start: Seconds
    pool: Pool
    placement: Placement | None  # None: not now


@dataclass(frozen=True, kw_only=True)
class ModelSimilarity:
    """First come, first served on several GPU kinds: each job goes where, by the speed of similar
    models, it should end first, waits for a faster kind if that pays, and moves to one that nobody
    waits for.

    What it knows of speeds is `speeds`: in a simulation `similar` (each model as others that are like
    it), `strangers` (without any measurement of that model), `oracle` or `none`. Jobs that do not fit
    are skipped: where all kinds are equally fast it is fifo-skip. A running job moves if that saves
    `move_gain` of the time it should need yet; 1: never. Our reading of Thanapol et al. (ACIIDS 2023,
    Appl. Sci. 2024), whose formulas are not public.
    """

    place: Place = consolidated
    predictor: Predictor
    speeds: SpeedPredictor = SameEverywhere()
    move_gain: float = 0.25

    def __post_init__(self) -> None:
        if not 0.0 < self.move_gain <= 1.0:
            raise ValueError(f"move_gain is {self.move_gain:g}; give more than 0, at most 1")

    @cached_property
    def _spec(self) -> HopesBy:
        return HopesBy(self.predictor)

    @cached_property
    def _where_kinds_do_not_differ(self) -> ListScheduler:
        return ListScheduler(BySubmission(), self.place)

    def decide(self, view: View) -> Sequence[Action]:
        if len(view.room.pools) < 2:
            return self._where_kinds_do_not_differ.decide(view)
        moves = self.move_gain < 1.0 and bool(view.running)
        if not view.waiting_count and not moves:
            return ()
        hopes = self._spec.of(view)
        turn = _Turn(view, hopes, self.place, self.speeds)
        some_want_no_gpu = any(not lane.shape.gpus for lane in hopes.backlog.lanes.values())
        for track in hopes.backlog.after(-1):
            if turn.is_full() and not some_want_no_gpu:
                break
            turn.consider(track)
        if moves:
            turn.move(self.move_gain)
        return turn.actions()


@final
class _Turn:
    """One decision: what is free, and what the jobs before this one are expected to take."""

    def __init__(self, view: View, hopes: Hopes, place: Place, speeds: SpeedPredictor) -> None:
        self._view: Final = view
        self._room: Final = view.room
        self._hopes: Final = hopes
        self._place: Final = place
        self._speeds: Final = speeds
        self._plan: Final = Plan(view, place)
        self._profiles: Final[dict[int, FreeOverTime]] = {}  # by pool
        self._started: Final[list[tuple[Seconds, Pool, int]]] = []
        self._waiting = 0  # jobs that were found no place now
        self._some_wait = False  # has anybody let a free GPU go by?
        self._some_move = False
        self._wanted: Final[set[int]] = set()  # pools that somebody waits for

    def actions(self) -> Sequence[Action]:
        """With a wake-up: at once if jobs move, for what they leave; or when GPUs that somebody waits
        for should be free."""
        actions = self._plan.actions
        if self._some_move:
            return [*actions, Wake(self._view.now)]
        if not self._some_wait:
            return actions
        at = min((end for end, _, _ in self._ends()), default=inf)
        return [*actions, Wake(at)] if at < inf else actions

    def is_full(self) -> bool:
        return not self._room.shares and not self._room.most_free()

    def consider(self, track: Track) -> None:
        room, shape = self._room, track.shape
        if shape.gpus and self.is_full():
            return
        if room.tenants and not room.within_quota(shape):
            return
        if not shape.gpus:
            self._plan.start(track)
            return
        if self._waiting >= _AHEAD and not self._has_gpus_for(shape):
            return
        seats = [
            self._seat(track, number, pool) for number, pool in enumerate(room.eligible(shape))
        ]
        best = min(seats, default=None)
        if best is None or best.end == inf:
            return
        amount = shape.gpus * shape.share
        if best.placement is not None:
            self._plan.start_at(track, best.placement)
            self._started.append((best.end, best.pool, amount))
        else:
            self._waiting += 1
            self._wanted.add(best.pool.index)
            self._some_wait = self._some_wait or any(seat.placement for seat in seats)
        if best.pool.index in self._profiles and self._waiting < _AHEAD:
            self._profiles[best.pool.index].take(best.start, best.end, amount)

    def _has_gpus_for(self, shape: Shape) -> bool:
        room = self._room
        return bool(room.shares) or any(p.free >= shape.gpus for p in room.eligible(shape))

    def _seat(self, track: Track, number: int, pool: Pool) -> PlaceChoice:
        room, now, shape = self._room, self._view.now, track.shape
        placement = None
        if pool.free >= shape.gpus or room.shares:
            placement = self._place(room, self._hopes.narrowed.to(room, track, pool))
            if placement is not None and pool_of(room, placement) is not pool:
                placement = None
        fewest = shape.nodes or -(-shape.gpus // max(pool.width, 1))
        nodes = len(placement.slices) if placement else fewest
        left_s = self._hopes.backlog.left_s[track.sequence]
        length_s = left_s / self._speeds.speed(track.job, pool.kind, shape.gpus, nodes)
        start = now if placement else self._later(pool, shape.gpus * shape.share, length_s)
        return PlaceChoice(start + length_s, placement is None, number, start, pool, placement)

    def move(self, gain: float) -> None:
        """Take jobs to faster GPUs that nobody waits for, those that need longest yet first."""
        staying = [(self._stays_s(track), track) for track in self._view.running.values()]
        for stays_s, track in sorted(staying, key=lambda row: (-row[0], row[1].sequence)):
            if not self._room.most_free():
                return
            placement = self._faster(track, stays_s * (1.0 - gain)) if _may_move(track) else None
            if placement is not None:
                self._plan.stop(track)
                self._plan.start_at(track, placement)
                self._some_move = True

    def _stays_s(self, track: Track) -> Seconds:
        placement = track.placement
        assert placement is not None
        kind = pool_of(self._room, placement).kind
        speed = self._speeds.speed(track.job, kind, placement.gpus, len(placement.slices))
        return self._hopes.left_s(track) / speed

    def _faster(self, track: Track, within_s: Seconds) -> Placement | None:
        """Where else it would be done by then, all costs of moving included."""
        room, shape, here = self._room, track.shape, track.placement
        assert here is not None
        if room.tenants and not room.within_quota(shape):
            return None
        cost_s = track.save_s + track.restore_s
        left_s, best = self._hopes.left_s(track), None
        for pool in room.eligible(shape):
            if pool is pool_of(room, here) or pool.index in self._wanted or pool.free < shape.gpus:
                continue
            placement = self._place(room, self._hopes.narrowed.to(room, track, pool))
            if placement is None or pool_of(room, placement) is not pool:
                continue
            speed = self._speeds.speed(track.job, pool.kind, placement.gpus, len(placement.slices))
            if left_s / speed + cost_s < within_s:
                best, within_s = placement, left_s / speed + cost_s
        return best

    def _later(self, pool: Pool, amount: int, length_s: Seconds) -> Seconds:
        """When as much of the pool should be free; infinity: nobody can say."""
        start = self._profile(pool).earliest(amount, length_s, self._view.now)
        # What is free by the count and yet does not fit must not be waited for.
        return start if start > self._view.now else inf

    def _profile(self, pool: Pool) -> FreeOverTime:
        profile = self._profiles.get(pool.index)
        if profile is None:
            releases = sorted((end, amount) for end, own, amount in self._ends() if own is pool)
            profile = FreeOverTime(self._view.now, free_in(self._room, pool), releases)
            self._profiles[pool.index] = profile
        return profile

    def _ends(self) -> list[tuple[Seconds, Pool, int]]:
        """When running jobs, and those just started, should give back what."""
        return [*self._running, *self._started]

    @cached_property
    def _running(self) -> list[tuple[Seconds, Pool, int]]:
        room, found = self._room, []
        for track in self._view.running.values():
            placement = track.placement
            assert placement is not None
            pool, end = pool_of(room, placement), self._view.now + self._stays_s(track)
            gpus = sum([room.usable_by_others(n, mask) for n, mask in placement.slices])
            found.append((end, pool, gpus * placement.share))
        return found


def _may_move(track: Track) -> bool:
    return not track.pinned and track.phase is not STARTING and track.shape.bare


_LEAST_S: Final = 1.0  # what a running job is expected to need yet, whatever was predicted


@final
class Hopes:
    """How long each job was expected to run when it began to wait, at speed 1."""

    def __init__(self, view: View, predictor: Predictor) -> None:
        self.watches = WAITS | RUNS | ENDS | PARKS
        self._view: Final = view
        self._predictor: Final = predictor
        self.backlog: Final = Backlog()
        self.narrowed: Final = Narrowed()
        self._duration_s: Final[dict[int, Seconds]] = {}  # by sequence

    def waits(self, track: Track) -> None:
        self.backlog.add(track, time_left(track, self._expect(track)))

    def runs(self, track: Track) -> None:
        self.backlog.remove(track.sequence)
        if track.sequence not in self._duration_s:
            self._expect(track)

    def ends(self, track: Track) -> None:
        self.backlog.remove(track.sequence)
        self._duration_s.pop(track.sequence, None)

    def parks(self, track: Track) -> None:
        self.ends(track)

    def _expect(self, track: Track) -> Seconds:
        found = self._predictor.duration_s(track.job, self._view)
        self._duration_s[track.sequence] = found
        return found

    def left_s(self, track: Track) -> Seconds:
        """What the running job has yet to do, at speed 1. One that has outlived its estimate is given
        as long again as it has had, since long jobs tend to be very long."""
        done = track.executed_by(self._view.now)
        left = self._duration_s[track.sequence] - done
        return max(left if left > 0 else done, _LEAST_S)


@final
class HopesBy:
    """The spec of the index."""

    def __init__(self, predictor: Predictor) -> None:
        self._predictor: Final = predictor

    def build(self, view: View) -> Hopes:
        return Hopes(view, self._predictor)

    def of(self, view: View) -> Hopes:
        hopes = view.index(self)
        assert isinstance(hopes, Hopes)
        return hopes
