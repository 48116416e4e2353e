"""The common part of worlds that run processes: an agent that has machines, a stage that knows
what is wanted of each job's processes, and a teller that makes events of facts.

Everything happens on the thread of the daemon's loop, except waiting: that is done by threads of the
agent, which only put down facts, and ring. A decision is carried out after the journal has it on disk;
whoever takes over after a crash finds in the journal what was wanted, and in the run folders and on the
machines what there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf
from time import monotonic, time
from typing import Final, Protocol

from dovetail.core.entries import Event, Preempt, Requeued, Resize, Start
from dovetail.core.model import JobId, Seconds
from dovetail.worlds.agent import Agent, Done, JobTold, ProcessEnded, Run
from dovetail.worlds.connecting import take_up_jobs
from dovetail.worlds.shortage import patiently
from dovetail.worlds.stage import ProcessStage, Relimited, Unrecorded
from dovetail.worlds.telling import Teller
from dovetail.worlds.world import Ground, Power, Wanted

_RETRY_S = 1.0


class Sights(Protocol):
    """Facts of a world of its own kind, such as its nodes, made into events."""

    def seen(self, fact: object, at: Seconds) -> list[Event]: ...


class Staging:
    """One for each daemon, made when its world has joined."""

    def __init__(
        self, agent: Agent, ground: Ground, suspended_limit_bytes: int, power: Power
    ) -> None:
        self._agent: Final = agent
        self._ground: Final = ground
        self.stage: Final = ProcessStage(agent, ground, suspended_limit_bytes, power)
        self._teller: Final = Teller(self.stage, ground.power)
        self._seen = 0  # the number of the last fact
        self._later: list[object] = []  # facts for after `catch_up`
        self._retry_at = 0.0

    def _facts(self) -> list[object]:
        later, self._later = self._later, []
        new = self._agent.facts(self._seen)
        self._seen = new[-1][0] if new else self._seen
        return [*later, *(fact for _, fact in new)]

    # ------------------------------------------------------------------------------- the past

    def take_up(self) -> list[Event]:
        return take_up_jobs(self.stage)

    def past(self) -> list[Event]:
        """Of jobs that were taken up, once all that they have told is read. A job is not charged for
        the absence of a daemon."""
        facts: dict[JobId, list[JobTold | ProcessEnded]] = {}
        for fact in self._facts_of_the_past():
            facts.setdefault(fact.job_id, []).append(fact)
        return [event for own in facts.values() for event in self._past_of(own)]

    def _facts_of_the_past(self) -> list[JobTold | ProcessEnded]:
        facts = self._facts()
        self._later = [fact for fact in facts if not isinstance(fact, JobTold | ProcessEnded)]
        return [fact for fact in facts if isinstance(fact, JobTold | ProcessEnded)]

    def _past_of(self, facts: Sequence[JobTold | ProcessEnded]) -> list[Event]:
        """Of one job. Nobody noted when it reported: as if evenly since the last that is known."""
        last, since = facts[-1], self._ground.view.now
        until = self._ended_at(last.run) if isinstance(last, ProcessEnded) else self._ground.clock()
        reports = [report for fact in facts if isinstance(fact, JobTold) for report in fact.reports]
        events: list[Event] = []
        if isinstance(last, ProcessEnded):
            events += self._teller.begun_unseen(last, since)
        for i, report in enumerate(reports, 1):
            at = since + (until - since) * i / len(reports)
            events += self._teller.told(JobTold(last.job_id, [report]), at)
        if isinstance(last, ProcessEnded):
            events += self._teller.ended(last, until)
        return events

    def _ended_at(self, run: Run) -> Seconds:
        """As the journal counts: not before its last entry, and not in the future."""
        ago = max(time() - run.over_since(), 0.0)
        return max(self._ground.clock() - ago, self._ground.view.now)

    # ------------------------------------------------------------------------- observe and carry out

    def observe(self, sights: Sights) -> list[Event]:
        self._step_again()
        events: list[Event] = []
        for fact in self._facts():
            see = partial(self._see, fact, self._ground.clock(), sights)
            events += patiently(see, "what was seen of a job")
        return events

    def look_again_s(self) -> Seconds:
        if not (self.stage.stalled or self.stage.holds_back):
            return inf
        return max(self._retry_at - monotonic(), 0.0)

    def _step_again(self) -> None:
        """What could not be done before is tried now and then."""
        if not self.look_again_s():
            self._retry_at = monotonic() + _RETRY_S
            self.stage.step_all()

    def _see(self, fact: object, at: Seconds, sights: Sights) -> list[Event]:
        if isinstance(fact, JobTold):
            return self._teller.told(fact, at)
        if isinstance(fact, ProcessEnded):
            return self._teller.ended(fact, at)
        if isinstance(fact, Done):
            return self._teller.done(fact, at)
        if isinstance(fact, Relimited):
            return self._teller.relimited(fact, at)
        if isinstance(fact, Unrecorded):
            self.stage.step_all()
            return []
        return sights.seen(fact, at)

    def _resize(self, entry: Resize) -> None:
        life = self.stage.lives.get(entry.job_id)
        if life is None or life.booked is None or life.booked.slices == entry.placement.slices:
            self.stage.want_share(entry.job_id, entry.placement)
        else:
            self.stage.want_elsewhere(entry.job_id, entry.placement)

    def carry_out(self, wanted: Sequence[Wanted]) -> None:
        for entry in wanted:
            if isinstance(entry, Start):
                self.stage.want_run(entry.job_id, entry.placement)
            elif isinstance(entry, Preempt):
                self.stage.want_away(entry.job_id)
            elif isinstance(entry, Resize):
                self._resize(entry)
            elif isinstance(entry, Requeued):
                self.stage.want_anew(entry.job_id, entry.reason)
            else:
                self.stage.want_end(entry.job_id)
        if wanted:
            self.stage.step_all()
