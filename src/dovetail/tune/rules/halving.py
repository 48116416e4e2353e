"""Successive halving: at each rung a part of the trials goes on (Karnin 2013, Jamieson 2016).

HyperBand (Li and others, JMLR 2018) is successive halving from several beginnings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from dovetail.tune.rules import Cull, Verdict
from dovetail.tune.rules.rungs import arrived, candidates, check, geometric, last_rung
from dovetail.tune.study import FAILED, STOPPED, Study, Trial


@dataclass(frozen=True, slots=True)
class SuccessiveHalving:
    """At `first` steps, `first` * `eta`, … the best 1/`eta` of the trials goes on.

    pause=false: when all that are left have reached a rung, the others are given up. pause=true: a
    trial goes on as soon as it is among the best of those seen at its rung, the best of their rung
    first; when there is none, those with the fewest steps: nobody is given up.
    """

    first: int = 2
    eta: int = 2
    pause: bool = False

    def __post_init__(self) -> None:
        check(self.first, self.eta)

    def verdict(self, study: Study, trial: Trial) -> Verdict:
        if self.pause:
            return None
        rungs = geometric(self.first, self.eta, study.steps)
        return cut(study.trials, study.planned, rungs, self.eta, trial)

    def pick(self, study: Study, leaving: Trial | None) -> Trial | None:
        rungs = geometric(self.first, self.eta, study.steps)
        if leaving is not None and len(leaving.losses) not in rungs:
            return leaving
        if not self.pause:
            return next_of_round(study.trials, study.planned, rungs, leaving)
        return self._best_of_its_rung(study, rungs, candidates(study, leaving))

    def _best_of_its_rung(
        self, study: Study, rungs: Sequence[int], waiting: Sequence[Trial]
    ) -> Trial | None:
        seen = {rung: arrived(study.trials, rung) for rung in rungs}

        def place(trial: Trial) -> tuple[float, float, float]:
            rung = last_rung(trial, rungs)
            if not rung:
                return (0, trial.number, 0)
            rank, peers = seen[rung].index(trial), len(seen[rung])
            if rank < ceil(peers / self.eta):
                return (1, rank / peers, trial.loss)
            return (2, len(trial.losses), trial.loss)

        return min(waiting, key=place, default=None)


def cut(
    trials: Sequence[Trial], planned: int, rungs: Sequence[int], eta: int, trial: Trial
) -> Cull | None:
    """The trials that do not go beyond a rung, once the last remaining trial has reached it."""
    rung = len(trial.losses)
    if len(trials) < planned or rung not in rungs:
        return None
    if any(len(one.losses) < rung for one in left_of(trials)):
        return None
    ranked = arrived(trials, rung)  # including trials that were given up here at this moment
    kept = max(len(ranked) // eta, 1)
    gone = tuple(left_of(ranked[kept:]))
    if not gone:
        return None
    return Cull(gone, f"not among the best {kept} of {len(ranked)} after {rung} steps")


def left_of(trials: Sequence[Trial]) -> list[Trial]:
    return [trial for trial in trials if trial.standing not in (STOPPED, FAILED)]


def next_of_round(
    trials: Sequence[Trial], planned: int, rungs: Sequence[int], leaving: Trial | None
) -> Trial | None:
    """A trial that has not reached the rung of this round; no trial waits there without need."""
    left = left_of(trials)
    slowest = min([len(trial.losses) for trial in left], default=0)
    if len(trials) < planned:  # the others are still to be created
        slowest = 0
    goal = next((rung for rung in rungs if rung > slowest), None)
    for trial in left:
        if (trial is leaving or trial.waits) and (goal is None or len(trial.losses) < goal):
            return trial
    return None


@dataclass(frozen=True, slots=True)
class Bracket:
    trials: int  # at its start
    rungs: tuple[int, ...]  # the first of them, and so on up to all steps


def brackets(steps: int, eta: int) -> list[Bracket]:
    """From many trials judged early to few that run to the end, whatever the number of slots."""
    most = 0
    while eta ** (most + 1) <= steps:
        most += 1
    return [
        Bracket(
            -(-(most + 1) * eta**s // (s + 1)),
            tuple(steps // eta ** (s - i) for i in range(s + 1)),
        )
        for s in range(most, -1, -1)
    ]


@dataclass(frozen=True, slots=True)
class Hyperband:
    """Trials belong to brackets by their number; in each, successive halving gives up all but 1/`eta`
    at every rung. A slot that one bracket does not need now serves the next."""

    eta: int = 3

    def __post_init__(self) -> None:
        check(1, self.eta)

    def verdict(self, study: Study, trial: Trial) -> Verdict:
        for members, planned, bracket in self._members(study):
            if trial in members:
                return cut(members, planned, bracket.rungs[:-1], self.eta, trial)
        return None

    def pick(self, study: Study, leaving: Trial | None) -> Trial | None:
        for members, _, bracket in self._members(study):
            if (
                leaving is not None
                and leaving in members
                and len(leaving.losses) not in bracket.rungs
            ):
                return leaving
        for members, planned, bracket in self._members(study):
            chosen = next_of_round(members, planned, bracket.rungs[:-1], leaving)
            if chosen is not None:
                return chosen
        return None

    def _members(self, study: Study) -> list[tuple[Sequence[Trial], int, Bracket]]:
        """The trials of each bracket so far, and how many it will have; then the brackets repeat."""
        found: list[tuple[Sequence[Trial], int, Bracket]] = []
        in_all = max(study.planned, len(study.trials))
        begin = 0
        while begin < len(study.trials):
            for bracket in brackets(study.steps, self.eta):
                members = study.trials[begin : begin + bracket.trials]
                if members:
                    found.append((members, min(bracket.trials, in_all - begin), bracket))
                begin += bracket.trials
        return found
