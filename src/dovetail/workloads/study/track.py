"""One study as the journal tells it: its trials, the learning curves, who ran when."""

from __future__ import annotations

from math import isfinite
from typing import Final, NamedTuple, TypeAlias, final

from dovetail.core.entries import Reported
from dovetail.core.groups import Group
from dovetail.core.model import JobId, Placement, Seconds, Setting
from dovetail.core.track import FINISHED, Phase, Track
from dovetail.workloads.study.design import Design
from dovetail.workloads.study.entries import KIND

# How a trial stands.
NEW: Final = "new"  # has never had a slot
RUNNING: Final = "running"
PAUSED: Final = "paused"  # has run, waits with its progress kept
DONE: Final = "done"
STOPPED: Final = "stopped"
FAILED: Final = "failed"
UNREPORTED: Final = "it ended without reporting"  # how the reason begins
OVER: Final = (DONE, STOPPED, FAILED)

Settings: TypeAlias = tuple[tuple[str, Setting], ...]


class Point(NamedTuple):
    """One report of the metric: not a number where it was none."""

    step: float
    value: float
    at: Seconds


class TrialStint(NamedTuple):
    since: Seconds
    until: Seconds  # -1 while it lasts
    placement: Placement
    holds: float  # GPUs, a share counted as a part


class Branching(NamedTuple):
    """The checkpoint that a trial goes on from, once there is a job for it."""

    source: JobId
    settings: Settings


class Closed(NamedTuple):
    """A study that is over, in brief."""

    id: str
    name: str
    user: str
    opened_at: Seconds
    closed_at: Seconds
    reason: str


@final
class TrialTrack:
    """One trial's history. It may be several jobs, one after the other: stages that others share with
    it, or copies of another trial."""

    __slots__ = (
        *(
            "after",
            "branching",
            "ended_at",
            "held_gpu_s",
            "held_s",
            "jobs",
            "number",
            "points",
            "reason",
        ),
        *("restored_in_s", "saved_in_s", "settings", "standing", "stints"),
    )

    def __init__(self, number: int, settings: Settings, after: tuple[JobId, ...] = ()) -> None:
        self.number: Final = number
        self.settings = settings
        self.after: Final = after  # stages that it shares with others and begins with
        self.standing = NEW
        self.reason = ""
        self.jobs: list[JobId] = []
        self.points: list[Point] = []  # steps rise
        self.stints: list[TrialStint] = []
        self.held_s = 0.0  # in stints that are over
        self.held_gpu_s = 0.0
        self.saved_in_s = -1.0  # what giving way took the last time, -1 if it never has
        self.restored_in_s = -1.0
        self.ended_at = -1.0
        self.branching: Branching | None = None

    @property
    def job(self) -> JobId:
        """The last one."""
        return self.jobs[-1]

    @property
    def is_over(self) -> bool:
        return self.standing in OVER

    @property
    def since(self) -> Seconds:
        """When its present stint began; -1 while it has none."""
        return self.stints[-1].since if self.stints and self.stints[-1].until < 0 else -1.0

    def held_by(self, now: Seconds) -> Seconds:
        return self.held_s + (now - self.since if self.since >= 0 else 0.0)

    def gpu_s_by(self, now: Seconds) -> float:
        if self.since < 0:
            return self.held_gpu_s
        return self.held_gpu_s + self.stints[-1].holds * (now - self.since)


@final
class StudyTrack:
    """One open study's history: `trials` by number, in order of submission."""

    def __init__(self, design: Design, at: Seconds) -> None:
        self.design = design  # another one when it is extended
        self.opened_at: Final = at
        self.trials: Final[dict[int, TrialTrack]] = {}
        self.stopped_at = -1.0  # by its user; -1 while it goes on
        self.away_s = 0.0  # time it was stopped, up to the last resumption
        self.best: tuple[TrialTrack, Point] | None = None
        self.reached_at = -1.0  # when the target was first reached
        self.rung = ""  # how a trial of it gave way the last time
        self.group: Final = Group(design.id, KIND, f"study {design.name!r}", design.at_once, True)

    @property
    def id(self) -> str:
        return self.design.id

    @property
    def is_stopped(self) -> bool:
        return self.stopped_at >= 0

    @property
    def switches(self) -> int:
        """How often a slot was given to a trial."""
        return sum([len(trial.stints) for trial in self.trials.values()])

    def age_s(self, now: Seconds) -> Seconds:
        """Time since its opening, while it was not stopped."""
        return (self.stopped_at if self.is_stopped else now) - self.opened_at - self.away_s

    def gpu_s_by(self, now: Seconds) -> float:
        return sum([trial.gpu_s_by(now) for trial in self.trials.values()])

    def stop(self, at: Seconds) -> None:
        if not self.is_stopped:
            self.stopped_at = at

    def resume(self, at: Seconds) -> None:
        if self.is_stopped:
            self.away_s += at - self.stopped_at
            self.stopped_at = -1.0

    # -------------------------------------------------------------------------- curves and stints

    def join(self, track: Track) -> None:
        job = track.job
        assert job.member is not None
        trial = self.trials.get(job.member)
        if trial is None:
            trial = self.trials[job.member] = TrialTrack(job.member, job.settings, job.after)
        trial.settings = job.settings
        trial.jobs.append(job.id)
        trial.branching = None

    def report(self, trial: TrialTrack, entry: Reported) -> bool:
        """Whether it is a step of the trial: the metric is there, and it is further than before."""
        told = entry.metrics.get(self.design.metric)
        last = trial.points[-1].step if trial.points else 0.0
        step = last + self.design.report_every if entry.step is None else entry.step
        if told is None or (trial.points and step <= last):
            return False
        self.add(trial, Point(step, float(told), entry.at))
        return True

    def add(self, trial: TrialTrack, point: Point) -> None:
        trial.points.append(point)
        if not isfinite(point.value):
            return
        design = self.design
        if self.best is None or design.is_better(point.value, self.best[1].value):
            self.best = (trial, point)
        target = design.target
        if target is not None and self.reached_at < 0 and not design.is_better(target, point.value):
            self.reached_at = point.at

    def begin_stint(self, trial: TrialTrack, track: Track) -> None:
        assert track.placement is not None
        self.rung = track.rung or self.rung
        if trial.since >= 0:  # it goes on, in another way
            since = trial.stints.pop().since
        else:
            since = track.started_at
        trial.stints.append(TrialStint(since, -1.0, track.placement, track.holds))
        trial.standing = RUNNING

    def end_stint(self, trial: TrialTrack, track: Track, at: Seconds) -> None:
        trial.saved_in_s, trial.restored_in_s = track.saved_in_s, track.restored_in_s
        if trial.since < 0:
            return
        last = trial.stints.pop()._replace(until=at)
        trial.stints.append(last)
        trial.held_s += at - last.since
        trial.held_gpu_s += last.holds * (at - last.since)

    def end_job(self, trial: TrialTrack, track: Track) -> None:
        self.group.line.discard(track.job.id)
        self.group.bench.pop(track.job.id, None)
        self.end_stint(trial, track, track.ended_at)
        if trial.branching is not None:
            trial.standing = PAUSED
        elif track.job.id != trial.job:
            if track.phase is FINISHED:
                self._hand_on(trial, track)
            trial.standing = PAUSED
        else:
            trial.ended_at = track.ended_at
            trial.standing, trial.reason = self._outcome(trial, track)

    def _hand_on(self, trial: TrialTrack, track: Track) -> None:
        """Trials that share this stage go on from where it ended. What it did after that was with the
        settings of one of them."""
        shared = [point for point in trial.points if not is_beyond(point, trial, track)]
        for other in self.trials.values():
            if track.job.id in other.after and other is not trial and not other.is_over:
                other.points.extend(shared)
                other.standing = PAUSED

    def _outcome(self, trial: TrialTrack, track: Track) -> tuple[str, str]:
        if track.phase is Phase.CANCELLED:
            return STOPPED, track.reason
        if track.phase is not FINISHED:
            return FAILED, track.reason
        if trial.points:
            return DONE, ""
        told = ", ".join(sorted(track.metrics)) or "nothing"
        return FAILED, f"{UNREPORTED} {self.design.metric!r}; it reported {told}"


def is_beyond(point: Point, trial: TrialTrack, track: Track) -> bool:
    """Past the end of the stage that the job is? Some scripts count from 0."""
    last = track.job.last_step
    return last is not None and point.step + (trial.points[0].step <= 0) > last
