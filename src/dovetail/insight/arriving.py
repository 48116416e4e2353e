"""When jobs are submitted: by hour, by weekday, and how evenly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.core.model import Seconds
from dovetail.traces.description import DAY_S, HOUR_S

# seconds from 1970 to the year 2000: no cluster's own clock counts that far
SURELY_DATES = 946_684_800.0
THURSDAY = 3  # 1 January 1970 was a Thursday; Monday is 0


@dataclass(frozen=True, slots=True)
class Arriving:
    """Jobs an hour. Without dates, hours and days count from the first submission."""

    dated: bool
    by_hour: tuple[float, ...]  # 24
    by_day: tuple[float, ...]  # 7, jobs a day: Monday to Sunday, or the first to the seventh day
    by_both: tuple[tuple[float, ...], ...]  # 7 times 24; -1 for hours never seen
    gap_c2: float  # squared coefficient of variation of the gaps: 1 is Poisson
    dispersion: float  # variance over mean of the jobs in an hour: 1 is Poisson
    same_second: float  # share of the jobs submitted within a second of the one before
    weeks: float


def arriving(at: np.ndarray, began_at: Seconds | None) -> Arriving:
    """Figures of jobs in order of submission; the first and the last must differ in time."""
    dated = began_at is not None or float(at[0]) >= SURELY_DATES
    times = at + began_at if began_at is not None else at if dated else at - at[0]
    hours = np.floor(times / HOUR_S).astype(np.int64)
    counts = np.bincount(hours - hours[0])
    seen = np.arange(len(counts)) + hours[0]
    hour, day = seen % 24, (seen // 24 + (THURSDAY if dated else 0)) % 7
    by_both = _mean_by(counts, day * 24 + hour, 168).reshape(7, 24)
    gaps = np.diff(at)
    return Arriving(
        dated=dated,
        by_hour=_plain(_mean_by(counts, hour, 24)),
        by_day=_plain(24 * _mean_by(counts, day, 7)),
        by_both=tuple(_plain(row) for row in by_both),
        gap_c2=float(gaps.var() / gaps.mean() ** 2),
        dispersion=float(counts.var() / counts.mean()),
        same_second=float(np.mean(gaps < 1.0)),
        weeks=float((at[-1] - at[0]) / (7 * DAY_S)),
    )


def _mean_by(counts: np.ndarray, key: np.ndarray, size: int) -> np.ndarray:
    """The mean over the hours seen with each key; -1 for keys never seen."""
    seen = np.bincount(key, minlength=size)
    total = np.bincount(key, weights=counts, minlength=size)
    means: np.ndarray = np.where(seen > 0, total / np.maximum(seen, 1), -1.0)
    return means


def _plain(values: np.ndarray) -> tuple[float, ...]:
    return tuple(-1.0 if value < 0 else float(f"{value:.5g}") for value in values)
