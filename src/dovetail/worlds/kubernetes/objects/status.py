"""From what became of a declared job, study or service to the status of its object."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from dovetail.worlds.declared import JOB, SERVICE, DeclaredStatus

OVER: Final = ("Finished", "Failed", "Cancelled", "Closed")
_LONGEST: Final = 1000
_COARSE_S, _FINE_S = 60.0, 10.0  # expected times are told so exactly: far ones, near ones
_NEAR_S: Final = 600.0

Json = dict[str, Any]


def status_json(kind: str, told: DeclaredStatus, now: float) -> Json:
    """Without what is not known."""
    found: Json = {
        "phase": told.phase.capitalize(),
        "why": told.why[:_LONGEST],
        "trouble": told.trouble[:_LONGEST],
        "observedGeneration": told.revision,
        kind: told.id,
        "address": told.address,
        "placement": told.placement,
        ("replicas" if kind == SERVICE else "members"): {
            name.capitalize(): number for name, number in told.members.items()
        },
        "preemptions": _cost(told) if told.id and kind == JOB else None,
        "submittedAt": _time(told.submitted_at),
        "startedAt": _time(told.started_at),
        "endedAt": _time(told.ended_at),
        "expectedStart": _expected(told.expected_start, now),
        "expectedEnd": _expected(told.expected_end, now),
        "exitCode": told.exit_code,
        **_trials(told),
    }
    return {name: value for name, value in found.items() if value not in (None, "", {})}


def _cost(told: DeclaredStatus) -> Json:
    cost = told.cost
    found: Json = {
        "count": cost.preemptions,
        "lostGpuSeconds": round(cost.lost_gpu_s, 3),
        "rung": cost.rung or None,
        "saveSeconds": None if cost.save_s is None else round(cost.save_s, 3),
        "restoreSeconds": None if cost.restore_s is None else round(cost.restore_s, 3),
        "parkedBytes": cost.parked_bytes,
    }
    return {name: value for name, value in found.items() if value is not None}


def _trials(told: DeclaredStatus) -> Json:
    trials = told.trials
    if trials is None:
        return {}
    return {
        "trials": {"planned": trials.planned, **trials.by_state},
        "best": None
        if trials.best is None
        else {**trials.best, "value": _short(trials.best["value"])},
        "gpuHours": trials.gpu_hours,
        "switches": trials.switches,
    }


def _short(value: float) -> float:
    """As exactly as a column has room for; the study's page tells it in full."""
    return float(f"{value:.6g}")


def _expected(at: float | None, now: float) -> str | None:
    """Not so exactly that it is another one each time."""
    if at is None:
        return None
    unit = _COARSE_S if at - now > _NEAR_S else _FINE_S
    return _time(round(at / unit) * unit)


def _time(at: float | None) -> str | None:
    if at is None:
        return None
    return datetime.fromtimestamp(int(at), UTC).isoformat().replace("+00:00", "Z")


def difference(now: Mapping[str, Any], wanted: Mapping[str, Any]) -> Json:
    """The merge patch from one to the other; empty if they are the same."""
    found: Json = {name: None for name in now if name not in wanted}
    for name, value in wanted.items():
        known = now.get(name)
        if isinstance(known, Mapping) and isinstance(value, Mapping):
            if inner := difference(known, value):
                found[name] = inner
        elif known != value:
            found[name] = value
    return found
