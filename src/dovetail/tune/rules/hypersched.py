"""HyperSched (Liaw and others, SoCC 2019): the best by a deadline."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.tune.rules import Verdict
from dovetail.tune.rules.asha import promoted
from dovetail.tune.rules.rungs import check, geometric
from dovetail.tune.study import NEW, Study, Trial


@dataclass(frozen=True, slots=True)
class HyperSched:
    """ASHA that pauses, with an eye on the deadline: no trial is begun that could not come as far as the
    leader any more; then the slots go to those with the lowest loss that can still make progress.
    Without a deadline it is `asha-promote`.
    """

    eta: int = 3
    first: int = 1

    def __post_init__(self) -> None:
        check(self.first, self.eta)

    def verdict(self, study: Study, trial: Trial) -> Verdict:
        return None

    def pick(self, study: Study, leaving: Trial | None) -> Trial | None:
        if not self.is_late(study):
            rungs = geometric(self.first, self.eta, study.steps)
            return promoted(study, leaving, rungs, self.eta)
        begun = [trial for trial in study.waiting() if trial.standing is not NEW]
        if leaving is not None:
            begun.insert(0, leaving)
        return min(begun, key=lambda trial: trial.loss, default=None) or next(
            iter(study.waiting()), None
        )

    def is_late(self, study: Study) -> bool:
        """Is there too little time for a new trial to catch up with the longest?"""
        if study.deadline is None:
            return False
        left = study.deadline - study.now
        longest = max([len(trial.losses) for trial in study.trials], default=0)
        return left < min(self.eta * max(longest - study.switch_cost, 0.0), study.steps)
