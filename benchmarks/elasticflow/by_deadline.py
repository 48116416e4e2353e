"""`edf`: in order of deadline each job takes as many GPUs as were ever measured; changes are free."""

from __future__ import annotations

from math import ceil

from benchmarks.elasticflow.replayed import SLOT, TOTAL, Book, Event, ReplayedJob, advance
from dovetail.policies.deadline.gpus_ahead import GpusAhead, Slots, all_free, merged

_SLOTS = Slots(SLOT)


def replay(jobs: list[ReplayedJob]) -> None:
    book, inside, waiting = Book(jobs), list[ReplayedJob](), set[ReplayedJob]()
    now, passed = float(min(book.events)), 0.0
    while True:
        advance(inside, book, now, passed)
        event = book.events[now]
        for job in event.ends:
            job.finish(job.end, job.end)
            inside.remove(job)
        inside += event.starts
        waiting.update(event.starts)
        _plan(inside, waiting, book, now)
        _forget(book, now, event)
        if not book.events:
            return
        after = book.next(now)
        now, passed = after, after - now


def _forget(book: Book, now: float, event: Event) -> None:
    assert book.events[now] is event
    del book.events[now]


def _plan(inside: list[ReplayedJob], waiting: set[ReplayedJob], book: Book, now: float) -> None:
    ahead = all_free(now, TOTAL)
    for job in sorted(inside, key=lambda job: job.deadline):
        before = job.end
        ahead = _take(job, ahead)
        job.done_at = job.end
        if job not in waiting:
            book.move_end(job, before, job.end)
        elif job.gpus:
            waiting.remove(job)
            book.at(job.end).ends.append(job)


def _take(job: ReplayedJob, ahead: GpusAhead) -> GpusAhead:
    """The job's GPUs now and its end; what is left ahead. Where it ends within a slot, whatever was
    free before is taken to be free from the slot's end on: the program overwrites that step."""
    steps, left = dict(zip(ahead.times, ahead.free, strict=True)), job.left
    most = min(TOTAL, max(job.rates))
    now = job_at = ahead.now
    job.gpus = _fitting(job, ahead.free[0], most)
    for later in ahead.times[1:]:
        free = steps[job_at]
        gpus = _fitting(job, free, most)
        if gpus:
            end = ceil(job_at + left / job.rates[gpus])
            steps[job_at] = free - gpus
            if later >= end:
                job.end = end
                if end not in ahead.times:
                    steps[_SLOTS.after(now, end)] = free
                return merged(sorted(steps.items()))
            left -= (later - job_at) * job.rates[gpus]
        job_at = later
    job.end = ceil(job_at + left / job.rates[most])
    steps[job_at] = TOTAL - most
    steps[_SLOTS.after(now, job.end)] = TOTAL
    return merged(sorted(steps.items()))


def _fitting(job: ReplayedJob, free: int, most: int) -> int:
    return max([n for n in job.rates if n <= min(free, most)], default=0)
