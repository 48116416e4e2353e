"""The local world: it carries out decisions on real processes and tells what became of them.

Everything happens on the thread of the daemon's loop, except waiting: for the end of a process (the
watcher) and for a job to start, give way or end (one short-lived thread each). Those only put what
they saw into the inbox, and ring. A decision is carried out after the journal has it on disk; whoever
takes over after a crash finds in the journal what was wanted, and in the run folders what there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from math import inf
from time import monotonic, time
from typing import Final

from dovetail.core.entries import Event, Preempt, Requeued, Resize, Start, Started
from dovetail.core.model import JobId, Node, Seconds
from dovetail.core.track import Phase
from dovetail.worlds.local import findings, machine
from dovetail.worlds.local.agent import Done, LocalAgent
from dovetail.worlds.local.connecting import named, take_up_jobs, tell_nodes
from dovetail.worlds.local.folders import Folders
from dovetail.worlds.local.power import PowerLimits
from dovetail.worlds.local.probing import Probed, Prober
from dovetail.worlds.local.runs import ProcessRun
from dovetail.worlds.local.stage import ProcessStage, Relimited
from dovetail.worlds.local.telling import Teller
from dovetail.worlds.local.watcher import JobTold, ProcessEnded
from dovetail.worlds.shortage import patiently
from dovetail.worlds.world import Finding, Gauge, Ground, Order, Wanted

_RETRY_S = 1.0


class LocalMachine:
    """Not to be used before it has joined a daemon."""

    def __init__(
        self,
        nodes: Sequence[Node],
        folders: Folders,
        power: PowerLimits,
        suspended_limit_bytes: int,
    ) -> None:
        self.nodes: Sequence[Node] = nodes
        self.shelf: Final = folders
        self.power: Final = power
        self._suspended_limit: Final = suspended_limit_bytes
        self._seen = 0  # the number of the last fact
        self._later: list[object] = []  # facts for after `catch_up`
        self._retry_at = 0.0

    def join(self, ground: Ground) -> None:
        self._ground = ground
        self.nodes = named(self.nodes, ground.view)
        tell_nodes(ground.view, self.nodes, ground.clock())  # refused now rather than half-way
        self._agent = LocalAgent(self.nodes, self.shelf, ground, self._look_around)
        self._watcher = self._agent.watcher
        self._stage = ProcessStage(self._agent, ground, self._suspended_limit, self.power)
        self._teller = Teller(self._stage, ground.power)
        self._prober = Prober(self._stage, self._agent.inventory(), self._agent.post)

    def _facts(self) -> list[object]:
        later, self._later = self._later, []
        new = self._agent.facts(self._seen)
        self._seen = new[-1][0] if new else self._seen
        return [*later, *(fact for _, fact in new)]

    def _look_around(self) -> None:
        """On the thread of the watcher."""
        self._prober.probe()

    # ----------------------------------------------------------------------- from any thread

    @property
    def trouble(self) -> str:
        if self._watcher.trouble:
            return f"the watcher of the jobs stumbles: {self._watcher.trouble}"
        return self._stage.stalled and f"jobs wait to be worked on: {self._stage.stalled}"

    def why_not(self, order: Order) -> str:
        if order.nodes > 1:
            return f"it asks for {order.nodes} nodes, and this machine is one node"
        if order.image:
            return f"it asks for the image {order.image!r}, and jobs here run without"
        return ""

    def has_processes(self, job_id: JobId | None = None) -> bool:
        return bool(self.shelf.notes()) if job_id is None else self.shelf.note(job_id).exists()

    def gauges(self) -> Iterable[Gauge]:
        places = {
            uuid: {"node": node.id, "gpu": i, "uuid": uuid}
            for node in self.nodes
            for i, (_, uuid) in enumerate(node.labels)
        }
        drawn = machine.power_watts() if places else {}
        watts = [(places[uuid], own) for uuid, own in drawn.items() if uuid in places]
        return [Gauge("dovetail_gpu_power_watts", "What each GPU draws now.", watts)]

    def findings(self) -> Iterable[Finding]:
        return findings.of_this_machine()

    # ------------------------------------------------------------------------------- beginning

    def catch_up(self) -> list[Event]:
        """A job is not charged for the absence of a daemon."""
        events = take_up_jobs(self._stage)
        self._watcher.read_now()
        facts: dict[JobId, list[JobTold | ProcessEnded]] = {}
        for fact in self._facts_of_the_past():
            facts.setdefault(fact.job_id, []).append(fact)
        for own in facts.values():
            events += self._past_of(own)
        return sorted(events, key=lambda event: event.at)

    def _facts_of_the_past(self) -> list[JobTold | ProcessEnded]:
        facts = self._facts()
        self._later = [fact for fact in facts if not isinstance(fact, JobTold | ProcessEnded)]
        return [fact for fact in facts if isinstance(fact, JobTold | ProcessEnded)]

    def _past_of(self, facts: Sequence[JobTold | ProcessEnded]) -> list[Event]:
        """Of one job. Nobody noted when it reported: as if evenly since the last that is known."""
        last, since = facts[-1], self._ground.view.now
        until = self._ended_at(last.run) if isinstance(last, ProcessEnded) else self._ground.clock()
        reports = [report for fact in facts if isinstance(fact, JobTold) for report in fact.reports]
        events = self._begun_unseen(last, since)
        for i, report in enumerate(reports, 1):
            at = since + (until - since) * i / len(reports)
            events += self._teller.told(JobTold(last.job_id, [report]), at)
        if isinstance(last, ProcessEnded):
            events += self._teller.ended(last, until, events)
        return events

    def _begun_unseen(self, last: JobTold | ProcessEnded, at: Seconds) -> list[Event]:
        """The daemon was killed after it had launched the job and before it could say so."""
        track = self._ground.view.tracks.get(last.job_id)
        begun = isinstance(last, ProcessEnded) and last.run.begun()
        if track is None or track.phase is not Phase.STARTING or not begun:
            return []
        return [Started(at, last.job_id)]

    def _ended_at(self, run: ProcessRun) -> Seconds:
        """As the journal counts: not before its last entry, and not in the future."""
        ago = max(time() - run.over_since(), 0.0)
        return max(self._ground.clock() - ago, self._ground.view.now)

    def begin(self) -> list[Event]:
        self._watcher.start()
        events = tell_nodes(self._ground.view, self.nodes, self._ground.clock())
        self._stage.step_all()
        return events

    def stop(self) -> None:
        self._watcher.stop()

    # ------------------------------------------------------------------------- observe and carry out

    def observe(self) -> list[Event]:
        self._step_again()
        events: list[Event] = []
        for fact in self._facts():
            see = partial(self._see, fact, self._ground.clock())
            events += patiently(see, "what was seen of a job")
        return events

    def look_again_s(self) -> Seconds:
        if not (self._stage.stalled or self._stage.holds_back):
            return inf
        return max(self._retry_at - monotonic(), 0.0)

    def _step_again(self) -> None:
        """What could not be done before is tried now and then."""
        if not self.look_again_s():
            self._retry_at = monotonic() + _RETRY_S
            self._stage.step_all()

    def _see(self, fact: object, at: Seconds) -> list[Event]:
        if isinstance(fact, JobTold):
            return self._teller.told(fact, at)
        if isinstance(fact, ProcessEnded):
            return self._teller.ended(fact, at)
        if isinstance(fact, Done):
            return self._teller.done(fact, at)
        if isinstance(fact, Relimited):
            return self._teller.relimited(fact, at)
        assert isinstance(fact, Probed)
        return self._prober.probed(fact)

    def carry_out(self, wanted: Sequence[Wanted]) -> None:
        for entry in wanted:
            if isinstance(entry, Start):
                self._stage.want_run(entry.job_id, entry.placement)
            elif isinstance(entry, Preempt):
                self._stage.want_away(entry.job_id)
            elif isinstance(entry, Resize):
                self._stage.want_share(entry.job_id, entry.placement)
            elif isinstance(entry, Requeued):
                self._stage.want_anew(entry.job_id, entry.reason)
            else:
                self._stage.want_end(entry.job_id)
        if wanted:
            self._stage.step_all()
