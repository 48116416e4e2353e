"""What `flex` believes of a job: the ways in which it may run, how fast, and how much is left to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import TYPE_CHECKING

from dovetail.core.entries import Note
from dovetail.core.inventory import Pool
from dovetail.core.model import WHOLE_GPU, Job, Placement, Seconds
from dovetail.core.room import Room
from dovetail.core.track import RUNNING, STARTING, Track
from dovetail.core.view import View
from dovetail.policies.deadline.shares import DueWork
from dovetail.policies.flex.claims import Claimant, GpuWay
from dovetail.policies.flex.promises import DueJob, plan_of
from dovetail.policies.flex.speeds_seen import believed_note, seen_note, seen_speeds
from dovetail.policies.flex.surprises import Doubt
from dovetail.policies.reallocation import kind_of, usual_counts
from dovetail.predict.left import LeftPredictor
from dovetail.predict.speed import SpeedPredictor
from dovetail.predict.told import GoodputByModel

if TYPE_CHECKING:
    from dovetail.models.goodput_agent import ToldGoodput

# Of its time so far and the work it has left: where all jobs have GPUs, this power of it is its weight.
_AGING = 0.5
_NEARLY = 0.02  # of its speed a job keeps, at least, however much a move costs


@dataclass(frozen=True, slots=True)
class Supply:
    """The GPUs that can be handed out: free ones, and those of running jobs that may be moved."""

    room: Room
    gpus: Mapping[int, int]  # by the pools' index
    plenty: bool = False  # are there as many as all jobs together may have?

    def pool(self, index: int) -> Pool:
        return self.room.pools[index]


def supply_of(view: View, movable: Iterable[Track], waiting: Iterable[Track]) -> Supply:
    gpus, wanted = {pool.index: pool.free for pool in view.room.pools}, 0
    for track in movable:
        assert track.placement is not None
        gpus[_pool_of(view.room, track.placement).index] += track.placement.gpus
        wanted += track.job.most_gpus
    wanted += sum(track.job.most_gpus for track in waiting)
    return Supply(view.room, gpus, wanted <= sum(gpus.values()))


def _pool_of(room: Room, placement: Placement) -> Pool:
    return room.pool_of[placement.slices[0].node]


def is_shared_out(job: Job) -> bool:
    """Is it a matter of how many GPUs it gets? Not with a part of one, or none."""
    return job.gpus > 0 and job.share == WHOLE_GPU


@dataclass(frozen=True, slots=True)
class Believed:
    """Beliefs about every job, from predictions and reports alone."""

    left: LeftPredictor
    speeds: SpeedPredictor
    goodput: GoodputByModel
    horizon_s: Seconds
    favour: float

    def claimant(self, track: Track, view: View, supply: Supply, doubt: Doubt) -> Claimant:
        left = self.left.left_s(track, view)
        ways = [way for way in self._ways(track, left, view, supply, doubt) if way.rate > 0]
        thriftiest = max([way.rate / way.gpus for way in ways], default=1.0)
        weight = track.job.weight * max(left / thriftiest, 1e-9) ** -self.favour
        if supply.plenty:  # nobody waits: it is only about who has the faster GPUs
            weight *= (view.now - track.submitted_at + left) ** _AGING
        ahead = moving_s(track) * track.placement.gpus if track.placement is not None else 0.0
        gpu_s, priority = left / thriftiest - ahead, track.job.priority
        return Claimant(track.job.id, ways, gpu_s, weight, priority, self._differ(track, supply))

    def _differ(self, track: Track, supply: Supply) -> bool:
        """Is it believed to be faster on one kind than on another? What a move costs says nothing."""
        job, pools = track.job, supply.room.eligible(track.shape)
        if job.elastic or job.options or len(pools) < 2:
            return False
        found = [
            self.speeds.speed(job, one.kind, job.gpus, _nodes(job, one, job.gpus)) for one in pools
        ]
        return max(found) > min(found)

    def _ways(
        self, track: Track, left: Seconds, view: View, supply: Supply, doubt: Doubt
    ) -> Iterator[GpuWay]:
        grants = list(_grants(track, supply))
        rates = self._rates(track, view, supply.room, grants)
        if track.job.deadline is not None:
            rates = self._sure(rates, track, view, supply.room, grants, doubt.speeds)
        moving = moving_s(track)
        for (pool, gpus), rate in zip(grants, rates, strict=True):
            if rate > 0 and _moves(track, pool, gpus, supply.room):
                rate *= self._after_moving(moving, left / rate)
            yield GpuWay(pool.index, gpus, rate)

    def _rates(
        self, track: Track, view: View, room: Room, grants: Sequence[tuple[Pool, int]]
    ) -> list[float]:
        """In seconds of its work a second."""
        job = track.job
        told = self.goodput.told(track, view)
        if told is None:
            return [
                self.speeds.speed(job, pool.kind, gpus, _nodes(job, pool, gpus))
                for pool, gpus in grants
            ]
        scale = _scale(track, room, told)
        pools = {pool.index: pool for pool, _ in grants}
        curves = {n: _curve(told, pool, job, self.speeds) for n, pool in pools.items()}
        return [scale * curves[pool.index][gpus] for pool, gpus in grants]

    def _sure(
        self,
        rates: Sequence[float],
        track: Track,
        view: View,
        room: Room,
        grants: Sequence[tuple[Pool, int]],
        doubt: float,
    ) -> list[float]:
        """On a pool where it has run, as it was seen to go there; elsewhere slower by what beliefs may
        be wrong."""
        if self.goodput.told(track, view) is not None:
            return list(rates)
        job, seen, times = track.job, seen_speeds(track, room), dict[int, float]()
        for pool, _ in grants:
            if (one := seen.get(pool.index)) is not None:
                nodes = _nodes(job, pool, one.gpus)
                believed = self.speeds.speed(job, pool.kind, one.gpus, nodes)
                times[pool.index] = one.speed / believed if believed > 0 else 0.0
        return [
            rate * times.get(pool.index, 1.0 / (1.0 + doubt))
            for (pool, _), rate in zip(grants, rates, strict=True)
        ]

    def due(self, track: Track, view: View, supply: Supply, doubt: Doubt) -> DueJob:
        """A job with a deadline as work on each pool, if beliefs of it were wrong by so much."""
        left, done = self.left.left_s(track, view), track.executed_by(view.now)
        grants, rates = self._few_ways(track, view, supply)
        by_pool: dict[int, list[tuple[int, float]]] = {}
        sure = self._sure(rates, track, view, supply.room, grants, doubt.speeds)
        for (pool, gpus), rate in zip(grants, sure, strict=True):
            if rate > 0:
                by_pool.setdefault(pool.index, []).append((gpus, rate))
        more = left + doubt.lengths * (left + done)
        works = {i: _due_work(track, view, more, found) for i, found in by_pool.items()}
        moving, has = moving_s(track) + _others_save_s(view), self._has(track, view, supply.room)
        return DueJob(track, works, left + done, plan_of(track), moving, has)

    def speed_notes(self, track: Track, view: View, supply: Supply) -> Iterator[Note]:
        """What is to be remembered to see how far beliefs of speeds are off."""
        if track.job.deadline is not None and self.goodput.told(track, view) is None:
            yield from believed_note(track, *self._few_ways(track, view, supply))
            yield from seen_note(track, supply.room)

    def _few_ways(
        self, track: Track, view: View, supply: Supply
    ) -> tuple[list[tuple[Pool, int]], list[float]]:
        """There are many plans, so fewer than for shares."""
        usual = usual_counts(track.job, supply.room)
        grants = [(pool, n) for pool, n in _grants(track, supply) if n in usual]
        return grants, self._rates(track, view, supply.room, grants)

    def _has(self, track: Track, view: View, room: Room) -> GpuWay | None:
        if track.placement is None:
            return None
        pool, gpus = _pool_of(room, track.placement), track.placement.gpus
        (rate,) = self._rates(track, view, room, [(pool, gpus)])
        (sure,) = self._sure([rate], track, view, room, [(pool, gpus)], 0.0)
        return GpuWay(pool.index, gpus, sure)

    def _after_moving(self, moving: Seconds, left_s: Seconds) -> float:
        """The part of the horizon, or of the time to its end, that is left when it has moved."""
        return max(1.0 - moving / min(left_s + moving, self.horizon_s), _NEARLY) if moving else 1.0


def _nodes(job: Job, pool: Pool, gpus: int) -> int:
    return job.nodes or ceil(gpus / max(pool.width, 1))


def _curve(told: ToldGoodput, pool: Pool, job: Job, speeds: SpeedPredictor) -> Sequence[float]:
    """Its progress a second on 0, 1, 2, … GPUs of the pool. Of a kind that no job of its model has
    been on: as on another, as much faster as that kind is believed to be."""
    kind = pool.kind if pool.kind in told.laws else next(iter(told.laws))
    counts = range(1, job.most_gpus + 1)
    rates = told.rates(kind, tuple([(_nodes(job, pool, gpus), gpus) for gpus in counts]))
    usual = 1.0 if kind == pool.kind else speeds.speed(job, kind, job.gpus, 1)
    faster = 1.0 if kind == pool.kind else speeds.speed(job, pool.kind, job.gpus, 1)
    return [0.0, *[rate * faster / usual if usual > 0 else rate for rate in rates]]


def _scale(track: Track, room: Room, told: ToldGoodput) -> float:
    """Seconds of its work for a unit of its progress: from how fast it was where it was last. A job
    that never ran is believed to go at speed 1 on the GPUs it asked for."""
    where = track.placement or track.left
    if where is None or (track.executed_s <= 0 and track.phase is not RUNNING):
        kind, spots = next(iter(told.laws)), ((1, track.job.gpus),)
        speed = 1.0
    else:
        kind, spots = kind_of(room, where), ((len(where.slices), where.gpus),)
        speed = track.speed if track.phase is RUNNING else track.executed_s / track.held_s
    here = told.rates(kind if kind in told.laws else next(iter(told.laws)), spots)[0]
    return speed / here if here > 0 else 1.0


def _moves(track: Track, pool: Pool, gpus: int, room: Room) -> bool:
    has = track.placement
    return has is not None and (has.gpus != gpus or _pool_of(room, has) is not pool)


def moving_s(track: Track) -> Seconds:
    return track.save_s + track.restore_s


def _due_work(track: Track, view: View, left: float, found: Sequence[tuple[int, float]]) -> DueWork:
    counts, rates = zip(*sorted(found), strict=True)
    deadline = inf if track.job.deadline is None else track.job.deadline
    return DueWork(left + _restoring_s(track, view) * rates[-1], deadline, counts, rates)


def _others_save_s(view: View) -> Seconds:
    """How long whoever had GPUs before may keep them until it is saved."""
    return max([track.job.interruption.save_s for track in view.running.values()], default=0.0)


def _restoring_s(track: Track, view: View) -> Seconds:
    """Time until it is at work, once it is given GPUs: others must leave them, and it is restored."""
    if track.placement is None:
        return _others_save_s(view) + (track.restore_s if track.resumed else 0.0)
    if track.phase is not STARTING:
        return 0.0
    return max(moving_s(track) - (view.now - track.started_at), 0.0)


def _grants(track: Track, supply: Supply) -> Iterator[tuple[Pool, int]]:
    """All that the job may have of what there is."""
    job, room = track.job, supply.room
    if job.options:
        for index, free in supply.gpus.items():
            pool = supply.pool(index)
            for kind, gpus in track.shape.options:
                if kind == pool.kind and gpus <= free and room.admits(pool, track.shape):
                    yield pool, gpus
        return
    for gpus in range(job.least_gpus, job.most_gpus + 1, max(job.nodes, 1)):
        for pool in room.eligible(track.shape.sized(gpus)):
            if gpus <= supply.gpus[pool.index]:
                yield pool, gpus
