"""List schedulers turn an order into a plan. Most policies of the literature are a key for one.

Behind a job that does not fit, all are blocked (`LineScheduler`), or it is skipped (`ListScheduler`).
Two more questions are answered by parameters: may a waiting job preempt a running one (and by how much
must it be better), and when to look again (when a running job's standing changes while others wait).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify
from math import inf
from typing import Final, TypeAlias, final

from dovetail.core.entries import Action, Preempt, Start, Wake
from dovetail.core.freed import Freed, FreedHosts
from dovetail.core.line import Line, LineBy
from dovetail.core.model import Seconds
from dovetail.core.orders import (
    Key,
    KeyOrder,
    OrderBy,
    RunningRow,
    WaitingRow,
    heappop,
    heappush,
)
from dovetail.core.plan import Place, Plan
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.policies.victims import Victims, is_on, place_in_order, really_needed

AT_ONCE: Final = 256  # jobs that a decision starts at most

# key, then what `RunningRow` begins with the other way round (who is stopped last goes first), track
StoppedRow: TypeAlias = tuple[float, float, float, int, Track]


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
        if first is None:
            return ()
        if view.waiting_count > 1:
            return line.starts(first, self._place)
        placement = self._place(view.room, first.shape)
        return () if placement is None else (Start(first.job.id, placement),)

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
    pairs: jobs may share GPUs that they asked for alone, and only together do they free them;
    at_once: a decision starts so many jobs at most, and the next one follows at the same instant:
    where thousands of slices end together, others who want something of the loop get their turn.
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
        at_once: int = AT_ONCE,
    ) -> None:
        self._spec: Final = OrderBy(key, preemptive=preemptive)
        self._queued: Final = bool(getattr(key, "queued", False))
        self._place: Final = place
        self._preemptive: Final = preemptive
        self._gain: Final = gain
        self._running_first: Final = running_first
        self._pairs: Final = pairs
        self._at_once: Final = at_once
        self._rising: Final = bool(getattr(key, "rising", False))
        self._steady: Final = not preemptive or bool(getattr(key, "steady", False))
        self._seen: View | None = None
        self._order: KeyOrder | None = None
        self._plan: Plan | None = None
        self._stopped: Final[list[RunningRow]] = []  # in this decision
        # Of these, where the running go first: who may stay or move after all, before waiting ones of
        # the same key.
        self._again: Final[list[StoppedRow]] = []

    def decide(self, view: View) -> Sequence[Action]:
        if not view.waiting_count and not self._queued:
            return ()
        order = self._order
        if view is not self._seen or order is None:
            order = self._order_in(view)
        plan = self._plan
        if plan is None:
            plan = self._plan = Plan(view, self._place)
        else:
            plan.begin_anew()
        victims: list[Victims] = []
        if self._running_first:
            self._stopped.clear()
            self._again.clear()
        if not self._steady:
            order.refresh()  # even if nobody waits: queues are joined at the time, not afterwards
        is_whole = self._fill(view, plan, order, victims)
        if self._steady:
            return plan.actions if is_whole else [*plan.actions, Wake(view.now)]
        for some in victims:
            some.give_back()
        actions = self._with_wake(view, order, plan, is_whole)
        return [*order.notes(), *self._worst_first(actions)] if self._queued else actions

    def _fill(self, view: View, plan: Plan, order: KeyOrder, victims: list[Victims]) -> bool:
        """Give the GPUs to those that go first. False: only to so many of them yet."""
        heads, again, room = order.heads(), self._again, view.room
        heapify(heads)
        may_preempt, started, at_once = self._preemptive, plan.started, self._at_once
        while heads or again:
            if again and (not heads or again[0][0] <= heads[0][0]):
                self._keep_or_move(plan, heappop(again)[4])
                continue
            row = heappop(heads)
            track = row[3]
            if track.placement is not None:
                self._keep_or_move(plan, track)
                continue
            shape, sole = track.shape, room.sole
            free = room.most_free() if sole is None else sole.free
            if (shape.plain and shape.gpus > free) or not plan.start(track):
                if not may_preempt:
                    continue
                if not victims:
                    victims.extend([Victims(order, room, pool) for pool in room.pools])
                if not self._could_preempt(view, victims, row):
                    may_preempt = False  # nor could any that stands behind this one
                    continue
                if not self._start_by_preempting(view, plan, victims, heads, row):
                    continue
            following = order.pass_over(track)
            if following is not None:
                heappush(heads, following)
            if len(started) >= at_once:
                self._keep_stopped(plan, heads)
                return False
        return True

    def _keep_stopped(self, plan: Plan, heads: list[WaitingRow]) -> None:
        """The rest is decided once this is done: who can stay meanwhile does, and moves nowhere."""
        for _, _, _, _, track in sorted(self._again):
            plan.keep(track)
        for _, _, _, track in sorted(heads):
            if track.placement is not None:
                plan.keep(track)

    def _worst_first(self, actions: Sequence[Action]) -> Sequence[Action]:
        """Who is stopped last stands before the others in its queue afterwards."""
        rank = {row[4].job.id: number for number, row in enumerate(sorted(self._stopped))}
        stops = [action for action in actions if isinstance(action, Preempt)]
        sorted_stops = sorted(stops, key=lambda stop: rank[stop.job_id])
        if stops == sorted_stops:
            return actions
        return [*sorted_stops, *[one for one in actions if not isinstance(one, Preempt)]]

    @property
    def key(self) -> Key:
        """What decides who goes first."""
        return self._spec.key

    def notes(self, view: View) -> list[Action]:
        """Of jobs that have just sunk into another queue, where nothing else is decided."""
        order = self._order_in(view)
        order.refresh()
        return order.notes()

    def line(self, view: View) -> list[WaitingRow]:
        """The waiting in no order yet, some of them more than once: rows with an old turn are stale."""
        return self._order_in(view).rows()

    def _order_in(self, view: View) -> KeyOrder:
        """The view's order for our key, looked up once per view and not at every decision."""
        order = view.index(self._spec)
        assert isinstance(order, KeyOrder)
        if view is not self._seen:
            self._plan = None
        self._seen, self._order = view, order
        return order

    def _could_preempt(self, view: View, victims: Sequence[Victims], row: WaitingRow) -> bool:
        """Does any running job at all stand behind this one?"""
        for some in victims:
            if self._victim(view, some, row, 0) is not None:
                return True
        return False

    def _keep_or_move(self, plan: Plan, track: Track) -> None:
        """A job stopped for a better one stays where it is if it can, or goes on elsewhere."""
        if not plan.keep(track):
            plan.start(track)

    def _start_by_preempting(
        self,
        view: View,
        plan: Plan,
        victims: Sequence[Victims],
        heads: list[WaitingRow],
        row: WaitingRow,
    ) -> bool:
        """Make room by stopping running jobs that stand behind this one, the worst first."""
        if view.room.tenants and not view.room.within_quota(row[3].shape):
            return False
        for pool in view.room.eligible(row[3].shape):
            stopped = self._take_over(view, plan, victims[pool.index], row)
            if stopped:
                for victim in stopped:
                    self._line_up_again(heads, victim, view.now)
                return True
        return False

    def _line_up_again(self, heads: list[WaitingRow], victim: RunningRow, now: Seconds) -> None:
        """Those that stand before it are stopped after it."""
        key, track = victim[5] * now - victim[0], victim[4]
        if self._running_first:
            self._stopped.append(victim)
            heappush(self._again, (key, -victim[0], -victim[1], -victim[2], track))
        else:
            heappush(heads, (key, track.sequence, victim[3], track))

    def _take_over(
        self, view: View, plan: Plan, victims: Victims, row: WaitingRow
    ) -> list[RunningRow]:
        """Start the job on GPUs of the worst running ones; those that were stopped, none if in vain.

        Stopped ones line up again with everybody else: what is left may be enough for them.
        """
        shape = row[3].shape
        # Where all is whole GPUs, counting is enough; else what a stop frees has to be tried out.
        if shape.plain and (self._pairs or not view.room.shares):
            found = self._take_over_counted(view, plan, victims, row)
        elif self._is_in_vain(view, victims, row):
            if self._victim(view, victims, row, 0) is not None:
                plan.was_in_vain()
            return []
        else:
            found = self._take_over_tried(view, plan, victims, row)
            if not found:
                victims.in_vain.append(shape)
        if found:
            victims.take(found)
        return found

    def _is_in_vain(self, view: View, victims: Victims, row: WaitingRow) -> bool:
        """Is it known that no stops make room for this one?"""
        room, shape = view.room, row[3].shape
        if victims.is_in_vain(shape):
            return True
        if room.shares or not shape.gpus:
            return False
        if not self._knows_all(view, victims, row) or victims.may_make_room(shape):
            return False
        victims.in_vain.append(shape)
        return True

    def _knows_all(self, view: View, victims: Victims, row: WaitingRow) -> bool:
        """Have all been looked up that give way to this one? Who comes later has no more of them."""
        while (last := victims.last) is not None and not self._gives_way(last, row, view.now):
            victims.spare_last()
        return self._victim(view, victims, row, victims.known) is None

    def _take_over_tried(
        self, view: View, plan: Plan, victims: Victims, row: WaitingRow
    ) -> list[RunningRow]:
        """Stop one after the other until there is a place; not before there may be one."""
        track, found, stopped, number = row[3], list[RunningRow](), 0, 0
        shape, whole = track.shape, not view.room.shares and track.shape.gpus > 0
        hosts = FreedHosts(view.room, victims.pool, shape) if whole else None
        while (worst := self._victim(view, victims, row, number)) is not None:
            number += 1
            if shape.home and not is_on(worst[4], shape.home):
                continue
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
        return []

    def _take_over_counted(
        self, view: View, plan: Plan, victims: Victims, row: WaitingRow
    ) -> list[RunningRow]:
        """Stop those that are needed once so many would be free that there may be a place."""
        wanted = row[3].shape.gpus
        if wanted > victims.within_reach:
            return []  # another that stands before this one has looked in vain for no more
        if view.room.shares:
            return self._take_over_together(view, plan, victims, row)
        found: list[RunningRow] = []  # a call of `list[RunningRow]` takes ten times as long
        promised, number = float(victims.pool.free), 0
        while (worst := self._victim(view, victims, row, number)) is not None:
            number += 1
            found.append(worst)
            placement = worst[4].placement
            assert placement is not None
            promised += placement.holds
            if promised >= wanted:
                surplus, needed = promised - wanted, found
                if surplus > 0 and number > 1:
                    needed = really_needed(found, surplus, Freed(view.room))
                if _starts_instead(plan, row[3], needed):
                    return needed
        victims.within_reach = promised
        return []

    def _take_over_together(
        self, view: View, plan: Plan, victims: Victims, row: WaitingRow
    ) -> list[RunningRow]:
        """The same where some share GPUs: only together do these free them."""
        wanted, promised = row[3].shape.gpus, float(victims.pool.free)
        freed, found, number = Freed(view.room), list[RunningRow](), 0
        while (together := self._next_together(view, victims, row, number)) is not None:
            number += 1
            for victim in together:
                if victim not in found:
                    found.append(victim)
                    promised += freed.add(victim[4])
            if promised < wanted:
                continue
            found.sort(key=lambda victim: place_in_order(victim, view.now))
            surplus, needed = promised - wanted, found
            if len(found) > 1 and (surplus > 0 or victims.shares_before(found[-1], view.now)):
                needed = really_needed(found, surplus, freed)
            if _starts_instead(plan, row[3], needed):
                return needed
        victims.within_reach = promised
        return []

    def _next_together(
        self, view: View, victims: Victims, row: WaitingRow, number: int
    ) -> list[RunningRow] | None:
        """The next running jobs that give way to this one and free GPUs together; most do alone."""
        while (bundle := victims.bundle(number)) is None:
            following = victims.next_in_bundles()
            if following is None or not self._gives_way(following, row, view.now):
                return None
            victims.look_at_next()
        return bundle if self._gives_way(bundle[-1], row, view.now) else None

    def _victim(
        self, view: View, victims: Victims, row: WaitingRow, place: int
    ) -> RunningRow | None:
        """The running job at that place, if it gives way to this one."""
        worst = victims.at(place)
        if worst is None:
            return None
        # As in `_gives_way`, written out: it is asked for several times a decision.
        key, edge = worst[5] * view.now - worst[0], row[0] + self._gain
        if key == edge and not self._running_first:
            return worst if -worst[1] > row[1] else None
        return worst if key > edge else None

    def _gives_way(self, running: RunningRow, waiting: WaitingRow, now: Seconds) -> bool:
        key, edge = running[5] * now - running[0], waiting[0] + self._gain
        if key != edge or self._running_first:
            return key > edge
        return -running[1] > waiting[1]

    def _with_wake(
        self, view: View, order: KeyOrder, plan: Plan, is_whole: bool
    ) -> Sequence[Action]:
        """Look again when a standing changes, if anyone will be waiting then; or at once."""
        if not is_whole:
            return [*plan.actions, Wake(view.now)]
        if view.waiting_count + plan.net_stops <= 0:
            return plan.actions
        now, at = view.now, order.next_change()
        for track in plan.started:
            at = min(at, now + self._spec.key.lasts(track, view))
        if self._rising:
            # What has just been decided changes who may pass whom: look at it once it is done.
            at = now if plan.actions else min(at, order.next_crossing(self._gain))
        return [*plan.actions, Wake(at)] if at < inf else plan.actions


def _starts_instead(plan: Plan, track: Track, stopped: list[RunningRow]) -> bool:
    """Start the job where these are stopped; if there is no place all the same, they stay."""
    for victim in stopped:
        plan.stop(victim[4])
    placement = plan.place(track)
    if placement is not None:
        plan.start_at(track, placement)
        return True
    for victim in stopped:
        plan.keep(victim[4])
    return False
