"""The simulated world: it jumps from event to event; nothing ticks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from math import inf
from typing import Final, TypeAlias, assert_never, final

from dovetail.core.entries import (
    Action,
    Cancelled,
    Event,
    Failed,
    Finished,
    Interrupted,
    NodeDown,
    NodeDraining,
    NodeJoined,
    NodeLeft,
    NodeUp,
    Preempt,
    Refuse,
    Resize,
    Start,
    Started,
    Submitted,
    TenantSet,
    Wake,
    Woke,
)
from dovetail.core.model import Job, JobId, Node, Placement, Seconds, Tenant
from dovetail.models.workload import Arrival

Speed: TypeAlias = Callable[[Job, Placement, Sequence[Node]], float]
NodeEvent: TypeAlias = NodeJoined | NodeDown | NodeUp | NodeDraining | NodeLeft

_FINISH, _FAIL, _STARTED, _WAKE, _CANCEL, _NODE = range(6)
# time, order of making, what, the job or node, the stint it belongs to
_Row: TypeAlias = tuple[Seconds, int, int, str, int]


@final
class _Life:
    """The truth about one job that has not ended."""

    def __init__(self, arrival: Arrival) -> None:
        self.arrival: Final = arrival
        self.remaining_s = arrival.work_s  # work left as of the start of the current stint
        self.done_s = 0.0  # work done and not lost
        self.attempt = 0
        self.stint = 0  # changes with every start and stop: rows of older stints are stale
        self.placement: Placement | None = None
        self.working_since: Seconds = 0.0
        self.rate = 1.0
        self.was_started = False


@final
class SimulatedCluster:
    """Arrivals in order of time, a cluster, and what may go wrong with it.

    `speed` says how fast a job really runs on a placement (1 = as the trace says); co-located jobs
    and node kinds enter there. `node_events` are failures, repairs, joining, draining and leaving.
    """

    def __init__(
        self,
        nodes: Iterable[Node],
        arrivals: Sequence[Arrival],
        *,
        tenants: Sequence[Tenant] = (),
        node_events: Sequence[NodeEvent] = (),
        speed: Speed | None = None,
    ) -> None:
        self._nodes: Final[list[Node]] = []
        self._arrivals: Final = arrivals
        self._next = 0
        self._speed: Final = speed
        self._lives: Final[dict[str, _Life]] = {}
        self._rows: Final[list[_Row]] = []
        self._made = 0
        self._now: Seconds = min(0.0, arrivals[0].at) if arrivals else 0.0
        self._wake_at: Seconds = inf
        self._busy: Final[dict[tuple[int, int], Seconds]] = {}  # (node, GPU): still saving until then
        self._reports: list[Event] = []  # happened at once when we acted; told with what comes next
        self._node_events: Final = sorted(node_events, key=lambda event: event.at)
        for number, event in enumerate(self._node_events):
            self._push(event.at, _NODE, str(number), 0)
        for node in nodes:
            self._nodes.append(node)
            self._reports.append(NodeJoined(self._now, node))
        for tenant in tenants:
            self._reports.append(TenantSet(self._now, tenant))

    # ------------------------------------------------------------------------------------- observe

    def observe(self) -> Sequence[Event]:
        """Everything that has been held back, and all that happens at the next instant."""
        events, self._reports = self._reports, []
        at = self._next_instant()
        if at == inf:
            return events
        self._now = at
        arrivals, rows = self._arrivals, self._rows
        while rows and rows[0][0] <= at:
            _, _, what, name, stint = heappop(rows)
            if what == _FINISH:
                if self._lives[name].stint == stint:
                    del self._lives[name]
                    events.append(Finished(at, JobId(name)))
            else:
                self._happen(events, what, name, stint)
        if self._wake_at <= at:
            self._wake_at = inf
            events.append(Woke(at))
        while self._next < len(arrivals) and arrivals[self._next].at <= at:
            arrival = arrivals[self._next]
            self._next += 1
            self._arrive(arrival)
            events.append(Submitted(at, arrival.job))
        return events

    def _next_instant(self) -> Seconds:
        rows = self._rows
        while rows and self._is_stale(rows[0]):
            heappop(rows)
        at = rows[0][0] if rows else inf
        if self._next < len(self._arrivals):
            at = min(at, self._arrivals[self._next].at)
        # A wake-up alone never keeps the world going: nothing would ever end it.
        return min(at, self._wake_at) if at < inf else inf

    def _is_stale(self, row: _Row) -> bool:
        what = row[2]
        if what == _NODE:
            return False
        life = self._lives.get(row[3])
        return life is None or (what != _CANCEL and life.stint != row[4])

    def _arrive(self, arrival: Arrival) -> None:
        life = _Life(arrival)
        self._lives[arrival.job.id] = life
        if arrival.cancel_at is not None:
            self._push(max(arrival.cancel_at, arrival.at), _CANCEL, arrival.job.id, 0)

    def _happen(self, events: list[Event], what: int, name: str, stint: int) -> None:
        if what == _NODE:
            self._node_event(events, self._node_events[int(name)])
            return
        life = self._lives.get(name)
        if life is None or (what != _CANCEL and life.stint != stint):
            return
        job_id = JobId(name)
        if what == _STARTED:
            events.append(Started(self._now, job_id))
        elif what == _FAIL:
            events.append(self._fail(life))
        else:
            assert what == _CANCEL
            del self._lives[name]
            events.append(Cancelled(self._now, job_id, "cancelled by its user"))

    def _fail(self, life: _Life) -> Failed:
        job = life.arrival.job
        lost = self._kill(life)
        life.attempt += 1
        if life.attempt > job.retries:
            del self._lives[job.id]
        return Failed(self._now, job.id, f"died in attempt {life.attempt}", lost)

    def _node_event(self, events: list[Event], event: NodeEvent) -> None:
        if isinstance(event, NodeJoined):
            self._nodes.append(event.node)
        elif isinstance(event, NodeDown | NodeLeft):
            index = next(i for i, node in enumerate(self._nodes) if node.id == event.node_id)
            why = f"node {event.node_id} " + ("failed" if isinstance(event, NodeDown) else "left")
            events.extend(self._interrupt_all_on(index, why))
        events.append(event)

    def _interrupt_all_on(self, index: int, why: str) -> list[Event]:
        events: list[Event] = []
        for life in self._lives.values():
            placement = life.placement
            if placement is not None and any(piece.node == index for piece in placement.slices):
                lost = self._kill(life)
                events.append(Interrupted(self._now, life.arrival.job.id, why, lost))
        return events

    # ----------------------------------------------------------------------------------------- act

    def act(self, action: Action) -> None:
        if isinstance(action, Start):
            self._start(self._lives[action.job_id], action.placement)
        elif isinstance(action, Preempt):
            self._preempt(self._lives[action.job_id])
        elif isinstance(action, Wake):
            self._wake_at = action.at
        elif isinstance(action, Refuse):
            del self._lives[action.job_id]
        elif isinstance(action, Resize):
            self._resize(self._lives[action.job_id], action.placement)
        else:
            assert_never(action)

    def _start(self, life: _Life, placement: Placement) -> None:
        arrival, now = life.arrival, self._now
        at = now
        if self._busy:
            at = self._physically_free(placement)
        if life.was_started:
            at += arrival.job.interruption.restore_s
        life.was_started = True
        life.stint += 1
        life.placement = placement
        life.working_since = at
        if at > now:
            self._push(at, _STARTED, arrival.job.id, life.stint)
        else:
            self._reports.append(Started(now, arrival.job.id))
        if self._speed is not None:
            life.rate = self._speed(arrival.job, placement, self._nodes)
        self._push_end(life)

    def _push_end(self, life: _Life) -> None:
        """Note when the current stint would end by itself."""
        arrival = life.arrival
        finish = life.working_since + life.remaining_s / life.rate
        if life.attempt < len(arrival.failures):
            dies = life.working_since + max(arrival.failures[life.attempt] - life.done_s, 0.0)
            if dies < finish:
                self._push(dies, _FAIL, arrival.job.id, life.stint)
                return
        self._push(finish, _FINISH, arrival.job.id, life.stint)

    def _push(self, at: Seconds, what: int, name: str, stint: int) -> None:
        self._made += 1
        heappush(self._rows, (at, self._made, what, name, stint))

    def _bank(self, life: _Life) -> None:
        """Count the work done in the stint that ends now."""
        worked = max(self._now - life.working_since, 0.0) * life.rate
        life.remaining_s = max(life.remaining_s - worked, 0.0)
        life.done_s += worked

    def _preempt(self, life: _Life) -> None:
        placement = life.placement
        assert placement is not None
        self._bank(life)
        life.stint += 1
        life.placement = None
        save_s = life.arrival.job.interruption.save_s
        if save_s > 0:
            for n, gpu in _gpus_of(placement):
                self._busy[(n, gpu)] = self._now + save_s

    def _kill(self, life: _Life) -> Seconds:
        """The job loses its GPUs without warning; the work that is lost with it, in seconds."""
        self._bank(life)
        life.stint += 1
        life.placement = None
        lost = min(life.arrival.job.interruption.lost_s, life.done_s)
        life.done_s -= lost
        life.remaining_s += lost
        return lost / life.rate

    def _resize(self, life: _Life, placement: Placement) -> None:
        self._bank(life)
        life.stint += 1
        life.placement = placement
        life.working_since = max(self._now, life.working_since)
        if self._speed is not None:
            life.rate = self._speed(life.arrival.job, placement, self._nodes)
        self._push_end(life)

    def _physically_free(self, placement: Placement) -> Seconds:
        """When the last of these GPUs has been saved by the job that had it before."""
        at = self._now
        for gpu in _gpus_of(placement):
            until = self._busy.pop(gpu, 0.0)
            at = max(at, until)
        return at


def _gpus_of(placement: Placement) -> list[tuple[int, int]]:
    return [
        (n, gpu) for n, mask in placement.slices for gpu in range(mask.bit_length()) if mask >> gpu & 1
    ]
