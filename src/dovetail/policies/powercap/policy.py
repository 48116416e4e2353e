"""Elastic allocation under a cap on power or energy, in rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from dovetail.core.entries import Action, Resize, Start
from dovetail.core.model import JobId, Seconds
from dovetail.core.plan import Place, Plan
from dovetail.core.room import Room
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.models.cost import Costs
from dovetail.policies.goodput.taking import others_first, takes_part
from dovetail.policies.placement import consolidated
from dovetail.policies.powercap.steps import PowerCaps, PowerJob, PowerWay, shared_out
from dovetail.policies.reallocation import Grant, kind_of, reallocated, usual_counts
from dovetail.policies.rounds import turn
from dovetail.predict.duration import Predictor
from dovetail.predict.speed import SameEverywhere, SpeedPredictor

_LEAST_S = 1.0  # of a job that has run longer than was believed: it may end any moment


@dataclass(frozen=True, kw_only=True)
class Powercap:
    """Elastic jobs under a cap of `watts` drawn at once or of `joules` until all are done; below 0:
    no cap.

    Each begins in the way that needs the least energy; then, while the caps allow it, whoever saves
    most time for each joule gets more GPUs or more power, in rounds of `round_s`. What GPUs draw, and
    how fast they are under power limits, is what `--costs` and power tables say. Our reading of
    PowerFlow.
    """

    place: Place = consolidated
    predictor: Predictor
    speeds: SpeedPredictor = SameEverywhere()
    costs: Costs = Costs()
    round_s: Seconds = 60.0
    watts: float = -1.0
    joules: float = -1.0

    def __post_init__(self) -> None:
        if not self.round_s > 0:
            raise ValueError(f"round_s is {self.round_s:g}; give more than 0 seconds")

    def decide(self, view: View) -> Sequence[Action]:
        due, notes = turn(view, "powercap", self.round_s)
        if not due:
            return notes
        plan = Plan(view, self.place)
        others_first(view, plan)
        return [*plan.actions, *self._carried_out(view, self._ways(view)), *notes]

    def _ways(self, view: View) -> dict[JobId, PowerWay]:
        tracks = [track for track in view.tracks.values() if takes_part(track)]
        jobs = [
            PowerJob(self._left(track, view), self._ladder(track, view.room)) for track in tracks
        ]
        found = shared_out(jobs, _gpus(view.room, tracks), PowerCaps(self.watts, self.joules))
        chosen = zip(tracks, found, strict=True)
        return {track.job.id: way for track, way in chosen if way is not None}

    def _left(self, track: Track, view: View) -> Seconds:
        whole = self.predictor.duration_s(track.job, view)
        return max(whole - track.executed_by(view.now), _LEAST_S)

    def _ladder(self, track: Track, room: Room) -> list[list[PowerWay]]:
        """On the kind where it is, or the first it may use that has enough GPUs."""
        kind = _kind(track, room)
        if not kind:
            return []
        job = track.job
        counts = usual_counts(job, room) if not job.options else (job.gpus,)
        limits = sorted(
            self.costs.power.choices(job.model, kind), key=lambda step: -step.slowdown
        )  # the least power first
        return [
            [self._way(track, room, kind, gpus, step.limit, step.slowdown) for step in limits]
            for gpus in counts
        ]

    def _way(
        self, track: Track, room: Room, kind: str, gpus: int, limit: int, slowdown: float
    ) -> PowerWay:
        width = max([pool.width for pool in room.pools if pool.kind == kind])
        speed = self.speeds.speed(track.job, kind, gpus, ceil(gpus / max(width, 1)))
        return PowerWay(kind, gpus, limit, speed / slowdown, gpus * self._draws(track, kind, limit))

    def _draws(self, track: Track, kind: str, limit: int) -> float:
        measured = self.costs.power.at(track.job.model, kind, limit).watts
        rates = self.costs.rates.get(kind)
        return (
            measured
            if measured is not None
            else rates.watts_a_gpu
            if rates and rates.watts
            else 0.0
        )

    def _carried_out(self, view: View, ways: dict[JobId, PowerWay]) -> list[Action]:
        tracks = [track for track in view.tracks.values() if takes_part(track)]
        granted = {job_id: Grant(way.kind, way.gpus) for job_id, way in ways.items()}
        running = [track for track in tracks if track.placement is not None]
        waiting = [track for track in tracks if track.placement is None]
        plan = reallocated(view, self.place, granted, running, waiting)
        moved = [_limited(action, ways) for action in plan.actions]
        changed = {action.job_id for action in moved if isinstance(action, Start | Resize)}
        kept = [track for track in running if track.job.id in ways and track.job.id not in changed]
        return [*moved, *_new_limits(kept, ways)]


def _limited(action: Action, ways: dict[JobId, PowerWay]) -> Action:
    if isinstance(action, Start):
        return Start(action.job_id, action.placement.limited_to(ways[action.job_id].limit))
    if isinstance(action, Resize):
        return Resize(action.job_id, action.placement.limited_to(ways[action.job_id].limit))
    return action


def _new_limits(tracks: Sequence[Track], ways: dict[JobId, PowerWay]) -> list[Action]:
    """Who keeps its GPUs may have to draw less from now on, or more."""
    found: list[Action] = []
    for track in tracks:
        assert track.placement is not None
        placement = track.placement.limited_to(ways[track.job.id].limit)
        if placement is not track.placement:
            found.append(Resize(track.job.id, placement))
    return found


def _kind(track: Track, room: Room) -> str:
    if track.placement is not None:
        return kind_of(room, track.placement)
    pools = room.eligible(track.shape)
    open_gpus = [sum([room.gpus_open(n) for n in pool.members]) for pool in pools]
    for pool, gpus in zip(pools, open_gpus, strict=True):
        if gpus >= track.job.least_gpus:
            return pool.kind
    return ""


def _gpus(room: Room, tracks: Sequence[Track]) -> dict[str, int]:
    """By kind: what is free, and what those have who take part."""
    found: dict[str, int] = {}
    for pool in room.pools:
        found[pool.kind] = found.get(pool.kind, 0) + pool.free
    for track in tracks:
        if track.placement is not None:
            found[kind_of(room, track.placement)] += track.placement.gpus
    return found
