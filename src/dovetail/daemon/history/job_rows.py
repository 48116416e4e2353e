"""What the API tells of a job: one flat row, the same for a running job and for one that ended."""

from __future__ import annotations

from typing import Any

from dovetail.core.model import WHOLE_GPU
from dovetail.core.track import Phase, Track
from dovetail.daemon.clock import Clock
from dovetail.daemon.holds import AFTER, BENCHED

PHASES = ("queued", "starting", "running", "suspended", "finished", "failed", "cancelled")


def row_of(track: Track, clock: Clock) -> dict[str, Any]:
    """Times are seconds since 1970, None where it has not happened."""
    job = track.job
    return {
        "id": job.id,
        "name": job.name,
        "user": job.user,
        "tenant": job.tenant,
        "phase": phase_of(track),
        "exit_code": exit_code_of(track),
        "gpus": gpus_of(track),
        "share": job.share / WHOLE_GPU,
        "kinds": list(job.kinds),
        "priority": job.priority,
        "preemptions": track.preemptions,
        "attempts": track.attempts
        + (1 if track.first_start_at >= 0 and _still_counts(track) else 0),
        "submitted_at": clock.unix(track.submitted_at),
        "started_at": _at(track.first_start_at, clock),
        "ended_at": _at(track.ended_at, clock),
        "run_s": track.held_by(clock()) if track.ended_at < 0 else track.held_s,
        "lost_gpu_s": track.lost_gpu_s,
        "placement": placement_of(track),
        "last_report": last_report_of(track, clock),
        "preemption": preemption_of(track),
        "reason": reason_of(track),
        "time_limit_s": job.time_limit_s,
        "deadline": clock.unix(job.deadline) if job.deadline is not None else None,
        "after": list(job.after),
        "group": job.group,
        "model": job.model,
        "trial": job.member,
        "alike": list(job.alike),
        "amount": job.amount,
    }


def gpus_of(track: Track) -> int:
    """As many as it asked for; of a job with options as many as it was given."""
    placement = track.placement or track.left
    return placement.gpus if track.job.options and placement is not None else track.job.gpus


def _still_counts(track: Track) -> bool:
    """Has the present attempt begun and not been counted as failed?"""
    return track.phase is not Phase.FAILED or track.attempts == 0


def phase_of(track: Track) -> str:
    return "failed" if track.phase is Phase.REFUSED else track.phase.value


def exit_code_of(track: Track) -> int | None:
    return 0 if track.phase is Phase.FINISHED else track.exit_code


def reason_of(track: Track) -> str:
    """Why it is where it is, if there is more to say than its phase."""
    if track.ended_at < 0:
        if track.held:
            return track.held
        if track.awaits:
            return f"{AFTER} {', '.join(track.awaits)}"
        if track.stranded:
            return track.stranded
        if track.benched:
            return BENCHED
        if track.pinned and track.placement is not None:
            return f"cannot give way: {track.pinned}"
    return track.reason


def placement_of(track: Track) -> list[dict[str, Any]]:
    if track.placement is None:
        return []
    return [
        {
            "node": piece.node,
            "gpus": [i for i in range(piece.mask.bit_length()) if piece.mask >> i & 1],
            "power_limit_watts": track.placement.limit or None,
        }
        for piece in track.placement.slices
    ]


def last_report_of(track: Track, clock: Clock) -> dict[str, Any] | None:
    if track.reported_at < 0:
        return None
    return {
        "at": clock.unix(track.reported_at),
        "step": track.step,
        "metrics": dict(track.metrics),
        "left_out": track.reports_left_out,
    }


def preemption_of(track: Track) -> dict[str, Any] | None:
    """How it last gave way, and what that took."""
    if track.saved_in_s < 0:
        return None
    return {
        "rung": track.rung,
        "save_s": track.saved_in_s,
        "restore_s": track.restored_in_s if track.restored_in_s >= 0 else None,
        "parked_bytes": track.parked_bytes,
    }


def _at(at: float, clock: Clock) -> float | None:
    return clock.unix(at) if at >= 0 else None
