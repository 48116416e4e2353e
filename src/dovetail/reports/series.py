"""The numbers of waiting and running jobs, and of allocated GPUs, over time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from dovetail.core.model import WHOLE_GPU, Placement, Seconds
from dovetail.reports.binning import END, SUBMIT, Window, mean_counts
from dovetail.results.record import RunRecord

MAX_BINS = 600  # about two pixels each on a laptop


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
