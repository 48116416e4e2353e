"""The local world: it carries out decisions on real processes and tells what became of them.

Everything happens on the thread that calls `observe`, except waiting: for the end of a process (the
watcher) and for a job to start, give way or end (one short-lived thread each). Those only put what
they saw into the inbox. A decision is carried out after the journal has it on disk; whoever takes
over after a crash finds in the journal what was wanted, and in the run folders what there is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic, sleep, time
from typing import Any, Final

from dovetail.core.entries import (
    Action,
    Branch,
    Cancelled,
    Event,
    Preempt,
    Refuse,
    Requeued,
    Resize,
    Start,
    Started,
    Stop,
    Wake,
    Woke,
)
from dovetail.core.errors import CannotGoOn, DovetailError
from dovetail.core.model import JobId, Node, Seconds
from dovetail.core.track import Phase
from dovetail.core.view import View
from dovetail.models.power import NO_LIMITS, PowerTable
from dovetail.worlds.local.connecting import named, take_up_jobs, tell_nodes
from dovetail.worlds.local.lives import Order
from dovetail.worlds.local.power import PowerLimits
from dovetail.worlds.local.probing import Probed, Prober
from dovetail.worlds.local.runs import Run
from dovetail.worlds.local.shortage import patiently
from dovetail.worlds.local.stage import Done, Relimited, Stage
from dovetail.worlds.local.telling import Teller
from dovetail.worlds.local.watcher import Ended, Told, Watcher

_RETRY_S = 1.0

log = logging.getLogger("dovetail.local")

Request = Callable[[View, Seconds], tuple[Sequence[Event], Any]]


@dataclass(frozen=True, slots=True)
class Machine:
    """What the world stands on."""

    nodes: Sequence[Node]
    runs: Path
    suspended_limit_bytes: int
    limits: PowerLimits
    power: PowerTable = NO_LIMITS  # how much slower models are under power limits


@dataclass(frozen=True, slots=True)
class _Asked:
    request: Request
    answer: Future[Any]


class _Over:
    """The daemon is to stop; the jobs go on."""


class LocalMachine:
    """`clock` tells seconds as the journal counts them, `order_for` what a job is, `sync` makes the
    journal durable."""

    def __init__(
        self,
        machine: Machine,
        view: View,
        clock: Callable[[], Seconds],
        order_for: Callable[[JobId], Order],
        sync: Callable[[], None],
    ) -> None:
        self._view: Final = view
        self._clock: Final = clock
        self._sync: Final = sync
        self._inbox: Final[SimpleQueue[object]] = SimpleQueue()
        self._next: object | None = None  # taken from the inbox, not yet looked at
        self._decided: list[Action] = []
        self._wishes: list[Cancelled | Requeued] = []  # of users, to be carried out likewise
        self._answers: list[tuple[Future[Any], Any]] = []
        self._wake_at: Seconds = inf
        self._retry_at = 0.0
        self._connected = False
        self._nodes: Final = named(machine.nodes, view)
        tell_nodes(view, self._nodes, clock())  # refused now rather than half-way
        has_gpus = any(node.labels for node in self._nodes)  # strangers may come at any time
        self._watcher: Final = Watcher(self._inbox.put, self._look_around, restless=has_gpus)
        self._stage: Final = Stage(
            machine.runs, view, clock, order_for, machine.suspended_limit_bytes,
            machine.limits, self._inbox.put, self._watcher,
        )  # fmt: skip
        self._teller: Final = Teller(self._stage, machine.power)
        self._prober: Final = Prober(self._stage, self._nodes, self._inbox.put)

    def _look_around(self) -> None:
        """On the thread of the watcher."""
        self._prober.probe()

    def ask(self, request: Request) -> Future[Any]:
        """Have the request looked at in its turn. It is answered when its events are on disk."""
        answer: Future[Any] = Future()
        self._inbox.put(_Asked(request, answer))
        return answer

    @property
    def trouble(self) -> str:
        """What keeps the threads of this world from their work; "" as a rule."""
        if self._watcher.trouble:
            return f"the watcher of the jobs stumbles: {self._watcher.trouble}"
        return self._stage.stalled and f"jobs wait to be worked on: {self._stage.stalled}"

    def stop(self) -> None:
        """Let `observe` say that it is over. The jobs go on."""
        self._inbox.put(_Over())

    def catch_up(self) -> list[Event]:
        """Before the first `observe`: adopt what runs, and tell what came about while nobody looked,
        as far as can be at the time it did: a job is not charged for the absence of a daemon."""
        events = take_up_jobs(self._stage)
        self._watcher.read_now()
        facts: dict[JobId, list[Told | Ended]] = {}
        for fact in self._facts_of_the_past():
            facts.setdefault(fact.job_id, []).append(fact)
        for own in facts.values():
            events += self._past_of(own)
        return sorted(events, key=lambda event: event.at)

    def _facts_of_the_past(self) -> list[Told | Ended]:
        inbox = [self._inbox.get() for _ in range(self._inbox.qsize())]
        for item in inbox:
            if not isinstance(item, Told | Ended):
                self._inbox.put(item)  # somebody asks already
        return [item for item in inbox if isinstance(item, Told | Ended)]

    def _past_of(self, facts: Sequence[Told | Ended]) -> list[Event]:
        """Of one job. Nobody noted when it reported: as if evenly since the last that is known."""
        last, since = facts[-1], self._view.now
        until = self._ended_at(last.run) if isinstance(last, Ended) else self._clock()
        reports = [report for fact in facts if isinstance(fact, Told) for report in fact.reports]
        events = self._begun_unseen(last, since)
        for i, report in enumerate(reports, 1):
            at = since + (until - since) * i / len(reports)
            events += self._teller.told(Told(last.job_id, [report]), at)
        if isinstance(last, Ended):
            events += self._teller.ended(last, until, events)
        return events

    def _begun_unseen(self, last: Told | Ended, at: Seconds) -> list[Event]:
        """The daemon was killed after it had launched the job and before it could say so."""
        track = self._view.tracks.get(last.job_id)
        begun = isinstance(last, Ended) and last.run.begun()
        if track is None or track.phase is not Phase.STARTING or not begun:
            return []
        return [Started(at, last.job_id)]

    def _ended_at(self, run: Run) -> Seconds:
        """As the journal counts: not before its last entry, and not in the future."""
        ago = max(time() - run.over_since(), 0.0)
        return max(self._clock() - ago, self._view.now)

    # ------------------------------------------------------------------------------------- observe

    def observe(self) -> Sequence[Event]:
        if not self._connected:
            return self._connect()
        self._make_durable()
        self._carry_out()
        while True:
            item = self._take(wait=True)
            if item is None:
                self._wake_at = inf
                return [Woke(self._clock())]
            if isinstance(item, _Over):
                self._watcher.stop()
                return ()
            events = self._heed(item) if isinstance(item, _Asked) else self._gather(item)
            if events:
                return events
            self._make_durable()  # a request that changes nothing is answered, too

    def _take(self, wait: bool) -> object | None:
        """The next thing to look at; None when it is time to wake up, or nothing is there."""
        if self._next is not None:
            item, self._next = self._next, None
            return item
        left = max(self._wake_at - self._clock(), 0.0) if wait else 0.0
        if wait and (self._stage.stalled or self._stage.holds_back):
            self._step_again()
            left = min(left, _RETRY_S)
        try:
            return self._inbox.get(timeout=None if left == inf else min(left, 3600.0))
        except Empty:
            return None if self._wake_at <= self._clock() or not wait else self._take(wait)

    def _step_again(self) -> None:
        """What could not be done before is tried now and then."""
        if monotonic() >= self._retry_at:
            self._retry_at = monotonic() + _RETRY_S
            self._stage.step_all()

    def _gather(self, item: object | None) -> list[Event]:
        """All facts that are there, up to the next request: that one is looked at alone."""
        events: list[Event] = []
        while item is not None and not isinstance(item, _Asked | _Over):
            events += patiently(partial(self._see, item, self._clock()), "what was seen of a job")
            item = self._take(wait=False)
        self._next = item
        return events

    def _see(self, fact: object, at: Seconds) -> list[Event]:
        if isinstance(fact, Told):
            return self._teller.told(fact, at)
        if isinstance(fact, Ended):
            return self._teller.ended(fact, at)
        if isinstance(fact, Done):
            return self._teller.done(fact, at)
        if isinstance(fact, Relimited):
            return self._teller.relimited(fact, at)
        assert isinstance(fact, Probed)
        return self._prober.probed(fact)

    def _heed(self, asked: _Asked) -> Sequence[Event]:
        try:
            events, answer = asked.request(self._view, self._clock())
        except Exception as error:
            asked.answer.set_exception(error)
            return ()
        self._wishes += [event for event in events if isinstance(event, Cancelled | Requeued)]
        self._answers.append((asked.answer, answer))
        return events

    def _make_durable(self) -> None:
        while True:
            try:
                self._sync()
                break
            except CannotGoOn:
                raise
            except (DovetailError, OSError) as error:
                # Nothing is carried out before it can be written down.
                log.error("%s", error)
                sleep(_RETRY_S)
        answers, self._answers = self._answers, []
        for future, answer in answers:
            future.set_result(answer)

    def _connect(self) -> list[Event]:
        """Tell which nodes there are, and go on with what was decided before."""
        self._connected = True
        self._watcher.start()
        events = tell_nodes(self._view, self._nodes, self._clock())
        self._stage.step_all()
        return events or [Woke(self._clock())]

    # ----------------------------------------------------------------------------------------- act

    def act(self, action: Action) -> None:
        """Noted now, carried out when the journal is on disk: at the next `observe`."""
        if isinstance(action, Wake):
            self._wake_at = action.at
        else:
            self._decided.append(action)

    def _carry_out(self) -> None:
        self._heed_wishes()
        decided, self._decided = self._decided, []
        for action in decided:
            if isinstance(action, Start):
                self._stage.want_run(action.job_id, action.placement)
            elif isinstance(action, Preempt):
                self._stage.want_away(action.job_id)
            elif isinstance(action, Resize):
                self._stage.want_share(action.job_id, action.placement)
            elif isinstance(action, Stop | Refuse | Branch):
                self._stage.want_end(action.job_id)
        if decided:
            self._stage.step_all()

    def _heed_wishes(self) -> None:
        wishes, self._wishes = self._wishes, []
        for wish in wishes:
            if isinstance(wish, Cancelled):
                self._stage.want_end(wish.job_id)
            else:
                self._stage.want_anew(wish.job_id, wish.reason)
