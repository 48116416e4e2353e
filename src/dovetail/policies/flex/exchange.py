"""Which gang is on which GPU kind: jobs change places while that is worth more to all together.

What a way to run is worth to a job is its weight times the logarithm of its speed there, beside its
fastest kind, and `_RUNNING` for running at all. Handing out GPUs job after job leaves a fast kind with
whoever came first; here it goes to who gains most by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf, log
from operator import itemgetter
from typing import Final, NamedTuple, final

from dovetail.core.model import JobId
from dovetail.policies.flex.claims import Claimant, GpuWay

_RUNNING: Final = 2.0  # what running at full speed is worth; a slow kind below e^-2 hardly anything
_HARDLY: Final = 0.05
_PASSES: Final = 2
_LEAST: Final = 1e-9  # a smaller gain is none


class _Gang(NamedTuple):
    """A job with one number of GPUs."""

    id: JobId
    gpus: int
    priority: float
    worth: Mapping[int, float]  # by pool
    ways: Mapping[int, GpuWay]


def exchanged(
    claimants: Iterable[Claimant], given: Mapping[JobId, GpuWay], free: Mapping[int, int]
) -> dict[JobId, GpuWay]:
    """What these have after changing places; those with a choice of counts keep what they have."""
    gangs = [_gang(one) for one in claimants if len({way.gpus for way in one.ways}) == 1]
    if not any(len(one.worth) > 1 for one in gangs):
        return dict(given)
    table = _Exchange(gangs, given, free)
    for _ in range(_PASSES):
        if not table.one_pass():
            break
    return table.given


def _gang(one: Claimant) -> _Gang:
    best = max([way.rate for way in one.ways])
    worth = {
        way.pool: one.weight * max(_RUNNING + log(way.rate / best), _HARDLY) for way in one.ways
    }
    ways = {way.pool: way for way in one.ways}
    return _Gang(one.id, one.ways[0].gpus, one.priority, worth, ways)


@final
class _Exchange:
    """Who is where, and what giving way would cost."""

    def __init__(
        self, gangs: Sequence[_Gang], given: Mapping[JobId, GpuWay], free: Mapping[int, int]
    ) -> None:
        self.given: Final = dict(given)
        self._gangs: Final = gangs
        self._free: Final = dict(free)
        self._on: Final[dict[int, list[_Gang]]] = {pool: [] for pool in free}
        for one in gangs:
            if one.id in given:
                self._on[given[one.id].pool].append(one)
        self._cheapest: Final[dict[tuple[int, int | None], float]] = {}  # see `_least_lost`

    def one_pass(self) -> bool:
        """Each job is tried on each kind; did anybody change?"""
        changed = False
        for one in self._gangs:
            for pool in one.worth:
                changed |= self._try(one, pool)
        return changed

    def _try(self, one: _Gang, pool: int) -> bool:
        now = self.given.get(one.id)
        if now is not None and now.pool == pool:
            return False
        gain = one.worth[pool] - (0.0 if now is None else one.worth[now.pool])
        needed, from_pool = one.gpus - self._free[pool], None if now is None else now.pool
        if (gain <= _LEAST and now is None) or gain <= 0:
            return False
        if needed > 0 and gain <= needed * self._least_lost(pool, from_pool):
            return False
        if now is not None:
            self._leave(one)
        moved = self._make_room(one, pool, gain) if needed > 0 else []
        if moved is None:
            if now is not None:
                self._take(one, now.pool)
            return False
        self._take(one, pool)
        self._cheapest.clear()
        return True

    def _make_room(self, one: _Gang, pool: int, gain: float) -> list[_Gang] | None:
        """Who loses least for their GPUs gives way, to another kind or altogether. None: it would not
        be worth it."""
        moved, lost = list[_Gang](), 0.0
        there = [own for own in self._on[pool] if own.priority <= one.priority]
        for _, _, own in self._least_first(there, pool):
            if self._free[pool] >= one.gpus or lost >= gain:
                break
            less, other = self._lost(own, pool)
            self._leave(own)
            if other is not None:
                self._take(own, other)
            moved.append(own)
            lost += less
        if self._free[pool] >= one.gpus and gain - lost > _LEAST:
            return moved
        for own in reversed(moved):
            if own.id in self.given:
                self._leave(own)
            self._take(own, pool)
        return None

    def _least_first(self, there: Sequence[_Gang], pool: int) -> list[tuple[float, int, _Gang]]:
        """By what a GPU of theirs loses if they leave; of equals the first."""
        if any([free for n, free in self._free.items() if n != pool]):
            rows = [(self._lost(own, pool)[0] / own.gpus, i, own) for i, own in enumerate(there)]
        else:  # they would all wait
            rows = [(own.worth[pool] / own.gpus, i, own) for i, own in enumerate(there)]
        return sorted(rows, key=itemgetter(0, 1))

    def _lost(self, own: _Gang, pool: int, freed: int | None = None) -> tuple[float, int | None]:
        """What leaving that pool costs it, and the pool it would go to; None: it would wait."""
        best, where = 0.0, None
        for other, worth in own.worth.items():
            if other != pool and worth > best and (other == freed or self._free[other] >= own.gpus):
                best, where = worth, other
        return own.worth[pool] - best, where

    def _least_lost(self, pool: int, freed: int | None) -> float:
        """At least so much is lost for a GPU of that pool, if any number of another is free by then."""
        found = self._cheapest.get((pool, freed))
        if found is None:
            lost = [self._lost(own, pool, freed)[0] / own.gpus for own in self._on[pool]]
            found = self._cheapest[pool, freed] = min(lost, default=inf)
        return found

    def _leave(self, one: _Gang) -> None:
        pool = self.given.pop(one.id).pool
        self._on[pool].remove(one)
        self._free[pool] += one.gpus

    def _take(self, one: _Gang, pool: int) -> None:
        self.given[one.id] = one.ways[pool]
        self._on[pool].append(one)
        self._free[pool] -= one.gpus
