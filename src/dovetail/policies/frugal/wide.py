"""Jobs that fit on one node, spread over several smaller ones where that costs less."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from dovetail.core.inventory import Pool
from dovetail.core.model import JobId, Placement, Seconds, joined
from dovetail.core.plan import Plan
from dovetail.core.track import Track
from dovetail.policies.frugal.ladder import AS_GOOD_AS_FULL, Rates


class Wide(NamedTuple):
    """A waiting job; `money`: its cost in its thriftiest way; `seconds`: by pool whose nodes are
    too small for it, the duration believed there, if that is soon enough."""

    track: Track
    slack: Seconds
    money: float
    seconds: dict[int, Seconds]


def spread(plan: Plan, jobs: Iterable[Wide], rates: Rates) -> set[JobId]:
    """Start the jobs for which several smaller nodes cost less than their price, the least slack
    first."""
    return {
        wide.track.job.id
        for wide in sorted(jobs, key=lambda own: (own.slack, own.track.sequence))
        if _started(plan, wide, rates)
    }


def _started(plan: Plan, wide: Wide, rates: Rates) -> bool:
    room, shape = plan.room, wide.track.shape
    for index, seconds in wide.seconds.items():
        placement = _over_nodes(plan, room.pools[index], shape.gpus)
        if placement is None or not room.allows(placement, shape):
            continue
        if _per_hour(plan, placement, rates[index]) * seconds * AS_GOOD_AS_FULL < wide.money:
            plan.start_at(wide.track, placement)
            return True
    return False


def _over_nodes(plan: Plan, pool: Pool, gpus: int) -> Placement | None:
    """As few of the pool's nodes as possible."""
    room, pieces = plan.room, list[Placement]()
    nodes = [n for n in pool.members if room.open[n] and room.count[n]]
    for n in sorted(nodes, key=lambda n: (-room.count[n], n)):
        more = min(gpus, room.count[n])
        pieces.append(room.first_gpus(n, more))
        gpus -= more
        if not gpus:
            return joined(pieces)
    return None


def _per_hour(plan: Plan, placement: Placement, rate: tuple[float, ...]) -> float:
    """All of a node that no other job uses, and its part of the others."""
    total = 0.0
    for n, mask in placement.slices:
        gpus, all_of_it = mask.bit_count(), plan.room.nodes[n].gpus
        alone = plan.room.count[n] == all_of_it
        total += rate[gpus] if alone else rate[all_of_it] * gpus / all_of_it
    return total
