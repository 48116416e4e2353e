"""How uneven durations are: spread, tail index, and the share of the longest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from dovetail.core.model import Seconds
from dovetail.models.workload import Arrival
from dovetail.traces.description import gpu_seconds

POINTS = 160
TAIL = 0.05  # the share of the jobs that the index is estimated from
LEAST = 20  # jobs in that share, or there is no index


@dataclass(frozen=True, slots=True)
class TailFit:
    """`index` is Hill's: P(longer than t) falls as t to the minus `index`; below 2 the variance,
    below 1 even the mean is not settled by any number of jobs."""

    mean_s: Seconds
    median_s: Seconds
    p90_s: Seconds
    p99_s: Seconds
    longest_s: Seconds
    c2: float  # squared coefficient of variation: 1 is exponential
    service_c2: float  # the same of GPU-seconds, the size that size-based policies order by
    index: float | None
    index_low: float | None
    index_high: float | None
    why_no_index: str
    top_percent_share: float  # of all GPU time, held by the hundredth of the jobs that hold most
    longer_than: tuple[
        tuple[Seconds, float], ...
    ]  # times, and the part of the jobs that run longer


def tail_of(arrivals: Sequence[Arrival]) -> TailFit:
    durations = np.sort([arrival.work_s for arrival in arrivals])
    service = np.sort([gpu_seconds(arrival) for arrival in arrivals])
    index, low, high, why = _hill(durations)
    total = float(service.sum())
    top = service[-max(1, len(service) // 100) :]
    return TailFit(
        mean_s=float(durations.mean()),
        median_s=float(np.median(durations)),
        p90_s=float(np.percentile(durations, 90)),
        p99_s=float(np.percentile(durations, 99)),
        longest_s=float(durations[-1]),
        c2=_c2(durations),
        service_c2=_c2(service),
        index=index,
        index_low=low,
        index_high=high,
        why_no_index=why,
        top_percent_share=float(top.sum()) / total if total else 0.0,
        longer_than=_longer_than(durations),
    )


def _c2(values: np.ndarray) -> float:
    mean = float(values.mean())
    return float(values.var()) / mean**2 if mean else 0.0


def _hill(durations: np.ndarray) -> tuple[float | None, float | None, float | None, str]:
    """With the usual interval for k independent exceedances."""
    number = int(len(durations) * TAIL)
    if number < LEAST:
        return None, None, None, f"it needs {int(LEAST / TAIL)} jobs, there are {len(durations)}"
    floor, above = durations[-number - 1], durations[-number:]
    if floor <= 0 or above[-1] <= floor:
        return None, None, None, "the longest jobs all run equally long"
    index = 1.0 / float(np.mean(np.log(above / floor)))
    around = 1.96 * index / sqrt(number)
    return index, index - around, index + around, ""


def _longer_than(durations: np.ndarray) -> tuple[tuple[float, float], ...]:
    """At logarithmically spaced times, from the shortest above 0 to the longest."""
    positive = durations[durations > 0]
    if not len(positive):
        return ()
    times = np.unique(np.geomspace(positive[0], positive[-1], POINTS))
    shorter = np.asarray(np.searchsorted(durations, times, side="right")).tolist()
    return tuple(
        (float(f"{time:.5g}"), 1.0 - count / len(durations))
        for time, count in zip(times.tolist(), shorter, strict=True)
    )
