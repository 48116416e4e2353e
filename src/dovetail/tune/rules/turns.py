"""Rules that judge no trial: one after another, or in turns."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.tune.rules import Rule
from dovetail.tune.study import NEW, PAUSED, Study, Trial


@dataclass(frozen=True, slots=True)
class FifoRule(Rule):
    """Each trial runs to its end, in order of creation."""

    def pick(self, study: Study, leaving: Trial | None) -> Trial | None:
        if leaving is not None:
            return leaving
        for trial in study.trials:
            if trial.standing is NEW or trial.standing is PAUSED:
                return trial
        return None


@dataclass(frozen=True, slots=True)
class RoundRobinRule(Rule):
    """Every trial gets `quantum` steps in turn: the next is the one that has made the fewest."""

    quantum: int = 1

    def __post_init__(self) -> None:
        if self.quantum < 1:
            raise ValueError(f"quantum={self.quantum}; give at least 1 step")

    def pick(self, study: Study, leaving: Trial | None) -> Trial | None:
        if leaving is not None and leaving.turn < self.quantum:
            return leaving
        waiting = study.waiting()
        if not waiting:
            return leaving
        return min(waiting, key=lambda trial: len(trial.losses))
