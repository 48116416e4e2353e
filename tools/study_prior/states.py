"""What the default rule sees when it has a choice, while it is replayed on recorded curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import exp, inf, log
from random import Random
from statistics import fmean
from typing import Any

import numpy as np

from dovetail.tune.extrapolation import SIGNS, Prior, Promise, promise
from dovetail.tune.recorded import Task
from dovetail.tune.replay import DrawnTrials, draw, replay
from dovetail.tune.rules import Rule, Verdict
from dovetail.tune.rules.default import Default
from dovetail.tune.rules.turns import FifoRule
from dovetail.tune.study import DONE, Study, Trial

MOST_TRIALS = 32  # of a study; smaller ones are filled up with empty rows


@dataclass(frozen=True, slots=True)
class View:
    """A way to look at the curves of a family, so that not only its own length and size is learned."""

    often: float  # against the draws of the family
    trials: int = MOST_TRIALS
    slots: int = 4
    first: int = 0
    every: int = 1
    steps: int | None = None  # cut to so many, before every second or fourth is taken

    def of(self, task: Task) -> Task:
        curves = (curve[: self.steps][self.first :: self.every] for curve in task.curves)
        return Task(task.name, tuple(curves))


AS_THEY_ARE = View(1.0)


@dataclass(frozen=True, slots=True)
class States:
    """One row per state, one column per trial."""

    signs: Any  # and, third, one per sign
    seen: Any  # whether it has made a step
    eligible: Any  # whether it has steps left
    best: Any  # whether it will reach the target

    def __len__(self) -> int:
        return len(self.signs)

    @staticmethod
    def joined(parts: Sequence[States]) -> States:
        return States(
            *(np.concatenate([getattr(part, own.name) for part in parts]) for own in fields(States))
        )


class _Reached(Exception):
    """The target, at this time: what comes after it teaches nothing and takes most of the time."""

    def __init__(self, at: float) -> None:
        self.at = at


@dataclass(frozen=True, slots=True)
class _UntilTarget:
    rule: Rule
    target: float

    def verdict(self, study: Study, trial: Trial) -> Verdict:
        return self.rule.verdict(study, trial)

    def pick(self, study: Study, leaving: Trial | None) -> Trial | None:
        if any(trial.loss <= self.target for trial in study.trials):
            raise _Reached(study.now)
        return self.rule.pick(study, leaving)


class _Watched:
    """The default rule under a prior; notes what it saw at every so many free choices (0: never)."""

    def __init__(self, prior: Prior, drawn: DrawnTrials, every: int, beginning: int = 0) -> None:
        self._rule, self._prior = Default(), prior
        self._every, self._choices = every, beginning
        self._best = np.array([min(curve) <= drawn.target for curve in drawn.curves])
        self.notes: list[States] = []

    def verdict(self, study: Study, trial: Trial) -> Verdict:
        return self._rule.verdict(study, trial)

    def pick(self, study: Study, leaving: Trial | None) -> Trial | None:
        known = promise(study, self._prior)  # the first to ask: this is the prior of the study
        if self._every and study.now > 0 and self._may_choose(study, leaving):
            self._choices += 1
            if self._choices % self._every == 0:
                self.notes.append(self._noted(study, known))
        return self._rule.pick(study, leaving)

    def _may_choose(self, study: Study, leaving: Trial | None) -> bool:
        return leaving is None or self._rule.may_leave(study, leaving)

    def _noted(self, study: Study, known: Promise) -> States:
        note = _empty()
        seen = (known.curves.last < inf).nonzero()[0]
        note.signs[0, seen] = known.signs(seen, study.slots)
        note.seen[0, seen] = True
        for trial in study.trials:
            note.eligible[0, trial.number] = trial.standing is not DONE
        note.best[0, : len(self._best)] = self._best
        return note


def _empty() -> States:
    shape = (1, MOST_TRIALS)
    return States(
        np.zeros((*shape, len(SIGNS)), np.float32), *(np.zeros(shape, bool) for _ in range(3))
    )


def met(prior: Prior, task: Task, view: View, seeds: Sequence[int], every: int) -> States:
    """What the rule sees under this prior on draws of the task."""
    notes, viewed = [_nothing()], view.of(task)
    for seed in seeds:
        drawn = draw(viewed, view.trials, seed)
        watched = _Watched(prior, drawn, every, Random(f"{task.name}/{seed}").randrange(every))
        _to_target(watched, drawn, view.slots)
        notes += watched.notes
    return States.joined(notes)


def _nothing() -> States:
    none = _empty()
    return States(*(getattr(none, own.name)[:0] for own in fields(States)))


def share(prior: Prior, task: Task, seeds: Sequence[int]) -> float:
    """Of the clairvoyant's speed, under this prior: a geometric mean over draws of the task."""
    return exp(fmean(log(one.clairvoyant / one.ours) for one in timed(prior, task, seeds)))


@dataclass(frozen=True, slots=True)
class Timed:
    """When the target was reached on one draw, in steps."""

    ours: float
    fifo: float
    clairvoyant: float


def timed(prior: Prior, task: Task, seeds: Sequence[int], trials: int = MOST_TRIALS) -> list[Timed]:
    """Draws of the task under this prior, and under those it is compared with."""
    slots = AS_THEY_ARE.slots
    found = []
    for seed in seeds:
        drawn = draw(task, trials, seed)
        ours = _to_target(_Watched(prior, drawn, every=0), drawn, slots)
        fifo = _to_target(FifoRule(), drawn, slots)
        found.append(
            Timed(ours, fifo, _to_target(FifoRule(), drawn.in_order_of_their_ends(), slots))
        )
    return found


def _to_target(rule: Rule, drawn: DrawnTrials, slots: int) -> float:
    try:
        replay(_UntilTarget(rule, drawn.target), drawn, slots=slots)
    except _Reached as reached:
        return reached.at
    raise AssertionError("a rule that gives nobody up reaches the target")
