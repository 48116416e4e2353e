"""The load of a trace on a cluster, over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.core.model import WHOLE_GPU, Seconds
from dovetail.models.workload import Arrival
from dovetail.traces.description import HOUR_S, gpu_seconds, running_s

MOST_BINS = 240


@dataclass(frozen=True, slots=True)
class Loaded:
    """GPUs that would be busy if no job ever had to wait, over time."""

    bin_s: Seconds
    gpus: tuple[float, ...]  # the mean in each bin
    cluster_gpus: int
    overall: float  # as a share of the cluster
    above: float  # share of the time in which more is wanted than there is


def fitting(arrivals: Sequence[Arrival], cluster_gpus: int) -> list[Arrival]:
    """The jobs that the empty cluster could run, as far as its number of GPUs tells."""
    return [arrival for arrival in arrivals if arrival.job.gpus <= cluster_gpus]


def too_large(arrivals: Sequence[Arrival], cluster_gpus: int) -> Iterator[str]:
    """A line about the other jobs."""
    others = [arrival for arrival in arrivals if arrival.job.gpus > cluster_gpus]
    if others:
        hours = sum(map(gpu_seconds, others)) / HOUR_S
        yield (
            f"{len(others):,} of {len(arrivals):,} jobs ask for more than the {cluster_gpus:,} GPUs "
            f"of the cluster: they can never run here, and the load leaves out their {hours:,.0f} "
            "GPU-hours."
        )


def loaded(arrivals: Sequence[Arrival], cluster_gpus: int) -> Loaded | None:
    """The load of the jobs that can run here, between the first and the last submission: later
    running time says nothing about the load."""
    arrivals = fitting(arrivals, cluster_gpus)
    if not arrivals:
        return None
    starts = np.array([arrival.at for arrival in arrivals])
    works = np.array([running_s(arrival) for arrival in arrivals])
    gpus = np.array([arrival.job.gpus * arrival.job.share / WHOLE_GPU for arrival in arrivals])
    first, last = float(starts.min()), float(starts.max())
    if last <= first or not cluster_gpus:
        return None
    bins = int(min(MOST_BINS, max(1, (last - first) // HOUR_S)))
    edges = np.linspace(first, last, bins + 1)
    used = _used_until(edges, starts, gpus) - _used_until(edges, starts + works, gpus)
    means = np.maximum(np.diff(used) * bins / (last - first), 0.0)
    return Loaded(
        bin_s=(last - first) / bins,
        gpus=tuple(float(f"{mean:.5g}") for mean in means),
        cluster_gpus=cluster_gpus,
        overall=float((gpus * works).sum() / (cluster_gpus * (last - first))),
        above=float(np.mean(means > cluster_gpus)),
    )


def _used_until(edges: np.ndarray, times: np.ndarray, gpus: np.ndarray) -> np.ndarray:
    """For each edge, GPUs times the seconds since each earlier time, summed."""
    order = np.argsort(times, kind="stable")
    times, gpus = times[order], gpus[order]
    place = np.searchsorted(times, edges)
    count = np.concatenate([[0.0], np.cumsum(gpus)])
    moment = np.concatenate([[0.0], np.cumsum(gpus * times)])
    found: np.ndarray = count[place] * edges - moment[place]
    return found
