"""Settings spread evenly: a Sobol sequence, moved by a seeded digital shift."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.core.errors import BadInput
from dovetail.sobol import MOST_DIMENSIONS, shifted_point
from dovetail.tune.space import Settings, Space
from dovetail.tune.study import Trial


@dataclass(frozen=True)
class Sobol:
    """Settings spread evenly over the space: a Sobol sequence, moved by the seed."""

    seed: int = 0
    trials: int | None = None

    def suggest(self, space: Space, number: int, past: Sequence[Trial]) -> Settings:
        _check(space)
        return space.at(shifted_point(self.seed, number, len(space.parameters)))

    def planned(self, space: Space) -> int | None:
        _check(space)
        return self.trials


def _check(space: Space) -> None:
    if len(space.parameters) > MOST_DIMENSIONS:
        raise BadInput(
            f"sobol knows {MOST_DIMENSIONS} dimensions, and the space has "
            f"{len(space.parameters)}; use random"
        )
