"""How many jobs waited and ran, and how many GPUs were allocated, over time."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.app.report.binning import Window, mean_levels
from dovetail.core.model import WHOLE_GPU, Placement
from dovetail.traces.record import RunRecord

MAX_BINS = 600  # about two pixels each on a laptop


def gpus_held(placement: Placement) -> float:
    """GPUs, counting a share as its fraction."""
    slices, share = placement
    if len(slices) == 1:
        count = slices[0][1].bit_count()
    else:
        count = sum(mask.bit_count() for _, mask in slices)
    return count if share == WHOLE_GPU else count * share / WHOLE_GPU


def over_time(run: RunRecord, window: Window) -> Mapping[str, list[float]]:
    """Means per bin. Whoever is neither running nor gone counts as waiting, suspended jobs too."""
    present = mean_levels(window, MAX_BINS, ((row[4], row[6], 1.0) for row in run.jobs))
    running = mean_levels(window, MAX_BINS, ((start, end, 1.0) for _, _, start, end in run.stints))
    allocated = mean_levels(
        window, MAX_BINS, ((start, end, gpus_held(where)) for _, where, start, end in run.stints)
    )
    waiting = [max(0.0, here - busy) for here, busy in zip(present, running, strict=True)]
    return {"waiting": _short(waiting), "running": _short(running), "allocated": _short(allocated)}


def _short(values: list[float]) -> list[float]:
    """Four digits are more than a chart can show, and a third of the bytes."""
    return [float(f"{value:.4g}") if value > 1e-9 else 0 for value in values]
