"""Shapley values: the contribution of each member, from the worth of every coalition."""

from __future__ import annotations

from itertools import combinations
from math import factorial
from typing import TypeAlias

import numpy as np

Coalition: TypeAlias = frozenset[str]


def coalitions(members: tuple[str, ...]) -> list[Coalition]:
    """All coalitions, the empty one first and the full one last."""
    sizes = range(len(members) + 1)
    return [frozenset(some) for size in sizes for some in combinations(members, size)]


def shapley(members: tuple[str, ...], values: np.ndarray) -> np.ndarray:
    """By member, from the worth of each of `coalitions(members)` (along the first axis): the sum
    over T without m of |T|! (n - |T| - 1)! / n! times (v(T and m) - v(T)). Differences are taken
    first, so that a member that changes nothing gets exactly 0."""
    every = coalitions(members)
    place = {coalition: number for number, coalition in enumerate(every)}
    n = len(members)
    shares: np.ndarray = np.zeros((n, *values.shape[1:]))
    for row, member in enumerate(members):
        for coalition in every:
            if member not in coalition:
                size = len(coalition)
                weight = factorial(size) * factorial(n - size - 1) / factorial(n)
                shares[row] += weight * (
                    values[place[coalition | {member}]] - values[place[coalition]]
                )
    return shares
