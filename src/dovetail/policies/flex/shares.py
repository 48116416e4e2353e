"""Who gets how many GPUs of which pool: weighted proportional fairness over the ways to run.

The shares maximise the sum of weight times the logarithm of speed. The weight falls with the work
that is left, so short jobs get more: between the equal shares of proportional fairness and shortest
remaining time first. GPUs are handed out step by step to the job that gains most for their price,
along the concave hull of its speed-up, so a job that needs four GPUs to gain anything is seen.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import exp, inf, log
from types import MappingProxyType
from typing import Any, Final, final

from dovetail.core.model import JobId
from dovetail.policies.flex.claims import Claimant, GpuWay
from dovetail.policies.flex.exchange import exchanged

_NONE: Final[Mapping[Any, Any]] = MappingProxyType({})


def shares(
    claimants: Iterable[Claimant],
    gpus: Mapping[int, int],
    floors: Mapping[JobId, GpuWay] = _NONE,
    held: Mapping[JobId, GpuWay] = _NONE,
) -> dict[JobId, GpuWay]:
    """The way of each job that is to run now: those with a floor get that, or a faster one; those that
    are held stay in their way if there is room."""
    able = [replace(one, ways=[held[one.id]]) if one.id in held else one for one in claimants]
    return _Sharing([one for one in able if one.ways], gpus).run({**floors, **held}, floors)


def prices(claimants: Iterable[Claimant], pools: Iterable[int]) -> dict[int, float]:
    """What a GPU of each pool is worth: how much faster than on others jobs run on it, on average.

    Only jobs that may use several compare them; a pool that nobody compares has the price 1.
    """
    sums = dict.fromkeys(pools, 0.0)
    counted = dict.fromkeys(sums, 0)
    for one in claimants:
        best = _best_per_gpu(one)
        if len(best) < 2:
            continue
        middle = sum(best.values()) / len(best)
        for pool, logarithm in best.items():
            sums[pool] += logarithm - middle
            counted[pool] += 1
    return {pool: exp(sums[pool] / max(counted[pool], 1)) for pool in sums}


def _best_per_gpu(one: Claimant) -> dict[int, float]:
    """By pool, the logarithm of its best speed for a GPU."""
    best: dict[int, float] = {}
    for pool, gpus, rate in one.ways:
        best[pool] = max(best.get(pool, -inf), log(rate / gpus))
    return best


def _admitted_first(one: Claimant) -> tuple[float, float]:
    return -one.priority, one.left_gpu_s


@final
class _Sharing:
    """One round of handing out GPUs."""

    def __init__(self, claimants: Sequence[Claimant], gpus: Mapping[int, int]) -> None:
        self._claimants: Final = {one.id: one for one in claimants}
        self._free: Final = dict(gpus)
        self._price: Final = prices(claimants, gpus)
        self._given: Final[dict[JobId, GpuWay]] = {}

    def run(
        self, wanted: Mapping[JobId, GpuWay], floors: Mapping[JobId, GpuWay]
    ) -> dict[JobId, GpuWay]:
        heap: list[tuple[float, int, JobId, GpuWay]] = []
        for job_id, way in [*floors.items(), *wanted.items()]:
            if job_id in self._claimants and self._fits(job_id, way):
                self._take(job_id, way)
        shortest_first = sorted(self._claimants.values(), key=_admitted_first)
        for number, one in enumerate(shortest_first):
            if one.id not in self._given:
                self._admit(one)
            self._offer(heap, number, one.id)
        while heap:
            _, number, job_id, way = heapq.heappop(heap)
            if self._fits(job_id, way):
                self._take(job_id, way)
            self._offer(heap, number, job_id)
        if not any(one.kinds_differ for one in shortest_first):
            return self._given
        free_to_go = [one for one in shortest_first if one.id not in wanted]
        return exchanged(free_to_go, self._given, self._free)

    def _admit(self, one: Claimant) -> None:
        """In the way in which its GPUs are used best, if there is room for any."""
        ways = [way for way in one.ways if self._fits(one.id, way)]
        if ways:
            self._take(one.id, max(ways, key=lambda way: way.rate / self._cost(way)))

    def _offer(
        self, heap: list[tuple[float, int, JobId, GpuWay]], number: int, job_id: JobId
    ) -> None:
        """Its best next step among those for which there is room now."""
        now = self._given.get(job_id)
        if now is None:
            return
        one = self._claimants[job_id]
        best, found = 0.0, None
        cost, logarithm = self._cost(now), log(now.rate)
        for way in one.ways:
            if way.rate <= now.rate or not self._fits(job_id, way):
                continue
            dearer = self._cost(way) - cost
            gain = (log(way.rate) - logarithm) / dearer if dearer > 0 else inf
            if gain > best:
                best, found = gain, way
        if found is not None:
            heapq.heappush(heap, (-best * one.weight, number, job_id, found))

    def _cost(self, way: GpuWay) -> float:
        return self._price[way.pool] * way.gpus

    def _fits(self, job_id: JobId, way: GpuWay) -> bool:
        now = self._given.get(job_id)
        own = now.gpus if now is not None and now.pool == way.pool else 0
        return way.gpus <= self._free.get(way.pool, 0) + own

    def _take(self, job_id: JobId, way: GpuWay) -> None:
        now = self._given.get(job_id)
        if now is not None:
            self._free[now.pool] += now.gpus
        self._free[way.pool] -= way.gpus
        self._given[job_id] = way
