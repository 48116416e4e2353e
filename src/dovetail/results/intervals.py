"""What chance can do to a mean: its 95 % interval over several runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan, nan, sqrt
from statistics import fmean, stdev

# Of Student's distribution, for 95 %, by the number of runs less one; 1.96 beyond.
_STUDENT = (
    *(12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23),
    *(2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10, 2.09, 2.09),
)
_OF_FINISHED = ("mean_jct_s", "p50_jct_s", "p90_jct_s", "p99_jct_s")
_MAY_BE_NEGATIVE = ("energy_cost", "total_cost")  # as prices of electricity may


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
        if self.low == self.high or isnan(self.mean):
            return _said(self.mean)
        return f"{_said(self.mean)} ± {_said(self.half)}"


def _said(value: float) -> str:
    if isnan(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def figure_of(summary: Mapping[str, float | int | str], name: str) -> float:
    """Not a number where it is the mean of nothing: no job has finished, or all were refused."""
    if name in _OF_FINISHED and not summary["finished"]:
        return nan
    if name == "mean_wait_s" and summary["refused"] == summary["jobs"]:
        return nan
    return float(summary[name])


def interval(given: Sequence[float]) -> MeanInterval:
    """Of those that are numbers; of none it is not a number."""
    values = [value for value in given if not isnan(value)]
    if not values:
        return MeanInterval(nan, nan, nan)
    mean = fmean(values)
    if len(values) == 1:
        return MeanInterval(mean, mean, mean)
    freedom = len(values) - 1
    student = _STUDENT[freedom - 1] if freedom <= len(_STUDENT) else 1.96
    half = student * stdev(values) / sqrt(len(values))
    return MeanInterval(mean, mean - half, mean + half)


def figure_interval(name: str, values: Sequence[float]) -> MeanInterval:
    """Of a figure of runs: not below 0 where no run can be."""
    own = interval(values)
    is_signed = name in _MAY_BE_NEGATIVE or any(value < 0 for value in values)
    return own if is_signed else replace(own, low=max(own.low, 0.0))


def difference(values: Sequence[float], others: Sequence[float]) -> MeanInterval:
    """How much more the first are than the others, pair by pair: an interval without 0 says that one
    side has less on jobs like these."""
    return interval([one - two for one, two in zip(values, others, strict=True)])


def least(intervals: Mapping[str, MeanInterval]) -> str:
    """Whose mean is the least; who has none comes last."""
    return min(intervals, key=lambda own: (isnan(intervals[own].mean), intervals[own].mean))


def mean_figures(
    summaries: Sequence[Mapping[str, float | int | str]],
) -> dict[str, float | None]:
    """Of each figure the mean, and the ends of its interval as `…_low` and `…_high`; None where it
    would be the mean of nothing."""
    found: dict[str, float | None] = {}
    for name, value in summaries[0].items():
        if isinstance(value, int | float):
            own = figure_interval(name, [figure_of(summary, name) for summary in summaries])
            ends = {name: own.mean, f"{name}_low": own.low, f"{name}_high": own.high}
            found |= {key: None if isnan(end) else end for key, end in ends.items()}
    return found
