"""How the trials of a study will end, judged from their learning curves so far.

Every trial is projected to its last step along a hyperbola, and compared with the others at the age
it has reached. Only ranks and ratios are looked at, so that losses, errors and rewards of any scale
are judged alike. What each sign is worth is the prior below; the study's own curves do the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, isfinite, log
from typing import Any, Final, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from dovetail.tune.study import Study, Trial

Numbers: TypeAlias = NDArray[np.float64]

LENGTH: Final = (
    52  # steps of a trial where the prior was learned; other lengths are seen as stretched
)
_TINY = 1e-3  # of the study's whole progress: what counts as no difference where one divides by it

# How each sign moves the logarithm of a trial's odds of becoming the best: at the age of 1 in LENGTH
# steps, and what is added to that until the end, with the logarithm of its age. Fitted as a
# conditional logit on recorded studies; docs/decisions/0015 says how, and how well it carries over.
PRIOR: Final[Mapping[str, tuple[float, float]]] = {
    "beaten": (-0.34, -0.03),  # how many others were lower at its age (log)
    "lower": (-0.44, -0.58),  # how many others are lower now
    "outlook": (-0.30, -0.71),  # how many others are projected to end lower
    "behind": (-0.13, -0.35),  # the lead of the best at its age, against the drop it may still make
    "stalled": (0.08, -1.13),  # for how many steps it has not improved
    "trend": (0.26, -1.95),  # where its latest losses tend, against the spread of the trials
    "rises": (-0.13, -2.23),  # how many of its latest steps went up
    "off": (0.33, 0.09),  # whether the last step was not its best
    "bend": (-0.72, 3.68),  # very young: whether it falls faster and faster
    "relapse": (
        0.08,
        0.03,
    ),  # how far it has risen above its best, against the drop it may still make
}
UNSEEN: Final = -2.42  # the same for a trial that nothing is known of
SIGNS: Final = tuple(PRIOR)
_EARLY = np.array([early for early, _ in PRIOR.values()])
_LATER = np.array([later for _, later in PRIOR.values()])
_YOUNG = 4  # of LENGTH steps: until then the bend of a curve tells something


def projected(best: Sequence[float], steps: int) -> float:
    """Where a curve of lowest losses ends if it goes on as a hyperbola of its age.

    The drop over the last quarter of its life sets the pace: B(a) = c + k / a, which learning curves
    follow well enough to be ranked by, and which promises less than a line on the logarithm of age.
    """
    age = len(best)
    if age < 2:
        return best[-1]
    window = max(1, age // 4)
    drop = best[-1 - window] - best[-1]
    if not isfinite(drop):
        return best[-1]
    return best[-1] - drop * (1 - age / steps) * (age - window) / window


class Curves:
    """The curves of one study as arrays, brought up to date step by step."""

    def __init__(self, steps: int) -> None:
        self.steps: Final = steps
        self.ages: list[int] = []
        self._room(32)

    def _room(self, rows: int) -> None:
        """Make room for so many trials."""
        self.lowest = np.full((rows, self.steps), inf)  # per trial and age
        # [i, j]: j was lower at the age both reached
        self.above: Any = np.zeros((rows, rows), dtype=bool)
        self.first = np.full(rows, inf)
        self.last = np.full(rows, inf)  # lowest so far
        self.projected = np.full(rows, inf)
        self.slope = np.zeros(rows)  # of the latest losses, times how many they are
        self.rises = np.zeros(rows)
        self.over = np.zeros(rows)  # the latest loss over the lowest
        self.bend = np.zeros(rows)
        self.stalled = np.zeros(rows)

    def follow(self, trials: Sequence[Trial]) -> bool:
        """Take in what is new; whether anything was."""
        if len(trials) > len(self.last):
            self.ages = []
            self._room(2 * len(trials))
        ages = self.ages
        ages.extend([0] * (len(trials) - len(ages)))
        news = False
        for row, trial in enumerate(trials):
            made = min(len(trial.losses), self.steps)
            if made > ages[row]:
                for age in range(ages[row] + 1, made + 1):
                    self._compare(row, age, trial.best[age - 1])
                ages[row] = made
                self._describe(row, trial, made)
                news = True
        return news

    def _compare(self, row: int, age: int, loss: float) -> None:
        self.lowest[row, age - 1] = loss
        there = self.lowest[: len(self.ages), age - 1]
        reached = np.array(self.ages) >= age
        reached[row] = False
        others = reached.nonzero()[0]
        self.above[row, others] = there[others] < loss
        self.above[others, row] = there[others] > loss

    def _describe(self, row: int, trial: Trial, age: int) -> None:
        best, losses = trial.best[:age], trial.losses[:age]
        last = best[-1]
        self.first[row] = best[0]
        self.last[row] = last
        self.projected[row] = projected(best, self.steps)
        if not isfinite(best[max(age - 3, 0)]):
            return  # it has only just found finite losses: nothing to say of its shape
        before = best[max(age - 2, 0)]
        self.bend[row] = 2 * before - last - best[max(age - 3, 0)]
        if losses[-1] <= last:
            self.stalled[row] = 0 if last < before else self.stalled[row] + 1
        else:
            self.stalled[row] += 1
        latest = np.array(losses[age // 2 :])
        latest[~np.isfinite(latest)] = max(loss for loss in losses if isfinite(loss))
        self.over[row] = latest[-1] - last
        if age >= 2:
            later = max(1, age // 2)
            self.rises[row] = sum(losses[at] > losses[at - 1] for at in range(later, age)) / (
                age - later
            )
            self.slope[row] = _slope(latest) * len(latest)


def _slope(losses: Numbers) -> float:
    if len(losses) < 2:
        return 0.0
    at = np.arange(len(losses)) - (len(losses) - 1) / 2
    return float(at @ losses / (at @ at))


class Promise:
    """The logarithm of every trial's odds of becoming the best of its study, up to a constant."""

    def __init__(self, steps: int) -> None:
        self.curves = Curves(steps)
        self.odds = np.zeros(0)

    def of(self, study: Study) -> Numbers:
        """One figure per trial, in their order; the higher the better."""
        if self.curves.follow(study.trials) or len(self.odds) != len(study.trials):
            self.odds = self._weighed(len(study.trials))
        return self.odds

    def _weighed(self, count: int) -> Numbers:
        odds = np.full(count, UNSEEN)
        ages = np.array(self.curves.ages)
        seen = np.flatnonzero(np.isfinite(self.curves.last[:count]))
        odds[(ages > 0) & ~np.isfinite(self.curves.last[:count])] = -inf  # diverged, and no more
        if len(seen):
            relative = np.maximum(ages[seen] * LENGTH / self.curves.steps, 1.0)
            maturity = np.log(relative) / log(LENGTH)
            signs = self._signs(seen, ages[seen], relative)
            odds[seen] = signs @ _EARLY + (signs @ _LATER) * maturity
        return odds

    def _signs(self, seen: NDArray[np.intp], ages: NDArray[np.intp], relative: Numbers) -> Numbers:
        curves = self.curves
        last, outlook = curves.last[seen], curves.projected[seen]
        tiny, spread = _scales(curves.first[seen], last)
        to_come = last - outlook + tiny
        over = curves.over[seen]
        return np.stack(
            [
                np.log1p(curves.above[np.ix_(seen, seen)].sum(axis=1)),
                np.log1p(_how_many_lower(last)),
                np.log1p(_how_many_lower(outlook)),
                np.log1p(10 * self._lead(seen, ages) / to_come),
                np.log1p(curves.stalled[seen]),
                np.clip(curves.slope[seen] / spread, -3, 3),
                curves.rises[seen],
                over > 0,
                np.where(relative <= _YOUNG, np.clip(curves.bend[seen] / spread, -3, 3), 0.0),
                np.log1p(10 * over / to_come),
            ],
            axis=1,
        )

    def _lead(self, seen: NDArray[np.intp], ages: NDArray[np.intp]) -> Numbers:
        """How far each is behind the lowest other at its age; the one furthest along is compared
        at the age that the second has reached."""
        if len(seen) < 2:
            return np.zeros(len(seen))
        at = np.minimum(ages, np.partition(ages, -2)[-2]) - 1
        there = self.curves.lowest[np.ix_(seen, at)]  # [j, i]: j at the age of i
        own = there.diagonal().copy()
        np.fill_diagonal(there, inf)
        lowest = there.min(axis=0)
        return np.maximum(own - np.where(np.isfinite(lowest), lowest, own), 0.0)


def _scales(first: Numbers, last: Numbers) -> tuple[float, float]:
    """What counts as nothing, and how far apart the trials are by now."""
    lowest = float(last.min())
    starts = first[np.isfinite(first)]
    start = float(np.median(starts)) if len(starts) else lowest
    tiny = _TINY * max(start - lowest, 0.0) + 1e-12
    return tiny, float(np.median(last)) - lowest + tiny


def _how_many_lower(losses: Numbers) -> NDArray[np.intp]:
    return np.searchsorted(np.sort(losses), losses)


_PROMISES: WeakKeyDictionary[Study, Promise] = WeakKeyDictionary()


def promise(study: Study) -> Numbers:
    """The logarithm of every trial's odds of becoming the best. Kept per study as a cache only: it
    follows from the curves."""
    known = _PROMISES.get(study)
    if known is None:
        known = _PROMISES[study] = Promise(study.steps)
    return known.of(study)
