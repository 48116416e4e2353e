"""Which property of a workload or cluster moves what a policy gains over FIFO, on made-up traces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.insight.work import Map, Progress


@dataclass(frozen=True)
class Factor:
    """One knob of the generator and the range it is turned through."""

    name: str
    unit: str
    low: float
    high: float
    logarithmic: bool = False


FACTORS = (
    Factor("load", "GPU-seconds asked for per GPU-second", 0.3, 1.1),
    Factor("tail weight", "squared coefficient of variation of durations", 0.1, 30.0, True),
    Factor("gang mix", "part of the jobs that ask for more than one GPU", 0.0, 0.8),
    Factor("burstiness", "squared coefficient of variation of gaps", 1.0, 20.0, True),
    Factor("interruption cost", "seconds to save and restore", 1.0, 1000.0, True),
    Factor("estimate error", "sigma of the logarithm", 0.0, 2.0),
    Factor("GPU mix", "part of the nodes with GPUs half as fast", 0.0, 0.75),
)


@dataclass(frozen=True)
class Screened:
    """Morris: how far a factor moves log(JCT / JCT of FIFO) over its range, on average."""

    policy: str
    factor: str
    mu_star: float
    low: float  # 95 % interval of mu_star, over the trajectories
    high: float
    mu: float
    sigma: float  # large against mu_star: it depends on the other factors, or is curved


@dataclass(frozen=True)
class Index:
    """Sobol: the part of the variance of log(JCT / JCT of FIFO) that a factor explains."""

    policy: str
    factor: str
    first: float  # alone
    first_low: float
    first_high: float
    total: float  # with all it does together with others
    total_low: float
    total_high: float


@dataclass(frozen=True)
class Flip:
    """The ranking of policies (best first) at both ends of a factor, the others in the middle."""

    factor: str
    at: tuple[float, ...]  # values of the factor
    rankings: tuple[tuple[str, ...], ...]  # at each of them
    tau: float  # Kendall's, between the first and the last; 1: the same, -1: turned round
    best_changes: bool


@dataclass(frozen=True)
class Factors:
    policies: tuple[str, ...]
    factors: tuple[Factor, ...]
    runs: int  # simulations made
    morris: tuple[Screened, ...]
    sobol: tuple[Index, ...]
    flips: tuple[Flip, ...]
    not_measured: tuple[str, ...]


def factors(
    *,
    trajectories: int = 20,
    samples: int = 256,
    policies: Sequence[str] = ("srtf", "qssf", "tiresias"),
    seed: int = 0,
    quick: bool = False,
    map: Map = map,
    progress: Progress | None = None,
) -> Factors:
    raise NotImplementedError
