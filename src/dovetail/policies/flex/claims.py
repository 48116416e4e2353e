"""Who wants GPUs in `flex`: the ways in which a job may run, and what it counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dovetail.core.model import JobId


class GpuWay(NamedTuple):
    """So many GPUs of that pool, and how fast the job is believed to run on them."""

    pool: int  # GPUs of one kind that the same jobs may use
    gpus: int
    rate: float


@dataclass(frozen=True, slots=True)
class Claimant:
    """A job that wants GPUs."""

    id: JobId
    ways: Sequence[GpuWay]  # it may run in; those with a rate above 0
    left_gpu_s: float  # believed GPU-seconds to its end, in the way that uses GPUs best
    weight: float = 1.0
    priority: float = 0.0  # who has a higher one is admitted before
    kinds_differ: bool = False  # is it faster on one kind than on another?
