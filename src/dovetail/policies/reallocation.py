"""From how many GPUs each job is to have to the actions that bring it about, at the least disturbance.

Who keeps its number keeps its GPUs. The others are stopped, shrink where they are, grow (their own
GPUs count as free), and start, in this order: each step makes room for the next.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from dovetail.core.entries import Action
from dovetail.core.model import Job, JobId, Placement, Slice
from dovetail.core.plan import Place, Plan
from dovetail.core.room import Room
from dovetail.core.track import RUNNING, Track
from dovetail.core.view import View


class Grant(NamedTuple):
    """A number of GPUs of one kind; an empty kind means any kind that the job asked for."""

    kind: str
    gpus: int


def reallocated(
    view: View,
    place: Place,
    granted: Mapping[JobId, Grant],
    running: Sequence[Track],
    waiting: Sequence[Track],
) -> Plan:
    """A plan by which these jobs get what they are granted; who is granted nothing gives way.

    A job for which there is no place gets as many GPUs as there is one for, if it may have fewer;
    else a running one stays as it is. Pinned jobs are not to be among the running ones.
    """
    plan = Plan(view, place)
    for track in running:
        if track.job.id not in granted:
            plan.stop(track)
    changing = [track for track in running if _changes(track, view.room, granted)]
    for track in changing:
        if _shrinks(track, granted[track.job.id], view.room):
            assert track.placement is not None
            plan.resize(track, shrunk(track.placement, granted[track.job.id].gpus))
    movers = _largest_first(changing, granted)
    movers = [t for t in movers if not _shrinks(t, granted[t.job.id], view.room)]
    stuck = _not_moved(plan, place, _not_moved(plan, place, movers, granted), granted)
    failed = _not_started(plan, place, _largest_first(waiting, granted), granted)
    able = [track for track in stuck if track.phase is RUNNING]
    if able and len(stuck) + len(failed) > 1:
        # They wait for each other's GPUs: the smallest that is at work gives way for a moment.
        plan.stop(able[-1])
        stuck.remove(able[-1])
        _not_moved(plan, place, stuck, granted)
        _not_started(plan, place, failed, granted)
    return plan


def _not_moved(
    plan: Plan, place: Place, tracks: Sequence[Track], granted: Mapping[JobId, Grant]
) -> list[Track]:
    """Those for which there is no room yet."""
    return [track for track in tracks if not _move(plan, place, track, granted[track.job.id])]


def _not_started(
    plan: Plan, place: Place, tracks: Sequence[Track], granted: Mapping[JobId, Grant]
) -> list[Track]:
    return [track for track in tracks if not _start(plan, place, track, granted[track.job.id])]


def with_counts(view: View, place: Place, counts: Mapping[Track, int]) -> list[Action]:
    """The actions by which these jobs get so many GPUs of any kind they asked for; who has none in
    this list gives way. Jobs that need no GPU start where there is room."""
    granted = {track.job.id: Grant("", gpus) for track, gpus in counts.items() if gpus}
    movable = [t for t in view.running.values() if t.job.gpus and not is_fixed(t)]
    waiting = [track for track in counts if track.placement is None]
    plan = reallocated(view, place, granted, movable, [t for t in waiting if t.job.gpus])
    for track in waiting:
        if not track.job.gpus:
            plan.start(track)
    return plan.actions


def is_fixed(track: Track) -> bool:
    """Must it keep the GPUs that it has?"""
    return track.placement is not None and bool(track.pinned or not track.job.preemptible)


def usual_counts(job: Job, room: Room) -> tuple[int, ...]:
    """The numbers of GPUs worth a look: powers of two and the ends of its range as far as there are so
    many, what it asked for, or what it was timed on."""
    if job.options:
        return tuple(sorted({option.gpus for option in job.options}))
    least, each = job.least_gpus, max(job.nodes, 1)
    there = max([pool.width * len(pool.members) for pool in room.pools], default=0)
    most = max(min(job.most_gpus, there - there % each), job.gpus)
    powers = [2**k for k in range(most.bit_length())]
    found = {least, most, job.gpus, *[n for n in powers if least <= n <= most]}
    return tuple(sorted([n for n in found if n % each == 0]))


def shrunk(placement: Placement, gpus: int) -> Placement:
    """So many of its GPUs, on as few of its nodes as will do."""
    fullest = sorted(placement.slices, key=lambda piece: (-piece.mask.bit_count(), piece.node))
    kept: list[Slice] = []
    for node, mask in fullest:
        while mask.bit_count() > gpus:
            mask &= mask - 1
        if mask:
            kept.append(Slice(node, mask))
        gpus -= mask.bit_count()
    return Placement(tuple(sorted(kept)))


def kind_of(room: Room, placement: Placement) -> str:
    """A gang is on GPUs of one kind."""
    return room.nodes[placement.slices[0].node].kind


def grant_of(room: Room, track: Track) -> Grant:
    """What the running job has now."""
    assert track.placement is not None
    return Grant(kind_of(room, track.placement), track.placement.gpus)


def _changes(track: Track, room: Room, granted: Mapping[JobId, Grant]) -> bool:
    grant = granted.get(track.job.id)
    return grant is not None and not _is(grant, grant_of(room, track))


def _is(grant: Grant, has: Grant) -> bool:
    return grant.gpus == has.gpus and grant.kind in ("", has.kind)


def _shrinks(track: Track, grant: Grant, room: Room) -> bool:
    has = grant_of(room, track)
    return grant.gpus < has.gpus and grant.kind in ("", has.kind) and not track.job.options


def _largest_first(tracks: Collection[Track], granted: Mapping[JobId, Grant]) -> list[Track]:
    """Those with a grant: a large gang finds whole nodes before small ones take parts of them."""
    found = [track for track in tracks if track.job.id in granted]
    return sorted(found, key=lambda track: -granted[track.job.id].gpus)


def _move(plan: Plan, place: Place, track: Track, grant: Grant) -> bool:
    """False: there is no room for it."""
    before = track.placement
    assert before is not None
    mark = plan.room.mark()
    plan.room.draft_give(before, track.shape)
    placement = _placed(plan.room, place, track, grant, before.gpus)
    plan.room.rollback_to(mark)
    if placement is not None and placement.slices != before.slices:
        plan.resize(track, placement)
    return placement is not None


def _start(plan: Plan, place: Place, track: Track, grant: Grant) -> bool:
    home = plan.place(track) if track.parked_at is not None else None
    if home is not None and home.gpus == grant.gpus:
        placement: Placement | None = home  # it goes on where its suspended processes are
    else:
        placement = _placed(plan.room, place, track, grant)
    if placement is not None:
        plan.start_at(track, placement)
    return placement is not None


def _placed(
    room: Room, place: Place, track: Track, grant: Grant, above: int = 0
) -> Placement | None:
    """With as many GPUs as it is granted, or the most below that for which there is a place; a job
    that has some already is not moved for as few."""
    for gpus in _counts(track, grant, above):
        for kind in _kinds(track, grant, gpus):
            placement = place(room, track.shape.sized(gpus, kind))
            if placement is not None:
                return placement
    return None


def _kinds(track: Track, grant: Grant, gpus: int) -> Sequence[str]:
    """A job that was timed on so many GPUs runs on one of the kinds on which it was."""
    if grant.kind or gpus == track.shape.gpus or not track.job.options:
        return [grant.kind]
    return [option.kind for option in track.job.options if option.gpus == gpus]


def _counts(track: Track, grant: Grant, above: int) -> Sequence[int]:
    job = track.job
    if not job.elastic or job.options:
        return [grant.gpus]
    step = max(job.nodes, 1)
    return range(grant.gpus, max(job.least_gpus - 1, min(above, grant.gpus - 1)), -step)
