"""Policies that put two jobs on one GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from dovetail.core.entries import Action
from dovetail.core.model import Seconds
from dovetail.core.plan import Place
from dovetail.core.view import View
from dovetail.policies.packing.pairing import PairScheduler
from dovetail.policies.packing.partners import PartnersBy
from dovetail.policies.placement import consolidated
from dovetail.policies.queueing import in_turns


@dataclass(frozen=True, kw_only=True)
class Gandiva:
    """Time slices; pairs of equal gangs packed on the same GPUs while that pays; migration.

    `threshold`: a pair stays packed while its two speeds, as parts of the speed that one job alone has
    there, sum up to more than this (at 1 the two do as much by taking turns);
    `trials`: after so many pairs that did not pay a job is left alone; each costs it its place in line.
    """

    place: Place = consolidated
    quantum_s: Seconds = 60.0
    threshold: float = 1.0
    trials: int = 1
    pack: bool = True
    migrate: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.quantum_s > 0:
            raise ValueError(f"quantum_s={self.quantum_s:g}: give a positive number of seconds")
        if not self.threshold >= 0:
            raise ValueError(f"threshold={self.threshold:g}: give a sum of two speeds, such as 1.0")
        if self.trials < 1:
            raise ValueError(f"trials={self.trials}: give 1 or more")

    @cached_property
    def decide(self) -> Callable[[View], Sequence[Action]]:
        return PairScheduler(
            in_turns(self.quantum_s, self.place, pairs=True),
            self.place,
            PartnersBy(self.threshold, self.trials),
            pack=self.pack,
            migrate=self.migrate,
            seed=self.seed,
        ).decide
