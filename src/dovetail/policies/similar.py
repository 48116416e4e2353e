"""Mixed GPU kinds: each job goes where it is expected to end first.

Rule v1 of our reading of the model-similarity policy (Thanapol et al., ACIIDS 2023): in order of
submission, to the free GPU kind on which models like this one run fastest; if a faster one is taken,
the job waits for it exactly if that is expected to cost less than running on the slower one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Final, NamedTuple, final

from dovetail.core.entries import Action, Wake
from dovetail.core.model import Placement, Seconds
from dovetail.core.plan import Place, Plan
from dovetail.core.room import Pool
from dovetail.core.track import Track
from dovetail.core.view import ENDS, PARKS, RUNS, WAITS, View
from dovetail.policies.backlog import Backlog
from dovetail.policies.narrowing import Narrowed
from dovetail.policies.outlook import believable, pool_of, time_left
from dovetail.policies.placement import consolidated
from dovetail.policies.profile import Profile
from dovetail.policies.reservations import free_in
from dovetail.predict.duration import Predictor
from dovetail.predict.speed import SameEverywhere, SpeedPredictor

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

    def settle(self) -> None:
        """Nothing is ever tried out."""

    def _expect(self, track: Track) -> Seconds:
        found = self._predictor.duration_s(track.job, self._view)
        self._duration_s[track.sequence] = found
        return found

    def left_s(self, track: Track) -> Seconds:
        """What the running job has yet to do, at speed 1."""
        done = track.executed_by(self._view.now)
        return max(believable(self._duration_s[track.sequence], done) - done, _LEAST_S)


@final
class HopesBy:
    """The spec of the index."""

    def __init__(self, predictor: Predictor) -> None:
        self._predictor: Final = predictor

    def build(self, view: View) -> Hopes:
        return Hopes(view, self._predictor)


class Seat(NamedTuple):
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
    models, it should end first, and waits for a faster kind if that pays; those that do not fit are
    skipped.

    What it knows of speeds is `speeds`: in a simulation `similar` (each model as others that are like
    it), `strangers` (without any measurement of that model), `oracle` or `none`. Where all kinds are
    equally fast it is fifo-skip. Our reading of Thanapol et al., ACIIDS 2023, whose formulas are not
    public; jobs are not moved once they run.
    """

    place: Place = consolidated
    predictor: Predictor
    speeds: SpeedPredictor = SameEverywhere()

    @cached_property
    def _spec(self) -> HopesBy:
        return HopesBy(self.predictor)

    def decide(self, view: View) -> Sequence[Action]:
        if not view.waiting_count:
            return ()
        hopes = view.index(self._spec)
        assert isinstance(hopes, Hopes)
        turn = _Turn(view, hopes, self.place, self.speeds)
        for track in hopes.backlog.after(-1):
            turn.consider(track)
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
        self._profiles: Final[dict[int, Profile]] = {}  # by pool
        self._started: Final[list[tuple[Seconds, Pool, int]]] = []
        self._some_wait = False  # has anybody let a free GPU go by?

    def actions(self) -> Sequence[Action]:
        """With a wake-up, if somebody waits for GPUs that should be free by then."""
        actions = self._plan.actions
        if not self._some_wait:
            return actions
        at = min((end for end, _, _ in self._ends()), default=inf)
        return [*actions, Wake(at)] if at < inf else actions

    def consider(self, track: Track) -> None:
        room, shape = self._room, track.shape
        if shape.gpus and not room.shares and not room.most_free():
            return
        if room.tenants and not room.within_quota(shape):
            return
        if not shape.gpus:
            self._plan.start(track)
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
            self._some_wait = self._some_wait or any(seat.placement for seat in seats)
        if best.pool.index in self._profiles:
            self._profiles[best.pool.index].take(best.start, best.end, amount)

    def _seat(self, track: Track, number: int, pool: Pool) -> Seat:
        room, now, shape = self._room, self._view.now, track.shape
        placement = None
        if pool.free >= shape.gpus or room.shares:
            placement = self._place(room, self._hopes.narrowed.to(room, track, pool))
            if placement is not None and pool_of(room, placement) is not pool:
                placement = None
        nodes = len(placement.slices) if placement else -(-shape.gpus // max(pool.width, 1))
        left_s = self._hopes.backlog.left_s[track.sequence]
        length_s = left_s / self._speeds.speed(track.job, pool.kind, nodes)
        start = now if placement else self._later(pool, shape.gpus * shape.share, length_s)
        return Seat(start + length_s, placement is None, number, start, pool, placement)

    def _later(self, pool: Pool, amount: int, length_s: Seconds) -> Seconds:
        """When as much of the pool should be free; infinity: nobody can say."""
        start = self._profile(pool).earliest(amount, length_s, self._view.now)
        # What is free by the count and yet does not fit must not be waited for.
        return start if start > self._view.now else inf

    def _profile(self, pool: Pool) -> Profile:
        profile = self._profiles.get(pool.index)
        if profile is None:
            releases = sorted((end, amount) for end, own, amount in self._ends() if own is pool)
            profile = Profile(self._view.now, free_in(self._room, pool), releases)
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
            pool = pool_of(room, placement)
            speed = self._speeds.speed(track.job, pool.kind, len(placement.slices))
            end = self._view.now + self._hopes.left_s(track) / speed
            gpus = sum([mask.bit_count() for n, mask in placement.slices if room.open[n]])
            found.append((end, pool, gpus * placement.share))
        return found
