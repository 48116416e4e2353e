"""Which models to ask, learned from whether their answers were right (Exp3 and Exp4, as in Clipper)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp
from random import Random


class Exp3:
    """Asks one of several; hears only how that one did. Of `gamma` of the time it tries any."""

    def __init__(self, names: Sequence[str], gamma: float, chance: Random) -> None:
        self._names = names
        self._gamma = gamma
        self._chance = chance
        self._weights = [1.0] * len(names)

    def chosen(self) -> str:
        (name,) = self._chance.choices(self._names, self._parts())
        return name

    def heard(self, name: str, reward: float) -> None:
        """From 0 to 1. It stands for all times at which another one was asked."""
        place, count = self._names.index(name), len(self._names)
        self._weights[place] *= exp(self._gamma * reward / self._parts()[place] / count)
        highest = max(self._weights)
        self._weights = [own / highest for own in self._weights]

    def _parts(self) -> list[float]:
        total, even = sum(self._weights), self._gamma / len(self._names)
        return [(1 - self._gamma) * own / total + even for own in self._weights]


class Exp4:
    """Asks all, and weighs their votes; who is wrong counts less from then on."""

    def __init__(self, names: Sequence[str], eta: float) -> None:
        self._eta = eta
        self.weights = dict.fromkeys(names, 1.0)

    def heard(self, was_right: Mapping[str, bool]) -> None:
        for name, right in was_right.items():
            self.weights[name] *= 1.0 if right else exp(-self._eta)
        highest = max(self.weights.values())
        self.weights = {name: own / highest for name, own in self.weights.items()}
