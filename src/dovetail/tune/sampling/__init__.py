"""How the settings of a study's trials are chosen: `suggest(space, number, past) -> settings`.

A suggestion follows from the seed, the trial's number and what is known of the trials before it, so
asking again after a restart gives the same one. Nothing else is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import partial
from typing import TypeAlias

from dovetail.core.errors import BadInput
from dovetail.tune.sampling import gridded, learned, randomly, sobol
from dovetail.tune.space import Settings, Space
from dovetail.tune.study import Trial

Suggest: TypeAlias = Callable[[Space, int, Sequence[Trial]], Settings]

BLIND = ("random", "grid", "sobol")  # ask for no results: all trials can be named at once
LEARNING = ("tpe", "gp", "cma-es")  # look at the trials so far
NAMES = (*BLIND, *LEARNING)


def make(name: str, seed: int = 0, trials: int | None = None) -> Suggest:
    """The way to choose settings that has this name; `trials` is how many a grid may have."""
    check(name)
    if name == "random":
        return partial(randomly.suggest, seed)
    if name == "sobol":
        return partial(sobol.suggest, seed)
    if name == "grid":
        return partial(gridded.suggest, trials)
    learned.check_installed(name)
    return partial(learned.suggest, name, seed)


def check(name: str) -> None:
    if name not in NAMES:
        close = get_close_matches(name, NAMES, 1)
        hint = f"did you mean {close[0]}?" if close else f"there is {', '.join(NAMES)}"
        raise BadInput(f"there is no sampler {name!r}; {hint}")


def planned(name: str, space: Space, trials: int | None) -> int:
    """How many trials a study has, or what is wrong with this sampler for this space."""
    if name == "grid":
        return gridded.size(space, trials)
    if name == "sobol":
        sobol.check(space)
    if trials is None:
        raise BadInput(f"the sampler {name} goes on for ever; say how many trials")
    return trials
