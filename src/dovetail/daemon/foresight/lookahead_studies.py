"""The turns of studies, looked ahead: their trials make steps, tell of them, and more of them come.

Who has the next turn is for the study's own rule to say, as it is live (`tune/live.py`). What the trials
would report nobody knows: curves go on as they do, and a new trial does as one of those before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from random import Random
from typing import Final, final

from dovetail.core.entries import Event, Reported, Submitted
from dovetail.core.model import Job, JobId, Seconds
from dovetail.core.state import State
from dovetail.core.track import Track
from dovetail.models.workload import Going
from dovetail.tune.board import Mirror
from dovetail.workloads.study.kind import studies_of
from dovetail.workloads.study.track import StudyTrack, TrialTrack
from dovetail.worlds.simulated import SimulatedCluster

MOST_STEPS: Final = 150  # of one study that are looked at one by one: its rule thinks about each
_SOON = 1e-9
_LASTING_GAIN = 0.5  # of what a step has gained, in the next one


@dataclass(slots=True)
class _Course:
    """The rest of one trial: reports, `work` apart, each about so many steps."""

    study: StudyTrack
    work: Seconds
    steps: int
    left: int  # reports before it ends; with the last one it does
    next_at: Seconds  # in its own time


def steps_ahead(state: State) -> int:
    """That the open studies will be seen to make."""
    return sum(
        min(_steps_left(study, state)[1], MOST_STEPS) for study in studies_of(state).open.values()
    )


def _steps_left(study: StudyTrack, state: State) -> tuple[Mirror, int]:
    mirror = Mirror(study).sync(state)
    made = sum(trial.steps for trial in mirror.study.trials)
    return mirror, max(max(study.design.planned, len(study.trials)) * mirror.study.steps - made, 1)


@final
class TurnsAhead:
    """Beside the simulated world: what happens to trials in it, apart from their ends."""

    def __init__(self, state: State, left_s: Mapping[JobId, Seconds]) -> None:
        self._state: Final = state
        self._courses: Final[dict[JobId, _Course]] = {}
        self._usual: Final[dict[str, tuple[Job, Seconds, int, int]]] = {}  # by study: a whole trial
        for study in studies_of(state).open.values():
            self._take_up(study, left_s)

    def _take_up(self, study: StudyTrack, left_s: Mapping[JobId, Seconds]) -> None:
        mirror, left = _steps_left(study, self._state)
        at_once, whole = ceil(left / MOST_STEPS), mirror.study.steps
        for number, track in mirror.jobs.items():
            steps = whole - mirror.study.trials[number].steps
            if track.job.id in left_s and steps > 0:
                self._begin(study, track, left_s[track.job.id], steps, at_once)
                seconds = left_s[track.job.id] / steps * whole
                self._usual[study.id] = (track.job, seconds, whole, at_once)

    def _begin(
        self, study: StudyTrack, track: Track, left_s: Seconds, steps: int, at_once: int
    ) -> None:
        work = left_s / steps * at_once
        base = track.executed_by(self._state.now)
        course = _Course(study, work, at_once, ceil(steps / at_once) - 1, base + work)
        self._courses[track.job.id] = course

    # ------------------------------------------------------------------------------- what happens

    def next_steps(self) -> Iterator[Seconds]:
        """When those that run have made their next step."""
        for track, course in self._under_way():
            yield track.working_since + (course.next_at - track.executed_s) / track.speed

    def due(self, ended: Sequence[JobId], world: SimulatedCluster) -> list[Event]:
        """Reports of steps that are made by now, and trials that come because others have ended."""
        if not self._courses:
            return []
        now, events = self._state.now, list[Event]()
        for track, course in self._under_way():
            if track.executed_by(now) >= course.next_at - _SOON * max(course.next_at, 1.0):
                events.append(self._report(track, course))
        for job_id in [job_id for job_id in ended if job_id in self._courses]:
            study = self._courses.pop(job_id).study
            if studies_of(self._state).open.get(study.id) is study:
                events.extend(self._next_trial(study, world))
        return events

    def _under_way(self) -> Iterator[tuple[Track, _Course]]:
        for job_id, track in self._state.running.items():
            course = self._courses.get(job_id)
            if course is not None and course.left > 0 and track.working_since >= 0:
                yield track, course

    def _report(self, track: Track, course: _Course) -> Event:
        course.left -= 1
        course.next_at += course.work
        design, number = course.study.design, track.job.member
        assert number is not None
        trial = course.study.trials[number]
        last = trial.points[-1].step if trial.points else 0.0
        step = last + course.steps * design.report_every
        value = _goes_on(course.study, trial, len(trial.points) + 1)
        return Reported(
            self._state.now, track.job.id, step, {design.metric: value}, track.reported_upto
        )

    def _next_trial(self, study: StudyTrack, world: SimulatedCluster) -> Iterator[Event]:
        number = len(study.trials)
        if number >= study.design.planned or study.id not in self._usual:
            return
        like, seconds, steps, at_once = self._usual[study.id]
        job = replace(like, id=JobId(f"{study.id}+{number}"), member=number, after=())
        work = seconds / steps * at_once
        self._courses[job.id] = _Course(study, work, at_once, ceil(steps / at_once) - 1, work)
        world.take_up(Going(job, seconds))
        yield Submitted(self._state.now, job)


def _goes_on(study: StudyTrack, trial: TrialTrack, number: int) -> float:
    """The metric at its next report."""
    if trial.points:
        last = trial.points[-1].value
        before = trial.points[-2].value if len(trial.points) > 1 else last
        gain = last - before
        return last + _LASTING_GAIN * gain if study.design.is_better(last, before) else last
    others = [other for other in study.trials.values() if other.points]
    if not others:
        return 1.0
    like = Random(f"{study.id}/{trial.number}").choice(others)
    return like.points[min(number, len(like.points)) - 1].value
