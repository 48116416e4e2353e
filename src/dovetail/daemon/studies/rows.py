"""What the API tells of a study: one row, and a page with every trial's curve.

Times of points and stints are seconds since the study was opened."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from dovetail.core.model import Placement, Seconds
from dovetail.core.view import View
from dovetail.daemon.clock import Clock
from dovetail.daemon.studies.silent_trials import quiet_in
from dovetail.tune.board import Board, steps_of
from dovetail.workloads.study.keeping import copy_of
from dovetail.workloads.study.track import StudyTrack, TrialTrack

OPEN, STOPPED, CLOSED = "open", "stopped", "closed"


@dataclass(frozen=True)
class StudyLook:
    """What is taken from the state in a moment; the rest is put together at leisure."""

    study: StudyTrack
    now: Seconds
    nodes: tuple[str, ...]  # ids; "" where there is only one
    slots: bool  # of processors, not GPUs
    switch_s: Seconds
    suspended_bytes: int
    trouble: str = ""
    told: Mapping[int, Sequence[str]] = field(default_factory=dict)  # metrics, by trial that runs


def look_at(
    study: StudyTrack, view: View, now: Seconds, board: Board, trouble: str = ""
) -> StudyLook:
    view.index(board)
    tracks = [view.tracks[t.job] for t in study.trials.values() if t.job in view.tracks]
    nodes = view.room.nodes
    return StudyLook(
        study=copy_of(study),
        now=now,
        nodes=tuple([node.id for node in nodes]) if len(nodes) > 1 else ("",),
        slots=all(node.kind == "cpu" for node in nodes),
        switch_s=board.of(study).switch_s(view),
        suspended_bytes=sum(track.parked_bytes for track in tracks),
        trouble=trouble,
        told=_other_metrics(study, view),
    )


def _other_metrics(study: StudyTrack, view: View) -> dict[int, Sequence[str]]:
    """What the trials that run report besides the metric."""
    return {
        trial.number: sorted(view.tracks[trial.job].metrics.keys() - {study.design.metric})
        for trial in study.trials.values()
        if trial.since >= 0 and trial.job in view.tracks
    }


def row_of_study(look: StudyLook, ended: str | None = None) -> dict[str, Any]:
    """`ended`: why it is over, if it is."""
    study, design = look.study, look.study.design
    standings = Counter(trial.standing for trial in study.trials.values())
    state = STOPPED if study.is_stopped else OPEN
    return {
        "id": study.id,
        "name": design.name,
        "user": design.user,
        "policy": design.rule,
        "state": state if ended is None else CLOSED,
        "reason": look.trouble if ended is None else ended,
        "trials": design.planned,
        **{name: standings[name] for name in ("done", "running", "paused", "failed", "stopped")},
        "best": best_of(study),
        "target": design.target,
        "reached_s": study.reached_at - study.opened_at if study.reached_at >= 0 else None,
        "age_s": study.age_s(look.now),
        "gpu_hours": study.gpu_s_by(look.now) / 3600,
        "switches": study.switches,
        "quiet": quiet_in(study, look.now, look.told) if ended is None else None,
    }


def best_of(study: StudyTrack) -> dict[str, Any] | None:
    if study.best is None:
        return None
    trial, point = study.best
    settings = dict(trial.settings)
    return {
        "trial": trial.number,
        "value": point.value,
        "step": point.step,
        "settings": settings,
    }


def page_of_study(look: StudyLook, clock: Clock, ended: str | None = None) -> dict[str, Any]:
    study, design = look.study, look.study.design
    budget = {"time": design.budget_s, "gpu_hours": _hours(design.budget_gpu_s)}
    return {
        **row_of_study(look, ended),
        "planned": design.planned,
        "metric": design.metric,
        "direction": design.direction,
        "steps": design.steps,
        "report_every": design.report_every,
        "sampler": _sampler(design.spec),
        "seed": design.seed,
        "at_once": design.at_once,
        "deadline": None if design.deadline is None else clock.unix(design.deadline),
        "budget": budget if any(budget.values()) else None,
        "opened_at": clock.unix(study.opened_at),
        "trials": [_trial(look, trial) for trial in study.trials.values()],
        "switch": {"seconds": look.switch_s, "rung": study.rung},
        "suspended_bytes": look.suspended_bytes,
    }


def row_in(page: Mapping[str, Any]) -> dict[str, Any]:
    """The row that a page begins with."""
    row = {name: page[name] for name in _ROW if name in page}
    return {**row, "trials": page["planned"]}


_ROW = (
    *("id", "name", "user", "policy", "state", "reason", "trials", "done", "running", "paused"),
    *("failed", "stopped", "best", "target", "reached_s", "age_s", "gpu_hours", "switches"),
    *("quiet", "last_words"),
)


def _trial(look: StudyLook, trial: TrialTrack) -> dict[str, Any]:
    design, opened = look.study.design, look.study.opened_at
    values = [point.value for point in trial.points if isfinite(point.value)]
    best = (min if design.direction == "min" else max)(values, default=None)
    return {
        "number": trial.number,
        "job": trial.job,
        "state": trial.standing,
        "settings": dict(trial.settings),
        "steps": steps_of(design, trial),
        "value": _finite(trial.points[-1].value) if trial.points else None,
        "best": best,
        "points": [[p.step, _finite(p.value), p.at - opened] for p in trial.points],
        "stints": [
            [s.since - opened, None if s.until < 0 else s.until - opened, _place(look, s.placement)]
            for s in trial.stints
        ],
        "reason": trial.reason,
    }


def _place(look: StudyLook, placement: Placement) -> str:
    word = "slot" if look.slots else "gpu"
    parts = []
    for n, mask in placement.slices:
        gpus = ",".join(str(i) for i in range(mask.bit_length()) if mask >> i & 1)
        node = look.nodes[n] if n < len(look.nodes) else ""
        parts.append(f"{node} {word} {gpus}".strip())
    return " + ".join(parts)


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None


def _hours(gpu_s: float | None) -> float | None:
    return None if gpu_s is None else gpu_s / 3600


def _sampler(spec: str) -> str:
    return str(json.loads(spec).get("sampler", "random")) if spec else "random"
