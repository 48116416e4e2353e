"""POP, the rule of HyperDrive (Middleware 2017): promising, opportunistic and poor trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from dovetail.tune.decay import forecasts
from dovetail.tune.rules import GiveUp, Verdict, rungs
from dovetail.tune.study import PAUSED, RUNNING, Study, Trial


def threshold(chances: Sequence[float], slots: int) -> tuple[float, int]:
    """The chance from which a trial is promising, and the number of slots that promising trials get.

    With a threshold p, the promising trials want one slot each, and deserve the share p of the slots:
    the surer they are, the more slots. The best threshold is where the smaller of both is largest.
    """
    best, dedicated = inf, 0.0
    for desired, chance in enumerate(sorted(chances, reverse=True), 1):
        if min(desired, slots * chance) > dedicated:
            best, dedicated = chance, min(desired, slots * chance)
    return best, int(dedicated + 1e-9)


@dataclass(frozen=True, slots=True)
class Pop:
    """The promising have slots of their own; the others take turns on the rest; the poor are killed.

    A trial's chance is that of reaching the target in the steps it has left, until the deadline at
    most. Without a target it is to beat the lowest loss of the others. Our curves are extrapolated
    as for freeze-thaw; HyperDrive uses eleven families of curves and Monte Carlo.
    """

    check: int = 4  # a trial is judged every so many steps
    poor: float = 0.05  # below this chance it is killed
    turn: int = 2  # of an opportunistic trial, in steps

    def __post_init__(self) -> None:
        for name in ("check", "turn"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)}; give at least 1 step")
        if not 0 <= self.poor < 1:
            raise ValueError(f"poor={self.poor}; give a chance from 0 to below 1")

    def verdict(self, study: Study, trial: Trial) -> Verdict:
        if len(trial.losses) % self.check:
            return None
        chance = _chance(study, trial)
        if chance >= self.poor:
            return None
        return GiveUp(f"its chance to reach the target is {chance:.2g}, below {self.poor:g}")

    def pick(self, study: Study, leaving: Trial | None) -> Trial | None:
        there = rungs.candidates(study, leaving)
        promising = self._promising(study)
        if leaving in promising:
            return leaving
        for trial in promising:
            if trial in there:
                return trial
        if leaving is not None and len(leaving.losses) % self.turn:
            return leaving
        return min(there, key=lambda trial: (len(trial.losses), trial is leaving), default=None)

    def _promising(self, study: Study) -> list[Trial]:
        """Trials with a slot of their own, the most likely first; judged once they have been checked."""
        alive = [
            trial
            for trial in study.trials
            if trial.standing in (RUNNING, PAUSED) and len(trial.losses) >= self.check
        ]
        chances = {trial.number: _chance(study, trial) for trial in alive}
        _, dedicated = threshold(list(chances.values()), study.slots)
        alive.sort(key=lambda trial: -chances[trial.number])
        return alive[:dedicated]


def _chance(study: Study, trial: Trial) -> float:
    """The chance of reaching the target in the time that is left."""
    target = study.target
    if target is None:
        target = min((other.loss for other in study.trials if other is not trial), default=inf)
    if trial.loss <= target:
        return 1.0
    left = study.steps - len(trial.losses)
    if study.deadline is not None:
        left = min(left, int(study.deadline - study.now))
    if left <= 0:
        return 0.0
    return forecasts(study).at(trial, len(trial.losses) + left).chance(target)
