"""The list scheduler: turns an order into a plan. Most policies of the literature are a key for it.

Three questions are answered by parameters: what happens behind a job that does not fit (it blocks, or
it is skipped), may a waiting job preempt a running one (and by how much must it be better), and when
to look again (when a running job's standing changes while others wait).
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from math import inf
from typing import Final, final

from dovetail.core.entries import Action, Start, Wake
from dovetail.core.orders import Key, Order, OrderBy, RunningRow, WaitingRow
from dovetail.core.plan import Place, Plan
from dovetail.core.room import Pool
from dovetail.core.state import View
from dovetail.core.track import Track

_AHEAD_OF_ALL_WAITING = 1e15  # more than there will ever be tickets


@final
class ListScheduler:
    """Start jobs in the order of a key.

    strict: a job that does not fit blocks all behind it; otherwise it is skipped.
    preemptive: running jobs that stand behind a waiting one give way to it ...
    gain: ... if their key is larger by more than this;
    running_first: at equal keys the running job stays (otherwise the tie-breaker decides).
    patience_s: look again after that time while jobs wait, for keys that change as time passes.
    """

    def __init__(
        self,
        key: Key,
        place: Place,
        *,
        strict: bool = False,
        preemptive: bool = False,
        gain: float = 0.0,
        running_first: bool = False,
        patience_s: float = inf,
    ) -> None:
        self._spec: Final = OrderBy(key, lanes=not strict, preemptive=preemptive)
        self._queued: Final = key.queued
        self._place: Final = place
        self._strict: Final = strict
        self._preemptive: Final = preemptive
        self._gain: Final = gain
        self._running_first: Final = running_first
        self._patience_s: Final = patience_s
        self._seen: View | None = None
        self._order: Order | None = None

    def decide(self, view: View) -> Sequence[Action]:
        if not view.waiting_count and not self._queued:
            return ()
        order = self._order
        if view is not self._seen or order is None:
            order = self._order_in(view)
        if self._strict:
            return self._start_in_line(view, order)
        plan = Plan(view, self._place)
        may_preempt = self._preemptive
        if may_preempt:
            order.refresh()  # even if nobody waits: queues are joined at the time, not afterwards
        heads = order.heads()
        heapify(heads)
        while heads:
            row = heappop(heads)
            track = row[3]
            if track.placement is not None:
                self._keep_or_move(plan, track)
                continue
            if not plan.start(track):
                if not may_preempt:
                    continue
                if not self._could_preempt(view, order, row):
                    may_preempt = False  # nor could any that stands behind this one
                    continue
                if not self._start_by_preempting(view, plan, order, heads, row):
                    continue
            following = order.pass_over(track)
            if following is not None:
                heappush(heads, following)
        if not self._preemptive:
            return plan.actions
        return self._with_wake(view, order, plan)

    def _order_in(self, view: View) -> Order:
        """The view's order for our key, looked up once per view and not at every decision."""
        order = view.index(self._spec)
        assert isinstance(order, Order)
        self._seen, self._order = view, order
        return order

    def _start_in_line(self, view: View, order: Order) -> Sequence[Action]:
        """One after the other, until one does not fit. (A plan would be more than this needs.)"""
        starts: list[Action] = []
        room, row = view.room, order.first()
        while row is not None:
            track = row[3]
            placement = self._place(room, track.shape)
            if placement is None:
                break
            room.draft_take(placement, track.shape)
            starts.append(Start(track.job.id, placement))
            row = order.pass_over(track)
        return starts

    def _could_preempt(self, view: View, order: Order, row: WaitingRow) -> bool:
        """Does any running job at all stand behind this one?"""
        for pool in view.room.pools:
            worst = order.worst(pool)
            if worst is not None and self._gives_way(worst[5] * view.now - worst[0], worst, row):
                return True
        return False

    def _keep_or_move(self, plan: Plan, track: Track) -> None:
        """A job stopped for a better one stays where it is if it can, or goes on elsewhere."""
        if not plan.keep(track):
            plan.start(track)

    def _start_by_preempting(
        self, view: View, plan: Plan, order: Order, heads: list[WaitingRow], row: WaitingRow
    ) -> bool:
        """Make room by stopping running jobs that stand behind this one, the worst first."""
        track = row[3]
        if view.room.tenants and not view.room.within_quota(track.shape):
            return False
        for pool in view.room.eligible(track.shape):
            victims = self._victims(view, plan, order, pool, row)
            if victims:
                self._take_over(view, plan, track, victims)
                for key, victim in victims:
                    heappush(heads, (key, self._tie_of(victim), victim[3], victim[4]))
                return True
        return False

    def _victims(
        self, view: View, plan: Plan, order: Order, pool: Pool, row: WaitingRow
    ) -> list[tuple[float, RunningRow]]:
        """The worst running jobs whose GPUs would let this one start, stopped; none if in vain."""
        track, now = row[3], view.now
        plain, wanted, promised = track.shape.plain, track.shape.gpus, float(pool.free)
        found: list[tuple[float, RunningRow]] = []
        stopped = 0
        while True:
            worst = order.worst(pool)
            if worst is None:
                break
            key = worst[5] * now - worst[0]
            if not self._gives_way(key, worst, row):
                break
            order.lend(pool, worst)
            found.append((key, worst))
            promised += worst[4].holds
            if plain and promised < wanted:
                continue
            while stopped < len(found):
                plan.stop(found[stopped][1][4])
                stopped += 1
            if plan.place(track) is not None:
                return found
        for _, victim in found[:stopped]:
            plan.keep(victim[4])
        order.take_back(len(found))
        return []

    def _gives_way(self, key: float, running: RunningRow, waiting: WaitingRow) -> bool:
        edge = waiting[0] + self._gain
        if key != edge or self._running_first:
            return key > edge
        return -running[1] > waiting[1]

    def _tie_of(self, running: RunningRow) -> float:
        """Where a running job stands among waiting ones of the same key."""
        if self._running_first:
            return -running[2] - _AHEAD_OF_ALL_WAITING
        return running[4].sequence

    def _take_over(
        self, view: View, plan: Plan, track: Track, victims: list[tuple[float, RunningRow]]
    ) -> None:
        """Start the job on the GPUs of as few and as bad victims as possible.

        Those it can do without hold on to their place while it is chosen, and then line up again
        with everybody else: a waiting job between them may have the better claim.
        """
        spared = []
        for _, victim in reversed(victims[:-1]):
            if plan.keep(victim[4]):
                if plan.place(track) is None:
                    plan.stop(victim[4])
                else:
                    spared.append(victim[4])
        started = plan.start(track)
        assert started
        for victim_track in spared:
            plan.stop(victim_track)

    def _with_wake(self, view: View, order: Order, plan: Plan) -> Sequence[Action]:
        """Look again when a standing changes, if anyone will be waiting then."""
        if view.waiting_count + plan.net_stops <= 0:
            return plan.actions
        now = view.now
        at = min(order.next_change(), now + self._patience_s)
        for track in plan.started:
            at = min(at, now + self._spec.key.lasts(track, view))
        return [*plan.actions, Wake(at)] if at < inf else plan.actions
