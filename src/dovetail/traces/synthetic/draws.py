"""Random numbers with a given mean and spread, by our own transforms of uniform numbers.

Only `random()` of the standard library is used: its stream is guaranteed never to change.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from math import ceil, log, sqrt

from dovetail.core.errors import BadInput

Draw = Callable[[], float]

LEAST_C2 = 0.01  # a smaller value would need more than a hundred stages per draw


def spread(uniform: Draw, c2: float) -> Draw:
    """Positive numbers of mean 1 and squared coefficient of variation `c2`."""
    if c2 == 0:
        return lambda: 1.0
    if c2 < LEAST_C2:
        raise BadInput(
            f"a squared coefficient of variation of {c2:g} is not possible: 0 or 0.01 up"
        )
    if c2 == 1:
        return lambda: -log(1.0 - uniform())
    return _hyperexponential(uniform, c2) if c2 > 1 else _erlang(uniform, c2)


def _hyperexponential(uniform: Draw, c2: float) -> Draw:
    """Two exponentials that each bring half of the mean ("balanced means")."""
    short = (1.0 + sqrt((c2 - 1.0) / (c2 + 1.0))) / 2.0
    short_mean, long_mean = 1.0 / (2.0 * short), 1.0 / (2.0 * (1.0 - short))

    def draw() -> float:
        mean = short_mean if uniform() < short else long_mean
        return -mean * log(1.0 - uniform())

    return draw


def _erlang(uniform: Draw, c2: float) -> Draw:
    """k or k - 1 exponential stages, mixed so that mean and variance are right (Tijms 1986)."""
    stages = ceil(1.0 / c2)
    fewer = (stages * c2 - sqrt(max(0.0, stages * (1.0 + c2) - stages * stages * c2))) / (1.0 + c2)
    stage_mean = 1.0 / (stages - fewer)

    def draw() -> float:
        count = stages - 1 if uniform() < fewer else stages
        return -stage_mean * sum(log(1.0 - uniform()) for _ in range(count))

    return draw


def pick(uniform: Draw, weights: Sequence[float]) -> Callable[[], int]:
    """An index, drawn with probability proportional to its weight."""
    limits = list(accumulate(weights))
    total, last = limits[-1], len(limits) - 1

    def draw() -> int:
        return min(last, bisect_right(limits, uniform() * total))

    return draw
