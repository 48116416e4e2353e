"""A state as text, so that a long journal need not be read from its beginning.

One line for what is not a job, then one for each job: so it can be written and read bit by bit, and
nobody else on this interpreter waits for long. Packed it takes a seventh of the room.

`restore(take(state))`, then recording the entries that came after, gives the state that the whole
journal leads to, but for jobs that ended before the last few thousand: those are forgotten.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from operator import attrgetter
from typing import Any

from dovetail.core import groups
from dovetail.core.errors import BadInput
from dovetail.core.journal import (
    job_from,
    limit_from,
    node_from,
    placement_from,
    tenant_from,
)
from dovetail.core.kept import (
    NEW_TRACK,
    STATE_KEPT,
    TRACK_KEPT,
    TRACK_MADE_OF,
    set_kept,
)
from dovetail.core.model import Placement, own_fields
from dovetail.core.paces import Pace, ReportWindow
from dovetail.core.room import Room
from dovetail.core.state import State
from dovetail.core.track import KeptHost, Phase, Track

FORMAT = 3  # the first knew no studies, the second was one line

# What JSON does not have, and how it is told.
_TOLD: Mapping[str, Callable[[Any], Any]] = {
    "job": own_fields,
    "phase": attrgetter("value"),
    "placement": Placement.row,
    "left": Placement.row,
    "parked_at": Placement.row,
    "moves_from": Placement.row,
    "keeps": lambda keep: [keep.placement.row(), keep.cpus, keep.memory_gb],
}
_READ: Mapping[str, Callable[[Any], Any]] = {
    "phase": Phase,
    "placement": placement_from,
    "left": placement_from,
    "parked_at": placement_from,
    "moves_from": placement_from,
    "keeps": lambda row: KeptHost(placement_from(row[0]), *row[1:]),
    "awaits": tuple,
    "paces": lambda rows: tuple([Pace(*row) for row in rows]),
    "window": lambda row: ReportWindow(*row),
}
_ALWAYS = ("phase", "waiting_since")
_NAMES = {"placement": "on"}  # as earlier versions called it


def take(state: State) -> str:
    """Everything that the state holds and the future needs."""
    return "\n".join(told(state))


def told(state: State) -> Iterator[str]:
    """The same line by line; the state must not change meanwhile."""
    yield _json(
        {
            "format": FORMAT,
            **{name.lstrip("_"): getattr(state, name) for name in STATE_KEPT},
            "peak_suspended": state.peak_suspended,
            "limits": [own_fields(limit) for limit in state.limits.values()],
            "cluster": _cluster(state.room),
            "capacity": state.capacity[-1:],
            "unplaceable": state.unplaceable,
            "notes": state.notes,
            "tracks": len(state.tracks),
            "running": list(state.running),
            "kinds": list(state.kinds),
            **{name: part for kind in state.kinds.values() for name, part in kind.kept().items()},
        }
    )
    for track in state.tracks.values():
        yield _json(_track(track))
    for track in state.past:
        yield _json(_track(track))


def packed(lines: Iterator[str]) -> str:
    packer, parts = zlib.compressobj(), list[bytes]()
    for i, line in enumerate(lines):
        parts.append(packer.compress((f"\n{line}" if i else line).encode()))
    parts.append(packer.flush())
    return b64encode(b"".join(parts)).decode()


def _json(row: Mapping[str, Any]) -> str:
    return json.dumps(row, separators=(",", ":"))


def _cluster(room: Room) -> dict[str, Any]:
    return {
        "nodes": [own_fields(node) for node in room.nodes],
        "closed": sorted(room.drained),
        "down": sorted(room.down),
        "gone": sorted(room.gone),
        "strangers": sorted(room.told_strangers()),
        "tenants": [own_fields(tenant) for tenant in room.tenants.values()],
        "gpus_closed": room.told_closed(),
    }


def _track(track: Track) -> dict[str, Any]:
    """What it is made of, its phase and since when it waits; of the rest what is not as it begins."""
    row = {name: _told(name, getattr(track, name)) for name in (*TRACK_MADE_OF, *_ALWAYS)}
    for name, new in zip(TRACK_KEPT, NEW_TRACK, strict=True):
        value = getattr(track, name)
        if value != new and name not in _ALWAYS:
            row[_NAMES.get(name, name)] = _told(name, value)
    return row


def _told(name: str, value: Any) -> Any:
    return _TOLD[name](value) if name in _TOLD else value


def restore(text: str, past: int) -> State:
    """The state that was taken, packed or not; `past` as for a new one."""
    try:
        if not text.startswith("{"):
            text = zlib.decompress(b64decode(text)).decode()
        first, *rest = text.split("\n")
        saved = json.loads(first)
        if saved["format"] > FORMAT:
            raise ValueError("it was written by a newer version")
        if saved["format"] < FORMAT:
            return _restored(saved, saved["tracks"], saved["past"], past)
        number = saved["tracks"]
        return _restored(
            saved, map(json.loads, rest[:number]), map(json.loads, rest[number:]), past
        )
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, zlib.error) as error:
        raise BadInput(f"the snapshot cannot be read: {error}") from None


def _restored(
    saved: Mapping[str, Any], tracks: Iterable[Any], ended: Iterable[Any], past: int
) -> State:
    state = State(past)
    for name in STATE_KEPT:
        setattr(state, name, saved.get(name.lstrip("_"), getattr(state, name)))
    state._peak_suspended = saved["peak_suspended"]
    state._suspended_since = state.now
    for row in saved.get("limits", ()):
        limit = limit_from(row)
        state.limits[limit.user] = limit
    state.capacity.extend((at, gpus) for at, gpus in saved["capacity"])
    _restore_cluster(state.room, saved["cluster"])
    for row in ended:
        track = _restored_track(state, row)
        state.past.append(track)
        state._seen.add(track.job.id)
        if track.phase is not Phase.FINISHED:
            state._unfinished[track.job.id] = track.phase
    for row in tracks:
        restore_live(state, _restored_track(state, row))
    for taken in saved["cluster"]["strangers"]:  # of an earlier version: only GPUs
        state.room.set_strangers(*taken)
    for closed in saved["cluster"].get("gpus_closed", ()):
        state.room.close_gpus(*closed)
    for job_id in saved["running"]:
        state._running[job_id] = state._tracks[job_id]
    state.unplaceable.update(saved["unplaceable"])
    state.notes.update(saved.get("notes", {}))
    for name in saved["kinds"] if "kinds" in saved else groups.names():  # earlier ones did not say
        state.kind(name).restore(state, saved)
    state._shape_members()
    return state


def _restore_cluster(room: Room, saved: Mapping[str, Any]) -> None:
    for row in saved["nodes"]:
        room.add(node_from(row))
    for row in saved["tenants"]:
        room.set_tenant(tenant_from(row))
    for n in saved["closed"]:
        room.set_open(n, False)
    for n in saved["down"]:
        room.set_up(n, False)
    room.gone.update(saved["gone"])


def _restored_track(state: State, row: Mapping[str, Any]) -> Track:
    job = job_from(row["job"])
    shape, _ = state._shape_of(job)
    track = Track(job, shape, *[row[name] for name in TRACK_MADE_OF[1:]])
    set_kept(track, tuple(map(partial(_read, row), TRACK_KEPT, NEW_TRACK)))
    if job.settles or track.tied or track.keeps is not None:
        track.shape, _ = state._shape_for(track)
    return track


def _read(row: Mapping[str, Any], name: str, new: Any) -> Any:
    key = _NAMES.get(name, name)
    if key not in row:
        return new
    return _READ[name](row[key]) if name in _READ else row[key]


def restore_live(state: State, track: Track) -> None:
    state._tracks[track.job.id] = track
    state._seen.add(track.job.id)
    for other in track.awaits:
        if other not in state._tracks:
            continue  # it has ended, badly: this one is refused
        state._dependants.setdefault(other, []).append(track)
    if track.keeps is not None:
        state.room.charge_kept(track.keeps, -1.0)
    if track.placement is not None:
        state.room.take(track.placement, track.shape)
        return
    if track.phase is Phase.SUSPENDED:
        state.suspended_count += 1
    if not track.barred:
        state.waiting_count += 1
