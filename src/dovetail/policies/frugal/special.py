"""Jobs that are no matter of whole GPUs on one node: gangs over several, shares, those with a host's
CPUs or memory.

They are not planned with the others. Whoever of them has no slack to lose goes first: to what is free,
else to GPUs of jobs that can wait or are worth less, else nodes are kept free for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from dovetail.core.model import JobId, Placement, Seconds, joined
from dovetail.core.plan import Plan
from dovetail.core.room import Pool
from dovetail.core.track import Track
from dovetail.policies.frugal.draft import BLINK_S

LEAD: Final = 1.0  # part of its time by which room is made for such a job before its last moment


class Special(NamedTuple):
    """`lead`: the slack that it has before room is made for it; `worth`: lateness avoided per
    GPU-second; `keeps`: are nodes to be kept free for it?"""

    track: Track
    slack: Seconds
    lead: Seconds
    worth: float
    keeps: bool = True

    @property
    def patience(self) -> Seconds:
        """How long nobody has to make room for it; 0 if that is too short to matter."""
        return self.lead if self.lead > BLINK_S else 0.0


class Guest(NamedTuple):
    """A running job that could be stopped, its GPUs by node, and what it is worth where it is; none if
    it can wait."""

    track: Track
    gpus: Mapping[int, int]
    worth: float


def make_room(plan: Plan, specials: Iterable[Special], guests: Iterable[Guest]) -> set[JobId]:
    """Starts those that have no patience left, the most worth first. Who was started or stopped."""
    decided: set[JobId] = set()
    for special in sorted(specials, key=lambda own: (-own.worth, own.track.sequence)):
        if not special.patience:
            left = [guest for guest in guests if guest.track.job.id not in decided]
            decided |= _let_in(plan, special, left)
    return decided


def _let_in(plan: Plan, special: Special, guests: Iterable[Guest]) -> set[JobId]:
    victims = [] if plan.place(special.track) else _victims(plan, special, guests)
    for guest in victims:
        plan.stop(guest.track)
    if plan.start(special.track):
        return {special.track.job.id, *[guest.track.job.id for guest in victims]}
    for guest in victims:  # it was not GPUs that were missing
        plan.keep(guest.track)
    if special.keeps:
        _keep_free(plan, special)
    return set()


def _victims(plan: Plan, special: Special, guests: Iterable[Guest]) -> list[Guest]:
    """The guests to send away so that there is room; none if that is not worth it."""
    room, shape = plan.room, special.track.shape
    if not (shape.gpus and room.within_quota(shape)):
        return []
    weak = sorted([guest for guest in guests if guest.worth < special.worth], key=_worth)
    found = [_in_pool(plan, pool, shape.gpus, weak) for pool in room.eligible(shape)]
    return min([some for some in found if some], key=len, default=[])


def _worth(guest: Guest) -> float:
    return guest.worth


def _in_pool(plan: Plan, pool: Pool, gpus: int, guests: Sequence[Guest]) -> list[Guest]:
    """The least worth on the nodes that they leave the emptiest; none if that would not do."""
    free = {n: plan.room.count[n] for n in pool.members if plan.room.open[n]}
    could = {n: free[n] + sum([guest.gpus.get(n, 0) for guest in guests]) for n in free}
    needed, victims = gpus, list[Guest]()
    for n in sorted(could, key=lambda n: (-could[n], n)):
        for guest in guests:
            if free[n] < needed and n in guest.gpus and guest not in victims:
                victims.append(guest)
                for other, more in guest.gpus.items():
                    free[other] = free.get(other, 0) + more
        needed -= free[n]
        if needed <= 0:
            return victims
    return []


def _keep_free(plan: Plan, special: Special) -> None:
    """Nobody else is to start on the nodes that it will have first."""
    room, shape = plan.room, special.track.shape
    if not room.within_quota(shape):
        return
    for pool in room.eligible(shape) if shape.gpus else ():
        nodes = sorted([n for n in pool.members if room.open[n]], key=lambda n: (-room.count[n], n))
        chosen, gpus = list[Placement](), shape.gpus
        for n in nodes:
            if gpus <= 0:
                break
            gpus -= room.nodes[n].gpus
            if room.count[n]:
                chosen.append(room.first_gpus(n, room.count[n]))
        if gpus <= 0:
            # Where it has to wait for CPUs or memory as well, GPUs kept free would help nobody.
            if chosen and room.allows(joined(chosen), shape):
                plan.reserve(joined(chosen), special.track)
            return
