"""The simulated world: it jumps from event to event; nothing ticks."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import inf
from typing import Final, TypeAlias, assert_never, final

from dovetail.core.entries import (
    Action,
    Branch,
    Cancelled,
    Event,
    Failed,
    Finished,
    GpusClosed,
    GpusOpened,
    GroupAction,
    Interrupted,
    NodeDown,
    NodeDraining,
    NodeJoined,
    NodeLeft,
    NodeUp,
    NoMoreNodes,
    Note,
    Preempt,
    Promote,
    Refuse,
    Resize,
    Start,
    Stop,
    Submitted,
    TenantSet,
    Wake,
    Woke,
)
from dovetail.core.errors import UnfinishedRun
from dovetail.core.model import Node, Placement, Seconds, Tenant
from dovetail.models.failures import NodeFailures
from dovetail.models.workload import Arrival, Going
from dovetail.worlds.simulated.stints import (
    CANCEL,
    FAIL,
    FINISH,
    GONE,
    NODE,
    STARTED,
    TELL,
    Interference,
    Row,
    SimulatedJob,
    Speed,
    Stints,
    heappush,
    is_stale,
)

NodeEvent: TypeAlias = (
    NodeJoined | NodeDown | NodeUp | NodeDraining | NodeLeft | GpusClosed | GpusOpened
)

heappop: Final = heapq.heappop  # final, so that compiled code need not look it up

# So often in a row before we say that nothing will come of it:
_IDLE_WAKES: Final = 100_000  # wake-ups without any change
_FRUITLESS_FAILURES: Final = 100_000  # failures of nodes without any job ending


@final
class SimulatedCluster(Stints):
    """Arrivals in order of time, a cluster, and what may go wrong with it.

    `speed` says how fast a job really runs on a placement (1 = as the trace says), `interference` how
    fast the first job runs when it shares a GPU with the second. `node_events` are failures, repairs,
    joining, draining and leaving.

    With jobs that are `going` the world begins in the middle, at `now`, and somebody else knows of
    its nodes and of those jobs already.
    """

    def __init__(
        self,
        nodes: Iterable[Node],
        arrivals: Sequence[Arrival],
        *,
        tenants: Sequence[Tenant] = (),
        node_events: Sequence[NodeEvent] = (),
        failures: NodeFailures | None = None,
        speed: Speed | None = None,
        interference: Interference | None = None,
        going: Sequence[Going] = (),
        now: Seconds = 0.0,
    ) -> None:
        super().__init__(speed, interference, now)
        self._coming: Final = list(reversed(arrivals))  # the next one last, where it is taken off
        self._next_at: Seconds = arrivals[0].at if arrivals else inf
        self._wake_at: Seconds = now if going else inf
        self._idle_wakes = 0
        self._attentive = True  # is there a report, a time to wake, or something that may fail?
        self._node_events: Final = sorted(node_events, key=lambda event: event.at)
        self._failures: Final = failures
        self._given: Final = len(self._node_events)  # the others are drawn by chance
        self._expected: Final[dict[str, int]] = {}  # by node: which of these is its next
        self._fruitless_failures = 0
        self._unended = 0  # jobs, at the last failure that counted
        # Where one job may have to wait until another is saved, a start is confirmed when it is real.
        self._prompt: Final = not going and not any(
            [a.job.interruption.save_s > 0 for a in arrivals]
        )
        for number, event in enumerate(self._node_events):
            self._push(event.at, NODE, None, number)
        for node in nodes:
            self._nodes.append(node)
            if not going:
                self._reports.append(NodeJoined(self._now, replace(node, prompt=self._prompt)))
            self._expect_failure(node.id)
        for one in going:
            self.take_up(one)
        for tenant in tenants:
            self._reports.append(TenantSet(self._now, tenant))

    # ------------------------------------------------------------------------------------- observe

    def observe(self) -> Sequence[Event]:
        """Everything that has been held back, and all that happens at the next instant."""
        events: list[Event] = []
        rows, at = self._rows, self._next_at
        if self._attentive:
            at = self._attend(events, at)
        while rows and rows[0][0] <= at:
            then, _, what, life, number = row = heappop(rows)
            if what or life is None:  # anything but `FINISH`, which is 0
                if not is_stale(row):
                    self._now = then
                    self._happen(events, what, life, number)
                    if events:  # nothing comes of the failure of a node that has left
                        at = then
            elif life.stint == number:  # else it is stale
                self._now = at = then
                job_id = life.job.id
                life.stint = GONE
                del self._lives[job_id]
                if self._sharers:
                    self._unshare(events, life)
                events.append(Finished(at, job_id))
        if not events and self._attentive and self._wake_at <= at < inf:
            self._wake(events, at)  # nothing came of what was to be before it
            return events or self.observe()
        coming = self._coming
        if self._next_at > at or not coming:
            return events
        self._now = at
        while True:
            arrival = coming.pop()
            job = arrival.job
            life = self._lives[job.id] = SimulatedJob(arrival)
            if arrival.cancel_at is not None:
                self._push(max(arrival.cancel_at, arrival.at), CANCEL, life, 0)
            events.append(Submitted(at, job))
            next_at = coming[-1].at if coming else inf
            if next_at > at:
                self._next_at = next_at
                return events

    def _attend(self, events: list[Event], until: Seconds) -> Seconds:
        """What does not happen at every event: reports, waking up, failures. Until when things may
        happen before anything is to be decided."""
        reports = self._reports
        if self._interference is not None:
            reports = [event for event in reports if self._is_not_overtaken(event)]
        events.extend(reports)
        self._reports.clear()
        if self._wake_at < inf:
            until = self._wake(events, until)
        self._attentive = self._wake_at < inf or self._failures is not None
        if self._failures is not None and not self._lives and until == inf:
            return -inf  # failures alone do not keep the world going
        return until

    def _wake(self, events: list[Event], until: Seconds) -> Seconds:
        """Tell that it is time to wake up, unless something else happens before."""
        if not self._lives:  # then there is nothing to be woken for, now or later
            self._wake_at = inf
            return until
        rows = self._rows
        while rows and is_stale(rows[0]):
            heappop(rows)
        at = self._wake_at
        if at > until:
            return until
        if rows and at > rows[0][0]:
            return at  # nothing may come of that
        self._wake_at = inf
        self._count_idle_wakes(rows, at)
        events.append(Woke(at))
        self._now = at
        return at

    def _count_idle_wakes(self, rows: list[Row], at: Seconds) -> None:
        if at > self._now and (rows or self._next_at < inf):
            self._idle_wakes = 0
            return
        self._idle_wakes += 1
        if self._idle_wakes > _IDLE_WAKES:
            raise UnfinishedRun(
                f"the policy keeps asking to be woken at t={self._now:g} but nothing comes of it, "
                f"and {len(self._lives)} jobs have not ended"
            )

    def _happen(
        self, events: list[Event], what: int, life: SimulatedJob | None, number: int
    ) -> None:
        if life is None:
            self._node_event(events, number)
        elif what == STARTED:
            self._report_start(events, life)
        elif what == FAIL:
            self._fail(events, life)
        elif what == TELL:
            self._reach(events, life)
        else:
            life.stint = GONE
            del self._lives[life.job.id]
            if self._sharers and life.placement is not None:
                self._unshare(events, life)
            events.append(Cancelled(self._now, life.job.id, "cancelled by its user"))

    def _fail(self, events: list[Event], life: SimulatedJob) -> None:
        lost = self._kill(events, life)
        life.attempt += 1
        life.attempt_s = 0.0
        if life.attempt > life.job.retries:
            life.stint = GONE
            del self._lives[life.job.id]
        events.append(Failed(self._now, life.job.id, f"died in attempt {life.attempt}", lost))

    def _node_event(self, events: list[Event], number: int) -> None:
        event = self._node_events[number]
        if number >= self._given and not self._draw_next(event, number):
            return
        if isinstance(event, NodeJoined):
            event = NodeJoined(self._now, replace(event.node, prompt=self._prompt))
            self._nodes.append(event.node)
            self._expect_failure(event.node.id)
        elif isinstance(event, NodeDown | NodeLeft):
            why = f"node {event.node_id} " + ("failed" if isinstance(event, NodeDown) else "left")
            self._interrupt_all_on(events, event.node_id, why)
        events.append(event)
        if isinstance(event, NodeLeft):
            self._expected.pop(event.node_id, None)
            if not any([isinstance(e, NodeJoined) for e in self._node_events[number + 1 :]]):
                events.append(NoMoreNodes(self._now))

    def _expect_failure(self, node_id: str) -> None:
        if self._failures is not None:
            self._expect(NodeDown(self._failures.next_failure(node_id, self._now), node_id))

    def _expect(self, event: NodeDown | NodeUp) -> None:
        self._expected[event.node_id] = len(self._node_events)
        self._push(event.at, NODE, None, len(self._node_events))
        self._node_events.append(event)

    def _draw_next(self, event: NodeEvent, number: int) -> bool:
        """What follows a failure or repair that was drawn; false if the node is no longer there."""
        assert self._failures is not None
        assert isinstance(event, NodeDown | NodeUp)
        if self._expected.get(event.node_id) != number:
            return False
        if isinstance(event, NodeUp):
            self._expect_failure(event.node_id)
            return True
        self._expect(NodeUp(self._failures.next_repair(event.node_id, self._now), event.node_id))
        if not self._lives:  # between jobs there is nothing that they could keep from its end
            return True
        unended = len(self._lives) + len(self._coming)
        if unended != self._unended:
            self._unended, self._fruitless_failures = unended, 0
        self._fruitless_failures += 1
        if self._fruitless_failures > _FRUITLESS_FAILURES:
            raise UnfinishedRun(
                f"no job has ended through the last {_FRUITLESS_FAILURES:,} failures of nodes at "
                f"t={self._now:g}: they come too often for what is left ({len(self._lives)} jobs)"
            )
        return True

    def _interrupt_all_on(self, events: list[Event], node_id: str, why: str) -> None:
        for life in self._lives.values():
            placement = life.placement
            if placement is not None and any(
                self._nodes[piece.node].id == node_id for piece in placement.slices
            ):
                lost = self._kill(events, life)
                events.append(Interrupted(self._now, life.job.id, why, lost))

    # ----------------------------------------------------------------------------------------- act

    def act(self, action: Action) -> None:
        if type(action) is not Start:
            self._act_otherwise(action)
            return
        life, placement = self._lives[action.job_id], action.placement
        at = now = self._now
        if self._busy:
            at = self._physically_free(placement)
        life.stint = stint = life.stint + 1
        if stint > 1:  # it ran before
            at += life.job.interruption.restore_s
        life.placement = placement
        if not placement.whole:
            self._share(life, placement)
        if life.special or self._speed is not None or self._sharers:
            self._attentive = True
            self._set_to_work(life, at, self._prompt)
            return
        # The same for all the others, written out: every job is started once at least.
        life.working_since = at
        life.rate = 1.0
        if at > now:
            self._push_start(life)
        elif not self._prompt:
            self._attentive = True
            self._report_start(self._reports, life)
        made = self._made = self._made + 1
        heappush(self._rows, (at + life.remaining_s, made, FINISH, life, stint))

    def _act_otherwise(
        self,
        action: Preempt | Wake | Refuse | Stop | Branch | Resize | Promote | GroupAction | Note,
    ) -> None:
        self._attentive = True
        if isinstance(action, Preempt):
            self._preempt(self._lives[action.job_id])
        elif isinstance(action, Wake):
            self._wake_at = action.at
        elif isinstance(action, Refuse):
            self._lives.pop(action.job_id).stint = GONE
        elif isinstance(action, Stop | Branch):
            self._end_by_decision(self._lives.pop(action.job_id))
        elif isinstance(action, Resize):
            self._resize_or_move(self._lives[action.job_id], action.placement)
        elif isinstance(action, Promote | GroupAction | Note):
            pass  # a matter of the book: nothing changes for the job itself
        else:
            assert_never(action)

    def _resize_or_move(self, life: SimulatedJob, placement: Placement) -> None:
        assert life.placement is not None
        if placement.slices == life.placement.slices:
            self._resize(life, placement)
        else:
            self._move(life, placement, self._moves_at_once(life))

    def _moves_at_once(self, life: SimulatedJob) -> bool:
        """The state takes it for working already, where nothing is to be saved or restored."""
        return self._prompt and life.job.interruption.restore_s <= 0

    def _end_by_decision(self, life: SimulatedJob) -> None:
        life.stint = GONE
        if self._sharers and life.placement is not None:
            self._unshare(self._reports, life)
