"""The numbers of waiting and running jobs, and of allocated GPUs, over time, in equal bins."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import itemgetter

from dovetail.core.model import WHOLE_GPU, Placement, Seconds
from dovetail.results.record import JobOutcome, RunRecord, Stint

# A million rows are read by position: by name it takes three times as long.
SUBMIT, END = (itemgetter(JobOutcome._fields.index(name)) for name in ("submit_s", "end_s"))
STINT_START, STINT_END = (itemgetter(Stint._fields.index(name)) for name in ("start_s", "end_s"))
MAX_BINS = 600  # about two pixels each on a laptop


@dataclass(frozen=True, slots=True)
class Window:
    """The time a run covers. A run in which no time passes still gets one second to be drawn in."""

    start_s: Seconds = 0.0
    end_s: Seconds = 1.0

    @property
    def span_s(self) -> Seconds:
        return self.end_s - self.start_s


def window_of(run: RunRecord) -> Window:
    """From the first submission to the last end."""
    firsts = [
        min(map(SUBMIT, run.jobs), default=None),
        min(map(STINT_START, run.stints), default=None),
    ]
    first = min((time for time in firsts if time is not None), default=0.0)
    last = max(map(END, run.jobs), default=first)
    last = max(last, max(map(STINT_END, run.stints), default=first))
    return Window(first, last if last > first else first + 1.0)


def mean_counts(
    window: Window, bins: int, starts: Sequence[Seconds], ends: Sequence[Seconds]
) -> list[float]:
    """The mean number present in each bin, from the times of coming and of leaving.

    Sorting and summing are done in C, so that a million cost a fraction of a second.
    """
    edges = [window.start_s + window.span_s * i / bins for i in range(bins + 1)]
    came, left = _time_since(starts, edges), _time_since(ends, edges)
    spent = [since - gone for since, gone in zip(came, left, strict=True)]
    return [max(0.0, (after - before) * bins / window.span_s) for before, after in pairwise(spent)]


def _time_since(times: Sequence[Seconds], edges: Sequence[Seconds]) -> list[float]:
    """For each edge, the seconds since each earlier time, summed."""
    ordered = sorted(times)
    sums = [0.0, *accumulate(ordered)]
    counts = [bisect_left(ordered, edge) for edge in edges]
    return [count * edge - sums[count] for count, edge in zip(counts, edges, strict=True)]


def gpus_in_use(placement: Placement) -> float:
    """GPUs, counting a share as its fraction."""
    whole, share = placement.gpus, placement.share
    return whole if share == WHOLE_GPU else whole * share / WHOLE_GPU


def over_time(run: RunRecord, window: Window, in_use: Sequence[float]) -> Mapping[str, list[float]]:
    """Means per bin. A job that neither runs nor has ended counts as waiting, suspended jobs too."""
    submits, ends = list(map(SUBMIT, run.jobs)), list(map(END, run.jobs))
    present = mean_counts(window, MAX_BINS, submits, ends)
    running, allocated = _in_use(run, window, in_use)
    waiting = [max(0.0, here - busy) for here, busy in zip(present, running, strict=True)]
    return {"waiting": _short(waiting), "running": _short(running), "allocated": _short(allocated)}


def _in_use(
    run: RunRecord, window: Window, in_use: Sequence[float]
) -> tuple[list[float], list[float]]:
    """Jobs running and GPUs allocated. Counted separately for each number of GPUs: there are few."""
    starts: dict[float, list[Seconds]] = defaultdict(list)
    ends: dict[float, list[Seconds]] = defaultdict(list)
    for gpus, (_, _, start, end) in zip(in_use, run.stints, strict=True):
        starts[gpus].append(start)
        ends[gpus].append(end)
    running, allocated = [0.0] * MAX_BINS, [0.0] * MAX_BINS
    for gpus, begun in starts.items():
        for place, count in enumerate(mean_counts(window, MAX_BINS, begun, ends[gpus])):
            running[place] += count
            allocated[place] += count * gpus
    return running, allocated


def _short(values: Sequence[float]) -> list[float]:
    """Four digits are more than a chart can show, and a third of the bytes."""
    return [float(f"{value:.4g}") if value > 1e-6 else 0 for value in values]
