"""Jobs that are not whole GPUs on one node: gangs over several nodes, shares, jobs with needs of
CPUs or memory.

They are not planned with the others. Those without slack go first: to free GPUs, else to GPUs of
jobs that can wait or are worth less, else nodes are kept free for them. `Urgency` says how pressing
they are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from math import inf
from typing import Final, NamedTuple, final

from dovetail.core.inventory import Pool
from dovetail.core.model import WHOLE_GPU, JobId, Placement, Seconds, joined
from dovetail.core.plan import Plan
from dovetail.core.room import Room
from dovetail.core.shape import Shape
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.models.hourly import HOUR_S
from dovetail.policies.andreas.drafting import SeenPaces
from dovetail.policies.frugal.draft import BLINK_S
from dovetail.policies.frugal.guests import Guest, Guests, counts
from dovetail.policies.frugal.ladder import Rates
from dovetail.predict.duration import Predictor

LEAD: Final = 1.0  # part of its time by which room is made for such a job before its last moment
# The deadline of a job, and the cost of a second after it: by its usual duration, and by the money for
# an hour in its most expensive way.
Due = Callable[[Track, Seconds, float], tuple[Seconds, float]]


class Special(NamedTuple):
    """`lead`: the slack that it has before room is made for it; `worth`: lateness avoided per
    GPU-second; `keeps`: are nodes to be kept free for it?"""

    track: Track
    slack: Seconds
    lead: Seconds
    worth: float
    keeps: bool = True


def make_room(plan: Plan, pressing: Collection[Special], running: Iterable[Guest]) -> set[JobId]:
    """Start the jobs, the most worth first. Returns the jobs started or stopped."""
    decided: set[JobId] = set()
    if not pressing:
        return decided
    guests = Guests(plan.room, running)
    for special in sorted(pressing, key=lambda own: (-own.worth, own.track.sequence)):
        guests.spare(special.worth)
        decided |= _let_in(plan, special, guests)
    return decided


def _let_in(plan: Plan, special: Special, guests: Guests) -> set[JobId]:
    track, placement = special.track, plan.place(special.track)
    victims = [] if placement is not None else _victims(plan, special, guests)
    for guest in victims:
        plan.stop(guest.track)
    if victims:
        placement = plan.place(track)
    if placement is not None:
        plan.start_at(track, placement)
        guests.stopped(victims)
        guests.recount([piece.node for piece in placement.slices])
        return {track.job.id, *[guest.track.job.id for guest in victims]}
    for guest in victims:  # it was not GPUs that were missing
        plan.keep(guest.track)
    if special.keeps:
        guests.recount(_keep_free(plan, special))
    return set()


def _victims(plan: Plan, special: Special, guests: Guests) -> list[Guest]:
    """The guests to stop so that there is room; none if that does not pay."""
    shape = special.track.shape
    if not (shape.gpus and plan.room.within_quota(shape)):
        return []
    return guests.to_stop_for(shape)


def _keep_free(plan: Plan, special: Special) -> list[int]:
    """Keep other jobs from starting on the nodes that it will have first; on which GPUs were kept."""
    room, shape = plan.room, special.track.shape
    if shape.home or not room.within_quota(shape):
        return []
    for pool in room.eligible(shape) if shape.gpus else ():
        chosen, gpus = list[Placement](), shape.gpus
        for n in _emptiest_first(room, pool):
            if gpus <= 0:
                break
            gpus -= counts(shape, room.nodes[n].gpus)
            if room.count[n]:
                chosen.append(room.first_gpus(n, room.count[n]))
        if gpus <= 0:
            # Where it has to wait for CPUs or memory as well, GPUs kept free would help nobody.
            if not chosen or not room.allows(joined(chosen), shape):
                return []
            plan.reserve(joined(chosen), special.track)
            return [piece.node for placement in chosen for piece in placement.slices]
    return []


def _emptiest_first(room: Room, pool: Pool) -> Iterator[int]:
    """The open nodes of the pool."""
    for nodes in [*pool.by_count[:0:-1]]:  # as they are now: they change when GPUs are kept free
        while nodes:
            low = nodes & -nodes
            nodes ^= low
            yield low.bit_length() - 1
    yield from [n for n in pool.members if room.open[n] and not room.count[n]]


class _Terms(NamedTuple):
    """What jobs of one shape and model have in common."""

    pace: float  # the best that was seen
    gpus: float
    dearest: float  # money for an hour


@final
class Urgency:
    """At one moment, for thousands of jobs: what they have in common is worked out once."""

    def __init__(
        self,
        view: View,
        predictor: Predictor,
        paces: SeenPaces,
        rates: Rates,
        due: Due,
        margin: float,
    ) -> None:
        self._view: Final = view
        self._predictor: Final = predictor
        self._paces: Final = paces
        self._rates: Final = rates
        self._due: Final = due
        self._margin: Final = 1 + margin
        self._terms: Final[dict[tuple[Shape, str], _Terms]] = {}

    def pressing(
        self, tracks: Iterable[Track], keeps: bool = True
    ) -> tuple[list[Special], Seconds]:
        """The jobs for which room is made now, and in how many seconds the first of the others will
        be one of them."""
        found, patience = list[Special](), inf
        for track in tracks:
            special = self.of(track, keeps)
            if special.lead > BLINK_S:
                patience = min(patience, special.lead)
            else:
                found.append(special)
        return found, patience

    def of(self, track: Track, keeps: bool = True) -> Special:
        job, now = track.job, self._view.now
        terms = self._terms.get((track.shape, job.model))
        if terms is None:
            terms = self._terms[track.shape, job.model] = self._terms_of(track.shape, job.model)
        seconds = self._predictor.duration_s(job, self._view) - track.executed_by(now)
        usual = max(seconds / terms.pace, BLINK_S)
        deadline, late_per_s = self._due(track, usual, terms.dearest)
        slack = deadline - now - usual * self._margin
        lead = slack - LEAD * usual if keeps else slack
        return Special(track, slack, lead, late_per_s / (terms.gpus * usual), keeps)

    def _terms_of(self, shape: Shape, model: str) -> _Terms:
        pools, paces, rates = self._view.room.eligible(shape), self._paces, self._rates
        pace = max([paces.of(model, p.kind, shape.gpus > p.width) for p in pools], default=1.0)
        gpus = max(shape.gpus * shape.share / WHOLE_GPU, BLINK_S / HOUR_S)
        dearest = max([rates[p.index][-1] / max(p.width, 1) for p in pools], default=0.0) * gpus
        return _Terms(pace, gpus, dearest)
