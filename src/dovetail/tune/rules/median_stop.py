"""The median rule (Golovin and others, Vizier, KDD 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean, median

from dovetail.tune.rules import GiveUp, Verdict
from dovetail.tune.study import Study, Trial


@dataclass(frozen=True, slots=True)
class MedianStop:
    """Trials run in order; one is given up when its lowest loss is above the median of what the others
    had on average up to that step. Not before `grace` steps, nor before `others` have come as far."""

    grace: int = 3
    others: int = 5

    def __post_init__(self) -> None:
        if self.grace < 1 or self.others < 1:
            raise ValueError("grace and others are 1 or more")

    def verdict(self, study: Study, trial: Trial) -> Verdict:
        steps = len(trial.losses)
        if steps < self.grace:
            return None
        averages = [
            fmean(other.losses[:steps])
            for other in study.trials
            if other is not trial and len(other.losses) >= steps
        ]
        if len(averages) < self.others or trial.loss <= median(averages):
            return None
        return GiveUp(f"above the median of {len(averages)} others after {steps} steps")

    def pick(self, study: Study, leaving: Trial | None) -> Trial | None:
        return leaving or next(iter(study.waiting()), None)
