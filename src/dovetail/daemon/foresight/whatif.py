"""The outcome of a job that nobody has submitted: the queue is simulated with it and without it.

Both are told by the code that says what is expected of the queue, on a likeness of the live state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, final

from dovetail.api.forecast_row import Change, CostTold, InTime, OthersTold, OutcomeTold, Span
from dovetail.core.entries import Held, Preempt, Submitted
from dovetail.core.errors import BadInput
from dovetail.core.model import Job, JobId, Seconds
from dovetail.core.state import State
from dovetail.daemon.foresight import copy as likenesses
from dovetail.daemon.foresight import forecast as forecasts
from dovetail.daemon.foresight.copy import Asked, Likeness
from dovetail.daemon.foresight.forecast import QueueForecast
from dovetail.models.cost import FREE, Costs
from dovetail.predict.intervals import Belief, Experience, stretched

AS_ASKED = Change("as asked", "", None)
YES: Final = "yes"
LIKELY: Final = "likely"
PERHAPS: Final = "perhaps"
NO: Final = "no"
UNKNOWN: Final = "unknown"
_NOTHING_KNOWN = "nothing: no job like it has finished, and nobody has said how long it takes"
_NOTICED_S = 1.0  # who ends so much later is late
_ROUNDING = 1e-9  # of what is compared
_MEANWHILE = "to see what happens"


@dataclass(frozen=True, slots=True)
class Proposal:
    """The job as asked for, or with something changed about it or around it."""

    change: Change
    job: Job
    at: Seconds | None = None  # handed in only then
    paused: JobId | None = None  # another that is paused meanwhile


@dataclass(frozen=True, slots=True)
class WhatIfOutcome:
    proposal: Proposal
    start: Span | None
    end: Span | None
    late_s: Seconds | None  # after its deadline, else after the time that was asked about
    in_time: InTime | None  # for the time that was asked about, else for its deadline
    cost: CostTold | None
    others: OthersTold
    rests_on: str
    limited: str
    uncosted: str  # why the cost cannot be told

    def told(self) -> OutcomeTold:
        change = self.proposal.change
        return OutcomeTold(
            change.change,
            change.field,
            change.value,
            start=self.start,
            end=self.end,
            late_s=self.late_s,
            in_time=self.in_time,
            cost=self.cost,
            others=self.others,
            rests_on=self.rests_on,
        )


@final
class Prospect:
    """The queue as it is, the job that is asked about, and by when (or by its deadline) it matters."""

    def __init__(self, service: Asked, job: Job, by: Seconds | None = None) -> None:
        self.job: Final = job
        self.by: Final = job.deadline if by is None else by
        self.likeness: Final = likenesses.take(service, next(iter(job.after), None))
        self.unix: Final = service.clock.unix
        self.state: Final = self.likeness.after(Submitted(self.likeness.now, job)).state()
        never = self.state.unplaceable.get(job.id)
        if never:
            raise BadInput(f"job {job.name!r} could never run here: {never}")
        self._experience: Final = self.likeness.experience or Experience()
        self._beliefs: Final = forecasts.beliefs_of(
            self.likeness.state(), self.likeness.told, self._experience
        )
        self.costs: Final = service.chosen.costs
        self._unsaid: Final = missing_costs(self.costs, self.state)
        self.without: Final = self._ahead(self.likeness, self._beliefs, 0)

    def outcome(self, proposal: Proposal, scenarios: int | None = None) -> WhatIfOutcome:
        """Looked ahead once with the middle of every belief, and with so many drawn ones."""
        job, belief = proposal.job, self._belief(proposal.job)
        beliefs = self._beliefs_with(job)
        likeness = self._with(proposal, beliefs)
        found = self._ahead(likeness, beliefs, scenarios)
        end = found.end(job.id)
        return WhatIfOutcome(
            proposal,
            found.start(job.id),
            end,
            self._late_s(job, end),
            self._in_time(end),
            self._cost(job, end, found),
            self._others(found),
            _NOTHING_KNOWN if belief is None else belief.source,
            found.limited,
            self._unsaid or self.without.uncosted or found.uncosted,
        )

    def with_intervals(self, outcome: WhatIfOutcome) -> WhatIfOutcome:
        """The same outcome with intervals; so far only the middle was worked out."""
        job = outcome.proposal.job
        beliefs = self._beliefs_with(job)
        likeness = self._with(outcome.proposal, beliefs)
        found = forecasts.made_of(likeness, self.unix, beliefs)
        start, end = found.start(job.id), found.end(job.id)
        return replace(outcome, start=start, end=end, in_time=self._in_time(end))

    def _ahead(
        self, likeness: Likeness, beliefs: Mapping[JobId, Belief], scenarios: int | None
    ) -> QueueForecast:
        costs = None if self._unsaid else self.costs
        return forecasts.made_of(likeness, self.unix, beliefs, scenarios, costs)

    def _with(self, proposal: Proposal, beliefs: Mapping[JobId, Belief]) -> Likeness:
        """The queue with the job in it; who is paused for it goes on when it has ended."""
        now, job, paused = self.likeness.now, proposal.job, proposal.paused
        if proposal.at is not None:
            likeness = self.likeness.after(Submitted(now, job), Held(now, job.id, _MEANWHILE))
            return replace(likeness, held_until={job.id: proposal.at})
        if paused is None:
            return self.likeness.after(Submitted(now, job))
        likeness = self.likeness.after(
            Held(now, paused, _MEANWHILE), Preempt(paused), Submitted(now, job)
        )
        end = forecasts.made_of(likeness, self.unix, beliefs, 0).end(job.id)
        until = now if end is None else end.expected - self.unix(0.0)
        return replace(likeness, held_until={paused: until})

    def _beliefs_with(self, job: Job) -> dict[JobId, Belief]:
        belief = self._belief(job)
        return self._beliefs if belief is None else {**self._beliefs, job.id: belief}

    def _belief(self, job: Job) -> Belief | None:
        """From jobs of the same size; else as much work in all as asked for. What was timed in several
        ways is believed in one, and the simulated world knows of the others."""
        if job.options or job.gpus == self.job.gpus or self._experience.knows(job):
            return self._experience.whole(self.job if job.options else job)
        belief, factor = self._experience.whole(self.job), self.job.gpus / job.gpus
        if belief is None:
            return None
        return stretched(belief, factor, f"{belief.source}, {_times(factor)} as long")

    # ------------------------------------------------------------------------------- what it does

    def _late_s(self, job: Job, end: Span | None) -> Seconds | None:
        due = self.by if job.deadline is None else job.deadline
        if due is None or end is None:
            return None
        late_s = end.expected - self.unix(due)
        return late_s if late_s >= _NOTICED_S else 0.0

    def _in_time(self, end: Span | None) -> InTime | None:
        if self.by is None:
            return None
        by = self.unix(self.by) + _NOTICED_S
        if end is None:
            return UNKNOWN
        if end.low > by:
            return NO
        if end.high is not None and end.high <= by:
            return YES
        return LIKELY if end.expected <= by else PERHAPS

    def _others(self, found: QueueForecast) -> OthersTold:
        later = []
        for job_id, before in self.without.ends.items():
            after = found.ends.get(job_id)
            if after is not None and after.expected - before.expected >= _NOTICED_S:
                later.append((after.expected - before.expected, job_id))
        most_s, most = max(later, default=(0.0, None))
        return OthersTold(later=len(later), most_s=most_s, job=most)

    # ------------------------------------------------------------------------------ what it costs

    def _cost(self, job: Job, end: Span | None, found: QueueForecast) -> CostTold | None:
        before, spent = self.without.spent, found.spent
        if self._unsaid or self.without.uncosted or found.uncosted or end is None:
            return None
        own = 0.0
        if job.deadline is not None:
            late_s = max(0.0, end.expected - self.unix(job.deadline))
            own = late_s * self.costs.late_per_s(job)
        late = ("tardiness_cost", "move_cost")
        after, without = sum(spent[part] for part in late), sum(before[part] for part in late)
        others = after - without - own
        if abs(others) < _ROUNDING * max(after, without):
            others = 0.0
        energy = spent["energy_cost"] - before["energy_cost"]
        return CostTold(energy=energy, lateness=own, others=others, total=energy + own + others)


def missing_costs(costs: Costs, state: State) -> str:
    """The figures that the daemon lacks to tell what a job costs; "" if none."""
    kinds = sorted({node.kind for node in state.room.nodes if node.kind not in costs.rates})
    drawing = "processor slots" if kinds == ["cpu"] else f"GPUs of kind {', '.join(kinds)}"
    unsaid = [f"what power {drawing} draw"] if kinds else []
    if costs.price is FREE and not any(rates.per_hour for rates in costs.rates.values()):
        unsaid.append("what electricity costs")
    told = " and ".join(unsaid)
    return f"the daemon was not told {told} (dovetail up --costs FILE)" if unsaid else ""


def _times(factor: float) -> str:
    return f"taken {factor:.3g} times" if factor > 1 else f"taken 1/{1 / factor:.3g}"
