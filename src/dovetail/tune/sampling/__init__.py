"""How the settings of a study's trials are chosen: `suggest(space, number, past) -> settings`.

A suggestion follows from the seed, the trial's number and the trials before it, so asking again
after a restart gives the same one. Nothing else is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from dovetail.catalogue import Catalogue
from dovetail.core.errors import BadInput
from dovetail.tune.space import Settings, Space
from dovetail.tune.study import Trial

_HERE = "dovetail.tune.sampling"
BUILTIN: Mapping[str, tuple[str, str]] = {
    "random": (f"{_HERE}.randomly", "Randomly"),
    "grid": (f"{_HERE}.gridded", "Gridded"),
    "sobol": (f"{_HERE}.sobol", "Sobol"),
    "tpe": (f"{_HERE}.learned", "Tpe"),
    "gp": (f"{_HERE}.learned", "Gp"),
    "cma-es": (f"{_HERE}.learned", "CmaEs"),
}
NAMES = tuple(BUILTIN)
SAMPLERS = Catalogue(
    "sampler",
    "dovetail catalogue samplers",
    "dovetail.samplers",
    BUILTIN,
    "suggest",
    filled={"seed": "", "trials": ""},
)


class Sampler(Protocol):
    """A frozen dataclass whose fields are its parameters; `seed` and `trials`, the most trials of the
    study, are filled in. It may have `learns` (it uses the trials so far; other samplers can name every
    trial at once) and `planned(space)`, the number of trials there will be (None: no limit)."""

    def suggest(self, space: Space, number: int, past: Sequence[Trial]) -> Settings: ...


def make(text: str, seed: int = 0, trials: int | None = None) -> Sampler:
    """The sampler that the text describes: its name, then `field=value` parts joined by colons."""
    sampler: Sampler = SAMPLERS.make(text, {"seed": lambda: seed, "trials": lambda: trials})
    return sampler


def check(text: str) -> None:
    """Is there such a sampler, with such parameters? Its packages are not checked."""
    SAMPLERS.values(text, {})


def learns(text: str) -> bool:
    """Does the sampler use the trials so far?"""
    return bool(getattr(SAMPLERS.find(text.partition(":")[0]), "learns", False))


def planned(text: str, space: Space, trials: int | None) -> int:
    """The number of trials of a study; an error if the sampler does not suit the space."""
    found = trials
    if hasattr(SAMPLERS.find(text.partition(":")[0]), "planned"):
        sampler: Any = make(text, trials=trials)
        found = sampler.planned(space)
    if found is None:
        raise BadInput(f"the sampler {text} goes on for ever; say how many trials")
    return found
