"""Pipelines of models: how long requests take through all stages, estimated on a sample of arrivals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heapreplace
from random import Random
from typing import NamedTuple

from dovetail.core.model import Seconds
from dovetail.quantiles import quantile


class StageHardware(NamedTuple):
    """A kind of GPU that a stage may run on."""

    kind: str
    usd_per_hour: float
    latency: Callable[[int], Seconds]  # of a batch


class PipelineStage(NamedTuple):
    """One model of a pipeline. `part` of the requests need it, after those stages."""

    name: str
    hardware: Sequence[StageHardware]
    after: tuple[str, ...] = ()
    part: float = 1.0
    max_batch: int = 64


class StageSetting(NamedTuple):
    """How a stage is run."""

    hardware: StageHardware
    batch: int = 1
    replicas: int = 1

    @property
    def usd_per_hour(self) -> float:
        return self.hardware.usd_per_hour * self.replicas

    @property
    def throughput(self) -> float:
        """Of one replica, with full batches."""
        return self.batch / self.hardware.latency(self.batch)


def ends_of_stage(arrivals: Sequence[Seconds], setting: StageSetting) -> list[Seconds]:
    """A replica that is free takes what waits, up to a batch. `arrivals` in order."""
    free = [0.0] * setting.replicas
    heapify(free)
    took = [setting.hardware.latency(b) for b in range(1, setting.batch + 1)]
    ends: list[Seconds] = []
    first, n = 0, len(arrivals)
    while first < n:
        start = max(free[0], arrivals[first])
        last = first + 1
        while last < n and last - first < setting.batch and arrivals[last] <= start:
            last += 1
        end = start + took[last - first - 1]
        heapreplace(free, end)
        ends.extend([end] * (last - first))
        first = last
    return ends


def times_through(
    stages: Sequence[PipelineStage],
    settings: Mapping[str, StageSetting],
    arrivals: Sequence[Seconds],
    seed: int = 0,
) -> list[Seconds]:
    """How long each request takes. Stages do not act back on those before them, so each is simulated
    once, on the ends of those before it. `stages` in an order in which that is possible."""
    chance = Random(seed)
    done: dict[str, list[Seconds]] = {}
    for stage in stages:
        ready = [max(ends) for ends in zip(*[done[name] for name in stage.after], strict=True)]
        own = list(ready or arrivals)
        visits = [i for i in range(len(own)) if stage.part >= 1.0 or chance.random() < stage.part]
        visits.sort(key=own.__getitem__)
        ends = ends_of_stage([own[i] for i in visits], settings[stage.name])
        for i, end in zip(visits, ends, strict=True):
            own[i] = end
        done[stage.name] = own
    last = [max(ends) for ends in zip(*done.values(), strict=True)]
    return [end - at for end, at in zip(last, arrivals, strict=True)]


def tail_s(
    stages: Sequence[PipelineStage],
    settings: Mapping[str, StageSetting],
    arrivals: Sequence[Seconds],
    percentile: float = 99.0,
) -> Seconds:
    """The estimate for a setting of every stage."""
    return quantile(sorted(times_through(stages, settings, arrivals)), percentile / 100.0)
