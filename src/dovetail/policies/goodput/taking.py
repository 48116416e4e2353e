"""From GPUs by node, as a search has shared them out, to actions.

First the jobs stop that lose all their GPUs. Then each job that gets other GPUs is moved as soon as
these are free; jobs that wait for the GPUs of each other are stopped and started again. Waiting
jobs start last. A change that is no longer possible, or not allowed, is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from dovetail.core.errors import IllegalEntry
from dovetail.core.model import WHOLE_GPU, JobId, Placement, Slice
from dovetail.core.plan import Place, Plan
from dovetail.core.room import Room
from dovetail.core.track import RUNNING, Track
from dovetail.core.view import View

Row: TypeAlias = tuple[tuple[int, int], ...]  # nodes and how many GPUs of each, nodes ascending


def takes_part(track: Track) -> bool:
    """May its GPUs be shared out anew? Not those of a job that uses a share, no GPU, or an exact
    number of nodes above one, that cannot give way, that is being saved or restored, or that can go on
    only where it is suspended."""
    job = track.job
    if job.share != WHOLE_GPU or not job.gpus or job.nodes > 1:
        return False
    if track.placement is None:
        return not track.barred and not track.shape.home
    counts = track.placement.gpus == job.gpus or not job.options
    return track.phase is RUNNING and not track.pinned and not track.held and counts


def row_of(placement: Placement | None) -> Row:
    return () if placement is None else tuple([(n, gpus) for n, _, gpus in placement.uses])


def others_first(view: View, plan: Plan) -> None:
    """Jobs that do not take part get what is free before the rest is shared out."""
    for track in view.tracks.values():
        if track.placement is None and not track.barred and not takes_part(track):
            plan.start(track)


def take(view: View, plan: Plan, place: Place, rows: Mapping[JobId, Row]) -> None:
    """Give every job its row, as far as that is possible; who cannot start there starts with the least
    it needs, wherever that is."""
    found = [(view.tracks[job_id], row) for job_id, row in rows.items() if job_id in view.tracks]
    wanted = [(track, row) for track, row in found if takes_part(track)]
    changed = [
        (track, row) for track, row in wanted if tuple(sorted(row_of(track.placement))) != row
    ]
    for track, row in changed:
        if track.placement is not None and not row:
            plan.stop(track)
    stuck = _moved(plan, [one for one in changed if one[0].placement is not None and one[1]])
    for track, _ in stuck:
        plan.stop(track)
    waiting = [one for one in changed if one[0].placement is None and one[1]]
    for track in _not_started(plan, [*stuck, *waiting]):
        shape = track.shape.sized(track.job.least_gpus) if track.job.elastic else track.shape
        placement = place(plan.room, shape)
        if placement is not None:
            _started(plan, track, placement)


def _moved(plan: Plan, moves: Sequence[tuple[Track, Row]]) -> list[tuple[Track, Row]]:
    """Moves whoever can be; the rest, who wait for each other's GPUs."""
    left = list(moves)
    while left:
        still = [one for one in left if not _move(plan, *one)]
        if len(still) == len(left):
            break
        left = still
    return left


def _move(plan: Plan, track: Track, row: Row) -> bool:
    placement = _on(plan.room, row, track.placement)
    if placement is None:
        return False
    try:
        plan.resize(track, placement)
    except IllegalEntry:
        return False
    return True


def _not_started(plan: Plan, wanted: Iterable[tuple[Track, Row]]) -> list[Track]:
    """Starts all that can be; the others."""
    left = []
    for track, row in wanted:
        placement = _on(plan.room, row, None)
        if placement is None or not _started(plan, track, placement):
            left.append(track)
    return left


def _started(plan: Plan, track: Track, placement: Placement) -> bool:
    try:
        plan.start_at(track, placement)
    except IllegalEntry:
        return False
    return True


def _on(room: Room, row: Row, own: Placement | None) -> Placement | None:
    """GPUs of these nodes, its own first; None: they are not free."""
    mine = {} if own is None else dict(own.slices)
    slices = []
    for n, gpus in row:
        mask, kept = mine.get(n, 0), 0
        for _ in range(min(gpus, mask.bit_count())):
            kept |= mask & -mask
            mask &= mask - 1
        more = gpus - kept.bit_count()
        if room.count[n] < more:
            return None
        slices.append(Slice(n, kept | (room.lowest(n, more) if more else 0)))
    return Placement(tuple(slices))
