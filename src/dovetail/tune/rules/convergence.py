"""Rules that follow how fast trials converge: SLAQ, and our reading of Hermes.

Hermes (Son and others, Electronics 2021) does not publish its formula, so there are three readings;
the plain slope is the one that does not work: a good trial whose loss has fallen stops falling.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from math import inf

from dovetail.tune.rules import Rule
from dovetail.tune.study import Study, Trial


def _highest(
    study: Study, leaving: Trial | None, worth: Callable[[Trial], float], gain: float = 0.0
) -> Trial | None:
    """The trial of the highest value; the trial in the slot keeps it unless another gains enough."""
    best, most = leaving, -inf
    if leaving is not None:
        most = worth(leaving)
        most += gain * abs(most) if most < inf else 0.0
    for trial in study.waiting():
        value = worth(trial)
        if value > most or best is None:
            best, most = trial, value
    return best


class _Kept(dict[int, tuple[Trial, int, float]]):
    """The values of trials, each kept until its next step: only trials that ran are valued again."""

    def worth(self, trial: Trial, reckon: Callable[[Trial], float]) -> float:
        known = self.get(trial.number)
        if known is None or known[0] is not trial or known[1] != len(trial.losses):
            known = self[trial.number] = trial, len(trial.losses), reckon(trial)
        return known[2]


@dataclass(frozen=True, slots=True)
class Slaq(Rule):
    """The trial whose last step brought most, in parts of its own largest step (SLAQ, SoCC 2017).

    Trials with fewer than two steps come first. Made for jobs that all have to end well: it prefers
    those that still have far to go.
    """

    quantum: int = 1
    _kept: _Kept = field(default_factory=_Kept, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.quantum < 1:
            raise ValueError(f"quantum={self.quantum}; give at least 1 step")

    def pick(self, study: Study, leaving: Trial | None) -> Trial | None:
        if leaving is not None and leaving.turn < self.quantum:
            return leaving
        worth = self._kept.worth
        return _highest(study, leaving, lambda trial: worth(trial, last_normalised_drop))


def last_normalised_drop(trial: Trial) -> float:
    """The drop of the last step, relative to the largest so far; infinite before there is one."""
    losses = trial.losses
    if len(losses) < 2:
        return inf
    drops = [_drop(before, after) for before, after in itertools.pairwise(losses)]
    largest = max(drops)
    return drops[-1] / largest if largest > 0 else -inf


def _drop(before: float, after: float) -> float:
    if after == inf:
        return -inf if before < inf else 0.0
    return before - after


@dataclass(frozen=True, slots=True)
class Hermes(Rule):
    """The trial that converges fastest in its early phase: our reading of Hermes.

    reading=cumulative: how far it has come down, relative to its first loss. reading=early: how low it
    was after its first `early` steps, frozen from then on. reading=slope: by how much per step over the
    last `window` steps, smoothed by `smoothing`. Trials of which too little is known come first, in
    order; another one must converge faster by the part `gain` to take a slot over.
    """

    reading: str = "cumulative"
    early: int = 3
    window: int = 3
    smoothing: float = 0.9
    gain: float = 0.0
    _kept: _Kept = field(default_factory=_Kept, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.reading not in _READINGS:
            raise ValueError(f"reading={self.reading}; choose from {', '.join(_READINGS)}")
        if self.early < 1 or self.window < 1 or not 0 <= self.smoothing < 1 or self.gain < 0:
            raise ValueError("early and window are 1 or more steps, smoothing in [0, 1), gain >= 0")

    def pick(self, study: Study, leaving: Trial | None) -> Trial | None:
        worth, reckon = self._kept.worth, partial(_READINGS[self.reading], self)
        return _highest(study, leaving, lambda trial: worth(trial, reckon), self.gain)


def _cumulative(rule: Hermes, trial: Trial) -> float:
    """How far the loss has fallen, relative to the first loss; unknown after one step."""
    if len(trial.losses) < 2:
        return inf
    first = trial.losses[0]
    if first == inf or first == 0:
        return -inf
    return (first - trial.best[-1]) / abs(first)


def _early(rule: Hermes, trial: Trial) -> float:
    return -trial.best[rule.early - 1] if len(trial.losses) >= rule.early else inf


def _slope(rule: Hermes, trial: Trial) -> float:
    if trial.steps < 2:
        return inf
    smoothed = [trial.losses[0]]
    for loss in trial.losses[1:]:
        smoothed.append(rule.smoothing * smoothed[-1] + (1 - rule.smoothing) * loss)
    back = min(rule.window, len(smoothed) - 1)
    if smoothed[-1] == inf or smoothed[0] in (0, inf):
        return -inf
    return (smoothed[-1 - back] - smoothed[-1]) / (abs(smoothed[0]) * back)


_READINGS = {"cumulative": _cumulative, "early": _early, "slope": _slope}
