"""Families drawn after the rule and its prior were done: nothing was chosen by looking at them.

Two as training has them, of the size of the others; three that mislead, as small as studies at home
are: 24 settings of 40 steps, of which 16 are tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .drawn_families import Chance, Family, endings, noisy, of_settings

SMALL = 16  # trials of a small study
_SETTINGS, _STEPS = 24, 40
_AGES = np.arange(1.0, 53)
_FEW_AGES = np.arange(1.0, _STEPS + 1)


def warm_restarts(chance: Chance) -> Any:
    """The rate falls by a cosine and begins anew, two to four times: the loss jumps up and falls."""
    lowest, slow = (
        endings(chance),
        of_settings(chance, 0.2, 1.0) * _AGES ** -of_settings(chance, 0.2, 0.9),
    )
    length = len(_AGES) / chance.integers(2, 5)
    wave = (1 + np.cos(np.pi * ((_AGES - 1) % length) / length)) / 2
    height = of_settings(chance, 0.02, 0.3) * _AGES ** -of_settings(chance, 0.0, 0.5)
    return noisy(chance, lowest + slow + height * wave)


def stairs(chance: Chance) -> Any:
    """Flat, then down at once, one to four times; when, differs from setting to setting."""
    lowest, falls, number = (
        endings(chance),
        of_settings(chance, 0.3, 1.2),
        int(chance.integers(1, 5)),
    )
    last = np.log(chance.uniform(8, 40))
    left = np.zeros((len(lowest), len(_AGES)))
    shares = chance.dirichlet(np.full(number, 2.0), len(lowest))
    for stair in range(number):
        at, width = np.exp(of_settings(chance, 0, last)), chance.uniform(0.3, 2.0)
        left += shares[:, [stair]] * _fallen(_AGES - at, width)
    return noisy(chance, lowest + falls * (0.9 * left + 0.1 * _AGES**-0.5))


def late_learners(chance: Chance) -> Any:
    """The good ones know nothing for a third to two thirds of the training; the poor fall at once."""
    good = chance.random((_SETTINGS, 1)) < chance.uniform(0.15, 0.4)
    begin = np.where(good, _few(chance, 0.3, 0.65) * _STEPS, _few(chance, 0, 3))
    lowest = np.where(good, _few(chance, 0.05, 0.35), _few(chance, 0.4, 0.8))
    left = np.exp(-np.maximum(_FEW_AGES - begin, 0) / _few(chance, 2, 6))
    return _with_noise(chance, lowest + (1 - lowest) * left)


def saturating_leaders(chance: Chance) -> Any:
    """Who falls fast comes to rest high: the curves cross from a third of the training on."""
    slow = _few(chance, 0, 1)
    lowest = 0.6 * (1 - slow) + chance.normal(0, 0.02, slow.shape)
    left = np.exp(-_FEW_AGES / (2 + slow * chance.uniform(12, 25)))
    return _with_noise(chance, lowest + (1.2 + 0.3 * slow - lowest) * left)


def late_swaps(chance: Chance) -> Any:
    """The order is drawn anew at 60 to 80 % of the training."""
    early, late = _few(chance, 0, 1), _few(chance, 0, 1)
    before = _fallen(_FEW_AGES - chance.uniform(0.6, 0.8) * _STEPS, 1.5)
    level = 0.4 * early * before + (0.4 * late - 0.2) * (1 - before)
    return _with_noise(chance, 0.5 * _FEW_AGES**-0.5 + level)


def _few(chance: Chance, low: float, high: float) -> Any:
    return chance.uniform(low, high, (_SETTINGS, 1))


def _fallen(since: Any, width: float) -> Any:
    return 1 / (1 + np.exp(np.clip(since / width, -50, 50)))


def _with_noise(chance: Chance, curves: Any) -> Any:
    return curves + 0.005 * chance.normal(size=curves.shape)


NATURAL: Sequence[Family] = (warm_restarts, stairs)
ADVERSE: Sequence[Family] = (late_learners, saturating_leaders, late_swaps)
