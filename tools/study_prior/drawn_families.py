"""Families of curves drawn from formulas: those of the literature on learning curves, and some that are
made to mislead.

A family is a function of a source of chance that gives one task: a row for each setting, a column for
each step; lower is better. Shapes after Viering and Loog, "The Shape of Learning Curves" (2021), and
Caballero et al., "Broken Neural Scaling Laws" (2023).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dovetail.tune.recorded import Task

SETTINGS, STEPS = 64, 52
_AGES = np.arange(1.0, STEPS + 1)
Chance: TypeAlias = np.random.Generator
Family: TypeAlias = Callable[[Chance], Any]


def tasks(family: Family, number: int, first: int = 0) -> list[Task]:
    """So many of the family, always the same."""
    name = family.__name__.strip("_")
    found = []
    for own in range(first, first + number):
        chance = np.random.default_rng([own, *name.encode()])
        found.append(Task(f"{name}-{own}", tuple(map(tuple, family(chance).tolist()))))
    return found


# ---------------------------------------------------------------------- as the literature draws them


def power_laws(chance: Chance) -> Any:
    ends, falls = endings(chance), of_settings(chance, 0.2, 2.0)
    return noisy(chance, ends + falls * _AGES ** -of_settings(chance, 0.2, 1.3))


def exponentials(chance: Chance) -> Any:
    ends, falls = endings(chance), of_settings(chance, 0.3, 1.5)
    paces = np.exp(of_settings(chance, np.log(0.02), np.log(0.4)))
    return noisy(chance, ends + falls * np.exp(-paces * _AGES))


def janoschek(chance: Chance) -> Any:
    """A sigmoid whose bend comes sooner or later."""
    ends, falls = endings(chance), of_settings(chance, 0.3, 1.5)
    paces = np.exp(of_settings(chance, np.log(0.005), np.log(0.3)))
    return noisy(chance, ends + falls * np.exp(-paces * _AGES ** of_settings(chance, 0.6, 1.8)))


def mmf(chance: Chance) -> Any:
    """Morgan, Mercer and Flodin's."""
    ends, falls = endings(chance), of_settings(chance, 0.3, 1.5)
    halves = np.exp(of_settings(chance, np.log(2.0), np.log(30.0)))
    return noisy(chance, ends + falls / (1 + (_AGES / halves) ** of_settings(chance, 0.7, 2.5)))


def broken_power_laws(chance: Chance) -> Any:
    ends, falls = endings(chance), of_settings(chance, 0.3, 2.0)
    before, after = of_settings(chance, 0.05, 0.8), of_settings(chance, 0.1, 1.5)
    at = np.exp(of_settings(chance, np.log(4.0), np.log(35.0)))
    fall = _AGES**-before * (1 + (_AGES / at) ** 4) ** (-after / 4)
    return noisy(chance, ends + falls * fall)


def rate_drops(chance: Chance) -> Any:
    """What is left to learn shrinks at once where the learning rate drops: at the same share of the
    training for most, with a warm-up before it for some."""
    ends, falls = endings(chance), of_settings(chance, 0.3, 1.5)
    left = _AGES ** -of_settings(chance, 0.1, 0.8)
    for low, high in ((0.4, 0.65), (0.7, 0.9)):
        at = np.rint(chance.uniform(low, high) * STEPS + chance.integers(-2, 3, (SETTINGS, 1)))
        left = left * np.where(at <= _AGES, of_settings(chance, 0.3, 0.9), 1.0)
    warming = np.minimum(_AGES / of_settings(chance, 1.0, 6.0), 1.0)
    return noisy(chance, ends + falls * (1 - warming * (1 - left)))


def plateaus(chance: Chance) -> Any:
    """Nothing is learned for a while, then much."""
    ends, falls = endings(chance), of_settings(chance, 0.3, 1.2)
    begin = np.exp(of_settings(chance, 0.0, np.log(chance.uniform(5, 25))))
    paces = np.exp(of_settings(chance, np.log(0.05), np.log(0.5)))
    fall = np.exp(-paces * np.maximum(_AGES - begin, 0))
    return noisy(chance, ends + falls * (0.85 * fall + 0.15 * _AGES**-0.5))


def double_descents(chance: Chance) -> Any:
    """Down, up by a bump that some have, and down again."""
    ends, falls = endings(chance), of_settings(chance, 0.3, 1.5)
    at = of_settings(chance, 8, 24)
    bump = of_settings(chance, 0, 0.4) * np.exp(-(((_AGES - at) / of_settings(chance, 3, 8)) ** 2))
    return noisy(chance, ends + falls * (_AGES ** -of_settings(chance, 0.3, 1.0) + bump))


# --------------------------------------------------------------------------------- made to mislead


def slow_starters(chance: Chance) -> Any:
    """The lower the end, the later the fall."""
    ends = of_settings(chance, 0.0, 1.0)
    begin = 3 + (1 - ends) * chance.uniform(20, 32) + chance.normal(0, 2, (SETTINGS, 1))
    fall = 1 / (1 + np.exp(np.clip((_AGES - begin) / chance.uniform(1.5, 4), -50, 50)))
    return noisy(chance, ends + (1.2 - ends) * fall)


def crossing_late(chance: Chance) -> Any:
    """Who leads up to four fifths of the training ends last."""
    ends = of_settings(chance, 0.0, 1.0)
    early = 1.5 - 0.7 * ends + 0.8 * _AGES ** -of_settings(chance, 0.3, 0.8)
    late = np.clip((_AGES - chance.uniform(36, 44)) / 6, 0, 1)
    return noisy(chance, early * (1 - late) + np.minimum(ends, early) * late)


def noise_alone(chance: Chance) -> Any:
    same = 0.3 + _AGES ** -chance.uniform(0.3, 1.0)
    return same + chance.normal(0, chance.uniform(0.003, 0.03), (SETTINGS, STEPS))


def all_equal(chance: Chance) -> Any:
    return np.tile(0.3 + _AGES ** -chance.uniform(0.3, 1.0), (SETTINGS, 1))


def diverging_leaders(chance: Chance) -> Any:
    """Who falls fastest blows up."""
    paces = np.exp(of_settings(chance, np.log(0.1), np.log(1.2)))
    curves = endings(chance) + np.exp(-0.25 * paces * _AGES)
    at = chance.uniform(8, 25, (SETTINGS, 1))
    rise = np.maximum(_AGES - at, 0) * (paces > np.quantile(paces, chance.uniform(0.5, 0.75)))
    return noisy(chance, curves + 0.15 * rise)


# ------------------------------------------------------------------------------------ their pieces


def of_settings(chance: Chance, low: float, high: float) -> Any:
    return chance.uniform(low, high, (SETTINGS, 1))


def endings(chance: Chance) -> Any:
    """Few are good: the share of those close to the best differs from task to task."""
    return chance.uniform(0.3, 1.0) * chance.beta(chance.uniform(0.8, 2.5), 2.0, (SETTINGS, 1))


def noisy(chance: Chance, curves: Any) -> Any:
    """With the noise of one training from step to step, as large as a task's has it."""
    size = np.exp(chance.uniform(np.log(0.0005), np.log(0.01)))
    return curves + size * chance.normal(size=curves.shape)


NATURAL: Sequence[Family] = (
    power_laws, exponentials, janoschek, mmf, broken_power_laws, rate_drops, plateaus,
    double_descents,
)  # fmt: skip
ADVERSE: Sequence[Family] = (
    slow_starters, crossing_late, noise_alone, all_equal, diverging_leaders
)  # fmt: skip
BY_NAME: Mapping[str, Family] = {own.__name__: own for own in (*NATURAL, *ADVERSE)}
