"""One quantile for ordered numbers, the same as numpy's."""

from __future__ import annotations

from math import inf
from random import Random

import numpy as np
import pytest

from dovetail.quantiles import quantile, value_at


def test_it_is_numpys() -> None:
    chance = Random(5)
    for _ in range(200):
        values = sorted(chance.lognormvariate(0, 3) for _ in range(chance.randint(1, 40)))
        part = chance.choice([0.0, 0.25, 0.5, 0.9, 0.99, 1.0, chance.random()])
        assert quantile(values, part) == pytest.approx(float(np.quantile(values, part)))


def test_values_may_be_infinite() -> None:
    assert quantile([1.0, 2.0, inf], 0.5) == 2.0
    assert quantile([1.0, 2.0, inf], 0.6) == inf
    assert quantile([inf, inf], 0.5) == inf
    assert quantile([-inf, 0.0], 0.0) == -inf


def test_of_nothing_it_is_nothing() -> None:
    assert quantile([], 0.5) == 0.0


def test_a_place_beyond_the_ends_is_the_end() -> None:
    assert (value_at([1.0, 2.0], -0.5), value_at([1.0, 2.0], 1.5)) == (1.0, 2.0)
