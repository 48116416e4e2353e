"""The ways to run a job that are worth their price, from the thriftiest to the fastest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from dovetail.core.model import Option, Seconds

Rates: TypeAlias = Mapping[str, Sequence[float]]  # by kind: money per hour by number of busy GPUs
Sizes: TypeAlias = Mapping[str, int]  # by kind: GPUs of its largest node
AS_GOOD_AS_FULL: Final = 1.01  # rounding in a table of rates is no reason to wait


@dataclass(frozen=True, slots=True)
class Ladder:
    """A job's ways at given rates. Ways are told by their place in `ways`.

    `thrifty` is the one that costs least when nodes are full; `climbs` has for every kind, the thrifty
    one's first, the ways to run there, slowest first: only those that are no worse than switching
    between two others.
    """

    ways: tuple[Option, ...]
    shares: tuple[float, ...]  # money per hour of each way on a node full of its like
    thrifty: int
    climbs: tuple[tuple[int, ...], ...]
    fastest: Seconds


def ladder(options: Sequence[Option], rates: Rates, sizes: Sizes) -> Ladder | None:
    """None if no node could ever hold the job."""
    ways = tuple([way for way in options if way.gpus <= sizes.get(way.kind, 0)])
    if not ways:
        return None
    shares = tuple([share(rates[way.kind], way.gpus, sizes[way.kind]) for way in ways])
    thrifty = min(range(len(ways)), key=lambda k: (shares[k] * ways[k].seconds, ways[k].seconds))
    kinds = sorted({way.kind for way in ways}, key=lambda kind: (kind != ways[thrifty].kind, kind))
    climbs = tuple([_climb(ways, shares, kind) for kind in kinds])
    return Ladder(ways, shares, thrifty, climbs, min([way.seconds for way in ways]))


def share(rate: Sequence[float], gpus: int, size: int) -> float:
    """Money per hour of a job with so many GPUs on the best filled node of such jobs."""
    return min([rate[busy] * gpus / busy for busy in range(gpus, size + 1, gpus)])


def _climb(ways: Sequence[Option], shares: Sequence[float], kind: str) -> tuple[int, ...]:
    """The upper hull of speed over price: a mix of two ways may be better than one in between."""
    hull: list[tuple[float, float, int]] = [(0.0, 0.0, -1)]
    points = [(shares[k], 1.0 / way.seconds, k) for k, way in enumerate(ways) if way.kind == kind]
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
