"""The auditor's second book: when jobs are at work, how fast, and what becomes of it."""

from __future__ import annotations

from math import isclose
from typing import final

from dovetail.core.entries import (
    Branch,
    Cancelled,
    Displaced,
    Failed,
    Finished,
    Interrupted,
    JournalEntry,
    NodeJoined,
    Paced,
    Preempt,
    Resize,
    Start,
    Started,
    Stayed,
    Stop,
    Submitted,
)
from dovetail.core.model import Job, JobId, Placement, Seconds, gpus_of

_ROUNDING = 1e-6


@final
class _Working:
    """One job as the journal tells it."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.done_s = 0.0  # at speed 1
        self.held_s = 0.0
        self.starts = 0
        self.since: Seconds | None = None  # at work since then
        self.booked_at: Seconds | None = None  # has GPUs since then
        self.free_at: Seconds = 0.0  # when they were there to be used
        self.speed = 1.0
        self.on: Placement | None = None


@final
class WorkBook:
    """Starts and confirmed starts in turn, the time that saving and restoring take, and progress."""

    def __init__(self) -> None:
        self.done_s: dict[JobId, Seconds] = {}  # of every job that finished
        self._jobs: dict[JobId, _Working] = {}
        self._prompt = False
        self._nodes = 0
        self._saved_at: dict[tuple[int, int], Seconds] = {}

    def read(self, at: Seconds, entry: JournalEntry) -> None:
        if isinstance(entry, Submitted):
            self._jobs[entry.job.id] = _Working(entry.job)
        elif isinstance(entry, NodeJoined):
            self._prompt = entry.node.prompt and (self._prompt or not self._nodes)
            self._nodes += 1
        elif isinstance(entry, Start | Stayed):
            self._given(self._jobs[entry.job_id], at, entry)
        elif isinstance(entry, Started):
            self._at_work(self._jobs[entry.job_id], at)
        elif isinstance(entry, Paced):
            one = self._jobs[entry.job_id]
            assert one.on is not None, "has a speed without GPUs"
            assert entry.speed > 0, "has no speed"
            self._count(one, at)
            one.speed = entry.speed
        elif isinstance(entry, Resize):
            self._resized(self._jobs[entry.job_id], at, entry.placement)
        else:
            self._ends_a_turn(at, entry)

    def _given(self, one: _Working, at: Seconds, entry: Start | Stayed) -> None:
        one.on, one.booked_at, one.speed = entry.placement, at, 1.0
        one.starts += 1
        one.free_at = max([at, *[self._saved_at.get(gpu, at) for gpu in gpus_of(entry.placement)]])
        first = one.starts == 1
        prompt = self._prompt and (first or one.job.interruption.restore_s <= 0)
        one.since = at if prompt or isinstance(entry, Stayed) else None

    def _resized(self, one: _Working, at: Seconds, after: Placement) -> None:
        before, cost = one.on, one.job.interruption
        assert before is not None, "changes GPUs that it does not have"
        one.on = after
        if before.slices == after.slices:
            return
        self._count(one, at)
        saved_at = at if one.since is None else at + cost.save_s
        for gpu in gpus_of(before):
            self._saved_at[gpu] = max(self._saved_at.get(gpu, 0.0), saved_at)
        one.booked_at, one.speed = at, 1.0
        one.starts = max(one.starts, 1) + 1
        one.free_at = max([saved_at, *[self._saved_at.get(gpu, at) for gpu in gpus_of(after)]])
        one.since = at if self._prompt and cost.save_s + cost.restore_s <= 0 else None

    def _at_work(self, one: _Working, at: Seconds) -> None:
        assert one.on is not None, "is at work without GPUs"
        assert one.since is None or one.since == one.booked_at == at, "starts up twice"
        restore_s = one.job.interruption.restore_s if one.starts > 1 else 0.0
        due = one.free_at + restore_s
        assert at >= due - _ROUNDING * max(1.0, abs(due)), f"is at work before t={due}"
        one.since = at

    def _count(self, one: _Working, at: Seconds) -> None:
        if one.since is not None:
            one.done_s += (at - one.since) * one.speed
            one.since = at

    def _ends_a_turn(self, at: Seconds, entry: JournalEntry) -> None:
        if not isinstance(
            entry, Preempt | Interrupted | Displaced | Failed | Finished | Cancelled | Stop | Branch
        ):
            return
        one = self._jobs[entry.job_id]
        self._count(one, at)
        if isinstance(entry, Finished):
            assert one.since is not None or one.on is None, "finishes before it is at work"
            self.done_s[entry.job_id] = one.done_s
        if isinstance(entry, Failed | Interrupted):
            rounding = _ROUNDING * max(1.0, one.done_s)
            assert -rounding <= entry.lost_s <= one.done_s + rounding, (
                f"loses {entry.lost_s} s of {one.done_s}"
            )
            one.done_s = max(one.done_s - entry.lost_s, 0.0)
        if isinstance(entry, Preempt) and one.on is not None:
            for gpu in gpus_of(one.on):
                until = at + one.job.interruption.save_s
                self._saved_at[gpu] = max(self._saved_at.get(gpu, 0.0), until)
        one.on = one.since = None


def check_work(book: WorkBook, true_s: dict[JobId, Seconds]) -> None:
    """A finished job has done its work, no more and no less."""
    for job_id, done_s in book.done_s.items():
        wanted = true_s[job_id]
        assert isclose(done_s, wanted, rel_tol=1e-6, abs_tol=1e-5), (
            f"job {job_id!r} finished after {done_s} s of work, it had {wanted} to do"
        )
