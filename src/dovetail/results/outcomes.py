"""The outcome of every job, read from the state as each job ends, and the figures over all jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, final

from dovetail.core.model import JobId, Placement, Seconds
from dovetail.core.track import FINISHED, Phase, Track
from dovetail.core.view import ENDS, RUNS, WAITS, View
from dovetail.quantiles import quantile
from dovetail.results.charges import Charges
from dovetail.results.record import JobOutcome, Stint

_TELL_EVERY: Final = 256  # jobs
_REFUSALS_SHOWN: Final = 3


@final
class Outcomes:
    """Keeps the few numbers that the summary needs for each job; whole rows only if `rows` is set."""

    def __init__(self, rows: bool, progress: Callable[[int], object] | None = None) -> None:
        self.watches = ENDS | RUNS | WAITS if rows else ENDS
        self._keeps_rows: Final = rows
        self._progress: Final = progress
        self._tells_more: Final = rows or progress is not None
        self.counts: Final[dict[Phase, int]] = {}  # of jobs that did not finish
        self.never_started = 0
        self.completion_s: Final[list[Seconds]] = []  # of finished jobs
        self.waited_s = 0.0
        self.used_gpu_s = 0.0
        self.lost_gpu_s = 0.0
        self.preemptions = 0
        self.resizes = 0
        self.first_submission: Seconds = 0.0
        self.last_end: Seconds = 0.0
        self.refusals: Final[list[str]] = []
        self.jobs: Final[list[JobOutcome]] = []
        self.stints: Final[list[Stint]] = []
        self._since: Final[dict[JobId, tuple[Placement, Seconds]]] = {}
        self._unplaced: Final[dict[JobId, list[tuple[Placement, Seconds, Seconds]]]] = {}
        self._view: View | None = None

    def build(self, view: View) -> Outcomes:
        self._view = view
        return self

    @property
    def ended(self) -> int:
        return len(self.completion_s) + sum(self.counts.values())

    def waits(self, track: Track) -> None:
        self._close_stint(track)

    def runs(self, track: Track) -> None:
        self._close_stint(track)
        assert self._view is not None
        assert track.placement is not None
        self._since[track.job.id] = (track.placement, self._view.now)

    def _close_stint(self, track: Track) -> None:
        open_stint = self._since.pop(track.job.id, None)
        if open_stint is not None:
            assert self._view is not None
            placement, since = open_stint
            if self._view.now > since:
                stints = self._unplaced.setdefault(track.job.id, [])
                if stints and stints[-1][0] == placement and stints[-1][2] == since:
                    since = stints.pop()[1]  # it went on as before: one stay, not two
                stints.append((placement, since, self._view.now))

    def ends(self, track: Track) -> None:
        end = track.ended_at
        stayed = end - track.submitted_at
        finished = track.phase is FINISHED
        if finished:
            self.completion_s.append(stayed)
        else:
            self._count_unfinished(track)
        if finished or track.first_start_at >= 0.0:
            self.waited_s += stayed - track.held_s
            self.used_gpu_s += track.held_gpu_s
            if track.lost_gpu_s:
                self.lost_gpu_s += track.lost_gpu_s
            if track.preemptions:
                self.preemptions += track.preemptions
            if track.resizes:
                self.resizes += track.resizes
        if not track.sequence:
            self.first_submission = track.submitted_at
        self.last_end = end
        if self._tells_more:
            self._tell_more(track, stayed)

    def _tell_more(self, track: Track, stayed: Seconds) -> None:
        if self._keeps_rows:
            self._keep(track, stayed)
        if self._progress is not None and not len(self.completion_s) % _TELL_EVERY:
            self._progress(self.ended)

    def _count_unfinished(self, track: Track) -> None:
        phase = track.phase
        self.counts[phase] = self.counts.get(phase, 0) + 1
        self.never_started += track.first_start_at < 0
        if phase is Phase.REFUSED and len(self.refusals) < _REFUSALS_SHOWN:
            self.refusals.append(f"job {track.job.id!r} can never start: {track.reason}")

    def _keep(self, track: Track, stayed: Seconds) -> None:
        job = track.job
        self._close_stint(track)
        number = len(self.jobs)
        started = track.first_start_at >= 0
        self.jobs.append(
            JobOutcome(
                job.id,
                job.user,
                job.tenant,
                job.gpus,
                track.submitted_at,
                track.first_start_at if started else None,
                track.ended_at,
                stayed - track.held_s if started else None,
                stayed,
                track.preemptions,
                track.phase.value,
                job.deadline,
                None if job.deadline is None else max(0.0, track.ended_at - job.deadline),
                track.resizes,
                track.held_gpu_s,
            )
        )
        for placement, start, end in self._unplaced.pop(job.id, ()):
            self.stints.append(Stint(number, placement, start, end))


def offered_gpu_seconds(
    capacity: Sequence[tuple[Seconds, int]], start: Seconds, end: Seconds
) -> float:
    """The GPU-seconds that running nodes offered between two times."""
    total, gpus, since = 0.0, 0, start
    for at, gpus_then in capacity:
        until = min(max(at, since), end)
        total += gpus * (until - since)
        gpus, since = gpus_then, until
    return total + gpus * max(end - since, 0.0)


def summarise(
    policy: str, outcomes: Outcomes, charges: Charges, view: View, cpu_seconds: float
) -> Mapping[str, float | int | str]:
    """The figures of one run, in the order in which they are shown."""
    times = sorted(outcomes.completion_s)
    start = outcomes.first_submission
    ended, started = outcomes.ended, outcomes.ended - outcomes.never_started
    makespan = outcomes.last_end - start if ended else 0.0
    offered = offered_gpu_seconds(view.capacity, start, outcomes.last_end)
    return {
        "policy": policy,
        "jobs": ended,
        "finished": len(outcomes.completion_s),
        "failed": outcomes.counts.get(Phase.FAILED, 0),
        "cancelled": outcomes.counts.get(Phase.CANCELLED, 0),
        "refused": outcomes.counts.get(Phase.REFUSED, 0),
        "mean_jct_s": sum(times) / len(times) if times else 0.0,
        "p50_jct_s": quantile(times, 0.5),
        "p90_jct_s": quantile(times, 0.9),
        "p99_jct_s": quantile(times, 0.99),
        "mean_wait_s": outcomes.waited_s / started if started else 0.0,
        "makespan_s": makespan,
        "gpu_utilisation": outcomes.used_gpu_s / offered if offered else 0.0,
        "gpu_seconds_used": outcomes.used_gpu_s,
        "gpu_seconds_lost": outcomes.lost_gpu_s,
        "preemptions": outcomes.preemptions,
        "resizes": outcomes.resizes,
        "peak_suspended_jobs": view.peak_suspended,
        **charges.figures(),
        "cpu_seconds": cpu_seconds,
        "jobs_per_cpu_second": ended / cpu_seconds if cpu_seconds > 0 else 0.0,
    }
