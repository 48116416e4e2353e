"""The ways to run a job that are worth their price, from the thriftiest to the fastest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

from dovetail.core.model import Seconds
from dovetail.policies.andreas.problem import Menu, Way

Rates: TypeAlias = tuple[tuple[float, ...], ...]  # by pool and busy GPUs of a node: money per hour
BRIEF_S: Final = 1e-3  # as short a job as we believe in
AGES_S: Final = 1e9  # and as long
REMEMBERED: Final = 1 << 16  # ladders, of which jobs alike share one
AS_GOOD_AS_FULL: Final = 1.01  # rounding in a table of rates is no reason to wait


@dataclass(frozen=True, slots=True)
class PriceLadder:
    """A job's ways at given rates. Ways are numbered by their place in `ways`.

    `thrifty` is the way that costs least when nodes are full; `climbs` has for every pool, the
    thriftiest first, the ways to run there, slowest first: only ways that are no worse than
    switching between two others.
    """

    ways: tuple[Way, ...]
    shares: tuple[float, ...]  # money per hour of each way on a node full of its like, extras too
    thrifty: int
    climbs: tuple[tuple[int, ...], ...]
    fastest: Seconds
    usual: Seconds  # in the thriftiest way

    def alike(self, way: int, other: int) -> bool:
        """Do the ways differ only in the power limit, which can be changed while a job runs?"""
        ways = self.ways
        return way == other or (
            way >= 0 <= other and ways[way][:2] == ways[other][:2]  # the pool and the GPUs
        )


@lru_cache(maxsize=REMEMBERED)
def ladder(ways: tuple[Way, ...], rates: Rates) -> PriceLadder:
    ways = tuple([way._replace(seconds=min(max(way.seconds, BRIEF_S), AGES_S)) for way in ways])
    shares = tuple([share(rates[way.pool], way.gpus) + way.extra for way in ways])
    by_cost = sorted(range(len(ways)), key=lambda k: (shares[k] * ways[k].seconds, ways[k].seconds))
    thrifty, pools = by_cost[0], dict.fromkeys([ways[k].pool for k in by_cost])
    climbs = tuple([_climb(ways, shares, pool) for pool in pools])
    fastest = min([way.seconds for way in ways])
    return PriceLadder(ways, shares, thrifty, climbs, fastest, ways[thrifty].seconds)


def ladder_of(menu: Menu, rates: Rates) -> PriceLadder:
    """The ladder of its ways. Thousands are asked for in a decision, at the rates of the last one:
    each menu keeps its own."""
    if menu.own is None or menu.own[0] is not rates:
        menu.own = rates, ladder(menu.ways, rates)
    steps: PriceLadder = menu.own[1]
    return steps


@lru_cache(maxsize=8)
def same_rates(rates: Rates) -> Rates:
    """One object for equal rates."""
    return rates


def share(rate: Sequence[float], gpus: int) -> float:
    """Money per hour of a job with so many GPUs on the best filled node of equal jobs."""
    return min([rate[busy] * gpus / busy for busy in range(gpus, len(rate), gpus)])


def _climb(ways: Sequence[Way], shares: Sequence[float], pool: int) -> tuple[int, ...]:
    """The upper hull of speed over price: a mix of two ways may be better than one in between."""
    hull: list[tuple[float, float, int]] = [(0.0, 0.0, -1)]
    points = [(shares[k], 1.0 / way.seconds, k) for k, way in enumerate(ways) if way.pool == pool]
    for point in sorted(points):
        if point[1] <= hull[-1][1]:
            continue
        while len(hull) > 1 and _bends_up(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    return tuple([k for _, _, k in hull[1:]])


def _bends_up(
    low: tuple[float, float, int], middle: tuple[float, float, int], high: tuple[float, float, int]
) -> bool:
    before = (middle[1] - low[1]) * (high[0] - middle[0])
    return before <= (high[1] - middle[1]) * (middle[0] - low[0])
