"""gpulet (Choi et al., ATC 2022): a GPU in up to two parts, each as large as it still pays."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from dovetail.core.model import WHOLE_GPU
from dovetail.serving.planners.demand import ShareDemand, rate_within
from dovetail.serving.planners.duty import duty_cycle

SHARES: Final = (200, 400, 500, 600, 800, WHOLE_GPU)  # of which latencies are known
_ENOUGH: Final = 1e-9

# How many times longer the first takes on its share while the second runs on the rest of the GPU.
Interference: TypeAlias = Callable[[str, int, str, int], float]


def no_interference(own: str, share: int, neighbour: str, other_share: int) -> float:
    return 1.0


@dataclass(frozen=True, slots=True)
class SharedCaches:
    """Longer in proportion to what both use of the second-level cache and of the memory's bandwidth."""

    cache: dict[str, float]  # the part of it that a model uses, 0 to 1
    bandwidth: dict[str, float]
    own: tuple[float, float] = (0.0, 0.0)  # weights of cache and bandwidth of the model itself
    other: tuple[float, float] = (0.0, 0.0)  # and of its neighbour

    def __call__(self, own: str, share: int, neighbour: str, other_share: int) -> float:
        mine = self.own[0] * self.cache[own] + self.own[1] * self.bandwidth[own]
        theirs = self.other[0] * self.cache[neighbour] + self.other[1] * self.bandwidth[neighbour]
        return 1.0 + mine + theirs


@dataclass(slots=True)
class Gpulet:
    """A part of a GPU, and the requests a second of each model that it answers."""

    gpu: int
    share: int
    served: list[ShareDemand] = field(default_factory=list)  # each with the rate that it has here


def knee(demand: ShareDemand, shares: Sequence[int] = SHARES) -> int:
    """The share after which more helps least compared with before: where the curve of the rate bends
    most. A model that uses all it can get has none: it takes a whole GPU."""
    points = [(0, 0.0), *[(share, rate_within(demand, share)) for share in shares]]
    slopes = [
        (later[1] - now[1]) / (later[0] - now[0]) for now, later in itertools.pairwise(points)
    ]
    bends = [before - after for before, after in itertools.pairwise(slopes)]
    most = max(bends, default=0.0)
    steepest = max(slopes, default=0.0)
    return shares[bends.index(most)] if most > 1e-6 * steepest else shares[-1]


@dataclass(slots=True)
class _Drafting:
    """The parts so far of a given number of GPUs."""

    gpus: int
    split: bool
    interference: Interference
    shares: Sequence[int]
    parts: list[Gpulet] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.parts = [Gpulet(gpu, WHOLE_GPU) for gpu in range(self.gpus)]

    def place(self, demand: ShareDemand) -> bool:
        """On parts of its own, then in turns with others; with what rate is left after each."""
        left = demand.rate
        while left > _ENOUGH:
            taken = self._on_its_own(demand._replace(rate=left))
            if not taken:
                return self._in_turns(demand._replace(rate=left))
            left -= taken
        return True

    def _on_its_own(self, demand: ShareDemand) -> float:
        best = min(knee(demand, self.shares), self._least_share(demand))
        best = best if self.split else WHOLE_GPU
        for share in [share for share in self.shares if share >= best]:
            for part in self._free(share):
                rate = self._rate_at(part, share, demand)
                if rate > 0.0:
                    return self._give(part, share, demand._replace(rate=min(rate, demand.rate)))
        return 0.0

    def _least_share(self, demand: ShareDemand) -> int:
        enough = [share for share in self.shares if rate_within(demand, share) >= demand.rate]
        return enough[0] if enough else self.shares[-1]

    def _free(self, share: int) -> list[Gpulet]:
        """The tightest first."""
        found = [part for part in self.parts if not part.served and part.share >= share]
        return sorted(found, key=lambda part: (part.share, part.gpu))

    def _rate_at(self, part: Gpulet, share: int, demand: ShareDemand) -> float:
        """What it would answer there in time beside its neighbour; 0 if either would be late."""
        own_share = share if part.share == WHOLE_GPU else part.share
        beside = self._beside(part)
        slower = self._slowed(demand, own_share, beside)
        rate = rate_within(slower, own_share)
        if not (beside and beside.served):
            return rate
        with_it = Gpulet(part.gpu, own_share, [demand])
        late = [self._slowed(other, beside.share, with_it) for other in beside.served]
        return rate if duty_cycle(late, beside.share) is not None else 0.0

    def _beside(self, part: Gpulet) -> Gpulet | None:
        found = [other for other in self.parts if other.gpu == part.gpu and other is not part]
        return found[0] if found else None

    def _slowed(self, demand: ShareDemand, share: int, beside: Gpulet | None) -> ShareDemand:
        if beside is None or not beside.served:
            return demand
        factor = max(
            self.interference(demand.name, share, other.name, beside.share)
            for other in beside.served
        )
        alone = demand.latency
        return demand._replace(latency=lambda batch, part: alone(batch, part) * factor)

    def _give(self, part: Gpulet, share: int, demand: ShareDemand) -> float:
        if part.share == WHOLE_GPU and share < WHOLE_GPU:
            part.share = share
            self.parts.append(Gpulet(part.gpu, WHOLE_GPU - share))
        part.served.append(demand)
        return demand.rate

    def _in_turns(self, demand: ShareDemand) -> bool:
        """Beside others on a part that is in use, the tightest that keeps all in time."""
        for part in sorted(self.parts, key=lambda part: (part.share, part.gpu)):
            if not part.served:
                continue
            beside = self._beside(part)
            there = [self._slowed(own, part.share, beside) for own in (*part.served, demand)]
            if duty_cycle(there, part.share) is not None:
                part.served.append(demand)
                return True
        return False


def split_gpus(
    demands: Sequence[ShareDemand],
    gpus: int,
    interference: Interference = no_interference,
    split: bool = True,
    shares: Sequence[int] = SHARES,
) -> list[Gpulet] | None:
    """The parts of so many GPUs that serve all in time, busiest service first; None: too few GPUs.
    `split=false`: whole GPUs only, which the others are compared with."""
    drafting = _Drafting(gpus, split, interference, shares)
    for demand in sorted(demands, key=lambda own: -own.rate):
        if not drafting.place(demand):
            return None
    return [part for part in drafting.parts if part.served]


def fewest_gpus(
    demands: Sequence[ShareDemand],
    most: int,
    interference: Interference = no_interference,
    split: bool = True,
    shares: Sequence[int] = SHARES,
) -> list[Gpulet] | None:
    """As many GPUs as are needed and no more; None: more than there are."""
    for gpus in range(1, most + 1):
        found = split_gpus(demands, gpus, interference, split, shares)
        if found is not None:
            return found
    return None
