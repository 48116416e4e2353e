"""Our own policy for energy and lateness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import inf
from typing import Final

from dovetail.core.entries import Action, Wake
from dovetail.core.model import WHOLE_GPU, Seconds
from dovetail.core.plan import Place
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.models.cost import Costs
from dovetail.models.hourly import HOUR_S, Hourly
from dovetail.models.power import HASTE
from dovetail.policies.andreas.drafting import SAME_TIME_S, BooksSpec, Draft, actions_of
from dovetail.policies.andreas.problem import Demand, NodePool, Spot
from dovetail.policies.frugal.draft import Task
from dovetail.policies.frugal.floor import Seats
from dovetail.policies.frugal.hours import Forecast, signal
from dovetail.policies.frugal.ladder import Ladder, Rates, ladder
from dovetail.policies.frugal.plan import decide
from dovetail.policies.frugal.tide import Tide
from dovetail.policies.placement import consolidated
from dovetail.predict.duration import Predictor, UserEstimate

NOMINAL: Final = 0.1  # money per kWh, where energy costs nothing: less of it is still better
DUE: Final = 10.0  # an hour late without a price counts as so many of the job's dearest way
import os
PAYS: Final = float(os.environ.get("PAYS", "20"))
PATIENCE: Final = 2.0  # a job without a deadline is to end within so many times what it takes


@dataclass(frozen=True, kw_only=True)
class Frugal:
    """Least energy and lateness: jobs with slack wait for company on a node that is on, or for cheap
    hours; those without go as fast as their lateness is worth; value goes first when it is crowded.

    `margin`: part of its time by which a job is begun before its last moment;
    `carbon`: money that a kg of CO2 is counted as, beside the price of energy;
    `haste`: what an hour of a job without a deadline is worth when its power limit is chosen, in the
    energy that its GPUs draw without one.
    """

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
        """The costs with carbon in the price, and with a price for energy where it has none."""
        price = self.costs.price if self.hours is None else self.hours
        if price.constant and not price.mean:
            price = Hourly([NOMINAL], "price")
        return self.costs.priced(price)

    def decide(self, view: View) -> Sequence[Action]:
        if not view.tracks:
            return []
        held: list[Seconds] = []
        draft = Draft(view, self.books.of(view), True, partial(self._has_settled_in, view, held))
        if draft.about_to_end:
            return [Wake(view.now + 4 * SAME_TIME_S)]  # it will be out of the way by then
        pools = draft.problem.pools
        nodes, numbers = _seats(pools), [n for pool in pools for n in pool.nodes]
        rates = self._rates(view)
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
        )
        spots = {i: Spot(tasks[i].ladder.ways[way], numbers[n]) for i, (way, n) in seats.items()}
        # As early as it is woken for them: by the margin, or nobody would look at them again.
        soon = view.now + SAME_TIME_S
        patient = [
            i
            for i, task in enumerate(tasks)
            if soon + (1 + self.margin) * task.usual < task.deadline
        ]
        actions = actions_of(view, draft, spots, self.place, set(patient))
        if held:
            wake = min(wake, *held)
        if self.hours is not None:
            wake = min(wake, self.hours.changes_after(view.now))
        return [*actions, Wake(wake)] if wake < inf else actions

    def _has_settled_in(self, view: View, held: list[Seconds], track: Track) -> bool:
        """May it be moved? Its stint must have been worth its interruption."""
        cost = track.job.interruption
        least = PAYS * (cost.save_s + track.restore_s)
        until = track.working_since + least
        if view.now + SAME_TIME_S >= until:
            return True
        held.append(until)
        return False

    def build(self, view: View) -> Tide:
        return Tide(self._work, view)

    def _tide(self, view: View) -> Tide:
        tide = view.index(self)
        assert isinstance(tide, Tide)
        return tide

    def _work(self, track: Track, view: View) -> float:
        """GPU-seconds in its thriftiest way."""
        menu = self.books.of(view).menu(track)
        if menu is None:
            return track.shape.gpus * track.shape.share / WHOLE_GPU * self.predictor.duration_s(track.job, view)
        steps = ladder(menu.ways, self._rates(view))
        thrifty = steps.ways[steps.thrifty]
        return thrifty.gpus * thrifty.seconds

    def _rates(self, view: View) -> Rates:
        """At the usual price. Where nothing is known to cost anything, GPU-hours do."""
        costs, pools = self.counted, view.room.pools
        rates = [
            tuple([costs.per_hour(pool.kind, busy) for busy in range(pool.width + 1)])
            for pool in pools
        ]
        if not any([any(rate) for rate in rates]) and not costs.power:
            return tuple([tuple([float(busy) for busy in range(len(rate))]) for rate in rates])
        return tuple(rates)

    def _tasks(
        self, draft: Draft, nodes: Sequence[Seats], numbers: Sequence[int], rates: Rates
    ) -> list[Task]:
        places = {n: place for place, n in enumerate(numbers)}
        hours = None if self.hours is None else Forecast(self.hours, draft.problem.now)
        tasks = []
        for demand, track in zip(draft.problem.demands, draft.tracks, strict=True):
            steps = ladder(demand.menu.ways, rates)
            at = None
            if demand.node >= 0:
                at = _way_now(steps, demand, nodes[places[demand.node]]), places[demand.node]
            tasks.append(self._task(hours, demand, track, steps, at))
        return tasks

    def _task(
        self,
        hours: Forecast | None,
        demand: Demand,
        track: Track,
        steps: Ladder,
        at: tuple[int, int] | None,
    ) -> Task:
        deadline, usual = demand.deadline, steps.ways[steps.thrifty].seconds
        late_per_s = demand.late_per_s
        if deadline == inf:
            deadline = track.submitted_at + PATIENCE * usual
        elif not late_per_s:
            late_per_s = DUE * max(steps.shares) / HOUR_S
        restart = track.restore_s if track.resumed else 0.0
        task = Task(steps, demand.left, deadline, late_per_s, at, restart=restart)
        if hours is None:
            return task
        view = hours.outlook(deadline, task.usual * (1.0 + self.margin))
        # Whoever runs goes on through a dear hour if stopping it costs more than the hour.
        hour = steps.shares[steps.thrifty] * min(task.usual, HOUR_S) / HOUR_S
        dear = view.dear and (at is None or view.excess * hour > self.costs.move)
        return replace(task, window=view.window, dear=dear, cheaper=view.cheaper)


def _way_now(steps: Ladder, demand: Demand, node: Seats) -> int:
    """Which of its ways the job has now; -1 if it is none of them."""
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
