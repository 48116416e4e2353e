"""Tiresias in rounds, as in Pollux' simulator: at every round the queues are walked from the front."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from dovetail.core.entries import Action, Note
from dovetail.core.plan import Place
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.policies.elastic.seating import seated
from dovetail.policies.rounds import turn

SIXTEEN_GPU_HOURS: Final = (57600.0,)  # the one limit of Pollux' simulator
_SANK: Final = "tiresias: sank"  # into which queue, and when
_Place = tuple[int, float, int]


def walk(view: View, place: Place, limits: Sequence[float], round_s: float) -> Sequence[Action]:
    """Whoever fits into what those before it leave runs; the others are passed over. A job that was
    made to wait keeps its place in its queue."""
    due, notes = turn(view, "tiresias", round_s)
    if not due:
        return notes
    places = {job_id: _place_of(track, view, limits) for job_id, track in view.tracks.items()}
    sunk = [
        Note(_SANK, [queue, since], job_id)
        for job_id, (queue, since, _) in places.items()
        if queue and view.tracks[job_id].notes.get(_SANK) != [queue, since]
    ]
    line = sorted(view.tracks.values(), key=lambda track: places[track.job.id])
    return [*seated(view, place, _fitting(view, line)), *sunk, *notes]


def _place_of(track: Track, view: View, limits: Sequence[float]) -> _Place:
    """Queue, then since when it is in it, then order of submission."""
    queue = bisect_right(limits, track.service_by(view.now))
    noted = track.notes.get(_SANK)
    if noted is not None and noted[0] >= queue:
        return noted[0], noted[1], track.sequence
    return queue, view.now if queue else 0.0, track.sequence


def _fitting(view: View, line: Sequence[Track]) -> list[tuple[Track, int | None]]:
    """By number alone: nobody is moved to make the free GPUs lie together."""
    room = view.room
    left = sum([pool.free for pool in room.pools])
    mine = [track for track in line if track.placement is not None and not track.pinned]
    for track in mine:
        assert track.placement is not None
        left += sum([room.usable_by_others(n, mask) for n, mask in track.placement.slices])
    wanted: list[tuple[Track, int | None]] = []
    for track in line:
        if (track.pinned and track.placement is not None) or (
            track.placement is None and track.barred
        ):
            continue
        gpus = track.shape.gpus if track.placement is None else track.placement.gpus
        fits = gpus <= left
        left -= gpus if fits else 0
        wanted.append((track, gpus if fits else None))
    return wanted
