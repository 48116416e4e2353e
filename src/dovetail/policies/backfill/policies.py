"""Backfilling: short jobs slip into the gaps before wide ones and delay nobody who has a promise.

EASY (Lifka 1995; Mu'alem and Feitelson 2001) promises a start to the first job that does not fit;
conservative backfilling promises one to every job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import ClassVar

from dovetail.core.entries import Action, Wake
from dovetail.core.model import JobId, Placement, Seconds
from dovetail.core.plan import Place, Plan
from dovetail.core.shape import Shape
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.policies.backfill.backlog import Backlog, Lane
from dovetail.policies.backfill.first_blocked import Shadows, ShadowsBy, Spare
from dovetail.policies.backfill.reservations import Reservations, ReservationsBy
from dovetail.policies.outlook import pool_of
from dovetail.policies.placement import consolidated
from dovetail.policies.precedence import InOrderOfSubmission
from dovetail.predict.duration import Predictor


@dataclass(frozen=True, kw_only=True)
class Easy(InOrderOfSubmission):
    """First come, first served. Behind a job that does not fit, others may start if, by the
    estimates, they end before it could start (the shadow time) or leave it enough GPUs then."""

    blocks: ClassVar[bool] = True
    place: Place = consolidated
    predictor: Predictor

    @cached_property
    def _spec(self) -> ShadowsBy:
        return ShadowsBy(self.predictor, self.place)

    def decide(self, view: View) -> Sequence[Action]:
        if not view.waiting_count:
            return ()
        shadows = view.index(self._spec)
        assert isinstance(shadows, Shadows)
        plan = Plan(view, self.place)
        started: dict[int, Placement] = {}  # by sequence
        for track in shadows.backlog.after(-1):
            placement = plan.place(track)
            if placement is None:
                spare = Spare(shadows.of(track, started))
                self._fill(view, plan, shadows.backlog, spare, track.sequence)
                break
            plan.start_at(track, placement)
            started[track.sequence] = placement
        return plan.actions

    def _fill(self, view: View, plan: Plan, backlog: Backlog, spare: Spare, after: int) -> None:
        """Start what may start behind the head, in order of submission."""
        now, left_s = view.now, backlog.left_s
        lanes = list(backlog.lanes.values())
        while True:
            lanes = _worth_a_try(lanes, now, spare)
            found = self._first(view, lanes, spare, after)
            if found is None:
                return
            after, placement = found
            track = backlog.waiting[after]
            plan.start_at(track, placement)
            if now + left_s[after] > spare.at:
                spare.take(pool_of(view.room, placement).index, track.shape)

    def _first(
        self, view: View, lanes: list[Lane], spare: Spare, after: int
    ) -> tuple[int, Placement] | None:
        """The first job submitted after that one that may start, and where.

        A lane that has no place now will have none later in this decision: it is dropped.
        """
        first: tuple[int, Placement] | None = None
        room, place, now = view.room, self.place, view.now
        fitting = []
        for lane in lanes:
            placement = place(room, lane.shape)
            if placement is None:
                continue
            fitting.append(lane)
            beyond = spare.has(pool_of(view.room, placement).index, lane.shape, placement)
            sequence = lane.first(after, now, inf if beyond else spare.at)
            if sequence >= 0 and (first is None or sequence < first[0]):
                first = (sequence, placement)
        lanes[:] = fitting
        return first


def _worth_a_try(lanes: list[Lane], now: Seconds, spare: Spare) -> list[Lane]:
    """The lanes that hold a short enough job, or whose jobs are small enough to be long."""
    at, most = spare.at, spare.most()
    return [lane for lane in lanes if lane.shape.gpus <= most or now + lane.shortest <= at]


@dataclass(frozen=True, kw_only=True)
class Conservative(InOrderOfSubmission):
    """First come, first served, and every job has a start reserved: one that came later may start
    before it only if, by the estimates, that delays nobody who came before."""

    place: Place = consolidated
    predictor: Predictor

    @cached_property
    def _spec(self) -> ReservationsBy:
        return ReservationsBy(self.predictor, self.place)

    def _reservations(self, view: View) -> Reservations:
        reservations = view.index(self._spec)
        assert isinstance(reservations, Reservations)
        return reservations

    def promised(self, view: View) -> Mapping[JobId, Seconds]:
        """When each waiting job is to start, by the present estimates; infinity: too few nodes."""
        return self._reservations(view).all_starts()

    def decide(self, view: View) -> Sequence[Action]:
        if not view.waiting_count:
            return ()
        reservations = self._reservations(view)
        plan = Plan(view, self.place)
        without: set[tuple[int, int]] = (
            set()
        )  # lanes and pools: no place for one, none for the next
        for track, pool in reservations.due():
            if (track.shape.lane, pool) in without:
                continue
            placement = self._placement_for(view, track, reservations.shape_in(track, pool), pool)
            if placement is None:
                if track.shape.nodes and not without:
                    reservations.keep_nodes_for(track, plan)
                without.add((track.shape.lane, pool))
                reservations.is_stuck()
            else:
                plan.start_at(track, placement)
        return self._with_wake(view, reservations, plan)

    def _placement_for(self, view: View, track: Track, shape: Shape, pool: int) -> Placement | None:
        """Reservations count GPUs; CPUs, memory and shares may still be in the way."""
        room = view.room
        if room.tenants and not room.within_quota(track.shape):
            return None
        placement = self.place(room, shape)
        elsewhere = placement is not None and pool_of(room, placement).index != pool
        if placement is None or (elsewhere and shape.gpus):
            return None
        return placement

    def _with_wake(self, view: View, reservations: Reservations, plan: Plan) -> Sequence[Action]:
        """Look again when the next job should end: if it does not, the reservations must move."""
        if view.waiting_count == len(plan.started):
            return plan.actions
        at = reservations.next_end(plan.started)
        return [*plan.actions, Wake(at)] if at < inf else plan.actions
