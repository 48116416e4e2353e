"""Every combination once. Ranges that cannot be counted get as many values as the trials allow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from dovetail.core.errors import BadInput
from dovetail.tune.space import LARGEST_GRID, Settings, Space, is_countable
from dovetail.tune.study import Trial


@dataclass(frozen=True)
class Gridded:
    """Every combination once. Ranges that cannot be counted get as many values as the trials allow."""

    trials: int | None = None

    def suggest(self, space: Space, number: int, past: Sequence[Trial]) -> Settings:
        found = next(islice(space.grid(_values_each(space, self.trials)), number, None), None)
        if found is None:
            raise BadInput(f"the grid has no trial {number}; it has {self.planned(space)}")
        return found

    def planned(self, space: Space) -> int:
        """The number of trials of the grid, at most as many as were asked for."""
        found = space.grid_size(_values_each(space, self.trials))
        if found > LARGEST_GRID and self.trials is None:
            raise BadInput(
                f"the grid has more than {LARGEST_GRID:,} trials; say how many, or use sobol"
            )
        return found if self.trials is None else min(found, self.trials)


def _values_each(space: Space, trials: int | None) -> int:
    """The most values per uncountable range for which the number of trials suffices."""
    if is_countable(space):
        return 0
    if trials is None:
        raise BadInput("the grid has ranges without steps; say how many trials it may have")
    if space.grid_size(2) > trials:
        raise BadInput(
            f"the smallest grid of this space has {_told(space.grid_size(2))} trials, more than "
            f"{trials}; allow more, or use sobol"
        )
    values = 2
    while space.grid_size(values + 1) <= trials:
        values += 1
    return values


def _told(size: int) -> str:
    return f"{size:,}" if size <= LARGEST_GRID else f"over {LARGEST_GRID:,}"
