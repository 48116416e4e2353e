"""How likely each trial of a study is to become its best, judged from the curves so far.

Every trial is projected to its end and compared with the others at the age it has reached. Only
ranks and ratios are used, so that losses, errors and rewards of any scale are judged alike.
`prior.json` weighs these signs: a small network, fitted to recorded studies (docs/decisions/0015
says how, 0040 how well it carries over to families it has not seen).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from math import inf, log
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np

from dovetail.tune.curves import Curves, Indices, Numbers
from dovetail.tune.study import Study

LENGTH: Final = (
    52  # steps of a trial where the prior was learned; longer and shorter ones are scaled
)
_NOTHING = 1e-3  # of the study's whole progress: what does not count as a difference
_SLIGHT = 0.003  # the same, inside the logarithm of a fall

SIGNS: Final = (
    # of the trial, compared with the others
    "beaten",  # how many trials were lower at its age
    "lower",  # how many trials are lower now
    "stalled",  # the number of steps without an improvement
    "outlook",  # how many trials are projected to end lower
    "behind",  # the lead of the best at its age, against the fall that is projected for it
    "trend",  # where its losses tend, relative to the spread of the trials
    "rises",  # the share of its latest steps whose loss rose
    "bend",  # in its first steps: does the fall become faster?
    "relapse",  # how far it is above its best, against the fall that is projected for it
    "level",  # how many trials last reported a lower loss; 0 if its first loss is its best
    "ahead",  # how many are further along
    "fall",  # from its first loss, against the progress of the study
    "gap",  # to the best at its age, against the spread of the trials
    "tendency",  # how many trials tend to a lower loss, by the line over the logarithm of age
    "recent",  # its fall in the second half of its steps, relative to the progress of the study
    "distance",  # to the best of all now, against the spread of the trials
    "start",  # its first loss relative to the median one
    # of the whole study
    "maturity",  # the logarithm of the trial's age in LENGTH steps
    "unseen",  # the share of trials that have not begun
    "leaders",  # the maturity of the oldest trials, as many as there are slots
    "spread",  # of the trials against the progress of the study
    "stuck",  # the share of trials whose first loss is their best
    "steps",  # the logarithm of the trial's age
    "concord",  # do first losses rank the trials as their lowest losses do?
    "concord_at_first",  # the same, for a trial of one step
)


class Promise:
    """The odds of one study's trials; computed when asked for and kept until a curve grows."""

    def __init__(self, steps: int, prior: Prior) -> None:
        self.curves = Curves(steps)
        self._prior = prior
        self._slots = 1
        self._odds: list[float] | None = None
        self._constancy: float | None = None

    def of(self, study: Study) -> Promise:
        """The odds for the study as it is now."""
        if self.curves.follow(study.trials) or study.slots != self._slots:
            self._slots = study.slots
            self._odds = self._constancy = None
        return self

    @property
    def odds(self) -> list[float]:
        """The logarithm of every trial's odds of becoming the best, up to a constant."""
        if self._odds is None:
            self._odds = self._weighed().tolist()
        return self._odds

    @property
    def constancy(self) -> float:
        """As in `Curves`."""
        if self._constancy is None:
            self._constancy = self.curves.constancy
        return self._constancy

    def _weighed(self) -> Numbers:
        curves = self.curves
        odds = np.full(len(curves.ages), self._prior.unseen)
        odds[(curves.ages > 0) & (curves.last == inf)] = -inf  # all its losses diverged
        seen = (curves.last < inf).nonzero()[0]
        if len(seen):
            odds[seen] = self._prior.odds(self.signs(seen, self._slots))
        return odds

    def signs(self, seen: Indices, slots: int) -> Numbers:
        """One row per trial seen, one column per sign."""
        curves = self.curves
        ages = curves.ages[seen]
        first, last, latest = curves.first[seen], curves.last[seen], curves.latest[seen]
        lowest, middle = last.min(), _median(first)
        progress = middle - lowest + 1e-12
        nothing = _NOTHING * progress
        spread = _median(last) - lowest + nothing
        to_come = last - curves.projected[seen] + nothing
        behind = self._behind(seen, ages)
        concord = curves.concord
        told: dict[str, Any] = {
            "beaten": np.log1p(curves.beaten[seen]),
            "lower": np.log1p(_how_many_lower(last)),
            "stalled": np.log1p(curves.stalled[seen]),
            "outlook": np.log1p(_how_many_lower(curves.projected[seen])),
            "behind": np.log1p(10 * behind / to_come),
            "trend": np.clip(curves.slope[seen] / spread, -3, 3),
            "rises": curves.rises[seen],
            "bend": np.where(ages <= 4, np.clip(curves.bend[seen] / spread, -3, 3), 0),
            "relapse": np.log1p(10 * (latest - last) / to_come),
            "level": np.where(last < first, np.log1p(_how_many_lower(latest)), 0),
            "ahead": np.log1p(_how_many_lower(-ages)),
            "fall": np.log1p(np.minimum((first - last) / progress, 2) / _SLIGHT),
            "gap": np.minimum(behind / spread, 5),
            "tendency": np.log1p(_how_many_lower(curves.tendency[seen])),
            "recent": np.log1p(np.minimum(curves.halved[seen] / progress, 5) / _SLIGHT),
            "distance": np.minimum((last - lowest) / spread, 5),
            "start": np.clip((first - middle) / progress, -2, 2),
            "maturity": self._maturity(ages),
            "unseen": 1 - len(seen) / len(curves.ages),
            "leaders": self._maturity(np.sort(curves.ages)[-min(slots, len(curves.ages))]),
            "spread": log(min(spread / progress, 1) + _SLIGHT) / log(_SLIGHT),
            "stuck": ((ages >= 2) & (last >= first)).mean(),
            "steps": np.log(ages) / 4,
            "concord": concord,
            "concord_at_first": np.where(ages == 1, concord, 0),
        }
        signs = np.empty((len(seen), len(SIGNS)))
        for column, name in enumerate(SIGNS):
            signs[:, column] = told[name]
        return signs

    def _maturity(self, ages: Any) -> Any:
        return np.log(np.maximum(ages * LENGTH / self.curves.steps, 1)) / log(LENGTH)

    def _behind(self, seen: Indices, ages: Indices) -> Numbers:
        """How far each trial is behind the lowest other at its age; for the oldest, at the age that
        the second oldest has reached."""
        if len(seen) < 2:
            return np.zeros(len(seen))
        at = np.minimum(ages, np.partition(ages, -2)[-2]) - 1
        own = self.curves.lowest[seen, at]
        lowest, second = self.curves.leaders[:, at]
        lead = own - np.where(own > lowest, lowest, second)
        return np.where(np.isfinite(lead), np.maximum(lead, 0), 0)


def _median(values: Numbers) -> float:
    ordered = np.sort(values)  # a third of the time of numpy's own for so few
    middle = len(values) // 2
    return float(ordered[middle] + ordered[-1 - middle]) / 2


def _how_many_lower(losses: Numbers | Indices) -> Indices:
    return np.searchsorted(np.sort(losses), losses)


class Prior:
    """Weights that turn signs into odds: one for each sign, one for each that grows with the
    trial's maturity, and those of the hidden units."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        if tuple(told["signs"]) != SIGNS:
            raise ValueError("prior.json was learned for other signs; learn it again")
        self.unseen: float = told["unseen"]
        self.plain = np.array(told["plain"])
        self.maturing = np.array(told["maturing"])
        hidden = np.array(told["hidden"])
        self.inner = np.ascontiguousarray(hidden[:, :-2].T)
        self.bias = hidden[:, -2]
        self.outer = hidden[:, -1]

    def odds(self, signs: Numbers) -> Numbers:
        odds: Numbers = (
            signs @ self.plain
            + (signs @ self.maturing) * signs[:, SIGNS.index("maturity")]
            + np.tanh(signs @ self.inner + self.bias) @ self.outer
        )
        return odds


@cache
def shipped() -> Prior:
    return Prior(json.loads(files("dovetail.tune").joinpath("prior.json").read_text()))


_PROMISES: WeakKeyDictionary[Study, Promise] = WeakKeyDictionary()


def promise(study: Study, prior: Prior | None = None) -> Promise:
    """The odds for this study as it is now. A cache only: they follow from the curves.

    Another prior than the shipped one is given at the first call for a study.
    """
    known = _PROMISES.get(study)
    if known is None:
        known = _PROMISES[study] = Promise(study.steps, prior or shipped())
    return known.of(study)
