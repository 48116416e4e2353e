"""`flex`: counts and kinds of GPUs for all jobs together, from beliefs, where moving must pay."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import ClassVar

from dovetail.core.entries import Action, Preempt, Refuse, Start, Wake
from dovetail.core.model import Job, JobId, Seconds
from dovetail.core.plan import Place, Plan
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.models.epochs import SHARED
from dovetail.policies.deadline.believed import unpromised, word_of
from dovetail.policies.flex.beliefs import Believed, Supply, is_shared_out, supply_of
from dovetail.policies.flex.claims import Claimant, GpuWay
from dovetail.policies.flex.packing import can_be_packed, packed
from dovetail.policies.flex.promises import KEY, NOTHING_PROMISED, Promised, plan_of, promised
from dovetail.policies.flex.shares import prices, shares
from dovetail.policies.flex.surprises import Doubt, Surprises
from dovetail.policies.goodput.taking import take
from dovetail.policies.placement import consolidated
from dovetail.policies.precedence import Ahead, DeadlineWord, Lineup
from dovetail.policies.reallocation import Grant, reallocated
from dovetail.predict.duration import HistoryMean, Predictor
from dovetail.predict.left import ByReports
from dovetail.predict.speed import SameEverywhere, SpeedPredictor
from dovetail.predict.told import GoodputByModel


@dataclass(frozen=True, kw_only=True)
class Flex:
    """How many GPUs of which kind each job gets is decided for all of them together: proportional
    fairness that favours jobs with little left. Elastic jobs grow and shrink, all may change their
    kind; who is moved gains more than that costs. Needs no oracle.

    A deadline is promised if a plan keeps it, with room for what beliefs of lengths and speeds were
    wrong by so far (`doubt` of them until ten are known); a promised job gets at least what its plan
    says, any other runs as well as it can. `refuse`: a job whose deadline cannot be promised is
    refused instead.
    `favour`: 0 shares as if all jobs were equally long, 1 nearly serves the shortest alone;
    `horizon_s`: a move must pay for itself within this time; `round_s`: how often shares are looked
    at again while nothing else happens.
    """

    batches: ClassVar[str] = SHARED  # jobs that can choose their batch may do so
    by_reports: ClassVar[bool] = True  # the work left, where jobs count their steps
    place: Place = consolidated
    predictor: Predictor = HistoryMean()
    speeds: SpeedPredictor = SameEverywhere()
    favour: float = 0.35
    horizon_s: Seconds = 200.0
    round_s: Seconds = 60.0
    doubt: float = 0.1
    refuse: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.favour <= 1:
            raise ValueError(f"favour={self.favour:g}: give a number from 0 to 1")
        if not self.horizon_s > 0:
            raise ValueError(f"horizon_s={self.horizon_s:g}: give a positive number of seconds")
        if not self.round_s > 0:
            raise ValueError(f"round_s={self.round_s:g}: give a positive number of seconds")
        if not 0 <= self.doubt < inf:
            raise ValueError(f"doubt={self.doubt:g}: give 0 or a positive number")

    @cached_property
    def _surprises(self) -> Surprises:
        return Surprises()

    def decide(self, view: View) -> Iterator[Action]:
        waiting, running = self._in_line(view), view.running.values()
        to_come = waiting or any(_may_change(track.job) for track in running)
        if not to_come and not any(_has_choice(view, track) for track in running):
            return
        movable, believed = _movable(view), self._believed
        whole = [track for track in waiting if is_shared_out(track.job)]
        supply = supply_of(view, movable, whole)
        in_order = sorted((*movable, *whole), key=lambda track: track.sequence)
        doubt = self._surprises.doubt(view, Doubt(self.doubt, self.doubt))
        claimants = {track: believed.claimant(track, view, supply, doubt) for track in in_order}
        for track in in_order:
            yield from believed.speed_notes(track, view, supply)
        made = self._promised(view, supply, claimants, doubt)
        yield from made.notes
        refused = made.refused if self.refuse else {}
        yield from [Refuse(job_id, _reason(view, job_id, at)) for job_id, at in refused.items()]
        left = [one for track, one in claimants.items() if track.job.id not in refused]
        found = shares(left, supply.gpus, made.floors, made.held)
        actions = self._carried_out(view, supply, found, made.held, movable, waiting)
        yield from actions
        begun = {one.job_id for one in actions if isinstance(one, Start)}
        stopped = {one.job_id for one in actions if isinstance(one, Preempt)} - begun
        gave_way = any(job_id in found for job_id in stopped)
        at = min(view.now + self.round_s, made.changes_at) if to_come else inf
        if gave_way or at < inf:
            yield Wake(view.now if gave_way else at)

    def _promised(
        self, view: View, supply: Supply, claimants: Mapping[Track, Claimant], doubt: Doubt
    ) -> Promised:
        due = [track for track in claimants if track.job.deadline is not None]
        if not due:
            return NOTHING_PROMISED
        jobs = [self._believed.due(track, view, supply, doubt) for track in due]
        jobs.sort(key=lambda job: job.track.sequence)
        worth = prices(claimants.values(), supply.gpus)
        return promised(jobs, view.now, supply.gpus, worth)

    def _carried_out(
        self,
        view: View,
        supply: Supply,
        found: Mapping[JobId, GpuWay],
        staying: Mapping[JobId, GpuWay],
        movable: Sequence[Track],
        waiting: Sequence[Track],
    ) -> Sequence[Action]:
        granted = {
            job_id: Grant(supply.pool(way.pool).kind, way.gpus) for job_id, way in found.items()
        }
        whole = [track for track in waiting if is_shared_out(track.job)]
        if can_be_packed(view, movable, whole, granted):
            plan = Plan(view, self.place)
            take(view, plan, self.place, packed(view, movable, found, staying))
        else:
            plan = reallocated(view, self.place, granted, movable, whole)
        for track in waiting:
            if not is_shared_out(track.job):
                plan.start(track)
        return plan.actions

    @cached_property
    def _believed(self) -> Believed:
        left = ByReports(self.predictor)
        return Believed(left, self.speeds, GoodputByModel(), self.horizon_s, self.favour)

    @staticmethod
    def _in_line(view: View) -> list[Track]:
        return [t for t in view.tracks.values() if t.placement is None and not t.barred]

    def ahead(self, view: View, track: Track, waiting: Sequence[Track]) -> Sequence[Ahead]:
        order = self._order(view)
        own = order(track)
        return [
            Ahead(sorted([t for t in waiting if order(t) < own], key=order), "with less left to do")
        ]

    def deadline_word(self, view: View, track: Track) -> DeadlineWord | None:
        plan = plan_of(track)
        return word_of(view, track, None if plan is None else plan.share, KEY in track.notes)

    def lineup(self, view: View) -> Lineup:
        tracks = sorted(self._in_line(view), key=self._order(view))
        return Lineup(lambda: tracks)

    def _order(self, view: View) -> Callable[[Track], tuple[bool, float, float, int]]:
        """Those that must have GPUs now to keep a promise, then by what is left."""
        movable, believed = _movable(view), self._believed
        tracks = [*movable, *(waiting := self._in_line(view))]
        supply = supply_of(view, movable, waiting)
        doubt = self._surprises.doubt(view, Doubt(self.doubt, self.doubt))
        claimants = {track: believed.claimant(track, view, supply, doubt) for track in tracks}
        floors = self._promised(view, supply, claimants, doubt).floors

        def order(track: Track) -> tuple[bool, float, float, int]:
            one = claimants[track]
            return one.id not in floors, -one.priority, one.left_gpu_s, track.sequence

        return order


def _may_change(job: Job) -> bool:
    """Is there anything to decide about it while nobody waits?"""
    return job.elastic or job.deadline is not None


def _has_choice(view: View, track: Track) -> bool:
    """Could it be better off on GPUs of another kind, should some become free?"""
    return len(view.room.eligible(track.shape)) > 1


def _reason(view: View, job_id: JobId, done_at: Seconds) -> str:
    return unpromised(view.tracks[job_id], view.now, done_at)


def _movable(view: View) -> list[Track]:
    return [t for t in view.running.values() if is_shared_out(t.job) and not t.pinned]
