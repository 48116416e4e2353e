"""What predicts how long a job runs: rolling over time, by groups of features, by what is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from dovetail.insight.features import Features

Map: TypeAlias = Callable[..., Iterable[Any]]  # the map of any executor, or the builtin
Progress: TypeAlias = Callable[[int, int], object]  # hears how many tasks are done, of how many


@dataclass(frozen=True)
class Score:
    """How well one model predicts, knowing what is known at one level, over all test periods."""

    model: str  # "group mean", "boosted", "additive"
    level: str  # everything known up to then: "submit", "history", "profile", "run"
    periods: int  # weeks (or shorter periods, see Predictive.period_s) predicted from their past
    jobs: int
    mae_log: float  # mean absolute error of log(1 + seconds)
    mape: float  # median absolute error as a part of the true duration
    order_accuracy: (
        float  # part of the pairs of jobs that it puts in the right order; 0.5 is chance
    )
    low: float  # 95 % interval of the order accuracy, over the periods
    high: float
    by_period: tuple[float, ...]  # the order accuracy of each period


@dataclass(frozen=True)
class Importance:
    """What is lost when a group of features says nothing, with a 95 % interval."""

    group: str
    mean: float  # rise of the mean absolute error of log(1 + seconds)
    low: float
    high: float
    share: float  # of the rises of all groups together, none below 0
    order_mean: float  # loss of order accuracy
    order_low: float
    order_high: float


@dataclass(frozen=True)
class Shape:
    """How one feature alone moves the prediction, in the additive model: read as a factor."""

    feature: str
    values: tuple[float | str, ...]
    factors: tuple[float, ...]  # times the typical duration


@dataclass(frozen=True)
class Predictive:
    period_s: float  # length of the periods that the trace was split into
    scores: tuple[Score, ...]  # of every model, with all that is known before the start
    by_level: tuple[Score, ...]  # of the boosted model, as more becomes known
    importance: tuple[Importance, ...]  # by permutation: the one to rank by
    dropped: tuple[Importance, ...]  # by training again without: what the others cannot replace
    shapes: tuple[Shape, ...]
    not_measured: tuple[str, ...]


def predictive(
    features: Features,
    *,
    repeats: int = 30,
    seed: int = 0,
    quick: bool = False,
    map: Map = map,
    progress: Progress | None = None,
) -> Predictive:
    raise NotImplementedError
