"""Worlds in which trials make steps and tell of them: along recorded curves, or simulated beside
other people's jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor, inf
from typing import Any

from dovetail.core.entries import (
    Action,
    Branch,
    Event,
    Finished,
    NodeJoined,
    Preempt,
    Refuse,
    Reported,
    Start,
    Started,
    Stop,
    Submitted,
    Wake,
    Woke,
)
from dovetail.core.loop import Backend, Policy, run
from dovetail.core.model import JobId, Node
from dovetail.core.state import State
from dovetail.workloads.study.design import Design
from dovetail.workloads.study.entries import CloseStudy, StudyOpened
from study_state import METRIC, design, trial

Curve = Sequence[float]
_SOON = 1e-9


class Curves:
    """Slots of one machine; every step lasts 1, every start costs `switch_cost` before that."""

    def __init__(
        self, curves: Sequence[Curve], slots: int, switch_cost: float, **rest: Any
    ) -> None:
        self._curves = {JobId(f"s1.{number}"): curve for number, curve in enumerate(curves)}
        self.design = design(trials=len(curves), steps=len(curves[0]), **rest)
        self._cost = switch_cost
        self._node = Node("box", slots)
        self.made = dict.fromkeys(self._curves, 0)
        self._due: dict[JobId, float] = {}  # the next step of those that run
        self._wake_at = inf
        self._now, self._begun = 0.0, False
        self._started: list[Event] = []
        self.turns: list[tuple[float, str]] = []  # who was given a slot, when
        self.at_work: dict[float, set[str]] = {}  # who had one after each moment

    def observe(self) -> Sequence[Event]:
        if not self._begun:
            self._begun = True
            jobs = [Submitted(0.0, trial(number)) for number in range(len(self._curves))]
            return [NodeJoined(0.0, self._node), StudyOpened(0.0, self.design), *jobs]
        self.at_work[round(self._now, 6)] = {str(job_id) for job_id in self._due}
        at = min([self._wake_at, *self._due.values()])
        if at == inf:
            return ()
        self._now = at
        events, self._started = self._started, []
        if at == self._wake_at:
            self._wake_at = inf
            events.append(Woke(at))
        for job_id in sorted(own for own, due in self._due.items() if due <= at + _SOON):
            events += self._step(job_id)
        return events

    def _step(self, job_id: JobId) -> list[Event]:
        made, curve = self.made[job_id] + 1, self._curves[job_id]
        self.made[job_id] = made
        events: list[Event] = [Reported(self._now, job_id, made, {METRIC: curve[made - 1]})]
        if made == len(curve):
            del self._due[job_id]
            events.append(Finished(self._now, job_id))
        else:
            self._due[job_id] = self._now + 1.0
        return events

    def act(self, action: Action) -> None:
        if isinstance(action, Start):
            self.turns.append((round(self._now, 6), str(action.job_id)))
            self._due[action.job_id] = self._now + self._cost + 1.0
            self._started.append(Started(self._now, action.job_id))
        elif isinstance(action, Preempt | Stop | Refuse | Branch):
            self._due.pop(action.job_id, None)
        elif isinstance(action, Wake):
            self._wake_at = action.at


class Stepping:
    """A simulated world whose trials tell of every second of work as a step."""

    def __init__(self, world: Backend, state: State, values: Mapping[str, float]) -> None:
        self._world, self._state, self._values = world, state, values
        self._told: dict[JobId, int] = {}
        self._wake_at = inf
        self._opened: list[Event] = []

    def open(self, asked: Design) -> None:
        """To be called before anything is observed."""
        self._opened.append(StudyOpened(0.0, asked))

    def observe(self) -> Sequence[Event]:
        if self._opened:
            opened, self._opened = self._opened, []
            return [*opened, *self._world.observe()]
        self._world.act(Wake(min(self._wake_at, self._next_step())))
        events = self._world.observe()
        if events and events[-1].at >= self._wake_at:
            self._wake_at = inf
        return self._with_reports(events)

    def _next_step(self) -> float:
        at = inf
        for job_id, track in self._state.running.items():
            if track.job.member is not None and track.working_since >= 0:
                left = self._told.get(job_id, 0) + 1 - track.executed_by(self._state.now)
                at = min(at, self._state.now + max(left, 0.0) / track.speed)
        return at

    def _with_reports(self, events: Sequence[Event]) -> list[Event]:
        if not events:
            return []
        now, told = max(event.at for event in events), []
        for job_id, track in self._state.running.items():
            steps = floor(track.executed_by(now) + 1e-6)
            if track.job.member is not None and steps > self._told.get(job_id, 0):
                self._told[job_id] = steps
                told.append(Reported(now, job_id, steps, {METRIC: self._values[job_id] / steps}))
        ended = {getattr(event, "job_id", None) for event in events if event.at < now}
        told = [report for report in told if report.job_id not in ended]
        before = [event for event in events if event.at < now]
        return [*before, *told, *[event for event in events if event.at >= now]]

    def act(self, action: Action) -> None:
        if isinstance(action, Wake):
            self._wake_at = action.at
        elif not isinstance(action, CloseStudy):
            self._world.act(action)


def run_curves(world: Curves, policy: Policy, state: State | None = None) -> State:
    state = State(1000) if state is None else state
    run(world, [policy], state)
    return state
