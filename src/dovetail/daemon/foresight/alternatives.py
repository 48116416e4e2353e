"""Changes by which a job would end sooner, in time, at a lower cost, or without delaying others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf
from time import thread_time
from typing import Final, final

from dovetail.api.forecast_row import Change, WhatIf
from dovetail.core.model import WHOLE_GPU, Job, Seconds
from dovetail.daemon.foresight.copy import Asked
from dovetail.daemon.foresight.unblocking import might_give_way, names_of, sizes_below
from dovetail.daemon.foresight.whatif import (
    AS_ASKED,
    LIKELY,
    NO,
    PERHAPS,
    UNKNOWN,
    YES,
    Proposal,
    Prospect,
    WhatIfOutcome,
)
from dovetail.daemon.users.limits import ALL, Allowed
from dovetail.text.counting import counted
from dovetail.text.times import clock_near

MOST_TOLD = 6
_MOST_SECONDS = (
    3.0  # of processor time, to look for alternatives; as much again for their intervals
)
_MOST_PAUSED = 2  # running jobs that are tried
_HOURS_AHEAD = 24
_WORTH = 0.01  # so much of the time, or of the money, is worth a change
_NOT_ALL = "not every alternative was looked at, since there is so much to decide"
_RANK = {YES: 0, LIKELY: 1, PERHAPS: 2, UNKNOWN: 3, NO: 4, None: 0}


def whatif(service: Asked, job: Job, by: Seconds | None = None, allowed: Allowed = ALL) -> WhatIf:
    """When the job would start and end, what it would cost, and what else could be done."""
    prospect = Prospect(service, job, by)
    asked = prospect.outcome(Proposal(AS_ASKED, job))
    search = _Search(prospect, asked, allowed)
    alternatives = search.found()
    return WhatIf(
        policy=prospect.likeness.policy,
        now=prospect.unix(prospect.likeness.now),
        name=job.name,
        gpus=job.gpus,
        priority=job.priority,
        deadline=None if job.deadline is None else prospect.unix(job.deadline),
        by=None if prospect.by is None else prospect.unix(prospect.by),
        as_asked=asked.told(),
        alternatives=[one.told() for one in alternatives],
        tried=search.tried,
        uncosted=asked.uncosted,
        currency=prospect.costs.currency,
        limited="; ".join(filter(None, (asked.limited, search.limited))),
    )


@final
class _Search:
    """Tries one change after the other on the prospect, for as long as it is worth it."""

    def __init__(self, prospect: Prospect, asked: WhatIfOutcome, allowed: Allowed) -> None:
        self._allowed: Final = allowed
        self._prospect: Final = prospect
        self._asked: Final = asked
        self._job: Final = prospect.job
        self._until: Final = thread_time() + _MOST_SECONDS
        self.tried = 0
        self.limited = ""

    def found(self) -> list[WhatIfOutcome]:
        """The changes that gain something, the best first, with their intervals."""
        gains = [outcome for outcome in self._outcomes() if self._gains(outcome)]
        if not any(outcome.in_time in (YES, None) for outcome in (self._asked, *gains)):
            gains += [outcome for outcome in self._together() if self._gains(outcome)]
        gains.sort(key=self._order)
        paused = [outcome for outcome in gains if outcome.proposal.paused is not None]
        gains = [outcome for outcome in gains if outcome not in paused[1:]]
        return sorted(self._with_intervals(gains[:MOST_TOLD]), key=self._order)

    def _with_intervals(self, outcomes: Sequence[WhatIfOutcome]) -> Iterator[WhatIfOutcome]:
        """The best ones, as many as there is time for."""
        until = thread_time() + _MOST_SECONDS
        for number, outcome in enumerate(outcomes):
            if number and thread_time() > until:
                self.limited = _NOT_ALL
                return
            yield self._prospect.with_intervals(outcome)

    def _outcomes(self) -> Iterator[WhatIfOutcome]:
        for kind in (
            self._sizes, self._kinds, self._deadline, self._priority, self._later, self._paused,
        ):  # fmt: skip
            for proposal in kind():
                if thread_time() > self._until:
                    self.limited = _NOT_ALL
                    return
                yield self._try(proposal)

    def _together(self) -> Iterator[WhatIfOutcome]:
        """No one change is enough: another size or kind before everybody else."""
        first = max([*self._passing(), self._job.priority])
        for proposal in (*self._sizes(), *self._kinds()):
            if thread_time() > self._until:
                return
            change = proposal.change
            asked, _, _ = change.change.partition(" instead of")
            text, value = f"{asked}, at priority {first:g}", [change.value, first]
            job = replace(proposal.job, priority=first)
            yield self._try(Proposal(Change(text, f"{change.field},priority", value), job))

    def _try(self, proposal: Proposal) -> WhatIfOutcome:
        self.tried += 1
        return self._prospect.outcome(proposal, scenarios=0)

    # ------------------------------------------------------------------------------ what is better

    def _order(self, outcome: WhatIfOutcome) -> tuple[float, ...]:
        cost = 0.0 if outcome.cost is None else outcome.cost.total
        end = inf if outcome.end is None else outcome.end.expected
        return _RANK[outcome.in_time], cost if self._prospect.by is not None else 0.0, end

    def _gains(self, outcome: WhatIfOutcome) -> bool:
        """Judged by what is expected, since intervals are worked out for the best ones only."""
        asked = self._asked
        if outcome.end is None or asked.end is None:
            return outcome.end is not None
        lasts = asked.end.expected - self._prospect.unix(self._prospect.likeness.now)
        if asked.end.expected - outcome.end.expected > max(1.0, _WORTH * lasts):
            return True
        missed = self._is_in_time(asked) and not self._is_in_time(outcome)
        if missed or outcome.proposal.paused is not None:
            return False
        cheaper = (
            outcome.cost is not None
            and asked.cost is not None
            and outcome.cost.total < (1 - _WORTH) * asked.cost.total
        )
        return cheaper or outcome.others.later < asked.others.later

    def _is_in_time(self, outcome: WhatIfOutcome) -> bool:
        return outcome.in_time in (YES, LIKELY, None)

    # ---------------------------------------------------------------------------- what it asks for

    def _sizes(self) -> Iterator[Proposal]:
        job, room = self._job, self._prospect.state.room
        known = {option.gpus for option in job.options} - {job.gpus}
        elastic = {job.gpus * 2, job.max_gpus} if job.max_gpus else set()
        more = [n for n in elastic if n and job.gpus < n <= (job.max_gpus or 0)]
        half = job.gpus // 2 // max(job.nodes, 1) * max(job.nodes, 1)
        fewer = [n for n in {*sizes_below(job, room), half} if n >= (job.min_gpus or 1)]
        sizes = [
            n for n in {*fewer, *more, *known} if n * job.share <= self._allowed.gpus * WHOLE_GPU
        ]
        for gpus in sorted(sizes):
            text = f"with {counted(gpus, 'GPU')} instead of {job.gpus}"
            yield Proposal(Change(text, "gpus", gpus), _resized(job, gpus))

    def _kinds(self) -> Iterator[Proposal]:
        job, pools = self._job, self._prospect.state.room.pools
        kinds = dict.fromkeys(pool.kind for pool in pools)
        for kind in kinds if len(kinds) > 1 and job.gpus else ():
            if job.kinds != (kind,) and (not job.options or job.option(kind, job.gpus)):
                text = f"with GPUs of kind {kind}"
                yield Proposal(Change(text, "kinds", [kind]), replace(job, kinds=(kind,)))

    # ------------------------------------------------------------------------------ who goes first

    def _deadline(self) -> Iterator[Proposal]:
        by, deadline = self._prospect.by, self._job.deadline
        if by is not None and (deadline is None or by < deadline):
            text = f"with a deadline of {self._clock(by)}"
            change = Change(text, "deadline", self._prospect.unix(by))
            yield Proposal(change, replace(self._job, deadline=by))

    def _priority(self) -> Iterator[Proposal]:
        """The least that makes it in time, among those that pass somebody; else the highest."""
        steps = self._passing()
        if not steps:
            return
        least, enough = 0, len(steps) - 1
        while self._prospect.by is not None and least < enough and thread_time() < self._until:
            middle = (least + enough) // 2
            if self._try(self._at_priority(steps[middle])).in_time == YES:
                enough = middle
            else:
                least = middle + 1
        yield self._at_priority(steps[enough])

    def _passing(self) -> list[float]:
        return self._allowed.passing(self._prospect.state, self._job.priority)

    def _at_priority(self, priority: float) -> Proposal:
        change = Change(f"at priority {priority:g}", "priority", priority)
        return Proposal(change, replace(self._job, priority=priority))

    def _paused(self) -> Iterator[Proposal]:
        """Another job waits meanwhile: the smallest that is enough, the latest of them first."""
        state = self._prospect.state
        found = might_give_way(state, state.tracks[self._job.id])
        running = [own for own in found if own.placement is not None]
        for other in [own for own in running if self._allowed.pauses(own.job)][:_MOST_PAUSED]:
            text = f"if job {other.job.id}{names_of(other.job)} were paused"
            yield Proposal(Change(text, "pause", other.job.id), self._job, paused=other.job.id)

    # --------------------------------------------------------------------------------------- when

    def _later(self) -> Iterator[Proposal]:
        """When nobody is held up any more, and when electricity is cheapest."""
        prospect, times = self._prospect, set[Seconds]()
        epoch = prospect.unix(0.0)
        if self._asked.others.later:
            times.add(max(span.expected for span in prospect.without.ends.values()) - epoch)
        cheapest = self._cheapest()
        if cheapest is not None:
            times.add(cheapest)
        for at in sorted(times):
            change = Change(f"handed in {self._clock(at)}", "at", prospect.unix(at))
            yield Proposal(change, self._job, at=at)

    def _cheapest(self) -> Seconds | None:
        """The hour of the next day to begin in, so that electricity costs least."""
        prospect, start, end = self._prospect, self._asked.start, self._asked.end
        price, at = prospect.costs.price, prospect.likeness.now
        if price.constant or start is None or end is None:
            return None
        lasts = end.expected - start.expected
        last_start = inf if prospect.by is None else prospect.by - lasts
        prices = []
        for _ in range(_HOURS_AHEAD):
            at = price.changes_after(at)
            if at > last_start or at + lasts > price.ends:
                break
            prices.append((price.total(at, at + lasts), at))
        return min(prices)[1] if prices else None

    def _clock(self, at: Seconds) -> str:
        prospect = self._prospect
        return clock_near(prospect.unix(at), prospect.unix(prospect.likeness.now))


def _resized(job: Job, gpus: int) -> Job:
    """With CPUs, memory and time in proportion."""
    part = gpus / job.gpus
    limit = None if job.time_limit_s is None else job.time_limit_s / part
    return replace(
        job,
        gpus=gpus,
        min_gpus=None,
        max_gpus=None,
        kinds=_kinds_of(job, gpus),
        cpus=job.cpus * part,
        memory_gb=job.memory_gb * part,
        time_limit_s=limit,
    )


def _kinds_of(job: Job, gpus: int) -> tuple[str, ...]:
    """Of a job that was timed: the kinds on which it was, with that many."""
    timed = tuple(option.kind for option in job.options if option.gpus == gpus)
    return timed or job.kinds
