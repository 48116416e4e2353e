"""Converts a view to the scene of a rehearsal, and seats back to actions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Final, TypeAlias, final

from dovetail.core.entries import Action, Preempt, Resize, Start
from dovetail.core.model import WHOLE_GPU, JobId, Placement, Seconds, joined
from dovetail.core.plan import Place, Plan
from dovetail.core.track import STARTING, Track
from dovetail.core.view import View
from dovetail.policies.andreas.drafting import SAME_PART, Books
from dovetail.policies.frugal.draft import BLINK_S
from dovetail.policies.frugal.ladder import AGES_S, BRIEF_S, Rates, ladder_of
from dovetail.policies.frugal.rehearsal import (
    RehearsalScene,
    RehearsalSeat,
    RehearsalWay,
    RehearsedJob,
    RehearsedNode,
)
from dovetail.policies.outlook import begins_at
from dovetail.predict.duration import Predictor

MOST: Final = (
    60  # jobs, and nodes: with more of them one displaced job matters less, and all takes long
)

Due: TypeAlias = Callable[[Track, Seconds, float], tuple[Seconds, float]]


@final
class Cast:
    """The jobs and nodes of a view as they are rehearsed.

    `due`: the deadline of a job with this duration and cost per hour, and the cost of a second
    after it; `may_go`: may a running job be stopped?
    """

    def __init__(
        self,
        view: View,
        books: Books,
        predictor: Predictor,
        rates: Rates,
        due: Due,
        may_go: Callable[[Track], bool],
        margin: float,
        move: float,
    ) -> None:
        self._view: Final = view
        self._room: Final = view.room
        self._rates: Final = rates
        self._due: Final = due
        self._may_go: Final = may_go
        self._books: Final = books
        self._predictor: Final = predictor
        nodes = [n for n in range(len(view.room.nodes)) if view.room.open[n]]
        self._nodes: Final = nodes
        self._numbers: Final = {n: number for number, n in enumerate(nodes)}
        self._tracks: Final[list[Track]] = []
        self._parts: Final[list[RehearsedJob]] = []
        self._others: Final[list[Track]] = []  # waiting jobs that need no GPU
        for track in view.tracks.values():
            self._add(track)
        self.scene: Final = RehearsalScene(
            view.now, self._parts, self._stands(), rates, move, self._quotas(), margin
        )

    def _add(self, track: Track) -> None:
        if track.barred and track.placement is None:
            return
        courses, whole_s = self._courses(track)
        seat = None
        if track.placement is not None:
            seat = self._seat(track.placement, courses, whole_s / track.speed)
        if track.placement is not None and seat is None:
            return  # on a node that is to be left
        if not courses:
            if seat is None:
                self._others.append(track)
            return
        self._tracks.append(track)
        self._parts.append(self._part(track, courses, whole_s, seat))

    def _part(
        self,
        track: Track,
        courses: tuple[RehearsalWay, ...],
        whole_s: Seconds,
        seat: RehearsalSeat | None,
    ) -> RehearsedJob:
        now, job = self._view.now, track.job
        dearest = max([course.per_hour for course in courses])
        deadline, late_per_s = self._due(track, courses[0].seconds, dearest)
        return RehearsedJob(
            courses,
            max(1.0 - track.executed_by(now) / whole_s, SAME_PART),
            deadline,
            late_per_s,
            job.interruption.save_s,
            track.restore_s,
            seat is not None or track.resumed,
            seat is not None and not self._may_stop(track),
            0.0 if seat is None else max(begins_at(track) - now, 0.0),
            seat,
            track.shape.tenant,
        )

    def _may_stop(self, track: Track) -> bool:
        return not track.pinned and track.phase is not STARTING and self._may_go(track)

    def _courses(self, track: Track) -> tuple[tuple[RehearsalWay, ...], Seconds]:
        """The ways to run the job, the cheapest first, those over several nodes last; and the
        duration of the whole job at speed 1."""
        job, menu = track.job, self._books.menu(track)
        if menu is None:
            whole_s = min(max(self._predictor.duration_s(job, self._view), BRIEF_S), AGES_S)
            return tuple(self._on_any_nodes(track, whole_s, False)), whole_s
        steps, whole_s = ladder_of(menu, self._rates), max(menu.reference_s, BRIEF_S)
        ways = [(k, steps.ways[k]) for climb in steps.climbs for k in climb]
        single = [
            RehearsalWay(
                w.pool, w.gpus * WHOLE_GPU, w.seconds, steps.shares[k], False, w.limit, w.extra
            )
            for k, w in ways
        ]
        single.sort(key=lambda course: course.per_hour * course.seconds)
        alone = job.options or job.gpus == 1 or track.shape.nodes
        apart = [] if alone else self._on_any_nodes(track, whole_s, True)
        return (*single, *apart), whole_s

    def _on_any_nodes(self, track: Track, whole_s: Seconds, apart: bool) -> Iterable[RehearsalWay]:
        """In every pool; over several nodes if one is too small or if `apart`."""
        model, shape = track.job.model, track.shape
        if not shape.gpus:
            return
        for pool in self._room.eligible(shape):
            over_nodes = apart or shape.nodes > 1 or shape.gpus > pool.width
            pace = self._books.paces.of(model, pool.kind, over_nodes)
            if over_nodes:
                pace = min(pace, self._books.paces.of(model, pool.kind))
            yield self._course(pool.index, shape.gpus * shape.share, whole_s / pace, over_nodes)

    def _course(self, pool: int, need: int, seconds: Seconds, apart: bool) -> RehearsalWay:
        rate = self._rates[pool]
        per_hour = rate[-1] / max(len(rate) - 1, 1) * need / WHOLE_GPU
        return RehearsalWay(pool, need, seconds, per_hour, apart)

    def _seat(
        self, placement: Placement, courses: Iterable[RehearsalWay], otherwise_s: Seconds
    ) -> RehearsalSeat | None:
        """A placement as a seat; `otherwise_s`: the duration of the whole job there if the
        placement is none of its courses."""
        pieces = [(n, mask.bit_count() * placement.share) for n, mask in placement.slices]
        if not pieces or not self._room.is_open_at(placement):
            return None
        pool, apart = self._room.pool_of[pieces[0][0]].index, len(pieces) > 1
        like = pool, placement.gpus * placement.share, apart, placement.limit
        course = next((c for c in courses if (c.pool, c.need, c.apart, c.limit) == like), None)
        if course is None:
            course = self._course(pool, like[1], otherwise_s, apart)
        return RehearsalSeat(course, tuple([(self._numbers[n], need) for n, need in pieces]))

    def _stands(self) -> list[RehearsedNode]:
        """The nodes with their free GPUs and the GPUs of the rehearsed jobs."""
        room = self._room
        ours = [room.count[n] * WHOLE_GPU for n in self._nodes]
        for (n, _), left in room.shares.items():
            if n in self._numbers:
                ours[self._numbers[n]] += left
        for part in self._parts:
            for number, need in part.seat.nodes if part.seat else ():
                ours[number] += need
        return [
            RehearsedNode(room.pool_of[n].index, room.nodes[n].gpus * WHOLE_GPU, free)
            for n, free in zip(self._nodes, ours, strict=True)
        ]

    def _quotas(self) -> dict[str, float]:
        room = self._room
        left = {
            name: (own.gpu_quota - room.held[name]) * WHOLE_GPU
            for name, own in room.tenants.items()
        }
        for part in self._parts:
            if part.seat is not None and part.tenant in left:
                left[part.tenant] += part.seat.course.need
        return left

    # ------------------------------------------------------------------------------------ actions

    def seats_after(self, actions: Iterable[Action]) -> list[RehearsalSeat | None]:
        """The seats after these actions."""
        to: dict[JobId, Placement | None] = {}
        for action in actions:
            match action:
                case Preempt():
                    to[action.job_id] = None
                case Start() | Resize():
                    to[action.job_id] = action.placement
        seats = []
        for track, part in zip(self._tracks, self._parts, strict=True):
            placement = to.get(track.job.id)
            seat = part.seat if track.job.id not in to else None
            if placement is not None:
                seat = self._seat(placement, part.courses, part.courses[0].seconds)
            seats.append(seat)
        return seats

    def actions_for(
        self, seats: Sequence[RehearsalSeat | None], place: Place
    ) -> Sequence[Action] | None:
        """The actions that lead to these seats; None if a constraint that is not rehearsed forbids
        them."""
        plan = Plan(self._view, place)
        changed = [
            (track, part.seat, seat)
            for track, part, seat in zip(self._tracks, self._parts, seats, strict=True)
            if part.seat != seat
        ]
        for track, before, _ in changed:
            if before is not None:
                plan.stop(track)
        for track, _, seat in changed:
            if seat is not None and not self._started(plan, track, seat):
                return None
        for track in self._others:
            plan.start(track)
        return plan.actions

    def _started(self, plan: Plan, track: Track, seat: RehearsalSeat) -> bool:
        room = plan.room
        pieces = [(self._nodes[number], need // WHOLE_GPU) for number, need in seat.nodes]
        if not track.shape.fits_one or any([room.count[n] < gpus for n, gpus in pieces]):
            return plan.start(track)
        found = [room.first_gpus(n, gpus) for n, gpus in pieces]
        placement = joined(found) if len(found) > 1 else found[0]
        plan.start_at(track, placement.limited_to(seat.course.limit))
        return True

    def wake_for(self, seats: Sequence[RehearsalSeat | None]) -> Seconds:
        """When the first waiting job has used up its slack."""
        scene, wake = self.scene, inf
        for part, seat in zip(scene.parts, seats, strict=True):
            usual = part.courses[0].seconds * part.left * (1.0 + scene.margin)
            latest = part.deadline - usual - (part.restore_s if part.begun else 0.0)
            if seat is None and latest > scene.now + BLINK_S:
                wake = min(wake, latest)
        return wake


def is_small(view: View) -> bool:
    return len(view.tracks) <= MOST and len(view.room.nodes) <= MOST
