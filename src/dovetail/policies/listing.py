"""List schedulers turn an order into a plan. Most policies of the literature are a key for one.

Behind a job that does not fit, all are blocked (`LineScheduler`), or it is skipped (`ListScheduler`).
Two more questions are answered by parameters: may a waiting job preempt a running one (and by how much
must it be better), and when to look again (when a running job's standing changes while others wait).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify
from math import inf
from typing import Final, final

from dovetail.core.entries import Action, Wake
from dovetail.core.freed import Freed, FreedHosts
from dovetail.core.line import Line, LineBy
from dovetail.core.model import WHOLE_GPU, Shape
from dovetail.core.orders import Key, KeyOrder, OrderBy, RunningRow, WaitingRow, heappop, heappush
from dovetail.core.plan import Place, Plan
from dovetail.core.room import Pool
from dovetail.core.track import Track
from dovetail.core.view import View

_AHEAD_OF_ALL_WAITING = 1e15  # more than there will ever be tickets


@final
class LineScheduler:
    """Start jobs in the order of a key; one that does not fit blocks all behind it."""

    strict = True

    def __init__(self, key: Key, place: Place) -> None:
        self._spec: Final = LineBy(key)
        self._place: Final = place
        self._seen: View | None = None
        self._line: Line | None = None

    def decide(self, view: View) -> Iterable[Action]:
        if not view.waiting_count:
            return ()
        line = self._line
        if view is not self._seen or line is None:
            line = self._line_in(view)
        first = line.first()
        return () if first is None else line.starts(first, self._place)

    @property
    def key(self) -> Key:
        """What decides who goes first."""
        return self._spec.key

    def line(self, view: View) -> list[WaitingRow]:
        """The waiting in no order yet, some of them more than once: rows with an old turn are stale."""
        return self._line_in(view).places()

    def _line_in(self, view: View) -> Line:
        """The view's line for our key, looked up once per view and not at every decision."""
        line = view.index(self._spec)
        assert isinstance(line, Line)
        self._seen, self._line = view, line
        return line


@final
class ListScheduler:
    """Start jobs in the order of a key, skipping those that do not fit.

    preemptive: running jobs that stand behind a waiting one give way to it ...
    gain: ... if their key is larger by more than this;
    running_first: at equal keys the running job stays (otherwise the tie-breaker decides);
    pairs: jobs may share GPUs that they asked for alone, and only together do they free them.
    """

    strict = False

    def __init__(
        self,
        key: Key,
        place: Place,
        *,
        preemptive: bool = False,
        gain: float = 0.0,
        running_first: bool = False,
        pairs: bool = False,
    ) -> None:
        self._spec: Final = OrderBy(key, preemptive=preemptive)
        self._queued: Final = bool(getattr(key, "queued", False))
        self._place: Final = place
        self._preemptive: Final = preemptive
        self._gain: Final = gain
        self._running_first: Final = running_first
        self._pairs: Final = pairs
        self._rising: Final = bool(getattr(key, "rising", False))
        self._steady: Final = not preemptive or bool(getattr(key, "steady", False))
        self._seen: View | None = None
        self._order: KeyOrder | None = None

    def decide(self, view: View) -> Sequence[Action]:
        if not view.waiting_count and not self._queued:
            return ()
        order = self._order
        if view is not self._seen or order is None:
            order = self._order_in(view)
        plan = Plan(view, self._place)
        may_preempt = self._preemptive
        if may_preempt:
            order.refresh()  # even if nobody waits: queues are joined at the time, not afterwards
        heads = order.heads()
        heapify(heads)
        room = view.room
        while heads:
            row = heappop(heads)
            track = row[3]
            if track.placement is not None:
                self._keep_or_move(plan, track)
                continue
            shape = track.shape
            if (shape.plain and shape.gpus > room.most_free()) or not plan.start(track):
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
        if self._steady:
            return plan.actions
        return self._with_wake(view, order, plan)

    @property
    def key(self) -> Key:
        """What decides who goes first."""
        return self._spec.key

    def line(self, view: View) -> list[WaitingRow]:
        """The waiting in no order yet, some of them more than once: rows with an old turn are stale."""
        return self._order_in(view).rows()

    def _order_in(self, view: View) -> KeyOrder:
        """The view's order for our key, looked up once per view and not at every decision."""
        order = view.index(self._spec)
        assert isinstance(order, KeyOrder)
        self._seen, self._order = view, order
        return order

    def _could_preempt(self, view: View, order: KeyOrder, row: WaitingRow) -> bool:
        """Does any running job at all stand behind this one?"""
        for pool in view.room.pools:
            if self._worst_that_gives_way(view, order, pool, row) is not None:
                return True
        return False

    def _keep_or_move(self, plan: Plan, track: Track) -> None:
        """A job stopped for a better one stays where it is if it can, or goes on elsewhere."""
        if not plan.keep(track):
            plan.start(track)

    def _start_by_preempting(
        self, view: View, plan: Plan, order: KeyOrder, heads: list[WaitingRow], row: WaitingRow
    ) -> bool:
        """Make room by stopping running jobs that stand behind this one, the worst first."""
        if view.room.tenants and not view.room.within_quota(row[3].shape):
            return False
        for pool in view.room.eligible(row[3].shape):
            stopped = self._take_over(view, plan, order, pool, row)
            if stopped:
                for victim in stopped:
                    key = victim[5] * view.now - victim[0]
                    heappush(heads, (key, self._tie_of(victim), victim[3], victim[4]))
                return True
        return False

    def _take_over(
        self, view: View, plan: Plan, order: KeyOrder, pool: Pool, row: WaitingRow
    ) -> list[RunningRow]:
        """Start the job on GPUs of the worst running ones; those that were stopped, none if in vain.

        Stopped ones line up again with everybody else: what is left may be enough for them.
        """
        shape = row[3].shape
        # Where all is whole GPUs, counting is enough; else what a stop frees has to be tried out.
        if shape.plain and (self._pairs or not view.room.shares):
            return self._take_over_counted(view, plan, order, pool, row)
        in_vain = plan.in_vain.setdefault(pool.index, [])
        if any([_asks_no_less(shape, other) for other in in_vain]):
            # One that stands before this one, and asks for no more, has looked in vain.
            if self._worst_that_gives_way(view, order, pool, row) is not None:
                plan.was_in_vain()
            return []
        found = self._take_over_tried(view, plan, order, pool, row)
        if not found:
            in_vain.append(shape)
        return found

    def _take_over_tried(
        self, view: View, plan: Plan, order: KeyOrder, pool: Pool, row: WaitingRow
    ) -> list[RunningRow]:
        """Stop one after the other until there is a place; not before there may be one."""
        track, found, stopped = row[3], list[RunningRow](), 0
        shape, whole = track.shape, not view.room.shares and track.shape.gpus > 0
        hosts = FreedHosts(view.room, pool, shape) if whole else None
        while (worst := self._next_victim(view, order, pool, row)) is not None:
            found.append(worst)
            if hosts is not None:
                hosts.add(worst[4])
            if hosts is None or hosts.gpus >= shape.gpus:
                for victim in found[stopped:]:
                    plan.stop(victim[4])
                stopped = len(found)
                placement = plan.place(track)
                if placement is not None:
                    plan.start_at(track, placement)
                    return found
            plan.was_in_vain()
        for victim in found[:stopped]:
            plan.keep(victim[4])
        order.take_back(len(found))
        return []

    def _take_over_counted(
        self, view: View, plan: Plan, order: KeyOrder, pool: Pool, row: WaitingRow
    ) -> list[RunningRow]:
        """Stop those that are needed once so many would be free that there may be a place."""
        track = row[3]
        wanted, promised = track.shape.gpus, float(pool.free)
        if wanted > plan.within_reach.get(pool.index, inf):
            return []  # another that stands before this one has looked in vain for no more
        freed = Freed(view.room)
        found: list[RunningRow] = []
        while (worst := self._next_victim(view, order, pool, row)) is not None:
            found.append(worst)
            promised += freed.add(worst[4])
            if promised < wanted:
                continue
            needed = _needed(found, promised - wanted, freed)
            for victim in needed:
                plan.stop(victim[4])
            placement = plan.place(track)
            if placement is not None:
                plan.start_at(track, placement)
                if len(needed) < len(found):
                    order.take_back(len(found), {victim[4] for victim in needed})
                return needed
            for victim in needed:
                plan.keep(victim[4])
        order.take_back(len(found))
        plan.within_reach[pool.index] = promised
        return []

    def _next_victim(
        self, view: View, order: KeyOrder, pool: Pool, row: WaitingRow
    ) -> RunningRow | None:
        """The worst running job if it gives way to this one; it is set aside."""
        worst = self._worst_that_gives_way(view, order, pool, row)
        if worst is not None:
            order.lend(pool, worst)
        return worst

    def _worst_that_gives_way(
        self, view: View, order: KeyOrder, pool: Pool, row: WaitingRow
    ) -> RunningRow | None:
        worst = order.worst(pool)
        if worst is None or not self._gives_way(worst[5] * view.now - worst[0], worst, row):
            return None
        return worst

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

    def _with_wake(self, view: View, order: KeyOrder, plan: Plan) -> Sequence[Action]:
        """Look again when a standing changes, if anyone will be waiting then."""
        if view.waiting_count + plan.net_stops <= 0:
            return plan.actions
        now, at = view.now, order.next_change()
        for track in plan.started:
            at = min(at, now + self._spec.key.lasts(track, view))
        if self._rising:
            # What has just been decided changes who may pass whom: look at it once it is done.
            at = now if plan.actions else min(at, order.next_crossing(self._gain))
        return [*plan.actions, Wake(at)] if at < inf else plan.actions


def _asks_no_less(shape: Shape, other: Shape) -> bool:
    """Is there no place for the first wherever there is none for the other?"""
    if other.share != WHOLE_GPU or not other.gpus:
        return False
    part = shape.gpus / other.gpus
    return (
        shape.share == WHOLE_GPU
        and part >= 1.0
        and shape.cpus >= other.cpus * part
        and shape.memory_gb >= other.memory_gb * part
    )


def _needed(found: list[RunningRow], surplus: float, freed: Freed) -> list[RunningRow]:
    """Of the worst running jobs those whose GPUs are really needed: the better of them are spared
    first, as long as enough remains."""
    if len(found) == 1 or (surplus <= 0 and not freed.some_shared):
        return found
    needed = [found[-1]]
    for row in reversed(found[:-1]):
        lost = freed.loses(row[4])
        if lost <= surplus:
            surplus -= lost
            freed.remove(row[4])
        else:
            needed.append(row)
    return needed
