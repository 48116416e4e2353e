"""Everything that a view holds, as plain values."""

from __future__ import annotations

from typing import Any

from dovetail.core.studies import StudyTrack, TrialTrack
from dovetail.core.track import Track
from dovetail.core.view import View


def fingerprint(view: View) -> dict[str, Any]:
    """Everything that a view holds, as plain values: equal fingerprints, equal states."""
    room = view.room
    return {
        "now": view.now,
        "tracks": [_track_values(track) for track in view.tracks.values()],
        "running": list(view.running),
        "ended": dict(view.ended),
        "unplaceable": dict(view.unplaceable),
        "counts": (view.waiting_count, view.suspended_count, view.peak_suspended),
        "shapes": [(str(shape), shape.lane, why) for shape, why in view.shapes],
        "capacity": list(view.capacity),
        "nodes": list(room.nodes),
        "free": list(room.free),
        "shares": dict(room.shares),
        "cpus": [round(cpus, 6) for cpus in room.cpus],
        "memory_gb": [round(memory_gb, 6) for memory_gb in room.memory_gb],
        "open": list(room.open),
        "down": set(room.down),
        "gone": set(room.gone),
        "gpus_up": room.gpus_up,
        "tenants": dict(room.tenants),
        "held": {name: round(gpus, 6) for name, gpus in room.held.items()},
        "studies": [_study_values(study) for study in view.studies.open.values()],
        "closed": list(view.studies.closed),
        "pools": [(p.kind, p.tenant, p.width, p.free, list(p.by_count)) for p in room.pools],
    }


_TRACK_FIELDS = (
    *("job", "sequence", "submitted_at", "phase", "waiting_since", "ticket", "placement", "holds"),
    *("first_start_at", "started_at", "working_since", "ended_at", "speed", "executed_s", "held_s"),
    *("held_gpu_s", "forgiven_gpu_s", "lost_gpu_s", "preemptions", "attempts", "turn", "reason"),
    "migrations",
)


def _study_values(study: StudyTrack) -> tuple[Any, ...]:
    """Curves as text: what is not a number would differ from itself."""
    best = None if study.best is None else (study.best[0].number, study.best[1])
    line, bench = sorted(study.line), sorted(study.bench)
    own = (study.design, study.opened_at, study.stopped_at, study.away_s, study.reached_at)
    return (
        *own,
        study.rung,
        best,
        line,
        bench,
        [_trial_values(trial) for trial in study.trials.values()],
    )


def _trial_values(trial: TrialTrack) -> tuple[Any, ...]:
    return (
        *(trial.number, trial.settings, trial.after, trial.jobs, repr(trial.points), trial.stints),
        *(trial.standing, trial.reason, trial.held_s, trial.held_gpu_s, trial.saved_in_s),
        *(trial.restored_in_s, trial.ended_at, trial.branching),
    )


def _track_values(track: Track) -> tuple[Any, ...]:
    return tuple(getattr(track, name) for name in _TRACK_FIELDS)
