"""What knowing a feature is worth in the outcome of a schedule: by simulating with and without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.core.model import Node, Tenant
from dovetail.insight.work import Map, Progress
from dovetail.models.workload import Arrival

SIGMAS = (0.0, 0.25, 0.5, 1.0, 2.0)


@dataclass(frozen=True)
class Worth:
    """What a group of features saves of the mean completion time, with a 95 % interval."""

    group: str
    seconds: float
    low: float
    high: float


@dataclass(frozen=True)
class Outcome:
    """The mean completion time of one way to schedule, with a 95 % interval."""

    name: str
    mean_jct_s: float
    low: float
    high: float


@dataclass(frozen=True)
class Noise:
    """The truth times a lognormal error: the mean completion time, with a 95 % interval."""

    sigma: float
    mean_jct_s: float
    low: float
    high: float


@dataclass(frozen=True)
class Shuffled:
    """One column shuffled over the jobs: the mean completion time over that of the trace as it is."""

    column: str
    ratio: float
    low: float
    high: float


@dataclass(frozen=True)
class Decision:
    policy: str  # the one that needs durations
    unaware: str  # the one that needs none
    jobs: int  # simulated
    groups: tuple[str, ...]
    outcomes: tuple[Outcome, ...]  # "fifo", unaware, "nothing known", "all known", "oracle"
    ablation: tuple[Worth, ...]  # all known, less this group and trained again
    shapley: tuple[Worth, ...]  # they add up to "nothing known" less "all known"
    noise: tuple[Noise, ...]
    stops_paying_at: float | None  # sigma from which the unaware policy is better; None: never seen
    shuffled: tuple[Shuffled, ...]
    not_measured: tuple[str, ...]


def decision(
    arrivals: Sequence[Arrival],
    nodes: Sequence[Node],
    *,
    tenants: Sequence[Tenant] = (),
    groups: Sequence[str] | None = None,
    policy: str = "srtf",
    unaware: str = "las",
    jobs: int = 20_000,
    seed: int = 0,
    quick: bool = False,
    map: Map = map,
    progress: Progress | None = None,
) -> Decision:
    """`groups`: those of `features_of(arrivals)` to value, at most seven; all of them if not given.
    Of a longer trace the last `jobs` are simulated; the predictor learns from all before."""
    raise NotImplementedError
