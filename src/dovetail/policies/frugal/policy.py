"""Our own policy for energy and lateness."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from math import inf
from typing import ClassVar, Final

from dovetail.core.entries import Action, Wake
from dovetail.core.model import WHOLE_GPU, JobId, Seconds
from dovetail.core.plan import Place, Plan
from dovetail.core.track import STARTING, Track
from dovetail.core.view import View
from dovetail.models.cost import Costs
from dovetail.models.hourly import HOUR_S, Hourly
from dovetail.models.power import HASTE
from dovetail.policies.andreas.drafting import SAME_TIME_S, BooksSpec, ProblemDraft, actions_of
from dovetail.policies.andreas.problem import Assignment, Demand, NodePool, Spot
from dovetail.policies.frugal.casting import Cast, is_small
from dovetail.policies.frugal.deciding import decide
from dovetail.policies.frugal.draft import BLINK_S, KEEP, PlannedJob
from dovetail.policies.frugal.floor import Seats
from dovetail.policies.frugal.foresight import AT_STAKE, GpusComingBack
from dovetail.policies.frugal.guests import Guest
from dovetail.policies.frugal.hours import PriceForecast, signal
from dovetail.policies.frugal.ladder import PriceLadder, Rates, ladder_of, same_rates
from dovetail.policies.frugal.portfolio import cheaper
from dovetail.policies.frugal.special import Urgency, make_room
from dovetail.policies.frugal.tide import Tide
from dovetail.policies.frugal.wide import Wide, spread
from dovetail.policies.outlook import expected_end
from dovetail.policies.placement import consolidated
from dovetail.policies.stints import PAYS_PRESSED, least_stint_s
from dovetail.predict.duration import Predictor, UserEstimate

NOMINAL: Final = 0.1  # money per kWh if energy has no price: less of it is still better
# an hour late without a price counts as so many hours of the job's most expensive way
DUE: Final = 10.0
LAX: Final = 0.1  # the same for an hour of waiting of a job without a deadline
PATIENCE: Final = 2.0  # a job without a deadline should end within so many times its duration


@dataclass(frozen=True, kw_only=True)
class Frugal:
    """Least energy and lateness: jobs with slack wait for company on a node that is on, or for cheap
    hours; those without go as fast as their lateness is worth; value goes first when it is crowded.

    `margin`: part of its time by which a job is begun before its last moment; `carbon`: money that a kg
    of CO2 is counted as, beside the price of energy; `haste`: what an hour of a job without a deadline
    is worth when its power limit is chosen, in the energy that its GPUs draw without one.
    """

    holds_back: ClassVar[str] = (
        "it has time: it waits for company on the machine, or for a cheaper hour"
    )
    costs: Costs = Costs()
    predictor: Predictor = UserEstimate()
    place: Place = consolidated
    margin: float = 0.02
    carbon: float = 0.0
    haste: float = HASTE

    def __post_init__(self) -> None:
        if not self.margin >= 0:
            raise ValueError(f"margin={self.margin:g}: give a part of a job's time, such as 0.02")
        if not self.carbon >= 0:
            raise ValueError(f"carbon={self.carbon:g}: give money per kg of CO2, such as 0.1")
        if not self.haste >= 0:
            raise ValueError(
                f"haste={self.haste:g}: give 0 (energy alone counts) or more, such as 1"
            )

    @cached_property
    def books(self) -> BooksSpec:
        return BooksSpec(self.counted, self.predictor, self.haste)

    @cached_property
    def hours(self) -> Hourly | None:
        return signal(self.costs, self.carbon)

    @cached_property
    def counted(self) -> Costs:
        """The costs with carbon in the price, and with a nominal price for energy where it has none."""
        price = self.costs.price if self.hours is None else self.hours
        if price.constant and not price.mean:
            price = Hourly([NOMINAL], "price")
        return self.costs.priced(price)

    def decide(self, view: View) -> Sequence[Action]:
        notes = self.books.of(view).paces.notes()
        return [*notes, *self._decide(view)] if view.tracks else notes

    def _decide(self, view: View) -> Sequence[Action]:
        mark = view.room.mark()
        free_at: list[Seconds] = []  # when jobs that may not be moved now may be moved
        urgency = self._urgency(view)
        pressed = cache(partial(self._is_pressed, view, urgency))
        may_go = partial(self._has_settled_in, view, free_at, pressed)
        books, plan, wake = self.books.of(view), Plan(view, self.place), inf
        draft = ProblemDraft(view, books, True, may_go)
        if draft.about_to_end:
            return [Wake(view.now + 4 * SAME_TIME_S)]  # the job will have ended by then
        strange = self._strange_guests(view, urgency, may_go)
        decided: set[JobId] = set()
        if draft.others:
            pressing, patience = urgency.pressing(draft.others)
            wake = view.now + patience
            decided = make_room(plan, pressing, [*self._guests(view, draft), *strange])
            draft.leave_out(decided)
        apart = spread(plan, self._wide(view, draft), self._rates(view))
        if apart:
            decided |= apart
            draft.leave_out(apart)
        spots, patient, again = self._spots(view, draft)
        waiting = {i for i, track in enumerate(draft.tracks) if track.placement is None}
        left_out = waiting - spots.keys() - patient if strange else set()
        if left_out:  # perhaps for want of GPUs that a gang could give up
            urgent, _ = urgency.pressing([draft.tracks[i] for i in sorted(left_out)], keeps=False)
            left = [guest for guest in strange if guest.track.job.id not in decided]
            draft.leave_out(make_room(plan, urgent, left))
            spots, patient, again = self._spots(view, draft)
        actions = actions_of(draft, spots, plan, patient)
        view.room.rollback_to(mark)
        actions, sooner = self._or_cheaper(view, actions, may_go)
        wake = min([wake, again, sooner, *free_at])
        if self.hours is not None:
            wake = min(wake, self.hours.changes_after(view.now))
        return [*actions, Wake(wake)] if wake < inf else actions

    def _or_cheaper(
        self, view: View, own: Sequence[Action], may_go: Callable[[Track], bool]
    ) -> tuple[Sequence[Action], Seconds]:
        """The plan or, if a rival costs less in the end, that rival; and when to look again."""
        if not is_small(view):
            return own, inf
        books, rates, move = self.books.of(view), self._rates(view), self.costs.move
        cast = Cast(view, books, self.predictor, rates, self._due, may_go, self.margin, move)
        seats = cheaper(cast.scene, cast.seats_after(own))
        actions = None if seats is None else cast.actions_for(seats, self.place)
        if seats is None or actions is None:
            return own, inf
        return actions, cast.wake_for(seats)

    def _spots(self, view: View, draft: ProblemDraft) -> tuple[Assignment, set[int], Seconds]:
        """Where each job runs, the jobs that must not start though there might be room, and when to
        look again."""
        pools, rates = draft.problem.pools, self._rates(view)
        nodes, numbers = _seats(pools), [n for pool in pools for n in pool.nodes]
        tasks = self._tasks(draft, nodes, numbers, rates)
        seats, wake = decide(
            view.now,
            tasks,
            nodes,
            rates,
            margin=self.margin,
            move=self.costs.move,
            switch_on=self.costs.switch_on,
            inflow=self._tide(view).gpus(view.now),
            quotas=_quotas(view, draft),
            releases=self._releases(view, draft, numbers) if len(nodes) <= AT_STAKE else (),
        )
        spots = {i: Spot(tasks[i].ladder.ways[way], numbers[n]) for i, (way, n) in seats.items()}
        # With the margin, as for the wake-up: otherwise they would be looked at too late.
        soon = view.now + SAME_TIME_S
        patient = {
            i
            for i, task in enumerate(tasks)
            if soon + (1 + self.margin) * task.usual < task.deadline
        }
        return spots, patient, wake

    def _releases(
        self, view: View, draft: ProblemDraft, numbers: Sequence[int]
    ) -> list[GpusComingBack]:
        """When the jobs that the plan may not move are expected to end."""
        places = {n: place for place, n in enumerate(numbers)}
        movable = {track.job.id for track in draft.tracks}
        return [
            GpusComingBack(self._ends_at(view, track), places[n], mask.bit_count())
            for job_id, track in view.running.items()
            if job_id not in movable and track.placement is not None
            for n, mask in track.placement.slices
            if n in places
        ]

    def _ends_at(self, view: View, track: Track) -> Seconds:
        timed = track.job.options
        seconds = timed[0].seconds if timed else self.predictor.duration_s(track.job, view)
        return max(expected_end(track, seconds), view.now + BLINK_S)

    def _urgency(self, view: View) -> Urgency:
        paces = self.books.of(view).paces
        return Urgency(view, self.predictor, paces, self._rates(view), self._due, self.margin)

    def _wide(self, view: View, draft: ProblemDraft) -> Iterator[Wide]:
        """Waiting jobs without timings that are wider than some node."""
        if self.hours is not None:
            return  # they may be waiting for a cheap hour
        rates, paces = self._rates(view), self.books.of(view).paces
        least = min([p.width for p in view.room.pools if p.free > p.width], default=inf)
        if least >= max([p.width for p in view.room.pools], default=0):
            return  # each of them fits on one node of some pool
        for demand, track in zip(draft.problem.demands, draft.tracks, strict=True):
            job, shape, whole_s = track.job, track.shape, demand.menu.reference_s
            if demand.node >= 0 or job.options or shape.nodes or shape.gpus <= least:
                continue
            steps = ladder_of(demand.menu, rates)
            usual, share = steps.usual, steps.shares[steps.thrifty]
            slack = self._due(track, usual, max(steps.shares))[0] - view.now - usual * demand.left
            seconds = {
                p.index: whole_s
                / min(paces.of(job.model, p.kind, apart) for apart in (False, True))
                for p in view.room.eligible(shape)
                if p.width < shape.gpus <= p.free
            }
            most = usual + max(slack, 0.0) / demand.left
            soon = {pool: there for pool, there in seconds.items() if there <= most}
            yield Wide(track, slack, usual * share, soon)

    def _guests(self, view: View, draft: ProblemDraft) -> list[Guest]:
        rates = self._rates(view)
        guests = []
        for demand, track in zip(draft.problem.demands, draft.tracks, strict=True):
            if demand.node < 0:
                continue
            steps = ladder_of(demand.menu, rates)
            usual = steps.ways[steps.thrifty].seconds * demand.left
            deadline, late_per_s = self._due(track, usual, max(steps.shares))
            can_wait = deadline - view.now > usual * (1 + self.margin)
            worth = 0.0 if can_wait else KEEP * late_per_s / (demand.gpus * max(usual, BLINK_S))
            guests.append(Guest(track, {demand.node: demand.gpus}, worth))
        return guests

    def _strange_guests(
        self, view: View, urgency: Urgency, may_go: Callable[[Track], bool]
    ) -> list[Guest]:
        """Running jobs over several nodes, on shares or with CPU needs, if they can be stopped."""
        guests = []
        for track in view.running.values():
            placement = track.placement
            if placement is None or (track.shape.fits_one and len(placement.slices) == 1):
                continue
            if track.pinned or track.phase is STARTING or not may_go(track):
                continue
            own = urgency.of(track)
            worth = 0.0 if own.slack > 0 else KEEP * own.worth
            gpus = {n: view.room.usable_by_others(n, mask) for n, mask in placement.slices}
            guests.append(Guest(track, gpus, worth))
        return guests

    def _due(self, track: Track, usual: Seconds, dearest: float) -> tuple[Seconds, float]:
        """The deadline of a job, and the cost of a second after it; `dearest`: money for an hour of
        the job in its most expensive way. If energy is not known to cost anything, time is all there
        is: then a second of one job counts as much as a second of another, whatever its GPUs."""
        due, late_per_s = track.job.deadline, self.costs.late_per_s(track.job)
        if not self._knows_energy:
            dearest = 1.0
        if due is None:
            due = track.submitted_at + self._patience * usual
            return due, max(late_per_s, LAX * dearest / HOUR_S)
        return due, late_per_s or DUE * dearest / HOUR_S

    @cached_property
    def _patience(self) -> float:
        """If energy is not known to cost anything there is nothing to wait for."""
        return PATIENCE if self._knows_energy else 1.0

    @cached_property
    def _knows_energy(self) -> bool:
        return bool(self.costs.rates or self.costs.power)

    def _has_settled_in(
        self, view: View, free_at: list[Seconds], pressed: Callable[[], bool], track: Track
    ) -> bool:
        """May the job be moved? Only if its stint has paid for its interruption: so it is stopped
        at most as often as such stints fit into its time, and always makes progress in between. A
        stint pays sooner while lateness of a waiting job, or its own, costs money every second."""
        lost_s, worked_s = self._interruption_s(view, track), view.now - track.working_since
        least = least_stint_s(lost_s)
        if worked_s + SAME_TIME_S < least and (pressed() or self._will_be_late(view, track)):
            least = PAYS_PRESSED * lost_s
        if worked_s + SAME_TIME_S >= least:
            return True
        free_at.append(track.working_since + least)
        return False

    def _will_be_late(self, view: View, track: Track) -> bool:
        """Will it be late where it runs now, at a price?"""
        due = track.job.deadline
        if due is None or not self.costs.late_per_s(track.job):
            return False
        return self._ends_at(view, track) > due

    def _is_pressed(self, view: View, urgency: Urgency) -> bool:
        """Does a job wait that has no slack left and whose lateness has a price?"""
        return any(
            track.placement is None
            and self.costs.late_per_s(track.job) > 0
            and urgency.of(track).slack <= BLINK_S
            for track in view.tracks.values()
        )

    def _interruption_s(self, view: View, track: Track) -> Seconds:
        """The cost of stopping the job, as time of its GPUs; money for a move is converted by their
        energy."""
        lost_s, placement = track.save_s + track.restore_s, track.placement
        if not self.costs.move or placement is None:
            return lost_s
        kind = view.room.nodes[placement.slices[0].node].kind
        per_hour = self.counted.per_hour(kind, placement.gpus)
        return lost_s + (self.costs.move * HOUR_S / per_hour if per_hour else 0.0)

    def build(self, view: View) -> Tide:
        return Tide(self._work, view)

    def _tide(self, view: View) -> Tide:
        tide = view.index(self)
        assert isinstance(tide, Tide)
        return tide

    def _work(self, track: Track, view: View) -> float:
        """GPU-seconds of the job in its thriftiest way."""
        menu = self.books.of(view).menu(track)
        if menu is None:
            gpus = track.shape.gpus * track.shape.share / WHOLE_GPU
            return gpus * self.predictor.duration_s(track.job, view)
        steps = ladder_of(menu, self._rates(view))
        thrifty = steps.ways[steps.thrifty]
        return thrifty.gpus * thrifty.seconds

    def _rates(self, view: View) -> Rates:
        """At the usual price. If nothing is known to cost anything, GPU-hours do."""
        costs, pools = self.counted, view.room.pools
        rates = [
            tuple([costs.per_hour(pool.kind, busy) for busy in range(pool.width + 1)])
            for pool in pools
        ]
        if not any([any(rate) for rate in rates]) and not costs.power:
            rates = [tuple([float(busy) for busy in range(len(rate))]) for rate in rates]
        return same_rates(tuple(rates))

    def _tasks(
        self, draft: ProblemDraft, nodes: Sequence[Seats], numbers: Sequence[int], rates: Rates
    ) -> list[PlannedJob]:
        places = {n: place for place, n in enumerate(numbers)}
        hours = None if self.hours is None else PriceForecast(self.hours, draft.problem.now)
        tasks = []
        for demand, track in zip(draft.problem.demands, draft.tracks, strict=True):
            steps = ladder_of(demand.menu, rates)
            at = None
            if demand.node >= 0:
                at = _way_now(steps, demand, nodes[places[demand.node]]), places[demand.node]
            tasks.append(self._task(hours, demand, track, steps, at))
        return tasks

    def _task(
        self,
        hours: PriceForecast | None,
        demand: Demand,
        track: Track,
        steps: PriceLadder,
        at: tuple[int, int] | None,
    ) -> PlannedJob:
        deadline, late_per_s = self._due(track, steps.usual, max(steps.shares))
        restart = track.restore_s if track.resumed else 0.0
        tenant = track.shape.tenant
        task = PlannedJob(steps, demand.left, deadline, late_per_s, at, inf, False, restart, tenant)
        if hours is None:
            return task
        view = hours.outlook(deadline, task.usual * (1.0 + self.margin))
        # A running job goes on through a dear hour if stopping it costs more than the hour.
        hour = steps.shares[steps.thrifty] * min(task.usual, HOUR_S) / HOUR_S
        dear = view.dear and (at is None or view.excess * hour > self.costs.move)
        return task._replace(window=view.window, dear=dear)


def _way_now(steps: PriceLadder, demand: Demand, node: Seats) -> int:
    """The index of the job's present way; -1 if it is none of its ways."""
    for k, way in enumerate(steps.ways):
        if (way.pool, way.gpus, way.limit) == (node.pool, demand.gpus, demand.limit):
            return k
    return -1


def _seats(pools: Sequence[NodePool]) -> list[Seats]:
    return [
        Seats(number, free + kept, kept)
        for number, pool in enumerate(pools)
        for free, kept in zip(pool.free, pool.kept, strict=True)
    ]


def _quotas(view: View, draft: ProblemDraft) -> dict[str, float]:
    """By tenant, the GPUs that its jobs in the draft may have together."""
    room = view.room
    if not room.tenants:
        return {}
    left = {name: own.gpu_quota - room.held[name] for name, own in room.tenants.items()}
    for demand, track in zip(draft.problem.demands, draft.tracks, strict=True):
        if demand.node >= 0 and track.shape.tenant in left:
            left[track.shape.tenant] += demand.gpus
    return left
