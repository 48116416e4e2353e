"""Deadlines that `flex` promises: on GPUs of any kind, from beliefs, with room for their errors.

A promise is a plan: GPUs of one pool from when on, the latest and the fewest that keep the deadline. It
holds as long as the job gets at least that, so it is only a floor under the shares, and is made anew
when what is believed or the cluster has changed. Nobody's promise is broken for a newcomer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Final, NamedTuple, final

from dovetail.core.entries import Note
from dovetail.core.model import JobId, Seconds
from dovetail.core.track import RUNNING, Track
from dovetail.policies.deadline.believed import could_be_done_at
from dovetail.policies.deadline.gpus_ahead import GpusAhead, Slots, all_free, gpu_seconds
from dovetail.policies.deadline.shares import (
    ROUNDING,
    DueWork,
    GpuShare,
    left_by,
    share_in_time,
    smallest_share,
)
from dovetail.policies.flex.claims import GpuWay
from dovetail.predict.left import LEAST_S

KEY: Final = "flex"  # of a job with a deadline: see `_written`
_ANY_TIME: Final = Slots()
_REPAIRS: Final = 3
_ROUNDING: Final = 1e-9
_SPARE: Final = 1  # moves that nobody foresaw, for which a new promise leaves time


class PoolPlan(NamedTuple):
    """What a job was promised."""

    pool: int
    share: GpuShare


@dataclass(frozen=True, slots=True)
class DueJob:
    """A job with a deadline: what is left of it, as work on each pool that it may use."""

    track: Track
    works: Mapping[int, DueWork]  # by pool
    lasts_s: Seconds  # all of it, at speed 1, as believed now
    plan: PoolPlan | None = None  # what it was promised before
    moving_s: Seconds = 0.0  # what going on with other GPUs costs
    has: GpuWay | None = None  # what it runs on

    @property
    def deadline(self) -> Seconds:
        return inf if self.track.job.deadline is None else self.track.job.deadline


@dataclass(frozen=True, slots=True)
class Promised:
    """What comes of all promises now: the least that jobs must get, what is to be remembered, and when
    a plan changes next."""

    floors: Mapping[JobId, GpuWay]
    held: Mapping[
        JobId, GpuWay
    ]  # what they run on, where the time that a change costs would be missed
    notes: Sequence[Note]
    changes_at: Seconds
    refused: Mapping[
        JobId, Seconds
    ]  # newcomers that were promised nothing: when they could be done


NOTHING_PROMISED: Final = Promised({}, {}, (), inf, {})


def plan_of(track: Track) -> PoolPlan | None:
    """The plan in its note, if it was promised anything."""
    noted = track.notes.get(KEY)
    if not noted or noted[1] is None:
        return None
    pool, steps, until, done_at = noted[1]
    return PoolPlan(pool, GpuShare(tuple([(when, n) for when, n in steps]), until, done_at))


def believed_then(track: Track) -> Seconds | None:
    """How long all of it was believed to take when it was judged."""
    noted = track.notes.get(KEY)
    return None if not noted else float(noted[0])


def _written(lasts_s: Seconds, plan: PoolPlan | None) -> list[Any]:
    if plan is None:
        return [lasts_s, None]
    steps = [list(step) for step in plan.share.steps]
    return [lasts_s, [plan.pool, steps, plan.share.until, plan.share.done_at]]


def promised(
    jobs: Sequence[DueJob], now: Seconds, gpus: Mapping[int, int], prices: Mapping[int, float]
) -> Promised:
    """Keep, mend and give promises to jobs with deadlines, in order of submission. `gpus` and what one
    of them is worth are by pool."""
    return _Promising(jobs, now, gpus, prices).run()


@final
class _Promising:
    def __init__(
        self,
        jobs: Sequence[DueJob],
        now: Seconds,
        gpus: Mapping[int, int],
        prices: Mapping[int, float],
    ) -> None:
        self._now: Final = now
        self._gpus: Final = gpus
        self._prices: Final = prices
        self._jobs: Final = {job.track.job.id: job for job in jobs}
        self._plans: Final[dict[JobId, PoolPlan]] = {
            job_id: PoolPlan(job.plan.pool, job.plan.share.rest(now))
            for job_id, job in self._jobs.items()
            if job.plan is not None
        }
        self._left: dict[int, GpusAhead] = self._left_by_plans()
        self._notes: Final[dict[JobId, Note]] = {}
        self._refused: Final[dict[JobId, Seconds]] = {}
        self._could: Final[list[Note]] = []

    def run(self) -> Promised:
        self._mend()
        for job_id, job in self._jobs.items():
            if KEY not in job.track.notes:
                self._judge(job_id)
        self._loosen()
        ending = self._ending()
        floors = ending | {
            job_id: self._way(job_id, plan)
            for job_id, plan in self._plans.items()
            if plan.share.now and job_id not in ending
        }
        changes = [when for plan in self._plans.values() for when, _ in plan.share.steps]
        later = min([when for when in changes if when > self._now], default=inf)
        held = self._held() | ending
        notes = [*self._notes.values(), *self._could]
        return Promised(floors, held, notes, later, self._refused)

    def _way(self, job_id: JobId, plan: PoolPlan) -> GpuWay:
        work = self._jobs[job_id].works.get(plan.pool)
        gpus = plan.share.now
        known = work is not None and gpus in work.counts
        return GpuWay(plan.pool, gpus, work.rate(gpus) if work is not None and known else 1.0)

    def _mend(self) -> None:
        """New plans for those whose own do not any more: beside the others, else for all anew if that
        leaves fewer of them late."""
        if any(min(ahead.free) < 0 for ahead in self._left.values()):
            self._keep_all(self._fresh(list(self._plans)))
            return
        bad = [one for one, plan in self._plans.items() if not self._does(one, plan)]
        late = []
        for job_id in sorted(bad, key=lambda one: self._jobs[one].deadline):
            self._drop(job_id)
            job = self._jobs[job_id]
            plan = self._cheapest(job, self._left, 1) or self._cheapest(job, self._left)
            late += [job_id] if plan is None else []
            plan = plan or self._soonest(job, self._left)
            if plan is not None:
                self._keep(job_id, plan)
        if late:
            fresh = self._fresh(list(self._plans))
            if sum(not self._does(one, plan) for one, plan in fresh.items()) < len(late):
                self._keep_all(fresh)

    def _loosen(self) -> None:
        """A plan with room for a change again, where there is one beside the others: who has used up
        that room must stay as it is, and could not have more GPUs even if all were free."""
        for job_id in self._held():
            job, plan = self._jobs[job_id], self._plans.get(job_id)
            if plan is None or _enough(job, plan, changes=1):
                continue
            own, left = plan.share, self._left[plan.pool]
            beside = {**self._left, plan.pool: left.plus(own.steps, own.until)}
            other = self._cheapest(job, beside, _SPARE)
            if other is not None:
                self._drop(job_id)
                self._keep(job_id, other)

    def _ending(self) -> dict[JobId, GpuWay]:
        """Those that are done sooner than they could be moved: they stay, whatever others were
        promised for this moment."""
        found = {}
        for job_id in self._plans:
            job = self._jobs[job_id]
            if job.has is not None and job.has.pool in job.works and job.has.rate > 0:
                left = job.works[job.has.pool].left
                if left <= max(job.moving_s * job.has.rate, LEAST_S):
                    found[job_id] = job.has
        return found

    def _held(self) -> dict[JobId, GpuWay]:
        """Those that are no slower than their plan says now, and could not afford to be moved or have
        not got anywhere since they were: else jobs may move each other for ever."""
        held = {}
        for job_id, job in self._jobs.items():
            if job.has is None or not job.moving_s:
                continue
            plan = self._plans.get(job_id)
            if plan is not None and plan.pool in job.works:
                if plan.share.now and job.has.rate < self._way(job_id, plan).rate:
                    continue
                if not _enough(job, plan, changes=1):
                    held[job_id] = job.has
            if job.track.phase is RUNNING and job.track.working_since == self._now:
                held[job_id] = job.has
        return held

    def _does(self, job_id: JobId, plan: PoolPlan | None) -> bool:
        job = self._jobs[job_id]
        return plan is not None and plan.pool in job.works and _enough(job, plan)

    def _left_by_plans(self) -> dict[int, GpusAhead]:
        shares: dict[int, list[GpuShare]] = {pool: [] for pool in self._gpus}
        for plan in self._plans.values():
            shares.setdefault(plan.pool, []).append(plan.share)
        return {
            pool: left_by(own, self._now, self._gpus.get(pool, 0)) for pool, own in shares.items()
        }

    def _judge(self, job_id: JobId) -> None:
        """A promise for a newcomer: beside the plans there are, or with all of them made anew."""
        job = self._jobs[job_id]
        fit = all(min(one.free) >= 0 for one in self._left.values())
        plan = self._cheapest(job, self._left, _SPARE) if fit else None
        if plan is not None:
            self._keep(job_id, plan)
            return
        fresh = self._fresh([*self._plans, job_id]) if self._is_possible(job) else {}
        new = fresh.get(job_id)
        kept = new is not None and _enough(job, new, _SPARE)
        if kept and all(self._would(one, fresh.get(one)) for one in self._plans):
            self._keep_all(fresh)
            return
        soonest = self._soonest(job, self._left)
        self._refused[job_id] = inf if soonest is None else soonest.share.done_at
        self._notes[job_id] = Note(KEY, _written(job.lasts_s, None), job_id)
        self._could.extend(could_be_done_at(job.track, self._refused[job_id]))

    def _is_possible(self, job: DueJob) -> bool:
        """Is it on time if it has all GPUs of a pool for itself?"""
        at_work_s = job.deadline - self._now - _SPARE * job.moving_s
        return any(
            at_work_s * rate >= work.left - ROUNDING
            for pool, work in job.works.items()
            for gpus, rate in zip(work.counts, work.rates, strict=True)
            if gpus <= self._gpus.get(pool, 0)
        )

    def _would(self, job_id: JobId, plan: PoolPlan | None) -> bool:
        """Is it on time with a new plan, if it must be moved for it?"""
        job = self._jobs[job_id]
        if plan is None or plan.pool not in job.works:
            return False
        return _enough(job, plan, _moves(job, plan))

    def _keep(self, job_id: JobId, plan: PoolPlan) -> None:
        """For one that has none."""
        self._plans[job_id] = plan
        left = self._left.get(plan.pool) or all_free(self._now, 0)
        self._left[plan.pool] = left.less(plan.share.steps, plan.share.until)
        self._note(job_id, plan)

    def _drop(self, job_id: JobId) -> None:
        pool, share = self._plans.pop(job_id)
        self._left[pool] = self._left[pool].plus(share.steps, share.until)

    def _keep_all(self, plans: Mapping[JobId, PoolPlan]) -> None:
        self._plans.update(plans)
        self._left = self._left_by_plans()
        for job_id, plan in plans.items():
            self._note(job_id, plan)

    def _note(self, job_id: JobId, plan: PoolPlan) -> None:
        job = self._jobs[job_id]
        then = believed_then(job.track)
        lasts_s = job.lasts_s if then is None else then
        self._notes[job_id] = Note(KEY, _written(lasts_s, plan), job_id)

    def _fresh(self, ids: Sequence[JobId]) -> dict[JobId, PoolPlan]:
        """Plans for all of these in order of deadline; who is late that way is tried once more before
        the others."""
        order = sorted(ids, key=lambda job_id: self._jobs[job_id].deadline)
        best = self._in_order(order)
        late = [one for one in order if not self._would(one, best.get(one))]
        for _ in range(_REPAIRS):
            if not late:
                break
            order = [*late, *[one for one in order if one not in late]]
            other = self._in_order(order)
            still = [one for one in order if not self._would(one, other.get(one))]
            if len(still) >= len(late):
                break
            best, late = other, still
        return best

    def _in_order(self, order: Sequence[JobId]) -> dict[JobId, PoolPlan]:
        ahead = {pool: all_free(self._now, gpus) for pool, gpus in self._gpus.items()}
        plans = {}
        for job_id in order:
            job = self._jobs[job_id]
            spare = 0 if job_id in self._plans else _SPARE
            plan = self._cheapest(job, ahead, spare) or self._soonest(job, ahead)
            if plan is not None:
                plans[job_id] = plan
                share = plan.share
                ahead[plan.pool] = ahead[plan.pool].less(share.steps, share.until)
        return plans

    def _cheapest(
        self, job: DueJob, ahead: Mapping[int, GpusAhead], spare: int = 0
    ) -> PoolPlan | None:
        """The plan that is on time, with time for so many unforeseen moves, and takes the fewest
        GPU-seconds, by what they are worth."""
        best: tuple[float, int] | None = None
        found = None
        for least, number, pool in sorted(self._least_costs(job)):
            if best is not None and least > best[0]:
                break
            share = share_in_time(job.works[pool], ahead[pool], _ANY_TIME)
            if share is None:
                continue
            plan = PoolPlan(pool, self._longer(job, pool, ahead[pool], spare, share))
            if _enough(job, plan, spare + _moves(job, plan)):
                cost = self._cost(plan), number
                if best is None or cost < best:
                    best, found = cost, plan
        return found

    def _least_costs(self, job: DueJob) -> Iterator[tuple[float, int, int]]:
        """What a plan on each pool costs at least: all of the work where it uses GPUs best."""
        for number, pool in enumerate(self._pools(job)):
            work = job.works[pool]
            thriftiest = min([n / rate for n, rate in zip(work.counts, work.rates, strict=True)])
            price = self._prices.get(pool, 1.0)
            yield work.left * thriftiest * price * (1.0 - _ROUNDING), number, pool

    def _cost(self, plan: PoolPlan) -> float:
        return gpu_seconds(plan.share.steps, plan.share.until) * self._prices.get(plan.pool, 1.0)

    def _soonest(self, job: DueJob, ahead: Mapping[int, GpusAhead]) -> PoolPlan | None:
        """Late, but as early as can be; None: it can run nowhere now."""
        plans = []
        for pool in self._pools(job):
            share = smallest_share(job.works[pool], ahead[pool], self._gpus[pool], _ANY_TIME)
            plans.append(PoolPlan(pool, self._longer(job, pool, ahead[pool], 0, share)))
        return min(plans, key=lambda plan: plan.share.done_at, default=None)

    def _pools(self, job: DueJob) -> list[int]:
        """On which there is any number of GPUs for it."""
        gpus = self._gpus
        return [n for n, work in job.works.items() if work.counts[0] <= gpus.get(n, -1)]

    def _longer(
        self, job: DueJob, pool: int, ahead: GpusAhead, spare: int, share: GpuShare
    ) -> GpuShare:
        """The same with time for its own changes and for so many more."""
        work, total = job.works[pool], self._gpus[pool]
        for _ in range(2):  # more time may take more GPUs, on which more is lost
            plan = PoolPlan(pool, share)
            lost = _lost(job, plan, spare + _moves(job, plan))
            if not lost:
                break
            longer = replace(work, left=work.left + lost)
            share = smallest_share(longer, ahead, total, _ANY_TIME)
        return share


def _enough(job: DueJob, plan: PoolPlan, changes: int = 0) -> bool:
    """Is the job done in time with its plan, whose own changes cost time, and with so many more?"""
    work, lost = job.works[plan.pool], _lost(job, plan, changes)
    return plan.share.does(replace(work, left=work.left + lost) if lost else work)


def _moves(job: DueJob, plan: PoolPlan) -> int:
    """Must a running job be moved for this plan, now or later?"""
    if job.has is None:
        return 0
    return int((job.has.pool, job.has.gpus) != (plan.pool, plan.share.now))


def _lost(job: DueJob, plan: PoolPlan, changes: int = 0) -> float:
    """Work that is not done while it is moved."""
    if not job.moving_s:
        return 0.0
    counts = [gpus for _, gpus in plan.share.steps if gpus]
    work = job.works[plan.pool]
    known = [gpus for gpus in counts if gpus in work.counts]
    rate = max([work.rate(gpus) for gpus in known], default=work.rates[0])
    return (max(len(counts) - 1, 0) + changes) * job.moving_s * rate
