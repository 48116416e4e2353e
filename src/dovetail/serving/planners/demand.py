"""What a planner has to serve: a rate of requests, how fast each is to be, how fast the model is."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from dovetail.core.model import WHOLE_GPU, Seconds

BatchLatency: TypeAlias = Callable[[int, int], Seconds]  # by batch and share in thousandths


class ShareDemand(NamedTuple):
    """The requests of one service, and how long a batch of them takes on a share of a GPU."""

    name: str
    rate: float  # requests a second
    slo_s: Seconds
    latency: BatchLatency
    max_batch: int = 64


def largest_batch(demand: ShareDemand, share: int = WHOLE_GPU) -> int:
    """A request may just miss a batch and wait for all of it: two of them have to fit; 0: none does."""
    best = 0
    for batch in range(1, demand.max_batch + 1):
        if 2.0 * demand.latency(batch, share) > demand.slo_s * (1.0 + 1e-12):
            break
        best = batch
    return best


def rate_within(demand: ShareDemand, share: int = WHOLE_GPU) -> float:
    """The requests a second that this share of a GPU answers in time."""
    batch = largest_batch(demand, share)
    return batch / demand.latency(batch, share) if batch else 0.0
