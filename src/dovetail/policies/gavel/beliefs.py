"""What Gavel's rounds believe of jobs: how long they are, and how fast where and beside whom."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias, cast

from dovetail.core.model import Seconds
from dovetail.predict.duration import Predictor
from dovetail.predict.speed import SpeedPredictor
from dovetail.predict.step_rates import StepRates

PairRates: TypeAlias = tuple[tuple[float, ...], tuple[float, ...]]


@dataclass(frozen=True)
class RoundBeliefs:
    """How long jobs are, and how fast where."""

    predictor: Predictor
    speeds: SpeedPredictor
    round_s: Seconds
    whole_steps: bool  # is a lease so many whole steps, and idle from there on?

    @cached_property
    def rates(self) -> dict[tuple[str, int, tuple[str, ...]], tuple[float, ...]]:
        """Where steps are known, as found so far: by model, number of GPUs, and kinds it may be on."""
        return {}

    @cached_property
    def sides(self) -> dict[tuple[str, str, tuple[str, ...]], PairRates]:
        """Of pairs, as found so far: by the sorts of both jobs, and the kinds."""
        return {}

    @cached_property
    def steps(self) -> StepRates | None:
        """Where steps are known, and count."""
        known = self.whole_steps and isinstance(self.speeds, StepRates)
        return cast(StepRates, self.speeds) if known else None
