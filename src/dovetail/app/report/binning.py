"""Step functions of time, averaged over equal bins."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

from dovetail.core.model import Seconds
from dovetail.traces.record import RunRecord


@dataclass(frozen=True, slots=True)
class Window:
    """The time a run covers. A run in which no time passes still gets one second to be drawn in."""

    start_s: Seconds = 0.0
    end_s: Seconds = 1.0

    @property
    def span_s(self) -> Seconds:
        return self.end_s - self.start_s


def window_of(run: RunRecord) -> Window:
    """From the first submission to the last thing that ends."""
    first = min((row[4] for row in run.jobs), default=0.0)  # submit_s; by index: half the time
    last = max((row[6] for row in run.jobs), default=first)  # end_s
    first = min((stint[2] for stint in run.stints), default=first) if not run.jobs else first
    last = max(last, max((stint[3] for stint in run.stints), default=first))
    return Window(first, last if last > first else first + 1.0)


def mean_levels(
    window: Window, bins: int, steps: Iterable[tuple[Seconds, Seconds, float]]
) -> list[float]:
    """Sum up (start, end, height) steps and give the mean height in each bin.

    A step costs the same however many bins it covers: only where it rises and falls is noted.
    """
    rises = [0.0] * (bins + 2)
    origin, scale = window.start_s, bins / window.span_s
    for start, end, height in steps:
        at = (start - origin) * scale
        bin_ = int(at)
        late = (at - bin_) * height
        rises[bin_] += height - late
        rises[bin_ + 1] += late
        at = (end - origin) * scale
        bin_ = int(at)
        late = (at - bin_) * height
        rises[bin_] -= height - late
        rises[bin_ + 1] -= late
    return list(accumulate(rises[:bins]))
