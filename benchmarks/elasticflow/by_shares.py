"""`ef-accessctrl`: admission by minimum satisfactory shares, spare GPUs, and a cost for every event."""

from __future__ import annotations

from math import inf

from benchmarks.elasticflow.replayed import (
    SLOT,
    TOTAL,
    Book,
    Event,
    ReplayedJob,
    advance,
    restart_s,
)
from dovetail.policies.deadline.gpus_ahead import GpusAhead, Slots, all_free, gpu_seconds
from dovetail.policies.deadline.shares import DueWork, GpuShare, smallest_share

_SLOTS = Slots(SLOT)
_EVENTS_OF_A_RESTART = 60


class BySharesReplay:
    """One run. `shares` has the plan of every job that is in."""

    def __init__(self, jobs: list[ReplayedJob]) -> None:
        self.book = Book(jobs)
        self.inside: list[ReplayedJob] = []
        self.placed: set[ReplayedJob] = set()
        self.shares: dict[ReplayedJob, GpuShare] = {}
        self.ahead: GpusAhead = all_free(0, TOTAL)
        self.events = 0
        self.used_before: set[tuple[int, int]] = set()  # GPUs by the first and their number

    def run(self) -> None:
        now: float = min(self.book.events)
        passed = 0.0
        while True:
            advance(self.inside, self.book, now, passed)
            self._handle(self.book.events.pop(now, Event()), now)
            changes = [when for share in self.shares.values() for when, _ in share.steps]
            change = min([when for when in changes if when > now], default=inf)
            if change < min(self.book.events, default=inf):
                self.book.at(change)
            if not self.book.events:
                return
            self._charge()
            after = self.book.next(now)
            now, passed = after, after - now

    def _handle(self, event: Event, now: float) -> None:
        for job in event.ends:
            if job in self.placed:
                self._leave(job)
        before = {job: job.end for job in [*self.inside, *event.starts]}
        if event.starts and self._plan([*self.inside, *event.starts], now):
            self.inside += event.starts
        else:
            for job in event.starts:
                job.outcome = "declined at arrival"
                self.shares.pop(job, None)
            self._plan(self.inside, now)
        self.inside.sort(key=lambda job: job.deadline)
        for job in self.inside:
            job.gpus = self.shares[job].now
            self.book.move_end(job, before[job], job.end)
        self._spread()
        self.inside.sort(key=lambda job: -job.gpus)
        self.placed = set(self.inside)

    def _leave(self, job: ReplayedJob) -> None:
        job.finish(job.end, job.done_at)
        if job in self.inside:
            self.inside.remove(job)
            del self.shares[job]

    def _plan(self, jobs: list[ReplayedJob], now: float) -> bool:
        """Shares for all; are all of them on time?"""
        self.ahead, on_time = all_free(now, TOTAL), True
        for job in sorted(jobs, key=lambda job: job.deadline):
            share = smallest_share(_demand(job), self.ahead, TOTAL, _SLOTS)
            self._take(job, share)
            self.ahead = self.ahead.less(share.steps, share.until)
            on_time = on_time and share.done_at <= job.deadline
        return on_time

    def _take(self, job: ReplayedJob, share: GpuShare) -> None:
        self.shares[job] = share
        job.end, job.done_at = share.until, share.done_at

    def _spread(self) -> None:
        """Spare GPUs, a level at a time, to whose GPU-time grows most by it: the program says so."""
        gains: dict[ReplayedJob, tuple[float, GpuShare | None]] = {}
        spare = self.ahead.free[0]
        while spare:
            self._rank(gains, spare)
            found = next((job for job in self.inside if gains[job][1] is not None), None)
            if found is None:
                return
            spare -= self._grow(found, gains[found][1])
            gains[found] = gains[found][0], None
        if gains:
            self._rank(gains, spare)

    def _rank(self, gains: dict[ReplayedJob, tuple[float, GpuShare | None]], spare: int) -> None:
        """Who cannot grow any more keeps the rank by which it grew last."""
        for job in self.inside:
            if job not in gains or _demand(job).larger(job.gpus) is not None:
                gains[job] = self._gain(job, spare)
        self.inside.sort(key=lambda job: -gains[job][0])

    def _grow(self, job: ReplayedJob, share: GpuShare | None) -> int:
        assert share is not None
        own, before, end = self.shares[job], job.gpus, job.end
        freed = self.ahead.plus(own.steps, own.until)
        self.ahead = freed.less(share.steps, share.until)
        self._take(job, share)
        job.gpus = share.now
        self.book.move_end(job, end, job.end)
        return job.gpus - before

    def _gain(self, job: ReplayedJob, spare: int) -> tuple[float, GpuShare | None]:
        demand, own = _demand(job), self.shares[job]
        more = demand.larger(job.gpus)
        if more is None or more - job.gpus > spare:
            return -inf, None
        freed = self.ahead.plus(own.steps, own.until)
        share = smallest_share(demand, freed, TOTAL, _SLOTS, at_first=more)
        if not job.gpus:
            return inf, share
        grown = gpu_seconds(share.steps, share.until) - gpu_seconds(own.steps, own.until)
        return grown / (more - job.gpus), share

    def _charge(self) -> None:
        """What going on costs each: little on GPUs that some job had before, side by side."""
        of_all = self.events > 0 and self.events % _EVENTS_OF_A_RESTART == 0
        self.events += 1
        first, used = 0, self.used_before
        for job in self.inside:
            job.overhead = 0
            if job.gpus:
                known = (first, job.gpus) in used
                job.overhead = 2 if known else restart_s(job.gpus, of_all)
                used.add((first, job.gpus))
                first += job.gpus
                self.book.move_end(job, job.end, job.end + job.overhead)
                job.end += job.overhead
        if of_all:
            used.clear()


def _demand(job: ReplayedJob) -> DueWork:
    counts = tuple([count for count in sorted(job.rates) if count <= job.most])
    return DueWork(job.left, job.deadline, counts, tuple([job.rates[n] for n in counts]))
