"""Settings drawn at random, trial by trial: each depends on the seed and the trial's number only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from dovetail.tune.space import Settings, Space
from dovetail.tune.study import Trial


@dataclass(frozen=True)
class Randomly:
    """Each setting drawn at random."""

    seed: int = 0

    def suggest(self, space: Space, number: int, past: Sequence[Trial]) -> Settings:
        return suggest(self.seed, space, number, past)


def suggest(seed: int, space: Space, number: int, past: Sequence[Trial] = ()) -> Settings:
    chance = Random(f"trial {seed} {number}")  # seeded by a text: the same in every process
    return space.at([chance.random() for _ in space.parameters])
