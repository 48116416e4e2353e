"""Cocktail: the fewest models whose majority is right as often as is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def majority_accuracy(accuracies: Sequence[float]) -> float:
    """How often more than half of them are right, if they err independently of each other and the wrong
    ones agree: the worst case."""
    ways = [1.0]  # the chance that so many are right
    for own in accuracies:
        more = [0.0, *(chance * own for chance in ways)]
        ways = [a + b for a, b in zip([*(c * (1 - own) for c in ways), 0.0], more, strict=True)]
    return sum(ways[len(accuracies) // 2 + 1 :])


def fewest(accuracies: Mapping[str, float], target: float) -> list[str]:
    """An odd number of the most accurate ones; where no number reaches the target, the best."""
    ordered = sorted(accuracies, key=lambda name: -accuracies[name])
    best, reached = ordered[:1], 0.0
    for count in range(1, len(ordered) + 1, 2):
        found = majority_accuracy([accuracies[name] for name in ordered[:count]])
        if found >= target:
            return ordered[:count]
        if found > reached:
            best, reached = ordered[:count], found
    return best
