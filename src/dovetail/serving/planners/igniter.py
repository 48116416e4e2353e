"""iGniter (Xu et al., TPDS 2023): shares of GPUs that keep every model in time beside its neighbours."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final, NamedTuple

from dovetail.core.model import WHOLE_GPU, Seconds

UNIT: Final = 25  # thousandths of a GPU: the step in which shares are given
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class SharedGpu:
    """What becomes scarce where several models share a GPU."""

    bytes_per_s: float = 12e9  # of the bus to the host
    launch_slope_s: Seconds = 0.0  # a kernel's launch takes longer by this for each model,
    launch_base_s: Seconds = 0.0  # and by this, where there are two or more
    watts: float = 300.0
    idle_watts: float = 0.0
    clock: float = 1.0  # full speed
    clock_per_watt: float = 0.0  # what the clock loses for each watt above the limit

    def launch_longer(self, models: int) -> Seconds:
        return self.launch_slope_s * models + self.launch_base_s if models >= 2 else 0.0

    def slowdown(self, watts: float) -> float:
        """How many times slower the clock is where so much is drawn."""
        too_much = max(self.idle_watts + watts - self.watts, 0.0)
        return self.clock / max(self.clock - self.clock_per_watt * too_much, 0.05 * self.clock)


@dataclass(frozen=True, slots=True)
class FittedTime:
    """How long the kernels of a batch take on a share r, alone: (k1 b² + k2 b + k3) / (r + k4) + k5."""

    k1: float
    k2: float
    k3: float
    k4: float = 0.0
    k5: float = 0.0

    def __call__(self, batch: int, share: int) -> Seconds:
        work = self.k1 * batch * batch + self.k2 * batch + self.k3
        return work / (share / WHOLE_GPU + self.k4) + self.k5


class SharingModel(NamedTuple):
    """A model to be served, and what it does to others on its GPU."""

    name: str
    rate: float
    slo_s: Seconds
    alone: Callable[[int, int], Seconds]  # its kernels, by batch and share
    max_batch: int = 64
    kernels: int = 0
    launch_s: Seconds = 0.0  # for each of them
    bytes_in: float = 0.0  # for each request
    bytes_out: float = 0.0
    cache: float = 0.0  # the part of the cache that it uses
    cache_slope: float = 0.0  # how much slower it is for what others use of the cache
    power_watts: float = 0.0


class Resident(NamedTuple):
    """A model on a GPU, with its batch and its share."""

    model: SharingModel
    batch: int
    share: int


def latency_s(own: Resident, others: Sequence[Resident], gpu: SharedGpu) -> Seconds:
    """Of one batch beside these: load it, run it, bring it back."""
    model = own.model
    moved = (model.bytes_in + model.bytes_out) * own.batch / gpu.bytes_per_s
    return moved + gpu_time_s(own, others, gpu)


def gpu_time_s(own: Resident, others: Sequence[Resident], gpu: SharedGpu) -> Seconds:
    model = own.model
    launch = (model.launch_s + gpu.launch_longer(len(others) + 1)) * model.kernels
    crowd = sum(other.model.cache for other in others)
    active = model.alone(own.batch, own.share) * (1.0 + model.cache_slope * crowd)
    watts = model.power_watts + sum(other.model.power_watts for other in others)
    return (launch + active) * gpu.slowdown(watts)


def throughput(own: Resident, others: Sequence[Resident], gpu: SharedGpu) -> float:
    """Requests a second: the next batch is loaded while one runs."""
    back = own.model.bytes_out * own.batch / gpu.bytes_per_s
    return own.batch / (gpu_time_s(own, others, gpu) + back)


def smallest_batch(model: SharingModel, gpu: SharedGpu) -> int:
    """Just large enough to keep up: half of the time a request has goes by while its batch fills up,
    in the other half it is loaded and run."""
    bus = gpu.bytes_per_s
    exact = model.slo_s * model.rate * bus / (2.0 * (bus + model.rate * model.bytes_in))
    if not exact < model.max_batch:  # also where nothing is asked of it: no SLO
        return model.max_batch
    return max(ceil(exact - _ROUNDING), 1)


def least_share(model: SharingModel, batch: int, gpu: SharedGpu) -> int | None:
    """The smallest share on which it is in time and keeps up, alone; None: not even a whole GPU. More
    of a GPU never makes it slower."""
    enough = range(UNIT, WHOLE_GPU + 1, UNIT)
    found = bisect_left(
        enough, True, key=lambda own: _is_well(Resident(model, batch, own), (), gpu)
    )
    return enough[found] if found < len(enough) else None


def _is_well(own: Resident, others: Sequence[Resident], gpu: SharedGpu) -> bool:
    in_time = latency_s(own, others, gpu) <= own.model.slo_s / 2.0 + _ROUNDING
    return in_time and throughput(own, others, gpu) >= own.model.rate * (1.0 - _ROUNDING)


def beside(
    residents: Sequence[Resident], new: Resident, gpu: SharedGpu
) -> tuple[Resident, ...] | None:
    """All of them with the shares that keep all in time: nobody's becomes smaller; None: too much."""
    there = [*residents, new]
    while sum(one.share for one in there) <= WHOLE_GPU:
        late = [
            i
            for i, one in enumerate(there)
            if not _is_well(one, [*there[:i], *there[i + 1 :]], gpu)
        ]
        if not late:
            return tuple(there)
        for i in late:
            there[i] = there[i]._replace(share=there[i].share + UNIT)
    return None


def share_gpus(
    models: Sequence[SharingModel], gpu: SharedGpu, most: int
) -> list[tuple[Resident, ...]] | None:
    """The largest first, each on the GPU whose models together need the least more for it; a further
    GPU where it fits on none. None: more GPUs than there are, or one model is too slow for all."""
    alone = []
    for model in models:
        batch = smallest_batch(model, gpu)
        share = least_share(model, batch, gpu)
        if share is None:
            return None
        alone.append(Resident(model, batch, share))
    if sum(one.share for one in alone) > most * WHOLE_GPU:
        return None
    gpus: list[tuple[Resident, ...]] = []
    for new in sorted(alone, key=lambda one: -one.share):
        drafts = [(i, beside(there, new, gpu)) for i, there in enumerate(gpus)]
        able = [(_added(gpus[i], draft), i, draft) for i, draft in drafts if draft is not None]
        if able:
            _, i, draft = min(able, key=lambda row: row[:2])
            gpus[i] = draft
        elif len(gpus) < most:
            gpus.append((new,))
        else:
            return None
    return gpus


def _added(before: Sequence[Resident], after: Sequence[Resident]) -> int:
    return sum(one.share for one in after) - sum(one.share for one in before)
