"""Everything that a view holds, as plain values."""

from __future__ import annotations

from typing import Any

from dovetail.core.kept import STATE_KEPT, row_of_track
from dovetail.core.room import Room
from dovetail.core.track import Track
from dovetail.core.view import View


def fingerprint(view: View) -> dict[str, Any]:
    """Everything that a view holds, as plain values: equal fingerprints, equal states."""
    return {
        **{name: getattr(view, name) for name in STATE_KEPT},
        "tracks": [_track_values(track) for track in view.tracks.values()],
        "running": list(view.running),
        "past": [_track_values(track) for track in view.past],
        "ended": dict(view.ended),
        "unplaceable": dict(view.unplaceable),
        "notes": dict(view.notes),
        "awaited": {j: [t.job.id for t in ts] for j, ts in view._dependants.items() if ts},
        "counts": (view.waiting_count, view.suspended_count, view.peak_suspended),
        "shapes": [(str(shape), shape.lane, why) for shape, why in view.shapes],
        "capacity": list(view.capacity),
        **{name: part for kind in view.kinds.values() for name, part in kind.fingerprint().items()},
        **_room_values(view.room),
    }


def _room_values(room: Room) -> dict[str, Any]:
    return {
        "nodes": list(room.nodes),
        "free": list(room.free),
        "shares": dict(room.shares),
        "cpus": [round(cpus, 6) for cpus in room.cpus],
        "memory_gb": [round(memory_gb, 6) for memory_gb in room.memory_gb],
        "open": list(room.open),
        "down": set(room.down),
        "gone": set(room.gone),
        "strangers": dict(room.strangers),
        "strangers_host": dict(room.strangers_host),
        "occupied": {n: mask for n, mask in room.occupied.items() if mask},
        "closed": room.told_closed(),
        "drained": set(room.drained),
        "withheld": dict(room.withheld),
        "gpus_up": room.gpus_up,
        "tenants": dict(room.tenants),
        "held": {name: round(gpus, 6) for name, gpus in room.held.items()},
        "pools": [(p.kind, p.tenant, p.width, p.free, list(p.by_count)) for p in room.pools],
    }


def _track_values(track: Track) -> tuple[Any, ...]:
    return (*row_of_track(track), track.barred, str(track.shape))
