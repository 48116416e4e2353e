"""A still of the state: taken in a moment on the loop's thread, set going again on another.

What never changes (jobs, nodes, placements, tracks of jobs that ended) is shared; what does is copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dovetail.core.kept import (
    STATE_KEPT,
    TRACK,
    TRACK_KEPT,
    TRACK_MADE_OF,
    row_of_track,
    set_kept,
)
from dovetail.core.model import Job, JobId, Node, Seconds, Tenant
from dovetail.core.room import Room
from dovetail.core.snapshot import restore_live
from dovetail.core.state import State
from dovetail.core.track import Track
from dovetail.core.view import View

_MADE_OF = len(TRACK_MADE_OF)
_PLACEMENT = TRACK.index("placement")
_STRANDED = TRACK_KEPT.index("stranded")

NOTHING_AMENDED: Mapping[JobId, Job] = {}


@dataclass(frozen=True, slots=True)
class StillCluster:
    nodes: tuple[Node, ...]
    drained: tuple[int, ...]
    down: tuple[int, ...]
    gone: tuple[int, ...]
    strangers: tuple[tuple[int, int, float, float], ...]  # see `Inventory.told_strangers`
    tenants: tuple[Tenant, ...]
    gpus_closed: tuple[tuple[int, int, str, bool], ...]  # see `Closings.told_closed`


@dataclass(frozen=True, slots=True)
class Still:
    """The jobs that were asked for, and all there is beside jobs."""

    now: Seconds
    as_of: Seconds  # when something last happened
    kept: tuple[Any, ...]  # see STATE_KEPT
    cluster: StillCluster
    rows: tuple[tuple[Any, ...], ...]
    running: tuple[JobId, ...]
    past: tuple[Track, ...]
    most_past: int
    unplaceable: Mapping[JobId, str]
    notes: Mapping[str, Any]
    kinds: Mapping[str, tuple[Any, ...]]  # copies, see `Kind`


def take(view: View, now: Seconds, tracks: Iterable[Track]) -> Still:
    """Quick: a microsecond or two for each of the tracks. Those that run should be among them."""
    return Still(
        now=now,
        as_of=view.now,
        kept=tuple([getattr(view, name) for name in STATE_KEPT]),
        cluster=_cluster(view.room),
        rows=tuple([row_of_track(track) for track in tracks]),
        running=tuple(view.running),
        past=tuple(view.past),
        most_past=view.past.maxlen or 0,
        unplaceable=dict(view.unplaceable),
        notes=dict(view.notes),
        kinds={name: kind.copies() for name, kind in view.kinds.items()},
    )


def _cluster(room: Room) -> StillCluster:
    return StillCluster(
        tuple(room.nodes),
        tuple(room.drained),
        tuple(room.down),
        tuple(room.gone),
        room.told_strangers(),
        tuple(room.tenants.values()),
        room.told_closed(),
    )


def revive(still: Still, amended: Mapping[JobId, Job] = NOTHING_AMENDED) -> State:
    """A state of its own as it was then, with some jobs asking for something else."""
    state = State(still.most_past)
    for name, value in zip(STATE_KEPT, still.kept, strict=True):
        setattr(state, name, value)
    state.now = still.now
    _revive_cluster(state.room, still.cluster)
    state.past.extend(still.past)
    known = set()
    for row in sorted(still.rows, key=_sequence_of):
        track = _revived_track(state, row, amended)
        known.add(track.job.id)
        restore_live(state, track)
    for taken in still.cluster.strangers:
        state.room.set_strangers(*taken)
    for closed in still.cluster.gpus_closed:
        state.room.close_gpus(*closed)
    for job_id in still.running:
        if job_id in known:
            state._running[job_id] = state._tracks[job_id]
    state.unplaceable.update({k: why for k, why in still.unplaceable.items() if k in known})
    state.notes.update(still.notes)
    for name, copies in still.kinds.items():
        state.kind(name).take_up(state, copies)  # a still may be set going more than once
    state._shape_members()
    return state


def _sequence_of(row: tuple[Any, ...]) -> int:
    sequence: int = row[1]
    return sequence


def _revive_cluster(room: Room, cluster: StillCluster) -> None:
    for node in cluster.nodes:
        # Whoever sets it going confirms every start: that is right for all worlds.
        room.add(replace(node, prompt=False) if node.prompt else node)
    for tenant in cluster.tenants:
        room.set_tenant(tenant)
    for n in cluster.drained:
        room.set_open(n, False)
    for n in cluster.down:
        room.set_up(n, False)
    room.gone.update(cluster.gone)


def _revived_track(state: State, row: tuple[Any, ...], amended: Mapping[JobId, Job]) -> Track:
    asked, *rest = row[:_MADE_OF]
    job = amended.get(asked.id, asked)
    shape, why_never = state._shape_of(job)
    track = Track(job, shape, *rest)
    kept = row[_MADE_OF:]
    if kept[_STRANDED] and job is not asked:  # what it asks for now may fit the nodes there are
        kept = (*kept[:_STRANDED], "", *kept[_STRANDED + 1 :])
    set_kept(track, kept)
    if job.settles or track.tied or track.keeps is not None:
        track.shape, why_never = state._shape_for(track)
    if why_never and row[_PLACEMENT] is None and not track.stranded:
        state.unplaceable[job.id] = why_never
    return track
