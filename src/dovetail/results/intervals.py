"""What chance can do to a mean: its 95 % interval over several runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

# Of Student's distribution, for 95 %, by the number of runs less one; 1.96 beyond.
_STUDENT = (
    *(12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23),
    *(2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10, 2.09, 2.09),
)


@dataclass(frozen=True, slots=True)
class MeanInterval:
    """The mean over the seeds, and where it lies in nineteen of twenty cases."""

    mean: float
    low: float
    high: float

    @property
    def half(self) -> float:
        return self.high - self.mean

    def __str__(self) -> str:
        if self.low == self.high:
            return _said(self.mean)
        return f"{_said(self.mean)} ± {_said(self.half)}"


def _said(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def interval(values: Sequence[float]) -> MeanInterval:
    mean = fmean(values)
    if len(values) == 1:
        return MeanInterval(mean, mean, mean)
    freedom = len(values) - 1
    student = _STUDENT[freedom - 1] if freedom <= len(_STUDENT) else 1.96
    half = student * stdev(values) / sqrt(len(values))
    return MeanInterval(mean, mean - half, mean + half)


def difference(values: Sequence[float], others: Sequence[float]) -> MeanInterval:
    """How much more the first are than the others, pair by pair: an interval without 0 says that one
    side has less on jobs like these."""
    return interval([one - two for one, two in zip(values, others, strict=True)])


def mean_figures(summaries: Sequence[Mapping[str, float | int | str]]) -> dict[str, float]:
    """Of each figure the mean, and the ends of its interval as `…_low` and `…_high`."""
    found: dict[str, float] = {}
    for name, value in summaries[0].items():
        if isinstance(value, int | float):
            own = interval([float(summary[name]) for summary in summaries])
            found |= {name: own.mean, f"{name}_low": own.low, f"{name}_high": own.high}
    return found
