"""GENIE: who may wait the least goes first, with as few workers as are on time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from dovetail.core.entries import Action
from dovetail.core.model import Seconds
from dovetail.core.plan import Place, Plan
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.policies.deadline.allowance import waiting_allowance_s, workers
from dovetail.policies.deadline.believed import Beliefs, schedulable
from dovetail.policies.placement import consolidated
from dovetail.policies.precedence import Ahead, Lineup
from dovetail.predict.duration import Predictor
from dovetail.predict.speed import SameEverywhere, SpeedPredictor


@dataclass(frozen=True, kw_only=True)
class Genie:
    """The smallest waiting allowance (deadline less now less predicted run time) first, never
    preempted; an elastic job gets the fewest GPUs of those free that should keep its deadline, else the
    number on which it should be fastest. Jobs that do not fit are skipped, those without a deadline
    come last."""

    place: Place = consolidated
    predictor: Predictor
    speeds: SpeedPredictor = SameEverywhere()

    def decide(self, view: View) -> Sequence[Action]:
        if not view.waiting_count:
            return ()
        beliefs, plan = Beliefs(view, self.predictor, self.speeds), Plan(view, self.place)
        has_place: dict[int, bool] = {}  # by shape, for jobs of one size
        able = [
            track
            for track in view.tracks.values()
            if track.placement is None
            and not track.barred
            and self._may_start(plan, track, has_place)
        ]
        for track in sorted(able, key=lambda track: _key(beliefs, track)):
            if not _is_of_one_size(track):
                self._start(plan, beliefs, track)
            elif has_place[id(track.shape)]:
                has_place[id(track.shape)] = plan.start(track)
        return plan.actions

    def _may_start(self, plan: Plan, track: Track, has_place: dict[int, bool]) -> bool:
        """Is there a place now? If not, there will be none: a decision gives no GPUs back."""
        if not _is_of_one_size(track):
            return True
        known = has_place.get(id(track.shape))
        if known is None:
            known = has_place[id(track.shape)] = self.place(plan.room, track.shape) is not None
        return known

    def _start(self, plan: Plan, beliefs: Beliefs, track: Track) -> None:
        work = beliefs.due(track)
        if len(work.counts) == 1 or track.parked_at is not None:
            plan.start(track)
            return
        run_s = {n: work.left / rate for n, rate in zip(work.counts, work.rates, strict=True)}
        due_in_s = _deadline(track) - beliefs.view.now
        free = max([pool.free for pool in plan.room.eligible(track.shape)], default=0)
        while run_s:
            count = workers(run_s, free, due_in_s)
            if count is None:
                return
            placement = self.place(plan.room, track.shape.sized(count))
            if placement is not None:
                plan.start_at(track, placement)
                return
            del run_s[count]

    def ahead(self, view: View, track: Track, waiting: Sequence[Track]) -> Sequence[Ahead]:
        beliefs = Beliefs(view, self.predictor, self.speeds)
        own = _key(beliefs, track)
        before = [other for other in waiting if _key(beliefs, other) < own]
        before.sort(key=lambda other: _key(beliefs, other))
        return [Ahead(before, "that may wait less for their deadline")]

    def lineup(self, view: View) -> Lineup:
        beliefs = Beliefs(view, self.predictor, self.speeds)
        tracks = sorted(schedulable(view), key=lambda track: _key(beliefs, track))
        return Lineup(lambda: tracks)


def _is_of_one_size(track: Track) -> bool:
    """Does it need what others of its shape need, wherever that is?"""
    job = track.job
    is_rigid = job.min_gpus is None and job.max_gpus is None and not job.options
    return is_rigid and track.parked_at is None


def _deadline(track: Track) -> Seconds:
    return inf if track.job.deadline is None else track.job.deadline


def _key(beliefs: Beliefs, track: Track) -> tuple[Seconds, int]:
    speed = beliefs.speed(track, track.job.gpus) or 1.0
    run_s = beliefs.left_s(track) / speed
    return waiting_allowance_s(_deadline(track), beliefs.view.now, run_s), track.sequence
