"""A study replayed on recorded curves, by the same rule that decides live.

Every trial exists from the beginning. Step ends of the same instant are all recorded before any
decision; then all trials that made a step are judged, and then the slots are given, in their order.
Times are in steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from math import inf
from random import Random
from statistics import fmean, median

from dovetail.core.errors import BadInput, DovetailError
from dovetail.tune.recorded import Curve, Task
from dovetail.tune.rules import Copy, Cull, GiveUp, Rule
from dovetail.tune.study import DONE, NEW, PAUSED, RUNNING, STOPPED, Study, Trial

WITHIN = 0.01  # of the distance from the best to the median: counts as the best
_SAME_INSTANT = 1e-9


@dataclass(frozen=True, slots=True)
class DrawnTrials:
    """The configurations of one run, in the order in which they arrive."""

    curves: tuple[Curve, ...]
    durations: tuple[Curve, ...] | None  # of each step, in mean steps; None: every step lasts 1
    target: float

    @property
    def best(self) -> int:
        """The trial with the lowest final value; of equals the first drawn."""
        return min(range(len(self.curves)), key=lambda number: min(self.curves[number]))

    def in_order_of_their_ends(self) -> DrawnTrials:
        """The order of a clairvoyant: the lowest final value first."""
        order = sorted(range(len(self.curves)), key=lambda number: min(self.curves[number]))
        durations = self.durations and tuple(self.durations[number] for number in order)
        return replace(
            self, curves=tuple(self.curves[number] for number in order), durations=durations
        )


def draw(task: Task, trials: int, seed: int, use_seconds: bool = False) -> DrawnTrials:
    """`trials` configurations of the task in random order; the same for every rule."""
    if len(task.curves) < trials:
        raise BadInput(
            f"task {task.name!r} has {len(task.curves)} configurations, fewer than the {trials} to "
            f"draw; give --trials {len(task.curves)} or less"
        )
    chosen = Random(f"{task.name}/{seed}").sample(range(len(task.curves)), trials)
    curves = tuple(task.curves[number] for number in chosen)
    ends = [min(curve) for curve in curves]
    best = min(ends)
    durations = _in_mean_steps(task, chosen) if use_seconds else None
    return DrawnTrials(curves, durations, best + WITHIN * (median(ends) - best))


def _in_mean_steps(task: Task, chosen: Sequence[int]) -> tuple[Curve, ...]:
    if task.seconds is None:
        raise BadInput(f"task {task.name!r} has no recorded seconds; leave --seconds out")
    seconds = [task.seconds[number] for number in chosen]
    mean = fmean(fmean(times) for times in seconds) or 1.0
    return tuple(tuple(time / mean for time in times) for times in seconds)


@dataclass(frozen=True, slots=True)
class ReplayRun:
    """The outcome of a rule on the drawn trials. Times in steps; infinite: never."""

    to_target: float
    best_done: float
    best_killed: bool
    steps: int
    switches: int
    peak_suspended: int
    end: float


def replay(
    rule: Rule,
    drawn: DrawnTrials,
    *,
    slots: int = 4,
    switch_cost: float = 0.25,
    start_cost: float | None = None,
    seed: int = 0,
    deadline: float | None = None,
) -> ReplayRun:
    """Run the rule to the end: until every trial is done or given up, or until the deadline.

    A first start costs as much as a switch, unless `start_cost` says otherwise.
    """
    study = Study(
        len(drawn.curves[0]),
        slots,
        switch_cost=switch_cost,
        deadline=deadline,
        planned=len(drawn.curves),
        seed=seed,
    )
    study.trials = [Trial(number, {}) for number in range(len(drawn.curves))]
    world = _World(rule, drawn, study, start_cost)
    world.run()
    return world.outcome()


class _World:
    """The slots, the trials in them, and the curves that the trials follow."""

    def __init__(
        self, rule: Rule, drawn: DrawnTrials, study: Study, start_cost: float | None = None
    ) -> None:
        self.rule = rule
        self.start_cost = study.switch_cost if start_cost is None else start_cost
        self.drawn = drawn
        self.study = study
        self.occupants: list[Trial | None] = [None] * study.slots
        self.ends: list[tuple[float, int]] = []  # of the steps under way: when, and in which slot
        # Which curve a trial follows, and its offset along that curve: both change only when it
        # copies another trial's weights.
        self.follows = list(range(len(study.trials)))
        self.ahead = [0] * len(study.trials)
        self.left: dict[int, float] = {}  # by trial: when it last had to leave its slot
        self.best = drawn.best
        self.to_target = inf
        self.best_done = inf
        self.steps = 0
        self.suspended = 0
        self.peak_suspended = 0

    def run(self) -> None:
        study, ends = self.study, self.ends
        due = list(range(study.slots))
        while True:
            for slot in due:
                self.judge(slot)
            for slot in due:
                self.decide(slot)
            if not ends or (study.deadline is not None and ends[0][0] > study.deadline):
                break
            study.now = ends[0][0]
            same_instant = study.now + _SAME_INSTANT
            due = []
            while ends and ends[0][0] <= same_instant:
                slot = heappop(ends)[1]
                self.step_ended(slot)
                due.append(slot)
            if len(ends) + len(due) < study.slots:  # an empty slot may be wanted now
                due = [slot for slot in range(study.slots) if slot in due or self._idle(slot)]
            elif len(due) > 1:
                due.sort()
        if study.deadline is None and study.waiting():
            raise DovetailError(
                f"rule {self.rule!r} left {len(study.waiting())} trials waiting at t={study.now:g} "
                "with every slot free; a rule has to pick one of them or give it up"
            )

    def _idle(self, slot: int) -> bool:
        return all(slot != busy for _, busy in self.ends)

    def step_ended(self, slot: int) -> None:
        trial = self.occupants[slot]
        assert trial is not None
        line = self.follows[trial.number]
        curve = self.drawn.curves[line]
        place = len(trial.losses) + self.ahead[trial.number]
        if place >= len(curve):  # it copied a trial that was further than itself
            place = len(curve) - 1
        trial.report(curve[place])
        trial.seconds += 1.0 if self.drawn.durations is None else self.drawn.durations[line][place]
        self.steps += 1
        now = self.study.now
        if trial.best[-1] <= self.drawn.target and now < self.to_target:
            self.to_target = now
        if line == self.best and place == len(curve) - 1 and now < self.best_done:
            self.best_done = now
        if len(trial.losses) >= self.study.steps:
            trial.standing = DONE
            self.occupants[slot] = None

    def judge(self, slot: int) -> None:
        trial = self.occupants[slot]
        if trial is None:
            return
        match self.rule.verdict(self.study, trial):
            case None:
                pass
            case GiveUp():
                self._end([trial])
            case Cull(trials):
                self._end(trials)
            case Copy(source):
                self._take_over(trial, source)

    def decide(self, slot: int) -> None:
        leaving = self.occupants[slot]
        chosen = self.rule.pick(self.study, leaving)
        start = self.study.now
        if chosen is not leaving:
            is_new = chosen is not None and chosen.standing is NEW
            start += self.start_cost if is_new else self.study.switch_cost
            if is_new and self.start_cost > self.study.switch_cost:
                more = self.start_cost - self.study.switch_cost
                self.study.starting += more / self.study.slots
            self._exchange(slot, leaving, chosen)
        if chosen is not None:
            heappush(self.ends, (start + self._duration(chosen), slot))

    def _end(self, trials: Sequence[Trial]) -> None:
        for trial in trials:
            self.suspended -= trial.standing is PAUSED
            trial.standing = STOPPED
            if trial in self.occupants:
                self.occupants[self.occupants.index(trial)] = None

    def _exchange(self, slot: int, leaving: Trial | None, chosen: Trial | None) -> None:
        if leaving is not None:
            leaving.standing = PAUSED
            self.left[leaving.number] = self.study.now
            self.suspended += 1
        if chosen is not None:
            if chosen.standing is PAUSED:
                self.suspended -= 1
            elif chosen.standing is not NEW:
                raise DovetailError(
                    f"rule {self.rule!r} picked trial {chosen.number}, which is "
                    f"{chosen.standing.value}; a rule picks one that waits, or the one leaving"
                )
            chosen.standing = RUNNING
            if self.left.get(chosen.number) != self.study.now:  # else it only changed slots
                chosen.turn = 0
            self.study.switches += 1
        self.peak_suspended = max(self.peak_suspended, self.suspended)
        self.occupants[slot] = chosen

    def _duration(self, trial: Trial) -> float:
        if self.drawn.durations is None:
            return 1.0
        times = self.drawn.durations[self.follows[trial.number]]
        return times[min(len(trial.losses) + self.ahead[trial.number], len(times) - 1)]

    def _take_over(self, trial: Trial, source: Trial) -> None:
        self.follows[trial.number] = self.follows[source.number]
        ahead = len(source.losses) - len(trial.losses)
        self.ahead[trial.number] = ahead + self.ahead[source.number]

    def outcome(self) -> ReplayRun:
        going_on = [
            trial
            for trial in self.study.trials
            if self.follows[trial.number] == self.best and trial.standing is not STOPPED
        ]
        killed = self.best_done == inf and not going_on  # given up, or overwritten by another
        return ReplayRun(
            self.to_target,
            self.best_done,
            killed,
            self.steps,
            self.study.switches,
            self.peak_suspended,
            self.study.now,
        )
