"""Steps left until a target, from the curve so far."""

from __future__ import annotations

from math import exp, inf, nan
from random import Random

import pytest

from dovetail.predict.convergence import StepsLeft, steps_left


def curve(steps: int, seed: int = 0, floor: float = 0.5, noise: float = 0.01) -> list[float]:
    chance = Random(seed)
    return [floor + 2 / (1 + t / 20) + chance.gauss(0, noise) for t in range(1, steps + 1)]


def test_a_target_that_is_reached_needs_no_more_steps() -> None:
    assert steps_left([3.0, 1.0, 2.0], 1.5, 100) == StepsLeft(0, 0, 0, 1.0)


def test_the_nearer_the_target_the_fewer_the_steps() -> None:
    losses = curve(40)
    near, far = steps_left(losses, losses[-1] - 0.05, 5000), steps_left(losses, 0.9, 5000)
    assert near.expected is not None
    assert far.expected is not None
    assert near.expected < far.expected
    assert near.chance >= far.chance


def test_what_the_curve_never_comes_to_is_unlikely() -> None:
    flat = [1.0 + exp(-t) for t in range(60)]
    assert steps_left(flat, 0.2, 1000).chance < 0.2
    assert steps_left(flat, 0.2, 1000).expected is None


@pytest.mark.parametrize("losses", [[], [nan, inf], [1.0], [5.0, nan, 4.0, inf, 3.5]])
def test_odd_curves_are_answered(losses: list[float]) -> None:
    left = steps_left(losses, -1.0, 50)
    assert 0 <= left.chance <= 1


def test_two_of_three_curves_get_there_within_the_interval() -> None:
    """Of shapes that it was not told: hyperbolas, exponentials, square roots."""
    chance, inside, number = Random(1), 0, 0
    for kind in range(45):
        floor, height, pace = chance.uniform(0, 1), chance.uniform(0.5, 3), chance.uniform(5, 60)

        def loss(
            t: int, kind: int = kind, floor: float = floor, height: float = height, p: float = pace
        ) -> float:
            falls = (1 / (1 + t / p), exp(-t / p), (1 + t / p) ** -0.5)
            return floor + height * falls[kind % 3]

        seen, until = chance.randint(12, 30), chance.randint(50, 120)
        losses = [loss(t) + chance.gauss(0, 0.01 * height) for t in range(1, seen + 1)]
        if min(losses) <= loss(until):
            continue
        left = steps_left(losses, loss(until), 2000)
        number += 1
        inside += left.low is not None and left.low <= until - seen <= (left.high or 2000)
    assert number > 30
    assert inside / number > 0.6


def test_curves_of_the_same_kind_make_it_surer() -> None:
    """They tell where such curves end: what they all came down to, this one will too."""
    losses = curve(12, seed=1)
    others = [curve(300, seed=n, floor=0.5 + n / 100) for n in range(2, 8)]
    alone, told = (steps_left(losses, 0.9, 3000, given) for given in ((), others))
    assert told.chance > alone.chance
