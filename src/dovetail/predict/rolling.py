"""How good predictors are on a trace, rolled through it as it happened.

Every job is predicted at its submission from what had ended by then; a job is taken to start at once,
so that what is measured does not depend on a scheduler. Weeks are counted from the first submission.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dovetail.core.model import Seconds
from dovetail.models.workload import Arrival

GROUP_MEAN, HISTORY, BOOSTED, MIXTURE = "group-mean", "history-mean", "boosted", "mixture"


@dataclass(frozen=True)
class Week:
    """One week's jobs; figures by the name of the predictor."""

    number: int  # 1 is the first
    begins_s: Seconds
    jobs: int
    order: Mapping[str, float]  # the share of pairs of this week's jobs put in the right order
    error: Mapping[str, float]  # median of |log(predicted / true)|
    coverage: Mapping[str, float]  # the share of jobs that ended within the interval
    width: Mapping[str, float]  # median of high / low


@dataclass(frozen=True)
class Gain:
    """How much more of the pairs one predictor orders rightly than another, on the same pairs."""

    of: str
    over: str
    mean: float
    low: float  # 95 % interval, by resampling days
    high: float


@dataclass(frozen=True)
class Rolling:
    """All weeks together, and each."""

    level: float  # what the intervals promise to cover
    jobs: int
    order: Mapping[str, float]
    error: Mapping[str, float]
    coverage: Mapping[str, float]
    gains: tuple[Gain, ...]  # of the mixture over each of the others
    weeks: tuple[Week, ...]
    not_measured: tuple[str, ...]  # what could not be measured, and why


def evaluate(
    arrivals: Sequence[Arrival],
    *,
    first_week: int = 3,
    seed: int = 0,
    progress: Callable[[int], object] | None = None,
) -> Rolling:
    """From that week on, which the weeks before it teach; `progress` is told jobs done so far."""
    return Rolling(0.8, 0, {}, {}, {}, (), (), ("the predictors are not there yet",))


def kept(fifo_s: Seconds, predicted_s: Seconds, oracle_s: Seconds) -> float | None:
    """The share of the oracle's gain over FIFO that a predictor keeps; None: there is none."""
    gain = fifo_s - oracle_s
    return (fifo_s - predicted_s) / gain if gain > 0 else None
