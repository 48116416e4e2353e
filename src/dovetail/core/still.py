"""A still of the state: taken in a moment on the loop's thread, set going again on another.

What never changes (jobs, nodes, placements, tracks of jobs that ended) is shared; what does is copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from dovetail.core.model import Job, JobId, Node, Seconds, Tenant
from dovetail.core.room import Room
from dovetail.core.snapshot import _NEW, _PLAIN, _restore_live, take_up_study
from dovetail.core.state import State
from dovetail.core.studies import StudyTrack
from dovetail.core.track import Track
from dovetail.core.view import View

_FIELDS = (
    *("job", "sequence", "submitted_at", "ticket", "phase", "waiting_since", "placement", "awaits"),
    *_PLAIN,
)
_row_of = attrgetter(*_FIELDS)
_PLAIN_FROM = len(_FIELDS) - len(_PLAIN)
_AS_NEW = tuple(getattr(_NEW, name) for name in _PLAIN)

NOTHING_AMENDED: Mapping[JobId, Job] = {}


@dataclass(frozen=True, slots=True)
class Cluster:
    nodes: tuple[Node, ...]
    closed: tuple[int, ...]
    down: tuple[int, ...]
    gone: tuple[int, ...]
    strangers: tuple[tuple[int, int], ...]  # node, GPUs that somebody else uses
    tenants: tuple[Tenant, ...]


@dataclass(frozen=True, slots=True)
class Still:
    """The jobs that were asked for, and all there is beside jobs."""

    now: Seconds
    as_of: Seconds  # when something last happened
    policy: str
    sequence: int
    tickets: int
    cluster: Cluster
    rows: tuple[tuple[Any, ...], ...]
    running: tuple[JobId, ...]
    past: tuple[Track, ...]
    most_past: int
    unplaceable: Mapping[JobId, str]
    studies: tuple[StudyTrack, ...] = ()


def take(view: View, now: Seconds, tracks: Iterable[Track]) -> Still:
    """Quick: a microsecond or two for each of the tracks. Those that run should be among them."""
    return Still(
        now=now,
        as_of=view.now,
        policy=view.policy,
        sequence=view._sequence,
        tickets=view._tickets,
        cluster=_cluster(view.room),
        rows=tuple([_row_of(track) for track in tracks]),
        running=tuple(view.running),
        past=tuple(view.past),
        most_past=view.past.maxlen or 0,
        unplaceable=dict(view.unplaceable),
        studies=tuple([study.copy() for study in view.studies.open.values()]),
    )


def _cluster(room: Room) -> Cluster:
    return Cluster(
        tuple(room.nodes),
        tuple([n for n, is_open in enumerate(room.open) if not is_open]),
        tuple(room.down),
        tuple(room.gone),
        tuple(room.strangers.items()),
        tuple(room.tenants.values()),
    )


def revive(still: Still, amended: Mapping[JobId, Job] = NOTHING_AMENDED) -> State:
    """A state of its own as it was then, with some jobs asking for something else."""
    state = State(still.most_past)
    state.now = still.now
    state.policy = still.policy
    state._sequence = still.sequence
    state._tickets = still.tickets
    _revive_cluster(state.room, still.cluster)
    state.past.extend(still.past)
    known = set()
    for row in sorted(still.rows, key=_sequence_of):
        track = _revived_track(state, row, amended)
        known.add(track.job.id)
        _restore_live(state, track)
    for n, mask in still.cluster.strangers:
        state.room.set_strangers(n, mask)
    for job_id in still.running:
        if job_id in known:
            state._running[job_id] = state._tracks[job_id]
    state.unplaceable.update({k: why for k, why in still.unplaceable.items() if k in known})
    for study in still.studies:
        take_up_study(state, study.copy())  # a still may be set going more than once
    return state


def _sequence_of(row: tuple[Any, ...]) -> int:
    sequence: int = row[1]
    return sequence


def _revive_cluster(room: Room, cluster: Cluster) -> None:
    for node in cluster.nodes:
        # Whoever sets it going confirms every start: that is right for all worlds.
        room.add(replace(node, prompt=False) if node.prompt else node)
    for tenant in cluster.tenants:
        room.set_tenant(tenant)
    for n in cluster.closed:
        room.set_open(n, False)
    for n in cluster.down:
        room.set_up(n, False)
    room.gone.update(cluster.gone)


def _revived_track(state: State, row: tuple[Any, ...], amended: Mapping[JobId, Job]) -> Track:
    job, sequence, submitted_at, ticket, phase, waiting_since, placement, awaits = row[:_PLAIN_FROM]
    job = amended.get(job.id, job)
    shape, why_never = state._shape_of(job)
    track = Track(job, shape, sequence, submitted_at, ticket)
    track.phase = phase
    track.waiting_since = waiting_since
    for name, value, as_new in zip(_PLAIN, row[_PLAIN_FROM:], _AS_NEW, strict=True):
        if value is not as_new and value != as_new:
            setattr(track, name, value)
    track.placement = placement
    track.awaits = awaits
    track.barred = bool(track.held or awaits or track.benched)
    if why_never and placement is None:
        state.unplaceable[job.id] = why_never
    return track
