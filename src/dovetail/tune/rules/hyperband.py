"""HyperBand (Li and others, JMLR 2018): successive halving from several beginnings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.tune.rules import Verdict
from dovetail.tune.rules.halving import cut, next_of_round
from dovetail.tune.rules.rungs import check
from dovetail.tune.study import Study, Trial


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
