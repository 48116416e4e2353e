"""Settings spread evenly: a Sobol sequence, moved by a seeded digital shift."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.core.errors import BadInput
from dovetail.sobol import MOST_DIMENSIONS, shifted_point
from dovetail.tune.space import Settings, Space
from dovetail.tune.study import Trial


def suggest(seed: int, space: Space, number: int, past: Sequence[Trial] = ()) -> Settings:
    check(space)
    return space.at(shifted_point(seed, number, len(space.parameters)))


def check(space: Space) -> None:
    if len(space.parameters) > MOST_DIMENSIONS:
        raise BadInput(
            f"sobol knows {MOST_DIMENSIONS} dimensions, and the space has "
            f"{len(space.parameters)}; use random"
        )
