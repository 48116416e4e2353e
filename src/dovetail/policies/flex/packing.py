"""On which nodes jobs go: gangs on as few as will do, where smaller jobs make room for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dovetail.core.model import JobId
from dovetail.core.track import RUNNING, Track
from dovetail.core.view import View
from dovetail.policies.flex.claims import GpuWay
from dovetail.policies.goodput.packing import packed_rows
from dovetail.policies.goodput.taking import Row, row_of, takes_part
from dovetail.policies.reallocation import Grant, grant_of


def can_be_packed(
    view: View, movable: Sequence[Track], waiting: Sequence[Track], granted: Mapping[JobId, Grant]
) -> bool:
    """Are GPUs all that counts? Not where jobs name CPUs, memory or nodes, stand suspended, or are
    being saved or restored and would have to change."""
    if not any(pool.width > 1 for pool in view.room.pools):
        return False
    return all(_is_plain(track) for track in (*movable, *waiting)) and all(
        track.phase is RUNNING or granted.get(track.job.id) == grant_of(view.room, track)
        for track in movable
    )


def _is_plain(track: Track) -> bool:
    return track.shape.plain and not track.job.options and track.parked_at is None


def packed(
    view: View,
    movable: Sequence[Track],
    found: Mapping[JobId, GpuWay],
    staying: Mapping[JobId, GpuWay],
) -> dict[JobId, Row]:
    """The nodes of every job that may be moved or waits; () for those that get nothing. Who is to stay
    in its way and has found it stays on its nodes."""
    room = view.room
    held = {track.job.id: tuple(sorted(row_of(track.placement))) for track in movable}
    kept = {job_id for job_id, way in staying.items() if found.get(job_id) == way}
    rows: dict[JobId, Row] = {job_id: row if job_id in kept else () for job_id, row in held.items()}
    fixed = kept | {track.job.id for track in movable if not takes_part(track)}
    for pool in room.pools:
        nodes = {n: room.count[n] for n in pool.members if room.open[n]}
        for job_id, row in held.items():
            for n, gpus in row if job_id not in fixed else ():
                if n in nodes:
                    nodes[n] += gpus
        wanted = {
            job_id: way.gpus
            for job_id, way in found.items()
            if way.pool == pool.index and job_id not in fixed
        }
        there = {job_id: row for job_id, row in held.items() if row and row[0][0] in nodes}
        rows |= packed_rows(wanted, there, nodes)
    return rows
